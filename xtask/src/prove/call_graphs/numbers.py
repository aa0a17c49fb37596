"""Multiplies in libgmp, whose assembly has no call frame information, as far as the library is there."""
import ctypes, ctypes.util, time

library = ctypes.CDLL("libgmp.so.10")
size = 3000
Limbs = ctypes.c_ulong * size
one, two, product = Limbs(*range(1, size + 1)), Limbs(*range(5, size + 5)), (ctypes.c_ulong * (2 * size))()
end = time.time() + 2
while time.time() < end:
    for _ in range(20):
        library.__gmpn_mul_n(product, one, two, size)
