/* What a program needs frames for, beside the table: exceptions through frames with destructors, and walks
 * from deep recursion, out of a callback of the C library and from a signal handler. Every walk is held
 * against libgcc's. The output says how many frames were found by the file's own table; `cargo xtask prove
 * after-link` expects the same output from a file that a tool has changed. */
#include <sframe-unwind.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <unwind.h>

enum { MOST = 200 };
static sframe_frame frames[MOST];
static uint64_t reference[MOST];
static size_t reference_count;
static int failures;

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *)
{
    if (reference_count < MOST)
        reference[reference_count++] = _Unwind_GetIP(context);
    return _URC_NO_REASON;
}

/* Without the context of a signal, the first frame is this function's, where the two walks begin at different
 * instructions. With it, the first frame is that of the interrupted code, and libgcc's walk has the handler's
 * before it. */
__attribute__((noinline)) static void walk(const char *where, const void *context = nullptr)
{
    int end;
    size_t count = sframe_backtrace(context, frames, MOST, &end), before = 0;
    reference_count = 0;
    _Unwind_Backtrace(note, nullptr);
    while (context && before < reference_count && reference[before] != frames[0].address)
        before++;
    bool same = end == SFRAME_ROOT && count > 2 && before + count <= reference_count;
    int by_table = 0;
    for (size_t i = 1; i < count; i++) {
        same = same && frames[i].address == reference[before + i];
        by_table += frames[i].source == SFRAME_SFRAME;
    }
    failures += !same;
    std::printf("%s: %zu frames, %d by the table, %s\n", where, count, by_table, same ? "libgcc's" : "NOT libgcc's");
}

struct Guard {
    std::string name;
    ~Guard() { std::printf("~%s ", name.c_str()); }
};

__attribute__((noinline)) static long deep(int depth, double x)
{
    Guard guard{"deep"};
    if (depth == 0) {
        walk("deep recursion");
        throw std::runtime_error("the bottom");
    }
    volatile char room[200];
    room[depth] = 1;
    return deep(depth - 1, x * 1.5) + room[depth] + (x > 3);
}

static int compare(const void *one, const void *other)
{
    static bool walked;
    if (!walked)
        walk("a callback");
    walked = true;
    return *static_cast<const int *>(one) - *static_cast<const int *>(other);
}

static void on_signal(int, siginfo_t *, void *context) { walk("a signal handler", context); }

int main()
{
    sframe_refresh();
    try {
        deep(5, 1);
    } catch (const std::exception &error) {
        std::printf("caught %s\n", error.what());
    }
    int numbers[] = {3, 1, 2};
    std::qsort(numbers, 3, sizeof *numbers, compare);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR1, &action, nullptr);
    std::raise(SIGUSR1);
    std::puts(failures == 0 ? "all true" : "NOT all true");
    return failures != 0;
}
