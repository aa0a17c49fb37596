//! Tests what is read of code that a process has made and keeps a list of: this process.
#![cfg(target_arch = "x86_64")]

mod common;

use common::unwound::fixture;
use common::{Writer, words};
use sframe_format::write::{Function, Options, write_sorted};
use sframe_format::{Abi, CfaRule, Frame, Location, PauthKey, RegisterRule, Row, Rules, Source};
use stacks::bytes::Bytes;
use stacks::event::{Event, Mapped};
use stacks::kernel::Kernel;
use stacks::profile::{Names, Profile};
use stacks::recording::Recording;
use stacks::session::{Session, Settings};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The descriptor of gdb's list: version and action, the entry of the action, the first entry.
#[unsafe(no_mangle)]
#[used]
static __jit_debug_descriptor: [AtomicU64; 3] = [AtomicU64::new(1), AtomicU64::new(0), AtomicU64::new(0)];
/// The descriptor of `libsframe_unwind`'s list: version and size, the first entry.
#[unsafe(no_mangle)]
#[used]
static __sframe_jit_descriptor: [AtomicU64; 2] = [AtomicU64::new(40 << 32 | 1), AtomicU64::new(0)];

/// Only one test at a time has lists.
static ONE: Mutex<()> = Mutex::new(());

const CODE: u64 = 0x7100_0000_1000;
const STACK: u64 = 0x7ffe_0000_1000;
/// Where `expressions` goes on behind a call, and calls end.
const RETURN: u64 = 0x40_00b5;

/// Adds an entry with these words in front of a list.
fn register(first: &AtomicU64, what: &[u64]) {
    let entry = [&[first.load(Ordering::Relaxed)], what].concat().leak();
    first.store(entry.as_ptr() as u64, Ordering::Relaxed);
}

fn register_for_gdb(file: &[u8]) {
    register(&__jit_debug_descriptor[2], &[0, file.as_ptr() as u64, file.len() as u64]);
}

/// An object file whose code is at an address. It stays in memory.
fn loaded(name: &str, address: u64) -> &'static [u8] {
    let mut file = std::fs::read(fixture(&format!("tests/fixtures/{name}"))).unwrap();
    let half = |at: usize| u16::from_le_bytes([file[at], file[at + 1]]) as usize;
    let sections = u64::from_le_bytes(file[0x28..0x30].try_into().unwrap()) as usize;
    // `.text` is the first section.
    let field = sections + half(0x3a) + 0x10;
    file[field..field + 8].copy_from_slice(&address.to_le_bytes());
    file.leak()
}

/// A sample: the address of each frame and how it was found, and the innermost name.
type Sampled = (Vec<(u64, Option<Source>)>, String);

/// Samples at the code's third instruction, of which `between` runs after the first one.
fn sampled(between: &dyn Fn()) -> Vec<Sampled> {
    let mut settings = Settings::default();
    settings.files.here = true;
    let pid = std::process::id();
    let mut session = Session::new(Abi::Amd64, settings);
    let mut profile = Profile::new(true);
    let program = std::env::current_exe().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let own = maps.lines().find(|line| line.contains("r-xp") && line.ends_with(program.to_str().unwrap()));
    let own: Vec<&str> = own.unwrap().split_whitespace().collect();
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let (start, end) = own[0].split_once('-').unwrap();
    let mapped = Mapped {
        pid,
        address: number(start),
        length: number(end) - number(start),
        offset: number(own[2]),
        executable: true,
        kernel: false,
        build_id: None,
        identity: None,
        path: program.as_os_str().as_encoded_bytes(),
    };
    session.handle(0, Some(&Event::Mapped(mapped)), &mut |_| {});
    let mut writer = Writer::default();
    writer.mmap(pid, (0x40_0000, 0x1000, 0), &fixture("tests/fixtures/expressions"), 2);
    writer.mmap(pid, (CODE, 0x1000, 0), "//anon", 3);
    let stack = words(&[7, 7, RETURN, 0]);
    writer.sample(pid, 10, [STACK, 5, CODE + 2], &[], &stack);
    writer.sample(pid, 20, [STACK, 5, CODE + 2], &[], &stack);
    let recording = Recording::new(Bytes::from(writer.file())).unwrap();
    recording.each_event(&mut |event, record| {
        let before = profile.rows.len();
        session.handle(event, record, &mut |stack| profile.add(stack));
        if before == 0 && profile.rows.len() == 1 {
            between();
        }
    });
    let (files, _) = session.finish(&mut |_| {});
    let names = Names::new(&profile, &files, &Kernel::default(), false);
    let of = |row: &stacks::profile::Row| {
        let frames: Vec<u32> = profile.frames_of(row.stack).collect();
        let found = frames.iter().map(|&frame| profile.frames[frame as usize]);
        let found = found.map(|frame| (frame.address, frame.source)).collect();
        (found, names.of(frames[0])[0].function.to_string())
    };
    profile.rows.iter().map(of).collect()
}

fn begin() -> std::sync::MutexGuard<'static, ()> {
    let one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    __jit_debug_descriptor[2].store(0, Ordering::Relaxed);
    __sframe_jit_descriptor[1].store(0, Ordering::Relaxed);
    one
}

#[test]
fn object_files_in_memory_have_names_and_frames() {
    let _one = begin();
    for name in ["jitted.o", "jitted_text.o"] {
        begin_again(name);
        let found = sampled(&|| __jit_debug_descriptor[2].store(0, Ordering::Relaxed));
        let topmost = (CODE + 2, Some(Source::Topmost));
        assert_eq!(found[0], (vec![topmost, (RETURN, Some(Source::EhFrame))], "jitted".into()), "{name}");
        // It is in the list no more, but has been.
        assert_eq!(found[1], (vec![topmost], "jitted".into()), "{name}");
    }
}

/// Registers a file, and before it others that must do no harm.
fn begin_again(name: &str) {
    __jit_debug_descriptor[2].store(0, Ordering::Relaxed);
    let list = &__jit_debug_descriptor[2];
    register_for_gdb(loaded(name, CODE));
    // Sizes that are not so; an address where nothing is; no file; another place.
    let file = loaded(name, CODE);
    register(list, &[0, file.as_ptr() as u64, u64::MAX]);
    register(list, &[0, file.as_ptr() as u64, 1 << 40]);
    register(list, &[0, 8, 4096]);
    register_for_gdb(&[0x7f; 100]);
    register_for_gdb(&file[..64]);
    register_for_gdb(loaded(name, CODE + 0x100));
}

#[test]
fn a_list_that_goes_in_circles_ends() {
    let _one = begin();
    let entry = [const { AtomicU64::new(0) }; 4];
    let at = entry.as_ptr() as u64;
    entry[0].store(at, Ordering::Relaxed);
    __jit_debug_descriptor[2].store(at, Ordering::Relaxed);
    let found = sampled(&|| {});
    __jit_debug_descriptor[2].store(0, Ordering::Relaxed);
    assert_eq!(found[0].0, [(CODE + 2, Some(Source::Topmost))]);
}

#[test]
fn sections_of_sframe_that_a_program_hands_over_describe_its_code() {
    let _one = begin();
    let section = section_of(CODE);
    let (address, size) = (section.as_ptr() as u64, section.len() as u64);
    let list = &__sframe_jit_descriptor[1];
    register(list, &[address, size, CODE, 7]);
    // A size that is not so; no code; no section.
    register(list, &[address, u64::MAX, CODE, 7]);
    register(list, &[address, size, CODE, u64::MAX]);
    register(list, &[8, size, CODE, 7]);
    let found = sampled(&|| {});
    assert_eq!(found[0].0, [(CODE + 2, Some(Source::Topmost)), (RETURN, Some(Source::Sframe))]);
}

/// An SFrame section for a function of 7 bytes whose CFA is 24 bytes above the stack pointer.
fn section_of(function: u64) -> &'static [u8] {
    let place = vec![0; 128].leak();
    let frame = Frame {
        cfa: CfaRule::register(7, 24),
        ra: RegisterRule::Saved(Location::at_cfa(-8)),
        fp: RegisterRule::Unchanged,
        mangled: false,
    };
    let row = Row { start: 0, rules: Rules::Frame(frame) };
    let made =
        Function { size: 7, signal: false, pauth_key: PauthKey::A, repeat_size: None, rows: vec![row] };
    let options = Options::new(Abi::Amd64);
    let written = write_sorted(options, place.as_ptr() as u64, &[(function, made)]).unwrap().bytes;
    place[..written.len()].copy_from_slice(&written);
    &place[..written.len()]
}
