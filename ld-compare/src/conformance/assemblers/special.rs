//! Call frame information that not every version and machine can express: rows must be true, or the function
//! is left out as a whole.

use super::super::blob::{entry_offset, rules};
use super::super::case::{Case, Source};
use super::super::linked::{look, sound};
use super::rules::saves;
use super::source::{Must, Place, Text, assemble, describes, rows};
use sframe_format::write::Function;
use sframe_format::{Abi, Base, CfaRule, Frame, Location, PauthKey, RegisterRule, Rules, Version};

const TRUE: Source = Source::Sframe("what rows cannot express has no FDE; rows that are there must be true");
const OUTERMOST: Source = Source::Sframe("FRE Info Word: no data words, an undefined return address (V3)");
const SIGNAL: Source = Source::Sframe("FDE Info Word: signal frames (V3)");
const SIGNED: Source = Source::Sframe("AArch64: pauth key, mangled return address");

/// A function `f` with something special, and an ordinary `g` behind it that must not suffer.
fn one(
    place: Place,
    name: &str,
    about: &str,
    text: Text,
    wanted: Function,
    must: Must,
    source: Source,
) -> Case {
    let plain = rows(&[(0, rules(place.abi, place.abi.stack_pointer(), entry_offset(place.abi), false))]);
    let body = text.write(place, ".text") + &Text::of("g").step("").step("").write(place, ".text");
    assemble(place, &format!("special/{name}"), about, &body)
        .facts(describes(place, "f", wanted, must, source))
        .facts(describes(place, "g", plain, Must::Describe, TRUE))
        .facts([sound()])
}

pub fn cases(place: Place) -> Vec<Case> {
    let mut cases = registers(place);
    cases.extend(kinds(place));
    cases.extend(escapes(place));
    if place.abi.is_aarch64() {
        cases.extend(signed(place));
    }
    cases
}

/// Values in other registers.
fn registers(place: Place) -> Vec<Case> {
    let abi = place.abi;
    let (sp, fp, ra, entry) =
        (abi.stack_pointer(), abi.frame_pointer(), abi.return_address(), entry_offset(abi));
    let Rules::Frame(plain) = rules(abi, sp, entry, false) else { return Vec::new() };
    let start = (0, Rules::Frame(plain));
    let other = if abi == Abi::S390x { 9 } else { 10 };
    let in_register = |register| RegisterRule::Saved(Location::in_register(register));
    let case = |name: &str, about: &str, directives: String, frame: Frame| {
        let wanted = rows(&[start, (4, Rules::Frame(frame))]);
        one(place, name, about, Text::of("f").step("").step(directives), wanted, Must::DescribeOrOmit, TRUE)
    };
    let deep = entry + 32;
    let at = |offset| RegisterRule::Saved(Location::at_cfa(offset));
    vec![
        case(
            "cfa-register",
            "a CFA that counts from another register",
            format!(".cfi_def_cfa {other}, {entry}"),
            Frame { cfa: CfaRule::register(other, entry), ..plain },
        ),
        case(
            "ra-register",
            "a return address in another register",
            format!(".cfi_register {ra}, {other}"),
            Frame { ra: in_register(other), ..plain },
        ),
        case(
            "fp-register",
            "a frame pointer in another register",
            format!(".cfi_register {fp}, {other}"),
            Frame { fp: in_register(other), ..plain },
        ),
        case(
            "ra-elsewhere",
            "a return address that is saved at an unusual place",
            format!(".cfi_def_cfa_offset {deep}; .cfi_offset {ra}, -24"),
            Frame { cfa: CfaRule::register(sp, deep), ra: at(-24), ..plain },
        ),
        case(
            "fp-value",
            ".cfi_val_offset: the caller's frame pointer is an address, not a word in memory",
            format!(".cfi_val_offset {fp}, -16"),
            Frame {
                fp: RegisterRule::Saved(Location { base: Base::Cfa, offset: -16, dereference: false }),
                ..plain
            },
        ),
        column(place, start),
        remembered(place, start),
    ]
}

/// A return column of its own.
fn column(place: Place, start: (u32, Rules)) -> Case {
    let other = if place.abi == Abi::S390x { 9 } else { 10 };
    let text = Text::of("f").step(format!(".cfi_return_column {other}")).step("");
    let about = "a return column that is not the ABI's: no rows can say that";
    one(place, "return-column", about, text, rows(&[start]), Must::Omit, TRUE)
}

/// A remembered state with something special in it.
fn remembered(place: Place, start: (u32, Rules)) -> Case {
    let abi = place.abi;
    let (sp, entry) = (abi.stack_pointer(), entry_offset(abi));
    let text = Text::of("f")
        .step("")
        .step(format!(".cfi_remember_state; .cfi_def_cfa_offset {}; {}", entry + 16, saves(abi)))
        .step(".cfi_restore_state");
    let wanted = rows(&[start, (4, rules(abi, sp, entry + 16, true)), (8, rules(abi, sp, entry, false))]);
    let about = "a state that is remembered before anything was saved";
    one(place, "remember-at-entry", about, text, wanted, Must::Describe, TRUE)
}

/// Kinds of functions.
fn kinds(place: Place) -> Vec<Case> {
    let abi = place.abi;
    let (sp, entry) = (abi.stack_pointer(), entry_offset(abi));
    let plain = (0, rules(abi, sp, entry, false));
    let deep = rules(abi, sp, entry + 16, true);
    let ra = abi.return_address();
    let push = format!(".cfi_def_cfa_offset {}; {}", entry + 16, saves(abi));
    let lost = Text::of("f").step(format!(".cfi_undefined {ra}")).step("");
    let later = Text::of("f").step("").step(format!(".cfi_undefined {ra}"));
    let signal = Text::of("f").step(format!(".cfi_signal_frame; {push}")).step("");
    let signal_rows = rows(&[(0, deep)]);
    let outermost = |name: &str, about: &str, text, wanted| {
        one(place, name, about, text, wanted, Must::DescribeFrom(Version::V3), OUTERMOST)
    };
    vec![
        outermost("outermost", ".cfi_undefined for the return address", lost, rows(&[(0, Rules::Outermost)])),
        outermost(
            "outermost-later",
            ".cfi_undefined for the return address, after the first instruction",
            later,
            rows(&[plain, (4, Rules::Outermost)]),
        ),
        signal_case(place, signal, signal_rows),
    ]
}

fn signal_case(place: Place, text: Text, wanted: Function) -> Case {
    let body = text.write(place, ".text");
    let marked = look(
        "signal-is-marked",
        "where the version has a mark, a signal frame has it",
        SIGNAL,
        |linked, _| {
            for blob in linked.blobs().iter().filter(|blob| blob.header().version == Version::V3) {
                for (_, attributes) in blob.functions() {
                    if !attributes.map_err(|error| error.to_string())?.signal {
                        return Err("a function without the mark".into());
                    }
                }
            }
            Ok(())
        },
    );
    assemble(place, "special/signal-frame", ".cfi_signal_frame", &body)
        .facts(describes(place, "f", wanted, Must::DescribeFrom(Version::V3), TRUE))
        .facts([marked, sound()])
}

/// Bytes of DWARF that no directive has.
fn escapes(place: Place) -> Vec<Case> {
    let abi = place.abi;
    let (sp, fp, entry) = (abi.stack_pointer(), abi.frame_pointer(), entry_offset(abi));
    let Rules::Frame(plain) = rules(abi, sp, entry, false) else { return Vec::new() };
    let start = (0, Rules::Frame(plain));
    // DW_CFA_def_cfa_expression: the word at `frame pointer - 8` (DW_OP_breg, DW_OP_deref).
    let expression = format!(".cfi_escape 0x0f, 0x03, {:#x}, 0x78, 0x06", 0x70 + fp);
    let memory = Frame { cfa: CfaRule { register: fp, dereference: true, offset: -8 }, ..plain };
    let case = |name: &str, about: &str, directives: &str, wanted| {
        one(place, name, about, Text::of("f").step("").step(directives), wanted, Must::DescribeOrOmit, TRUE)
    };
    let unchanged = || rows(&[start]);
    vec![
        case(
            "cfa-expression",
            "a CFA that is a word in memory, by an expression",
            &expression,
            rows(&[start, (4, Rules::Frame(memory))]),
        ),
        case(
            "args-size",
            "DW_CFA_GNU_args_size of one byte, which changes no rule",
            ".cfi_escape 0x2e, 0x10",
            unchanged(),
        ),
        case(
            "args-size-long",
            "DW_CFA_GNU_args_size of two bytes, which changes no rule",
            ".cfi_escape 0x2e, 0x80, 0x01",
            unchanged(),
        ),
        case(
            "other-expression",
            "an expression for a register that rows do not track",
            // DW_CFA_expression for register 3: DW_OP_breg of the frame pointer.
            &format!(".cfi_escape 0x10, 0x03, 0x02, {:#x}, 0x78", 0x70 + fp),
            unchanged(),
        ),
        one(
            place,
            "no-rules",
            ".cfi_startproc simple without any rule: rows can say nothing, or that the stack ends",
            Text::of("f").starting("simple").step(""),
            rows(&[(0, Rules::Outermost)]),
            Must::DescribeOrOmit,
            TRUE,
        ),
    ]
}

/// AArch64: return addresses that are signed.
fn signed(place: Place) -> Vec<Case> {
    let abi = place.abi;
    let (sp, entry) = (abi.stack_pointer(), entry_offset(abi));
    let mangle = |rules| match rules {
        Rules::Frame(frame) => Rules::Frame(Frame { mangled: true, ..frame }),
        other => other,
    };
    let plain = (0, rules(abi, sp, entry, false));
    let wanted = |pauth_key| Function {
        pauth_key,
        ..rows(&[
            plain,
            (4, mangle(rules(abi, sp, entry, false))),
            (8, mangle(rules(abi, sp, 16, true))),
            (12, rules(abi, sp, entry, false)),
        ])
    };
    let text = |before: &'static str| {
        Text::of("f")
            .step(before)
            .step(".cfi_negate_ra_state")
            .step(format!(".cfi_def_cfa_offset 16; {}", saves(abi)))
            .step(".cfi_def_cfa_offset 0; .cfi_restore 30; .cfi_restore 29; .cfi_negate_ra_state")
    };
    let case = |name: &str, about: &str, before, key| {
        one(place, name, about, text(before), wanted(key), Must::Describe, SIGNED)
    };
    vec![
        case("signed-key-a", ".cfi_negate_ra_state", "", PauthKey::A),
        case("signed-key-b", ".cfi_b_key_frame", ".cfi_b_key_frame", PauthKey::B),
    ]
}
