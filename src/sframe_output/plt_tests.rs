//! Executes the linker's own code instruction by instruction, and compares the stack with the rows that
//! describe it.
//!
//! The tests write every table that a machine can have. A small decoder knows what each instruction does to
//! the stack. It knows only the instructions of the tables, so a new instruction fails here until someone
//! adds its effect.

use super::plt::{function_of, row_of};
use super::thunks::FRAME;
use crate::arch::target::{PltEntry, PltPart, PltShape};
use crate::arch::thunk::ThunkForm;
use crate::arch::{ForTarget, Target, dispatch};
use crate::cli::{Gcs, Machine, PropertyOptions, Report};
use crate::sframe::abi;
use sframe_format::write::{Encoder, Function, Options};
use sframe_format::{Blob, CfaRule, Frame, Location, RegisterRule, Rules, Version};

const PLT: u64 = 0x40_1000;
const SLOT: u64 = 0x40_8018;
/// Number of entries of a series that the test checks. The last one shows whether they repeat.
const ENTRIES: u64 = 3;

/// The effect of an instruction on the stack.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Effect {
    /// The stack stays.
    Nothing,
    /// The stack grows by this many bytes.
    Push(i64),
    /// The same. The return address is this many bytes above the new stack pointer.
    Save(i64, i64),
    /// The code continues elsewhere.
    Jump,
}

/// Length in bytes and effect of an instruction of x86-64.
fn step_x86_64(code: &[u8]) -> (usize, Effect) {
    match code {
        [0xf3, 0x0f, 0x1e, 0xfa, ..] => (4, Effect::Nothing),
        [0xff, 0x35, ..] => (6, Effect::Push(8)),
        [0x68, ..] => (5, Effect::Push(8)),
        [0xff, 0x25, ..] => (6, Effect::Jump),
        [0xe9, ..] => (5, Effect::Jump),
        _ => panic!("an instruction nobody has explained: {code:02x?}"),
    }
}

fn step_aarch64(code: &[u8]) -> (usize, Effect) {
    const LINK: u32 = 30;
    const STACK: u32 = 31;
    let word = u32::from_le_bytes(*code.first_chunk().unwrap());
    let (first, base, second) = (word & 31, word >> 5 & 31, word >> 10 & 31);
    let is_general = |register: u32| register < LINK;
    let effect = match word {
        // bti c, autia1716
        0xd503_245f | 0xd503_219f => Effect::Nothing,
        // br; b
        _ if word & 0xffff_fc1f == 0xd61f_0000 || word & 0xfc00_0000 == 0x1400_0000 => Effect::Jump,
        // stp, 64 bits, pre-indexed
        _ if word & 0xffc0_0000 == 0xa980_0000 && base == STACK => {
            let offset = i64::from((word << 10) as i32 >> 25) * 8;
            match (first, second) {
                (LINK, _) => Effect::Save(-offset, 0),
                (_, LINK) => Effect::Save(-offset, 8),
                _ => Effect::Push(-offset),
            }
        }
        // adr, adrp; ldr with an offset; movz, movk; add of a number, or of a register
        _ if word & 0x1f00_0000 == 0x1000_0000 && is_general(first) => Effect::Nothing,
        _ if word & 0xffc0_0000 == 0xf940_0000 && is_general(first) => Effect::Nothing,
        _ if word & 0xdf80_0000 == 0xd280_0000 && is_general(first) => Effect::Nothing,
        _ if word & 0xff80_0000 == 0x9100_0000 && is_general(first) => Effect::Nothing,
        _ if word & 0xffe0_0000 == 0x8b00_0000 && is_general(first) => Effect::Nothing,
        _ => panic!("an instruction nobody has explained: {word:08x}"),
    };
    (4, effect)
}

fn step_s390x(code: &[u8]) -> (usize, Effect) {
    const LINK: u8 = 14;
    let register = code[1] >> 4;
    let is_general = register < LINK;
    match (code[0], code[1] & 15, code.get(5)) {
        // bcr 15; brcl 15
        (0x07, ..) if register == 15 => (2, Effect::Jump),
        (0xc0, 4, _) if register == 15 => (6, Effect::Jump),
        // larl; basr; lg and lgf; stg: into the caller's frame, where it has room
        (0xc0, 0, _) | (0xe3, _, Some(0x04 | 0x14 | 0x24)) if is_general => (6, Effect::Nothing),
        (0x0d, 0, _) if is_general => (2, Effect::Nothing),
        // mvc: into the caller's frame
        (0xd2, ..) => (6, Effect::Nothing),
        _ => panic!("an instruction nobody has explained: {code:02x?}"),
    }
}

/// The stack, in bytes from its position after the caller's call instruction.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Stack {
    pointer: i64,
    /// Where the return address is. `None`: in its register.
    saved: Option<i64>,
}

/// The state after a call (psABI): DWARF's number of the stack pointer, the distance from there up to the
/// CFA, and the stack.
fn at_call(machine: Machine) -> (u32, i64, Stack) {
    match machine {
        Machine::X86_64 => (7, 8, Stack { pointer: 0, saved: Some(0) }),
        Machine::AArch64 => (31, 0, Stack { pointer: 0, saved: None }),
        Machine::S390x => (15, 160, Stack { pointer: 0, saved: None }),
    }
}

/// The rules that are right for a state of the stack.
fn expected(machine: Machine, stack: Stack) -> Rules {
    let (register, cfa, _) = at_call(machine);
    let saved = |at: i64| RegisterRule::Saved(Location::at_cfa((at - cfa) as i32));
    Rules::Frame(Frame {
        cfa: CfaRule::register(register as _, cfa - stack.pointer),
        ra: stack.saved.map_or(RegisterRule::Unchanged, saved),
        fp: RegisterRule::Unchanged,
        mangled: false,
    })
}

/// Executes `code` from `offset` to its jump, and checks `rules` at each byte of each instruction. Returns
/// the stack at the jump.
fn execute(
    machine: Machine,
    code: &[u8],
    mut offset: usize,
    mut stack: Stack,
    rules: impl Fn(usize) -> Rules,
) -> Stack {
    loop {
        let (length, effect) = match machine {
            Machine::X86_64 => step_x86_64(&code[offset..]),
            Machine::AArch64 => step_aarch64(&code[offset..]),
            Machine::S390x => step_s390x(&code[offset..]),
        };
        for byte in offset..offset + length {
            assert_eq!(rules(byte), expected(machine, stack), "{machine:?} {code:02x?} at {byte}");
        }
        match effect {
            Effect::Nothing => {}
            Effect::Push(bytes) => stack.pointer -= bytes,
            Effect::Save(bytes, at) => {
                stack.pointer -= bytes;
                stack.saved = Some(stack.pointer + at);
            }
            Effect::Jump => return stack,
        }
        offset += length;
    }
}

/// Every shape that options and property notes of inputs can request.
fn shapes<T: Target>() -> Vec<PltShape> {
    let mut found = Vec::new();
    for bits in 0u32..1 << 4 {
        let has = |bit: u32| bits & 1 << bit != 0;
        let options = PropertyOptions {
            ibt: has(0),
            ibt_plt: has(1),
            force_bti: has(2),
            pac_plt: has(3),
            // These do not concern PLTs. The list is complete, so that a new property is a compile error
            // here.
            shstk: false,
            cet_report: Report::Ignore,
            lam_u48: false,
            lam_u57: false,
            lam_u48_report: Report::Ignore,
            lam_u57_report: Report::Ignore,
            x86_64_level: None,
            isa_levels: Default::default(),
            bti_report: Report::Ignore,
            gcs: Gcs::Implicit,
            gcs_report: None,
            gcs_report_dynamic: None,
            pauth_report: Report::Ignore,
            memory_seal: false,
            s390_pgste: false,
        };
        for features in (0..32).map(|bit| 1 << bit).chain([0, u32::MAX]) {
            let shape = T::plt_shape(&options, features);
            if !found.contains(&shape) {
                found.push(shape);
            }
        }
    }
    found
}

/// A blob of one function at [`PLT`], in a version.
fn blob_of<T: Target>(version: Version, function: &Function) -> Vec<u8> {
    let mut encoder = Encoder::new(Options::new(abi::<T>()).version(version));
    let id = encoder.add(function).expect("every version expresses it");
    let mut bytes = vec![0; encoder.size()];
    encoder.write(0, &[(PLT, id)], &mut bytes).unwrap();
    bytes
}

/// Executes an entry or the head, in the blob of each version, at every place of a series.
fn check_part<T: Target>(part: PltPart, shape: &PltShape, code: &[u8], offset: usize, stack: Stack) -> Stack {
    let length = code.len() as u64;
    let (count, repeat) = if part == PltPart::Header { (1, None) } else { (ENTRIES, Some(length)) };
    let function = function_of::<T>(part, shape, (count * length) as u32, repeat);
    let mut end = None;
    for version in [Version::V2, Version::V3] {
        let bytes = blob_of::<T>(version, &function);
        let blob = Blob::parse(&bytes, 0).unwrap();
        for entry in 0..count {
            let row = |byte: usize| {
                let pc = PLT + entry * length + byte as u64;
                blob.lookup(pc).unwrap().expect("a row").row.rules
            };
            let jump = execute(T::MACHINE, code, offset, stack, row);
            assert_eq!(*end.get_or_insert(jump), jump);
        }
    }
    end.unwrap()
}

fn check_shape<T: Target>(shape: &PltShape) {
    let stack = at_call(T::MACHINE).2;
    let mut direct = vec![0; shape.direct_entry as usize];
    T::write_plt_direct(&mut direct, PLT, SLOT, shape);
    check_part::<T>(PltPart::Direct, shape, &direct, 0, stack);

    let entry = PltEntry { plt: PLT, entry: PLT + shape.header, slot: SLOT, index: 0 };
    let mut lazy = vec![0; shape.entry as usize];
    T::write_plt_entry(&mut lazy, entry, shape);
    let mut stack = check_part::<T>(PltPart::Lazy, shape, &lazy, 0, stack);
    // An entry that is not bound continues in its lazy half, or in the head right away.
    if let Some(half) = T::lazy_target(entry, shape).checked_sub(entry.entry)
        && half > 0
    {
        stack = check_part::<T>(PltPart::Lazy, shape, &lazy, half as usize, stack);
    }

    let mut header = vec![0; shape.header as usize];
    T::write_plt_header(&mut header, PLT, SLOT, shape);
    check_part::<T>(PltPart::Header, shape, &header, 0, stack);
}

struct CheckTables;

impl ForTarget for CheckTables {
    type Output = usize;

    fn run<T: Target>(self, _: T) -> usize {
        let shapes = shapes::<T>();
        assert!(shapes.contains(&T::PLT));
        shapes.iter().for_each(check_shape::<T>);
        shapes.len()
    }
}

#[test]
fn rows_of_every_plt_hold_at_every_instruction() {
    assert_eq!(dispatch(Machine::X86_64, CheckTables), 2, "with and without branch tracking");
    assert_eq!(dispatch(Machine::AArch64, CheckTables), 4, "landing pads, authentication, both, neither");
    assert_eq!(dispatch(Machine::S390x, CheckTables), 1);
}

struct CheckThunks;

impl ForTarget for CheckThunks {
    type Output = ();

    fn run<T: Target>(self, _: T) {
        // A moved instruction has the stack of its function.
        for form in [ThunkForm::Near, ThunkForm::Far, ThunkForm::PaddedFar, ThunkForm::LandingPad] {
            let mut code = vec![0; T::thunk_size(form) as usize];
            T::write_thunk(form, &mut code, PLT, PLT + 0x100);
            let stack = at_call(T::MACHINE).2;
            assert_eq!(execute(T::MACHINE, &code, 0, stack, |_| row_of::<T>(&FRAME).rules), stack);
        }
    }
}

#[test]
fn the_row_of_a_thunk_holds_at_every_instruction() {
    dispatch(Machine::AArch64, CheckThunks);
}
