//! Snapshots of the loaded files, and walks over this process's stacks.

use crate::current::Current;
use crate::loaded::{Key, loaded};
use crate::memory::{Memory, stacks};
use crate::pool::Pool;
use crate::sync::{AtomicPtr, AtomicUsize};
use sframe_format::signal::{interrupted, ucontext_offset};
use sframe_format::{
    Abi, FileRows, FrameAddress, Module, ModuleId, Registers, RuleCache, Source, UnwindError, Unwinder,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// The architecture of this program.
pub const HERE: Abi = if cfg!(target_arch = "x86_64") {
    Abi::Amd64
} else if cfg!(target_arch = "aarch64") {
    Abi::AArch64Little
} else {
    Abi::S390x
};

/// Number of caches, and so of simultaneous walks; a further walk ends as [`End::Busy`].
const CACHES: usize = 16;

/// A frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The address where its code goes on.
    pub address: u64,
    /// Its stack pointer.
    pub sp: u64,
    /// How it was found; `None` for the first frame.
    pub source: Option<Source>,
}

/// Where a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At the root of the stack.
    Root,
    /// There is room for no more frames.
    Full,
    /// Before the root, with the reason.
    Stopped(UnwindError),
    /// At its beginning: the files have not been read, or too many threads walk at this time.
    Busy,
}

impl End {
    /// Whether the walk is as long as the stack.
    pub fn is_root(self) -> bool {
        self == Self::Root
    }
}

/// The loaded files at one time.
struct Snapshot {
    unwinder: Unwinder<Vec<u8>>,
    caches: Pool<RuleCache<512>>,
    stacks: Vec<Range<u64>>,
}

/// The rows of files, kept from one refresh to the next.
type Known = BTreeMap<Key, (ModuleId, Arc<FileRows<Vec<u8>>>)>;

/// The stacks of this process.
pub struct Local {
    current: Current<Snapshot>,
    known: Mutex<(Known, u64)>,
}

impl Default for Local {
    fn default() -> Self {
        Self::new()
    }
}

impl Local {
    /// Without any files yet.
    pub const fn new() -> Self {
        Self {
            current: Current::new(AtomicPtr::new(null_mut()), AtomicUsize::new(0)),
            known: Mutex::new((Known::new(), 0)),
        }
    }

    /// Reads the loaded files. Call it once at first, and again after files were loaded or unloaded. Not in a signal
    /// handler: it allocates, and waits for walks that still use the snapshot before.
    pub fn refresh(&self) {
        let mut guard = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, last) = &mut *guard;
        let files = loaded(&mut |key| known.contains_key(key));
        let mut unwinder = Unwinder::new(HERE);
        let mut kept = Known::new();
        for file in files {
            let key = file.key.clone();
            let (id, rows) = known.remove(&key).unwrap_or_else(|| {
                *last += 1;
                (ModuleId(*last), Arc::new(file.rows(HERE)))
            });
            unwinder.add_module(Module::new(id, key.addresses(), key.bias, Arc::clone(&rows)));
            kept.insert(key, (id, rows));
        }
        *known = kept;
        let caches = Pool::new(std::iter::repeat_with(RuleCache::new).take(CACHES));
        self.current.replace(Box::new(Snapshot { unwinder, caches, stacks: stacks() }));
    }

    /// Walks outwards from the code that a signal interrupted. Fit for a signal handler: it allocates nothing and takes
    /// no lock. Returns the number of frames and where the walk ended.
    ///
    /// # Safety
    /// `context` is the third argument of a signal handler (`SA_SIGINFO`), in that handler.
    pub unsafe fn walk(&self, context: *const libc::ucontext_t, frames: &mut [Frame]) -> (usize, End) {
        let at = Registers::new((context as u64).wrapping_sub(ucontext_offset(HERE)), 0, None);
        // SAFETY: the caller says that the kernel's frame is there.
        let mut read = |address: u64| Ok(unsafe { (address as *const u64).read_unaligned() });
        match interrupted(HERE, &at, &mut read) {
            Ok((pc, registers)) => self.walk_by(pc, registers, frames),
            Err(address) => (0, End::Stopped(UnwindError::Memory { address })),
        }
    }

    /// Walks outwards from the caller of this function. Returns the number of frames and where the walk ended.
    #[inline(never)]
    pub fn walk_from_here(&self, frames: &mut [Frame]) -> (usize, End) {
        let (pc, registers) = here();
        let mut first = [Frame::default(); 1];
        // The frame of this function comes first, and is left out.
        self.walk_skipping(pc, registers, &mut first, frames)
    }

    fn walk_skipping(
        &self,
        pc: u64,
        registers: Registers,
        skipped: &mut [Frame],
        frames: &mut [Frame],
    ) -> (usize, End) {
        let skip = skipped.len();
        let mut all = skipped.iter_mut().chain(frames);
        let (count, end) = self.walk_into(pc, registers, &mut || all.next());
        (count.saturating_sub(skip), end)
    }

    fn walk_by(&self, pc: u64, registers: Registers, frames: &mut [Frame]) -> (usize, End) {
        let mut room = frames.iter_mut();
        self.walk_into(pc, registers, &mut || room.next())
    }

    fn walk_into<'f>(
        &self,
        pc: u64,
        registers: Registers,
        room: &mut dyn FnMut() -> Option<&'f mut Frame>,
    ) -> (usize, End) {
        // SAFETY: the C library's own place for this thread.
        let error = unsafe { *libc::__errno_location() };
        let found = self.current.look(|snapshot| match snapshot {
            Some(snapshot) => snapshot.walk(pc, registers, room),
            None => (0, End::Busy),
        });
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = error };
        found
    }
}

impl Snapshot {
    fn walk<'f>(
        &self,
        pc: u64,
        registers: Registers,
        room: &mut dyn FnMut() -> Option<&'f mut Frame>,
    ) -> (usize, End) {
        let walk = |rules: &mut _| self.walk_by_rules(pc, registers, rules, room);
        self.caches.with_any(walk).unwrap_or((0, End::Busy))
    }

    fn walk_by_rules<'f>(
        &self,
        pc: u64,
        mut registers: Registers,
        rules: &mut RuleCache<512>,
        room: &mut dyn FnMut() -> Option<&'f mut Frame>,
    ) -> (usize, End) {
        let mut memory = Memory::new(&self.stacks);
        let mut read = |address| memory.word(address);
        let (mut at, mut source, mut count) = (FrameAddress::InstructionPointer(pc), None, 0);
        loop {
            let Some(frame) = room() else { return (count, End::Full) };
            *frame = Frame { address: at.address(), sp: registers.sp, source };
            count += 1;
            match self.unwinder.unwind_frame(at, &mut registers, rules, &mut read) {
                Ok(Some(caller)) => (at, source) = (caller.address, Some(caller.source)),
                Ok(None) => return (count, End::Root),
                Err(error) => return (count, End::Stopped(error)),
            }
        }
    }
}

/// The program counter and registers of the function that this is inlined into.
#[inline(always)]
fn here() -> (u64, Registers) {
    let (pc, sp, fp): (u64, u64, u64);
    // SAFETY: it reads three registers.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) pc, out(reg) sp, out(reg) fp);
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("adr {}, .", "mov {}, sp", "mov {}, x29", out(reg) pc, out(reg) sp, out(reg) fp);
    }
    // SAFETY: as above.
    #[cfg(target_arch = "s390x")]
    unsafe {
        std::arch::asm!("larl {}, .", "lgr {}, %r15", "lgr {}, %r11", out(reg) pc, out(reg) sp, out(reg) fp);
    }
    (pc, Registers::new(sp, fp, None))
}
