//! The kinds of messages. Each has a stable name, by which tests and tools recognise it.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The kind of a message. The text of `as_str` is stable: it never gets another meaning.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// The stable name, lower case with dashes.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }
        }
    };
}

codes! {
    /// An option that does not exist, or lacks its value, or has a value that it does not take.
    BadOption = "bad-option",
    /// A script of `--error-handling-script` that fails.
    ErrorScript = "error-script",
    /// A `-z` word that is not known.
    UnknownZ = "unknown-z",
    /// No input file at all.
    NoInput = "no-input",
    /// A file that cannot be opened or read.
    CannotOpen = "cannot-open",
    /// A file that is written to while it is linked.
    ChangedInput = "changed-input",
    /// A library that no search directory contains.
    LibraryNotFound = "library-not-found",
    /// A file for another machine.
    WrongMachine = "wrong-machine",
    /// A file that is neither an ELF file nor an archive nor a script.
    UnknownFileType = "unknown-file-type",
    /// An object, archive or shared library whose structure is broken.
    MalformedInput = "malformed-input",
    /// A section group whose structure is broken.
    MalformedGroup = "malformed-group",
    /// An input that this kind of link cannot take: a shared library in a static or relocatable link.
    UnsupportedInput = "unsupported-input",
    /// A file that contains only an LTO compiler's intermediate code, and no plugin takes it.
    LtoInput = "lto-input",
    /// A compiler's plugin that cannot be loaded or fails, and its messages.
    LtoPlugin = "lto-plugin",
    /// A linker script that does not parse.
    ScriptSyntax = "script-syntax",
    /// A linker script that parses but cannot be executed.
    ScriptError = "script-error",
    /// An `ASSERT` that does not hold.
    AssertionFailed = "assertion-failed",
    /// A version script or dynamic list that does not parse or names nothing.
    VersionScript = "version-script",
    /// A symbol that is referenced and defined nowhere.
    UndefinedSymbol = "undefined-symbol",
    /// A symbol that two files define.
    DuplicateSymbol = "duplicate-symbol",
    /// Uses of one symbol that contradict each other (TLS and not TLS, hidden and shared).
    SymbolMismatch = "symbol-mismatch",
    /// A symbol version that nothing defines.
    UndefinedVersion = "undefined-version",
    /// A reference to a symbol in a discarded section.
    DiscardedReference = "discarded-reference",
    /// `SHF_LINK_ORDER` to a section that is discarded, missing or in a cycle.
    LinkOrder = "link-order",
    /// A relocation type that is not known.
    UnknownRelocation = "unknown-relocation",
    /// A relocation whose value does not fit its field.
    RelocationOverflow = "relocation-overflow",
    /// A relocation that this kind of output cannot contain.
    RelocationNotAllowed = "relocation-not-allowed",
    /// A dynamic relocation in a section that is not writable.
    TextRelocation = "text-relocation",
    /// A place that gets a relative relocation (information, `-z report-relative-reloc`).
    RelativeRelocation = "relative-relocation",
    /// Sections that do not fit together, or not into their place.
    LayoutError = "layout-error",
    /// A layout that does not converge.
    LayoutDiverges = "layout-diverges",
    /// The entry symbol is missing.
    NoEntry = "no-entry",
    /// Executable stack, writable and executable segments.
    ExecutableStack = "executable-stack",
    /// GNU properties that are missing.
    MissingProperty = "missing-property",
    /// The instruction sets of an object (information, `-z isa-level-report`).
    InstructionSet = "instruction-set",
    /// Objects whose attributes say that their code cannot be combined.
    AbiMismatch = "abi-mismatch",
    /// An `.sframe` section whose version is not known.
    SFrameVersion = "sframe-version",
    /// An `.sframe` section whose structure is broken.
    SFrameCorrupt = "sframe-corrupt",
    /// SFrame rows whose function is not in the output.
    SFrameDeadRows = "sframe-dead-rows",
    /// SFrame output that may differ from what the user expects (information).
    SFrameNote = "sframe-note",
    /// The output file cannot be written.
    CannotWrite = "cannot-write",
    /// A file that would be written is an input of the link.
    OutputIsInput = "output-is-input",
    /// An error of sframe-ld itself.
    Internal = "internal",
    /// A warning that an input asks for (`.gnu.warning.SYMBOL`).
    InputWarning = "input-warning",
    /// A common block that meets another declaration of its symbol.
    CommonSymbol = "common-symbol",
    /// An orphan section, with `--orphan-handling`.
    OrphanSection = "orphan-section",
    /// Compressed section data that cannot be unpacked.
    Compression = "compression",
    /// An `.eh_frame` section whose structure is broken.
    EhFrame = "eh-frame",
    /// Debug information from which no index can be made.
    DebugInfo = "debug-info",
    /// A line of an ordering file that orders nothing, or a profile that cannot be used.
    Ordering = "ordering",
}
