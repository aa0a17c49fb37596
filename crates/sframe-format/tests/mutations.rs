//! Runs the fuzz targets' entry points on mutated fixtures, for a bounded number of inputs and a fixed seed.

mod common;

/// A small generator (splitmix64) that makes the same mutations in every run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((value ^ value >> 31) % below as u64) as usize
    }
}

fn mutate(random: &mut Random, bytes: &mut Vec<u8>, from: usize) {
    for _ in 0..=random.next(4) {
        let length = bytes.len() - from;
        let at = from + random.next(length);
        match random.next(5) {
            0 => bytes[at] = random.next(256) as u8,
            1 => bytes[at] ^= 1 << random.next(8),
            2 => bytes[at] = [0, 0xff, 0x7f, 0x80][random.next(4)],
            // A byte changes most in a header.
            3 => bytes[from + random.next(length.min(28))] = random.next(256) as u8,
            _ => bytes.truncate((at + 1).max(from + 1)),
        }
    }
}

/// Inputs that a fuzz target found worth keeping.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 20, "the corpus of {target} is gone");
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Runs each input unchanged, and then mutated a number of times. The first `fixed` bytes of an input stay.
fn run(inputs: &[Vec<u8>], fixed: usize, times: usize, exercise: impl Fn(&[u8])) {
    let mut random = Random(1);
    for input in inputs {
        exercise(input);
        for _ in 0..if input.len() > fixed { times } else { 0 } {
            let mut bytes = input.clone();
            mutate(&mut random, &mut bytes, fixed);
            exercise(&bytes);
        }
    }
}

#[test]
fn mutated_sections_never_panic() {
    let fixtures = common::all().into_iter().filter(|fixture| !fixture.data.is_empty());
    let input = |fixture: common::Fixture| [&fixture.address.to_le_bytes(), &fixture.data[..]].concat();
    run(&fixtures.map(input).collect::<Vec<_>>(), 8, 10_000, common::exercise::all);
}

#[test]
fn kept_inputs_of_the_reader_never_panic() {
    run(&corpus("read"), 0, 5000, common::exercise::read);
}

#[test]
fn kept_inputs_of_look_ups_never_panic() {
    run(&corpus("look_up"), 0, 5000, common::exercise::look_up);
}

#[test]
fn kept_inputs_of_the_converter_never_panic() {
    run(&corpus("convert"), 0, 5000, common::exercise::convert);
}

#[test]
fn kept_inputs_of_patching_never_panic() {
    run(&corpus("patch"), 0, 5000, common::exercise::patch);
}

#[test]
fn kept_inputs_of_compact_tables_never_panic() {
    run(&corpus("compact"), 0, 1000, common::exercise::compact);
}

#[cfg(feature = "derive")]
#[test]
fn mutated_call_frame_information_never_panics() {
    use sframe_format::{Abi, derive::derive, write::Options};
    let exercise = |bytes: &[u8]| {
        let Some((&abi, eh_frame)) = bytes.split_first() else { return };
        let abi = Abi::from_byte(abi % 4 + 1).unwrap();
        let _ = derive(Options::new(abi), eh_frame, 0x1000, 0x2000);
    };
    let fixtures = common::all().into_iter().filter(|fixture| !fixture.eh_frame.is_empty());
    let input = |fixture: common::Fixture| {
        let abi = sframe_format::Section::new(&fixture.data, 0).blob_at(0).unwrap().header().abi;
        [&[abi as u8 + 3], &fixture.eh_frame[..]].concat()
    };
    run(&fixtures.map(input).collect::<Vec<_>>(), 1, 3000, exercise);
    run(&corpus("derive"), 0, 1000, exercise);
}
