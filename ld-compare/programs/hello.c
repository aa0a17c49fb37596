#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static const char *const words[] = {"one", "two", "three"};
int counter;
int main(int argc, char **argv) {
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof *numbers, compare);
    counter += (int)strlen(words[argc % 3]);
    printf("hello %d %d%d%d %d\n", argc, numbers[0], numbers[1], numbers[2], counter);
    return 0;
}
