//! Tests walks through code that was made as the program runs, whose SFrame section it has registered.
#![cfg(all(target_arch = "x86_64", not(miri)))]

use sframe_format::write::{Function, Options, write_sorted};
use sframe_format::{Abi, CfaRule, Location, PauthKey, RegisterRule, Row, Rules, Source};
use sframe_unwind::c::{Code, sframe_jit_register, sframe_jit_unregister};
use sframe_unwind::local::{End, Frame, Local};
use std::process::Command;

static STACKS: Local = Local::new();

/// push %rax; call *%rdi; pop %rdx; ret
const CODE: [u8; 6] = [0x50, 0xff, 0xd7, 0x5a, 0xc3, 0x90];

/// Frames, and whether the walk ended at the root.
type Found = (Vec<Frame>, bool);
type Walk = extern "C" fn(u64, &mut Found);

/// Walks from here. The made code passes its second argument on.
extern "C" fn walk(_: u64, found: &mut Found) {
    let mut frames = [Frame::default(); 64];
    let (count, end) = STACKS.walk_from_here(&mut frames);
    *found = (frames[..count].to_vec(), end == End::Root);
}

/// A copy of [`CODE`] that can run.
fn made() -> u64 {
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: this makes a new mapping, which nobody else knows, and writes to it.
    unsafe {
        let place = libc::mmap(std::ptr::null_mut(), 4096, access, kind, -1, 0);
        assert_ne!(place, libc::MAP_FAILED);
        place.cast::<u8>().copy_from_nonoverlapping(CODE.as_ptr(), CODE.len());
        place as u64
    }
}

/// An SFrame section of the code at an address.
fn section_of(text: u64) -> &'static [u8] {
    let place = vec![0; 256].leak();
    let row = |start, height| {
        let frame = sframe_format::Frame {
            cfa: CfaRule::register(7, height),
            ra: RegisterRule::Saved(Location::at_cfa(-8)),
            fp: RegisterRule::Unchanged,
            mangled: false,
        };
        Row { start, rules: Rules::Frame(frame) }
    };
    let rows = vec![row(0, 8), row(1, 16), row(4, 8)];
    let made = Function { size: 6, signal: false, pauth_key: PauthKey::A, repeat_size: None, rows };
    let at = place.as_ptr() as u64;
    let written = write_sorted(Options::new(Abi::Amd64), at, &[(text, made)]).unwrap().bytes;
    place[..written.len()].copy_from_slice(&written);
    &place[..written.len()]
}

#[test]
fn code_that_was_registered_is_left_by_its_section() {
    let text_start = made();
    let section = section_of(text_start);
    let (sframe_start, sframe_size) = (section.as_ptr() as u64, section.len() as u64);
    let code = Code { sframe_start, sframe_size, text_start, text_size: CODE.len() as u64 };
    let frames = || {
        STACKS.refresh();
        let mut found = (Vec::new(), false);
        // SAFETY: the code passes its second argument on to the function that is its first one.
        unsafe {
            let call = std::mem::transmute::<u64, extern "C" fn(Walk, &mut Found)>(text_start);
            call(walk, &mut found);
        }
        found
    };
    let is_made = |frame: &Frame| (text_start..text_start + 6).contains(&frame.address);
    let (before, is_root) = frames();
    assert!(is_made(before.last().unwrap()) && !is_root, "{before:?}");
    // SAFETY: the section and the code stay.
    unsafe {
        for wrong in [Code { text_size: 0, ..code }, Code { sframe_size: u64::MAX, ..code }] {
            assert_eq!(sframe_jit_register(&wrong), -1);
        }
        assert_eq!(sframe_jit_register(&code), 0);
    }
    let (walked, is_root) = frames();
    let place = walked.iter().position(is_made).unwrap();
    assert_eq!(walked[place].address, text_start + 3);
    assert_eq!(walked[place + 1].source, Some(Source::Sframe));
    assert!(is_root, "{walked:?}");
    assert_eq!((sframe_jit_unregister(sframe_start), sframe_jit_unregister(sframe_start)), (0, -1));
    assert!(!frames().1);
}

/// What profilers read has the same form in C and in this library.
#[test]
fn the_header_has_the_form_of_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("form.c");
    let program = r#"
#include "sframe-unwind.h"
_Static_assert(sizeof(sframe_jit_code) == 32 && sizeof(struct sframe_jit_entry) == 40, "entries");
_Static_assert(offsetof(struct sframe_jit_entry, code) == 8, "the link comes first");
_Static_assert(offsetof(struct sframe_jit_descriptor, first) == 8, "the first entry");
int registers(const sframe_jit_code *code) { return sframe_jit_register(code) + sframe_jit_unregister(code->sframe_start); }
"#;
    std::fs::write(&source, program).unwrap();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=c11", "-Wall", "-Werror", "-fsyntax-only", include]).arg(&source);
    let output = gcc.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(size_of::<Code>(), 32);
}
