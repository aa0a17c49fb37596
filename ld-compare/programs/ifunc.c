#include <stdio.h>
static int one(void) { return 1; }
static int two(void) { return 2; }
static int (*choose(void))(void) { return sizeof(long) == 8 ? two : one; }
int chosen(void) __attribute__((ifunc("choose")));
static int hidden_chosen(void) __attribute__((ifunc("choose")));
int (*pointer)(void) = chosen;
int main(void) {
    printf("%d %d %d\n", chosen(), pointer(), hidden_chosen());
    return 0;
}
