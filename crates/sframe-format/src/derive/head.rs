//! An FDE before its rows are read: what a linker decides by, and what the rows depend on.

use super::entries::{Cie, Fde, Frames, Pointer};
use crate::abi::Register;

/// All of an FDE and its CIE but the rows.
#[derive(Clone, Copy)]
pub struct CfiHead<'data> {
    pub(super) frames: Frames<'data>,
    pub(super) fde: Fde<'data>,
    /// The pointer to its language-specific data, which may be null.
    pub lsda: Option<Pointer>,
    /// The pointer to the personality routine, in the CIE.
    pub personality: Option<Pointer>,
    /// Encoding of the pointer to the function.
    pub encoding: gimli::DwEhPe,
    /// What the rows depend on.
    pub source: CfiSource<'data>,
}

impl<'data> CfiHead<'data> {
    pub(super) fn new(frames: Frames<'data>, fde: Fde<'data>) -> Self {
        let Fde { cie, size, lsda, instructions, .. } = fde;
        let common = CfiCommon {
            alignments: (cie.code_alignment, cie.data_alignment),
            return_address: cie.return_address.0.into(),
            flags: [cie.signal, cie.key_b, cie.unusual],
            instructions: cie.instructions.slice(),
        };
        let source = CfiSource { size, common, instructions: instructions.slice() };
        let Cie { personality, encoding, .. } = cie;
        Self { frames, fde, lsda: lsda.filter(|_| personality.is_some()), personality, encoding, source }
    }

    /// Bytes of its instructions, with which the FDE ends.
    pub fn instructions_size(&self) -> usize {
        gimli::Reader::len(&self.fde.instructions)
    }
}

/// What the rows of an FDE depend on: those with equal sources are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CfiSource<'data> {
    /// Bytes of code.
    pub size: u64,
    /// What its CIE says. A program has few different ones.
    pub common: CfiCommon<'data>,
    /// Its instructions.
    pub instructions: &'data [u8],
}

/// What the rows of all FDEs of a CIE depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CfiCommon<'data> {
    alignments: (u64, i64),
    return_address: Register,
    /// Signal frame, key B, a rare augmentation.
    flags: [bool; 3],
    instructions: &'data [u8],
}
