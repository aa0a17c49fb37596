// Calls the first function of each object, which reaches all others of it.
#include <stdio.h>

typedef void function(void);
extern function *const __start_function_table[], *const __stop_function_table[];

int main(void) {
  for (function *const *entry = __start_function_table; entry != __stop_function_table; entry++)
    (*entry)();
  printf("%td objects\n", __stop_function_table - __start_function_table);
}
