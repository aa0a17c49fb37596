int twice(int);
static inline int clamp(int a, int most) {
    int half = most / 2;
    if (a > most) {
        int over = a - most;
        return twice(over) + half;
    }
    return a < half ? half : a;
}
int sum(const int *from, int count) {
    int all = 0;
    for (int i = 0; i < count; i++) {
        int one = from[i];
        if (one < 0) all -= twice(one);
        else all += clamp(one, 7);
    }
    return all;
}
int twice(int a) { return a > 100 ? 200 : a + a; }
