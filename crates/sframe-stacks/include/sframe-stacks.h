/* Stacks of other processes from samples, for profilers and agents: the library's own (sframe_live),
 * perf_event_open(2)'s, or what another sampler has copied. A tracker knows which process has mapped which file where; files and what was read of
 * them are shared by all its processes.
 *
 * Link with `pkg-config --libs sframe-stacks`. x86-64, AArch64 and s390x Linux.
 *
 * Threads: one thread at a time may use a tracker, whichever it is; several need a lock of their own around
 * every call. Different trackers have nothing in common. No function may be called in a signal handler. A
 * callback may ask the tracker for names and places, and must neither end it nor hand it events or samples.
 *
 * Errors: functions that return -1 for an error set errno. The library prints nothing.
 *
 * Files are mapped. If another program makes one shorter while it is read, the system raises SIGBUS; the
 * library installs no handler.
 *
 * Structures begin with their size where the caller fills them in or makes them: set it to sizeof. Later
 * versions add fields at their ends only. */
#ifndef SFRAME_STACKS_H
#define SFRAME_STACKS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sframe_tracker sframe_tracker;

enum sframe_tracker_flag {
    SFRAME_TRACKER_RECORDED = 1,      /* the processes do not run now, or not on this machine */
    SFRAME_TRACKER_FRAME_POINTERS = 2 /* follow frame pointers in files without any description, too */
};

typedef struct sframe_tracker_options {
    size_t size;         /* sizeof(sframe_tracker_options) */
    uint32_t flags;      /* enum sframe_tracker_flag */
    uint16_t machine;    /* e_machine of the processes' programs; 0: this machine's */
    uint16_t reserved;   /* 0 */
    const char *root;    /* folder that holds the processes' files; null: their own paths */
    uint64_t most_files; /* files that are open at a time, see sframe_tracker_counts; 0: no bound */
    uint64_t most_bytes; /* bytes of these files; 0: no bound */
} sframe_tracker_options;

/* A tracker without processes. `options` may be null. Null: EINVAL, the machine has no SFrame, or this version
 * does not know a flag. */
sframe_tracker *sframe_tracker_begin(const sframe_tracker_options *options);

/* Ends a tracker with all it has. It may be null. */
void sframe_tracker_end(sframe_tracker *tracker);

/* ---- Processes ---- */

/* Adds a process that has mapped nothing yet; does nothing if it is known. */
void sframe_tracker_process_begin(sframe_tracker *tracker, uint32_t pid);

/* Adds a process that runs, with what it has mapped, by /proc. -1: there is no such process, or its
 * mappings may not be read. */
int sframe_tracker_process_attach(sframe_tracker *tracker, uint32_t pid);

/* Forgets a process at once. Its files stay for others. */
void sframe_tracker_process_end(sframe_tracker *tracker, uint32_t pid);

/* 0 if a process is known. If it is not, calls `callback`, unless that is null, which may add it by one of
 * the functions above, and looks again. -1: ESRCH. */
int sframe_tracker_find_pid(sframe_tracker *tracker, uint32_t pid,
                            int (*callback)(sframe_tracker *tracker, uint32_t pid, void *arg), void *arg);

/* ---- Events. A sample is unwound by what was told before it, so tell in the order of time. ---- */

enum sframe_mapping_flag {
    SFRAME_MAPPING_EXECUTABLE = 1, /* code may run there; other mappings only replace what was there */
    SFRAME_MAPPING_INODE = 2       /* device and inode are those of /proc/PID/maps */
};

typedef struct sframe_mapping {
    size_t size;             /* sizeof(sframe_mapping) */
    uint32_t pid;
    uint32_t flags;          /* enum sframe_mapping_flag */
    uint64_t start;          /* first address */
    uint64_t length;         /* bytes */
    uint64_t offset;         /* of the mapping in the file, in bytes */
    const char *path;        /* as the process sees it; null: memory of no file */
    const void *build_id;    /* null: not known */
    size_t build_id_size;    /* bytes */
    uint32_t device_major, device_minor;
    uint64_t inode;
} sframe_mapping;

/* A process has mapped a file or memory; what was there before is gone. -1: EINVAL, the range is empty or
 * has no end. */
int sframe_tracker_map(sframe_tracker *tracker, const sframe_mapping *mapping);

/* A process has unmapped memory. The kernel has no event for that, and most profilers do without. */
void sframe_tracker_unmap(sframe_tracker *tracker, uint32_t pid, uint64_t start, uint64_t length);

/* A thread has begun; of another process than its parent, it begins with a copy of the parent's mappings. */
void sframe_tracker_fork(sframe_tracker *tracker, uint32_t pid, uint32_t tid, uint32_t parent_pid,
                         uint32_t parent_tid);

/* A process executes another program of this name: all its mappings are gone. */
void sframe_tracker_exec(sframe_tracker *tracker, uint32_t pid, uint32_t tid, const char *name);

/* A thread has ended. The kernel samples a thread for a while after it has said so, so a process is known
 * until 64 more threads have ended. */
void sframe_tracker_exit(sframe_tracker *tracker, uint32_t pid, uint32_t tid);

/* ---- Samples ---- */

/* What is at an address. */
enum sframe_place {
    SFRAME_PLACE_FILE = 0,      /* a file */
    SFRAME_PLACE_ANONYMOUS = 1, /* code that the process made while it ran */
    SFRAME_PLACE_UNMAPPED = 2,  /* nothing known */
    SFRAME_PLACE_KERNEL = 3,    /* the kernel */
    SFRAME_PLACE_NOT_SAMPLED = 4 /* wherever the thread was: this time was not sampled */
};

/* How a frame was found. The numbers from 0 on are those of enum sframe_source in sframe-unwind.h. */
enum sframe_stack_source {
    SFRAME_STACK_RECORDED = -1,      /* it is from the sample's call chain, or from sframe_tracker_place */
    SFRAME_STACK_TOPMOST = 0,        /* it is the sample's own instruction */
    SFRAME_STACK_SFRAME = 1,         /* the file's SFrame, or its compact table */
    SFRAME_STACK_EH_FRAME = 2,       /* .eh_frame or .debug_frame */
    SFRAME_STACK_SIGNAL_CONTEXT = 3, /* the registers that the kernel saved for a signal handler */
    SFRAME_STACK_FRAME_POINTER = 4,  /* the frame pointer */
    SFRAME_STACK_INSTRUCTIONS = 5    /* read off the file's instructions */
};

typedef struct sframe_stack_frame {
    uint64_t address; /* the instruction, or where the frame goes on after a call */
    uint64_t own;     /* the address in the file, or `address`; of a call that is one byte before its end */
    uint32_t file;    /* number of the file, if `place` is SFRAME_PLACE_FILE */
    uint32_t pid, tid;
    uint32_t depth;   /* 0: innermost */
    int place;        /* enum sframe_place */
    int source;       /* enum sframe_stack_source */
    int returns;      /* whether `address` is a return address */
} sframe_stack_frame;

/* Called for each frame, innermost first. Another result than 0 ends the calls. The frame is a copy that is
 * valid during the call. */
typedef int sframe_frame_callback(const sframe_stack_frame *frame, void *arg);

/* The frames of a sample of perf_event_open(2): `regs` and `perf_regs_mask` as in PERF_SAMPLE_REGS_USER, 8
 * bytes for each bit, lowest bit first; `abi` as there (1: 32 bits, 2: 64 bits); `stack` is the copy from
 * the stack pointer on (the `dyn_size` bytes of PERF_SAMPLE_STACK_USER). It may be damaged or too short: the
 * walk ends there, and sframe_tracker_stack_end says so. A process that is not known has one frame, its
 * instruction. Returns 0, or what the callback returned; -1: EINVAL, there is no program counter. */
int sframe_tracker_perf_sample_getframes(sframe_tracker *tracker, uint32_t pid, uint32_t tid,
                                         const void *stack, size_t stack_size, const uint64_t *regs,
                                         uint32_t n_regs, uint64_t perf_regs_mask, uint32_t abi,
                                         sframe_frame_callback *callback, void *arg);

/* The same with registers in any order: `regs_mapping[i]` is the DWARF number of `regs[i]`, and
 * SFRAME_REGISTER_PC the program counter. `stack` is a copy of the memory from `stack_address` on. */
#define SFRAME_REGISTER_PC (-1)
int sframe_tracker_sample_getframes(sframe_tracker *tracker, uint32_t pid, uint32_t tid, const void *stack,
                                    size_t stack_size, uint64_t stack_address, const uint64_t *regs,
                                    uint32_t n_regs, const int *regs_mapping, size_t n_regs_mapping,
                                    sframe_frame_callback *callback, void *arg);

/* A whole record of an event with the attribute `attr` (struct perf_event_attr): a sample's frames, the
 * kernel's among them, go to the callback, which may be null; other records are the events above. `record`
 * begins with its struct perf_event_header. -1: EINVAL, it is shorter than it says. */
int sframe_tracker_perf_record(sframe_tracker *tracker, const void *attr, const void *record, size_t size,
                               sframe_frame_callback *callback, void *arg);

/* Where the last stack ended. */
enum sframe_stack_end {
    SFRAME_STACK_NONE = 0,         /* there was no stack yet */
    SFRAME_STACK_ROOT = 1,         /* at the outermost frame */
    SFRAME_STACK_CHAIN = 2,        /* nothing was unwound: the frames are the sample's own call chain */
    SFRAME_STACK_NO_ROWS = 3,      /* nothing describes the code */
    SFRAME_STACK_MALFORMED = 4,    /* what describes the code is malformed */
    SFRAME_STACK_MADE_CODE = 5,    /* code that the process made while it ran */
    SFRAME_STACK_UNMAPPED_END = 6, /* an address in no known file */
    SFRAME_STACK_OTHER_STACK = 7,  /* the program switched stacks, and the one before was not copied */
    SFRAME_STACK_COPY_ENDED = 8,   /* too little of the stack was copied */
    SFRAME_STACK_MEMORY = 9,       /* memory that was not copied */
    SFRAME_STACK_REGISTER = 10,    /* a register that is not known */
    SFRAME_STACK_NO_PROGRESS = 11, /* the caller's frame would not lie above */
    SFRAME_STACK_TOO_DEEP = 12,    /* more frames than the copy can hold */
    SFRAME_STACK_NARROW = 13,      /* a program of 32 bits: only its instruction is known */
    SFRAME_STACK_NO_REGISTERS = 14, /* the sample has no registers */
    SFRAME_STACK_PAGE_MISSING = 15, /* the copy of the stack ended at a page that was not there */
    SFRAME_STACK_NOT_SAMPLED = 16   /* it is no sample: the thread ran for `period` without one */
};
int sframe_tracker_stack_end(const sframe_tracker *tracker);

/* What a number of enum sframe_stack_end means, in English words without a full stop. The text stays for
 * ever and is never null. */
const char *sframe_stack_end_text(int end);

/* ---- Recordings: samples that the library takes itself, for programs with a loop of events ---- */

typedef struct sframe_live sframe_live;

enum sframe_live_flag {
    SFRAME_LIVE_ALL = 1 /* everything that runs on this machine */
};

/* What to sample: all, or processes, or a control group. */
typedef struct sframe_live_options {
    size_t size;          /* sizeof(sframe_live_options) */
    uint32_t flags;       /* enum sframe_live_flag */
    uint32_t frequency;   /* samples for each second of a processor's time; 0: 997 */
    const uint32_t *pids; /* processes, with their threads and those that they start; null: none */
    size_t n_pids;        /* how many */
    const char *cgroup;   /* folder of a control group; null: none */
    uint32_t stack_size;  /* bytes of the stack to copy for each sample, a multiple of 8; 0: 32768, or less
                           * where the kernel gives little memory */
    uint32_t reserved;    /* 0 */
} sframe_live_options;

/* Begins a recording whose events and samples go to a tracker. The tracker must be of processes that run
 * here, may have several recordings and other events, too, and must end after them. It knows afterwards what
 * the processes have mapped. The soft limit on open files becomes the hard one: each thread needs one for
 * each processor. Null: EINVAL, the options name nothing or several things, or the kernel refuses these
 * numbers; ESRCH, there is no such process; EACCES or EPERM, the user may not; EMFILE, too few files may be
 * open; others as perf_event_open(2) says. */
sframe_live *sframe_live_begin(sframe_tracker *tracker, const sframe_live_options *options);

/* A descriptor for poll(2) and its like, which belongs to the recording: it is readable when there is much to
 * read, and 50 milliseconds after the last reading. It never blocks and is never read by the caller itself. If
 * nobody calls sframe_live_read, it is readable again after that time at the latest. The kernel drops samples
 * if a reading comes too late: its memory holds those of an eighth of a second. */
int sframe_live_fd(const sframe_live *live);

typedef struct sframe_sample {
    size_t size;                      /* bytes that the library has filled in */
    const sframe_stack_frame *frames; /* innermost first */
    size_t n_frames;                  /* how many */
    uint64_t time;                    /* nanoseconds of CLOCK_MONOTONIC. Samples come in the order of time; what
                                       * was not sampled (SFRAME_STACK_NOT_SAMPLED) is found out later */
    uint64_t period;                  /* what the sample stands for: cycles, or nanoseconds where the processor
                                       * counts no cycles */
    uint32_t pid, tid;
    uint32_t cpu;
    int end;                          /* enum sframe_stack_end */
    char process[16], thread[16];     /* their names, as the kernel has them */
} sframe_sample;

/* Called for each sample; it is valid during the call. Another result than 0 ends the calls: the others come
 * with the next reading. The callback may use the tracker as every callback may, and not the recording. */
typedef int sframe_sample_callback(const sframe_sample *sample, void *arg);

/* Handles what there is, without waiting for more. The callback may be null. Samples come one reading late,
 * since those of other processors may be earlier. Returns 0, or what the callback returned (-1 would
 * look like an error); -1: ESRCH, the processes have ended, and all samples have been passed on. */
int sframe_live_read(sframe_live *live, sframe_sample_callback *callback, void *arg);

/* Ends a recording, and passes on what is left; a result of the callback other than 0 drops the rest. It may
 * be null. Returns 0, or what the callback returned. */
int sframe_live_end(sframe_live *live, sframe_sample_callback *callback, void *arg);

typedef struct sframe_live_numbers {
    size_t size;      /* sizeof(sframe_live_numbers) */
    uint64_t samples; /* samples so far */
    uint64_t lost;    /* records that the kernel had to drop */
} sframe_live_numbers;

/* Fills in the numbers so far. */
void sframe_live_counts(const sframe_live *live, sframe_live_numbers *numbers);

/* ---- Names; at any time while the tracker lives ---- */

/* What a process has at an address now. `returns`: it is a return address, so the call is looked up. */
void sframe_tracker_place(sframe_tracker *tracker, uint32_t pid, uint64_t address, int returns,
                          sframe_stack_frame *frame);

enum sframe_name_flag {
    SFRAME_NAME_KNOWN = 1,   /* `function` is a name, and no address in its place */
    SFRAME_NAME_INLINED = 2, /* the function was inlined into the one that comes next */
    SFRAME_NAME_OFFSET = 4   /* `offset` is known */
};

typedef struct sframe_name {
    const char *function; /* demangled */
    const char *file;     /* path of the file that contains it */
    const char *source;   /* path of its source file; null: not known */
    uint64_t offset;      /* bytes from the start of the function */
    uint32_t line;        /* in the source file */
    uint32_t flags;       /* enum sframe_name_flag */
} sframe_name;

/* Names of a frame: one, or with `inlined` those of inlined functions before it, with their lines, which
 * reads debug information. The texts are UTF-8 and valid during the call. Returns 0, or what the callback
 * returned. */
int sframe_tracker_names(sframe_tracker *tracker, const sframe_stack_frame *frame, int inlined,
                         int (*callback)(const sframe_name *name, void *arg), void *arg);

/* ---- Files, by the numbers in frames ---- */

typedef struct sframe_module {
    uint64_t start, end; /* addresses of the mapping */
    uint64_t bias;       /* what the addresses that the file states are raised by */
    uint32_t file;       /* number of the file */
} sframe_module;

/* Calls back for each mapping of code of a file in a process, by address. -1: ESRCH; EINVAL, there is no
 * callback. */
int sframe_tracker_modules(sframe_tracker *tracker, uint32_t pid,
                           int (*callback)(const sframe_module *module, void *arg), void *arg);

/* Writes a text to a buffer of `size` bytes, cut to fit and ended by a 0, as snprintf does, and returns the
 * length of the whole text: the file's path; its build-id in hexadecimal digits; why it could not be used.
 * The length is 0 if there is none. */
size_t sframe_tracker_file_path(sframe_tracker *tracker, uint32_t file, char *buffer, size_t size);
size_t sframe_tracker_file_build_id(sframe_tracker *tracker, uint32_t file, char *buffer, size_t size);
size_t sframe_tracker_file_error(sframe_tracker *tracker, uint32_t file, char *buffer, size_t size);

typedef struct sframe_tracker_numbers {
    size_t size;         /* sizeof(sframe_tracker_numbers) */
    uint64_t files;      /* files that were mapped */
    uint64_t open_files; /* of these, mapped here now, with what was read of them */
    uint64_t open_bytes; /* their bytes, those of their debug files among them */
    uint64_t closed;     /* how often a file was closed because of most_files or most_bytes */
    uint64_t reopened;   /* how often one of these was needed again, and read again */
    uint64_t stacks;     /* samples */
    uint64_t rooted;     /* of these, unwound to the outermost frame */
} sframe_tracker_numbers;

/* Fills in the numbers so far. The bounds hold between calls: the files that one sample needs are open
 * while it is unwound. The least recently used file is closed first; one that could not be read again (it
 * was deleted or replaced) stays open. */
void sframe_tracker_counts(const sframe_tracker *tracker, sframe_tracker_numbers *numbers);

/* ---- Machines, by e_machine; 0 stands for this one ---- */

/* `sample_regs_user` to ask perf_event_open(2) for. 0: the machine has no SFrame. */
uint64_t sframe_perf_sample_preferred_regs_mask(uint16_t machine);
/* e_machine for `machine` of struct utsname; 0 (EM_NONE): it has no SFrame. */
uint16_t sframe_arch_from_uname(const char *machine);
/* Number of registers in that mask. */
uint32_t sframe_arch_expected_frame_nregs(uint16_t machine);
/* DWARF number of the stack pointer, that of 32-bit programs if `abi32`. -1: the machine has no SFrame. */
int sframe_arch_sp_dwarf_reg(uint16_t machine, int abi32);
/* Index of the stack pointer among the registers of a mask (0: all). -1: the machine has no SFrame; -2: the
 * mask lacks it. */
int sframe_arch_sp_perf_reg(uint16_t machine, uint64_t perf_regs_mask, int abi32);

#ifdef __cplusplus
}
#endif
#endif
