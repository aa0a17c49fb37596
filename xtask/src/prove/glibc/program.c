/* Walks its stack by glibc's SFrame reader and by libgcc, and prints for each place how many frames each
   found, and how many are the same. The first frame is the reader's caller in one and this function in the
   other, at different instructions; libgcc's last frame is that of the first function, which SFrame does not
   have. With an argument, it walks only at the place of that name. */
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

enum { MOST = 300 };
int walk_by_sframe(void **, int);
void *caller_at(void *, void **);
int through_library(int (*)(int), int);

static void *by_sframe[MOST], *by_eh_frame[MOST];
static int found_by_eh_frame;
static const char *only;

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *unused)
{
    (void)unused;
    if (found_by_eh_frame < MOST)
        by_eh_frame[found_by_eh_frame++] = (void *)_Unwind_GetIP(context);
    return _URC_NO_REASON;
}

__attribute__((noinline)) static int walk(const char *place)
{
    if (only && strcmp(only, place))
        return 0;
    int count = walk_by_sframe(by_sframe, MOST), same = 0;
    found_by_eh_frame = 0;
    _Unwind_Backtrace(note, 0);
    for (int i = 1; i < count && i < found_by_eh_frame; i++)
        same += by_sframe[i] == by_eh_frame[i];
    printf("%s %d %d %d\n", place, count, found_by_eh_frame, same);
    return count;
}

__attribute__((noinline)) static int deep(int depth)
{
    volatile char room[64];
    room[depth & 63] = 1;
    return depth ? deep(depth - 1) + room[depth & 63] : walk("recursion");
}

__attribute__((noinline)) static int called_back(int n)
{
    return walk("library") + n;
}

static int in_order(const void *a, const void *b)
{
    static int calls;
    if (!calls++)
        walk("qsort");
    return *(const int *)a - *(const int *)b;
}

static void on_signal(int signal)
{
    (void)signal;
    walk("raise");
}

static sigjmp_buf home;

static void on_fault(int signal)
{
    (void)signal;
    walk("fault");
    siglongjmp(home, 1);
}

static volatile int *volatile nowhere;

/* Its frame is found by the frame pointer, which the signal's frame holds. */
__attribute__((noinline)) static int faults(int size)
{
    volatile char *room = alloca(size);
    room[0] = 1;
    *nowhere = 1;
    return room[0];
}

__attribute__((noinline, noreturn)) static void no_return(void)
{
    walk("noreturn");
    siglongjmp(home, 1);
}

/* It ends with the call, so the return address is the byte after its last one. */
__attribute__((noinline, noreturn)) static void last_call(void)
{
    no_return();
}

static volatile int one = 1;

int main(int count, char **words)
{
    only = count > 1 ? words[1] : 0;
    count = one;
    /* A reader that goes astray may end the program. */
    setvbuf(stdout, 0, _IONBF, 0);
    deep(100);
    through_library(called_back, count);
    int numbers[] = { 3, 1, 2 };
    qsort(numbers, 3, sizeof *numbers, in_order);
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    signal(SIGSEGV, on_fault);
    if (!sigsetjmp(home, 1))
        return faults(1000 * count);
    if (!sigsetjmp(home, 1))
        last_call();
#ifdef PLT
    if (only)
        return 0;
    /* In code for one address, the address of a library's function is that of its slot. */
    void *stack[4] = { (void *)main };
    void *caller = caller_at((void *)(uintptr_t)through_library, stack);
    printf("plt %d 2 %d\n", caller != 0, caller == (void *)main ? 0 : -1);
#endif
    return 0;
}
