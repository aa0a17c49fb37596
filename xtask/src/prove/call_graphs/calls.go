// Goroutines, interfaces and a recursion, whose callers are known.
package main

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"
)

type words []string

func (w words) Len() int           { return len(w) }
func (w words) Less(i, j int) bool { return w[i] < w[j] }
func (w words) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }

//go:noinline
func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

//go:noinline
func sorts() int {
	w := make(words, 0, 1000)
	for i := 0; i < 1000; i++ {
		w = append(w, strconv.Itoa(i*7919%1000))
	}
	sort.Sort(w)
	return len(w)
}

//go:noinline
func counts() int {
	m := map[string]int{}
	for i := 0; i < 1000; i++ {
		m[strconv.Itoa(i)] = i
	}
	return len(m)
}

func main() {
	end := time.Now().Add(700 * time.Millisecond)
	sum := 0
	for time.Now().Before(end) {
		sum += fib(18) + sorts() + counts()
		c := make(chan int)
		go func() { c <- fib(15) }()
		sum += <-c
	}
	fmt.Fprintln(os.Stderr, sum)
}
