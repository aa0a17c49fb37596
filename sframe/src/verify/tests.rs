//! Tests of `sframe verify`: with the output of real assemblers and linkers, and with errors planted in real
//! tables.

use super::explain::{DifferenceKind, Gap};
use super::{Verified, verify_input};
use crate::compact;
use crate::derived;
use crate::fixtures;
use crate::open::{FrameSection, Input, open_elf};
use crate::table_section::TableSection;
use sframe_format::compact::write_table;
use sframe_format::write::{Function, Options, write_sorted};
use sframe_format::{
    Abi, Base, CfaRule, Frame, Location, PauthKey, RegisterRule, Row, Rules, Section, Version,
};
use std::borrow::Cow;
use std::ops::Range;

fn verified(name: &str) -> Verified {
    let bytes = std::fs::read(fixtures::path(name)).unwrap();
    verify_input(&open_elf(name, &bytes).unwrap(), Version::V3)
}

fn kinds(verified: &Verified) -> Vec<DifferenceKind> {
    verified.comparison.as_ref().unwrap().differences.iter().map(|found| found.kind).collect()
}

/// Every function of the fixtures is right, except for a known few.
#[test]
fn fixtures_agree_with_their_eh_frame() {
    let mut compared = 0;
    for fixture in fixtures::all() {
        let verified = verified(&fixture.name);
        let errors = verified.structure.iter().flatten().filter(|f| super::structure::is_error(f)).count();
        let expected_errors = match fixture.name.as_str() {
            "linked/reloc.x86_64.ld2.44.o" => 14,
            // The index of these objects covers the blobs after it, so the relocations of those blobs belong
            // to nothing.
            name if name.starts_with("crafted-v3/overlay.") => 3,
            "crafted-v3/padnz.s390x.o" | "crafted-v3/padnz.x86_64.o" => 1,
            _ => 0,
        };
        assert_eq!(errors, expected_errors, "{}: {:?}", fixture.name, verified.structure);
        let Some(comparison) = &verified.comparison else { continue };
        compared += comparison.stretches;
        let expected = if fixture.name == "linked/prog_pltgot.x86_64.ld2.47" { 1 } else { 0 };
        assert_eq!(comparison.differences.len(), expected, "{}: {:?}", fixture.name, comparison.differences);
    }
    assert!(compared > 1000, "{compared}");
}

/// GNU ld 2.47 writes the CFA of `.plt.got` as if something had been pushed.
#[test]
fn a_linker_that_writes_wrong_rows_is_found_out() {
    let verified = verified("linked/prog_pltgot.x86_64.ld2.47");
    let comparison = verified.comparison.unwrap();
    let [found] = &comparison.differences[..] else { panic!("{:?}", comparison.differences) };
    assert_eq!((found.kind, found.range.clone()), (DifferenceKind::Cfa, 0x401010..0x401018));
    assert_eq!((found.expected.as_str(), found.found.as_str()), ("rsp+8", "rsp+16"));
}

#[test]
fn what_is_not_covered_is_explained() {
    let verified = verified("v2e1-gas2.45/special.s390x.o");
    let gaps: Vec<Gap> = verified.comparison.unwrap().uncovered.keys().copied().collect();
    assert_eq!(gaps, [Gap::CfaRegister, Gap::Outermost]);
}

/// GNU as 2.44 writes these rows wrong, without a warning. `sframe-faults` contains the source.
#[test]
fn faults_of_old_assemblers_are_found() {
    let name = "../sframe-faults/gas2.44.x86_64.o";
    let bytes = std::fs::read(fixtures::path(name)).unwrap();
    let input = open_elf(name, &bytes).unwrap();
    let comparison = verify_input(&input, Version::V3).comparison.unwrap();
    let found: Vec<(DifferenceKind, String)> = comparison
        .differences
        .iter()
        .map(|found| (found.kind, input.places.symbol_name(found.range.start, false).unwrap()))
        .collect();
    let expected = [
        (DifferenceKind::Cfa, "remembered+0x4"),
        (DifferenceKind::ReturnAddress, "in_register+0x2"),
        (DifferenceKind::ReturnAddress, "elsewhere+0x4"),
        (DifferenceKind::Outermost, "outermost"),
    ];
    assert_eq!(found, expected.map(|(kind, place)| (kind, place.to_owned())));
    assert_eq!((comparison.cfi.functions, comparison.wrong.functions), (5, 4));
}

fn read(section: &Section<'_>) -> Vec<(u64, Function)> {
    let blob = section.blobs().next().unwrap();
    blob.fdes().map(|fde| (fde.address, Function::read(&blob, &fde).unwrap())).collect()
}

/// Replaces the first SFrame section by these functions, as a derived section.
fn plant(input: &mut Input<'_>, functions: &[(u64, Function)]) {
    let section = &mut input.sframe[0];
    let options = Options::new(input.abi.unwrap());
    let written = write_sorted(options, section.address, functions).unwrap();
    assert_eq!(written.left_out, []);
    section.data = Cow::Owned(written.bytes);
    section.derived = true;
}

/// A small generator of random numbers (xorshift), so that every run plants the same errors.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

/// Makes a rule of a row wrong, so that the row gives another frame.
fn spoil(abi: Abi, random: &mut Random, rules: Rules) -> Rules {
    let Rules::Frame(frame) = rules else {
        let frame = Frame {
            cfa: CfaRule::register(abi.stack_pointer(), 16),
            ra: RegisterRule::Saved(Location::at_cfa(-8)),
            fp: RegisterRule::Unchanged,
            mangled: false,
        };
        return Rules::Frame(frame);
    };
    let step = [-64, -16, -8, 8, 16, 64][random.below(6)];
    let moved = |rule| match rule {
        RegisterRule::Saved(Location { base, offset, dereference }) => {
            RegisterRule::Saved(Location { base, offset: offset + step, dereference })
        }
        RegisterRule::Unchanged => RegisterRule::Saved(Location::at_cfa(-8 + step)),
    };
    let other =
        |register| if register == abi.stack_pointer() { abi.frame_pointer() } else { abi.stack_pointer() };
    Rules::Frame(match random.below(6) {
        0 => Frame { cfa: CfaRule { offset: frame.cfa.offset + i64::from(step), ..frame.cfa }, ..frame },
        1 => Frame { cfa: CfaRule { register: other(frame.cfa.register), ..frame.cfa }, ..frame },
        2 => Frame { ra: moved(frame.ra), ..frame },
        3 => Frame { fp: moved(frame.fp), ..frame },
        4 => match frame.fp {
            RegisterRule::Unchanged => Frame { fp: RegisterRule::Saved(Location::in_register(3)), ..frame },
            RegisterRule::Saved(_) => Frame { fp: RegisterRule::Unchanged, ..frame },
        },
        _ => return Rules::Outermost,
    })
}

/// Plants a thousand wrong rows, each alone in a table of functions as compilers make them. Each must be
/// found in the stretch where it was planted.
#[test]
fn every_planted_error_is_found() {
    let program = std::env::current_exe().unwrap();
    let bytes = std::fs::read(program).unwrap();
    let mut input = open_elf("this program", &bytes).unwrap();
    let abi = input.abi.unwrap();
    derived::replace(&mut input, Version::V3).unwrap();
    let all = read(&input.sframe[0].section());
    assert!(all.len() > 2000);
    let mut random = Random(0x5eed_0f5f_4a3e);
    // Each of ten batches spoils a hundred functions, one row in each.
    for _ in 0..10 {
        let mut functions = all.clone();
        let mut planted: Vec<(u64, u64)> = Vec::new();
        while planted.len() < 100 {
            let place = random.below(functions.len());
            let (address, function) = &mut functions[place];
            let pristine = *function == all[place].1;
            if !pristine || function.rows.is_empty() || function.repeat_size.is_some() {
                continue;
            }
            let row = random.below(function.rows.len());
            let start = *address + u64::from(function.rows[row].start);
            function.rows[row].rules = spoil(abi, &mut random, function.rows[row].rules);
            planted.push((start, *address));
        }
        plant(&mut input, &functions);
        let comparison = verify_input(&input, Version::V3).comparison.unwrap();
        for (start, function) in &planted {
            let found = comparison.differences.iter().any(|found| found.range.contains(start));
            assert!(found, "error at {start:#x} in the function at {function:#x} was not found");
        }
        let reported = comparison.wrong.functions;
        assert_eq!(reported, 100, "functions reported that are right");
    }
}

/// Rows of the procedure linkage table repeat, so an error in them is found at every entry.
#[test]
fn errors_in_repeated_rows_are_found() {
    let name = "linked/prog.x86_64.ld2.47";
    let bytes = std::fs::read(fixtures::path(name)).unwrap();
    let mut input = open_elf(name, &bytes).unwrap();
    let mut functions = read(&input.sframe[0].section());
    let (address, function) =
        functions.iter_mut().find(|(_, function)| function.repeat_size.is_some()).unwrap();
    let (address, start, size) = (*address, function.rows[1].start, function.size);
    let Rules::Frame(frame) = &mut function.rows[1].rules else { panic!() };
    frame.cfa.offset += 8;
    plant(&mut input, &functions);
    let comparison = verify_input(&input, Version::V3).comparison.unwrap();
    let wrong: u64 = comparison.differences.iter().map(|found| found.range.end - found.range.start).sum();
    let entries = size / 16;
    assert_eq!(wrong, u64::from(entries * (16 - start)), "{:?}", comparison.differences);
    assert!(comparison.differences.iter().all(|found| found.range.start >= address));
}

/// The same rule in two forms is no difference.
#[test]
fn rules_are_compared_by_what_they_do() {
    let name = "v3-gas2.47/demo.x86_64.o";
    let bytes = std::fs::read(fixtures::path(name)).unwrap();
    let mut input = open_elf(name, &bytes).unwrap();
    let mut functions = read(&input.sframe[0].section());
    let mut changed = 0;
    for (_, function) in &mut functions {
        for row in &mut function.rows {
            let Rules::Frame(frame) = &mut row.rules else { continue };
            // The return address at CFA - 8, expressed by the register that the CFA counts from.
            let offset = frame.cfa.offset as i32 - 8;
            frame.ra = RegisterRule::Saved(Location {
                base: Base::Register(frame.cfa.register),
                offset,
                dereference: true,
            });
            changed += 1;
        }
    }
    assert!(changed > 20);
    plant(&mut input, &functions);
    assert_eq!(kinds(&verify_input(&input, Version::V3)), []);
}

/// SFrame without the key of its signatures is wrong. A compact table without it is not (`COMPACT.md`,
/// "Rules").
#[test]
fn keys_are_compared_where_the_table_keeps_them() {
    let name = "v3-gas2.47/pac_bkey.aarch64.o";
    let bytes = std::fs::read(fixtures::path(name)).unwrap();
    let mut input = open_elf(name, &bytes).unwrap();
    let mut functions = read(&input.sframe[0].section());
    functions.iter_mut().for_each(|(_, function)| function.pauth_key = PauthKey::A);
    plant(&mut input, &functions);
    assert_eq!(kinds(&verify_input(&input, Version::V3)), [DifferenceKind::Key]);
    let address = input.sframe[0].address;
    let table = write_table(input.abi.unwrap(), address, &functions).unwrap().bytes;
    input.sframe.clear();
    input.compact = vec![TableSection { name: ".sframe_compact".into(), data: Cow::Owned(table), address }];
    assert!(compact::expand(&mut input).is_empty());
    let verified = verify_input(&input, Version::V3);
    assert_eq!(kinds(&verified), []);
    assert_eq!(verified.comparison.unwrap().covered.functions, 1);
}

/// The signal return of glibc: its expressions read everything from the saved context.
#[test]
fn signal_frames_are_derived_and_verified() {
    let context = |register: u8, offset: u16| {
        let (low, high) = ((offset & 0x7f) as u8 | 0x80, (offset >> 7) as u8);
        [0x10, register, 3, 0x77, low, high]
    };
    let mut instructions = vec![0x0f, 4, 0x77, 0xa0, 0x01, 0x06];
    for (register, offset) in [(6, 120), (7, 160), (16, 168)] {
        instructions.extend(context(register, offset));
    }
    instructions.resize(instructions.len().next_multiple_of(8) + 7, 0);
    // A CIE "zRS", then an FDE of 9 bytes at 0x1000, for a section at 0x2000.
    let mut eh_frame =
        vec![0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', b'S', 0, 1, 0x78, 16, 1, 0x1b, 0, 0, 0, 0, 0, 0];
    let start = (0x1000u32).wrapping_sub(0x2000 + eh_frame.len() as u32 + 8);
    eh_frame.extend((13 + instructions.len() as u32).to_le_bytes());
    eh_frame.extend((eh_frame.len() as u32).to_le_bytes());
    eh_frame.extend(start.to_le_bytes());
    eh_frame.extend(9u32.to_le_bytes());
    eh_frame.push(0);
    eh_frame.extend(instructions);
    let name = "linked/prog.x86_64.ld2.47";
    let bytes = std::fs::read(fixtures::path(name)).unwrap();
    let mut input = open_elf(name, &bytes).unwrap();
    input.eh_frame = vec![FrameSection { data: Cow::Owned(eh_frame), address: 0x2000 }];
    input.text = std::iter::once(0x1000..0x1009).collect();
    derived::replace(&mut input, Version::V3).unwrap();
    let comparison = verify_input(&input, Version::V3).comparison.unwrap();
    assert_eq!((comparison.differences.len(), comparison.covered.bytes), (0, 9), "{comparison:?}");
    derived::replace(&mut input, Version::V2).unwrap();
    let comparison = verify_input(&input, Version::V2).comparison.unwrap();
    assert_eq!(comparison.uncovered[&Gap::CfaExpression].bytes, 9);
}

/// `.eh_frame` at `address`: an x86-64 CIE, and an FDE for each of these functions, with a second row at byte
/// 4.
fn eh_frame(address: u64, functions: &[Range<u64>]) -> Vec<u8> {
    let mut data =
        vec![0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0];
    for function in functions {
        let place = data.len() as u32;
        let distance = function.start.wrapping_sub(address + u64::from(place) + 8) as u32;
        let size = (function.end - function.start) as u32;
        data.extend([0x14, place + 4, distance, size].iter().flat_map(|word| word.to_le_bytes()));
        data.extend([0, 0x44, 0x0e, 16, 0, 0, 0, 0]);
    }
    data
}

/// Each function overlaps many others. Comparing every FDE with every function would take the square of their
/// number.
#[test]
fn functions_that_overlap_take_no_more_than_their_share() {
    let name = "linked/prog.x86_64.ld2.47";
    let bytes = std::fs::read(fixtures::path(name)).unwrap();
    let mut input = open_elf(name, &bytes).unwrap();
    const COUNT: u64 = 4000;
    let text = input.text[0].start..input.text[0].start + 0x20000;
    input.text = vec![text.clone()];
    let row = |start, offset| Row {
        start,
        rules: Rules::Frame(Frame {
            cfa: CfaRule::register(7, offset),
            ra: RegisterRule::Saved(Location::at_cfa(-8)),
            fp: RegisterRule::Unchanged,
            mangled: false,
        }),
    };
    let one = |number| text.start + 16 * number..text.start + 16 * number + 16;
    let short: Vec<_> = (0..COUNT).map(one).collect();
    let all = text.start..text.start + 16 * COUNT;
    let equal = vec![one(0); COUNT as usize];
    let around: Vec<_> = short.iter().cloned().chain([all.clone()]).collect();
    let nested: Vec<_> = (0..COUNT).map(|number| text.start + number..all.end - number).collect();
    // Functions by `.eh_frame`, functions by SFrame, and whether all of them can be compared.
    for (cfi, functions, whole) in [
        (&short, &short, true),
        (&short, &around, true),
        (&around, &short, true),
        (&equal, &equal, false),
        (&nested, &nested, false),
    ] {
        let function = |range: &Range<u64>| {
            let size = (range.end - range.start) as u32;
            (range.start, Function { size, rows: vec![row(0, 8), row(4, 16)], ..Function::default() })
        };
        let mut blobs = Vec::new();
        for range in functions {
            blobs.resize(blobs.len().next_multiple_of(8), 0);
            let at = input.sframe[0].address + blobs.len() as u64;
            blobs.extend(write_sorted(Options::new(Abi::Amd64), at, &[function(range)]).unwrap().bytes);
        }
        input.sframe[0].data = Cow::Owned(blobs);
        let data = eh_frame(0x1000_0000, cfi);
        input.eh_frame = vec![FrameSection { data: Cow::Owned(data), address: 0x1000_0000 }];
        let steps = input.sframe[0].data.len() + input.eh_frame[0].data.len() + bytes.len().min(0x20000);
        let comparison = verify_input(&input, Version::V3).comparison.unwrap();
        assert_eq!(comparison.cfi.functions, cfi.len() as u64);
        assert!(comparison.stretches <= 2 * steps as u64, "{} {steps}", comparison.stretches);
        assert_eq!(comparison.not_compared.functions == 0, whole);
    }
}

/// SFrame cannot express that a register is lost. So a row there is wrong, and the derivation makes none.
#[test]
fn a_lost_frame_pointer_is_not_an_unchanged_one() {
    let name = "linked/prog.x86_64.ld2.47";
    let bytes = std::fs::read(fixtures::path(name)).unwrap();
    let mut input = open_elf(name, &bytes).unwrap();
    let mut frames = eh_frame(0x2000, std::slice::from_ref(&(0x1000..0x1009)));
    // After the CIE and the fields of the FDE: from byte 4 on, rbp is undefined.
    frames[24 + 17..][..3].copy_from_slice(&[0x44, 0x07, 6]);
    input.eh_frame = vec![FrameSection { data: Cow::Owned(frames), address: 0x2000 }];
    input.eh_frame_hdr = None;
    input.text = std::iter::once(0x1000..0x1009).collect();
    let ra = RegisterRule::Saved(Location { base: Base::Cfa, offset: -8, dereference: true });
    let rules =
        Rules::Frame(Frame { cfa: CfaRule::register(7, 8), ra, fp: RegisterRule::Unchanged, mangled: false });
    let function = Function { size: 9, rows: vec![Row { start: 0, rules }], ..Function::default() };
    plant(&mut input, &[(0x1000, function)]);
    let verified = verify_input(&input, Version::V3);
    assert_eq!(kinds(&verified), [DifferenceKind::FramePointer]);
    assert_eq!(verified.comparison.unwrap().differences[0].range, 0x1004..0x1009);
    derived::replace(&mut input, Version::V3).unwrap();
    let comparison = verify_input(&input, Version::V3).comparison.unwrap();
    assert_eq!(comparison.differences.len(), 0);
    assert_eq!(comparison.uncovered[&Gap::LostFramePointer].bytes, 5);
}
