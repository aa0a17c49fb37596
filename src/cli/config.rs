//! What the command line says, resolved.
//!
//! [`Config`] is made once by [`super::parse`] and never changes afterwards. It holds no parsing
//! state: options that override each other are already settled, defaults that depend on the kind
//! of output are filled in, and paths under the sysroot are spelled out. What depends on the
//! machine stays an `Option` (`None`: the machine's default), because without `-m` the machine is
//! known only after the first object was read.
//!
//! Symbol and section names and patterns are bytes, paths are [`PathBuf`]s, sizes and addresses
//! are `u64` bytes. [`Config::default`] is the configuration of an empty command line.

use crate::diag::Policy;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Everything the command line decides except the list of inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Name of the program, for messages.
    pub program: String,
    /// Text to print on standard output before linking (`-v`, `-V` with inputs).
    pub banner: Option<String>,
    /// The machine that `-m` names; `None`: that of the first ELF input.
    pub machine: Option<Machine>,
    /// What is made.
    pub mode: OutputMode,
    /// `-static`: no dynamic section is wanted and no shared library is taken. Not set by
    /// `-Bstatic`, which only steers the search for the libraries that follow it.
    pub static_link: bool,
    /// `-o`, default `a.out`.
    pub output: PathBuf,
    /// `--oformat`.
    pub output_format: OutputFormat,
    /// Where inputs are looked for.
    pub search: SearchOptions,
    /// Linker scripts and their kin.
    pub scripts: ScriptOptions,
    /// Definitions, references, exports.
    pub symbols: SymbolOptions,
    /// What to do about references that nothing defines.
    pub undefined: UndefinedOptions,
    /// The dynamic section and what the dynamic linker reads.
    pub dynamic: DynamicOptions,
    /// Addresses, segments, order of sections.
    pub layout: LayoutOptions,
    /// `--gc-sections` and folding.
    pub gc: GcOptions,
    /// Symbol table and debug information in the output.
    pub strip: StripOptions,
    /// Relocations in the output and how code is edited.
    pub relocations: RelocationOptions,
    /// Control-flow and machine properties.
    pub properties: PropertyOptions,
    /// Notes that the linker makes.
    pub notes: NoteOptions,
    /// SFrame sections.
    pub sframe: SFrameOptions,
    /// Which conditions are reported, and how.
    pub diagnostics: DiagnosticOptions,
    /// Files and texts that tell about the link.
    pub reports: ReportOptions,
    /// Number of threads; `None`: as many as the machine has.
    pub threads: Option<NonZeroUsize>,
}

impl Config {
    /// Whether the output is a relocatable object.
    pub fn is_relocatable(&self) -> bool {
        self.mode == OutputMode::Relocatable
    }

    /// Whether the output is a shared library.
    pub fn is_shared(&self) -> bool {
        self.mode == OutputMode::Shared
    }

    /// Whether the output runs at any address (PIE or shared library).
    pub fn is_position_independent(&self) -> bool {
        matches!(self.mode, OutputMode::Shared | OutputMode::Executable { pie: true })
    }
}

/// The machines that sframe-ld links for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Machine {
    /// `elf_x86_64`.
    X86_64,
    /// `aarch64linux`, `aarch64elf`.
    AArch64,
    /// `elf64_s390`.
    S390x,
}

/// The kind of output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputMode {
    /// A program.
    Executable {
        /// `-pie`: loaded at any address.
        pie: bool,
    },
    /// `-shared`: a shared library.
    Shared,
    /// `-r`: an object for a later link.
    Relocatable,
}

impl Default for OutputMode {
    fn default() -> Self {
        OutputMode::Executable { pie: false }
    }
}

/// `--oformat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OutputFormat {
    /// ELF, of the machine that is linked for.
    #[default]
    Elf,
    /// `binary`: the loaded bytes and nothing else.
    Binary,
}

/// Where inputs are looked for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SearchOptions {
    /// `-L` directories in order, sysroot prefixes (`=`, `$SYSROOT`) already spelled out.
    pub directories: Vec<PathBuf>,
    /// `-nostdlib`: the machine's own directories are not searched after [`Self::directories`].
    pub no_default_directories: bool,
    /// `--sysroot`; `None` when not given, empty or `/`.
    pub sysroot: Option<PathBuf>,
    /// `-rpath-link` directories in order: where libraries that libraries need are found.
    pub rpath_link: Vec<PathBuf>,
    /// `--remap-inputs` and the lines of `--remap-inputs-file`, in order: pattern and replacement
    /// (`None`: the input is left out). The first pattern that matches a name decides.
    pub remap: Vec<(Vec<u8>, Option<PathBuf>)>,
}

/// Linker scripts and their kin.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ScriptOptions {
    /// `-T` scripts in order; they replace the built-in one.
    pub scripts: Vec<PathBuf>,
    /// `-dT`: stands in for the built-in script where no `-T` is given.
    pub default_script: Option<PathBuf>,
    /// `--version-script` files in order.
    pub version_scripts: Vec<PathBuf>,
    /// `--dynamic-list` files in order.
    pub dynamic_lists: Vec<PathBuf>,
    /// `--export-dynamic-symbol-list` files in order.
    pub export_lists: Vec<PathBuf>,
    /// `--retain-symbols-file`.
    pub retain_symbols: Option<PathBuf>,
    /// `--section-ordering-file`.
    pub section_ordering: Option<PathBuf>,
    /// `--symbol-ordering-file`.
    pub symbol_ordering: Option<PathBuf>,
}

/// Definitions, references, exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolOptions {
    /// `-e`: a symbol's name or a number; `None`: the script's `ENTRY` or the default.
    pub entry: Option<Vec<u8>>,
    /// `-init`, default `_init`: the symbol of `DT_INIT`.
    pub init: Vec<u8>,
    /// `-fini`, default `_fini`: the symbol of `DT_FINI`.
    pub fini: Vec<u8>,
    /// `-u` in order: referenced from outside, so archives are searched for them and they are kept.
    pub undefined: Vec<Vec<u8>>,
    /// `--undefined-glob` patterns in order.
    pub undefined_globs: Vec<Vec<u8>>,
    /// `--require-defined` in order: like [`Self::undefined`], and an error where nothing defines
    /// them. They are not repeated in `undefined`.
    pub require_defined: Vec<Vec<u8>>,
    /// `--defsym` in order.
    pub defsyms: Vec<DefSym>,
    /// `--wrap` in order, without repetition.
    pub wrap: Vec<Vec<u8>>,
    /// `-E`: every global symbol of an executable is exported.
    pub export_dynamic: bool,
    /// `--export-dynamic-symbol` patterns in order.
    pub export_symbols: Vec<Vec<u8>>,
    /// `--dynamic-list-data`: exports data symbols.
    pub dynamic_list_data: bool,
    /// `--dynamic-list-cpp-new`: exports `operator new` and `delete`.
    pub dynamic_list_cpp_new: bool,
    /// `--dynamic-list-cpp-typeinfo`: exports type information.
    pub dynamic_list_cpp_typeinfo: bool,
    /// `--exclude-libs` names in order, `ALL` for every archive.
    pub exclude_libs: Vec<Vec<u8>>,
    /// `-Bsymbolic` and its variants.
    pub symbolic: Symbolic,
    /// `--allow-multiple-definition`, `-z muldefs`: the first definition wins in silence.
    pub allow_multiple_definition: bool,
    /// `--undefined-version` (default): a version script may name symbols that do not exist.
    pub allow_undefined_version: bool,
    /// `--default-symver`: symbols without a version get the soname (or output name) as version.
    pub default_symver: bool,
    /// `-d`: commons are allocated even under `-r`.
    pub define_common: bool,
    /// `--gnu-unique` (default): `STB_GNU_UNIQUE` stays; `false`: it becomes `STB_GLOBAL`.
    pub gnu_unique: bool,
    /// `-z unique-symbol`: local symbols in the output get names of their own.
    pub unique_local_names: bool,
    /// `-z start-stop-visibility=`: visibility of `__start_NAME` and `__stop_NAME`.
    pub start_stop_visibility: Visibility,
}

impl Default for SymbolOptions {
    fn default() -> Self {
        SymbolOptions {
            entry: None,
            init: b"_init".to_vec(),
            fini: b"_fini".to_vec(),
            undefined: Vec::new(),
            undefined_globs: Vec::new(),
            require_defined: Vec::new(),
            defsyms: Vec::new(),
            wrap: Vec::new(),
            export_dynamic: false,
            export_symbols: Vec::new(),
            dynamic_list_data: false,
            dynamic_list_cpp_new: false,
            dynamic_list_cpp_typeinfo: false,
            exclude_libs: Vec::new(),
            symbolic: Symbolic::No,
            allow_multiple_definition: false,
            allow_undefined_version: true,
            default_symver: false,
            define_common: false,
            gnu_unique: true,
            unique_local_names: false,
            start_stop_visibility: Visibility::Protected,
        }
    }
}

/// `--defsym=SYMBOL=EXPRESSION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefSym {
    /// The symbol that is defined.
    pub name: Vec<u8>,
    /// A linker-script expression, not yet parsed.
    pub expression: String,
}

/// ELF symbol visibility.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visibility {
    /// `STV_DEFAULT`.
    Default,
    /// `STV_INTERNAL`.
    Internal,
    /// `STV_HIDDEN`.
    Hidden,
    /// `STV_PROTECTED`.
    Protected,
}

/// Which references a shared library binds to its own definitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Symbolic {
    /// None.
    #[default]
    No,
    /// `-Bsymbolic`: all.
    All,
    /// `-Bsymbolic-functions`: functions.
    Functions,
    /// `-Bsymbolic-non-weak`: all but weak ones.
    NonWeak,
    /// `-Bsymbolic-non-weak-functions`: functions that are not weak.
    NonWeakFunctions,
}

/// How a condition is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Report {
    /// Not at all.
    #[default]
    Ignore,
    /// As a warning.
    Warning,
    /// As an error.
    Error,
}

/// What to do about references that nothing defines. Settled from `--unresolved-symbols`,
/// `--no-undefined`, `-z defs`, `-z undefs`, `--allow-shlib-undefined`,
/// `--warn-unresolved-symbols` and the kind of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndefinedOptions {
    /// References from objects.
    pub in_objects: Report,
    /// References from shared libraries.
    pub in_shared_libraries: Report,
    /// `--ignore-unresolved-symbol` in order: never reported.
    pub ignored: Vec<Vec<u8>>,
    /// `-z dynamic-undefined-weak` or its opposite; `None`: as the kind of output has it.
    pub dynamic_undefined_weak: Option<bool>,
}

impl Default for UndefinedOptions {
    fn default() -> Self {
        UndefinedOptions {
            in_objects: Report::Error,
            in_shared_libraries: Report::Error,
            ignored: Vec::new(),
            dynamic_undefined_weak: None,
        }
    }
}

/// The dynamic section and what the dynamic linker reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicOptions {
    /// Path for `PT_INTERP`; `None`: the machine's default.
    pub dynamic_linker: Option<PathBuf>,
    /// `--no-dynamic-linker`: no `PT_INTERP`; with `-pie`, a static PIE.
    pub no_dynamic_linker: bool,
    /// `-soname`.
    pub soname: Option<Vec<u8>>,
    /// `-rpath` directories in order, without repetition; joined by `:` in the output.
    pub rpath: Vec<Vec<u8>>,
    /// `--enable-new-dtags` (default): `DT_RUNPATH` instead of `DT_RPATH`.
    pub new_dtags: bool,
    /// `-f`, `--auxiliary`: `DT_AUXILIARY` values in order.
    pub auxiliary: Vec<Vec<u8>>,
    /// `-F`, `--filter`: `DT_FILTER` values in order.
    pub filter: Vec<Vec<u8>>,
    /// `--audit`: `DT_AUDIT`, joined by `:` in the output.
    pub audit: Vec<Vec<u8>>,
    /// `-P`, `--depaudit`: `DT_DEPAUDIT`, joined by `:` in the output.
    pub depaudit: Vec<Vec<u8>>,
    /// `--spare-dynamic-tags`: empty entries at the end of `.dynamic`.
    pub spare_tags: u32,
    /// `--hash-style`.
    pub hash_style: HashStyle,
    /// `--eh-frame-hdr`.
    pub eh_frame_hdr: bool,
    /// `-z now`: `DF_BIND_NOW`, `DF_1_NOW`, no lazy PLT.
    pub bind_now: bool,
    /// `-z origin`.
    pub origin: bool,
    /// `-z nodelete`.
    pub nodelete: bool,
    /// `-z nodlopen`.
    pub nodlopen: bool,
    /// `-z nodump`.
    pub nodump: bool,
    /// `-z nodefaultlib`.
    pub nodefaultlib: bool,
    /// `-z initfirst`.
    pub initfirst: bool,
    /// `-z interpose`.
    pub interpose: bool,
    /// `-z global`.
    pub global: bool,
    /// `-z loadfltr`.
    pub loadfltr: bool,
    /// `-z rodynamic`: `.dynamic` is not writable.
    pub read_only_dynamic: bool,
    /// `-z mark-plt`: `DT_X86_64_PLT` and its kin.
    pub mark_plt: bool,
}

impl Default for DynamicOptions {
    fn default() -> Self {
        DynamicOptions {
            dynamic_linker: None,
            no_dynamic_linker: false,
            soname: None,
            rpath: Vec::new(),
            new_dtags: true,
            auxiliary: Vec::new(),
            filter: Vec::new(),
            audit: Vec::new(),
            depaudit: Vec::new(),
            spare_tags: 5,
            hash_style: HashStyle::default(),
            eh_frame_hdr: false,
            bind_now: false,
            origin: false,
            nodelete: false,
            nodlopen: false,
            nodump: false,
            nodefaultlib: false,
            initfirst: false,
            interpose: false,
            global: false,
            loadfltr: false,
            read_only_dynamic: false,
            mark_plt: false,
        }
    }
}

/// Which symbol hash tables are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashStyle {
    /// `DT_HASH`.
    pub sysv: bool,
    /// `DT_GNU_HASH`.
    pub gnu: bool,
}

impl Default for HashStyle {
    fn default() -> Self {
        HashStyle { sysv: true, gnu: true }
    }
}

/// Addresses, segments, order of sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutOptions {
    /// `-z relro` (default).
    pub relro: bool,
    /// `-z separate-code` and its kin; `None`: the machine's default.
    pub separate_code: Option<SeparateCode>,
    /// `--rosegment`: `Some(false)` puts read-only data and code into one segment.
    pub rosegment: Option<bool>,
    /// `-z max-page-size=`, a power of two; `None`: the machine's default.
    pub max_page_size: Option<u64>,
    /// `-z common-page-size=`, a power of two; `None`: the machine's default.
    pub common_page_size: Option<u64>,
    /// `-z execstack` and its opposite; `None`: what the inputs' `.note.GNU-stack` ask for.
    pub executable_stack: Option<bool>,
    /// `-z nognustack`: no `PT_GNU_STACK`.
    pub no_gnu_stack: bool,
    /// `-z stack-size=`: `p_memsz` of `PT_GNU_STACK`.
    pub stack_size: Option<u64>,
    /// `-z nosectionheader`: the output has no section headers.
    pub no_section_headers: bool,
    /// `-z lrodata-after-bss`: large read-only data behind `.bss`.
    pub lrodata_after_bss: bool,
    /// `-z keep-text-section-prefix`: `.text.hot` and its kin stay output sections.
    pub keep_text_section_prefix: bool,
    /// `-N`, `-n`.
    pub magic: Magic,
    /// `--image-base`, `-Ttext-segment`.
    pub image_base: Option<u64>,
    /// `-Trodata-segment`.
    pub rodata_segment: Option<u64>,
    /// `-Tldata-segment`.
    pub ldata_segment: Option<u64>,
    /// `--section-start`, `-Ttext`, `-Tdata`, `-Tbss` in order: output section and address; the
    /// last one for a section holds.
    pub section_starts: Vec<(Vec<u8>, u64)>,
    /// `--orphan-handling`.
    pub orphan_handling: OrphanHandling,
    /// `--unique`: which input sections keep an output section of their own.
    pub unique: Unique,
    /// `--sort-section`: how wildcards that say nothing are sorted.
    pub sort_section: SortSection,
    /// `--sort-common`.
    pub sort_common: SortCommon,
    /// `--check-sections` (default): overlapping sections are an error.
    pub check_sections: bool,
    /// `--force-group-allocation`: `-r` dissolves section groups.
    pub force_group_allocation: bool,
    /// `--call-graph-profile-sort`.
    pub call_graph_profile_sort: bool,
    /// `--enable-non-contiguous-regions`.
    pub non_contiguous_regions: bool,
}

impl Default for LayoutOptions {
    fn default() -> Self {
        LayoutOptions {
            relro: true,
            separate_code: None,
            rosegment: None,
            max_page_size: None,
            common_page_size: None,
            executable_stack: None,
            no_gnu_stack: false,
            stack_size: None,
            no_section_headers: false,
            lrodata_after_bss: false,
            keep_text_section_prefix: false,
            magic: Magic::Paged,
            image_base: None,
            rodata_segment: None,
            ldata_segment: None,
            section_starts: Vec::new(),
            orphan_handling: OrphanHandling::Place,
            unique: Unique::default(),
            sort_section: SortSection::None,
            sort_common: SortCommon::None,
            check_sections: true,
            force_group_allocation: false,
            call_graph_profile_sort: true,
            non_contiguous_regions: false,
        }
    }
}

/// How code is kept apart from data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeparateCode {
    /// `-z noseparate-code`: segments may share file pages.
    No,
    /// `-z separate-code`: code has pages of its own.
    Code,
    /// `-z separate-loadable-segments`: every loaded segment has pages of its own.
    AllSegments,
}

/// How the output is paged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Magic {
    /// Page-aligned segments.
    #[default]
    Paged,
    /// `-n`: segments are not page-aligned; static libraries only.
    NMagic,
    /// `-N`: like `-n`, and text is writable.
    OMagic,
}

/// `--orphan-handling`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OrphanHandling {
    /// Put where they fit.
    #[default]
    Place,
    /// Dropped.
    Discard,
    /// Put where they fit, with a warning.
    Warn,
    /// An error.
    Error,
}

/// `--unique`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Unique {
    /// `--unique`: every orphan.
    pub orphans: bool,
    /// `--unique=PATTERN` in order: every input section of such a name.
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

/// `--gc-sections` and folding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GcOptions {
    /// `--gc-sections`.
    pub enabled: bool,
    /// `--print-gc-sections`.
    pub print: bool,
    /// `--gc-keep-exported`: exported symbols are roots in executables too.
    pub keep_exported: bool,
    /// `-z start-stop-gc`: `__start_NAME` does not keep the sections `NAME` alive.
    pub start_stop: bool,
    /// `--icf`.
    pub icf: Icf,
    /// `--print-icf-sections`.
    pub print_icf: bool,
    /// `--why-live` patterns in order.
    pub why_live: Vec<Vec<u8>>,
}

impl Default for GcOptions {
    fn default() -> Self {
        GcOptions {
            enabled: false,
            print: false,
            keep_exported: false,
            start_stop: false,
            icf: Icf::None,
            print_icf: false,
            why_live: Vec::new(),
        }
    }
}

/// Folding of identical code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Icf {
    /// No folding.
    #[default]
    None,
    /// Functions whose address is not taken.
    Safe,
    /// All functions.
    All,
}

/// Symbol table and debug information in the output.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct StripOptions {
    /// `-s`, `-S`.
    pub strip: Strip,
    /// `-x`, `-X`, `--discard-none`.
    pub discard: Discard,
    /// `--no-strip-discarded`: symbols of discarded sections stay in the symbol table.
    pub keep_discarded: bool,
    /// `--compress-debug-sections`.
    pub compress_debug: CompressDebug,
    /// `--gdb-index`.
    pub gdb_index: bool,
    /// `-z dead-reloc-in-nonalloc=` in order: section pattern and the value that a dead
    /// relocation leaves. The last pattern that matches holds.
    pub dead_relocations: Vec<(Vec<u8>, u64)>,
}

/// What is stripped.
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

/// Which local symbols are left out of the symbol table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Discard {
    /// `.L` names in merge sections only.
    #[default]
    SectionMerge,
    /// `--discard-none`: none.
    None,
    /// `-X`: `.L` names.
    Locals,
    /// `-x`: all.
    All,
}

/// `--compress-debug-sections`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CompressDebug {
    /// Debug sections are written plain.
    #[default]
    None,
    /// `SHF_COMPRESSED`, zlib.
    Zlib,
    /// `.zdebug_*` sections, zlib, as old GNU tools wrote them.
    ZlibGnu,
    /// `SHF_COMPRESSED`, zstd.
    Zstd,
}

/// Relocations in the output and how code is edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelocationOptions {
    /// `-q`: relocations stay in the output of a final link.
    pub emit: bool,
    /// `--relax` (default): instruction sequences are made shorter or cheaper.
    pub relax: bool,
    /// `-z text`, `-z notext`: what a dynamic relocation in a read-only section is.
    pub text: TextRelocations,
    /// `-z combreloc` (default): dynamic relocations are sorted by kind.
    pub combine: bool,
    /// `-z copyreloc` (default): copy relocations are allowed.
    pub copy: bool,
    /// `-z pack-relative-relocs`, `--pack-dyn-relocs=relr`: `DT_RELR`.
    pub pack_relative: bool,
    /// `--use-android-relr-tags`: RELR under Android's old numbers.
    pub android_relr_tags: bool,
    /// `-z report-relative-reloc`: every relative relocation is reported.
    pub report_relative: bool,
    /// `--apply-dynamic-relocs`: sections hold what a `RELA` dynamic relocation will write;
    /// `None`: the machine's default.
    pub apply_dynamic: Option<bool>,
    /// `-z extern-protected-data` and its opposite; `None`: the machine's default.
    pub extern_protected_data: Option<bool>,
    /// `-z indirect-extern-access` and its opposite; `None`: as the inputs' properties ask.
    pub indirect_extern_access: Option<bool>,
    /// `-z noreloc-overflow`: relocation overflow is not reported.
    pub ignore_overflow: bool,
    /// `-z call-nop=`: the byte that fills the place left by a relaxed call.
    pub call_nop: CallNop,
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
            text: TextRelocations::Warn,
            combine: true,
            copy: true,
            pack_relative: false,
            android_relr_tags: false,
            report_relative: false,
            apply_dynamic: None,
            extern_protected_data: None,
            indirect_extern_access: None,
            ignore_overflow: false,
            call_nop: CallNop::default(),
            fix_cortex_a53_843419: false,
            fix_cortex_a53_835769: false,
            pic_veneer: false,
        }
    }
}

/// Dynamic relocations in read-only sections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TextRelocations {
    /// Neither option given: allowed, with `DT_TEXTREL` and a warning.
    #[default]
    Warn,
    /// `-z text`: an error.
    Error,
    /// `-z notext`: allowed in silence.
    Allow,
}

/// `-z call-nop=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallNop {
    /// The byte.
    pub byte: u8,
    /// Whether it stands after the call rather than before it.
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
    /// `-z ibt`, `-z force-ibt`: the output is marked for indirect branch tracking, and has IBT PLTs.
    pub ibt: bool,
    /// `-z shstk`: the output is marked for shadow stacks.
    pub shstk: bool,
    /// `-z ibtplt`: PLT entries start with `endbr64`.
    pub ibt_plt: bool,
    /// `-z cet-report=`: objects without IBT or SHSTK.
    pub cet_report: Report,
    /// `-z x86-64-baseline` (1), `-z x86-64-v2` (2) to `v4` (4): the ISA level marked as needed.
    pub x86_64_level: Option<u8>,
    /// `-z isa-level-report=`: which x86 ISA levels of inputs are reported.
    pub isa_level_report: IsaLevelReport,
    /// `-z force-bti`: the output is marked for branch targets, and has BTI PLTs.
    pub force_bti: bool,
    /// `-z bti-report=`: objects without BTI.
    pub bti_report: Report,
    /// `-z pac-plt`: PLT entries authenticate.
    pub pac_plt: bool,
    /// `-z gcs=`: guarded control stack.
    pub gcs: Gcs,
    /// `-z gcs-report=`: objects without GCS.
    pub gcs_report: Report,
    /// `-z gcs-report-dynamic=`: shared libraries without GCS.
    pub gcs_report_dynamic: Report,
    /// `-z memory-seal`: the output asks for sealed mappings.
    pub memory_seal: bool,
}

/// `-z isa-level-report=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IsaLevelReport {
    /// Nothing.
    #[default]
    None,
    /// Needed levels.
    Needed,
    /// Used levels.
    Used,
    /// Both.
    All,
}

/// `-z gcs=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Gcs {
    /// Marked if all inputs are.
    #[default]
    Implicit,
    /// Never marked.
    Never,
    /// Always marked.
    Always,
}

/// Notes that the linker makes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NoteOptions {
    /// `--build-id`.
    pub build_id: BuildId,
    /// `--package-metadata`, percent-decoded: the text of `.note.package`.
    pub package_metadata: Option<Vec<u8>>,
}

/// `--build-id`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum BuildId {
    /// No note.
    #[default]
    None,
    /// 8 bytes of a fast hash of the output.
    Fast,
    /// 16 bytes.
    Md5,
    /// 20 bytes.
    Sha1,
    /// 16 random bytes.
    Uuid,
    /// These bytes.
    Hex(Vec<u8>),
}

/// SFrame sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SFrameOptions {
    /// `--sframe=`: where kept inputs go.
    pub mode: SFrameMode,
    /// `--sframe-index`: recognised inputs are replaced by one sorted `.sframe_idx`.
    pub index: Option<SFrameIndex>,
    /// `--sframe-from-eh-frame=`.
    pub from_eh_frame: Option<SFrameFromEhFrame>,
    /// `--sframe-split`: monolithic inputs are taken apart, one part for each text section.
    pub split: bool,
    /// `-z sframe-violation=`: what a reference to a discarded section is, error or warning.
    pub violation: SFrameViolation,
    /// `-z sframe-alloc` (default): the output section is allocated and has `PT_GNU_SFRAME`.
    pub alloc: bool,
    /// `--sframe-version=`: the version that is written.
    pub version: SFrameVersion,
    /// Whether identical rows may be shared between functions (default).
    pub share: bool,
    /// Rows for the linker's own PLTs, thunks and veneers; settled: on by default in index and
    /// merge mode.
    pub plt: bool,
    /// `--print-sframe`.
    pub print: bool,
}

impl Default for SFrameOptions {
    fn default() -> Self {
        SFrameOptions {
            mode: SFrameMode::Concat,
            index: None,
            from_eh_frame: None,
            split: false,
            violation: SFrameViolation::Error,
            alloc: true,
            version: SFrameVersion::V3,
            share: true,
            plt: false,
            print: false,
        }
    }
}

/// `--sframe=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SFrameMode {
    /// Every kept input goes into `.sframe` as it is.
    #[default]
    Concat,
    /// One sorted blob, as GNU ld makes.
    Merge,
    /// They are dropped.
    Discard,
}

/// `--sframe-index`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SFrameIndex {
    /// One sorted blob that every reader of its version takes.
    V3,
}

/// `--sframe-from-eh-frame=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SFrameFromEhFrame {
    /// For every function; recognised inputs are dropped.
    All,
    /// For functions that no input describes.
    Missing,
}

/// `-z sframe-violation=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SFrameViolation {
    /// No output.
    #[default]
    Error,
    /// A dead row and a warning.
    Warning,
}

/// `--sframe-version=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SFrameVersion {
    /// Version 2, errata 1.
    V2,
    /// Version 3.
    #[default]
    V3,
}

/// Which conditions are reported, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiagnosticOptions {
    /// `--fatal-warnings`.
    pub fatal_warnings: bool,
    /// `-w`: warnings are not shown.
    pub no_warnings: bool,
    /// `--noinhibit-exec`.
    pub noinhibit_exec: bool,
    /// `--demangle` (default).
    pub demangle: bool,
    /// `--color-diagnostics`.
    pub color: Color,
    /// `--error-limit`: how many errors are shown; `None`: all.
    pub error_limit: Option<NonZeroUsize>,
    /// `--warn-common`.
    pub warn_common: bool,
    /// `--warn-backrefs`.
    pub warn_backrefs: bool,
    /// `--warn-backrefs-exclude` patterns in order.
    pub warn_backrefs_exclude: Vec<Vec<u8>>,
    /// `--warn-execstack`, `--error-execstack`: an executable stack that inputs ask for.
    pub execstack: Report,
    /// `--warn-rwx-segments`, `--error-rwx-segments`: writable and executable segments.
    pub rwx_segments: Report,
    /// `--warn-textrel`: a `DT_TEXTREL` that `-z notext` allows is reported all the same.
    pub textrel: bool,
    /// `--warn-once`: an undefined symbol is reported with its first reference only.
    pub warn_once: bool,
    /// `--no-warn-mismatch`: inputs of another machine or class are not refused.
    pub no_warn_mismatch: bool,
    /// `--no-warn-search-mismatch`: libraries of another machine are passed over in silence.
    pub no_warn_search_mismatch: bool,
    /// `--no-warn-symbol-ordering`.
    pub no_warn_symbol_ordering: bool,
    /// `--warn-section-align`.
    pub warn_section_align: bool,
}

impl DiagnosticOptions {
    /// How the sink of the link adjusts what it is given.
    pub fn policy(&self) -> Policy {
        Policy {
            fatal_warnings: self.fatal_warnings,
            no_warnings: self.no_warnings,
            noinhibit_exec: self.noinhibit_exec,
        }
    }
}

impl Default for DiagnosticOptions {
    fn default() -> Self {
        DiagnosticOptions {
            fatal_warnings: false,
            no_warnings: false,
            noinhibit_exec: false,
            demangle: true,
            color: Color::Auto,
            error_limit: NonZeroUsize::new(20),
            warn_common: false,
            warn_backrefs: false,
            warn_backrefs_exclude: Vec::new(),
            execstack: Report::Warning,
            rwx_segments: Report::Warning,
            textrel: false,
            warn_once: false,
            no_warn_mismatch: false,
            no_warn_search_mismatch: false,
            no_warn_symbol_ordering: false,
            warn_section_align: false,
        }
    }
}

/// Colours in messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Color {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Files and texts that tell about the link.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ReportOptions {
    /// `-Map`: where the map is written (`-`: standard output); a directory gets
    /// `OUTPUT.map` in it.
    pub map: Option<PathBuf>,
    /// `-M`: the map is printed on standard output.
    pub print_map: bool,
    /// `--print-map-locals`: local symbols in the map.
    pub map_locals: bool,
    /// `--no-print-map-discarded`: discarded sections are left out of the map.
    pub no_map_discarded: bool,
    /// `--cref`: the table of cross references, in the map if there is one.
    pub cref: bool,
    /// `--dependency-file`.
    pub dependency_file: Option<PathBuf>,
    /// `--reproduce`: a tar file that replays the link.
    pub reproduce: Option<PathBuf>,
    /// The command line with response files and `SFRAME_LD_OPTIONS` expanded, program name left
    /// out: what `--reproduce` replays and messages quote.
    pub arguments: Vec<Vec<u8>>,
    /// `-t`: names of the files that take part; given twice, also archive members.
    pub trace: u8,
    /// `-y` symbols in order, without repetition.
    pub trace_symbols: Vec<Vec<u8>>,
    /// `--verbose`: the script in use and every file that is tried.
    pub verbose: bool,
    /// `--stats`.
    pub stats: Option<StatsFormat>,
    /// `--time-report`: time of every pass.
    pub time_report: bool,
    /// `--print-memory-usage`: how full the script's regions are.
    pub print_memory_usage: bool,
    /// `--why-extract`: a file that says why each archive member was taken (`-`: standard output).
    pub why_extract: Option<PathBuf>,
    /// `--print-archive-stats`: a file that counts the members of each archive (`-`: standard
    /// output).
    pub archive_stats: Option<PathBuf>,
}

/// How `--stats` is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatsFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}
