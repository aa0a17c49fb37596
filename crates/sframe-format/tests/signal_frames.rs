//! Stacks through signal handlers, with frames as the Linux kernel lays them out on the three machines.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use sframe_format::write::{Function, Options, write_sorted};
use sframe_format::{
    Abi, Base, CfaRule, FileRows, Frame, FrameAddress, Location, Module, ModuleId, RegisterRule, Registers,
    Row, RuleCache, Rules, Source, UnwindError, Unwinder,
};

const BASE: u64 = 0x40_0000;
/// The handler's stack. It is above the interrupted code's stack, because it is an alternate one.
const HANDLER_SP: u64 = 0x9000;
const FRAME: u64 = HANDLER_SP + 0x100;
const INTERRUPTED_SP: u64 = 0x7000;

/// Offsets in the kernel's frame from the stack pointer at the trampoline: program counter, stack pointer,
/// the link register, the frame pointer, and a register that compilers use for CFAs.
struct Kernel {
    abi: Abi,
    pc: u64,
    sp: u64,
    link: Option<u64>,
    fp: u64,
    scratch: (u32, u64),
    last: u64,
}

const KERNELS: [Kernel; 3] = [
    Kernel { abi: Abi::Amd64, pc: 168, sp: 160, link: None, fp: 120, scratch: (10, 56), last: 168 },
    Kernel {
        abi: Abi::AArch64Little,
        pc: 568,
        sp: 560,
        link: Some(552),
        fp: 544,
        scratch: (9, 384),
        last: 568,
    },
    Kernel { abi: Abi::S390x, pc: 344, sp: 472, link: Some(464), fp: 440, scratch: (9, 424), last: 472 },
];

/// The whole frame, with the words that the unwinder reads set.
fn frame_words(kernel: &Kernel, pc: u64) -> Vec<(u64, u64)> {
    let mut words: BTreeMap<u64, u64> = (0..=kernel.last).step_by(8).map(|at| (FRAME + at, 0x77)).collect();
    words.insert(FRAME + kernel.pc, pc);
    words.insert(FRAME + kernel.sp, INTERRUPTED_SP);
    words.insert(FRAME + kernel.fp, 0x7070);
    words.insert(FRAME + kernel.scratch.1, 0x7100);
    if let Some(link) = kernel.link {
        words.insert(FRAME + link, BASE + 0x34);
    }
    words.into_iter().collect()
}

/// The functions of a program: a handler (16 bytes on x86-64 and AArch64, with its caller at the stack
/// pointer), a leaf that a signal interrupts, the leaf's caller, which is outermost, and the trampoline with
/// rows of this kind.
fn program(kernel: &Kernel, trampoline: Option<Rules>) -> Unwinder<Vec<u8>> {
    let abi = kernel.abi;
    let (sp, bias) = (abi.stack_pointer(), abi.cfa_bias());
    let size = FRAME - HANDLER_SP;
    let saved = |offset| RegisterRule::Saved(Location::at_cfa(offset));
    let rules = |cfa, ra| Rules::Frame(Frame { cfa, ra, fp: RegisterRule::Unchanged, mangled: false });
    let handler = rules(CfaRule::register(sp, size as i64 + bias), saved(-8 - bias as i32));
    // The leaf's return address is in the link register. On x86-64, a scratch register leads to it.
    let leaf = match abi {
        Abi::Amd64 => rules(CfaRule::register(kernel.scratch.0, 0), saved(-8)),
        _ => rules(CfaRule::register(sp, bias), RegisterRule::Unchanged),
    };
    let function = |rules, signal| Function {
        size: 16,
        rows: vec![Row { start: 0, rules }],
        signal,
        ..Function::default()
    };
    let mut functions = vec![
        (BASE + 0x10, function(handler, false)),
        (BASE + 0x20, function(leaf, false)),
        (BASE + 0x30, function(Rules::Outermost, false)),
    ];
    functions.extend(trampoline.map(|rules| (BASE + 0x40, function(rules, true))));
    let bytes = write_sorted(Options::new(abi), 0x9_0000, &functions).unwrap().bytes;
    let mut unwinder = Unwinder::new(abi);
    unwinder.add_module(Module::new(ModuleId(0), BASE..BASE + 0x1000, 0, FileRows::new(bytes, 0x9_0000)));
    unwinder
}

/// Addresses and sources of a walk from the handler, and why the walk stopped.
fn walk(
    kernel: &Kernel,
    unwinder: &Unwinder<Vec<u8>>,
    extra: &[(u64, u64)],
) -> (Vec<(u64, Source)>, Option<UnwindError>) {
    let mut words: BTreeMap<u64, u64> = frame_words(kernel, BASE + 0x24).into_iter().collect();
    words.insert(FRAME - 8, BASE + 0x41);
    words.insert(0x70f8, BASE + 0x34);
    words.extend(extra.iter().copied());
    let mut cache: RuleCache = RuleCache::new();
    let registers = Registers::new(HANDLER_SP, 0, Some(0));
    let read = |address| words.get(&address).copied().ok_or(());
    let (mut found, mut stopped) = (Vec::new(), None);
    for frame in unwinder.iter_frames(BASE + 0x14, registers, &mut cache, read) {
        match frame {
            Ok(frame) => found.push((frame.address.address().wrapping_sub(BASE), frame.source)),
            Err(error) => stopped = Some(error),
        }
    }
    (found, stopped)
}

#[test]
fn an_interrupted_leaf_is_left_on_every_machine() {
    for kernel in &KERNELS {
        let unwinder = program(kernel, Some(Rules::SignalContext));
        let (frames, stopped) = walk(kernel, &unwinder, &[]);
        let expected = [
            (0x14, Source::Topmost),
            (0x41, Source::Sframe),
            (0x24, Source::SignalContext),
            (0x34, Source::Sframe),
        ];
        assert_eq!((frames.as_slice(), stopped), (&expected[..], None), "{}", kernel.abi);
    }
}

#[test]
fn rows_of_the_trampoline_keep_all_registers_that_the_kernel_saved() {
    for kernel in &KERNELS {
        let from = |offset: u64| Location {
            base: Base::Register(kernel.abi.stack_pointer()),
            offset: offset as i32,
            dereference: true,
        };
        let cfa =
            CfaRule { register: kernel.abi.stack_pointer(), dereference: true, offset: kernel.sp as i64 };
        // On s390x, the CFA of the interrupted code is above its stack pointer, and no such row can say that.
        if kernel.abi == Abi::S390x {
            continue;
        }
        let frame = Frame {
            cfa,
            ra: RegisterRule::Saved(from(kernel.pc)),
            fp: RegisterRule::Saved(from(kernel.fp)),
            mangled: false,
        };
        let (frames, stopped) = walk(kernel, &program(kernel, Some(Rules::Frame(frame))), &[]);
        let addresses: Vec<u64> = frames.iter().map(|frame| frame.0).collect();
        assert_eq!((addresses.as_slice(), stopped), (&[0x14, 0x41, 0x24, 0x34][..], None), "{}", kernel.abi);
        assert!(frames[1..].iter().all(|frame| frame.1 == Source::Sframe));
    }
}

#[test]
fn trampolines_without_rows_are_known_by_their_instructions() {
    for (kernel, code) in KERNELS.iter().zip([
        [0x0f00_0000_0fc0_c748, 5],
        [0xd400_0001_d280_1168, 0],
        [0x0aad_0000_0000_0000, 0],
    ]) {
        let at = BASE + 0x41;
        let unwinder = program(kernel, None);
        let (frames, stopped) = walk(kernel, &unwinder, &[(at, code[0]), (at + 8, code[1])]);
        let addresses: Vec<u64> = frames.iter().map(|frame| frame.0).collect();
        assert_eq!((addresses.as_slice(), stopped), (&[0x14, 0x41, 0x24, 0x34][..], None), "{}", kernel.abi);
        assert_eq!(frames[2].1, Source::SignalContext);
        // Other code without rows stops the walk, and the error says where.
        let (frames, stopped) = walk(kernel, &unwinder, &[]);
        assert_eq!(frames.len(), 2);
        let place = UnwindError::NoInformation { address: BASE + 0x40, module: Some(ModuleId(0)) };
        assert_eq!(stopped, Some(place));
    }
}

/// s390x: handlers that do not ask for `siginfo` have a shorter frame and a trampoline of their own, which
/// calls `sigreturn`.
#[test]
fn short_frames_are_known_by_their_trampoline() {
    let (abi, scratch) = (Abi::S390x, (9, 264));
    let kernel = Kernel { abi, pc: 184, sp: 312, link: Some(304), fp: 280, scratch, last: 312 };
    let (frames, stopped) = walk(&kernel, &program(&kernel, None), &[(BASE + 0x41, 0x0a77_0000_0000_0000)]);
    let addresses: Vec<u64> = frames.iter().map(|frame| frame.0).collect();
    assert_eq!((addresses.as_slice(), stopped), (&[0x14, 0x41, 0x24, 0x34][..], None));
    assert_eq!(frames[2].1, Source::SignalContext);
}

#[test]
fn a_call_of_a_null_pointer_is_no_root() {
    let kernel = &KERNELS[0];
    let unwinder = program(kernel, Some(Rules::SignalContext));
    let (frames, stopped) = walk(kernel, &unwinder, &[(FRAME + kernel.pc, 0)]);
    assert_eq!(frames.last().map(|frame| frame.0), Some(0u64.wrapping_sub(BASE)));
    assert_eq!(stopped, Some(UnwindError::NoInformation { address: 0, module: None }));
}

#[test]
fn frame_pointers_are_followed_only_when_asked_for() {
    for abi in [Abi::Amd64, Abi::AArch64Little, Abi::S390x] {
        let mut unwinder: Unwinder<Vec<u8>> = Unwinder::new(abi);
        let words = BTreeMap::from([(0x7100, 0x7200), (0x7108, 0x1234)]);
        let step = |unwinder: &Unwinder<Vec<u8>>| {
            let mut cache: RuleCache = RuleCache::new();
            let mut registers = Registers::new(0x7000, 0x7100, None);
            let mut read = |address| words.get(&address).copied().ok_or(());
            let at = FrameAddress::InstructionPointer(0x5000);
            let frame = unwinder.unwind_frame(at, &mut registers, &mut cache, &mut read);
            frame.map(|frame| frame.map(|frame| (frame.address.address(), frame.source, registers.fp)))
        };
        let nothing = Err(UnwindError::NoInformation { address: 0x5000, module: None });
        assert_eq!(step(&unwinder), nothing);
        unwinder.follow_frame_pointers(true);
        let expected = Ok(Some((0x1234, Source::FramePointer, 0x7200)));
        assert_eq!(step(&unwinder), if abi == Abi::S390x { nothing } else { expected }, "{abi}");
    }
}
