//! Reads all that FDEs say: every register of every row, and the pointers that exceptions need.
//!
//! What compact tables of version 2 cannot say is refused with a reason: expressions, a lost return address,
//! and augmentations that only few readers know. The caller keeps such FDEs.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use gimli::{CfaRule, RegisterRule};

use super::entries::{Cie, Fde, Frames, Pointer};
use super::rows::{All, Row, Runner, SIGNED};
use crate::abi::{Abi, Register};
use crate::cfi::{CfiFunction, CfiRow, Saved};

/// Why a table cannot replace an FDE.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CfiReason {
    /// It or its CIE is malformed, or contains unknown instructions or augmentations.
    Malformed(alloc::string::String),
    /// It covers more than 4 GiB.
    Size,
    /// The CIE is of a rare kind: GCC 2's, or for tagged frames.
    Augmentation,
    /// The return address is not in the ABI's column.
    ReturnColumn(u16),
    /// A row has no CFA, or it is an expression.
    CfaExpression,
    /// The rule of a register is an expression.
    Expression(Register),
    /// The rule of a register has no form in a table.
    Rule(Register),
    /// The return address is lost: the outermost frame.
    Outermost,
    /// Bytes of arguments on the stack were remembered with the rules, which readers disagree about.
    ArgsSize,
    /// An instruction names an address (`DW_CFA_set_loc`).
    Absolute,
}

impl fmt::Display for CfiReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "it cannot be read: {error}"),
            Self::Size => f.pad("it covers more than 4 GiB"),
            Self::Augmentation => f.pad("its CIE has a rare augmentation"),
            Self::ReturnColumn(column) => write!(f, "the return address is in column {column}"),
            Self::CfaExpression => f.pad("a CFA is an expression, or undefined"),
            Self::Expression(register) => write!(f, "the rule of register {register} is an expression"),
            Self::Rule(register) => write!(f, "the rule of register {register} has no form in a table"),
            Self::Outermost => f.pad("the return address is undefined"),
            Self::ArgsSize => f.pad("arguments' sizes are remembered with the rules"),
            Self::Absolute => f.pad("an instruction names an address"),
        }
    }
}

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

/// All of an FDE and its CIE but the rows.
#[derive(Clone, Copy, Debug)]
pub struct CfiHead<'data> {
    /// The pointer to its language-specific data, which may be null.
    pub lsda: Option<Pointer>,
    /// The pointer to the personality routine, in the CIE.
    pub personality: Option<Pointer>,
    /// Encoding of the pointer to the function.
    pub encoding: gimli::DwEhPe,
    /// What the rows depend on.
    pub source: CfiSource<'data>,
}

/// What the rows of an FDE depend on: those with equal sources are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CfiSource<'data> {
    /// Bytes of code.
    pub size: u64,
    alignments: (u64, i64),
    return_address: Register,
    /// Signal frame, key B, a rare augmentation.
    flags: [bool; 3],
    instructions: [&'data [u8]; 2],
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
    /// FDEs of one CIE follow each other, so the CIE is read once for them.
    known: Option<Cie<'data>>,
    runner: Runner<All>,
    /// Offset of the CIE that `runner` ran, if FDEs of it may follow.
    begun: Option<usize>,
    function: CfiFunction,
    /// Rows of earlier functions, for their memory.
    spare: Vec<CfiRow>,
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
        let (runner, function) = (Runner::new(All::default()), CfiFunction::default());
        Self { frames, known: None, runner, begun: None, function, spare: Vec::new() }
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
        let Some(fde) = self.entry(offset)? else { return Ok(None) };
        self.spare.append(&mut self.function.rows);
        self.read_function(&fde)?;
        let Fde { cie, start, lsda, .. } = fde;
        let personality = cie.personality;
        Ok(Some(CfiEntry {
            start,
            function: &self.function,
            lsda: lsda.filter(|_| personality.is_some()),
            cie: cie.offset,
            personality,
            encoding: cie.encoding,
        }))
    }

    /// What the FDE at this offset says beside its rows. `None`: a CIE is there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn head(&mut self, offset: usize) -> Result<Option<CfiHead<'data>>, CfiReason> {
        let Some(Fde { cie, size, lsda, instructions, .. }) = self.entry(offset)? else { return Ok(None) };
        let source = CfiSource {
            size,
            alignments: (cie.code_alignment, cie.data_alignment),
            return_address: cie.return_address.0.into(),
            flags: [cie.signal, cie.key_b, cie.unusual],
            instructions: [cie.instructions.slice(), instructions.slice()],
        };
        let Cie { personality, encoding, .. } = cie;
        let lsda = lsda.filter(|_| personality.is_some());
        Ok(Some(CfiHead { lsda, personality, encoding, source }))
    }

    /// The parts of the FDE at this offset. `None`: there is none that can be read.
    pub fn parts(&mut self, offset: usize) -> Option<CfiParts> {
        let fde = self.entry(offset).ok()??;
        let range = |part| {
            let start = self.frames.offset_of(part);
            start..start + gimli::Reader::len(part)
        };
        Some(CfiParts {
            code_alignment: fde.cie.code_alignment,
            data_alignment: fde.cie.data_alignment,
            return_address: fde.cie.return_address.0,
            signal: fde.cie.signal,
            key_b: fde.cie.key_b,
            initial: range(&fde.cie.instructions),
            instructions: range(&fde.instructions),
            size: fde.size,
        })
    }

    fn entry(&mut self, offset: usize) -> Result<Option<Fde<'data>>, CfiReason> {
        let entry = self.frames.entry_at(offset, self.known.as_ref()).map_err(malformed)?;
        if let Some(Fde { cie, .. }) = entry
            && self.known.is_none_or(|known| known.offset != cie.offset)
        {
            self.known = Some(cie);
        }
        Ok(entry)
    }

    /// Reads the rows of an FDE. The function has none before.
    fn read_function(&mut self, fde: &Fde<'data>) -> Result<(), CfiReason> {
        let Self { frames, runner, begun, function, spare, .. } = self;
        let abi = frames.abi;
        function.size = u32::try_from(fde.size).map_err(|_| CfiReason::Size)?;
        (function.signal, function.key_b) = (fde.cie.signal, fde.cie.key_b);
        let column = fde.cie.return_address.0;
        if u32::from(column) != abi.return_address() {
            return Err(CfiReason::ReturnColumn(column));
        }
        if fde.cie.unusual || (fde.cie.key_b && !abi.is_aarch64()) {
            return Err(CfiReason::Augmentation);
        }
        if *begun != Some(fde.cie.offset) {
            *begun = None;
            let may_follow = runner.begin(frames, &fde.cie, All::default()).map_err(malformed)?;
            *begun = may_follow.then_some(fde.cie.offset);
        }
        let mut rows = runner.rows_behind(frames, fde);
        while let Some(row) = rows.next_row().map_err(malformed)? {
            let start = row.start.wrapping_sub(fde.start);
            let is_empty = row.start == row.end;
            if row.absolute {
                return Err(CfiReason::Absolute);
            }
            // Locations may advance beyond the end of the range, or not at all between two rows.
            if start >= fde.size || is_empty {
                continue;
            }
            let mut read = spare.pop().unwrap_or_default();
            read.start = start as u32;
            read_row(abi, row, &mut read)?;
            match function.rows.last() {
                Some(last) if last.says_same(&read) => spare.push(read),
                _ => function.rows.push(read),
            }
        }
        Ok(())
    }
}

fn malformed(error: gimli::Error) -> CfiReason {
    CfiReason::Malformed(alloc::string::ToString::to_string(&error))
}

/// Reads all of a row but its start.
fn read_row(abi: Abi, row: &Row<All>, read: &mut CfiRow) -> Result<(), CfiReason> {
    (read.cfa_register, read.cfa_offset) = match row.cfa() {
        // gimli returns this before any DW_CFA_def_cfa. No ABI has its CFA at register 0 itself.
        CfaRule::RegisterAndOffset { register: gimli::Register(0), offset: 0 } => {
            return Err(CfiReason::CfaExpression);
        }
        CfaRule::RegisterAndOffset { register, offset } => (Register::from(register.0), *offset),
        CfaRule::Expression(_) => return Err(CfiReason::CfaExpression),
    };
    if row.args_differ {
        return Err(CfiReason::ArgsSize);
    }
    (read.args_size, read.signed) = (row.args_size, false);
    read.saved.clear();
    let signing = Register::from(gimli::AArch64::RA_SIGN_STATE.0);
    for &(register, ref rule) in &row.rules().0 {
        let saved = match rule {
            RegisterRule::SameValue => continue,
            RegisterRule::Constant(state) if abi.is_aarch64() && register == signing => {
                if state & !SIGNED != 0 {
                    return Err(CfiReason::Rule(register));
                }
                read.signed = state & SIGNED != 0;
                continue;
            }
            RegisterRule::Undefined if register == abi.return_address() => return Err(CfiReason::Outermost),
            RegisterRule::Undefined => Saved::Undefined,
            RegisterRule::Offset(offset) => Saved::AtCfa(*offset),
            RegisterRule::ValOffset(offset) => Saved::CfaPlus(*offset),
            RegisterRule::Register(other) => Saved::In(other.0.into()),
            RegisterRule::Expression(_) | RegisterRule::ValExpression(_) => {
                return Err(CfiReason::Expression(register));
            }
            _ => return Err(CfiReason::Rule(register)),
        };
        // The signing state is no register that a function could save.
        if abi.is_aarch64() && register == signing {
            return Err(CfiReason::Rule(register));
        }
        read.saved.push((register, saved));
    }
    // x86-64 has no register that could still contain the return address.
    let has_return = read.saved.iter().any(|&(register, _)| register == abi.return_address());
    if abi == Abi::Amd64 && !has_return {
        return Err(CfiReason::Rule(abi.return_address()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{CfiHead, CfiReader};
    use crate::abi::Abi;
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

    #[test]
    fn fdes_with_equal_sources_have_equal_rows() {
        let (bytes, offsets) = section(&[(20, 1), (20, 4), (30, 1), (20, 1)]);
        let mut reader = CfiReader::new(Abi::Amd64, &bytes, 0);
        let heads: Vec<CfiHead<'_>> =
            offsets.iter().map(|&offset| reader.head(offset).unwrap().unwrap()).collect();
        let functions: Vec<_> =
            offsets.iter().map(|&offset| reader.read(offset).unwrap().unwrap().function.clone()).collect();
        for (head, function) in heads.iter().zip(&functions) {
            let same_source: Vec<bool> = heads.iter().map(|other| other.source == head.source).collect();
            let same: Vec<bool> = functions.iter().map(|other| other == function).collect();
            assert_eq!(same_source, same);
        }
        assert!(functions[0] == functions[3] && functions[0] != functions[1] && functions[0] != functions[2]);
        assert!(reader.head(0).unwrap().is_none(), "a CIE is there");
    }
}
