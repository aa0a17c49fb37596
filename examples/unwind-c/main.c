/* Samples its own stacks by a timer, as a profiler in the process does, and walks from a leaf that a
 * signal interrupted, on an alternate stack. Every walk is held against libgcc's, which reads .eh_frame. */
#define _GNU_SOURCE
#include <sframe-unwind.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unwind.h>

enum { MOST = 200 };

static sframe_frame frames[MOST];
static uint64_t reference[MOST];
static size_t reference_count;
static volatile int failures, samples, whole, interrupted_leaf;

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *data)
{
    (void)data;
    if (reference_count < MOST)
        reference[reference_count++] = _Unwind_GetIP(context);
    return _URC_NO_REASON;
}

/* Where the interrupted code goes on. */
static uint64_t program_counter(const ucontext_t *context)
{
#if defined(__x86_64__)
    return context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return context->uc_mcontext.pc;
#else
    return context->uc_mcontext.psw.addr;
#endif
}

/* Whether our frames are libgcc's from the interrupted one on. */
static int same_as_reference(size_t count, uint64_t pc)
{
    size_t start = 0;
    while (start < reference_count && reference[start] != pc)
        start++;
    if (start == reference_count)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (start + i >= reference_count || reference[start + i] != frames[i].address)
            return 0;
    return 1;
}

static void on_timer(int number, siginfo_t *info, void *context)
{
    int end;
    (void)number, (void)info;
    size_t count = sframe_backtrace(context, frames, MOST, &end);
    samples++;
    whole += end == SFRAME_ROOT && count > 2;
}

static void on_trap(int number, siginfo_t *info, void *context)
{
    int end;
    (void)info;
    size_t count = sframe_backtrace(context, frames, MOST, &end);
    uint64_t pc = program_counter(context);
    reference_count = 0;
    _Unwind_Backtrace(note, NULL);
    int same = end == SFRAME_ROOT && count > 4 && same_as_reference(count, pc);
    printf("signal %d: %zu frames, end %d, %s\n", number, count, end, same ? "those of libgcc" : "NOT those of libgcc");
    if (!same) {
        failures++;
        for (size_t i = 0; i < count; i++)
            printf("  %#llx by %d\n", (unsigned long long)frames[i].address, frames[i].source);
        for (size_t i = 0; i < reference_count; i++)
            printf("  libgcc %#llx\n", (unsigned long long)reference[i]);
    }
    interrupted_leaf += count > 4;
}

/* Raises a signal in a leaf: its return address is still in the link register, where there is one. */
__attribute__((noinline)) long trap_leaf(long x)
{
#if defined(__x86_64__)
    __asm__ volatile("int3");
#elif defined(__aarch64__)
    __asm__ volatile("mov x9, x8\n\tldr xzr, [%0]" : : "r"(8L) : "x9");
#else
    __asm__ volatile("lghi %%r1, 8\n\tlg %%r1, 0(%%r1)" : : : "r1");
#endif
    return x * 3;
}

/* The instruction that faults is not tried again. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    on_trap(number, info, context);
#if defined(__aarch64__)
    ((ucontext_t *)context)->uc_mcontext.pc += 4;
#elif defined(__s390x__)
    ((ucontext_t *)context)->uc_mcontext.psw.addr += 6;
#endif
}

__attribute__((noinline)) long deep(int depth)
{
    volatile char room[200];
    memset((void *)room, depth, sizeof room);
    return depth > 0 ? deep(depth - 1) + room[3] : trap_leaf(depth) + room[1];
}

__attribute__((noinline)) double busy(int rounds)
{
    volatile double sum = 0;
    for (int i = 0; i < rounds; i++)
        sum += i * 0.5;
    return sum;
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(number, &action, NULL);
}

int main(void)
{
    static char other[1 << 16];
    stack_t alternate = {.ss_sp = other, .ss_size = sizeof other};
    int end;
    sframe_refresh();
    size_t count = sframe_backtrace(NULL, frames, MOST, &end);
    printf("from here: %zu frames, end %d\n", count, end);
    failures += end != SFRAME_ROOT || count < 2;
    sigaltstack(&alternate, NULL);
    handle(SIGTRAP, on_trap);
    handle(SIGSEGV, on_fault);
    deep(5);
    handle(SIGPROF, on_timer);
    struct itimerval every = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_PROF, &every, NULL);
    while (samples < 50)
        busy(20000);
    memset(&every, 0, sizeof every);
    setitimer(ITIMER_PROF, &every, NULL);
    printf("%d samples by a timer, %d of them from the root on\n", samples, whole);
    failures += whole * 10 < samples * 9 || interrupted_leaf == 0;
    puts(failures == 0 ? "all the same" : "FAILED");
    return failures != 0;
}
