//! Tests the sweep on code written by hand, and on C libraries, whose `.eh_frame` says what is right.

use super::{Area, Code};
use crate::bytes::Bytes;
use crate::files::{Files, Options as FileOptions};
use crate::image::{Image, Sources};
use object::{Object, ObjectSection};
use sframe_format::derive::derive;
use sframe_format::write::{Options, write_sorted};
use sframe_format::{
    Abi, CfaRule, FrameAddress, Module, ModuleId, RegisterRule, Rules, SectionIndex, Source, Unwinder,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The rows of code at 0x1000, each with the address where it begins.
fn rows(abi: Abi, code: &[u8]) -> Vec<String> {
    let areas = vec![Area { address: 0x1000, code }];
    let code = Code { abi, areas, covered: vec![], starts: vec![], entry: 0 };
    let functions = code.functions();
    let named = |(address, function): &(u64, sframe_format::write::Function)| {
        let rows = function.rows.iter().map(|row| {
            let at = address + u64::from(row.start);
            format!("{at:x} {}", row.to_string().split_once(": ").unwrap().1)
        });
        let end = format!("{:x} end", address + u64::from(function.size));
        rows.chain([end]).collect::<Vec<_>>()
    };
    functions.iter().flat_map(named).collect()
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
    for (entry, pushed) in [(lazy, 0xb), (with_branch_tracking, 0x9)] {
        let found = rows(Abi::Amd64, &[first, entry, entry, entry].concat());
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

#[test]
fn code_that_cannot_be_followed_has_no_rows_until_the_next_function() {
    // mov %rax,%rsp; ret; padding; ret
    let mut code = vec![0x48, 0x89, 0xc4, 0xc3];
    code.resize(16, 0x90);
    code.push(0xc3);
    let row = |at: u64| format!("{at:x} cfa=r7+8 fp=u ra=*(cfa-8)");
    let expected = [row(0x1000), "1003 end".into(), row(0x1010), "1011 end".into()];
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
        let starts = fdes.iter().map(|fde| fde.address).filter(|address| inside.contains(address));
        let areas = vec![Area { address: text.address(), code: text.data().unwrap() }];
        let code = Code { abi, areas, covered: vec![], starts: starts.collect(), entry: 0 };
        let read = write_sorted(Options::new(abi), 0, &code.functions()).unwrap();
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
        assert!(same > 5_000 && other * 100 < same, "{abi}: {same} same, {other} other, {missing} missing");
    }
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
