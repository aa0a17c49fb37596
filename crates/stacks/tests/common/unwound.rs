//! Recordings, unwound.

use super::Writer;
use sframe_format::{Abi, Source};
use stacks::bytes::Bytes;
use stacks::kernel::Kernel;
use stacks::modules::Modules;
use stacks::named::Named;
use stacks::profile::{Names, Profile};
use stacks::recording::Recording;
use stacks::session::{Session, Settings};
use stacks::statistics::Statistics;
use stacks::write::{Format, write};
use std::path::PathBuf;

/// The path of a file, from this crate's folder.
pub fn fixture(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
    path.canonicalize().expect("the fixture").display().to_string()
}

pub struct Unwound {
    pub profile: Profile,
    pub files: stacks::files::Files,
    pub statistics: Statistics,
    pub damage: Option<String>,
}

pub fn unwind(bytes: Vec<u8>, settings: Settings) -> Unwound {
    let recording = Recording::new(Bytes::from(bytes)).expect("a recording");
    let mut profile = Profile::new(true);
    let mut session = Session::new(Abi::Amd64, settings);
    recording.each_event(&mut |event, record| {
        session.handle(event, record, &mut |stack| profile.add(stack));
    });
    let (files, statistics) = session.finish(&mut |stack| profile.add(stack));
    let damage = recording.damage.map(|damage| damage.to_string());
    Unwound { profile, files, statistics, damage }
}

impl Unwound {
    pub fn of(writer: &Writer) -> Self {
        unwind(writer.file(), Settings::default())
    }

    /// Addresses of the frames of a sample, and the source of each.
    pub fn frames(&self, sample: usize) -> Vec<(u64, Option<Source>)> {
        let stack = self.profile.rows[sample].stack;
        let frames = self.profile.frames_of(stack).map(|frame| self.profile.frames[frame as usize]);
        frames.map(|frame| (frame.address, frame.source)).collect()
    }

    pub fn end(&self, sample: usize) -> String {
        self.profile.rows[sample].end.describe(&Modules::of(&self.files))
    }

    pub fn with_names<T>(&self, take: impl FnOnce(Named<'_>) -> T) -> T {
        let names = Names::new(&self.profile, &self.files, &Kernel::default(), false);
        let modules = Modules::of(&self.files);
        let report = self.statistics.report(&self.files);
        let (profile, title) = (&self.profile, "a <test>");
        take(Named { profile, names: &names, modules: &modules, report: &report, title })
    }

    pub fn written(&self, format: Format) -> Vec<u8> {
        let mut output = Vec::new();
        self.with_names(|named| write(format, named, &mut output)).unwrap();
        output
    }
}
