/* A handler on a stack of its own interrupts functions at any instruction. */
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#define APART __attribute__((noinline, noclone))

static volatile unsigned sink;
static char room[1 << 16];

APART unsigned leaf(unsigned n)
{
	unsigned sum = n;
	for (unsigned i = 0; i < 2000; i++)
		sum = sum * 31 + i;
	return sum;
}

APART void handled(unsigned n) { sink += leaf(n); }
static void on_alarm(int number) { for (int i = 0; i < 100; i++) handled(number); }
APART unsigned interrupted(unsigned n) { return n ? interrupted(n - 1) + n : sink; }

int main(int count, char **words)
{
	stack_t stack = { .ss_sp = room, .ss_size = sizeof room };
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_ONSTACK };
	struct itimerval timer = { { 0, 1000 }, { 0, 1000 } };
	long end = (count > 1 ? atol(words[1]) : 700) * (CLOCKS_PER_SEC / 1000);
	sigaltstack(&stack, 0);
	sigaction(SIGALRM, &action, 0);
	setitimer(ITIMER_REAL, &timer, 0);
	while (clock() < end)
		for (unsigned i = 0; i < 100; i++)
			sink += interrupted(i);
	return 0;
}
