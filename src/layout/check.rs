//! Checks a finished layout: overlapping sections, segments that are writable and executable, headers outside
//! of memory, and sections outside of their segments.

use super::file_offsets;
use crate::chunks::{Chunk, Layout, Segment};
use crate::cli::Report;
use crate::diag::{Code, Diagnostic, Severity};
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::ChunkId;
use crate::phase::FileSection;
use crate::plan::LayoutPlan;
use crate::script::Span;

/// The output section description of a chunk, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Place in the script.
    pub span: Span,
    /// Whether it stands in an overlay.
    pub overlay: bool,
}

/// Reports output sections whose addresses or load addresses overlap (`--check-sections`).
pub fn overlaps(plan: &LayoutPlan, chunks: &[Chunk<'_>], origins: &[Origin]) -> Vec<Diagnostic> {
    let loaded = |chunk: &Chunk<'_>| chunk.takes_address_space() && chunk.size > 0;
    let mut findings = Vec::new();
    // Sections of an overlay share their addresses on purpose, but not their load addresses.
    let by_address: Vec<usize> =
        (0..chunks.len()).filter(|&at| loaded(&chunks[at]) && !origins[at].overlay).collect();
    if !has_overlay_without_command(chunks, &by_address) {
        find(plan, chunks, origins, by_address, "address", |chunk| chunk.address, &mut findings);
    }
    if findings.is_empty() {
        let by_load: Vec<usize> = (0..chunks.len())
            .filter(|&at| loaded(&chunks[at]) && chunks[at].sh_type != elf::SHT_NOBITS)
            .collect();
        find(plan, chunks, origins, by_load, "load address", |chunk| chunk.load_address, &mut findings);
    }
    findings
}

/// Whether a script makes an overlay without the command `OVERLAY`: two of the sections start at one address,
/// and each is loaded at a place of its own. Then any addresses may overlap, as in GNU ld, because such an
/// overlay may have several sections in each part.
fn has_overlay_without_command(chunks: &[Chunk<'_>], sections: &[usize]) -> bool {
    let mut places: Vec<(u64, u64)> =
        sections.iter().map(|&at| (chunks[at].address, chunks[at].load_address)).collect();
    places.sort_unstable();
    places.windows(2).any(|pair| pair[0].0 == pair[1].0 && pair[0].1 != pair[1].1)
}

fn find(
    plan: &LayoutPlan,
    chunks: &[Chunk<'_>],
    origins: &[Origin],
    mut order: Vec<usize>,
    what: &str,
    start: impl Fn(&Chunk<'_>) -> u64,
    findings: &mut Vec<Diagnostic>,
) {
    order.sort_by_key(|&at| (start(&chunks[at]), at));
    let name = |chunk: &Chunk<'_>| String::from_utf8_lossy(chunk.name).into_owned();
    for pair in order.windows(2) {
        let (low, high) = (&chunks[pair[0]], &chunks[pair[1]]);
        let last = |chunk: &Chunk<'_>| start(chunk).saturating_add(chunk.size - 1);
        if last(low) < start(high) {
            continue;
        }
        let span = origins[pair[1]].span;
        let mut finding = Diagnostic::error(
            Code::LayoutError,
            format!(
                "output section {} ({what} {:#x} to {:#x}) overlaps {} ({:#x} to {:#x})",
                name(high),
                start(high),
                last(high),
                name(low),
                start(low),
                last(low)
            ),
        )
        .ordered(u32::MAX, pair[1] as u32, 0)
        .help("--no-check-sections allows it");
        if span != Span::default() {
            finding = finding.at(plan.sources.location(span));
        }
        findings.push(finding);
    }
}

/// Reports loaded segments that are writable and executable, and executable thread-local storage. The
/// messages are exactly GNU ld's lines, because builds filter them out by their text.
pub fn rwx(segments: &[Segment], report: Report, output: &str) -> Vec<Diagnostic> {
    let severity = match report {
        Report::Ignore => return Vec::new(),
        Report::Warning => Severity::Warning,
        Report::Error => Severity::Error,
    };
    let mut findings = Vec::new();
    for segment in segments {
        let writable = segment.flags & elf::PF_W != 0;
        let executable = segment.flags & elf::PF_X != 0;
        let message = match segment.p_type {
            elf::PT_LOAD if writable && executable && segment.memory_size > 0 => {
                format!("{output} has a LOAD segment with RWX permissions")
            }
            elf::PT_TLS if executable => format!("{output} has a TLS segment with execute permission"),
            _ => continue,
        };
        findings.push(Diagnostic::new(severity, Code::ExecutableStack, message));
    }
    findings
}

/// Reports what `--execute-only` does not allow: sections in a segment of code that a program may read.
/// `place_of` names the first input section of an output section that is not code.
pub fn data_in_code(layout: &Layout<'_>, place_of: impl Fn(&Chunk<'_>) -> Option<String>) -> Vec<Diagnostic> {
    let is_code = |segment: &&Segment| segment.p_type == elf::PT_LOAD && segment.flags & elf::PF_X != 0;
    let held = layout.segments.iter().filter(is_code).flat_map(|segment| layout.chunks_of(segment));
    let tell = |id: ChunkId| {
        let chunk = &layout.chunks[id.index()];
        let holds_bytes = is_alloc(chunk.flags) && chunk.takes_address_space() && chunk.size > 0;
        let is_data = chunk.flags & elf::SHF_EXECINSTR == 0;
        let place = place_of(chunk).filter(|_| holds_bytes);
        let name = String::from_utf8_lossy(chunk.name);
        let message = match place {
            Some(place) if !is_data => format!("{place} is data, and stands in the code of `{name}`"),
            _ if is_data && holds_bytes => format!("output section `{name}` is data in a segment of code"),
            _ => return None,
        };
        Some(Diagnostic::error(Code::LayoutError, message).help(
            "--execute-only makes code unreadable: put data into output sections and on pages of its own",
        ))
    };
    held.filter_map(tell).collect()
}

/// Reports a program with an interpreter whose program headers lie in no loaded segment. They and the file
/// header have `headers_size` bytes. The interpreter looks for them in memory, so such a program dies before
/// its first instruction.
pub fn headers_without_memory(segments: &[Segment], headers_size: u64) -> Option<Diagnostic> {
    let mut loads = segments.iter().filter(|segment| segment.p_type == elf::PT_LOAD);
    let first = loads.clone().next()?;
    let is_started = segments.iter().any(|segment| segment.p_type == elf::PT_INTERP);
    if !is_started || loads.any(|load| load.offset == 0 && load.file_size >= headers_size) {
        return None;
    }
    let message = format!(
        "PHDR segment not covered by LOAD segment: the interpreter needs the program headers in memory, and there is no room \
         for {headers_size:#x} bytes of headers before the first section at {:#x}",
        first.address
    );
    let help = "let the addresses of the script begin with `. = ADDRESS + SIZEOF_HEADERS;`, and give the first PT_LOAD of \
                PHDRS the words FILEHDR and PHDRS";
    Some(Diagnostic::warning(Code::LayoutError, message).help(help))
}

/// Reports a segment to which the script gives the headers (`FILEHDR`, `PHDRS`) and which would begin below
/// address 0, because its first section leaves no room for them.
pub fn headers_below_zero(segments: &[Segment], headers_size: u64) -> Option<Diagnostic> {
    let below = |segment: &&Segment| {
        let has_headers = segment.file_header || segment.program_headers;
        segment.p_type == elf::PT_LOAD
            && has_headers
            && segment.address.checked_add(segment.memory_size).is_none_or(|end| end == 0)
    };
    let segment = segments.iter().find(below)?;
    let message = format!(
        "the segment with FILEHDR or PHDRS would begin {:#x} bytes below address 0: its first section leaves no room \
         for {headers_size:#x} bytes of headers",
        segment.address.wrapping_neg()
    );
    let help = "let the addresses of the script begin with `. = ADDRESS + SIZEOF_HEADERS;`, or give no PT_LOAD the words \
                FILEHDR and PHDRS";
    Some(Diagnostic::error(Code::LayoutError, message).help(help))
}

/// Reports program headers that `e_phnum` cannot count. For larger numbers, the gABI puts the number into the
/// null section's header, which is meant for core files. No loader looks there: Linux refuses more than 64
/// KiB of program headers, and the interpreter and other loaders read only `e_phnum`. So nobody could run the
/// file, and a link that fails says why.
pub fn too_many_headers(segments: &[Segment], output: &str) -> Option<Diagnostic> {
    let most = usize::from(elf::PN_XNUM) - 1;
    if segments.len() <= most {
        return None;
    }
    let message = format!(
        "{output} would have {} program headers; the header of a file that can be loaded counts {most} at most",
        segments.len()
    );
    let help =
        "let PHDRS declare fewer of them, or put sections that follow one another into one memory region";
    Some(Diagnostic::error(Code::LayoutError, message).help(help))
}

/// Reports sections whose bytes the file cannot have at their load address. `PHDRS` puts them into a segment,
/// and they are not as far from the segment's start by load address as by address. A program header has only
/// one distance between the two.
pub fn away_from_their_load_addresses(layout: &Layout<'_>) -> Vec<Diagnostic> {
    let apart = file_offsets::are_apart(&layout.segments);
    let loads = layout.segments.iter().filter(|segment| segment.p_type == elf::PT_LOAD);
    // Sections of an overlay stand in the file in the order of their load addresses.
    let loads = loads.filter(|segment| !(apart && file_offsets::is_overlaid(layout, segment)));
    loads.flat_map(|segment| away_from_load_address(layout, segment)).collect()
}

fn away_from_load_address(layout: &Layout<'_>, segment: &Segment) -> Vec<Diagnostic> {
    let held = layout.chunks_of(segment).map(|id| &layout.chunks[id.index()]);
    let mut with_bytes = held.filter(|chunk| chunk.takes_address_space() && chunk.file_size() > 0).peekable();
    let Some(&first) = with_bytes.peek() else { return Vec::new() };
    let begins = layout.order.get(segment.first as usize).map_or(first, |id| &layout.chunks[id.index()]);
    // `AT` of the program header is the load address of all sections that have none of their own.
    let is_moved = segment.load_address != begins.load_address;
    let base =
        if is_moved { (segment.load_address, begins.address) } else { (first.load_address, first.address) };
    let loaded_at = |chunk: &Chunk<'_>| base.0.wrapping_add(chunk.address.wrapping_sub(base.1));
    let has_own = |chunk: &Chunk<'_>| !is_moved || chunk.load_address != chunk.address;
    let away = with_bytes.filter(|chunk| has_own(chunk) && chunk.load_address != loaded_at(chunk));
    let tell = |chunk: &Chunk<'_>| {
        let message = format!(
            "output section `{}` has the load address {:#x}, but its segment loads it at {:#x}: for {:#x}, the address of \
             the section, that follows from `{}`",
            String::from_utf8_lossy(chunk.name),
            chunk.load_address,
            loaded_at(chunk),
            chunk.address,
            String::from_utf8_lossy(begins.name),
        );
        Diagnostic::error(Code::LayoutError, message).help("give it a program header of its own in PHDRS")
    };
    away.map(tell).collect()
}

/// Reports thread-local sections that make no template. Each thread's block begins as a copy of the bytes
/// that `PT_TLS` has in the file, followed by zeros. So zeros have to stand behind all bytes, and every
/// section needs a place of its own. Other sections may stand between. Thread-local zeros take no addresses:
/// the next section begins where they begin.
pub fn thread_local_template(
    layout: &Layout<'_>,
    sections: &[FileSection<'_>],
    segments: &[Segment],
) -> Option<Diagnostic> {
    let is_part = |id: &ChunkId| {
        let chunk = &layout.chunks[id.index()];
        is_alloc(chunk.flags) && chunk.is_thread_local() && chunk.size > 0
    };
    let mut parts: Vec<ChunkId> = layout.order.iter().copied().filter(is_part).collect();
    let chunk = |id: ChunkId| &layout.chunks[id.index()];
    parts.sort_by_key(|&id| (chunk(id).address, chunk(id).sh_type == elf::SHT_NOBITS));
    let shown = |id: ChunkId| {
        let Chunk { name, address, size, .. } = *chunk(id);
        format!("`{}` ({address:#x} to {:#x})", String::from_utf8_lossy(name), address.saturating_add(size))
    };
    let help = "put the thread-local sections behind one another: first those with data (.tdata), then those of zeros \
                (.tbss)";
    let fault = |message: String| Some(Diagnostic::error(Code::LayoutError, message).help(help));
    for pair in parts.windows(2) {
        let (low, high) = (pair[0], pair[1]);
        if chunk(high).address < chunk(low).address.saturating_add(chunk(low).size) {
            return fault(format!(
                "thread-local sections {} and {} have the same places in the template of each thread's block",
                shown(low),
                shown(high)
            ));
        }
    }
    let template = segments.iter().find(|segment| segment.p_type == elf::PT_TLS && !segment.is_empty())?;
    let held = || layout.chunks_of(template).filter(is_part);
    for id in held() {
        let distance = chunk(id).address.wrapping_sub(template.address);
        let section = &sections[id.index()];
        if chunk(id).file_size() > 0 && section.offset.wrapping_sub(template.offset) != distance {
            return fault(format!(
                "thread-local section {} is not in the file where the template has it, which begins at {:#x}",
                shown(id),
                template.address
            ));
        }
        if chunk(id).file_size() == 0 && distance < template.file_size {
            return fault(format!(
                "thread-local zeros would not begin as zeros: {} is among the bytes of the template, {:#x} to {:#x}",
                shown(id),
                template.address,
                template.address.saturating_add(template.file_size)
            ));
        }
    }
    None
}

/// Reports sections that `PHDRS` puts into a segment which begins behind their addresses. Their load
/// addresses are behind that of the segment's first section, but their addresses are before it. No program
/// header can express this.
pub fn before_their_segments(layout: &Layout<'_>) -> Vec<Diagnostic> {
    let loads = layout.segments.iter().filter(|segment| segment.p_type == elf::PT_LOAD);
    let held = loads.flat_map(|segment| layout.chunks_of(segment).map(move |id| (segment, id)));
    let outside = held.filter_map(|(segment, id)| {
        let first = &layout.chunks[layout.order.get(segment.first as usize)?.index()];
        let chunk = layout.chunks.get(id.index())?;
        let before = chunk.takes_address_space() && chunk.size > 0 && chunk.address < first.address;
        before.then_some((chunk, first))
    });
    let tell = |(chunk, first): (&Chunk<'_>, &Chunk<'_>)| {
        let name = |chunk: &Chunk<'_>| String::from_utf8_lossy(chunk.name).into_owned();
        let message = format!(
            "output section `{}` is in no segment: it is at {:#x}, the segment it is to be in begins with `{}` at {:#x}",
            name(chunk),
            chunk.address,
            name(first),
            first.address
        );
        Diagnostic::warning(Code::LayoutError, message).help("give it a program header of its own in PHDRS")
    };
    outside.map(tell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(name: &'static [u8], address: u64, load_address: u64, size: u64) -> Chunk<'static> {
        Chunk {
            name,
            sh_type: elf::SHT_PROGBITS,
            flags: elf::SHF_ALLOC,
            address,
            load_address,
            size,
            ..Chunk::default()
        }
    }

    #[test]
    fn overlaps_are_found_by_address_and_by_load_address() {
        let plan = LayoutPlan::default();
        let origin = Origin { span: Span::default(), overlay: false };
        let of = |chunks: &[Chunk<'_>], origins: &[Origin]| overlaps(&plan, chunks, origins).len();
        let apart = [chunk(b"a", 0, 0, 16), chunk(b"b", 16, 16, 16)];
        assert_eq!(of(&apart, &[origin; 2]), 0);
        let same = [chunk(b"a", 0, 0, 17), chunk(b"b", 16, 16, 16)];
        assert_eq!(of(&same, &[origin; 2]), 1);
        let overlay = Origin { overlay: true, ..origin };
        let laid_over = [chunk(b"a", 0, 0, 16), chunk(b"b", 0, 16, 16)];
        assert_eq!(of(&laid_over, &[overlay; 2]), 0);
        assert_eq!(of(&laid_over, &[origin; 2]), 0);
        let one_place = [chunk(b"a", 0, 0, 16), chunk(b"b", 0, 0, 16)];
        assert_eq!(of(&one_place, &[origin; 2]), 1);
        let loaded_twice = [chunk(b"a", 0, 0, 16), chunk(b"b", 0, 8, 16)];
        assert_eq!(of(&loaded_twice, &[overlay; 2]), 1);
    }
}
