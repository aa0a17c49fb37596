//! The facts by which a run is judged.
//!
//! Everything that can be compared is flattened to an [`Aspect`], a key and a short value, with whatever differs from
//! linker to linker for no reason (addresses, sizes of tables, paths) taken out: then differences and majorities are
//! found in one way for all of them. A key that a linker lacks is [`ABSENT`].

mod file;
mod frames;
mod inputs;
pub mod messages;
mod view;

pub use frames::eh_frame as eh_frame_functions;
pub use inputs::Inputs;
pub use view::{Section, View};

use crate::run::{Run, Status};
use messages::Message;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The value of a key that is not there.
pub const ABSENT: &str = "absent";

/// The kind of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aspect {
    /// Whether the link succeeded.
    Status,
    /// Errors and warnings, by their topics.
    Messages,
    /// ELF type and flags.
    Header,
    /// Output sections: type and flags.
    Sections,
    /// Input sections: kept or not, and where.
    Inputs,
    /// Input sections in each output section, by address.
    Order,
    /// Section groups of relocatable output.
    Groups,
    /// `SHF_LINK_ORDER`: the section that `sh_link` names.
    LinkOrder,
    /// The symbol table.
    Symbols,
    /// Symbols that share a value, symbols on the border of a section, and the distances between symbols of
    /// one input section.
    Values,
    /// Entries of the dynamic section.
    Dynamic,
    /// Imports and exports.
    DynamicSymbols,
    /// Relocations for the dynamic linker.
    DynamicRelocations,
    /// Relocations of relocatable output.
    Relocations,
    /// Program headers.
    Segments,
    /// Functions that `.eh_frame` covers.
    EhFrame,
    /// SFrame: versions, blobs, functions covered, missing, wrong.
    Sframe,
}

impl Aspect {
    /// The name in reports and baselines.
    pub fn name(self) -> &'static str {
        match self {
            Aspect::Status => "status",
            Aspect::Messages => "messages",
            Aspect::Header => "header",
            Aspect::Sections => "sections",
            Aspect::Inputs => "inputs",
            Aspect::Order => "order",
            Aspect::Groups => "groups",
            Aspect::LinkOrder => "link order",
            Aspect::Symbols => "symbols",
            Aspect::Values => "values",
            Aspect::Dynamic => "dynamic",
            Aspect::DynamicSymbols => "dynamic symbols",
            Aspect::DynamicRelocations => "dynamic relocations",
            Aspect::Relocations => "relocations",
            Aspect::Segments => "segments",
            Aspect::EhFrame => "eh_frame",
            Aspect::Sframe => "sframe",
        }
    }
}

/// Values by aspect and key.
pub type Table = BTreeMap<Aspect, BTreeMap<String, String>>;

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

/// Fills a [`Table`].
#[derive(Default)]
pub struct Collector {
    table: Table,
}

impl Collector {
    /// Notes a value.
    pub fn set(&mut self, aspect: Aspect, key: impl Into<String>, value: impl Into<String>) {
        self.table.entry(aspect).or_default().insert(key.into(), value.into());
    }

    /// Counts an occurrence: the value is the number.
    pub fn count(&mut self, aspect: Aspect, key: impl Into<String>) {
        let value = self.table.entry(aspect).or_default().entry(key.into()).or_insert_with(|| "0".into());
        *value = (value.parse::<u64>().unwrap_or(0) + 1).to_string();
    }
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
    Facts { status: run.status, seconds: run.seconds, size, messages, table: collector.table }
}

fn failure(status: Status) -> String {
    match status {
        Status::Exit(_) => "error".to_owned(),
        // A linker that dies is no linker that refuses.
        other => other.to_string(),
    }
}

fn look_at(collector: &mut Collector, view: &View<'_>, inputs: &Inputs, path: &std::path::Path) {
    file::look_at(collector, view);
    inputs.look_at(collector, view);
    frames::look_at(collector, view, path);
}
