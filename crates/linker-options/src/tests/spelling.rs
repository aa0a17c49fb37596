//! Tests of every option in every spelling, and of texts that are not options.

use super::*;
use crate::spec::{Effect, OptionSpec, allows_single_dash, dashed};
use crate::table;
use crate::table::refused::{REFUSED, REFUSED_WORDS};
use crate::z::{WORDS, ZEffect};
use diagnostics::{Code, Location, Severity};
use std::collections::HashSet;

/// A value that the option takes.
fn sample(option: &OptionSpec) -> &'static str {
    match option.names[0] {
        "m" => "elf_x86_64",
        "oformat" | "b" => "elf",
        "thread-count"
        | "threads"
        | "spare-dynamic-tags"
        | "error-limit"
        | "verbose"
        | "time-trace-granularity" => "3",
        "remap-inputs" | "defsym" => "x=y",
        "remap-inputs-file" => "remap.txt",
        "section-start" => ".x=0x1000",
        "unresolved-symbols" => "ignore-all",
        "hash-style" => "gnu",
        "build-id" => "md5",
        "pack-dyn-relocs" => "relr",
        "z" => "now",
        "image-base" | "Trodata-segment" | "Tldata-segment" | "Ttext" | "Tdata" | "Tbss" => "0x10000",
        "orphan-handling" => "warn",
        "sort-section" => "name",
        "sort-common" => "ascending",
        "a" => "shared",
        "flavor" => "gnu",
        "icf" | "call-graph-profile-sort" | "bp-startup-sort" | "bp-compression-sort" => "none",
        "rsp-quoting" => "posix",
        "O" => "2",
        "compress-debug-sections" => "zstd",
        "compress-sections" => "*=zstd:5",
        "split-by-file" | "split-by-reloc" | "randomize-section-padding" => "100",
        "shuffle-sections" => "*=-1",
        "spare-program-headers" => "2",
        "fix-cortex-a53-843419" => "adr",
        "sframe" => "merge",
        "sframe-index" => "v3",
        "sframe-from-eh-frame" => "missing",
        "sframe-version" => "2",
        "unwind-table" => "add",
        "unwind-debug-frame" => "drop",
        "unwind-runtime" => "program",
        "identity" => "gnu",
        "android-memtag-mode" => "sync",
        "stats" => "json",
        "gdb-index" => "9",
        "color-diagnostics" => "never",
        _ => "value",
    }
}

/// The argument that must come before an option that closes a group or needs another option.
fn opener(name: &str) -> &'static [&'static str] {
    match name {
        ")" | "end-group" => &["--start-group"],
        "end-lib" => &["--start-lib"],
        "pop-state" => &["--push-state"],
        "split-by-file" | "split-by-reloc" => &["-r"],
        "bp-compression-sort-startup-functions" => &["--irpgo-profile=start"],
        "f" | "auxiliary" | "F" | "filter" | "no-define-common" => &["-shared"],
        _ => &[],
    }
}

/// The argument that must come behind an option that opens a group.
fn closer(name: &str) -> &'static [&'static str] {
    match name {
        "(" | "start-group" => &["--end-group"],
        "start-lib" => &["--end-lib"],
        _ => &[],
    }
}

/// The outcome of a command line, without the texts of the arguments, which differ between spellings.
fn outcome(name: &str, written: &[&str]) -> (Result<Invocation, Aborted>, Vec<String>) {
    let line = [opener(name), written, closer(name), &["a.o"]].concat();
    let (mut result, diagnostics) = run(&line);
    if let Ok(Invocation::Link(config, inputs)) = &mut result {
        config.reports.arguments.clear();
        inputs.iter_mut().for_each(|input| input.argument.clear());
    }
    (result, diagnostics.into_iter().map(|diagnostic| diagnostic.message).collect())
}

fn spellings(option: &OptionSpec, name: &str, value: Option<&str>) -> Vec<Vec<String>> {
    let mut dashes = vec![];
    if name.len() > 1 {
        dashes.push("--");
    }
    if name.len() == 1 || allows_single_dash(name) {
        dashes.push("-");
    }
    let mut all = Vec::new();
    for dash in dashes {
        match value {
            None => all.push(vec![format!("{dash}{name}")]),
            Some(value) if name.len() == 1 => all.push(vec![format!("-{name}{value}")]),
            Some(value) => all.push(vec![format!("{dash}{name}={value}")]),
        }
        if let Some(value) = value.filter(|_| option.needs_value()) {
            all.push(vec![format!("{dash}{name}"), value.to_string()]);
        }
    }
    all
}

/// Options and words of `-z` that get a warning if no option asks for a mode of memory tagging.
const NEED_A_MODE: [&str; 5] =
    ["android-memtag-heap", "android-memtag-stack", "android-memtag-note", "memtag-heap", "memtag-stack"];

#[test]
fn memory_tags_need_a_mode() {
    for name in NEED_A_MODE {
        let option = if name.starts_with("android") { format!("--{name}") } else { format!("-z{name}") };
        let tags = config(&[&option, "-z", "memtag-mode=async"]).notes.memory_tags;
        let given = [tags.heap, tags.stack, tags.note];
        assert_eq!(given, ["heap", "stack", "note"].map(|end| name.ends_with(end)), "{option}");
        assert_eq!(tags.mode, Some(MemoryTagMode::Asynchronous));
        let warned = warning(&[&option, "a.o"]);
        assert_eq!(warned.message, "does nothing without a mode of memory tagging", "{option}");
    }
    let android = config(&["--android-memtag-mode=sync"]).notes.memory_tags;
    assert_eq!((android.mode, android.note), (Some(MemoryTagMode::Synchronous), true));
    assert!(!config(&["--android-memtag-mode=none"]).notes.memory_tags.note);
}

#[test]
fn every_option_in_every_spelling() {
    // `-run` has its effect only before all other options, and there only in that one spelling.
    let is_ordinary = |option: &&OptionSpec| {
        let alone = option.names == ["run"] || NEED_A_MODE.contains(&option.names[0]);
        !matches!(option.effect, Effect::IgnoredPrefix) && !alone
    };
    for option in table::all().filter(is_ordinary) {
        let mut values = Vec::new();
        if option.takes_value() {
            values.push(Some(sample(option)));
        }
        if !option.needs_value() {
            values.push(None);
        }
        for value in values {
            let mut first = None;
            for name in option.names {
                for written in spellings(option, name, value) {
                    let words: Vec<&str> = written.iter().map(String::as_str).collect();
                    let this = outcome(name, &words);
                    assert!(this.0.is_ok() && this.1.is_empty(), "{words:?}: {this:?}");
                    assert_eq!(&this, first.get_or_insert(this.clone()), "{words:?}");
                }
            }
        }
    }
}

#[test]
fn a_missing_value_is_an_error() {
    for option in table::all().filter(|option| option.needs_value()) {
        for name in option.names {
            let missing = error(&["a.o", &dashed(name)]);
            assert!(missing.message.contains("requires an argument"), "{name}: {}", missing.message);
        }
    }
}

/// In `--sframe-from-eh-frame --sframe-index`, the second option is the value of the first.
#[test]
fn an_option_that_became_a_value_is_pointed_at() {
    let message = error(&["a.o", "--sframe-from-eh-frame", "--sframe-index"]).message;
    assert!(message.contains("expected all or missing; the next word is the value"), "{message}");
    let message = error(&["a.o", "--sframe-from-eh-frame=some"]).message;
    assert!(message.ends_with("unknown value 'some', expected all or missing"), "{message}");
}

#[test]
fn flags_take_no_value() {
    for option in table::all().filter(|option| !option.takes_value()) {
        let long = option.names.iter().filter(|name| name.len() > 1);
        for name in long.filter(|_| !matches!(option.effect, Effect::IgnoredPrefix)) {
            let unknown = error(&["a.o", &format!("--{name}=x")]);
            assert_eq!(unknown.message, format!("unrecognized option '--{name}=x'"));
            assert!(unknown.help[0].contains("takes no value"), "{:?}", unknown.help);
        }
    }
}

#[test]
fn no_name_stands_twice() {
    let mut seen = HashSet::new();
    for name in table::all().flat_map(|option| option.names) {
        assert!(seen.insert(*name), "{name}");
        assert!(name.is_ascii());
    }
    let mut words = HashSet::new();
    for name in WORDS.iter().flat_map(|word| word.names) {
        assert!(words.insert(*name), "-z {name}");
    }
}

#[test]
fn every_option_that_must_exist_exists() {
    let must =
        "o r relocatable i shared Bshareable pie pic-executable no-pie static Bstatic dn non_shared Bdynamic
        dy call_shared m EL EB e entry T script dT default-script oformat l library L library-path sysroot
        start-group ( end-group ) whole-archive no-whole-archive as-needed no-as-needed push-state pop-state
        start-lib end-lib nostdlib just-symbols R b format u undefined require-defined defsym wrap E
        export-dynamic no-export-dynamic version-script dynamic-list export-dynamic-symbol
        export-dynamic-symbol-list exclude-libs retain-symbols-file Bsymbolic Bsymbolic-functions
        Bno-symbolic init fini allow-multiple-definition no-undefined unresolved-symbols
        allow-shlib-undefined no-allow-shlib-undefined undefined-version no-undefined-version
        warn-unresolved-symbols error-unresolved-symbols noinhibit-exec soname h rpath rpath-link
        dynamic-linker I no-dynamic-linker hash-style enable-new-dtags disable-new-dtags eh-frame-hdr
        no-eh-frame-hdr build-id pack-dyn-relocs gc-sections no-gc-sections print-gc-sections z N omagic n
        nmagic no-omagic Ttext Tdata Tbss section-start image-base Ttext-segment orphan-handling
        sort-section unique d dc dp force-group-allocation emit-relocs q rosegment no-rosegment
        compress-debug-sections s strip-all S strip-debug x discard-all X discard-locals discard-none
        threads no-threads v V version help t trace M print-map Map cref verbose y trace-symbol
        fatal-warnings no-fatal-warnings w no-warnings demangle no-demangle dependency-file stats
        color-diagnostics error-limit reproduce fix-cortex-a53-843419 fix-cortex-a53-835769
        no-apply-dynamic-relocs apply-dynamic-relocs pic-veneer relax no-relax sframe-index discard-sframe
        icf no-gdb-index package-metadata section-ordering-file symbol-ordering-file call-graph-profile-sort
        no-call-graph-profile-sort call-graph-ordering-file warn-symbol-ordering no-warn-symbol-ordering print-symbol-order
        print-icf-sections remap-inputs print-memory-usage warn-backrefs why-extract warn-common
        no-warn-mismatch f auxiliary F filter audit spare-dynamic-tags plugin plugin-opt O g G Qy qmagic
        flto fno-lto no-keep-memory reduce-memory-overheads no-copy-dt-needed-entries
        no-add-needed sort-common no-ld-generated-unwind-info warn-rwx-segments
        no-warn-rwx-segments warn-execstack no-warn-execstack warn-once warn-alternate-em
        no-ctf-variables Ur mmap-output-file no-mmap-output-file
        no-map-whole-files mllvm sframe sframe-from-eh-frame sframe-split sframe-version no-sframe-share
        sframe-plt no-sframe-plt print-sframe time-report identity";
    for name in must.split_whitespace() {
        assert!(table::find(name.as_bytes()).is_some(), "{name}");
    }
    let must =
        "now lazy relro norelro noexecstack execstack defs undefs text notext textoff nodelete nodlopen
        nodefaultlib nodefaultlibs origin initfirst interpose global muldefs max-page-size common-page-size
        separate-code noseparate-code separate-loadable-segments pack-relative-relocs nopack-relative-relocs
        stack-size start-stop-gc nostart-stop-gc start-stop-visibility nocopyreloc combreloc nocombreloc
        nognustack nosectionheader sectionheader ibt shstk ibtplt force-ibt cet-report force-bti bti-report
        pac-plt gcs gcs-report pauth-report rodynamic dynamic-undefined-weak
        nodynamic-undefined-weak nounique-symbol x86-64-baseline x86-64-v2 x86-64-v3 x86-64-v4 memory-seal
        dead-reloc-in-nonalloc lrodata-after-bss call-nop indirect-extern-access mark-plt
        report-relative-reloc sframe-violation sframe-alloc nosframe-alloc";
    let words: HashSet<&str> = WORDS.iter().flat_map(|word| word.names).copied().collect();
    for name in must.split_whitespace() {
        assert!(words.contains(name), "-z {name}");
    }
}

#[test]
fn every_word_of_z() {
    for word in WORDS.iter().filter(|word| !NEED_A_MODE.contains(&word.names[0])) {
        for name in word.names {
            let text = match (word.effect, *name) {
                (ZEffect::Flag(_), name) => name.to_string(),
                (_, "start-stop-visibility") => format!("{name}=hidden"),
                (_, "call-nop") => format!("{name}=prefix-0x67"),
                (_, "dead-reloc-in-nonalloc") => format!("{name}=.debug_*=1"),
                (_, "isa-level-report") => format!("{name}=none"),
                (_, "memtag-mode") => format!("{name}=sync"),
                (_, "gcs") => format!("{name}=always"),
                (_, "stack-size" | "max-page-size" | "common-page-size") => format!("{name}=0x10000"),
                (_, name) => format!("{name}=warning"),
            };
            assert_eq!(config(&["-z", &text]), {
                let mut joined = config(&[&format!("-z{text}")]);
                joined.reports.arguments = vec![b"-z".to_vec(), text.into_bytes(), b"a.o".to_vec()];
                joined
            });
            if matches!(word.effect, ZEffect::Value(_)) {
                let missing = error(&["a.o", "-z", name]);
                assert!(missing.message.contains("expected =value"), "{}", missing.message);
                assert_eq!(missing.location, Location::Argument(format!("-z {name}")));
            }
        }
    }
}

#[test]
fn long_names_win_and_o_is_the_exception() {
    assert_eq!(config(&["-omagic"]).output, Path::new("magic"));
    assert_eq!(config(&["-oformat=binary"]).output, Path::new("format=binary"));
    assert_eq!(config(&["--omagic"]).layout.magic, Magic::OMagic);
    assert_eq!(config(&["--oformat=binary"]).output_format, OutputFormat::Binary);
    assert_eq!(config(&["-entry=x"]).symbols.entry.as_deref(), Some(&b"x"[..]));
    assert_eq!(config(&["-e", "ntry=x"]).symbols.entry.as_deref(), Some(&b"ntry=x"[..]));
    assert_eq!(config(&["-entry", "x"]).symbols.entry.as_deref(), Some(&b"x"[..]));
    assert_eq!(config(&["-Ttext=1000"]).layout.section_starts, [(b".text".to_vec(), 0x1000)]);
    let scripts = config(&["-Tlink.ld"]).scripts.scripts;
    assert_eq!(scripts.iter().map(|script| &*script.path).collect::<Vec<_>>(), [Path::new("link.ld")]);
    assert_eq!(config(&["-rpath", "/x", "-rpath=/y"]).dynamic.rpath, [b"/x", b"/y"]);
    assert!(config(&["-i"]).is_relocatable());
    assert_eq!(config(&["-init", "go"]).symbols.init, b"go");
    assert_eq!(config(&["-maarch64linux"]).machine, Some(Machine::AArch64));
    let plugins =
        config(&["-mllvm", "-x", "-plugin", "a/liblto_plugin.so", "-plugin", "b/LLVMgold.so"]).lto.plugins;
    assert_eq!(
        plugins.iter().map(|plugin| plugin.options.len()).collect::<Vec<_>>(),
        [0, 1],
        "-mllvm is no -m"
    );
    assert_eq!(inputs(&["-library-of-mine"])[0].source, InputSource::Library(b"ibrary-of-mine".to_vec()));
    assert_eq!(config(&["-soname", "-x"]).dynamic.soname.as_deref(), Some(&b"-x"[..]));
}

#[test]
fn what_is_no_option() {
    let names: Vec<_> = inputs(&["-", "x=y", "@none", "--", "-lm"]).into_iter().map(|i| i.source).collect();
    assert_eq!(names, ["-", "x=y", "@none", "-lm"].map(|name| InputSource::File(name.into())));
    let unknown = error(&["a.o", "--gc-sectons"]);
    assert_eq!(unknown.code, Code::BadOption);
    assert_eq!(unknown.message, "unrecognized option '--gc-sectons'");
    assert_eq!(
        unknown.help,
        ["did you mean '--gc-sections'?", "use the --help option for usage information"]
    );
    let of_compiler = |argument: &str| error(&["a.o", argument]).help[0].clone();
    let handed_on = "-Wl, is for compilers, which hand on what follows: write --gc-sections -z now";
    assert_eq!(of_compiler("-Wl,--gc-sections,-z,now"), handed_on);
    for argument in ["-pthread", "-Wall", "-DNDEBUG", "-std=c++20", "-static-libgcc", "-nostartfiles"] {
        let help = format!("{argument} is for compilers: link with the compiler, or leave it out");
        assert_eq!(of_compiler(argument), help);
    }
    let filter = error(&["a.o", "-fPIC"]);
    assert_eq!(filter.message, "-f may not be used without -shared");
    assert_eq!(filter.help, ["it names a library that the output filters, here PIC; -fPIC is for compilers"]);
    assert_eq!(error(&["a.o", "-hared=1", "-k"]).message, "unrecognized option '-k'");
    // An unknown option fails even if the command line only asks for the version.
    assert_eq!(error(&["--frobnicate", "-v"]).help.len(), 1);
    let (_, all) = run(&["--zap", "--hash-style=bad", "-m", "elf_vax", "--pop-state"]);
    let places: Vec<_> = all.iter().map(|diagnostic| &diagnostic.location).collect();
    let argument = |text: &str| Location::Argument(text.into());
    assert_eq!(
        places[1..],
        [&argument("--hash-style=bad"), &argument("-m elf_vax"), &argument("--pop-state")]
    );
    assert!(
        all[2]
            .message
            .contains("elf_x86_64, elf_amd64, aarch64linux, aarch64elf, elf64_s390, elf_x86_64_fbsd, elf_amd64_fbsd or aarch64fbsd"),
        "{all:?}"
    );
}

#[test]
fn unknown_words_of_z_warn() {
    let unknown = warning(&["a.o", "-z", "nosuchz"]);
    assert_eq!((unknown.severity, unknown.code), (Severity::Warning, Code::UnknownZ));
    assert_eq!(unknown.message, "-z nosuchz ignored");
    assert_eq!(warning(&["a.o", "-z", "norerlo"]).help, ["did you mean -z norelro?"]);
    assert_eq!(warning(&["a.o", "-z", "now=1"]).message, "-z now=1 ignored");
    assert!(error(&["a.o", "-z", "max-page-size=3"]).message.contains("power of two"));
}

#[test]
fn long_names_may_be_cut_short() {
    assert!(config(&["--gc-section"]).gc.enabled);
    assert!(config(&["-gc-sec"]).gc.enabled);
    assert_eq!(config(&["--hash-st=gnu"]), {
        let mut whole = config(&["--hash-style=gnu"]);
        whole.reports.arguments = vec![b"--hash-st=gnu".to_vec(), b"a.o".to_vec()];
        whole
    });
    assert_eq!(config(&["--son", "x"]).dynamic.soname.as_deref(), Some(&b"x"[..]));
    // A whole name wins over longer ones that start with it. Names of one option do not compete.
    assert!(config(&["--export-dynamic"]).symbols.export_dynamic);
    assert_eq!(config(&["--no-pi"]).mode, OutputMode::Executable { pie: false });
    // A single letter with its value wins over an abbreviation.
    assert_eq!(inputs(&["-lib"])[0].source, InputSource::Library(b"ib".to_vec()));
    assert_eq!(config(&["-entr"]).symbols.entry.as_deref(), Some(&b"ntr"[..]));
    assert_eq!(config(&["-out"]).output, Path::new("ut"));
}

#[test]
fn an_ambiguous_abbreviation_lists_what_it_may_be() {
    let ambiguous = error(&["a.o", "--whole-ar", "--start-"]);
    assert_eq!(
        ambiguous.message,
        "option '--start-' is ambiguous; possibilities: '--start-group' '--start-lib'"
    );
    assert_eq!(error(&["a.o", "--gc-section=x"]).message, "unrecognized option '--gc-section=x'");
    assert!(error(&["a.o", "--force-exe"]).notes[0].contains("need a suffix"));
    assert_eq!(error(&["a.o", "--=x"]).message, "unrecognized option '--=x'");
}

#[test]
fn what_peers_have_and_we_do_not_is_refused_with_the_reason() {
    for refused in REFUSED {
        for name in refused.names {
            let written = dashed(name);
            let found = error(&["a.o", &written]);
            assert_eq!(found.message, format!("unrecognized option '{written}'"));
            assert_eq!(found.notes, [refused.why]);
            assert!(table::find(name.as_bytes()).is_none(), "{name} stands in two tables");
        }
    }
    for refused in REFUSED_WORDS {
        for name in refused.names {
            assert_eq!(error(&["a.o", "-z", name]).notes, [refused.why]);
            assert!(!WORDS.iter().any(|word| word.names.contains(name)), "-z {name}");
        }
    }
}
