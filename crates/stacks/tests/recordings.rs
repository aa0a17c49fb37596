//! Tests on recordings made by hand: following processes, unwinding samples, reporting damage. Also reads the
//! recordings that fuzzing has kept.

mod common;
#[path = "../../../fuzz/recording.rs"]
mod fuzzed;

use common::unwound::{Unwound, fixture, unwind};
use common::{REGISTERS, SAMPLE, Writer, attribute_of, mapping, words};
use sframe_format::{Abi, Source};
use stacks::bytes::Bytes;
use stacks::files::{Files, Options};
use stacks::image::Sources;
use stacks::process::Place;
use stacks::recording::Recording;
use stacks::session::Settings;
use stacks::statistics::End;
use stacks::write::Format;
use std::path::PathBuf;

/// A program of the fixtures. `_start` is at 0x401040 and calls `f` at 0x401080, whose first row is that of
/// its entry.
const IMAGE: (u64, u64, u64) = (0x40_1000, 0x1000, 0x1000);
const STACK: u64 = 0x7ffe_0000_1000;

fn program() -> String {
    fixture("../../tests/fixtures/sframe/linked/prog.x86_64.ld2.47")
}

/// The same program without `.sframe` and symbols (`objcopy --remove-section .sframe`, `strip`), to which
/// `sframe attach --name .sframe_compact` has added a table.
fn program_with_compact_table() -> String {
    fixture("tests/fixtures/prog.compact")
}

/// A return address in `_start`, 8 bytes that `_start` took, and whatever is above.
fn stack() -> Vec<u8> {
    words(&[0x40_1049, 0, 0x1234])
}

fn simple() -> Writer {
    let mut writer = Writer::default();
    writer.comm(7, "prog", true, 1);
    writer.mmap(7, IMAGE, &program(), 2);
    writer.sample(7, 10, [STACK, 5, 0x40_1080], &[], &stack());
    writer
}

#[test]
fn samples_are_unwound_and_say_where_they_stopped() {
    let unwound = Unwound::of(&simple());
    let frames = unwound.frames(0);
    assert_eq!(frames[..2], [(0x40_1080, Some(Source::Topmost)), (0x40_1049, Some(Source::Sframe))]);
    assert_eq!(unwound.statistics.samples, 1);
    assert_eq!(unwound.damage, None);
    assert_eq!(unwound.profile.threads[0].name, "prog");
    // In this program, `_start` has derived rows, and its return address is not undefined.
    assert!(unwound.end(0).contains("an address in no file"), "{}", unwound.end(0));
}

#[test]
fn code_made_as_the_program_ran_is_left_by_its_frame_pointer() {
    const JIT: u64 = 0x7000_0000;
    let sample = |memory: &str, returns_to: u64| {
        let mut writer = Writer::default();
        writer.comm(7, "prog", true, 1);
        writer.mmap(7, IMAGE, &program(), 2);
        writer.mmap(7, (JIT, 0x1000, 0), memory, 3);
        let stack = words(&[1, 2, 0, returns_to, 0, 0x40_1049, 0]);
        writer.sample(7, 10, [STACK, STACK + 16, JIT + 0x10], &[], &stack);
        Unwound::of(&writer)
    };
    for memory in ["//anon", "/anon_hugepage (deleted)", "/memfd:doublemapper (deleted)"] {
        let unwound = sample(memory, 0x40_1081);
        let frames = unwound.frames(0);
        assert_eq!(frames[0], (JIT + 0x10, Some(Source::Topmost)));
        assert_eq!(frames[1], (0x40_1081, Some(Source::FramePointer)), "{memory}");
    }
    // The word after the saved frame pointer is not an address of code, because the function keeps no frame
    // pointer.
    let unwound = sample("//anon", 0x1234);
    assert_eq!(unwound.frames(0).len(), 1);
    assert!(unwound.end(0).contains("as the program ran"), "{}", unwound.end(0));
}

/// At its first instruction, behind the one that saves the frame pointer, and where it runs itself. The frame
/// pointer is that of the caller at first, whose own caller is at 0x401050.
#[test]
fn made_code_that_has_no_frame_yet_is_not_left_by_the_frame_of_its_caller() {
    const JIT: u64 = 0x7000_0000;
    let callers = |stack: &[u64], fp: u64| {
        let mut writer = Writer::default();
        writer.comm(7, "prog", true, 1);
        writer.mmap(7, IMAGE, &program(), 2);
        writer.mmap(7, (JIT, 0x1000, 0), "//anon", 3);
        writer.sample(7, 10, [STACK, fp, JIT + 0x10], &[], &words(stack));
        let unwound = Unwound::of(&writer);
        let addresses = unwound.frames(0).into_iter().map(|(address, _)| address);
        addresses.skip(1).take_while(|&address| address < JIT + 0x1000).collect::<Vec<u64>>()
    };
    let (first, second) = (JIT + 0x21, 0x40_1049);
    assert!(callers(&[first, 3, STACK + 32, second, 0, 0x1234], STACK + 16).is_empty());
    assert_eq!(
        callers(&[STACK + 24, first, 3, STACK + 40, second, 0, 0x1234], STACK + 24)[..2],
        [first, second]
    );
    assert_eq!(callers(&[STACK + 24, first, 3, STACK + 40, second, 0, 0x1234], STACK)[..2], [first, second]);
    assert_eq!(
        callers(&[5, STACK + 32, first, 3, STACK + 48, second, 0, 0x1234], STACK + 8)[..2],
        [first, second]
    );
}

#[test]
fn code_made_as_the_program_ran_has_the_names_of_the_programs_own_list() {
    const JIT: u64 = 0x7000_0000;
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("tmp")).unwrap();
    std::fs::write(root.path().join("tmp/perf-7.map"), "70000000 20 JS:*hot a.js:3:1\n").unwrap();
    let mut writer = Writer::default();
    for (pid, ip) in [(7, JIT + 0x10), (7, JIT + 0x20), (8, JIT + 0x10)] {
        writer.comm(pid, "prog", true, 1);
        writer.mmap(pid, (JIT, 0x1000, 0), "//anon", 3);
        writer.sample(pid, 10, [STACK, STACK + 16, ip], &[], &words(&[1, 2, 0, 0x1234]));
    }
    let files = Options { sysroot: Some(root.path().to_owned()), ..Options::default() };
    let unwound = unwind(writer.file(), Settings { files, ..Settings::default() });
    let folded = String::from_utf8(unwound.written(Format::Folded)).unwrap();
    let expected = "prog;0x70000010 1\nprog;0x70000020 1\nprog;JS:*hot a.js:3:1 1\n";
    assert_eq!(folded, expected);
}

#[test]
fn a_file_that_has_a_compact_table_alone_is_unwound_by_it() {
    let mut writer = Writer::default();
    writer.comm(7, "prog", true, 1);
    writer.mmap(7, IMAGE, &program_with_compact_table(), 2);
    writer.sample(7, 10, [STACK, 5, 0x40_1080], &[], &stack());
    let mut settings = Settings::default();
    settings.files.sources = Sources::Sframe;
    let unwound = unwind(writer.file(), settings);
    let frames = unwound.frames(0);
    assert_eq!(frames[..2], [(0x40_1080, Some(Source::Topmost)), (0x40_1049, Some(Source::Sframe))]);
}

#[test]
fn a_frame_counted_from_another_register_is_left_by_what_its_callee_saved() {
    let program = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/realigned");
    let mut writer = Writer::default();
    writer.comm(7, "realigned", true, 1);
    writer.mmap(7, (0x40_0000, 0x1000, 0), program.to_str().unwrap(), 2);
    // The program is in `inner`, which has saved rbx and cleared it. In `outer`, rbx points at the register
    // that `outer` saved.
    let marked = STACK + 64;
    let stack = words(&[marked, 0x40_008b, 0, 0, 0, 0, 0, 0, 5, 0x40_007d]);
    writer.sample(7, 10, [STACK, 5, 0x40_0093], &[], &stack);
    let unwound = Unwound::of(&writer);
    let expected = [
        (0x40_0093, Some(Source::Topmost)),
        (0x40_008b, Some(Source::EhFrame)),
        (0x40_007d, Some(Source::EhFrame)),
    ];
    assert_eq!(unwound.frames(0), expected);
    assert_eq!(unwound.profile.rows[0].end, End::Root);
}

/// Each frame needs a register that the frame inside it saved. Following the register from the topmost frame
/// every time would take the square of the number of frames.
#[test]
fn a_register_is_followed_once_along_a_stack() {
    const DEPTH: u64 = 4000;
    let program = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/realigned");
    let mut writer = Writer::default();
    writer.comm(7, "realigned", true, 1);
    writer.mmap(7, (0x40_0000, 0x1000, 0), program.to_str().unwrap(), 2);
    // `outer` called by itself: its rbx points at its caller's, and its return address follows that.
    let mut stack = vec![STACK + 16, 0x40_008b];
    for frame in 1..DEPTH {
        stack.extend([STACK + 16 + 16 * frame, 0x40_008b]);
    }
    stack.extend([5, 0x40_007d]);
    for _ in 0..50 {
        writer.sample(7, 10, [STACK, 5, 0x40_0093], &[], &words(&stack));
    }
    let unwound = Unwound::of(&writer);
    assert_eq!(unwound.frames(0).len() as u64, DEPTH + 2);
    assert_eq!(unwound.profile.rows[49].end, End::Root);
}

#[test]
fn records_may_come_in_any_order() {
    let mut writer = Writer::default();
    writer.sample(7, 10, [STACK, 5, 0x40_1080], &[], &stack());
    writer.mmap(7, IMAGE, &program(), 2);
    writer.comm(7, "prog", true, 1);
    assert_eq!(Unwound::of(&writer).frames(0), Unwound::of(&simple()).frames(0));
}

#[test]
fn a_child_has_its_parents_files_until_it_executes_another_program() {
    let mut writer = simple();
    writer.fork(8, 7, 20);
    writer.sample(8, 21, [STACK, 5, 0x40_1080], &[], &stack());
    writer.comm(8, "other", true, 22);
    writer.sample(8, 23, [STACK, 5, 0x40_1080], &[], &stack());
    // The kernel takes samples of a process for which it has yet to work after the record of its end.
    writer.exit(7, 24);
    writer.sample(7, 25, [STACK, 5, 0x40_1080], &[], &stack());
    for pid in 100..200 {
        writer.fork(pid, 8, 26);
        writer.exit(pid, 26);
    }
    writer.sample(7, 27, [STACK, 5, 0x40_1080], &[], &stack());
    let unwound = Unwound::of(&writer);
    assert_eq!(unwound.frames(1), unwound.frames(0));
    assert_eq!(unwound.frames(2), [(0x40_1080, Some(Source::Topmost))]);
    assert_eq!(unwound.profile.rows[2].end, End::Unmapped);
    assert_eq!(unwound.frames(3), unwound.frames(0));
    assert_eq!(unwound.profile.rows[4].end, End::Unmapped);
    let names: Vec<_> = unwound.profile.threads.iter().map(|thread| thread.name.as_str()).collect();
    assert_eq!(names[..3], ["prog", "prog", "other"]);
    assert_eq!(unwound.statistics.processes, 2, "at a time");
}

#[test]
fn a_file_that_was_replaced_is_told_and_not_used() {
    // This very program has a build-id, because its linker writes one by default.
    let path = std::env::current_exe().unwrap().display().to_string();
    let own = stacks::image::Image::open(path.as_ref()).unwrap().build_id().map(<[u8]>::to_vec);
    let Some(own) = own else { return };
    let mut other = own.clone();
    other[0] ^= 1;
    for (id, used) in [(&own, true), (&other, false)] {
        let mut writer = Writer::default();
        writer.mmap_with(7, IMAGE, &path, Some(id), 2);
        writer.sample(7, 10, [STACK, 5, 0x40_1080], &[], &stack());
        let unwound = Unwound::of(&writer);
        let file = unwound.files.iter().next().unwrap().1;
        assert_eq!(file.image().is_ok(), used);
        assert_eq!(
            unwound.end(0).contains("the file was replaced: its build-id is"),
            !used,
            "{}",
            unwound.end(0)
        );
    }
}

#[test]
fn why_samples_stop_is_told() {
    let mut writer = simple();
    writer.mmap(7, (0x7000_0000, 0x1000, 0), "//anon", 3);
    writer.mmap(7, (0x7100_0000, 0x1000, 0), "/no/such/file", 3);
    // The copy ends; code of no file; a file that does not exist; an address in no file; registers of a
    // 32-bit program.
    writer.sample(7, 11, [STACK, 5, 0x40_1080], &[], &[]);
    writer.sample(7, 12, [STACK, 5, 0x7000_0010], &[], &stack());
    writer.sample(7, 13, [STACK, 5, 0x7100_0010], &[], &stack());
    writer.sample(7, 14, [STACK, 5, 0x10], &[], &stack());
    writer.sample_with(7, 15, 0x40_1080, &[], None);
    let unwound = Unwound::of(&writer);
    let ends: Vec<String> = (1..6).map(|sample| unwound.end(sample)).collect();
    assert_eq!(ends[0], "the copy of the stack ended");
    assert_eq!(ends[1], "code that was made as the program ran");
    assert!(ends[2].starts_with("no rows in /no/such/file: "), "{}", ends[2]);
    assert_eq!(ends[3], "an address in no file");
    assert_eq!(ends[4], "no registers in the recording");
    let report = serde_json::to_value(unwound.statistics.report(&unwound.files)).unwrap();
    assert_eq!(report["samples"], 6);
    assert_eq!(report["ends"]["the copy of the stack ended"], 1);
    assert_eq!(unwound.statistics.report(&unwound.files).without_registers(), (1, 6));
}

#[test]
fn kernel_frames_and_recorded_chains_are_kept() {
    let mut writer = simple();
    let kernel = [-128i64 as u64, 0xffff_8000_0000_1000, 0xffff_8000_0000_2000];
    let user = [-512i64 as u64, 0x40_1080, 0x40_1049];
    // Kernel frames before unwound ones; a recorded chain; a thread of the kernel.
    writer.sample(7, 11, [STACK, 5, 0x40_1080], &kernel, &stack());
    writer.sample_with(7, 12, 0x40_1080, &[&kernel[..], &user].concat(), None);
    writer.sample_with(0, 13, kernel[1], &kernel, None);
    let unwound = Unwound::of(&writer);
    let addresses = |sample| unwound.frames(sample).iter().map(|frame| frame.0).collect::<Vec<_>>();
    assert_eq!(addresses(1)[..4], [kernel[1], kernel[2], 0x40_1080, 0x40_1049]);
    assert_eq!(addresses(2), [kernel[1], kernel[2], 0x40_1080, 0x40_1049]);
    assert_eq!(unwound.profile.rows[2].end, End::Recorded);
    assert_eq!(unwound.profile.rows[3].end, End::Root);
    // For a recorded return address, the call before it is looked up.
    let places: Vec<Place> = unwound.profile.frames.iter().map(|frame| frame.place).collect();
    assert!(places.iter().any(|place| matches!(place, Place::File(_, 0x40_1048))), "{places:x?}");
}

/// Shares are of all frames, and a time that is too short to be measured has no rate.
#[test]
fn statistics_have_no_absurd_numbers() {
    let mut writer = Writer::default();
    writer.sample_with(7, 12, 0x40_1080, &[-512i64 as u64, 0x40_1080, 0x40_1049], None);
    let mut unwound = Unwound::of(&writer);
    unwound.statistics.unwinding = std::time::Duration::from_nanos(1);
    unwound.statistics.whole = std::time::Duration::from_micros(3);
    let text = unwound.statistics.report(&unwound.files).text();
    assert!(text.contains("recorded") && text.contains("100.00 %"), "{text}");
    let shares = text.split(" %").filter_map(|part| part.rsplit(' ').next()?.parse::<f64>().ok());
    assert!(shares.into_iter().all(|share| share <= 100.0) && !text.contains("samples/s"), "{text}");
}

#[test]
fn deferred_call_chains_join_their_samples() {
    let mut writer = simple();
    let kernel = [-128i64 as u64, 0xffff_8000_0000_1000, -640i64 as u64, 77];
    writer.sample_with(7, 11, kernel[1], &kernel, None);
    writer.sample_with(7, 12, kernel[1], &[kernel[0], kernel[1], kernel[2], 78], None);
    let mut body = words(&[77, 3, -512i64 as u64, 0x40_1080, 0x40_1049]);
    body.extend(words(&[7 | 7 << 32, 13, 0]));
    writer.record(22, 0, &body);
    let unwound = Unwound::of(&writer);
    let addresses = |sample| unwound.frames(sample).iter().map(|frame| frame.0).collect::<Vec<_>>();
    assert_eq!(addresses(1), [kernel[1], 0x40_1080, 0x40_1049]);
    // A sample whose second part never came.
    assert_eq!(addresses(2), [kernel[1]]);
    assert_eq!(unwound.statistics.samples, 3);
}

/// A thread that enters the kernel once, and is sampled there several times, returns once.
#[test]
fn samples_share_a_deferred_call_chain() {
    let mut writer = simple();
    let kernel = |address: u64| [-128i64 as u64, address, -640i64 as u64, 77];
    for (time, address) in [(11, 0xffff_8000_0000_1000), (12, 0xffff_8000_0000_2000)] {
        writer.sample_with(7, time, address, &kernel(address), None);
    }
    writer.event(22, 0, &words(&[77, 3, -512i64 as u64, 0x40_1080, 0x40_1049]), 7, 13);
    let unwound = Unwound::of(&writer);
    assert_eq!(unwound.statistics.samples, 3);
    for (sample, address) in [(1, 0xffff_8000_0000_1000), (2, 0xffff_8000_0000_2000)] {
        let addresses: Vec<u64> = unwound.frames(sample).iter().map(|frame| frame.0).collect();
        assert_eq!(addresses, [address, 0x40_1080, 0x40_1049]);
        assert_eq!(unwound.profile.rows[sample].end, End::Recorded);
    }
}

#[test]
fn branches_and_their_counters_stand_before_the_registers() {
    const BRANCH_STACK: u64 = 1 << 11;
    let (hw_index, counters) = (1u64 << 17, 1u64 << 19);
    for branch in [0, hw_index, counters, hw_index | counters] {
        let mut writer = Writer::default();
        writer.comm(7, "prog", true, 1);
        writer.mmap(7, IMAGE, &program(), 2);
        let mut body = words(&[0x40_1080, 7 | 7 << 32, 10, 3, 1, 0, 2]);
        if branch & hw_index != 0 {
            body.extend(words(&[5]));
        }
        body.extend(words(&[0x40_1044, 0x40_1080, 0, 0x40_1040, 0x40_1044, 0]));
        if branch & counters != 0 {
            body.extend(words(&[1, 2]));
        }
        let mut registers = [0u64; REGISTERS.count_ones() as usize];
        (registers[6], registers[7], registers[8]) = (5, STACK, 0x40_1080);
        writer.sample_of(body, Some((&registers, &stack())));
        let stream = writer.pipe_of(&[(attribute_of(SAMPLE | BRANCH_STACK, branch), 7)]);
        let unwound = unwind(stream, Settings::default());
        assert_eq!(unwound.statistics.unreadable, 0, "{branch:#x}");
        let frames = unwound.frames(0);
        assert_eq!(
            frames[..2],
            [(0x40_1080, Some(Source::Topmost)), (0x40_1049, Some(Source::Sframe))],
            "{branch:#x}"
        );
    }
}

/// A tracepoint's records contain the processor on which they were made, but those of the other event do not.
#[test]
fn records_are_read_by_the_layout_of_their_own_event() {
    const IDENTIFIER: u64 = 1 << 16;
    const CPU: u64 = 1 << 7;
    let (with, without) = (SAMPLE | IDENTIFIER, (SAMPLE | IDENTIFIER) & !CPU);
    let mut writer = Writer::default();
    // Two programs, one after the other, in records of the second event; then a sample of the first event
    // between them.
    for (path, time) in [("/no/such/file".to_owned(), 30), (program(), 5)] {
        let body = mapping(7, [IMAGE.0, IMAGE.1, IMAGE.2], &[0; 24], 5, &path);
        writer.record(10, 2, &[body, words(&[7 | 7 << 32, time, 70])].concat());
    }
    let mut registers = [0u64; 17];
    (registers[6], registers[7], registers[8]) = (5, STACK, 0x40_1080);
    writer.sample_of(words(&[60, 0x40_1080, 7 | 7 << 32, 10, 3, 1, 0]), Some((&registers, &stack())));
    let stream = writer.pipe_of(&[(attribute_of(with, 0), 60), (attribute_of(without, 0), 70)]);
    let unwound = unwind(stream, Settings::default());
    assert_eq!(unwound.frames(0)[..2], Unwound::of(&simple()).frames(0)[..2]);
}

/// perf makes up a record for each process that ran before, and one for each of its mappings.
#[test]
fn a_process_that_ran_before_has_no_files_of_its_parent() {
    let mut writer = simple();
    writer.fork_with(8, 7, 1 << 13, 20);
    writer.sample(8, 21, [STACK, 5, 0x40_1080], &[], &stack());
    let unwound = Unwound::of(&writer);
    assert_eq!(unwound.frames(1), [(0x40_1080, Some(Source::Topmost))]);
    assert_eq!(unwound.profile.threads[1].name, "prog");
}

#[test]
fn what_is_mapped_over_a_part_leaves_the_rest() {
    const JIT: u64 = 0x7000_0000;
    let mut writer = Writer::default();
    writer.comm(7, "prog", true, 1);
    // Maps a library's data over the end of its code's first mapping, and maps some pages of generated code
    // again.
    writer.mmap(7, (0x40_0000, 0x4000, 0), &program(), 2);
    writer.mmap_of(7, (0x40_3000, 0x1000, 0x3000), &program(), 3, 3);
    writer.mmap(7, (JIT, 0x10000, 0), "//anon", 4);
    writer.mmap(7, (JIT + 0x4000, 0x1000, 0), "//anon", 5);
    writer.sample(7, 10, [STACK, 5, 0x40_1080], &[], &stack());
    let stack = words(&[1, 2, 0, JIT + 0x8000, 0, 0x40_1049, 0]);
    writer.sample(7, 11, [STACK, STACK + 16, JIT + 0x10], &[], &stack);
    writer.sample(7, 12, [STACK, 5, 0x40_3010], &[], &stack);
    let unwound = Unwound::of(&writer);
    assert_eq!(unwound.frames(0)[..2], Unwound::of(&simple()).frames(0)[..2]);
    assert_eq!(unwound.frames(1)[1], (JIT + 0x8000, Some(Source::FramePointer)));
    assert_eq!(unwound.profile.rows[2].end, End::Unmapped);
}

#[test]
fn a_pipe_gives_what_a_file_gives() {
    let writer = simple();
    let (file, pipe) = (Unwound::of(&writer), unwind(writer.pipe(), Settings::default()));
    assert_eq!(file.frames(0), pipe.frames(0));
    let recording = Recording::new(Bytes::from(writer.pipe())).unwrap();
    assert_eq!(recording.machine.as_deref(), Some("x86_64"));
}

/// Paths are bytes: what is no text may still be that of two files.
#[test]
fn files_are_told_apart_by_the_bytes_of_their_paths() {
    let mut files = Files::new(Abi::Amd64, Options::default());
    files.expect(b"/none/\xff", b"one");
    let [one, other] = [b"/none/\xff", b"/none/\xfe"].map(|path| files.open(path, None, None));
    assert_ne!(one, other);
    assert_eq!(files.open(b"/none/\xff", Some(b"one"), None), one);
    assert_eq!(files.get(other).map(|file| file.build_id()), Some(None));
}

#[test]
fn compressed_records_are_expanded_within_bounds() {
    let writer = simple();
    let mut compressed = Writer::default();
    compressed.record(81, 0, &zstd::encode_all(&*writer.data, 1).unwrap());
    assert_eq!(unwind(compressed.file(), Settings::default()).frames(0), Unwound::of(&writer).frames(0));
    // Endless zeros.
    let mut bomb = Writer::default();
    bomb.record(81, 0, &zstd::encode_all(&*vec![0u8; 1 << 24], 19).unwrap());
    let bomb = unwind(bomb.file(), Settings::default());
    assert!(bomb.damage.unwrap().contains("expand to more than"));
}

#[test]
fn a_recording_cut_off_anywhere_gives_what_it_has_or_an_error() {
    let mut writer = simple();
    writer.fork(8, 7, 20);
    writer.sample(8, 21, [STACK, 5, 0x40_1080], &[-128i64 as u64, 1], &stack());
    for whole in [writer.file(), writer.pipe()] {
        for length in 0..whole.len() {
            let bytes = Bytes::from(whole[..length].to_vec());
            match Recording::new(bytes) {
                Ok(_) => {
                    let unwound = unwind(whole[..length].to_vec(), Settings::default());
                    assert!(unwound.statistics.samples <= 2);
                }
                Err(damage) => assert!(!damage.message.is_empty()),
            }
        }
        // Sets bytes to all these values at every place.
        for place in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[place] = value;
                if Recording::new(Bytes::from(damaged.clone())).is_ok() {
                    let _ = unwind(damaged, Settings::default()).written(Format::Text);
                }
            }
        }
    }
    let cut = unwind(writer.file()[..600].to_vec(), Settings::default());
    assert!(cut.damage.unwrap().contains("it was cut off"));
    let wrong = Recording::new(Bytes::from(b"no recording at all".to_vec())).err().unwrap();
    assert!(wrong.to_string().contains("not a recording of perf"), "{wrong}");
}

#[test]
fn every_form_of_output_holds_the_functions() {
    let unwound = Unwound::of(&simple());
    let text = |format| String::from_utf8(unwound.written(format)).unwrap();
    let stacks = text(Format::Text);
    assert!(stacks.starts_with("prog 7/7 [003] 0.000000: 1 samples:\n"), "{stacks}");
    assert!(stacks.contains("401049 _start+0x9 ("), "{stacks}");
    assert!(stacks.contains("\t# stopped: an address in no file\n"), "{stacks}");
    let folded = text(Format::Folded);
    assert!(
        folded.starts_with("prog;") && folded.contains(";_start;") && folded.ends_with(" 1\n"),
        "{folded}"
    );
    let json: serde_json::Value = serde_json::from_str(&text(Format::Json)).unwrap();
    assert_eq!(json[0]["frames"][1]["function"], "_start");
    assert_eq!(json[0]["frames"][1]["source"], "sframe");
    assert_eq!(json[0]["rooted"], false);
    let firefox: serde_json::Value = serde_json::from_str(&text(Format::Firefox)).unwrap();
    assert_eq!(firefox["meta"]["symbolicated"], true);
    assert_eq!(firefox["threads"][0]["samples"]["length"], 1);
    let speedscope: serde_json::Value = serde_json::from_str(&text(Format::Speedscope)).unwrap();
    let (thread, frames) = (&speedscope["profiles"][0], &speedscope["shared"]["frames"]);
    assert_eq!((&thread["type"], &thread["weights"]), (&"sampled".into(), &serde_json::json!([1])));
    let outermost_first: Vec<_> = thread["samples"][0].as_array().unwrap().iter().collect();
    let last_but_one = outermost_first[outermost_first.len() - 2].as_u64().unwrap() as usize;
    assert_eq!(frames[last_but_one]["name"], "_start");
    let html = text(Format::Html);
    assert!(html.contains("a &lt;test>") && html.contains("\"_start\"") && !html.contains("@DATA@"));
}

/// A part of `profile.proto`.
mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub string_table: Vec<String>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ValueType {
        #[prost(int64, tag = "1")]
        pub kind: i64,
        #[prost(int64, tag = "2")]
        pub unit: i64,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Sample {
        #[prost(uint64, repeated, packed = "false", tag = "1")]
        pub location_id: Vec<u64>,
        #[prost(int64, repeated, packed = "false", tag = "2")]
        pub value: Vec<i64>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Mapping {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "5")]
        pub filename: i64,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Location {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub mapping_id: u64,
        #[prost(message, repeated, tag = "4")]
        pub line: Vec<Line>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Line {
        #[prost(uint64, tag = "1")]
        pub function_id: u64,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Function {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "2")]
        pub name: i64,
    }
}

/// Names come from the profiled programs, and a terminal obeys control characters.
#[test]
fn names_bring_no_control_characters_into_text() {
    let mut writer = Writer::default();
    writer.comm(7, "a\x1b[2J\n;b", true, 1);
    writer.mmap(7, IMAGE, "/none/x\x1b]0;y\x07\u{9b}", 2);
    writer.sample(7, 10, [STACK, 5, 0x40_1080], &[], &stack());
    let unwound = Unwound::of(&writer);
    for format in [Format::Text, Format::Folded] {
        let text = String::from_utf8(unwound.written(format)).unwrap();
        let controls: Vec<char> =
            text.chars().filter(|letter| letter.is_control() && !"\n\t".contains(*letter)).collect();
        assert!(controls.is_empty(), "{format:?}: {controls:?} in {text:?}");
        assert!(text.lines().count() <= 5, "{text}");
    }
}

#[test]
fn pprof_knows_processor_time_and_keeps_events_apart() {
    use prost::Message;
    use std::io::Read;
    let mut unwound = Unwound::of(&simple());
    unwound.profile.events = ["cpu-clock", "off-cpu", "page-faults"].map(str::to_owned).to_vec();
    let mut waits = unwound.profile.rows[0];
    (waits.event, waits.period) = (1, 70);
    unwound.profile.rows.push(waits);
    let written = unwound.written(Format::Pprof);
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&*written).read_to_end(&mut bytes).unwrap();
    let profile = proto::Profile::decode(&*bytes).unwrap();
    let text = |number: i64| profile.string_table[number as usize].as_str();
    let types: Vec<_> = profile.sample_type.iter().map(|of| (text(of.kind), text(of.unit))).collect();
    let nanoseconds = "nanoseconds";
    let expected =
        [("samples", "count"), ("cpu", nanoseconds), ("off-cpu", nanoseconds), ("page-faults", "count")];
    assert_eq!(types, expected);
    assert_eq!(profile.sample[0].value, [2, 1, 70, 0]);
}

#[test]
fn pprof_reads_back() {
    use prost::Message;
    use std::io::Read;
    let mut writer = simple();
    writer.sample(7, 11, [STACK, 5, 0x40_1080], &[], &stack());
    let unwound = Unwound::of(&writer);
    let written = unwound.written(Format::Pprof);
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&*written).read_to_end(&mut bytes).unwrap();
    let profile = proto::Profile::decode(&*bytes).unwrap();
    let text = |number: i64| profile.string_table[number as usize].as_str();
    assert_eq!(text(0), "");
    assert_eq!(text(profile.sample_type[0].kind), "samples");
    assert_eq!(profile.sample.len(), 1);
    assert_eq!(profile.sample[0].value, [2, 2]);
    let functions: Vec<&str> = profile.sample[0]
        .location_id
        .iter()
        .map(|id| {
            let location = profile.location.iter().find(|location| location.id == *id).unwrap();
            let function = location.line[0].function_id;
            text(profile.function.iter().find(|entry| entry.id == function).unwrap().name)
        })
        .collect();
    assert_eq!(functions[1], "_start");
    assert!(text(profile.mapping[0].filename).ends_with("prog.x86_64.ld2.47"));
}

#[test]
fn what_fuzzing_kept_is_read_or_refused() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/recording");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut samples = 0;
    for path in paths {
        let bytes = std::fs::read(path).unwrap();
        // Tests the file as it is, and then with changed bytes, one at a time, spread over the file.
        for at in (0..bytes.len()).step_by(bytes.len() / 16 + 1) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x81;
            fuzzed::exercise(&changed);
        }
        if Recording::new(Bytes::from(bytes.clone())).is_ok() {
            samples += unwind(bytes, Settings::default()).statistics.samples;
        }
    }
    assert!(samples >= 4, "{samples}");
}
