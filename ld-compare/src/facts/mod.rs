//! The facts by which a run is judged.
//!
//! Everything that can be compared is flattened to an [`Aspect`], a key and a short value, without details
//! that linkers are free to choose (addresses, sizes of tables, paths). So differences and majorities are
//! found in one way for all facts. A key that a linker lacks is [`ABSENT`].

mod collector;
mod file;
mod frames;
mod inputs;
pub mod messages;
mod view;

pub use collector::{Aspect, Collector, Table};
pub use frames::eh_frame as eh_frame_functions;
pub use inputs::Inputs;
pub use view::{Section, View};

use crate::run::{Run, Status};
use messages::Message;
use serde::{Deserialize, Serialize};

/// The value of a key that is not there.
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
    /// Its messages, normalised.
    pub messages: Vec<Message>,
    /// Its facts to compare.
    pub table: Table,
}

/// Looks at a run.
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
        // To die is not to refuse.
        other => other.to_string(),
    }
}

fn look_at(collector: &mut Collector, view: &View<'_>, inputs: &Inputs, path: &std::path::Path) {
    file::look_at(collector, view);
    inputs.look_at(collector, view);
    frames::look_at(collector, view, path);
}
