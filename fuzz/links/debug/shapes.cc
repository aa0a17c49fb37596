namespace ns {
struct S { int x; int grow(int); };
enum E { low, high };
inline int twice(int a) { return a + a; }
namespace { int hidden = 3; }
}
int ns::S::grow(int by) { return by + x; }
int shared_value = 1;
template <class T> T plus_two(T t) { return t + 2; }
static int __attribute__((noinline)) own(int a) { return a * 3; }
int used(int a) {
    ns::S s{a};
    return s.grow(ns::twice(1)) + own(plus_two(2)) + ns::high + ns::hidden++;
}
