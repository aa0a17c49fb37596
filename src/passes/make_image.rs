//! Gives sections and segments their places in the file.
//!
//! Addresses are final. Sections that are not loaded may be compressed, which changes file offsets. The
//! tables of symbols and section names get their sizes, because the set of output sections is final.

use super::compress_debug;
use crate::arch::Target;
use crate::arch::machine::SHF_PURE_CODE;
use crate::chunks::{Chunk, Segment};
use crate::cli::{Magic, OutputFormat, Report, SeparateCode};
use crate::diag::{Code, Diagnostic, Severity};
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::{ChunkId, SectionId};
use crate::layout::{check, file_offsets};
use crate::output::{debug_link, image};
use crate::phase::{FilePlan, FileSection, Image, Placed};
use crate::synth::symtab_entries;
use crate::tables::section::Kind;
use crate::tables::section_names::SectionNames;

/// Makes the image of the output.
pub fn run<T: Target>(placed: Placed<'_, T>) -> Image<'_, T> {
    let own = &placed.layout.chunks[..placed.layout.own_chunks()];
    let mut sections: Vec<FileSection<'_>> = own.iter().map(FileSection::of).collect();
    let mut names = size_tables(&placed, &mut sections);
    let mut file = assign(&placed, &mut sections);
    report_segments(&placed, &sections, &file.segments);
    let mut compressed = Vec::new();
    if !placed.sink.has_errors() {
        compressed = compress_debug::run(&placed, &mut sections);
        if compressed.iter().any(Option::is_some) {
            names = size_tables(&placed, &mut sections);
            file = assign(&placed, &mut sections);
        }
        if placed.config.output_format == OutputFormat::Binary {
            file.size = image::place(&placed.layout, &mut sections, placed.sink);
        }
    }
    Image { file_sections: sections, compressed, names, file, placed }
}

/// Makes the image of the separate debug file from that of the output, which is in its place. The debug file
/// has the output's sections, too, under the same numbers, so that debuggers can match the two. Those in
/// memory have no bytes in it, except notes, by which debuggers know whose file it is.
pub fn debug_file<T: Target>(output: Image<'_, T>) -> Image<'_, T> {
    let Image { placed, file, .. } = output;
    let mut sections: Vec<FileSection<'_>> = placed.layout.chunks.iter().map(FileSection::of).collect();
    let link = placed.chunk_of(Kind::DebugLink);
    for (index, section) in sections.iter_mut().enumerate() {
        let is_memory = is_alloc(section.flags) && section.sh_type != elf::SHT_NOTE;
        if is_memory || link == Some(ChunkId::from_index(index)) {
            section.sh_type = elf::SHT_NOBITS;
        }
    }
    let compressed = compress_debug::run(&placed, &mut sections);
    let names = size_tables(&placed, &mut sections);
    let plan = file_offsets::assign_debug_file(&placed.layout, &mut sections, file.segments);
    let mut file = plan.unwrap_or_else(|| refuse_size(&placed));
    file.size = file.size.saturating_add(debug_link::CLOSING_SIZE);
    Image { file_sections: sections, compressed, names, file, placed }
}

/// Sizes the tables of symbols and section names. Returns the names.
fn size_tables<T: Target>(link: &Placed<'_, T>, sections: &mut [FileSection<'_>]) -> SectionNames {
    let names = SectionNames::new(sections.iter().map(|section| section.name));
    let (symbols, strings, extended) = symtab_entries::sizes::<T>(&link.symtab, sections.len() + 1);
    let sizes = [
        (Kind::SymTab, symbols),
        (Kind::StrTab, strings),
        (Kind::SymTabShndx, extended),
        (Kind::ShStrTab, names.bytes.len() as u64),
    ];
    for (kind, size) in sizes {
        if let Some(chunk) = link.chunk_of(kind) {
            sections[chunk.index()].size = size;
        }
    }
    names
}

fn assign<T: Target>(link: &Placed<'_, T>, sections: &mut [FileSection<'_>]) -> FilePlan {
    let options = &link.config.layout;
    let own_pages = options.separate_code == Some(SeparateCode::AllSegments);
    let plan = file_offsets::assign(&link.layout, sections, !options.no_section_headers, own_pages);
    plan.unwrap_or_else(|| refuse_size(link))
}

fn refuse_size<T: Target>(link: &Placed<'_, T>) -> FilePlan {
    let message = "the output does not fit a file: its size overflows 64 bits";
    link.sink.report(Diagnostic::error(Code::LayoutError, message));
    FilePlan::default()
}

/// `-z execute-only-report`: reports code that is not marked as free of data.
fn report_impure_code<T: Target>(link: &Placed<'_, T>) {
    let severity = match link.config.layout.execute_only_report {
        Report::Warning => Severity::Warning,
        Report::Error => Severity::Error,
        Report::Ignore => return,
    };
    let Some(mark) = T::PURE_CODE else {
        let message = "-z execute-only-report: code of this machine has no mark that it holds no data";
        link.sink.report(Diagnostic::error(Code::BadOption, message));
        return;
    };
    for &id in link.layout.chunks.iter().flat_map(|chunk| &chunk.items) {
        let info = link.section_info(id);
        let is_code = is_alloc(info.flags) && info.flags & elf::SHF_EXECINSTR != 0 && info.size > 0;
        if id.0 < link.first_internal() && is_code && info.flags & SHF_PURE_CODE == 0 {
            let place = link.describe_place(id, 0);
            let message = format!("{place} is code that may hold data: it lacks the flag {mark}");
            link.sink.report(
                Diagnostic::new(severity, Code::LayoutError, message)
                    .help("compile it with -mexecute-only")
                    .ordered(link.rank_of_file(id), id.0, 0),
            );
        }
    }
}

/// The first input section of an output section that is loaded and not code, for messages.
fn first_data<T: Target>(link: &Placed<'_, T>, chunk: &Chunk<'_>) -> Option<String> {
    let is_data = |id: &&SectionId| {
        let info = link.section_info(**id);
        info.size > 0 && is_alloc(info.flags) && info.flags & elf::SHF_EXECINSTR == 0
    };
    let found = chunk.items.iter().filter(|id| id.0 < link.first_internal()).find(is_data);
    found.map(|&id| link.describe_place(id, 0))
}

fn report_segments<T: Target>(link: &Placed<'_, T>, sections: &[FileSection<'_>], segments: &[Segment]) {
    let template = check::thread_local_template(&link.layout, sections, segments);
    let template = template.filter(|_| !link.config.is_relocatable());
    for finding in check::away_from_their_load_addresses(&link.layout).into_iter().chain(template) {
        link.sink.report_recoverable(finding);
    }
    let headers = check::headers_without_memory(segments, link.layout.headers_size);
    for finding in check::before_their_segments(&link.layout).into_iter().chain(headers) {
        link.sink.report(finding);
    }
    let output = link.config.output.display().to_string();
    let refused = [
        check::headers_below_zero(segments, link.layout.headers_size),
        check::too_many_headers(segments, &output),
    ];
    for finding in refused.into_iter().flatten() {
        link.sink.report(finding);
    }
    if link.config.layout.execute_only {
        check::data_in_code(&link.layout, |chunk| first_data(link, chunk)).into_iter().for_each(|finding| {
            link.sink.report(finding);
        });
    }
    report_impure_code(link);
    // -N asks for a writable and executable segment.
    if link.config.layout.magic != Magic::OMagic {
        let report = link.config.diagnostics.rwx_segments;
        for finding in check::rwx(segments, report, &output) {
            link.sink.report(finding);
        }
    }
}
