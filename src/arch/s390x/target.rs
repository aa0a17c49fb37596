//! The parameters of s390x: its [`Target`].

use super::relax::Edit;
use super::relocs::{Family, Field};
use super::{S390x, plt, relax, relocs};
use crate::arch::relocation::{Mode, Relaxed, RelocBase, RelocExpr, Rewritten, Site};
use crate::arch::target::{DynamicRelocations, PltEntry, PltShape, RelocInfo, Target, end_of_tls_block};
use crate::cli::Machine;
use crate::elf::consts as elf;
use zerocopy::byteorder::BigEndian;

impl Target for S390x {
    type E = BigEndian;
    const MACHINE: Machine = Machine::S390x;
    const E_MACHINE: u16 = elf::EM_S390;
    const EI_DATA: u8 = elf::ELFDATA2MSB;
    const SFRAME_ABI: sframe_format::Abi = sframe_format::Abi::S390x;
    const MAX_PAGE_SIZE: u64 = 0x1000;
    const COMMON_PAGE_SIZE: u64 = 0x1000;
    const IMAGE_BASE: u64 = 0x100_0000;
    const INTERPRETER: &'static str = "/lib/ld64.so.1";
    const OUTPUT_FORMAT: &'static str = "elf64-s390";
    const LIBRARY_DIRECTORIES: &'static [&'static str] = &[
        "=/usr/local/lib/s390x-linux-gnu",
        "=/lib/s390x-linux-gnu",
        "=/usr/lib/s390x-linux-gnu",
        "=/usr/local/lib64",
        "=/lib64",
        "=/usr/lib64",
        "=/usr/local/lib",
        "=/lib",
        "=/usr/lib",
    ];
    const DYNAMIC: DynamicRelocations = DynamicRelocations {
        none: elf::R_390_NONE,
        absolute: elf::R_390_64,
        copy: elf::R_390_COPY,
        glob_dat: elf::R_390_GLOB_DAT,
        jump_slot: elf::R_390_JMP_SLOT,
        relative: elf::R_390_RELATIVE,
        irelative: elf::R_390_IRELATIVE,
        dtpmod: elf::R_390_TLS_DTPMOD,
        dtpoff: elf::R_390_TLS_DTPOFF,
        tpoff: elf::R_390_TLS_TPOFF,
        // The machine has no descriptors.
        tlsdesc: elf::R_390_NONE,
        sizes: [elf::R_390_NONE; 2],
    };
    const GOT_PLT_RESERVED: u64 = 0;
    const GOT_RESERVED: u64 = 3;
    const PLT_REACH: u64 = 1 << 32;
    const GOT_SYMBOL_IN_GOT_PLT: bool = false;
    const SHF_LARGE: u64 = 0;
    const EVEN_TARGETS: bool = true;
    const TOO_FAR_HELP: &'static str = "put the sections nearer to each other";
    const SEPARATE_CODE: bool = false;
    /// `nopr %r7`.
    const CODE_FILL: &'static [&'static [u8]] = &[&[0x07]];
    const PLT: PltShape = PltShape {
        header: 32,
        entry: 32,
        direct_entry: 16,
        split: false,
        align: 4,
        landing_pad: false,
        authenticated: false,
    };
    /// `Tag_GNU_S390_ABI_Vector`: how vectors are passed.
    const ABI_ATTRIBUTES: &'static [(u64, &'static str, &'static [&'static str])] =
        &[(8, "vector ABI", &["none", "software", "hardware"])];
    /// The ABI supplement: "The hash table entries are 64 bits".
    const SYSV_HASH_ENTRY: u64 = 8;
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

    #[inline]
    fn takes_address(info: &RelocInfo<Self>, site: &Site<'_>) -> bool {
        info.family == Family::Call && relax::is_address_load(site)
    }

    fn is_branch(info: &RelocInfo<Self>, bytes: &[u8], offset: usize) -> bool {
        matches!(info.expr, RelocExpr::Symbol | RelocExpr::Plt)
            && info.base == RelocBase::Place
            && relax::is_branch(bytes, offset)
    }

    fn relocations_of_edit(info: &RelocInfo<Self>, edit: Edit, _: i64) -> [Option<Rewritten>; 2] {
        let is_load = info.expr == RelocExpr::GotSlot && matches!(edit, Edit::Distance(_));
        [is_load.then(|| Rewritten::of(elf::R_390_PC32DBL)), None]
    }

    fn edit(edit: Edit, section: &mut [u8], offset: usize, value: i64, _: u64) -> Result<(), i64> {
        relax::edit(edit, section, offset, value)
    }

    fn edit_range(edit: Edit) -> (i64, i64) {
        relax::range(edit)
    }

    fn thread_pointer(start: u64, size: u64, align: u64) -> u64 {
        end_of_tls_block(start, size, align)
    }

    fn write_plt_header(out: &mut [u8], plt: u64, reserved: u64, _: &PltShape) {
        plt::write_header(out, plt, reserved);
    }

    fn write_plt_entry(out: &mut [u8], entry: PltEntry, _: &PltShape) {
        plt::write_entry(out, entry);
    }

    fn write_plt_direct(out: &mut [u8], entry: u64, slot: u64, _: &PltShape) {
        plt::write_direct(out, entry, slot);
    }

    fn lazy_target(entry: PltEntry, _: &PltShape) -> u64 {
        entry.entry.wrapping_add(plt::LAZY_HALF)
    }
}
