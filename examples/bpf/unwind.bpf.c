/* Stacks of programs, unwound in the kernel by compact tables (x86-64, Linux 5.17 or newer).
 *
 * The program runs at samples of perf events. It takes the registers of the user's code, finds the file that is mapped
 * where the code is, asks that file's table for the caller's frame and reads two words of the stack, again and again. A
 * whole stack goes to the ring, a few hundred bytes, and the event writes nothing. Of a stack that ended before its root the event makes a
 * sample of its own, with registers and a copy of the stack, so that user space can do better. What is not in
 * the copy goes to the ring, if frame pointers lead there.
 *
 * The loader (crates/sframe-bpf) fills the maps. `cargo xtask bpf` compiles this file to unwind.bpf.o.
 */

#include "compact.h"
#include "unwind.h"

/* The block that holds a place of the tables. */
INLINE u8 *block_of(u32 place)
{
	u32 number = place >> BLOCK_BITS, first = 0;
	void *block = bpf_map_lookup_elem(&blocks, &number);

	return block ? bpf_map_lookup_elem(block, &first) : 0;
}

/* The masks change nothing but for the verifier: parts are aligned. */
#define LOAD(type, place)                                                             \
	({                                                                            \
		u8 *block = block_of(place);                                          \
		u32 offset = (place) & (BLOCK_BYTES - sizeof(type));                  \
		block ? *(type *)(block + offset) : 0;                                \
	})

NOINLINE u32 load8(u32 place)
{
	return LOAD(u8, place);
}

NOINLINE u32 load16(u32 place)
{
	return LOAD(u16, place);
}

NOINLINE u32 load32(u32 place)
{
	return LOAD(u32, place);
}

NOINLINE u64 load64(u32 place)
{
	return LOAD(u64, place);
}

INLINE int read_user(void *to, u32 size, u64 address)
{
	return bpf_probe_read_user(to, size, (void *)address) == 0;
}

/* A word of the stack. Almost always it is near those of the frame before. */
INLINE int read_word(struct walk *walk, u64 *word, u64 address)
{
	u64 offset = address - walk->window_at, alone;

	if (address & 7) {
		/* A read that fails leaves a zero. */
		if (!read_user(&alone, 8, address))
			return 0;
		*word = alone;
		return 1;
	}
	if (offset >= walk->window_bytes) {
		u64 past = (address & (MEMORY_PAGE - 1)) + WINDOW_BYTES;

		/* Nothing of another page, which need not be there. */
		walk->window_at = past > MEMORY_PAGE ? address - (past - MEMORY_PAGE) : address;
		walk->window_bytes = 0;
		if (!read_user(walk->window, WINDOW_BYTES, walk->window_at))
			return 0;
		walk->window_bytes = WINDOW_BYTES;
		offset = address - walk->window_at;
	}
	/* The mask changes nothing but for the verifier. */
	*word = walk->window[offset / 8 & (WINDOW_WORDS - 1)];
	return 1;
}

/* A process has fewer ranges than this to the power of two. */
#define MOST_RANGE_PROBES 16

/* Finds the file that an address is in. */
INLINE int find_range(struct walk *walk, u64 pc)
{
	u32 low = walk->first, count = walk->count;
	struct range *range;

	if (pc - walk->range.start < walk->range.end - walk->range.start)
		return 1;
	for (int probe = 0; probe < MOST_RANGE_PROBES && count > 0; probe++) {
		u32 half = count / 2, place = low + half;

		range = bpf_map_lookup_elem(&ranges, &place);
		if (!range)
			return 0;
		if (range->start <= pc) {
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	if (low == walk->first)
		return 0;
	low--;
	range = bpf_map_lookup_elem(&ranges, &low);
	/* A slice of the array that another process has got meanwhile says so. */
	if (!range || range->pid != walk->sample.pid || pc - range->start >= range->end - range->start)
		return 0;
	walk->range = *range;
	return 1;
}

INLINE int get_register(const struct walk *walk, u32 number, u64 *value)
{
	if (number >= REGISTERS || !(walk->known & 1u << number))
		return 0;
	*value = walk->registers[number & (REGISTERS - 1)];
	return 1;
}

INLINE enum end enter_caller(struct walk *walk, u64 pc, u64 sp, u64 fp)
{
	walk->pc = pc;
	walk->registers[STACK_POINTER] = sp;
	walk->registers[FRAME_POINTER] = fp;
	walk->known = 1u << STACK_POINTER | 1u << FRAME_POINTER;
	walk->topmost = 0;
	return ROOT;
}

/* The end of a stack has a number above all others while a walk goes on. */
#define GOES_ON_UP ENDS_COUNT

/* A step by a rule that fits a word. */
INLINE u32 step_by_word(struct walk *walk, u64 word)
{
	u64 sp = walk->registers[STACK_POINTER], fp = walk->registers[FRAME_POINTER];
	u64 cfa = (word & CFA_BY_FP ? fp : sp) + CFA_OFFSET(word);
	u64 at = cfa + RA_OFFSET(word), fp_at = cfa + FP_OFFSET(word);
	u64 pc;

	if (cfa < sp || (cfa == sp && !walk->topmost))
		return NO_PROGRESS;
	if (!(word & RA_SAVED))
		return REGISTER;
	/* Compilers leave the rule in force after they restored the register; its slot is then free stack. */
	if (word & FP_SAVED && !read_word(walk, &fp, fp_at) && !(walk->topmost && fp_at < sp))
		return MEMORY;
	if (!read_word(walk, &pc, at))
		return MEMORY;
	if (pc == 0)
		return ROOT;
	enter_caller(walk, pc, cfa, fp);
	return GOES_ON_UP;
}

/* The registers that the kernel saved for a signal handler: struct sigcontext in the ucontext that the stack pointer of the
 * trampoline leads to.
 */
struct interrupted {
	u64 r8, r9, r10, r11, r12, r13, r14, r15, di, si, bp, bx, dx, ax, cx, sp, ip;
};
#define SIGCONTEXT 40

INLINE void restore(struct walk *walk, const struct interrupted *from)
{
	u64 *to = walk->registers;

	to[0] = from->ax, to[1] = from->dx, to[2] = from->cx, to[3] = from->bx;
	to[4] = from->si, to[5] = from->di, to[6] = from->bp, to[7] = from->sp;
	to[8] = from->r8, to[9] = from->r9, to[10] = from->r10, to[11] = from->r11;
	to[12] = from->r12, to[13] = from->r13, to[14] = from->r14, to[15] = from->r15;
	walk->known = 0xffff;
	walk->pc = from->ip;
	walk->topmost = 1;
}

INLINE u32 step_from_context(struct walk *walk)
{
	struct interrupted context;

	if (!read_user(&context, sizeof(context), walk->registers[STACK_POINTER] + SIGCONTEXT))
		return MEMORY;
	restore(walk, &context);
	return GOES_ON_UP;
}

/* The value of the return address or the frame pointer by its part of a long rule. */
INLINE u32 saved_value(const struct walk *walk, u64 cfa, u32 how, u64 rule, u64 *value)
{
	u64 base = cfa;

	if (how & LONG_FROM_REGISTER && !get_register(walk, (u32)rule, &base))
		return REGISTER;
	base += (s64)rule >> 32;
	if (how & LONG_READ)
		return read_user(value, 8, base) ? GOES_ON_UP : MEMORY;
	*value = base;
	return GOES_ON_UP;
}

/* A register and an offset of a long rule, as one word: it is aligned to 4 bytes only. */
INLINE u64 register_and_offset(u32 place)
{
	return load32(place) | (u64)load32(place + 4) << 32;
}

/* A step by a rule that does not fit a word. */
INLINE u32 step_by_long_rule(struct walk *walk, u32 place)
{
	u32 words = load32(place + 28), flags = words & 0xff, kind = words >> 24, end;
	u64 sp = walk->registers[STACK_POINTER], fp = walk->registers[FRAME_POINTER], cfa, pc;
	struct interrupted context;
	int has_context = 0;

	if (kind == LONG_KIND_OUTERMOST)
		return ROOT;
	if (kind == LONG_KIND_SIGNAL_CONTEXT)
		return step_from_context(walk);
	if (kind != LONG_KIND_FRAME)
		return MALFORMED_TABLE;
	if (!get_register(walk, load32(place + 8), &cfa))
		return REGISTER;
	cfa += load64(place);
	if (flags & LONG_CFA_READ && !read_user(&cfa, 8, cfa))
		return MEMORY;
	if (flags & LONG_SIGNAL)
		has_context = read_user(&context, sizeof(context), sp + SIGCONTEXT);
	else if (cfa < sp || (cfa == sp && !walk->topmost))
		return NO_PROGRESS;
	if (!((words >> 8) & LONG_SAVED))
		return REGISTER;
	end = saved_value(walk, cfa, words >> 8, register_and_offset(place + 12), &pc);
	if (end != GOES_ON_UP)
		return end;
	if ((words >> 16) & LONG_SAVED) {
		end = saved_value(walk, cfa, words >> 16, register_and_offset(place + 20), &fp);
		if (end != GOES_ON_UP)
			return end;
	}
	if (pc == 0 && !(flags & LONG_SIGNAL))
		return ROOT;
	enter_caller(walk, pc, cfa, fp);
	if (flags & LONG_SIGNAL) {
		walk->topmost = 1;
		/* All registers, if the context is what the rows speak of. */
		if (has_context && context.ip == pc && context.sp == cfa)
			restore(walk, &context);
	}
	return GOES_ON_UP;
}

/* `mov $15, %rax; syscall` ends a signal handler, where no rows say so. */
INLINE int is_trampoline(u64 pc)
{
	u64 code[2];

	return read_user(code, sizeof(code), pc) && code[0] == 0x0f0000000fc0c748 && (code[1] & 0xff) == 5;
}

/* Whether a call ends in front of an address: its forms are E8 and FF /2, and a prefix is before them. */
NOINLINE u32 is_behind_call(u64 pc)
{
	u8 code[8]; /* the last one is in front of the address */

	if (!read_user(code, sizeof(code), pc - sizeof(code)))
		return 0;
	if (code[3] == 0xe8)
		return 1;
	/* A register; memory at one. */
	if (code[6] == 0xff && ((code[7] & 0xf8) == 0xd0 || ((code[7] & 0xf8) == 0x10 && (code[7] & 6) != 4)))
		return 1;
	if (code[5] == 0xff && ((code[6] == 0x14 && (code[7] & 7) != 5) || ((code[6] & 0xf8) == 0x50 && code[6] != 0x54)))
		return 1;
	if (code[4] == 0xff && code[5] == 0x54)
		return 1;
	if (code[2] == 0xff && (code[3] == 0x15 || ((code[3] & 0xf8) == 0x90 && code[3] != 0x94)))
		return 1;
	return code[1] == 0xff && (code[2] == 0x94 || (code[2] == 0x14 && (code[3] & 7) == 5));
}

/* Whether an address that a guess led to may be that of a caller: it is in code, and in a file, a call is before it.
 * Interpreters return to code that nobody called from there.
 */
INLINE int is_plausible(struct walk *walk)
{
	if (walk->topmost)
		return 1;
	return find_range(walk, walk->pc - 1) && (walk->range.file == MADE || is_behind_call(walk->pc));
}

/* Where the first and the last instructions of a function have its return address: it is on top of the stack before `push
 * %rbp; mov %rsp, %rbp` and at `ret`, and below the saved frame pointer between these two. 0: neither is here.
 */
#define PUSH_FP 0x55
#define RET 0xc3
#define RET_POPS 0xc2
INLINE u32 outside_frame(u64 pc, u64 *pops)
{
	u8 code[8]; /* the second one is at pc */

	*pops = 0;
	if (!read_user(code, sizeof(code), pc - 1))
		return 0;
	if (code[1] == RET_POPS)
		*pops = code[2] | (u64)code[3] << 8;
	if (code[1] == RET || code[1] == RET_POPS)
		return 1;
#define MOVES_SP_TO_FP(at) \
	(code[at] == 0x48 && ((code[(at) + 1] == 0x89 && code[(at) + 2] == 0xe5) || (code[(at) + 1] == 0x8b && code[(at) + 2] == 0xec)))
	if (code[1] == PUSH_FP && MOVES_SP_TO_FP(2))
		return 1;
	return code[0] == PUSH_FP && MOVES_SP_TO_FP(1) ? 2 : 0;
}

/* A step by the frame pointer, from code that the process made. */
INLINE u32 step_from_made(struct walk *walk)
{
	u64 sp = walk->registers[STACK_POINTER], fp = walk->registers[FRAME_POINTER], cfa = fp + 16, pc, pops = 0;
	u32 outside = walk->topmost ? outside_frame(walk->pc, &pops) : 0;

	if (outside)
		cfa = sp + 8 * outside;
	else if (cfa < sp || (cfa == sp && !walk->topmost))
		return NO_PROGRESS;
	if (cfa & 7)
		return NO_MAPPING;
	if (outside != 1 && !read_word(walk, &fp, cfa - 16))
		return MEMORY;
	if (!read_word(walk, &pc, cfa - 8))
		return MEMORY;
	if (pc == 0)
		return NO_MAPPING;
	walk->guessed = 1;
	enter_caller(walk, pc, cfa + pops, fp);
	return GOES_ON_UP;
}

/* The base of the thread's own data. A function of its own, because one load cannot be of the kernel's structures and of a map. */
NOINLINE u64 thread_base(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return task->thread.fsbase;
}

/* Whether the thread still has memory. When it ends, the kernel takes that away first, which is a good part of the life of a
 * short process. A function of its own, as above.
 */
NOINLINE u32 has_memory(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return task->mm != 0;
}

/* The value that a way back leads to, and the place of its last word. */
INLINE int follow(const struct walk *walk, const struct way_back *way, u64 *place, u64 *value)
{
	*place = 0;
	if (way->flags & WAY_MOVES && walk->last)
		return read_user(value, 8, walk->last + way->below) && *value > walk->last;
	if (way->from == FROM_THREAD) {
		/* Further out than a way that moves, the thread's data say nothing. */
		if (walk->last)
			return 0;
		*value = thread_base();
	} else {
		*value = walk->registers[way->from == FROM_FRAME ? FRAME_POINTER : STACK_POINTER];
	}
	for (u32 word = 0; word < MOST_WORDS; word++) {
		if (word >= way->count)
			break;
		*place = *value + way->words[word];
		if (!read_user(value, 8, *place))
			return 0;
	}
	return 1;
}

/* A step behind a call on another stack, where a table has no row. */
INLINE u32 step_back(struct walk *walk)
{
	struct behind_call key = { walk->pc - walk->range.bias, walk->range.file, 0 };
	struct way_back *way = walk->topmost ? 0 : bpf_map_lookup_elem(&ways_back, &key);
	u64 place, value, minus, pc, cfa, fp = walk->registers[FRAME_POINTER];

	if (!way)
		return NO_ROWS;
	if (way->from == NOWHERE)
		return ROOT;
	/* Before the scheduler has chosen another goroutine, the thread has none. */
	if (!follow(walk, way, &place, &value))
		return way->flags & WAY_PC_BESIDE ? ROOT : MEMORY;
	if (way->flags & WAY_SUBTRACTS) {
		if (!read_user(&minus, 8, walk->registers[STACK_POINTER] + way->minus))
			return MEMORY;
		value -= minus;
	}
	cfa = value + way->cfa;
	if (way->flags & WAY_FP_AT_CFA && !read_user(&fp, 8, cfa + way->fp))
		return MEMORY;
	if (way->flags & WAY_FP_BESIDE && !read_user(&fp, 8, place + way->fp))
		return MEMORY;
	if (!read_user(&pc, 8, way->flags & WAY_PC_BESIDE ? place + way->pc : cfa - 8) || !value || !pc)
		return MEMORY;
	if (way->flags & WAY_MOVES)
		walk->last = value;
	enter_caller(walk, pc, cfa, fp);
	return GOES_ON_UP;
}

/* Where a row is kept, if it is. */
INLINE struct kept_row *kept_row(struct kept_rows *rows, u32 file, u64 address)
{
	u64 hash = (address ^ (u64)file << 40) * 0x9e3779b97f4a7c15ull;

	return &rows->each[hash >> (64 - KEPT_ROWS_BITS)];
}

INLINE u32 step(struct walk *walk, struct kept_rows *rows)
{
	u64 pc = walk->topmost ? walk->pc : walk->pc - 1, address, word;
	struct kept_row *kept;
	struct table *table;
	enum answer answer = NO_ROW;
	u32 file, end = NO_MAPPING;

	if (walk->returning) {
		/* Rows there are for other functions' callers, or end in front of pc. */
		walk->returning = 0;
		return step_from_context(walk);
	}
	if (find_range(walk, pc)) {
		if (walk->range.file == MADE)
			return is_trampoline(walk->pc) ? step_from_context(walk) : step_from_made(walk);
		file = walk->range.file;
		address = pc - walk->range.bias;
		kept = kept_row(rows, file, address);
		if (kept->address == address && kept->file == file && KIND(kept->word) == KIND_FRAME)
			return step_by_word(walk, kept->word);
		table = bpf_map_lookup_elem(&files, &file);
		if (!table || !table->present)
			return NO_TABLE;
		answer = look_up(table, address, &word);
		if (answer == MALFORMED)
			return MALFORMED_TABLE;
		if (answer == FOUND) {
			if (KIND(word) == KIND_FRAME) {
				kept->address = address;
				kept->file = file;
				kept->word = word;
				return step_by_word(walk, word);
			}
			if (KIND(word) == KIND_OUTERMOST)
				return ROOT;
			return step_by_long_rule(walk, table->long_rules + (u32)word * LONG_RULE_BYTES);
		}
		end = step_back(walk);
		if (end != NO_ROWS)
			return end;
	}
	return is_trampoline(walk->pc) ? step_from_context(walk) : end;
}

/* A pointer to a map's value, where bpf_loop() wants one to the stack. */
struct round {
	struct walk *walk;
	struct kept_rows *rows;
};

/* One frame: notes it and goes to its caller. Gives 1 at the end. */
static long next_frame(u32 index, struct round *round)
{
	struct walk *walk = round->walk;
	struct sample *sample = &walk->sample;
	u64 address = walk->pc;

	if (walk->topmost && index > 0)
		address |= INTERRUPTED;
	sample->frames[(sample->kernel_frames + index) & (ROOM - 1)] = address;
	sample->user_frames = index + 1;
	sample->end = step(walk, round->rows);
	if (sample->end == GOES_ON_UP && walk->guessed && !is_plausible(walk))
		sample->end = NO_ROWS;
	if (sample->end != GOES_ON_UP)
		return 1;
	sample->end = TOO_DEEP;
	return 0;
}

/* The system call that ends a signal handler. */
#define RT_SIGRETURN 15

#define RPL 3
#define CS_32_BITS 0x23

/* Takes the registers of the user's code. Gives where the walk ends if there are none to start from. */
INLINE u32 start(struct walk *walk, struct bpf_perf_event_data *context)
{
	u64 *to = walk->registers;

#define TAKE(from)                                                                            \
	do {                                                                                  \
		to[0] = (from).ax, to[1] = (from).dx, to[2] = (from).cx, to[3] = (from).bx;   \
		to[4] = (from).si, to[5] = (from).di, to[6] = (from).bp, to[7] = (from).sp;   \
		to[8] = (from).r8, to[9] = (from).r9, to[10] = (from).r10, to[11] = (from).r11; \
		to[12] = (from).r12, to[13] = (from).r13, to[14] = (from).r14;                \
		to[15] = (from).r15;                                                          \
		walk->pc = (from).ip;                                                         \
		segment = (from).cs;                                                          \
	} while (0)

	u64 segment = context->regs.cs;

	walk->returning = 0;
	if ((segment & RPL) == RPL) {
		TAKE(context->regs);
	} else {
		struct pt_regs *entered = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());

		TAKE(*entered);
		/* A thread of the kernel has no user part, and one that has ended has none any more. */
		if ((segment & RPL) != RPL || !has_memory())
			return ROOT;
		/* When the registers are those of the interrupted code again, the kernel forgets the call. */
		walk->returning = entered->orig_ax == RT_SIGRETURN;
	}
	walk->known = 0xffff;
	walk->topmost = 1;
	walk->range.start = walk->range.end = 0;
	walk->window_bytes = 0;
	walk->guessed = 0;
	walk->last = 0;
	walk->first_sp = walk->registers[STACK_POINTER];
	walk->first_fp = walk->registers[FRAME_POINTER];
	return segment == CS_32_BITS ? NARROW : GOES_ON_UP;
}

INLINE u32 walk_stack(struct walk *walk, const struct process *process, struct bpf_perf_event_data *context)
{
	u32 zero = 0, end = start(walk, context);
	struct round round = { walk, 0 };

	if (end != GOES_ON_UP)
		return end;
	round.rows = bpf_map_lookup_elem(&kept_rows, &zero);
	if (!process || !round.rows)
		return NO_PROCESS;
	walk->first = process->first;
	walk->count = process->count;
	bpf_loop(USER_FRAMES, next_frame, &round, 0);
	return walk->sample.end;
}

#include "outer.h"

SEC("perf_event")
int unwind(struct bpf_perf_event_data *context)
{
	struct pid_and_tgid task;
	struct process *process;
	struct settings *said;
	struct sample *sample;
	struct counts *count;
	struct walk *walk;
	u32 zero = 0, end;
	u64 size;
	long bytes;

	walk = bpf_map_lookup_elem(&walks, &zero);
	count = bpf_map_lookup_elem(&counts, &zero);
	if (!walk || !count)
		return 1;
	if (bpf_get_ns_current_pid_tgid(pid_namespace_device, pid_namespace_inode, &task, sizeof(task)))
		return 1;
	process = bpf_map_lookup_elem(&processes, &task.tgid);
	if (process && process->count == IGNORED)
		return 0;
	sample = &walk->sample;
	sample->time = bpf_ktime_get_ns();
	sample->period = context->sample_period;
	sample->pid = task.tgid;
	sample->tid = task.pid;
	sample->cpu = bpf_get_smp_processor_id();
	sample->user_frames = 0;
	sample->kernel_frames = 0;
	if ((context->regs.cs & RPL) != RPL) {
		bytes = bpf_get_stack(context, sample->frames, KERNEL_FRAMES * 8, 0);
		sample->kernel_frames = bytes > 0 ? (u32)bytes / 8 : 0;
	}
	end = walk_stack(walk, process, context);
	sample->end = end;
	count->frames += sample->user_frames;
	if (end <= TOO_DEEP || always_sample) {
		size = sizeof(*sample) - sizeof(sample->frames) + 8 * ((sample->kernel_frames + sample->user_frames) & (ROOM - 1));
		if (bpf_ringbuf_output(&ring, sample, size, BPF_RB_NO_WAKEUP))
			end = RING_FULL;
	}
	said = bpf_map_lookup_elem(&settings, &zero);
	if (end > TOO_DEEP && end != NARROW && said)
		write_outer(walk, said->copied);
	if (end < ENDS_COUNT)
		count->ends[end]++;
	return end > TOO_DEEP || always_sample;
}

/* Helpers that read memory are for programs under a licence that the kernel's goes with. */
char licence[] SEC("license") = "Dual MIT/GPL";
