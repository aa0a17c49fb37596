//! `--optimize-bb-jumps` in programs that run.

use crate::support::Work;

/// A function in six sections, as `-fbasic-block-sections` makes them. `visit(n, call)` adds what `call`
/// gives for n, n - 1 and so on. While it calls, it has more on the stack than in other blocks.
const BLOCKS: &str = r#"
 .macro block name, more=0
 .section .text.visit,"ax",@progbits,unique,\@
\name:
 .cfi_startproc
 .cfi_def_cfa_offset 32 + \more
 .cfi_offset %rbx,-16
 .cfi_offset %r12,-24
 .cfi_offset %r13,-32
 .endm
 .macro end name
 .cfi_endproc
 .size \name,.-\name
 .endm
 .section .text.visit,"ax",@progbits
 .p2align 4
 .globl visit
 .type visit,@function
visit:
 .cfi_startproc
 push %rbx
 .cfi_def_cfa_offset 16
 .cfi_offset %rbx,-16
 push %r12
 .cfi_def_cfa_offset 24
 .cfi_offset %r12,-24
 push %r13
 .cfi_def_cfa_offset 32
 .cfi_offset %r13,-32
 mov %edi,%ebx
 mov %rsi,%r12
 xor %r13d,%r13d
 jmp visit.test
 end visit
 block visit.test
 test %ebx,%ebx
 jg visit.push
 jmp visit.return
 end visit.test
 block visit.push
 sub $16,%rsp
 .cfi_def_cfa_offset 48
 jmp visit.call
 end visit.push
 block visit.call,16
 mov %ebx,%edi
 call *%r12
 add %eax,%r13d
 jmp visit.pop
 end visit.call
 block visit.pop,16
 add $16,%rsp
 .cfi_def_cfa_offset 32
 dec %ebx
 jmp visit.test
 end visit.pop
 block visit.return
 mov %r13d,%eax
 pop %r13
 .cfi_def_cfa_offset 24
 pop %r12
 .cfi_def_cfa_offset 16
 pop %rbx
 .cfi_def_cfa_offset 8
 ret
 end visit.return
"#;

const MAIN: &str = r#"
#include <cstdio>
#include <stdexcept>
extern "C" int visit(int count, int (*call)(int));
static int square(int n) { if (n == 7) throw std::runtime_error("seven"); return n * n; }
int main() {
    std::printf("%d %d\n", visit(6, square), visit(0, square));
    try { visit(9, square); } catch (std::runtime_error &error) { std::puts(error.what()); }
    try { visit(7, [](int n) -> int { throw n; }); } catch (int n) { std::printf("%d\n", n); }
    return 0;
}
"#;

#[test]
fn exceptions_pass_blocks_without_jumps() {
    let work = Work::new();
    let (blocks, main) = (work.s("blocks", BLOCKS), work.cc("main", MAIN, &["-O2"]));
    let link = |options: &[&str]| {
        work.gxx(&[&["-o", "program", &blocks, &main], options].concat()).ok();
        assert_eq!(work.run("program"), "91 0\nseven\n7\n", "{options:?}");
        work.elf("program").section(".text").size
    };
    for kind in ["-pie", "-no-pie", "-static"] {
        let whole = link(&[kind]);
        // Three jumps, one that the turned condition replaces, and perhaps some of the C library. The code
        // behind them is aligned.
        let optimized = link(&[kind, "-Wl,--optimize-bb-jumps"]);
        assert!(optimized + 5 <= whole, "{kind}: {whole} {optimized}");
        for others in [
            "-Wl,--optimize-bb-jumps,--emit-relocs,--icf=all,--gc-sections",
            "-Wl,--optimize-bb-jumps,--sframe-index,--sframe-from-eh-frame=all",
            "-Wl,--optimize-bb-jumps,--unwind-table=add",
            "-Wl,--optimize-bb-jumps,--shuffle-sections=*=3",
        ] {
            link(&[kind, others]);
        }
    }
}
