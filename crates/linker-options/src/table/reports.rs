//! Options for messages, and for files with reports on the link.

use crate::config::{Color, Explanation, Report, StatsFormat};
use crate::identity::Identity;
use crate::spec::{OptionSpec, Reach, flag, optional, value};
use crate::values::{number, path, word};

pub(super) static OPTIONS: &[OptionSpec] = &[
    flag(&["help", "target-help"], "Print the list of options", |state| state.requests.help = true),
    flag(&["version"], "Print the version, and do not link", |state| state.requests.version = true),
    flag(&["v"], "Print the version, and link if there are inputs", |state| {
        state.requests.short_version = true;
    }),
    flag(&["V"], "Print the version and the emulations, and link if there are inputs", |state| {
        state.requests.emulations = true
    }),
    value(&["identity"], "WHO", "Print the version line of WHO: sframe, gnu or lld", |state, who| {
        state.requests.identity = Identity::from_word(who)?;
        Ok(())
    }),
    flag(&["print-sysroot"], "Print the sysroot", |state| state.requests.sysroot = true),
    flag(&["print-output-format"], "Print the output format", |state| {
        state.requests.output_format = true;
    }),
    optional(
        &["verbose"],
        "N",
        "Print the linker script in use, and each file that the linker tries to open",
        |state, level| {
            state.config.reports.verbose = level.map(number).transpose()? != Some(0);
            Ok(())
        },
    ),
    flag(
        &["t", "trace"],
        "Print the names of input files and archive members; given twice, also of archives",
        |state| {
            state.config.reports.trace = state.config.reports.trace.saturating_add(1);
        },
    ),
    value(&["y", "trace-symbol"], "SYMBOL", "Print the files that mention SYMBOL", |state, name| {
        state.config.reports.trace_symbols.push(name.to_vec());
        Ok(())
    }),
    flag(&["M", "print-map"], "Print a map of the output", |state| state.config.reports.print_map = true),
    value(&["Map"], "FILE", "Write a map of the output to FILE", |state, file| {
        state.config.reports.map = Some(path(file));
        Ok(())
    })
    .reaches(Reach::Writes),
    flag(&["print-map-locals"], "Show local symbols in the map of the output", |state| {
        state.config.reports.map_locals = true;
    }),
    flag(&["no-print-map-locals"], "Do not show local symbols in the map of the output (default)", |state| {
        state.config.reports.map_locals = false;
    }),
    flag(&["print-map-discarded"], "Show discarded sections in the map of the output (default)", |state| {
        state.config.reports.no_map_discarded = false;
    }),
    flag(&["no-print-map-discarded"], "Do not show discarded sections in the map of the output", |state| {
        state.config.reports.no_map_discarded = true;
    }),
    flag(&["cref"], "Print a table of cross references", |state| state.config.reports.cref = true),
    value(
        &["dependency-file"],
        "FILE",
        "Write the names of the inputs to FILE, as dependencies for make",
        |state, file| {
            state.config.reports.dependency_file = Some(path(file));
            Ok(())
        },
    )
    .reaches(Reach::Writes),
    value(
        &["reproduce"],
        "FILE.tar",
        "Write a tar file from which the link can be repeated",
        |state, file| {
            state.config.reports.reproduce = Some(path(file));
            Ok(())
        },
    )
    .reaches(Reach::Writes),
    flag(&["repro"], "Same as --reproduce=OUTPUT.repro.tar", |state| state.pending.reproduce_beside = true)
        .reaches(Reach::Writes),
    optional(
        &["stats"],
        "FORMAT",
        "Print statistics of the link: text (default) or json",
        |state, format| {
            let formats = [("text", StatsFormat::Text), ("json", StatsFormat::Json)];
            state.config.reports.stats = Some(word(format.unwrap_or(b"text"), &formats)?);
            Ok(())
        },
    ),
    flag(&["no-stats"], "Print no statistics of the link (default)", |state| {
        state.config.reports.stats = None
    }),
    flag(
        &["time-report", "perf"],
        "Print the time of every pass and how many processors it kept busy",
        |state| state.config.reports.time_report = true,
    ),
    optional(
        &["time-trace"],
        "FILE",
        "Write the times of passes and threads to FILE as Chrome's trace events (default OUTPUT.time-trace)",
        |state, file| {
            state.config.reports.time_trace = Some(path(file.unwrap_or_default()));
            Ok(())
        },
    )
    .reaches(Reach::Writes),
    value(
        &["time-trace-granularity"],
        "N",
        "Leave passes shorter than N microseconds out of --time-trace (default 500)",
        |state, microseconds| {
            state.config.reports.time_trace_granularity = number(microseconds)?;
            Ok(())
        },
    ),
    flag(&["print-memory-usage"], "Print how full the memory regions are", |state| {
        state.config.reports.print_memory_usage = true;
    }),
    value(&["why-extract"], "FILE", "Write to FILE why each archive member was taken", |state, file| {
        state.config.reports.why_extract = Some(path(file));
        Ok(())
    })
    .reaches(Reach::Writes),
    value(
        &["print-archive-stats"],
        "FILE",
        "Write to FILE how many members each archive has, and how many of them take part",
        |state, file| {
            state.config.reports.archive_stats = Some(path(file));
            Ok(())
        },
    )
    .reaches(Reach::Writes),
    value(
        &["print-symbol-order"],
        "FILE",
        "Write to FILE the symbols of the sections that a profile or ordering file has put in order",
        |state, file| {
            state.config.reports.symbol_order = Some(path(file));
            Ok(())
        },
    )
    .reaches(Reach::Writes),
    optional(
        &["explain-discarded"],
        "FILE",
        "Explain every reference into a discarded section: as text, or as a graph if FILE ends in .dot",
        |state, file| {
            let explanation = file.map_or(Explanation::Printed, |file| Explanation::File(path(file)));
            state.config.reports.explain_discarded = Some(explanation);
            Ok(())
        },
    )
    .reaches(Reach::Writes),
    flag(&["fatal-warnings"], "Treat warnings as errors", |state| {
        state.config.diagnostics.fatal_warnings = true;
    }),
    flag(&["no-fatal-warnings"], "Do not treat warnings as errors (default)", |state| {
        state.config.diagnostics.fatal_warnings = false;
    }),
    flag(&["w", "no-warnings"], "Show no warnings", |state| {
        state.config.diagnostics.no_warnings = true;
    }),
    flag(&["noinhibit-exec"], "Write the output even after errors, if that is possible", |state| {
        state.config.diagnostics.noinhibit_exec = true;
    }),
    optional(&["demangle"], "STYLE", "Demangle symbol names in messages (default)", |state, _| {
        state.config.diagnostics.demangle = true;
        Ok(())
    }),
    flag(&["no-demangle"], "Do not demangle symbol names in messages", |state| {
        state.config.diagnostics.demangle = false;
    }),
    optional(
        &["color-diagnostics"],
        "WHEN",
        "Colour messages: auto (on a terminal, unless NO_COLOR is set or TERM is dumb), always or never",
        |state, when| {
            let words = [("auto", Color::Auto), ("always", Color::Always), ("never", Color::Never)];
            state.config.diagnostics.color = word(when.unwrap_or(b"always"), &words)?;
            Ok(())
        },
    ),
    flag(&["no-color-diagnostics"], "Do not colour messages", |state| {
        state.config.diagnostics.color = Color::Never;
    }),
    value(
        &["error-limit"],
        "N",
        "Show at most N errors, and at most N warnings of each kind (default 20; 0 shows all)",
        |state, count| {
            let count = usize::try_from(number(count)?).unwrap_or(usize::MAX);
            state.config.diagnostics.error_limit = std::num::NonZeroUsize::new(count);
            Ok(())
        },
    ),
    value(
        &["error-handling-script"],
        "FILE",
        "Run FILE with `undefined-symbol NAME` or `missing-lib NAME` for each missing symbol or library",
        |state, file| {
            state.config.diagnostics.error_script = Some(path(file));
            Ok(())
        },
    )
    .reaches(Reach::Runs),
    flag(&["warn-common"], "Warn if a common symbol meets another symbol of its name", |state| {
        state.config.diagnostics.warn_common = true;
    }),
    flag(&["no-warn-common"], "Do not warn about common symbols (default)", |state| {
        state.config.diagnostics.warn_common = false
    }),
    flag(&["warn-execstack"], "Warn about an executable stack, also one of -z execstack", |state| {
        state.config.diagnostics.execstack = Report::Warning;
        state.config.diagnostics.execstack_option = true;
    }),
    flag(
        &["warn-execstack-objects"],
        "Warn about an executable stack that objects ask for (default)",
        |state| {
            state.config.diagnostics.execstack = Report::Warning;
            state.config.diagnostics.execstack_option = false;
        },
    ),
    flag(&["no-error-execstack"], "Warn about an executable stack (default)", |state| {
        state.config.diagnostics.execstack = Report::Warning;
    }),
    flag(&["no-warn-execstack"], "Do not warn about an executable stack", |state| {
        state.config.diagnostics.execstack = Report::Ignore;
        state.config.diagnostics.execstack_option = false;
    }),
    flag(&["error-execstack"], "Report an executable stack as an error", |state| {
        state.config.diagnostics.execstack = Report::Error;
    }),
    flag(
        &["warn-rwx-segments", "no-error-rwx-segments"],
        "Warn about segments that are writable and executable (default)",
        |state| {
            state.config.diagnostics.rwx_segments = Report::Warning;
        },
    ),
    flag(&["no-warn-rwx-segments"], "Do not warn about segments that are writable and executable", |state| {
        state.config.diagnostics.rwx_segments = Report::Ignore;
    }),
    flag(&["error-rwx-segments"], "Report segments that are writable and executable as errors", |state| {
        state.config.diagnostics.rwx_segments = Report::Error;
    }),
    flag(
        &["warn-textrel"],
        "Warn about relocations of read-only sections (DT_TEXTREL) that -z notext allows",
        |state| {
            state.config.diagnostics.textrel = true;
        },
    ),
    flag(
        &["warn-shared-textrel"],
        "With -shared, warn about relocations of read-only sections (DT_TEXTREL) that -z notext allows",
        |state| {
            state.config.diagnostics.shared_textrel = true;
        },
    ),
    flag(
        &["warn-ifunc-textrel"],
        "Warn if a program has functions with resolvers and relocations of read-only sections (default)",
        |state| state.config.diagnostics.ifunc_textrel = true,
    ),
    flag(
        &["no-warn-ifunc-textrel"],
        "Do not warn of functions with resolvers beside relocations of read-only sections",
        |state| state.config.diagnostics.ifunc_textrel = false,
    ),
    flag(
        &["vs-diagnostics"],
        "Begin messages with their source line in Visual Studio's form, FILE(LINE):",
        |state| {
            state.config.diagnostics.visual_studio = true;
        },
    ),
    flag(&["warn-section-align"], "Warn about each output section that its alignment moves", |state| {
        state.config.diagnostics.section_align = true;
    }),
    flag(&["warn-once"], "Report each undefined symbol only once, with its first reference", |state| {
        state.config.diagnostics.warn_once = true;
    }),
    flag(&["no-warn-mismatch"], "Link inputs of different machines or classes without an error", |state| {
        state.config.diagnostics.no_warn_mismatch = true;
    }),
    flag(&["no-warn-search-mismatch"], "Skip libraries of another machine without a warning", |state| {
        state.config.diagnostics.no_warn_search_mismatch = true;
    }),
];
