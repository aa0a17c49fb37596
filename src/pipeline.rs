//! The passes of a link, in their order. This file is the map of the linker.
//!
//! Final and relocatable links take the same way; the mode is a value that passes ask. Lines
//! marked *frozen* say what no later pass may change.

use crate::arch::Target;
use crate::cli::{Config, InputSpec};
use crate::diag::{Aborted, Diagnostic, Sink};
use crate::input::{InputSource, InputStore};
use crate::link::Link;
use crate::output::file::OutputFile;
use crate::passes::open_inputs::Opened;
use crate::passes::*;
use crate::script::Sources;
use crate::timing::Timings;
use crate::{arch, output, relocs, synth};

/// What came of a link.
#[derive(Debug)]
pub struct Outcome {
    /// Everything that was reported, in a fixed order.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether the output was made.
    pub succeeded: bool,
    /// Texts that were asked for on standard output (`--print-map`, `--stats`, …), in order.
    pub printed: String,
    /// `--time-report`.
    pub timings: Timings,
}

/// Links. Re-entrant: it reads files through `source` only, writes the output (and the reports
/// that go to files) and nothing else, and ends by returning. `earlier` are the diagnostics of
/// parsing the command line; they are judged by its policy and come first.
pub fn link(
    config: &Config,
    inputs: &[InputSpec],
    source: &dyn InputSource,
    earlier: Vec<Diagnostic>,
) -> Outcome {
    let sink = Sink::new(config.diagnostics.policy());
    earlier.into_iter().for_each(|diagnostic| sink.report(diagnostic));
    let mut progress = Progress::default();
    let threads = config.threads.map_or(0, |threads| threads.get());
    let succeeded = match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) => pool.install(|| run_all(config, inputs, source, &sink, &mut progress)).is_ok(),
        Err(error) => {
            sink.report(Diagnostic::error(
                crate::diag::Code::Internal,
                format!("cannot start threads: {error}"),
            ));
            false
        }
    };
    Outcome {
        diagnostics: sink.into_sorted(),
        succeeded,
        printed: progress.printed,
        timings: progress.timings,
    }
}

/// What accumulates beside the link itself.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) printed: String,
    pub(crate) timings: Timings,
}

fn run_all(
    config: &Config,
    inputs: &[InputSpec],
    source: &dyn InputSource,
    sink: &Sink,
    progress: &mut Progress,
) -> Result<(), Aborted> {
    let store = InputStore::default();
    let mut sources = Sources::new();
    let opened = open_inputs::run(config, inputs, source, &store, &mut sources, sink);
    progress.timings.pass("open inputs");
    sink.checkpoint()?;
    let job = Job { config, source, sink, store: &store, opened, sources };
    arch::dispatch::run(job, progress)
}

/// A link whose machine is known.
pub(crate) struct Job<'a> {
    pub(crate) config: &'a Config,
    pub(crate) source: &'a dyn InputSource,
    pub(crate) sink: &'a Sink,
    pub(crate) store: &'a InputStore,
    pub(crate) opened: Opened<'a>,
    pub(crate) sources: Sources,
}

/// All passes, for one machine.
pub(crate) fn run<T: Target>(job: Job<'_>, progress: &mut Progress) -> Result<(), Aborted> {
    let mut link = Link::<T>::new(job.config, job.sink, job.store);
    output::reports::files_read(&job.opened, job.config, job.source, job.sink, &mut progress.printed);

    // ---- symbols ------------------------------------------------------------------------------
    read_scripts::run(&mut link, &job);
    job.sink.checkpoint()?;
    let mut parsed = parse_inputs::run::<T>(job.config, &job.opened.files, job.store, job.sink);
    let assigned = define_linker_symbols::intern_names(&mut link, &mut parsed);
    progress.timings.pass("parse inputs");
    let extracted = extract_members::run::<T>(
        &parsed.files,
        &job.opened.steps,
        parsed.names.len(),
        &assigned.wanted,
        &assigned.defined,
    );
    output::reports::extracted(&parsed, &extracted, job.config, job.sink, &mut progress.printed);
    index_objects::run(&mut link, parsed, &extracted);
    job.sink.checkpoint()?;
    progress.timings.pass("extract members");
    // frozen: the files that take part.
    select_comdats::run(&mut link);
    job.sink.checkpoint()?;
    progress.timings.pass("select groups");
    select_definitions::run(&mut link);
    bind_versions::run(&mut link);
    define_linker_symbols::find_identifier_sections(&mut link);
    define_linker_symbols::run(&mut link, &assigned.symbols);
    assign_versions::run(&mut link);
    job.sink.checkpoint()?;
    progress.timings.pass("select definitions");
    // frozen: definitions.

    // ---- sections -----------------------------------------------------------------------------
    split_eh_frames::run(&mut link);
    create_synthetics::run(&mut link);
    match_script::run(&mut link);
    job.sink.checkpoint()?;
    // frozen: the rule of each section; the linker's own take part in it.
    settle_symbols::run(&link);
    progress.timings.pass("match script");
    collect_garbage::run(&mut link);
    output::reports::removed(&link, &mut progress.printed);
    progress.timings.pass("collect garbage");
    // frozen: liveness.
    let link_ref = &link;
    let (needs, merged) =
        rayon::join(|| scan_relocations::run(link_ref), || merge_strings::run(link_ref));
    merge_strings::place(&mut link, merged);
    scan_relocations::finish(&mut link, needs);
    job.sink.checkpoint()?;
    progress.timings.pass("scan relocations, merge strings");
    build_synthetics::run(&mut link);
    create_relocatable::run(&mut link);
    job.sink.checkpoint()?;
    progress.timings.pass("build synthetic sections");
    // frozen: the sections of the output.

    // ---- addresses ----------------------------------------------------------------------------
    lay_out::run(&mut link);
    job.sink.checkpoint()?;
    progress.timings.pass("lay out");
    // frozen: addresses.
    compute_values::run(&mut link);
    compress_debug::run(&mut link);
    job.sink.checkpoint()?;
    progress.timings.pass("compute values");

    // ---- bytes --------------------------------------------------------------------------------
    write(&mut link, progress)?;
    output::reports::finish(&link, &mut progress.printed);
    job.sink.checkpoint()?;
    progress.timings.pass("reports");
    Ok(())
}

/// Makes the file. Nothing is in its place before everything has succeeded.
fn write<T: Target>(link: &mut Link<'_, T>, progress: &mut Progress) -> Result<(), Aborted> {
    let cannot_write = |error: std::io::Error| {
        link.sink.report(Diagnostic::error(
            crate::diag::Code::CannotWrite,
            format!("cannot write {}: {error}", link.config.output.display()),
        ));
        Aborted
    };
    let executable = !link.config.is_relocatable();
    let mut file = OutputFile::create(&link.config.output, link.layout.file_size, executable)
        .map_err(cannot_write)?;
    write_output::run(link, file.bytes());
    link.sink.checkpoint()?;
    progress.timings.pass("write output");
    output::build_id::write(link, file.bytes());
    progress.timings.pass("build id");
    file.commit().map_err(cannot_write)?;
    progress.timings.pass("commit");
    Ok(())
}
