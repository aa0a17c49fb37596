/* Functions whose callers are known: through recursion, frames of variable size, realigned frames, parts that
   the compiler moves away, and tail calls. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#define APART __attribute__((noinline, noclone))

static volatile unsigned sink;

APART unsigned leaf(unsigned n)
{
	unsigned sum = n;
	for (unsigned i = 0; i < 2000; i++)
		sum = sum * 31 + i;
	return sum;
}

APART unsigned tail(unsigned n) { return leaf(n + 1); }

APART unsigned variable(unsigned n)
{
	char room[n % 100 + 20];
	memset(room, n, 20);
	return leaf(n) + room[n % 20];
}

APART unsigned realigned(unsigned n)
{
	char room[n % 64 + 64];
	unsigned lines[16] __attribute__((aligned(64)));
	memset(room, n, sizeof room);
	memset(lines, n, sizeof lines);
	return variable(n) + lines[n % 16] + room[n % 64];
}

APART __attribute__((cold)) void rare(unsigned n) { sink += leaf(n); }

APART unsigned divided(unsigned n, volatile unsigned *odd)
{
	char room[64];
	memset(room, n, sizeof room);
	if (__builtin_expect(*odd, 0)) {
		sink += room[n % 64];
		rare(n);
		sink += room[(n + 1) % 64];
		rare(n + 1);
		return room[1];
	}
	return room[n % 64] + leaf(n);
}

APART unsigned deep(unsigned n) { return n ? deep(n - 1) + 1 : leaf(n); }

APART unsigned saves(unsigned a, unsigned b, unsigned c, unsigned d)
{
	unsigned w = leaf(a), x = tail(b) + 1, y = leaf(c), z = leaf(d);
	return w + x * 3 + y * 5 + z * 7 + a + b + c + d;
}

int main(int count, char **words)
{
	volatile unsigned odd = 0;
	long end = (count > 1 ? atol(words[1]) : 700) * (CLOCKS_PER_SEC / 1000);
	while (clock() < end)
		for (unsigned i = 0; i < 50; i++) {
			odd = i & 1;
			sink += realigned(i) + divided(i, &odd) + deep(i) + saves(i, 2, 3, 4);
		}
	return 0;
}
