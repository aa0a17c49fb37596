//! Every kind of function and row that the format has, for linkers and readers.

use super::blob::{Edition, SIZE, entry_offset, rules};
use sframe_format::write::Function;
use sframe_format::{Abi, Base, CfaRule, Frame, Location, PauthKey, RegisterRule, Row, Rules};

/// A function with something special.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Short name.
    pub name: &'static str,
    /// What is special.
    pub about: &'static str,
    /// The section of the specification that defines it.
    pub place: &'static str,
    /// The function.
    pub function: Function,
    /// Whether only version 3 has it.
    only_v3: bool,
}

impl Shape {
    /// Whether a version has it.
    pub fn fits(&self, edition: Edition) -> bool {
        edition == Edition::V3 || !self.only_v3
    }
}

const ROWS: &str = "The SFrame FRE Types and FRE Info Word";
const PC_TYPE: &str = "The SFrame FDE PC Types";
const FLEXIBLE: &str = "Flexible FDEs: control word and offset for each value";

fn with_rows(size: u32, rows: &[(u32, Rules)]) -> Function {
    let rows = rows.iter().map(|&(start, rules)| Row { start, rules }).collect();
    Function { size, rows, ..Function::default() }
}

/// The shapes that an ABI has.
pub fn shapes(abi: Abi) -> Vec<Shape> {
    let mut shapes = widths(abi);
    shapes.extend(kinds(abi));
    shapes.extend(saves(abi));
    if abi.is_aarch64() {
        shapes.extend(signed(abi));
    }
    shapes.extend(flexible(abi));
    shapes
}

/// Widths of starts and of offsets.
fn widths(abi: Abi) -> Vec<Shape> {
    let (sp, entry) = (abi.stack_pointer(), entry_offset(abi));
    let frame = |size, start, offset| {
        with_rows(size, &[(0, rules(abi, sp, entry, false)), (start, rules(abi, sp, entry + offset, true))])
    };
    let shape = |name, about, function| Shape { name, about, place: ROWS, function, only_v3: false };
    vec![
        shape("starts-of-1-byte", "a function of 255 bytes", frame(255, 200, 16)),
        shape("starts-of-2-bytes", "a function of 300 bytes", frame(300, 280, 16)),
        shape("starts-of-4-bytes", "a function of 70000 bytes", frame(70_000, 69_000, 16)),
        shape("offsets-of-2-bytes", "a frame of 4 KiB", frame(SIZE, 4, 4096)),
        shape("offsets-of-4-bytes", "a frame of 1 MiB", frame(SIZE, 4, 1 << 20)),
        shape("one-row", "a single row", with_rows(SIZE, &[(0, rules(abi, sp, entry, false))])),
        shape(
            "late-row",
            "the first row does not start at the function",
            with_rows(SIZE, &[(8, rules(abi, sp, entry, false))]),
        ),
        shape("many-rows", "a row for every other byte of 600", many(abi)),
    ]
}

fn many(abi: Abi) -> Function {
    let row = |row: u32| {
        let offset = entry_offset(abi) + 16 * i64::from(row % 5);
        Row { start: 2 * row, rules: rules(abi, abi.stack_pointer(), offset, !row.is_multiple_of(5)) }
    };
    Function { size: 600, rows: (0..300).map(row).collect(), ..Function::default() }
}

/// Kinds of functions.
fn kinds(abi: Abi) -> Vec<Shape> {
    let (sp, fp, entry) = (abi.stack_pointer(), abi.frame_pointer(), entry_offset(abi));
    let plain =
        || with_rows(SIZE, &[(0, rules(abi, sp, entry, false)), (8, rules(abi, fp, entry + 16, true))]);
    let block = [(0, rules(abi, sp, entry, false)), (8, rules(abi, sp, entry + 16, false))];
    vec![
        Shape {
            name: "repeated-block",
            about: "rows that repeat every 16 bytes, as for a PLT",
            place: PC_TYPE,
            function: Function { repeat_size: Some(16), ..with_rows(64, &block) },
            only_v3: false,
        },
        Shape {
            name: "signal-frame",
            about: "a function that signals return to",
            place: "The SFrame FDE Info Word: signal frames (V3)",
            function: Function { signal: true, ..plain() },
            only_v3: true,
        },
        Shape {
            name: "outermost",
            about: "rows without data words: the return address is undefined",
            place: "FRE Info Word: no data words, the outermost frame (V2 errata 2, V3)",
            function: with_rows(SIZE, &[(0, Rules::Outermost)]),
            only_v3: true,
        },
        Shape {
            name: "outermost-from-the-middle",
            about: "an ordinary row, then one without data words",
            place: "FRE Info Word: no data words, the outermost frame (V2 errata 2, V3)",
            function: with_rows(SIZE, &[(0, rules(abi, sp, entry, false)), (12, Rules::Outermost)]),
            only_v3: true,
        },
    ]
}

/// Which of return address and frame pointer are saved.
fn saves(abi: Abi) -> Vec<Shape> {
    let (sp, entry) = (abi.stack_pointer(), entry_offset(abi));
    let at = |offset| RegisterRule::Saved(Location::at_cfa(offset));
    let none = RegisterRule::Unchanged;
    let fixed = if abi.fixed_ra_offset() == 0 { none } else { at(abi.fixed_ra_offset().into()) };
    let shape = |name, about, ra, fp| {
        let frame = Frame { cfa: CfaRule::register(sp, entry + 32), ra, fp, mangled: false };
        let rows = [(0, rules(abi, sp, entry, false)), (4, Rules::Frame(frame))];
        let place = "ABI/arch-specific Definition: order of CFA, RA and FP";
        Shape { name, about, place, function: with_rows(SIZE, &rows), only_v3: false }
    };
    let mut shapes = vec![shape("nothing-saved", "a frame that saves no register", fixed, none)];
    if abi == Abi::Amd64 {
        shapes.push(shape("fp-saved", "the frame pointer is saved", fixed, at(-16)));
    } else {
        shapes.push(shape("ra-saved", "only the return address is saved", at(-8), none));
        shapes.push(shape("ra-and-fp-saved", "return address and frame pointer are saved", at(-8), at(-16)));
    }
    if abi == Abi::S390x {
        shapes.push(shape(
            "only-fp-saved",
            "only the frame pointer is saved: RA has a placeholder",
            none,
            at(-72),
        ));
    }
    shapes
}

/// AArch64: return addresses that are signed.
fn signed(abi: Abi) -> Vec<Shape> {
    let (sp, entry) = (abi.stack_pointer(), entry_offset(abi));
    let mangle = |rules| match rules {
        Rules::Frame(frame) => Rules::Frame(Frame { mangled: true, ..frame }),
        other => other,
    };
    let rows = [
        (0, rules(abi, sp, entry, false)),
        (4, mangle(rules(abi, sp, entry, false))),
        (8, mangle(rules(abi, sp, entry + 32, true))),
        (28, rules(abi, sp, entry, false)),
    ];
    let shape = |name, about, pauth_key| Shape {
        name,
        about,
        place: "AArch64: pauth key in the FDE info word, mangled RA in the FRE info word",
        function: Function { pauth_key, ..with_rows(SIZE, &rows) },
        only_v3: false,
    };
    vec![
        shape("signed-key-a", "a return address that is signed with key A", PauthKey::A),
        shape("signed-key-b", "a return address that is signed with key B", PauthKey::B),
    ]
}

/// Version 3: values that count from any register.
fn flexible(abi: Abi) -> Vec<Shape> {
    let (sp, fp, entry) = (abi.stack_pointer(), abi.frame_pointer(), entry_offset(abi));
    let fixed = abi.fixed_ra_offset();
    let ra = if fixed == 0 {
        RegisterRule::Unchanged
    } else {
        RegisterRule::Saved(Location::at_cfa(fixed.into()))
    };
    let shape = |name, about, frame: Frame| {
        let rows = [(0, rules(abi, sp, entry, false)), (4, Rules::Frame(frame))];
        Shape { name, about, place: FLEXIBLE, function: with_rows(SIZE, &rows), only_v3: true }
    };
    let other = if abi == Abi::S390x { 9 } else { 10 };
    let memory = |register, offset| {
        RegisterRule::Saved(Location { base: Base::Register(register), offset, dereference: true })
    };
    let plain = |cfa| Frame { cfa, ra, fp: RegisterRule::Unchanged, mangled: false };
    vec![
        shape(
            "flex-cfa-register",
            "the CFA counts from another register",
            plain(CfaRule::register(other, entry)),
        ),
        shape(
            "flex-cfa-memory",
            "the CFA is a word in memory",
            plain(CfaRule {
                register: fp,
                dereference: true,
                offset: if abi == Abi::S390x { 160 } else { -8 },
            }),
        ),
        shape(
            "flex-fp-memory",
            "the frame pointer is saved at an address that counts from a register",
            Frame { fp: memory(fp, 0), ..plain(CfaRule::register(other, entry)) },
        ),
        shape(
            "flex-ra-register",
            "the return address is in another register",
            Frame {
                ra: RegisterRule::Saved(Location::in_register(11)),
                ..plain(CfaRule::register(sp, entry))
            },
        ),
        shape(
            "flex-ra-and-fp-registers",
            "return address and frame pointer are in other registers",
            Frame {
                ra: RegisterRule::Saved(Location::in_register(11)),
                fp: RegisterRule::Saved(Location::in_register(8)),
                ..plain(CfaRule::register(sp, entry))
            },
        ),
    ]
}
