//! The part of the configuration that shapes the output file: layout, collection, symbol table,
//! relocations, properties, notes.

use super::balance::BalanceOptions;
use super::report::Report;
use std::path::PathBuf;

/// Addresses, segments, order of sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutOptions {
    /// `-z relro` (default).
    pub relro: bool,
    /// `-z separate-code` and the like. `None` is the machine's default.
    pub separate_code: Option<SeparateCode>,
    /// `--rosegment`: `Some(false)` puts read-only data and code into one segment.
    pub rosegment: Option<bool>,
    /// `-z keep-text-section-prefix`: the built-in scripts have output sections for `.text.hot` and the like.
    pub text_parts: bool,
    /// `-z max-page-size=`, a power of two; `None`: the machine's default.
    pub max_page_size: Option<u64>,
    /// `-z common-page-size=`, a power of two; `None`: the machine's default.
    pub common_page_size: Option<u64>,
    /// `-z execstack` or its opposite. `None` does what the inputs' `.note.GNU-stack` ask for.
    pub executable_stack: Option<bool>,
    /// `-z nognustack`: no `PT_GNU_STACK`.
    pub no_gnu_stack: bool,
    /// `-z stack-size=`: `p_memsz` of `PT_GNU_STACK`.
    pub stack_size: Option<u64>,
    /// `-z nosectionheader`: the output has no section headers.
    pub no_section_headers: bool,
    /// `-N`, `-n`.
    pub magic: Magic,
    /// `--image-base`, `-Ttext-segment`.
    pub image_base: Option<u64>,
    /// `-Trodata-segment`.
    pub rodata_segment: Option<u64>,
    /// `-Tldata-segment`.
    pub ldata_segment: Option<u64>,
    /// `--section-start`, `-Ttext`, `-Tdata`, `-Tbss` in order: output section and address. The last one for
    /// a section counts.
    pub section_starts: Vec<(Vec<u8>, u64)>,
    /// `--orphan-handling`.
    pub orphan_handling: OrphanHandling,
    /// `--unique`: which input sections get an output section of their own.
    pub unique: Unique,
    /// `--sort-section`: the order of what wildcards match, if they have no `SORT` of their own.
    pub sort_section: SortSection,
    /// `--sort-common`.
    pub sort_common: SortCommon,
    /// `-O`: 0 merges no strings and constants, 1 (default) merges equal ones, 2 also lets a string be the
    /// end of another.
    pub optimization: u8,
    /// `--check-sections` (default): overlapping sections are an error.
    pub check_sections: bool,
    /// `--force-group-allocation`: `-r` dissolves section groups.
    pub force_group_allocation: bool,
    /// `--shuffle-sections` in order; each starts from the order that the one before left.
    pub shuffles: Vec<Shuffle>,
    /// `-z nolrodata-after-bss`: the built-in scripts put `.lrodata` before the code.
    pub large_constants_first: bool,
    /// `--randomize-section-padding`: chooses sections that stand apart from the one before them.
    pub padding_seed: Option<u64>,
    /// `--split-by-file`: an output section of `-r` ends before the input section with which it would have
    /// this many bytes.
    pub split_by_file: Option<u64>,
    /// `--split-by-reloc`: the same for this many relocations.
    pub split_by_reloc: Option<u64>,
    /// `--enable-non-contiguous-regions`: a section that does not fit its region goes to the next statement
    /// that matches it.
    pub non_contiguous_regions: bool,
    /// `--enable-non-contiguous-regions-warnings`: each section that goes on so is reported.
    pub non_contiguous_regions_warnings: bool,
    /// `--spare-program-headers`: empty program headers at the end of the table.
    pub spare_program_headers: u32,
    /// `--execute-only`: segments of code cannot be read, and hold nothing else.
    pub execute_only: bool,
    /// `--xosegment`: code that is marked as pure has segments of its own, which cannot be read.
    pub xosegment: bool,
    /// `-z execute-only-report`: how to report code that is not marked as pure.
    pub execute_only_report: Report,
    /// `--zero-to-bss`: writable sections of zeros take no space in the file.
    pub zeros_as_bss: bool,
    /// `--call-graph-profile-sort` (default): functions are ordered by how often they call each other.
    pub call_graph_sort: bool,
    /// `--bp-startup-sort`, `--bp-compression-sort`, …: balanced partitioning orders sections.
    pub balance: BalanceOptions,
}

impl Default for LayoutOptions {
    fn default() -> Self {
        LayoutOptions {
            relro: true,
            separate_code: None,
            rosegment: None,
            text_parts: false,
            max_page_size: None,
            common_page_size: None,
            executable_stack: None,
            no_gnu_stack: false,
            stack_size: None,
            no_section_headers: false,
            magic: Magic::Paged,
            image_base: None,
            rodata_segment: None,
            ldata_segment: None,
            section_starts: Vec::new(),
            orphan_handling: OrphanHandling::Place,
            unique: Unique::default(),
            sort_section: SortSection::None,
            sort_common: SortCommon::None,
            optimization: 1,
            check_sections: true,
            force_group_allocation: false,
            shuffles: Vec::new(),
            large_constants_first: false,
            padding_seed: None,
            split_by_file: None,
            split_by_reloc: None,
            non_contiguous_regions: false,
            non_contiguous_regions_warnings: false,
            spare_program_headers: 0,
            execute_only: false,
            xosegment: false,
            execute_only_report: Report::Ignore,
            zeros_as_bss: false,
            call_graph_sort: true,
            balance: BalanceOptions::default(),
        }
    }
}

/// One `--shuffle-sections`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shuffle {
    /// Names of the input sections.
    pub pattern: Vec<u8>,
    /// Their order.
    pub order: ShuffleOrder,
}

/// The order that `--shuffle-sections` gives the sections that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShuffleOrder {
    /// Seed −1: the last one first.
    Reverse,
    /// The order that this seed gives, which is the same in every link. Seed 0 is a seed like any other.
    Seed(u64),
}

/// `-z separate-code` and the like: which pages code shares with data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeparateCode {
    /// `-z noseparate-code`: segments may share file pages.
    No,
    /// `-z separate-code`: code has pages of its own.
    Code,
    /// `-z separate-loadable-segments`: every loaded segment has pages of its own.
    AllSegments,
}

/// `-N` and `-n`: page alignment of segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Magic {
    /// Page-aligned segments.
    #[default]
    Paged,
    /// `-n`: segments are not aligned to pages, and only static libraries are searched for.
    NMagic,
    /// `-N`: like `-n`, and the code is writable.
    OMagic,
}

/// `--orphan-handling`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OrphanHandling {
    /// They are put where they fit.
    #[default]
    Place,
    /// They are left out.
    Discard,
    /// They are put where they fit, with a warning.
    Warn,
    /// They are an error.
    Error,
}

/// `--unique`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Unique {
    /// `--unique`: every orphan.
    pub orphans: bool,
    /// `--unique=PATTERN` in order: every input section whose name matches.
    pub patterns: Vec<Vec<u8>>,
}

/// `--sort-section`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SortSection {
    /// Input order.
    #[default]
    None,
    /// By name.
    Name,
    /// By alignment, largest first.
    Alignment,
}

/// `--sort-common`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SortCommon {
    /// Input order.
    #[default]
    None,
    /// By alignment, largest first.
    Descending,
    /// By alignment, smallest first.
    Ascending,
}

/// `--gc-sections`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GcOptions {
    /// `--gc-sections`.
    pub enabled: bool,
    /// `--print-gc-sections`: the file of the list; `-` is standard output.
    pub print: Option<PathBuf>,
    /// `--why-live` patterns in order: symbols whose path from a root is printed.
    pub why_live: Vec<Vec<u8>>,
    /// `--gc-keep-exported`: exported symbols are roots in executables too.
    pub keep_exported: bool,
    /// `-z start-stop-gc`: `__start_NAME` does not keep the sections `NAME` alive.
    pub start_stop: bool,
}

/// `--icf`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct IcfOptions {
    /// Which equal sections are folded.
    pub level: Icf,
    /// `--print-icf-sections`: the file of the list; `-` is standard output.
    pub print: Option<PathBuf>,
    /// `--keep-unique`: symbols whose sections are not folded.
    pub keep_unique: Vec<Vec<u8>>,
    /// `--ignore-data-address-equality`: with [`Icf::All`], data is folded even if its address may be
    /// compared, as functions are.
    pub ignore_data_addresses: bool,
}

impl IcfOptions {
    /// Whether anything is folded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.level != Icf::None
    }
}

/// `--icf=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Icf {
    /// Nothing is folded.
    #[default]
    None,
    /// Sections whose addresses nothing can compare.
    Safe,
    /// Functions, though a program may compare their addresses, and data as with [`Icf::Safe`].
    All,
}

/// Symbol table and debug information in the output.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct StripOptions {
    /// `-s`, `-S`.
    pub strip: Strip,
    /// `-x`, `-X`, `--discard-none`.
    pub discard: Discard,
    /// `--compress-debug-sections`.
    pub compress_debug: CompressMethod,
    /// `--compress-sections` in order. The last pattern that matches an output section's name counts,
    /// whatever `compress_debug` says.
    pub compress_sections: Vec<CompressSections>,
    /// `--separate-debug-file`: the file for debug sections. An empty path stands for the usual one
    /// ([`super::Config::debug_file`]).
    pub separate_debug: Option<PathBuf>,
    /// `--gdb-index`, and the version of its format.
    pub gdb_index: Option<GdbIndexVersion>,
    /// `--debug-names`.
    pub debug_names: bool,
    /// `-z dead-reloc-in-nonalloc=` in order: a pattern for sections, and the value that a relocation against
    /// a discarded section leaves there. The last pattern that matches counts.
    pub dead_relocations: Vec<(Vec<u8>, u64)>,
}

/// A version of the format of `.gdb_index`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GdbIndexVersion {
    /// Version 7, which every gdb since 2012 reads.
    #[default]
    Seven,
    /// Version 9, which also names the main function, for gdb 15 and later.
    Nine,
}

/// Symbols and sections that are stripped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Strip {
    /// Nothing.
    #[default]
    None,
    /// `-S`: debug sections.
    Debug,
    /// `-s`: debug sections and the symbol table.
    All,
}

/// `-x`, `-X`, `--discard-none`: which local symbols the symbol table leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Discard {
    /// Those with `.L` names in mergeable sections.
    #[default]
    SectionMerge,
    /// `--discard-none`: no symbol.
    None,
    /// `-X`: those with `.L` names.
    Locals,
    /// `-x`: all local symbols.
    All,
}

/// `--compress-debug-sections`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CompressDebug {
    /// Debug sections are not compressed.
    #[default]
    None,
    /// `SHF_COMPRESSED`, zlib.
    Zlib,
    /// `.zdebug_*` sections, zlib, as old GNU tools wrote them.
    ZlibGnu,
    /// `SHF_COMPRESSED`, zstd.
    Zstd,
}

/// A format, and how hard the compressor tries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompressMethod {
    /// The format.
    pub format: CompressDebug,
    /// 0 to 9 for zlib, 0 (the library's default) to 22 for zstd. `None` is the linker's default.
    pub level: Option<u8>,
}

/// One `--compress-sections`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressSections {
    /// Names of the output sections.
    pub pattern: Vec<u8>,
    /// How they are compressed; never in [`CompressDebug::ZlibGnu`].
    pub compression: CompressMethod,
}

/// Relocations in the output, and how code is edited for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelocationOptions {
    /// `-q`: relocations stay in the output of a final link.
    pub emit: bool,
    /// `--relax` (default): instruction sequences are made shorter or cheaper.
    pub relax: bool,
    /// `--branch-to-branch`: branches to branches go to where these lead.
    pub branch_to_branch: bool,
    /// `--optimize-bb-jumps`: jumps to what follows them are taken away.
    pub drop_jumps: bool,
    /// `-z text`, `-z notext`: severity of a dynamic relocation in a read-only section.
    pub text: TextRelocations,
    /// `-z combreloc` (default): dynamic relocations are sorted by kind.
    pub combine: bool,
    /// `-z copyreloc` (default): copy relocations are allowed.
    pub copy: bool,
    /// `-z pack-relative-relocs`, `--pack-dyn-relocs=relr`: `DT_RELR`.
    pub pack_relative: bool,
    /// `--pack-dyn-relocs=android`: `.rela.dyn` in Android's packed form.
    pub pack_android: bool,
    /// `--use-android-relr-tags`: RELR has the old numbers of Android's tags.
    pub android_relr_tags: bool,
    /// `-z report-relative-reloc`: every relative relocation is reported.
    pub report_relative: bool,
    /// `--apply-dynamic-relocs`: sections hold the values that dynamic relocations of type `RELA` will write.
    /// `None` is the machine's default.
    pub apply_dynamic: Option<bool>,
    /// `-z indirect-extern-access`: code reaches symbols of libraries only through the GOT, and the output
    /// says so in its properties. `Some(false)`: the output does not say so, though objects do.
    pub indirect_extern_access: Option<bool>,
    /// `-z noreloc-overflow`: relocations that overflow are not reported.
    pub ignore_overflow: bool,
    /// `-z call-nop=`: the byte that fills the place that a relaxed call leaves free.
    pub call_nop: CallNop,
    /// `-z rewrite-endbr`: functions that no indirect branch enters lose the instruction that lets one in.
    pub rewrite_landing_pads: bool,
    /// `--fix-cortex-a53-843419`.
    pub fix_cortex_a53_843419: bool,
    /// `--fix-cortex-a53-835769`.
    pub fix_cortex_a53_835769: bool,
    /// `--pic-veneer`: veneers are position independent.
    pub pic_veneer: bool,
}

impl Default for RelocationOptions {
    fn default() -> Self {
        RelocationOptions {
            emit: false,
            relax: true,
            branch_to_branch: false,
            drop_jumps: false,
            text: TextRelocations::Warn,
            combine: true,
            copy: true,
            pack_relative: false,
            pack_android: false,
            android_relr_tags: false,
            report_relative: false,
            apply_dynamic: None,
            indirect_extern_access: None,
            ignore_overflow: false,
            call_nop: CallNop::default(),
            rewrite_landing_pads: false,
            fix_cortex_a53_843419: false,
            fix_cortex_a53_835769: false,
            pic_veneer: false,
        }
    }
}

/// Dynamic relocations in read-only sections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TextRelocations {
    /// With neither option, they are allowed, with `DT_TEXTREL` and a warning.
    #[default]
    Warn,
    /// `-z text`: they are an error.
    Error,
    /// `-z notext`: they are allowed without a warning.
    Allow,
}

/// `-z call-nop=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallNop {
    /// Value of the fill byte.
    pub byte: u8,
    /// Whether it comes after the call and not before it.
    pub after: bool,
}

impl Default for CallNop {
    fn default() -> Self {
        CallNop { byte: 0x67, after: false }
    }
}

/// Control-flow and machine properties.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PropertyOptions {
    /// `-z ibt`, `-z force-ibt`: the output is marked for indirect branch tracking, and its PLTs support
    /// that.
    pub ibt: bool,
    /// `-z shstk`: the output is marked for shadow stacks.
    pub shstk: bool,
    /// `-z ibtplt`: PLT entries start with `endbr64`.
    pub ibt_plt: bool,
    /// `-z cet-report=`: how objects without IBT or SHSTK are reported.
    pub cet_report: Report,
    /// `-z lam-u48`: the output is marked for linear address masking of 48 bits, and of 57 bits.
    pub lam_u48: bool,
    /// `-z lam-u57`: the output is marked for linear address masking of 57 bits.
    pub lam_u57: bool,
    /// `-z lam-u48-report=`, `-z lam-report=`: how objects without that mark are reported.
    pub lam_u48_report: Report,
    /// `-z lam-u57-report=`, `-z lam-report=`: how objects without that mark are reported.
    pub lam_u57_report: Report,
    /// `-z x86-64-baseline` (1), `-z x86-64-v2` (2) to `v4` (4): the ISA level that the output is marked to
    /// need.
    pub x86_64_level: Option<u8>,
    /// `-z isa-level-report=`: which ISA levels of objects are printed.
    pub isa_levels: IsaLevels,
    /// `-z force-bti`: the output is marked for branch target identification, and its PLTs support that.
    pub force_bti: bool,
    /// `-z bti-report=`: how objects without BTI are reported.
    pub bti_report: Report,
    /// `-z pac-plt`: PLT entries authenticate pointers.
    pub pac_plt: bool,
    /// `-z gcs=`: guarded control stack.
    pub gcs: Gcs,
    /// `-z gcs-report=`, if it is given. [`Self::gcs_report`] has the default.
    pub gcs_report: Option<Report>,
    /// `-z gcs-report-dynamic=`, if it is given. [`Self::gcs_report_dynamic`] has the default.
    pub gcs_report_dynamic: Option<Report>,
    /// `-z pauth-report=`: how objects are reported that do not say for which ABI their pointers are signed,
    /// if another object does.
    pub pauth_report: Report,
    /// `-z memory-seal`: the output asks for sealed mappings.
    pub memory_seal: bool,
    /// `--s390-pgste`: the output has `PT_S390_PGSTE`.
    pub s390_pgste: bool,
}

impl PropertyOptions {
    /// How objects without GCS are reported: with `-z gcs=always`, by warnings unless an option says more.
    pub fn gcs_report(&self) -> Report {
        let forced = self.gcs == Gcs::Always;
        self.gcs_report.unwrap_or(if forced { Report::Warning } else { Report::Ignore })
    }

    /// How shared libraries without GCS are reported, for an output with GCS: by warnings if objects are
    /// reported, unless an option says more.
    pub fn gcs_report_dynamic(&self) -> Report {
        let objects = self.gcs_report() != Report::Ignore;
        self.gcs_report_dynamic.unwrap_or(if objects { Report::Warning } else { Report::Ignore })
    }
}

/// `-z isa-level-report=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IsaLevels {
    /// Those without which an object's code does not run.
    pub needed: bool,
    /// Those that some of its code may use.
    pub used: bool,
}

/// `-z gcs=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Gcs {
    /// The output is marked if all inputs are.
    #[default]
    Implicit,
    /// The output is never marked.
    Never,
    /// The output is always marked.
    Always,
}

/// Notes that the linker makes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NoteOptions {
    /// `--build-id`.
    pub build_id: BuildId,
    /// `--package-metadata`, percent-decoded: the text of `.note.package`.
    pub package_metadata: Option<Vec<u8>>,
    /// `-z memtag-…`, `--android-memtag-…`.
    pub memory_tags: MemoryTags,
}

/// How a program on AArch64 wants its memory tagged (MTE), for the dynamic linker and the C library. Without
/// a mode, the other fields mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MemoryTags {
    /// `-z memtag-mode`.
    pub mode: Option<MemoryTagMode>,
    /// `-z memtag-heap`: the heap is tagged.
    pub heap: bool,
    /// `-z memtag-stack`: code tags its stack, so that stacks must lie in memory that can be tagged.
    pub stack: bool,
    /// `--android-memtag-note`: a note says so, too, for programs without dynamic tags.
    pub note: bool,
}

/// When a program is told of an access by a wrong tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryTagMode {
    /// At the access.
    Synchronous,
    /// Some time later, which costs less.
    Asynchronous,
}

/// `--build-id`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum BuildId {
    /// No note.
    #[default]
    None,
    /// A fast hash of the output, in 8 bytes.
    Fast,
    /// MD5 of the output, in 16 bytes.
    Md5,
    /// SHA-1 of the output, in 20 bytes.
    Sha1,
    /// 32 bytes, as SHA-256 has.
    Sha256,
    /// 16 random bytes.
    Uuid,
    /// The given bytes.
    Hex(Vec<u8>),
}
