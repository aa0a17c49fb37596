//! The parameters of x86-64: its [`Target`].

use super::relax::Edit;
use super::relocs::{Family, Field};
use super::{X86_64, landing_pads, plt, relax, relocs, tail};
use crate::arch::machine::FEATURE_IBT;
use crate::arch::relocation::{Mode, Relaxed, RelocBase, RelocExpr, Rewritten, Site};
use crate::arch::target::{
    DynamicRelocations, LandingPad, PltEntry, PltFrame, PltPart, PltShape, PltTags, RelocInfo, Tail, Target,
    end_of_tls_block,
};
use crate::cli::{Machine, PropertyOptions};
use crate::elf::consts as elf;
use zerocopy::byteorder::LittleEndian;

impl X86_64 {
    /// The tables for indirect branch tracking.
    pub(super) const PLT_PROTECTED: PltShape =
        PltShape { direct_entry: 16, split: true, landing_pad: true, ..<X86_64 as Target>::PLT };
}

impl Target for X86_64 {
    type E = LittleEndian;
    const MACHINE: Machine = Machine::X86_64;
    const E_MACHINE: u16 = elf::EM_X86_64;
    const EI_DATA: u8 = elf::ELFDATA2LSB;
    const SFRAME_ABI: sframe_format::Abi = sframe_format::Abi::Amd64;
    const MAX_PAGE_SIZE: u64 = 0x1000;
    const COMMON_PAGE_SIZE: u64 = 0x1000;
    const IMAGE_BASE: u64 = 0x40_0000;
    const INTERPRETER: &'static str = "/lib64/ld-linux-x86-64.so.2";
    const OUTPUT_FORMAT: &'static str = "elf64-x86-64";
    const LIBRARY_DIRECTORIES: &'static [&'static str] = &[
        "=/usr/local/lib/x86_64-linux-gnu",
        "=/lib/x86_64-linux-gnu",
        "=/usr/lib/x86_64-linux-gnu",
        "=/usr/local/lib64",
        "=/lib64",
        "=/usr/lib64",
        "=/usr/local/lib",
        "=/lib",
        "=/usr/lib",
    ];
    const DYNAMIC: DynamicRelocations = DynamicRelocations {
        none: elf::R_X86_64_NONE,
        absolute: elf::R_X86_64_64,
        copy: elf::R_X86_64_COPY,
        glob_dat: elf::R_X86_64_GLOB_DAT,
        jump_slot: elf::R_X86_64_JUMP_SLOT,
        relative: elf::R_X86_64_RELATIVE,
        irelative: elf::R_X86_64_IRELATIVE,
        dtpmod: elf::R_X86_64_DTPMOD64,
        dtpoff: elf::R_X86_64_DTPOFF64,
        tpoff: elf::R_X86_64_TPOFF64,
        tlsdesc: elf::R_X86_64_TLSDESC,
        sizes: [elf::R_X86_64_SIZE32, elf::R_X86_64_SIZE64],
    };
    const GOT_PLT_RESERVED: u64 = 3;
    const PLT_REACH: u64 = 1 << 31;
    const GOT_SYMBOL_IN_GOT_PLT: bool = true;
    /// `SHF_X86_64_LARGE` (psABI 4.2.1).
    const SHF_LARGE: u64 = 0x1000_0000;
    const TOO_FAR_HELP: &'static str =
        "recompile with -mcmodel=medium or -mcmodel=large, or put the sections nearer to each other";
    const PLT_TAGS: Option<PltTags> = Some(PltTags {
        // DT_X86_64_PLT, DT_X86_64_PLTSZ, DT_X86_64_PLTENT
        numbers: [0x7000_0000, 0x7000_0001, 0x7000_0003],
        version: b"GLIBC_ABI_DT_X86_64_PLT",
        // endbr64
        jump_in_split_entry: 4,
    });
    const TLS_DESC_VERSION: Option<&'static [u8]> = Some(b"GLIBC_ABI_GNU2_TLS");
    const CODE_FILL: &'static [&'static [u8]] = &[
        &[0x90],
        &[0x66, 0x90],
        &[0x0f, 0x1f, 0x00],
        &[0x0f, 0x1f, 0x40, 0x00],
        &[0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
        &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
        &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
        &[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    ];
    const PLT: PltShape = PltShape {
        header: 16,
        entry: 16,
        direct_entry: 8,
        split: false,
        align: 16,
        landing_pad: false,
        authenticated: false,
    };
    const PLT_CIE: &'static [u8] = &plt::CIE;
    const APPLY_DYNAMIC: bool = true;

    type Field = Field;
    type Family = Family;
    type Edit = Edit;

    #[inline]
    fn reloc_info(kind: u32) -> Option<&'static RelocInfo<Self>> {
        relocs::info(kind)
    }

    #[inline]
    fn write_field(field: Field, place: &mut [u8], value: i64) {
        relocs::write(field, place, value);
    }

    fn read_field(field: Field, place: &[u8]) -> i64 {
        relocs::read(field, place)
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

    fn plt_shape(options: &PropertyOptions, features: u32) -> PltShape {
        if options.ibt || options.ibt_plt || features & FEATURE_IBT != 0 {
            Self::PLT_PROTECTED
        } else {
            Self::PLT
        }
    }

    fn is_branch(info: &RelocInfo<Self>, bytes: &[u8], offset: usize) -> bool {
        match info.expr {
            RelocExpr::Plt => true,
            RelocExpr::Symbol => info.base == RelocBase::Place && relax::is_direct_branch(bytes, offset),
            RelocExpr::GotSlot => info.base == RelocBase::Place && relax::is_indirect_branch(bytes, offset),
            _ => false,
        }
    }

    fn is_direct_branch(code: &[u8], offset: usize) -> bool {
        relax::is_direct_branch(code, offset)
    }

    const BRANCH_BIAS: i64 = 4;

    fn jump_at(code: &[u8], offset: usize) -> Option<usize> {
        relax::jump_at(code, offset)
    }

    fn tail(code: &[u8], operand: usize) -> Option<Tail> {
        tail::of(code, operand)
    }

    const LANDING_PAD: Option<LandingPad> = Some(landing_pads::LANDING_PAD);

    fn own_addresses(code: &[u8]) -> Vec<u64> {
        landing_pads::own_addresses(code)
    }

    fn relocations_of_edit(info: &RelocInfo<Self>, edit: Edit, _: i64) -> [Option<Rewritten>; 2] {
        let is_load = info.expr == RelocExpr::GotSlot;
        [is_load.then(|| relax::relocation_of_load(info.family, edit)).flatten(), None]
    }

    fn edit(edit: Edit, section: &mut [u8], offset: usize, value: i64, _: u64) -> Result<(), i64> {
        relax::edit(edit, section, offset, value)
    }

    fn thread_pointer(start: u64, size: u64, align: u64) -> u64 {
        end_of_tls_block(start, size, align)
    }

    fn write_plt_header(out: &mut [u8], plt: u64, got_plt: u64, _: &PltShape) {
        plt::write_header(out, plt, got_plt);
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

    fn lazy_plt_cfi(shape: &PltShape) -> &'static [u8] {
        plt::lazy_cfi(shape)
    }

    fn lazy_target(entry: PltEntry, shape: &PltShape) -> u64 {
        plt::lazy_target(entry, shape)
    }
}
