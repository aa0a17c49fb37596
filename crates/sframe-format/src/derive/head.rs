//! An FDE before its rows are read: what a linker decides by.

use super::entries::{Cie, FdeBody, Frames, Pointer};
use super::reason::{CfiReason, malformed};

/// All of an FDE and its CIE but the rows.
pub struct CfiHead<'r, 'data> {
    pub(super) frames: &'r Frames<'data>,
    pub(super) cie: &'r Cie<'data>,
    pub(super) fde: FdeBody<'data>,
}

impl<'r, 'data> CfiHead<'r, 'data> {
    /// The FDE at this offset. `None`: a CIE is there. `known` is the CIE that was read last: FDEs of one CIE
    /// follow each other.
    pub(super) fn read(
        frames: &'r Frames<'data>,
        known: &'r mut Option<Cie<'data>>,
        offset: usize,
    ) -> Result<Option<Self>, CfiReason> {
        let short = known.as_ref().and_then(|cie| frames.short_fde(offset, cie));
        let fde = match short {
            Some(fde) => Some(fde),
            None => Self::read_any(frames, known, offset)?,
        };
        let cie = known.as_ref();
        Ok(fde.zip(cie).map(|(fde, cie)| Self { frames, cie, fde }))
    }

    /// The same, for an FDE of any form, and makes `known` its CIE.
    fn read_any(
        frames: &Frames<'data>,
        known: &mut Option<Cie<'data>>,
        offset: usize,
    ) -> Result<Option<FdeBody<'data>>, CfiReason> {
        let (rest, place) =
            frames.record(offset).and_then(|record| frames.body(&record)).map_err(malformed)?;
        let Some(place) = place else { return Ok(None) };
        let cie = match known.filter(|cie| cie.offset == place) {
            Some(cie) => cie,
            None => {
                *known = None;
                *known.insert(frames.cie(place).map_err(malformed)?)
            }
        };
        frames.fde_body(rest, &cie).map(Some).map_err(malformed)
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

    /// Bytes of code.
    pub fn size(&self) -> u64 {
        self.fde.size
    }

    /// Bytes of its instructions, with which the FDE ends.
    pub fn instructions_size(&self) -> usize {
        self.fde.instructions.slice().len()
    }
}
