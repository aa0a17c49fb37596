//! Walks one stack, with the registers and the copy of the stack's top.

use crate::code::switch::{Switch, Thread};
use crate::extents::{LAST_OF_THREAD, SCHEDULER};
use crate::files::{FileId, Files};
use crate::process::{Last, Place, Process};
use crate::red_zone::step_without;
use crate::saved::Trail;
use crate::stack_memory::Stack;
use crate::statistics::End;
pub use crate::step::SLOTS;
use crate::step::step;
use sframe_format::signal::interrupted_at;
use sframe_format::unwind::step as step_by_rules;
use sframe_format::{Abi, FrameAddress, Registers, RuleCache, Rules, Source, StackFrame, UnwindError};

/// The largest number of frames of a stack. A walk in circles ends here.
const MAX_FRAMES: usize = 100_000;
/// The code of a program's entry has fewer bytes than this.
const MAX_ENTRY_SIZE: u64 = 128;
/// Functions in which a new thread starts, with 0 for its return address.
const THREAD_STARTS: [&[u8]; 4] = [b"clone", b"__clone", b"clone3", b"__clone3"];
/// Functions of Go that go on on a thread's own stack, call a function there, and return to the goroutine.
const SWITCHES: [&[u8]; 3] = [b"runtime.systemstack", b"runtime.asmcgocall", b"runtime.cgocallback"];

/// A frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The address where it was found.
    pub address: u64,
    /// What is there. For a return address, the place of the call before it.
    pub place: Place,
    /// Whether it is a return address.
    pub returns: bool,
    /// How it was found. `None`: it was recorded.
    pub source: Option<Source>,
}

/// The most frames that stacks of so many bytes together can have: every frame except the topmost ones has a
/// word of its own there. A walk in circles ends with them.
pub fn most_frames(bytes: usize) -> usize {
    2 + bytes / size_of::<u64>()
}

/// Walks outwards from the instruction at `pc`, and adds a frame for each step, up to the number `most`.
pub fn walk(
    process: &Process,
    files: &Files,
    cache: &mut RuleCache<SLOTS>,
    (frames, most): (&mut Vec<Frame>, usize),
    start: (u64, &Registers),
    stack: &mut impl Stack,
) -> End {
    let before = frames.len();
    let end = walk_from(process, files, cache, (&mut *frames, most), start, stack);
    // A caller that was found there is whatever lies above the new stack.
    if frames.len() <= before + 2 && is_new_thread(process, files, start) {
        frames.truncate(before + 1);
        return End::Root;
    }
    end
}

/// What a signal handler has interrupted, if the thread is in the system call that ends the handler. No row
/// is for the address behind that call, to which it never returns.
#[cold]
fn end_of_handler(
    process: &Process,
    pc: u64,
    registers: &mut Registers,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<StackFrame> {
    /// `mov $15, %rax; syscall`. Other machines' rows hold for all of the trampoline.
    const TRAMPOLINE: u64 = 9;
    let abi = process.unwinder().abi();
    let start = pc.checked_sub(TRAMPOLINE).filter(|_| abi == Abi::Amd64)?;
    let (interrupted, then) = interrupted_at(abi, start, registers, read)?.ok()?;
    *registers = then;
    let address = FrameAddress::InstructionPointer(interrupted);
    Some(StackFrame { address, source: Source::SignalContext })
}

/// Whether a thread has not left the system call yet that has made it. There it has the call's result, 0, and
/// an empty stack; what describes the code holds for the thread that has made the call.
#[cold]
fn is_new_thread(process: &Process, files: &Files, (pc, registers): (u64, &Registers)) -> bool {
    let abi = process.unwinder().abi();
    let result = match abi {
        Abi::Amd64 | Abi::AArch64Little | Abi::AArch64Big => 0,
        Abi::S390x => 2,
    };
    let Place::File(file, own) = process.place(pc) else { return false };
    registers.get(abi, result) == Some(0) && starts_thread(files, file, own)
}

/// A walk along one stack, in the frame that it has reached.
struct Walk<'a> {
    process: &'a Process,
    files: &'a Files,
    at: FrameAddress,
    /// How the frame was found.
    source: Source,
    registers: Registers,
    /// Steps from the topmost frame.
    steps: usize,
    /// Whether a step was a guess. All further callers must then be behind a call.
    guessed: bool,
    /// The frame whose caller this is, if nobody has looked yet whether it is behind a call.
    doubted: Option<FrameAddress>,
    trail: Trail<'a>,
    thread: Thread,
}

impl<'a> Walk<'a> {
    fn new(
        within: (&'a Process, &'a Files),
        (pc, registers): (u64, &'a Registers),
        base: Option<u64>,
    ) -> Self {
        Self {
            process: within.0,
            files: within.1,
            at: FrameAddress::InstructionPointer(pc),
            source: Source::Topmost,
            registers: *registers,
            steps: 0,
            guessed: false,
            doubted: None,
            trail: Trail::new(pc, registers),
            thread: Thread { base, last: None },
        }
    }

    /// Goes on to a caller that was looked at.
    #[inline(always)]
    fn enter(&mut self, at: FrameAddress, source: Source) {
        (self.at, self.source) = (at, source);
        self.steps += 1;
    }

    /// Goes on to the caller that rows lead to.
    #[inline(always)]
    fn follow(&mut self, caller: StackFrame) {
        self.guessed |= is_guess(caller.source);
        self.doubted = self.guessed.then_some(self.at);
        self.enter(caller.address, caller.source);
    }

    /// Goes on to a caller that was guessed.
    fn guess(&mut self, caller: FrameAddress, source: Source) {
        self.guessed = true;
        self.enter(caller, source);
    }

    /// Goes on to the caller, by whatever there is. `frames` are the frames so far, and `in_kernel` says that
    /// the thread was in a system call.
    ///
    /// # Errors
    /// Why the walk ends.
    #[cold]
    #[inline(never)]
    fn step<S: Stack>(
        &mut self,
        cache: &mut RuleCache<SLOTS>,
        stack: &mut S,
        frames: &[Frame],
        in_kernel: bool,
    ) -> Result<(), End> {
        let (process, files, at) = (self.process, self.files, self.at);
        let mut read =
            |address: u64| stack.word(address).or_else(|| code_word(process, files, address)).ok_or(());
        if self.steps == 0
            && in_kernel
            && let Some(interrupted) = end_of_handler(process, at.address(), &mut self.registers, &mut read)
        {
            self.follow(interrupted);
            return Ok(());
        }
        let mut stepped = step(process, files, at, &mut self.registers, cache, &mut read);
        if let Err(UnwindError::Register { register }) = stepped
            && self.steps > 0
        {
            let value = self.trail.value_after((process, files), cache, self.steps, register, &mut read);
            self.registers.set(process.unwinder().abi(), register, value.ok_or(End::Register)?);
            stepped = step(process, files, at, &mut self.registers, cache, &mut read);
        }
        let error = match stepped {
            Ok(Some(caller)) => {
                self.follow(caller);
                return Ok(());
            }
            Ok(None) => return Err(end_of_stack(process, files, at, self.guessed)),
            Err(error) => error,
        };
        let found = match error {
            UnwindError::Memory { address: missing } if self.steps == 0 => {
                let within = (process, files);
                step_without(missing, within, at.address(), &mut self.registers, cache, &mut read)
                    // An old word of the stack may have led here.
                    .filter(|&caller| is_plausible(process, files, caller))
                    .map(|caller| (caller, Source::EhFrame))
            }
            _ => self.caller_by_other_means(error, frames, &mut read),
        };
        if let Some((caller, source)) = found {
            self.guess(caller, source);
            return Ok(());
        }
        let end = end_of(error, files, process, at, stack);
        let interrupted = self.steps > 0 && matches!(at, FrameAddress::InstructionPointer(_));
        let elsewhere = interrupted && end == End::Memory && stack.word(self.registers.sp).is_none();
        // A handler on a stack of its own has interrupted what ran on another one.
        Err(if elsewhere { End::OtherStack } else { end })
    }

    /// The caller where no rows hold.
    fn caller_by_other_means(
        &mut self,
        error: UnwindError,
        frames: &[Frame],
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<(FrameAddress, Source)> {
        let (within, at, registers) = ((self.process, self.files), self.at, &mut self.registers);
        caller_on_other_stack(within, at, frames, registers, &mut self.thread, read)
            .or_else(|| caller_of_aligned(error, within, at, registers, read))
            .or_else(|| caller_of_made(error, within, at, registers, read))
    }
}

fn walk_from(
    process: &Process,
    files: &Files,
    cache: &mut RuleCache<SLOTS>,
    (frames, most): (&mut Vec<Frame>, usize),
    start: (u64, &Registers),
    stack: &mut impl Stack,
) -> End {
    let most = frames.len() + most.min(MAX_FRAMES);
    let in_kernel = matches!(frames.last(), Some(Frame { place: Place::Kernel(_), .. }));
    let (mut walk, mut last) = (Walk::new((process, files), start, stack.thread()), Last::default());
    while frames.len() < most {
        let at = walk.at;
        let mut place = process.place_after(&mut last, at.lookup_address());
        if let Some(callee) = walk.doubted.take()
            && !is_plausible_at(process, files, at, place)
        {
            return no_rows(process, files, callee);
        }
        if let Place::Anonymous(pid, _) = place
            && let Some(method) = interpreted((process, files), at, pid, &walk.registers, stack)
        {
            place = Place::Anonymous(pid, method);
        }
        let returns = matches!(at, FrameAddress::ReturnAddress(_));
        frames.push(Frame { address: at.address(), place, returns, source: Some(walk.source) });
        // Rows do not know that a thread may be at the end of a handler in the kernel.
        let known = if walk.steps == 0 && in_kernel {
            None
        } else {
            let mut read = |address: u64| stack.word(address).ok_or(());
            process.unwinder().unwind_known(at, &mut walk.registers, cache, &mut read)
        };
        match known {
            Some(caller) => walk.follow(caller),
            None => {
                if let Err(end) = walk.step(cache, stack, frames, in_kernel) {
                    return end;
                }
            }
        }
    }
    End::TooDeep
}

/// The address of the method that an interpreter runs, by which its frames are told apart.
#[cold]
fn interpreted(
    (process, files): (&Process, &Files),
    at: FrameAddress,
    pid: u32,
    registers: &Registers,
    stack: &mut impl Stack,
) -> Option<u64> {
    let (address, topmost) = (at.lookup_address(), matches!(at, FrameAddress::InstructionPointer(_)));
    let object = files.jit_object(pid, process.unwinder().modules(), address)?;
    let mut read = |place| stack.word(place).ok_or(());
    let method = object.hotspot()?.method_at(address, topmost, registers, &mut read)?;
    files.has_method(pid, method).then_some(method)
}

/// The caller of code that the program made while it ran. Behind a call, instructions tell more than a frame
/// pointer that may be another frame's. An instruction that runs may be anywhere, and the code after it may
/// lead to many returns.
#[cold]
fn caller_of_made(
    error: UnwindError,
    within: (&Process, &Files),
    at: FrameAddress,
    registers: &mut Registers,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<(FrameAddress, Source)> {
    let UnwindError::NoInformation { address, .. } = error else { return None };
    let pid = within.0.maker_at(address, within.1)?;
    if matches!(at, FrameAddress::ReturnAddress(_)) {
        caller_by_instructions(within, (pid, at), registers, read)
            .or_else(|| caller_of_jit(within, (pid, at), registers, read))
    } else {
        caller_of_jit(within, (pid, at), registers, read)
            .or_else(|| caller_by_instructions(within, (pid, at), registers, read))
            .or_else(|| caller_of_entry(within, (pid, at), registers, read))
    }
}

/// The caller of code that runs its first instruction: the call in front of the return address leads there.
/// Nothing else tells of stubs that jump to another function.
fn caller_of_entry(
    (process, files): (&Process, &Files),
    (pid, at): (u32, FrameAddress),
    registers: &mut Registers,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<(FrameAddress, Source)> {
    let top = read(registers.sp).ok().filter(|_| process.unwinder().abi() == Abi::Amd64)?;
    files.ask_made_code(pid, |code| code.calls(top, at.address()).then_some(()))?;
    registers.sp = registers.sp.wrapping_add(size_of::<u64>() as u64);
    Some((FrameAddress::ReturnAddress(top), Source::Instructions))
}

/// The caller of code that nothing describes, by what its instructions do to the stack.
fn caller_by_instructions(
    (process, files): (&Process, &Files),
    (pid, at): (u32, FrameAddress),
    registers: &mut Registers,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<(FrameAddress, Source)> {
    let topmost = matches!(at, FrameAddress::InstructionPointer(_));
    let rules = files.ask_made_code(pid, |code| code.rules_at(at.address(), !topmost))?;
    let before = *registers;
    let abi = process.unwinder().abi();
    let caller = step_by_rules(abi, &rules, topmost, false, registers, read).ok().flatten();
    let caller = caller.filter(|&caller| is_plausible(process, files, caller));
    if caller.is_none() {
        *registers = before;
    }
    Some((caller?, Source::Instructions))
}

/// The caller of code that the program made while it ran. No file describes such code, but most compilers
/// keep a frame pointer in it. If they do not, the word in the place of the return address is hardly an
/// address of code.
#[cold]
fn caller_of_jit(
    (process, files): (&Process, &Files),
    (pid, at): (u32, FrameAddress),
    registers: &mut Registers,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<(FrameAddress, Source)> {
    let object = files.jit_object(pid, process.unwinder().modules(), at.lookup_address());
    let topmost = matches!(at, FrameAddress::InstructionPointer(_));
    let keeps_none = match &object {
        Some(object) => object.hotspot().is_some_and(|frame| !frame.may_have_frame_pointer(topmost)),
        // What a virtual machine does not know is gone by now, and was like the rest.
        None => files.has_virtual_machine(pid),
    };
    if keeps_none {
        return None;
    }
    let is_code = |address: u64| matches!(process.place(address), Place::File(..) | Place::Anonymous(..));
    let before = *registers;
    if topmost {
        // At its first and its last instruction, it has the frame pointer of its caller, which leads to the
        // caller's caller. What is on the top of the stack then is a return address; or else the caller's
        // frame pointer that was just pushed, with the return address above.
        let top = read(registers.sp).ok()?;
        if is_code(top.wrapping_sub(1)) {
            return None;
        }
        if top == registers.fp {
            registers.fp = registers.sp;
        }
    }
    let caller = process.unwinder().step_by_frame_pointer(registers, read).ok().flatten();
    let caller = caller.filter(|caller| is_code(caller.lookup_address()));
    if caller.is_none() {
        *registers = before;
    }
    Some((caller?, Source::FramePointer))
}

/// The caller of a function that has made a call on another stack.
#[cold]
fn caller_on_other_stack(
    (process, files): (&Process, &Files),
    at: FrameAddress,
    frames: &[Frame],
    registers: &mut Registers,
    thread: &mut Thread,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<(FrameAddress, Source)> {
    let FrameAddress::ReturnAddress(_) = at else { return None };
    let Place::File(file, own) = process.place(at.lookup_address()) else { return None };
    let back = files.get(file)?.way_back(own.wrapping_add(1))?;
    if back.pc.is_some() && has_scheduled(files, frames) {
        return None;
    }
    let before = (*registers, *thread);
    let caller = back.follow(registers, thread, |address| read(address).ok());
    if let Some(caller) = caller.filter(|&caller| is_plausible(process, files, caller)) {
        return Some((caller, Source::Instructions));
    }
    (*registers, *thread) = before;
    None
}

/// The caller of a function that nothing describes, that has aligned its stack: a word of its frame leads to
/// where the stack was before.
#[cold]
fn caller_of_aligned(
    error: UnwindError,
    (process, files): (&Process, &Files),
    at: FrameAddress,
    registers: &mut Registers,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<(FrameAddress, Source)> {
    let UnwindError::NoInformation { module: Some(_), .. } = error else { return None };
    let FrameAddress::ReturnAddress(_) = at else { return None };
    let Place::File(file, own) = process.place(at.lookup_address()) else { return None };
    let back = files.get(file)?.aligned_at(own.wrapping_add(1))?;
    let before = *registers;
    let caller = back.follow(registers, &mut Thread::default(), |address| read(address).ok());
    // The frame before has a place above this one, as far as an aligned stack may be.
    let above = registers.sp > before.sp;
    if let Some(caller) = caller.filter(|&caller| above && is_plausible(process, files, caller)) {
        return Some((caller, Source::Instructions));
    }
    *registers = before;
    None
}

/// Whether a stack ends with its last frame so far, since its scheduler has run.
pub fn ends_after_scheduling(files: &Files, frames: &[Frame]) -> bool {
    let Some(&Frame { place: Place::File(file, own), returns: true, .. }) = frames.last() else {
        return false;
    };
    let switches = files.table(file).map_or(&[][..], |table| &table.switches);
    let switch = switches.iter().find(|switch| switch.at == own.wrapping_add(1));
    let stores = |switch: &Switch| switch.back.as_ref().is_some_and(|back| back.pc.is_some());
    switch.is_some_and(stores) && has_scheduled(files, frames)
}

/// Whether a thread's own stack has run the scheduler of Go: it may by now have chosen another goroutine than
/// that which needed a larger stack.
fn has_scheduled(files: &Files, frames: &[Frame]) -> bool {
    let is_scheduler = |frame: &Frame| {
        let Place::File(file, own) = frame.place else { return false };
        let name = files.get(file).and_then(|file| file.symbols().at(own).map(|at| file.symbols().name(at)));
        name == Some(SCHEDULER)
    };
    frames.iter().any(is_scheduler)
}

/// The word at an address of a mapped file. Trampolines are recognised by their instructions.
#[cold]
fn code_word(process: &Process, files: &Files, address: u64) -> Option<u64> {
    let Place::File(file, own) = process.place(address) else { return None };
    files.get(file)?.image().ok()?.word(own)
}

/// Whether nothing but instructions or a frame pointer led to a frame. Then it may be wrong.
fn is_guess(source: Source) -> bool {
    matches!(source, Source::Instructions | Source::FramePointer)
}

/// Whether an address may be that of a caller: it is in code, and a call is before it. Instructions that
/// cannot be read may be anything. No call leads to a function that has no caller.
pub fn is_plausible(process: &Process, files: &Files, at: FrameAddress) -> bool {
    is_plausible_at(process, files, at, process.place(at.lookup_address()))
}

/// The same for an address of which it is known what is there.
fn is_plausible_at(process: &Process, files: &Files, at: FrameAddress, place: Place) -> bool {
    let FrameAddress::ReturnAddress(address) = at else { return true };
    match place {
        Place::File(file, own) => {
            files.may_be_behind_call(file, own.wrapping_add(1)) || is_outermost(process, address - 1)
        }
        Place::Anonymous(..) => true,
        _ => false,
    }
}

/// Whether rows say that the code at an address has no caller.
fn is_outermost(process: &Process, address: u64) -> bool {
    rules_at(process, address).is_some_and(|(rules, _)| rules == Rules::Outermost)
}

fn rules_at(process: &Process, address: u64) -> Option<(Rules, Source)> {
    let module = process.unwinder().module_at(address)?;
    let found = module.rows().rules_at(address.wrapping_sub(module.bias())).ok()?;
    found.map(|(rules, source)| (rules.rules, source))
}

/// Why a walk ended in a frame without a caller. Its rows may say that it has none. Or its return address is
/// zero: that is the end of the stack if a file's own description led there, or if the code is known to start
/// threads. Otherwise, the walk may have read any word of the stack.
#[cold]
pub fn end_of_stack(process: &Process, files: &Files, at: FrameAddress, guessed: bool) -> End {
    match rules_at(process, at.lookup_address()) {
        Some((Rules::Outermost, _)) => return End::Root,
        Some((_, source)) if guessed || is_guess(source) => {}
        // No row, and yet a step: call frame information has led to the end.
        _ if !guessed => return End::Root,
        _ => {}
    }
    let Place::File(file, own) = process.place(at.lookup_address()) else {
        return no_rows(process, files, at);
    };
    if starts_thread(files, file, own) { End::Root } else { no_rows(process, files, at) }
}

/// Whether the code at an address is that in which new threads start.
fn starts_thread(files: &Files, file: FileId, own: u64) -> bool {
    let name = || {
        let symbols = files.get(file)?.symbols();
        Some(symbols.name(symbols.at(own)?))
    };
    name().is_some_and(|name| THREAD_STARTS.contains(&name))
}

/// The end of a walk in code of which too little is known.
fn no_rows(process: &Process, files: &Files, at: FrameAddress) -> End {
    match process.place(at.lookup_address()) {
        Place::File(file, own) => switched(files, (file, own), at).unwrap_or(End::NoRows(file)),
        Place::Anonymous(..) => End::Jit,
        _ => End::Unmapped,
    }
}

/// The end of a walk in a function of Go that has called another one on another stack. The first instructions
/// of such a function run on the stack of its caller, but nothing returns there.
pub fn switched(files: &Files, (file, own): (FileId, u64), at: FrameAddress) -> Option<End> {
    let FrameAddress::ReturnAddress(_) = at else { return None };
    let symbols = files.get(file)?.symbols();
    let name = symbols.name(symbols.at(own)?);
    let name = name.strip_suffix(b".abi0").unwrap_or(name);
    if LAST_OF_THREAD.contains(&name) {
        return Some(End::Root);
    }
    let switches = SWITCHES.contains(&name) || files.get(file)?.way_back(own.wrapping_add(1)).is_some();
    switches.then_some(End::OtherStack)
}

/// Whether an address without rows is in the code where the kernel starts a program. That code has no caller.
/// In the dynamic linker, it is written in assembly without call frame information.
fn is_entry(files: &Files, file: FileId, own: u64) -> bool {
    let entry = files.get(file).and_then(|file| Some(file.image().ok()?.entry()));
    entry.is_some_and(|entry| own.wrapping_sub(entry) < MAX_ENTRY_SIZE)
}

/// Whether a walk has reached the code to which `makecontext` makes functions return. Nobody has called it,
/// and the address is that of its first instruction. glibc's has CFI for its own calls alone; it begins with
/// `mov %rbx,%rsp`. In other C libraries, it has no caller according to CFI.
fn is_end_of_context(process: &Process, files: &Files, (file, own): (FileId, u64), at: FrameAddress) -> bool {
    const MOV_RBX_RSP: u64 = 0xdc_8948;
    let Some(image) = files.get(file).and_then(|file| file.image().ok()) else { return false };
    let first = image.word(own.wrapping_add(1)).filter(|_| image.abi() == Abi::Amd64);
    is_outermost(process, at.address()) || first.is_some_and(|word| word & 0xff_ffff == MOV_RBX_RSP)
}

/// Why a walk ended.
#[cold]
fn end_of(error: UnwindError, files: &Files, process: &Process, at: FrameAddress, stack: &impl Stack) -> End {
    match error {
        UnwindError::NoInformation { module: Some(id), .. } => {
            let file = FileId(id.0 as u32);
            match process.place(at.lookup_address()) {
                Place::File(_, own) => switched(files, (file, own), at).unwrap_or_else(|| {
                    let is_last =
                        is_entry(files, file, own) || is_end_of_context(process, files, (file, own), at);
                    if is_last { End::Root } else { End::NoRows(file) }
                }),
                _ => End::NoRows(file),
            }
        }
        UnwindError::NoInformation { module: None, address } => match process.place(address) {
            Place::Anonymous(..) => End::Jit,
            _ => End::Unmapped,
        },
        UnwindError::Malformed(_) => match process.place(at.lookup_address()) {
            Place::File(file, _) => End::Malformed(file),
            _ => End::Unmapped,
        },
        UnwindError::Memory { address } => stack.lacks(address),
        UnwindError::Register { .. } => End::Register,
        _ => End::NoProgress,
    }
}
