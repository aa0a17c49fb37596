//! Stacks over several modules, with the source of every frame.
//!
//! An unwinder asks the rows of a file ([`FileRows`]) first. Code without rows may be the trampoline of a
//! signal handler, which the unwinder recognises by its instructions. If the caller allows it, the unwinder
//! leaves other code by the frame pointer. Every frame says how it was found. A walk that stops before the
//! end of the stack says why.
//!
//! A step allocates nothing and takes no lock, so signal handlers may take steps, unless a
//! [`RowSource`](crate::file_rows::RowSource) allocates or locks.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, Range};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::abi::Abi;
use crate::cache::RuleCache;
use crate::file_rows::FileRows;
use crate::packed::{Kind, Packed};
use crate::rules::{CfaRule, Frame, Location, RegisterRule, Rules, UnwindRules};
use crate::signal::interrupted_at;
use crate::source::Source;
use crate::unwind::{FrameAddress, ModuleId, Registers, UnwindError, step};

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
    /// A file loaded at the addresses `range`, which are `bias` bytes above the addresses in the file itself
    /// (the difference wraps).
    pub fn new(id: ModuleId, range: Range<u64>, bias: u64, rows: impl Into<Arc<FileRows<D>>>) -> Self {
        Self { id, range, bias, rows: rows.into() }
    }

    /// The caller's number for the file.
    pub fn id(&self) -> ModuleId {
        self.id
    }

    /// The addresses where it is loaded.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// The difference from the file's own addresses to the loaded ones.
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
    /// The address where its code continues.
    pub address: FrameAddress,
    /// How it was found.
    pub source: Source,
}

/// Unwinds stacks over several modules.
#[derive(Debug)]
pub struct Unwinder<D> {
    abi: Abi,
    modules: Vec<Module<D>>,
    /// The number of the current list of modules. No other list in this program has it.
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

/// A number that no list of modules has had before.
fn next_generation() -> u64 {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) as u64
}

impl<D> Unwinder<D> {
    /// An unwinder without modules, for programs of one architecture.
    pub fn new(abi: Abi) -> Self {
        Self { abi, modules: Vec::new(), generation: next_generation(), frame_pointers: false }
    }

    /// The architecture.
    pub fn abi(&self) -> Abi {
        self.abi
    }

    /// Whether the unwinder leaves code without rows by the frame pointer: x86-64 and AArch64 keep it and the
    /// return address in neighbouring words. Off by default, because code that keeps no frame pointer gives
    /// wrong frames.
    pub fn follow_frame_pointers(&mut self, follow: bool) {
        self.frame_pointers = follow;
    }

    /// Adds a module. First removes all modules that its range overlaps, as a new mapping replaces old ones.
    pub fn add_module(&mut self, module: Module<D>) {
        let replaced = self.places_of(&module.range);
        let place = replaced.start;
        if !replaced.is_empty() {
            self.modules.drain(replaced);
        }
        self.modules.insert(place, module);
        self.generation = next_generation();
    }

    /// Removes the modules that overlap a range of addresses, because something else has been mapped there.
    pub fn remove_overlapping(&mut self, range: Range<u64>) {
        let overlapping = self.places_of(&range);
        if !overlapping.is_empty() {
            self.modules.drain(overlapping);
            self.generation = next_generation();
        }
    }

    /// The modules that overlap a range of addresses, ascending by address.
    pub fn overlapping(&self, range: &Range<u64>) -> &[Module<D>] {
        &self.modules[self.places_of(range)]
    }

    /// Where the modules that overlap a range of addresses are in the list. No two modules overlap, so those
    /// that start later also end later.
    fn places_of(&self, range: &Range<u64>) -> Range<usize> {
        let first = self.modules.partition_point(|old| old.range.end <= range.start);
        let overlapping = self.modules[first..].iter().take_while(|old| old.range.start < range.end);
        first..first + overlapping.count()
    }

    /// Removes the module that was loaded at `start`.
    pub fn remove_module(&mut self, start: u64) {
        self.modules.retain(|module| module.range.start != start);
        self.generation = next_generation();
    }

    /// A number that changes with the list of modules. No other list in this program has it, except a clone.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The modules, ascending by address.
    pub fn modules(&self) -> &[Module<D>] {
        &self.modules
    }

    /// The module that covers the address.
    #[inline]
    pub fn module_at(&self, address: u64) -> Option<&Module<D>> {
        let place = self.modules.partition_point(|module| module.range.start <= address);
        self.modules.get(place.checked_sub(1)?).filter(|module| address < module.range.end)
    }
}

impl<D: Deref<Target = [u8]>> Unwinder<D> {
    /// The source of the rows that cover an address, if there are any. It serves for the outermost frame,
    /// whose rows lead to no caller with a [`StackFrame::source`].
    pub fn source_at(&self, address: FrameAddress) -> Option<Source> {
        let pc = address.lookup_address();
        let module = self.module_at(pc)?;
        let mut rules = UnwindRules { abi: self.abi, signal: false, rules: Rules::Outermost };
        let found = module.rows.find(pc.wrapping_sub(module.bias), &mut rules).ok()?;
        (found != Packed::NO_ROW).then_some(found.source())
    }

    /// Steps from the frame at `address` to its caller. `Ok(None)` is the end of the stack. This allocates
    /// nothing.
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
        match self.unwind_known(address, registers, cache, read_word) {
            Some(caller) => Ok(Some(caller)),
            None => self.unwind_unknown(address, registers, cache, read_word),
        }
    }

    /// The step of [`Unwinder::unwind_frame`] if the cache has the rules of the frame, they fit a word, and
    /// lead to a caller. Nearly all steps are such, and a loop over frames needs no more in line. `None`:
    /// `unwind_frame` says what there is; the registers are unchanged.
    #[inline(always)]
    pub fn unwind_known<F, const N: usize>(
        &self,
        address: FrameAddress,
        registers: &mut Registers,
        cache: &mut RuleCache<N>,
        read_word: &mut F,
    ) -> Option<StackFrame>
    where
        F: FnMut(u64) -> Result<u64, ()>,
    {
        let rules = cache.find(self.generation, address)?;
        if rules.kind() != Kind::Frame {
            return None;
        }
        let topmost = matches!(address, FrameAddress::InstructionPointer(_));
        let caller = rules.step(topmost, registers, read_word).ok()??;
        cache.hits += 1;
        Some(StackFrame { address: caller, source: rules.source() })
    }

    /// The rest of [`Unwinder::unwind_frame`].
    #[inline(never)]
    fn unwind_unknown<const N: usize>(
        &self,
        address: FrameAddress,
        registers: &mut Registers,
        cache: &mut RuleCache<N>,
        read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Result<Option<StackFrame>, UnwindError> {
        let rules = match cache.find(self.generation, address) {
            Some(rules) => {
                cache.hits += 1;
                rules
            }
            None => self.look_up(address, cache)?,
        };
        let topmost = matches!(address, FrameAddress::InstructionPointer(_));
        let (caller, source) = match rules.kind() {
            Kind::Frame => (rules.step(topmost, registers, read_word)?, rules.source()),
            Kind::Kept(place) => {
                let Some(UnwindRules { abi, signal, rules: kept }) = cache.kept(place) else {
                    return Ok(None);
                };
                let source = match kept {
                    Rules::SignalContext => Source::SignalContext,
                    _ => rules.source(),
                };
                (step(*abi, kept, topmost, *signal, registers, read_word)?, source)
            }
            Kind::NoRow => return self.step_without_rows(address, registers, read_word).map(Some),
            Kind::Outermost => return Ok(None),
        };
        Ok(caller.map(|address| StackFrame { address, source }))
    }

    /// Looks up the rules of an address that the cache does not contain, and adds them to it.
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

    /// Steps from code that no row covers.
    fn step_without_rows(
        &self,
        address: FrameAddress,
        registers: &mut Registers,
        read_word: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Result<StackFrame, UnwindError> {
        // A handler returns to the trampoline's first instruction, so no call precedes it.
        if let Some(found) = interrupted_at(self.abi, address.address(), registers, read_word) {
            let (pc, restored) = found.map_err(|address| UnwindError::Memory { address })?;
            *registers = restored;
            let address = FrameAddress::InstructionPointer(pc);
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

    /// Steps from a frame to its caller by the frame pointer alone, whatever rows there are, for code that is
    /// known to keep a frame pointer. s390x has no such chain.
    ///
    /// # Errors
    /// See [`UnwindError`]. The registers are unchanged then.
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

    /// The frames of a stack, starting with the instruction pointer `pc` itself.
    ///
    /// Each step is bounded, but the number of steps is not. A signal frame may lead to any other stack, so a
    /// walk over a damaged stack may go in circles. The caller must bound it, for example with `take`.
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

/// Steps by the frame pointer. It points at the caller's saved frame pointer, and the return address follows
/// that (x86-64 psABI 3.2.2, AAPCS64 6.4.6). s390x keeps no such chain.
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
