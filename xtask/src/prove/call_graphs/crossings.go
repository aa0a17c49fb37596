// Calls from Go to C, back to Go, and to C again. C keeps a frame pointer.
package main

/*
#include <stdint.h>

extern int64_t goCallback(int64_t n);

static __attribute__((noinline)) int64_t c_spin(int64_t n)
{
	volatile int64_t sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += i;
	return sum;
}

static __attribute__((noinline)) int64_t c_calls_back(int64_t n)
{
	volatile char room[n * 16 + 16];

	room[n] = 1;
	return goCallback(n) + c_spin(1000) + room[n];
}

static int64_t c_outer(int64_t n)
{
	return c_calls_back(n) * 3;
}

static int64_t c_alone(int64_t n)
{
	return c_spin(n) + 1;
}
*/
import "C"

import (
	"fmt"
	"os"
	"time"
)

//go:noinline
func spins(n int64) int64 {
	sum := int64(0)
	for i := int64(0); i < n; i++ {
		sum += i * i
	}
	return sum
}

//go:noinline
func nested(n int64) int64 {
	if n > 0 {
		return int64(C.c_outer(C.int64_t(n - 1)))
	}
	return spins(2000) + int64(len(makesGarbage()))
}

var kept [][]byte

//go:noinline
func makesGarbage() [][]byte {
	kept = kept[:0]
	for i := 0; i < 20; i++ {
		kept = append(kept, make([]byte, 4000))
	}
	return kept
}

//export goCallback
func goCallback(n C.int64_t) C.int64_t {
	return C.int64_t(nested(int64(n)) + spins(1000))
}

//go:noinline
func alone() int64 { return int64(C.c_alone(2000)) }

func main() {
	end := time.Now().Add(900 * time.Millisecond)
	sum := int64(0)
	for time.Now().Before(end) {
		sum += nested(3) + alone()
		c := make(chan int64)
		go func() { c <- nested(2) }()
		sum += <-c
	}
	fmt.Fprintln(os.Stderr, sum)
}
