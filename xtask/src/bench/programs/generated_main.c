// Calls every function of the generated objects through their table, DEPTH calls deep, and prints the sum of
// what they return.
#include <stdio.h>

typedef unsigned function(int depth);
extern function *const __start_function_table[], *const __stop_function_table[];

int main(void) {
  unsigned sum = 0;
  for (function *const *entry = __start_function_table; entry != __stop_function_table; entry++)
    sum += (*entry)(DEPTH);
  printf("functions %td sum %u\n", __stop_function_table - __start_function_table, sum);
}
