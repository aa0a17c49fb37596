//! An `.eh_frame` with several CIEs and FDEs.

use crate::object::relative;
use crate::sections::Bytes;
use arbitrary::{Result, Unstructured};
use ld_compare::machine::Machine;
use ld_compare::model::{Object, Relocation};

/// The most CIEs of a section, and the most FDEs.
const CIES: usize = 3;
const FDES: usize = 6;
/// Addresses relative to their place, 4 bytes; and the same through a pointer.
const RELATIVE: u8 = 0x1b;
const INDIRECT: u8 = 0x9b;

/// Where a CIE starts, and whether its FDEs name language-specific data.
#[derive(Clone, Copy)]
struct Cie {
    start: usize,
    has_language_data: bool,
}

/// A section that is being written, and its relocations.
struct Frames<'a> {
    object: &'a Object,
    machine: Machine,
    all: Bytes,
    relocations: Vec<Relocation>,
}

/// The contents of a section and its relocations.
pub fn several(
    from: &mut Unstructured<'_>,
    machine: Machine,
    object: &Object,
) -> Result<(Vec<u8>, Vec<Relocation>)> {
    let all = Bytes { machine, bytes: Vec::new() };
    let mut frames = Frames { object, machine, all, relocations: Vec::new() };
    let mut cies = vec![frames.cie(from)?];
    for _ in 0..from.int_in_range(1..=FDES)? {
        if cies.len() < CIES && from.int_in_range(0..=3)? == 3 {
            cies.push(frames.cie(from)?);
        }
        let cie = *from.choose(&cies)?;
        frames.fde(from, cie)?;
    }
    if from.int_in_range(0..=7)? == 7 {
        frames.all.number(0, 4);
    }
    Ok((frames.all.bytes, frames.relocations))
}

impl Frames<'_> {
    fn cie(&mut self, from: &mut Unstructured<'_>) -> Result<Cie> {
        let start = self.begin(0);
        let augmentation: &[u8] = from.choose(&[b"zR\0".as_slice(), b"zRS\0", b"zLR\0", b"zPLR\0"])?;
        self.all.number(1, 1);
        self.all.bytes.extend(augmentation);
        // Code and data alignment, and the return address.
        self.all.bytes.extend([1, 0x78, 16]);
        let letters = augmentation.iter().filter(|letter| b"RL".contains(letter)).count();
        let has_personality = augmentation.contains(&b'P');
        self.all.number((letters + if has_personality { 5 } else { 0 }) as u64, 1);
        if has_personality {
            self.all.number(INDIRECT.into(), 1);
            let symbol = from.choose_index(self.object.symbols.len())?;
            self.address(symbol, 0);
        }
        self.all.bytes.extend(vec![RELATIVE; letters]);
        // DW_CFA_def_cfa.
        self.all.bytes.extend([0x0c, 7, 8]);
        self.end(start);
        Ok(Cie { start, has_language_data: augmentation.contains(&b'L') })
    }

    fn fde(&mut self, from: &mut Unstructured<'_>, cie: Cie) -> Result<()> {
        let next = self.all.bytes.len() + 4;
        let start = self.begin((next - cie.start) as u64);
        // The symbols of sections come first.
        let symbol = from.choose_index(self.object.sections.len())?;
        self.address(symbol, 4 * from.int_in_range(0..=2)?);
        self.all.number(from.int_in_range(0..=16)?, 4);
        self.all.number(if cie.has_language_data { 4 } else { 0 }, 1);
        if cie.has_language_data {
            let symbol = from.choose_index(self.object.symbols.len())?;
            self.address(symbol, 0);
        }
        // DW_CFA_advance_loc and DW_CFA_def_cfa_offset.
        for _ in 0..from.int_in_range(0..=2)? {
            self.all.bytes.extend([0x41, 0x0e, 16]);
        }
        self.end(start);
        Ok(())
    }

    /// Starts a record with the distance to its CIE. Its length is not known yet. Returns where it starts.
    fn begin(&mut self, distance: u64) -> usize {
        let start = self.all.bytes.len();
        self.all.number(0, 4).number(distance, 4);
        start
    }

    /// Pads a record and sets its length.
    fn end(&mut self, start: usize) {
        let length = self.all.bytes.len().next_multiple_of(4);
        self.all.bytes.resize(length, 0);
        let mut number = Bytes { machine: self.machine, bytes: Vec::new() };
        number.number((length - start - 4) as u64, 4);
        self.all.bytes[start..start + 4].copy_from_slice(&number.bytes);
    }

    fn address(&mut self, symbol: usize, addend: i64) {
        let offset = self.all.bytes.len() as u64;
        self.relocations.push(Relocation {
            offset,
            symbol: Some(symbol),
            kind: relative(self.machine),
            addend,
        });
        self.all.number(0, 4);
    }
}
