#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
struct Shape { virtual ~Shape() = default; virtual std::string name() const = 0; };
struct Disc : Shape { std::string name() const override { return "disc"; } };
int main() {
    std::map<std::string, std::unique_ptr<Shape>> shapes;
    shapes["a"] = std::make_unique<Disc>();
    try {
        std::cout << shapes.at("a")->name() << '\n';
        shapes.at("b");
    } catch (const std::out_of_range &) {
        std::cout << "caught\n";
    }
}
