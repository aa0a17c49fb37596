//! Effects of options, alone and together.

use super::*;
use diagnostics::{Location, Severity};
use std::num::NonZeroUsize;

#[test]
fn nothing_but_an_input() {
    let (config, inputs) = link(&["a.o"]);
    let expected = Config {
        program: "ld".into(),
        output: "a.out".into(),
        reports: ReportOptions { arguments: vec![b"a.o".to_vec()], ..Default::default() },
        ..Config::default()
    };
    assert_eq!(config, expected);
    assert_eq!(
        inputs,
        [InputSpec {
            source: InputSource::File("a.o".into()),
            state: InputState::default(),
            argument: "a.o".into(),
        }]
    );
}

#[test]
fn positional_state() {
    let list = inputs(&[
        "a.o",
        "--push-state",
        "--as-needed",
        "-Bstatic",
        "-lx",
        "--whole-archive",
        "b.a",
        "--pop-state",
        "-l:y.so",
        "--start-group",
        "c.a",
        "--push-state",
        "-Bstatic",
        "-lz",
        "--pop-state",
        "--end-group",
        "--start-lib",
        "d.o",
        "e.o",
        "--end-lib",
        "--start-lib",
        "f.o",
        "--end-lib",
        "-(",
        "g.a",
        "-)",
        "-bbinary",
        "h.png",
        "-b",
        "default",
        "i.o",
        "--just-symbols=j.o",
        "k.o",
    ]);
    let state = InputState::default();
    let expected = [
        ("a.o", state),
        ("-lx", InputState { as_needed: true, static_only: true, ..state }),
        ("b.a", InputState { as_needed: true, static_only: true, whole_archive: true, ..state }),
        ("-l:y.so", state),
        ("c.a", InputState { group: Some(0), ..state }),
        ("-lz", InputState { group: Some(0), static_only: true, ..state }),
        ("d.o", InputState { lib: Some(0), ..state }),
        ("e.o", InputState { lib: Some(0), ..state }),
        ("f.o", InputState { lib: Some(1), ..state }),
        ("g.a", InputState { group: Some(1), ..state }),
        ("h.png", InputState { format: InputFormat::Binary, ..state }),
        ("i.o", state),
        ("--just-symbols=j.o", InputState { just_symbols: true, ..state }),
        ("k.o", state),
    ];
    let found: Vec<_> = list.iter().map(|input| (input.argument.as_str(), input.state)).collect();
    assert_eq!(found, expected);
    assert_eq!(list[3].source, InputSource::ExactLibrary(b"y.so".to_vec()));
    assert_eq!(inputs(&["-l", "m", "--library=m"])[0].argument, "-lm");
}

#[test]
fn positional_mistakes() {
    for (line, message) in [
        (&["--pop-state"][..], "no --push-state"),
        (&["--end-group"], "no --start-group"),
        (&["--end-lib"], "no --start-lib"),
        (&["-(", "--start-group", "-)"], "cannot be nested"),
        (&["--start-lib", "--start-lib", "--end-lib"], "cannot be nested"),
        (&["-l", ""], "name of a library"),
    ] {
        let found = error(&[&["a.o"], line].concat());
        assert!(found.message.contains(message), "{}", found.message);
    }
    assert_eq!(warning(&["--start-group", "a.o"]).message, "missing --end-group; added as last option");
    assert_eq!(warning(&["--start-lib", "a.o"]).message, "missing --end-lib; added as last option");
}

#[test]
fn hp_ux_names_of_static_and_dynamic() {
    let (_, inputs) =
        link(&["-a", "archive", "-lx", "-a", "shared", "-ly", "-aarchive", "-lz", "-a", "default", "-lw"]);
    let only_static: Vec<_> = inputs.iter().map(|input| input.state.static_only).collect();
    assert_eq!(only_static, [true, false, true, false]);
    assert_eq!(
        error(&["-abcdefg", "a.o"]).message,
        "unknown value 'bcdefg', expected archive, shared or default"
    );
}

#[test]
fn kinds_of_output() {
    let mode = |line: &[&str]| config(line).mode;
    assert_eq!(mode(&[]), OutputMode::Executable { pie: false });
    assert_eq!(mode(&["-pie"]), OutputMode::Executable { pie: true });
    assert_eq!(mode(&["-pie", "-no-pie"]), OutputMode::Executable { pie: false });
    assert_eq!(mode(&["-pie", "-shared"]), OutputMode::Shared);
    assert_eq!(mode(&["-r", "-no-pie"]), OutputMode::Relocatable);
    assert_eq!(mode(&["-Ur"]), OutputMode::Relocatable);
    assert!(config(&["-static"]).static_link && !config(&["-Bstatic"]).static_link);
    assert!(config(&["-pie"]).is_position_independent() && !config(&[]).is_position_independent());
    assert!(error(&["-r", "-shared", "a.o"]).message.contains("-r and -shared may not be used together"));
    assert!(error(&["--relocatable", "-pie", "a.o"]).message.contains("--relocatable and -pie"));
    assert_eq!(error(&["-o", "", "a.o"]).message, "expected the name of a file");
}

#[test]
fn machines() {
    assert_eq!(config(&["-m", "elf64_s390", "-EB"]).machine, Some(Machine::S390x));
    assert_eq!(config(&["-EL", "-maarch64elf"]).machine, Some(Machine::AArch64));
    assert_eq!(config(&["--oformat", "elf64-s390"]).machine, Some(Machine::S390x));
    assert!(error(&["-EB", "-melf_x86_64", "a.o"]).message.contains("x86-64 is little-endian"));
    assert!(error(&["-melf_x86_64", "--oformat=elf64-s390", "a.o"]).message.contains("-m names x86-64"));
    assert!(error(&["-m", "elf_vax", "a.o"]).message.contains("unrecognised emulation mode 'elf_vax'"));
    let refused = error(&["-m", "elf_i386", "a.o", "--no-fallback"]);
    assert!(refused.message.contains("unrecognised emulation mode 'elf_i386'") && !refused.help.is_empty());
    assert!(error(&["--oformat=pe-x86-64", "a.o"]).message.contains("elf64-x86-64"));
}

#[test]
fn links_for_32_bits_are_for_another_linker() {
    let asks = |words: &[&str]| match run(words).0 {
        Ok(Invocation::Link(config, _)) => config.needs_32_bit_linker.map(|link| link.asked_by),
        other => panic!("{words:?}: {other:?}"),
    };
    let names =
        ["elf_i386", "elf32_x86_64", "armelf_linux_eabi", "elf_s390", "aarch64linux32", "elf32lriscv"];
    for name in names {
        assert_eq!(asks(&["-m", name, "a.o"]), Some(format!("-m {name}")));
        // Another linker checks the other options.
        assert_eq!(asks(&["--zap", &format!("-m{name}"), "a.o"]), Some(format!("-m{name}")));
    }
    assert_eq!(asks(&["--oformat=elf32-i386", "a.o"]), Some("--oformat=elf32-i386".into()));
    assert_eq!(asks(&["--oformat=elf32-i386", "--oformat=elf64-x86-64", "a.o"]), None);
    // The last emulation counts, as kbuild needs.
    assert_eq!(asks(&["-melf_x86_64", "-m", "elf_i386", "a.o"]), Some("-m elf_i386".into()));
    assert_eq!(asks(&["-melf_i386", "-m", "elf_x86_64", "a.o"]), None);
    assert!(matches!(run(&["-m", "elf_i386", "--version"]).0, Ok(Invocation::Print(_))));
}

#[test]
fn undefined_symbols() {
    use Report::{Error, Ignore, Warning};
    let reports = |line: &[&str]| {
        let undefined = config(line).undefined;
        (undefined.in_objects, undefined.in_shared_libraries)
    };
    assert_eq!(reports(&[]), (Error, Error));
    assert_eq!(reports(&["-shared"]), (Ignore, Ignore));
    assert_eq!(reports(&["-r", "-z", "defs"]), (Ignore, Ignore));
    assert_eq!(reports(&["-shared", "-z", "defs"]), (Error, Ignore));
    assert_eq!(reports(&["-shared", "--no-undefined", "--no-allow-shlib-undefined"]), (Error, Error));
    assert_eq!(reports(&["-z", "undefs"]), (Ignore, Error));
    assert_eq!(reports(&["--allow-shlib-undefined"]), (Error, Ignore));
    assert_eq!(reports(&["--warn-unresolved-symbols"]), (Warning, Warning));
    assert_eq!(reports(&["--unresolved-symbols=ignore-all"]), (Ignore, Ignore));
    assert_eq!(reports(&["--unresolved-symbols=ignore-in-shared-libs"]), (Error, Ignore));
    assert_eq!(reports(&["-shared", "--unresolved-symbols=report-all"]), (Error, Error));
    assert!(error(&["--unresolved-symbols=some", "a.o"]).message.contains("report-all, ignore-all"));
}

#[test]
fn directories_and_sysroot() {
    let search = config(&["-L/a", "-L=/b", "--sysroot=/target", "-L$SYSROOT/c", "-L=d", "-nostdlib"]).search;
    assert_eq!(
        search.directories,
        ["/a", "/target/b", "/target/c", "/target/d"].map(std::path::PathBuf::from)
    );
    assert!(search.no_default_directories);
    let search = config(&["-L=/b", "--sysroot=/"]).search;
    assert_eq!((search.directories[0].to_str(), search.sysroot), (Some("/b"), None));
    let remap = config(&["--remap-inputs=x.*=y.o", "--remap-inputs-file=remap.txt"]).search.remap;
    assert_eq!(
        remap,
        [
            (b"x.*".to_vec(), Some("y.o".into())),
            (b"*/a.o".to_vec(), Some("b.o".into())),
            (b"c.*".to_vec(), None),
            (b"d.o".to_vec(), Some("e=.o".into())),
        ]
    );
    assert!(error(&["--remap-inputs-file=bad-remap.txt", "a.o"]).message.contains("PATTERN FILE"));
    assert!(error(&["--remap-inputs-file=none", "a.o"]).message.contains("cannot read none"));
}

#[test]
fn capital_r_is_two_options() {
    let (config, inputs) = link(&["-R", "symbols.o", "-R", "$ORIGIN/lib", "-R$ORIGIN/lib"]);
    assert_eq!(config.dynamic.rpath, [b"$ORIGIN/lib"]);
    assert_eq!(inputs.len(), 1);
    assert!(inputs[0].state.just_symbols && inputs[0].source == InputSource::File("symbols.o".into()));
}

#[test]
fn values() {
    let made = config(&[
        "--defsym",
        "a=b + 4",
        "--defsym=c = 0x10",
        "--wrap=malloc",
        "--wrap",
        "malloc",
        "--exclude-libs",
        "libx.a,liby.a:libz.a",
        "-u",
        "x",
        "--require-defined=y",
        "--threads=4",
        "--error-limit=0",
        "--section-start=.foo=ff000000",
        "-Tbss",
        "0x20",
        "--image-base=10000",
        "--unique=.x*",
        "--unique",
        "--package-metadata=%7B%22os%22:1%7D",
        "-z",
        "dead-reloc-in-nonalloc=.debug_*=0xff",
        "-z",
        "call-nop=suffix-nop",
        "-z",
        "stack-size=1048576",
        "-z",
        "start-stop-visibility=hidden",
        "-Bgroup",
    ]);
    let defsym = |name: &str, expression: &str| DefSym {
        name: name.into(),
        expression: expression.into(),
        inputs_before: 0,
        scripts_before: 0,
    };
    assert_eq!(made.symbols.defsyms, [defsym("a", "b + 4"), defsym("c", "0x10")]);
    assert_eq!(made.symbols.wrap, [b"malloc"]);
    assert_eq!(made.symbols.exclude_libs, [b"libx.a", b"liby.a", b"libz.a"]);
    assert_eq!(
        (&made.symbols.undefined[..], &made.symbols.require_defined[..]),
        (&[b"x".to_vec()][..], &[b"y".to_vec()][..])
    );
    assert_eq!((made.threads, made.diagnostics.error_limit), (NonZeroUsize::new(4), None));
    assert_eq!(made.layout.section_starts, [(b".foo".to_vec(), 0xff00_0000), (b".bss".to_vec(), 0x20)]);
    assert_eq!(made.layout.image_base, Some(0x10000));
    assert_eq!(made.layout.unique, Unique { orphans: true, patterns: vec![b".x*".to_vec()] });
    assert_eq!(made.notes.package_metadata.as_deref(), Some(&b"{\"os\":1}"[..]));
    assert_eq!(made.strip.dead_relocations, [(b".debug_*".to_vec(), 0xff)]);
    assert_eq!(made.relocations.call_nop, CallNop { byte: 0x90, after: true });
    assert_eq!(made.layout.stack_size, Some(1 << 20));
    assert_eq!(made.symbols.start_stop_visibility, Visibility::Hidden);
    assert!(made.dynamic.group);
    for bad in [
        &["--defsym=a"][..],
        &["--defsym=a= "],
        &["--threads=0"],
        &["--threads=many"],
        &["--section-start=.x"],
        &["-Ttext=word"],
        &["--spare-dynamic-tags=4294967296"],
        &["-z", "call-nop=prefix-0x100"],
        &["-z", "stack-size=big"],
        &["--orphan-handling=lose"],
    ] {
        assert_eq!(error(&[bad, &["a.o"]].concat()).code, Code::BadOption, "{bad:?}");
    }
}

#[test]
fn the_last_one_holds() {
    assert_eq!(config(&["-s", "-S"]).strip.strip, Strip::Debug);
    assert_eq!(config(&["-x", "--discard-none"]).strip.discard, Discard::None);
    assert!(!config(&["--gc-sections", "--no-gc-sections"]).gc.enabled);
    assert!(!config(&["-z", "now", "-z", "lazy"]).dynamic.bind_now);
    assert_eq!(config(&["-N", "--no-omagic"]).layout.magic, Magic::Paged);
    assert_eq!(config(&["-Bsymbolic", "-Bsymbolic-functions"]).symbols.symbolic, Symbolic::Functions);
    assert_eq!(config(&["--sframe=merge", "--discard-sframe"]).sframe.mode, SFrameMode::Discard);
    assert_eq!(config(&["-t", "--trace"]).reports.trace, 2);
}

#[test]
fn build_ids() {
    let id = |text: &str| config(&[text]).notes.build_id;
    assert_eq!(id("--build-id"), BuildId::Sha1);
    assert_eq!(id("--build-id=fast"), BuildId::Fast);
    assert_eq!(id("--build-id=sha256"), BuildId::Sha256);
    assert_eq!(id("--build-id=none"), BuildId::None);
    assert_eq!(id("--build-id=0xDEAD-beef"), BuildId::Hex(vec![0xde, 0xad, 0xbe, 0xef]));
    assert!(error(&["--build-id=0x123", "a.o"]).message.contains("even number"));
    let bad = warning(&["--build-id=bad", "a.o"]);
    assert_eq!(bad.severity, Severity::Warning);
    assert_eq!(bad.location, Location::Argument("--build-id=bad".into()));
}

#[test]
fn unwind_table() {
    let plain = config(&[]);
    assert_eq!((plain.unwind.table, plain.unwind.links_runtime()), (None, false));
    let replaced = config(&["--unwind-table=replace", "--unwind-debug-frame=drop"]);
    assert!(replaced.unwind.links_runtime() && !replaced.unwind.debug_frame && replaced.dynamic.eh_frame_hdr);
    assert!(replaced.symbols.export_symbols.iter().any(|name| name == b"_Unwind_Find_FDE"));
    let full = config(&["--unwind-table=replace", "--unwind-runtime=full"]);
    assert!(full.symbols.export_symbols.iter().any(|name| name == b"_Unwind_RaiseException"));
    let added = config(&["--unwind-table=add"]);
    assert_eq!((added.unwind.table, added.unwind.links_runtime()), (Some(UnwindTableMode::Add), false));
    let library = config(&["-shared", "--unwind-table=replace", "--unwind-runtime=program"]);
    assert!(!library.unwind.links_runtime() && library.symbols.export_symbols.is_empty());
    let (relocatable, said) = run(&["-r", "--unwind-table=replace", "a.o"]);
    assert!(matches!(relocatable, Ok(Invocation::Link(config, _)) if config.unwind.table.is_none()));
    assert!(said[0].message.contains("has no effect with -r"), "{said:?}");
    let refused = [
        &["-shared", "--unwind-table=replace"][..],
        &["--emit-relocs", "--unwind-table=replace"],
        &["-shared", "--unwind-runtime=full", "--unwind-table=replace"],
    ];
    for words in refused {
        assert!(error(&[words, &["a.o"]].concat()).message.contains("--unwind-"), "{words:?}");
    }
}

#[test]
fn sframe() {
    let plain = config(&[]).sframe;
    assert_eq!(plain, SFrameOptions::default());
    let index = config(&["--sframe-index", "--sframe=discard", "-z", "nosframe-alloc"]).sframe;
    assert_eq!((index.index, index.mode, index.plt), (Some(SFrameIndex::V3), SFrameMode::Discard, true));
    assert!(!index.alloc);
    let merge =
        config(&["--sframe=merge", "--no-sframe-plt", "--sframe-version=2", "--no-sframe-share"]).sframe;
    assert_eq!((merge.mode, merge.plt, merge.version), (SFrameMode::Merge, false, SFrameVersion::V2));
    assert!(!merge.share && !config(&[]).sframe.plt);
    let shares = |options: &[&str]| config(options).sframe.share;
    assert!(shares(&["--sframe-index"]) && !shares(&["-r", "--sframe-index"]));
    assert!(shares(&["-r", "--sframe-share"]) && !shares(&["-r", "--sframe-share", "--no-sframe-share"]));
    let violation = config(&["-z", "sframe-violation=warning", "--sframe-from-eh-frame=all"]).sframe;
    assert_eq!(violation.violation, SFrameViolation::Warning);
    assert_eq!(violation.from_eh_frame, Some(SFrameFromEhFrame::All));
    assert!(error(&["--sframe=merge", "--sframe-index", "a.o"]).message.contains("together"));
    assert!(error(&["--sframe-index=v9", "a.o"]).message.contains("expected v3"));
    assert!(error(&["--sframe=keep", "a.o"]).message.contains("concat, merge or discard"));
}

#[test]
fn versions_and_help() {
    let own = "GNU ld (sframe-ld) 2.44\n";
    assert_eq!(printed(&["-v"]), own);
    assert!(printed(&["--version"]).starts_with(own));
    assert!(printed(&["--version", "a.o", "-lc"]).starts_with(own));
    assert!(printed(&["-V"]).contains("Supported emulations:\n   elf_x86_64\n"));
    assert!(printed(&["--help"]).contains("ld: supported targets: elf64-x86-64"));
    assert_eq!(printed(&["--print-output-format"]), "elf64-x86-64\n");
    assert_eq!(printed(&["--sysroot=/r", "--print-sysroot"]), "/r\n");
    let (config, inputs) = link(&["-v", "a.o"]);
    assert_eq!((config.banner.as_deref(), inputs.len()), (Some(own), 1));
    assert_eq!(printed(&["--identity=gnu", "-v"]), own);
    let lld = Environment { identity: Some("lld".as_ref()), ..Environment::default() };
    let (text, _) = run_in(&["--version"], &lld);
    assert!(matches!(&text, Ok(Invocation::Print(text)) if text.starts_with("LLD 22")), "{text:?}");
    let (text, _) = run_in(&["--version", "--identity=sframe"], &lld);
    let sframe = concat!("sframe-ld ", env!("CARGO_PKG_VERSION"), " (compatible with GNU ld)\n");
    assert!(matches!(&text, Ok(Invocation::Print(text)) if text.starts_with(sframe)), "{text:?}");
    let bad = Environment { identity: Some("mold".as_ref()), ..Environment::default() };
    assert_eq!(run_in(&["-v"], &bad).0, Err(Aborted));
}

#[test]
fn the_last_directory_is_the_one_to_enter() {
    let tell = Environment {
        enter: Some(|directory| Err(std::io::Error::other(directory.display().to_string()))),
        ..Environment::default()
    };
    let entered = |words: &[&str], environment| {
        let (_, diagnostics) = run_in(&[words, &["a.o"]].concat(), environment);
        diagnostics.into_iter().map(|diagnostic| diagnostic.message).collect::<Vec<_>>()
    };
    let failed = |name: &str| [format!("cannot change to the directory {name}: {name}")];
    assert_eq!(entered(&["-Cx"], &tell), failed("x"));
    assert_eq!(entered(&["-C", "x", "-o", "-Cno", "--directory=y"], &tell), failed("y"));
    assert_eq!(entered(&["-C", "x", "-z", "now", "-direc", "z"], &tell), failed("z"));
    assert_eq!(entered(&["-C", "x", "--", "-Cy"], &tell), failed("x"));
    assert!(entered(&["-o", "-Cx", "--disable-new-dtags"], &tell).is_empty());
    assert!(entered(&["-C", "x"], &Environment::default())[0].contains("unsupported"));
}

#[test]
fn an_archive_of_repro_is_named_by_the_output() {
    assert_eq!(config(&["--repro", "-o", "d/x"]).reports.reproduce.unwrap(), Path::new("d/x.repro.tar"));
    assert_eq!(config(&["--repro", "--reproduce=r.tar"]).reports.reproduce.unwrap(), Path::new("r.tar"));
}

#[test]
fn without_inputs() {
    assert_eq!(error(&[]).code, Code::NoInput);
    assert_eq!(error(&["-o", "x"]).message, "no input files");
    assert!(inputs(&["-T", "names-inputs.ld"]).is_empty());
    assert!(inputs(&["--verbose"]).is_empty());
}

#[test]
fn environment_and_response_files() {
    let environment = Environment {
        options: Some("--sframe-index -o 'from env' -z now".as_ref()),
        run_path: Some("/run/path".as_ref()),
        ..Environment::default()
    };
    let (result, diagnostics) = run_in(&["-z", "lazy", "@options.rsp"], &environment);
    assert_eq!(diagnostics, []);
    let Ok(Invocation::Link(config, inputs)) = result else { panic!("{result:?}") };
    assert!(config.sframe.index.is_some() && !config.dynamic.bind_now);
    assert_eq!(config.output, Path::new("two words"));
    assert_eq!(config.search.directories, [Path::new("/some dir")]);
    assert_eq!(inputs[0].source, InputSource::Library(b"a\\b".to_vec()));
    assert_eq!(inputs[1].source, InputSource::File("b.o".into()));
    assert_eq!(config.dynamic.rpath, [b"/run/path"]);
    let arguments: Vec<_> = config.reports.arguments.iter().map(|a| String::from_utf8_lossy(a)).collect();
    assert_eq!(
        arguments,
        [
            "--sframe-index",
            "-o",
            "from env",
            "-z",
            "now",
            "-z",
            "lazy",
            "-o",
            "two words",
            "-la\\b",
            "-L/some dir",
            "b.o"
        ]
    );
    let (result, _) = run_in(&["-rpath", "/mine", "a.o"], &environment);
    let Ok(Invocation::Link(config, _)) = result else { panic!("{result:?}") };
    assert_eq!(config.dynamic.rpath, [b"/mine"]);
}

#[test]
fn bytes_that_are_no_text() {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let sink = Sink::default();
    let arguments = [OsString::from_vec(b"-lx\xff".to_vec()), OsString::from_vec(b"\xfe.o".to_vec())];
    let result = parse(&arguments, &Environment::default(), &files, &sink);
    let Ok(Invocation::Link(_, inputs)) = result else { panic!("{result:?}") };
    assert_eq!(inputs[0].source, InputSource::Library(b"x\xff".to_vec()));
    let InputSource::File(path) = &inputs[1].source else { panic!("{inputs:?}") };
    assert_eq!(path.as_os_str().as_bytes(), b"\xfe.o");
    for odd in [&b"-\xff"[..], b"--\xff=\xfe", b"-z\xff", b"-m\xff"] {
        let _ = parse(&[OsString::from_vec(odd.to_vec())], &Environment::default(), &files, &Sink::default());
    }
}

#[test]
fn options_with_patterns_keep_their_order() {
    let options = [
        "--compress-sections=a=zlib:9",
        "--compress-sections",
        "b=c=zstd",
        "--shuffle-sections=*=-1",
        "--shuffle-sections=.text*=0x10",
        "--shuffle-sections=x=-2",
        "a.o",
    ];
    let (config, _) = link(&options);
    let rule = |pattern: &[u8], format, level| CompressSections {
        pattern: pattern.to_vec(),
        compression: CompressMethod { format, level },
    };
    assert_eq!(
        config.strip.compress_sections,
        [rule(b"a", CompressDebug::Zlib, Some(9)), rule(b"b=c", CompressDebug::Zstd, None)]
    );
    let orders: Vec<ShuffleOrder> = config.layout.shuffles.iter().map(|shuffle| shuffle.order).collect();
    let expected = [ShuffleOrder::Reverse, ShuffleOrder::Seed(16), ShuffleOrder::Seed(0xffff_fffe)];
    assert_eq!(orders, expected);
}

#[test]
fn splits_have_default_bounds() {
    let (config, _) = link(&["-r", "--split-by-file", "--split-by-reloc", "a.o"]);
    assert_eq!((config.layout.split_by_file, config.layout.split_by_reloc), (Some(1), Some(32768)));
    let (config, _) = link(&["-r", "--split-by-file=0x20", "--split-by-reloc=7", "a.o"]);
    assert_eq!((config.layout.split_by_file, config.layout.split_by_reloc), (Some(32), Some(7)));
}
