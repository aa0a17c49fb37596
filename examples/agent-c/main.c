/* An agent's loop of events: samples processes, or the whole machine, waits with poll(2), and prints each
 * second how often each innermost function was seen.
 *
 *     cc -O2 -o agent main.c $(pkg-config --cflags --libs sframe-stacks)
 *     ./agent SECONDS [PID...]
 *
 * Without a process, all that runs is sampled. */
#include <errno.h>
#include <poll.h>
#include <sframe-stacks.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_PIDS = 64, MOST_FUNCTIONS = 1024 };

/* The functions of this second. */
static struct { char name[128]; unsigned long count; } seen[MOST_FUNCTIONS];
static size_t seen_count;

/* The last name is that of the function that has a symbol; those that were inlined come before. */
static int on_name(const sframe_name *name, void *arg)
{
    snprintf(arg, sizeof seen[0].name, "%s", name->function);
    return 0;
}

static int on_sample(const sframe_sample *sample, void *arg)
{
    sframe_tracker *tracker = arg;
    char name[sizeof seen[0].name] = "(nothing)";
    if (sample->n_frames > 0)
        sframe_tracker_names(tracker, &sample->frames[0], 0, on_name, name);
    for (size_t i = 0; i < seen_count; i++)
        if (strcmp(seen[i].name, name) == 0) {
            seen[i].count++;
            return 0;
        }
    if (seen_count < MOST_FUNCTIONS) {
        memcpy(seen[seen_count].name, name, sizeof name);
        seen[seen_count++].count = 1;
    }
    return 0;
}

static void print(const sframe_live *live)
{
    sframe_live_numbers numbers = {.size = sizeof numbers};
    sframe_live_counts(live, &numbers);
    for (size_t i = 0; i < seen_count; i++)
        printf("%8lu %s\n", seen[i].count, seen[i].name);
    printf("%llu samples so far, %llu lost\n\n", (unsigned long long)numbers.samples,
           (unsigned long long)numbers.lost);
    fflush(stdout);
    seen_count = 0;
}

int main(int argc, char **argv)
{
    uint32_t pids[MOST_PIDS];
    size_t count = 0;
    if (argc < 2 || argc > 2 + MOST_PIDS) {
        fprintf(stderr, "usage: %s SECONDS [PID...]\n", argv[0]);
        return 2;
    }
    for (int i = 2; i < argc; i++)
        pids[count++] = strtoul(argv[i], NULL, 10);
    /* At most 512 files are open at a time, however many programs come and go. */
    sframe_tracker_options options = {.size = sizeof options, .most_files = 512};
    sframe_tracker *tracker = sframe_tracker_begin(&options);
    sframe_live_options what = {.size = sizeof what, .pids = pids, .n_pids = count, .frequency = 499};
    if (count == 0)
        what.flags = SFRAME_LIVE_ALL;
    sframe_live *live = tracker ? sframe_live_begin(tracker, &what) : NULL;
    if (!live) {
        fprintf(stderr, "cannot sample: %s\n", strerror(errno));
        return 3;
    }
    time_t start = time(NULL), printed = start, end = start + strtol(argv[1], NULL, 10);
    int running = 1;
    while (running && time(NULL) < end) {
        /* The agent's other descriptors would be here, too. */
        struct pollfd polled[1] = {{.fd = sframe_live_fd(live), .events = POLLIN}};
        if (poll(polled, 1, 1000) > 0 && polled[0].revents)
            running = sframe_live_read(live, on_sample, tracker) == 0;
        if (time(NULL) != printed) {
            printed = time(NULL);
            print(live);
        }
    }
    print(live);
    sframe_live_end(live, on_sample, tracker);
    sframe_tracker_end(tracker);
    return 0;
}
