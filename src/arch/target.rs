//! The [`Target`] trait: constants, tables and functions of one machine.
//!
//! Passes are generic over it. They ask for a capability (does a call need a thunk? does the machine have TLS
//! descriptors?), never for a machine. So a new machine needs no change in any pass.

use super::relocation::{Mode, Relaxed, RelocBase, RelocExpr, Rewritten, Site};
use super::thunk::{Reach, ThunkForm, ThunkSpec};
use crate::cli::{Machine, PropertyOptions, RelocationOptions};
use crate::elf::Rela;
use sframe_format::Abi;
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
    /// Size of a symbol in 4 and in 8 bytes, where the machine has such relocations.
    pub sizes: [u32; 2],
}

/// The instruction that marks a place where indirect branches may land.
#[derive(Clone, Copy, Debug)]
pub struct LandingPad {
    /// Its bytes.
    pub mark: [u8; 4],
    /// An instruction that does nothing.
    pub nop: [u8; 4],
}

/// The branch without condition at the end of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    /// Its offset, in bytes.
    pub start: usize,
    /// The conditional branch right before it, with an operand of the same form.
    pub conditional: Option<ConditionalTail>,
}

/// A conditional branch before a [`Tail`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConditionalTail {
    /// The offset of its operand.
    pub operand: usize,
    /// The offset of the byte with the condition.
    pub condition: usize,
    /// That byte for the opposite condition.
    pub opposite: u8,
}

/// Dynamic tags and section types of memory tagging.
#[derive(Clone, Copy, Debug)]
pub struct MemoryTagging {
    /// The tag of the mode.
    pub mode: i64,
    /// The tag that says whether the heap is tagged.
    pub heap: i64,
    /// The tag that says whether stacks are.
    pub stack: i64,
    /// The tags of the address and the size of the table of tagged globals.
    pub globals: [i64; 2],
    /// The type of that table.
    pub table: u32,
    /// The type of the sections in objects whose relocations name tagged globals.
    pub marks: u32,
}

/// Numbers of the relocations by which the dynamic linker signs pointers, on machines where the processor
/// checks signatures (PAuth ABI Extension to ELF for the Arm 64-bit Architecture, "AUTH variant Dynamic
/// Relocations").
#[derive(Clone, Copy, Debug)]
pub struct SignedRelocations {
    /// Word-sized `S + A`.
    pub absolute: u32,
    /// Base address plus addend.
    pub relative: u32,
    /// GOT slot.
    pub glob_dat: u32,
    /// TLS descriptor pair.
    pub tlsdesc: u32,
    /// What a GOT slot with the address of a function holds before: how to sign it.
    pub function: u64,
    /// The same for all other addresses.
    pub data: u64,
    /// The type of the packed table of relative ones, ...
    pub packed_type: u32,
    /// ... and its tags in the dynamic section: address, size, and size of an entry.
    pub packed_tags: [i64; 3],
}

impl SignedRelocations {
    /// Whether a dynamic relocation is one of these.
    pub fn has(&self, kind: u32) -> bool {
        [self.absolute, self.relative, self.glob_dat, self.tlsdesc].contains(&kind)
    }
}

/// Sizes of the procedure linkage tables, in bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PltShape {
    /// First entry of a lazy `.plt`.
    pub header: u64,
    /// Each further entry.
    pub entry: u64,
    /// Entry of `.plt.got` (and of `.plt.sec`, where the machine has it).
    pub direct_entry: u64,
    /// Whether calls go to `.plt.sec`, and `.plt` holds only the lazy halves.
    pub split: bool,
    /// Alignment of the sections.
    pub align: u64,
    /// Whether entries begin with an instruction that indirect branches may go to.
    pub landing_pad: bool,
    /// Whether entries authenticate the address that they jump to.
    pub authenticated: bool,
}

impl PltShape {
    /// Offset of an entry in `.plt`, in bytes.
    #[inline]
    pub fn lazy_entry(&self, index: u32) -> u64 {
        self.header + u64::from(index) * self.entry
    }
}

/// How `-z mark-plt` describes the entries of the PLT that calls go to.
#[derive(Clone, Copy, Debug)]
pub struct PltTags {
    /// The dynamic tags for their address, size and entry size.
    pub numbers: [i64; 3],
    /// The symbol version of C libraries that know these tags.
    pub version: &'static [u8],
    /// Where the jump is in an entry of `.plt.sec`, in bytes. In an entry of `.plt`, it comes first.
    pub jump_in_split_entry: u64,
}

/// A part of the procedure linkage tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PltPart {
    /// The head of `.plt`. Entries that are not bound yet jump to it.
    Header,
    /// An entry of `.plt`.
    Lazy,
    /// An entry of `.plt.got` or `.plt.sec`.
    Direct,
}

/// The caller's frame as code of a PLT has left it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PltFrame {
    /// The frame holds from this byte of the part (entry or head) on.
    pub start: u8,
    /// Bytes that this code has pushed onto the stack since the caller's call instruction.
    pub pushed: u8,
    /// Place of the saved return address, in bytes from the CFA. `None`: it is where a call leaves it.
    pub return_address: Option<i32>,
}

/// The addresses that an entry of a lazy `.plt` is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PltEntry {
    /// Address of `.plt`.
    pub plt: u64,
    /// Address of this entry.
    pub entry: u64,
    /// Address of its word in `.got.plt`.
    pub slot: u64,
    /// Number of its relocation in `.rela.plt`.
    pub index: u32,
}

/// The thread pointer on machines where the program's TLS block ends at it ("ELF Handling For Thread-Local
/// Storage", variant II). The segment lies at `start` and has `size` bytes in memory. The thread pointer has
/// the segment's alignment even if the segment starts off its alignment, because dynamic linkers keep that
/// remainder.
pub fn end_of_tls_block(start: u64, size: u64, align: u64) -> u64 {
    let align = align.max(1);
    start.wrapping_add(size).wrapping_add(align - 1) / align * align
}

/// A machine, with its byte order. Zero-sized: the compiler makes one copy of the pipeline for each.
pub trait Target: Copy + Default + Send + Sync + std::fmt::Debug + 'static {
    /// Byte order of data.
    type E: ByteOrder + Send + Sync + 'static;
    /// The name of the machine on the command line.
    const MACHINE: Machine;
    /// `e_machine`.
    const E_MACHINE: u16;
    /// `EI_DATA`.
    const EI_DATA: u8;
    /// The ABI of SFrame blobs in its files.
    const SFRAME_ABI: Abi;
    /// Largest page size that the output must work with, in bytes (`-z max-page-size`).
    const MAX_PAGE_SIZE: u64;
    /// Usual page size, in bytes (`-z common-page-size`).
    const COMMON_PAGE_SIZE: u64;
    /// Whether the RELRO segment ends on a boundary of the largest page size. Where kernels with such pages
    /// are in use, they cannot protect less than one page.
    const RELRO_ENDS_ON_MAX_PAGE: bool = false;
    /// Base address of executables that are not position independent.
    const IMAGE_BASE: u64;
    /// Dynamic linker, for `PT_INTERP`.
    const INTERPRETER: &'static str;
    /// Target word of scripts (`OUTPUT_FORMAT`).
    const OUTPUT_FORMAT: &'static str;
    /// Directories in which `-l` searches last, after those of the command line.
    const LIBRARY_DIRECTORIES: &'static [&'static str];
    /// Dynamic relocation numbers.
    const DYNAMIC: DynamicRelocations;
    /// Dynamic relocations that sign pointers, where the machine has them.
    const SIGNED: Option<SignedRelocations> = None;
    /// Words at the head of `.got.plt` that belong to the dynamic linker.
    const GOT_PLT_RESERVED: u64;
    /// Words at the head of `.got` that the psABI reserves; the first holds the address of `.dynamic`. If
    /// [`Self::GOT_PLT_RESERVED`] is 0, these words belong to the dynamic linker.
    const GOT_RESERVED: u64 = 0;
    /// How far the code of a PLT reaches, forward and backward, to a word of the GOT, in bytes.
    const PLT_REACH: u64;
    /// Whether `_GLOBAL_OFFSET_TABLE_` is the start of `.got.plt` (else of `.got`).
    const GOT_SYMBOL_IN_GOT_PLT: bool;
    /// Section flag of the large code model, 0 if there is none.
    const SHF_LARGE: u64;
    /// Whether instructions that compute addresses count in halfwords, and so compute even addresses only.
    /// Then [`super::relocation::SymbolFacts::ODD`] is set for symbols that may be odd.
    const EVEN_TARGETS: bool = false;
    /// The help text for a distance that does not fit its field.
    const TOO_FAR_HELP: &'static str;
    /// Whether code has pages of its own unless an option says otherwise (`-z separate-code`).
    const SEPARATE_CODE: bool = true;
    /// Whether the linker must rewrite every general or local dynamic TLS sequence of an executable as a
    /// whole. Then an instruction that belongs to no such sequence is an error.
    const TLS_REWRITES_ALL: bool = true;
    /// Whether a distance from data to an undefined weak symbol counts from the place of the relocation
    /// (AAELF64, "Weak references").
    const UNDEFINED_WEAK_IS_PLACE: bool = false;
    /// What `-z mark-plt` says of the PLT.
    const PLT_TAGS: Option<PltTags> = None;
    /// The symbol version of C libraries whose TLS descriptors keep all registers but the result's, as code
    /// assumes.
    const TLS_DESC_VERSION: Option<&'static [u8]> = None;
    /// The numbers of memory tagging, if the machine has it.
    const MEMORY_TAGS: Option<MemoryTagging> = None;
    /// The bit of `st_other` that marks functions whose calling convention lazy binding would break, and the
    /// dynamic tag that announces calls of such functions.
    const VARIANT_CALLS: Option<(u8, i64)> = None;
    /// The reach of calls, if it is limited.
    const THUNKS: Option<ThunkSpec> = None;
    /// Name of the symbol that says where code begins, on machines that mark code.
    const CODE_MARK: Option<&'static [u8]> = None;
    /// The name of [`crate::arch::machine::SHF_PURE_CODE`], where the machine has that flag.
    const PURE_CODE: Option<&'static str> = None;
    /// Instructions that do nothing, for gaps between code; the n-th has n bytes. The linker repeats the
    /// longest and ends with one that fits the rest, as GNU ld does. Empty: it fills with zeros.
    const CODE_FILL: &'static [&'static [u8]];
    /// Shape of the procedure linkage tables of a plain link.
    const PLT: PltShape;
    /// The type of sections with build attributes, where the machine has them.
    const BUILD_ATTRIBUTES: Option<u32> = None;
    /// Attributes of `.gnu.attributes` that must agree: number, subject, and the name of each value. Two
    /// different values clash unless one of them is 0.
    const ABI_ATTRIBUTES: &'static [(u64, &'static str, &'static [&'static str])] = &[];
    /// The CIE of the FDEs for procedure linkage tables: a multiple of 8 bytes, with PC-relative pointers of
    /// 4 bytes. Empty on machines whose linkers write no such FDEs.
    const PLT_CIE: &'static [u8] = &[];
    /// Size of an entry of `.hash`, in bytes.
    const SYSV_HASH_ENTRY: u64 = 4;
    /// Whether the place of a `RELA` relative relocation also holds the address, unless
    /// `--[no-]apply-dynamic-relocs` says otherwise.
    const APPLY_DYNAMIC: bool;

    /// The place and scale of a relocated field's bits.
    type Field: Copy + Send + Sync + std::fmt::Debug + 'static;
    /// The rewritings that a relocation type permits.
    type Family: Copy + PartialEq + Send + Sync + std::fmt::Debug + 'static;
    /// One rewriting.
    type Edit: Copy + PartialEq + Send + Sync + std::fmt::Debug + 'static;

    /// The description of a relocation type that objects may contain. `None`: there is no such type.
    fn reloc_info(kind: u32) -> Option<&'static RelocInfo<Self>>;

    /// Name of any relocation type, dynamic ones included, for messages.
    fn relocation_name(kind: u32) -> String {
        match Self::reloc_info(kind) {
            Some(info) => info.name.to_owned(),
            None => format!("relocation type {kind}"),
        }
    }

    /// The shape of the procedure linkage tables of a link with these options. `features` are the bits of the
    /// machine's `GNU_PROPERTY_*_FEATURE_1_AND` that hold for the output.
    fn plt_shape(_options: &PropertyOptions, _features: u32) -> PltShape {
        Self::PLT
    }

    /// Dynamic tags that tell the dynamic linker what the entries of `.plt` do.
    fn plt_tags(_: &PltShape) -> &'static [i64] {
        &[]
    }

    /// Stores a value. `place` begins with the field; a place that is too short stays unchanged.
    fn write_field(field: Self::Field, place: &mut [u8], value: i64);

    /// Reads back what [`Target::write_field`] stored, sign-extended if the field is signed. 0 if the place
    /// is too short.
    fn read_field(field: Self::Field, place: &[u8]) -> i64;

    /// The field that holds the addend of an `SHT_REL` relocation, in the place that the relocation writes
    /// to.
    fn addend_field(field: Self::Field) -> Self::Field {
        field
    }

    /// Whether [`Target::relax`] never rewrites relocations of this type.
    fn is_fixed(info: &RelocInfo<Self>) -> bool;

    /// The new operands of the instruction at the site, if the linker may rewrite it. The result depends on
    /// nothing but the arguments: `scan_relocations` and `relocs::apply` ask independently and must get the
    /// same answer.
    fn relax(info: &RelocInfo<Self>, site: &Site<'_>, mode: &Mode) -> Option<Relaxed<Self::Edit>>;

    /// Whether the instruction at the site of a relocation for a PLT entry takes the entry's address instead
    /// of jumping to it. Such an entry is canonical.
    fn takes_address(_: &RelocInfo<Self>, _: &Site<'_>) -> bool {
        false
    }

    /// Rewrites the instruction around `offset` of a section's bytes. `offset` is that of the relocation, and
    /// `place` its address. `value` is `expr + addend - base`, with `expr` and `base` from [`Target::relax`]
    /// and the relocation's own addend.
    ///
    /// # Errors
    /// The value, if it does not fit.
    fn edit(edit: Self::Edit, section: &mut [u8], offset: usize, value: i64, place: u64) -> Result<(), i64>;

    /// Whether a section with these relocations keeps the two instructions of some load from the GOT apart.
    /// Control flow might then lead from the first half of one load to the second half of another, so the
    /// linker relaxes no load of the section.
    fn splits_loads(_: &[Rela<Self::E>]) -> bool {
        false
    }

    /// What `--emit-relocs` writes for a relocation whose instructions an edit has rewritten, and for the
    /// next one, if that belongs to the same instructions. `distance` is that of `S + A` from the place.
    /// `None`: the relocation stays as it is. Those of TLS models do, as in GNU ld: they tell readers which
    /// model the code had.
    fn relocations_of_edit(_: &RelocInfo<Self>, _: Self::Edit, _distance: i64) -> [Option<Rewritten>; 2] {
        [None; 2]
    }

    /// Smallest and largest value that fits an edited instruction, for messages.
    fn edit_range(_: Self::Edit) -> (i64, i64) {
        (i32::MIN.into(), i32::MAX.into())
    }

    /// The value of the thread pointer, for a TLS segment at `start` with `size` bytes in memory and
    /// alignment `align`.
    fn thread_pointer(start: u64, size: u64, align: u64) -> u64;

    /// Writes the head of a lazy `.plt` at address `plt`. `reserved` is the address of the dynamic linker's
    /// words, in `.got.plt` or `.got`.
    fn write_plt_header(out: &mut [u8], plt: u64, reserved: u64, shape: &PltShape);

    /// Writes an entry of `.plt`.
    fn write_plt_entry(out: &mut [u8], entry: PltEntry, shape: &PltShape);

    /// Writes an entry of `.plt.got` or `.plt.sec` at address `entry`: a jump to the address that
    /// `slot` holds.
    fn write_plt_direct(out: &mut [u8], entry: u64, slot: u64, shape: &PltShape);

    /// The caller's frame in the code of a PLT, by ascending start. The first row starts at 0. The default is
    /// right for all code that leaves the stack and the return address alone.
    fn plt_frames(_part: PltPart, _shape: &PltShape) -> &'static [PltFrame] {
        const UNTOUCHED: &[PltFrame] = &[PltFrame { start: 0, pushed: 0, return_address: None }];
        UNTOUCHED
    }

    /// Call frame instructions for `.plt`, its head and all entries.
    fn lazy_plt_cfi(_shape: &PltShape) -> &'static [u8] {
        &[]
    }

    /// What a word of `.got.plt` holds until the dynamic linker binds it: the address of the entry's lazy
    /// half.
    fn lazy_target(entry: PltEntry, shape: &PltShape) -> u64;

    /// How far a relocation reaches, if it leads to a function and may lead to a thunk instead.
    #[inline]
    fn call(_: &RelocInfo<Self>) -> Option<Reach> {
        None
    }

    /// Whether the relocation at this offset belongs to a call or jump. Such a use of a symbol compares no
    /// address. An instruction that this function does not recognise counts as one that may.
    fn is_branch(info: &RelocInfo<Self>, bytes: &[u8], offset: usize) -> bool;

    /// Whether the operand at this offset belongs to a call or jump to one place. It may say no, where the
    /// bytes do not tell.
    fn is_direct_branch(_code: &[u8], _offset: usize) -> bool {
        false
    }

    /// Added to a branch's addend, it makes the distance from the symbol to the place where the branch leads.
    /// The operand of a branch may count from its end.
    const BRANCH_BIAS: i64 = 0;

    /// The offset of the relocation of the branch without condition that this code has at an offset. An
    /// instruction in front of it that only marks a landing pad does not count. `None`: there is no such
    /// branch, or the machine does not know.
    fn jump_at(_code: &[u8], _offset: usize) -> Option<usize> {
        None
    }

    /// The branch without condition that has this operand, if nothing but padding follows it in the code.
    /// `None`: the code is other code, or the machine does not know.
    fn tail(_code: &[u8], _operand: usize) -> Option<Tail> {
        None
    }

    /// The instruction where indirect branches must land, where the linker can take it away.
    const LANDING_PAD: Option<LandingPad> = None;

    /// Offsets in this code whose addresses its instructions load by distances that need no relocation.
    fn own_addresses(_code: &[u8]) -> Vec<u64> {
        Vec::new()
    }

    /// Size of a thunk in bytes.
    fn thunk_size(_: ThunkForm) -> u64 {
        0
    }

    /// Writes a thunk at address `place` that jumps to `target`. For a moved instruction, `target` is the way
    /// back, and the instruction is already in `out`.
    fn write_thunk(_: ThunkForm, _out: &mut [u8], _place: u64, _target: u64) {}

    /// Whether indirect jumps may land on the first instruction of this code, on machines that check it.
    fn is_landing_pad(_code: &[u8]) -> bool {
        true
    }

    /// Whether a local symbol of this name marks data (`true`) or code (`false`). `None`: it marks neither.
    fn data_mark(_name: &[u8]) -> Option<bool> {
        None
    }

    /// Whether the linker moves instructions that a processor gets wrong at certain addresses.
    fn avoids_erratum(_: &RelocationOptions) -> bool {
        false
    }

    /// Appends the offsets of such instructions in code at `address` to `found`.
    fn find_erratum_sequences(_code: &[u8], _address: u64, _found: &mut Vec<u64>) {}

    /// Replaces such an instruction, after relocation, by a branch that goes `distance` bytes ahead.
    fn replace_by_branch(_section: &mut [u8], _offset: usize, _distance: i64) {}
}

/// A relocation type.
#[derive(Clone, Copy, Debug)]
pub struct RelocInfo<T: Target> {
    /// Name in the psABI.
    pub name: &'static str,
    /// First operand.
    pub expr: RelocExpr,
    /// The operand that is subtracted.
    pub base: RelocBase,
    /// Bytes from `r_offset` on that the field covers.
    pub size: u8,
    /// Smallest value that fits.
    pub min: i64,
    /// Largest value that fits.
    pub max: i64,
    /// The value must be a multiple of this.
    pub multiple: u8,
    /// Place and scale of the bits.
    pub field: T::Field,
    /// The rewritings of the instruction that may apply.
    pub family: T::Family,
}

impl<T: Target> RelocInfo<T> {
    /// Whether a value fits the field.
    #[inline]
    pub fn holds(&self, value: i64) -> bool {
        value >= self.min && value <= self.max && value as u64 & (u64::from(self.multiple) - 1) == 0
    }
}
