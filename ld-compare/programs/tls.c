#include <stdio.h>
__thread int initial = 7;
__thread int zero;
static __thread long local[3] = {1, 2, 3};
__attribute__((noinline)) int *address_of_zero(void) { return &zero; }
__attribute__((noinline)) long sum(void) { return initial + zero + local[0] + local[1] + local[2]; }
int main(void) {
    *address_of_zero() = 4;
    printf("%ld\n", sum());
    return 0;
}
