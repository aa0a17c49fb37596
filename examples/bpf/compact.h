/* Look-ups in compact tables (crates/sframe-format/COMPACT.md), for x86-64.
 *
 * The same functions run in the kernel, where tables lie in maps, and in a test on the host, which holds them against the
 * crate's reader. Whoever includes this file defines how memory of tables is read:
 *
 *	u32 load8(u32 place); u32 load16(u32 place); u32 load32(u32 place); u64 load64(u32 place);
 *
 * A place counts bytes over all tables; 0 is read where nothing is. Tables start at multiples of 8, so that every part but
 * places of shapes and shapes is aligned. Each loop has a constant bound and no look-up writes anything, so whatever the
 * tables hold, the verifier's proof stands: a look-up ends and reads only from tables.
 */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define INLINE static inline __attribute__((always_inline))
/* A function that the verifier looks at once, for all arguments, and not wherever it is called. */
#define NOINLINE __attribute__((noinline))

/* A table, as the loader has read its header. Places of its parts count over all tables, as those of load8() do. */
struct table {
	u64 address; /* of its first byte, as the file states it */
	u32 regions, region_count;
	u32 rules, rule_count;
	u32 long_rules, long_rule_count;
	u32 pages, page_count;
	u32 steps, step_count, step_width;
	u32 starts, entry_count;
	u32 places, place_width;
	u32 shapes, end;
	u32 present; /* 0 for a file without a table */
};

u32 load8(u32 place);
u32 load16(u32 place);
u32 load32(u32 place);
u64 load64(u32 place);

enum answer { FOUND, NO_ROW, MALFORMED };

#define PAGE_BITS 16
#define PAGE_BYTES (1u << PAGE_BITS)
#define REGION_BYTES 16
#define MOST_REGION_PROBES 32
/* A page has 65536 entries at most. */
#define MOST_ENTRY_PROBES 17
#define MOST_ROWS 65

/* Shapes: how numbers are written, and what the low bits of a step say. */
#define TWO_BYTES 0xe0
#define FOUR_BYTES 0xff
#define COVERED_BITS 4
#define GOES_ON 0
#define ENDS 15

/* Rules as words. */
#define KIND(word) ((u32)((word) >> 61))
#define KIND_NOTHING 0
#define KIND_FRAME 1
#define KIND_OUTERMOST 2
#define KIND_LONG 3
#define CFA_OFFSET(word) ((s64)((word) << 42) >> 42)
#define FP_OFFSET(word) ((s64)((word) << 26) >> 48)
#define RA_OFFSET(word) ((s64)((word) << 12) >> 50)
#define CFA_BY_FP (1ull << 52)
#define RA_SAVED (1ull << 53)
#define FP_SAVED (1ull << 54)

/* Where a long rule has its parts. */
#define LONG_RULE_BYTES 32
#define LONG_CFA_READ 1
#define LONG_SIGNAL 4
#define LONG_SAVED 1
#define LONG_FROM_REGISTER 2
#define LONG_READ 4
#define LONG_KIND_FRAME 1
#define LONG_KIND_OUTERMOST 2
#define LONG_KIND_SIGNAL_CONTEXT 3

INLINE u64 region_address(const struct table *table, u32 number)
{
	return table->address + load64(table->regions + number * REGION_BYTES);
}

#define NONE 0xffffffff

/* The last region that starts at or before an address. */
NOINLINE u32 last_region(const struct table *table, u64 pc)
{
	u32 low = 0, count;

	if (!table)
		return NONE;
	count = table->region_count;
	if (count == 1)
		return 0;
	for (int probe = 0; probe < MOST_REGION_PROBES && count > 0; probe++) {
		u32 half = count / 2;

		if (region_address(table, low + half) <= pc) {
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return low ? low - 1 : NONE;
}

INLINE u32 first_entry(const struct table *table, u32 page)
{
	return load32(table->pages + page * 4);
}

INLINE u32 entry_start(const struct table *table, u32 entry)
{
	return load16(table->starts + entry * 2);
}

/* The last of some entries that starts at or before an offset in their page; `starts` is the place of the first one's. */
NOINLINE u32 last_entry(u32 starts, u32 count, u32 within)
{
	u32 low = 0;

	for (int probe = 0; probe < MOST_ENTRY_PROBES && count > 0; probe++) {
		u32 half = count / 2;

		if (load16(starts + (low + half) * 2) <= within) {
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return low ? low - 1 : NONE;
}

/* The last entry that starts at or before an address, if that is less than a page ahead. */
INLINE enum answer find_entry(const struct table *table, u64 pc, u32 *entry, u32 *offset)
{
	u32 number, page, pages, place, within, first, end, count, found;
	u64 start, distance;

	number = last_region(table, pc);
	if (number == NONE)
		return NO_ROW;
	start = region_address(table, number);
	if (pc < start)
		return NO_ROW;
	distance = pc - start;
	pages = load32(table->regions + number * REGION_BYTES + 8);
	if (distance >> PAGE_BITS > pages)
		return NO_ROW;
	page = distance >> PAGE_BITS;
	place = load32(table->regions + number * REGION_BYTES + 12) + page;
	if (place < page || place > table->page_count)
		return NO_ROW;
	within = distance & (PAGE_BYTES - 1);
	first = first_entry(table, place);
	if (page < pages) {
		end = first_entry(table, place + 1);
		if (end > table->entry_count)
			end = table->entry_count;
		count = end > first ? end - first : 0;
		if (count > PAGE_BYTES)
			count = PAGE_BYTES;
		found = last_entry(table->starts + first * 2, count, within);
		if (found != NONE) {
			*entry = first + found;
			*offset = within - entry_start(table, *entry);
			return FOUND;
		}
	}
	/* The last entry of the page before may reach into this one. */
	if (page == 0 || place == 0)
		return NO_ROW;
	if (first > table->entry_count)
		first = table->entry_count;
	if (first == 0 || first - 1 < first_entry(table, place - 1))
		return NO_ROW;
	*entry = first - 1;
	*offset = within + PAGE_BYTES - entry_start(table, *entry);
	return FOUND;
}

/* The next number of a shape. */
INLINE enum answer read_number(const struct table *table, u32 *position, u32 *number)
{
	u32 at = *position, left = table->end - at, first;

	if (at >= table->end)
		return MALFORMED;
	first = load8(at);
	if (first < TWO_BYTES) {
		*number = first;
		*position = at + 1;
		return FOUND;
	}
	if (first < FOUR_BYTES) {
		if (left < 2)
			return MALFORMED;
		*number = TWO_BYTES + ((first - TWO_BYTES) << 8) + load8(at + 1);
		*position = at + 2;
		return FOUND;
	}
	if (left < 4)
		return MALFORMED;
	*number = (u32)load8(at + 1) << 16 | (u32)load8(at + 2) << 8 | load8(at + 3);
	*position = at + 4;
	return FOUND;
}

/* Where the shape of an entry is. */
INLINE enum answer shape_of(const struct table *table, u32 entry, u32 *position)
{
	u32 at = table->places + entry * table->place_width, place;

	place = load8(at) | (u32)load8(at + 1) << 8;
	if (table->place_width > 2)
		place |= (u32)load8(at + 2) << 16;
	if (table->place_width > 3)
		place |= (u32)load8(at + 3) << 24;
	if (place >= table->end - table->shapes)
		return MALFORMED;
	*position = table->shapes + place;
	return FOUND;
}

/* In place of the number of a rule. */
#define RULE_NO_ROW 0xffffffff
#define RULE_MALFORMED 0xfffffffe

/* The number of the rule that a shape has for an offset. */
NOINLINE u32 rule_at(const struct table *table, u32 position, u32 offset)
{
	u32 step, passed = 0;

	if (!table || read_number(table, &position, &step) != FOUND)
		return RULE_MALFORMED;
	if (step == 0) {
		u32 repeat, whole;

		if (read_number(table, &position, &repeat) != FOUND ||
		    read_number(table, &position, &whole) != FOUND || repeat == 0 ||
		    read_number(table, &position, &step) != FOUND)
			return RULE_MALFORMED;
		if (offset >= whole)
			return RULE_NO_ROW;
		offset %= repeat;
	}
	for (int row = 0; row < MOST_ROWS; row++) {
		u32 word, covered, last;

		if (step >= table->step_count)
			return RULE_MALFORMED;
		word = table->step_width == 2 ? load16(table->steps + step * 2) : load32(table->steps + step * 4);
		step++;
		covered = word & ((1 << COVERED_BITS) - 1);
		last = covered == ENDS;
		if (covered == GOES_ON || last) {
			if (read_number(table, &position, &covered) != FOUND)
				return RULE_MALFORMED;
			if (!last && read_number(table, &position, &step) != FOUND)
				return RULE_MALFORMED;
		}
		if (offset - passed < covered)
			return word >> COVERED_BITS;
		if (last)
			return RULE_NO_ROW;
		passed += covered;
	}
	return RULE_MALFORMED;
}

/* The rule that holds at an address of the file, as a word; its kind is never KIND_NOTHING. */
INLINE enum answer look_up(const struct table *table, u64 pc, u64 *word)
{
	u32 entry, offset, position, rule;

	if (find_entry(table, pc, &entry, &offset) != FOUND)
		return NO_ROW;
	if (shape_of(table, entry, &position) != FOUND)
		return MALFORMED;
	rule = rule_at(table, position, offset);
	if (rule == RULE_NO_ROW)
		return NO_ROW;
	if (rule >= table->rule_count)
		return MALFORMED;
	*word = load64(table->rules + rule * 8);
	if (KIND(*word) == KIND_LONG && (u32)*word >= table->long_rule_count)
		return MALFORMED;
	return KIND(*word) == KIND_FRAME || KIND(*word) == KIND_OUTERMOST || KIND(*word) == KIND_LONG ? FOUND : NO_ROW;
}
