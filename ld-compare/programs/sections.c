#include <stdio.h>
int common_block[8];
int unset __attribute__((weak));
extern int nowhere(void) __attribute__((weak));
static int order;
__attribute__((constructor(200))) static void second(void) { order = order * 10 + 2; }
__attribute__((constructor(150))) static void first(void) { order = order * 10 + 1; }
__attribute__((constructor)) static void third(void) { order = order * 10 + 3; }
__attribute__((destructor)) static void last(void) { puts("bye"); }
int entry_one __attribute__((section("table"), used)) = 1;
int entry_two __attribute__((section("table"), used)) = 2;
extern int __start_table[], __stop_table[];
int value(void) { return 42; }
int other_name(void) __attribute__((alias("value")));
int unused(void) { return common_block[3]; }
int main(void) {
    int sum = 0;
    for (int *entry = __start_table; entry < __stop_table; entry++) sum += *entry;
    printf("%d %d %d %d %d\n", order, sum, other_name(), nowhere ? 1 : 0, unset + common_block[0]);
    return 0;
}
