/* The outer part of a stack of which an event copies only the top. unwind.bpf.c includes this for its walk and its reads. */

/* A chain of frame pointers; each leads to a place that has the next one and a return address. */
#define MOST_LINKS 256
#define LARGEST_STACK (1 << 30)
struct chain {
	struct walk *walk;
	u64 at;
	u64 copied; /* where a copy of the stack would end if all pages were there */
	u64 is_outside; /* whether the place is not in the copy */
};

/* Whether the pages between two places are there. A copy ends at one that is not: nobody has written to a part of a large array yet.
 * The largest copy has so many pages.
 */
#define MOST_PAGES 16
INLINE int are_there(u64 from, u64 to)
{
	u64 page = (from | (MEMORY_PAGE - 1)) + 1, word;

	for (int number = 0; number < MOST_PAGES && page + MEMORY_PAGE <= to; number++, page += MEMORY_PAGE)
		if (!read_user(&word, sizeof(word), page))
			return 0;
	return 1;
}

/* Goes to a place further out. */
INLINE void go_out(struct chain *chain, u64 from, u64 to)
{
	chain->at = to;
	chain->is_outside = to + 16 > chain->copied || !are_there(from, to);
}

/* Goes to the next place. Gives 1 at the end. */
static long next_link(u32 index, struct chain *chain)
{
	u64 next;

	(void)index;
	if (!read_word(chain->walk, &next, chain->at) || next <= chain->at || next & 7)
		return 1;
	go_out(chain, chain->at, next);
	return chain->is_outside;
}

/* Writes the part of the stack that is not in the event's copy, from the first frame on whose place the frame pointers say. Nothing
 * else leads there: a function with a large array or alloca() has such a frame, and all its callers are behind it.
 */
INLINE void write_outer(struct walk *walk, u32 copied)
{
	struct outer *outer = &walk->outer;
	struct chain chain = { walk, 0, walk->first_sp + copied, 0 };
	u64 bytes;

	if (!copied || walk->first_fp - walk->first_sp >= LARGEST_STACK || walk->first_fp & 7)
		return;
	walk->window_bytes = 0;
	go_out(&chain, walk->first_sp, walk->first_fp);
	if (!chain.is_outside)
		bpf_loop(MOST_LINKS, next_link, &chain, 0);
	if (!chain.is_outside)
		return;
	/* Up to the end of the page and, if there is one, the next page. */
	bytes = MEMORY_PAGE - (chain.at & (MEMORY_PAGE - 1));
	if (!read_user(outer->bytes, bytes, chain.at))
		return;
	if (read_user(outer->bytes + bytes, MEMORY_PAGE, chain.at + bytes))
		bytes += MEMORY_PAGE;
	outer->time = walk->sample.time;
	outer->address = chain.at;
	outer->pid = walk->sample.pid;
	outer->tid = walk->sample.tid;
	outer->cpu = walk->sample.cpu;
	outer->end = OUTER_STACK;
	bpf_ringbuf_output(&ring, outer, sizeof(*outer) - sizeof(outer->bytes) + bytes, BPF_RB_NO_WAKEUP);
}
