//! Call frame information that every version can express.

use super::super::blob::{entry_offset, rules};
use super::super::case::{Case, Source};
use super::super::linked::sound;
use super::source::{Must, Place, Text, assemble, describes, rows};
use sframe_format::write::Function;
use sframe_format::{Abi, CfaRule, Frame, RegisterRule, Rules};

const ROWS: Source = Source::Sframe("Frame Row Entries: CFA, FP and RA for each range of a function");
const CFI: Source = Source::Psabi("DWARF 5, 6.4.2: call frame instructions");

/// The directives by which a frame saves return address and frame pointer where [`rules`] says.
pub fn saves(abi: Abi) -> String {
    match abi {
        Abi::Amd64 => ".cfi_offset 6, -16".into(),
        Abi::S390x => ".cfi_offset 14, -48; .cfi_offset 11, -72".into(),
        _ => ".cfi_offset 30, -8; .cfi_offset 29, -16".into(),
    }
}

/// The directives that undo it.
fn restores(abi: Abi) -> String {
    match abi {
        Abi::Amd64 => ".cfi_restore 6".into(),
        Abi::S390x => ".cfi_restore 14; .cfi_restore 11".into(),
        _ => ".cfi_restore 30; .cfi_restore 29".into(),
    }
}

/// One function, and its rows.
fn one(place: Place, name: &str, about: &str, text: &Text, wanted: Function) -> Case {
    assemble(place, &format!("cfi/{name}"), about, &text.write(place, ".text"))
        .facts(describes(place, "f", wanted, Must::Describe, ROWS))
        .facts([sound()])
}

pub fn cases(place: Place) -> Vec<Case> {
    let mut cases = frames(place);
    cases.extend(states(place));
    cases.extend(sizes(place));
    cases.extend(ignored(place));
    cases.extend(only_one(place));
    cases
}

/// Frames by the stack pointer and by the frame pointer.
fn frames(place: Place) -> Vec<Case> {
    let abi = place.abi;
    let (sp, fp, entry) = (abi.stack_pointer(), abi.frame_pointer(), entry_offset(abi));
    let deep = entry + 16;
    let save = saves(abi);
    let plain = (0, rules(abi, sp, entry, false));
    let pushed = (4, rules(abi, sp, deep, true));
    vec![
        one(place, "leaf", "no directives", &Text::of("f").step("").step(""), rows(&[plain])),
        one(
            place,
            "push",
            ".cfi_def_cfa_offset and .cfi_offset",
            &Text::of("f").step("").step(format!(".cfi_def_cfa_offset {deep}; {save}")),
            rows(&[plain, pushed]),
        ),
        one(
            place,
            "frame-pointer",
            ".cfi_def_cfa_register",
            &Text::of("f")
                .step("")
                .step(format!(".cfi_def_cfa_offset {deep}; {save}"))
                .step(format!(".cfi_def_cfa_register {fp}"))
                .step(format!(".cfi_def_cfa {sp}, {entry}; {}", restores(abi))),
            rows(&[plain, pushed, (8, rules(abi, fp, deep, true)), (12, rules(abi, sp, entry, false))]),
        ),
        one(
            place,
            "adjust",
            ".cfi_adjust_cfa_offset, up and down",
            &Text::of("f").step("").step(".cfi_adjust_cfa_offset 32").step(".cfi_adjust_cfa_offset -32"),
            rows(&[plain, (4, rules(abi, sp, entry + 32, false)), (8, rules(abi, sp, entry, false))]),
        ),
        one(
            place,
            "at-entry",
            "directives before the first instruction",
            &Text::of("f").step(format!(".cfi_def_cfa_offset {deep}; {save}")),
            rows(&[(0, rules(abi, sp, deep, true))]),
        ),
        one(
            place,
            "at-end",
            "directives behind the last instruction",
            &Text::of("f").step("").step_of(format!(".cfi_def_cfa_offset {deep}"), 0),
            rows(&[plain]),
        ),
        one(
            place,
            "several-at-once",
            "several directives that change one value at one address: the last holds",
            &Text::of("f")
                .step("")
                .step(format!(".cfi_def_cfa_offset {}; .cfi_def_cfa_offset {deep}; {save}", entry + 64)),
            rows(&[plain, pushed]),
        ),
        one(
            place,
            "rel-offset",
            ".cfi_rel_offset",
            &Text::of("f").step("").step(match abi {
                Abi::Amd64 => format!(".cfi_def_cfa_offset {deep}; .cfi_rel_offset 6, {}", deep - 16),
                Abi::S390x => format!(
                    ".cfi_def_cfa_offset {deep}; .cfi_rel_offset 14, {}; .cfi_rel_offset 11, {}",
                    deep - 48,
                    deep - 72
                ),
                _ => format!(
                    ".cfi_def_cfa_offset {deep}; .cfi_rel_offset 30, {}; .cfi_rel_offset 29, 0",
                    deep - 8
                ),
            }),
            rows(&[plain, pushed]),
        ),
    ]
}

/// Directives that bring back what was.
fn states(place: Place) -> Vec<Case> {
    let abi = place.abi;
    let (sp, entry) = (abi.stack_pointer(), entry_offset(abi));
    let (deep, deeper) = (entry + 16, entry + 32);
    let save = saves(abi);
    let push = format!(".cfi_def_cfa_offset {deep}; {save}");
    let plain = (0, rules(abi, sp, entry, false));
    let pop = format!(".cfi_def_cfa {sp}, {entry}; {}", restores(abi));
    vec![
        one(
            place,
            "restore",
            ".cfi_restore",
            &Text::of("f").step("").step(&*push).step(&*pop),
            rows(&[plain, (4, rules(abi, sp, deep, true)), (8, rules(abi, sp, entry, false))]),
        ),
        one(
            place,
            "remember",
            ".cfi_remember_state and .cfi_restore_state, as around an early return",
            &Text::of("f")
                .step("")
                .step(&*push)
                .step(format!(".cfi_remember_state; {pop}"))
                .step(".cfi_restore_state"),
            rows(&[
                plain,
                (4, rules(abi, sp, deep, true)),
                (8, rules(abi, sp, entry, false)),
                (12, rules(abi, sp, deep, true)),
            ]),
        ),
        one(
            place,
            "remember-nested",
            "states that are remembered inside one another",
            &Text::of("f")
                .step("")
                .step(format!("{push}; .cfi_remember_state"))
                .step(format!(".cfi_def_cfa_offset {deeper}; .cfi_remember_state"))
                .step(&*pop)
                .step(".cfi_restore_state")
                .step(".cfi_restore_state"),
            rows(&[
                plain,
                (4, rules(abi, sp, deep, true)),
                (8, rules(abi, sp, deeper, true)),
                (12, rules(abi, sp, entry, false)),
                (16, rules(abi, sp, deeper, true)),
                (20, rules(abi, sp, deep, true)),
            ]),
        ),
        one(
            place,
            "remember-twice",
            "one state that is brought back twice",
            &Text::of("f")
                .step("")
                .step(&*push)
                .step(format!(".cfi_remember_state; {pop}"))
                .step(".cfi_restore_state; .cfi_remember_state")
                .step(&*pop)
                .step(".cfi_restore_state"),
            rows(&[
                plain,
                (4, rules(abi, sp, deep, true)),
                (8, rules(abi, sp, entry, false)),
                (12, rules(abi, sp, deep, true)),
                (16, rules(abi, sp, entry, false)),
                (20, rules(abi, sp, deep, true)),
            ]),
        ),
        one(
            place,
            "same-value",
            ".cfi_same_value for what was saved",
            &Text::of("f").step("").step(&*push).step(match abi {
                Abi::Amd64 => ".cfi_same_value 6",
                Abi::S390x => ".cfi_same_value 14; .cfi_same_value 11",
                _ => ".cfi_same_value 30; .cfi_same_value 29",
            }),
            rows(&[plain, (4, rules(abi, sp, deep, true)), (8, rules(abi, sp, deep, false))]),
        ),
    ]
}

/// Sizes of functions and frames that need wider fields.
fn sizes(place: Place) -> Vec<Case> {
    let abi = place.abi;
    let (sp, entry) = (abi.stack_pointer(), entry_offset(abi));
    let long = |name: &str, about: &str, size: u32| {
        let push = format!(".cfi_def_cfa_offset {}", entry + 16);
        let wanted = rows(&[(0, rules(abi, sp, entry, false)), (size, rules(abi, sp, entry + 16, false))]);
        one(place, name, about, &Text::of("f").step_of("", size).step(push), wanted)
    };
    let frame = |name: &str, about: &str, size: i64| {
        let push = format!(".cfi_def_cfa_offset {}", entry + size);
        let wanted = rows(&[(0, rules(abi, sp, entry, false)), (4, rules(abi, sp, entry + size, false))]);
        one(place, name, about, &Text::of("f").step("").step(push), wanted)
    };
    vec![
        long("function-of-252-bytes", "a row at the 248th byte", 248),
        long("function-of-256-bytes", "a row at the 252nd byte: the function has 256", 252),
        long("function-of-64-kib", "a row at the 65532nd byte", 65_532),
        long("function-of-70000-bytes", "a row at the 70000th byte", 70_000),
        frame("frame-of-112-bytes", "an offset that fits one byte", 112),
        frame("frame-of-128-bytes", "an offset that does not fit one byte", 128),
        frame("frame-of-4-kib", "an offset of two bytes", 4096),
        frame("frame-of-64-kib", "an offset that does not fit two bytes on most machines", 65_536),
        frame("frame-of-100000-bytes", "an offset of four bytes", 100_000),
    ]
}

/// Directives about what rows do not track.
fn ignored(place: Place) -> Vec<Case> {
    let abi = place.abi;
    let (sp, entry) = (abi.stack_pointer(), entry_offset(abi));
    let plain = (0, rules(abi, sp, entry, false));
    let (saved, personality) = match abi {
        Abi::Amd64 => (".cfi_offset 3, -24; .cfi_offset 12, -32", "0x1b"),
        Abi::S390x => (".cfi_offset 6, -112; .cfi_offset 7, -104", "0x1b"),
        _ => (".cfi_offset 19, -24; .cfi_offset 20, -32", "0x1b"),
    };
    let handlers = format!(".cfi_personality {personality}, handler; .cfi_lsda {personality}, table");
    let deep = entry + 48;
    let table = "\t.section .gcc_except_table,\"a\"\ntable:\t.byte 0\n";
    let with_handlers = Text::of("f").step(&*handlers).step(format!(".cfi_def_cfa_offset {deep}"));
    let body = with_handlers.write(place, ".text") + table;
    vec![
        one(
            place,
            "other-registers",
            "registers that only exceptions need",
            &Text::of("f").step("").step(format!(".cfi_def_cfa_offset {deep}; {saved}")),
            rows(&[plain, (4, rules(abi, sp, deep, false))]),
        ),
        assemble(place, "cfi/handlers", "a personality routine and a table of handlers", &body)
            .facts(describes(
                place,
                "f",
                rows(&[plain, (4, rules(abi, sp, deep, false))]),
                Must::Describe,
                ROWS,
            ))
            .facts([sound()]),
        one(
            place,
            "simple",
            ".cfi_startproc simple, with all rules given",
            &Text::of("f").starting("simple").step(format!(
                ".cfi_def_cfa {sp}, {entry}{}",
                if abi == Abi::Amd64 { "; .cfi_offset 16, -8" } else { "" }
            )),
            rows(&[plain]),
        ),
    ]
}

/// Machines whose rows track the return address: one of both saved.
fn only_one(place: Place) -> Vec<Case> {
    let abi = place.abi;
    if abi == Abi::Amd64 {
        return Vec::new();
    }
    let (sp, entry) = (abi.stack_pointer(), entry_offset(abi));
    let (ra, fp) = (abi.return_address(), abi.frame_pointer());
    let deep = entry + 32;
    let (at_ra, at_fp) = if abi == Abi::S390x { (-48, -72) } else { (-8, -16) };
    let saved = |offset| RegisterRule::Saved(sframe_format::Location::at_cfa(offset));
    let frame = |ra, fp| Rules::Frame(Frame { cfa: CfaRule::register(sp, deep), ra, fp, mangled: false });
    let plain = (0, rules(abi, sp, entry, false));
    let case = |name: &str, about: &str, directives: String, rules, must| {
        assemble(
            place,
            &format!("cfi/{name}"),
            about,
            &Text::of("f").step("").step(directives).write(place, ".text"),
        )
        .facts(describes(place, "f", rows(&[plain, (4, rules)]), must, CFI))
        .facts([sound()])
    };
    vec![
        case(
            "ra-only",
            "the return address is saved, the frame pointer is not",
            format!(".cfi_def_cfa_offset {deep}; .cfi_offset {ra}, {at_ra}"),
            frame(saved(at_ra), RegisterRule::Unchanged),
            Must::Describe,
        ),
        case(
            "fp-only",
            "the frame pointer is saved, the return address is not",
            format!(".cfi_def_cfa_offset {deep}; .cfi_offset {fp}, {at_fp}"),
            frame(RegisterRule::Unchanged, saved(at_fp)),
            Must::DescribeOrOmit,
        ),
    ]
}
