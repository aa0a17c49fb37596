/* The look-ups of the kernel's program, on the host. Standard input, again and again to its end: the
 * length of a table in 8 bytes, struct table, the table, the number of addresses in 8 bytes, and the
 * addresses; standard output: for each address the answer, the rule's word and the number of loads that
 * the look-up took, 8 bytes each. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compact.h"

static u8 *memory;
static u64 length, loads;

/* Nothing is there behind the tables. */
static u64 load(u32 place, u32 size)
{
	u64 value = 0;

	loads++;
	if (place < length && size <= length - place)
		memcpy(&value, memory + place, size);
	return value;
}

u32 load8(u32 place)
{
	return load(place, 1);
}

u32 load16(u32 place)
{
	return load(place, 2);
}

u32 load32(u32 place)
{
	return load(place, 4);
}

u64 load64(u32 place)
{
	return load(place, 8);
}

int main(void)
{
	struct table table;
	u64 pc, count;

	while (fread(&length, sizeof(length), 1, stdin) == 1) {
		if (fread(&table, sizeof(table), 1, stdin) != 1)
			return 1;
		/* Of the very length, so that an address sanitizer sees what lies behind. */
		memory = malloc(length);
		if (!memory || fread(memory, 1, length, stdin) != length || fread(&count, sizeof(count), 1, stdin) != 1)
			return 1;
		for (; count > 0; count--) {
			u64 result[3] = { 0, 0, 0 };

			if (fread(&pc, sizeof(pc), 1, stdin) != 1)
				return 1;
			loads = 0;
			result[0] = look_up(&table, pc, &result[1]);
			result[2] = loads;
			if (fwrite(result, sizeof(result), 1, stdout) != 1)
				return 1;
		}
		free(memory);
	}
	return 0;
}
