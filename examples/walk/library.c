/* A shared library between the program and the walker. */
#include <string.h>

/* Calls back from some way down. */
int library_call(int (*callback)(int), int depth)
{
    char local[64 + 16 * depth];
    memset(local, depth, sizeof local);
    int result = depth > 0 ? library_call(callback, depth - 1) : callback(local[0] + 3);
    return result + local[depth] - depth;
}

/* A leaf, for single steps through the PLT. */
int library_leaf(int x)
{
    return x * 3;
}
