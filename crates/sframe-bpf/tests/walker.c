/* The kernel's program itself on the host, over stacks that the input describes. Its helpers and maps are
 * those of this file, which give it nothing but a table, a mapping and a stack, and count what it asks
 * for. Standard input, again and again to its end: struct input, the table and the words of the stack;
 * standard output: struct outcome. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unwind.bpf.c"

struct input {
	u64 length; /* of the table */
	struct table table;
	struct pt_regs registers;
	struct range range, made; /* the second one lies behind the first */
	u64 stack, words;
	u64 fails; /* every so many reads one fails; 0 for none */
	u64 kernel_frames;
	u64 thread; /* the base of its own data */
	u64 ranges; /* of the process, or IGNORED */
	u64 ended; /* whether the thread has no memory any more */
	u64 copied; /* bytes of the stack that the event copies */
	u64 hole; /* a page that is not there */
	struct behind_call behind;
	struct way_back way;
};

struct outcome {
	u64 end, frames;
	u64 steps;
	u64 most_reads, most_loads; /* of one step */
	u64 link_reads; /* the most of one link of a chain of frame pointers */
	u64 all_reads, all_loads;
	u64 ring; /* bytes that went to the ring */
	u64 outer, outer_bytes; /* the part of the stack that went there */
	u64 samples; /* whether the event makes a sample of its own */
	u64 innermost[8];
};

static struct input input;
static struct outcome outcome;
static struct walk the_walk;
static struct settings the_settings;
static struct counts the_counts;
static struct process the_process;
static struct task_struct the_task;
static struct kept_rows the_rows;
/* Memory is there in whole pages: those that the stack lies in. */
static u8 *block, *pages;
static u64 pages_at, pages_bytes;
static u64 reads, loads;

static void fail(const char *what)
{
	fprintf(stderr, "the program %s\n", what);
	exit(1);
}

static void *lookup(void *map, const void *key)
{
	u32 number;

	memcpy(&number, key, sizeof(number));
	if (map == &walks)
		return number ? 0 : &the_walk;
	if (map == &kept_rows)
		return number ? 0 : &the_rows;
	if (map == &settings)
		return number ? 0 : &the_settings;
	if (map == &counts)
		return number ? 0 : &the_counts;
	if (map == &processes)
		return number == input.range.pid ? &the_process : 0;
	if (map == &ranges)
		return number == 0 ? &input.range : number == 1 ? &input.made : 0;
	if (map == &files)
		return number == input.range.file ? &input.table : 0;
	if (map == &ways_back)
		return memcmp(key, &input.behind, sizeof(input.behind)) ? 0 : &input.way;
	if (map == &blocks) {
		loads++;
		outcome.all_loads++;
		return number ? 0 : &block;
	}
	if (map == &block)
		return number ? 0 : block;
	fail("asked for a map that it does not have");
	return 0;
}

/* As the kernel, it leaves zeros where nothing can be read. */
static long probe_read_user(void *to, u32 size, const void *from)
{
	u64 offset = (u64)from - pages_at;

	reads++;
	outcome.all_reads++;
	memset(to, 0, size);
	if ((u64)from + size > input.hole && (u64)from < input.hole + MEMORY_PAGE)
		return -14;
	if (offset >= pages_bytes || size > pages_bytes - offset || (input.fails && outcome.all_reads % input.fails == 0))
		return -14;
	memcpy(to, pages + offset, size);
	return 0;
}

static long loop(u32 rounds, void *callback, void *context, u64 flags)
{
	long (*round)(u32, void *) = callback;
	u64 *most = callback == (void *)next_link ? &outcome.link_reads : &outcome.most_reads;
	u32 done;

	if (flags || rounds > USER_FRAMES)
		fail("makes more rounds than it may");
	for (done = 0; done < rounds; done++) {
		long ends;

		reads = loads = 0;
		ends = round(done, context);
		outcome.steps++;
		if (reads > *most)
			*most = reads;
		if (loads > outcome.most_loads)
			outcome.most_loads = loads;
		if (ends)
			break;
	}
	return done;
}

static long ringbuf_output(void *map, void *data, u64 size, u64 flags)
{
	u8 *copy = malloc(size);
	struct outer *outer = (struct outer *)copy;

	if (map != &ring || flags != BPF_RB_NO_WAKEUP || !copy ||
	    size > (data == &the_walk.outer ? sizeof(struct outer) : sizeof(struct sample)))
		fail("writes more than a sample to the ring");
	memcpy(copy, data, size);
	if (data == &the_walk.outer) {
		outcome.outer = outer->address;
		outcome.outer_bytes = size - (sizeof(*outer) - sizeof(outer->bytes));
		if (memcmp(outer->bytes, pages + (outer->address - pages_at), outcome.outer_bytes))
			fail("writes another part of the stack");
	} else {
		outcome.ring = size;
	}
	free(copy);
	return 0;
}

static long get_stack(void *context, void *to, u32 size, u64 flags)
{
	(void)context, (void)flags;
	memset(to, 0x11, size);
	return input.kernel_frames * 8 <= size ? (long)input.kernel_frames * 8 : -14;
}

static long namespaced(u64 device, u64 inode, void *to, u32 size)
{
	struct pid_and_tgid ids = { 1, input.range.pid };

	(void)device, (void)inode;
	if (size != sizeof(ids))
		fail("asks for numbers of another size");
	memcpy(to, &ids, size);
	return 0;
}

static u64 now(void)
{
	return 7;
}

static u32 processor(void)
{
	return 0;
}

/* The registers that a thread entered the kernel with, for a sample in the kernel. */
static void *task(void)
{
	the_task.thread.fsbase = input.thread;
	the_task.mm = input.ended ? 0 : (struct mm_struct *)&the_task;
	return &the_task;
}

static long task_registers(void *of)
{
	return of == &the_task ? (long)&input.registers : 0;
}

/* Zeros are before the stack and behind it. */
static int read_stack(void)
{
	u64 bytes = input.words * 8, before = input.stack % MEMORY_PAGE;

	pages_at = input.stack - before;
	pages_bytes = bytes ? (before + bytes + MEMORY_PAGE - 1) / MEMORY_PAGE * MEMORY_PAGE : 0;
	pages = calloc(1, pages_bytes + 1);
	return pages && fread(pages + (bytes ? before : 0), 1, bytes, stdin) == bytes;
}

int main(void)
{
	bpf_map_lookup_elem = lookup;
	bpf_probe_read_user = probe_read_user;
	bpf_loop = loop;
	bpf_ringbuf_output = ringbuf_output;
	bpf_get_stack = get_stack;
	bpf_get_ns_current_pid_tgid = namespaced;
	bpf_ktime_get_ns = now;
	bpf_get_smp_processor_id = processor;
	bpf_get_current_task_btf = task;
	bpf_task_pt_regs = task_registers;
	block = calloc(1, BLOCK_BYTES);
	while (fread(&input, sizeof(input), 1, stdin) == 1) {
		struct bpf_perf_event_data context = { .regs = input.registers, .sample_period = 1 };

		if (!block || input.length > BLOCK_BYTES || fread(block, 1, input.length, stdin) != input.length ||
		    !read_stack())
			return 1;
		memset(block + input.length, 0, BLOCK_BYTES - input.length);
		memset(&outcome, 0, sizeof(outcome));
		/* The user's registers are then those that the thread entered the kernel with. */
		if (input.kernel_frames)
			context.regs.cs = 0x10;
		/* The table is another one. */
		memset(&the_rows, 0, sizeof(the_rows));
		the_process.count = input.ranges;
		the_settings.copied = input.copied;
		the_walk.sample.end = NO_PROCESS;
		outcome.samples = unwind(&context);
		outcome.end = the_walk.sample.end;
		outcome.frames = the_walk.sample.user_frames;
		for (u32 frame = 0; frame < 8 && frame < outcome.frames; frame++)
			outcome.innermost[frame] = the_walk.sample.frames[the_walk.sample.kernel_frames + frame];
		if (fwrite(&outcome, sizeof(outcome), 1, stdout) != 1)
			return 1;
		free(pages);
	}
	return 0;
}
