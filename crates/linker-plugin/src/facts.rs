//! What linker and plugin tell each other, in Rust's types.

use std::path::PathBuf;

/// A plugin and the options that it gets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Spec {
    /// Its shared library.
    pub path: PathBuf,
    /// Values of `-plugin-opt`, without the option's name.
    pub options: Vec<Vec<u8>>,
}

impl Spec {
    /// Whether the plugin is LLVM's own.
    pub fn is_llvms(&self) -> bool {
        self.file_name().starts_with(b"LLVMgold")
    }

    /// Whether the plugin is gcc's own.
    pub fn is_gccs(&self) -> bool {
        self.file_name().starts_with(b"liblto_plugin")
    }

    fn file_name(&self) -> &[u8] {
        self.path.file_name().unwrap_or_default().as_encoded_bytes()
    }
}

/// The kind of output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum OutputKind {
    /// A relocatable object.
    Relocatable = 0,
    /// A program at fixed addresses.
    Executable = 1,
    /// A shared library.
    Shared = 2,
    /// A position-independent program.
    Pie = 3,
}

/// What plugins may want to know about the link.
#[derive(Clone, Debug)]
pub struct LinkFacts {
    /// The kind of output.
    pub kind: OutputKind,
    /// The output file.
    pub output: PathBuf,
    /// The version of GNU ld that the linker imitates: major version times 100 plus minor version.
    pub gnu_ld_version: i32,
    /// Names of `--wrap`.
    pub wrapped: Vec<Vec<u8>>,
    /// The linker's name.
    pub linker: String,
    /// The linker's own version.
    pub linker_version: String,
}

/// A file that plugins may claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputFile {
    /// Its path. For an archive member, the path of the archive.
    pub path: PathBuf,
    /// Offset of an archive member in the archive, in bytes. 0 for another file.
    pub offset: u64,
    /// Size of the file or member, in bytes.
    pub size: u64,
    /// Whether it certainly takes part in the link. It does if it is no archive member.
    pub known_used: bool,
}

/// A claimed file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Its number, from 0 in the order of claims.
    pub number: usize,
    /// The plugin that claimed it, as an index into the session's plugins.
    pub plugin: usize,
    /// Its symbols.
    pub symbols: Vec<Symbol>,
}

/// A symbol of a claimed file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// The mangled name.
    pub name: Vec<u8>,
    /// Its version, if the plugin passes it separately from the name.
    pub version: Option<Vec<u8>>,
    /// Definition or reference.
    pub binding: Binding,
    /// Its visibility.
    pub visibility: Visibility,
    /// Function or variable.
    pub kind: SymbolKind,
    /// Its size in bytes.
    pub size: u64,
    /// The signature of its COMDAT group.
    pub comdat: Option<Vec<u8>>,
}

/// Definition or reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Binding {
    /// A definition.
    Definition,
    /// A weak definition.
    WeakDefinition,
    /// A reference.
    Reference,
    /// A weak reference, which may stay undefined.
    WeakReference,
    /// A common block.
    Common,
}

impl Binding {
    pub(crate) fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            0 => Binding::Definition,
            1 => Binding::WeakDefinition,
            2 => Binding::Reference,
            3 => Binding::WeakReference,
            4 => Binding::Common,
            _ => return None,
        })
    }

    /// The interface's number for it.
    pub fn raw(self) -> u8 {
        match self {
            Binding::Definition => 0,
            Binding::WeakDefinition => 1,
            Binding::Reference => 2,
            Binding::WeakReference => 3,
            Binding::Common => 4,
        }
    }

    /// Whether it is a reference only.
    pub fn is_reference(self) -> bool {
        matches!(self, Binding::Reference | Binding::WeakReference)
    }
}

/// Visibility, with ELF's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visibility {
    /// `STV_DEFAULT`.
    Default,
    /// `STV_PROTECTED`.
    Protected,
    /// `STV_INTERNAL`.
    Internal,
    /// `STV_HIDDEN`.
    Hidden,
}

impl Visibility {
    pub(crate) fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            0 => Visibility::Default,
            1 => Visibility::Protected,
            2 => Visibility::Internal,
            3 => Visibility::Hidden,
            _ => return None,
        })
    }

    /// The interface's number for it.
    pub fn raw(self) -> i32 {
        match self {
            Visibility::Default => 0,
            Visibility::Protected => 1,
            Visibility::Internal => 2,
            Visibility::Hidden => 3,
        }
    }
}

/// The type of a symbol, if the plugin knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SymbolKind {
    /// The plugin does not give a type.
    Unknown,
    /// A function.
    Function,
    /// A variable.
    Variable,
    /// A variable without initial contents.
    ZeroVariable,
}

impl SymbolKind {
    pub(crate) fn from_raw(kind: u8, section_kind: u8) -> Self {
        match (kind, section_kind) {
            (1, _) => SymbolKind::Function,
            (2, 1) => SymbolKind::ZeroVariable,
            (2, _) => SymbolKind::Variable,
            _ => SymbolKind::Unknown,
        }
    }

    /// The interface's numbers for the kind of the symbol and that of its section.
    pub fn raw(self) -> (u8, u8) {
        match self {
            SymbolKind::Unknown => (0, 0),
            SymbolKind::Function => (1, 0),
            SymbolKind::Variable => (2, 0),
            SymbolKind::ZeroVariable => (2, 1),
        }
    }
}

/// The linker's decision about a symbol of a claimed file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Resolution {
    /// Nothing defines it.
    Undefined = 1,
    /// This definition prevails, and machine code refers to it.
    Prevailing = 2,
    /// This definition prevails, and only claimed files need it.
    PrevailingInside = 3,
    /// Machine code defines it.
    PreemptedByCode = 4,
    /// Another claimed file defines it.
    PreemptedByClaimed = 5,
    /// A reference to a claimed file's definition.
    ResolvedByClaimed = 6,
    /// A reference to a definition of machine code.
    ResolvedByCode = 7,
    /// A reference to a shared library's definition.
    ResolvedByLibrary = 8,
    /// This definition prevails and the output exports it. Machine code does not refer to it.
    PrevailingExported = 9,
}

/// Something that plugins add to the link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Added {
    /// An object.
    File(PathBuf),
    /// A library that the link must search for by this name (`-lNAME`).
    Library(Vec<u8>),
    /// A directory in which the link must search for these libraries.
    Directory(PathBuf),
}

/// Severity of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Information for the user.
    Information,
    /// The output is written nevertheless.
    Warning,
    /// The link fails in the end.
    Error,
    /// The plugin cannot continue.
    Fatal,
}

/// A plugin's message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Its severity.
    pub level: Level,
    /// The text, without a newline at the end.
    pub text: String,
    /// The plugin that was being called.
    pub plugin: PathBuf,
}

/// Why a session cannot continue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The plugin's library cannot be loaded.
    CannotLoad {
        /// Its path.
        plugin: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// A plugin is named twice. It has one state in a process, whatever its path.
    Duplicated {
        /// Its path, as it was named the second time.
        plugin: PathBuf,
    },
    /// A call of the plugin returned an error status.
    Hook {
        /// Its path.
        plugin: PathBuf,
        /// The call's name in the interface.
        hook: &'static str,
        /// The status.
        status: i32,
    },
    /// A file cannot be opened for the plugin.
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// The plugin reported a fatal error. Its last message says why.
    Fatal,
    /// A plugin has failed in this process before, and its threads still use its memory.
    Spent,
    /// No thread can be started.
    Thread {
        /// The system's error message.
        reason: String,
    },
}
