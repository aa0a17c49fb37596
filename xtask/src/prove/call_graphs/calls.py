"""Calls functions of Python, and its own ones in C."""
import time


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def sorts(n):
    return sorted(range(n), key=lambda number: number * 7919 % 1009)[0]


def joins(n):
    return len(",".join(map(str, range(n))))


end = time.time() + 2
while time.time() < end:
    fib(17), sorts(3000), joins(3000)
