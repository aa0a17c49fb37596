//! Defines the symbols of scripts and `--defsym`, and reserved names.
//!
//! A plain assignment overrides any other definition of its symbol. The linker defines `PROVIDE` symbols and
//! the reserved names (`__ehdr_start`, `__start_NAME`, …) only if an object or an expression refers to them
//! and no object defines them. It also defines `PROVIDE` symbols and `__start_NAME` if only a library refers
//! to them, and a `PROVIDE` symbol if an option names it. `_DYNAMIC` is in every dynamic output. Values come
//! with the layout.

use crate::arch::Target;
use crate::cli::{BEHIND_A_HOOK, Config, Visibility};
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::ids::{SectionId, SymbolId};
use crate::input::object::SymbolPlace;
use crate::phase::{Directives, IdentifierSections, Inputs, SectionStates, Session};
use crate::plan::LayoutPlan;
use crate::script::expr::Expr;
use crate::script::fixed;
use crate::script::glob::Glob;
use crate::symbols::MentionedBy;
use crate::symbols::{Definition, Definitions, Globals};
use crate::symbols::{LinkerSymbol, LinkerSymbolOrigin, Reserved, start_stop};
use hashbrown::HashMap;
use parallel::{ParallelSlice, ParallelSort};

/// A symbol that a script or `--defsym` assigns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Assigned {
    /// The symbol.
    pub symbol: SymbolId,
    /// `PROVIDE`: defined only if something refers to it and no object defines it.
    pub provide: bool,
    /// Hidden visibility.
    pub hidden: bool,
    /// The symbol that is the whole value (`b` of `a = b`). The assigned symbol takes its type.
    pub source: Option<SymbolId>,
}

/// Names that do not come from objects, as globals.
#[derive(Default, Debug)]
pub struct OutsideNames {
    /// References for which archives are searched.
    pub wanted: Vec<SymbolId>,
    /// Definitions that satisfy references in the search: all assignments except `PROVIDE`.
    pub defined: Vec<SymbolId>,
    /// All assignments.
    pub symbols: Vec<Assigned>,
    /// `--wrap`: for a name, the name that libraries' references to it may also mean.
    pub wrappers: HashMap<SymbolId, SymbolId>,
    /// `--no-fortran-common`: common symbols take no members of archives.
    pub no_members_for_commons: bool,
}

/// Makes the names in options and scripts globals.
pub fn intern_names<'a>(
    directives: &Directives<'a>,
    plan: &LayoutPlan,
    globals: &mut Globals<'a>,
) -> OutsideNames {
    let Session { config, store, .. } = directives.session;
    let no_members_for_commons = config.search.no_members_for_commons;
    let mut outside_names = OutsideNames { no_members_for_commons, ..OutsideNames::default() };
    let symbols = &config.symbols;
    let entry = (!config.is_relocatable() || symbols.entry.is_some()).then_some(&directives.entry[..]);
    let named = symbols.undefined.iter().chain(&symbols.require_defined).map(Vec::as_slice);
    // The hooks do without it where the C library has none.
    let named = named.chain(config.unwind.links_runtime().then_some(BEHIND_A_HOOK.as_bytes()));
    let references = directives.script_references.iter().copied();
    let intern = |globals: &mut Globals<'a>, name: &[u8]| globals.intern(name, |name| store.keep(name));
    for name in entry.into_iter().filter(|name| !name.is_empty()).chain(named).chain(references) {
        outside_names.wanted.push(intern(globals, name));
    }
    let globs = undefined_globs(config);
    if !globs.is_empty() {
        let matching = globals.names.iter().enumerate().filter(|(_, name)| matches_any(&globs, name));
        outside_names.wanted.extend(matching.map(|(row, _)| SymbolId::from_index(row)));
    }
    if !config.is_relocatable() {
        for name in version_names(directives) {
            intern(globals, name);
        }
        intern(globals, b"_DYNAMIC");
        intern(globals, b"_GLOBAL_OFFSET_TABLE_");
    }
    for name in linker_names(plan) {
        intern(globals, name);
    }
    for symbol in plan.symbols() {
        let id = intern(globals, symbol.name);
        let source = symbol.source.map(|name| intern(globals, name));
        outside_names.symbols.push(Assigned {
            symbol: id,
            provide: symbol.provide,
            hidden: symbol.hidden,
            source,
        });
        if !symbol.provide {
            outside_names.defined.push(id);
        }
    }
    for name in &symbols.wrap {
        let wrapper = [b"__wrap_", &name[..]].concat();
        let (name, wrapper) = (intern(globals, name), intern(globals, &wrapper));
        outside_names.wrappers.insert(name, wrapper);
    }
    outside_names
}

/// The reserved names and `__start_NAME` symbols in expressions of scripts. The linker itself may define
/// these.
fn linker_names(plan: &LayoutPlan) -> impl Iterator<Item = &[u8]> {
    let names = plan.referenced_symbols(&|_| true).into_iter().map(|name| &name.bytes[..]);
    names.filter(|name| start_stop(name).is_some() || RESERVED.iter().any(|(reserved, _)| reserved == name))
}

/// Names of the versions that a dynamic output defines. Each becomes a symbol, as in GNU ld and gold.
fn version_names<'d>(directives: &'d Directives<'_>) -> impl Iterator<Item = &'d [u8]> {
    let config = directives.session.config;
    let own = config.symbols.default_symver.then(|| config.output_name());
    let nodes = directives.lists.version_script.nodes.iter();
    own.into_iter().chain(nodes.filter_map(|node| Some(&*node.name.as_ref()?.bytes)))
}

/// The patterns of `--undefined-glob`, compiled, because each is compared with every symbol.
pub fn undefined_globs(config: &Config) -> Vec<Glob> {
    config.symbols.undefined_globs.iter().map(|pattern| Glob::new(pattern)).collect()
}

/// Whether one of the patterns matches.
pub fn matches_any(globs: &[Glob], name: &[u8]) -> bool {
    globs.iter().any(|glob| glob.matches(name))
}

const RESERVED: &[(&[u8], Reserved)] = &[
    (b"_DYNAMIC", Reserved::Dynamic),
    (b"_GLOBAL_OFFSET_TABLE_", Reserved::GlobalOffsetTable),
    (b"__ehdr_start", Reserved::EhdrStart),
    (b"__dso_handle", Reserved::DsoHandle),
    (b"__GNU_EH_FRAME_HDR", Reserved::EhFrameHdr),
    (b"_TLS_MODULE_BASE_", Reserved::TlsModuleBase),
    (b"_PROCEDURE_LINKAGE_TABLE_", Reserved::ProcedureLinkageTable),
];

/// Finds the live sections `NAME` for those globals that are named `__start_NAME` or `__stop_NAME`.
pub fn find_identifier_sections<'a, T: Target>(
    inputs: &Inputs<'a, T>,
    sections: &SectionStates,
) -> IdentifierSections<'a> {
    let names = inputs.globals.names.par_iter().with_min_len(4096);
    let named: Vec<&[u8]> = names.filter_map(|&name| start_stop(name)).collect();
    let mut wanted: IdentifierSections<'a> = named.into_iter().map(|section| (section, Vec::new())).collect();
    if wanted.is_empty() {
        return wanted;
    }
    let found: Vec<(&[u8], SectionId)> = inputs
        .objects
        .par_iter()
        .flat_map_iter(|object| {
            let wanted = &wanted;
            object.special.iter().filter_map(move |&index| {
                let (name, id) = (object.section_name(index as usize), object.section_id(index));
                let identifier = name.first().is_some_and(|first| *first != b'.');
                (identifier && sections.is_alive(id) && wanted.contains_key(name)).then_some((name, id))
            })
        })
        .collect();
    for (name, id) in found {
        if let Some(sections) = wanted.get_mut(name) {
            sections.push(id);
        }
    }
    wanted.retain(|_, sections| !sections.is_empty());
    wanted
}

/// Defines linker symbols. Returns their table, and lets `definitions` name its rows.
pub fn run<T: Target>(
    inputs: &Inputs<'_, T>,
    plan: &LayoutPlan,
    assigned: &[Assigned],
    identifier_sections: &IdentifierSections<'_>,
    definitions: &mut Definitions,
) -> Vec<LinkerSymbol> {
    let mut in_expressions: Vec<SymbolId> =
        linker_names(plan).filter_map(|name| inputs.globals.lookup(name)).collect();
    in_expressions.sort_unstable();
    let mut definer = Definer { inputs, plan, in_expressions, definitions, symbols: Vec::new() };
    definer.define_assigned(assigned);
    if !inputs.config.is_relocatable() {
        definer.define_reserved();
        definer.define_start_stop(identifier_sections);
        definer.define_versions();
        definer.find_fixed();
        definer.check_required();
    }
    definer.symbols
}

struct Definer<'d, 'a, T: Target> {
    inputs: &'d Inputs<'a, T>,
    plan: &'d LayoutPlan,
    /// Symbols of [`linker_names`], sorted.
    in_expressions: Vec<SymbolId>,
    definitions: &'d mut Definitions,
    symbols: Vec<LinkerSymbol>,
}

/// The assignments of a symbol in scripts.
enum Assignee<'p> {
    /// Assignments outside of output sections' descriptions.
    Values(Vec<&'p Expr>),
    /// An assignment inside an output section's description, whose value is an offset there.
    Moves,
    /// The degree of the symbol's value. `None` if it is unknown, or if the search is still inside this
    /// symbol.
    Degree(Option<i32>),
}

/// Longest chain of symbols whose values are other symbols.
const CHAIN: u32 = 100;

impl<T: Target> Definer<'_, '_, T> {
    fn define_assigned(&mut self, assigned: &[Assigned]) {
        let named = self.provided_by_name(assigned);
        for assignment in assigned {
            if assignment.provide
                && !self.is_wanted_anywhere(assignment.symbol)
                && named.binary_search(&assignment.symbol).is_err()
            {
                continue;
            }
            let kind = assignment.source.map_or(elf::STT_NOTYPE, |source| self.kind_of(source));
            let row = self.define(assignment.symbol, LinkerSymbolOrigin::Assignment, assignment.hidden);
            self.symbols[row].kind = kind;
        }
    }

    fn define_reserved(&mut self) {
        for &(name, reserved) in RESERVED {
            if let Some(symbol) = self.inputs.globals.lookup(name)
                && (self.is_wanted(symbol)
                    || self.is_wanted_by_expression(symbol)
                    || self.is_always_there(reserved, symbol))
                && self.is_made(reserved)
            {
                self.define(symbol, LinkerSymbolOrigin::Reserved(reserved), true);
            }
        }
    }

    /// Defines a symbol for each version of the output, unless an object or a script defines that name.
    fn define_versions(&mut self) {
        if !self.inputs.is_dynamic() {
            return;
        }
        for name in version_names(&self.inputs.directives) {
            if let Some(symbol) = self.inputs.globals.lookup(name)
                && matches!(
                    self.definitions.definition(symbol),
                    Definition::Undefined | Definition::Shared { .. }
                )
            {
                let row = self.define(symbol, LinkerSymbolOrigin::Version, false);
                self.symbols[row].kind = elf::STT_OBJECT;
                self.symbols[row].fixed = true;
            }
        }
    }

    /// Finds the symbols whose values are absolute numbers in every layout.
    fn find_fixed(&mut self) {
        let mut assignees: HashMap<&[u8], Assignee<'_>> = HashMap::default();
        self.plan.for_each_placed_assignment(&mut |assignment, inside| {
            let assignee =
                assignees.entry(&assignment.target.bytes).or_insert_with(|| Assignee::Values(Vec::new()));
            match assignee {
                Assignee::Values(values) if !inside => values.push(&assignment.value),
                _ => *assignee = Assignee::Moves,
            }
        });
        let fixed: Vec<usize> = (0..self.symbols.len())
            .filter(|&row| {
                let symbol = self.symbols[row];
                symbol.origin == LinkerSymbolOrigin::Assignment
                    && self.degree(&mut assignees, self.inputs.globals.names[symbol.symbol.index()], CHAIN)
                        == Some(0)
            })
            .collect();
        for row in fixed {
            self.symbols[row].fixed = true;
        }
    }

    /// How often the load address counts in a symbol's value: 0 for an absolute number, 1 for an address.
    /// `None` if unknown.
    fn degree(&self, assignees: &mut HashMap<&[u8], Assignee<'_>>, name: &[u8], chain: u32) -> Option<i32> {
        let id = self.inputs.globals.lookup(name)?;
        match self.definitions.definition(id) {
            Definition::Object { file, symbol } => {
                let absolute =
                    self.inputs.objects[file.index()].symbol_place(symbol as usize) == SymbolPlace::Absolute;
                Some(if absolute { 0 } else { 1 })
            }
            Definition::Linker(row)
                if self.symbols[row as usize].origin == LinkerSymbolOrigin::Assignment =>
            {
                let assignee = assignees.get_mut(name)?;
                let values = match assignee {
                    Assignee::Degree(degree) => return *degree,
                    Assignee::Moves => return Some(1),
                    Assignee::Values(values) => std::mem::take(values),
                };
                // A value that depends on itself has no degree.
                *assignee = Assignee::Degree(None);
                let mut degrees = values.into_iter().map(|value| {
                    fixed::degree(value, &mut |name| self.degree(assignees, name, chain.checked_sub(1)?))
                });
                let first = degrees.next()?;
                let found = if degrees.all(|degree| degree == first) { first } else { Some(1) };
                if let Some(assignee) = assignees.get_mut(name) {
                    *assignee = Assignee::Degree(found);
                }
                found
            }
            Definition::Linker(_) => Some(1),
            _ => None,
        }
    }

    /// The `PROVIDE` symbols that no object defines and that the command line, `EXTERN` or an expression
    /// refers to, directly or through the values of other such symbols. Sorted.
    fn provided_by_name(&self, assigned: &[Assigned]) -> Vec<SymbolId> {
        let undefined = |id: SymbolId| {
            matches!(self.definitions.definition(id), Definition::Undefined | Definition::Shared { .. })
        };
        let mut provided: Vec<SymbolId> = assigned
            .iter()
            .filter(|assignment| assignment.provide && undefined(assignment.symbol))
            .map(|assignment| assignment.symbol)
            .collect();
        provided.sort_unstable();
        provided.dedup();
        if provided.is_empty() {
            return provided;
        }
        // If a provided symbol is needed, the symbols in its value are needed, too.
        let mut values: Vec<Vec<&Expr>> = vec![Vec::new(); provided.len()];
        let row_of = |name: &[u8]| provided.binary_search(&self.inputs.globals.lookup(name)?).ok();
        self.plan.for_each_placed_assignment(&mut |assignment, _| {
            if assignment.kind.is_provide()
                && let Some(row) = row_of(&assignment.target.bytes)
            {
                values[row].push(&assignment.value);
            }
        });
        let is_used =
            |name: &[u8]| self.inputs.globals.lookup(name).is_some_and(|id| self.is_wanted_anywhere(id));
        let referenced = self.plan.referenced_symbols(&is_used).into_iter().chain(&self.plan.undefined);
        let from_options = self.inputs.config.symbols.undefined.iter().map(Vec::as_slice);
        let names = referenced.map(|name| &name.bytes[..]).chain(from_options);
        let mut open: Vec<usize> = names.filter_map(row_of).collect();
        let mut wanted = vec![false; provided.len()];
        while let Some(row) = open.pop() {
            if !std::mem::replace(&mut wanted[row], true) {
                for value in &values[row] {
                    value.for_each_symbol(&mut |name| open.extend(row_of(&name.bytes)));
                }
            }
        }
        (0..provided.len()).filter(|&row| wanted[row]).map(|row| provided[row]).collect()
    }

    /// Whether this output can have a reserved symbol. Without a dynamic section, `_DYNAMIC` stays undefined;
    /// start-up code tests for that.
    fn is_made(&self, reserved: Reserved) -> bool {
        reserved != Reserved::Dynamic || self.inputs.is_dynamic()
    }

    /// Whether the output defines a reserved symbol that nobody refers to. `_DYNAMIC` is in the symbol table
    /// of every dynamic output, because debuggers expect it, and `_GLOBAL_OFFSET_TABLE_` in that of every
    /// output with a GOT. Whether there is one is known later, when the symbol can still be withdrawn.
    fn is_always_there(&self, reserved: Reserved, symbol: SymbolId) -> bool {
        let always = match reserved {
            Reserved::Dynamic => true,
            Reserved::GlobalOffsetTable => !self.inputs.config.is_relocatable(),
            _ => false,
        };
        always && self.is_open(symbol)
    }

    /// Whether an expression of the script asks for the symbol and no object defines it.
    fn is_wanted_by_expression(&self, symbol: SymbolId) -> bool {
        self.in_expressions.binary_search(&symbol).is_ok() && self.is_open(symbol)
    }

    /// Whether no object defines the symbol.
    fn is_open(&self, symbol: SymbolId) -> bool {
        matches!(self.definitions.definition(symbol), Definition::Undefined | Definition::Shared { .. })
    }

    /// Whether an object refers to the symbol and no object defines it.
    fn is_wanted(&self, symbol: SymbolId) -> bool {
        self.definitions.mentions(symbol).contains(MentionedBy::IN_OBJECT) && self.is_open(symbol)
    }

    /// Whether an object refers to the symbol and no object defines it, or a library refers to it and nothing
    /// defines it.
    fn is_wanted_anywhere(&self, symbol: SymbolId) -> bool {
        let only_in_library = self.definitions.mentions(symbol).contains(MentionedBy::IN_SHARED)
            && self.definitions.definition(symbol) == Definition::Undefined;
        only_in_library || self.is_wanted(symbol)
    }

    /// The type (`STT_*`) that a symbol passes on to a symbol assigned from it: the type of its definition.
    fn kind_of(&self, symbol: SymbolId) -> u8 {
        let kind = match self.definitions.definition(symbol) {
            Definition::Object { file, symbol } => {
                self.inputs.objects[file.index()].symbols[symbol as usize].kind()
            }
            Definition::Linker(row) => self.symbols[row as usize].kind,
            _ => elf::STT_NOTYPE,
        };
        let passes_on = [elf::STT_FUNC, elf::STT_OBJECT, elf::STT_GNU_IFUNC, elf::STT_TLS];
        if passes_on.contains(&kind) { kind } else { elf::STT_NOTYPE }
    }

    /// Makes the linker define a symbol. Returns the row.
    fn define(&mut self, symbol: SymbolId, origin: LinkerSymbolOrigin, hidden: bool) -> usize {
        if let Definition::Linker(row) = self.definitions.of[symbol.index()] {
            self.symbols[row as usize].hidden |= hidden;
            return row as usize;
        }
        let row = self.symbols.len() as u32;
        let overridden = self.definitions.of[symbol.index()];
        let kind = elf::STT_NOTYPE;
        self.symbols.push(LinkerSymbol { symbol, origin, hidden, fixed: false, kind, overridden });
        self.definitions.of[symbol.index()] = Definition::Linker(row);
        row as usize
    }

    /// Defines `__start_NAME` and `__stop_NAME` of sections whose names are C identifiers, with the
    /// visibility of `-z start-stop-visibility`.
    fn define_start_stop(&mut self, identifier_sections: &IdentifierSections<'_>) {
        let visibility = match self.inputs.config.symbols.start_stop_visibility {
            Visibility::Default => elf::STV_DEFAULT,
            Visibility::Internal => elf::STV_INTERNAL,
            Visibility::Hidden => elf::STV_HIDDEN,
            Visibility::Protected => elf::STV_PROTECTED,
        };
        let globals = &self.inputs.globals;
        let of_section = |section: &&[u8]| {
            let id = |prefix: &[u8]| globals.lookup(&[prefix, section].concat());
            let start = id(b"__start_").map(|id| (id, LinkerSymbolOrigin::Start));
            [start, id(b"__stop_").map(|id| (id, LinkerSymbolOrigin::Stop))]
        };
        let mut named: Vec<_> = identifier_sections.keys().flat_map(of_section).flatten().collect();
        named.par_sort_by_key(|&(id, _)| id);
        for (id, origin) in named {
            // A library that has such a section as well defines the name for itself alone, and a library
            // without one means the program's.
            let is_in_library =
                self.definitions.mentions(id).contains(MentionedBy::IN_SHARED) && self.is_open(id);
            if !is_in_library && !self.is_wanted(id) && !self.is_wanted_by_expression(id) {
                continue;
            }
            self.define(id, origin, false);
            let own = &mut self.definitions.visibility[id.index()];
            if *own == elf::STV_DEFAULT {
                *own = visibility;
            }
        }
    }

    /// `--require-defined`: reports names that nothing has defined in the end.
    fn check_required(&self) {
        for name in &self.inputs.config.symbols.require_defined {
            let defined = self
                .inputs
                .globals
                .lookup(name)
                .is_some_and(|id| self.definitions.definition(id) != Definition::Undefined);
            if !defined {
                self.inputs.sink.report_recoverable(
                    Diagnostic::error(
                        Code::UndefinedSymbol,
                        format!("required symbol `{}` is not defined", self.inputs.name_text(name)),
                    )
                    .help("--require-defined names it; add the file or library that defines it"),
                );
            }
        }
    }
}
