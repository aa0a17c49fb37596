// What Go does on a thread's own stack: the clock, larger stacks, garbage and the scheduler.
package main

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

//go:noinline
func clocks(n int) int64 {
	sum := int64(0)
	for i := 0; i < n; i++ {
		sum += time.Now().UnixNano()
	}
	return sum
}

//go:noinline
func grows(n int) int {
	var room [256]byte
	room[n%256] = byte(n)
	if n == 0 {
		return int(room[0])
	}
	return grows(n-1) + int(room[n%256])
}

type node struct{ left, right *node }

//go:noinline
func makes(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{makes(depth - 1), makes(depth - 1)}
}

//go:noinline
func yields() {
	for i := 0; i < 50; i++ {
		runtime.Gosched()
	}
}

func main() {
	end := time.Now().Add(900 * time.Millisecond)
	sum := int64(0)
	for time.Now().Before(end) {
		sum += clocks(300)
		c := make(chan int)
		go func() { c <- grows(400) }()
		sum += int64(<-c)
		if makes(10) != nil {
			sum++
		}
		yields()
	}
	fmt.Fprintln(os.Stderr, sum)
}
