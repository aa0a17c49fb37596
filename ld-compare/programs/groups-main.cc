#include "groups.h"
#include <cstdio>
struct Square : Base { int side = 3; int area() const override { return side * side; } };
int other(const Base &);
int main() {
    Ring<3> ring{{1, 2, 3}};
    Square square;
    std::printf("%d %d %d %d\n", ring.sum(), other(square), scaled(2), Ring<3>::made + Ring<5>::made);
}
int nobody_calls_this(int x) { return scaled(x); }
