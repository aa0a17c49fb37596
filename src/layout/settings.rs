//! What the options and the machine decide for all rounds of a layout.

use super::converge::{Fixed, Special};
use super::file_offsets;
use super::segments::SegmentPolicy;
use super::state::Settings;
use crate::arch::Target;
use crate::cli::{Config, Magic, OutputFormat, SFrameIndex, SeparateCode};
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::phase::{Contents, Inputs};
use crate::plan::LayoutPlan;
use crate::script::builtin::LayoutConstants;
use crate::script::expr::{Expr, ExprKind};
use crate::tables::section::Kind;

pub(super) fn page_sizes<T: Target>(config: &Config) -> (u64, u64) {
    let layout = &config.layout;
    let common = layout.common_page_size;
    let max = layout.max_page_size.unwrap_or(T::MAX_PAGE_SIZE.max(common.unwrap_or(0)));
    (max, common.unwrap_or(T::COMMON_PAGE_SIZE).min(max))
}

fn separate_code<T: Target>(config: &Config) -> bool {
    let layout = &config.layout;
    // As in lld and mold, whoever asks for a segment of read-only data gets it on every machine.
    let default = layout.rosegment.unwrap_or(T::SEPARATE_CODE);
    let wanted =
        layout.separate_code.map_or(default, |wanted| wanted != SeparateCode::No) || layout.execute_only;
    layout.magic == Magic::Paged && wanted
}

/// Whether pure code has pages of its own (`--xosegment`). With `--execute-only` all code is like it.
fn separate_pure_code(config: &Config) -> bool {
    let layout = &config.layout;
    layout.xosegment && !layout.execute_only && layout.magic == Magic::Paged && !config.is_relocatable()
}

/// Warns of an image base that is not a multiple of the page size. The system maps a program in whole pages.
pub fn warn_image_base<T: Target>(link: &Inputs<'_, T>) {
    let (max_page_size, _) = page_sizes::<T>(link.config);
    if let Some(base) = link.config.layout.image_base
        && link.config.layout.magic == Magic::Paged
        && link.config.scripts.scripts.is_empty()
        && base % max_page_size != 0
    {
        link.sink.report(
            Diagnostic::warning(
                Code::LayoutError,
                format!(
                    "the address of the first segment, {base:#x}, is not a multiple of the maximum page size, \
                     {max_page_size:#x}"
                ),
            )
            .help("-z max-page-size=SIZE sets that size"),
        );
    }
}

/// The settings of the location counter.
pub fn settings<T: Target>(config: &Config) -> Settings {
    let layout = &config.layout;
    let (max_page_size, common_page_size) = page_sizes::<T>(config);
    Settings {
        max_page_size,
        common_page_size,
        relro_page_size: if T::RELRO_ENDS_ON_MAX_PAGE { max_page_size } else { 0 },
        switches: Some(LayoutConstants {
            separate_code: separate_code::<T>(config),
            protect_got: config.dynamic.bind_now && layout.relro,
            paged_data: layout.magic != Magic::OMagic,
            image_base: T::IMAGE_BASE,
            reserved_slots: T::GOT_PLT_RESERVED * 8,
            symbol_alignment: if T::EVEN_TARGETS { 2 } else { 1 },
        }),
        image_base: layout.image_base,
        rodata_segment: layout.rodata_segment,
        ldata_segment: layout.ldata_segment,
        separate_pure_code: separate_pure_code(config) && config.scripts.scripts.is_empty(),
        warn_section_align: config.diagnostics.section_align,
        relocatable: config.is_relocatable(),
        big_endian: T::EI_DATA == elf::ELFDATA2MSB,
    }
}

/// Whether the script makes room for headers: an expression uses `SIZEOF_HEADERS`.
fn keeps_headers_room(plan: &LayoutPlan) -> bool {
    fn speaks_of(expr: &Expr) -> bool {
        matches!(expr.kind, ExprKind::SizeOfHeaders) || expr.operands().into_iter().any(speaks_of)
    }
    let mut found = false;
    plan.for_each_expression(&mut |expr| found |= speaks_of(expr));
    found
}

/// What stays the same in all rounds.
pub fn fixed<'a, T: Target>(link: &Contents<'a, T>, plan: &LayoutPlan) -> Fixed<'a> {
    let config = link.config;
    let layout = &config.layout;
    let alive = |kind: Kind| {
        let id = link.synthetic_id(link.synthetics.find(kind)?);
        link.sections.is_alive(id).then_some(id)
    };
    let image = config.output_format == OutputFormat::Binary;
    let paged = layout.magic == Magic::Paged;
    let (max_page_size, _) = page_sizes::<T>(config);
    let executable = layout.executable_stack.or(link.executable_stack);
    // If neither objects nor options mention a stack (firmware), there is no header for it.
    let stack = executable.or(layout.stack_size.map(|_| false)).filter(|_| !layout.no_gnu_stack);
    Fixed {
        names: plan.outputs.iter().map(|output| link.store.keep(&output.name[..])).collect(),
        relro: layout.relro && paged && !config.is_relocatable(),
        strip: &config.strip,
        special: Special {
            dynamic: alive(Kind::Dynamic),
            eh_frame_hdr: alive(Kind::EhFrameHdr),
            unwind_table: alive(Kind::UnwindTable),
            sframe_index: alive(Kind::SFrame).filter(|_| config.sframe.index == Some(SFrameIndex::V3)),
        },
        policy: SegmentPolicy {
            page_size: max_page_size,
            align_page: if paged { max_page_size } else { 1 },
            separate_code: separate_code::<T>(config),
            separate_pure_code: separate_pure_code(config),
            separate_all: layout.separate_code == Some(SeparateCode::AllSegments),
            paged,
            headers_room: keeps_headers_room(plan),
            // If an object's section had the flag, it would stay in the program made from that object.
            execute_only: layout.execute_only,
            spare: layout.spare_program_headers as usize,
            writable_text: layout.magic == Magic::OMagic && !config.is_relocatable(),
            stack: stack.map(|executable| (executable, layout.stack_size.unwrap_or(0))),
            ..SegmentPolicy::default()
        },
        segments: !config.is_relocatable() && !image,
        file_header_size: if image { 0 } else { file_offsets::FILE_HEADER_SIZE },
    }
}
