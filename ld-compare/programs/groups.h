template <int N> struct Ring {
    int data[N];
    __attribute__((noinline)) int sum() const { int s = 0; for (int d : data) s += d; return s; }
    static int made;
};
template <int N> int Ring<N>::made = N;
struct Base { virtual ~Base() {} virtual int area() const { return 0; } };
inline __attribute__((noinline)) int scaled(int x) { static int calls = 0; return x * ++calls; }
