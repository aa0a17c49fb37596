/* What the program that unwinds in the kernel (unwind.bpf.c) shares with its loader (crates/sframe-bpf): what the loader settles,
 * what goes to the ring, and the maps; and what it takes from the kernel.
 */

#define SEC(name) __attribute__((section(name), used))

/* Helpers of the kernel (include/uapi/linux/bpf.h), by their numbers. */
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static long (*bpf_get_stack)(void *context, void *to, u32 size, u64 flags) = (void *)67;
static long (*bpf_probe_read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*bpf_get_ns_current_pid_tgid)(u64 device, u64 inode, void *to, u32 size) = (void *)120;
static long (*bpf_ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static void *(*bpf_get_current_task_btf)(void) = (void *)158;
static long (*bpf_task_pt_regs)(void *task) = (void *)175;
static long (*bpf_loop)(u32 rounds, void *callback, void *context, u64 flags) = (void *)181;

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
};

/* Nobody sleeps until a stack comes: the reader looks at the ring after a time. */
#define BPF_RB_NO_WAKEUP 1

/* What the loader settles before it loads this. */
const volatile u64 pid_namespace_device = 0, pid_namespace_inode = 0;
/* Whether the event makes a sample of its own of whole stacks too, to hold one against the other. */
const volatile u32 always_sample = 0;

/* Frames at most; the sum of both is less than a power of two. */
#define KERNEL_FRAMES 127
#define USER_FRAMES 1024
#define ROOM 2048

/* Where a walk ended. The loader knows these numbers. */
enum end {
	ROOT,
	TOO_DEEP,
	NO_PROCESS,
	NO_MAPPING,
	NO_TABLE,
	NO_ROWS,
	MALFORMED_TABLE,
	MEMORY,
	REGISTER,
	NO_PROGRESS,
	NARROW,
	RING_FULL,
	ENDS_COUNT,
	OUTER_STACK = ENDS_COUNT, /* in place of an end: a part of a stack */
};

/* An address that is no return address, as the one that a signal interrupted. */
#define INTERRUPTED (1ull << 63)

/* What goes to the ring: this, then frames of the kernel and of the user, innermost first. */
struct sample {
	u64 time;
	u64 period;
	u32 pid, tid;
	u32 cpu;
	u32 end;
	u32 kernel_frames, user_frames;
	u64 frames[ROOM];
};

/* What goes to the ring of a stack that the copy does not hold: this, with the stack from the first frame on that is not in the copy. */
#define MEMORY_PAGE 4096
struct outer {
	u64 time;
	u64 address;
	u32 pid, tid;
	u32 cpu;
	u32 end; /* OUTER_STACK; at the place where samples say where they ended */
	u8 bytes[2 * MEMORY_PAGE];
};

/* What the loader settles later. */
struct settings {
	u32 copied; /* bytes of the stack that the event's own samples copy */
};

/* Executable memory. */
struct range {
	u64 start, end;
	u64 bias; /* what is to be added to the file's own addresses */
	u32 file; /* or MADE */
	u32 pid;
};

/* The file of code that a process made while it ran. No table describes it, but most compilers keep a frame pointer there. */
#define MADE 0xffffffffu

/* The ranges of a process, in the array of all. */
struct process {
	u32 first, count;
};

/* The count of a process that nobody asked for: its samples are dropped. */
#define IGNORED 0xffffffffu

/* DWARF numbers. */
#define FRAME_POINTER 6
#define STACK_POINTER 7
#define REGISTERS 16

/* Words of the stack that are read at once. A read costs as much as some hundred bytes of it do, because it is a call through
 * several functions of the kernel, and returns are slow on processors that must not predict them.
 */
#define WINDOW_WORDS 64
#define WINDOW_BYTES (8 * WINDOW_WORDS)

struct walk {
	u64 pc;
	u64 registers[REGISTERS];
	u32 known; /* a bit for each register whose value is known */
	u32 topmost; /* whether pc is the instruction that runs next, not one behind a call */
	u32 first, count; /* of the process's ranges */
	u32 guessed; /* whether nothing but a frame pointer led here: callers are checked from then on */
	u32 returning; /* whether pc is behind the system call that ends a signal handler */
	u64 last; /* the stack pointer that the last way back which moves led to; 0 before */
	struct range range; /* the last one; many neighbours in a stack are of one file */
	u64 window_at; /* where the window was read from */
	u64 window_bytes; /* 0: nothing was read */
	u64 window[WINDOW_WORDS];
	u64 first_sp, first_fp; /* those of the innermost frame */
	struct outer outer;
	struct sample sample;
};

/* Rows that were found before: those of the same calls are needed again and again. A table never changes. */
#define KEPT_ROWS_BITS 10
#define KEPT_ROWS (1 << KEPT_ROWS_BITS)
struct kept_row {
	u64 address; /* as the file has it */
	u64 word; /* 0: no row */
	u32 file, spare;
};

struct kept_rows {
	struct kept_row each[KEPT_ROWS];
};

/* How a function that has called on another stack gets back to the one on which it was called: by words that lead to a stack
 * pointer. Programs of Go do so, to run their own work and C on a stack of the thread.
 */
#define MOST_WORDS 6
struct way_back {
	u32 from, flags;
	u32 count; /* of words; each is read at an offset from the value of the one before */
	s32 words[MOST_WORDS];
	s32 minus; /* the offset from the stack pointer of a word to subtract */
	s32 cfa; /* from the value */
	s32 fp; /* the caller's frame pointer, from the CFA or from the place of the last word */
	s32 pc; /* the caller's address, from the place of the last word */
	s32 below; /* from the value: the stack pointer that the next one out leads to */
};

/* What a way starts with. */
enum {
	NOWHERE, /* the function is the last of its stack */
	FROM_THREAD,
	FROM_STACK,
	FROM_FRAME,
};

#define WAY_SUBTRACTS 1
#define WAY_FP_AT_CFA 2
#define WAY_FP_BESIDE 4
#define WAY_PC_BESIDE 8
#define WAY_MOVES 16

/* Where a function goes on behind such a call, as the file has it. */
struct behind_call {
	u64 address;
	u32 file, spare;
};

#ifdef __bpf__
#define OF_THE_KERNEL __attribute__((preserve_access_index))
#else
#define OF_THE_KERNEL
#endif

/* The fields that the running kernel has at places of its own. */
struct thread_struct {
	unsigned long fsbase;
} OF_THE_KERNEL;

struct task_struct {
	struct thread_struct thread;
	struct mm_struct *mm;
} OF_THE_KERNEL;

/* arch/x86/include/asm/ptrace.h, whose order no kernel can change. */
struct pt_regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	u64 orig_ax, ip, cs, flags, sp, ss;
};

/* include/uapi/linux/bpf_perf_event.h */
struct bpf_perf_event_data {
	struct pt_regs regs;
	u64 sample_period, addr;
};

struct pid_and_tgid {
	u32 pid, tgid;
};

/* Tables lie in blocks, which are made when they are needed. */
#define BLOCK_BITS 18
#define BLOCK_BYTES (1 << BLOCK_BITS)
#define BLOCKS 16384

struct {
	int (*type)[BPF_MAP_TYPE_ARRAY_OF_MAPS];
	int (*max_entries)[BLOCKS];
	int (*key_size)[4];
	int (*value_size)[4];
	struct {
		int (*type)[BPF_MAP_TYPE_ARRAY];
		int (*max_entries)[1];
		int (*key_size)[4];
		int (*value_size)[BLOCK_BYTES];
	} *values[];
} blocks SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*max_entries)[8192];
	u32 *key;
	struct table *value;
} files SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_HASH];
	int (*max_entries)[16384];
	u32 *key;
	struct process *value;
} processes SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*max_entries)[65536];
	u32 *key;
	struct range *value;
} ranges SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_HASH];
	int (*max_entries)[4096];
	struct behind_call *key;
	struct way_back *value;
} ways_back SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_PERCPU_ARRAY];
	int (*max_entries)[1];
	u32 *key;
	struct walk *value;
} walks SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_PERCPU_ARRAY];
	int (*max_entries)[1];
	u32 *key;
	struct kept_rows *value;
} kept_rows SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*max_entries)[1];
	u32 *key;
	struct settings *value;
} settings SEC(".maps");

/* How many stacks ended where, and how many frames were found. */
struct counts {
	u64 ends[ENDS_COUNT];
	u64 frames;
};

struct {
	int (*type)[BPF_MAP_TYPE_PERCPU_ARRAY];
	int (*max_entries)[1];
	u32 *key;
	struct counts *value;
} counts SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_RINGBUF];
	int (*max_entries)[4 << 20];
} ring SEC(".maps");
