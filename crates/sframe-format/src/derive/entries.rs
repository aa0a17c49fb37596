//! CIEs and FDEs of `.eh_frame` (LSB, "Exception Frames") and of `.debug_frame` (DWARF 5, 6.4.1).
//!
//! The two differ in the field that tells CIEs from FDEs. In `.eh_frame`, it is 0 in a CIE, and in an FDE the
//! distance to its CIE. In `.debug_frame`, all its bits are set in a CIE, and in an FDE it is the offset of
//! the CIE.
//!
//! This module uses gimli's reader of numbers, but not gimli's reader of entries, because that rejects
//! entries that unwinders accept: AArch64's augmentations `B` (return addresses are signed with key B) and
//! `G` (tagged frames), omitted language-specific data, and the entries of GCC 2. It reads only what the rows
//! depend on.

use gimli::{DwEhPe, EhFrame, EndianSlice, Error, Reader, Register, RunTimeEndian};

use super::records::{Record, Records, record_at};
use crate::abi::Abi;
use crate::endian::Endian;

/// The largest number of letters that the augmentation of a CIE may have, and of bytes that its instructions
/// may take. Compilers write eight and some twenty. Each FDE reads its CIE again, so with longer ones a
/// section would take time by the square of its size.
const MOST_LETTERS: usize = 32;
const MOST_INITIAL: usize = 1 << 10;

/// A part of the section.
pub(super) type Slice<'data> = EndianSlice<'data, RunTimeEndian>;

/// The section.
#[derive(Clone, Copy)]
pub(super) struct Frames<'data> {
    pub abi: Abi,
    data: Slice<'data>,
    /// The same, for gimli's expressions.
    pub section: EhFrame<Slice<'data>>,
    /// Its address.
    pub address: u64,
    /// The address that pointers relative to text count from, if it is known.
    text: Option<u64>,
    /// Whether it is `.debug_frame`.
    debug: bool,
}

/// A common information entry.
#[derive(Clone, Copy)]
pub(super) struct Cie<'data> {
    pub offset: usize,
    pub code_alignment: u64,
    pub data_alignment: i64,
    /// The column of the return address.
    pub return_address: Register,
    /// The encoding of addresses in its FDEs.
    pub encoding: DwEhPe,
    /// Whether its FDEs have augmentation data.
    has_data: bool,
    /// Whether its FDEs describe signal frames.
    pub signal: bool,
    /// Whether return addresses are signed with key B.
    pub key_b: bool,
    /// Whether it says something that only few readers know: it is GCC 2's, or of tagged frames.
    pub unusual: bool,
    /// The personality routine: the encoding of its pointer, and where the pointer is.
    pub personality: Option<Pointer>,
    /// The encoding of pointers to language-specific data, if its FDEs have any.
    pub lsda_encoding: Option<DwEhPe>,
    pub instructions: Slice<'data>,
}

/// A pointer in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Its offset in the section.
    pub offset: usize,
    /// How it is encoded.
    pub encoding: DwEhPe,
}

/// A frame description entry.
#[derive(Clone, Copy)]
pub(super) struct Fde<'data> {
    pub offset: usize,
    pub cie: Cie<'data>,
    /// The first address that it covers.
    pub start: u64,
    /// Bytes that it covers.
    pub size: u64,
    pub instructions: Slice<'data>,
}

/// An FDE without its CIE.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FdeBody<'data> {
    pub start: u64,
    pub size: u64,
    /// The pointer to its language-specific data, which may be null.
    pub lsda: Option<Pointer>,
    pub instructions: Slice<'data>,
}

impl Fde<'_> {
    /// The address after its last one.
    pub fn end(&self) -> u64 {
        self.start.wrapping_add(self.size)
    }

    /// Whether it covers an address.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end()).contains(&address)
    }
}

impl<'data> Frames<'data> {
    pub fn new(abi: Abi, data: &'data [u8], address: u64) -> Self {
        let endian = match abi.endian() {
            Endian::Little => RunTimeEndian::Little,
            Endian::Big => RunTimeEndian::Big,
        };
        let (section, data) = (EhFrame::new(data, endian), Slice::new(data, endian));
        Self { abi, data, section, address, text: None, debug: false }
    }

    /// The same, with the address that pointers relative to text count from.
    pub fn with_text(self, text: Option<u64>) -> Self {
        Self { text, ..self }
    }

    /// The section `.debug_frame`.
    pub fn of_debug(abi: Abi, data: &'data [u8]) -> Self {
        Self { debug: true, ..Self::new(abi, data, 0) }
    }

    /// All records, including those after a terminator.
    pub fn records(&self) -> Records<'data> {
        Records::new(self.abi, self.data.slice())
    }

    /// The FDE of a record. `None`: the record is a CIE. `known` is a CIE that was read before, because FDEs
    /// of one CIE follow each other.
    pub fn entry(&self, record: &Record, known: Option<&Cie<'data>>) -> Result<Option<Fde<'data>>, Error> {
        let (rest, place) = self.body(record)?;
        let Some(place) = place else { return Ok(None) };
        let cie = match known {
            Some(cie) if cie.offset == place => *cie,
            _ => self.cie(place)?,
        };
        let FdeBody { start, size, instructions, .. } = self.fde_body(rest, &cie)?;
        Ok(Some(Fde { offset: record.offset, cie, start, size, instructions }))
    }

    /// What an FDE says itself. `rest` are its bytes behind the offset of its CIE.
    pub fn fde_body(&self, mut rest: Slice<'data>, cie: &Cie<'data>) -> Result<FdeBody<'data>, Error> {
        let start = self.address(&mut rest, cie.encoding)?;
        let size = value(&mut rest, cie.encoding)?;
        let mut lsda = None;
        if cie.has_data {
            let length = length(&mut rest)?;
            let offset = self.offset_of(&rest);
            lsda = cie.lsda_encoding.map(|encoding| Pointer { offset, encoding });
            rest.skip(length)?;
        }
        Ok(FdeBody { start, size, lsda, instructions: rest })
    }

    /// The FDE at this offset, if it is of the usual form: of `.eh_frame` and of this CIE, with a length and
    /// distances of four bytes. It says what [`Frames::fde_body`] says.
    #[inline]
    pub fn short_fde(&self, offset: usize, cie: &Cie<'data>) -> Option<FdeBody<'data>> {
        if self.debug || cie.encoding != gimli::DW_EH_PE_pcrel | gimli::DW_EH_PE_sdata4 {
            return None;
        }
        let (endian, rest) = (self.abi.endian(), self.data.slice().get(offset..)?);
        let word = |at: usize| endian.read_u32(rest, at);
        let length = word(0).filter(|&length| length != u32::MAX)? as usize;
        let rest = rest.get(..length.checked_add(4)?)?;
        let id = word(4)? as usize;
        if id == 0 || (offset + 4).checked_sub(id)? != cie.offset {
            return None;
        }
        let number = |at: usize| endian.read_i32(rest, at).map(|number| i64::from(number).cast_unsigned());
        let start = self.address.wrapping_add(offset as u64 + 8).wrapping_add(number(8)?);
        let (size, mut lsda, mut at) = (number(12)?, None, 16);
        if cie.has_data {
            let length = rest.get(at).filter(|&&length| length < 0x80)?;
            at += 1;
            lsda = cie.lsda_encoding.map(|encoding| Pointer { offset: offset + at, encoding });
            at += usize::from(*length);
        }
        let instructions = Slice::new(rest.get(at..)?, self.data.endian());
        Some(FdeBody { start, size, lsda, instructions })
    }

    /// The FDE at this offset.
    pub fn fde(&self, offset: usize, known: Option<&Cie<'data>>) -> Result<Fde<'data>, Error> {
        let record = self.record(offset)?;
        self.entry(&record, known)?.ok_or(Error::NotCiePointer(offset as u64))
    }

    pub fn record(&self, offset: usize) -> Result<Record, Error> {
        let record = record_at(self.abi.endian(), self.data.slice(), offset);
        record.ok_or(Error::NoEntryAtGivenOffset(offset as u64))
    }

    /// The bytes after the field that tells CIEs from FDEs, and in an FDE the offset of its CIE.
    pub fn body(&self, record: &Record) -> Result<(Slice<'data>, Option<usize>), Error> {
        let mut rest = self.data;
        rest.truncate(record.end)?;
        rest.skip(record.id)?;
        let is_long = self.debug && record.id - record.offset > 4;
        let id = if is_long { rest.read_u64()? } else { rest.read_u32()?.into() };
        let of_cie = match (self.debug, is_long) {
            (false, _) => 0,
            (true, false) => u32::MAX.into(),
            (true, true) => u64::MAX,
        };
        if id == of_cie {
            return Ok((rest, None));
        }
        let place = usize::try_from(id).ok();
        let place = place.and_then(|id| if self.debug { Some(id) } else { record.id.checked_sub(id) });
        Ok((rest, Some(place.ok_or(Error::OffsetOutOfBounds(id))?)))
    }

    pub fn cie(&self, offset: usize) -> Result<Cie<'data>, Error> {
        let (mut rest, place) = self.body(&self.record(offset)?)?;
        if place.is_some() {
            return Err(Error::NotCieId(offset as u64));
        }
        let version = rest.read_u8()?;
        if !matches!(version, 1 | 3 | 4) {
            return Err(Error::UnknownVersion(version.into()));
        }
        let augmentation = letters(&mut rest)?;
        if self.debug && version == 4 {
            let address_size = rest.read_u8()?;
            let segment_size = rest.read_u8()?;
            if (address_size, segment_size) != (8, 0) {
                return Err(Error::UnsupportedAddressSize(address_size));
            }
        }
        let letters = match augmentation.strip_prefix(b"eh") {
            // GCC 2 puts a pointer to exception data here.
            Some(letters) => {
                rest.skip(8)?;
                letters
            }
            None => augmentation,
        };
        let mut cie = Cie {
            offset,
            code_alignment: rest.read_uleb128()?,
            data_alignment: rest.read_sleb128()?,
            return_address: match version {
                1 => Register(rest.read_u8()?.into()),
                _ => register(&mut rest)?,
            },
            encoding: gimli::DW_EH_PE_absptr,
            has_data: letters.starts_with(b"z"),
            signal: false,
            key_b: false,
            unusual: augmentation.starts_with(b"eh"),
            personality: None,
            lsda_encoding: None,
            instructions: rest,
        };
        if cie.has_data {
            let length = length(&mut rest)?;
            cie.instructions = rest;
            cie.instructions.skip(length)?;
            rest.truncate(length)?;
        }
        cie.read_letters(letters, rest, |part| self.offset_of(part))?;
        if cie.instructions.len() > MOST_INITIAL {
            return Err(Error::TooManyRegisterRules);
        }
        Ok(cie)
    }

    /// Reads an address from `input`, which is a part of the section.
    pub fn address(&self, input: &mut Slice<'data>, encoding: DwEhPe) -> Result<u64, Error> {
        let base = match encoding.application() {
            gimli::DW_EH_PE_absptr => 0,
            gimli::DW_EH_PE_pcrel => self.address.wrapping_add(input.offset_from(self.data) as u64),
            gimli::DW_EH_PE_textrel => self.text.ok_or(Error::TextRelativePointerButTextBaseIsUndefined)?,
            gimli::DW_EH_PE_datarel => return Err(Error::DataRelativePointerButDataBaseIsUndefined),
            gimli::DW_EH_PE_funcrel => return Err(Error::FuncRelativePointerInBadContext),
            _ => return Err(Error::UnsupportedPointerEncoding(encoding)),
        };
        Ok(base.wrapping_add(value(input, encoding)?))
    }

    /// The offset of a part of the section.
    pub fn offset_of(&self, part: &Slice<'data>) -> usize {
        part.offset_from(self.data)
    }
}

impl<'data> Cie<'data> {
    /// Reads the letters of the augmentation and their data.
    fn read_letters(
        &mut self,
        letters: &[u8],
        mut data: Slice<'data>,
        offset_of: impl Fn(&Slice<'data>) -> usize,
    ) -> Result<(), Error> {
        for (place, letter) in letters.iter().enumerate() {
            match letter {
                b'z' if place == 0 => {}
                b'L' | b'P' | b'R' if !self.has_data => return Err(Error::UnknownAugmentation),
                b'L' => {
                    let encoding = DwEhPe(data.read_u8()?);
                    self.lsda_encoding = Some(encoding).filter(|&encoding| encoding != gimli::DW_EH_PE_omit);
                }
                b'R' => self.encoding = DwEhPe(data.read_u8()?),
                b'P' => {
                    let encoding = DwEhPe(data.read_u8()?);
                    if encoding.application() == gimli::DW_EH_PE_aligned {
                        return Err(Error::UnsupportedPointerEncoding(encoding));
                    }
                    self.personality = Some(Pointer { offset: offset_of(&data), encoding });
                    value(&mut data, encoding)?;
                }
                b'S' => self.signal = true,
                b'B' => self.key_b = true,
                b'G' => self.unusual = true,
                _ => return Err(Error::UnknownAugmentation),
            }
        }
        Ok(())
    }
}

/// Reads the letters of an augmentation, up to their 0.
fn letters<'data>(input: &mut Slice<'data>) -> Result<&'data [u8], Error> {
    let letters = input.slice().iter().take(MOST_LETTERS + 1).position(|&byte| byte == 0);
    let letters = input.split(letters.ok_or(Error::UnknownAugmentation)?)?;
    input.skip(1)?;
    Ok(letters.slice())
}

/// Reads a number in the format of an encoding, no matter what it counts from.
fn value(input: &mut Slice<'_>, encoding: DwEhPe) -> Result<u64, Error> {
    if encoding == gimli::DW_EH_PE_omit {
        return Err(Error::CannotParseOmitPointerEncoding);
    }
    match encoding.format() {
        gimli::DW_EH_PE_absptr | gimli::DW_EH_PE_udata8 | gimli::DW_EH_PE_sdata8 => input.read_u64(),
        gimli::DW_EH_PE_uleb128 => input.read_uleb128(),
        gimli::DW_EH_PE_udata2 => input.read_u16().map(u64::from),
        gimli::DW_EH_PE_udata4 => input.read_u32().map(u64::from),
        gimli::DW_EH_PE_sleb128 => input.read_sleb128().map(|number| number as u64),
        gimli::DW_EH_PE_sdata2 => input.read_i16().map(|number| number as u64),
        gimli::DW_EH_PE_sdata4 => input.read_i32().map(|number| number as u64),
        _ => Err(Error::UnknownPointerEncoding(encoding)),
    }
}

pub(super) fn register(input: &mut Slice<'_>) -> Result<Register, Error> {
    let number = input.read_uleb128()?;
    u16::try_from(number).map(Register).map_err(|_| Error::UnsupportedRegister(number))
}

pub(super) fn length(input: &mut Slice<'_>) -> Result<usize, Error> {
    let length = input.read_uleb128()?;
    usize::try_from(length).map_err(|_| Error::UnsupportedOffset)
}
