//! The fuzz targets' entry points on mutated fixtures, for a bounded number of inputs and a fixed seed.

mod common;

/// A small generator (splitmix64): the same mutations every run.
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
    for _ in 0..1 + random.next(4) {
        let length = bytes.len() - from;
        let at = from + random.next(length);
        match random.next(5) {
            0 => bytes[at] = random.next(256) as u8,
            1 => bytes[at] ^= 1 << random.next(8),
            2 => bytes[at] = [0, 0xff, 0x7f, 0x80][random.next(4)],
            // Headers are where one byte changes most.
            3 => bytes[from + random.next(length.min(28))] = random.next(256) as u8,
            _ => bytes.truncate((at + 1).max(from + 1)),
        }
    }
}

#[test]
fn mutated_sections_never_panic() {
    let mut random = Random(1);
    for fixture in common::all().into_iter().filter(|fixture| !fixture.data.is_empty()) {
        for _ in 0..120 {
            let mut bytes = fixture.address.to_le_bytes().to_vec();
            bytes.extend_from_slice(&fixture.data);
            mutate(&mut random, &mut bytes, 8);
            common::exercise::all(&bytes);
        }
    }
}

#[cfg(feature = "derive")]
#[test]
fn mutated_call_frame_information_never_panics() {
    use sframe_format::{Section, derive::derive, write::Options};
    let mut random = Random(2);
    for fixture in common::all().into_iter().filter(|fixture| !fixture.eh_frame.is_empty()) {
        let abi = Section::new(&fixture.data, 0).blob_at(0).unwrap().header().abi;
        for _ in 0..60 {
            let mut bytes = fixture.eh_frame.clone();
            mutate(&mut random, &mut bytes, 0);
            let _ = derive(Options::new(abi), &bytes, fixture.eh_frame_address, fixture.address);
        }
    }
}
