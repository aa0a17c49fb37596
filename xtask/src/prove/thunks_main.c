// Calls the functions of the table, and prints the sum of what they return; without a C library, whose own
// calls would need thunks too.
typedef unsigned long function(unsigned long depth);
extern function *const __start_function_table[], *const __stop_function_table[];

static long call(long number, long first, const void *second, long third) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = first;
  register const void *x1 __asm__("x1") = second;
  register long x2 __asm__("x2") = third;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}

void _start(void) {
  unsigned long sum = 0;
  for (function *const *entry = __start_function_table; entry != __stop_function_table; entry++)
    sum += (*entry)(2);
  char text[24];
  char *digit = text + sizeof text;
  *--digit = '\n';
  do
    *--digit = '0' + sum % 10;
  while (sum /= 10);
  call(64, 1, digit, text + sizeof text - digit);
  call(93, 0, 0, 0);
}
