//! Reads bytes as a recording of perf. The fuzz target and a test of the crate share this function.

use stacks::bytes::Bytes;
use stacks::profile::Profile;
use stacks::recording::Recording;
use stacks::session::{Session, Settings};

/// Unwinds all samples of what may be a recording.
pub fn exercise(data: &[u8]) {
    let Ok(recording) = Recording::new(Bytes::from(data.to_vec())) else { return };
    let mut session = Session::new(sframe_format::Abi::Amd64, Settings::default());
    let mut profile = Profile::new(true);
    recording.each_event(&mut |event, record| {
        session.handle(event, record, &mut |stack| profile.add(stack));
    });
    session.finish(&mut |stack| profile.add(stack));
}
