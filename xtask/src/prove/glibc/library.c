/* A function of a library, with a frame of its own. */
int through_library(int (*call)(int), int n)
{
    volatile char room[500];
    room[n] = 3;
    return call(n) + room[n];
}
