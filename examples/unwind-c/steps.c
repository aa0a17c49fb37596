/* Walks from every instruction of code that the linker makes: a PLT entry, the first entry behind it, and
 * a thunk to a function that lies too far away for a branch. Each instruction is a breakpoint once. The
 * callers are those that libgcc finds by .eh_frame from the function that is called. AArch64 and s390x. */
#define _GNU_SOURCE
#include <sframe-unwind.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

enum { MOST = 64 };

int library_leaf(int x);

#if defined(__aarch64__)
enum { TRAP = 4 };
static const unsigned char trap[TRAP] = {0x00, 0x00, 0x20, 0xd4}; /* brk #0 */
#else
enum { TRAP = 2 };
static const unsigned char trap[TRAP] = {0x00, 0x01};
#endif

static struct breakpoint {
    unsigned char *at, original[TRAP];
    sframe_frame frames[MOST];
    size_t count;
    int end;
} breakpoints[MOST];
static size_t breakpoint_count;
static uint64_t reference[MOST];
static size_t reference_count;

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *data)
{
    (void)data;
    /* Behind the root libgcc tells of a frame at 0. */
    if (reference_count < MOST && _Unwind_GetIP(context) != 0)
        reference[reference_count++] = _Unwind_GetIP(context);
    return _URC_NO_REASON;
}

__attribute__((noinline)) void keep_reference(void)
{
    reference_count = 0;
    _Unwind_Backtrace(note, NULL);
}

static void put(unsigned char *at, const unsigned char *bytes)
{
    memcpy(at, bytes, TRAP);
    __builtin___clear_cache((char *)at, (char *)at + TRAP);
}

static void on_trap(int number, siginfo_t *info, void *data)
{
    ucontext_t *context = data;
    (void)info;
#if defined(__aarch64__)
    unsigned long long *pc = &context->uc_mcontext.pc;
#else
    unsigned long *pc = &context->uc_mcontext.psw.addr;
#endif
    for (struct breakpoint *b = breakpoints; b < breakpoints + breakpoint_count; b++) {
        uint64_t at = (uint64_t)b->at;
        if (b->count || (*pc != at && *pc != at + TRAP))
            continue;
        put(b->at, b->original);
        *pc = at;
        b->count = sframe_backtrace(context, b->frames, MOST, &b->end);
        return;
    }
    printf("signal %d at %#llx, where there is no breakpoint\n", number, (unsigned long long)*pc);
    fflush(stdout);
    _exit(2);
}

/* Puts breakpoints from an address on, up to the jump that leaves; how many bytes that is. */
static size_t break_until_jump(unsigned char *code)
{
    long page = sysconf(_SC_PAGESIZE);
    unsigned char *start = (unsigned char *)((uintptr_t)code & -page);
    mprotect(start, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC);
    for (size_t at = 0, length;; at += length) {
        struct breakpoint *b = &breakpoints[breakpoint_count++];
        b->at = code + at;
#if defined(__aarch64__)
        uint32_t word;
        memcpy(&word, code + at, 4);
        int leaves = (word & 0xfffffc1f) == 0xd61f0000; /* br */
        length = 4;
#else
        int leaves = (code[at] == 0x07 && code[at + 1] >> 4 == 15) || (code[at] == 0xc0 && code[at + 1] == 0xf4); /* br, jg */
        length = code[at] < 0x40 ? 2 : code[at] < 0xc0 ? 4 : 6;
#endif
        memcpy(b->original, code + at, TRAP);
        put(code + at, trap);
        if (leaves)
            return at + length;
    }
}

/* Where the first call of a function goes to. */
static unsigned char *first_call(void *function)
{
    unsigned char *code = function;
#if defined(__aarch64__)
    for (;; code += 4) {
        uint32_t word;
        memcpy(&word, code, 4);
        if ((word & 0xfc000000) == 0x94000000)
            return code + ((int32_t)(word << 6) >> 6) * 4L;
    }
#else
    for (;; code += code[0] < 0x40 ? 2 : code[0] < 0xc0 ? 4 : 6)
        if (code[0] == 0xc0 && code[1] == 0xe5) {
            int32_t distance;
            memcpy(&distance, code + 2, 4);
            return code + 2L * distance;
        }
#endif
}

/* Where a PLT entry goes to before its symbol is bound: the first entry. */
static void break_in_lazy_part(unsigned char *entry, unsigned char *end)
{
#if defined(__aarch64__)
    uint32_t adrp, ldr;
    (void)end;
    memcpy(&adrp, breakpoints[breakpoint_count - 4].original, 4);
    memcpy(&ldr, breakpoints[breakpoint_count - 3].original, 4);
    int64_t pages = (int64_t)((uint64_t)(adrp >> 5 & 0x7ffff) << 45) >> 43 | (adrp >> 29 & 3);
    unsigned char **slot = (unsigned char **)(((uintptr_t)entry & -4096L) + pages * 4096 + (ldr >> 10 & 0xfff) * 8);
    break_until_jump(*slot);
#else
    int32_t distance;
    size_t length = break_until_jump(end);
    (void)entry;
    memcpy(&distance, end + length - 4, 4);
    break_until_jump(end + length - 6 + 2L * distance);
#endif
}

__attribute__((noinline)) int through_plt(int x)
{
    return library_leaf(x) + 1;
}

__attribute__((noinline, section(".far"))) int far_leaf(int x)
{
    keep_reference();
    return x * 5;
}

__attribute__((noinline)) int through_thunk(int x)
{
    return far_leaf(x) + 1;
}

/* Whether all breakpoints were met, and the walks from them are those of the function that was called at
 * last. */
static int check(const char *name, int thunk)
{
    int failures = 0, own = 0;
    for (size_t i = 0; i < breakpoint_count; i++) {
        struct breakpoint *b = &breakpoints[i];
        size_t start = 0;
        while (start < reference_count && (b->count < 2 || reference[start] != b->frames[1].address))
            start++;
        int same = b->count > 3 && b->end == SFRAME_ROOT && b->frames[0].address == (uint64_t)b->at &&
                   b->count - 1 == reference_count - start;
        for (size_t k = 1; same && k < b->count; k++)
            same = b->frames[k].address == reference[start + k - 1];
        own += b->count > 1 && b->frames[1].source == SFRAME_SFRAME;
        if (!same) {
            failures++;
            printf("%s: at %p: %zu frames, end %d\n", name, (void *)b->at, b->count, b->end);
            for (size_t k = 0; k < b->count; k++)
                printf("  %#llx by %d\n", (unsigned long long)b->frames[k].address, b->frames[k].source);
            for (size_t k = 0; k < reference_count; k++)
                printf("  libgcc %#llx\n", (unsigned long long)reference[k]);
        }
    }
    printf("%s: %zu instructions, %d by .sframe\n", name, breakpoint_count, own);
    if (breakpoint_count < (thunk ? 1 : 5))
        failures++;
    memset(breakpoints, 0, sizeof breakpoints);
    breakpoint_count = 0;
    return failures;
}

/* Binds what on_trap calls: it must not come through the PLT's first entry itself. */
static void on_rehearsal(int number, siginfo_t *info, void *context)
{
    sframe_frame frames[MOST];
    int end;
    (void)number, (void)info;
    sframe_backtrace(context, frames, MOST, &end);
    unsigned char *bytes = breakpoints[0].original;
    put(bytes, trap);
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(number, &action, NULL);
}

int main(void)
{
    int failures = 0;
    sframe_refresh();
    handle(SIGUSR1, on_rehearsal);
    raise(SIGUSR1);
    handle(SIGTRAP, on_trap);
    handle(SIGILL, on_trap);
    unsigned char *entry = first_call(through_plt);
    size_t length = break_until_jump(entry);
    break_in_lazy_part(entry, entry + length);
    failures += through_plt(2) != 7;
    failures += check("PLT", 0);
#if defined(__aarch64__)
    unsigned char *thunk = first_call(through_thunk);
    if (thunk != (unsigned char *)far_leaf) {
        break_until_jump(thunk);
        failures += through_thunk(2) != 11;
        failures += check("thunk", 1);
    }
#endif
    puts(failures == 0 ? "all the same" : "FAILED");
    return failures != 0;
}
