//! Stacks over several modules, with a cache of the rows that were found.
//!
//! The cache is keyed by file and by the file's own addresses, not by absolute ones, so that it serves every process
//! that has the file loaded, wherever. It belongs to the caller. Modules with a table need it only for the rows that
//! the table leaves to the section.

use alloc::vec::Vec;
use core::ops::{Deref, Range};

use crate::abi::Abi;
use crate::index::SectionIndex;
use crate::rules::{Rules, UnwindRules};
use crate::table::{Listed, RuleTable};
use crate::unwind::{FrameAddress, Registers, UnwindError, step};

/// The key of a module's rows in the cache: the same file must have the same number wherever it is loaded, so
/// that processes share the rows that one of them found; two files must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub u64);

/// A loaded file with its SFrame section.
#[derive(Clone, Debug)]
pub struct Module<D> {
    id: ModuleId,
    range: Range<u64>,
    bias: u64,
    index: SectionIndex<D>,
    table: Option<RuleTable>,
}

impl<D: Deref<Target = [u8]>> Module<D> {
    /// A file loaded at the addresses `range`, `bias` bytes above the addresses that the file itself states (the
    /// difference wraps), whose SFrame section has the bytes `data` and the file's address `section_address`.
    pub fn new(id: ModuleId, range: Range<u64>, bias: u64, data: D, section_address: u64) -> Self {
        Self { id, range, bias, index: SectionIndex::new(data, section_address), table: None }
    }

    /// The same module with its rows laid out for speed, if they can be ([`RuleTable::new`]). Takes time and memory,
    /// [`RuleTable`] says how much; rows of the table are not cached.
    #[must_use]
    pub fn with_table(mut self) -> Self {
        self.table = RuleTable::new(&self.index);
        self
    }

    /// The number it is cached under.
    pub fn id(&self) -> ModuleId {
        self.id
    }

    /// The addresses it is loaded at.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// The index of its section.
    pub fn index(&self) -> &SectionIndex<D> {
        &self.index
    }
}

/// Unwinds stacks over several modules.
#[derive(Clone, Debug)]
pub struct Unwinder<D> {
    modules: Vec<Module<D>>,
}

impl<D> Default for Unwinder<D> {
    fn default() -> Self {
        Self { modules: Vec::new() }
    }
}

/// A row in a [`RuleCache`].
#[derive(Clone, Copy, Debug)]
struct Remembered {
    /// `None` in an empty slot.
    module: Option<ModuleId>,
    address: u64,
    rules: UnwindRules,
}

const EMPTY: Remembered = Remembered {
    module: None,
    address: 0,
    rules: UnwindRules { abi: Abi::Amd64, signal: false, rules: Rules::Outermost },
};

/// Rows found before, by module and the file's own address, `N` slots. It belongs to the caller, who may use one
/// for many unwinders (processes).
#[derive(Clone, Debug)]
pub struct RuleCache<const N: usize = 512> {
    slots: Vec<Remembered>,
    hits: u64,
    misses: u64,
}

impl<const N: usize> Default for RuleCache<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> RuleCache<N> {
    /// An empty cache; the only allocation there is.
    pub fn new() -> Self {
        Self { slots: alloc::vec![EMPTY; N.max(1)], hits: 0, misses: 0 }
    }

    /// Number of hits and of misses.
    pub fn statistics(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// The cached rules of an address; a miss calls `find`.
    #[inline]
    fn find_or<E>(
        &mut self,
        module: ModuleId,
        address: u64,
        find: impl FnOnce(&mut UnwindRules) -> Result<(), E>,
    ) -> Result<&UnwindRules, E> {
        let hash = (address ^ module.0.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize;
        let slot = &mut self.slots[place];
        if slot.address == address && slot.module == Some(module) {
            self.hits += 1;
            return Ok(&slot.rules);
        }
        self.misses += 1;
        // Marked empty until its rules are complete.
        slot.module = None;
        find(&mut slot.rules)?;
        (slot.module, slot.address) = (Some(module), address);
        Ok(&slot.rules)
    }
}

impl<D: Deref<Target = [u8]>> Unwinder<D> {
    /// An unwinder without modules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a module. One whose range it overlaps is removed first, as a new mapping replaces an old one.
    pub fn add_module(&mut self, module: Module<D>) {
        self.modules.retain(|old| old.range.end <= module.range.start || module.range.end <= old.range.start);
        let place = self.modules.partition_point(|old| old.range.start < module.range.start);
        self.modules.insert(place, module);
    }

    /// Removes the module that was loaded at `start`.
    pub fn remove_module(&mut self, start: u64) {
        self.modules.retain(|module| module.range.start != start);
    }

    /// The module that holds the address.
    #[inline]
    pub fn module_at(&self, address: u64) -> Option<&Module<D>> {
        let place = self.modules.partition_point(|module| module.range.start <= address);
        self.modules.get(place.checked_sub(1)?).filter(|module| address < module.range.end)
    }

    /// Goes from the frame at `address` to its caller; `Ok(None)` is the end of the stack. Nothing is allocated.
    ///
    /// # Errors
    /// See [`UnwindError`].
    #[inline]
    pub fn unwind_frame<F, const N: usize>(
        &self,
        address: FrameAddress,
        registers: &mut Registers<'_>,
        cache: &mut RuleCache<N>,
        read_word: &mut F,
    ) -> Result<Option<FrameAddress>, UnwindError>
    where
        F: FnMut(u64) -> Result<u64, ()>,
    {
        let pc = address.lookup_address();
        let module = self.module_at(pc).ok_or(UnwindError::NoInformation { address: pc })?;
        let file_address = pc.wrapping_sub(module.bias);
        let missing = UnwindError::NoInformation { address: pc };
        let found = match module.table.as_ref().map_or(Listed::Elsewhere, |table| table.find(file_address)) {
            Listed::Row(rules) => rules,
            Listed::NoRow => return Err(missing),
            Listed::Elsewhere => cache.find_or(module.id, file_address, |rules| {
                match module.index.rules_into(file_address, rules) {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(missing),
                    Err(error) => Err(UnwindError::Malformed(error)),
                }
            })?,
        };
        let topmost = matches!(address, FrameAddress::InstructionPointer(_));
        step(found.abi, &found.rules, topmost, found.signal, registers, read_word)
    }

    /// The frames of a stack from the instruction pointer `pc` on, the first being `pc` itself.
    pub fn iter_frames<'unwinder, 'other, F, const N: usize>(
        &'unwinder self,
        pc: u64,
        registers: Registers<'other>,
        cache: &'unwinder mut RuleCache<N>,
        read_word: F,
    ) -> Frames<'unwinder, 'other, D, F, N>
    where
        F: FnMut(u64) -> Result<u64, ()>,
    {
        let state = State::First(pc);
        Frames { unwinder: self, state, registers, cache, read_word }
    }
}

/// The frames of one stack, topmost first.
#[derive(Debug)]
pub struct Frames<'unwinder, 'other, D, F, const N: usize> {
    unwinder: &'unwinder Unwinder<D>,
    state: State,
    registers: Registers<'other>,
    cache: &'unwinder mut RuleCache<N>,
    read_word: F,
}

#[derive(Debug)]
enum State {
    First(u64),
    Unwinding(FrameAddress),
    Done,
}

impl<D: Deref<Target = [u8]>, F: FnMut(u64) -> Result<u64, ()>, const N: usize> Frames<'_, '_, D, F, N> {
    /// Registers of the frame that was returned last.
    pub fn registers(&self) -> &Registers<'_> {
        &self.registers
    }
}

impl<D: Deref<Target = [u8]>, F: FnMut(u64) -> Result<u64, ()>, const N: usize> Iterator
    for Frames<'_, '_, D, F, N>
{
    type Item = Result<FrameAddress, UnwindError>;

    fn next(&mut self) -> Option<Self::Item> {
        let caller = match self.state {
            State::First(pc) => Ok(Some(FrameAddress::InstructionPointer(pc))),
            State::Unwinding(address) => {
                self.unwinder.unwind_frame(address, &mut self.registers, self.cache, &mut self.read_word)
            }
            State::Done => return None,
        };
        self.state = match caller {
            Ok(Some(address)) => State::Unwinding(address),
            _ => State::Done,
        };
        caller.transpose()
    }
}
