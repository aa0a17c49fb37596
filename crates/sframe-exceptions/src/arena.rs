//! The frames that were made, for good, and how they are found again.
//!
//! Memory comes in chunks of pages. A frame takes its part of the current chunk by an addition, and joins its
//! list by a comparison and exchange. So a thread, or a signal handler, that is stopped anywhere stops nobody
//! else. Two that make the same frame at the same time may both keep theirs.

use core::ptr::{null_mut, write, write_bytes};
use core::slice;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::synthesize::{CIE, Frame};

/// Bytes of a chunk.
const CHUNK: usize = 64 << 10;
/// Lists of frames with equal hashes.
const LISTS: usize = 1 << 14;
/// Places for the frames of addresses that were asked for last.
const HOT: usize = 1 << 15;
const ALIGN: usize = 16;

/// A frame that was made.
pub struct Made {
    next: *const Made,
    hash: u64,
    /// The addresses for which its rules hold.
    start: u64,
    size: u64,
    /// Address of its function.
    pub function: u64,
    length: usize,
    fde: usize,
    // Its bytes follow.
}

impl Made {
    fn bytes(&self) -> *const u8 {
        // SAFETY: the bytes follow the structure, in the same chunk.
        unsafe { core::ptr::from_ref(self).add(1).cast() }
    }

    /// Its `.eh_frame_hdr`.
    pub fn header(&self) -> *const u8 {
        self.bytes()
    }

    /// Its FDE.
    pub fn fde(&self) -> *const u8 {
        // SAFETY: the FDE is among the bytes.
        unsafe { self.bytes().add(self.fde) }
    }

    fn is(&self, hash: u64, frame: &Frame) -> bool {
        // SAFETY: the bytes were written before the frame was in a list.
        let own = unsafe { slice::from_raw_parts(self.bytes(), self.length) };
        // The header names the place of the bytes.
        self.hash == hash && own.get(CIE..) == frame.bytes().get(CIE..)
    }
}

/// The start of a chunk.
struct Chunk {
    used: AtomicUsize,
}

/// Where pages come from.
pub trait Pages {
    /// Zeroed pages, or null.
    fn map(size: usize) -> *mut u8;
    /// Gives pages back.
    fn unmap(start: *mut u8, size: usize);
}

/// All frames that were made. Before the first one it is all zeros, so a program's file has no room for it.
pub struct Arena {
    chunk: AtomicPtr<Chunk>,
    lists: [AtomicPtr<Made>; LISTS],
    hot: [AtomicPtr<Made>; HOT],
}

impl Arena {
    /// An arena without frames.
    #[allow(clippy::new_without_default, reason = "an arena is large and belongs into a static")]
    pub const fn new() -> Self {
        Self {
            chunk: AtomicPtr::new(null_mut()),
            lists: [const { AtomicPtr::new(null_mut()) }; LISTS],
            hot: [const { AtomicPtr::new(null_mut()) }; HOT],
        }
    }

    /// The frame that was last made for this address. Only for modules that are never unloaded.
    #[inline]
    pub fn hot(&self, pc: u64) -> Option<&Made> {
        let made = self.hot.get(place(pc))?.load(Ordering::Acquire);
        // SAFETY: frames stay for good.
        let made = unsafe { made.as_ref() }?;
        (pc.wrapping_sub(made.start) < made.size).then_some(made)
    }

    /// Lets [`Arena::hot`] find a frame for this address.
    pub fn remember(&self, pc: u64, made: &Made) {
        if let Some(hot) = self.hot.get(place(pc)) {
            hot.store(core::ptr::from_ref(made).cast_mut(), Ordering::Release);
        }
    }

    /// Keeps a frame, or finds an equal one. Its rules hold for `size` addresses from `start` on. `None`:
    /// there is no memory.
    pub fn keep<P: Pages>(&self, frame: &Frame, function: u64, start: u64, size: u32) -> Option<&Made> {
        let hash = hash(frame.bytes().get(CIE..)?);
        let list = self.lists.get(hash as usize % LISTS)?;
        let mut first = list.load(Ordering::Acquire);
        // SAFETY: frames stay for good, and those in a list are complete.
        if let Some(known) = unsafe { find(first, hash, frame) } {
            return Some(known);
        }
        let bytes = frame.bytes();
        let room = self.take::<P>(size_of::<Made>() + bytes.len())?.cast::<Made>();
        // SAFETY: the room is large enough and aligned, and nobody else has it.
        let made = unsafe {
            let made = Made {
                next: first,
                hash,
                start,
                size: size.into(),
                function,
                length: bytes.len(),
                fde: frame.fde(),
            };
            write(room, made);
            let out = room.add(1).cast::<u8>();
            for (place, byte) in bytes.iter().enumerate() {
                write(out.add(place), *byte);
            }
            // Version 1, an absolute pointer, no table.
            write_bytes(out, 0, CIE);
            [1, 0, 0xff, 0xff].into_iter().enumerate().for_each(|(place, byte)| write(out.add(place), byte));
            write(out.add(4).cast::<[u8; 8]>(), (out.add(CIE) as u64).to_ne_bytes());
            &mut *room
        };
        loop {
            made.next = first;
            match list.compare_exchange(first, made, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return Some(made),
                Err(now) => first = now,
            }
        }
    }

    /// Takes memory for one frame.
    fn take<P: Pages>(&self, size: usize) -> Option<*mut u8> {
        let size = size.next_multiple_of(ALIGN);
        loop {
            let chunk = self.chunk.load(Ordering::Acquire);
            if !chunk.is_null() {
                // SAFETY: chunks stay for good.
                let start = unsafe { &*chunk }.used.fetch_add(size, Ordering::Relaxed);
                if start.checked_add(size).is_some_and(|end| end <= CHUNK) {
                    // SAFETY: the part is inside the chunk.
                    return Some(unsafe { chunk.cast::<u8>().add(start) });
                }
            }
            let fresh = P::map(CHUNK).cast::<Chunk>();
            if fresh.is_null() {
                return None;
            }
            // SAFETY: the chunk is fresh, and pages are aligned.
            unsafe { write(fresh, Chunk { used: AtomicUsize::new(ALIGN) }) };
            if self.chunk.compare_exchange(chunk, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
                P::unmap(fresh.cast(), CHUNK);
            }
        }
    }
}

/// # Safety
/// The list consists of complete frames.
unsafe fn find<'a>(mut at: *const Made, hash: u64, frame: &Frame) -> Option<&'a Made> {
    loop {
        // SAFETY: as the caller says.
        let made = unsafe { at.as_ref() }?;
        if made.is(hash, frame) {
            return Some(made);
        }
        at = made.next;
    }
}

fn place(pc: u64) -> usize {
    (pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % HOT
}

fn hash(bytes: &[u8]) -> u64 {
    let sum = sum(bytes);
    sum ^ sum >> 31
}

/// A sum of bytes that differs, most likely, if the bytes do. Its low bits depend on few of them.
pub fn sum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(0, |sum, word| mix(sum, u64::from_ne_bytes(*word)));
    rest.iter().fold(sum, |sum, &byte| mix(sum, byte.into()))
}
