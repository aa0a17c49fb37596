/* A small profiler: runs a command, samples it with perf_event_open(2) and prints its stacks, one line for
 * each different stack, outermost function first, with the number of its samples.
 *
 *     cc -O2 -o profiler main.c $(pkg-config --cflags --libs sframe-stacks)
 *     ./profiler COMMAND ARGUMENTS...
 *
 * Where a profiler calls dwflst_* of elfutils, this one calls sframe_*: docs/stacks-in-c.md has both side by
 * side. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <sframe-stacks.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    FREQUENCY = 997,   /* samples of a second of processor time */
    STACK = 32 * 1024, /* bytes of the stack that are copied */
    RING = 512 * 1024, /* bytes of a ring: as much as every user may have */
    MOST_FRAMES = 512,
    MOST_RINGS = 1024,
    MOST_TEXT = 64 * 1024
};

/* A processor's ring of records. */
struct ring {
    int event;
    struct perf_event_mmap_page *page;
};

static struct perf_event_attr attribute;
static struct ring rings[MOST_RINGS];
static int ring_count;

/* Opens the command's event on each processor: an event that follows threads and forks may have a ring only
 * if it belongs to one processor. Returns 0 if the kernel allows it. */
static int open_rings(pid_t pid)
{
    memset(&attribute, 0, sizeof attribute);
    attribute.size = sizeof attribute;
    attribute.type = PERF_TYPE_SOFTWARE;
    attribute.config = PERF_COUNT_SW_TASK_CLOCK;
    attribute.freq = 1;
    attribute.sample_freq = FREQUENCY;
    attribute.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER |
                            PERF_SAMPLE_STACK_USER;
    /* dwflst_perf_sample_preferred_regs_mask */
    attribute.sample_regs_user = sframe_perf_sample_preferred_regs_mask(0);
    attribute.sample_stack_user = STACK;
    attribute.sample_id_all = 1;
    attribute.mmap = attribute.mmap2 = attribute.comm = attribute.comm_exec = attribute.task = 1;
    attribute.exclude_kernel = attribute.exclude_hv = 1;
    attribute.inherit = 1;
    attribute.disabled = attribute.enable_on_exec = 1;
    long processors = sysconf(_SC_NPROCESSORS_CONF);
    for (long cpu = 0; cpu < processors && ring_count < MOST_RINGS; cpu++) {
        int event = syscall(SYS_perf_event_open, &attribute, pid, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
        if (event < 0 && errno == ENODEV)
            continue; /* it is offline */
        if (event < 0)
            return -1;
        void *page = mmap(NULL, sysconf(_SC_PAGESIZE) + RING, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);
        if (page == MAP_FAILED)
            return -1;
        rings[ring_count++] = (struct ring){event, page};
    }
    return ring_count > 0 ? 0 : -1;
}

/* A record that waits for earlier ones of other rings. */
struct record {
    uint64_t time;
    size_t number; /* records of one time keep their order */
    struct perf_event_header *header;
};
static struct record *records;
static size_t record_count, record_room, record_number;

/* The time of a record: in a sample behind the instruction and the thread, in others at their end. */
static uint64_t time_of(const struct perf_event_header *header)
{
    const char *bytes = (const char *)header;
    size_t at = header->type == PERF_RECORD_SAMPLE ? sizeof *header + 16 : header->size - 8u;
    uint64_t time = 0;
    if (at + 8 <= header->size)
        memcpy(&time, bytes + at, 8);
    return time;
}

/* Copies what a ring holds. */
static void empty(const struct ring *ring)
{
    char *data = (char *)ring->page + ring->page->data_offset;
    uint64_t size = ring->page->data_size, tail = ring->page->data_tail;
    uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
    while (tail < head) {
        struct perf_event_header header;
        for (size_t i = 0; i < sizeof header; i++)
            ((char *)&header)[i] = data[(tail + i) % size];
        if (header.size < sizeof header)
            break;
        char *copy = malloc(header.size);
        if (record_count == record_room) {
            record_room = record_room ? 2 * record_room : 1024;
            records = realloc(records, record_room * sizeof *records);
        }
        if (!copy || !records)
            exit(1);
        for (size_t i = 0; i < header.size; i++)
            copy[i] = data[(tail + i) % size];
        struct perf_event_header *whole = (struct perf_event_header *)copy;
        records[record_count++] = (struct record){time_of(whole), record_number++, whole};
        tail += header.size;
    }
    __atomic_store_n(&ring->page->data_tail, tail, __ATOMIC_RELEASE);
}

static int by_time(const void *a, const void *b)
{
    const struct record *one = a, *other = b;
    if (one->time != other->time)
        return one->time < other->time ? -1 : 1;
    return one->number < other->number ? -1 : one->number > other->number;
}

/* The frames of a stack, innermost first. */
struct stack {
    sframe_stack_frame frames[MOST_FRAMES];
    size_t count;
};

/* A frame: dwfl_frame_pc. */
static int on_frame(const sframe_stack_frame *frame, void *arg)
{
    struct stack *stack = arg;
    if (stack->count == MOST_FRAMES)
        return 1;
    stack->frames[stack->count++] = *frame;
    return 0;
}

/* The last name is that of the function that has a symbol: dwfl_module_addrinfo. */
static int on_name(const sframe_name *name, void *arg)
{
    char *text = arg;
    size_t length = strlen(text);
    snprintf(text + length, MOST_TEXT - length, "%s%s", length ? ";" : "", name->function);
    return 0;
}

static int on_unknown(sframe_tracker *tracker, uint32_t pid, void *arg)
{
    (void)arg;
    return sframe_tracker_process_attach(tracker, pid);
}

/* Different stacks as texts, and how often each was seen. */
static struct { char *text; unsigned long count; } *seen;
static size_t seen_count;

static void note(const char *text)
{
    for (size_t i = 0; i < seen_count; i++)
        if (strcmp(seen[i].text, text) == 0) {
            seen[i].count++;
            return;
        }
    seen = realloc(seen, (seen_count + 1) * sizeof *seen);
    if (!seen)
        exit(1);
    seen[seen_count].text = strdup(text);
    seen[seen_count++].count = 1;
}

/* A sample as the attribute asks for it: instruction, process and thread, time, ABI and registers, the size
 * of the stack, the stack, and how much of it was copied. */
static void on_sample(sframe_tracker *tracker, const struct perf_event_header *header)
{
    static struct stack stack;
    static char text[MOST_TEXT];
    const char *at = (const char *)(header + 1) + 8, *end = (const char *)header + header->size;
    uint32_t ids[2];
    uint64_t abi, size = 0, filled = 0, registers[64];
    uint32_t count = sframe_arch_expected_frame_nregs(0);
    memcpy(ids, at, sizeof ids);
    memcpy(&abi, at + 16, sizeof abi);
    at += 24;
    if (abi == PERF_SAMPLE_REGS_ABI_NONE)
        return; /* a thread of the kernel, or one that ends */
    memcpy(registers, at, count * 8);
    at += count * 8;
    memcpy(&size, at, 8);
    at += 8;
    if (size > 0 && at + size + 8 <= end)
        memcpy(&filled, at + size, 8);
    /* dwflst_tracker_find_pid, dwflst_perf_sample_getframes */
    sframe_tracker_find_pid(tracker, ids[0], on_unknown, NULL);
    stack.count = 0;
    if (sframe_tracker_perf_sample_getframes(tracker, ids[0], ids[1], at, filled, registers, count,
                                             attribute.sample_regs_user, abi, on_frame, &stack) < 0)
        return;
    text[0] = 0;
    for (size_t i = stack.count; i-- > 0;)
        sframe_tracker_names(tracker, &stack.frames[i], 0, on_name, text);
    note(text);
}

/* Handles the records up to a time. */
static void handle(sframe_tracker *tracker, uint64_t limit)
{
    size_t done = 0;
    qsort(records, record_count, sizeof *records, by_time);
    while (done < record_count && records[done].time <= limit) {
        struct perf_event_header *header = records[done++].header;
        if (header->type == PERF_RECORD_SAMPLE)
            on_sample(tracker, header);
        else /* mappings, forks, executions and ends of processes */
            sframe_tracker_perf_record(tracker, &attribute, header, header->size, NULL, NULL);
        free(header);
    }
    memmove(records, records + done, (record_count - done) * sizeof *records);
    record_count -= done;
}

/* Empties the rings until the command has ended. What they hold at one visit is complete up to the latest
 * record of the visit before. */
static void record(sframe_tracker *tracker, pid_t pid)
{
    uint64_t limit = 0;
    int status, running = 1;
    while (running) {
        running = waitpid(pid, &status, WNOHANG) == 0;
        uint64_t latest = limit;
        for (int i = 0; i < ring_count; i++)
            empty(&rings[i]);
        for (size_t i = 0; i < record_count; i++)
            if (records[i].time > latest)
                latest = records[i].time;
        handle(tracker, running ? limit : UINT64_MAX);
        limit = latest;
        if (running)
            usleep(10 * 1000);
    }
}

int main(int argc, char **argv)
{
    int gate[2];
    char byte = 0;
    if (argc < 2 || pipe(gate) != 0) {
        fprintf(stderr, "usage: %s COMMAND ARGUMENTS...\n", argv[0]);
        return 2;
    }
    pid_t pid = fork();
    if (pid == 0) { /* waits until the events are open */
        close(gate[1]);
        if (read(gate[0], &byte, 1) == 1)
            execvp(argv[1], argv + 1);
        _exit(127);
    }
    if (pid < 0 || open_rings(pid) != 0) {
        fprintf(stderr, "cannot sample: %s\n", strerror(errno));
        return 3;
    }
    /* dwflst_tracker_begin. At most 64 files are open at a time. */
    sframe_tracker_options options = {.size = sizeof options, .most_files = 64};
    sframe_tracker *tracker = sframe_tracker_begin(&options);
    if (!tracker || write(gate[1], &byte, 1) != 1)
        return 1;
    record(tracker, pid);
    for (size_t i = 0; i < seen_count; i++)
        printf("%s %lu\n", seen[i].text, seen[i].count);
    sframe_tracker_numbers numbers = {.size = sizeof numbers};
    sframe_tracker_counts(tracker, &numbers);
    fprintf(stderr, "%llu stacks, %llu of them from the root on; %llu files, %llu open\n",
            (unsigned long long)numbers.stacks, (unsigned long long)numbers.rooted,
            (unsigned long long)numbers.files, (unsigned long long)numbers.open_files);
    sframe_tracker_end(tracker); /* dwflst_tracker_end */
    return 0;
}
