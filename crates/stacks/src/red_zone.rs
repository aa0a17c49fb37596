//! A word below the stack pointer that call frame information needs.
//!
//! OpenSSL's hashes align their stack and keep the old stack pointer in a word there. In their loops the
//! stack moves on, and call frame information finds a copy of that word 8 bytes below the stack pointer. A
//! copy of a stack begins at the stack pointer, so no sample has this word. But the first one is still
//! above, at an unknown distance. It can be recognised: it is where the function stores the pointer if it is
//! called with the stack pointer that the word holds.

use crate::code::kept::{KeptStackPointer, MAX_BYTES};
use crate::files::Files;
use crate::process::{Place, Process};
use crate::step::{SLOTS, step};
use sframe_format::{FrameAddress, Registers, RuleCache};

/// The bytes below the stack pointer that signal handlers leave alone (x86-64 psABI, 3.2.2).
const RED_ZONE: u64 = 128;
/// How many words above the stack pointer are looked at.
const MAX_WORDS: u64 = 1 << 13;

/// Steps from the topmost frame to its caller although the word at the address `missing` is not known.
/// Another word of the stack may look the same, so whoever asks should check the caller. `None`: the
/// function has no such word above the stack pointer.
#[cold]
pub fn step_without(
    missing: u64,
    (process, files): (&Process, &Files),
    pc: u64,
    registers: &mut Registers,
    cache: &mut RuleCache<SLOTS>,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<FrameAddress> {
    let below = registers.sp.wrapping_sub(missing);
    if below == 0 || below > RED_ZONE {
        return None;
    }
    let Place::File(file, own) = process.place(pc) else { return None };
    let file = files.get(file)?;
    let image = file.image().ok()?;
    let kept = KeptStackPointer::read(image.abi(), image.code_from(file.start_at(own)?, MAX_BYTES)?)?;
    let word = kept_word(&kept, registers.sp, read)?;
    let mut caller = *registers;
    let mut completed = |address| if address == missing { Ok(word) } else { read(address) };
    let at = FrameAddress::InstructionPointer(pc);
    let found = step(process, files, at, &mut caller, cache, &mut completed).ok()??.address;
    // The function returns to where its first stack pointer leads.
    let returned = word.wrapping_sub(kept.added as u64).wrapping_add(8);
    *registers = caller;
    (caller.sp == returned).then_some(found)
}

/// The word above the stack pointer `sp` that is at the place where its own value leads. An earlier call may
/// have left another one further above: then it counts that the stack pointer is still in the frame that
/// belongs to the first, and in no other.
fn kept_word(kept: &KeptStackPointer, sp: u64, read: &mut impl FnMut(u64) -> Result<u64, ()>) -> Option<u64> {
    let start = sp.checked_next_multiple_of(8)?;
    let called_with = |word: u64| word.wrapping_sub(kept.added as u64);
    let places = (0..MAX_WORDS).map_while(|number| start.checked_add(8 * number));
    let words = places.map_while(|place| Some((place, read(place).ok()?)));
    let mut found = words.filter(|&(place, word)| word > place && kept.place(called_with(word)) == place);
    let word = found.next()?.1;
    let is_inside = |word: u64| kept.lowest(called_with(word)) <= sp;
    let others = found.map(|(_, word)| is_inside(word)).collect::<Vec<_>>();
    (others.is_empty() || (is_inside(word) && !others.contains(&true))).then_some(word)
}
