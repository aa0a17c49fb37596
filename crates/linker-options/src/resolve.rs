//! Settles values that depend on several options, once all options are read.

use super::config::{
    Config, Link32Bit, OutputFormat, OutputMode, Report, SFrameIndex, SFrameMode, Strip, UnwindRuntime,
    UnwindTableMode,
};
use super::inputs::InputSpec;
use super::state::{Kind, Option32Bit, State};
use super::values::{drop_repeated, path};
use diagnostics::{Code, Diagnostic, Location};
use std::path::{Path, PathBuf};

/// Finishes the configuration. It reports contradictions as errors.
pub fn resolve(mut state: State<'_>) -> (Config, Vec<InputSpec>) {
    warn_open_groups(&state);
    drop_repeated_names(&mut state.config);
    resolve_mode(&mut state);
    refuse_split_of_final_output(&state);
    refuse_object_without_sections(&state);
    refuse_options_of_libraries(&state);
    refuse_folding_of_objects(&state);
    refuse_index_of_objects(&state);
    refuse_relocations_without_symbols(&state);
    refuse_debug_file(&state);
    refuse_page_sizes(&state);
    refuse_two_computed_orders(&state);
    warn_tags_without_mode(&state);
    resolve_machine(&mut state);
    resolve_search(&mut state);
    resolve_undefined(&mut state);
    resolve_sframe(&mut state);
    resolve_unwind(&mut state);
    resolve_plugins(&mut state);
    resolve_reports(&mut state);
    state.config.relocations.pack_relative |= state.pending.pack_relative;
    (state.config, state.inputs)
}

/// Hands the options of `-mllvm` to LLVM's plugin.
fn resolve_plugins(state: &mut State<'_>) {
    let options = std::mem::take(&mut state.pending.llvm_options);
    let plugins = state.config.lto.plugins.iter_mut().filter(|plugin| plugin.is_llvms());
    plugins.for_each(|plugin| plugin.options.extend_from_slice(&options));
}

/// Names the archive of `--repro`, unless `--reproduce` does.
fn resolve_reports(state: &mut State<'_>) {
    if state.pending.reproduce_beside && state.config.reports.reproduce.is_none() {
        let mut beside = state.config.output.clone().into_os_string();
        beside.push(".repro.tar");
        state.config.reports.reproduce = Some(beside.into());
    }
}

/// A name that several options give counts once, at its first place.
fn drop_repeated_names(config: &mut Config) {
    let Config { dynamic, reports, gc, icf, symbols, undefined, layout, .. } = config;
    let lists = [
        &mut dynamic.rpath,
        &mut dynamic.auxiliary,
        &mut dynamic.filter,
        &mut dynamic.audit,
        &mut dynamic.depaudit,
        &mut reports.trace_symbols,
        &mut gc.why_live,
        &mut icf.keep_unique,
        &mut symbols.undefined,
        &mut symbols.undefined_globs,
        &mut symbols.require_defined,
        &mut symbols.wrap,
        &mut symbols.export_symbols,
        &mut symbols.exclude_libs,
        &mut undefined.ignored,
        &mut layout.unique.patterns,
    ];
    lists.into_iter().for_each(drop_repeated);
}

/// Reports options of balanced partitioning that lack their profile, or a second order of functions.
fn refuse_two_computed_orders(state: &State<'_>) {
    let balance = &state.config.layout.balance;
    let (startup, similar) = ("--bp-startup-sort=function", "--bp-compression-sort-startup-functions");
    let given = [
        (balance.startup, startup),
        (balance.similar_startup, similar),
        (balance.functions || balance.data, "--bp-compression-sort"),
        (!balance.groups.is_empty(), "--bp-compression-sort-section"),
    ];
    for (_, option) in given.into_iter().filter(|given| given.0) {
        let place = Location::Argument(option.into());
        if balance.profile.is_none() && (option == startup || option == similar) {
            let message = format!("{option} must be used with --irpgo-profile");
            let help = "--irpgo-profile=FILE names a profile with traces of the program's start";
            state.report(Diagnostic::error(Code::BadOption, message).at(place.clone()).help(help));
        }
        if state.config.scripts.call_graph.is_some() && option != similar {
            let message = format!("{option} is incompatible with --call-graph-ordering-file");
            state.report(Diagnostic::error(Code::BadOption, message).at(place).help("give one of them"));
        }
    }
}

/// Reports a common page size that is larger than the maximum page size.
fn refuse_page_sizes(state: &State<'_>) {
    let layout = &state.config.layout;
    if let (Some(max), Some(common)) = (layout.max_page_size, layout.common_page_size)
        && common > max
    {
        state.report(
            Diagnostic::error(
                Code::BadOption,
                format!("the common page size {common:#x} is larger than the maximum page size {max:#x}"),
            )
            .at(Location::Argument("-z common-page-size".into()))
            .help("-z max-page-size=SIZE sets the maximum"),
        );
    }
}

/// Warns of options of memory tagging that do nothing, because no mode is asked for.
fn warn_tags_without_mode(state: &State<'_>) {
    let tags = state.config.notes.memory_tags;
    let given = [
        (tags.heap, "-z memtag-heap"),
        (tags.stack, "-z memtag-stack"),
        (tags.note, "--android-memtag-note"),
    ];
    for (_, name) in given.into_iter().filter(|given| given.0 && tags.mode.is_none()) {
        let message = "does nothing without a mode of memory tagging";
        state.report(
            Diagnostic::warning(Code::BadOption, message)
                .at(Location::Argument(name.into()))
                .help("add -z memtag-mode=sync or -z memtag-mode=async"),
        );
    }
}

fn warn_open_groups(state: &State<'_>) {
    let open = [
        (state.current.group.is_some(), "--start-group", "--end-group"),
        (state.current.lib.is_some(), "--start-lib", "--end-lib"),
    ];
    for (_, start, end) in open.into_iter().filter(|&(is_open, ..)| is_open) {
        state.report(
            Diagnostic::warning(Code::BadOption, format!("missing {end}; added as last option"))
                .at(Location::Argument(start.into())),
        );
    }
}

fn resolve_mode(state: &mut State<'_>) {
    let kind = state.pending.kind;
    let name = if kind == Some(Kind::Shared) { "-shared" } else { "-pie" };
    state.config.mode = match (&state.pending.relocatable, kind) {
        (Some(relocatable), Some(Kind::Shared | Kind::Pie)) => {
            state.report(
                Diagnostic::error(
                    Code::BadOption,
                    format!("{relocatable} and {name} may not be used together"),
                )
                .at(Location::Argument(relocatable.clone())),
            );
            OutputMode::Relocatable
        }
        (Some(_), _) => OutputMode::Relocatable,
        (None, Some(Kind::Shared)) => OutputMode::Shared,
        (None, Some(Kind::Pie)) => OutputMode::Executable { pie: true },
        (None, Some(Kind::Plain) | None) => OutputMode::Executable { pie: false },
    };
}

/// Reports `--split-by-file` and `--split-by-reloc` without `-r`. GNU ld splits the sections of a program
/// too, but the program's segments then lack the pieces.
fn refuse_split_of_final_output(state: &State<'_>) {
    let layout = &state.config.layout;
    let asked = [("--split-by-file", layout.split_by_file), ("--split-by-reloc", layout.split_by_reloc)];
    if state.config.mode == OutputMode::Relocatable {
        return;
    }
    for (name, _) in asked.into_iter().filter(|(_, limit)| limit.is_some()) {
        state.report(
            Diagnostic::error(Code::BadOption, format!("{name} splits sections of relocatable output only"))
                .at(Location::Argument(name.into()))
                .help("add -r, or leave it out"),
        );
    }
}

/// Reports `-r` without section headers: no linker could find anything in such an object.
fn refuse_object_without_sections(state: &State<'_>) {
    if state.config.layout.no_section_headers
        && let Some(relocatable) = &state.pending.relocatable
    {
        let message = format!("{relocatable} and -z nosectionheader may not be used together");
        let place = Location::Argument(relocatable.clone());
        state.report(Diagnostic::error(Code::BadOption, message).at(place));
    }
}

/// Reports options that are for shared libraries only: filters (`-f`, `-F`) and `--no-define-common`.
fn refuse_options_of_libraries(state: &State<'_>) {
    let dynamic = &state.config.dynamic;
    let filters = [("-f", dynamic.auxiliary.first()), ("-F", dynamic.filter.first())];
    let refused =
        |name: &str| Diagnostic::error(Code::BadOption, format!("{name} may not be used without -shared"));
    if state.config.is_shared() {
        return;
    }
    for (name, value) in filters.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        let value = String::from_utf8_lossy(value);
        let help = format!(
            "it names a library that the output filters, here {value}; {name}{value} is for compilers"
        );
        state.report(refused(name).help(help));
    }
    if state.config.symbols.define_common == Some(false) {
        state.report(refused("--no-define-common"));
    }
}

/// Reports `--icf` and `-z rewrite-endbr` with `-r`: only the final link knows how addresses are used.
fn refuse_folding_of_objects(state: &State<'_>) {
    let Some(relocatable) = &state.pending.relocatable else { return };
    let (fold, rewrite) = (state.config.icf.is_on(), state.config.relocations.rewrite_landing_pads);
    for (wanted, option, help) in [
        (fold, "--icf", "fold in the final link, or not at all"),
        (rewrite, "-z rewrite-endbr", "give it to the final link, which sees all uses of a function"),
    ] {
        if wanted {
            let message = format!("{relocatable} and {option} may not be used together");
            let place = Location::Argument(option.into());
            state.report(Diagnostic::error(Code::BadOption, message).at(place).help(help));
        }
    }
}

/// Reports emitted relocations without the symbol table that they need.
fn refuse_relocations_without_symbols(state: &State<'_>) {
    let config = &state.config;
    if config.relocations.emit && config.strip.strip == Strip::All && !config.is_relocatable() {
        let message = "--strip-all and --emit-relocs may not be used together";
        let place = Location::Argument("--emit-relocs".into());
        state.report(Diagnostic::error(Code::BadOption, message).at(place));
    }
}

/// Reports `--separate-debug-file` where debuggers would find nothing in such a file, or not the file itself.
fn refuse_debug_file(state: &State<'_>) {
    let config = &state.config;
    let Some(path) = config.debug_file() else { return };
    let option = "--separate-debug-file";
    let report = |message: String, help: &str| {
        let place = Location::Argument(option.into());
        state.report(Diagnostic::error(Code::BadOption, message).at(place).help(help));
    };
    let others = [
        (state.pending.relocatable.as_deref(), "separate the debug sections in the final link"),
        (
            config.relocations.emit.then_some("--emit-relocs"),
            "its relocations are against symbols of debug sections, too",
        ),
        (
            config.layout.no_section_headers.then_some("-z nosectionheader"),
            "debuggers find debug sections by their headers",
        ),
        (
            (config.output_format == OutputFormat::Binary).then_some("--oformat=binary"),
            "a binary image has no debug sections",
        ),
    ];
    for (other, help) in others {
        if let Some(other) = other {
            report(format!("{other} and {option} may not be used together"), help);
        }
    }
    if path == config.output {
        report(
            format!("{} is the output, too", path.display()),
            "give the file of debug sections another name",
        );
    }
}

/// Reports an index of debug information with `-r`: the units of an object have no final addresses.
fn refuse_index_of_objects(state: &State<'_>) {
    let strip = &state.config.strip;
    for (wanted, option) in [(strip.gdb_index.is_some(), "--gdb-index"), (strip.debug_names, "--debug-names")]
    {
        if let (true, Some(relocatable)) = (wanted, &state.pending.relocatable) {
            let message = format!("{relocatable} and {option} may not be used together");
            let place = Location::Argument(option.into());
            state.report(
                Diagnostic::error(Code::BadOption, message)
                    .at(place)
                    .help("make the index in the final link"),
            );
        }
    }
}

fn resolve_machine(state: &mut State<'_>) {
    let narrow = [state.pending.narrow_emulation.take(), state.pending.narrow_format.take()];
    for Option32Bit { argument, fault } in narrow.into_iter().flatten() {
        if state.config.no_fallback {
            state.report(
                Diagnostic::error(Code::BadOption, fault)
                    .at(Location::Argument(argument.clone()))
                    .help("without --no-fallback the system's linker makes links for machines of 32 bits"),
            );
        }
        state.config.needs_32_bit_linker.get_or_insert(Link32Bit { asked_by: argument, emulation: None });
    }
    if let Some((machine, argument)) = state.pending.format_machine.take() {
        match state.config.machine {
            Some(other) if other != machine => state.report(
                Diagnostic::error(
                    Code::BadOption,
                    format!("the format is for {}, but -m names {}", machine.name(), other.name()),
                )
                .at(Location::Argument(argument)),
            ),
            _ => state.config.machine = Some(machine),
        }
    }
    // Without `-m`, the first object decides on the machine. The byte order is checked then.
    if let Some(finding) = state.config.machine.and_then(|machine| state.config.wrong_byte_order(machine)) {
        state.report(finding);
    }
}

fn resolve_search(state: &mut State<'_>) {
    let sysroot = state.pending.sysroot.take();
    let sysroot = sysroot.filter(|root| !root.as_os_str().is_empty() && root.as_path() != Path::new("/"));
    let mut directories = std::mem::take(&mut state.pending.directories);
    directories.append(&mut state.pending.default_directories);
    state.config.search.directories =
        directories.iter().map(|text| search_directory(text, sysroot.as_deref())).collect();
    let rpath_link = std::mem::take(&mut state.pending.rpath_link);
    state.config.search.rpath_link =
        rpath_link.iter().map(|text| search_directory(text, sysroot.as_deref())).collect();
    state.config.search.sysroot = sysroot;
}

/// The path of a `-L` directory, with the sysroot in place of its prefix.
fn search_directory(text: &[u8], sysroot: Option<&Path>) -> PathBuf {
    let below = text.strip_prefix(b"=").or_else(|| text.strip_prefix(b"$SYSROOT"));
    match (below, sysroot) {
        (Some(below), Some(root)) => {
            let below = path(below);
            root.join(below.strip_prefix("/").unwrap_or(&below))
        }
        (Some(below), None) => path(below),
        (None, _) => path(text),
    }
}

/// Settles what happens to undefined symbols, with GNU ld's defaults: they are errors in an executable and in
/// the libraries that it uses. A shared library and the libraries that it uses may have them. A relocatable
/// object leaves them to the final link.
fn resolve_undefined(state: &mut State<'_>) {
    let report = state.pending.unresolved.unwrap_or(Report::Error);
    let executable = matches!(state.config.mode, OutputMode::Executable { .. });
    let level = |asked: Option<bool>| if asked.unwrap_or(executable) { report } else { Report::Ignore };
    let undefined = &mut state.config.undefined;
    if state.config.mode == OutputMode::Relocatable {
        undefined.in_objects = Report::Ignore;
        undefined.in_shared_libraries = Report::Ignore;
    } else {
        undefined.in_objects = level(state.pending.report_in_objects);
        undefined.in_shared_libraries = level(state.pending.report_in_shared_libraries);
    }
}

/// Settles the unwind table. What cannot work is refused here, or later, when inputs are known.
fn resolve_unwind(state: &mut State<'_>) {
    let Some(mode) = state.config.unwind.table else { return };
    let option = match mode {
        UnwindTableMode::Add => "--unwind-table=add",
        UnwindTableMode::Replace => "--unwind-table=replace",
    };
    if let Some(relocatable) = &state.pending.relocatable {
        let finding =
            Diagnostic::warning(Code::BadOption, format!("{option} has no effect with {relocatable}")).note(
                "a table needs addresses; the final link makes it of the .eh_frame that this object keeps",
            );
        state.report(finding.at(Location::Argument(option.into())));
        state.config.unwind.table = None;
        return;
    }
    if mode == UnwindTableMode::Add {
        return;
    }
    let config = &state.config;
    let refused = match config.unwind.runtime {
        UnwindRuntime::Hooks | UnwindRuntime::Full if config.is_shared() => Some((
            "--unwind-table=replace does not make shared libraries for any program",
            "the program that loads the library finds no frames in it, unless it has the look-ups itself",
            "--unwind-runtime=program says that every such program is linked with --unwind-table=replace",
        )),
        _ if config.relocations.emit => Some((
            "--unwind-table=replace and --emit-relocs may not be used together",
            "programs that rewrite code by relocations (BOLT) would not know that the table describes it",
            "--unwind-table=none keeps .eh_frame, by which `sframe attach` makes frames of code that has moved",
        )),
        _ => None,
    };
    if let Some((message, note, help)) = refused {
        let finding = Diagnostic::error(Code::BadOption, message).note(note).help(help);
        state.report(finding.at(Location::Argument(option.into())));
    }
    // What stays in `.eh_frame` is found by the header, also in static programs, for which compilers ask for
    // none.
    state.config.dynamic.eh_frame_hdr = true;
    if state.config.unwind.links_runtime() {
        let names = state.config.unwind.runtime_symbols();
        let names = || names.iter().map(|name| name.as_bytes().to_vec());
        let symbols = &mut state.config.symbols;
        symbols.undefined.extend(names().take(1));
        symbols.export_symbols.extend(names());
    }
}

fn resolve_sframe(state: &mut State<'_>) {
    let relocatable = state.config.is_relocatable();
    let sframe = &mut state.config.sframe;
    let merges = sframe.mode == SFrameMode::Merge;
    let compact_in_vain = relocatable && sframe.index == Some(SFrameIndex::Compact);
    if compact_in_vain {
        sframe.index = Some(SFrameIndex::V3);
    }
    sframe.plt = state.pending.sframe_plt.unwrap_or(merges || sframe.index.is_some());
    sframe.plt_alone = state.pending.sframe_plt == Some(true);
    // GNU ld computes a wrong size for shared rows when it links the output again, so `-r` shares none by
    // default.
    sframe.share = state.pending.sframe_share.unwrap_or(!relocatable);
    let index = sframe.index;
    if compact_in_vain {
        state.report(
            Diagnostic::warning(Code::SFrameNote, "--sframe-index=compact makes .sframe_idx under -r")
                .note("a compact table needs addresses; the final link makes it of that index")
                .help("--sframe-index=v3 says the same without this warning"),
        );
    }
    let mode = state.config.sframe.mode;
    if index == Some(SFrameIndex::Overlay) && (relocatable || mode == SFrameMode::Discard) {
        let (word, note) = if relocatable {
            ("-r", "an overlay has two places for each function, of which a relocation could fill one")
        } else {
            ("--sframe=discard", "an overlay is an index of the blobs in .sframe")
        };
        let message = format!("--sframe-index=overlay and {word} may not be used together");
        let help = "--sframe-index=v3 makes a table that stands for itself";
        state.report(Diagnostic::error(Code::BadOption, message).note(note).help(help));
    }
    if merges && index.is_some() {
        state.report(
            Diagnostic::error(Code::BadOption, "--sframe=merge and --sframe-index may not be used together")
                .note("both make one sorted blob, the one in .sframe, the other in .sframe_idx")
                .help("take --sframe-index alone, or --sframe=merge alone"),
        );
    }
}
