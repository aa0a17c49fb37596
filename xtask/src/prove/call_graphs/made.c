/* Functions that call one another through code that the program makes, as functions of Python do with
   `-X perf`: it only moves the stack pointer, and nothing but its instructions says so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#define APART __attribute__((noinline, noclone))

typedef unsigned Function(unsigned n, unsigned depth);
typedef unsigned Made(unsigned n, unsigned depth, unsigned none, Function *function);

static volatile unsigned sink;
static Made *made[2];

APART unsigned leaf(unsigned n)
{
	unsigned sum = n;
	for (unsigned i = 0; i < 2000; i++)
		sum = sum * 31 + i;
	return sum;
}

static unsigned evaluates(unsigned n, unsigned depth);

APART unsigned passes(unsigned n, unsigned depth) { return made[depth % 2](n, depth, 0, evaluates) + depth; }

APART unsigned evaluates(unsigned n, unsigned depth)
{
	char room[48];
	memset(room, n, sizeof room);
	return (depth ? passes(n, depth - 1) : leaf(n)) + room[n % 48];
}

int main(int count, char **words)
{
	/* sub $8,%rsp; call *%rcx; add $8,%rsp; ret */
	static const unsigned char code[] = { 0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3 };
	static const char *const names[] = { "made_even", "made_odd" };
	unsigned char *place = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long end = (count > 1 ? atol(words[1]) : 700) * (CLOCKS_PER_SEC / 1000);
	char path[64];
	snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
	FILE *list = fopen(path, "w");
	for (unsigned i = 0; i < 2; i++) {
		made[i] = (Made *)memcpy(place + i * 32, code, sizeof code);
		fprintf(list, "%lx %zx %s\n", (unsigned long)made[i], sizeof code, names[i]);
	}
	fclose(list);
	while (clock() < end)
		for (unsigned i = 0; i < 100; i++)
			sink += evaluates(i, i % 10 + 1);
	return 0;
}
