//! Reads samples: a recording of perf, whose stacks are unwound; a profile that this command has written; or
//! the text of `perf script`. What a file is, its first bytes say.

use super::open::Problem;
use sframe_format::{Abi, Endian};
use stacks::bytes::Bytes;
use stacks::files::Files;
use stacks::kernel::Kernel;
use stacks::live::NATIVE;
use stacks::profile::Profile;
use stacks::recording::Recording;
use stacks::script;
use stacks::session::{Session, Settings};
use stacks::statistics::Statistics;
use stacks::write::Kept;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::SystemTime;

/// What a file holds.
pub enum Samples {
    /// A recording of perf.
    Recorded(Box<Unwound>),
    /// A profile, which has names already.
    Kept(Box<Kept>),
}

/// An unwound recording.
pub struct Unwound {
    /// Its samples.
    pub profile: Profile,
    /// The files of its processes.
    pub files: Files,
    /// How complete the stacks are.
    pub statistics: Statistics,
    /// Names of the kernel's functions.
    pub kernel: Kernel,
    /// The defect after the last sample.
    pub damage: Option<Problem>,
}

impl Samples {
    /// Reads a file, or standard input for `-`. Without `addresses`, places in files are enough.
    ///
    /// # Errors
    /// It cannot be read, or is none of the forms.
    pub fn read(path: &Path, settings: Settings, addresses: bool) -> Result<Self, Problem> {
        let name = path.display().to_string();
        let bytes = bytes(path).map_err(|error| Problem::new(&*name, format!("cannot read: {error}")))?;
        let wrong = |message: String| Problem::new(&*name, message);
        if Kept::begins(&bytes) {
            return Ok(Self::Kept(Box::new(Kept::read(&bytes).map_err(wrong)?)));
        }
        // Most recordings do not say when they were made. They were written when they ended.
        let ended =
            std::fs::metadata(path).and_then(|data| data.modified()).unwrap_or_else(|_| SystemTime::now());
        if script::begins(&bytes) {
            let mut kept = script::read(&bytes, &name).map_err(wrong)?;
            kept.profile.has_ended(ended);
            return Ok(Self::Kept(Box::new(kept)));
        }
        let mut unwound = unwind(bytes, settings, addresses, &name)?;
        unwound.profile.has_ended(ended);
        Ok(Self::Recorded(Box::new(unwound)))
    }
}

fn unwind(bytes: Bytes, settings: Settings, addresses: bool, name: &str) -> Result<Unwound, Problem> {
    let recording = Recording::new(bytes).map_err(|damage| Problem::new(name, damage.to_string()))?;
    let abi = machine(&recording).map_err(|message| Problem::new(name, message))?;
    let mut session = Session::new(abi, settings);
    for id in &recording.build_ids {
        session.expect(&id.path, &id.id);
    }
    let mut profile = Profile::new(addresses);
    profile.events = recording
        .sampled
        .iter()
        .map(|event| event.name.clone().unwrap_or_else(|| "samples".into()))
        .collect();
    let mut take = |stack: &stacks::session::Stack<'_>| profile.add(stack);
    recording.each_event(&mut |event, record| session.handle(event, record, &mut take));
    let kernel = Kernel::of(recording.kernel_build_id(), session.kernel_reference().cloned());
    let (files, statistics) = session.finish(&mut take);
    profile.notes = statistics.coverage.notes();
    let first = profile.rows.iter().filter_map(|row| row.time).min();
    profile.begun = first.and_then(|first| recording.moment(first));
    let damage = recording.damage.as_ref().map(|damage| Problem::new(name, damage.to_string()));
    // The process ends soon, and the system frees its memory faster than destructors would.
    std::mem::forget(recording);
    Ok(Unwound { profile, files, statistics, kernel, damage })
}

fn bytes(path: &Path) -> std::io::Result<Bytes> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes)?;
        return Ok(bytes.into());
    }
    Bytes::map(&File::open(path)?)
}

/// The machine of a recording; this machine if the recording does not name one.
fn machine(recording: &Recording) -> Result<Abi, String> {
    let abi = match recording.machine.as_deref() {
        Some("x86_64") => Some(Abi::Amd64),
        Some("aarch64") => Some(Abi::AArch64Little),
        Some("aarch64_be") => Some(Abi::AArch64Big),
        Some("s390x") => Some(Abi::S390x),
        Some(other) => {
            return Err(format!("a recording of {other}; SFrame is defined for x86-64, AArch64 and s390x"));
        }
        None => NATIVE.filter(|abi| abi.endian() == recording.endian()),
    };
    let fits = |abi: &Abi| abi.endian() == recording.endian();
    abi.filter(fits).ok_or_else(|| match recording.endian() {
        Endian::Little => "the recording does not say of which machine it is".into(),
        Endian::Big => "a big-endian recording that does not say of which machine it is".into(),
    })
}
