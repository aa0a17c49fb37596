//! Function attributes and frame row entries (SFrame V1 to V3, "SFrame Frame Row Entries"; V3, "FDE attribute").
//!
//! An FRE is the same bytes in every version: start offset (1, 2 or 4 bytes by the function's FRE type), an info
//! byte, then data words of 1, 2 or 4 bytes.
//!
//! | info bits | what |
//! |---|---|
//! | 0 | CFA base of default FDEs: 0 = frame pointer, 1 = stack pointer |
//! | 1-4 | number of data words, 0 = outermost frame |
//! | 5-6 | size of a data word: 0, 1, 2 = 1, 2, 4 bytes |
//! | 7 | AArch64: the return address is signed |

use crate::abi::Abi;
use crate::blob::Blob;
use crate::endian::Endian;
use crate::error::{Error, ErrorKind};
use crate::fde::Fde;
use crate::header::Version;
use crate::rules::{Base, CfaRule, Frame, Location, RegisterRule, Row, Rules};

/// Size of the V3 attribute in front of a function's FREs, in bytes.
pub const ATTRIBUTE_SIZE: usize = 5;

/// How program counters are compared with the starts of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PcType {
    /// By the offset from the function's start.
    Increment,
    /// By that offset modulo the repetition block: PLTs, whose entries all look the same.
    Mask,
}

/// The key that AArch64 return addresses are signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum PauthKey {
    /// Key A, or no signing at all.
    #[default]
    A,
    /// Key B.
    B,
}

/// How data words are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FdeType {
    /// Offsets in the order CFA, RA, FP.
    Default,
    /// A control word and an offset for each of CFA, RA, FP (V3).
    Flexible,
}

/// What holds for all rows of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Number of FREs.
    pub fre_count: u32,
    /// Width of an FRE's start offset in bytes: 1, 2 or 4.
    pub start_width: u8,
    /// How program counters are compared.
    pub pc_type: PcType,
    /// AArch64 signing key.
    pub pauth_key: PauthKey,
    /// Whether this is a signal frame (V3; V1 and V2 do not record it).
    pub signal: bool,
    /// How data words are to be read.
    pub fde_type: FdeType,
    /// Repetition block of a PC-mask function in bytes. Without meaning for [`PcType::Increment`].
    pub repeat_size: u8,
    /// Offset of the first FRE from the start of the FRE sub-section.
    pub rows_offset: u32,
}

impl Attributes {
    #[inline]
    fn read(blob: &Blob<'_>, fde: &Fde) -> Result<Self, Error> {
        let Some((fre_count, info, repeat_size)) = fde.inline else {
            return Self::read_v3(blob, fde);
        };
        let at = fde.offset + 16;
        let attributes = Self::decode(at, fre_count, info, 0, repeat_size, fde.fre_offset)?;
        if blob.is_strict() {
            attributes.check_reserved(blob, at, info & 0xc0, info, 0)?;
        }
        Ok(Self { signal: false, ..attributes })
    }

    #[inline]
    fn read_v3(blob: &Blob<'_>, fde: &Fde) -> Result<Self, Error> {
        let start = fde.fre_offset as usize;
        let at = blob.fre_area_offset() + start;
        let bytes: &[u8; ATTRIBUTE_SIZE] =
            blob.fre_bytes().get(start..).and_then(|rest| rest.first_chunk()).ok_or_else(|| {
                Error::new(
                    fde.offset + 12,
                    ErrorKind::Truncated {
                        what: "function attribute",
                        needed: start as u64 + ATTRIBUTE_SIZE as u64,
                        available: blob.fre_bytes().len() as u64,
                    },
                )
            })?;
        let fre_count = u32::from(blob.header().endian.read_u16(bytes, 0).unwrap_or(0));
        let &[_, _, info, info2, repeat_size] = bytes;
        // Cannot overflow: the attribute lies inside a sub-section whose length is a u32.
        let rows_offset = fde.fre_offset.saturating_add(ATTRIBUTE_SIZE as u32);
        let attributes = Self::decode(at + 2, fre_count, info, info2, repeat_size, rows_offset)?;
        if blob.is_strict() {
            attributes.check_reserved(blob, at + 2, info & 0x40, info, info2)?;
        }
        Ok(attributes)
    }

    #[inline]
    fn decode(
        at: usize,
        fre_count: u32,
        info: u8,
        info2: u8,
        repeat_size: u8,
        rows_offset: u32,
    ) -> Result<Self, Error> {
        let start_width = match info & 0xf {
            code @ 0..=2 => 1 << code,
            found => return Err(Error::new(at, ErrorKind::FreType { found })),
        };
        let fde_type = match info2 & 0x1f {
            0 => FdeType::Default,
            1 => FdeType::Flexible,
            found => return Err(Error::new(at + 1, ErrorKind::FdeType { found })),
        };
        Ok(Self {
            fre_count,
            start_width,
            pc_type: if info & 0x10 == 0 { PcType::Increment } else { PcType::Mask },
            pauth_key: if info & 0x20 == 0 { PauthKey::A } else { PauthKey::B },
            signal: info & 0x80 != 0,
            fde_type,
            repeat_size,
            rows_offset,
        })
    }

    fn check_reserved(
        &self,
        blob: &Blob<'_>,
        at: usize,
        reserved: u8,
        info: u8,
        info2: u8,
    ) -> Result<(), Error> {
        let key_misplaced = self.pauth_key == PauthKey::B && !blob.header().abi.is_aarch64();
        if reserved != 0 || key_misplaced {
            return Err(Error::new(at, ErrorKind::Reserved { what: "function info", found: info.into() }));
        }
        if info2 & 0xe0 != 0 {
            let kind = ErrorKind::Reserved { what: "second function info", found: info2.into() };
            return Err(Error::new(at + 1, kind));
        }
        if self.pc_type == PcType::Mask && self.repeat_size == 0 {
            return Err(Error::new(at, ErrorKind::RepeatSize));
        }
        Ok(())
    }
}

/// One frame row entry in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fre<'data> {
    /// Offset from the start of the section.
    pub offset: usize,
    /// First byte that the row covers, from the start of the function or repetition block.
    pub start: u32,
    /// The info byte.
    pub info: u8,
    /// The data words.
    pub words: &'data [u8],
}

impl Fre<'_> {
    /// Number of data words.
    pub fn word_count(&self) -> u8 {
        self.info >> 1 & 0xf
    }

    /// Size of a data word in bytes: 1, 2 or 4.
    pub fn word_size(&self) -> u8 {
        1 << (self.info >> 5 & 3)
    }

    fn signed(&self, endian: Endian, index: u8) -> Option<i32> {
        let at = usize::from(index) * usize::from(self.word_size());
        match self.word_size() {
            1 => self.words.get(at).map(|&byte| i32::from(byte as i8)),
            2 => endian.read_i16(self.words, at).map(i32::from),
            _ => endian.read_i32(self.words, at),
        }
    }

    fn unsigned(&self, endian: Endian, index: u8) -> Option<u32> {
        let mask = u32::MAX >> (32 - 8 * u32::from(self.word_size()));
        self.signed(endian, index).map(|word| word as u32 & mask)
    }
}

/// Iterator over the FREs of a function. After an error it ends, since nothing tells where the next FRE starts.
#[derive(Clone, Debug)]
pub struct Fres<'data> {
    area: &'data [u8],
    area_offset: usize,
    endian: Endian,
    strict: bool,
    start_width: u8,
    left: u32,
    position: usize,
    previous: Option<u32>,
}

impl<'data> Fres<'data> {
    /// Offset of the next FRE from the start of the FRE sub-section; after the last one the end of the function's
    /// rows.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Goes to the last FRE that starts at or before `offset`, or to one before it that is malformed. False if the
    /// first one starts later. `WIDTH` is the width of a start in bytes.
    #[inline]
    pub(crate) fn skip_to<const WIDTH: usize>(&mut self, offset: u32) -> bool {
        let (mut position, mut left, mut found) = (self.position, self.left, None);
        while left > 0 {
            let head = self.area.get(position..).and_then(|rest| rest.get(..=WIDTH));
            let Some((&info, start)) = head.and_then(<[u8]>::split_last) else {
                found = Some((position, left));
                break;
            };
            let start = match WIDTH {
                1 => start.first().copied().map(u32::from),
                2 => self.endian.read_u16(start, 0).map(u32::from),
                _ => self.endian.read_u32(start, 0),
            };
            if start.is_none_or(|start| start > offset) {
                break;
            }
            found = Some((position, left));
            let code = info >> 5 & 3;
            if code == 3 {
                break;
            }
            position += WIDTH + 1 + (usize::from(info >> 1 & 0xf) << code);
            left -= 1;
        }
        if let Some((position, left)) = found {
            (self.position, self.left) = (position, left);
        }
        found.is_some()
    }

    #[inline]
    fn read(&mut self) -> Result<Fre<'data>, Error> {
        let area = self.area;
        let offset = self.area_offset + self.position;
        let width = usize::from(self.start_width);
        let start = match width {
            1 => area.get(self.position).copied().map(u32::from),
            2 => self.endian.read_u16(area, self.position).map(u32::from),
            _ => self.endian.read_u32(area, self.position),
        };
        let info_at = self.position + width;
        let (Some(start), Some(&info)) = (start, area.get(info_at)) else {
            return Err(self.truncated(offset, info_at + 1));
        };
        let code = info >> 5 & 3;
        if code == 3 && (self.strict || info & 0x1e != 0) {
            return Err(Error::new(offset + width, ErrorKind::DataWordSize { found: code }));
        }
        let end = info_at + 1 + (usize::from(info >> 1 & 0xf) << code);
        let Some(words) = area.get(info_at + 1..end) else {
            return Err(self.truncated(offset, end));
        };
        if let (true, Some(previous)) = (self.strict, self.previous)
            && start <= previous
        {
            return Err(Error::new(offset, ErrorKind::FreOrder { previous, found: start }));
        }
        self.previous = Some(start);
        self.position = end;
        Ok(Fre { offset, start, info, words })
    }

    #[cold]
    fn truncated(&self, offset: usize, needed: usize) -> Error {
        let available = self.area.len() as u64;
        Error::new(offset, ErrorKind::Truncated { what: "FRE", needed: needed as u64, available })
    }
}

impl<'data> Iterator for Fres<'data> {
    type Item = Result<Fre<'data>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let fre = self.read();
        if fre.is_err() {
            self.left = 0;
        }
        Some(fre)
    }
}

/// Iterator over the rows of a function, decoded.
#[derive(Clone, Debug)]
pub struct Rows<'data> {
    blob: Blob<'data>,
    attributes: Attributes,
    fres: Fres<'data>,
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let fre = match self.fres.next()? {
            Ok(fre) => fre,
            Err(error) => return Some(Err(error)),
        };
        let rules = self.blob.decode_fre(&self.attributes, &fre);
        Some(rules.map(|rules| Row { start: fre.start, rules }))
    }
}

impl<'data> Blob<'data> {
    /// What holds for all rows of the function of `fde`.
    ///
    /// # Errors
    /// The attribute lies outside the FRE sub-section, or holds codes that mean nothing; strict: reserved bits.
    #[inline]
    pub fn attributes(&self, fde: &Fde) -> Result<Attributes, Error> {
        Attributes::read(self, fde)
    }

    /// The FREs of a function as they are stored.
    #[inline]
    pub fn fres(&self, attributes: &Attributes) -> Fres<'data> {
        Fres {
            area: self.fre_bytes(),
            area_offset: self.fre_area_offset(),
            endian: self.header().endian,
            strict: self.is_strict(),
            start_width: attributes.start_width,
            left: attributes.fre_count,
            position: attributes.rows_offset as usize,
            previous: None,
        }
    }

    /// The rows of a function. A function without FREs has no rows here; see [`Blob::rules_without_rows`].
    pub fn rows(&self, attributes: &Attributes) -> Rows<'data> {
        Rows { blob: *self, attributes: *attributes, fres: self.fres(attributes) }
    }

    /// What a function without any FRE says: in V3 that it is outermost, or for signal frames that the saved
    /// registers must be found by the ABI; before V3 nothing.
    pub fn rules_without_rows(&self, attributes: &Attributes) -> Option<Rules> {
        match (self.header().version, attributes.signal) {
            (Version::V3, true) => Some(Rules::SignalContext),
            (Version::V3, false) => Some(Rules::Outermost),
            _ => None,
        }
    }

    /// Decodes one FRE of a function.
    ///
    /// # Errors
    /// Too few data words, or control words that mean nothing; strict: surplus words and reserved bits too.
    #[inline]
    pub fn decode_fre(&self, attributes: &Attributes, fre: &Fre<'_>) -> Result<Rules, Error> {
        if fre.word_count() == 0 {
            return Ok(Rules::Outermost);
        }
        if self.is_strict() && fre.info & 0x80 != 0 && !self.header().abi.is_aarch64() {
            let kind = ErrorKind::Reserved { what: "FRE info", found: fre.info.into() };
            return Err(Error::new(fre.offset, kind));
        }
        match attributes.fde_type {
            FdeType::Default => self.decode_default(fre),
            FdeType::Flexible => self.decode_flexible(fre),
        }
        .map(Rules::Frame)
    }

    fn decode_default(&self, fre: &Fre<'_>) -> Result<Frame, Error> {
        let header = self.header();
        let word = |index| fre.signed(header.endian, index);
        let base = if fre.info & 1 == 0 { header.abi.frame_pointer() } else { header.abi.stack_pointer() };
        let cfa = CfaRule::register(base, cfa_offset(header.abi, word(0).unwrap_or(0)));
        let mut next = 1;
        let mut saved = |fixed: i8, is_ra: bool| {
            if fixed != 0 {
                return Ok(RegisterRule::Saved(Location::at_cfa(fixed.into())));
            }
            let found = word(next);
            next += 1;
            self.default_rule(fre, found, is_ra)
        };
        let ra = saved(header.fixed_ra_offset, true)?;
        let fp = saved(header.fixed_fp_offset, false)?;
        if self.is_strict() && fre.word_count() > next {
            let expected = if next == 2 { "1 or 2" } else { "1 to 3" };
            let kind = ErrorKind::DataWordCount { found: fre.word_count(), expected };
            return Err(Error::new(fre.offset, kind));
        }
        Ok(Frame { cfa, ra, fp, mangled: fre.info & 0x80 != 0 && header.abi.is_aarch64() })
    }

    /// The rule of one data word of a default FDE. On s390x an RA word of 0 stands for "not saved"; in V2 an odd
    /// word is a register number (V2 errata 1, s390x).
    fn default_rule(&self, fre: &Fre<'_>, word: Option<i32>, is_ra: bool) -> Result<RegisterRule, Error> {
        let header = self.header();
        let s390x = header.abi == Abi::S390x;
        match word {
            None => Ok(RegisterRule::Unchanged),
            Some(0) if is_ra && s390x => Ok(RegisterRule::Unchanged),
            Some(odd) if odd & 1 == 1 && s390x && header.version != Version::V3 => {
                let register = u32::try_from(odd >> 1).map_err(|_| {
                    let kind = ErrorKind::ControlWord { found: odd as u32, expected: "a register number" };
                    Error::new(fre.offset, kind)
                })?;
                Ok(RegisterRule::Saved(Location::in_register(register)))
            }
            Some(offset) => Ok(RegisterRule::Saved(Location::at_cfa(offset))),
        }
    }

    fn decode_flexible(&self, fre: &Fre<'_>) -> Result<Frame, Error> {
        let header = self.header();
        let pair = |index| {
            let words = (fre.unsigned(header.endian, index), fre.signed(header.endian, index + 1));
            let (Some(control), Some(offset)) = words else {
                let kind = ErrorKind::DataWordCount { found: fre.word_count(), expected: "2 to 6, in pairs" };
                return Err(Error::new(fre.offset, kind));
            };
            if self.is_strict() && control & 4 != 0 {
                let kind = ErrorKind::Reserved { what: "control word", found: control };
                return Err(Error::new(fre.offset, kind));
            }
            let base = if control & 1 == 0 { Base::Cfa } else { Base::Register(control >> 3) };
            Ok((control, Location { base, offset, dereference: control & 2 != 0 }))
        };
        let (control, cfa) = pair(0)?;
        let Base::Register(register) = cfa.base else {
            let kind =
                ErrorKind::ControlWord { found: control, expected: "bit 0 set: the CFA needs a register" };
            return Err(Error::new(fre.offset, kind));
        };
        let cfa =
            CfaRule { register, dereference: cfa.dereference, offset: cfa_offset(header.abi, cfa.offset) };
        let implied = |fixed: i8| match fixed {
            0 => RegisterRule::Unchanged,
            fixed => RegisterRule::Saved(Location::at_cfa(fixed.into())),
        };
        let (ra, next) = match fre.unsigned(header.endian, 2) {
            None | Some(0) => (implied(header.fixed_ra_offset), 3),
            Some(_) => (RegisterRule::Saved(pair(2)?.1), 4),
        };
        let fp = if fre.word_count() > next {
            RegisterRule::Saved(pair(next)?.1)
        } else {
            implied(header.fixed_fp_offset)
        };
        if self.is_strict() && fre.word_count() > next + 2 {
            let kind = ErrorKind::DataWordCount { found: fre.word_count(), expected: "2 to 6" };
            return Err(Error::new(fre.offset, kind));
        }
        Ok(Frame { cfa, ra, fp, mangled: fre.info & 0x80 != 0 && header.abi.is_aarch64() })
    }
}

/// The real CFA offset of a stored word: s390x stores (offset - 160) / 8, in flexible FDEs too.
fn cfa_offset(abi: Abi, stored: i32) -> i64 {
    match abi {
        Abi::S390x => i64::from(stored) * 8 + abi.cfa_bias(),
        _ => i64::from(stored),
    }
}
