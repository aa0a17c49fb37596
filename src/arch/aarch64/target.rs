//! The parameters of AArch64: its [`Target`].

use super::relax::Edit;
use super::relocs::{Family, Field};
use super::{AArch64, instructions, plt, relax, relocs, thunks};
use crate::arch::machine::FEATURE_BTI;
use crate::arch::relocation::{Mode, Relaxed, RelocExpr, Rewritten, Site};
use crate::arch::target::{
    DynamicRelocations, MemoryTagging, PltEntry, PltFrame, PltPart, PltShape, RelocInfo, SignedRelocations,
    Target,
};
use crate::arch::thunk::{Reach, ThunkForm, ThunkSpec};
use crate::cli::{Machine, PropertyOptions, RelocationOptions};
use crate::elf::Rela;
use crate::elf::consts as elf;
use zerocopy::byteorder::LittleEndian;

const SHT_AARCH64_ATTRIBUTES: u32 = 0x7000_0003;
/// Size in bytes of the thread control block. The thread pointer points to it, and the first TLS block
/// follows it.
const THREAD_CONTROL_BLOCK: u64 = 16;

impl Target for AArch64 {
    type E = LittleEndian;
    const MACHINE: Machine = Machine::AArch64;
    const E_MACHINE: u16 = elf::EM_AARCH64;
    const EI_DATA: u8 = elf::ELFDATA2LSB;
    const BUILD_ATTRIBUTES: Option<u32> = Some(SHT_AARCH64_ATTRIBUTES);
    const SFRAME_ABI: sframe_format::Abi = sframe_format::Abi::AArch64Little;
    const MAX_PAGE_SIZE: u64 = 0x1_0000;
    const COMMON_PAGE_SIZE: u64 = 0x1000;
    const RELRO_ENDS_ON_MAX_PAGE: bool = true;
    const IMAGE_BASE: u64 = 0x40_0000;
    const INTERPRETER: &'static str = "/lib/ld-linux-aarch64.so.1";
    const OUTPUT_FORMAT: &'static str = "elf64-littleaarch64";
    const LIBRARY_DIRECTORIES: &'static [&'static str] = &[
        "=/usr/local/lib/aarch64-linux-gnu",
        "=/lib/aarch64-linux-gnu",
        "=/usr/lib/aarch64-linux-gnu",
        "=/usr/local/lib",
        "=/lib",
        "=/usr/lib",
    ];
    const DYNAMIC: DynamicRelocations = DynamicRelocations {
        none: elf::R_AARCH64_NONE,
        absolute: elf::R_AARCH64_ABS64,
        copy: elf::R_AARCH64_COPY,
        glob_dat: elf::R_AARCH64_GLOB_DAT,
        jump_slot: elf::R_AARCH64_JUMP_SLOT,
        relative: elf::R_AARCH64_RELATIVE,
        irelative: elf::R_AARCH64_IRELATIVE,
        dtpmod: elf::R_AARCH64_TLS_DTPMOD,
        dtpoff: elf::R_AARCH64_TLS_DTPREL,
        tpoff: elf::R_AARCH64_TLS_TPREL,
        tlsdesc: elf::R_AARCH64_TLSDESC,
        sizes: [elf::R_AARCH64_NONE; 2],
    };
    const SIGNED: Option<SignedRelocations> = Some(SignedRelocations {
        absolute: 0x244,
        relative: 0x411,
        glob_dat: 0x412,
        tlsdesc: 0x413,
        // With the slot's address as the modifier, by key IA and by key DA.
        function: 0x8000_0000_0000_0000,
        data: 0xa000_0000_0000_0000,
        packed_type: 0x7000_0004,
        packed_tags: [0x7000_0012, 0x7000_0011, 0x7000_0013],
    });
    const GOT_PLT_RESERVED: u64 = 3;
    const GOT_RESERVED: u64 = 1;
    /// The reach of `adrp`, less a page: `adrp` counts whole pages, and its code and its word may lie at
    /// different ends of their pages.
    const PLT_REACH: u64 = (1 << 32) - 0x1000;
    const GOT_SYMBOL_IN_GOT_PLT: bool = false;
    const SHF_LARGE: u64 = 0;
    const TOO_FAR_HELP: &'static str = "put the sections nearer to each other";
    const SEPARATE_CODE: bool = false;
    /// `STO_AARCH64_VARIANT_PCS`, `DT_AARCH64_VARIANT_PCS`.
    const VARIANT_CALLS: Option<(u8, i64)> = Some((0x80, 0x7000_0005));
    /// `DT_AARCH64_MEMTAG_*` and `SHT_AARCH64_MEMTAG_GLOBALS_*` (Memtag ABI Extension to ELF for the Arm
    /// 64-bit Architecture, "Dynamic Section", "Section Types").
    const MEMORY_TAGS: Option<MemoryTagging> = Some(MemoryTagging {
        mode: 0x7000_0009,
        heap: 0x7000_000b,
        stack: 0x7000_000c,
        globals: [0x7000_000d, 0x7000_000f],
        table: 0x7000_0008,
        marks: 0x7000_0007,
    });
    const TLS_REWRITES_ALL: bool = false;
    const UNDEFINED_WEAK_IS_PLACE: bool = true;
    const THUNKS: Option<ThunkSpec> = Some(thunks::SPEC);
    const CODE_MARK: Option<&'static [u8]> = Some(b"$x");
    const PURE_CODE: Option<&'static str> = Some("SHF_AARCH64_PURECODE");
    /// Zeros: `udf #0`.
    const CODE_FILL: &'static [&'static [u8]] = &[];
    const PLT: PltShape = plt::shape(false, false);
    const APPLY_DYNAMIC: bool = true;

    type Field = Field;
    type Family = Family;
    type Edit = Edit;

    #[inline]
    fn reloc_info(kind: u32) -> Option<&'static RelocInfo<Self>> {
        relocs::info(kind)
    }

    fn plt_shape(options: &PropertyOptions, features: u32) -> PltShape {
        plt::shape(options.force_bti || features & FEATURE_BTI != 0, options.pac_plt)
    }

    fn plt_tags(shape: &PltShape) -> &'static [i64] {
        const DT_AARCH64_BTI_PLT: i64 = 0x7000_0001;
        const DT_AARCH64_PAC_PLT: i64 = 0x7000_0003;
        match (shape.landing_pad, shape.authenticated) {
            (true, true) => &[DT_AARCH64_BTI_PLT, DT_AARCH64_PAC_PLT],
            (true, false) => &[DT_AARCH64_BTI_PLT],
            (false, true) => &[DT_AARCH64_PAC_PLT],
            (false, false) => &[],
        }
    }

    #[inline]
    fn write_field(field: Field, place: &mut [u8], value: i64) {
        relocs::write(field, place, value);
    }

    fn read_field(field: Field, place: &[u8]) -> i64 {
        relocs::read(field, place)
    }

    fn addend_field(field: Field) -> Field {
        relocs::addend_field(field)
    }

    #[inline]
    fn is_fixed(info: &RelocInfo<Self>) -> bool {
        info.family == Family::Fixed
    }

    #[inline]
    fn relax(info: &RelocInfo<Self>, site: &Site<'_>, mode: &Mode) -> Option<Relaxed<Edit>> {
        match info.family {
            Family::Fixed => None,
            family => relax::relax(family, site, mode),
        }
    }

    fn splits_loads(relocations: &[Rela<LittleEndian>]) -> bool {
        relax::splits_loads(relocations)
    }

    fn relocations_of_edit(_: &RelocInfo<Self>, edit: Edit, distance: i64) -> [Option<Rewritten>; 2] {
        relax::relocations_of_edit(edit, distance)
    }

    fn edit(edit: Edit, section: &mut [u8], offset: usize, value: i64, place: u64) -> Result<(), i64> {
        relax::edit(edit, section, offset, value, place)
    }

    fn edit_range(edit: Edit) -> (i64, i64) {
        relax::range(edit)
    }

    /// The TLS block follows the thread control block (variant I), at the segment's alignment.
    fn thread_pointer(start: u64, _: u64, align: u64) -> u64 {
        let head = start.wrapping_sub(THREAD_CONTROL_BLOCK);
        head.wrapping_sub(head & (align.max(1) - 1))
    }

    fn write_plt_header(out: &mut [u8], plt: u64, reserved: u64, shape: &PltShape) {
        plt::write_header(out, plt, reserved, shape);
    }

    fn write_plt_entry(out: &mut [u8], entry: PltEntry, shape: &PltShape) {
        plt::write_entry(out, entry, shape);
    }

    fn write_plt_direct(out: &mut [u8], entry: u64, slot: u64, shape: &PltShape) {
        plt::write_direct(out, entry, slot, shape);
    }

    fn plt_frames(part: PltPart, shape: &PltShape) -> &'static [PltFrame] {
        plt::frames(part, shape)
    }

    fn lazy_target(entry: PltEntry, _: &PltShape) -> u64 {
        entry.plt
    }

    #[inline]
    fn call(info: &RelocInfo<Self>) -> Option<Reach> {
        match (info.family, info.field) {
            (Family::Branch, _) => Some(Reach::Call),
            (_, Field::Word) if info.expr == RelocExpr::Plt => Some(Reach::Word),
            _ => None,
        }
    }

    fn is_branch(info: &RelocInfo<Self>, _: &[u8], _: usize) -> bool {
        info.family == Family::Branch
    }

    fn is_direct_branch(code: &[u8], offset: usize) -> bool {
        instructions::at(code, offset).is_some_and(instructions::is_direct_branch)
    }

    fn jump_at(code: &[u8], offset: usize) -> Option<usize> {
        instructions::jump_at(code, offset)
    }

    fn thunk_size(form: ThunkForm) -> u64 {
        thunks::size(form)
    }

    fn write_thunk(form: ThunkForm, out: &mut [u8], place: u64, target: u64) {
        thunks::write(form, out, place, target);
    }

    fn is_landing_pad(code: &[u8]) -> bool {
        thunks::is_landing_pad(code)
    }

    /// `$x` and `$d`, with or without a suffix that begins with a full stop.
    fn data_mark(name: &[u8]) -> Option<bool> {
        match name {
            [b'$', kind @ (b'x' | b'd')] | [b'$', kind @ (b'x' | b'd'), b'.', ..] => Some(*kind == b'd'),
            _ => None,
        }
    }

    fn avoids_erratum(options: &RelocationOptions) -> bool {
        options.fix_cortex_a53_843419
    }

    fn find_erratum_sequences(code: &[u8], address: u64, found: &mut Vec<u64>) {
        thunks::find_erratum_sequences(code, address, found);
    }

    fn replace_by_branch(section: &mut [u8], offset: usize, distance: i64) {
        thunks::replace_by_branch(section, offset, distance);
    }
}
