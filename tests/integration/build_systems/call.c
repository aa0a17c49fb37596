/* Calls a function through libffi. */
#include <ffi.h>
#include <stdio.h>

static int add(int left, int right) { return left + right; }

int main(void)
{
  ffi_type *types[] = {&ffi_type_sint, &ffi_type_sint};
  int left = 40, right = 2;
  void *values[] = {&left, &right};
  ffi_arg result;
  ffi_cif cif;

  if (ffi_prep_cif(&cif, FFI_DEFAULT_ABI, 2, &ffi_type_sint, types) != FFI_OK)
    return 1;
  ffi_call(&cif, FFI_FN(add), &result, values);
  printf("%d\n", (int) result);
  return 0;
}
