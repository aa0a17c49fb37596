//! Reads all that FDEs say: every register of every row, and the pointers that exceptions need.
//!
//! What compact tables of version 2 cannot say is refused with a reason: expressions, a lost return address,
//! and augmentations that only few readers know. The caller keeps such FDEs.

use core::ops::Range;

use super::entries::{Cie, Frames, Pointer};
use super::head::CfiHead;
use super::reason::CfiReason;
use super::states::CfiStates;
use crate::abi::Abi;
use crate::cfi::{CfiFunction, CfiRow, NumberedFunction};

/// What an FDE says.
#[derive(Clone, Copy, Debug)]
pub struct CfiEntry<'a> {
    /// First address that it covers. In an object, this is what the section's bytes say, without relocations.
    pub start: u64,
    /// Its rows.
    pub function: &'a CfiFunction,
    /// The pointer to its language-specific data, which may be null.
    pub lsda: Option<Pointer>,
    /// Offset of its CIE.
    pub cie: usize,
    /// The pointer to the personality routine, in the CIE.
    pub personality: Option<Pointer>,
    /// Encoding of the pointer to the function.
    pub encoding: gimli::DwEhPe,
}

/// The parts of an FDE and its CIE that `.debug_frame` holds, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CfiParts {
    /// Factor of distances in code.
    pub code_alignment: u64,
    /// Factor of offsets.
    pub data_alignment: i64,
    /// Column of the return address.
    pub return_address: u16,
    /// Whether it is a signal frame.
    pub signal: bool,
    /// Whether return addresses are signed with key B.
    pub key_b: bool,
    /// Where the CIE's instructions are in the section.
    pub initial: Range<usize>,
    /// Where the FDE's instructions are.
    pub instructions: Range<usize>,
    /// Bytes of code.
    pub size: u64,
}

/// Reads FDEs of one section, one after the other.
pub struct CfiReader<'data> {
    frames: Frames<'data>,
    known: Option<Cie<'data>>,
    states: CfiStates<'data>,
    numbered: NumberedFunction,
    function: CfiFunction,
}

impl<'data> CfiReader<'data> {
    /// Reads `.eh_frame`, which lies at `address`. It may be unrelocated: rows do not depend on addresses.
    pub fn new(abi: Abi, eh_frame: &'data [u8], address: u64) -> Self {
        Self::of(Frames::new(abi, eh_frame, address))
    }

    /// Reads `.debug_frame`.
    pub fn of_debug_frame(abi: Abi, debug_frame: &'data [u8]) -> Self {
        Self::of(Frames::of_debug(abi, debug_frame))
    }

    fn of(frames: Frames<'data>) -> Self {
        let (numbered, function) = Default::default();
        Self { frames, known: None, states: CfiStates::new(frames.abi), numbered, function }
    }

    /// The offsets of all records in the section, CIEs included.
    pub fn offsets(&self) -> impl Iterator<Item = usize> + use<'data> {
        self.frames.records().map(|record| record.offset)
    }

    /// What the FDE at this offset says. `None`: a CIE is there.
    ///
    /// # Errors
    /// A table cannot say the same.
    pub fn read(&mut self, offset: usize) -> Result<Option<CfiEntry<'_>>, CfiReason> {
        let Some(head) = CfiHead::read(&self.frames, &mut self.known, offset)? else { return Ok(None) };
        self.states.read(&head, &mut self.numbered)?;
        let NumberedFunction { size, signal, key_b, ref rows } = self.numbered;
        let row = |&(start, number)| CfiRow { start, ..self.states.rows().row(number).clone() };
        self.function = CfiFunction { size, signal, key_b, rows: rows.iter().map(row).collect() };
        Ok(Some(CfiEntry {
            start: head.fde.start,
            function: &self.function,
            lsda: head.lsda(),
            cie: head.cie.offset,
            personality: head.personality(),
            encoding: head.encoding(),
        }))
    }

    /// What the FDE at this offset says beside its rows. `None`: a CIE is there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn head(&mut self, offset: usize) -> Result<Option<CfiHead<'_, 'data>>, CfiReason> {
        CfiHead::read(&self.frames, &mut self.known, offset)
    }

    /// The parts of the FDE at this offset. `None`: there is none that can be read.
    pub fn parts(&mut self, offset: usize) -> Option<CfiParts> {
        let CfiHead { frames, cie, fde, .. } = self.head(offset).ok()??;
        let range = |part| {
            let start = frames.offset_of(part);
            start..start + gimli::Reader::len(part)
        };
        Some(CfiParts {
            code_alignment: cie.code_alignment,
            data_alignment: cie.data_alignment,
            return_address: cie.return_address.0,
            signal: cie.signal,
            key_b: cie.key_b,
            initial: range(&cie.instructions),
            instructions: range(&fde.instructions),
            size: fde.size,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::entries::FdeBody;
    use super::{CfiReader, CfiReason};
    use crate::abi::Abi;
    use crate::cfi::CfiFunction;
    use alloc::vec::Vec;

    /// Adds a record with its length, padded to four bytes.
    fn record(section: &mut Vec<u8>, body: &[u8]) {
        let length = body.len().next_multiple_of(4);
        section.extend((length as u32).to_le_bytes());
        section.extend(body);
        section.resize(section.len() + length - body.len(), 0);
    }

    /// A CIE, and FDEs of these sizes that move the CFA by 16 after so many bytes.
    fn section(functions: &[(u32, u8)]) -> (Vec<u8>, Vec<usize>) {
        let mut section = Vec::new();
        record(&mut section, b"\0\0\0\0\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01");
        let mut offsets = Vec::new();
        for &(size, after) in functions {
            offsets.push(section.len());
            let mut body = (section.len() as u32 + 4).to_le_bytes().to_vec();
            body.extend([0; 4]);
            body.extend(size.to_le_bytes());
            body.extend([0, 0x40 | after, 0x0e, 16]);
            record(&mut section, &body);
        }
        (section, offsets)
    }

    /// FDEs after a CIE with these instructions. Each FDE has instructions of its own.
    fn of_one_cie(initial: &[u8], fdes: &[&[u8]]) -> (Vec<u8>, Vec<usize>) {
        let mut section = Vec::new();
        let head = b"\0\0\0\0\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01";
        record(&mut section, &[head, initial].concat());
        let mut offsets = Vec::new();
        for instructions in fdes {
            offsets.push(section.len());
            let to_cie = (section.len() as u32 + 4).to_le_bytes();
            record(&mut section, &[&to_cie[..], &[0; 4], &20u32.to_le_bytes(), &[0], instructions].concat());
        }
        (section, offsets)
    }

    /// The CIE's instructions run once for all of its FDEs, and no FDE sees what another one did.
    #[test]
    fn fdes_of_one_cie_do_not_disturb_each_other() {
        // Move by 1 and push; remember, change and restore; restore a register; arguments; restore what the
        // CIE remembered, and remember something else in its place.
        let fdes: [&[u8]; 5] = [
            b"\x41\x0e\x10\x86\x02",
            b"\x0a\x41\x0e\x20\x41\x0b",
            b"\x41\x86\x03\x42\xc6",
            b"\x2e\x08\x41\x0e\x18",
            b"\x41\x0e\x40\x41\x0b\x41\x0e\x50\x0a",
        ];
        for initial in [&b""[..], b"\x0a", b"\x0a\x0e\x30\x83\x04", b"\x2e\x10"] {
            let order = [0, 4, 1, 2, 3, 4, 0, 2, 4, 1];
            let (bytes, offsets) = of_one_cie(initial, &order.map(|number| fdes[number]));
            let mut shared = CfiReader::new(Abi::Amd64, &bytes, 0);
            for &offset in &offsets {
                let mut fresh = CfiReader::new(Abi::Amd64, &bytes, 0);
                let read = |reader: &mut CfiReader<'_>| {
                    reader.read(offset).map(|entry| entry.map(|entry| entry.function.clone()))
                };
                assert_eq!(read(&mut shared), read(&mut fresh), "{initial:x?} at {offset}");
            }
        }
    }

    /// What the first FDE of a CIE says.
    fn read(initial: &[u8], instructions: &[u8]) -> Result<CfiFunction, CfiReason> {
        let (bytes, offsets) = of_one_cie(initial, &[instructions]);
        let mut reader = CfiReader::new(Abi::Amd64, &bytes, 0);
        reader.read(offsets[0]).map(|entry| entry.expect("an FDE").function.clone())
    }

    /// Readers disagree about where the FDEs of such a CIE begin.
    #[test]
    fn cies_move_nowhere() {
        let set_loc = [&[gimli::DW_CFA_set_loc.0][..], &[0; 4]].concat();
        for moves in [b"\x41", b"\x02\x01".as_slice(), &set_loc] {
            assert_eq!(read(moves, b"\x41\x0e\x10"), Err(CfiReason::CieMoves));
            let in_fde = read(b"", moves).map(|function| function.rows.len());
            assert_eq!(in_fde, if moves == set_loc { Err(CfiReason::Absolute) } else { Ok(1) });
        }
    }

    /// A section of such entries would take memory or time by the square of its size.
    #[test]
    fn entries_that_no_compiler_writes_are_refused() {
        let push = |register: u16| [0x05, 0x80 | register as u8, (register >> 7) as u8, 1];
        let pushes = |count: u16| (32..32 + count).flat_map(push).collect::<Vec<u8>>();
        assert!(read(b"", &pushes(40)).is_ok());
        assert!(matches!(read(b"", &pushes(60)), Err(CfiReason::Malformed(_))));
        let same = |count: usize| [0x0e, 16].repeat(count);
        assert!(read(b"", &same(1 << 14)).is_ok());
        assert_eq!(read(b"", &same((1 << 14) + 1)), Err(CfiReason::Long));
        assert!(read(&[0; 1000], b"").is_ok());
        assert!(matches!(read(&[0; 1100], b""), Err(CfiReason::Malformed(_))));
        let mut long = Vec::new();
        record(
            &mut long,
            &[&b"\0\0\0\0\x01z"[..], &[b'S'; 32], b"R\0\x01\x78\x10\x01\x1b\x0c\x07\x08"].concat(),
        );
        let offset = long.len();
        let to_cie = (offset as u32 + 4).to_le_bytes();
        record(&mut long, &[&to_cie[..], &[0; 4], &20u32.to_le_bytes(), &[0]].concat());
        assert!(matches!(CfiReader::new(Abi::Amd64, &long, 0).read(offset), Err(CfiReason::Malformed(_))));
    }

    #[test]
    fn functions_have_sixteen_mebibytes_at_most() {
        for (size, is_read) in [(1 << 24, true), ((1 << 24) + 1, false), (u32::MAX, false)] {
            let (bytes, offsets) = section(&[(size, 1)]);
            let read = CfiReader::new(Abi::Amd64, &bytes, 0).read(offsets[0]).map(drop);
            assert_eq!(read, if is_read { Ok(()) } else { Err(CfiReason::Size) });
        }
    }

    /// An FDE of the usual form is read by a short way, once its CIE is known. Whatever its bytes, it says
    /// the same as by the way that takes FDEs of all forms.
    #[test]
    fn a_known_cie_makes_no_difference() {
        fn says<'d>(
            bytes: &'d [u8],
            offsets: &[usize],
            known: bool,
        ) -> Result<Option<(FdeBody<'d>, usize)>, CfiReason> {
            let mut reader = CfiReader::new(Abi::Amd64, bytes, 0x1000);
            if known {
                let _ = reader.head(offsets[0]);
            }
            reader.head(offsets[1]).map(|head| head.map(|head| (head.fde, head.cie.offset)))
        }
        let letters: [&[u8]; 3] =
            [b"R\0\x01\x78\x10\x01\x1b", b"LR\0\x01\x78\x10\x02\x1b\x1b", b"R\0\x01\x78\x10\x01\x1a"];
        for letters in letters {
            let mut bytes = Vec::new();
            record(&mut bytes, &[b"\0\0\0\0\x01z", letters, b"\x0c\x07\x08\x90\x01"].concat());
            let mut offsets = Vec::new();
            for _ in 0..2 {
                offsets.push(bytes.len());
                let to_cie = (bytes.len() as u32 + 4).to_le_bytes();
                let body =
                    [&to_cie[..], &[8, 1, 0, 0], &20u32.to_le_bytes(), &[4, 1, 2, 3, 4, 0x41, 0x0e, 16]];
                record(&mut bytes, &body.concat());
            }
            let is_read = says(&bytes, &offsets, true).is_ok_and(|says| says.is_some());
            assert!(is_read || letters.ends_with(b"\x1a"));
            for place in offsets[1]..bytes.len() {
                for value in 0..=255 {
                    let mut other = bytes.clone();
                    other[place] = value;
                    assert_eq!(
                        says(&other, &offsets, true),
                        says(&other, &offsets, false),
                        "{letters:x?}: {value:#x} at {place}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_offset_of_a_cie_has_no_fde() {
        let (bytes, offsets) = section(&[(20, 1)]);
        let mut reader = CfiReader::new(Abi::Amd64, &bytes, 0);
        assert!(reader.head(offsets[0]).unwrap().is_some());
        assert!(reader.head(0).unwrap().is_none());
    }
}
