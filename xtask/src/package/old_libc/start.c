/* How programs start: since glibc 2.34 the C library runs a program's constructors, and start files no longer
   bring a function that does. The symbol's older version still wants one. */

#define HIDDEN __attribute__((visibility("hidden")))

typedef void constructor(int, char **, char **);
extern constructor *__init_array_start[] HIDDEN, *__init_array_end[] HIDDEN;
extern void _init(void);
int __real___libc_start_main(int (*)(int, char **, char **), int, char **, constructor *, void (*)(void),
                             void (*)(void), void *);

static void run_constructors(int count, char **arguments, char **environment) {
    _init();
    for (constructor **next = __init_array_start; next < __init_array_end; next++)
        (*next)(count, arguments, environment);
}

HIDDEN int __wrap___libc_start_main(int (*program)(int, char **, char **), int count, char **arguments,
                                    constructor *init, void (*fini)(void), void (*unload)(void), void *stack) {
    return __real___libc_start_main(program, count, arguments, init ? init : run_constructors, fini, unload, stack);
}
