//! Tests rows on code written by hand, and on C libraries, whose `.eh_frame` says what is right.

use super::functions::{Functions, Known};
use super::names::Names;
use super::switch::{Back, FramePointer, From, Switch, aligned};
use super::{Area, Code, aligns};
use crate::bytes::Bytes;
use crate::files::{Files, Options as FileOptions};
use crate::image::{Image, Segment, Sources};
use object::{Object, ObjectSection};
use sframe_format::derive::{Scratch, derive};
use sframe_format::write::{Function, Options, write_sorted};
use sframe_format::{
    Abi, CfaRule, FrameAddress, Module, ModuleId, RegisterRule, Rules, SectionIndex, Source, Unwinder,
};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The rows of code at 0x1000, each with the address where it begins.
fn rows(abi: Abi, code: &[u8]) -> Vec<String> {
    let areas = vec![Area { address: 0x1000, code }];
    let functions = Functions::new(&[], vec![]);
    let functions = Code { abi, areas, functions: &functions }.rows_outside(vec![]);
    functions.iter().flat_map(described).collect()
}

/// The rows of a function at an address, and where it ends.
fn described((address, function): &(u64, Function)) -> Vec<String> {
    let rows = function.rows.iter().map(|row| {
        let at = address + u64::from(row.start);
        format!("{at:x} {}", row.to_string().split_once(": ").unwrap().1)
    });
    rows.chain([format!("{:x} end", address + u64::from(function.size))]).collect()
}

#[test]
fn an_x86_64_plt_without_frames_has_a_row_for_each_state() {
    // push GOT+8(%rip); jmp *GOT+16(%rip); nop; jmp *GOT+24(%rip); push $0; jmp to the first
    let code = [
        0xff, 0x35, 2, 0, 0, 0, 0xff, 0x25, 4, 0, 0, 0, 0x0f, 0x1f, 0x40, 0, 0xff, 0x25, 2, 0, 0, 0, 0x68, 0,
        0, 0, 0, 0xe9, 0xe0, 0xff, 0xff, 0xff,
    ];
    let row = |at: u64, offset: u32| format!("{at:x} cfa=r7+{offset} fp=u ra=*(cfa-8)");
    let end = |at: u64| format!("{at:x} end");
    let expected =
        [row(0x1000, 16), row(0x1006, 24), end(0x100c), row(0x1010, 8), row(0x101b, 16), end(0x1020)];
    assert_eq!(rows(Abi::Amd64, &code), expected);
}

/// Entries that push their number leave nothing on the stack for the next entry.
#[test]
fn each_entry_of_an_x86_64_plt_begins_anew() {
    let first = [0xff, 0x35, 2, 0, 0, 0, 0xff, 0x25, 4, 0, 0, 0, 0x0f, 0x1f, 0x40, 0];
    // jmp *GOT(%rip); push; jmp to the first
    let lazy = [0xff, 0x25, 2, 0, 0, 0, 0x68, 0, 0, 0, 0, 0xe9, 0xe0, 0xff, 0xff, 0xff];
    // endbr64; push; bnd jmp to the first; nop
    let with_branch_tracking =
        [0xf3, 0x0f, 0x1e, 0xfa, 0x68, 0, 0, 0, 0, 0xf2, 0xe9, 0xe1, 0xff, 0xff, 0xff, 0x90];
    for (mut entry, pushed, jump) in [(lazy, 0xb, 0xc), (with_branch_tracking, 0x9, 0xb)] {
        let mut code = first.to_vec();
        for _ in 0..3 {
            code.extend(entry);
            entry[jump] -= 0x10;
        }
        let found = rows(Abi::Amd64, &code);
        for start in [0x1010, 0x1020, 0x1030] {
            for (at, offset) in [(start, 8), (start + pushed, 16)] {
                let wanted = format!("{at:x} cfa=r7+{offset} fp=u ra=*(cfa-8)");
                assert!(found.contains(&wanted), "no {wanted} in {found:#?}");
            }
        }
    }
}

#[test]
fn a_branch_takes_the_frame_along_behind_a_return() {
    // push %rbp; mov %rsp,%rbp; sub $32,%rsp; je 1f; leave; ret; 1: call; leave; ret
    let code = [
        0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20, 0x74, 0x02, 0xc9, 0xc3, 0xe8, 0, 0, 0, 0, 0xc9, 0xc3,
    ];
    assert_eq!(
        rows(Abi::Amd64, &code),
        [
            "1000 cfa=r7+8 fp=u ra=*(cfa-8)",
            "1001 cfa=r7+16 fp=*(cfa-16) ra=*(cfa-8)",
            "1004 cfa=r6+16 fp=*(cfa-16) ra=*(cfa-8)",
            "100b cfa=r7+8 fp=u ra=*(cfa-8)",
            "100c cfa=r6+16 fp=*(cfa-16) ra=*(cfa-8)",
            "1012 cfa=r7+8 fp=u ra=*(cfa-8)",
            "1013 end"
        ]
    );
}

/// Functions of V8 take the return address into a register, move arguments below it, and put it back: before
/// they make a frame, and as they return.
#[test]
fn a_return_address_that_makes_room_for_arguments_is_followed() {
    // pop %rax; push %rbx; push %rax; push %rbp; mov %rsp,%rbp; call *%rdx; leave; pop %rcx; add %rbx,%rsp;
    // push %rcx; ret
    let code =
        vec![0x58, 0x53, 0x50, 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd2, 0xc9, 0x59, 0x48, 0x01, 0xdc, 0x51, 0xc3];
    let expected = [
        "1000 cfa=r7+8 fp=u ra=*(cfa-8)",
        "1001 end",
        "1003 cfa=r7+8 fp=u ra=*(cfa-8)",
        "1004 cfa=r7+16 fp=*(cfa-16) ra=*(cfa-8)",
        "1007 cfa=r6+16 fp=*(cfa-16) ra=*(cfa-8)",
        "100a cfa=r7+8 fp=u ra=*(cfa-8)",
        "100b end",
        "100f cfa=r7+8 fp=u ra=*(cfa-8)",
        "1010 end",
    ];
    assert_eq!(rows_of(&code, &[(0x1000..0x1010, false)]), expected);
    // pop %rbx; push %rbx: it is no return address.
    let code = [0x53, 0x55, 0x5d, 0x5b, 0x53, 0x5b, 0xc3];
    let expected = [
        "1000 cfa=r7+8 fp=u ra=*(cfa-8)",
        "1001 cfa=r7+16 fp=u ra=*(cfa-8)",
        "1002 cfa=r7+24 fp=*(cfa-24) ra=*(cfa-8)",
        "1003 cfa=r7+16 fp=u ra=*(cfa-8)",
        "1004 cfa=r7+8 fp=u ra=*(cfa-8)",
        "1005 cfa=r7+16 fp=u ra=*(cfa-8)",
        "1006 cfa=r7+8 fp=u ra=*(cfa-8)",
        "1007 end",
    ];
    assert_eq!(rows_of(&code, &[(0x1000..0x1007, false)]), expected);
}

/// A word that is taken and put back while the return address is in another register does not put that back:
/// so V8 takes the receiver, too, as it adds bound arguments.
#[test]
fn a_word_that_is_taken_behind_the_return_address_does_not_put_that_back() {
    // pop %r8; pop %r10; push %rbx; push %r10; push %r8; ret
    let code = [0x41, 0x58, 0x41, 0x5a, 0x53, 0x41, 0x52, 0x41, 0x50, 0xc3];
    let expected =
        ["1000 cfa=r7+8 fp=u ra=*(cfa-8)", "1002 end", "1009 cfa=r7+8 fp=u ra=*(cfa-8)", "100a end"];
    assert_eq!(rows_of(&code, &[(0x1000..0x100a, false)]), expected);
    // pop %rcx; pop %rax; push %rcx; push %rax; pop %rdx; ret: the return address comes first.
    let code = [0x59, 0x58, 0x51, 0x50, 0x5a, 0xc3];
    let expected = [
        "1000 cfa=r7+8 fp=u ra=*(cfa-8)",
        "1001 end",
        "1003 cfa=r7+8 fp=u ra=*(cfa-8)",
        "1004 cfa=r7+16 fp=u ra=*(cfa-8)",
        "1005 cfa=r7+8 fp=u ra=*(cfa-8)",
        "1006 end",
    ];
    assert_eq!(rows_of(&code, &[(0x1000..0x1006, false)]), expected);
}

/// Where arguments are added or dropped below the return address, the CFA moves, and what was as far from it
/// as the frame pointer is not any more.
#[test]
fn a_frame_pointer_does_not_lead_to_a_return_address_that_has_moved() {
    // mov %rsp,%rbp; pop %rax; push %rbx; push %rax; and $-16,%rsp; nop; ret
    let code = [0x48, 0x89, 0xe5, 0x58, 0x53, 0x50, 0x48, 0x83, 0xe4, 0xf0, 0x90, 0xc3];
    let rows = rows_of(&code, &[(0x1000..0x100c, false)]);
    assert!(rows.iter().all(|row| !row.contains("r6")), "{rows:?}");
}

/// Functions at these places. The last element of each says whether it is a part of the first.
fn functions_at(known: &[(Range<u64>, bool)]) -> Functions {
    let known = known.iter().map(|(range, is_part)| Known {
        start: range.start,
        end: range.end,
        name: if *is_part { 2 } else { 0 },
    });
    let mut names = Names::default();
    names.add(b"f\0f.cold\0".to_vec().into());
    Functions::new(&known.collect::<Vec<_>>(), vec![]).with_names(names)
}

/// The rows outside a range of functions at these places of code at 0x1000.
fn rows_outside(code: &[u8], known: &[(Range<u64>, bool)], covered: Range<u64>) -> Vec<String> {
    let (areas, functions) = (vec![Area { address: 0x1000, code }], functions_at(known));
    let found = Code { abi: Abi::Amd64, areas, functions: &functions }.rows_outside(vec![covered]);
    found.iter().flat_map(described).collect()
}

/// The rows of functions at these places of code at 0x1000.
fn rows_of(code: &[u8], known: &[(Range<u64>, bool)]) -> Vec<String> {
    let functions = functions_at(known);
    let areas = vec![Area { address: 0x1000, code }];
    let gap = 0..u64::MAX;
    let others: Vec<_> = functions.others_of(0x1000).map(|other| functions.piece(&other, &gap)).collect();
    let pieces = [vec![functions.piece_at(0x1000, &gap)], others].concat();
    let found = Code { abi: Abi::Amd64, areas, functions: &functions }.rows_of(&pieces);
    found.iter().flat_map(described).collect()
}

/// Behind the return is a block to which only a later branch leads, as Go arranges loops. No function begins
/// there.
#[test]
fn a_branch_backwards_takes_the_frame_along() {
    // sub $24,%rsp; jmp 2f; add $24,%rsp; ret; 1: call; 2: jne 1b; jmp to the add
    let code = [
        0x48, 0x83, 0xec, 0x18, 0xeb, 0x0a, 0x48, 0x83, 0xc4, 0x18, 0xc3, 0xe8, 0, 0, 0, 0, 0x75, 0xf9, 0xeb,
        0xf2,
    ];
    let row = |at: u64, offset: u32| format!("{at:x} cfa=r7+{offset} fp=u ra=*(cfa-8)");
    let expected = [row(0x1000, 8), row(0x1004, 32), row(0x100a, 8), row(0x100b, 32), "1014 end".into()];
    assert_eq!(rows_of(&code, &[(0x1000..0x1014, false)]), expected);
}

/// Go moves stacks while C runs, and C gives the frame pointer back that it was given.
#[test]
fn code_whose_stack_may_be_moved_counts_from_the_stack_pointer() {
    // push %rbp; mov %rsp,%rbp; sub $32,%rsp; call; and $-16,%rsp; call; leave; ret
    let code = [
        0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20, 0xe8, 0, 1, 0, 0, 0x48, 0x83, 0xe4, 0xf0, 0xe8, 0, 1,
        0, 0, 0xc9, 0xc3,
    ];
    let rows = |moving: Range<u64>| {
        let known = Known { start: 0x1000, end: 0x1018, name: 0 };
        let functions = Functions::new(&[known], vec![]).with_moving(moving);
        let code = Code {
            abi: Abi::Amd64,
            areas: vec![Area { address: 0x1000, code: &code }],
            functions: &functions,
        };
        code.rows_outside(vec![]).iter().flat_map(described).collect::<Vec<_>>()
    };
    let row = |cfa: &str| format!("{cfa} fp=*(cfa-16) ra=*(cfa-8)");
    let (first, last) = ("1000 cfa=r7+8 fp=u ra=*(cfa-8)".into(), "1017 cfa=r7+8 fp=u ra=*(cfa-8)".into());
    let plain = [first, row("1001 cfa=r7+16"), row("1004 cfa=r6+16"), last, "1018 end".into()];
    assert_eq!(rows(0..0), plain);
    let [first, pushed, by_frame_pointer, last, end] = plain;
    let moving = [row("1008 cfa=r7+48"), by_frame_pointer.replace("1004", "1011"), last, end];
    assert_eq!(rows(0x1000..0x1018), [&[first, pushed][..], &moving].concat());
}

/// Nothing says where the jump leads. But the blocks return.
#[test]
fn blocks_of_a_jump_table_have_the_frame_that_their_return_needs() {
    // sub $24,%rsp; jmp *%rcx; padding; call; add $24,%rsp; ret; padding; push %rbp; call; pop %rbp; lea
    // 24(%rsp),%rsp; ret; padding; ud2
    let mut code = vec![0x48, 0x83, 0xec, 0x18, 0xff, 0xe1];
    code.resize(0x10, 0x90);
    code.extend([0xe8, 0, 1, 0, 0, 0x48, 0x83, 0xc4, 0x18, 0xc3]);
    code.resize(0x20, 0x90);
    code.extend([0x55, 0xe8, 0, 1, 0, 0, 0x5d, 0x48, 0x8d, 0x64, 0x24, 0x18, 0xc3]);
    code.resize(0x30, 0x90);
    code.extend([0x0f, 0x0b]);
    let row = |at: u64, offset: u32| format!("{at:x} cfa=r7+{offset} fp=u ra=*(cfa-8)");
    let saved = |at: u64, offset: u32| format!("{at:x} cfa=r7+{offset} fp=*(cfa-40) ra=*(cfa-8)");
    let end = |at: u64| format!("{at:x} end");
    let blocks = [
        row(0x1010, 32),
        row(0x1019, 8),
        end(0x101a),
        row(0x1020, 32),
        saved(0x1021, 40),
        row(0x1027, 32),
        row(0x102c, 8),
        end(0x102d),
    ];
    let known = rows_of(&code, &[(0x1000..0x1032, false)]);
    assert_eq!(known, [vec![row(0x1000, 8), row(0x1004, 32), end(0x1006)], blocks.to_vec()].concat());
    // Without the symbol, nothing confirms that the first block is a function.
    assert_eq!(rows(Abi::Amd64, &code), blocks);
}

#[test]
fn blocks_with_a_frame_pointer_are_known_by_their_leave() {
    // push %rbp; mov %rsp,%rbp; sub %rax,%rsp; jmp *%rcx; 1: call; leave; ret
    let code = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x29, 0xc4, 0xff, 0xe1, 0xe8, 0, 1, 0, 0, 0xc9, 0xc3];
    let expected = [
        "1000 cfa=r7+8 fp=u ra=*(cfa-8)",
        "1001 cfa=r7+16 fp=*(cfa-16) ra=*(cfa-8)",
        "1004 cfa=r6+16 fp=*(cfa-16) ra=*(cfa-8)",
        "100f cfa=r7+8 fp=u ra=*(cfa-8)",
        "1010 end",
    ];
    assert_eq!(rows_of(&code, &[(0x1000..0x1010, false)]), expected);
}

#[test]
fn code_behind_a_call_that_does_not_return_is_not_in_its_frame() {
    // je 1f; push %rax; call; 1: mov %eax,%eax; ret
    let code = [0x74, 0x06, 0x50, 0xe8, 0, 1, 0, 0, 0x89, 0xc0, 0xc3];
    let row = |at: u64, offset: u32| format!("{at:x} cfa=r7+{offset} fp=u ra=*(cfa-8)");
    let expected = [row(0x1000, 8), row(0x1003, 16), row(0x1008, 8), "100b end".into()];
    assert_eq!(rows_of(&code, &[(0x1000..0x100b, false)]), expected);
}

#[test]
fn a_function_whose_blocks_disagree_has_no_rows() {
    // je 1f; push %rax; 1: mov %eax,%eax; ret
    let code = [0x74, 0x01, 0x50, 0x89, 0xc0, 0xc3];
    assert_eq!(rows_of(&code, &[(0x1000..0x1006, false)]), [""; 0]);
}

#[test]
fn a_part_that_hardly_runs_has_the_frame_of_the_branch_to_it() {
    // push %rbx; je to the part; pop %rbx; ret. The part: call; jmp to the pop
    let mut code = vec![0x53, 0x0f, 0x84, 0x19, 0, 0, 0, 0x5b, 0xc3];
    code.resize(0x20, 0x90);
    code.extend([0xe8, 0, 1, 0, 0, 0xeb, 0xe0]);
    let row = |at: u64, offset: u32| format!("{at:x} cfa=r7+{offset} fp=u ra=*(cfa-8)");
    let end = |at: u64| format!("{at:x} end");
    let expected =
        [row(0x1000, 8), row(0x1001, 16), row(0x1008, 8), end(0x1009), row(0x1020, 16), end(0x1027)];
    let known = [(0x1000..0x1009, false), (0x1020..0x1027, true)];
    assert_eq!(rows_of(&code, &known), expected);
    // So it has in a table of the whole file, unless something else describes the function.
    assert_eq!(rows_outside(&code, &known, 0x1009..0x1020), expected);
    assert_eq!(rows_outside(&code, &known, 0x1000..0x1009), [""; 0]);
}

#[test]
fn where_the_stack_pointer_is_unknown_there_are_no_rows() {
    // mov %rax,%rsp; ret; padding; ret
    let mut code = vec![0x48, 0x89, 0xc4, 0xc3];
    code.resize(16, 0x90);
    code.push(0xc3);
    let row = |at: u64| format!("{at:x} cfa=r7+8 fp=u ra=*(cfa-8)");
    let expected = [row(0x1003), "1004 end".into(), row(0x1010), "1011 end".into()];
    assert_eq!(rows(Abi::Amd64, &code), expected);
}

#[test]
fn trampolines_of_signal_handlers_have_no_rows() {
    // mov $15,%rax; syscall
    let mut code = vec![0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    code.resize(16, 0x90);
    assert_eq!(rows(Abi::Amd64, &code), [""; 0]);
    // mov x8, #139; svc #0; nop
    let code = [0xd280_1168u32, 0xd400_0001, 0xd503_201f, 0xd503_201f];
    assert_eq!(rows(Abi::AArch64Little, &code.map(u32::to_le_bytes).concat()), [""; 0]);
}

#[test]
fn aarch64_start_up_code_and_the_first_plt_entry_save_the_link_register() {
    // _init: paciasp; stp x29,x30,[sp,#-16]!; mov x29,sp; bl; ldp x29,x30,[sp],#16; autiasp; ret
    let init: [u32; 7] =
        [0xd503_233f, 0xa9bf_7bfd, 0x9100_03fd, 0x9400_0040, 0xa8c1_7bfd, 0xd503_23bf, 0xd65f_03c0];
    assert_eq!(
        rows(Abi::AArch64Little, &init.map(u32::to_le_bytes).concat()),
        [
            "1000 cfa=r31+0 fp=u ra=u",
            "1004 cfa=r31+0 fp=u ra=u[s]",
            "1008 cfa=r31+16 fp=*(cfa-16) ra=*(cfa-8)[s]",
            "100c cfa=r29+16 fp=*(cfa-16) ra=*(cfa-8)[s]",
            "1014 cfa=r31+0 fp=u ra=u[s]",
            "1018 cfa=r31+0 fp=u ra=u",
            "101c end"
        ]
    );
    // stp x16,x30,[sp,#-16]!; adrp x16; ldr x17,[x16]; add x16,x16; br x17; nop; nop; nop; adrp x16; ldr;
    // add; br x17
    let plt: [u32; 12] = [
        0xa9bf_7bf0,
        0x9000_0090,
        0xf947_fe11,
        0x913f_e210,
        0xd61f_0220,
        0xd503_201f,
        0xd503_201f,
        0xd503_201f,
        0x9000_0090,
        0xf940_0211,
        0x9100_0210,
        0xd61f_0220,
    ];
    assert_eq!(
        rows(Abi::AArch64Little, &plt.map(u32::to_le_bytes).concat()),
        [
            "1000 cfa=r31+0 fp=u ra=u",
            "1004 cfa=r31+16 fp=u ra=*(cfa-8)",
            "1014 end",
            "1020 cfa=r31+0 fp=u ra=u",
            "1030 end"
        ]
    );
}

#[test]
fn s390x_start_up_code_has_its_save_area() {
    // stmg %r6,%r15,48(%r15); aghi %r15,-160; brasl %r14; lmg %r6,%r15,208(%r15); br %r14
    let code = [
        0xeb, 0x6f, 0xf0, 0x30, 0x00, 0x24, 0xa7, 0xfb, 0xff, 0x60, 0xc0, 0xe5, 0, 0, 1, 0, 0xeb, 0x6f, 0xf0,
        0xd0, 0x00, 0x04, 0x07, 0xfe,
    ];
    assert_eq!(
        rows(Abi::S390x, &code),
        [
            "1000 cfa=r15+160 fp=u ra=u",
            "1006 cfa=r15+160 fp=*(cfa-72) ra=*(cfa-48)",
            "100a cfa=r15+320 fp=*(cfa-72) ra=*(cfa-48)",
            "1016 cfa=r15+160 fp=u ra=u",
            "1018 end"
        ]
    );
}

/// The installed C libraries of the three machines: Debian's own, and those of its cross compilers.
fn libraries() -> Vec<PathBuf> {
    let peers = std::env::var_os("SFRAME_PEERS").map(|root| Path::new(&root).join("root-own/usr"));
    let roots = ["/usr".into()].into_iter().chain(peers);
    let places = roots.flat_map(|root: PathBuf| {
        ["lib/x86_64-linux-gnu", "aarch64-linux-gnu/lib", "s390x-linux-gnu/lib"]
            .map(|folder| root.join(folder).join("libc.so.6"))
    });
    places.filter(|place| place.exists()).collect()
}

/// Whether both rules find the same frame. Compilers leave the rule of the frame pointer as it was when an
/// epilogue pops it. They may count from it where the stack pointer would do as well.
fn agree(read: &Rules, derived: &Rules) -> bool {
    match (read, derived) {
        (Rules::Frame(read), Rules::Frame(derived)) => {
            let fp = read.fp == derived.fp || read.fp == RegisterRule::Unchanged;
            let cfa = read.cfa == derived.cfa || read.cfa.register != derived.cfa.register;
            cfa && read.ra == derived.ra && read.mangled == derived.mangled && fp
        }
        _ => read == derived,
    }
}

/// Compares the rows at every address where `.eh_frame` begins a row.
#[test]
fn what_is_read_off_instructions_agrees_with_eh_frame() {
    for path in libraries() {
        let bytes = Bytes::open(&path).unwrap();
        let abi = Image::new(bytes.clone()).unwrap().abi();
        let file = object::File::parse(&*bytes).unwrap();
        let section = |name| file.section_by_name(name).unwrap();
        let (text, frames) = (section(".text"), section(".eh_frame"));
        let derived = derive(Options::new(abi), frames.data().unwrap(), frames.address(), 0).unwrap();
        let derived = SectionIndex::new(derived.bytes, 0);
        let fdes: Vec<_> = derived.section().blobs().flat_map(|blob| blob.fdes()).collect();
        let inside = text.address()..text.address() + text.size();
        let known = |fde: &sframe_format::Fde| Known {
            start: fde.address,
            end: fde.address + u64::from(fde.size),
            name: 0,
        };
        let known = fdes.iter().filter(|fde| inside.contains(&fde.address)).map(known);
        let functions = Functions::new(&known.collect::<Vec<_>>(), vec![]);
        let areas = vec![Area { address: text.address(), code: text.data().unwrap() }];
        let code = Code { abi, areas, functions: &functions };
        let read = write_sorted(Options::new(abi), 0, &code.rows_outside(vec![])).unwrap();
        let read = SectionIndex::new(read.bytes, 0);
        let (mut same, mut other, mut missing) = (0, 0, 0);
        for fde in fdes.iter().filter(|fde| inside.contains(&fde.address)) {
            let (blob, fde) = derived.find(fde.address).unwrap();
            let attributes = blob.attributes(&fde).unwrap();
            let rows: Vec<_> = blob.rows(&attributes).map(Result::unwrap).collect();
            // Cold parts of functions begin in the middle of a frame, and outermost rows are for the entry.
            let Rules::Frame(first) = rows[0].rules else { continue };
            let entry = if abi == Abi::Amd64 { 8 } else { abi.cfa_bias() };
            if first.cfa != CfaRule::register(abi.stack_pointer(), entry) {
                continue;
            }
            for row in rows {
                let pc = fde.address + u64::from(row.start);
                match read.lookup(pc).unwrap() {
                    Some(found) if agree(&found.row.rules, &row.rules) => same += 1,
                    Some(_) => other += 1,
                    None => missing += 1,
                }
            }
        }
        assert!(
            same > 5_000 && other * 1000 < same && missing * 20 < same,
            "{abi}: {same} same, {other} other, {missing} missing"
        );
    }
}

/// Nobody knows how far the stack pointer moves where it is rounded down, but a register still leads to the
/// frame.
#[test]
fn an_aligned_frame_counts_from_the_register_that_has_the_stack_pointer() {
    // push %r14; mov %rsp,%r14; and $-64,%rsp; sub $256,%rsp; jmp *%rax; padding; mov %r14,%rsp; pop %r14;
    // ret
    let mut code = vec![0x41, 0x56, 0x49, 0x89, 0xe6, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x81, 0xec, 0, 1, 0, 0];
    code.extend([0xff, 0xe0]);
    code.resize(0x20, 0x90);
    code.extend([0x4c, 0x89, 0xf4, 0x41, 0x5e, 0xc3]);
    let row = |at: u64, cfa: &str| format!("{at:x} cfa={cfa} fp=u ra=*(cfa-8)");
    let expected = [
        row(0x1000, "r7+8"),
        row(0x1002, "r7+16"),
        row(0x1009, "r14+16"),
        "1012 end".into(),
        // The block behind the jump counts from it, too, since it gives the stack pointer back.
        row(0x1020, "r14+16"),
        row(0x1023, "r7+16"),
        row(0x1025, "r7+8"),
        "1026 end".into(),
    ];
    assert_eq!(rows_of(&code, &[(0x1000..0x1026, false)]), expected);
    // Without a symbol, the block may go on to another stack.
    let unknown = [row(0x1023, "r7+16"), row(0x1025, "r7+8"), "1026 end".into()];
    assert_eq!(rows(Abi::Amd64, &code), unknown);
    // call in place of the jump. What is called may use the register, and nobody says where it is saved then.
    code.splice(0x10..0x15, [0xe8, 0, 1, 0, 0]);
    let with_call = rows_of(&code, &[(0x1000..0x1026, false)]);
    assert_eq!(with_call[2..5], [row(0x1009, "r14+16"), "1010 end".into(), row(0x1015, "r14+16")]);
    // mov %rax,%r14; nop; jmp *%rax in its place.
    code.truncate(0x10);
    code.extend([0x49, 0x89, 0xc6, 0x90, 0xff, 0xe0]);
    let overwritten = rows_of(&code, &[(0x1000..0x1016, false)]);
    assert_eq!(overwritten[2..], [row(0x1009, "r14+16"), "1013 end".into()]);
}

/// Nobody knows where such a frame saves the frame pointer, so it has no row from where that changes.
#[test]
fn an_aligned_frame_ends_where_it_changes_the_frame_pointer() {
    // lea 8(%rsp),%r10; and $-64,%rsp; push -8(%r10); push %rbp; mov %rsp,%rbp; push %r10; call; mov
    // -8(%rbp),%r10; leave; lea -8(%r10),%rsp; ret
    let code = [
        0x4c, 0x8d, 0x54, 0x24, 0x08, 0x48, 0x83, 0xe4, 0xc0, 0x41, 0xff, 0x72, 0xf8, 0x55, 0x48, 0x89, 0xe5,
        0x41, 0x52, 0xe8, 0, 1, 0, 0, 0x4c, 0x8b, 0x55, 0xf8, 0xc9, 0x49, 0x8d, 0x62, 0xf8, 0xc3,
    ];
    let row = |at: u64, cfa: &str| format!("{at:x} cfa={cfa} fp=u ra=*(cfa-8)");
    let found = rows_of(&code, &[(0x1000..0x1022, false)]);
    let (first, last) = ([row(0x1000, "r7+8"), row(0x1009, "r10+0"), "1011 end".into()], row(0x1021, "r7+8"));
    assert_eq!((&found[..3], &found[found.len() - 2]), (&first[..], &last));
    // Words of the frame lead to the caller of what it calls.
    let fp = FramePointer::Beside(8);
    let back = Back { from: From::Frame, path: vec![-8], minus: None, cfa: 0, fp, pc: None, below: None };
    assert_eq!(aligned(Abi::Amd64, &code, 0x1000), [Switch { at: 0x1018, back: Some(back) }]);
    // mov %rsp,%rax; and $-64,%rsp; sub $200,%rsp; mov %rax,64(%rsp); call; mov 64(%rsp),%rsp; ret
    let code = [
        0x48, 0x89, 0xe0, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x81, 0xec, 0xc8, 0, 0, 0, 0x48, 0x89, 0x44, 0x24,
        0x40, 0xe8, 0, 1, 0, 0, 0x48, 0x8b, 0x64, 0x24, 0x40, 0xc3,
    ];
    let fp = FramePointer::Kept;
    let back = Back { from: From::Stack, path: vec![64], minus: None, cfa: 8, fp, pc: None, below: None };
    assert_eq!(aligned(Abi::Amd64, &code, 0x1000), [Switch { at: 0x1018, back: Some(back) }]);
    // Without the word, there is no way.
    assert_eq!(aligned(Abi::Amd64, &[&code[..24], &[0xc3]].concat(), 0x1000), []);
}

/// Libraries whose functions for vectors align their stack. Their `.eh_frame` says where it was.
fn images_that_align() -> Vec<Image> {
    let names = ["libcrypto.so.3", "libgmp.so.10", "libc.so.6", "libstdc++.so.6", "libdav1d.so.6"];
    let paths = names.map(|name| Path::new("/usr/lib/x86_64-linux-gnu").join(name));
    paths.iter().filter(|path| path.exists()).map(|path| Image::open(path).unwrap()).collect()
}

#[test]
fn aligned_frames_agree_with_eh_frame() {
    let (images, mut held) = (images_that_align(), 0);
    for image in &images {
        let fdes = image.fdes().unwrap();
        let whole = |segment: Segment| segment.address..segment.address + segment.size;
        let area = |range: Range<u64>| Some(Area { address: range.start, code: image.code_of(&range)? });
        let areas: Vec<Area<'_>> = image.code().filter_map(|segment| area(whole(segment))).collect();
        let places = areas.iter().flat_map(|area| aligns(area.code).map(|place| area.address + place as u64));
        let known = places.filter_map(|at| fdes.range_at(at));
        let known = known.map(|range| Known { start: range.start, end: range.end, name: 0 });
        let known: Vec<Known> = known.collect();
        let functions = Functions::new(&known, vec![]);
        let code = Code { abi: image.abi(), areas, functions: &functions };
        let (mut scratch, mut found) = (Scratch::default(), 0);
        for (start, function) in
            known.iter().flat_map(|one| code.rows_of(&[functions.piece(one, &(0..u64::MAX))]))
        {
            for row in &function.rows {
                let pc = start + u64::from(row.start);
                // Others count from memory, which leads to the same address. OpenSSL's do not always move
                // along with the stack pointer.
                let (Rules::Frame(read), Some(Ok(Some(rules)))) =
                    (row.rules, fdes.rules_at(pc, &mut scratch))
                else {
                    continue;
                };
                let Rules::Frame(right) = rules.rules else { continue };
                let is_held =
                    ![image.abi().stack_pointer(), image.abi().frame_pointer()].contains(&read.cfa.register);
                if is_held && read.cfa.register == right.cfa.register && !right.cfa.dereference {
                    assert_eq!((read.cfa, read.ra), (right.cfa, right.ra), "{pc:#x}");
                    found += 1;
                }
            }
        }
        held += found;
    }
    assert!(images.len() < 5 || held > 100, "{held} rows");
}

#[test]
fn a_file_has_rows_for_its_start_up_code() {
    let path = std::env::current_exe().unwrap();
    let image = Image::open(&path).unwrap();
    let file = object::File::parse(&**image.bytes()).unwrap();
    let init = file.section_by_name(".init").unwrap();
    let source = |sources| {
        let mut files = Files::new(image.abi(), FileOptions { sources, ..FileOptions::default() });
        let id = files.open(path.as_os_str().as_encoded_bytes(), None, None);
        let rows = Arc::clone(files.get(id).unwrap().rows());
        let mut unwinder = Unwinder::new(image.abi());
        unwinder.add_module(Module::new(ModuleId(0), image.extent(), 0, rows));
        unwinder.source_at(FrameAddress::InstructionPointer(init.address() + init.size() - 1))
    };
    assert_eq!(source(Sources::Derived), None);
    assert_eq!(source(Sources::All), Some(Source::Instructions));
}
