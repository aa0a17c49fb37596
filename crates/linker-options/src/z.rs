//! The words of `-z`: their table and their effects.

use super::config::{CallNop, Gcs, Report, SFrameViolation, SeparateCode, TextRelocations, Visibility};
use super::state::State;
use super::table::refused::REFUSED_WORDS;
use super::values::{Outcome, REPORT_WORDS, nearest, number, page_size, pair, shown, word};
use diagnostics::{Code, Diagnostic};

/// The effect of a word, which also says whether `=value` follows.
#[derive(Clone, Copy)]
pub enum ZEffect {
    /// Takes nothing.
    Flag(fn(&mut State<'_>)),
    /// Takes `=value`.
    Value(fn(&mut State<'_>, &[u8]) -> Outcome),
}

/// One word, with all its spellings.
pub struct ZSpec {
    /// The spellings, the known one first.
    pub names: &'static [&'static str],
    /// Name of the value in `--help`; empty where there is none.
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

/// Carries out `-z TEXT`. An unknown word is a warning in GNU ld's words, which configure scripts
/// look for; a word of another linker that this one does not carry out is an error.
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
        .note("the word is not known");
    let known = WORDS.iter().flat_map(|spec| spec.names).copied();
    if let Some(near) = nearest(&shown(name), known).filter(|near| near.as_bytes() != name) {
        warning = warning.help(format!("did you mean -z {near}?"));
    }
    state.report(warning);
}

/// All words, in the order of `--help`.
pub static WORDS: &[ZSpec] = &[
    flag(&["now"], "Resolve functions when the program is loaded", |state| {
        state.config.dynamic.bind_now = true;
    }),
    flag(&["lazy"], "Resolve functions when they are called first (default)", |state| {
        state.config.dynamic.bind_now = false;
    }),
    flag(&["relro"], "Make read-only what need not change after relocation (default)", |state| {
        state.config.layout.relro = true;
    }),
    flag(&["norelro"], "Do not", |state| state.config.layout.relro = false),
    flag(&["execstack"], "The stack is executable", |state| {
        state.config.layout.executable_stack = Some(true);
    }),
    flag(&["noexecstack"], "The stack is not executable", |state| {
        state.config.layout.executable_stack = Some(false);
    }),
    flag(&["execstack-if-needed"], "The stack is executable if an input asks for it (default)", |state| {
        state.config.layout.executable_stack = None;
    }),
    flag(&["nognustack"], "Make no PT_GNU_STACK", |state| state.config.layout.no_gnu_stack = true),
    value(&["stack-size"], "SIZE", "Size of the stack in PT_GNU_STACK", |state, size| {
        state.config.layout.stack_size = Some(number(size)?);
        Ok(())
    }),
    flag(&["defs"], "Report undefined symbols in shared libraries too", |state| {
        state.pending.report_in_objects = Some(true);
    }),
    flag(&["undefs", "nodefs"], "Do not report undefined symbols of objects", |state| {
        state.pending.report_in_objects = Some(false);
    }),
    flag(&["muldefs"], "Take the first of several definitions", |state| {
        state.config.symbols.allow_multiple_definition = true;
    }),
    flag(&["text"], "Dynamic relocations in read-only sections are errors", |state| {
        state.config.relocations.text = TextRelocations::Error;
    }),
    flag(&["notext", "textoff"], "Dynamic relocations in read-only sections are allowed", |state| {
        state.config.relocations.text = TextRelocations::Allow;
    }),
    flag(&["textwarn"], "Dynamic relocations in read-only sections are warnings (default)", |state| {
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
    flag(&["nopack-relative-relocs"], "Do not (default)", |state| {
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
        "Padding of relaxed calls: prefix-addr, suffix-nop, prefix-BYTE, suffix-BYTE",
        call_nop,
    ),
    value(
        &["dead-reloc-in-nonalloc"],
        "PATTERN=VALUE",
        "Value of references to discarded sections from sections that match",
        |state, text| {
            let (pattern, value) = pair(text, "PATTERN=VALUE")?;
            state.config.strip.dead_relocations.push((pattern.to_vec(), number(value)?));
            Ok(())
        },
    ),
    flag(&["noextern-protected-data"], "Protected data may not be copied (default)", |_| {}),
    flag(&["indirect-extern-access"], "Reach external symbols through the GOT only, and mark so", |state| {
        state.config.relocations.indirect_extern_access = true;
    }),
    flag(&["noindirect-extern-access"], "Reach external symbols directly too (default)", |state| {
        state.config.relocations.indirect_extern_access = false;
    }),
    value(&["max-page-size"], "SIZE", "Largest page size that the output runs with", |state, size| {
        state.config.layout.max_page_size = Some(page_size(size)?);
        Ok(())
    }),
    value(&["common-page-size"], "SIZE", "Page size that the layout is made for", |state, size| {
        state.config.layout.common_page_size = Some(page_size(size)?);
        Ok(())
    }),
    flag(&["separate-code"], "Keep code on pages of its own", |state| {
        state.config.layout.separate_code = Some(SeparateCode::Code);
    }),
    flag(&["noseparate-code"], "Let code and data share file pages", |state| {
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
    flag(&["lrodata-after-bss"], "Put large read-only data behind .bss (always so)", |_| {}),
    flag(&["keep-text-section-prefix"], "Make .text.hot and its kin output sections", |state| {
        state.config.layout.text_parts = true;
    }),
    flag(&["nokeep-text-section-prefix"], "Put .text.hot and its kin into .text (default)", |state| {
        state.config.layout.text_parts = false;
    }),
    flag(&["start-stop-gc"], "__start_NAME does not keep the sections NAME alive", |state| {
        state.config.gc.start_stop = true;
    }),
    flag(&["nostart-stop-gc"], "It does (default)", |state| state.config.gc.start_stop = false),
    value(
        &["start-stop-visibility"],
        "VISIBILITY",
        "Visibility of __start_NAME: default, internal, hidden or protected",
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
    flag(&["unique-symbol"], "Give local symbols distinct names, by a number behind each", |state| {
        state.config.symbols.unique_locals = true;
    }),
    flag(&["nounique-symbol"], "Local symbols keep their names (default)", |state| {
        state.config.symbols.unique_locals = false;
    }),
    flag(&["nounique", "norewrite-endbr"], "It is always so", |_| {}),
    flag(&["common"], "Common blocks of relocatable output have the type STT_COMMON", |state| {
        state.config.symbols.common_type = Some(true);
    }),
    flag(&["nocommon"], "Common blocks of relocatable output have the type STT_OBJECT", |state| {
        state.config.symbols.common_type = Some(false);
    }),
    flag(&["dynamic-undefined-weak"], "Leave undefined weak symbols to the dynamic linker", |state| {
        state.config.undefined.dynamic_undefined_weak = Some(true);
    }),
    flag(&["nodynamic-undefined-weak"], "Resolve undefined weak symbols to zero", |state| {
        state.config.undefined.dynamic_undefined_weak = Some(false);
    }),
    flag(&["origin"], "Mark: $ORIGIN is used", |state| state.config.dynamic.origin = true),
    flag(&["nodelete"], "Mark: not unloadable", |state| state.config.dynamic.nodelete = true),
    flag(&["nodlopen"], "Mark: not for dlopen", |state| state.config.dynamic.nodlopen = true),
    flag(&["nodump"], "Mark: not for dldump", |state| state.config.dynamic.nodump = true),
    flag(&["nodefaultlib", "nodefaultlibs"], "Mark: default directories are not searched", |state| {
        state.config.dynamic.nodefaultlib = true;
    }),
    flag(&["initfirst"], "Mark: initialized first", |state| state.config.dynamic.initfirst = true),
    flag(&["interpose"], "Mark: comes before other libraries", |state| {
        state.config.dynamic.interpose = true;
    }),
    flag(&["global"], "Mark: visible to libraries loaded later", |state| {
        state.config.dynamic.global = true;
    }),
    flag(&["globalaudit"], "Mark: global auditing is required", |state| {
        state.config.dynamic.globalaudit = true;
    }),
    flag(&["loadfltr"], "Mark: filtered libraries are loaded at once", |state| {
        state.config.dynamic.loadfltr = true;
    }),
    flag(&["rodynamic"], "Make .dynamic read-only", |state| {
        state.config.dynamic.read_only_dynamic = true;
    }),
    flag(&["mark-plt"], "Mark the PLT with dynamic tags", |state| state.config.dynamic.mark_plt = true),
    flag(&["nomark-plt"], "Do not (default)", |state| state.config.dynamic.mark_plt = false),
    flag(&["ibt", "force-ibt"], "Mark: indirect branch tracking, and make such PLTs", |state| {
        state.config.properties.ibt = true;
        state.config.properties.ibt_plt = true;
    }),
    flag(&["ibtplt"], "Make PLTs for indirect branch tracking", |state| {
        state.config.properties.ibt_plt = true;
    }),
    flag(&["shstk"], "Mark: shadow stack", |state| state.config.properties.shstk = true),
    value(
        &["cet-report"],
        "HOW",
        "Report objects without IBT or SHSTK: none, warning or error",
        |state, how| {
            state.config.properties.cet_report = word(how, REPORT_WORDS)?;
            Ok(())
        },
    ),
    flag(&["x86-64-baseline"], "Mark: needs the x86-64 baseline", |state| {
        state.config.properties.x86_64_level = Some(1);
    }),
    flag(&["x86-64-v2"], "Mark: needs x86-64-v2", |state| state.config.properties.x86_64_level = Some(2)),
    flag(&["x86-64-v3"], "Mark: needs x86-64-v3", |state| state.config.properties.x86_64_level = Some(3)),
    flag(&["x86-64-v4"], "Mark: needs x86-64-v4", |state| state.config.properties.x86_64_level = Some(4)),
    value(
        &["isa-level-report"],
        "WHICH",
        "Only none: ISA levels of inputs are merged and not reported; readelf -n shows them",
        |_, which| {
            word(which, &[("none", ())])
                .map_err(|wrong| format!("{wrong}: levels of inputs are not reported"))
        },
    ),
    flag(&["force-bti"], "Mark: branch targets, and make such PLTs", |state| {
        state.config.properties.force_bti = true;
        if state.config.properties.bti_report == Report::Ignore {
            state.config.properties.bti_report = Report::Warning;
        }
    }),
    value(&["bti-report"], "HOW", "Report objects without BTI: none, warning or error", |state, how| {
        state.config.properties.bti_report = word(how, REPORT_WORDS)?;
        Ok(())
    }),
    flag(&["pac-plt"], "Make PLTs that authenticate", |state| state.config.properties.pac_plt = true),
    value(&["gcs"], "WHEN", "Mark guarded control stack: implicit, never or always", |state, when| {
        let words = [("implicit", Gcs::Implicit), ("never", Gcs::Never), ("always", Gcs::Always)];
        state.config.properties.gcs = word(when, &words)?;
        Ok(())
    }),
    value(&["gcs-report"], "HOW", "Report objects without GCS: none, warning or error", |state, how| {
        state.config.properties.gcs_report = word(how, REPORT_WORDS)?;
        Ok(())
    }),
    value(
        &["gcs-report-dynamic"],
        "HOW",
        "Report libraries without GCS: none, warning or error",
        |state, how| {
            state.config.properties.gcs_report_dynamic = word(how, REPORT_WORDS)?;
            Ok(())
        },
    ),
    flag(&["memory-seal"], "Mark: mappings are sealed", |state| {
        state.config.properties.memory_seal = true;
    }),
    flag(&["nomemory-seal"], "Do not (default)", |state| {
        state.config.properties.memory_seal = false;
    }),
    value(
        &["sframe-violation"],
        "HOW",
        "What a reference from .sframe to a discarded section is: error or warning",
        |state, how| {
            let words = [("error", SFrameViolation::Error), ("warning", SFrameViolation::Warning)];
            state.config.sframe.violation = word(how, &words)?;
            Ok(())
        },
    ),
    flag(&["sframe-alloc"], "Load SFrame with the program (default)", |state| {
        state.config.sframe.alloc = true;
    }),
    flag(&["nosframe-alloc"], "Keep SFrame out of memory", |state| state.config.sframe.alloc = false),
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
