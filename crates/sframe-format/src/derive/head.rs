//! An FDE before its rows are read: what a linker decides by, and what the rows depend on.

use super::entries::{Cie, FdeBody, Frames, Pointer};
use super::reason::{CfiReason, malformed};
use crate::abi::Register;

/// All of an FDE and its CIE but the rows.
pub struct CfiHead<'r, 'data> {
    pub(super) frames: &'r Frames<'data>,
    pub(super) cie: &'r Cie<'data>,
    pub(super) fde: FdeBody<'data>,
    /// What the rows depend on.
    pub source: CfiSource<'r, 'data>,
}

/// A CIE that was read. FDEs of one CIE follow each other, so it is kept for the next one.
pub(super) struct KnownCie<'data> {
    cie: Cie<'data>,
    common: CfiCommon<'data>,
}

impl<'r, 'data> CfiHead<'r, 'data> {
    /// The FDE at this offset. `None`: a CIE is there.
    pub(super) fn read(
        frames: &'r Frames<'data>,
        known: &'r mut Option<KnownCie<'data>>,
        offset: usize,
    ) -> Result<Option<Self>, CfiReason> {
        let (rest, place) =
            frames.record(offset).and_then(|record| frames.body(&record)).map_err(malformed)?;
        let Some(place) = place else { return Ok(None) };
        if known.as_ref().is_some_and(|known| known.cie.offset != place) {
            *known = None;
        }
        let known = match known {
            Some(known) => known,
            None => known.insert(KnownCie::new(frames.cie(place).map_err(malformed)?)),
        };
        let KnownCie { cie, common } = &*known;
        let fde = frames.fde_body(rest, cie).map_err(malformed)?;
        let source = CfiSource { size: fde.size, common, instructions: fde.instructions.slice() };
        Ok(Some(Self { frames, cie, fde, source }))
    }

    /// The pointer to its language-specific data, which may be null.
    pub fn lsda(&self) -> Option<Pointer> {
        self.fde.lsda.filter(|_| self.cie.personality.is_some())
    }

    /// The pointer to the personality routine, in the CIE.
    pub fn personality(&self) -> Option<Pointer> {
        self.cie.personality
    }

    /// Encoding of the pointer to the function.
    pub fn encoding(&self) -> gimli::DwEhPe {
        self.cie.encoding
    }

    /// Bytes of its instructions, with which the FDE ends.
    pub fn instructions_size(&self) -> usize {
        self.source.instructions.len()
    }
}

impl<'data> KnownCie<'data> {
    fn new(cie: Cie<'data>) -> Self {
        let common = CfiCommon {
            alignments: (cie.code_alignment, cie.data_alignment),
            return_address: cie.return_address.0.into(),
            flags: [cie.signal, cie.key_b, cie.unusual],
            instructions: cie.instructions.slice(),
        };
        Self { cie, common }
    }
}

/// What the rows of an FDE depend on: those with equal sources are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CfiSource<'r, 'data> {
    /// Bytes of code.
    pub size: u64,
    /// What its CIE says. A program has few different ones.
    pub common: &'r CfiCommon<'data>,
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
