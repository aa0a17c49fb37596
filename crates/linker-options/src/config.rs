//! The resolved options of a link.
//!
//! [`super::parse()`] makes a [`Config`], and only the pass `read_scripts` changes it afterwards, because
//! scripts may name the output's format. It holds no parsing state: options that override each other are
//! settled, defaults that depend on the kind of output are filled in, and paths under the sysroot are spelled
//! out. A value that depends on the machine stays an `Option` (`None` is the machine's default), because
//! without `-m` the machine is known only when the first object has been read.
//!
//! Names of symbols and sections, and patterns for them, are bytes. Paths are [`PathBuf`]s. Sizes and
//! addresses are `u64`, in bytes. [`Config::default`] is the configuration of an empty command line.

mod balance;
mod output;
mod report;
mod unwind;

pub use balance::*;
pub use output::*;
pub use report::*;
pub use unwind::*;

use diagnostics::{Code, Diagnostic, Location};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Everything that the command line decides, except the list of inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Name of the program, for messages.
    pub program: String,
    /// Text to print on standard output before linking (`-v`, `-V` with inputs).
    pub banner: Option<String>,
    /// The machine that `-m` names. `None` is the machine of the first ELF input.
    pub machine: Option<Machine>,
    /// Whether `-m` names an emulation of FreeBSD.
    pub freebsd: bool,
    /// `-EB` (`true`) or `-EL`.
    pub big_endian: Option<bool>,
    /// The kind of output.
    pub mode: OutputMode,
    /// `-static`: the output gets no dynamic section, and no shared library takes part. `-Bstatic` does not
    /// set this; it only steers the search for the libraries that follow it.
    pub static_link: bool,
    /// `-o`, default `a.out`.
    pub output: PathBuf,
    /// Whether `-o` was given. If not, `OUTPUT` in a script may name the output.
    pub output_given: bool,
    /// `--oformat`.
    pub output_format: OutputFormat,
    /// The directories in which the linker searches for inputs.
    pub search: SearchOptions,
    /// Linker scripts and other files with rules for the link.
    pub scripts: ScriptOptions,
    /// Link-time optimization.
    pub lto: LtoOptions,
    /// Definitions, references, exports.
    pub symbols: SymbolOptions,
    /// Undefined references: whether each kind is an error, a warning or allowed.
    pub undefined: UndefinedOptions,
    /// The dynamic section and the other tables for the dynamic linker.
    pub dynamic: DynamicOptions,
    /// Addresses, segments, order of sections.
    pub layout: LayoutOptions,
    /// `--gc-sections`.
    pub gc: GcOptions,
    /// `--icf`.
    pub icf: IcfOptions,
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
    /// The table that stands for `.eh_frame`.
    pub unwind: UnwindOptions,
    /// Which conditions are reported, and how severely.
    pub diagnostics: DiagnosticOptions,
    /// Reports on the link, in files or on standard output.
    pub reports: ReportOptions,
    /// Number of threads. `None` is one for each processor.
    pub threads: Option<NonZeroUsize>,
    /// `--no-detach`: no background process frees a large link's memory.
    pub foreground: bool,
    /// What asks for a link for a 32-bit machine, which only another linker can make.
    pub needs_32_bit_linker: Option<Link32Bit>,
    /// `--no-fallback`: no other linker may make a link for a 32-bit machine.
    pub no_fallback: bool,
}

impl Config {
    /// The name by which the dynamic linker knows the output: `DT_SONAME`, or the name of the file.
    pub fn output_name(&self) -> &[u8] {
        match &self.dynamic.soname {
            Some(name) => name,
            None => self.output.file_name().unwrap_or_default().as_encoded_bytes(),
        }
    }

    /// The file that `--separate-debug-file` asks for.
    pub fn debug_file(&self) -> Option<PathBuf> {
        let path = self.strip.separate_debug.as_ref()?;
        if !path.as_os_str().is_empty() {
            return Some(path.clone());
        }
        let mut beside = self.output.clone().into_os_string();
        beside.push(".dbg");
        Some(beside.into())
    }

    /// Whether the output is a relocatable object.
    pub fn is_relocatable(&self) -> bool {
        self.mode == OutputMode::Relocatable
    }

    /// Whether the output is a shared library.
    pub fn is_shared(&self) -> bool {
        self.mode == OutputMode::Shared
    }

    /// Whether the output runs at any address, as a PIE or a shared library does.
    pub fn is_position_independent(&self) -> bool {
        matches!(self.mode, OutputMode::Shared | OutputMode::Executable { pie: true })
    }

    /// The error if the link is for `machine` and `-EB` or `-EL` asks for another byte order.
    pub fn wrong_byte_order(&self, machine: Machine) -> Option<Diagnostic> {
        let big = self.big_endian.filter(|&big| big != machine.is_big_endian())?;
        let (argument, order) = if big { ("-EB", "little") } else { ("-EL", "big") };
        let finding = Diagnostic::error(Code::BadOption, format!("{} is {order}-endian", machine.name()));
        Some(finding.at(Location::Argument(argument.to_owned())))
    }
}

/// A link for a 32-bit machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link32Bit {
    /// The option, script or input that asks for it.
    pub asked_by: String,
    /// The emulation to pass to another linker, if no option says it because only an input asks for the
    /// machine.
    pub emulation: Option<&'static str>,
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

impl Machine {
    /// The name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Machine::X86_64 => "x86-64",
            Machine::AArch64 => "AArch64",
            Machine::S390x => "s390x",
        }
    }

    /// Whether the most significant byte of a number comes first.
    pub fn is_big_endian(self) -> bool {
        self == Machine::S390x
    }
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
    /// `binary`: only the bytes that are loaded.
    Binary,
}

/// The directories in which the linker searches for inputs.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SearchOptions {
    /// `-L` directories in order, with the sysroot in place of its prefixes (`=`, `$SYSROOT`).
    pub directories: Vec<PathBuf>,
    /// `-nostdlib`: the machine's own directories are not searched after [`Self::directories`].
    pub no_default_directories: bool,
    /// `--no-dependent-libraries`: libraries that `.deplibs` sections name are not linked.
    pub no_dependent_libraries: bool,
    /// `--no-link-mapless`: archives that are searched need a symbol table, as for linkers that read nothing
    /// else of them.
    pub no_mapless_archives: bool,
    /// `--no-fortran-common`: no archive member is taken because it defines a common symbol.
    pub no_members_for_commons: bool,
    /// `--sysroot`; `None` if it is missing, empty or `/`.
    pub sysroot: Option<PathBuf>,
    /// `--chroot`: absolute paths of what the link reads begin here. The link alone applies it; the paths in
    /// this configuration and in messages are those of the command line.
    pub chroot: Option<PathBuf>,
    /// `-rpath-link` directories in order, with the sysroot in place of its prefixes.
    pub rpath_link: Vec<PathBuf>,
    /// `--remap-inputs` and the lines of `--remap-inputs-file`, in order: pattern and replacement. `None`
    /// leaves the input out. The first pattern that matches a name decides.
    pub remap: Vec<(Vec<u8>, Option<PathBuf>)>,
}

/// Link-time optimization by compilers' plugins.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LtoOptions {
    /// `-plugin`, each with the `-plugin-opt`s behind it.
    pub plugins: Vec<linker_plugin::Spec>,
    /// `-plugin-save-temps`: plugins leave their temporary files.
    pub keep_temporaries: bool,
}

impl LtoOptions {
    /// The plugins' paths, for messages.
    pub fn plugin_names(&self) -> String {
        let names = self.plugins.iter().map(|plugin| plugin.path.display().to_string());
        names.collect::<Vec<_>>().join(", ")
    }
}

/// A script of `-T`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFile {
    /// Its path, as given.
    pub path: PathBuf,
    /// `-c`: in the language of the MRI linker.
    pub mri: bool,
    /// How many inputs come before it. The files that it names take their place behind these.
    pub inputs_before: usize,
}

/// Linker scripts and other files with rules for the link.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ScriptOptions {
    /// `-T` and `-c` scripts in order; they replace the built-in one.
    pub scripts: Vec<ScriptFile>,
    /// `-dT`: replaces the built-in script if there is no `-T`.
    pub default_script: Option<PathBuf>,
    /// `--version-script` files in order.
    pub version_scripts: Vec<PathBuf>,
    /// `--dynamic-list` files in order.
    pub dynamic_lists: Vec<PathBuf>,
    /// `--export-dynamic-symbol-list` files in order.
    pub export_lists: Vec<PathBuf>,
    /// `--retain-symbols-file`.
    pub retain_symbols: Option<PathBuf>,
    /// `--symbol-ordering-file`.
    pub symbol_order: Option<PathBuf>,
    /// `--section-ordering-file` files in order.
    pub section_orders: Vec<PathBuf>,
    /// `--call-graph-ordering-file`: replaces the profiles in objects.
    pub call_graph: Option<PathBuf>,
    /// `--enable-linker-version`: `LINKER_VERSION` writes the linker's name.
    pub linker_version: bool,
}

/// Definitions, references, exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolOptions {
    /// `-e`: a symbol's name or a number. `None` is the script's `ENTRY`, or the default.
    pub entry: Option<Vec<u8>>,
    /// `-init`, default `_init`: the symbol of `DT_INIT`.
    pub init: Vec<u8>,
    /// `-fini`, default `_fini`: the symbol of `DT_FINI`.
    pub fini: Vec<u8>,
    /// `-u` in order: symbols that count as referenced, so that archives are searched for them and they are
    /// kept.
    pub undefined: Vec<Vec<u8>>,
    /// `--undefined-glob` patterns in order.
    pub undefined_globs: Vec<Vec<u8>>,
    /// `--require-defined` in order: like [`Self::undefined`], and it is an error if nothing defines them.
    /// They are not in `undefined` too.
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
    /// `--exclude-libs` names in order. `ALL` means every archive.
    pub exclude_libs: Vec<Vec<u8>>,
    /// `-Bsymbolic` and its variants.
    pub symbolic: Symbolic,
    /// `--allow-multiple-definition`, `-z muldefs`: the first definition prevails, and several are no error.
    pub allow_multiple_definition: bool,
    /// `--undefined-version` (default): a version script may name symbols that do not exist.
    pub allow_undefined_version: bool,
    /// `--default-symver`: symbols without a version get the soname (or output name) as version.
    pub default_symver: bool,
    /// `--default-imported-symver`: symbols of libraries that give them no version are asked for by the
    /// library's soname as version.
    pub default_imported_symver: bool,
    /// `--disable-multiple-abs-defs`: what a file of `--just-symbols` defines in a section may not be defined
    /// once more.
    pub defined_once_beside_just_symbols: bool,
    /// `-d`: common blocks are allocated even under `-r`. `--no-define-common`: they are not allocated.
    /// `None`: they are allocated in final links only.
    pub define_common: Option<bool>,
    /// `--gnu-unique` (default): `STB_GNU_UNIQUE` stays. If `false`, it becomes `STB_GLOBAL`.
    pub gnu_unique: bool,
    /// `-z unique-symbol`: local symbols of one name get distinct names.
    pub unique_locals: bool,
    /// `-z start-stop-visibility=`: visibility of `__start_NAME` and `__stop_NAME`.
    pub start_stop_visibility: Visibility,
    /// `-z common`, `-z nocommon`: whether common blocks of relocatable output have the type `STT_COMMON`.
    /// `None` keeps the type of the inputs.
    pub common_type: Option<bool>,
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
            default_imported_symver: false,
            defined_once_beside_just_symbols: false,
            define_common: None,
            gnu_unique: true,
            unique_locals: false,
            start_stop_visibility: Visibility::Protected,
            common_type: None,
        }
    }
}

impl SymbolOptions {
    /// What `--wrap` makes of references: pairs of the name in the reference and the name that it means.
    /// `foo` means `__wrap_foo`, and `__real_foo` means `foo`.
    pub fn wrapped_references(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let pairs = |name: &Vec<u8>| {
            let prefixed = |prefix: &[u8]| [prefix, name].concat();
            [(name.clone(), prefixed(b"__wrap_")), (prefixed(b"__real_"), name.clone())]
        };
        self.wrap.iter().flat_map(pairs).collect()
    }
}

/// `--defsym=SYMBOL=EXPRESSION`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefSym {
    /// The symbol that is defined.
    pub name: Vec<u8>,
    /// A linker-script expression, not yet parsed.
    pub expression: String,
    /// How many inputs come before it.
    pub inputs_before: usize,
    /// How many scripts of `-T` come before it.
    pub scripts_before: usize,
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

/// `-Bsymbolic` and its variants: which references a shared library binds to its own definitions.
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

/// Undefined references: whether each kind is an error, a warning or allowed. These are settled from
/// `--unresolved-symbols`, `--no-undefined`, `-z defs`, `-z undefs`, `--allow-shlib-undefined`,
/// `--warn-unresolved-symbols` and the kind of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndefinedOptions {
    /// References from objects.
    pub in_objects: Report,
    /// References from shared libraries.
    pub in_shared_libraries: Report,
    /// `--ignore-unresolved-symbol` in order: symbols that are never reported.
    pub ignored: Vec<Vec<u8>>,
    /// `-z dynamic-undefined-weak` or its opposite. `None` leaves it to the kind of output.
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

/// The dynamic section and the other tables for the dynamic linker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicOptions {
    /// The path in `PT_INTERP`. `None` is the machine's default.
    pub dynamic_linker: Option<PathBuf>,
    /// `--no-dynamic-linker`: no `PT_INTERP`; with `-pie`, a static PIE.
    pub no_dynamic_linker: bool,
    /// `-soname`.
    pub soname: Option<Vec<u8>>,
    /// `-rpath` directories in order, without repetition. The output has them joined by `:`.
    pub rpath: Vec<Vec<u8>>,
    /// `--enable-new-dtags` (default): `DT_RUNPATH` instead of `DT_RPATH`.
    pub new_dtags: bool,
    /// `-f`, `--auxiliary`: `DT_AUXILIARY` values in order.
    pub auxiliary: Vec<Vec<u8>>,
    /// `-F`, `--filter`: `DT_FILTER` values in order.
    pub filter: Vec<Vec<u8>>,
    /// `--audit`: the names in `DT_AUDIT`. The output has them joined by `:`.
    pub audit: Vec<Vec<u8>>,
    /// `-P`, `--depaudit`: the names in `DT_DEPAUDIT`. The output has them joined by `:`.
    pub depaudit: Vec<Vec<u8>>,
    /// `--spare-dynamic-tags`: empty entries at the end of `.dynamic`.
    pub spare_tags: u32,
    /// `--hash-style`.
    pub hash_style: HashStyle,
    /// `--eh-frame-hdr`.
    pub eh_frame_hdr: bool,
    /// `--ld-generated-unwind-info` (default): `.eh_frame` describes the procedure linkage tables too.
    pub plt_unwind_info: bool,
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
    /// `-z globalaudit`.
    pub globalaudit: bool,
    /// `-Bgroup`.
    pub group: bool,
    /// `-z rodynamic`: `.dynamic` is not writable.
    pub read_only_dynamic: bool,
    /// `-z unique`: all name spaces of a program share one copy of the library.
    pub unique: bool,
    /// `--gnu2-tls-tag`: whether code with TLS descriptors needs the C library's version for them. `None`: if
    /// the library of the link has it.
    pub tls_desc_version: Option<bool>,
    /// `-z mark-plt`: `DT_X86_64_PLT` and the other tags about the PLT.
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
            plt_unwind_info: true,
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
            globalaudit: false,
            group: false,
            read_only_dynamic: false,
            unique: false,
            tls_desc_version: None,
            mark_plt: false,
        }
    }
}

/// `--hash-style`: which symbol hash tables the output gets.
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
