//! Linker scripts as typed trees.
//!
//! The tree follows the text, in its order. Sections, symbols and files are only names here; later passes
//! find out what the names mean. The parser has already put included files in their place. A node carries a
//! [`Span`] if a later pass may have to report it.

use super::expr::Expr;
use super::source::Span;

pub use super::source::Name;

/// A whole script.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Script {
    /// Its commands, in order.
    pub commands: Vec<Command>,
}

impl Script {
    /// The input statements of `SECTIONS`, in the order of the text.
    pub fn input_statements(&self) -> impl Iterator<Item = &InputStatement> {
        let items = self.commands.iter().flat_map(|command| match command {
            Command::Sections(items) => &items[..],
            _ => &[],
        });
        items.flat_map(|item| {
            let (outputs, of_class) = match item {
                SectionsItem::Output(section) => (std::slice::from_ref(&**section), &[][..]),
                SectionsItem::Overlay(overlay) => (&overlay.sections[..], &[][..]),
                SectionsItem::Class(class) => (&[][..], &class.statements[..]),
                _ => (&[][..], &[][..]),
            };
            let in_bodies = outputs.iter().flat_map(|section| &section.body).filter_map(|item| match item {
                BodyItem::Input(statement) => Some(statement),
                _ => None,
            });
            in_bodies.chain(of_class)
        })
    }

    /// Whether it assigns a symbol, other than by `PROVIDE`.
    pub fn assigns(&self, name: &[u8]) -> bool {
        let is_it =
            |assignment: &Assignment| *assignment.target.bytes == *name && !assignment.kind.is_provide();
        let in_body = |section: &OutputSection| {
            section.body.iter().any(|item| matches!(item, BodyItem::Assignment(found) if is_it(found)))
        };
        let in_item = |item: &SectionsItem| match item {
            SectionsItem::Assignment(assignment) => is_it(assignment),
            SectionsItem::Output(section) => in_body(section),
            SectionsItem::Overlay(overlay) => overlay.sections.iter().any(in_body),
            SectionsItem::Assert(_) | SectionsItem::Entry(_) | SectionsItem::Class(_) => false,
        };
        self.commands.iter().any(|command| match command {
            Command::Assignment(assignment) => is_it(assignment),
            Command::Sections(items) => items.iter().any(in_item),
            Command::Overwrite(sections) => sections.iter().any(in_body),
            _ => false,
        })
    }
}

/// One command at the top of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// `SECTIONS { … }`. There may be several; they stand one after another.
    Sections(Vec<SectionsItem>),
    /// `OVERWRITE_SECTIONS { … }`: descriptions in place of those that the layout has by these names. The
    /// sections that no layout has go where their contents would go without a description.
    Overwrite(Vec<OutputSection>),
    /// `INSERT AFTER section` and `INSERT BEFORE section`. Everything before this command in its script, back
    /// to the previous `INSERT` or to the start, goes to that place in the main script.
    Insert(Insert),
    /// `symbol = value;` outside `SECTIONS`.
    Assignment(Assignment),
    /// `ASSERT(condition, "message")`.
    Assert(Assert),
    /// `ENTRY(symbol)`.
    Entry(Name),
    /// `INPUT(files)`.
    Input(Vec<InputFile>),
    /// `GROUP(files)`: the linker searches these archives again and again, like those between `--start-group`
    /// and `--end-group`.
    Group(Vec<InputFile>),
    /// `OUTPUT(file)`.
    Output(Name),
    /// `OUTPUT_FORMAT(default)` or `OUTPUT_FORMAT(default, big, little)`.
    OutputFormat {
        /// The format that neither `-EB` nor `-EL` asks for.
        default: Name,
        /// The formats for `-EB` and `-EL`.
        by_byte_order: Option<(Name, Name)>,
    },
    /// `OUTPUT_ARCH(machine)`.
    OutputArch(Name),
    /// `TARGET(format)`.
    Target(Name),
    /// `SEARCH_DIR(directory)`.
    SearchDir(Name),
    /// `STARTUP(file)`: the first file of the link.
    Startup(Name),
    /// `EXTERN(symbols)`: as `-u`.
    Extern(Vec<Name>),
    /// `PHDRS { … }`.
    Phdrs(Vec<Phdr>),
    /// `MEMORY { … }`.
    Memory(Vec<MemoryRegion>),
    /// `REGION_ALIAS(alias, region)`.
    RegionAlias {
        /// The new name.
        alias: Name,
        /// The region.
        region: Name,
    },
    /// `VERSION { … }`: the text between the braces, for [`crate::version`].
    Version(Span),
    /// `NOCROSSREFS(sections)`: none of the sections may refer to another.
    NoCrossRefs(Vec<Name>),
    /// `NOCROSSREFS_TO(to, from…)`: none of `from` may refer to `to`.
    NoCrossRefsTo {
        /// The section that must not be referred to.
        to: Name,
        /// The sections that must not refer to it.
        from: Vec<Name>,
    },
    /// `FORCE_COMMON_ALLOCATION`: as `-d`.
    ForceCommonAllocation,
    /// `INHIBIT_COMMON_ALLOCATION`: as `--no-define-common`.
    InhibitCommonAllocation,
    /// `FORCE_GROUP_ALLOCATION`: as `--force-group-allocation`.
    ForceGroupAllocation,
    /// `LIST` of an MRI script: as `-M`.
    PrintMap,
    /// `LD_FEATURE(feature)`. The only feature is `SANE_EXPR`.
    LdFeature(Name),
    /// Commands for other systems, which do nothing here: `MAP`, `HLL`, `SYSLIB`, `FLOAT`, `NOFLOAT`.
    Ignored(Span),
}

/// The place of an inserted script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Insert {
    /// The whole command.
    pub span: Span,
    /// After the section, or before it.
    pub after: bool,
    /// The output section of the main script.
    pub section: Name,
}

/// A file that `INPUT` or `GROUP` names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputFile {
    /// The path, or for a library the text behind `-l` (`:name` included).
    pub name: Name,
    /// Written as `-lname`.
    pub library: bool,
    /// Inside `AS_NEEDED(…)`.
    pub as_needed: bool,
}

/// A statement of `SECTIONS { … }`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SectionsItem {
    /// An assignment to a symbol or to the location counter.
    Assignment(Assignment),
    /// `ASSERT(condition, "message")`.
    Assert(Assert),
    /// `ENTRY(symbol)`.
    Entry(Name),
    /// An output section. `/DISCARD/` is one too.
    Output(Box<OutputSection>),
    /// `OVERLAY … { … }`.
    Overlay(Box<Overlay>),
    /// `CLASS(name) { … }`.
    Class(Class),
}

/// `CLASS(name) { … }`: input sections that are chosen here, and stand where output sections name the class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Class {
    /// The whole definition.
    pub span: Span,
    /// Its name.
    pub name: Name,
    /// Its input sections.
    pub statements: Vec<InputStatement>,
}

impl SectionsItem {
    /// Its place in the text.
    pub fn span(&self) -> Span {
        match self {
            SectionsItem::Assignment(assignment) => assignment.span,
            SectionsItem::Assert(assert) => assert.span,
            SectionsItem::Entry(name) => name.span,
            SectionsItem::Output(section) => section.span,
            SectionsItem::Overlay(overlay) => overlay.span,
            SectionsItem::Class(class) => class.span,
        }
    }
}

/// The kind of an assignment: the visibility of its symbol, and when it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssignmentKind {
    /// `a = b;` defines the symbol whatever else defines it.
    Plain,
    /// `HIDDEN(a = b)`: the same with hidden visibility.
    Hidden,
    /// `PROVIDE(a = b)`: only where it is referenced and nothing defines it.
    Provide,
    /// `PROVIDE_HIDDEN(a = b)`: as `PROVIDE`, with hidden visibility.
    ProvideHidden,
}

impl AssignmentKind {
    /// Whether the symbol is only made on demand.
    pub fn is_provide(self) -> bool {
        matches!(self, AssignmentKind::Provide | AssignmentKind::ProvideHidden)
    }

    /// Whether the symbol gets hidden visibility.
    pub fn is_hidden(self) -> bool {
        matches!(self, AssignmentKind::Hidden | AssignmentKind::ProvideHidden)
    }
}

/// An assignment to a symbol or to the location counter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// The whole statement, without its semicolon.
    pub span: Span,
    /// Plain, hidden, provided.
    pub kind: AssignmentKind,
    /// The symbol, or `.`.
    pub target: Name,
    /// The new value. For `a += b` it is the expression `a + b`, with the span of `b`.
    pub value: Expr,
}

impl Assignment {
    /// Whether it moves the location counter.
    pub fn is_to_dot(&self) -> bool {
        *self.target.bytes == *b"."
    }

    /// Whether it computes the new value from the old one, as `s -= 4` does.
    pub fn changes_its_symbol(&self) -> bool {
        let mut reads = false;
        self.value.for_each_symbol(&mut |name| reads |= name.bytes == self.target.bytes);
        reads
    }
}

/// `ASSERT(condition, "message")` as a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assert {
    /// The whole statement.
    pub span: Span,
    /// The link fails if this is zero at its end.
    pub condition: Expr,
    /// The text of the error then.
    pub message: Name,
}

/// The type that an output section's parentheses give.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OutputSectionType {
    /// `(NOLOAD)`: the section has addresses, but no bytes in the file.
    NoLoad,
    /// `(DSECT)`, `(COPY)`, `(INFO)`, `(OVERLAY)`: the section is not allocated.
    NoAlloc,
    /// `(READONLY)`: the section has no `SHF_WRITE`.
    ReadOnly,
    /// `(TYPE = type)` or `(READONLY (TYPE = type))`.
    Type {
        /// The value of `sh_type`; `SHT_…` names are numbers already.
        value: Expr,
        /// Whether it is read-only too.
        read_only: bool,
    },
}

/// The condition under which an output section description is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Constraint {
    /// `ONLY_IF_RO`: only if all its input sections are read-only.
    OnlyIfReadOnly,
    /// `ONLY_IF_RW`: only if one of its input sections is writable.
    OnlyIfReadWrite,
    /// `SPECIAL`: this description never makes a section by itself.
    Special,
}

/// `name address (type) : AT(lma) … { … } >region AT>region :phdr =fill`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutputSection {
    /// From the name to the closing brace.
    pub span: Span,
    /// The name; `/DISCARD/` discards the sections that it matches.
    pub name: Name,
    /// The address before the colon.
    pub address: Option<Expr>,
    /// The type in parentheses.
    pub kind: Option<OutputSectionType>,
    /// `AT(address)`: the load address.
    pub load_address: Option<Expr>,
    /// `ALIGN(bytes)` after the colon.
    pub align: Option<Expr>,
    /// `ALIGN_WITH_INPUT`.
    pub align_with_input: bool,
    /// `SUBALIGN(bytes)`: the alignment of all input sections.
    pub subalign: Option<Expr>,
    /// `ONLY_IF_RO` and its like.
    pub constraint: Option<Constraint>,
    /// The statements between the braces.
    pub body: Vec<BodyItem>,
    /// The attributes behind the closing brace.
    pub placement: Placement,
}

impl OutputSection {
    /// A description of this name that has nothing else.
    pub fn new(name: Name) -> Self {
        OutputSection {
            span: name.span,
            name,
            address: None,
            kind: None,
            load_address: None,
            align: None,
            align_with_input: false,
            subalign: None,
            constraint: None,
            body: Vec::new(),
            placement: Placement::default(),
        }
    }

    /// Whether it is `/DISCARD/`.
    pub fn is_discard(&self) -> bool {
        *self.name.bytes == *b"/DISCARD/"
    }

    /// Whether the description has a body and no attributes.
    pub fn is_only_body(&self) -> bool {
        let plain =
            OutputSection { span: self.span, body: Vec::new(), ..OutputSection::new(self.name.clone()) };
        plain == OutputSection { body: Vec::new(), ..self.clone() }
    }
}

/// Attributes behind the closing brace of an output section or overlay.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    /// `>region`.
    pub region: Option<Name>,
    /// `AT>region`.
    pub load_region: Option<Name>,
    /// `:phdr`, in order. `NONE` is a name among them.
    pub phdrs: Vec<Name>,
    /// `=fill`.
    pub fill: Option<Expr>,
}

/// `OVERLAY address : NOCROSSREFS AT(lma) { sections } >region AT>region :phdr =fill`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overlay {
    /// From the word to the closing brace.
    pub span: Span,
    /// The address that all its sections share.
    pub address: Option<Expr>,
    /// Whether its sections may not refer to one another.
    pub no_cross_refs: bool,
    /// `AT(address)`: load address of the first section.
    pub load_address: Option<Expr>,
    /// `SUBALIGN(bytes)`.
    pub subalign: Option<Expr>,
    /// Its sections: name, body, phdrs and fill are set.
    pub sections: Vec<OutputSection>,
    /// Attributes behind the closing brace.
    pub placement: Placement,
}

/// A statement between the braces of an output section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BodyItem {
    /// Input sections.
    Input(InputStatement),
    /// `CLASS(name)`: the input sections of a class.
    Class(Name),
    /// An assignment. The location counter counts from the start of the section here.
    Assignment(Assignment),
    /// `ASSERT(condition, "message")`.
    Assert(Assert),
    /// `BYTE(value)` and its like.
    Data {
        /// Width of the value.
        size: DataSize,
        /// The value.
        value: Expr,
    },
    /// `ASCIZ "text"`: the bytes with the zero at the end, escapes resolved.
    Text {
        /// The whole statement.
        span: Span,
        /// The bytes to write, the final zero included.
        bytes: Box<[u8]>,
    },
    /// `FILL(value)`: the fill of the gaps from here on.
    Fill(Expr),
    /// `LINKER_VERSION`: the linker's name and version, if `--enable-linker-version` asks for them.
    LinkerVersion(Span),
    /// `CONSTRUCTORS`, which does nothing in ELF.
    Constructors(Span),
    /// `CREATE_OBJECT_SYMBOLS`: a symbol for each input file, with the file's name, at the file's first
    /// section here.
    CreateObjectSymbols(Span),
}

/// Width of the value that a data statement writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataSize {
    /// `BYTE`: 1 byte.
    Byte,
    /// `SHORT`: 2 bytes.
    Short,
    /// `LONG`: 4 bytes.
    Long,
    /// `QUAD`: 8 bytes.
    Quad,
    /// `SQUAD`: 8 bytes; as `QUAD` for 64-bit targets.
    SignedQuad,
}

impl DataSize {
    /// The number of bytes.
    pub fn bytes(self) -> u64 {
        match self {
            DataSize::Byte => 1,
            DataSize::Short => 2,
            DataSize::Long => 4,
            DataSize::Quad | DataSize::SignedQuad => 8,
        }
    }
}

/// An input statement: `KEEP(INPUT_SECTION_FLAGS(…) archive:file(sections))`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputStatement {
    /// The whole statement.
    pub span: Span,
    /// Whether it is inside `KEEP(…)`, so that its sections are roots of garbage collection.
    pub keep: bool,
    /// `INPUT_SECTION_FLAGS(…)`.
    pub flags: Option<SectionFlags>,
    /// The files whose sections it takes.
    pub file: FilePattern,
    /// The sections that it takes; `None` for a bare file name, which means all of them.
    pub sections: Option<Vec<SectionPattern>>,
}

/// Bits of `sh_flags` that a section must have and must not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SectionFlags {
    /// All of these are set.
    pub with: u64,
    /// None of these is set.
    pub without: u64,
}

impl SectionFlags {
    /// Whether a section with these `sh_flags` fits.
    pub fn accepts(self, sh_flags: u64) -> bool {
        sh_flags & self.with == self.with && sh_flags & self.without == 0
    }
}

/// A pattern for file names. A colon separates archive and member: `lib.a:` matches all members of
/// the archive, `lib.a:x.o` one member, `:x.o` a file that is in no archive. A pattern without a
/// colon is matched against the path of the file as given, or against the name of an archive member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilePattern {
    /// The pattern, with its colon if it has one.
    pub glob: Name,
    /// `EXCLUDE_FILE(…) file(…)`: files that do not match, whatever their name.
    pub exclude: Vec<Name>,
    /// `SORT(file)(…)`: the order of the files.
    pub sort: Sort,
}

/// A pattern for section names. `COMMON` stands for the common symbols.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SectionPattern {
    /// The pattern for the section's name.
    pub glob: Name,
    /// `EXCLUDE_FILE(…)` in front of it: files whose sections do not match.
    pub exclude: Vec<Name>,
    /// The order of the sections.
    pub sort: Sort,
}

/// The order that nested `SORT…` keywords ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sort {
    /// The outer key.
    pub first: SortKey,
    /// The inner key, for sections whose outer keys are equal.
    pub second: SortKey,
    /// `REVERSE(…)`: whether the order is reversed.
    pub reverse: bool,
}

/// The key to sort by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SortKey {
    /// No `SORT…`: the order of the link, or that of `--sort-section`.
    #[default]
    Default,
    /// `SORT_NONE`: the order of the link, whatever `--sort-section` says.
    None,
    /// `SORT_BY_NAME`, `SORT`: ascending.
    Name,
    /// `SORT_BY_ALIGNMENT`: descending.
    Alignment,
    /// `SORT_BY_INIT_PRIORITY`: by the number at the name's end, ascending.
    InitPriority,
}

/// One program header of `PHDRS { … }`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phdr {
    /// The whole line.
    pub span: Span,
    /// The name by which output sections refer to it.
    pub name: Name,
    /// The value of `p_type`; `PT_…` names are numbers already.
    pub kind: Expr,
    /// `FILEHDR`: whether the segment covers the ELF header.
    pub file_header: bool,
    /// `PHDRS`: whether the segment covers the program headers.
    pub program_headers: bool,
    /// `AT(address)`: the load address.
    pub load_address: Option<Expr>,
    /// `FLAGS(bits)`: the value of `p_flags`.
    pub flags: Option<Expr>,
}

/// One region of `MEMORY { … }`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryRegion {
    /// The whole line.
    pub span: Span,
    /// Name by which sections and expressions refer to it.
    pub name: Name,
    /// Of the sections that name no region, it takes those with these attributes.
    pub attributes: RegionAttributes,
    /// Its first address.
    pub origin: Expr,
    /// Its length in bytes.
    pub length: Expr,
}

/// The letters in parentheses after a region's name. A section that names no region goes to the first region
/// that lists one of its attributes in `with` and none of them in `without`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RegionAttributes {
    /// The letters before `!`.
    pub with: RegionLetters,
    /// The letters after `!`.
    pub without: RegionLetters,
}

/// Attributes of sections as region letters know them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RegionLetters {
    /// `r`: read-only.
    pub read_only: bool,
    /// `w`: writable.
    pub writable: bool,
    /// `x`: executable.
    pub executable: bool,
    /// `a`: allocated.
    pub allocated: bool,
    /// `i` and `l`: the section has contents in the file.
    pub loaded: bool,
}
