//! The parameters of a machine.

use crate::cli::Machine;
use zerocopy::byteorder::ByteOrder;

/// Numbers of the relocations that the dynamic linker carries out (psABI, "Relocation Types").
#[derive(Clone, Copy, Debug)]
pub struct DynamicRelocations {
    /// Nothing.
    pub none: u32,
    /// Word-sized `S + A`.
    pub absolute: u32,
    /// Copy of a library's data.
    pub copy: u32,
    /// GOT slot.
    pub glob_dat: u32,
    /// PLT slot.
    pub jump_slot: u32,
    /// Base address plus addend.
    pub relative: u32,
    /// Result of a resolver function.
    pub irelative: u32,
    /// Module number of a TLS symbol.
    pub dtpmod: u32,
    /// Offset of a TLS symbol in its module's block.
    pub dtpoff: u32,
    /// Offset of a TLS symbol from the thread pointer.
    pub tpoff: u32,
    /// TLS descriptor pair.
    pub tlsdesc: u32,
}

/// Sizes of the procedure linkage tables, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct PltShape {
    /// First entry of a lazy `.plt`.
    pub header: u64,
    /// Each further entry.
    pub entry: u64,
    /// Entry of `.plt.got` (and of `.plt.sec`, where the machine has it).
    pub direct_entry: u64,
}

/// A machine, with its byte order. Zero-sized: the pipeline is compiled once for each.
pub trait Target: Copy + Default + Send + Sync + std::fmt::Debug + 'static {
    /// Byte order of data.
    type E: ByteOrder + Send + Sync + 'static;
    /// The machine as the command line names it.
    const MACHINE: Machine;
    /// `e_machine`.
    const E_MACHINE: u16;
    /// `EI_DATA`.
    const EI_DATA: u8;
    /// Largest page size that the output must work with, in bytes (`-z max-page-size`).
    const MAX_PAGE_SIZE: u64;
    /// Usual page size, in bytes (`-z common-page-size`).
    const COMMON_PAGE_SIZE: u64;
    /// Base address of executables that are not position independent.
    const IMAGE_BASE: u64;
    /// Dynamic linker, for `PT_INTERP`.
    const INTERPRETER: &'static str;
    /// Target word of scripts (`OUTPUT_FORMAT`).
    const OUTPUT_FORMAT: &'static str;
    /// Directories that `-l` searches after those of the command line.
    const LIBRARY_DIRECTORIES: &'static [&'static str];
    /// Dynamic relocation numbers.
    const DYNAMIC: DynamicRelocations;
    /// Words at the head of `.got.plt` that belong to the dynamic linker.
    const GOT_PLT_RESERVED: u64;
    /// Whether `_GLOBAL_OFFSET_TABLE_` is the start of `.got.plt` (else of `.got`).
    const GOT_SYMBOL_IN_GOT_PLT: bool;
    /// Section flag of the large code model, 0 if there is none.
    const SHF_LARGE: u64;
    /// Fill of gaps between code.
    const CODE_FILL: &'static [u8];
}
