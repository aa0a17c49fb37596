//! The facts that a run is judged by.
//!
//! A fact is an [`Aspect`], a key and a short value. It has no details that linkers may choose, such as
//! addresses, sizes of tables and paths. Because all facts have this form, differences and majorities are
//! found in one way for all of them. If a linker lacks a key, its value is [`ABSENT`].

mod collector;
mod file;
mod frames;
mod inputs;
pub mod messages;
mod view;

pub use collector::{Aspect, Collector, Table};
pub use frames::eh_frame as eh_frame_functions;
pub use inputs::Inputs;
pub use view::{Relocation, Section, Segment, Symbol, View};

use crate::run::{Run, Status};
use messages::Message;
use serde::{Deserialize, Serialize};

/// The value of a missing key.
pub const ABSENT: &str = "absent";

/// All facts of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// How it ended.
    pub status: Status,
    /// Wall time in seconds.
    pub seconds: f64,
    /// Size of the output in bytes.
    pub size: Option<u64>,
    /// Its messages, in one form for all linkers.
    pub messages: Vec<Message>,
    /// The facts to compare.
    pub table: Table,
}

/// Collects the facts of a run.
pub fn gather(run: &Run, inputs: &Inputs) -> Facts {
    let mut collector = Collector::default();
    let verdict = if run.status.is_success() { "ok".to_owned() } else { failure(run.status) };
    collector.set(Aspect::Status, "link", verdict);
    let messages = messages::read(&run.messages, run.folder.path());
    for message in &messages {
        collector.set(Aspect::Messages, message.key(), "said");
    }
    let mut size = None;
    if let Some(path) = run.output.as_deref().filter(|_| run.status.is_success()) {
        match std::fs::read(path) {
            Ok(bytes) => {
                size = Some(bytes.len() as u64);
                match View::parse(&bytes) {
                    Ok(view) => look_at(&mut collector, &view, inputs, path),
                    Err(error) => collector.set(Aspect::Header, "output", format!("unreadable: {error}")),
                }
            }
            Err(error) => collector.set(Aspect::Header, "output", format!("unreadable: {error}")),
        }
    }
    Facts { status: run.status, seconds: run.seconds, size, messages, table: collector.into_table() }
}

fn failure(status: Status) -> String {
    match status {
        Status::Exit(_) => "error".to_owned(),
        // A linker that dies has not refused the link.
        other => other.to_string(),
    }
}

fn look_at(collector: &mut Collector, view: &View<'_>, inputs: &Inputs, path: &std::path::Path) {
    file::look_at(collector, view);
    inputs.look_at(collector, view);
    frames::look_at(collector, view, path);
}
