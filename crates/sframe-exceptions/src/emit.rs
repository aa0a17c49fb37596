//! Writes the parts of CIEs and FDEs (LSB, "Exception Frames"). All pointers are absolute.

use sframe_format::Abi;
use sframe_format::abi::Register;
use sframe_format::cfi::Saved;
use sframe_format::compact::Handler;

/// `DW_EH_PE_absptr`, alone or for a pointer to the pointer.
const ABSOLUTE: u8 = 0;
const INDIRECT: u8 = 0x80;
/// `DW_CFA_AARCH64_negate_ra_state`.
pub const NEGATE_SIGNED: u8 = 0x2d;
/// `DW_CFA_GNU_args_size`.
pub const SIZE_OF_ARGUMENTS: u8 = 0x2e;

/// What records are written to. `None` always means that there is no room.
pub trait Emit {
    /// How many bytes there are.
    fn length(&self) -> usize;

    /// Writes bytes over those at `start`, or behind the last ones.
    fn put_at(&mut self, start: usize, bytes: &[u8]) -> Option<()>;

    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]) -> Option<()>;

    /// Pads the record at `start` to words, and writes its length.
    fn finish(&mut self, start: usize) -> Option<()> {
        while !self.length().is_multiple_of(8) {
            self.byte(0)?;
        }
        let length = u32::try_from(self.length() - start - 4).ok()?;
        self.put_at(start, &length.to_ne_bytes())
    }

    /// Appends a byte.
    fn byte(&mut self, byte: u8) -> Option<()> {
        self.put(&[byte])
    }

    /// Appends four bytes.
    fn word32(&mut self, word: u32) -> Option<()> {
        self.put(&word.to_ne_bytes())
    }

    /// Appends eight bytes.
    fn word64(&mut self, word: u64) -> Option<()> {
        self.put(&word.to_ne_bytes())
    }

    /// Appends a LEB128 number without a sign.
    fn unsigned(&mut self, mut value: u64) -> Option<()> {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80)?;
            value >>= 7;
        }
        self.byte(value as u8)
    }

    /// Appends a LEB128 number with a sign.
    fn signed(&mut self, mut value: i64) -> Option<()> {
        while !(-0x40..0x40).contains(&value) {
            self.byte(value as u8 | 0x80)?;
            value >>= 7;
        }
        self.byte(value as u8 & 0x7f)
    }

    /// Appends a CIE from its number up to its instructions. `factor` divides offsets.
    fn cie_head(
        &mut self,
        abi: Abi,
        handler: Option<Handler>,
        (signal, key_b): (bool, bool),
        factor: i64,
    ) -> Option<()> {
        self.word32(0)?;
        self.byte(1)?;
        let has_handler = handler.is_some();
        let letters: [(bool, u8); 6] = [
            (true, b'z'),
            (has_handler, b'P'),
            (has_handler, b'L'),
            (true, b'R'),
            (signal, b'S'),
            (key_b, b'B'),
        ];
        for (_, letter) in letters.into_iter().filter(|letter| letter.0) {
            self.byte(letter)?;
        }
        self.byte(0)?;
        self.unsigned(1)?;
        self.signed(factor)?;
        self.byte(u8::try_from(abi.return_address()).ok()?)?;
        match handler {
            Some(Handler { personality, .. }) => {
                self.byte(11)?;
                self.byte(if personality.indirect { INDIRECT } else { ABSOLUTE })?;
                self.word64(personality.address)?;
                self.byte(ABSOLUTE)?;
            }
            None => self.byte(1)?,
        }
        self.byte(ABSOLUTE)
    }

    /// Appends the rule of the CFA.
    fn cfa(&mut self, register: Register, offset: i64, factor: i64) -> Option<()> {
        match u64::try_from(offset) {
            // DW_CFA_def_cfa
            Ok(offset) => {
                self.byte(0x0c)?;
                self.unsigned(register.into())?;
                self.unsigned(offset)
            }
            // DW_CFA_def_cfa_sf
            Err(_) => self.three(0x12, register, offset / factor),
        }
    }

    /// Appends the rule of a register.
    fn register(&mut self, register: Register, saved: Saved, factor: i64) -> Option<()> {
        match saved {
            Saved::AtCfa(offset) => match (u8::try_from(register), u64::try_from(offset / factor)) {
                // DW_CFA_offset
                (Ok(register @ 0..64), Ok(factored)) => {
                    self.byte(0x80 | register)?;
                    self.unsigned(factored)
                }
                // DW_CFA_offset_extended_sf
                _ => self.three(0x11, register, offset / factor),
            },
            // DW_CFA_val_offset_sf
            Saved::CfaPlus(offset) => self.three(0x15, register, offset / factor),
            // DW_CFA_register
            Saved::In(other) => {
                self.byte(0x09)?;
                self.unsigned(register.into())?;
                self.unsigned(other.into())
            }
            // DW_CFA_undefined
            Saved::Undefined => {
                self.byte(0x07)?;
                self.unsigned(register.into())
            }
        }
    }

    /// Appends an instruction with a register and a divided offset.
    fn three(&mut self, instruction: u8, register: Register, factored: i64) -> Option<()> {
        self.byte(instruction)?;
        self.unsigned(register.into())?;
        self.signed(factored)
    }
}
