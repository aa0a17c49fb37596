//! Reads the bytes as a recording of perf, and as the text of `perf script`, which is written and read again.
//! There must be no panic, and memory must be in proportion to the input.
#![no_main]

#[path = "../recording.rs"]
mod recording;

use libfuzzer_sys::fuzz_target;
use stacks::script;
use stacks::write::{Format, write};

/// Reads a text, and writes what was read.
fn text(data: &[u8]) {
    let Ok(kept) = script::read(data, "") else { return };
    let mut written = Vec::new();
    write(Format::Text, kept.named(), &mut written).expect("memory takes all");
    if let Err(wrong) = script::read(&written, "") {
        panic!("{wrong}, of {:?}", String::from_utf8_lossy(&written));
    }
}

fuzz_target!(|data: &[u8]| {
    text(data);
    recording::exercise(data);
});
