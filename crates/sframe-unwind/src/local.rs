//! Snapshots of the loaded files, and walks over the stacks of this process.

use crate::current::{Current, Scratch};
use crate::loaded::{Key, loaded};
use crate::made::made;
use crate::memory::Memory;
use crate::process;
use crate::slot::{Guarded, Slot};
use crate::sync::{AtomicPtr, AtomicU64};
use sframe_format::signal::{interrupted, ucontext_offset};
use sframe_format::{
    Abi, FileRows, FrameAddress, Module, ModuleId, Registers, RuleCache, Source, UnwindError, Unwinder,
};
use std::collections::BTreeMap;
use std::ptr::null_mut;
use std::sync::Arc;

/// The architecture of this program.
pub const NATIVE: Abi = if cfg!(target_arch = "x86_64") {
    Abi::Amd64
} else if cfg!(target_arch = "aarch64") {
    Abi::AArch64Little
} else {
    Abi::S390x
};

/// Number of caches, which is the number of walks at the same time. A further walk ends with [`End::Busy`].
const CACHES: usize = 16;

/// A frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The address where its code continues.
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
    /// There is no room for more frames.
    Full,
    /// Before the root, for this reason.
    Stopped(UnwindError),
    /// At its beginning: the files have not been read, or too many threads walk at the moment (16 are not too
    /// many).
    Busy,
}

impl End {
    /// Whether the walk reached the root of the stack.
    pub fn is_root(self) -> bool {
        self == Self::Root
    }
}

/// The files that were loaded at one time.
type Snapshot = Unwinder<Vec<u8>>;
type Cache = RuleCache<512>;

impl Scratch for Cache {
    fn empty() -> Self {
        Self::new()
    }

    fn forget(&mut self) {
        self.clear();
    }
}

/// The rows of files, which one refresh passes to the next, and the last number of a file.
type Known = (BTreeMap<Key, (ModuleId, Arc<FileRows<Vec<u8>>>)>, u64);

const NOTHING_KNOWN: Known = (BTreeMap::new(), 0);

/// The stacks of this process.
pub struct Local {
    current: Current<Snapshot, Cache, CACHES>,
    known: Guarded<Known>,
}

impl Default for Local {
    fn default() -> Self {
        Self::new()
    }
}

impl Local {
    /// Without any files.
    pub const fn new() -> Self {
        let slots = [const { Slot::new(AtomicU64::new(0)) }; CACHES];
        Self {
            current: Current::new(AtomicPtr::new(null_mut()), slots),
            known: Guarded::new(AtomicU64::new(0), NOTHING_KNOWN),
        }
    }

    /// Reads the loaded files, and the frames of code that was made and registered
    /// ([`c::sframe_jit_register`](crate::c::sframe_jit_register)). Call it once at the start, and again
    /// after files were loaded or unloaded. Do not call it in a signal handler: it allocates. It waits for
    /// walks that still use the previous snapshot, but for no walk that begins later.
    ///
    /// A child of a fork continues with its parent's snapshot and can refresh it, whatever other threads of
    /// the parent did.
    pub fn refresh(&self) {
        let process = process::begin();
        self.known.with(process, || NOTHING_KNOWN, |known| self.read_files(process, known));
    }

    fn read_files(&self, process: u32, (known, last): &mut Known) {
        let mut files = process::without_forks(|| loaded(&mut |key| known.contains_key(key)));
        files.extend(made(&mut |key| known.contains_key(key)));
        let mut unwinder = Unwinder::new(NATIVE);
        let mut kept = BTreeMap::new();
        for file in files {
            let key = file.key.clone();
            let (id, rows) = known.remove(&key).unwrap_or_else(|| {
                *last += 1;
                (ModuleId(*last), Arc::new(file.rows(NATIVE)))
            });
            unwinder.add_module(Module::new(id, key.addresses(), key.bias, Arc::clone(&rows)));
            kept.insert(key, (id, rows));
        }
        *known = kept;
        self.current.replace(process, unwinder);
    }

    /// Walks outwards from the code that a signal interrupted. A signal handler may call it: it neither
    /// allocates nor locks. Returns the number of frames and where the walk ended.
    ///
    /// # Safety
    /// `context` is the third argument of a signal handler (`SA_SIGINFO`), and that handler is running.
    pub unsafe fn walk(&self, context: *const libc::ucontext_t, frames: &mut [Frame]) -> (usize, End) {
        let at = Registers::new((context as u64).wrapping_sub(ucontext_offset(NATIVE)), 0, None);
        // SAFETY: the caller promises that the kernel's frame exists.
        let mut read = |address: u64| Ok(unsafe { (address as *const u64).read_unaligned() });
        match interrupted(NATIVE, &at, &mut read) {
            Ok((pc, registers)) => self.walk_by(pc, registers, frames),
            Err(address) => (0, End::Stopped(UnwindError::Memory { address })),
        }
    }

    /// Walks outwards from the caller of this function. Returns the number of frames and where the walk
    /// ended.
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
        // SAFETY: this is the C library's own variable for this thread.
        let error = unsafe { *libc::__errno_location() };
        let walk = |unwinder: &Snapshot, rules: &mut Cache| walk(unwinder, rules, pc, registers, room);
        let found = process::current().and_then(|process| self.current.look(process, walk));
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = error };
        found.unwrap_or((0, End::Busy))
    }
}

fn walk<'f>(
    unwinder: &Snapshot,
    rules: &mut Cache,
    pc: u64,
    mut registers: Registers,
    room: &mut dyn FnMut() -> Option<&'f mut Frame>,
) -> (usize, End) {
    let mut memory = Memory::new();
    let mut read = |address| memory.word(address);
    let (mut at, mut source, mut count) = (FrameAddress::InstructionPointer(pc), None, 0);
    loop {
        let Some(frame) = room() else { return (count, End::Full) };
        *frame = Frame { address: at.address(), sp: registers.sp, source };
        count += 1;
        match unwinder.unwind_frame(at, &mut registers, rules, &mut read) {
            Ok(Some(caller)) => (at, source) = (caller.address, Some(caller.source)),
            Ok(None) => return (count, End::Root),
            Err(error) => return (count, End::Stopped(error)),
        }
    }
}

/// The program counter and the registers of the function into which this one is inlined.
#[inline(always)]
fn here() -> (u64, Registers) {
    let (pc, sp, fp): (u64, u64, u64);
    // SAFETY: this reads three registers.
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
