//! Steps on stacks that are laid out by hand, for every architecture.

use std::collections::BTreeMap;

use sframe_format::unwind::step;
use sframe_format::write::{Function, Options, write_sorted};
use sframe_format::{
    Abi, Base, CfaRule, FileRows, Frame, FrameAddress, Location, Module, ModuleId, RegisterRule, Registers,
    Row, RuleCache, Rules, Source, StackFrame, UnwindError, Unwinder,
};

/// Memory with 8-byte words at these addresses and nothing else.
fn memory(words: &[(u64, u64)]) -> impl FnMut(u64) -> Result<u64, ()> + use<> {
    let words: BTreeMap<u64, u64> = words.iter().copied().collect();
    move |address| words.get(&address).copied().ok_or(())
}

fn saved(offset: i32) -> RegisterRule {
    RegisterRule::Saved(Location::at_cfa(offset))
}

fn frame(cfa: CfaRule, ra: RegisterRule, fp: RegisterRule) -> Rules {
    Rules::Frame(Frame { cfa, ra, fp, mangled: false })
}

#[test]
fn s390x_stack_pointer_lies_160_bytes_below_the_cfa() {
    let rules = frame(CfaRule::register(15, 320), saved(-48), saved(-72));
    let mut registers = Registers::new(0x1000, 7, Some(9));
    let mut read = memory(&[(0x1140 - 48, 0x4444), (0x1140 - 72, 0x5555)]);
    let caller = step(Abi::S390x, &rules, true, false, &mut registers, &mut read);
    assert_eq!(caller, Ok(Some(FrameAddress::ReturnAddress(0x4444))));
    assert_eq!((registers.sp, registers.fp, registers.link), (0x10a0, 0x5555, None));
}

#[test]
fn link_register_serves_the_topmost_frame_only() {
    let rules = frame(CfaRule::register(31, 0), RegisterRule::Unchanged, RegisterRule::Unchanged);
    let mut registers = Registers::new(0x1000, 7, Some(0x4444));
    let caller = step(Abi::AArch64Little, &rules, true, false, &mut registers, &mut memory(&[]));
    assert_eq!(caller, Ok(Some(FrameAddress::ReturnAddress(0x4444))));
    assert_eq!(registers.sp, 0x1000);
    let rules = frame(CfaRule::register(31, 16), RegisterRule::Unchanged, RegisterRule::Unchanged);
    let caller = step(Abi::AArch64Little, &rules, false, false, &mut registers, &mut memory(&[]));
    assert_eq!(caller, Err(UnwindError::Register { register: 30 }));
}

#[test]
fn signed_return_addresses_are_stripped() {
    let rules = Rules::Frame(Frame {
        cfa: CfaRule::register(31, 16),
        ra: saved(-8),
        fp: RegisterRule::Unchanged,
        mangled: true,
    });
    for (stored, expected) in
        [(0x003f_0000_0040_1234, 0x40_1234), (0xffa0_8000_0040_1234, 0xffff_8000_0040_1234)]
    {
        let mut registers = Registers::new(0x1000, 0, None);
        let mut read = memory(&[(0x1008, stored)]);
        let caller = step(Abi::AArch64Little, &rules, true, false, &mut registers, &mut read);
        assert_eq!(caller.unwrap().unwrap().address(), expected);
    }
}

#[test]
fn realigned_stack_is_unwound_through_memory_and_registers() {
    // Before the frame pointer is set up: CFA = r10.
    let early = frame(CfaRule::register(10, 0), saved(-8), RegisterRule::Unchanged);
    let mut others = [None; 17];
    others[10] = Some(0x2000);
    let mut read = memory(&[(0x1ff8, 0x4444)]);
    let mut registers = Registers::new(0x1000, 0x77, None).with_others(&others);
    let caller = step(Abi::Amd64, &early, true, false, &mut registers, &mut read);
    assert_eq!(caller, Ok(Some(FrameAddress::ReturnAddress(0x4444))));
    assert_eq!((registers.sp, registers.get(Abi::Amd64, 10)), (0x2000, None));
    let mut registers = Registers::new(0x1000, 0x77, None);
    let caller = step(Abi::Amd64, &early, true, false, &mut registers, &mut read);
    assert_eq!(caller, Err(UnwindError::Register { register: 10 }));
    // In the body: CFA = *(rbp - 8), the caller's rbp at rbp.
    let at_fp = Location { base: Base::Register(6), offset: 0, dereference: true };
    let cfa = CfaRule { register: 6, dereference: true, offset: -8 };
    let body = frame(cfa, saved(-8), RegisterRule::Saved(at_fp));
    let mut read = memory(&[(0x1ff8, 0x4444), (0x10f8, 0x2000), (0x1100, 0x2222)]);
    let mut registers = Registers::new(0x1000, 0x1100, None);
    let caller = step(Abi::Amd64, &body, false, false, &mut registers, &mut read);
    assert_eq!(caller, Ok(Some(FrameAddress::ReturnAddress(0x4444))));
    assert_eq!((registers.sp, registers.fp), (0x2000, 0x2222));
}

#[test]
fn a_frame_that_does_not_lead_upwards_ends_the_walk() {
    let rules = frame(CfaRule::register(6, 0), saved(-8), RegisterRule::Unchanged);
    let mut registers = Registers::new(0x1000, 0x900, None);
    let before = registers;
    let caller = step(Abi::Amd64, &rules, false, false, &mut registers, &mut memory(&[(0x8f8, 1)]));
    assert_eq!(caller, Err(UnwindError::NoProgress { sp: 0x1000, caller_sp: 0x900 }));
    assert_eq!(registers, before);
    // From a signal stack, a step may lead down.
    let caller = step(Abi::Amd64, &rules, false, true, &mut registers, &mut memory(&[(0x8f8, 1)]));
    assert_eq!(caller, Ok(Some(FrameAddress::InstructionPointer(1))));
}

#[test]
fn stale_frame_pointer_rule_after_the_pop_is_forgiven() {
    let rules = frame(CfaRule::register(7, 8), saved(-8), saved(-16));
    let mut registers = Registers::new(0x1000, 0x77, None);
    let caller = step(Abi::Amd64, &rules, true, false, &mut registers, &mut memory(&[(0x1000, 0x4444)]));
    assert_eq!(caller, Ok(Some(FrameAddress::ReturnAddress(0x4444))));
    assert_eq!(registers.fp, 0x77);
    let mut registers = Registers::new(0x1000, 0x77, None);
    let caller = step(Abi::Amd64, &rules, false, false, &mut registers, &mut memory(&[(0x1000, 0x4444)]));
    assert_eq!(caller, Err(UnwindError::Memory { address: 0xff8 }));
}

/// Three functions: a leaf, one with a frame pointer, and an outermost one. They are loaded 0x10000 above
/// their own addresses.
fn module() -> Module<Vec<u8>> {
    let leaf = frame(CfaRule::register(7, 8), saved(-8), RegisterRule::Unchanged);
    let body = frame(CfaRule::register(6, 16), saved(-8), saved(-16));
    let function = |rules| Function { size: 16, rows: vec![Row { start: 0, rules }], ..Function::default() };
    let functions =
        [(0x1000, function(leaf)), (0x1010, function(body)), (0x1020, function(Rules::Outermost))];
    let bytes = write_sorted(Options::new(Abi::Amd64), 0x5000, &functions).unwrap().bytes;
    Module::new(ModuleId(1), 0x1_1000..0x1_2000, 0x1_0000, FileRows::new(bytes, 0x5000))
}

#[test]
fn whole_stacks_are_unwound_with_and_without_the_cache() {
    let mut unwinder = Unwinder::new(Abi::Amd64);
    unwinder.add_module(module());
    // The return address of the second frame is the first byte after its caller, because the call was the
    // caller's last instruction.
    let words = [(0x8000, 0x1_1018), (0x8020, 0), (0x8028, 0x1_1030)];
    let mut cache: RuleCache = RuleCache::new();
    for round in 0..2 {
        let registers = Registers::new(0x8000, 0x8020, None);
        let frames: Vec<_> = unwinder.iter_frames(0x1_1004, registers, &mut cache, memory(&words)).collect();
        let expected = [
            Ok(StackFrame { address: FrameAddress::InstructionPointer(0x1_1004), source: Source::Topmost }),
            Ok(StackFrame { address: FrameAddress::ReturnAddress(0x1_1018), source: Source::Sframe }),
            Ok(StackFrame { address: FrameAddress::ReturnAddress(0x1_1030), source: Source::Sframe }),
        ];
        assert_eq!(frames, expected);
        assert_eq!(cache.statistics(), (3 * round, 3));
    }
    let outside = unwinder.iter_frames(0x1_1040, Registers::new(0, 0, None), &mut cache, memory(&[]));
    assert_eq!(
        outside.last(),
        Some(Err(UnwindError::NoInformation { address: 0x1_1040, module: Some(ModuleId(1)) }))
    );
}

#[test]
fn a_new_module_replaces_overlapping_ones() {
    let mut unwinder = Unwinder::new(Abi::Amd64);
    unwinder.add_module(module());
    unwinder.add_module(Module::new(ModuleId(2), 0x1_1800..0x1_3000, 0, FileRows::default()));
    assert!(unwinder.module_at(0x1_1000).is_none());
    assert_eq!(unwinder.module_at(0x1_1800).unwrap().id(), ModuleId(2));
    unwinder.remove_module(0x1_1800);
    assert!(unwinder.module_at(0x1_1800).is_none());
}
