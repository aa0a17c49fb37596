//! Function attributes and frame row entries (SFrame V1 to V3, "SFrame Frame Row Entries"; V3, "FDE
//! attribute").
//!
//! An FRE has the same bytes in every version: a start offset (1, 2 or 4 bytes, by the function's FRE type),
//! an info byte, and data words of 1, 2 or 4 bytes.
//!
//! | info bits | meaning |
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
use crate::info::{word_count, word_size, words_length};
use crate::rules::{Base, CfaRule, Frame, Location, RegisterRule, Row, Rules};
#[cfg(feature = "alloc")]
use crate::short::{ShortRows, content};
use crate::version::Version;

/// Size of the V3 attribute in front of a function's FREs, in bytes.
pub const ATTRIBUTE_SIZE: usize = 5;

/// How to compare a program counter with the starts of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PcType {
    /// By its offset from the function's start.
    Increment,
    /// By that offset modulo the repetition block. PLTs use this, because all their entries look the same.
    Mask,
}

/// The key that AArch64 return addresses are signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum PauthKey {
    /// Key A, or no signing.
    #[default]
    A,
    /// Key B.
    B,
}

/// What the data words mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FdeType {
    /// Offsets in the order CFA, RA, FP.
    Default,
    /// A control word and an offset for each of CFA, RA, FP (V3).
    Flexible,
}

/// Number of FREs that the functions of a blob may claim for each of its bytes. An FRE takes at least two
/// bytes, but functions may share FREs, so a blob of a megabyte could claim billions. With this limit, a blob
/// in which all functions share their FREs may have 160 for each function. Functions have five on average.
const FRES_PER_BYTE: u64 = 8;

/// The attributes that all rows of a function share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Number of FREs.
    pub fre_count: u32,
    /// Width of an FRE's start offset in bytes: 1, 2 or 4.
    pub start_width: u8,
    /// How to compare a program counter with the starts of rows.
    pub pc_type: PcType,
    /// AArch64 signing key.
    pub pauth_key: PauthKey,
    /// Whether this is a signal frame (V3; V1 and V2 do not record it).
    pub signal: bool,
    /// Meaning of the data words.
    pub fde_type: FdeType,
    /// Repetition block of a PC-mask function in bytes. It means nothing for [`PcType::Increment`].
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
        // This cannot overflow: the attribute lies in a sub-section whose length is a u32.
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
    /// First byte that the row covers, from the start of the function or the repetition block.
    pub start: u32,
    /// The info byte.
    pub info: u8,
    /// The data words.
    pub words: &'data [u8],
    /// The bytes from the data words to the end of the sub-section.
    rest: &'data [u8],
}

impl Fre<'_> {
    /// Number of data words.
    #[inline]
    pub fn word_count(&self) -> u8 {
        word_count(self.info)
    }

    /// Size of a data word in bytes: 1, 2 or 4.
    #[inline]
    pub fn word_size(&self) -> u8 {
        word_size(self.info)
    }

    /// Info byte and data words in the form of [`ShortRow`](crate::short::ShortRow).
    #[cfg(feature = "alloc")]
    #[inline]
    pub(crate) fn content(&self) -> Option<u64> {
        let words = u64::from_le_bytes(*self.rest.first_chunk()?);
        content(words << 8 | u64::from(self.info))
    }

    #[inline]
    fn signed(&self, endian: Endian, index: u8) -> Option<i32> {
        let size = usize::from(self.word_size());
        let at = usize::from(index) * size;
        // No processor predicts a branch on the size. So this loads the four bytes at the first byte of the
        // word and cuts the word out, if the sub-section has that many bytes.
        if let Some(&four) = self.rest.get(at..).and_then(|rest| rest.first_chunk())
            && at + size <= self.words.len()
        {
            let unused = 32 - 8 * size as u32;
            return Some(match endian {
                Endian::Little => ((u32::from_le_bytes(four) << unused) as i32) >> unused,
                Endian::Big => i32::from_be_bytes(four) >> unused,
            });
        }
        match size {
            1 => self.words.get(at).map(|&byte| i32::from(byte as i8)),
            2 => endian.read_i16(self.words, at).map(i32::from),
            _ => endian.read_i32(self.words, at),
        }
    }

    #[inline]
    fn unsigned(&self, endian: Endian, index: u8) -> Option<u32> {
        let mask = u32::MAX >> (32 - 8 * u32::from(self.word_size()));
        self.signed(endian, index).map(|word| word as u32 & mask)
    }
}

/// Iterator over the FREs of a function. It ends after an error, because nothing says where the next FRE
/// starts.
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
    /// Offset of the next FRE from the start of the FRE sub-section. After the last FRE, the end of the
    /// function's rows.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The remaining rows, not decoded.
    #[cfg(feature = "alloc")]
    pub(crate) fn short_rows(&self) -> ShortRows<'data> {
        let start_width = self.start_width.into();
        ShortRows {
            area: self.area,
            endian: self.endian,
            start_width,
            left: self.left,
            position: self.position,
        }
    }

    /// Whether all FREs are valid rows of a default FDE, with at most `most` data words and with the
    /// `reserved` bits of the info byte clear. This quick test rejects some valid FREs, too.
    pub(crate) fn are_plain(self, most: u8, reserved: u8) -> bool {
        match self.endian {
            Endian::Little => self.are_plain_in::<false>(most, reserved),
            Endian::Big => self.are_plain_in::<true>(most, reserved),
        }
    }

    fn are_plain_in<const BIG: bool>(self, most: u8, reserved: u8) -> bool {
        let (width, mut position, mut least) = (usize::from(self.start_width), self.position, 0);
        for _ in 0..self.left {
            let Some((start, info)) = head::<BIG>(self.area, position, width) else { return false };
            let is_sound = start >= least && info & reserved == 0 && info & 0x60 != 0x60;
            if !is_sound || word_count(info) > most {
                return false;
            }
            least = start.saturating_add(1);
            position += width + 1 + words_length(info);
        }
        position <= self.area.len()
    }

    /// The last FRE that starts at or before `offset`, or the error of a malformed FRE before it. `None`: the
    /// first FRE starts later.
    #[inline]
    pub(crate) fn find(&mut self, offset: u32) -> Option<Result<Fre<'data>, Error>> {
        match self.endian {
            Endian::Little => self.find_in::<false>(offset),
            Endian::Big => self.find_in::<true>(offset),
        }
    }

    #[inline]
    fn find_in<const BIG: bool>(&mut self, offset: u32) -> Option<Result<Fre<'data>, Error>> {
        let (area, width) = (self.area, usize::from(self.start_width));
        let (mut position, mut found) = (self.position, None);
        for _ in 0..self.left {
            // The code below reads a malformed row again, and returns its error.
            let (start, info) = head::<BIG>(area, position, width).unwrap_or((0, 0x7e));
            if start > offset {
                break;
            }
            found = Some(position);
            if self.has_bad_word_size(info) {
                break;
            }
            position += width + 1 + words_length(info);
        }
        self.position = found?;
        Some(self.read(head::<BIG>(area, self.position, width)))
    }

    /// The FRE at the current position. Its head has been read.
    #[inline]
    fn read(&mut self, head: Option<(u32, u8)>) -> Result<Fre<'data>, Error> {
        let area = self.area;
        let offset = self.area_offset + self.position;
        let info_at = self.position + usize::from(self.start_width);
        let Some((start, info)) = head else {
            return Err(self.truncated(offset, info_at + 1));
        };
        if self.has_bad_word_size(info) {
            let at = offset + usize::from(self.start_width);
            return Err(Error::new(at, ErrorKind::DataWordSize { found: info >> 5 & 3 }));
        }
        let rest = area.get(info_at + 1..).unwrap_or_default();
        let length = words_length(info);
        let Some(words) = rest.get(..length) else {
            return Err(self.truncated(offset, info_at + 1 + length));
        };
        if let (true, Some(previous)) = (self.strict, self.previous)
            && start <= previous
        {
            return Err(Error::new(offset, ErrorKind::FreOrder { previous, found: start }));
        }
        self.previous = Some(start);
        self.position = info_at + 1 + length;
        Ok(Fre { offset, start, info, words, rest })
    }

    /// Whether the word size is code 3, which has no meaning. It does no harm without data words.
    #[inline]
    fn has_bad_word_size(&self, info: u8) -> bool {
        info & 0x60 == 0x60 && (self.strict || info & 0x1e != 0)
    }

    #[cold]
    fn truncated(&self, offset: usize, needed: usize) -> Error {
        let available = self.area.len() as u64;
        Error::new(offset, ErrorKind::Truncated { what: "FRE", needed: needed as u64, available })
    }
}

/// The start (`width` bytes) and the info byte of the FRE at a position. One load serves all widths, because
/// a branch on the width would often be mispredicted.
#[inline]
fn head<const BIG: bool>(area: &[u8], position: usize, width: usize) -> Option<(u32, u8)> {
    let rest = area.get(position..)?;
    let bytes = match rest.first_chunk() {
        Some(&bytes) => bytes,
        None => last_bytes(rest, width)?,
    };
    let (little, bits) = (u64::from_le_bytes(bytes), width as u32 * 8);
    let start = if BIG { u64::from_be_bytes(bytes) >> (64 - bits) } else { little & ((1 << bits) - 1) };
    Some((start as u32, (little >> bits) as u8))
}

/// The last bytes of the sub-section, followed by zeros, if a start and an info byte fit.
#[cold]
fn last_bytes(rest: &[u8], width: usize) -> Option<[u8; 8]> {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    (rest.len() > width).then_some(bytes)
}

impl<'data> Iterator for Fres<'data> {
    type Item = Result<Fre<'data>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let head = match self.endian {
            Endian::Little => head::<false>(self.area, self.position, self.start_width.into()),
            Endian::Big => head::<true>(self.area, self.position, self.start_width.into()),
        };
        let fre = self.read(head);
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
    /// The attributes that all rows of the function of `fde` share.
    ///
    /// # Errors
    /// The attribute lies outside the FRE sub-section or contains undefined codes. Strict reading also
    /// rejects reserved bits and a repetition block of 0 bytes.
    #[inline]
    pub fn attributes(&self, fde: &Fde) -> Result<Attributes, Error> {
        Attributes::read(self, fde)
    }

    /// Every function with its attributes, for callers that read the rows of all functions. When the
    /// functions claim too many FREs for a blob of this size, the remaining functions give errors instead of
    /// attributes. So such callers use time and memory in proportion to the bytes of the blob.
    pub fn functions(&self) -> impl Iterator<Item = (Fde, Result<Attributes, Error>)> + use<'data> {
        let blob = *self;
        let most = FRES_PER_BYTE * blob.data().len() as u64;
        let mut claimed = 0;
        blob.fdes().map(move |fde| {
            let attributes = blob.attributes(&fde).and_then(|attributes| {
                claimed += u64::from(attributes.fre_count);
                let too_many = || Error::new(blob.offset() + 12, ErrorKind::FreClaims { most });
                if claimed <= most { Ok(attributes) } else { Err(too_many()) }
            });
            (fde, attributes)
        })
    }

    /// The FREs of a function as stored.
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

    /// Offset in the FRE sub-section (V3) of any bytes that read as the attribute of a function without rows.
    #[cfg(feature = "alloc")]
    pub(crate) fn empty_attribute(&self) -> Option<u32> {
        let mut candidates = self.fre_bytes().windows(ATTRIBUTE_SIZE);
        candidates.position(|bytes| matches!(bytes, [0, 0, 0..=2, 0..=1, _])).map(|at| at as u32)
    }

    /// Reads all rows of a function.
    ///
    /// # Errors
    /// The first defect in a row.
    pub(crate) fn check_rows(&self, attributes: &Attributes) -> Result<(), Error> {
        let header = self.header();
        // In V2, data words of s390x may be register numbers.
        let is_simple = header.abi != Abi::S390x || header.version == Version::V3;
        if attributes.fde_type == FdeType::Default && is_simple {
            let most = 1 + u8::from(header.fixed_ra_offset == 0) + u8::from(header.fixed_fp_offset == 0);
            let reserved = if header.abi.is_aarch64() { 0 } else { 0x80 };
            if self.fres(attributes).are_plain(most, reserved) {
                return Ok(());
            }
        }
        self.rows(attributes).try_for_each(|row| row.map(|_| ()))
    }

    /// The rows of a function. For a function without FREs, there are none; see [`Blob::rules_without_rows`].
    pub fn rows(&self, attributes: &Attributes) -> Rows<'data> {
        Rows { blob: *self, attributes: *attributes, fres: self.fres(attributes) }
    }

    /// The rules of a function without FREs. In V3 they are [`Rules::Outermost`], or [`Rules::SignalContext`]
    /// for a signal frame. `None` before V3.
    #[inline]
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
    /// The data words of a flexible row do not form pairs, or a word has no meaning. Strict reading also
    /// rejects surplus words and reserved bits.
    pub fn decode_fre(&self, attributes: &Attributes, fre: &Fre<'_>) -> Result<Rules, Error> {
        let mut rules = Rules::Outermost;
        self.decode_fre_into(attributes, fre, &mut rules)?;
        Ok(rules)
    }

    /// Does the work of [`Blob::decode_fre`] in place. Copying rules right after they were written field by
    /// field would take longer than decoding them.
    #[inline]
    pub(crate) fn decode_fre_into(
        &self,
        attributes: &Attributes,
        fre: &Fre<'_>,
        rules: &mut Rules,
    ) -> Result<(), Error> {
        if fre.word_count() == 0 {
            *rules = Rules::Outermost;
            return Ok(());
        }
        if self.is_strict() && fre.info & 0x80 != 0 && !self.header().abi.is_aarch64() {
            let kind = ErrorKind::Reserved { what: "FRE info", found: fre.info.into() };
            return Err(Error::new(fre.offset, kind));
        }
        match attributes.fde_type {
            FdeType::Default => self.decode_default(fre, rules),
            FdeType::Flexible => {
                *rules = Rules::Frame(self.decode_flexible(fre)?);
                Ok(())
            }
        }
    }

    #[inline]
    fn decode_default(&self, fre: &Fre<'_>, rules: &mut Rules) -> Result<(), Error> {
        let header = self.header();
        let base = if fre.info & 1 == 0 { header.abi.frame_pointer() } else { header.abi.stack_pointer() };
        let cfa = cfa_offset(header.abi, fre.signed(header.endian, 0).unwrap_or(0));
        let mut next = 1;
        let ra = match header.fixed_ra_offset {
            0 => {
                next += 1;
                self.default_rule(fre, 1, true)?
            }
            fixed => RegisterRule::Saved(Location::at_cfa(fixed.into())),
        };
        let fp = match header.fixed_fp_offset {
            0 => {
                next += 1;
                self.default_rule(fre, next - 1, false)?
            }
            fixed => RegisterRule::Saved(Location::at_cfa(fixed.into())),
        };
        if self.is_strict() && fre.word_count() > next {
            let expected = if next == 2 { "1 or 2" } else { "1 to 3" };
            let kind = ErrorKind::DataWordCount { found: fre.word_count(), expected };
            return Err(Error::new(fre.offset, kind));
        }
        let mangled = fre.info & 0x80 != 0 && header.abi.is_aarch64();
        *rules = Rules::Frame(Frame { cfa: CfaRule::register(base, cfa), ra, fp, mangled });
        Ok(())
    }

    /// The rule of one data word of a default FDE. On s390x, an RA word of 0 means "not saved". In V2, an odd
    /// word is a register number (V2 errata 1, s390x).
    #[inline]
    fn default_rule(&self, fre: &Fre<'_>, index: u8, is_ra: bool) -> Result<RegisterRule, Error> {
        let header = self.header();
        let s390x = header.abi == Abi::S390x;
        match fre.signed(header.endian, index) {
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

    #[cold]
    #[inline(never)]
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

/// The CFA offset that a stored word means: s390x stores (offset - 160) / 8, even in flexible FDEs.
#[inline]
fn cfa_offset(abi: Abi, stored: i32) -> i64 {
    match abi {
        Abi::S390x => i64::from(stored) * 8 + abi.cfa_bias(),
        _ => i64::from(stored),
    }
}
