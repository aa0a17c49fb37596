/* Comes before the C library's function: hash tables then have the same seeds in every run. */
#include <string.h>
#include <sys/types.h>

ssize_t getrandom(void *bytes, size_t size, unsigned flags) {
    (void)flags;
    memset(bytes, 7, size);
    return (ssize_t)size;
}
