//! Symbols that the linker defines: assignments of scripts and `--defsym`, and reserved names.
//!
//! A plain assignment defines its symbol whatever else does. `PROVIDE` and the reserved names
//! (`_DYNAMIC`, `__ehdr_start`, `__start_NAME`, …) come into being only where an object refers to
//! them and no object defines them. Values come with the layout.

use crate::arch::Target;
use crate::cli::Visibility;
use crate::diag::demangle::demangle;
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::ids::{ChunkId, SectionId, SymbolId};
use crate::input::InputStore;
use crate::input::object::SymbolPlace;
use crate::link::{Link, LinkerSymbol, LinkerSymbolOrigin, Reserved};
use crate::passes::parse_inputs::ParsedInputs;
use crate::script::expr::Expr;
use crate::script::{fixed, glob};
use crate::symbols::{Definition, flag};
use hashbrown::HashMap;
use rayon::prelude::*;

/// A symbol that a script or `--defsym` assigns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Assigned {
    /// The symbol.
    pub symbol: SymbolId,
    /// `PROVIDE`: only where it is needed.
    pub provide: bool,
    /// Hidden visibility.
    pub hidden: bool,
    /// The one symbol that its value is made from: it has the same type.
    pub source: Option<SymbolId>,
}

/// Names from outside the objects, as globals.
#[derive(Default, Debug)]
pub struct Interned {
    /// References that archives are searched for.
    pub wanted: Vec<SymbolId>,
    /// Definitions that satisfy references.
    pub defined: Vec<SymbolId>,
    /// All assignments.
    pub symbols: Vec<Assigned>,
}

/// Makes globals of the names that the command line and scripts speak of.
pub fn intern_names<'a, T: Target>(link: &Link<'a, T>, parsed: &mut ParsedInputs<'a, T>) -> Interned {
    let mut interned = Interned::default();
    let symbols = &link.config.symbols;
    let entry = (!link.config.is_relocatable() || symbols.entry.is_some()).then_some(&link.entry[..]);
    let named = symbols.undefined.iter().chain(&symbols.require_defined).map(Vec::as_slice);
    let references = link.script_references.iter().copied();
    for name in entry.into_iter().filter(|name| !name.is_empty()).chain(named).chain(references) {
        interned.wanted.push(intern(link.store, parsed, name));
    }
    let globs = &symbols.undefined_globs;
    if !globs.is_empty() {
        let matching = parsed.names.iter().enumerate().filter(|(_, name)| matches_any(globs, name));
        interned.wanted.extend(matching.map(|(row, _)| SymbolId::from_index(row)));
    }
    for symbol in link.layout.plan.symbols() {
        let id = intern(link.store, parsed, symbol.name);
        let source = symbol.source.map(|name| intern(link.store, parsed, name));
        interned.symbols.push(Assigned {
            symbol: id,
            provide: symbol.provide,
            hidden: symbol.hidden,
            source,
        });
        if !symbol.provide {
            interned.defined.push(id);
        }
    }
    interned
}

fn intern<'a, T: Target>(store: &'a InputStore, parsed: &mut ParsedInputs<'a, T>, name: &[u8]) -> SymbolId {
    if let Some(id) = parsed.interner.get(name) {
        return id;
    }
    let name = store.keep(name);
    let (id, _) = parsed.interner.get_or_add(name);
    parsed.names.push(name);
    id
}

/// Whether one of the patterns of `--undefined-glob` matches.
pub fn matches_any(globs: &[Vec<u8>], name: &[u8]) -> bool {
    globs.iter().any(|pattern| glob::matches(pattern, name))
}

const RESERVED: &[(&[u8], Reserved)] = &[
    (b"_DYNAMIC", Reserved::Dynamic),
    (b"_GLOBAL_OFFSET_TABLE_", Reserved::GlobalOffsetTable),
    (b"__ehdr_start", Reserved::EhdrStart),
    (b"__GNU_EH_FRAME_HDR", Reserved::EhFrameHdr),
    (b"_TLS_MODULE_BASE_", Reserved::TlsModuleBase),
    (b"_PROCEDURE_LINKAGE_TABLE_", Reserved::ProcedureLinkageTable),
];

/// Finds the sections that `__start_NAME` and `__stop_NAME` symbols speak of.
pub fn find_identifier_sections<T: Target>(link: &mut Link<'_, T>) {
    for id in link.symbols.globals() {
        if let Some((section, _)) = start_stop(link.symbols.names[id.index()]) {
            link.identifier_sections.entry(section).or_default();
        }
    }
    if link.identifier_sections.is_empty() {
        return;
    }
    let wanted = &link.identifier_sections;
    let found: Vec<(&[u8], SectionId)> = link
        .objects
        .par_iter()
        .flat_map_iter(|object| {
            object.section_ids().enumerate().filter_map(|(index, id)| {
                let name = object.section_name(index);
                let identifier = name.first().is_some_and(|first| *first != b'.');
                (identifier && link.sections.is_alive(id) && wanted.contains_key(name)).then_some((name, id))
            })
        })
        .collect();
    for (name, id) in found {
        if let Some(sections) = link.identifier_sections.get_mut(name) {
            sections.push(id);
        }
    }
    link.identifier_sections.retain(|_, sections| !sections.is_empty());
}

/// Defines them.
pub fn run<T: Target>(link: &mut Link<'_, T>, assigned: &[Assigned]) {
    let named = provided_by_name(link, assigned);
    for assignment in assigned {
        if assignment.provide
            && !is_wanted(link, assignment.symbol)
            && named.binary_search(&assignment.symbol).is_err()
        {
            continue;
        }
        let kind = assignment.source.map_or(elf::STT_NOTYPE, |source| kind_of(link, source));
        let row = define(link, assignment.symbol, LinkerSymbolOrigin::Assignment, assignment.hidden);
        link.linker_symbols[row].kind = kind;
    }
    if link.config.is_relocatable() {
        return;
    }
    for &(name, reserved) in RESERVED {
        if let Some(symbol) = link.symbols.lookup(name)
            && is_wanted(link, symbol)
            && is_made(link, reserved)
        {
            define(link, symbol, LinkerSymbolOrigin::Reserved(reserved), true);
        }
    }
    define_start_stop(link);
    find_fixed(link);
    check_required(link);
}

/// What scripts say a symbol is.
#[derive(Clone, Copy)]
enum Assignee<'p> {
    /// One value, outside of output sections' descriptions.
    Once(&'p Expr),
    /// A value inside one, which is an offset there, or several values.
    Moves,
    /// A value that is being found, or was.
    Degree(Option<i32>),
}

/// Symbols whose values are other symbols are followed so far.
const CHAIN: u32 = 100;

/// Finds the symbols whose values are numbers, whatever the layout will be.
fn find_fixed<T: Target>(link: &mut Link<'_, T>) {
    let mut assignees: HashMap<&[u8], Assignee<'_>> = HashMap::default();
    link.layout.plan.for_each_placed_assignment(&mut |assignment, inside| {
        let once = if inside { Assignee::Moves } else { Assignee::Once(&assignment.value) };
        assignees.entry(&assignment.target.bytes).and_modify(|old| *old = Assignee::Moves).or_insert(once);
    });
    let fixed: Vec<usize> = (0..link.linker_symbols.len())
        .filter(|&row| {
            let symbol = link.linker_symbols[row];
            symbol.origin == LinkerSymbolOrigin::Assignment
                && degree(link, &mut assignees, link.symbols.names[symbol.symbol.index()], CHAIN) == Some(0)
        })
        .collect();
    for row in fixed {
        link.linker_symbols[row].fixed = true;
    }
}

/// How often the load address counts in a symbol's value, if that can be said.
fn degree<T: Target>(
    link: &Link<'_, T>,
    assignees: &mut HashMap<&[u8], Assignee<'_>>,
    name: &[u8],
    chain: u32,
) -> Option<i32> {
    let id = link.symbols.lookup(name)?;
    match link.symbols.definition(id) {
        Definition::Object { file, symbol } => {
            let absolute = link.objects[file.index()].symbol_place(symbol as usize) == SymbolPlace::Absolute;
            Some(if absolute { 0 } else { 1 })
        }
        Definition::Linker(row)
            if link.linker_symbols[row as usize].origin == LinkerSymbolOrigin::Assignment =>
        {
            let assignee = assignees.get_mut(name)?;
            let expr = match *assignee {
                Assignee::Degree(degree) => return degree,
                Assignee::Moves => return Some(1),
                Assignee::Once(expr) => expr,
            };
            // A value that needs itself has none.
            *assignee = Assignee::Degree(None);
            let found = fixed::degree(expr, &mut |name| degree(link, assignees, name, chain.checked_sub(1)?));
            if let Some(assignee) = assignees.get_mut(name) {
                *assignee = Assignee::Degree(found);
            }
            found
        }
        Definition::Linker(_) => Some(1),
        _ => None,
    }
}

/// Provided symbols that no object defines and that not an object but the command line or another
/// expression of the script asks for. Sorted.
fn provided_by_name<T: Target>(link: &Link<'_, T>, assigned: &[Assigned]) -> Vec<SymbolId> {
    let undefined = |id: SymbolId| {
        matches!(link.symbols.definition(id), Definition::Undefined | Definition::Shared { .. })
    };
    let mut provided: Vec<SymbolId> = assigned
        .iter()
        .filter(|assignment| assignment.provide && undefined(assignment.symbol))
        .map(|assignment| assignment.symbol)
        .collect();
    provided.sort_unstable();
    let mut wanted: Vec<SymbolId> = Vec::new();
    if provided.is_empty() {
        return wanted;
    }
    // The value of a provided symbol counts if the symbol does, so this may take several rounds.
    loop {
        let before = wanted.len();
        let is_used = |name: &[u8]| {
            let id = link.symbols.lookup(name);
            id.is_some_and(|id| wanted.binary_search(&id).is_ok() || is_wanted(link, id))
        };
        let referenced = link.layout.plan.referenced_symbols(&is_used);
        let from_options = link.config.symbols.undefined.iter().map(Vec::as_slice);
        let mut found: Vec<SymbolId> = referenced
            .iter()
            .map(|name| &name.bytes[..])
            .chain(from_options)
            .filter_map(|name| link.symbols.lookup(name))
            .filter(|id| provided.binary_search(id).is_ok())
            .collect();
        found.sort_unstable();
        found.dedup();
        wanted = found;
        if wanted.len() == before {
            return wanted;
        }
    }
}

/// A static executable has no dynamic section: a weak reference to `_DYNAMIC` stays undefined.
fn is_made<T: Target>(link: &Link<'_, T>, reserved: Reserved) -> bool {
    reserved != Reserved::Dynamic || link.is_dynamic()
}

/// An object refers to it, and no object defines it.
fn is_wanted<T: Target>(link: &Link<'_, T>, symbol: SymbolId) -> bool {
    link.symbols.flags(symbol) & flag::IN_OBJECT != 0
        && matches!(link.symbols.definition(symbol), Definition::Undefined | Definition::Shared { .. })
}

/// Whether a symbol is a function or a variable, as far as objects or the script say.
fn kind_of<T: Target>(link: &Link<'_, T>, symbol: SymbolId) -> u8 {
    let kind = match link.symbols.definition(symbol) {
        Definition::Object { file, symbol } => link.objects[file.index()].symbols[symbol as usize].kind(),
        Definition::Linker(row) => link.linker_symbols[row as usize].kind,
        _ => elf::STT_NOTYPE,
    };
    if matches!(kind, elf::STT_FUNC | elf::STT_OBJECT) { kind } else { elf::STT_NOTYPE }
}

/// Makes the linker define a symbol; gives its row.
fn define<T: Target>(
    link: &mut Link<'_, T>,
    symbol: SymbolId,
    origin: LinkerSymbolOrigin,
    hidden: bool,
) -> usize {
    if let Definition::Linker(row) = link.symbols.definitions[symbol.index()] {
        link.linker_symbols[row as usize].hidden |= hidden;
        return row as usize;
    }
    let row = link.linker_symbols.len() as u32;
    let overridden = link.symbols.definitions[symbol.index()];
    let kind = elf::STT_NOTYPE;
    let chunk = ChunkId::NONE;
    link.linker_symbols.push(LinkerSymbol {
        symbol,
        origin,
        chunk,
        value: 0,
        hidden,
        fixed: false,
        kind,
        overridden,
    });
    link.symbols.definitions[symbol.index()] = Definition::Linker(row);
    row as usize
}

/// `__start_NAME` and `__stop_NAME` of sections whose names are C identifiers, with the visibility
/// that `-z start-stop-visibility` says.
fn define_start_stop<T: Target>(link: &mut Link<'_, T>) {
    let visibility = match link.config.symbols.start_stop_visibility {
        Visibility::Default => elf::STV_DEFAULT,
        Visibility::Internal => elf::STV_INTERNAL,
        Visibility::Hidden => elf::STV_HIDDEN,
        Visibility::Protected => elf::STV_PROTECTED,
    };
    for id in link.symbols.globals() {
        let Some((section, start)) = start_stop(link.symbols.names[id.index()]) else { continue };
        if !is_wanted(link, id) || !link.identifier_sections.contains_key(section) {
            continue;
        }
        let origin = if start { LinkerSymbolOrigin::Start } else { LinkerSymbolOrigin::Stop };
        define(link, id, origin, false);
        let own = &mut link.symbols.visibility[id.index()];
        if *own == elf::STV_DEFAULT {
            *own = visibility;
        }
    }
}

/// `--require-defined`: names that must be defined in the end.
fn check_required<T: Target>(link: &Link<'_, T>) {
    for name in &link.config.symbols.require_defined {
        let defined =
            link.symbols.lookup(name).is_some_and(|id| link.symbols.definition(id) != Definition::Undefined);
        if !defined {
            link.sink.report_recoverable(
                Diagnostic::error(
                    Code::UndefinedSymbol,
                    format!("required symbol `{}` is not defined", demangle(name)),
                )
                .help("--require-defined names it; add the file or library that defines it"),
            );
        }
    }
}

/// The section that a `__start_` (true) or `__stop_` (false) name speaks of.
pub fn start_stop(name: &[u8]) -> Option<(&[u8], bool)> {
    if let Some(section) = name.strip_prefix(b"__start_") {
        return is_identifier(section).then_some((section, true));
    }
    let section = name.strip_prefix(b"__stop_")?;
    is_identifier(section).then_some((section, false))
}

/// Whether a section name can stand in a C identifier.
pub fn is_identifier(name: &[u8]) -> bool {
    name.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_')
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
