/* Calls the functions of assembly.S, which call back. */
#include <stdlib.h>
#include <time.h>
#define APART __attribute__((noinline, noclone))

static volatile unsigned sink;
unsigned pushes(unsigned), aligns(unsigned), keeps(unsigned), chooses(unsigned);

APART unsigned leaf(unsigned n)
{
	unsigned sum = n;
	for (unsigned i = 0; i < 2000; i++)
		sum = sum * 31 + i;
	return sum;
}

APART unsigned one(unsigned n) { return leaf(n) + 1; }
APART unsigned two(unsigned n) { return leaf(n) + 2; }

int main(int count, char **words)
{
	long end = (count > 1 ? atol(words[1]) : 700) * (CLOCKS_PER_SEC / 1000);
	while (clock() < end)
		for (unsigned i = 0; i < 8; i++)
			sink += pushes(i) + aligns(i) + keeps(i) + chooses(i);
	return 0;
}
