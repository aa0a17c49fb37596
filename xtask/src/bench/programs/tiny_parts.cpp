#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, separator);)
    words.push_back(word);
  return words;
}

int parse(const std::string &word) {
  if (word.find_first_not_of("0123456789") != std::string::npos)
    throw std::invalid_argument(word);
  return std::stoi(word);
}
