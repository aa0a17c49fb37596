//! The passes of a link, in their order. This file is the map of the linker.
//!
//! Final and relocatable links take the same way; the mode is a value that passes ask. Lines marked
//! *frozen* name facts that no later pass may change.

use crate::arch::{ForTarget, Target};
use crate::cli::{Config, InputSpec, Link32Bit};
use crate::diag::{Aborted, Code, Diagnostic, Sink};
use crate::ids::{SectionId, SymbolId};
use crate::input::chroot::Chroot;
use crate::input::shared::NeededLibraries;
use crate::input::{InputSource, InputStore, SectionClass};
use crate::output::file::OutputFile;
use crate::passes::define_linker_symbols::OutsideNames;
use crate::passes::open_inputs::Opened;
use crate::passes::read_scripts::MainScripts;
use crate::passes::select_comdats::Compiled;
use crate::passes::*;
use crate::phase::{Image, Inputs, Resolved, SectionStates, Session};
use crate::plan::LayoutPlan;
use crate::report_files::ReportFiles;
use crate::reports::reproduce::Recorder;
use crate::script::Sources;
use crate::sframe_output;
use crate::threads::Threads;
use crate::timing::Timings;
use crate::{arch, output, reports};
use parallel::join;
use rayon_core::ThreadPoolBuildError;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// The result of a link.
#[derive(Debug)]
pub struct Outcome {
    /// Everything that was reported, in a fixed order.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether the output was made.
    pub succeeded: bool,
    /// The reports for standard output (`--print-map`, `--stats`, …), in order; the caller prints them.
    pub printed: String,
    /// `--time-report`.
    pub timings: Timings,
    /// The link is for a machine of 32 bits, which is an error here. The caller may have another linker make
    /// it, unless [`Config::no_fallback`] forbids that.
    pub needs_32_bit_linker: Option<Link32Bit>,
    /// Keeps the file that the output replaced; its blocks are freed when this is dropped.
    pub replaced: Option<File>,
}

/// The most inputs that one thread opens.
const FEW_INPUTS: usize = 200;

/// Whether a link that is over frees its memory: mapped inputs, tables, threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// The link frees it, as a library must.
    Freed,
    /// The link leaves it, because the process ends: to free a gigabyte piece by piece takes longer
    /// than the system needs to drop the whole address space.
    Left,
}

impl Memory {
    /// Starts the threads of a link. With [`Memory::Left`] the calling thread is one of them, which saves
    /// starting one: the process ends before anybody needs that thread back.
    fn threads(self, config: &Config) -> Result<Threads, ThreadPoolBuildError> {
        Threads::start(config.threads, self == Memory::Left)
    }

    /// Drops a value, or leaves it to the end of the process.
    fn end_of<V>(self, value: V) {
        match self {
            Memory::Freed => drop(value),
            Memory::Left => std::mem::forget(value),
        }
    }
}

/// Links. Re-entrant: it reads inputs through `source` (except objects that an LTO plugin just wrote),
/// writes the output and the reports that go to files, and always returns. Only options make it run
/// foreign code: plugins, and the script of `--error-handling-script`. `earlier` are the diagnostics of
/// parsing the command line; they are judged by its policy and come first.
pub fn link(
    config: &Config,
    inputs: &[InputSpec],
    source: &dyn InputSource,
    earlier: Vec<Diagnostic>,
    memory: Memory,
) -> Outcome {
    link_in_steps(config, inputs, source, earlier, memory, None)
}

/// Takes what was reported so far, and what is to be printed, when the output is in its place.
pub type Delivered<'a> = &'a (dyn Fn(Vec<Diagnostic>, &str) + Sync);

/// The same. A link with a separate debug file calls `delivered` when the output is in its place and can run:
/// the debug file takes most of the time. The outcome then has only what came later.
pub fn link_in_steps(
    config: &Config,
    inputs: &[InputSpec],
    source: &dyn InputSource,
    earlier: Vec<Diagnostic>,
    memory: Memory,
    delivered: Option<Delivered<'_>>,
) -> Outcome {
    let sink = Sink::new(config.diagnostics.policy());
    earlier.into_iter().for_each(|diagnostic| sink.report(diagnostic));
    let mut progress = Progress::default();
    if config.reports.time_trace.is_some() {
        progress.timings.watch_threads();
    }
    if let Some(link) = &config.needs_32_bit_linker {
        sink.report(narrow(&link.asked_by));
        progress.needs_32_bit_linker = Some(link.clone());
        return finish(config, progress, sink, false);
    }
    let files = ReportFiles::default();
    let mut succeeded = match memory.threads(config) {
        Ok(threads) => {
            let (files, sink) = (&files, &sink);
            let task = Task { config, inputs, source, memory, threads: &threads, files, sink, delivered };
            let linked = threads.pool.install(|| run_below(task, &mut progress)).is_ok();
            progress.timings.threads = threads.running();
            threads.unpin();
            threads.release();
            memory.end_of(threads);
            linked
        }
        Err(error) => {
            sink.report(Diagnostic::error(Code::Internal, format!("cannot start threads: {error}")));
            false
        }
    };
    if progress.inputs_are_safe {
        succeeded &= write_trace(config, &progress.timings, &files, &sink).is_ok();
    }
    if succeeded && let Some(output) = progress.output.take() {
        succeeded = commit(output, &mut progress, &sink).is_ok();
    }
    drop(files);
    finish(config, progress, sink, succeeded)
}

/// What comes back to the caller.
fn finish(config: &Config, progress: Progress, sink: Sink, succeeded: bool) -> Outcome {
    let mut diagnostics = sink.into_sorted();
    if let Some(script) = &config.diagnostics.error_script {
        let limit = config.diagnostics.error_limit.map_or(usize::MAX, |limit| limit.get());
        diagnostics.extend(reports::error_script::run(script, &diagnostics, limit));
    }
    let Progress { printed, timings, replaced, needs_32_bit_linker, .. } = progress;
    Outcome { diagnostics, succeeded, printed, timings, needs_32_bit_linker, replaced }
}

/// The error that something names a machine of 32 bits.
fn narrow(what: &str) -> Diagnostic {
    let message = format!("{what} asks for a link for a machine of 32 bits");
    Diagnostic::error(Code::WrongMachine, message)
        .help("a linker of the system can make it; this one links for machines of 64 bits")
}

/// Writes the file of `--time-trace`, also for a link that failed.
fn write_trace(config: &Config, timings: &Timings, files: &ReportFiles, sink: &Sink) -> Result<(), Aborted> {
    let granularity = Duration::from_micros(config.reports.time_trace_granularity);
    let write = |mut file: &File| file.write_all(format!("{}\n", timings.trace(granularity)).as_bytes());
    files.write(reports::overwrite::TIME_TRACE, sink, write)
}

/// The options that name the files.
const OUTPUT: &str = "-o";
const DEBUG_FILE: &str = "--separate-debug-file=";

/// Moves the output to its place, when all else is done.
fn commit(output: OutputFile, progress: &mut Progress, sink: &Sink) -> Result<(), Aborted> {
    let (path, size) = (output.path().to_owned(), output.size());
    progress.replaced = output.commit().map_err(|error| {
        sink.report(output::file::cannot_write(&path, OUTPUT, Some(size), &error));
        Aborted
    })?;
    progress.timings.pass("commit");
    Ok(())
}

/// Results that accumulate over the passes, and that a failed link keeps.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) printed: String,
    pub(crate) timings: Timings,
    /// All inputs are known, and no file that an option writes is among them: `--time-trace` may write.
    inputs_are_safe: bool,
    /// GOT loads that this attempt relaxed and whose symbols are out of reach: the link must start again.
    far_loads: Vec<(SectionId, SymbolId)>,
    /// The output, which is complete but not in its place.
    output: Option<OutputFile>,
    replaced: Option<File>,
    needs_32_bit_linker: Option<Link32Bit>,
}

/// The arguments of a link, and where it reports to.
#[derive(Clone, Copy)]
struct Task<'a> {
    config: &'a Config,
    inputs: &'a [InputSpec],
    source: &'a dyn InputSource,
    memory: Memory,
    threads: &'a Threads,
    files: &'a ReportFiles,
    sink: &'a Sink,
    delivered: Option<Delivered<'a>>,
}

/// With `--chroot`, reads files below its folder.
fn run_below(task: Task<'_>, progress: &mut Progress) -> Result<(), Aborted> {
    match &task.config.search.chroot {
        Some(root) => run_recorded(Task { source: &Chroot::new(task.source, root), ..task }, progress),
        None => run_recorded(task, progress),
    }
}

/// With `--reproduce`, records every file that is read and archives it, even if the link fails.
fn run_recorded(task: Task<'_>, progress: &mut Progress) -> Result<(), Aborted> {
    let Task { config, source, files, sink, .. } = task;
    if config.reports.reproduce.is_none() {
        return run_all(task, progress);
    }
    let recorder = Recorder::new(source);
    let result = run_all(Task { source: &recorder, ..task }, progress);
    let current = std::env::current_dir().unwrap_or_default();
    reports::reproduce::write(config, &recorder, &current, files, sink);
    result.and_then(|()| sink.checkpoint())
}

/// Links, and again as long as relaxed GOT loads turn out not to reach their symbols. Each attempt keeps
/// the loads that any attempt before found, so the loop ends.
fn run_all(task: Task<'_>, progress: &mut Progress) -> Result<(), Aborted> {
    let (reported, printed) = (task.sink.count(), progress.printed.len());
    let mut far_loads = Vec::new();
    loop {
        let result = run_once(task, progress, &far_loads);
        if progress.far_loads.is_empty() {
            return result;
        }
        far_loads.append(&mut progress.far_loads);
        far_loads.sort_unstable();
        task.sink.withdraw(reported);
        progress.printed.truncate(printed);
    }
}

fn run_once(
    task: Task<'_>,
    progress: &mut Progress,
    far_loads: &[(SectionId, SymbolId)],
) -> Result<(), Aborted> {
    let Task { config, inputs, source, memory, threads, files, sink, delivered } = task;
    let store = InputStore::default();
    let mut sources = Sources::new();
    let main = read_scripts::open(config, source, &mut sources, sink);
    let config = &*read_scripts::configure(config, &main);
    if let Some(asked_by) = read_scripts::needs_32_bit_linker(config, &main) {
        sink.report(narrow(&asked_by));
        progress.needs_32_bit_linker = Some(Link32Bit { asked_by, emulation: None });
        return Err(Aborted);
    }
    files.open(reports::overwrite::written(config), &reports::overwrite::outputs(config), sink);
    // To open so many files is work for several threads; of fewer the size says more.
    if inputs.len() > FEW_INPUTS {
        threads.start_others(usize::MAX);
    }
    let opened = open_inputs::run(config, inputs, &main.replacing, source, &store, &mut sources, sink);
    threads.start_others(opened.size());
    progress.timings.pass("open inputs");
    progress.needs_32_bit_linker.clone_from(&opened.first_of_32_bits);
    sink.checkpoint()?;
    let machine = opened.machine.unwrap_or(arch::machine::DEFAULT);
    let session = Session { config, sink, store: &store, far_loads, files };
    let job = Job { session, source, memory, threads, delivered, main, opened, sources, progress };
    let result = arch::dispatch(machine, job);
    memory.end_of(store);
    result
}

/// A link whose inputs are open, so that its machine is known.
struct Job<'a, 'p> {
    session: Session<'a>,
    source: &'a dyn InputSource,
    memory: Memory,
    threads: &'a Threads,
    delivered: Option<Delivered<'a>>,
    main: MainScripts,
    opened: Opened<'a>,
    sources: Sources,
    progress: &'p mut Progress,
}

impl ForTarget for Job<'_, '_> {
    type Output = Result<(), Aborted>;

    fn run<T: Target>(self, _: T) -> Self::Output {
        run::<T>(self)
    }
}

/// All passes, for one machine.
fn run<T: Target>(job: Job<'_, '_>) -> Result<(), Aborted> {
    let Job { session, source, memory, threads, delivered, main, mut opened, mut sources, progress } = job;
    let Session { config, sink, store, .. } = session;

    // ---- symbols ------------------------------------------------------------------------------
    reports::search::<T>(config, &mut opened, &mut progress.printed);
    if opened.paths.is_empty() && config.reports.verbose {
        // `ld --verbose` only asks for the script.
        return Ok(());
    }
    let mut dependents = open_inputs::Dependents::new(config, source, store, sink);
    // Once for most links. Again if objects name libraries (`.deplibs`) or libraries bring others, because
    // such a library may be a script that changes the plan; and once after plugins compiled intermediate
    // code.
    let mut plugins = run_plugins::Plugins::default();
    let (directives, plan, parsed, assigned, extracted) = loop {
        let ((mut directives, plan), mut parsed) = join(
            || read_scripts::run(session, &main, &opened.scripts, &sources, source),
            || parse_inputs::run::<T>(session, &opened.files),
        );
        reports::overwrite::check(session, &plan.sources, &opened.paths);
        sink.check()?;
        if plugins.claim(session, &parsed.files, &mut opened, source) {
            progress.timings.pass("claim intermediate code");
            // Compilers that plugins start are to have all processors.
            threads.unpin();
            parsed = parse_inputs::run::<T>(session, &opened.files);
        }
        read_scripts::choose_entry(&mut directives, &plan, &parsed.globals);
        let assigned = define_linker_symbols::intern_names(&directives, &plan, &mut parsed.globals);
        find_library_definitions::run(config, &plan, &mut parsed);
        progress.timings.pass("parse inputs");
        let extracted = plugins.search(&parsed, &opened, &assigned);
        let found_more = dependents.open(&parsed.files, &extracted, &mut opened, &mut sources);
        progress.printed.push_str(&std::mem::take(&mut opened.attempts));
        if found_more {
            sink.check()?;
            continue;
        }
        plugins.report_not_compiled(&extracted, &opened, &parsed.globals.names, session);
        if !plugins.have_work(&extracted, &opened) {
            break (directives, plan, parsed, assigned, extracted);
        }
        sink.check()?;
        let reported = sink.count();
        plugins.note_reserve(&parsed, &extracted, &opened);
        let inputs = index_objects::run(directives, parsed, &extracted);
        let resolved = resolve(inputs, NeededLibraries::default(), &plan, &assigned, &Compiled::default())?;
        // This resolution only tells plugins how the symbols of intermediate code are used. With machine code
        // in its place everything is resolved again, so the warnings of this attempt would come twice.
        sink.withdraw(reported);
        plugins.compile(resolved, &assigned, &extracted, &mut opened, &mut sources, source)?;
        progress.timings.pass("compile intermediate code");
    };
    progress.inputs_are_safe = true;
    let inputs = index_objects::run(directives, parsed, &extracted);
    let needed_libraries = open_needed_libraries::run(&inputs, source);
    let report_data = reports::files(&inputs, &opened, &extracted, &mut progress.printed);
    sink.checkpoint()?;
    progress.timings.pass("extract members");
    // frozen: the files that take part.
    let compiled = plugins.compiled(&extracted, &opened);
    let (resolved, mut sections) = resolve(inputs, needed_libraries, &plan, &assigned, &compiled)?;
    sink.checkpoint()?;
    reports::symbols(&resolved, &mut progress.printed);
    progress.timings.pass("select definitions");
    threads.unpin_if_long();
    // frozen: definitions.

    // ---- sections -----------------------------------------------------------------------------
    // `sections` holds which sections are alive. `Live` takes it over, and freezes it.
    let resolved = drop_zeros::run(resolved, &sections);
    let frames = split_eh_frames::run(&resolved, &mut sections);
    progress.timings.pass("split .eh_frame");
    let described = sframe_output::absorb::absorb(&resolved, &mut sections, &frames);
    progress.timings.pass("read SFrame inputs");
    let synthesized = create_synthetics::run(resolved, &mut sections, &plan, frames, described);
    let matched = match_script::run(synthesized, &mut sections, plan);
    let matched = reverse_arrays::run(matched);
    sink.checkpoint()?;
    // frozen: the rule of each section; the linker's own take part in it.
    let (bound, defining_sections) = bind_symbols::run(matched, &sections);
    progress.timings.pass("match script");
    let (bound, used_pieces) = collect_garbage::run(bound, &mut sections, &defining_sections);
    let bound = drop_commons::run(bound, &sections);
    reports::collected(&bound, &sections, &used_pieces, &mut progress.printed);
    progress.timings.pass("collect garbage");
    unpack_sections::run(&bound, &sections);
    let (bound, folds) = fold_sections::run(bound, &mut sections);
    reports::folded(&bound, &folds, &mut progress.printed);
    if config.icf.is_on() {
        progress.timings.pass("fold sections");
    }
    // frozen: liveness.
    let live = keep_eh_frames::run(bound, sections, folds);
    let live = find_tagged_globals::run(live);
    warn_symbols::run(&live);
    let ((found, groups), united) = join(
        || join(|| scan_relocations::run(&live), || merge_strings::run(&live, &used_pieces)),
        || build_sframe::unite_inputs(&live),
    );
    let left_out =
        |names: &[(_, _)]| extract_members::left_out::definers::<T>(&opened.files, &extracted, names);
    let asked = scan_relocations::finish(&live, found, source, &left_out);
    let scanned = merge_strings::place(live, asked, groups);
    reports::discarded(&scanned, &mut progress.printed);
    let corrupt_sframes = check_sframes::run(&scanned);
    sink.checkpoint()?;
    progress.timings.pass("scan relocations, merge strings");
    threads.unpin_if_long();
    let debug_index = index_debug_info::run(&scanned, source);
    if config.strip.gdb_index.is_some() {
        progress.timings.pass("index debug information");
    }
    let name_index = join_name_indexes::run(&scanned);
    if config.strip.debug_names {
        progress.timings.pass("join name indexes");
    }
    let numbered = number_rows::run(scanned);
    check_discarded_tables::run(&numbered);
    progress.timings.pass("number rows");
    let chosen = build_sframe::run(&numbered, united);
    progress.timings.pass("build SFrame table");
    let (contents, chosen) = size_tables::run(numbered, chosen, corrupt_sframes, debug_index, name_index);
    sink.checkpoint()?;
    progress.timings.pass("size tables");
    // frozen: symbols, relocations and needs that the dynamic linker sees.

    // ---- addresses ----------------------------------------------------------------------------
    let order = order_sections::run(&contents, &mut progress.printed);
    reports::symbol_order(&contents, &order, &mut progress.printed);
    if config.layout.balance.is_on() {
        progress.timings.pass("order sections");
    }
    let placed = lay_out::run(contents, chosen, &order, &mut progress.timings);
    if !sink.has_errors() {
        progress.far_loads = find_far_loads::run(&placed);
        if !progress.far_loads.is_empty() {
            return Err(Aborted);
        }
    }
    check_cross_references::run(&placed);
    let placed = find_unused_pads::run(placed);
    // frozen: the sections of the output and all addresses.
    let image = make_image::run(placed);
    reports::refused(&image, &report_data, &mut progress.printed);
    sink.checkpoint()?;
    progress.timings.pass("make image");
    threads.unpin_if_long();
    // frozen: places in the file.

    // ---- bytes --------------------------------------------------------------------------------
    let (output, identity) = write(&image, progress)?;
    progress.output = Some(output);
    reports::finish(&image, &report_data, &mut progress.printed);
    progress.timings.pass("reports");
    sink.checkpoint()?;
    let Some(path) = config.debug_file() else {
        memory.end_of(image);
        return Ok(());
    };
    deliver(&path, delivered, progress, sink)?;
    let image = make_image::debug_file(image);
    write_debug_file(&image, &path, &identity, progress)?;
    memory.end_of(image);
    sink.checkpoint()
}

/// Moves the output to its place before the debug file exists. The debug file of an earlier link then goes,
/// because it does not describe this output. Until then its checksum tells debuggers so.
fn deliver(
    debug_file: &Path,
    delivered: Option<Delivered<'_>>,
    progress: &mut Progress,
    sink: &Sink,
) -> Result<(), Aborted> {
    let cannot_write = |error: std::io::Error| {
        sink.report(output::file::cannot_write(debug_file, DEBUG_FILE, None, &error));
        Aborted
    };
    output::file::probe(debug_file).map_err(cannot_write)?;
    if let Some(output) = progress.output.take() {
        commit(output, progress, sink)?;
    }
    output::file::remove(debug_file).map_err(cannot_write)?;
    if let Some(delivered) = delivered {
        delivered(sink.take_sorted(), &std::mem::take(&mut progress.printed));
    }
    Ok(())
}

/// Writes the debug file and moves it to its place.
fn write_debug_file<T: Target>(
    image: &Image<'_, T>,
    path: &Path,
    identity: &FileIdentifiers,
    progress: &mut Progress,
) -> Result<(), Aborted> {
    let (size, sink) = (image.file.size, image.sink);
    let cannot_write = |error: std::io::Error| {
        sink.report(output::file::cannot_write(path, DEBUG_FILE, Some(size), &error));
        Aborted
    };
    sink.checkpoint()?;
    let mut file = OutputFile::create(path, size, &[], false).map_err(cannot_write)?;
    write_output::run(image, &mut file).map_err(cannot_write)?;
    sink.checkpoint()?;
    if let Some(identifier) = &identity.build_id {
        output::build_id::store(image, file.bytes(), identifier);
    }
    output::debug_link::close(file.bytes(), identity.checksum);
    file.commit().map_err(cannot_write)?;
    progress.timings.pass("debug file");
    Ok(())
}

/// What tells an output and its debug file from those of other links.
struct FileIdentifiers {
    /// The build-id, if it depends on the output.
    build_id: Option<Vec<u8>>,
    /// The checksum in `.gnu_debuglink`; 0 without a debug file.
    checksum: u32,
}

/// Selects groups and definitions.
fn resolve<'a, T: Target>(
    inputs: Inputs<'a, T>,
    needed_libraries: NeededLibraries<'a>,
    plan: &LayoutPlan,
    assigned: &OutsideNames,
    compiled: &Compiled<'a>,
) -> Result<(Resolved<'a, T>, SectionStates), Aborted> {
    let (groups, sections) = select_comdats::run(&inputs, compiled);
    inputs.sink.check()?;
    let inputs = unify_versions::run(inputs, &sections);
    let mut definitions = select_definitions::run(&inputs, &sections, plan);
    warn_commons::run(&inputs, &sections);
    let mut inputs = bind_versions::run(inputs, &mut definitions);
    mark_library_mentions::run(&inputs, &mut definitions);
    let identifier_sections = define_linker_symbols::find_identifier_sections(&inputs, &sections);
    let linker_symbols =
        define_linker_symbols::run(&inputs, plan, &assigned.symbols, &identifier_sections, &mut definitions);
    let versions = assign_versions::run(&inputs, plan, &definitions, &linker_symbols);
    inputs.sink.check()?;
    for id in find_eh_frames::run(&inputs, &sections, plan) {
        inputs.section_classes[id.index()].insert(SectionClass::EH_FRAME);
    }
    let resolved = Resolved {
        inputs,
        needed_libraries,
        groups,
        definitions,
        linker_symbols,
        identifier_sections,
        versions,
    };
    Ok((resolved, sections))
}

/// Makes the output file, but leaves it under its temporary name. It is an error if an input was written to
/// meanwhile: the link may have mixed old bytes of that input with new ones.
fn write<T: Target>(
    image: &Image<'_, T>,
    progress: &mut Progress,
) -> Result<(OutputFile, FileIdentifiers), Aborted> {
    let executable = !image.config.is_relocatable();
    let (path, size, sink) = (&image.config.output, image.file.size, image.sink);
    let cannot_write = |error: std::io::Error| {
        sink.report(output::file::cannot_write(path, OUTPUT, Some(size), &error));
        Aborted
    };
    let holes = image.holes();
    let mut file = OutputFile::create(path, size, &holes, executable).map_err(cannot_write)?;
    if let Some(algorithm) = output::build_id::algorithm(image) {
        file.digest_by(algorithm);
    }
    let written = write_output::run(image, &mut file);
    image.describe_relocation_errors();
    written.map_err(cannot_write)?;
    sink.checkpoint()?;
    progress.timings.pass("write output");
    // From here on only the output is read.
    let (changed, hash) = join(|| image.store.first_changed(), || file.identifier(&holes));
    if let Some(path) = changed {
        let message = format!("{} was written to while it was linked", path.display());
        let help = "something rewrote this input during the link: let that finish, then link again";
        sink.report(Diagnostic::error(Code::ChangedInput, message).help(help));
        return Err(Aborted);
    }
    let build_id = output::build_id::write(image, file.bytes(), hash.as_deref()).map_err(cannot_write)?;
    let mut identity = FileIdentifiers { build_id, checksum: 0 };
    if image.config.strip.separate_debug.is_some() {
        let identifier = identity.build_id.as_deref().or(hash.as_deref()).unwrap_or_default();
        identity.checksum = output::debug_link::write(image, file.bytes(), identifier);
    }
    file.release_pages();
    progress.timings.pass("build id");
    Ok((file, identity))
}
