//! Makes program headers: from `PHDRS`, or derived from type and flags of the output sections.
//!
//! A derived loaded segment holds consecutive output sections of equal permissions. The system gives
//! permissions to whole pages, so if two sections of different permissions share a page, they must share the
//! segment.

use super::file_offsets::congruent;
use crate::arch::machine::SHF_PURE_CODE;
use crate::chunks::{Chunk, Segment};
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::OutputId;
use crate::plan::LayoutPlan;
use crate::script::ast::Name;
use hashbrown::{HashMap, HashSet};
use sframe_format::compact::PT_SFRAME_UNWIND;

/// `PT_GNU_SFRAME` (GNU binutils).
pub const PT_GNU_SFRAME: u32 = 0x6474_e554;
/// `PT_GNU_PROPERTY`.
pub const PT_GNU_PROPERTY: u32 = 0x6474_e553;

/// The segments that options and inputs ask for.
#[derive(Clone, Debug, Default)]
pub struct SegmentPolicy {
    /// Size of a page in bytes (`-z max-page-size`).
    pub page_size: u64,
    /// The alignment of loaded segments in the file: the page size, or 1 if the output is not paged.
    pub align_page: u64,
    /// Whether code has pages of its own.
    pub separate_code: bool,
    /// Whether code that cannot be read has segments of its own, as far as it has pages of its own.
    pub separate_pure_code: bool,
    /// Whether every segment has pages of its own.
    pub separate_all: bool,
    /// Whether the output is paged: neither `-n` nor `-N` is given.
    pub paged: bool,
    /// Whether the script keeps room for the headers (`SIZEOF_HEADERS`).
    pub headers_room: bool,
    /// `--execute-only`: whether code cannot be read.
    pub execute_only: bool,
    /// `--spare-program-headers`: how many empty program headers follow.
    pub spare: usize,
    /// `-N`: whether text is writable.
    pub writable_text: bool,
    /// `PT_GNU_STACK`: whether it is executable, and its size.
    pub stack: Option<(bool, u64)>,
    /// The address range that is read-only after relocation.
    pub relro: Option<(u64, u64)>,
    /// Position of `.dynamic`.
    pub dynamic: Option<usize>,
    /// Position of `.eh_frame_hdr`.
    pub eh_frame_hdr: Option<usize>,
    /// Position of the table that stands for `.eh_frame`.
    pub unwind_table: Option<usize>,
    /// Position of the SFrame index, or of `.sframe`.
    pub sframe: Option<usize>,
}

/// One `PHDRS` line, evaluated.
#[derive(Clone, Copy, Debug)]
pub struct PhdrValues {
    /// `PT_*`.
    pub p_type: u32,
    /// `FLAGS`.
    pub flags: Option<u32>,
    /// `AT`.
    pub load_address: Option<u64>,
}

/// The segments that the chunks, in order of address, need. Offsets and sizes come later, from
/// [`super::file_offsets`], and so do the addresses of segments that hold chunks. `headers_size` counts the
/// file header and the room for program headers.
pub fn derive(chunks: &[&Chunk<'_>], policy: &SegmentPolicy, headers_size: u64) -> Vec<Segment> {
    let loads = loads(chunks, policy);
    let mut segments = Vec::new();
    let headers_loaded = loads.first().is_some_and(|load| fits_headers(chunks, load, policy, headers_size));
    let interp = chunks.iter().position(|chunk| is_alloc(chunk.flags) && chunk.name == b".interp");
    let headers_room = policy.headers_room || interp.is_some();
    let headers_alone = headers_alone(chunks, loads.first(), policy, headers_size)
        .filter(|_| !headers_loaded && headers_room);
    if interp.is_some() && (headers_loaded || headers_alone.is_some()) {
        segments.push(Segment {
            p_type: elf::PT_PHDR,
            flags: elf::PF_R,
            align: 8,
            program_headers: true,
            ..Segment::default()
        });
    }
    if let Some(interp) = interp {
        segments.push(one(elf::PT_INTERP, chunks, interp, elf::PF_R, 1));
    }
    let first_load = segments.len();
    segments.extend(headers_alone);
    segments.extend(loads);
    if headers_loaded && let Some(first) = segments.get_mut(first_load) {
        first.file_header = true;
        first.program_headers = true;
    }
    let of = |position: Option<usize>| {
        position.filter(|&index| chunks.get(index).is_some_and(|chunk| is_alloc(chunk.flags)))
    };
    if let Some(dynamic) = of(policy.dynamic) {
        segments.push(one(
            elf::PT_DYNAMIC,
            chunks,
            dynamic,
            permissions(chunks[dynamic], false),
            chunks[dynamic].align,
        ));
    }
    notes(chunks, &mut segments);
    segments.extend(tls(chunks));
    let property = chunks.iter().position(|chunk| {
        is_alloc(chunk.flags) && chunk.sh_type == elf::SHT_NOTE && chunk.name == b".note.gnu.property"
    });
    if let Some(property) = property {
        segments.push(one(PT_GNU_PROPERTY, chunks, property, elf::PF_R, chunks[property].align));
    }
    if let Some(header) = of(policy.eh_frame_hdr) {
        segments.push(one(elf::PT_GNU_EH_FRAME, chunks, header, elf::PF_R, chunks[header].align));
    }
    if let Some(table) = of(policy.unwind_table) {
        segments.push(one(PT_SFRAME_UNWIND, chunks, table, elf::PF_R, chunks[table].align));
    }
    if let Some(sframe) = of(policy.sframe) {
        segments.push(one(PT_GNU_SFRAME, chunks, sframe, elf::PF_R, 8));
    }
    if let Some((executable, size)) = policy.stack {
        let flags = elf::PF_R | elf::PF_W | if executable { elf::PF_X } else { 0 };
        segments.push(Segment {
            p_type: elf::PT_GNU_STACK,
            flags,
            memory_size: size,
            align: 16,
            ..Segment::default()
        });
    }
    segments.extend(relro(chunks, policy));
    segments.resize(segments.len() + policy.spare, Segment { p_type: elf::PT_NULL, ..Segment::default() });
    segments
}

fn one(p_type: u32, chunks: &[&Chunk<'_>], index: usize, flags: u32, align: u64) -> Segment {
    let position = index as u32;
    Segment {
        p_type,
        flags,
        align,
        address: chunks[index].address,
        first: position,
        end: position + 1,
        ..Segment::default()
    }
}

/// The permissions that a chunk needs. Code without data in it needs none to be read, and with `execute_only`
/// no code gets it.
fn permissions(chunk: &Chunk<'_>, execute_only: bool) -> u32 {
    let is_code = chunk.flags & elf::SHF_EXECINSTR != 0;
    let unreadable = is_code && (execute_only || chunk.flags & SHF_PURE_CODE != 0);
    let mut flags = if unreadable { 0 } else { elf::PF_R };
    if chunk.flags & elf::SHF_WRITE != 0 {
        flags |= elf::PF_W;
    }
    if chunk.flags & elf::SHF_EXECINSTR != 0 {
        flags |= elf::PF_X;
    }
    flags
}

/// The loaded segments. An empty section lies in one of them, but does not count for its permissions: an
/// empty `.text` before data does not make the data executable.
fn loads(chunks: &[&Chunk<'_>], policy: &SegmentPolicy) -> Vec<Segment> {
    let mut loads: Vec<Segment> = Vec::new();
    // The last chunk with bytes in the last segment. If it has none, its first chunk.
    let mut last = 0;
    for (index, chunk) in chunks.iter().enumerate().filter(|(_, chunk)| chunk.takes_address_space()) {
        let is_empty = chunk.size == 0;
        let mut flags = permissions(chunk, policy.execute_only);
        if policy.writable_text {
            flags = elf::PF_R | elf::PF_W | elf::PF_X;
        }
        let wanted = loads.last().filter(|_| is_empty).map_or(flags, |load| load.flags);
        match loads.last_mut() {
            Some(load) if !starts_load(chunks[last], load.flags, chunk, wanted, policy) => {
                let before = if chunks[last].size == 0 { 0 } else { load.flags };
                load.flags = before | wanted;
                load.end = index as u32 + 1;
                load.align = load.align.max(chunk.align);
            }
            _ => {
                let mut load = one(elf::PT_LOAD, chunks, index, flags, policy.align_page.max(chunk.align));
                load.load_address = chunk.load_address;
                loads.push(load);
                last = index;
            }
        }
        if !is_empty {
            last = index;
        }
    }
    loads
}

/// Whether `chunk` cannot be in the segment that ends with `last`.
fn starts_load(
    last: &Chunk<'_>,
    load_flags: u32,
    chunk: &Chunk<'_>,
    flags: u32,
    policy: &SegmentPolicy,
) -> bool {
    let end = last.address.wrapping_add(last.size);
    let load_end = last.load_address.wrapping_add(last.size);
    if chunk.load_address.wrapping_sub(chunk.address) != last.load_address.wrapping_sub(last.address) {
        return true;
    }
    // Different memory regions are different memories, so no segment covers both.
    if chunk.load_address < load_end || chunk.region != last.region {
        return true;
    }
    if !policy.paged {
        return false;
    }
    let page = |address: u64| address & policy.page_size.wrapping_neg();
    let next_page = crate::chunks::align::round_up(end, policy.page_size);
    if next_page.is_none_or(|next| next < page(chunk.address)) {
        return true;
    }
    let last_page = page(end.wrapping_sub(u64::from(last.size > 0)));
    if last_page == page(chunk.address) {
        return false;
    }
    if last.sh_type == elf::SHT_NOBITS && chunk.sh_type != elf::SHT_NOBITS {
        return true;
    }
    if policy.separate_all && load_flags != flags {
        return true;
    }
    if policy.separate_pure_code && (load_flags == elf::PF_X) != (flags == elf::PF_X) {
        return true;
    }
    // A read-only section may follow in a writable segment, but a writable section may not follow in a
    // read-only one.
    let writes_more = flags & !load_flags & elf::PF_W != 0;
    writes_more || policy.separate_code && (load_flags ^ flags) & elf::PF_X != 0
}

/// A segment for the headers alone, on the pages before that of the first chunk; `None` if there are no such
/// pages. Some scripts keep room for headers where the first segment has none, for example because code has
/// pages of its own. And a program with an interpreter needs the headers in memory, because the interpreter
/// reads them there.
fn headers_alone(
    chunks: &[&Chunk<'_>],
    load: Option<&Segment>,
    policy: &SegmentPolicy,
    headers_size: u64,
) -> Option<Segment> {
    if !policy.paged {
        return None;
    }
    let first = &chunks[load?.first as usize];
    let room = crate::chunks::align::round_up(headers_size, policy.page_size)?;
    let start_of = |address: u64| address & policy.page_size.wrapping_neg();
    let address = start_of(first.address).checked_sub(room)?;
    let load_address = start_of(first.load_address).checked_sub(room)?;
    Some(Segment {
        p_type: elf::PT_LOAD,
        flags: elf::PF_R,
        align: policy.align_page,
        address,
        load_address,
        file_header: true,
        program_headers: true,
        ..Segment::default()
    })
}

/// Whether the file header and the program headers fit in front of the first chunk, in its page. If the
/// output is not paged, whether they begin at the start of a page and end exactly where the chunk begins.
fn fits_headers(chunks: &[&Chunk<'_>], load: &Segment, policy: &SegmentPolicy, headers_size: u64) -> bool {
    let chunk = &chunks[load.first as usize];
    let in_page = |bytes: u64| bytes & policy.page_size.wrapping_sub(1);
    if !policy.paged {
        let offset = congruent(headers_size, chunk.address, load.align);
        return offset.is_some_and(|offset| offset <= chunk.address && in_page(chunk.address - offset) == 0);
    }
    let fit_before = |address: u64| address >= headers_size && in_page(address) >= in_page(headers_size);
    fit_before(chunk.address) && fit_before(chunk.load_address)
}

/// Adds the segments of notes. Neighbouring notes of one alignment share a segment, because their entries
/// follow one another, in memory and where they are loaded.
fn notes(chunks: &[&Chunk<'_>], segments: &mut Vec<Segment>) {
    let mut run: Option<Segment> = None;
    for (index, chunk) in chunks.iter().enumerate() {
        let is_note = is_alloc(chunk.flags) && chunk.sh_type == elf::SHT_NOTE;
        let follows = |run: &Segment| {
            let last = &chunks[run.end as usize - 1];
            let end = crate::chunks::align::round_up(last.address.wrapping_add(last.size), chunk.align);
            let shift = |chunk: &Chunk<'_>| chunk.load_address.wrapping_sub(chunk.address);
            run.align == chunk.align
                && end == Some(chunk.address)
                && run.end as usize == index
                && shift(last) == shift(chunk)
        };
        match &mut run {
            Some(segment) if is_note && follows(segment) => {
                segment.end = index as u32 + 1;
                segment.flags |= permissions(chunk, false);
            }
            _ => {
                segments.extend(run.take());
                if is_note {
                    run = Some(one(elf::PT_NOTE, chunks, index, permissions(chunk, false), chunk.align));
                }
            }
        }
    }
    segments.extend(run);
}

/// The segment of the TLS template, if there are thread-local sections.
pub fn tls(chunks: &[&Chunk<'_>]) -> Option<Segment> {
    let is_tls = |chunk: &&Chunk<'_>| is_alloc(chunk.flags) && chunk.flags & elf::SHF_TLS != 0;
    let first = chunks.iter().position(is_tls)?;
    let last = chunks.iter().rposition(is_tls).unwrap_or(first);
    let align = chunks[first..=last].iter().filter(|chunk| is_tls(chunk)).map(|chunk| chunk.align).max();
    let mut segment = one(elf::PT_TLS, chunks, first, elf::PF_R, align.unwrap_or(1));
    segment.end = last as u32 + 1;
    Some(segment)
}

fn relro(chunks: &[&Chunk<'_>], policy: &SegmentPolicy) -> Option<Segment> {
    let (start, end) = policy.relro?;
    let inside = |chunk: &&Chunk<'_>| {
        chunk.takes_address_space() && chunk.size > 0 && chunk.address >= start && chunk.address < end
    };
    let first = chunks.iter().position(inside)?;
    let last = chunks.iter().rposition(inside)?;
    let mut segment = one(elf::PT_GNU_RELRO, chunks, first, elf::PF_R, 1);
    segment.end = last as u32 + 1;
    segment.memory_size = end - chunks[first].address;
    Some(segment)
}

/// The segments that an output section names.
#[derive(Clone, Copy)]
pub struct Named<'p> {
    names: &'p [Name],
    /// Whether the script names the segments for this very section. An orphan has those of its neighbour.
    own: bool,
}

/// For each chunk, the segments that its output section names in the script. `outputs` has the row of each
/// output section. An output section that names none inherits them from the last one before it that names
/// any, if that one is empty and so has no chunk.
pub fn names_in_script<'p>(
    plan: &'p LayoutPlan,
    chunks: &[&Chunk<'_>],
    outputs: &[OutputId],
) -> Vec<Named<'p>> {
    let mut in_output = vec![false; plan.outputs.len()];
    outputs.iter().for_each(|&output| in_output[output.index()] = true);
    let mut names: Vec<&[Name]> = plan.outputs.iter().map(|output| &output.phdrs[..]).collect();
    let mut of_empty: &[Name] = &[];
    for row in plan.in_order().map(OutputId::index) {
        if names[row].is_empty() {
            names[row] = of_empty;
        } else if !plan.outputs[row].discard {
            of_empty = if in_output[row] { &[] } else { names[row] };
        }
    }
    let name = |(&output, chunk): (&OutputId, &&Chunk<'_>)| {
        let described = &plan.outputs[output.index()];
        let names = if is_alloc(chunk.flags) { names[output.index()] } else { &described.phdrs[..] };
        Named { names, own: !described.orphan && !described.phdrs.is_empty() }
    };
    outputs.iter().zip(chunks).map(name).collect()
}

/// The segments of `PHDRS`, for chunks in order of address. `of_chunk` is the result of [`names_in_script`].
/// A section without names goes into the segments of the section before. Only sections that name them
/// themselves go into `PT_INTERP` and `PT_GNU_SFRAME`.
pub fn from_phdrs(
    plan: &LayoutPlan,
    values: &[PhdrValues],
    chunks: &[&Chunk<'_>],
    of_chunk: &[Named<'_>],
    policy: &SegmentPolicy,
    findings: &mut Vec<Diagnostic>,
) -> Vec<Segment> {
    let mut segments: Vec<Segment> = plan
        .phdrs
        .iter()
        .zip(values)
        .map(|(phdr, value)| Segment {
            p_type: value.p_type,
            align: if value.p_type == elf::PT_LOAD { policy.align_page } else { 1 },
            file_header: phdr.file_header,
            program_headers: phdr.program_headers,
            ..Segment::default()
        })
        .collect();
    if chunks.iter().any(|chunk| is_alloc(chunk.flags)) && of_chunk.iter().all(|named| named.names.is_empty())
    {
        findings.push(no_phdrs(plan));
    }
    let mut rows: HashMap<&[u8], usize> = HashMap::new();
    for (row, phdr) in plan.phdrs.iter().enumerate() {
        rows.entry(&phdr.name.bytes).or_insert(row);
    }
    for run in runs_of_named(chunks, of_chunk, policy.execute_only) {
        for name in run.names {
            match rows.get(&name.bytes[..]) {
                Some(&row) => match segments[row].p_type {
                    // The kernel refuses a `PT_INTERP` with more than the path, and orphans stand behind
                    // `.interp`. Readers of `PT_GNU_SFRAME` take everything that it covers for one table
                    // (SFrame rule 8).
                    elf::PT_INTERP | PT_GNU_SFRAME if !run.own => {}
                    // Readers look for the table in memory, so a table that is not loaded has no segment.
                    elf::PT_LOAD | PT_GNU_SFRAME => join(&mut segments[row], &run.loaded),
                    _ => join(&mut segments[row], &run.all),
                },
                None if *name.bytes == *b"NONE" => {}
                None => findings.push(unknown_phdr(plan, name)),
            }
        }
    }
    for (segment, value) in segments.iter_mut().zip(values) {
        if let Some(flags) = value.flags {
            segment.flags = flags;
        } else if segment.p_type == elf::PT_PHDR || segment.file_header || segment.program_headers {
            segment.flags |= elf::PF_R;
        }
        if let Some(load_address) = value.load_address {
            segment.load_address = load_address;
        }
        if matches!(segment.p_type, elf::PT_PHDR | elf::PT_GNU_STACK) {
            segment.align = 8;
        }
    }
    segments
}

/// Chunks that follow one another and go into the same segments. A script may name tens of thousands of
/// segments for one section, and as many sections may inherit them.
struct Run<'p> {
    names: &'p [Name],
    own: bool,
    /// A segment of all these chunks.
    all: Segment,
    /// A segment of the chunks that are loaded. Thread-local zeros are only in the template, and sections
    /// that are not allocated have no addresses to load.
    loaded: Segment,
}

/// The runs of [`from_phdrs`].
fn runs_of_named<'p>(chunks: &[&Chunk<'_>], of_chunk: &[Named<'p>], execute_only: bool) -> Vec<Run<'p>> {
    let mut runs: Vec<Run<'p>> = Vec::new();
    let first_named = of_chunk.iter().map(|named| named.names).find(|names| !names.is_empty());
    let mut current: Option<&'p [Name]> = None;
    for (index, (chunk, &Named { names, own })) in chunks.iter().zip(of_chunk).enumerate() {
        if !names.is_empty() {
            current = Some(names);
        } else if !is_alloc(chunk.flags) {
            continue;
        }
        current = current.or(first_named);
        let Some(names) = current else { break };
        let one = segment_of(chunk, index, execute_only);
        let loaded = if chunk.takes_address_space() { one } else { Segment::default() };
        match runs.last_mut().filter(|run| run.own == own && std::ptr::eq(run.names, names)) {
            Some(run) => {
                join(&mut run.all, &one);
                join(&mut run.loaded, &loaded);
            }
            None => runs.push(Run { names, own, all: one, loaded }),
        }
    }
    runs
}

/// A segment of one chunk.
fn segment_of(chunk: &Chunk<'_>, index: usize, execute_only: bool) -> Segment {
    Segment {
        first: index as u32,
        end: index as u32 + 1,
        address: chunk.address,
        load_address: chunk.load_address,
        flags: permissions(chunk, execute_only),
        align: chunk.align,
        ..Segment::default()
    }
}

/// Adds the chunks of `more`, which stand behind those of the segment.
fn join(segment: &mut Segment, more: &Segment) {
    if more.is_empty() {
        return;
    }
    if segment.is_empty() {
        segment.first = more.first;
        segment.address = more.address;
        segment.load_address = more.load_address;
    }
    segment.end = more.end;
    segment.flags |= more.flags;
    segment.align = segment.align.max(more.align);
}

/// The error for a script that has `PHDRS`, but no output section that names a program header.
fn no_phdrs(plan: &LayoutPlan) -> Diagnostic {
    let diagnostic = Diagnostic::error(Code::ScriptError, "no sections assigned to phdrs")
        .help("write the name of a program header behind an output section: `} :text`");
    match plan.phdrs.first() {
        Some(first) => diagnostic.at(plan.sources.location(first.span)).ordered(
            first.span.file,
            0,
            first.span.start.into(),
        ),
        None => diagnostic,
    }
}

/// An error for each program header that one of these output sections names, although the script has no
/// `PHDRS`. A name behind a section that is not made asks for nothing.
pub fn unknown_without_phdrs(plan: &LayoutPlan, outputs: &[OutputId]) -> impl Iterator<Item = Diagnostic> {
    let made = outputs.iter().filter_map(|&output| plan.outputs.get(output.index()));
    let mut seen = HashSet::new();
    let lists = made.map(|output| &output.phdrs).filter(move |list| seen.insert(list.as_ptr()));
    let names = lists.flat_map(|list| list.iter());
    names.filter(|name| *name.bytes != *b"NONE").map(|name| unknown_phdr(plan, name))
}

/// One message names at most so many program headers.
const NAMED: usize = 10;

fn unknown_phdr(plan: &LayoutPlan, name: &Name) -> Diagnostic {
    let known: Vec<_> = plan.phdrs.iter().take(NAMED).map(|phdr| phdr.name.text()).collect();
    let more = match plan.phdrs.len() - known.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let diagnostic =
        Diagnostic::error(Code::ScriptError, format!("there is no program header `{}`", name.text()))
            .at(plan.sources.location(name.span))
            .ordered(name.span.file, 0, name.span.start.into());
    if known.is_empty() {
        diagnostic.help("declare it with PHDRS { … }")
    } else {
        diagnostic.help(format!("PHDRS declares {}{more}", known.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(name: &'static [u8], sh_type: u32, flags: u64, address: u64, size: u64) -> Chunk<'static> {
        Chunk {
            name,
            sh_type,
            flags: flags | elf::SHF_ALLOC,
            align: 4,
            address,
            load_address: address,
            size,
            ..Chunk::default()
        }
    }

    fn policy() -> SegmentPolicy {
        SegmentPolicy {
            page_size: 0x1000,
            align_page: 0x1000,
            separate_code: true,
            paged: true,
            ..SegmentPolicy::default()
        }
    }

    fn views<'c>(chunks: &'c [Chunk<'static>]) -> Vec<&'c Chunk<'static>> {
        chunks.iter().collect()
    }

    fn of_type(segments: &[Segment], p_type: u32) -> Vec<&Segment> {
        segments.iter().filter(|segment| segment.p_type == p_type).collect()
    }

    #[test]
    fn permissions_part_segments_and_shared_pages_join_them() {
        let text = elf::SHF_EXECINSTR;
        let data = elf::SHF_WRITE;
        let far = [
            chunk(b".rodata", elf::SHT_PROGBITS, 0, 0x400200, 0x10),
            chunk(b".text", elf::SHT_PROGBITS, text, 0x401000, 0x10),
            chunk(b".data", elf::SHT_PROGBITS, data, 0x402000, 0x10),
            chunk(b".bss", elf::SHT_NOBITS, data, 0x402010, 0x5000),
        ];
        let segments = derive(&views(&far), &policy(), 0x200);
        let loads = of_type(&segments, elf::PT_LOAD);
        assert_eq!(loads.iter().map(|load| load.flags).collect::<Vec<_>>(), [4, 5, 6]);
        assert!(loads[0].file_header && loads[0].program_headers);
        assert_eq!(loads[2].end, 4);

        let mut near = far.clone();
        near[1].address = 0x400300;
        near[1].load_address = 0x400300;
        let segments = derive(&views(&near), &policy(), 0x200);
        let loads = of_type(&segments, elf::PT_LOAD);
        assert_eq!(loads.iter().map(|load| load.flags).collect::<Vec<_>>(), [5, 6]);
    }

    #[test]
    fn sections_without_bytes_have_no_say_in_permissions() {
        let (text, data) = (elf::SHF_EXECINSTR, elf::SHF_WRITE);
        let flags = |chunks: &[Chunk<'static>]| {
            let segments = derive(&views(chunks), &policy(), 0x200);
            of_type(&segments, elf::PT_LOAD)
                .iter()
                .map(|load| (load.flags, load.first, load.end))
                .collect::<Vec<_>>()
        };
        let tables = chunk(b".dynstr", elf::SHT_PROGBITS, 0, 0x200, 0x10);
        let empty = |address| chunk(b".text", elf::SHT_PROGBITS, text, address, 0);
        let dynamic = |address| chunk(b".dynamic", elf::SHT_DYNAMIC, data, address, 0xf0);
        assert_eq!(flags(&[tables.clone(), empty(0x1000), dynamic(0x1f10)]), [(4, 0, 2), (6, 2, 3)]);
        assert_eq!(flags(&[empty(0x1000), dynamic(0x1f10)]), [(6, 0, 2)]);
        assert_eq!(flags(&[tables, empty(0x5000), dynamic(0x5f10)]), [(4, 0, 1), (6, 1, 3)]);
    }

    #[test]
    fn headers_are_loaded_only_where_they_fit() {
        let chunks = [chunk(b".text", elf::SHT_PROGBITS, elf::SHF_EXECINSTR, 0x400100, 0x10)];
        assert!(derive(&views(&chunks), &policy(), 0x100)[0].file_header);
        assert!(!derive(&views(&chunks), &policy(), 0x101)[0].file_header);
        let low = [chunk(b".text", elf::SHT_PROGBITS, elf::SHF_EXECINSTR, 0, 0x10)];
        assert!(!derive(&views(&low), &policy(), 0x100)[0].file_header);
    }

    #[test]
    fn notes_of_one_alignment_share_a_segment() {
        let mut chunks = [
            chunk(b".note.gnu.property", elf::SHT_NOTE, 0, 0x400300, 0x20),
            chunk(b".note.gnu.build-id", elf::SHT_NOTE, 0, 0x400320, 0x24),
            chunk(b".note.ABI-tag", elf::SHT_NOTE, 0, 0x400344, 0x20),
        ];
        chunks[0].align = 8;
        let segments = derive(&views(&chunks), &policy(), 0x200);
        let notes = of_type(&segments, elf::PT_NOTE);
        assert_eq!(notes.len(), 2);
        assert_eq!(notes[1].positions(), 1..3);
        assert_eq!(of_type(&segments, PT_GNU_PROPERTY).len(), 1);
    }

    #[test]
    fn thread_local_zeros_take_no_address_space() {
        let tls = elf::SHF_WRITE | elf::SHF_TLS;
        let chunks = [
            chunk(b".tdata", elf::SHT_PROGBITS, tls, 0x403000, 0x10),
            chunk(b".tbss", elf::SHT_NOBITS, tls, 0x403010, 0x100),
            chunk(b".data", elf::SHT_PROGBITS, elf::SHF_WRITE, 0x403010, 0x10),
        ];
        let segments = derive(&views(&chunks), &policy(), 0x200);
        assert_eq!(of_type(&segments, elf::PT_LOAD).len(), 1);
        let template = of_type(&segments, elf::PT_TLS)[0];
        assert_eq!(template.positions(), 0..2);
    }
}
