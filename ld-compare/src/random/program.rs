//! The description of a random program: units (objects) with their homes, entities that they define, and
//! observations that they make of them. Assembly is written from it (`assembly`), and links (`link`).

use super::compiled::Compiled;
use super::dialect::{Field, Form, Word};
use crate::machine::Machine;

/// Where a unit's object goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The command line of the program.
    Program,
    /// An archive.
    Archive,
    /// A shared library.
    Library(usize),
}

impl Home {
    /// The number of the loaded file: 0 for the program, then the libraries.
    pub fn module(self) -> usize {
        match self {
            Home::Program | Home::Archive => 0,
            Home::Library(number) => number + 1,
        }
    }
}

/// The visibility of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `STB_LOCAL`.
    Local,
    /// Default visibility.
    Default,
    /// `STV_HIDDEN`.
    Hidden,
    /// `STV_PROTECTED`.
    Protected,
}

/// A definition of a symbol.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// The unit that has it.
    pub unit: usize,
    /// Whether it gives way to others.
    pub weak: bool,
    /// The number that tells it from others.
    pub value: u64,
}

/// The kinds of entities.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A function that returns its number, plus the result of a callee.
    Function { callee: Option<(usize, &'static Form)> },
    /// A function that is called instead of another function (`--wrap`), and calls it.
    Wrapper { of: usize },
    /// A function of two versions in a library; the newer is the default.
    Versioned,
    /// A function chosen when the program starts.
    Ifunc,
    /// Words of data; the section's name says whether it is written.
    Data { words: usize, section: String, align: usize },
    /// Zeros.
    Bss { size: usize, align: usize },
    /// `STT_COMMON`.
    Common { size: usize, align: usize },
    /// A thread-local variable, of words in the TLS image or of zeros.
    Tls { words: usize, zero: bool, align: usize },
    /// A text in a merged section.
    Text { text: String, section: String },
    /// A word that leads to another entity.
    Pointer { word: &'static Word, target: usize, addend: usize, section: String },
    /// An absolute symbol.
    Absolute { value: i64 },
    /// A field that holds a number or a size.
    Holder { field: &'static Form, target: usize },
    /// Another name of an entity, which the assembler or an option makes.
    Alias { of: usize, by_option: bool },
    /// A weak reference without a definition.
    Missing,
}

/// A symbol with its definitions.
#[derive(Clone, Debug)]
pub struct Entity {
    /// Its symbol.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its visibility.
    pub scope: Scope,
    /// All definitions.
    pub definitions: Vec<Definition>,
    /// Whether definitions are in COMDAT groups of the same name.
    pub group: bool,
}

/// An observation that a unit makes.
#[derive(Clone, Debug)]
pub enum Act {
    /// The result of a call.
    Call(usize, &'static Form),
    /// The result of a call through an address.
    CallThrough(usize, &'static Form),
    /// A word of data, at an offset in bytes.
    Load(usize, usize, &'static Form),
    /// A text.
    Text(usize, &'static Form),
    /// A word of a thread-local variable.
    Tls(usize, usize, &'static Form),
    /// Stores a number in a word of data, for later loads.
    Store(usize, usize, &'static Form, u64),
    /// The result of a call of an older version.
    CallOld(usize, &'static Form),
    /// The difference of two ways to form the same address.
    Same(usize, &'static Form, &'static Form),
    /// The alignment of an address.
    Aligned(usize, usize, &'static Form),
    /// The target of a word, which is read or called: the word, a form of its address.
    Follow(usize, &'static Form),
    /// A number.
    Number(usize, &'static Field),
    /// Whether a symbol without a definition has address 0.
    Missing(usize, &'static Form),
    /// The words of a section that has a C identifier as its name.
    Range(String, &'static Form),
    /// The words between the symbols that a linker script defines; none without such a script.
    Table(&'static Form),
    /// The number that a linker script defines; 0 without such a script.
    TableSize(&'static Form),
}

/// An array of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Array {
    /// `.preinit_array`
    Preinit,
    /// `.init_array`
    Init,
    /// `.fini_array`
    Fini,
}

/// A function that notes its number when it runs.
#[derive(Clone, Copy, Debug)]
pub struct Runner {
    /// The array.
    pub array: Array,
    /// The priority, if it has one.
    pub priority: Option<u16>,
}

/// An object.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Where it goes.
    pub home: Home,
    /// Whether its code has fixed addresses.
    pub fixed: bool,
    /// Its observations in order, with the numbers of the notes.
    pub acts: Vec<(usize, Act)>,
    /// Constructors and destructors, with numbers.
    pub runners: Vec<(usize, Runner)>,
    /// Words that it adds to sections with C identifiers as names.
    pub set_words: Vec<(String, u64)>,
    /// Words that it adds to sections that linker scripts sort: the end of the section's name, and the word.
    pub table_words: Vec<(String, u64)>,
    /// Sections of their own for functions.
    pub function_sections: bool,
    /// How its C is compiled; it is written in assembly if there is nothing here.
    pub compiled: Option<Compiled>,
}

/// What the objects of link-time optimization hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lto {
    /// Intermediate code alone.
    Slim,
    /// Machine code too, for linkers without the plugin.
    Fat,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// The machine.
    pub machine: Machine,
    /// The seed that it was made from.
    pub seed: u64,
    /// Whether the program's own code has fixed addresses.
    pub fixed: bool,
    /// Objects.
    pub units: Vec<Unit>,
    /// Number of shared libraries.
    pub libraries: usize,
    /// Everything with a name.
    pub entities: Vec<Entity>,
    /// Whether it can be linked without shared libraries too: no symbol is defined twice then.
    pub joinable: bool,
    /// Whether the assembler writes `.sframe`.
    pub framed: bool,
    /// Options that belong to the program: `--defsym`, `--wrap`.
    pub options: Vec<String>,
    /// Whether the first library has symbol versions.
    pub versioned: bool,
    /// Its version script.
    pub versions: String,
    /// Link-time optimization of some C units.
    pub lto: Option<Lto>,
    /// Whether it is linked by linker scripts, and notes what they define.
    pub scripted: bool,
    /// Whether units with COMDAT groups have a `.sframe` for each text section, in its group. Otherwise the
    /// assembler writes one for all of a unit, whose rows of dropped functions the linker has to drop.
    pub split_frames: bool,
}

impl Program {
    /// The kind of an entity, through aliases.
    pub fn kind(&self, entity: usize) -> &Kind {
        match &self.entities[entity].kind {
            Kind::Alias { of, .. } => self.kind(*of),
            kind => kind,
        }
    }

    /// Whether calls reach code there.
    pub fn is_function(&self, entity: usize) -> bool {
        matches!(
            self.kind(entity),
            Kind::Function { .. } | Kind::Ifunc | Kind::Wrapper { .. } | Kind::Versioned
        )
    }

    /// Whether the link compiles some of it.
    pub fn is_optimized(&self) -> bool {
        self.units.iter().any(|unit| unit.compiled.as_ref().is_some_and(|it| it.lto))
    }

    /// Whether it has COMDAT groups.
    pub fn has_groups(&self) -> bool {
        self.entities.iter().any(|entity| entity.group)
    }

    /// Whether a unit writes its `.sframe` sections itself; one of C has none then.
    pub fn writes_frames(&self, unit: usize) -> bool {
        let grouped = |entity: &Entity| entity.group && entity.definitions.iter().any(|it| it.unit == unit);
        self.framed && self.split_frames && self.entities.iter().any(grouped)
    }

    /// The module of the first definition.
    pub fn module(&self, entity: usize) -> Option<usize> {
        let definition = self.entities[entity].definitions.first()?;
        Some(self.units[definition.unit].home.module())
    }
}
