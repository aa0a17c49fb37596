//! Code that the program makes as it runs, with the SFrame sections that its compiler hands over.
//!
//! It is in a list that walks in this process use from the next refresh on. Profilers follow the list in the
//! memory of the process; they find it by the symbol `__sframe_jit_descriptor`. So its form is fixed,
//! entries do not change once they are linked, and linking and unlinking are one store each. The newest come
//! first.

use crate::loaded::{Key, Loaded};
use crate::process;
use crate::slot::Guarded;
use crate::sync::AtomicU64;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// `sframe_jit_code` in C: code that was made, and its SFrame section.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Address of the section.
    pub sframe_start: u64,
    /// Its size in bytes.
    pub sframe_size: u64,
    /// Address of the code.
    pub text_start: u64,
    /// Its size in bytes.
    pub text_size: u64,
}

impl Code {
    /// Whether both ranges have an end and are not empty.
    fn is_valid(&self) -> bool {
        let is_range = |start: u64, size: u64| size > 0 && start.checked_add(size).is_some();
        is_range(self.sframe_start, self.sframe_size) && is_range(self.text_start, self.text_size)
    }
}

/// An entry of the list. Only what comes before `number` is for profilers.
#[repr(C)]
struct Entry {
    next: AtomicPtr<Entry>,
    code: Code,
    /// No two entries have the same.
    number: u64,
}

/// `sframe_jit_descriptor` in C.
#[repr(C)]
pub struct Descriptor {
    version: u32,
    entry_size: u32,
    first: AtomicPtr<Entry>,
}

/// The list. Profilers know its symbol.
#[unsafe(no_mangle)]
#[used]
pub static __sframe_jit_descriptor: Descriptor =
    Descriptor { version: 1, entry_size: size_of::<Entry>() as u32, first: AtomicPtr::new(null_mut()) };

/// Who changes the list or looks at it. The value is the last number of an entry.
static ONE: Guarded<u64> = Guarded::new(AtomicU64::new(0), 0);

/// Runs `work` while nobody else changes the list. A fork leaves it whole.
fn alone<R>(work: impl FnOnce(&mut u64) -> R) -> R {
    let last = || all_of_list().map(|entry| entry.number).max().unwrap_or(0);
    ONE.with(process::begin(), last, work)
}

/// The entries, newest first. Nobody may free any of them meanwhile.
fn all_of_list<'e>() -> impl Iterator<Item = &'e Entry> {
    let at = |place: &AtomicPtr<Entry>| {
        // SAFETY: the list leads to entries that are freed after they were unlinked, and only by
        // `unregister`.
        unsafe { place.load(Ordering::Acquire).as_ref() }
    };
    std::iter::successors(at(&__sframe_jit_descriptor.first), move |entry| at(&entry.next))
}

/// Adds code. False: one of its ranges is empty, or ends behind the last address.
pub fn register(code: Code) -> bool {
    if !code.is_valid() {
        return false;
    }
    alone(|last| {
        *last += 1;
        let next = AtomicPtr::new(__sframe_jit_descriptor.first.load(Ordering::Acquire));
        let entry = Box::into_raw(Box::new(Entry { next, code, number: *last }));
        __sframe_jit_descriptor.first.store(entry, Ordering::Release);
    });
    true
}

/// Removes the code whose section starts at an address. False: there is none.
pub fn unregister(sframe_start: u64) -> bool {
    alone(|_| {
        let mut place = &__sframe_jit_descriptor.first;
        for entry in all_of_list() {
            if entry.code.sframe_start == sframe_start {
                let gone = place.swap(entry.next.load(Ordering::Acquire), Ordering::AcqRel);
                // SAFETY: `register` made it, it is in the list no more, and nobody else looks at the list.
                drop(unsafe { Box::from_raw(gone) });
                return true;
            }
            place = &entry.next;
        }
        false
    })
}

/// The code that is in the list now, as files. If `is_known` is true for one, its section is not copied.
pub fn made(is_known: &mut dyn FnMut(&Key) -> bool) -> Vec<Loaded> {
    let listed: Vec<(u64, Code)> = alone(|_| all_of_list().map(|entry| (entry.number, entry.code)).collect());
    let file = |(number, code): (u64, Code)| {
        let Code { sframe_start, sframe_size, text_start, text_size } = code;
        let path = format!("[made code {number}]").into_bytes();
        let key = Key { path, bias: 0, range: (text_start, text_start + text_size) };
        let is_known = is_known(&key);
        Loaded::made(key, (sframe_start, sframe_size), is_known)
    };
    listed.into_iter().map(file).collect()
}
