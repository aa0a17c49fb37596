//! Makes a CIE and an FDE that say what a table says of one address (LSB, "Exception Frames").
//!
//! The FDE covers the whole function, so that unwinders find the function's start in it, but its rules hold
//! only where the table said so. That is enough: unwinders look an FDE up for one address, and run its
//! instructions for that address. All pointers are absolute.
//!
//! ```text
//! 0   .eh_frame_hdr without a table: version 1, pointer to what follows
//! 16  CIE with all instructions
//!     FDE without any
//!     the zero word that ends a list
//! ```

use sframe_format::Abi;
use sframe_format::cfi::Saved;
use sframe_format::compact::WholeMatch;

use crate::emit::{Emit, NEGATE_SIGNED, SIZE_OF_ARGUMENTS};

/// Room for any frame that a table can describe.
pub const MOST: usize = 768;
/// Where the CIE is. The header stands before it.
pub const CIE: usize = 16;

/// A made frame.
pub struct Frame {
    bytes: [u8; MOST],
    length: usize,
    fde: usize,
}

impl Frame {
    /// The frame that a table describes. `None`: it does not fit, which no table of ours leads to.
    pub fn new(abi: Abi, found: &WholeMatch<'_>) -> Option<Self> {
        let mut frame = Self { bytes: [0; MOST], length: CIE, fde: 0 };
        frame.cie(abi, found)?;
        frame.fde = frame.length;
        frame.word32(0)?;
        frame.word32(u32::try_from(frame.length - CIE).ok()?)?;
        frame.word64(found.function)?;
        let end = found.start.wrapping_add(found.size.into());
        frame.word64(end.wrapping_sub(found.function))?;
        match found.handler {
            Some(handler) => {
                frame.byte(8)?;
                frame.word64(handler.lsda.unwrap_or(0))?;
            }
            None => frame.byte(0)?,
        }
        frame.finish(frame.fde)?;
        frame.word32(0)?;
        Some(frame)
    }

    /// Its bytes, which contain no address of their own place: the header's pointer is still missing.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Where the FDE is.
    pub fn fde(&self) -> usize {
        self.fde
    }

    fn cie(&mut self, abi: Abi, found: &WholeMatch<'_>) -> Option<()> {
        let rules = &found.rules;
        let offsets = rules.registers(abi).map(|(_, saved)| match saved {
            Saved::AtCfa(offset) | Saved::CfaPlus(offset) => offset,
            Saved::In(_) | Saved::Undefined => 0,
        });
        let factor = if offsets.chain([rules.cfa_offset]).all(|offset| offset % 8 == 0) { -8 } else { -1 };
        let start = self.length;
        self.word32(0)?;
        self.cie_head(abi, found.handler, (rules.signal, rules.key_b), factor)?;
        self.instructions(abi, found, factor)?;
        self.finish(start)
    }

    fn instructions(&mut self, abi: Abi, found: &WholeMatch<'_>, factor: i64) -> Option<()> {
        let rules = &found.rules;
        self.cfa(rules.cfa_register, rules.cfa_offset, factor)?;
        for (register, saved) in rules.registers(abi) {
            self.register(register, saved, factor)?;
        }
        if rules.signed {
            self.byte(NEGATE_SIGNED)?;
        }
        if rules.args_size != 0 {
            self.byte(SIZE_OF_ARGUMENTS)?;
            self.unsigned(rules.args_size.into())?;
        }
        Some(())
    }
}

impl Emit for Frame {
    fn length(&self) -> usize {
        self.length
    }

    fn put_at(&mut self, start: usize, bytes: &[u8]) -> Option<()> {
        let room = self.bytes.get_mut(start..start.checked_add(bytes.len())?)?;
        for (place, byte) in room.iter_mut().zip(bytes) {
            *place = *byte;
        }
        Some(())
    }

    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.put_at(self.length, bytes)?;
        self.length += bytes.len();
        Some(())
    }
}
