//! The symbols and output sections that a script names, and where each symbol's value comes from.

use super::circular::need_themselves;
use crate::arch::Target;
use crate::ids::{OutputId, SectionId, SymbolId};
use crate::input::object::SymbolPlace;
use crate::phase::Contents;
use crate::phase::SectionState;
use crate::plan::LayoutPlan;
use crate::script::eval::Value;
use crate::symbols::{Definition, LinkerSymbolOrigin, Needs, Reserved, SymbolFlags};
use crate::tables::section::Kind;
use hashbrown::HashMap;

/// Where a symbol's value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Assignments of the script. If the output has the symbol, with its row among linker-defined symbols.
    Script(Option<u32>),
    /// An offset in a section that is laid out.
    Section(SectionId, u64),
    /// A number.
    Number(u64),
    /// The start (false) or end (true) of an output section.
    Edge(OutputId, bool),
    /// The file header, if it is loaded.
    Headers,
    /// A section that is not laid out.
    Discarded,
    /// Nowhere: it has no definition.
    Undefined,
}

/// A symbol that the script assigns or asks for.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Where its value comes from.
    pub source: Source,
    /// The value that this round has assigned; `None` before the assignment.
    pub value: Option<Value>,
    /// The output section to which the symbol belongs, if its value changes with the load address.
    pub anchor: Option<OutputId>,
    /// Whether the script asks for an absolute symbol: the value is an `ABSOLUTE(…)`.
    pub absolute: bool,
    /// The value at the end of the round before.
    pub previous: Option<Value>,
    /// An object's definition that the script's assignment overrides.
    pub in_objects: Option<InObject>,
    /// Whether its assignments lead back to it (`circular`).
    pub needs_itself: bool,
}

impl Entry {
    /// The value of the round before, unless it would grow from round to round.
    pub fn settled(&self) -> Option<Value> {
        self.previous.filter(|_| !self.needs_itself)
    }
}

/// A definition in an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InObject {
    /// An offset in a section that is laid out.
    Section(SectionId, u64),
    /// A number.
    Number(u64),
    /// A common block, which gets no place.
    Common,
}

type Names<'p, Row> = HashMap<&'p [u8], Row, foldhash::fast::FixedState>;

/// The symbols of a plan.
#[derive(Default)]
pub struct Symbols<'p> {
    rows: Names<'p, u32>,
    /// One entry for each name, in order of first mention.
    pub entries: Vec<Entry>,
    /// Names of `entries`.
    pub names: Vec<&'p [u8]>,
}

impl<'p> Symbols<'p> {
    /// Finds out where the value of each name in the plan comes from.
    pub fn new<T: Target>(link: &Contents<'_, T>, plan: &'p LayoutPlan, outputs: &OutputNames<'p>) -> Self {
        let mut symbols = Symbols::default();
        for symbol in plan.symbols() {
            let source = match source(link, outputs, symbol.name) {
                // Nothing wants what it would provide.
                Source::Undefined if symbol.provide => Source::Undefined,
                Source::Undefined | Source::Discarded => Source::Script(None),
                found if symbol.provide => found,
                found @ Source::Script(_) => found,
                _ => Source::Script(None),
            };
            symbols.add(symbol.name, source);
            if let Some(entry) = symbols.entries.last_mut() {
                entry.in_objects = overridden(link, symbol.name);
            }
        }
        if symbols.entries.iter().any(|entry| entry.in_objects.is_some()) {
            let circular = need_themselves(plan, &symbols.names);
            symbols.entries.iter_mut().zip(circular).for_each(|(entry, needs)| entry.needs_itself = needs);
        }
        plan.for_each_expression(&mut |expr| {
            expr.for_each_symbol(&mut |name| {
                if !symbols.rows.contains_key(&*name.bytes) {
                    symbols.add(&name.bytes, source(link, outputs, &name.bytes));
                }
            });
            for_each_defined(expr, &mut |name| {
                if !symbols.rows.contains_key(name) {
                    symbols.add(name, source(link, outputs, name));
                }
            });
        });
        symbols
    }

    /// The symbols of a plan without objects, for tests of the engine.
    #[cfg(test)]
    pub fn of_script(plan: &'p LayoutPlan) -> Self {
        let mut symbols = Symbols::default();
        for symbol in plan.symbols() {
            symbols.add(symbol.name, Source::Script(None));
        }
        symbols
    }

    fn add(&mut self, name: &'p [u8], source: Source) {
        self.rows.insert(name, self.entries.len() as u32);
        self.entries.push(Entry {
            source,
            value: None,
            anchor: None,
            absolute: false,
            previous: None,
            in_objects: None,
            needs_itself: false,
        });
        self.names.push(name);
    }

    /// Row of a name.
    pub fn row(&self, name: &[u8]) -> Option<u32> {
        self.rows.get(name).copied()
    }
}

/// Names inside `DEFINED(…)`.
fn for_each_defined<'e>(expr: &'e crate::script::expr::Expr, visit: &mut dyn FnMut(&'e [u8])) {
    if let crate::script::expr::ExprKind::Defined(name) = &expr.kind {
        visit(&name.bytes);
    }
    for operand in expr.operands() {
        for_each_defined(operand, visit);
    }
}

fn source<T: Target>(link: &Contents<'_, T>, outputs: &OutputNames<'_>, name: &[u8]) -> Source {
    let Some(id) = link.globals.lookup(name) else { return Source::Undefined };
    match link.definition(id) {
        Definition::Linker(row) => linker_source(link, outputs, name, row),
        Definition::Object { file, symbol } => {
            if let Some(common) = link.common_place(id) {
                return section_source(link, common.section, common.offset);
            }
            let object = &link.objects[file.index()];
            match object.symbol_place(symbol as usize) {
                SymbolPlace::Absolute => Source::Number(object.symbols[symbol as usize].st_value.get()),
                SymbolPlace::Section(_) => match link.symbol_section(id) {
                    Some((section, offset)) => section_source(link, section, offset),
                    None => Source::Discarded,
                },
                SymbolPlace::Common if link.symbol_flags(id).contains(SymbolFlags::DISCARDED) => {
                    Source::Discarded
                }
                SymbolPlace::Undefined | SymbolPlace::Common => Source::Undefined,
            }
        }
        Definition::Shared { .. } => library_source(link, id),
        Definition::Undefined => Source::Undefined,
    }
}

/// Where the value of a library's symbol comes from: its copy or its canonical PLT entry in this program.
/// Without either, the symbol is undefined.
fn library_source<T: Target>(link: &Contents<'_, T>, id: SymbolId) -> Source {
    let needs = link.symbol_needs(id);
    let place = link.row(id).and_then(|row| {
        if needs.contains(Needs::COPY) {
            link.copy_place(row)
        } else if needs.contains(Needs::CANONICAL_PLT) {
            link.plt_place(row)
        } else {
            None
        }
    });
    let Some((kind, offset)) = place else { return Source::Undefined };
    let section = link.synthetics.find(kind);
    section.map_or(Source::Undefined, |section| section_source(link, link.synthetic_id(section), offset))
}

/// The definition in an object that an assignment of the script overrides.
fn overridden<T: Target>(link: &Contents<'_, T>, name: &[u8]) -> Option<InObject> {
    let Definition::Linker(row) = link.definition(link.globals.lookup(name)?) else { return None };
    let Definition::Object { file, symbol } = link.linker_symbols[row as usize].overridden else {
        return None;
    };
    let object = &link.objects[file.index()];
    match object.symbol_place(symbol as usize) {
        SymbolPlace::Absolute => Some(InObject::Number(object.symbols[symbol as usize].st_value.get())),
        SymbolPlace::Section(_) => {
            let (section, offset) = object.symbol_section(symbol)?;
            match section_source(link, section, offset) {
                Source::Section(section, offset) => Some(InObject::Section(section, offset)),
                _ => None,
            }
        }
        SymbolPlace::Common => Some(InObject::Common),
        SymbolPlace::Undefined => None,
    }
}

fn linker_source<T: Target>(
    link: &Contents<'_, T>,
    outputs: &OutputNames<'_>,
    name: &[u8],
    row: u32,
) -> Source {
    let edge = |prefix: &[u8], stop| {
        let section = name.strip_prefix(prefix).and_then(|section| outputs.find(section));
        section.map_or(Source::Undefined, |output| Source::Edge(output, stop))
    };
    match link.linker_symbols[row as usize].origin {
        LinkerSymbolOrigin::Assignment => Source::Script(Some(row)),
        LinkerSymbolOrigin::Version => Source::Number(0),
        LinkerSymbolOrigin::Start => edge(b"__start_", false),
        LinkerSymbolOrigin::Stop => edge(b"__stop_", true),
        LinkerSymbolOrigin::Reserved(Reserved::EhdrStart | Reserved::DsoHandle) => Source::Headers,
        LinkerSymbolOrigin::Reserved(reserved) => match reserved_section(link, reserved) {
            Some(section) => section_source(link, section, 0),
            None => Source::Undefined,
        },
    }
}

/// The section at whose start a reserved symbol stands.
pub fn reserved_section<T: Target>(link: &Contents<'_, T>, reserved: Reserved) -> Option<SectionId> {
    let kinds: &[Kind] = match reserved {
        Reserved::Dynamic => &[Kind::Dynamic],
        Reserved::GlobalOffsetTable if T::GOT_SYMBOL_IN_GOT_PLT => &[Kind::GotPlt, Kind::Got],
        Reserved::GlobalOffsetTable => &[Kind::Got, Kind::GotPlt],
        Reserved::EhFrameHdr => &[Kind::EhFrameHdr],
        Reserved::ProcedureLinkageTable => &[Kind::Plt],
        Reserved::EhdrStart | Reserved::DsoHandle | Reserved::TlsModuleBase => &[],
    };
    kinds.iter().find_map(|&kind| {
        let id = link.synthetics.find(kind)?;
        let id = link.synthetic_id(id);
        link.sections.is_alive(id).then_some(id)
    })
}

fn section_source<T: Target>(link: &Contents<'_, T>, section: SectionId, offset: u64) -> Source {
    if !section.is_some() || !link.sections.is_alive(section) {
        return Source::Discarded;
    }
    if link.sections.is(section, SectionState::ABSORBED) {
        return match link.joined_place(section, offset) {
            Some((joined, offset)) => Source::Section(joined, offset),
            None => Source::Discarded,
        };
    }
    Source::Section(section, offset)
}

/// Output sections by name.
#[derive(Default)]
pub struct OutputNames<'p> {
    rows: Names<'p, OutputId>,
}

impl<'p> OutputNames<'p> {
    /// For each name, the first output section that is not empty. If all are empty, the first one.
    pub fn new(plan: &'p LayoutPlan, holds_something: &dyn Fn(OutputId) -> bool) -> Self {
        let mut rows: Names<'p, OutputId> = HashMap::default();
        let mut filled: Names<'p, OutputId> = HashMap::default();
        for output in plan.in_order() {
            let name = &plan.outputs[output.index()].name[..];
            rows.entry(name).or_insert(output);
            if holds_something(output) {
                filled.entry(name).or_insert(output);
            }
        }
        rows.extend(filled);
        OutputNames { rows }
    }

    /// The output section of a name.
    pub fn find(&self, name: &[u8]) -> Option<OutputId> {
        self.rows.get(name).copied()
    }
}
