//! Tests of `sframe unwind` with a handmade stack of a fixture program.

use super::saved::{self, parse_registers};
use crate::args::{PlacedFile, RowSources, StackOutput, StackRows, Unwind};
use crate::fixtures;
use sframe_format::Abi;
use stacks::kernel::Kernel;
use stacks::modules::Modules;
use stacks::profile::{Names, Profile};
use stacks::session::{Session, Settings};
use stacks::snapshot::Snapshot;
use std::path::Path;

const PROGRAM: &str = "linked/prog.x86_64.ld2.47";
const STACK: u64 = 0x7ffe_0000_1000;

/// `_start` called a function that is at its first instruction: `*rsp` is the return address, and above it
/// are the 8 bytes that `_start` took.
fn stack() -> Vec<u8> {
    [0x401049u64, 0, 0x1234].iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Arguments without any file.
fn arguments() -> Unwind {
    let rows = StackRows { sources: RowSources::All, frame_pointers: false };
    let output = StackOutput { format: None, output: None, html: None, inline: false, stats: None };
    let (core, sysroot, registers) = (None, None, None);
    Unwind { core, sysroot, registers, memory: Vec::new(), modules: Vec::new(), rows, output }
}

/// A thread: its frames, each with address, function, offset and file, and the reason why it ended.
type Walked = (Vec<String>, String);

/// The threads of a process, and the files that could not be used, each with the reason.
fn walked((snapshot, mut session): (Snapshot, Session)) -> (Vec<Walked>, String) {
    let (mut profile, mut ends) = (Profile::new(true), Vec::new());
    profile.events = snapshot.events();
    session.unwind_saved(&snapshot, &mut |stack| {
        ends.push(stack.end);
        profile.add(stack);
    });
    let (files, _) = session.finish(&mut |_| {});
    let names = Names::new(&profile, &files, &Kernel::default(), false);
    let frame = |number: u32| {
        let name = &names.of(number)[0];
        let offset = name.offset.map(|offset| format!("+{offset:#x}")).unwrap_or_default();
        format!("{:#x} {}{offset} ({})", profile.frames[number as usize].address, name.function, name.file)
    };
    let threads = profile.rows.iter().zip(&ends);
    let threads = threads.map(|(row, end)| {
        (profile.frames_of(row.stack).map(frame).collect(), end.describe(&Modules::of(&files)))
    });
    let problems =
        files.iter().filter_map(|(_, file)| Some(format!("{}: {}", file.path, file.image().err()?)));
    (threads.collect(), problems.collect::<Vec<_>>().join("\n"))
}

/// Registers, and the stack.
fn saved_process(folder: &Path) -> Unwind {
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.join(name), bytes).unwrap();
        folder.join(name)
    };
    let text = format!("rip 0x401080 0x401080 <f>\nrsp = {STACK:#x}\nrbp 5\neflags 0x246 [ ZF ]\n");
    let memory = PlacedFile { path: write("memory", &stack()), bias: Some(STACK) };
    Unwind {
        registers: Some(write("registers", text.as_bytes())),
        memory: vec![memory],
        modules: vec![PlacedFile { path: fixtures::path(PROGRAM), bias: Some(0) }],
        ..arguments()
    }
}

#[test]
fn saved_registers_and_memory_give_the_callers() {
    let folder = tempfile::tempdir().unwrap();
    let process = saved::read(&saved_process(folder.path()), Settings::default()).unwrap();
    let (threads, problems) = walked(process);
    assert_eq!(problems, "");
    let [(frames, end)] = &threads[..] else { panic!("{threads:?}") };
    let addresses: Vec<&str> = frames.iter().filter_map(|frame| frame.split(' ').next()).collect();
    assert_eq!(addresses, ["0x401080", "0x401049", "0x1234"]);
    assert!(frames[1].starts_with("0x401049 _start+0x9 ("), "{frames:?}");
    assert_eq!(end, "an address in no file");
}

/// Otherwise a stack that goes in a circle would make any number of frames out of a few bytes per thread.
#[test]
fn threads_have_no_more_frames_than_their_memory_can_hold() {
    let folder = tempfile::tempdir().unwrap();
    let (mut snapshot, session) = saved::read(&saved_process(folder.path()), Settings::default()).unwrap();
    let first = snapshot.threads[0].clone();
    snapshot.threads = (0..5).map(|tid| stacks::snapshot::Thread { tid, ..first.clone() }).collect();
    snapshot.saved = 16;
    let (threads, _) = walked((snapshot, session));
    let counts: Vec<usize> = threads.iter().map(|(frames, _)| frames.len()).collect();
    // There are words for five threads at two each, and two more.
    assert_eq!(counts, [3, 3, 3, 0, 0]);
    assert_eq!(threads[4].1, "too many frames");
}

#[test]
fn registers_that_are_needed_are_asked_for() {
    assert!(parse_registers(Abi::Amd64, "rip 0x10").unwrap_err().contains("stack pointer"));
    assert!(parse_registers(Abi::AArch64Little, "sp 0x10").unwrap_err().contains("program counter"));
    let thread = parse_registers(Abi::AArch64Little, "pc 0x10\nsp 0x20\nlr 0x30\nfp 0x40").unwrap();
    assert_eq!((thread.pc, thread.registers[30], thread.registers[29]), (0x10, Some(0x30), Some(0x40)));
}

/// A mapping of the program: address, offset in the file, protection (`PF_*`), and the bytes of it that the
/// core file contains.
struct Mapping {
    address: u64,
    offset: u64,
    flags: u32,
    bytes: Vec<u8>,
}

/// The program's code at its own addresses.
fn code() -> Mapping {
    Mapping { address: 0x401000, offset: 0x1000, flags: 5, bytes: Vec::new() }
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn halves(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn note(owner: &str, kind: u32, contents: &[u8]) -> Vec<u8> {
    let mut note = halves(&[owner.len() as u32 + 1, contents.len() as u32, kind]);
    note.extend(owner.bytes());
    note.resize((note.len() + 1).next_multiple_of(4), 0);
    note.extend(contents);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

/// An x86-64 ELF file with segments; each has a type, flags, an address and contents. The contents follow the
/// headers.
fn elf(kind: u16, segments: &[(u32, u32, u64, u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend([kind, 62].iter().flat_map(|half| half.to_le_bytes()));
    file.extend(halves(&[1]));
    file.extend(words(&[0, 64, 0]));
    file.extend(halves(&[0]));
    file.extend([64u16, 56, segments.len() as u16, 64, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    let mut offset = 64 + 56 * segments.len() as u64;
    for (kind, flags, address, size, contents) in segments {
        file.extend(halves(&[*kind, *flags]));
        file.extend(words(&[offset, *address, 0, contents.len() as u64, *size, 4]));
        offset += contents.len() as u64;
    }
    file.extend(segments.iter().flat_map(|(.., contents)| contents));
    file
}

/// A core file with one thread, the stack, and mappings of one page of the program each.
fn core_file(program: &str, mappings: &[Mapping]) -> Vec<u8> {
    let mut status = vec![0u8; 112 + 27 * 8];
    status[32..36].copy_from_slice(&77u32.to_le_bytes());
    // rbp, rip, rsp in `user_regs_struct`.
    for (place, value) in [(4usize, 5u64), (16, 0x401080), (19, STACK)] {
        status[112 + 8 * place..][..8].copy_from_slice(&value.to_le_bytes());
    }
    let mut files = words(&[mappings.len() as u64, 0x1000]);
    for Mapping { address, offset, .. } in mappings {
        files.extend(words(&[*address, address + 0x1000, offset / 0x1000]));
    }
    files.extend(mappings.iter().flat_map(|_| program.bytes().chain([0])));
    let notes = [note("CORE", 1, &status), note("CORE", 0x4649_4c45, &files)].concat();
    let mut segments = vec![(4, 4, 0, 0, notes), (1, 6, STACK, stack().len() as u64, stack())];
    let mapped = mappings.iter().map(|m| (1, m.flags, m.address, 0x1000, m.bytes.clone()));
    segments.extend(mapped);
    elf(4, &segments)
}

/// What `sframe unwind --core` makes of it: the frames of the thread, and the complaints.
fn unwound(core: &[u8], sysroot: Option<&Path>, modules: Vec<PlacedFile>) -> (Vec<String>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("core");
    std::fs::write(&path, core).unwrap();
    let sysroot = sysroot.map(Path::to_owned);
    let arguments = Unwind { core: Some(path.clone()), sysroot: sysroot.clone(), modules, ..arguments() };
    let mut settings = Settings::default();
    settings.files.sysroot = sysroot;
    let process = super::core::read(&path, &arguments, settings).unwrap();
    assert_eq!(process.0.threads[0].tid, 77);
    let (threads, problems) = walked(process);
    (threads.into_iter().next().unwrap().0, problems)
}

fn assert_whole((frames, problems): (Vec<String>, String)) {
    assert_eq!(problems, "");
    assert!(frames.len() == 3 && frames[1].starts_with("0x401049 _start+0x9 ("), "{frames:?}");
}

#[test]
fn core_files_hold_threads_memory_and_files() {
    let program = fixtures::path(PROGRAM);
    assert_whole(unwound(&core_file(program.to_str().unwrap(), &[code()]), None, Vec::new()));
}

/// Debuggers and profilers map libraries to read them. Some of these are libraries that they also run.
#[test]
fn what_is_mapped_as_data_is_no_module() {
    let program = fixtures::path(PROGRAM);
    let read = |address| Mapping { address, offset: 0, flags: 4, bytes: Vec::new() };
    // Addresses before and after the code, and where the pages of the code would be if this mapping was the
    // code.
    for address in [0x10_0000, 0x400000, 0x402000, 0x7f00_0000_0000] {
        let mut mappings = vec![code(), read(address)];
        mappings.sort_by_key(|mapping| mapping.address);
        assert_whole(unwound(&core_file(program.to_str().unwrap(), &mappings), None, Vec::new()));
    }
    let (places, problems) = unwound(&core_file("/no/such/data", &[read(0x10_0000)]), None, Vec::new());
    assert_eq!((places.len(), &*problems), (1, ""));
}

/// A program with one page of code and a build-id, and the bytes of its first page that a core file contains.
fn with_build_id(id: &[u8]) -> Vec<u8> {
    let notes = note("GNU", 3, id);
    elf(2, &[(1, 5, 0x40_0000, 0x2000, Vec::new()), (4, 4, 0x40_0000 + 64 + 112, notes.len() as u64, notes)])
}

#[test]
fn a_file_that_was_rebuilt_since_is_told_and_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    let mut file = with_build_id(&[1; 20]);
    // The segment is the whole file.
    file[64 + 8..64 + 16].fill(0);
    let length = file.len() as u64;
    file[64 + 32..64 + 40].copy_from_slice(&length.to_le_bytes());
    std::fs::write(&path, &file).unwrap();
    let core = |name: &str, id: u8| {
        let mut header = file.clone();
        let at = header.len() - 20;
        header[at..].fill(id);
        core_file(name, &[Mapping { address: 0x40_0000, offset: 0, flags: 5, bytes: header }])
    };
    let name = path.to_str().unwrap();
    let (_, problems) = unwound(&core(name, 1), None, Vec::new());
    assert_eq!(problems, "");
    let (_, problems) = unwound(&core(name, 2), None, Vec::new());
    let said = format!("its build-id is {}, the process saw {}", "01".repeat(20), "02".repeat(20));
    assert!(problems.contains(&said), "{problems}");
    // A file that replaces another is compared too, unless the user gives its place.
    let stand_in = |bias| vec![PlacedFile { path: path.clone(), bias }];
    let (_, problems) = unwound(&core("/gone/program (deleted)", 2), None, stand_in(None));
    assert!(problems.contains(&said), "{problems}");
    let (_, problems) = unwound(&core("/gone/program", 2), None, stand_in(Some(0)));
    assert!(!problems.contains("replaced"), "{problems}");
}

#[test]
fn files_of_a_core_file_lie_below_the_sysroot() {
    let program = fixtures::path(PROGRAM);
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("usr/bin")).unwrap();
    std::fs::copy(&program, root.path().join("usr/bin/true")).unwrap();
    std::fs::write(root.path().join("usr/bin/false"), b"no program").unwrap();
    // On this machine, these files have other contents or do not exist.
    for name in ["/usr/bin/true", "/usr/bin/true (deleted)"] {
        assert_whole(unwound(&core_file(name, &[code()]), Some(root.path()), Vec::new()));
    }
    let (places, problems) = unwound(&core_file("/usr/bin/false", &[code()]), Some(root.path()), Vec::new());
    assert_eq!((places.len(), &*problems), (1, ""));
    let (_, problems) = unwound(&core_file("/bin/sh", &[code()]), Some(root.path()), Vec::new());
    assert!(problems.contains("No such file"), "{problems}");
}
