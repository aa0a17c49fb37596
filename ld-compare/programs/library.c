#include <errno.h>
#include <stdlib.h>
int exported_data = 5;
static int hits;
__thread int per_thread = 3;
int public_old(int x) { return x + 1; }
int public_new(int x) { return public_old(x) * 2 + exported_data; }
__attribute__((visibility("hidden"))) int internal(int x) { return x ? x : errno; }
__attribute__((visibility("protected"))) int guarded(int x) { return internal(x) + hits++; }
int not_listed(void) { return abs(per_thread); }
