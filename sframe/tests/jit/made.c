/* Code that is made as another program runs: it calls back, and keeps no frame pointer. */
unsigned long made(unsigned long times, unsigned long (*work)(unsigned long))
{
	unsigned long sum = 0;

	for (unsigned long i = 0; i < times; i++)
		sum += 3 * work(i);
	return sum;
}
