//! Stacks over several modules, with the source of every frame.
//!
//! The rows of a file ([`FileRows`]) are asked first. Code without rows may be the trampoline of a signal
//! handler, which is known by its instructions, or is left by the frame pointer, if the caller wants that.
//! Every frame says how it was found. A walk that stops before the end of the stack says why.
//!
//! A step allocates nothing and takes no lock, so that it may be taken in a signal handler, unless a
//! [`RowSource`](crate::file_rows::RowSource) does.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, Range};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::abi::Abi;
use crate::cache::RuleCache;
use crate::file_rows::FileRows;
use crate::packed::{Kind, Packed};
use crate::rules::{CfaRule, Frame, Location, RegisterRule, Rules, UnwindRules};
use crate::signal::is_trampoline;
use crate::source::Source;
use crate::unwind::{FrameAddress, ModuleId, Registers, UnwindError, step, step_from_context};

/// A loaded file.
#[derive(Debug)]
pub struct Module<D> {
    id: ModuleId,
    range: Range<u64>,
    bias: u64,
    rows: Arc<FileRows<D>>,
}

impl<D> Clone for Module<D> {
    fn clone(&self) -> Self {
        Self { id: self.id, range: self.range.clone(), bias: self.bias, rows: Arc::clone(&self.rows) }
    }
}

impl<D> Module<D> {
    /// A file loaded at the addresses `range`, `bias` bytes above the addresses that the file itself states
    /// (the difference wraps).
    pub fn new(id: ModuleId, range: Range<u64>, bias: u64, rows: impl Into<Arc<FileRows<D>>>) -> Self {
        Self { id, range, bias, rows: rows.into() }
    }

    /// The caller's number for the file.
    pub fn id(&self) -> ModuleId {
        self.id
    }

    /// The addresses it is loaded at.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// What is added to the file's own addresses.
    pub fn bias(&self) -> u64 {
        self.bias
    }

    /// Its rows.
    pub fn rows(&self) -> &Arc<FileRows<D>> {
        &self.rows
    }
}

/// A frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackFrame {
    /// The address where its code goes on.
    pub address: FrameAddress,
    /// How it was found.
    pub source: Source,
}

/// Unwinds stacks over several modules.
#[derive(Debug)]
pub struct Unwinder<D> {
    abi: Abi,
    modules: Vec<Module<D>>,
    /// A number for the list of modules as it is now; no other list in this program has it.
    generation: u64,
    frame_pointers: bool,
}

impl<D> Clone for Unwinder<D> {
    fn clone(&self) -> Self {
        Self {
            abi: self.abi,
            modules: self.modules.clone(),
            generation: self.generation,
            frame_pointers: self.frame_pointers,
        }
    }
}

/// A number that no list of modules had before.
fn next_generation() -> u64 {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) as u64
}

impl<D> Unwinder<D> {
    /// An unwinder without modules, for programs of an architecture.
    pub fn new(abi: Abi) -> Self {
        Self { abi, modules: Vec::new(), generation: next_generation(), frame_pointers: false }
    }

    /// The architecture.
    pub fn abi(&self) -> Abi {
        self.abi
    }

    /// Whether code without rows is left by the frame pointer: x86-64 and AArch64 keep it and the return
    /// address in neighbouring words. Off at first: code that keeps no frame pointer gives wrong frames then.
    pub fn follow_frame_pointers(&mut self, follow: bool) {
        self.frame_pointers = follow;
    }

    /// Adds a module. Modules that its range overlaps are removed first, as a new mapping replaces old ones.
    pub fn add_module(&mut self, module: Module<D>) {
        self.remove_overlapping(module.range());
        let place = self.modules.partition_point(|old| old.range.start < module.range.start);
        self.modules.insert(place, module);
        self.generation = next_generation();
    }

    /// Removes the modules that overlap a range of addresses, because something else was mapped there.
    pub fn remove_overlapping(&mut self, range: Range<u64>) {
        let before = self.modules.len();
        self.modules.retain(|old| old.range.end <= range.start || range.end <= old.range.start);
        if self.modules.len() != before {
            self.generation = next_generation();
        }
    }

    /// Removes the module that was loaded at `start`.
    pub fn remove_module(&mut self, start: u64) {
        self.modules.retain(|module| module.range.start != start);
        self.generation = next_generation();
    }

    /// A number that changes with the list of modules; no other list in this program has it, unless it is a
    /// clone.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The modules, ascending by address.
    pub fn modules(&self) -> &[Module<D>] {
        &self.modules
    }

    /// The module that holds the address.
    #[inline]
    pub fn module_at(&self, address: u64) -> Option<&Module<D>> {
        let place = self.modules.partition_point(|module| module.range.start <= address);
        self.modules.get(place.checked_sub(1)?).filter(|module| address < module.range.end)
    }
}

impl<D: Deref<Target = [u8]>> Unwinder<D> {
    /// The source of the rows that cover an address, if any do. For the outermost frame: its rows lead to no
    /// caller whose [`StackFrame::source`] would tell.
    pub fn source_at(&self, address: FrameAddress) -> Option<Source> {
        let pc = address.lookup_address();
        let module = self.module_at(pc)?;
        let mut rules = UnwindRules { abi: self.abi, signal: false, rules: Rules::Outermost };
        let found = module.rows.find(pc.wrapping_sub(module.bias), &mut rules).ok()?;
        (found != Packed::NO_ROW).then_some(found.source())
    }

    /// Goes from the frame at `address` to its caller; `Ok(None)` is the end of the stack. Nothing is
    /// allocated.
    ///
    /// # Errors
    /// See [`UnwindError`].
    #[inline]
    pub fn unwind_frame<F, const N: usize>(
        &self,
        address: FrameAddress,
        registers: &mut Registers,
        cache: &mut RuleCache<N>,
        read_word: &mut F,
    ) -> Result<Option<StackFrame>, UnwindError>
    where
        F: FnMut(u64) -> Result<u64, ()>,
    {
        let rules = match cache.find(self.generation, address) {
            Some(rules) => {
                cache.hits += 1;
                rules
            }
            None => self.look_up(address, cache)?,
        };
        let topmost = matches!(address, FrameAddress::InstructionPointer(_));
        if rules.kind() == Kind::Frame {
            let source = rules.source();
            let caller = rules.step(topmost, registers, read_word)?;
            return Ok(caller.map(|address| StackFrame { address, source }));
        }
        self.step_aside(address, rules, registers, cache, read_word)
    }

    /// The rules of an address that the cache does not hold; it does afterwards.
    #[inline(never)]
    fn look_up<const N: usize>(
        &self,
        address: FrameAddress,
        cache: &mut RuleCache<N>,
    ) -> Result<Packed, UnwindError> {
        let pc = address.lookup_address();
        let mut kept = UnwindRules { abi: Abi::Amd64, signal: false, rules: Rules::Outermost };
        let Some(module) = self.module_at(pc) else { return Ok(Packed::NO_ROW) };
        cache.misses += 1;
        let found =
            module.rows.find(pc.wrapping_sub(module.bias), &mut kept).map_err(UnwindError::Malformed)?;
        Ok(cache.insert(self.generation, address, found, &kept))
    }

    /// A step by rules that are not [`Kind::Frame`].
    #[inline(never)]
    fn step_aside<const N: usize>(
        &self,
        address: FrameAddress,
        rules: Packed,
        registers: &mut Registers,
        cache: &RuleCache<N>,
        read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Result<Option<StackFrame>, UnwindError> {
        let topmost = matches!(address, FrameAddress::InstructionPointer(_));
        match rules.kind() {
            Kind::Kept(place) => {
                let Some(UnwindRules { abi, signal, rules: kept }) = cache.kept(place) else {
                    return Ok(None);
                };
                let source = match kept {
                    Rules::SignalContext => Source::SignalContext,
                    _ => rules.source(),
                };
                let caller = step(*abi, kept, topmost, *signal, registers, read_word)?;
                Ok(caller.map(|address| StackFrame { address, source }))
            }
            Kind::NoRow => self.step_without_rows(address, registers, read_word).map(Some),
            Kind::Frame | Kind::Outermost => Ok(None),
        }
    }

    /// A step from code that no row covers.
    fn step_without_rows(
        &self,
        address: FrameAddress,
        registers: &mut Registers,
        read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Result<StackFrame, UnwindError> {
        // A handler returns to the trampoline's first instruction: no call stands before it.
        if is_trampoline(self.abi, address.address(), read_word) {
            let address = step_from_context(self.abi, registers, read_word)?;
            return Ok(StackFrame { address, source: Source::SignalContext });
        }
        if self.frame_pointers
            && let Ok(Some(address)) = step_by_frame_pointer(self.abi, registers, read_word)
        {
            return Ok(StackFrame { address, source: Source::FramePointer });
        }
        let pc = address.lookup_address();
        Err(UnwindError::NoInformation { address: pc, module: self.module_at(pc).map(|module| module.id) })
    }

    /// Goes from a frame to its caller by the frame pointer alone, whatever rows there are: for code that is
    /// known to keep one. s390x has no such chain.
    ///
    /// # Errors
    /// See [`UnwindError`]; the registers are unchanged then.
    pub fn step_by_frame_pointer<F>(
        &self,
        registers: &mut Registers,
        read_word: &mut F,
    ) -> Result<Option<FrameAddress>, UnwindError>
    where
        F: FnMut(u64) -> Result<u64, ()>,
    {
        step_by_frame_pointer(self.abi, registers, read_word)
    }

    /// The frames of a stack from the instruction pointer `pc` on, the first being `pc` itself.
    ///
    /// Each step is bounded, the number of steps is not: a signal frame may lead to any other stack, so a
    /// walk over a damaged stack may go in circles. The caller bounds it, by `take` for example.
    pub fn iter_frames<'unwinder, F, const N: usize>(
        &'unwinder self,
        pc: u64,
        registers: Registers,
        cache: &'unwinder mut RuleCache<N>,
        read_word: F,
    ) -> Frames<'unwinder, D, F, N>
    where
        F: FnMut(u64) -> Result<u64, ()>,
    {
        let state = State::First(pc);
        Frames { unwinder: self, state, registers, cache, read_word }
    }
}

/// The frames of one stack, topmost first.
#[derive(Debug)]
pub struct Frames<'unwinder, D, F, const N: usize> {
    unwinder: &'unwinder Unwinder<D>,
    state: State,
    registers: Registers,
    cache: &'unwinder mut RuleCache<N>,
    read_word: F,
}

#[derive(Debug)]
enum State {
    First(u64),
    Unwinding(FrameAddress),
    Done,
}

impl<D, F, const N: usize> Frames<'_, D, F, N> {
    /// Registers of the frame that was returned last.
    pub fn registers(&self) -> &Registers {
        &self.registers
    }
}

impl<D: Deref<Target = [u8]>, F: FnMut(u64) -> Result<u64, ()>, const N: usize> Iterator
    for Frames<'_, D, F, N>
{
    type Item = Result<StackFrame, UnwindError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let caller = match self.state {
            State::First(pc) => {
                let address = FrameAddress::InstructionPointer(pc);
                Ok(Some(StackFrame { address, source: Source::Topmost }))
            }
            State::Unwinding(address) => {
                self.unwinder.unwind_frame(address, &mut self.registers, self.cache, &mut self.read_word)
            }
            State::Done => return None,
        };
        self.state = match caller {
            Ok(Some(frame)) => State::Unwinding(frame.address),
            _ => State::Done,
        };
        caller.transpose()
    }
}

/// A step by the frame pointer, which points at the saved frame pointer of the caller; the return address
/// stands behind that (x86-64 psABI 3.2.2, AAPCS64 6.4.6). s390x keeps no such chain.
fn step_by_frame_pointer(
    abi: Abi,
    registers: &mut Registers,
    read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Result<Option<FrameAddress>, UnwindError> {
    let fp = abi.frame_pointer();
    if abi == Abi::S390x || !registers.fp.is_multiple_of(8) {
        return Err(UnwindError::Register { register: fp });
    }
    let frame = Frame {
        cfa: CfaRule::register(fp, 16),
        ra: RegisterRule::Saved(Location::at_cfa(-8)),
        fp: RegisterRule::Saved(Location::at_cfa(-16)),
        mangled: abi.is_aarch64(),
    };
    step(abi, &Rules::Frame(frame), false, false, registers, read_word)
}
