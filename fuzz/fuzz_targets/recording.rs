//! Reads the bytes as a recording of perf. There must be no panic, and memory must be in proportion to the
//! input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stacks::bytes::Bytes;
use stacks::profile::Profile;
use stacks::recording::Recording;
use stacks::session::{Session, Settings};

fuzz_target!(|data: &[u8]| {
    let Ok(recording) = Recording::new(Bytes::from(data.to_vec())) else { return };
    let mut session = Session::new(sframe_format::Abi::Amd64, Settings::default());
    let mut profile = Profile::new(true);
    for (event, record) in recording.events() {
        session.handle(event, record.as_ref(), &mut |stack| profile.add(stack));
    }
    session.finish(&mut |stack| profile.add(stack));
});
