//! The description of a random program: units (objects) with their homes, entities that the units define, and
//! observations that the units make of them. `assembly` and `c` write it, and `link` links it.

use super::compiled::Compiled;
use super::dialect::{Field, Form, Word};
use crate::machine::Machine;

/// Where the object of a unit goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// To the command line of the program.
    Program,
    /// Into an archive.
    Archive,
    /// Into a shared library.
    Library(usize),
}

impl Home {
    /// The number of the loaded file: 0 is the program, then the libraries follow.
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
    /// The unit that contains it.
    pub unit: usize,
    /// Whether it is weak.
    pub weak: bool,
    /// The number that identifies it.
    pub value: u64,
}

/// The kinds of entities.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A function that returns its number, plus the result of a callee.
    Function { callee: Option<(usize, &'static Form)> },
    /// A function that replaces another function (`--wrap`) and calls it.
    Wrapper { of: usize },
    /// A function of a library with two versions; the newer one is the default.
    Versioned,
    /// A function that is chosen when the program starts.
    Ifunc,
    /// Words of data; the section's name says whether the program may write them.
    Data { words: usize, section: String, align: usize },
    /// Zeros.
    Bss { size: usize, align: usize },
    /// `STT_COMMON`.
    Common { size: usize, align: usize },
    /// A thread-local variable: words in the TLS image, or zeros.
    Tls { words: usize, zero: bool, align: usize },
    /// A text in a merged section.
    Text { text: String, section: String },
    /// A word that refers to another entity.
    Pointer { word: &'static Word, target: usize, addend: usize, section: String },
    /// An absolute symbol.
    Absolute { value: i64 },
    /// A field that contains a number or a size.
    Holder { field: &'static Form, target: usize },
    /// Another name for an entity, which the assembler or an option makes.
    Alias { of: usize, by_option: bool },
    /// A weak reference without a definition.
    Missing,
}

/// A symbol and its definitions.
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
    /// Whether the definitions are in COMDAT groups with its name.
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
    /// The difference between two ways to form the same address.
    Same(usize, &'static Form, &'static Form),
    /// The alignment of an address.
    Aligned(usize, usize, &'static Form),
    /// The target of a word, which is read or called: the word, and a form for its address.
    Follow(usize, &'static Form),
    /// A number.
    Number(usize, &'static Field),
    /// Whether the address of a symbol without a definition is 0.
    Missing(usize, &'static Form),
    /// The words of a section whose name is a C identifier.
    Range(String, &'static Form),
    /// The words between the symbols that a linker script defines; none if there is no such script.
    Table(&'static Form),
    /// The number that a linker script defines; 0 if there is no such script.
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
    /// Where its object goes.
    pub home: Home,
    /// Whether its code has fixed addresses.
    pub fixed: bool,
    /// Its observations in order, each with the number of its note.
    pub acts: Vec<(usize, Act)>,
    /// Its constructors and destructors, with their numbers.
    pub runners: Vec<(usize, Runner)>,
    /// Words that it adds to sections whose names are C identifiers.
    pub set_words: Vec<(String, u64)>,
    /// Words that it adds to sections that linker scripts sort: the end of the section's name, and the word.
    pub table_words: Vec<(String, u64)>,
    /// Whether each function has its own section.
    pub function_sections: bool,
    /// How to compile it as C; `None` for a unit in assembly.
    pub compiled: Option<Compiled>,
}

/// What objects for link-time optimization contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lto {
    /// Only intermediate code.
    Slim,
    /// Also machine code, for linkers without the plugin.
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
    /// Whether it can also be linked without shared libraries; then no symbol has two definitions.
    pub joinable: bool,
    /// Whether the assembler writes `.sframe`.
    pub framed: bool,
    /// Options that the program needs: `--defsym`, `--wrap`.
    pub options: Vec<String>,
    /// Whether the first library has symbol versions.
    pub versioned: bool,
    /// Its version script.
    pub versions: String,
    /// Link-time optimization for some C units.
    pub lto: Option<Lto>,
    /// Whether linker scripts are used and the program notes what they define.
    pub scripted: bool,
    /// Whether units with COMDAT groups have a `.sframe` for each text section, in its group. Otherwise the
    /// assembler writes one for the whole unit, and the linker has to drop the rows of dropped functions from
    /// it.
    pub split_frames: bool,
}

impl Program {
    /// The kind of an entity; for an alias, that of its target.
    pub fn kind(&self, entity: usize) -> &Kind {
        match &self.entities[entity].kind {
            Kind::Alias { of, .. } => self.kind(*of),
            kind => kind,
        }
    }

    /// Whether the entity is code that can be called.
    pub fn is_function(&self, entity: usize) -> bool {
        matches!(
            self.kind(entity),
            Kind::Function { .. } | Kind::Ifunc | Kind::Wrapper { .. } | Kind::Versioned
        )
    }

    /// Whether the link compiles a part of it.
    pub fn is_optimized(&self) -> bool {
        self.units.iter().any(|unit| unit.compiled.as_ref().is_some_and(|it| it.lto))
    }

    /// Whether it has COMDAT groups.
    pub fn has_groups(&self) -> bool {
        self.entities.iter().any(|entity| entity.group)
    }

    /// Whether a unit writes its own `.sframe` sections; a unit of C then has none.
    pub fn writes_frames(&self, unit: usize) -> bool {
        let grouped = |entity: &Entity| entity.group && entity.definitions.iter().any(|it| it.unit == unit);
        self.framed && self.split_frames && self.entities.iter().any(grouped)
    }

    /// The module with the first definition.
    pub fn module(&self, entity: usize) -> Option<usize> {
        let definition = self.entities[entity].definitions.first()?;
        Some(self.units[definition.unit].home.module())
    }
}
