//! The words of `-z`: their table and their effects.

use super::config::{
    CallNop, Gcs, IsaLevels, Report, SFrameViolation, SeparateCode, TextRelocations, Visibility,
};
use super::state::State;
use super::table::refused::REFUSED_WORDS;
use super::values::{MEMORY_TAG_MODES, Outcome, REPORT_WORDS, nearest, number, page_size, pair, shown, word};
use diagnostics::{Code, Diagnostic};

/// The effect of a word. It also says whether `=value` follows.
#[derive(Clone, Copy)]
pub enum ZEffect {
    /// Takes nothing.
    Flag(fn(&mut State<'_>)),
    /// Takes `=value`.
    Value(fn(&mut State<'_>, &[u8]) -> Outcome),
}

/// A word of `-z`, with all its spellings.
pub struct ZSpec {
    /// The spellings, the best-known one first.
    pub names: &'static [&'static str],
    /// The name of the value in `--help`; empty if the word takes none.
    pub value_name: &'static str,
    /// One line for `--help`.
    pub help: &'static str,
    /// Its effect, with the form of its value.
    pub effect: ZEffect,
}

const fn flag(names: &'static [&'static str], help: &'static str, effect: fn(&mut State<'_>)) -> ZSpec {
    ZSpec { names, value_name: "", help, effect: ZEffect::Flag(effect) }
}

const fn value(
    names: &'static [&'static str],
    value_name: &'static str,
    help: &'static str,
    effect: fn(&mut State<'_>, &[u8]) -> Outcome,
) -> ZSpec {
    ZSpec { names, value_name, help, effect: ZEffect::Value(effect) }
}

/// Carries out `-z TEXT`. An unknown word is a warning, in the words of GNU ld, because configure scripts
/// look for them. A word of another linker that this linker refuses is an error.
///
/// # Errors
/// The word's value has the wrong form.
pub fn apply(state: &mut State<'_>, text: &[u8]) -> Outcome {
    let (name, given) = match text.iter().position(|&byte| byte == b'=') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let spec = WORDS.iter().find(|spec| spec.names.iter().any(|known| known.as_bytes() == name));
    match (spec.map(|spec| spec.effect), given) {
        (Some(ZEffect::Flag(effect)), None) => effect(state),
        (Some(ZEffect::Value(effect)), Some(given)) => {
            return effect(state, given).map_err(|wrong| format!("{}: {wrong}", shown(name)));
        }
        (Some(ZEffect::Value(_)), None) => return Err(format!("{}: expected =value", shown(name))),
        (Some(ZEffect::Flag(_)) | None, _) => report_unknown(state, text, name),
    }
    Ok(())
}

fn report_unknown(state: &State<'_>, text: &[u8], name: &[u8]) {
    let refused = REFUSED_WORDS.iter().find(|word| word.names.iter().any(|known| known.as_bytes() == name));
    if let Some(refused) = refused {
        let message = format!("unrecognized option '-z {}'", shown(text));
        state.report(Diagnostic::error(Code::BadOption, message).note(refused.why));
        return;
    }
    let mut warning = Diagnostic::warning(Code::UnknownZ, format!("-z {} ignored", shown(text)))
        .note("this linker does not know the word");
    let known = WORDS.iter().flat_map(|spec| spec.names).copied();
    if let Some(near) = nearest(&shown(name), known).filter(|near| near.as_bytes() != name) {
        warning = warning.help(format!("did you mean -z {near}?"));
    }
    state.report(warning);
}

/// All words, in the order of `--help`.
pub static WORDS: &[ZSpec] = &[
    flag(&["now"], "Resolve all functions when the program is loaded", |state| {
        state.config.dynamic.bind_now = true;
    }),
    flag(&["lazy"], "Resolve each function when it is first called (default)", |state| {
        state.config.dynamic.bind_now = false;
    }),
    flag(&["relro"], "Make data read-only after relocation, if nothing else changes it (default)", |state| {
        state.config.layout.relro = true;
    }),
    flag(&["norelro"], "Leave data writable that nothing changes after relocation", |state| {
        state.config.layout.relro = false
    }),
    flag(&["execstack"], "Make the stack executable", |state| {
        state.config.layout.executable_stack = Some(true);
    }),
    flag(&["noexecstack"], "Make the stack not executable", |state| {
        state.config.layout.executable_stack = Some(false);
    }),
    flag(
        &["execstack-if-needed"],
        "Make the stack executable if an input asks for that (default)",
        |state| {
            state.config.layout.executable_stack = None;
        },
    ),
    flag(&["nognustack"], "Write no PT_GNU_STACK", |state| state.config.layout.no_gnu_stack = true),
    value(&["stack-size"], "SIZE", "Write SIZE as the size of the stack into PT_GNU_STACK", |state, size| {
        state.config.layout.stack_size = Some(number(size)?);
        Ok(())
    }),
    flag(&["defs"], "Report undefined symbols also if the output is a shared library", |state| {
        state.pending.report_in_objects = Some(true);
    }),
    flag(&["undefs", "nodefs"], "Do not report undefined symbols of objects", |state| {
        state.pending.report_in_objects = Some(false);
    }),
    flag(&["muldefs"], "Use the first of several definitions of a symbol, without an error", |state| {
        state.config.symbols.allow_multiple_definition = true;
    }),
    flag(&["text"], "Report dynamic relocations in read-only sections as errors", |state| {
        state.config.relocations.text = TextRelocations::Error;
    }),
    flag(&["notext", "textoff"], "Allow dynamic relocations in read-only sections", |state| {
        state.config.relocations.text = TextRelocations::Allow;
    }),
    flag(&["textwarn"], "Warn about dynamic relocations in read-only sections (default)", |state| {
        state.config.relocations.text = TextRelocations::Warn;
    }),
    flag(&["combreloc"], "Sort dynamic relocations (default)", |state| {
        state.config.relocations.combine = true;
    }),
    flag(&["nocombreloc"], "Leave dynamic relocations in input order", |state| {
        state.config.relocations.combine = false;
    }),
    flag(&["copyreloc"], "Make copy relocations (default)", |state| {
        state.config.relocations.copy = true;
    }),
    flag(&["nocopyreloc"], "Make no copy relocations", |state| state.config.relocations.copy = false),
    flag(&["pack-relative-relocs"], "Pack relative relocations (DT_RELR)", |state| {
        state.pending.pack_relative = true;
    }),
    flag(&["nopack-relative-relocs"], "Do not pack relative relocations (default)", |state| {
        state.pending.pack_relative = false;
    }),
    flag(&["report-relative-reloc"], "Report relative relocations", |state| {
        state.config.relocations.report_relative = true;
    }),
    flag(&["noreloc-overflow"], "Do not report relocations that overflow", |state| {
        state.config.relocations.ignore_overflow = true;
    }),
    value(
        &["call-nop"],
        "PADDING",
        "Fill the byte that a relaxed call leaves free: prefix-addr, suffix-nop, prefix-BYTE or suffix-BYTE",
        call_nop,
    ),
    value(
        &["dead-reloc-in-nonalloc"],
        "PATTERN=VALUE",
        "Write VALUE where a section that matches PATTERN refers to a discarded section",
        |state, text| {
            let (pattern, value) = pair(text, "PATTERN=VALUE")?;
            state.config.strip.dead_relocations.push((pattern.to_vec(), number(value)?));
            Ok(())
        },
    ),
    flag(
        &["noextern-protected-data"],
        "Never copy protected data of libraries into executables (default)",
        |_| {},
    ),
    flag(
        &["indirect-extern-access"],
        "Reach external symbols only through the GOT, and mark the output as doing so",
        |state| {
            state.config.relocations.indirect_extern_access = Some(true);
        },
    ),
    flag(
        &["noindirect-extern-access"],
        "Reach external symbols directly, too, and do not mark the output, whatever objects say",
        |state| {
            state.config.relocations.indirect_extern_access = Some(false);
        },
    ),
    value(
        &["max-page-size"],
        "SIZE",
        "Make an output that runs with pages of up to SIZE bytes",
        |state, size| {
            state.config.layout.max_page_size = Some(page_size(size)?);
            Ok(())
        },
    ),
    value(&["common-page-size"], "SIZE", "Lay the output out for pages of SIZE bytes", |state, size| {
        state.config.layout.common_page_size = Some(page_size(size)?);
        Ok(())
    }),
    flag(&["separate-code"], "Keep code on pages of its own", |state| {
        state.config.layout.separate_code = Some(SeparateCode::Code);
    }),
    flag(&["noseparate-code"], "Let code and data share pages of the file", |state| {
        state.config.layout.separate_code = Some(SeparateCode::No);
    }),
    flag(&["separate-loadable-segments"], "Keep every loaded segment on pages of its own", |state| {
        state.config.layout.separate_code = Some(SeparateCode::AllSegments);
    }),
    flag(&["sectionheader"], "Write section headers (default)", |state| {
        state.config.layout.no_section_headers = false;
    }),
    flag(&["nosectionheader"], "Write no section headers", |state| {
        state.config.layout.no_section_headers = true;
    }),
    flag(&["lrodata-after-bss"], "Put large read-only data behind .bss (default)", |state| {
        state.config.layout.large_constants_first = false;
    }),
    flag(&["nolrodata-after-bss"], "Put large read-only data before the code", |state| {
        state.config.layout.large_constants_first = true;
    }),
    flag(&["keep-text-section-prefix"], "Make output sections of .text.hot and the like", |state| {
        state.config.layout.text_parts = true;
    }),
    flag(&["nokeep-text-section-prefix"], "Put .text.hot and the like into .text (default)", |state| {
        state.config.layout.text_parts = false;
    }),
    flag(
        &["start-stop-gc"],
        "Collect sections NAME even if something refers to __start_NAME or __stop_NAME (with --gc-sections)",
        |state| {
            state.config.gc.start_stop = true;
        },
    ),
    flag(
        &["nostart-stop-gc"],
        "Keep sections NAME if something refers to __start_NAME or __stop_NAME (default)",
        |state| state.config.gc.start_stop = false,
    ),
    value(
        &["start-stop-visibility"],
        "VISIBILITY",
        "Set the visibility of __start_NAME and __stop_NAME: default, internal, hidden or protected",
        |state, name| {
            let words = [
                ("default", Visibility::Default),
                ("internal", Visibility::Internal),
                ("hidden", Visibility::Hidden),
                ("protected", Visibility::Protected),
            ];
            state.config.symbols.start_stop_visibility = word(name, &words)?;
            Ok(())
        },
    ),
    flag(
        &["unique-symbol"],
        "Give local symbols of one name distinct names, by numbers at their ends",
        |state| {
            state.config.symbols.unique_locals = true;
        },
    ),
    flag(&["nounique-symbol"], "Leave the names of local symbols as they are (default)", |state| {
        state.config.symbols.unique_locals = false;
    }),
    flag(
        &["unique"],
        "Mark the output as one of which all name spaces of a program share one copy",
        |state| {
            state.config.dynamic.unique = true;
        },
    ),
    flag(&["nounique"], "Do not mark the output as one that all name spaces share (default)", |state| {
        state.config.dynamic.unique = false;
    }),
    value(
        &["memtag-mode"],
        "MODE",
        "Ask for memory tagging (AArch64), also of marked global variables, with faults at the access (sync) or \
         later (async), or for none",
        |state, mode| {
            state.config.notes.memory_tags.mode = word(mode, MEMORY_TAG_MODES)?;
            Ok(())
        },
    ),
    flag(&["memtag-heap"], "With memtag-mode: let the heap be tagged", |state| {
        state.config.notes.memory_tags.heap = true;
    }),
    flag(&["memtag-stack"], "With memtag-mode: let stacks lie in memory that can be tagged", |state| {
        state.config.notes.memory_tags.stack = true;
    }),
    flag(
        &["rewrite-endbr"],
        "Take the endbr64 from functions that are only called by name (x86-64)",
        |state| state.config.relocations.rewrite_landing_pads = true,
    ),
    flag(&["norewrite-endbr"], "Let every function keep its endbr64 (default)", |state| {
        state.config.relocations.rewrite_landing_pads = false;
    }),
    flag(&["common"], "Give common blocks of relocatable output the type STT_COMMON", |state| {
        state.config.symbols.common_type = Some(true);
    }),
    flag(&["nocommon"], "Give common blocks of relocatable output the type STT_OBJECT", |state| {
        state.config.symbols.common_type = Some(false);
    }),
    flag(&["dynamic-undefined-weak"], "Leave undefined weak symbols to the dynamic linker", |state| {
        state.config.undefined.dynamic_undefined_weak = Some(true);
    }),
    flag(&["nodynamic-undefined-weak"], "Resolve undefined weak symbols to zero", |state| {
        state.config.undefined.dynamic_undefined_weak = Some(false);
    }),
    flag(&["origin"], "Mark the output as one that uses $ORIGIN", |state| state.config.dynamic.origin = true),
    flag(&["nodelete"], "Mark the library as one that is never unloaded", |state| {
        state.config.dynamic.nodelete = true
    }),
    flag(&["nodlopen"], "Mark the library as one that dlopen refuses", |state| {
        state.config.dynamic.nodlopen = true
    }),
    flag(&["nodump"], "Mark the output as one that dldump refuses", |state| {
        state.config.dynamic.nodump = true
    }),
    flag(
        &["nodefaultlib", "nodefaultlibs"],
        "Mark the output as one whose libraries are not searched for in the default directories",
        |state| {
            state.config.dynamic.nodefaultlib = true;
        },
    ),
    flag(&["initfirst"], "Mark the library as one that is initialized before all others", |state| {
        state.config.dynamic.initfirst = true
    }),
    flag(
        &["interpose"],
        "Mark the library as one whose symbols come before those of other libraries",
        |state| {
            state.config.dynamic.interpose = true;
        },
    ),
    flag(
        &["global"],
        "Mark the library as one whose symbols are visible to libraries loaded later",
        |state| {
            state.config.dynamic.global = true;
        },
    ),
    flag(&["globalaudit"], "Mark the program as one that requires global auditing", |state| {
        state.config.dynamic.globalaudit = true;
    }),
    flag(&["loadfltr"], "Mark the library as one whose filtered libraries are loaded at once", |state| {
        state.config.dynamic.loadfltr = true;
    }),
    flag(&["rodynamic"], "Make .dynamic read-only", |state| {
        state.config.dynamic.read_only_dynamic = true;
    }),
    flag(&["mark-plt"], "Describe the PLT with dynamic tags", |state| state.config.dynamic.mark_plt = true),
    flag(&["nomark-plt"], "Do not describe the PLT with dynamic tags (default)", |state| {
        state.config.dynamic.mark_plt = false
    }),
    flag(
        &["ibt", "force-ibt"],
        "Mark the output for indirect branch tracking (IBT), and make PLTs for it",
        |state| {
            state.config.properties.ibt = true;
            state.config.properties.ibt_plt = true;
        },
    ),
    flag(&["ibtplt"], "Make PLTs for indirect branch tracking (IBT)", |state| {
        state.config.properties.ibt_plt = true;
    }),
    flag(&["shstk"], "Mark the output for shadow stacks (SHSTK)", |state| {
        state.config.properties.shstk = true
    }),
    value(
        &["cet-report"],
        "HOW",
        "Report objects without IBT or SHSTK: none, warning or error",
        |state, how| {
            state.config.properties.cet_report = word(how, REPORT_WORDS)?;
            Ok(())
        },
    ),
    flag(&["lam-u48"], "Mark the output for linear address masking (LAM) of 48 and of 57 bits", |state| {
        state.config.properties.lam_u48 = true;
        state.config.properties.lam_u57 = true;
    }),
    flag(&["lam-u57"], "Mark the output for linear address masking (LAM) of 57 bits", |state| {
        state.config.properties.lam_u57 = true;
    }),
    value(
        &["lam-u48-report"],
        "HOW",
        "Report objects without LAM of 48 bits: none, warning or error",
        |state, how| {
            state.config.properties.lam_u48_report = word(how, REPORT_WORDS)?;
            Ok(())
        },
    ),
    value(
        &["lam-u57-report"],
        "HOW",
        "Report objects without LAM of 57 bits: none, warning or error",
        |state, how| {
            state.config.properties.lam_u57_report = word(how, REPORT_WORDS)?;
            Ok(())
        },
    ),
    value(&["lam-report"], "HOW", "Report objects without LAM: none, warning or error", |state, how| {
        let report = word(how, REPORT_WORDS)?;
        state.config.properties.lam_u48_report = report;
        state.config.properties.lam_u57_report = report;
        Ok(())
    }),
    flag(&["x86-64-baseline"], "Mark the output as one that needs the x86-64 baseline", |state| {
        state.config.properties.x86_64_level = Some(1);
    }),
    flag(&["x86-64-v2"], "Mark the output as one that needs x86-64-v2", |state| {
        state.config.properties.x86_64_level = Some(2)
    }),
    flag(&["x86-64-v3"], "Mark the output as one that needs x86-64-v3", |state| {
        state.config.properties.x86_64_level = Some(3)
    }),
    flag(&["x86-64-v4"], "Mark the output as one that needs x86-64-v4", |state| {
        state.config.properties.x86_64_level = Some(4)
    }),
    value(
        &["isa-level-report"],
        "WHICH",
        "Print the ISA levels (x86-64) that objects need, use, all of them, or none (default)",
        |state, which| {
            let words = [
                ("none", (false, false)),
                ("all", (true, true)),
                ("needed", (true, false)),
                ("used", (false, true)),
            ];
            let (needed, used) = word(which, &words)?;
            state.config.properties.isa_levels = IsaLevels { needed, used };
            Ok(())
        },
    ),
    flag(
        &["force-bti"],
        "Mark the output for branch target identification (BTI), and make PLTs for it",
        |state| {
            state.config.properties.force_bti = true;
            if state.config.properties.bti_report == Report::Ignore {
                state.config.properties.bti_report = Report::Warning;
            }
        },
    ),
    value(&["bti-report"], "HOW", "Report objects without BTI: none, warning or error", |state, how| {
        state.config.properties.bti_report = word(how, REPORT_WORDS)?;
        Ok(())
    }),
    value(
        &["execute-only-report"],
        "HOW",
        "Report code that is not marked as holding no data (AArch64): none, warning or error",
        |state, how| {
            state.config.layout.execute_only_report = word(how, REPORT_WORDS)?;
            Ok(())
        },
    ),
    flag(&["pac-plt"], "Make PLTs that authenticate pointers (PAC)", |state| {
        state.config.properties.pac_plt = true
    }),
    value(
        &["gcs"],
        "WHEN",
        "Mark the output for guarded control stacks (GCS): implicit (if all inputs are), never or always",
        |state, when| {
            let words = [("implicit", Gcs::Implicit), ("never", Gcs::Never), ("always", Gcs::Always)];
            state.config.properties.gcs = word(when, &words)?;
            Ok(())
        },
    ),
    value(&["gcs-report"], "HOW", "Report objects without GCS: none, warning or error", |state, how| {
        state.config.properties.gcs_report = Some(word(how, REPORT_WORDS)?);
        Ok(())
    }),
    value(
        &["gcs-report-dynamic"],
        "HOW",
        "Report shared libraries without GCS, if the output has it: none, warning or error",
        |state, how| {
            state.config.properties.gcs_report_dynamic = Some(word(how, REPORT_WORDS)?);
            Ok(())
        },
    ),
    value(
        &["pauth-report"],
        "HOW",
        "Report objects that do not name the ABI of their signed pointers, if others do: none, warning or error",
        |state, how| {
            state.config.properties.pauth_report = word(how, REPORT_WORDS)?;
            Ok(())
        },
    ),
    flag(&["memory-seal"], "Mark the output as one whose mappings are sealed", |state| {
        state.config.properties.memory_seal = true;
    }),
    flag(&["nomemory-seal"], "Do not mark the output as one whose mappings are sealed (default)", |state| {
        state.config.properties.memory_seal = false;
    }),
    value(
        &["sframe-violation"],
        "HOW",
        "Report a reference from .sframe to a discarded section as error or warning",
        |state, how| {
            let words = [("error", SFrameViolation::Error), ("warning", SFrameViolation::Warning)];
            state.config.sframe.violation = word(how, &words)?;
            Ok(())
        },
    ),
    flag(&["sframe-alloc"], "Load SFrame with the program (default)", |state| {
        state.config.sframe.alloc = true;
    }),
    flag(&["nosframe-alloc"], "Do not load SFrame with the program", |state| {
        state.config.sframe.alloc = false
    }),
];

fn call_nop(state: &mut State<'_>, padding: &[u8]) -> Outcome {
    let wrong = || {
        let expected = "prefix-addr, suffix-nop, prefix-BYTE or suffix-BYTE";
        format!("unknown padding '{}', expected {expected}", shown(padding))
    };
    let (after, byte) = match padding {
        b"prefix-addr" => (false, 0x67),
        b"prefix-nop" => (false, 0x90),
        b"suffix-nop" => (true, 0x90),
        _ => {
            let (after, digits) = match (padding.strip_prefix(b"prefix-"), padding.strip_prefix(b"suffix-")) {
                (Some(digits), _) => (false, digits),
                (_, Some(digits)) => (true, digits),
                _ => return Err(wrong()),
            };
            let byte = number(digits).ok().and_then(|byte| u8::try_from(byte).ok());
            (after, byte.ok_or_else(wrong)?)
        }
    };
    state.config.relocations.call_nop = CallNop { byte, after };
    Ok(())
}
