/* What glibc's SFrame reader expects of glibc's own headers: the structure of dl_find_object with its SFrame
   field, which older systems lack, and macros for hidden names. */
#include <stddef.h>
#include <string.h>

#define dl_find_object dl_find_object_of_the_system
#include <dlfcn.h>
#undef dl_find_object
#undef DLFO_FLAG_SFRAME
#define DLFO_FLAG_SFRAME 1ULL

struct dl_find_object {
    unsigned long long dlfo_flags;
    void *dlfo_sframe;
};

int find_object(void *, struct dl_find_object *);
#define GLRO(name) find_object
#define libc_hidden_def(name)
#define libc_hidden_proto(name)
#define attribute_hidden
