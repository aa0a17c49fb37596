//! Reads the bytes as a recording of perf, and as the text of `perf script`, which is written and read again.
//! There must be no panic, and memory must be in proportion to the input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stacks::bytes::Bytes;
use stacks::profile::Profile;
use stacks::recording::Recording;
use stacks::script;
use stacks::session::{Session, Settings};
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
    let Ok(recording) = Recording::new(Bytes::from(data.to_vec())) else { return };
    let mut session = Session::new(sframe_format::Abi::Amd64, Settings::default());
    let mut profile = Profile::new(true);
    for (event, record) in recording.events() {
        session.handle(event, record.as_ref(), &mut |stack| profile.add(stack));
    }
    session.finish(&mut |stack| profile.add(stack));
});
