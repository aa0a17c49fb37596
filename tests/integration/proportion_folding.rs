//! `--icf` on inputs that need many rounds. The limits are those of `proportion`.

use crate::proportion::{lines, within};
use crate::support::Work;

/// The number of sections that a link folds.
fn folded(text: &str) -> usize {
    let work = Work::new();
    let object = work.s("object", &format!(".globl _start\n_start: ret\n{text}"));
    within(&work, &[&object, "--icf=all", "--ignore-data-address-equality", "--print-icf-sections"])
        .ok()
        .stdout
        .matches("removing")
        .count()
}

/// Each function calls the next one. No two are equal, and each round finds this out for one more of them.
#[test]
fn a_chain_of_equal_callers() {
    let count = 50_000;
    let call = |chain: &str, n: usize| {
        format!(".section .text.{chain}{n},\"ax\"\n{chain}{n}: call {chain}{}\nret", n + 1)
    };
    let end = |chain: &str| format!(".section .text.end{chain},\"ax\"\n{chain}{count}: nop\nret\n");
    let first = lines(count, |n| call("f", n)) + &end("f");
    assert_eq!(folded(&first), 0);
    // With a second chain, each function has an equal one.
    let second = lines(count, |n| call("g", n)) + &end("g");
    assert_eq!(folded(&(first.clone() + &second)), count + 1);
    // All parts of a ring of the same length are equal.
    let ring = first.replace(&format!("call f{count}\n"), "call f0\n");
    assert_eq!(folded(&ring), count - 1);
}

/// Two functions call a whole chain, so in each round one of their many callees changes.
#[test]
fn callers_of_a_whole_chain() {
    let count = 20_000;
    let chain = lines(count, |n| format!(".section .text.f{n},\"ax\"\nf{n}: call f{}\nret", n + 1));
    let all =
        |name: &str| format!(".section .text.{name},\"ax\"\n{}", lines(count, |n| format!("call f{n}")));
    let end = format!(".section .text.end,\"ax\"\nf{count}: nop\nret\n");
    assert_eq!(folded(&[chain, end, all("a"), all("b")].concat()), 1);
}

/// Any number of sections may describe a function, which refers to the last one.
#[test]
fn sections_that_describe_one_function() {
    let count = 15_000;
    let function = |name: &str| {
        let tables = lines(count, |n| {
            format!(".section .rodata.{name}{n},\"ao\",@progbits,.text.{name}\n.L{name}{n}: .quad {n}")
        });
        let last = format!("lea .L{name}{}(%rip), %rax\n", count - 1).repeat(count);
        format!(".section .text.{name},\"ax\"\n{name}: {last}ret\n{tables}")
    };
    assert_eq!(folded(&(function("a") + &function("b"))), count + 1);
}
