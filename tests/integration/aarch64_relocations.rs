//! Tests relocations of AArch64 at the ends of their ranges. The linked bytes must equal GNU ld's, and a
//! value one past the end must be an error that names the relocation, the place and the excess.
//!
//! The values of plain types come from absolute symbols and from addends. If a GOT slot takes part, a first
//! link shows where the slots are. Then each field goes to a place at the wanted distance from its slot.

use crate::need;
use crate::support::elf::SHT_RELA;
use crate::support::machine::{self, AARCH64};
use crate::support::{Elf, Work};
use std::fmt::Write;

/// Runs a test if there are compilers and an emulator.
fn on_aarch64(test: fn(Work)) {
    machine::check(&AARCH64, |machine| test(Work::on(machine)));
}

/// What the value is computed from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `S + A`.
    Value,
    /// `S + A - P`.
    Distance,
    /// The pages of that distance.
    Pages,
    /// The offset from the thread pointer.
    Thread,
}

/// A relocation type, an instruction for it (`None`: data), what the value is computed from, the smallest
/// value, the largest value, and the distance between values. The distance is 0 for types that take some bits
/// of any value.
struct Case(&'static str, Option<u32>, Kind, i64, i64, i64);

const MOVZ: Option<u32> = Some(0xd280_0001);
const MOVK: Option<u32> = Some(0xf280_0001);
const LDR: Option<u32> = Some(0xf940_0001);
const ADD: Option<u32> = Some(0x9100_0041);
const ADD_HIGH: Option<u32> = Some(0x9140_0041);
const ADR: Option<u32> = Some(0x1000_0001);
const ADRP: Option<u32> = Some(0x9000_0001);
const LITERAL: Option<u32> = Some(0x5800_0001);
const ANY: (i64, i64) = (i64::MIN, i64::MAX);
const ALIGNED: i64 = i64::MAX & !15;

const CASES: &[Case] = &[
    Case("R_AARCH64_ABS64", None, Kind::Value, ANY.0, ANY.1, 0),
    Case("R_AARCH64_ABS32", None, Kind::Value, -(1 << 31), (1 << 32) - 1, 1),
    Case("R_AARCH64_ABS16", None, Kind::Value, -(1 << 15), (1 << 16) - 1, 1),
    Case("R_AARCH64_PREL64", None, Kind::Distance, ANY.0, ANY.1, 0),
    Case("R_AARCH64_PREL32", None, Kind::Distance, -(1 << 31), (1 << 31) - 1, 1),
    Case("R_AARCH64_PREL16", None, Kind::Distance, -(1 << 15), (1 << 15) - 1, 1),
    Case("R_AARCH64_MOVW_UABS_G0", MOVZ, Kind::Value, 0, (1 << 16) - 1, 1),
    Case("R_AARCH64_MOVW_UABS_G1", MOVZ, Kind::Value, 0, (1 << 32) - 1, 1),
    Case("R_AARCH64_MOVW_UABS_G2", MOVZ, Kind::Value, 0, (1 << 48) - 1, 1),
    Case("R_AARCH64_MOVW_UABS_G0_NC", MOVK, Kind::Value, ANY.0, ANY.1, 0),
    Case("R_AARCH64_MOVW_UABS_G1_NC", MOVK, Kind::Value, ANY.0, ANY.1, 0),
    Case("R_AARCH64_MOVW_UABS_G2_NC", MOVK, Kind::Value, ANY.0, ANY.1, 0),
    Case("R_AARCH64_MOVW_UABS_G3", MOVK, Kind::Value, ANY.0, ANY.1, 0),
    Case("R_AARCH64_MOVW_SABS_G0", MOVZ, Kind::Value, -(1 << 16), (1 << 16) - 1, 1),
    Case("R_AARCH64_MOVW_SABS_G1", MOVZ, Kind::Value, -(1 << 32), (1 << 32) - 1, 1),
    Case("R_AARCH64_MOVW_SABS_G2", MOVZ, Kind::Value, -(1 << 48), (1 << 48) - 1, 1),
    Case("R_AARCH64_MOVW_PREL_G0", MOVZ, Kind::Distance, -(1 << 16), (1 << 16) - 1, 1),
    Case("R_AARCH64_MOVW_PREL_G1", MOVZ, Kind::Distance, -(1 << 32), (1 << 32) - 1, 1),
    Case("R_AARCH64_MOVW_PREL_G2", MOVZ, Kind::Distance, -(1 << 48), (1 << 48) - 1, 1),
    Case("R_AARCH64_MOVW_PREL_G0_NC", MOVK, Kind::Distance, ANY.0, ANY.1, 0),
    Case("R_AARCH64_MOVW_PREL_G1_NC", MOVK, Kind::Distance, ANY.0, ANY.1, 0),
    Case("R_AARCH64_MOVW_PREL_G2_NC", MOVK, Kind::Distance, ANY.0, ANY.1, 0),
    Case("R_AARCH64_MOVW_PREL_G3", MOVK, Kind::Distance, ANY.0, ANY.1, 0),
    Case("R_AARCH64_LD_PREL_LO19", LITERAL, Kind::Distance, -(1 << 20), (1 << 20) - 4, 4),
    Case("R_AARCH64_ADR_PREL_LO21", ADR, Kind::Distance, -(1 << 20), (1 << 20) - 1, 1),
    Case("R_AARCH64_ADR_PREL_PG_HI21", ADRP, Kind::Pages, -(1 << 32), (1 << 32) - 0x1000, 0x1000),
    Case("R_AARCH64_ADR_PREL_PG_HI21_NC", ADRP, Kind::Pages, -(1 << 40), (1 << 40) - 0x1000, 0),
    Case("R_AARCH64_TSTBR14", Some(0x3600_0001), Kind::Distance, -(1 << 15), (1 << 15) - 4, 4),
    Case("R_AARCH64_CONDBR19", Some(0x5400_0001), Kind::Distance, -(1 << 20), (1 << 20) - 4, 4),
    Case("R_AARCH64_JUMP26", Some(0x1400_0000), Kind::Distance, -(1 << 27), (1 << 27) - 4, 4),
    Case("R_AARCH64_CALL26", Some(0x9400_0000), Kind::Distance, -(1 << 27), (1 << 27) - 4, 4),
    Case("R_AARCH64_ADD_ABS_LO12_NC", ADD, Kind::Value, ANY.0, ANY.1, 0),
    Case("R_AARCH64_LDST8_ABS_LO12_NC", LDR, Kind::Value, ANY.0, ANY.1, 0),
    Case("R_AARCH64_LDST16_ABS_LO12_NC", LDR, Kind::Value, ANY.0, ALIGNED, 0),
    Case("R_AARCH64_LDST32_ABS_LO12_NC", LDR, Kind::Value, ANY.0, ALIGNED, 0),
    Case("R_AARCH64_LDST64_ABS_LO12_NC", LDR, Kind::Value, ANY.0, ALIGNED, 0),
    Case("R_AARCH64_LDST128_ABS_LO12_NC", LDR, Kind::Value, ANY.0, ALIGNED, 0),
    Case("R_AARCH64_TLSLE_MOVW_TPREL_G2", MOVZ, Kind::Thread, -(1 << 48), (1 << 48) - 1, 1),
    Case("R_AARCH64_TLSLE_MOVW_TPREL_G1", MOVZ, Kind::Thread, -(1 << 32), (1 << 32) - 1, 1),
    Case("R_AARCH64_TLSLE_MOVW_TPREL_G0", MOVZ, Kind::Thread, -(1 << 16), (1 << 16) - 1, 1),
    Case("R_AARCH64_TLSLE_MOVW_TPREL_G1_NC", MOVK, Kind::Thread, 0, (1 << 40) - 1, 0),
    Case("R_AARCH64_TLSLE_MOVW_TPREL_G0_NC", MOVK, Kind::Thread, 0, (1 << 40) - 1, 0),
    Case("R_AARCH64_TLSLE_ADD_TPREL_HI12", ADD_HIGH, Kind::Thread, 0, (1 << 24) - 1, 1),
    Case("R_AARCH64_TLSLE_ADD_TPREL_LO12", ADD, Kind::Thread, 0, 0xfff, 1),
    Case("R_AARCH64_TLSLE_ADD_TPREL_LO12_NC", ADD, Kind::Thread, 0, (1 << 24) - 1, 0),
    Case("R_AARCH64_TLSLE_LDST8_TPREL_LO12", LDR, Kind::Thread, 0, 0xfff, 1),
    Case("R_AARCH64_TLSLE_LDST16_TPREL_LO12", LDR, Kind::Thread, 0, 0xffe, 2),
    Case("R_AARCH64_TLSLE_LDST32_TPREL_LO12", LDR, Kind::Thread, 0, 0xffc, 4),
    Case("R_AARCH64_TLSLE_LDST64_TPREL_LO12", LDR, Kind::Thread, 0, 0xff8, 8),
    Case("R_AARCH64_TLSLE_LDST8_TPREL_LO12_NC", LDR, Kind::Thread, 0, (1 << 24) - 1, 0),
    Case("R_AARCH64_TLSLE_LDST16_TPREL_LO12_NC", LDR, Kind::Thread, 0, (1 << 24) - 2, 0),
    Case("R_AARCH64_TLSLE_LDST32_TPREL_LO12_NC", LDR, Kind::Thread, 0, (1 << 24) - 4, 0),
    Case("R_AARCH64_TLSLE_LDST64_TPREL_LO12_NC", LDR, Kind::Thread, 0, (1 << 24) - 8, 0),
];

/// Where the code is: far from both ends of the address space.
const TEXT: i64 = 1 << 52;
/// Bytes between the thread pointer and the variables.
const THREAD_HEADER: i64 = 16;

impl Case {
    /// The part of the object for a value at an offset. No other part uses the name `symbol`.
    fn source(&self, symbol: &str, value: i64, offset: usize) -> String {
        let content =
            self.1.map_or("\t.word 0, 0".to_owned(), |word| format!("\t.inst {word:#x}, 0xd503201f"));
        let target = match self.2 {
            Kind::Thread => format!("local+{}", value - THREAD_HEADER),
            _ => symbol.to_owned(),
        };
        format!("\t.reloc {offset}, {}, {target}\n{content}\n", self.0)
    }

    /// The option that defines the symbol, so that it gives this value at this offset.
    fn symbol(&self, symbol: &str, value: i64, offset: usize) -> String {
        let base = match self.2 {
            Kind::Value | Kind::Thread => 0,
            Kind::Distance => TEXT + offset as i64,
            Kind::Pages => (TEXT + offset as i64) & !0xfff,
        };
        format!("--defsym={symbol}={:#x}", base.wrapping_add(value) as u64)
    }
}

const THREAD_LOCAL: &str = "\t.section .tdata,\"awT\"\n\t.balign 8\nlocal:\t.quad 0\n";

/// Whether only GNU ld writes the first word of a field in this way.
fn is_gnu_alone(name: &str, value: i64) -> bool {
    // GNU ld reports an overflow for the high halves of negative offsets, and for the highest half of large
    // ones. It writes `movn` where the ABI has `movk`, and from 2.47 on it takes an addition of 0 for a move.
    value < 0 && (name.contains("TLS") && name.contains("PREL_G") || name.ends_with("MOVW_PREL_G3"))
        || name.ends_with("TLSLE_MOVW_TPREL_G2")
        || name.contains("_ADD_") && value & 0xfff == 0
}

#[test]
fn fields_hold_their_ends_as_gnu_ld_writes_them() {
    on_aarch64(|work| {
        let mut source = String::from("\t.globl _start\n_start:\n");
        let mut symbols = Vec::new();
        let ends: Vec<(&Case, i64)> =
            CASES.iter().flat_map(|case| [(case, case.3), (case, case.4)]).collect();
        for (index, (case, value)) in ends.iter().enumerate() {
            let symbol = format!("s{index}");
            source += &case.source(&symbol, *value, index * 8);
            symbols.push(case.symbol(&symbol, *value, index * 8));
        }
        let object = work.s("a", &(source + THREAD_LOCAL));
        let text = format!("-Ttext={TEXT:#x}");
        let mut args = vec!["-o", "ours", &object, &text];
        args.extend(symbols.iter().map(String::as_str));
        work.ld(&args).quiet();
        let ours = work.elf_unchecked("ours").section(".text").data.clone();
        let word = |name: &str, end: usize| {
            let index = 2 * CASES.iter().position(|case| case.0 == name).unwrap() + end;
            u32::from_le_bytes(ours[index * 8..][..4].try_into().unwrap())
        };
        assert_eq!(word("R_AARCH64_ABS32", 0), 1 << 31);
        assert_eq!([0, 1].map(|end| word("R_AARCH64_CALL26", end)), [0x9600_0000, 0x95ff_ffff]);
        for half in ["G2", "G1", "G0"] {
            let name = format!("R_AARCH64_TLSLE_MOVW_TPREL_{half}");
            assert_eq!([0, 1].map(|end| word(&name, end)), [0x929f_ffe1, 0xd29f_ffe1], "movn, movz");
        }
        let peer = need!(AARCH64.tool("ld"));
        args[1] = "theirs";
        // GNU ld takes ABS32 for unsigned and complains, but it writes the value.
        args.push("--noinhibit-exec");
        work.command(peer, &args);
        let theirs = work.elf_unchecked("theirs").section(".text").data.clone();
        for (index, (case, value)) in
            ends.iter().enumerate().filter(|(_, (case, value))| !is_gnu_alone(case.0, *value))
        {
            let at = index * 8..index * 8 + 8;
            assert_eq!(ours[at.clone()], theirs[at], "{} with {value:#x}", case.0);
        }
    });
}

#[test]
fn one_past_the_end_is_an_error_with_place_and_value() {
    on_aarch64(|work| {
        let mut source = String::from("\t.globl _start\n_start: ret\n");
        let mut symbols = Vec::new();
        let mut expected = Vec::new();
        // Calls that reach further get thunks.
        let checked =
            CASES.iter().filter(|c| c.5 != 0 && !matches!(c.0, "R_AARCH64_JUMP26" | "R_AARCH64_CALL26"));
        let beyond = checked.flat_map(|case| [(case, case.3 - case.5), (case, case.4 + case.5)]);
        for (index, (case, value)) in beyond.enumerate() {
            let symbol = format!("s{index}");
            let part = case.source(&symbol, value, 0);
            write!(source, "\t.section .text.t{index},\"ax\"\n\t.balign 4096\n{part}").unwrap();
            symbols.push(case.symbol(&symbol, value, (index + 1) * 0x1000));
            let place = format!("a.o:(.text.t{index}+0x0)");
            expected.push(format!("{place}: relocation {} out of range: {value} is not in", case.0));
            let symbol = if case.2 == Kind::Thread { "local" } else { &symbol };
            expected.push(format!("references {symbol}\n"));
        }
        let object = work.s("a", &(source + THREAD_LOCAL));
        work.write(
            "script",
            format!("SECTIONS {{ .text {TEXT:#x} : {{ *(.text) *(SORT_NONE(.text.*)) }} }}"),
        );
        let mut args = vec!["-o", "ours", &object, "-T", "script", "--error-limit=0"];
        args.extend(symbols.iter().map(String::as_str));
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        work.ld(&args).fails().says(&expected);
    });
}

#[test]
fn accesses_must_be_aligned_to_their_size() {
    on_aarch64(|work| {
        let object = work.s("a", "\t.globl _start\n_start: ldr x0, [x0, :lo12:value]\n");
        work.ld(&["-o", "a", &object, "--defsym=value=0x500004"]).fails().says(&[
            "a.o:(.text+0x0)",
            "R_AARCH64_LDST64_ABS_LO12_NC",
            "multiple of 8",
            "value",
        ]);
    });
}

/// What a GOT slot contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Address,
    /// Module and offset.
    General,
    /// The library's own module.
    Module,
    /// The offset from the thread pointer.
    Offset,
    Descriptor,
    /// There is no slot: the offset in the module's block.
    Block,
}

/// The value that is computed from a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The distance from the field to the slot; ends and distance as in [`Case`].
    Distance(i64, i64, i64),
    /// The pages of that distance.
    Pages(i64, i64, i64),
    /// The offset in the block; there is no slot for it.
    Value(i64, i64, i64),
    /// The low twelve bits of the slot's address, shifted right.
    Low(u32),
    /// Sixteen bits of the slot's offset in the GOT, starting at this bit.
    Half(u32),
    /// Nothing.
    Mark,
}

const WORDS: Part = Part::Distance(-(1 << 20), (1 << 20) - 4, 4);
const BYTES: Part = Part::Distance(-(1 << 20), (1 << 20) - 1, 1);
const PAGES: Part = Part::Pages(-(1 << 32), (1 << 32) - 0x1000, 0x1000);

const fn up_to(end: i64, step: i64) -> Part {
    Part::Value(0, end, step)
}

const fn signed(bits: u32) -> Part {
    Part::Value(-(1 << bits), (1 << bits) - 1, 1)
}

/// Types in a library, where no sequence is rewritten.
const LIBRARY_CASES: &[(&str, Option<u32>, Slot, Part)] = &[
    ("R_AARCH64_GOT_LD_PREL19", LITERAL, Slot::Address, WORDS),
    ("R_AARCH64_ADR_GOT_PAGE", ADRP, Slot::Address, PAGES),
    ("R_AARCH64_LD64_GOT_LO12_NC", LDR, Slot::Address, Part::Low(3)),
    ("R_AARCH64_TLSGD_ADR_PREL21", ADR, Slot::General, BYTES),
    ("R_AARCH64_TLSGD_ADR_PAGE21", ADRP, Slot::General, PAGES),
    ("R_AARCH64_TLSGD_ADD_LO12_NC", ADD, Slot::General, Part::Low(0)),
    ("R_AARCH64_TLSGD_MOVW_G1", MOVZ, Slot::General, Part::Half(16)),
    ("R_AARCH64_TLSGD_MOVW_G0_NC", MOVK, Slot::General, Part::Half(0)),
    ("R_AARCH64_TLSLD_ADR_PREL21", ADR, Slot::Module, BYTES),
    ("R_AARCH64_TLSLD_ADR_PAGE21", ADRP, Slot::Module, PAGES),
    ("R_AARCH64_TLSLD_ADD_LO12_NC", ADD, Slot::Module, Part::Low(0)),
    ("R_AARCH64_TLSLD_MOVW_DTPREL_G2", MOVZ, Slot::Block, signed(48)),
    ("R_AARCH64_TLSLD_MOVW_DTPREL_G1", MOVZ, Slot::Block, signed(32)),
    ("R_AARCH64_TLSLD_MOVW_DTPREL_G0", MOVZ, Slot::Block, signed(16)),
    ("R_AARCH64_TLSLD_MOVW_DTPREL_G1_NC", MOVK, Slot::Block, up_to((1 << 40) - 1, 0)),
    ("R_AARCH64_TLSLD_MOVW_DTPREL_G0_NC", MOVK, Slot::Block, up_to((1 << 40) - 1, 0)),
    ("R_AARCH64_TLSLD_ADD_DTPREL_HI12", ADD_HIGH, Slot::Block, up_to((1 << 24) - 1, 1)),
    ("R_AARCH64_TLSLD_ADD_DTPREL_LO12", ADD, Slot::Block, up_to(0xfff, 1)),
    ("R_AARCH64_TLSLD_ADD_DTPREL_LO12_NC", ADD, Slot::Block, up_to((1 << 24) - 1, 0)),
    ("R_AARCH64_TLSLD_LDST8_DTPREL_LO12", LDR, Slot::Block, up_to(0xfff, 1)),
    ("R_AARCH64_TLSLD_LDST16_DTPREL_LO12", LDR, Slot::Block, up_to(0xffe, 2)),
    ("R_AARCH64_TLSLD_LDST32_DTPREL_LO12", LDR, Slot::Block, up_to(0xffc, 4)),
    ("R_AARCH64_TLSLD_LDST64_DTPREL_LO12", LDR, Slot::Block, up_to(0xff8, 8)),
    ("R_AARCH64_TLSLD_LDST8_DTPREL_LO12_NC", LDR, Slot::Block, up_to((1 << 24) - 1, 0)),
    ("R_AARCH64_TLSLD_LDST16_DTPREL_LO12_NC", LDR, Slot::Block, up_to((1 << 24) - 2, 0)),
    ("R_AARCH64_TLSLD_LDST32_DTPREL_LO12_NC", LDR, Slot::Block, up_to((1 << 24) - 4, 0)),
    ("R_AARCH64_TLSLD_LDST64_DTPREL_LO12_NC", LDR, Slot::Block, up_to((1 << 24) - 8, 0)),
    ("R_AARCH64_TLSIE_LD_GOTTPREL_PREL19", LITERAL, Slot::Offset, WORDS),
    ("R_AARCH64_TLSIE_ADR_GOTTPREL_PAGE21", ADRP, Slot::Offset, PAGES),
    ("R_AARCH64_TLSIE_LD64_GOTTPREL_LO12_NC", LDR, Slot::Offset, Part::Low(3)),
    ("R_AARCH64_TLSIE_MOVW_GOTTPREL_G1", MOVZ, Slot::Offset, Part::Half(16)),
    ("R_AARCH64_TLSIE_MOVW_GOTTPREL_G0_NC", MOVK, Slot::Offset, Part::Half(0)),
    ("R_AARCH64_TLSDESC_LD_PREL19", LITERAL, Slot::Descriptor, WORDS),
    ("R_AARCH64_TLSDESC_ADR_PREL21", ADR, Slot::Descriptor, BYTES),
    ("R_AARCH64_TLSDESC_ADR_PAGE21", ADRP, Slot::Descriptor, PAGES),
    ("R_AARCH64_TLSDESC_LD64_LO12", LDR, Slot::Descriptor, Part::Low(3)),
    ("R_AARCH64_TLSDESC_ADD_LO12", ADD, Slot::Descriptor, Part::Low(0)),
    ("R_AARCH64_TLSDESC_OFF_G1", MOVZ, Slot::Descriptor, Part::Half(16)),
    ("R_AARCH64_TLSDESC_OFF_G0_NC", MOVK, Slot::Descriptor, Part::Half(0)),
    ("R_AARCH64_TLSDESC_LDR", LDR, Slot::Descriptor, Part::Mark),
    ("R_AARCH64_TLSDESC_ADD", ADD, Slot::Descriptor, Part::Mark),
    ("R_AARCH64_TLSDESC_CALL", Some(0xd63f_0020), Slot::Descriptor, Part::Mark),
];

/// Start of the GOT.
const GOT: i64 = 0x10_0000_0000;

/// A field of a library: row of [`LIBRARY_CASES`] and value.
type Field = (usize, i64);

/// The fields at the ends of all types, or one past the ends.
fn library_fields(past: bool) -> Vec<Field> {
    let mut all = Vec::new();
    for (row, case) in LIBRARY_CASES.iter().enumerate() {
        match case.3 {
            Part::Distance(low, high, step) | Part::Pages(low, high, step) | Part::Value(low, high, step) => {
                match past {
                    false => all.extend([(row, low), (row, high)]),
                    true if step != 0 => all.extend([(row, low - step), (row, high + step)]),
                    true => {}
                }
            }
            _ if !past => all.push((row, 0)),
            _ => {}
        }
    }
    all
}

/// The variable for the slot of a case. Each case has its own, except for those that a library shares.
fn variable(row: usize) -> String {
    match LIBRARY_CASES[row].2 {
        Slot::Module => "module".into(),
        Slot::Block => "block".into(),
        Slot::Address => format!("data{row}"),
        _ => format!("thread{row}"),
    }
}

/// An object with a section for each field, and a script that puts the sections at these addresses.
fn write_library(work: &Work, fields: &[Field], places: &[i64]) -> String {
    let (mut source, mut script) = (String::new(), vec![(GOT, ".got : { *(.got) *(.got.plt) }".to_owned())]);
    for (number, (&(row, value), place)) in fields.iter().zip(places).enumerate() {
        let (name, content, _, part) = LIBRARY_CASES[row];
        let addend = if matches!(part, Part::Value(..)) { value } else { 0 };
        let bytes = content.unwrap_or(0).to_le_bytes().map(|byte| byte.to_string()).join(",");
        writeln!(
            source,
            ".section .f{number},\"ax\"\n.reloc 0, {name}, {}+{addend}\n.byte {bytes}",
            variable(row)
        )
        .unwrap();
        script.push((*place, format!(".f{number} : {{ *(.f{number}) }}")));
    }
    source += ".section .tdata,\"awT\"\n.balign 8\nblock: .quad 0\nmodule: .quad 0\n";
    for (row, case) in LIBRARY_CASES.iter().enumerate() {
        let name = variable(row);
        match case.2 {
            Slot::Address => writeln!(source, ".data\n{name}: .quad 0").unwrap(),
            Slot::General => {
                writeln!(source, ".section .tdata\n.globl {name}\n.type {name},%tls_object\n{name}: .quad 0")
                    .unwrap();
            }
            Slot::Offset | Slot::Descriptor => {
                writeln!(source, ".section .tdata\n.type {name},%tls_object\n{name}: .quad 0").unwrap();
            }
            Slot::Module | Slot::Block => {}
        }
    }
    script.sort();
    let mut text = String::from(
        "SECTIONS { . = 0x10000; .hash : { *(.hash) } .gnu.hash : { *(.gnu.hash) } .dynsym : { *(.dynsym) }\n\
         .dynstr : { *(.dynstr) } .rela.dyn : { *(.rela.*) } .dynamic : { *(.dynamic) } .tdata : { *(.tdata) }\n\
         .data : { *(.data) }\n",
    );
    for (address, section) in script {
        writeln!(text, ". = {address:#x}; {section}").unwrap();
    }
    work.write("library.ld", text + "/DISCARD/ : { *(.comment) *(.note*) *(.eh_frame) } }");
    work.s("library", &source)
}

/// The slot of each row in a linked library.
fn slots(elf: &Elf) -> Vec<i64> {
    let numbers = &AARCH64.relocations;
    let all = |kind: u32| elf.dynamic_relocations_of(kind);
    let data = elf.section(".data").addr;
    let address_of =
        |row: usize| LIBRARY_CASES[..row].iter().filter(|case| case.2 == Slot::Address).count() as i64;
    // Thread-local variables come after `block` and `module`.
    let offset_of = |row: usize| {
        let before = LIBRARY_CASES[..row].iter();
        16 + 8 * before
            .filter(|case| matches!(case.2, Slot::General | Slot::Offset | Slot::Descriptor))
            .count() as i64
    };
    let with_addend = |kind: u32, addend: i64| {
        let found = all(kind).into_iter().find(|(relocation, _)| relocation.addend == addend);
        found.map_or(0, |(relocation, _)| relocation.offset as i64)
    };
    let slot = |row: usize| match LIBRARY_CASES[row].2 {
        Slot::Address => with_addend(numbers.relative, data as i64 + 8 * address_of(row)),
        Slot::Offset => with_addend(numbers.tpoff, offset_of(row)),
        Slot::Descriptor => with_addend(numbers.tlsdesc, offset_of(row)),
        Slot::General => {
            let found = all(numbers.dtpmod).into_iter().find(|(_, name)| *name == variable(row));
            found.map_or(0, |(relocation, _)| relocation.offset as i64)
        }
        Slot::Module => {
            let found = all(numbers.dtpmod).into_iter().find(|(_, name)| name.is_empty());
            found.map_or(0, |(relocation, _)| relocation.offset as i64)
        }
        Slot::Block => 0,
    };
    (0..LIBRARY_CASES.len()).map(slot).collect()
}

/// The places of the fields at which they have their values.
fn places(fields: &[Field], slots: &[i64]) -> Vec<i64> {
    let place = |(number, &(row, value)): (usize, &Field)| match LIBRARY_CASES[row].3 {
        Part::Distance(..) => slots[row] - value,
        Part::Pages(..) => (slots[row] & !0xfff) - value + 16 * number as i64,
        _ => GOT + 0x8000 + 16 * number as i64,
    };
    fields.iter().enumerate().map(place).collect()
}

/// Links the fields with their values. Returns their words, and the slots of all rows.
fn link_library(work: &Work, link: &dyn Fn(&[&str]), fields: &[Field]) -> (Vec<u32>, Vec<i64>) {
    const ARGS: &[&str] = &["-shared", "-z", "norelro", "-T", "library.ld", "-o", "library", "library.o"];
    let near: Vec<i64> = (0..fields.len() as i64).map(|number| GOT + 0x8000 + 16 * number).collect();
    write_library(work, fields, &near);
    link(ARGS);
    let slots = slots(&work.elf_unchecked("library"));
    write_library(work, fields, &places(fields, &slots));
    link(ARGS);
    let elf = work.elf_unchecked("library");
    let word = |number: usize| elf.section(&format!(".f{number}")).words()[0];
    ((0..fields.len()).map(word).collect(), slots)
}

/// The expected contents of a field that does not depend on its place.
fn expected(row: usize, slot: i64) -> Option<u32> {
    let (_, content, _, part) = LIBRARY_CASES[row];
    let content = content.unwrap_or(0);
    match part {
        Part::Low(shift) => Some(content | ((slot as u32 & 0xfff) >> shift) << 10),
        Part::Half(up) => Some(content | (((slot - GOT) >> up) as u32 & 0xffff) << 5),
        Part::Mark => Some(content),
        _ => None,
    }
}

#[test]
fn fields_for_slots_hold_their_ends_as_gnu_ld_writes_them() {
    on_aarch64(|work| {
        let fields = library_fields(false);
        let (ours, our_slots) = link_library(&work, &|args| drop(work.ld(args).ok()), &fields);
        for (&(row, _), &word) in fields.iter().zip(&ours) {
            let (name, _, slot, part) = LIBRARY_CASES[row];
            assert!(our_slots[row] != 0 || slot == Slot::Block || part == Part::Mark, "{name}");
            if let Some(expected) = expected(row, our_slots[row]) {
                assert_eq!(word, expected, "{}", LIBRARY_CASES[row].0);
            }
        }
        let peer = need!(AARCH64.tool("ld"));
        let gnu =
            |args: &[&str]| drop(work.command(&peer, &[args, &["--noinhibit-exec"]].concat()).no_crash());
        let (theirs, their_slots) = link_library(&work, &gnu, &fields);
        for (number, &(row, value)) in fields.iter().enumerate() {
            let name = LIBRARY_CASES[row].0;
            match expected(row, their_slots[row]) {
                Some(expected) => assert_eq!(theirs[number], expected, "{name}: GNU ld"),
                None if is_gnu_alone(name, value) => {}
                None => assert_eq!(ours[number], theirs[number], "{name} with {value:#x}"),
            }
        }
    });
}

#[test]
fn one_past_the_end_of_slots_is_an_error_with_place_and_value() {
    on_aarch64(|work| {
        let fields = library_fields(true);
        let args = &["-shared", "-z", "norelro", "-T", "library.ld", "-o", "library", "library.o"];
        let near: Vec<i64> = (0..fields.len() as i64).map(|number| GOT + 0x8000 + 16 * number).collect();
        write_library(&work, &fields, &near);
        work.ld(&[&args[..], &["--noinhibit-exec"]].concat()).no_crash();
        let slots = slots(&work.elf_unchecked("library"));
        write_library(&work, &fields, &places(&fields, &slots));
        let outcome = work.ld(&[&args[..], &["--error-limit=0"]].concat()).fails();
        for (number, &(row, value)) in fields.iter().enumerate() {
            let place = format!("library.o:(.f{number}+0x0)");
            let said =
                format!("{place}: relocation {} out of range: {value} is not in", LIBRARY_CASES[row].0);
            let (_, after) =
                outcome.stderr.split_once(&said).unwrap_or_else(|| panic!("{said} in {outcome}"));
            let note = after.lines().nth(1).unwrap_or_default();
            assert!(note.contains(&variable(row)), "{said}: {note}");
        }
    });
}

#[test]
fn slots_past_the_end_of_the_small_table_are_errors() {
    on_aarch64(|work| {
        // One word is reserved. The table of 32 KiB starts at a page.
        const SLOTS: usize = 32768 / 8 - 1;
        let link = |count: usize, kind: &str| {
            let mut source = String::from("\t.globl _start\n_start:\n");
            for slot in 0..count {
                writeln!(source, "\tldr x1, [x2, #:{kind}:v{slot}]").unwrap();
            }
            source += "\t.data\n";
            for slot in 0..count {
                writeln!(source, "\t.globl v{slot}\nv{slot}: .quad 0").unwrap();
            }
            let object = work.s("a", &source);
            work.ld(&["-o", "a", &object, "--section-start=.got=0x10000000", "--no-relax"])
        };
        for (kind, name) in
            [("gotpage_lo15", "R_AARCH64_LD64_GOTPAGE_LO15"), ("gotoff_lo15", "R_AARCH64_LD64_GOTOFF_LO15")]
        {
            link(SLOTS, kind).ok();
            let words = work.elf_unchecked("a").section(".text").words();
            let slots = || words.iter().map(|word| word >> 10 & 0xfff);
            assert_eq!((slots().min(), slots().max()), (Some(1), Some(4095)), "{kind}");
            let said = format!("relocation {name} out of range: 32768 is not in");
            link(SLOTS + 1, kind).fails().says(&["a.o:(.text+0x", &said, "references v"]);
        }
    });
}

/// Changes the types of an object's relocations.
pub fn retype(work: &Work, object: &str, types: &[(u32, u32)]) {
    let mut bytes = work.read(object);
    for table in work.elf_unchecked(object).sections.iter().filter(|section| section.kind == SHT_RELA) {
        let start = table.offset as usize;
        for entry in bytes[start..start + table.size as usize].chunks_exact_mut(24) {
            let kind = u32::from_le_bytes(entry[8..12].try_into().unwrap());
            if let Some((_, new)) = types.iter().find(|(old, _)| *old == kind) {
                entry[8..12].copy_from_slice(&new.to_le_bytes());
            }
        }
    }
    work.write(object, bytes);
}

#[test]
fn distances_that_gnu_as_does_not_know_hold_their_ends() {
    on_aarch64(|work| {
        const PREL32: u32 = 261;
        const PREL16: u32 = 262;
        const PLT32: u32 = 314;
        const GOTPCREL32: u32 = 315;
        let source = "\t.globl _start\n_start:\n\t.reloc 0, R_AARCH64_PREL32, low\n\t.reloc 4, R_AARCH64_PREL32, high\n\
                      \t.reloc 8, R_AARCH64_PREL16, slot\n\t.word 0, 0, 0\n\t.data\nslot: .quad 0\n";
        let object = work.s("a", source);
        retype(&work, &object, &[(PREL32, PLT32), (PREL16, GOTPCREL32)]);
        let link = |low: i64, high: i64, got: i64| {
            let text = format!("-Ttext={TEXT:#x}");
            let symbols =
                [format!("--defsym=low={:#x}", TEXT + low), format!("--defsym=high={:#x}", TEXT + 4 + high)];
            let got = format!("--section-start=.got={:#x}", TEXT + 8 + got);
            work.ld(&["-o", "a", &object, &text, &symbols[0], &symbols[1], &got])
        };
        let (low, high) = (-(1 << 31), (1 << 31) - 1);
        // The slot comes after the reserved word.
        for slot in [low, high - 7] {
            link(low, high, slot - 8).ok();
            let words = work.elf_unchecked("a").section(".text").words();
            assert_eq!(words, [low as u32, high as u32, slot as u32]);
        }
        // The distances lead to thunks.
        link(low - 1, high + 1, low - 16).fails().says_not(&["R_AARCH64_PLT32"]).says(&[
            &format!("a.o:(.text+0x8): relocation R_AARCH64_GOTPCREL32 out of range: {} is not in", low - 8),
            "references slot\n",
        ]);
        link(low, high, high - 7).fails().says(&["R_AARCH64_GOTPCREL32 out of range: 2147483648 is not in"]);
    });
}
