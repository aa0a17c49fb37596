// Work of a known length: recursion of 20 to 80 frames, strings and sorting. Writes to a file how many nanoseconds it
// took, and how many of processor time.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

static long now(clockid_t clock)
{
	timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

struct Link {
	Link *next;
	virtual long go(int depth, long value) = 0;
};

struct Text : Link {
	__attribute__((noinline)) long go(int depth, long value) override
	{
		std::string text(depth % 40, 'x');

		return depth ? next->go(depth - 1, value + text.size()) + 1 : value;
	}
};

struct Sorts : Link {
	__attribute__((noinline)) long go(int depth, long value) override
	{
		if (depth)
			return next->go(depth - 1, value * 3) + depth;
		std::vector<int> numbers(400);
		for (size_t place = 0; place < numbers.size(); place++)
			numbers[place] = (value * 7919 + place * 31) % 1000;
		std::sort(numbers.begin(), numbers.end());
		return numbers[3];
	}
};

int main(int, char **arguments)
{
	long start = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID), sum = 0;
	Text text;
	Sorts sorts;

	text.next = &sorts;
	sorts.next = &text;
	for (int round = 0; round < 200000; round++)
		sum += text.go(20 + round % 60, round);
	used = now(CLOCK_PROCESS_CPUTIME_ID) - used;
	start = now(CLOCK_MONOTONIC) - start;
	FILE *to = fopen(arguments[1], "w");
	return to && fprintf(to, "%ld %ld %ld\n", start, used, sum) > 0 && !fclose(to) ? 0 : 1;
}
