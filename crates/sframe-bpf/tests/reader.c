/* The look-ups of the kernel's program, on the host. Standard input: the length of a table in 8 bytes, struct table, the table, and addresses;
 * standard output: for each address the answer and the rule's word, 8 bytes each.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compact.h"

static u8 *memory;
static u64 length;

/* Nothing is there behind the tables. */
static u64 load(u32 place, u32 size)
{
	u64 value = 0;

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
	u64 pc;

	if (fread(&length, sizeof(length), 1, stdin) != 1 || fread(&table, sizeof(table), 1, stdin) != 1)
		return 1;
	memory = malloc(length);
	if (!memory || fread(memory, 1, length, stdin) != length)
		return 1;
	while (fread(&pc, sizeof(pc), 1, stdin) == 1) {
		u64 result[2] = { 0, 0 };

		result[0] = look_up(&table, pc, &result[1]);
		if (fwrite(result, sizeof(result), 1, stdout) != 1)
			return 1;
	}
	return 0;
}
