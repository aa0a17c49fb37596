//! Encodes rows: with default data words if every row of the function allows them, or else with flexible ones
//! (V3).

use alloc::vec::Vec;
use core::fmt;

use super::function::{Function, Options, attribute_size};
use crate::abi::{Abi, Register};
use crate::endian::Endian;
use crate::fre::PauthKey;
use crate::rules::{Base, CfaRule, Frame, Location, RegisterRule, Row, Rules};
use crate::version::Version;

/// A function that a version cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inexpressible {
    /// Start of the row that cannot be written, if a row is to blame.
    pub row: Option<u32>,
    /// The reason.
    pub reason: Reason,
}

/// Why a function cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It has no rows.
    NoRows,
    /// Rows do not ascend strictly.
    RowOrder,
    /// A row starts after the end of the function or of its repetition block.
    RowOutside,
    /// The repetition block has 0 bytes.
    RepeatSize,
    /// More rows than the count field holds (V3: 65535).
    TooManyRows {
        /// Number of rows.
        count: usize,
    },
    /// The return address is undefined. V2 errata 1 cannot express that.
    Outermost,
    /// It is a signal frame. V1 and V2 do not record that.
    SignalFrame,
    /// A [`Rules::SignalContext`] row is beside other rows, or outside a signal frame.
    SignalContext,
    /// The CFA does not count from the stack or frame pointer, or it is read from memory. V2 cannot express
    /// that.
    Cfa(CfaRule),
    /// The CFA's offset does not fit its encoding.
    CfaOffset(CfaRule),
    /// The rule of the return address has no encoding.
    ReturnAddress(RegisterRule),
    /// The rule of the frame pointer has no encoding.
    FramePointer(RegisterRule),
    /// The return address is signed, but the architecture signs none.
    Mangled,
    /// The FRE sub-section would be larger than 4 GiB, or a compact table would have more steps, rules,
    /// layouts or bytes of shapes than its fields can number.
    SectionFull,
    /// Compact tables of version 2: a register, an offset or the number of registers does not fit a layout.
    NoForm,
}

impl fmt::Display for Inexpressible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            Some(row) => write!(f, "row at {row:#x}: {}", self.reason),
            None => self.reason.fmt(f),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRows => f.pad("the function has no rows"),
            Self::RowOrder => f.pad("rows do not ascend"),
            Self::RowOutside => f.pad("the row starts after the end of the function"),
            Self::RepeatSize => f.pad("the repetition block has 0 bytes"),
            Self::TooManyRows { count } => write!(f, "{count} rows, more than 65535"),
            Self::Outermost => f.pad("the return address is undefined, which V2 errata 1 cannot say"),
            Self::SignalFrame => f.pad("a signal frame, which V2 cannot mark"),
            Self::SignalContext => f.pad("a signal frame without rows cannot have others"),
            Self::Cfa(rule) => write!(f, "CFA {rule} needs a flexible row, which V2 does not have"),
            Self::CfaOffset(rule) => write!(f, "offset of CFA {rule} does not fit its encoding"),
            Self::ReturnAddress(rule) => write!(f, "return address {rule} has no encoding"),
            Self::FramePointer(rule) => write!(f, "frame pointer {rule} has no encoding"),
            Self::Mangled => f.pad("signed return address on an architecture that signs none"),
            Self::SectionFull => f.pad("the rows are more than a section can hold"),
            Self::NoForm => f.pad("a register or an offset does not fit a compact table"),
        }
    }
}

impl core::error::Error for Inexpressible {}

/// The fields of an encoded function that go into its FDE (V2) or its attribute (V3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Encoded {
    pub fre_count: u32,
    pub info: u8,
    pub repeat_size: u8,
}

/// The data words of a row. Control words of flexible rows are unsigned, all others signed.
#[derive(Clone, Copy, Default)]
struct Words {
    words: [i64; 6],
    count: u8,
    /// If bit `i` is set, word `i` is unsigned.
    unsigned: u8,
    info: u8,
}

impl Words {
    fn push(&mut self, word: i64) {
        self.words[usize::from(self.count)] = word;
        self.count += 1;
    }

    fn push_pair(&mut self, control: u32, offset: i64) {
        self.unsigned |= 1 << self.count;
        self.push(control.into());
        self.push(offset);
    }

    /// Code of the smallest word size that can hold every word, or 3 if none can.
    fn size_code(&self) -> u8 {
        let code = |(index, &word): (usize, &i64)| {
            let limits: [(i64, i64); 3] = match self.unsigned >> index & 1 {
                1 => [(0, 0xff), (0, 0xffff), (0, 0xffff_ffff)],
                _ => [(-0x80, 0x7f), (-0x8000, 0x7fff), (-0x8000_0000, 0x7fff_ffff)],
            };
            limits.iter().position(|&(low, high)| (low..=high).contains(&word)).unwrap_or(3) as u8
        };
        self.words.iter().take(self.count.into()).enumerate().map(code).max().unwrap_or(0)
    }
}

/// Appends the attribute (V3) and the FREs of a function to `out`.
pub(super) fn encode(
    options: Options,
    function: &Function,
    out: &mut Vec<u8>,
) -> Result<Encoded, Inexpressible> {
    let Options { abi, version, .. } = options;
    let whole = |reason| Inexpressible { row: None, reason };
    if function.signal && version != Version::V3 {
        return Err(whole(Reason::SignalFrame));
    }
    if function.repeat_size == Some(0) {
        return Err(whole(Reason::RepeatSize));
    }
    let mut encoded = Encoded { fre_count: 0, info: 0, repeat_size: function.repeat_size.unwrap_or(0) };
    encoded.info |= u8::from(function.repeat_size.is_some()) << 4;
    encoded.info |= u8::from(function.pauth_key == PauthKey::B && abi.is_aarch64()) << 5;
    encoded.info |= u8::from(function.signal) << 7;
    let without_rows = match function.rows[..] {
        [] => return Err(whole(Reason::NoRows)),
        [Row { rules: Rules::SignalContext, .. }] if function.signal => true,
        _ => false,
    };
    out.resize(out.len() + attribute_size(version), 0);
    let attribute_at = out.len() - attribute_size(version);
    let mut flexible = false;
    if !without_rows {
        check_rows(function)?;
        let width_code = width_code(function);
        encoded.info |= width_code;
        let rows_at = out.len();
        let count = match encode_rows(options, function, false, width_code, out) {
            Err(_) if version == Version::V3 => {
                out.truncate(rows_at);
                flexible = true;
                encode_rows(options, function, true, width_code, out)
            }
            count => count,
        };
        encoded.fre_count = count?;
    }
    if version == Version::V3 {
        let count = u16::try_from(encoded.fre_count)
            .map_err(|_| whole(Reason::TooManyRows { count: encoded.fre_count as usize }))?;
        let [a, b] = abi.endian().u16_bytes(count);
        let attribute = [a, b, encoded.info, u8::from(flexible), encoded.repeat_size];
        out[attribute_at..attribute_at + attribute.len()].copy_from_slice(&attribute);
    }
    Ok(encoded)
}

fn check_rows(function: &Function) -> Result<(), Inexpressible> {
    let limit = function.repeat_size.map_or(function.size, u32::from);
    let mut previous = None;
    for row in &function.rows {
        let at = |reason| Err(Inexpressible { row: Some(row.start), reason });
        if previous.is_some_and(|previous| row.start <= previous) {
            return at(Reason::RowOrder);
        }
        if row.start >= limit {
            return at(Reason::RowOutside);
        }
        previous = Some(row.start);
    }
    Ok(())
}

/// Code of the smallest width that can hold the start of every row in the output. A row with the same rules
/// as the row before it is omitted.
fn width_code(function: &Function) -> u8 {
    let last =
        function.rows.windows(2).rfind(|pair| pair[0].rules != pair[1].rules).map(|pair| pair[1].start);
    let first = function.rows.first().map_or(0, |row| row.start);
    width_code_for(last.unwrap_or(first))
}

/// Code of the smallest width that can hold the start of a row.
pub(super) fn width_code_for(start: u32) -> u8 {
    match start {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        _ => 2,
    }
}

fn encode_rows(
    options: Options,
    function: &Function,
    flexible: bool,
    width_code: u8,
    out: &mut Vec<u8>,
) -> Result<u32, Inexpressible> {
    let endian = options.abi.endian();
    let mut count = 0u32;
    let mut previous = None;
    for row in &function.rows {
        // A row with the same rules as the row before it adds nothing.
        if previous == Some(row.rules) {
            continue;
        }
        previous = Some(row.rules);
        let at = |reason| Inexpressible { row: Some(row.start), reason };
        let words = if flexible {
            flexible_words(options.abi, &row.rules)
        } else {
            default_words(options, &row.rules)
        }
        .map_err(at)?;
        let size_code = words.size_code();
        if size_code > 2 {
            return Err(at(too_wide(&row.rules, &words)));
        }
        push_integer(out, endian, row.start.into(), width_code);
        out.push(words.info | words.count << 1 | size_code << 5);
        for &word in words.words.iter().take(words.count.into()) {
            push_integer(out, endian, word, size_code);
        }
        count += 1;
    }
    Ok(count)
}

/// Appends the low bytes of a value that fits 1, 2 or 4 bytes (code 0, 1, 2).
pub(super) fn push_integer(out: &mut Vec<u8>, endian: Endian, value: i64, size_code: u8) {
    // Truncation keeps the value, because the size was chosen to hold it.
    match size_code {
        0 => out.push(value as u8),
        1 => out.extend_from_slice(&endian.u16_bytes(value as u16)),
        _ => out.extend_from_slice(&endian.u32_bytes(value as u32)),
    }
}

/// Why a word of a row fits no size: it is the CFA's offset or a register number.
fn too_wide(rules: &Rules, words: &Words) -> Reason {
    let fits = |word: i64| i32::try_from(word).is_ok();
    match rules {
        Rules::Frame(frame) if !words.words[..2].iter().all(|&word| fits(word)) => {
            Reason::CfaOffset(frame.cfa)
        }
        Rules::Frame(frame) => Reason::ReturnAddress(frame.ra),
        _ => Reason::NoRows,
    }
}

/// The stored form of a CFA offset: s390x stores (offset - 160) / 8.
fn stored_cfa_offset(abi: Abi, cfa: CfaRule) -> Result<i64, Reason> {
    let stored = match abi {
        Abi::S390x => {
            let rest = cfa.offset.checked_sub(abi.cfa_bias()).filter(|rest| rest % 8 == 0);
            rest.map(|rest| rest / 8)
        }
        _ => Some(cfa.offset),
    };
    stored.filter(|&stored| i32::try_from(stored).is_ok()).ok_or(Reason::CfaOffset(cfa))
}

/// The frame of a row's rules, which both forms of rows encode. An error for rules without a frame.
fn frame_of(abi: Abi, rules: &Rules) -> Result<&Frame, Reason> {
    match rules {
        Rules::Frame(frame) if frame.mangled && !abi.is_aarch64() => Err(Reason::Mangled),
        Rules::Frame(frame) => Ok(frame),
        Rules::Outermost => Err(Reason::Outermost),
        Rules::SignalContext => Err(Reason::SignalContext),
    }
}

/// The words of a default row: the offsets of CFA, RA (where not fixed) and FP.
fn default_words(options: Options, rules: &Rules) -> Result<Words, Reason> {
    let Options { abi, version, .. } = options;
    if *rules == Rules::Outermost && version == Version::V3 {
        return Ok(Words::default());
    }
    let frame = frame_of(abi, rules)?;
    let CfaRule { register, dereference, .. } = frame.cfa;
    let from_sp = register == abi.stack_pointer();
    if dereference || !(from_sp || register == abi.frame_pointer()) {
        return Err(Reason::Cfa(frame.cfa));
    }
    let mut words = Words { info: u8::from(from_sp) | u8::from(frame.mangled) << 7, ..Words::default() };
    words.push(stored_cfa_offset(abi, frame.cfa)?);
    let ra_error = Reason::ReturnAddress(frame.ra);
    let fp_error = Reason::FramePointer(frame.fp);
    let ra = default_word(options, frame.ra).map_err(|()| ra_error)?;
    let fp = default_word(options, frame.fp).map_err(|()| fp_error)?;
    match (abi, ra, fp) {
        (Abi::Amd64, Some(-8), None) => {}
        (Abi::Amd64, Some(-8), Some(fp)) => words.push(fp),
        (Abi::Amd64, ..) => return Err(ra_error),
        // On s390x, 0 means "not saved", so the offset 0 has no encoding.
        (Abi::S390x, Some(0), _) => return Err(ra_error),
        (_, None, None) => {}
        (_, Some(ra), None) => words.push(ra),
        (_, Some(ra), Some(fp)) => {
            words.push(ra);
            words.push(fp);
        }
        (Abi::S390x, None, Some(fp)) => {
            words.push(0);
            words.push(fp);
        }
        (_, None, Some(_)) => return Err(fp_error),
    }
    Ok(words)
}

/// The word of a register rule in a default row. `None`: the register is unchanged.
fn default_word(options: Options, rule: RegisterRule) -> Result<Option<i64>, ()> {
    let encodes_registers = options.abi == Abi::S390x && options.version == Version::V2;
    match rule {
        RegisterRule::Unchanged => Ok(None),
        RegisterRule::Saved(Location { base: Base::Cfa, offset, dereference: true }) => {
            if encodes_registers && offset % 2 != 0 { Err(()) } else { Ok(Some(offset.into())) }
        }
        RegisterRule::Saved(Location { base: Base::Register(register), offset: 0, dereference: false })
            if encodes_registers =>
        {
            Ok(Some(i64::from(register) << 1 | 1))
        }
        RegisterRule::Saved(_) => Err(()),
    }
}

/// The words of a flexible row: a control word and an offset for each of CFA, RA, FP.
fn flexible_words(abi: Abi, rules: &Rules) -> Result<Words, Reason> {
    if *rules == Rules::Outermost {
        return Ok(Words::default());
    }
    let frame = frame_of(abi, rules)?;
    let mut words = Words { info: u8::from(frame.mangled) << 7, ..Words::default() };
    let cfa_control = control(Some(frame.cfa.register), frame.cfa.dereference);
    words.push_pair(cfa_control.ok_or(Reason::Cfa(frame.cfa))?, stored_cfa_offset(abi, frame.cfa)?);
    let ra_error = Reason::ReturnAddress(frame.ra);
    let implied = match abi.fixed_ra_offset() {
        0 => RegisterRule::Unchanged,
        fixed => RegisterRule::Saved(Location::at_cfa(fixed.into())),
    };
    match frame.ra {
        ra if ra == implied => {
            if frame.fp != RegisterRule::Unchanged {
                words.push(0);
            }
        }
        RegisterRule::Unchanged => return Err(ra_error),
        RegisterRule::Saved(location) => {
            let (control, offset) = pair(location).ok_or(ra_error)?;
            // 0 in the place of the control word is padding, so "CFA + offset" itself has no encoding.
            if control == 0 {
                return Err(ra_error);
            }
            words.push_pair(control, offset);
        }
    }
    if let RegisterRule::Saved(location) = frame.fp {
        let (control, offset) = pair(location).ok_or(Reason::FramePointer(frame.fp))?;
        words.push_pair(control, offset);
    }
    Ok(words)
}

fn pair(location: Location) -> Option<(u32, i64)> {
    let register = match location.base {
        Base::Cfa => None,
        Base::Register(register) => Some(register),
    };
    Some((control(register, location.dereference)?, location.offset.into()))
}

/// A control word: bit 0 says that a register is the base, bit 1 that the value is dereferenced, and the bits
/// from 3 on are the register.
fn control(register: Option<Register>, dereference: bool) -> Option<u32> {
    let base = match register {
        Some(register) if register >= 1 << 29 => return None,
        Some(register) => register << 3 | 1,
        None => 0,
    };
    Some(base | u32::from(dereference) << 1)
}
