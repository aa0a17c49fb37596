//! Options for the kind of output, the inputs and the search for them.

use crate::config::{Machine, OutputFormat, ScriptFile};
use crate::inputs::InputFormat;
use crate::spec::{OptionSpec, Reach, flag, optional, positional, value};
use crate::state::{Kind, Option32Bit, State};
use crate::values::{EMULATIONS, Outcome, TARGETS, is_32_bit, list, pair, path, shown, word};

pub(super) static OPTIONS: &[OptionSpec] = &[
    value(
        &["o", "output"],
        "FILE",
        "Write the output to FILE (default a.out; - is standard output)",
        |state, file| {
            if file.is_empty() {
                return Err("expected the name of a file".into());
            }
            state.config.output = path(file);
            state.config.output_given = true;
            Ok(())
        },
    )
    .reaches(Reach::Writes),
    positional(
        &["run"],
        "Run the command that follows, such as make, with this linker for all its links; must come first",
        |_| Err("must be the first option".into()),
    )
    .reaches(Reach::Runs),
    value(
        &["flavor"],
        "FLAVOR",
        "Choose a command line as lld does: gnu, ld and ld.lld all mean this linker's own",
        |_, flavor| word(flavor, &[("gnu", ()), ("ld", ()), ("ld.lld", ())]),
    ),
    flag(&["r", "i", "relocatable", "Ur"], "Make a relocatable object, the input of a later link", |state| {
        state.pending.relocatable = Some(state.argument.clone());
    }),
    flag(&["shared", "Bshareable"], "Make a shared library", |state| {
        state.pending.kind = Some(Kind::Shared);
    }),
    flag(&["pie", "pic-executable"], "Make a position independent executable", |state| {
        state.pending.kind = Some(Kind::Pie);
    }),
    flag(&["no-pie", "no-pic-executable"], "Make a position dependent executable (default)", |state| {
        state.pending.kind = Some(Kind::Plain);
    }),
    flag(
        &["static"],
        "Link statically, if given before all inputs; otherwise search only for static libraries from here",
        |state| {
            // Behind an input it means -Bstatic, as in GNU ld and lld: the inputs before it may need shared
            // libraries.
            state.config.static_link |= state.inputs.is_empty();
            state.current.static_only = true;
        },
    ),
    flag(&["Bstatic", "dn", "non_shared"], "Search only for static libraries from here on", |state| {
        state.current.static_only = true;
    }),
    flag(
        &["Bdynamic", "dy", "call_shared"],
        "Search for shared libraries too from here on (default)",
        |state| {
            state.current.static_only = false;
        },
    ),
    value(
        &["a"],
        "KEYWORD",
        "The same as -Bstatic (archive) or -Bdynamic (shared, default), by HP-UX's name",
        |state, keyword| {
            let keywords = [("archive", true), ("shared", false), ("default", false)];
            state.current.static_only = word(keyword, &keywords)?;
            Ok(())
        },
    ),
    value(&["m"], "EMULATION", "Link for the machine that EMULATION names", emulation),
    flag(&["EL"], "Link little-endian objects", |state| {
        state.config.big_endian = Some(false);
    }),
    flag(&["EB"], "Link big-endian objects", |state| {
        state.config.big_endian = Some(true);
    }),
    value(&["oformat"], "FORMAT", "Write the output in FORMAT: an ELF format or binary", output_format),
    value(&["T", "script"], "FILE", "Use the linker script FILE", |state, file| {
        add_script(state, file, false);
        Ok(())
    })
    .reaches(Reach::Reads),
    flag(&["enable-linker-version"], "Let LINKER_VERSION in a script write this linker's name", |state| {
        state.config.scripts.linker_version = true;
    }),
    flag(&["disable-linker-version"], "Let LINKER_VERSION in a script write nothing (default)", |state| {
        state.config.scripts.linker_version = false;
    }),
    value(&["c", "mri-script"], "FILE", "Use FILE, a script of the MRI linker", |state, file| {
        add_script(state, file, true);
        Ok(())
    })
    .reaches(Reach::Reads),
    value(
        &["dT", "default-script"],
        "FILE",
        "Use the linker script FILE if there is no -T",
        |state, file| {
            state.config.scripts.default_script = Some(path(file));
            Ok(())
        },
    )
    .reaches(Reach::Reads),
    value(
        &["l", "library"],
        "NAME",
        "Link with the library NAME; -l:FILE searches for a file of exactly that name",
        |state, name| state.add_library(name),
    )
    .reaches(Reach::Reads),
    value(
        &["L", "library-path"],
        "DIR",
        "Search DIR for libraries; =DIR and $SYSROOT/DIR start at the sysroot",
        |state, directory| {
            state.pending.directories.push(directory.to_vec());
            Ok(())
        },
    )
    .reaches(Reach::Reads),
    value(
        &["Y"],
        "P,DIRS",
        "Search DIRS, separated by colons, for libraries, after the directories of -L",
        |state, directories| {
            let directories = directories.strip_prefix(b"P,").unwrap_or(directories);
            let split = directories.split(|&byte| byte == b':').filter(|text| !text.is_empty());
            state.pending.default_directories = split.map(<[u8]>::to_vec).collect();
            Ok(())
        },
    )
    .reaches(Reach::Reads),
    value(
        &["rsp-quoting"],
        "STYLE",
        "Quote arguments in response files as STYLE says, which must be posix",
        |_, style| word(style, &[("posix", ())]),
    ),
    value(&["sysroot"], "DIR", "Use DIR as the root of the target's file system", |state, directory| {
        state.pending.sysroot = Some(path(directory));
        Ok(())
    })
    .reaches(Reach::Reads),
    value(
        &["chroot"],
        "DIR",
        "Read inputs, scripts and libraries with absolute paths below DIR",
        |state, directory| {
            state.config.search.chroot = Some(path(directory)).filter(|path| !path.as_os_str().is_empty());
            Ok(())
        },
    )
    .reaches(Reach::Reads),
    value(
        &["C", "directory"],
        "DIR",
        "Change to DIR before anything is read or written, except for response files",
        // `parse` has done that, before it took any option.
        |_, _| Ok(()),
    )
    .reaches(Reach::Reads),
    flag(&["dependent-libraries"], "Link the libraries that objects name in .deplibs (default)", |state| {
        state.config.search.no_dependent_libraries = false;
    }),
    flag(&["no-dependent-libraries"], "Do not link the libraries that objects name in .deplibs", |state| {
        state.config.search.no_dependent_libraries = true;
    }),
    flag(&["nostdlib"], "Search for libraries only in directories that the command line names", |state| {
        state.config.search.no_default_directories = true;
    }),
    positional(
        &["(", "start-group"],
        "Search the archives from here to --end-group again and again, until that finds nothing more",
        |state| state.start_group(),
    ),
    positional(&[")", "end-group"], "End the group of archives that --start-group began", |state| {
        state.end_group()
    }),
    positional(
        &["start-lib"],
        "Link the objects from here to --end-lib only if they are needed, like members of an archive",
        |state| state.start_lib(),
    ),
    positional(&["end-lib"], "End what --start-lib began", |state| state.end_lib()),
    flag(&["link-mapless"], "Read archives that have no symbol table, too (default)", |state| {
        state.config.search.no_mapless_archives = false;
    }),
    flag(&["no-link-mapless"], "Report searched archives that have no symbol table as errors", |state| {
        state.config.search.no_mapless_archives = true;
    }),
    flag(&["fortran-common"], "Search archives for a definition of each common symbol (default)", |state| {
        state.config.search.no_members_for_commons = false
    }),
    flag(&["no-fortran-common"], "Search archives only for undefined symbols", |state| {
        state.config.search.no_members_for_commons = true;
    }),
    flag(&["whole-archive"], "Link every member of the archives that follow", |state| {
        state.current.whole_archive = true;
    }),
    flag(
        &["no-whole-archive"],
        "Link only the needed members of the archives that follow (default)",
        |state| {
            state.current.whole_archive = false;
        },
    ),
    flag(
        &["as-needed"],
        "Record the shared libraries that follow (DT_NEEDED) only if they are used",
        |state| {
            state.current.as_needed = true;
        },
    ),
    flag(
        &["no-as-needed"],
        "Record the shared libraries that follow (DT_NEEDED), used or not (default)",
        |state| {
            state.current.as_needed = false;
        },
    ),
    flag(
        &["copy-dt-needed-entries", "add-needed"],
        "Also link what the shared libraries that follow need, as if with --as-needed",
        |state| state.current.copies_needs = true,
    ),
    flag(
        &["no-copy-dt-needed-entries", "no-add-needed"],
        "Do not link libraries only because a shared library that follows needs them (default)",
        |state| state.current.copies_needs = false,
    ),
    flag(
        &["push-state"],
        "Save whether --as-needed, -Bstatic, --whole-archive and the like hold here",
        |state| {
            state.pushed.push((state.current, state.config.static_link));
        },
    ),
    positional(&["pop-state"], "Restore what --push-state saved", |state| state.pop_state()),
    value(
        &["just-symbols"],
        "FILE",
        "Use only the symbols of FILE and their addresses, not its contents",
        |state, file| {
            state.add_symbols_of(file);
            Ok(())
        },
    )
    .reaches(Reach::Reads),
    value(
        &["R"],
        "FILE|DIR",
        "Same as --just-symbols for a file, and as -rpath for a directory",
        |state, name| {
            state.add_symbols_or_rpath(name);
            Ok(())
        },
    )
    .reaches(Reach::Reads),
    value(
        &["b", "format"],
        "FORMAT",
        "Read the inputs that follow as FORMAT: elf, binary or default",
        input_format,
    ),
    value(
        &["remap-inputs"],
        "PATTERN=FILE",
        "Read FILE in place of every input whose name matches PATTERN",
        add_remap,
    )
    .reaches(Reach::Reads),
    value(
        &["remap-inputs-file"],
        "FILE",
        "Read pairs for --remap-inputs from FILE, one a line: `PATTERN FILE` or `PATTERN=FILE`",
        |state, file| {
            let text = state.read_text(file)?;
            text.split(|&byte| byte == b'\n').try_for_each(|line| add_remap_line(state, line))
        },
    )
    .reaches(Reach::Reads),
    value(
        &["plugin"],
        "FILE",
        "Load the compiler's plugin FILE, which compiles objects of intermediate code (LTO)",
        |state, file| {
            if file.is_empty() {
                return Err("expected the name of a file".into());
            }
            let plugin = linker_plugin::Spec { path: path(file), options: Vec::new() };
            state.config.lto.plugins.push(plugin);
            Ok(())
        },
    )
    .reaches(Reach::Runs),
    value(&["plugin-opt"], "TEXT", "Pass TEXT to the plugin that was named last", |state, text| {
        // clang passes options for lld's own optimizer in this form, without a plugin. They are ignored.
        if let Some(plugin) = state.config.lto.plugins.last_mut() {
            plugin.options.push(text.to_vec());
        }
        Ok(())
    })
    .reaches(Reach::Runs),
    value(&["mllvm"], "TEXT", "Pass TEXT to LLVM's plugin, as -plugin-opt does", |state, text| {
        state.pending.llvm_options.push(text.to_vec());
        Ok(())
    })
    .reaches(Reach::Runs),
    flag(&["plugin-save-temps"], "Keep the temporary files of plugins", |state| {
        state.config.lto.keep_temporaries = true;
    })
    .reaches(Reach::Runs),
    optional(
        &["threads"],
        "N",
        "Use N threads; the most is 32, or 4 for each processor if that is more (default: as many as the inputs keep busy, 1 for each processor, fewer if make's or cargo's jobserver says so)",
        |state, count| {
            state.config.threads = count.map(thread_count).transpose()?;
            Ok(())
        },
    ),
    value(&["thread-count"], "N", "Same as --threads=N", |state, count| {
        state.config.threads = Some(thread_count(count)?);
        Ok(())
    }),
    flag(&["no-threads"], "Use only one thread", |state| {
        state.config.threads = Some(std::num::NonZeroUsize::MIN);
    }),
    flag(
        &["detach", "fork", "quick-exit"],
        "End without waiting until a large link's memory is freed; a background process frees it (default)",
        |state| state.config.foreground = false,
    ),
    flag(
        &["no-detach", "no-fork", "no-quick-exit"],
        "Leave no background process that frees memory",
        |state| {
            state.config.foreground = true;
        },
    ),
    flag(
        &["fallback"],
        "Let the system's linker of the same name make links for 32-bit machines (default)",
        |state| state.config.no_fallback = false,
    ),
    flag(&["no-fallback"], "Report a link for a 32-bit machine as an error", |state| {
        state.config.no_fallback = true;
    }),
];

fn add_script(state: &mut State<'_>, file: &[u8], mri: bool) {
    let script = ScriptFile { path: path(file), mri, inputs_before: state.inputs.len() };
    state.config.scripts.scripts.push(script);
}

fn emulation(state: &mut State<'_>, name: &[u8]) -> Outcome {
    let Some(known) = EMULATIONS.iter().find(|known| known.name.as_bytes() == name) else {
        let names: Vec<&str> = EMULATIONS.iter().map(|known| known.name).collect();
        let fault = format!("unrecognised emulation mode '{}', expected {}", shown(name), list(&names));
        if !is_32_bit(name) {
            return Err(fault);
        }
        state.pending.narrow_emulation = Some(Option32Bit { argument: state.argument.clone(), fault });
        return Ok(());
    };
    state.pending.narrow_emulation = None;
    state.config.machine = Some(known.machine);
    state.config.freebsd = known.freebsd;
    Ok(())
}

fn output_format(state: &mut State<'_>, name: &[u8]) -> Outcome {
    state.pending.narrow_format = is_32_bit(name)
        .then(|| Option32Bit { argument: state.argument.clone(), fault: unknown_format(name) });
    if state.pending.narrow_format.is_some() {
        return Ok(());
    }
    let (format, machine) = match named_format(name) {
        Some(NamedFormat::Binary) => (OutputFormat::Binary, None),
        Some(NamedFormat::Elf(machine)) => (OutputFormat::Elf, machine),
        None => return Err(unknown_format(name)),
    };
    state.config.output_format = format;
    state.pending.format_machine = machine.map(|machine| (machine, state.argument.clone()));
    Ok(())
}

fn input_format(state: &mut State<'_>, name: &[u8]) -> Outcome {
    state.current.format = match named_format(name) {
        Some(NamedFormat::Binary) => InputFormat::Binary,
        Some(NamedFormat::Elf(_)) => InputFormat::Elf,
        None => return Err(unknown_format(name)),
    };
    Ok(())
}

enum NamedFormat {
    Binary,
    Elf(Option<Machine>),
}

fn named_format(name: &[u8]) -> Option<NamedFormat> {
    match name {
        b"binary" => Some(NamedFormat::Binary),
        b"elf" | b"default" => Some(NamedFormat::Elf(None)),
        _ => {
            let target = TARGETS.iter().find(|(target, _)| target.as_bytes() == name);
            target.map(|&(_, machine)| NamedFormat::Elf(Some(machine)))
        }
    }
}

fn unknown_format(name: &[u8]) -> String {
    let mut known = vec!["elf", "binary", "default"];
    known.extend(TARGETS.iter().map(|&(name, _)| name));
    format!("unknown format '{}', expected {}", shown(name), list(&known))
}

fn add_remap(state: &mut State<'_>, text: &[u8]) -> Outcome {
    let (pattern, file) = pair(text, "PATTERN=FILE")?;
    push_remap(state, pattern, file);
    Ok(())
}

/// Reads a line of a remap file: two words with blanks or `=` between them. `#` starts a comment.
fn add_remap_line(state: &mut State<'_>, line: &[u8]) -> Outcome {
    let line = line.split(|&byte| byte == b'#').next().unwrap_or_default().trim_ascii();
    let separates = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'=';
    let end = line.iter().position(separates).unwrap_or(line.len());
    let start =
        line[end..].iter().position(|byte| !separates(byte)).map_or(line.len(), |skipped| end + skipped);
    let (pattern, file) = (&line[..end], &line[start..]);
    match (pattern, file) {
        ([], []) => {}
        ([_, ..], [_, ..]) if !file.iter().any(u8::is_ascii_whitespace) => push_remap(state, pattern, file),
        _ => return Err(format!("'{}' is not of the form PATTERN FILE or PATTERN=FILE", shown(line))),
    }
    Ok(())
}

/// Adds a replacement. As in GNU ld, the null device means that the input is left out.
fn push_remap(state: &mut State<'_>, pattern: &[u8], file: &[u8]) {
    let file = (file != b"/dev/null").then(|| path(file));
    state.config.search.remap.push((pattern.to_vec(), file));
}

fn thread_count(text: &[u8]) -> Result<std::num::NonZeroUsize, String> {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| format!("'{}' is not a number of threads", shown(text)))
}
