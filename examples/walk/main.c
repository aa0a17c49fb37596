/* Walks its own stack from where stacks are hard: deep recursion, a shared library, signal handlers, PLTs. */
#define _GNU_SOURCE
#include "walk.h"
#include <alloca.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

int library_call(int (*callback)(int), int depth);
int library_leaf(int x);

static int failures;

/* Frames of many shapes: with and without a frame pointer, of any size. */
__attribute__((noinline)) int odd(int depth, int (*leaf)(void));
__attribute__((noinline)) int even(int depth, int (*leaf)(void))
{
    volatile char *room = alloca(16 + depth * 8);
    room[depth] = 1;
    return depth > 0 ? odd(depth - 1, leaf) + room[depth] : leaf();
}
__attribute__((noinline)) int odd(int depth, int (*leaf)(void))
{
    volatile char big[5000];
    big[depth] = 1;
    return depth > 0 ? even(depth - 1, leaf) + big[depth] : leaf();
}

__attribute__((noinline)) int deep_leaf(void)
{
    failures += walk("deep recursion");
    return 0;
}

__attribute__((noinline)) int called_back(int depth)
{
    failures += walk("through a shared library");
    return depth;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    failures += walk("in a signal handler");
    failures += walk_from("where the signal came", context);
}

__attribute__((noinline)) int raise_leaf(void)
{
    return raise(SIGUSR1);
}

/* Interrupted in code of its own, in the middle of a function. */
__attribute__((noinline)) int trap_leaf(void)
{
    volatile int values[9] = {1};
    __asm__ volatile("int3");
    return values[0] - 1;
}

/* Starts and ends single steps: the flag counts from when the handler returns. */
static void on_switch(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] ^= 0x100;
}

static void on_step(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    walk_step(context);
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(number, &action, NULL);
}

__attribute__((noinline)) int steps(void)
{
    handle(SIGTRAP, on_step);
    handle(SIGUSR2, on_switch);
    raise(SIGUSR2);
    /* The first call binds the symbol, the second goes straight through. */
    int sum = library_leaf(1) + library_leaf(2);
    raise(SIGUSR2);
    return sum - 9 + walk_steps();
}

int main(void)
{
    walk_prepare();
    handle(SIGUSR1, on_signal);
    handle(SIGTRAP, on_signal);
    failures += walk("main");
    even(40, deep_leaf);
    library_call(called_back, 5);
    even(3, raise_leaf);
    odd(3, trap_leaf);
    failures += steps();
    puts(failures == 0 ? "all the same" : "FAILED");
    return failures != 0;
}
