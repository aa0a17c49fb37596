//! `.relr.dyn` (gABI, "Relative Relocation Table") and `.relr.auth.dyn`: the places of relative relocations,
//! in one bit each where they lie close together.
//!
//! In `.rela.dyn`, the relocations of a table of a hundred pointers take 2400 bytes. If each pointer itself
//! holds its addend, only the place is left to say, and neighbours need one bit each. This section has two
//! kinds of words. An even word is an address, and the word there is relocated. An odd word is a bitmap for
//! the 63 words that follow the last one covered:
//!
//! ```text
//! 0x3000              relocate the word at 0x3000
//! 0x1b = 0b11011      from the right: the mark of a bitmap; 0x3008 yes, 0x3010 no, 0x3018 yes, 0x3020 yes
//! ```
//!
//! How many words the section needs depends on the addresses, so the rounds of the layout ask
//! [`needed_size`].

use super::synthesis::{Create, Grow, Size, Synthesis, Write};
use crate::arch::Target;
use crate::arch::target::SignedRelocations;
use crate::elf::consts as elf;
use crate::phase::{Extent, Geometry};
use crate::relocs::dynamic;
use crate::tables::section::{Kind, READ_ONLY, SyntheticSection, WORD};
use zerocopy::byteorder::U64;

/// `.relr.dyn`, with `-z pack-relative-relocs`.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let options = &link.config.relocations;
            let sh_type = if options.android_relr_tags { SHT_ANDROID_RELR } else { elf::SHT_RELR };
            let section = || SyntheticSection::new(Kind::RelrDyn, b".relr.dyn", sh_type, READ_ONLY, WORD);
            (link.is_dynamic() && options.pack_relative).then(|| section().entries(WORD)).into()
        }),
        size: Size::Needed(|link| Extent { size: first_guess(link.counts.packed), align: WORD }),
        grow: Grow::Sections(needed_size),
        write: Write::Bytes(|link, _, out| store::<T>(&dynamic::packed_places(link), out)),
    }
}

/// `.relr.auth.dyn`, for the signed pointers of machines that have them (PAuth ABI, "Relocation
/// Compression"). Their places hold the address in the lower half, so which of them the table can express
/// depends on the addresses of symbols.
pub fn signed<T: Target>() -> Synthesis<T> {
    Synthesis {
        create: Create::Early(|link| {
            let wanted = link.is_dynamic() && link.config.relocations.pack_relative;
            let section = |signed: SignedRelocations| {
                let (name, sh_type) = (b".relr.auth.dyn", signed.packed_type);
                SyntheticSection::new(Kind::SignedRelrDyn, name, sh_type, READ_ONLY, WORD).entries(WORD)
            };
            T::SIGNED.filter(|_| wanted).map(section).into()
        }),
        size: Size::Needed(|link| Extent { size: first_guess(link.counts.signed_packed), align: WORD }),
        grow: Grow::Symbols(|link| {
            is_used(link, Kind::SignedRelrDyn)
                .then(|| encode(&dynamic::signed_places(link)).len() as u64 * WORD)
        }),
        write: Write::Bytes(|link, _, out| store::<T>(&dynamic::signed_places(link), out)),
    }
}

/// Whether there is a table of this kind, and anything for it.
pub fn is_used<T: Target>(link: &Geometry<'_, T>, kind: Kind) -> bool {
    link.synthetics.find(kind).is_some_and(|row| link.synthetics.section(row).size > 0)
}

/// `SHT_ANDROID_RELR`: the number of this type before the gABI adopted it.
const SHT_ANDROID_RELR: u32 = 0x6fff_ff00;
const BITS: u64 = 63;
/// A bitmap in which no bit is set. It relocates nothing.
const NOTHING: u64 = 1;

/// Encodes even addresses, which are sorted.
pub fn encode(places: &[u64]) -> Vec<u64> {
    let mut words = Vec::new();
    let mut rest = places;
    while let Some((&first, tail)) = rest.split_first() {
        words.push(first);
        rest = tail;
        let mut base = first.wrapping_add(WORD);
        loop {
            let mut bitmap = 0;
            while let Some((&place, tail)) = rest.split_first() {
                let distance = place.wrapping_sub(base);
                if distance >= BITS * WORD || distance % WORD != 0 {
                    break;
                }
                bitmap |= 1 << (distance / WORD);
                rest = tail;
            }
            if bitmap == 0 {
                break;
            }
            words.push(bitmap << 1 | 1);
            base = base.wrapping_add(BITS * WORD);
        }
    }
    words
}

/// A lower limit of the size in bytes for `count` places, with which the layout starts.
fn first_guess(count: u64) -> u64 {
    match count {
        0 => 0,
        count => (1 + (count - 1).div_ceil(BITS)) * WORD,
    }
}

/// The size in bytes that these addresses need; `None` if there is no such section, or nothing for it.
fn needed_size<T: Target>(link: &Geometry<'_, T>) -> Option<u64> {
    is_used(link, Kind::RelrDyn).then(|| encode(&dynamic::packed_places(link)).len() as u64 * WORD)
}

/// Writes a table of these places. If room is left, bitmaps that relocate nothing fill it.
fn store<T: Target>(places: &[u64], out: &mut [u8]) {
    let words = encode(places);
    for (index, out) in out.chunks_exact_mut(WORD as usize).enumerate() {
        let word = words.get(index).copied().unwrap_or(NOTHING);
        out.copy_from_slice(&U64::<T::E>::new(word).to_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes the words as a dynamic linker does.
    fn decode(words: &[u64]) -> Vec<u64> {
        let (mut places, mut base) = (Vec::new(), 0);
        for &word in words {
            if word & 1 == 0 {
                places.push(word);
                base = word + WORD;
            } else {
                places
                    .extend((0..BITS).filter(|bit| word >> (bit + 1) & 1 != 0).map(|bit| base + bit * WORD));
                base += BITS * WORD;
            }
        }
        places
    }

    #[test]
    fn encoded_places_decode_to_the_same_places() {
        let dense: Vec<u64> = (0..200).map(|n| 0x1000 + n * 8).collect();
        let mut mixed = dense.clone();
        mixed.extend([0x9000, 0x9002, 0x9004, 0x900a, 0x9008 + 63 * 8, 0x2_0000]);
        mixed.sort_unstable();
        for places in [vec![], vec![0x10], dense.clone(), mixed] {
            let words = encode(&places);
            assert_eq!(decode(&words), places);
            assert!(words.len() as u64 * WORD >= first_guess(places.len() as u64));
        }
        assert_eq!(encode(&dense).len(), 1 + 4);
    }
}
