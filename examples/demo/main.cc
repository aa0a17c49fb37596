// The program: areas of shapes, computed in two files of assembly.
#include <cstdio>

int area_of_disc(int radius);      // disc.s
int area_of_ring(int outer, int inner); // ring.s

int main() {
    std::printf("disc %d, ring %d\n", area_of_disc(10), area_of_ring(10, 5));
}
