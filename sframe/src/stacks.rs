//! `sframe stacks`: unwinds the samples of a recording of perf.

use super::args::Stacks;
use super::open::Problem;
use super::report::{Outcome, complain};
use super::stack_output::{Plan, settings, write_all};
use sframe_format::{Abi, Endian};
use stacks::bytes::Bytes;
use stacks::kernel::Kernel;
use stacks::live::NATIVE;
use stacks::profile::Profile;
use stacks::recording::Recording;
use stacks::session::Session;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Unwinds all samples and writes them. If a recording is damaged, the samples before the damage are written.
pub fn run(arguments: &Stacks) -> Outcome {
    let name = arguments.recording.display().to_string();
    match unwind(arguments, &name) {
        Ok(None) => Outcome::Fine,
        Ok(Some(problem)) | Err(problem) => {
            complain(&problem);
            Outcome::Unusable
        }
    }
}

/// Writes the samples. Returns the damage of the recording, if there is any.
fn unwind(arguments: &Stacks, name: &str) -> Result<Option<Problem>, Problem> {
    let plan = Plan::new(&arguments.output, Some(&arguments.recording))?;
    let bytes =
        read(&arguments.recording).map_err(|error| Problem::new(name, format!("cannot read: {error}")))?;
    let recording = Recording::new(bytes).map_err(|damage| Problem::new(name, damage.to_string()))?;
    let abi = machine(&recording).map_err(|message| Problem::new(name, message))?;
    let stats = arguments.output.stats.is_some();
    let mut session = Session::new(abi, settings(&arguments.rows, arguments.sysroot.clone(), stats));
    for id in &recording.build_ids {
        session.expect(&id.path, &id.id);
    }
    let mut profile = Profile::new(plan.wants_addresses());
    profile.events = recording
        .sampled
        .iter()
        .map(|event| event.name.clone().unwrap_or_else(|| "samples".into()))
        .collect();
    let mut take = |stack: &stacks::session::Stack<'_>| profile.add(stack);
    for (event, record) in recording.events() {
        session.handle(event, record.as_ref(), &mut take);
    }
    let kernel = Kernel::of(recording.kernel_build_id(), session.kernel_reference().cloned());
    let (files, statistics) = session.finish(&mut take);
    profile.notes = statistics.coverage.notes();
    write_all(&plan, &profile, &files, &statistics, &kernel, name)?;
    let damage = recording.damage.as_ref().map(|damage| Problem::new(name, damage.to_string()));
    // The process ends now, and the system frees its memory faster than destructors would.
    std::mem::forget((recording, files, profile));
    Ok(damage)
}

fn read(path: &Path) -> std::io::Result<Bytes> {
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
