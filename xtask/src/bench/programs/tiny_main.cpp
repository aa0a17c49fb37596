#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

std::vector<std::string> split(const std::string &text, char separator);
int parse(const std::string &word);

int main() {
  int sum = 0;
  for (const std::string &word : split("1,2,three,4", ',')) {
    try {
      sum += parse(word);
    } catch (const std::invalid_argument &error) {
      std::cout << "skipped " << error.what() << "\n";
    }
  }
  std::cout << "sum " << sum << std::endl;
}
