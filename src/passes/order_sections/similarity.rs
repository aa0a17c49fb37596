//! Finds what sections have in common, so that similar ones can lie side by side.
//!
//! Compressors replace bytes that they have seen not far before. A function that is a variant of another one
//! compresses to little if it lies near it, and not at all if it lies a window away (32 KiB for zlib).
//! Similar are sections that share many short runs of bytes. To compare each section with every other one
//! would take too long. Instead, each run becomes a number, and the sections that have the number share a
//! reason to lie together ([`super::bisect`]):
//!
//! ```text
//! f   push rbp | mov rbp, rsp | sub rsp, 32 | call a        windows of 8 bytes at each offset
//! g   push rbp | mov rbp, rsp | sub rsp, 48 | call a        f and g share most of them
//! ```
//!
//! Fields that relocations fill are zero in objects. What a relocation refers to counts in their place. All
//! windows of a large program would be too many edges. So only windows whose numbers are small count: the
//! same ones in all sections, whatever their sizes are.

use crate::arch::Target;
use crate::ids::SectionId;
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use crate::phase::Scanned;
use hashbrown::HashMap;
use parallel::ParallelSlice;

type Hasher = foldhash::fast::FixedState;

/// Bytes of a window.
const WINDOW: usize = 8;
/// About so many windows count in total.
const WANTED: u64 = 1 << 20;

/// The reasons of sections to lie together, as [`super::bisect::order`] takes them.
pub fn reasons<T: Target>(link: &Scanned<'_, T>, sections: &[SectionId]) -> Vec<Vec<u32>> {
    let bytes: u64 = sections.iter().map(|&id| link.input_size(id)).sum();
    let most = u64::MAX / bytes.div_ceil(WANTED).max(1);
    let hashes: Vec<Vec<u64>> = sections.par_iter().map(|&id| hashes(link, id, most)).collect();
    let mut numbers: HashMap<u64, u32, Hasher> = HashMap::default();
    let mut number = |hash| {
        let next = numbers.len() as u32;
        *numbers.entry(hash).or_insert(next)
    };
    hashes.into_iter().map(|of_section| of_section.into_iter().map(&mut number).collect()).collect()
}

/// The numbers of a section's windows and relocations up to `most`, ascending; at least the smallest one.
fn hashes<T: Target>(link: &Scanned<'_, T>, id: SectionId, most: u64) -> Vec<u64> {
    let Some((object, index)) = link.locate(id) else { return Vec::new() };
    let bytes = object.section_bytes(index as usize).unwrap_or_default();
    let relocations = object.relocations(index as usize).iter();
    let references = relocations
        .map(|relocation| mix(u64::from(relocation.kind()) << 32 ^ target(object, relocation.symbol())));
    sample(windows(bytes).chain(references), most)
}

/// The different ones of these numbers up to `most`, ascending; at least the smallest one.
fn sample(hashes: impl Iterator<Item = u64>, most: u64) -> Vec<u64> {
    let mut smallest = None;
    let mut kept = Vec::new();
    for hash in hashes {
        smallest = Some(smallest.map_or(hash, |least: u64| least.min(hash)));
        if hash <= most {
            kept.push(hash);
        }
    }
    if kept.is_empty() {
        kept.extend(smallest);
    }
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// The numbers of all windows of some bytes. Windows of one repeated byte do not count: they compress
/// wherever they are. Fewer bytes than a window has are one, filled with zeros.
fn windows(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let short = bytes.len() < WINDOW;
    let mut only = [0; WINDOW];
    if short {
        only[..bytes.len()].copy_from_slice(bytes);
    }
    let word = |window: &[u8]| window.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
    let of_short = short.then(|| mix(word(&only)));
    let varied = |window: &&[u8]| window.iter().any(|byte| *byte != window[0]);
    bytes.windows(WINDOW).filter(varied).map(move |window| mix(word(window))).chain(of_short)
}

/// What a relocation refers to: a global symbol, or the kind of a local one's section.
fn target<E: zerocopy::byteorder::ByteOrder>(object: &ObjectFile<'_, E>, symbol: u32) -> u64 {
    if symbol >= object.first_global && (symbol as usize) < object.symbols.len() {
        return u64::from(object.symbol_id(symbol).0);
    }
    match object.symbols.get(symbol as usize).map(|_| object.symbol_place(symbol as usize)) {
        Some(SymbolPlace::Section(section)) => {
            let name = object.section_name(section as usize);
            name.iter().fold(1, |hash, &byte| mix(hash ^ u64::from(byte)))
        }
        _ => 0,
    }
}

/// A number in whose place each bit depends on all bits of another one.
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number ^ number >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_the_same_wherever_they_lie() {
        let one: Vec<u64> = windows(b"xx12345678yy").collect();
        let other: Vec<u64> = windows(b"12345678").collect();
        assert_eq!((one.len(), other.len()), (5, 1));
        assert!(one.contains(&other[0]));
    }

    #[test]
    fn repeated_bytes_do_not_count_and_short_sections_do() {
        assert_eq!(windows(&[0; 40]).count(), 0);
        assert_eq!(windows(b"abc").count(), 1);
        assert_ne!(windows(b"abc").next(), windows(b"abd").next());
    }

    #[test]
    fn a_sample_holds_small_numbers_and_never_nothing() {
        assert_eq!(sample([7, 3, 9, 3].into_iter(), 7), [3, 7]);
        assert_eq!(sample([70, 30, 90].into_iter(), 7), [30]);
        assert_eq!(sample(std::iter::empty(), 7), [0u64; 0]);
    }
}
