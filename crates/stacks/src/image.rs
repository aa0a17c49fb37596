//! ELF files for an unwinder: their segments, their rows, their build-id.

use crate::build_id;
use crate::bytes::{Bytes, Stamp, word};
use crate::code::functions::{Functions, Kind, Piece};
use crate::code::switch::{Switch, aligned};
use crate::code::{Area, Code, aligns};
use crate::extents;
use object::Endian as _;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, Object as _};
use serde::{Deserialize, Serialize};
use sframe_format::convert::unite;
use sframe_format::derive::{self, FdeIndex, derive_linked};
use sframe_format::light::{self, SHT_SFRAME_LIGHT};
use sframe_format::write::{Function, Options, write_sorted};
use sframe_format::{Abi, CompactTable, FileRows, PT_GNU_SFRAME, SHT_GNU_SFRAME, Section, Source, compact};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

type Header = elf::FileHeader64<Endianness>;

/// Which rows of a file to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sources {
    /// Its own SFrame; if that has no row, rows derived from its `.eh_frame`; if neither has one, rows from
    /// its instructions.
    #[default]
    All,
    /// Only its own SFrame.
    Sframe,
    /// Only rows derived from its `.eh_frame`.
    Derived,
}

/// A section with rows of a file.
pub(crate) struct RowSection {
    /// Its bytes.
    pub bytes: Bytes,
    /// The address that its offsets count from.
    pub address: u64,
    /// The source of its rows.
    pub source: Source,
}

/// A segment that is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    offset: u64,
    address: u64,
    file_size: u64,
    executable: bool,
}

/// A segment with code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Segment {
    /// Its first address in the file.
    pub address: u64,
    /// Its place in the file.
    pub offset: u64,
    /// Its size in the file, in bytes.
    pub size: u64,
}

impl Segment {
    /// Whether an address of the file is in the segment.
    pub fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.address) < self.size
    }
}

/// An ELF file.
pub struct Image {
    bytes: Bytes,
    abi: Abi,
    loads: Vec<Load>,
    build_id: Option<Vec<u8>>,
    entry: u64,
    /// Its path on this machine, and what tells it from others.
    origin: Option<(PathBuf, Stamp)>,
}

/// The largest page of the machines. A segment's offset and address agree modulo this.
const MAX_PAGE: u64 = 0x1_0000;
const PAGE: u64 = 0x1000;

/// The error of a file in another format.
pub(crate) const NOT_ELF: &str = "not an ELF file";

impl Image {
    /// Opens a file.
    ///
    /// # Errors
    /// A sentence: the file cannot be read, or it is not an ELF file for a machine that has SFrame.
    pub fn open(path: &Path) -> Result<Self, String> {
        let (bytes, stamp) = Bytes::open_stamped(path).map_err(|error| error.to_string())?;
        Ok(Self { origin: Some((path.to_owned(), stamp)), ..Self::new(bytes)? })
    }

    /// A file with these bytes.
    ///
    /// # Errors
    /// See [`Image::open`].
    pub fn new(bytes: Bytes) -> Result<Self, String> {
        let malformed = |error: object::read::Error| format!("malformed ELF file: {error}");
        if !bytes.starts_with(&elf::ELFMAG) {
            return Err(NOT_ELF.into());
        }
        if bytes.get(4) == Some(&elf::ELFCLASS32) {
            return Self::of_32_bits(bytes);
        }
        let header = Header::parse(&*bytes).map_err(malformed)?;
        let endian = header.endian().map_err(malformed)?;
        let machine = header.e_machine(endian);
        let abi = Abi::from_elf(machine, endian.is_big_endian())
            .ok_or_else(|| format!("ELF machine {machine}, which has no SFrame"))?;
        let segments = header.program_headers(endian, &*bytes).map_err(malformed)?;
        let (loads, entry) = (loads(segments, endian), header.e_entry(endian));
        let build_id = build_id::of_file(endian, &bytes, segments);
        Ok(Self { bytes, abi, loads, build_id, entry, origin: None })
    }

    /// A file of a 32-bit program, which a 64-bit kernel also runs. It gives names, but it has no rows.
    fn of_32_bits(bytes: Bytes) -> Result<Self, String> {
        let malformed = |error: object::read::Error| format!("malformed ELF file: {error}");
        let header = elf::FileHeader32::<Endianness>::parse(&*bytes).map_err(malformed)?;
        let endian = header.endian().map_err(malformed)?;
        let abi = match (header.e_machine(endian), endian) {
            (elf::EM_386, Endianness::Little) => Abi::Amd64,
            (elf::EM_ARM, Endianness::Little) => Abi::AArch64Little,
            (elf::EM_ARM, Endianness::Big) => Abi::AArch64Big,
            (elf::EM_S390, Endianness::Big) => Abi::S390x,
            (machine, _) => return Err(format!("a 32-bit ELF file for machine {machine}")),
        };
        let segments = header.program_headers(endian, &*bytes).map_err(malformed)?;
        let (loads, entry) = (loads(segments, endian), header.e_entry(endian).into());
        let file = object::File::parse(&*bytes).ok();
        let build_id = file.and_then(|file| Some(file.build_id().ok()??.to_vec()));
        Ok(Self { bytes, abi, loads, build_id, entry, origin: None })
    }

    /// The machine it is for.
    pub fn abi(&self) -> Abi {
        self.abi
    }

    /// Its path on this machine and what tells it from others, if it was opened by a path.
    pub(crate) fn origin(&self) -> Option<&(PathBuf, Stamp)> {
        self.origin.as_ref()
    }

    /// Its build-id, if it has one.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// The address where the kernel starts it.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// Its bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The difference from the file's own addresses to the loaded ones, if the file's bytes from `offset` on
    /// are mapped at `address`. `None`: no segment is there. The mapping begins at a page boundary, but its
    /// segment need not. If several segments share a page, the one with code counts.
    pub fn bias(&self, offset: u64, address: u64) -> Option<u64> {
        let starts = |load: &&Load| load.offset - load.offset % MAX_PAGE <= offset;
        let holds = |load: &&Load| starts(load) && offset < load.offset.saturating_add(load.file_size);
        let exact = |load: &Load| load.offset - load.offset % PAGE == offset;
        let best = self.loads.iter().filter(holds).max_by_key(|load| (load.executable, exact(load)))?;
        Some(address.wrapping_sub(best.address.wrapping_add(offset).wrapping_sub(best.offset)))
    }

    /// The addresses in the file itself, from the first one to the end of the last.
    pub fn extent(&self) -> Range<u64> {
        let start = self.loads.iter().map(|load| load.address).min().unwrap_or(0);
        let end = self.loads.iter().map(|load| load.address.saturating_add(load.file_size)).max();
        start..end.unwrap_or(start)
    }

    /// Its segments with code.
    pub(crate) fn code(&self) -> impl Iterator<Item = Segment> {
        let code = self.loads.iter().filter(|load| load.executable);
        code.map(|load| Segment { address: load.address, offset: load.offset, size: load.file_size })
    }

    /// Its own rows, from its SFrame section or its compact table.
    pub(crate) fn own_rows(&self) -> Option<FileRows<Bytes>> {
        match self.own_section() {
            Some((bytes, address)) => Some(FileRows::new(bytes, address)),
            None => Some(FileRows::default().with_compact(self.own_table()?)),
        }
    }

    /// The addresses that its own rows cover.
    pub(crate) fn own_ranges(&self) -> Vec<Range<u64>> {
        if let Some((bytes, address)) = self.own_section() {
            return ranges(&bytes, address);
        }
        let pieces = |table: CompactTable<Bytes>| -> Vec<Range<u64>> {
            let end = |start: u64, size: u32| start.saturating_add(size.into());
            table.pieces().map(|p| p.address..end(p.address, p.size().unwrap_or(0))).collect()
        };
        self.own_table().map(pieces).unwrap_or_default()
    }

    /// An index of its `.eh_frame` by address.
    pub(crate) fn fdes(&self) -> Option<FdeIndex<Bytes>> {
        let (data, address) = self.eh_frame()?;
        Some(FdeIndex::new(self.abi, data, address, self.eh_frame_header()))
    }

    /// Its `.eh_frame_hdr`.
    fn eh_frame_header(&self) -> Option<(Bytes, u64)> {
        let named = self.section(|name, _| u8::from(name == b".eh_frame_hdr"));
        named.or_else(|| self.segment(elf::PT_GNU_EH_FRAME))
    }

    /// The sections with its rows. Each one counts only where those before it have no row. `debug_frame` is
    /// the section of that name, if there is one, and `functions` gives the functions of its symbols.
    pub(crate) fn sections<'a>(
        &self,
        sources: Sources,
        debug_frame: Option<&Bytes>,
        functions: impl Fn() -> &'a Functions,
    ) -> Vec<RowSection> {
        let mut sections = Vec::new();
        let mut covered = Vec::new();
        if sources != Sources::Derived {
            covered = self.own_ranges();
            let own = self.own_section();
            sections.extend(own.map(|(bytes, address)| RowSection {
                bytes,
                address,
                source: Source::Sframe,
            }));
        }
        if sources != Sources::Sframe
            && let Some((data, address)) = self.eh_frame()
            && let header = self.eh_frame_header()
            && let header = header.as_ref().map(|(data, address)| (&**data, *address))
            && let Ok(derived) = derive_linked(Options::new(self.abi), &data, address, header, 0)
        {
            covered.extend(ranges(&derived.bytes, 0));
            let left_out = derived.left_out.iter().map(|(source, _)| source);
            covered.extend(left_out.map(|source| source.address..source.address.saturating_add(source.size)));
            sections.push(RowSection { bytes: derived.bytes.into(), address: 0, source: Source::EhFrame });
        }
        if sources != Sources::Sframe
            && let Some(section) =
                debug_frame.and_then(|frames| self.of_debug_frame(frames, functions(), &mut covered))
        {
            sections.push(RowSection { bytes: section.into(), address: 0, source: Source::EhFrame });
        }
        if sources == Sources::All
            && let rows = self.by_instructions(functions(), covered)
            && !rows.is_empty()
            && let Ok(written) = write_sorted(Options::new(self.abi), 0, &rows)
        {
            let section = written.bytes;
            sections.push(RowSection { bytes: section.into(), address: 0, source: Source::Instructions });
        }
        sections
    }

    /// An SFrame section for address 0 with the rows of `.debug_frame` for code outside `covered`. Adds what
    /// they cover.
    fn of_debug_frame(
        &self,
        frames: &[u8],
        functions: &Functions,
        covered: &mut Vec<Range<u64>>,
    ) -> Option<Vec<u8>> {
        let (mut rows, mut ranges) = (Vec::new(), Vec::new());
        covered.sort_unstable_by_key(|range| range.start);
        let take = |source: derive::Source, function: Result<&Function, derive::Reason>| {
            let place = covered.partition_point(|range| range.start <= source.address);
            let before = place.checked_sub(1).map(|before| &covered[before]);
            let is_free = before.is_none_or(|range| range.end <= source.address);
            if is_free && functions.misdescribed_at(source.address).is_none() {
                ranges.push(source.address..source.address.saturating_add(source.size));
                rows.extend(function.ok().map(|function| (source.address, function.clone())));
            }
        };
        // What was read before a malformed entry counts.
        let _ = derive::for_each_of_debug_frame(self.abi, frames, take);
        covered.extend(ranges);
        let written = write_sorted(Options::new(self.abi), 0, &rows).ok()?;
        (!rows.is_empty()).then_some(written.bytes)
    }

    /// Its own compact table, if it is valid.
    pub(crate) fn own_table(&self) -> Option<CompactTable<Bytes>> {
        let named = |wanted: &str| self.section(|name, _| u8::from(name == wanted.as_bytes()));
        let whole = named(compact::WHOLE_SECTION_NAME);
        // A table that stands for `.eh_frame` is never made anew: it describes the code as it was before.
        if whole.is_some() && self.section(|name, _| u8::from(compact::is_of_bolt(name))).is_some() {
            return None;
        }
        let own = whole.or_else(|| named(compact::SECTION_NAME));
        let (bytes, address) = own.or_else(|| self.segment(compact::PT_SFRAME_UNWIND))?;
        let table = CompactTable::parse(bytes, address).ok()?;
        (table.header().abi == self.abi && table.check().is_ok()).then_some(table)
    }

    /// Rows for code outside `covered`, read from the instructions, as functions by address.
    fn by_instructions(&self, functions: &Functions, covered: Vec<Range<u64>>) -> Vec<(u64, Function)> {
        Code { abi: self.abi, areas: self.areas(), functions }.rows_outside(covered)
    }

    /// The functions of its symbol tables.
    pub(crate) fn functions(&self) -> Functions {
        extents::functions((&self.bytes, self.abi), self.entry, |range| self.code_of(range))
    }

    /// The functions of its symbol tables, as far as they tell what is in a gap between functions that are
    /// described. It must be no program of Go.
    pub(crate) fn functions_in(&self, gap: &Range<u64>) -> Functions {
        extents::functions_in(&self.bytes, self.entry, gap.clone())
    }

    /// The functions that align their stack and keep where it was, with their calls.
    pub(crate) fn aligned<'a>(
        &self,
        functions: impl Fn() -> &'a Functions,
    ) -> Vec<(Range<u64>, Vec<Switch>)> {
        let mut starts = BTreeMap::new();
        for area in self.areas().iter().filter(|_| self.abi == Abi::Amd64) {
            for place in aligns(area.code) {
                let piece = functions().piece_at(area.address + place as u64, &(area.address..area.end()));
                if piece.kind == Kind::Function {
                    starts.insert(piece.range.start, piece.range);
                }
            }
        }
        let calls = starts.into_values().filter_map(|range| {
            let calls = aligned(self.abi, self.code_of(&range)?, range.start);
            (!calls.is_empty()).then_some((range, calls))
        });
        calls.collect()
    }

    /// The code in a range, or what there is of it.
    pub(crate) fn code_of(&self, range: &Range<u64>) -> Option<&[u8]> {
        let size = usize::try_from(range.end.saturating_sub(range.start)).ok()?;
        self.code_from(range.start, size)
    }

    /// An SFrame section for address 0 with rows for a function, read from its instructions.
    pub(crate) fn rows_of_pieces(&self, functions: &Functions, pieces: &[Piece]) -> Option<Vec<u8>> {
        let rows = Code { abi: self.abi, areas: self.areas(), functions }.rows_of(pieces);
        let written = write_sorted(Options::new(self.abi), 0, &rows).ok()?;
        (!rows.is_empty()).then_some(written.bytes)
    }

    /// Where its code is.
    fn areas(&self) -> Vec<Area<'_>> {
        let mut areas = Vec::new();
        // In a malformed file, any number of sections may claim the same bytes.
        let mut left = self.bytes.len();
        let header = Header::parse(&*self.bytes).ok();
        let endian = header.and_then(|header| header.endian().ok()).unwrap_or_default();
        let sections = header.and_then(|header| header.sections(endian, &*self.bytes).ok());
        for section in sections.iter().flat_map(object::read::elf::SectionTable::iter) {
            let code = section.sh_flags(endian) & u64::from(elf::SHF_EXECINSTR) != 0;
            if code
                && let Ok(bytes) = section.data(endian, &*self.bytes)
                && bytes.len() <= left
            {
                left -= bytes.len();
                areas.push(Area { address: section.sh_addr(endian), code: bytes });
            }
        }
        // Addresses of code and of padding behind it must exist.
        let exists = |area: &Area<'_>| area.address.checked_add(area.code.len() as u64 + MAX_PAGE).is_some();
        areas.retain(exists);
        // Without section headers, use segments. Data in them gets rows, too, which does no harm.
        if areas.is_empty() {
            let code = self.loads.iter().filter(|load| load.executable);
            areas.extend(
                code.filter_map(|load| Some(Area { address: load.address, code: self.contents(load)? }))
                    .filter(exists),
            );
        }
        areas
    }

    fn part(&self, slice: &[u8], address: u64) -> Option<(Bytes, u64)> {
        self.bytes.part(slice).map(|part| (part, address))
    }

    /// Its SFrame section: the index if there is one, because that contains all functions. Otherwise its
    /// blobs and units, which are joined if it has both.
    fn own_section(&self) -> Option<(Bytes, u64)> {
        let blobs = |name: &[u8], kind: u32| u8::from(kind == SHT_GNU_SFRAME || name == b".sframe");
        let is_light =
            |name: &[u8], kind: u32| kind == SHT_SFRAME_LIGHT || name == light::SECTION_NAME.as_bytes();
        let light = || self.section(|name, kind| u8::from(is_light(name, kind)));
        let Some(index) = self.section(|name, _| u8::from(name == b".sframe_idx")) else {
            return match (self.section(blobs).or_else(|| self.segment(PT_GNU_SFRAME)), light()) {
                (Some((blobs, at)), Some((units, address))) => {
                    let sections = [Section::new(&blobs, at), Section::new(&units, address)];
                    Some((unite(&sections, Options::new(self.abi), 0).ok()?.bytes.into(), 0))
                }
                (blobs, units) => blobs.or(units),
            };
        };
        Some(index)
    }

    fn eh_frame(&self) -> Option<(Bytes, u64)> {
        let named = self.section(|name, _| u8::from(name == b".eh_frame"));
        named.or_else(|| self.eh_frame_by_header())
    }

    /// The section with the highest rank. `None`: all ranks are 0.
    fn section(&self, rank: impl Fn(&[u8], u32) -> u8) -> Option<(Bytes, u64)> {
        let header = Header::parse(&*self.bytes).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, &*self.bytes).ok()?;
        let ranked = sections.iter().filter_map(|section| {
            let name = sections.section_name(endian, section).unwrap_or_default();
            let rank = rank(name, section.sh_type(endian));
            let data = section.data(endian, &*self.bytes).ok()?;
            (rank > 0 && !data.is_empty()).then_some((rank, data, section.sh_addr(endian)))
        });
        let (_, data, address) = ranked.max_by_key(|(rank, ..)| *rank)?;
        self.part(data, address)
    }

    fn segment(&self, kind: u32) -> Option<(Bytes, u64)> {
        let header = Header::parse(&*self.bytes).ok()?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, &*self.bytes).ok()?;
        let segment = segments.iter().find(|segment| segment.p_type(endian) == kind)?;
        self.part(segment.data(endian, &*self.bytes).ok()?, segment.p_vaddr(endian))
    }

    /// `.eh_frame` of a file without section headers. `.eh_frame_hdr` contains its address (LSB, "The
    /// .eh_frame_hdr section"), as a distance of 4 bytes from that field. The section ends with a word of
    /// zeros, or where its segment ends.
    fn eh_frame_by_header(&self) -> Option<(Bytes, u64)> {
        let (header, address) = self.segment(elf::PT_GNU_EH_FRAME)?;
        let start = derive::eh_frame_start(self.abi.endian(), &header, address)?;
        let load = self.loads.iter().find(|load| start.wrapping_sub(load.address) < load.file_size)?;
        let from = usize::try_from(start - load.address).ok()?;
        self.part(self.contents(load)?.get(from..)?, start)
    }

    /// The bytes of a segment in the file.
    fn contents(&self, load: &Load) -> Option<&[u8]> {
        let from = usize::try_from(load.offset).ok()?;
        let to = usize::try_from(load.offset.saturating_add(load.file_size)).ok()?;
        self.bytes.get(from..to.min(self.bytes.len()))
    }

    /// At most `most` bytes of code before the file's address. `None`: no code is there.
    pub(crate) fn code_before(&self, address: u64, most: usize) -> Option<&[u8]> {
        let inside = |load: &&Load| load.executable && address.wrapping_sub(load.address) <= load.file_size;
        let load = self.loads.iter().find(inside)?;
        let end = usize::try_from(address - load.address).ok()?;
        self.contents(load)?.get(end.saturating_sub(most)..end)
    }

    /// At most `most` bytes of code from the file's address on. `None`: no code is there.
    pub(crate) fn code_from(&self, address: u64, most: usize) -> Option<&[u8]> {
        let inside = |load: &&Load| load.executable && address.wrapping_sub(load.address) < load.file_size;
        let load = self.loads.iter().find(inside)?;
        let code = self.contents(load)?.get(usize::try_from(address - load.address).ok()?..)?;
        Some(&code[..code.len().min(most)])
    }

    /// The word of a segment at the file's address.
    pub fn word(&self, address: u64) -> Option<u64> {
        let load = self.loads.iter().find(|load| address.wrapping_sub(load.address) < load.file_size)?;
        let offset = usize::try_from(load.offset.checked_add(address - load.address)?).ok()?;
        self.bytes.get(offset..)?.first_chunk().map(|bytes| word(*bytes, self.abi.endian()))
    }
}

/// The segments that are loaded.
fn loads<S: ProgramHeader<Endian = Endianness>>(segments: &[S], endian: Endianness) -> Vec<Load> {
    let loads = segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    let load = |segment: &S| Load {
        offset: segment.p_offset(endian).into(),
        address: segment.p_vaddr(endian).into(),
        file_size: segment.p_filesz(endian).into(),
        executable: segment.p_flags(endian) & elf::PF_X != 0,
    };
    loads.map(load).collect()
}

/// The addresses that the functions of a section cover.
fn ranges(data: &[u8], address: u64) -> Vec<Range<u64>> {
    let fdes = Section::new(data, address).blobs().flat_map(|blob| blob.fdes());
    fdes.map(|fde| fde.address..fde.address.saturating_add(fde.size.into())).collect()
}
