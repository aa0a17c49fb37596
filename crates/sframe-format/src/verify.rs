//! Checks a section against the format: everything that the specification or a known reader demands.
//!
//! Each finding has a type and the offset of the defective bytes. Some facts are known only from the file
//! around the section (its architecture, executable ranges, function symbols, relocations). The caller passes
//! them in a [`Context`].

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::abi::Abi;
use crate::blob::{Blob, Gap, Piece, Section};
use crate::error::{Error, ErrorKind};
use crate::fde::Fde;
use crate::fre::{Attributes, PcType};
use crate::light::UNIT_HEADER_SIZE;
use crate::version::Version;

/// What the caller knows of the file. The default knows nothing, and the section is checked alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The ABI of the file's machine and byte order.
    pub abi: Option<Abi>,
    /// Address ranges of executable sections or segments, ascending and disjoint. Empty: unknown.
    pub text: &'a [Range<u64>],
    /// Addresses of function symbols, ascending. Empty: unknown.
    pub function_starts: &'a [u64],
    /// The section's relocations, for relocatable objects. Then addresses are not checked.
    pub relocations: Option<&'a [Relocation]>,
}

/// A relocation of the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Offset in the section, in bytes.
    pub offset: u64,
    /// Type number of the psABI (`R_X86_64_PC64` = 24).
    pub kind: u32,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Legal, but worth knowing.
    Note,
    /// Some readers may fail.
    Warning,
    /// The section breaks the format, or gives wrong answers.
    Error,
}

/// One violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Byte offset in the section.
    pub offset: usize,
    /// Index of the FDE in its blob, when the finding is about one function.
    pub fde: Option<u32>,
    /// The kind of violation.
    pub kind: FindingKind,
}

/// The kinds of [`Finding`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingKind {
    /// The bytes are not a blob of a known version.
    Gap(Gap),
    /// Bytes that break the format.
    Malformed(ErrorKind),
    /// The blob is of another ABI than the file.
    ForeignAbi {
        /// ABI of the blob.
        found: Abi,
        /// ABI of the file.
        expected: Abi,
    },
    /// The header's fixed return address offset is not that of the ABI.
    FixedReturnAddress {
        /// Offset in the header.
        found: i8,
        /// Offset that the ABI has.
        expected: i8,
    },
    /// The header states a fixed frame pointer offset, which no ABI has.
    FixedFramePointer {
        /// Offset in the header.
        found: i8,
    },
    /// An auxiliary header, which the Linux kernel rejects.
    AuxiliaryHeader {
        /// Its length in bytes.
        length: u8,
    },
    /// A V3 blob without the flag for field-relative starts: the kernel rejects it, libsframe misreads it.
    NotFieldRelative,
    /// FDE array and FRE sub-section overlap.
    AreasOverlap,
    /// The header and the FDEs count different numbers of FREs.
    FreCount {
        /// Number in the header.
        header: u32,
        /// Sum over the FDEs.
        counted: u64,
    },
    /// The rows end elsewhere than the header's FRE length says.
    FreLength {
        /// Length in the header, in bytes.
        header: u32,
        /// End of the last row, in bytes from the start of the FRE sub-section.
        end: usize,
    },
    /// Rows start after the end of their function or repetition block.
    RowOutside {
        /// Start of the last row.
        start: u32,
        /// Size of the function or repetition block, in bytes.
        limit: u32,
    },
    /// The function's size is no multiple of its repetition block.
    RepeatSize {
        /// Size of the function.
        size: u32,
        /// Size of the block.
        repeat: u8,
    },
    /// A function before V3 without rows.
    NoRows,
    /// The blob is marked sorted, but this function starts before the previous one.
    NotSorted {
        /// Address of the previous function.
        previous: u64,
        /// Address of this function.
        address: u64,
    },
    /// Two functions start at one address; the Linux kernel rejects sorted sections with two such functions.
    DuplicateAddress {
        /// Address at which both start.
        address: u64,
    },
    /// The function overlaps the one that starts before it.
    Overlap {
        /// Start of this function.
        address: u64,
        /// End of the one before it.
        previous_end: u64,
    },
    /// A function without bytes.
    Empty,
    /// A dead function: its size is 0 and it starts at its own blob. Linkers leave it for discarded text.
    Dead,
    /// The function reaches outside every executable range.
    OutsideText {
        /// Address of the function.
        address: u64,
    },
    /// No function symbol starts where the function does.
    NotAtSymbol {
        /// Address of the function.
        address: u64,
    },
    /// The FDE of a relocatable object has no relocation for its start field.
    NoRelocation,
    /// A relocation of another type than the start field's.
    RelocationType {
        /// Type found.
        found: u32,
        /// Type expected.
        expected: u32,
    },
    /// A relocation that belongs to no FDE's start field, or a second one for the same field.
    StrayRelocation,
}

impl FindingKind {
    /// Its severity.
    pub fn severity(&self) -> Severity {
        match self {
            Self::Empty | Self::Dead | Self::NotAtSymbol { .. } => Severity::Note,
            // GNU as writes such a row if call frame information follows the last instruction.
            Self::RowOutside { start, limit } if start == limit => Severity::Note,
            Self::AuxiliaryHeader { .. }
            | Self::FreCount { .. }
            | Self::FreLength { .. }
            | Self::DuplicateAddress { .. }
            | Self::Overlap { .. }
            | Self::NoRows => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {:#x}: ", self.offset)?;
        if let Some(fde) = self.fde {
            write!(f, "FDE {fde}: ")?;
        }
        self.kind.fmt(f)
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Gap(gap) => write!(f, "{} bytes are not an SFrame blob: {}", gap.length, gap.error.kind),
            Self::Malformed(kind) => kind.fmt(f),
            Self::ForeignAbi { found, expected } => write!(f, "blob is for {found}, the file for {expected}"),
            Self::FixedReturnAddress { found, expected } => {
                write!(f, "fixed return address offset is {found}, expected {expected}")
            }
            Self::FixedFramePointer { found } => {
                write!(f, "fixed frame pointer offset is {found}, expected 0")
            }
            Self::AuxiliaryHeader { length } => {
                write!(f, "auxiliary header of {length} bytes, which the Linux kernel rejects")
            }
            Self::NotFieldRelative => f.pad(
                "flag 0x4 (function starts count from their field) is clear, which no V3 reader expects",
            ),
            Self::AreasOverlap => f.pad("FDE array and FRE sub-section overlap"),
            Self::FreCount { header, counted } => {
                write!(f, "header counts {header} FREs, the functions have {counted}")
            }
            Self::FreLength { header, end } => {
                write!(f, "FRE sub-section is {header} bytes long, but rows end at byte {end}")
            }
            Self::RowOutside { start, limit } => {
                write!(f, "the last row starts at {start:#x}, after the end at {limit:#x}")
            }
            Self::RepeatSize { size, repeat } => {
                write!(
                    f,
                    "function has {size} bytes, which is not a multiple of its repetition block of {repeat}"
                )
            }
            Self::NoRows => f.pad("function has no rows"),
            Self::NotSorted { previous, address } => {
                write!(f, "blob is marked sorted, but {address:#x} follows {previous:#x}")
            }
            Self::DuplicateAddress { address } => {
                write!(f, "another function starts at {address:#x} too; the Linux kernel rejects that")
            }
            Self::Overlap { address, previous_end } => {
                write!(f, "function at {address:#x} starts before the one in front ends at {previous_end:#x}")
            }
            Self::Empty => f.pad("function has no bytes"),
            Self::Dead => f.pad("dead function (size 0, start at its own header)"),
            Self::OutsideText { address } => {
                write!(f, "function at {address:#x} is not inside executable code")
            }
            Self::NotAtSymbol { address } => write!(f, "no function symbol starts at {address:#x}"),
            Self::NoRelocation => f.pad("no relocation for the start field"),
            Self::RelocationType { found, expected } => {
                write!(f, "relocation has type {found}, expected {expected}")
            }
            Self::StrayRelocation => f.pad("relocation belongs to no start field, or is a second one for it"),
        }
    }
}

/// Checks every blob of a section. Findings come blob by blob. Those about overlapping functions or about
/// relocations come last.
///
/// ```
/// use sframe_format::{Section, verify::{self, Severity}};
/// let findings = verify::verify(&Section::new(&[0xe2, 0xde, 7, 0, 0, 0, 0, 0], 0), &Default::default());
/// assert_eq!(findings[0].kind.severity(), Severity::Error);
/// let expected = "offset 0x2: 8 bytes are not an SFrame blob: SFrame version is 7, expected 1, 2 or 3";
/// assert_eq!(findings[0].to_string(), expected);
/// ```
pub fn verify(section: &Section<'_>, context: &Context<'_>) -> Vec<Finding> {
    let mut verifier =
        Verifier { context, findings: Vec::new(), functions: Vec::new(), known: BTreeMap::new() };
    for piece in section.strict().pieces() {
        match piece {
            Piece::Blob(blob) => verifier.blob(&blob),
            Piece::Gap(gap) => verifier.report(gap.error.offset, None, FindingKind::Gap(gap)),
        }
    }
    if let Some(relocations) = context.relocations {
        verifier.relocations(section, relocations);
    } else {
        verifier.overlaps();
    }
    verifier.findings
}

/// A live function: start, end, offset and index of its FDE.
type Function = (u64, u64, usize, u32);

struct Verifier<'a> {
    context: &'a Context<'a>,
    findings: Vec<Finding>,
    functions: Vec<Function>,
    /// Rows of the current blob that are known to be valid, by offset. Any number of functions may share
    /// them.
    known: BTreeMap<u32, Run>,
}

/// Rows that can be read.
#[derive(Clone, Copy)]
struct Run {
    attributes: Attributes,
    /// Start and offset of the last one, if there is one.
    last: Option<(u32, usize)>,
    /// Their end, in bytes from the start of the FRE sub-section.
    end: usize,
}

impl Verifier<'_> {
    fn report(&mut self, offset: usize, fde: Option<u32>, kind: FindingKind) {
        self.findings.push(Finding { offset, fde, kind });
    }

    fn malformed(&mut self, fde: &Fde, error: Error) {
        self.report(error.offset, Some(fde.index), FindingKind::Malformed(error.kind));
    }

    fn blob(&mut self, blob: &Blob<'_>) {
        self.header(blob);
        self.known.clear();
        let (mut counted, mut end, mut complete) = (0u64, 0, true);
        let mut emptied = false;
        for (fde, attributes) in blob.functions() {
            match attributes {
                Ok(attributes) => {
                    emptied |= fde.size == 0 && attributes.fre_count == 0;
                    counted += u64::from(attributes.fre_count);
                    match self.rows(blob, &fde, &attributes) {
                        Some(position) => end = end.max(position),
                        None => complete = false,
                    }
                }
                Err(Error { offset, kind: kind @ ErrorKind::FreClaims { .. } }) => {
                    self.report(offset, None, FindingKind::Malformed(kind));
                    return;
                }
                Err(error) => {
                    complete = false;
                    self.malformed(&fde, error);
                }
            }
            if self.context.relocations.is_none() {
                self.place(blob, &fde);
            }
        }
        let header = *blob.header();
        if complete && counted != u64::from(header.fre_count) {
            let kind = FindingKind::FreCount { header: header.fre_count, counted };
            self.report(blob.offset() + 12, None, kind);
        }
        // The bytes after the last row may belong to a dead function, from which a linker removed its rows.
        if complete && end != header.fre_length as usize && !(emptied && end < header.fre_length as usize) {
            let kind = FindingKind::FreLength { header: header.fre_length, end };
            self.report(blob.offset() + 16, None, kind);
        }
        if header.is_sorted() && self.context.relocations.is_none() {
            self.order(blob);
        }
    }

    fn header(&mut self, blob: &Blob<'_>) {
        let header = *blob.header();
        if header.is_light() {
            return self.unit(blob);
        }
        let mut report = |at, kind| self.report(blob.offset() + at, None, kind);
        if header.version == Version::V3 && !header.is_field_relative() {
            report(3, FindingKind::NotFieldRelative);
        }
        if header.fixed_fp_offset != 0 {
            report(5, FindingKind::FixedFramePointer { found: header.fixed_fp_offset });
        }
        let expected = header.abi.fixed_ra_offset();
        if header.fixed_ra_offset != expected {
            report(6, FindingKind::FixedReturnAddress { found: header.fixed_ra_offset, expected });
        }
        if header.auxiliary_length != 0 {
            report(7, FindingKind::AuxiliaryHeader { length: header.auxiliary_length });
        }
        if blob.check_areas().is_err() {
            report(20, FindingKind::AreasOverlap);
        }
        if let Some(expected) = self.context.abi.filter(|&abi| abi != header.abi) {
            self.report(blob.offset() + 4, None, FindingKind::ForeignAbi { found: header.abi, expected });
        }
    }

    /// Checks the header of a unit when its first function is visited, and then no more.
    fn unit(&mut self, blob: &Blob<'_>) {
        let (header, start) = (*blob.header(), blob.header_offset());
        if header.unit_distance as usize != UNIT_HEADER_SIZE {
            return;
        }
        if header.fixed_fp_offset != 0 {
            let kind = FindingKind::FixedFramePointer { found: header.fixed_fp_offset };
            self.report(start + 9, None, kind);
        }
        let expected = header.abi.fixed_ra_offset();
        if header.fixed_ra_offset != expected {
            let kind = FindingKind::FixedReturnAddress { found: header.fixed_ra_offset, expected };
            self.report(start + 10, None, kind);
        }
        if let Some(expected) = self.context.abi.filter(|&abi| abi != header.abi) {
            self.report(start + 8, None, FindingKind::ForeignAbi { found: header.abi, expected });
        }
    }

    /// Checks the rows of a function. Returns their end, in bytes from the start of the FRE sub-section.
    /// `None`: a row is malformed.
    fn rows(&mut self, blob: &Blob<'_>, fde: &Fde, attributes: &Attributes) -> Option<usize> {
        let mask = attributes.pc_type == PcType::Mask;
        let repeat = attributes.repeat_size;
        if mask && !fde.size.is_multiple_of(repeat.into()) {
            let kind = FindingKind::RepeatSize { size: fde.size, repeat };
            self.report(fde.offset, Some(fde.index), kind);
        }
        // Linkers remove size and rows from a dead function.
        if attributes.fre_count == 0 && fde.size != 0 && blob.rules_without_rows(attributes).is_none() {
            self.report(fde.offset, Some(fde.index), FindingKind::NoRows);
        }
        let run = self.run(blob, fde, attributes)?;
        let limit = if mask { repeat.into() } else { fde.size };
        // The rows of an empty function cover nothing: some linkers remove only the size of a dead function.
        if let Some((start, offset)) = run.last.filter(|&(start, _)| start >= limit && fde.size != 0) {
            self.report(offset, Some(fde.index), FindingKind::RowOutside { start, limit });
        }
        Some(run.end)
    }

    /// Reads the rows of a function, unless another function had the same rows.
    fn run(&mut self, blob: &Blob<'_>, fde: &Fde, attributes: &Attributes) -> Option<Run> {
        if let Some(known) =
            self.known.get(&attributes.rows_offset).filter(|run| run.attributes == *attributes)
        {
            return Some(*known);
        }
        let (mut fres, mut last) = (blob.fres(attributes), None);
        for fre in fres.by_ref() {
            match fre.and_then(|fre| blob.decode_fre(attributes, &fre).map(|_| fre)) {
                Ok(fre) => last = Some((fre.start, fre.offset)),
                Err(error) => {
                    self.malformed(fde, error);
                    return None;
                }
            }
        }
        let run = Run { attributes: *attributes, last, end: fres.position() };
        self.known.insert(attributes.rows_offset, run);
        Some(run)
    }

    /// Checks where a function is.
    fn place(&mut self, blob: &Blob<'_>, fde: &Fde) {
        let mut report =
            |kind| self.findings.push(Finding { offset: fde.offset, fde: Some(fde.index), kind });
        let address = fde.address;
        if fde.size == 0 {
            let dead = address == blob.address();
            report(if dead { FindingKind::Dead } else { FindingKind::Empty });
            return;
        }
        let end = address.saturating_add(fde.size.into());
        let text = self.context.text;
        let place = text.partition_point(|range| range.end <= address);
        let inside = text.get(place).is_some_and(|range| range.start <= address && end <= range.end);
        if !text.is_empty() && !inside {
            report(FindingKind::OutsideText { address });
        }
        let starts = self.context.function_starts;
        if !starts.is_empty() && starts.binary_search(&address).is_err() {
            report(FindingKind::NotAtSymbol { address });
        }
        self.functions.push((address, end, fde.offset, fde.index));
    }

    fn order(&mut self, blob: &Blob<'_>) {
        let mut previous = 0;
        for fde in blob.fdes() {
            if fde.address < previous {
                let kind = FindingKind::NotSorted { previous, address: fde.address };
                self.report(fde.offset, Some(fde.index), kind);
            }
            previous = fde.address;
        }
    }

    fn overlaps(&mut self) {
        let mut functions = core::mem::take(&mut self.functions);
        functions.sort_unstable();
        let mut previous: Option<Function> = None;
        for function in functions {
            let (address, end, offset, index) = function;
            match previous {
                Some((start, ..)) if start == address => {
                    self.report(offset, Some(index), FindingKind::DuplicateAddress { address });
                }
                Some((_, previous_end, ..)) if address < previous_end => {
                    self.report(offset, Some(index), FindingKind::Overlap { address, previous_end });
                }
                _ => {}
            }
            if previous.is_none_or(|(_, previous_end, ..)| previous_end < end) {
                previous = Some(function);
            }
        }
    }

    fn relocations(&mut self, section: &Section<'_>, relocations: &[Relocation]) {
        let mut sorted = relocations.to_vec();
        sorted.sort_by_key(|relocation| relocation.offset);
        let mut rest = sorted.iter().peekable();
        for blob in section.blobs() {
            let expected = blob.header().abi.start_relocation(blob.header().version);
            for fde in blob.fdes() {
                while let Some(stray) = rest.next_if(|found| found.offset < fde.offset as u64) {
                    self.report(stray.offset as usize, None, FindingKind::StrayRelocation);
                }
                match rest.next_if(|found| found.offset == fde.offset as u64) {
                    None => self.report(fde.offset, Some(fde.index), FindingKind::NoRelocation),
                    Some(found) if found.kind != expected => {
                        let kind = FindingKind::RelocationType { found: found.kind, expected };
                        self.report(fde.offset, Some(fde.index), kind);
                    }
                    Some(_) => {}
                }
            }
        }
        for stray in rest {
            self.report(stray.offset as usize, None, FindingKind::StrayRelocation);
        }
    }
}
