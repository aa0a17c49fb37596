/* Loads an object file, as compilers do with code that they have just made, and tells gdb of it as gdb's
 * manual says ("JIT Interface"). The section has the address of the code in the copy that gdb may read. */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct jit_code_entry {
	struct jit_code_entry *next, *prev;
	const char *symfile_addr;
	uint64_t symfile_size;
};
struct jit_descriptor {
	uint32_t version, action_flag;
	struct jit_code_entry *relevant_entry, *first_entry;
};
struct jit_descriptor __jit_debug_descriptor = { 1, 0, 0, 0 };
void __attribute__((noinline)) __jit_debug_register_code(void)
{
	__asm__ volatile("");
}

static unsigned long __attribute__((noinline)) work(unsigned long number)
{
	for (int i = 0; i < 100000; i++)
		__asm__ volatile("" : "+r"(number));
	return number;
}

int main(int count, char **words)
{
	static char object[1 << 16];
	static struct jit_code_entry entry;
	FILE *file = count > 1 ? fopen(words[1], "rb") : 0;
	size_t size = file ? fread(object, 1, sizeof object, file) : 0;
	Elf64_Ehdr *header = (Elf64_Ehdr *)object;
	Elf64_Shdr *sections = (Elf64_Shdr *)(object + header->e_shoff);
	const char *names = object + sections[header->e_shstrndx].sh_offset;
	char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long (*made)(unsigned long, unsigned long (*)(unsigned long));
#ifdef ROOM
	volatile char room[ROOM]; /* Copies of the stack end in it. */

	room[0] = 1;
#endif
	for (int i = 0; size && i < header->e_shnum; i++) {
		if (strcmp(names + sections[i].sh_name, ".text"))
			continue;
		memcpy(code, object + sections[i].sh_offset, sections[i].sh_size);
		sections[i].sh_addr = (uintptr_t)code;
	}
	entry.symfile_addr = object;
	entry.symfile_size = size;
	__jit_debug_descriptor.relevant_entry = __jit_debug_descriptor.first_entry = &entry;
	__jit_debug_descriptor.action_flag = 1;
	__jit_debug_register_code();
	memcpy(&made, &code, sizeof made);
	return made(8000, work) == 1;
}
