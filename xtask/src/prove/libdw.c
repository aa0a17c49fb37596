/* Unwinds the samples of a recording by libdw: `libdw SAMPLES`. `beside_framehop` writes the samples, in words of 8 bytes:
 *
 *   1, process, number of files, then for each its bias, the length of its path, and the path, filled up to words
 *   2, process, mask of registers, their number, the registers, the size of the stack's copy, and the copy, filled up to words
 *
 * and reads a line for each sample: its frames, then `root` or `stop`. */
#include <elfutils/libdwfl.h>
#include <elfutils/libdwfl_stacktrace.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { MOST = 4096 };

struct process {
    pid_t pid;
    Dwfl *dwfl;
    Elf *elf;
    struct process *next;
};

static int no_debug_information(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base, const char *file,
                                const char *link, GElf_Word checksum, char **found)
{
    (void)module, (void)data, (void)name, (void)base, (void)file, (void)link, (void)checksum, (void)found;
    return -1;
}

static const Dwfl_Callbacks callbacks = {
    .find_elf = dwflst_tracker_linux_proc_find_elf,
    .find_debuginfo = no_debug_information,
    .section_address = dwfl_offline_section_address,
};

static struct process *processes;

static struct process *find(pid_t pid)
{
    struct process *process = processes;
    while (process && process->pid != pid)
        process = process->next;
    if (!process) {
        process = calloc(1, sizeof *process);
        process->pid = pid;
        process->next = processes;
        processes = process;
    }
    return process;
}

static size_t words(uint64_t bytes)
{
    return (bytes + 7) / 8;
}

/* The files of a process, as they are now. */
static const uint64_t *read_files(Dwflst_Process_Tracker *tracker, const uint64_t *at)
{
    struct process *process = find((pid_t)*at++);
    if (process->dwfl)
        dwfl_end(process->dwfl);
    process->dwfl = dwflst_tracker_dwfl_begin(tracker);
    process->elf = NULL;
    dwfl_report_begin(process->dwfl);
    for (uint64_t left = *at++; left > 0; left--) {
        uint64_t bias = *at++, length = *at++;
        char *path = strndup((const char *)at, length);
        at += words(length);
        Dwfl_Module *module = dwfl_report_elf(process->dwfl, path, path, -1, bias, true);
        GElf_Addr unused;
        if (module && !process->elf)
            process->elf = dwfl_module_getelf(module, &unused);
        free(path);
    }
    dwfl_report_end(process->dwfl, NULL, NULL);
    return at;
}

struct walk {
    size_t count;
};

static int note(Dwfl_Frame *frame, void *data)
{
    struct walk *walk = data;
    Dwarf_Addr pc;
    bool interrupted;
    if (++walk->count > MOST || !dwfl_frame_pc(frame, &pc, &interrupted))
        return DWARF_CB_ABORT;
    printf("%" PRIx64 " ", pc);
    return DWARF_CB_OK;
}

static const uint64_t *unwind(const uint64_t *at)
{
    struct process *process = find((pid_t)*at++);
    uint64_t mask = *at++, count = *at++;
    const uint64_t *registers = at;
    at += count;
    uint64_t size = *at++;
    const void *stack = at;
    struct walk walk = {0};
    int end = -1;
    if (process->dwfl && process->elf)
        end = dwflst_perf_sample_getframes(process->dwfl, process->elf, process->pid, process->pid, stack, size, registers,
                                           (uint32_t)count, mask, 2, note, &walk);
    puts(end == 0 ? "root" : "stop");
    return at + words(size);
}

int main(int count, char **arguments)
{
    struct stat status;
    int file = count == 2 ? open(arguments[1], O_RDONLY) : -1;
    if (file < 0 || fstat(file, &status) != 0)
        return 2;
    const uint64_t *at = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (at == MAP_FAILED)
        return 2;
    const uint64_t *end = at + status.st_size / 8;
    Dwflst_Process_Tracker *tracker = dwflst_tracker_begin(&callbacks);
    while (at < end)
        at = *at == 1 ? read_files(tracker, at + 1) : unwind(at + 1);
    return 0;
}
