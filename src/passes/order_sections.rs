//! Computes the order of sections that a profile or an ordering file asks for.
//!
//! `--symbol-ordering-file` and `--section-ordering-file` name sections in the order wanted. A call graph
//! comes from profiles in objects or from a file, and `cluster` computes an order from it. An order from a
//! file takes precedence over a computed one. With options of balanced partitioning, `balance` computes the
//! order in place of `cluster`, for sections that no file names. Without any of these, the pass reads no
//! input. Under `-r`, the terminators of call frame information come last.

mod balance;
mod bisect;
mod cluster;
mod similarity;

use crate::arch::Target;
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::consts as elf;
use crate::frames::eh_frame::FileFrames;
use crate::ids::SectionId;
use crate::input::ObjectFile;
use crate::input::call_graph;
use crate::input::object::SymbolPlace;
use crate::input::ordering::{OrderFiles, Word};
use crate::layout::priority::{Priorities, may_move};
use crate::passes::read_orders::warn;
use crate::phase::Scanned;
use crate::script::glob::Glob;
use crate::symbols::{Definition, MentionedBy};
use hashbrown::HashMap;
use parallel::{IntoParallel, ParallelSlice};

type Hasher = foldhash::fast::FixedState;

/// Gives sections their priorities. `printed` gets what options want to know about them.
pub fn run<T: Target>(link: &Scanned<'_, T>, printed: &mut String) -> Priorities {
    let orders = &link.orders;
    let written = link.config.scripts.symbol_order.is_some() || !orders.sections.is_empty();
    let mut rows = by_patterns(link, &orders.sections);
    rows.extend(by_symbols(link, &orders.symbols));
    if link.config.layout.balance.is_on() && !link.config.is_relocatable() {
        return balanced(link, rows, printed);
    }
    if !written && link.config.layout.call_graph_sort {
        rows = by_calls(link, orders);
    }
    rows.extend(terminated_frames(link));
    Priorities::new(rows, written.then_some(i32::MAX))
}

/// Puts the sections that balanced partitioning orders behind those that files put first. `rows` are the
/// priorities that files give.
fn balanced<T: Target>(
    link: &Scanned<'_, T>,
    mut rows: Vec<(SectionId, i32)>,
    printed: &mut String,
) -> Priorities {
    let named = rows.iter().map(|row| row.0).collect();
    let balanced = balance::run(link, &named);
    printed.push_str(&balanced.report);
    let (firm, loose) = (balanced.firm.len() as i32, balanced.loose.len() as i32);
    rows.iter_mut().filter(|row| row.1 < 0).for_each(|row| row.1 -= firm + loose);
    rows.extend(balanced.firm.into_iter().chain(balanced.loose).zip(-firm - loose..));
    Priorities::new(rows, Some(-loose - 1))
}

/// Under `-r`, puts the `.eh_frame` sections that end with a terminator (`crtend.o`) behind the others. In a
/// final link, the linker splits these sections into records instead.
fn terminated_frames<T: Target>(link: &Scanned<'_, T>) -> Vec<(SectionId, i32)> {
    if !link.config.is_relocatable() {
        return Vec::new();
    }
    let of_file = |(object, frames): (&ObjectFile<'_, T::E>, &FileFrames<'_, T::E>)| -> Vec<SectionId> {
        let last = frames.sections.iter().filter(|section| section.ends_with_terminator);
        last.map(|section| object.section_id(section.index)).collect()
    };
    let files = link.objects.iter().zip(&link.frames.files);
    files.flat_map(of_file).map(|id| (id, i32::MAX)).collect()
}

/// `--section-ordering-file` as gold reads it: a line that is exactly the section's name takes precedence
/// over patterns, and the first of several patterns counts. Named sections stand behind unnamed ones.
fn by_patterns<T: Target>(link: &Scanned<'_, T>, patterns: &[Word]) -> Vec<(SectionId, i32)> {
    if patterns.is_empty() {
        return Vec::new();
    }
    let mut exact: HashMap<&[u8], i32, Hasher> = HashMap::default();
    let mut globs = Vec::new();
    for (row, word) in patterns.iter().enumerate() {
        let priority = row as i32 + 1;
        if word.text.iter().any(|byte| b"*?[".contains(byte)) {
            globs.push((Glob::new(&word.text), priority));
        } else {
            exact.entry(&word.text).or_insert(priority);
        }
    }
    let priority = |name: &[u8]| {
        let by_glob = || globs.iter().find(|(glob, _)| glob.matches(name)).map(|(_, priority)| *priority);
        exact.get(name).copied().or_else(by_glob)
    };
    (0..link.section_count() as u32)
        .into_par_iter()
        .with_min_len(4096)
        .map(SectionId)
        .filter(|&id| may_move(link, id))
        .filter_map(|id| Some((id, priority(link.section_info(id).name)?)))
        .collect()
}

/// `--symbol-ordering-file`: the sections of the symbols that it names come first.
fn by_symbols<T: Target>(link: &Scanned<'_, T>, symbols: &[Word]) -> Vec<(SectionId, i32)> {
    let names: Vec<&[u8]> = symbols.iter().map(|word| &word.text[..]).collect();
    let mut rows = Vec::new();
    for (row, (word, found)) in symbols.iter().zip(find(link, &names)).enumerate() {
        let priority = row as i32 - symbols.len() as i32;
        rows.extend(found.sections.iter().map(|&section| (section, priority)));
        report(link, word, &found);
    }
    rows
}

/// The sections of the symbols that have a name from an ordering file.
#[derive(Clone, Default)]
struct OrderedSymbol {
    /// The sections of all symbols of that name, the global's first.
    sections: Vec<SectionId>,
    /// File and kind of a symbol of that name, if the symbol lies in no section that can be ordered.
    trouble: Option<(String, &'static str)>,
}

/// Reports a name that no symbol has, or whose symbol lies in no section of the output.
fn report<T: Target>(link: &Scanned<'_, T>, word: &Word, found: &OrderedSymbol) {
    if !link.config.diagnostics.warn_symbol_ordering || !found.sections.is_empty() {
        return;
    }
    let name = link.name_text(&word.text);
    let message = match &found.trouble {
        None => format!("no such symbol: {name}"),
        Some((file, kind)) => format!("{file}: unable to order {kind} symbol: {name}"),
    };
    warn(link.session, &link.plan.sources, word.span, message);
}

/// Looks for names among globals and the local symbols of all objects. If a name is listed again, only its
/// first section counts there.
fn find<T: Target>(link: &Scanned<'_, T>, names: &[&[u8]]) -> Vec<OrderedSymbol> {
    let mut found: Vec<OrderedSymbol> = names.iter().map(|name| find_global(link, name)).collect();
    if names.is_empty() {
        return found;
    }
    // If a name is listed twice, its first row counts.
    let mut rows: HashMap<&[u8], usize, Hasher> = HashMap::default();
    for (row, name) in names.iter().enumerate() {
        rows.entry(name).or_insert(row);
    }
    let locals: Vec<Vec<(usize, Result<SectionId, &'static str>)>> = link
        .objects
        .par_iter()
        .map(|object| {
            let named = |index: usize| {
                let kind = object.symbols.get(index)?.kind();
                let row = *rows.get(object.symbol_name(index))?;
                let place = place(link, object.symbol_place(index), |section| object.section_id(section));
                (kind != elf::STT_SECTION && kind != elf::STT_FILE).then_some((row, place))
            };
            (1..object.first_global as usize).filter_map(named).collect()
        })
        .collect();
    for (object, locals) in link.objects.iter().zip(locals) {
        for (row, place) in locals {
            match place {
                Ok(section) => found[row].sections.push(section),
                Err(kind) => found[row].trouble = Some((object.name.to_string(), kind)),
            }
        }
    }
    for row in 0..names.len() {
        let first = rows[names[row]];
        if first != row {
            // Many calls may be calls of one function, and each file may have a section of that name. So only
            // the first one counts.
            let OrderedSymbol { sections, trouble } = &found[first];
            let sections = sections.first().copied().into_iter().collect();
            found[row] = OrderedSymbol { sections, trouble: trouble.clone() };
        }
    }
    found
}

fn find_global<T: Target>(link: &Scanned<'_, T>, name: &[u8]) -> OrderedSymbol {
    let Some(id) = link.globals.lookup(name) else { return OrderedSymbol::default() };
    let (file, place) = match link.definition(id) {
        Definition::Object { file, symbol } => {
            let object = &link.objects[file.index()];
            let place = match link.common_place(id) {
                Some(common) => Ok(common.section),
                None => {
                    place(link, object.symbol_place(symbol as usize), |section| object.section_id(section))
                }
            };
            (object.name.to_string(), place)
        }
        Definition::Shared { library, .. } => (link.shared[library.index()].name.to_string(), Err("shared")),
        Definition::Linker(_) => ("<internal>".to_owned(), Err("synthetic")),
        // The name may be a global only because a member mentions it that was not extracted.
        Definition::Undefined if !link.mentions(id).contains(MentionedBy::IN_OBJECT) => {
            return OrderedSymbol::default();
        }
        Definition::Undefined => ("<internal>".to_owned(), Err("undefined")),
    };
    match place {
        Ok(section) => OrderedSymbol { sections: vec![section], trouble: None },
        Err(kind) => OrderedSymbol { sections: Vec::new(), trouble: Some((file, kind)) },
    }
}

/// The section of a symbol, or the kind of symbol that cannot be ordered.
fn place<T: Target>(
    link: &Scanned<'_, T>,
    place: SymbolPlace,
    id: impl Fn(u32) -> SectionId,
) -> Result<SectionId, &'static str> {
    match place {
        SymbolPlace::Section(section) => match link.folds.standing(id(section)) {
            id if !link.sections.is_alive(id) => Err("discarded"),
            id if !may_move(link, id) => Err("immovable"),
            id => Ok(id),
        },
        SymbolPlace::Absolute => Err("absolute"),
        SymbolPlace::Undefined => Err("undefined"),
        SymbolPlace::Common => Err("common"),
    }
}

/// A call between sections that may stand side by side.
type SectionCall = (SectionId, SectionId, u64);

/// `--call-graph-profile-sort`: puts the sections of functions that call each other first, close together.
fn by_calls<T: Target>(link: &Scanned<'_, T>, orders: &OrderFiles) -> Vec<(SectionId, i32)> {
    let calls = match &orders.calls {
        Some(_) => calls_of_file(link, orders),
        None if link.config.is_relocatable() => Vec::new(),
        None => calls_of_objects(link),
    };
    let mut rows: HashMap<SectionId, u32, Hasher> = HashMap::default();
    let mut sections: Vec<SectionId> = Vec::new();
    let mut row = |id: SectionId| {
        *rows.entry(id).or_insert_with(|| {
            sections.push(id);
            sections.len() as u32 - 1
        })
    };
    let edges: Vec<cluster::Edge> = calls
        .into_iter()
        .map(|(from, to, weight)| cluster::Edge { from: row(from), to: row(to), weight })
        .collect();
    let sizes: Vec<u64> = sections.iter().map(|&id| link.section_info(id).size).collect();
    let order = cluster::order(&sizes, edges);
    let count = order.len() as i32;
    order.into_iter().zip(-count..).map(|(row, priority)| (sections[row as usize], priority)).collect()
}

/// The calls of `--call-graph-ordering-file`.
fn calls_of_file<T: Target>(link: &Scanned<'_, T>, orders: &OrderFiles) -> Vec<SectionCall> {
    let calls = orders.calls.as_deref().unwrap_or_default();
    let words: Vec<&Word> = calls.iter().flat_map(|call| [&call.from, &call.to]).collect();
    let names: Vec<&[u8]> = words.iter().map(|word| &word.text[..]).collect();
    let found = find(link, &names);
    words.iter().zip(&found).for_each(|(word, found)| report(link, word, found));
    let ends = found.chunks_exact(2).zip(calls);
    ends.filter_map(|(ends, call)| {
        let (&from, &to) = (ends[0].sections.first()?, ends[1].sections.first()?);
        share_a_statement(link, from, to).then_some((from, to, call.weight))
    })
    .collect()
}

/// The calls of the profiles in objects. Calls from or to sections outside the output do not count.
fn calls_of_objects<T: Target>(link: &Scanned<'_, T>) -> Vec<SectionCall> {
    if link.objects.iter().all(|object| object.profile == 0) {
        return Vec::new();
    }
    let calls: Vec<Vec<SectionCall>> = link
        .objects
        .par_iter()
        .map(|object| {
            let edges = call_graph::edges(object).unwrap_or_else(|malformed| {
                let section = object.section_name_lossy(object.profile as usize);
                let location = Location::Section { file: object.name.to_string(), section, offset: 0 };
                link.sink.report(
                    Diagnostic::warning(
                        Code::Ordering,
                        format!("the profile is not used: {}", malformed.what),
                    )
                    .at(location)
                    .ordered(object.id.0, object.profile, 0),
                );
                Vec::new()
            });
            let section = |symbol: u32| {
                let (section, _) = link.referenced_section(object, symbol)?;
                let section = link.folds.standing(section);
                may_move(link, section).then_some(section)
            };
            let call = |edge: call_graph::Edge| {
                let (from, to) = (section(edge.from)?, section(edge.to)?);
                share_a_statement(link, from, to).then_some((from, to, edge.weight))
            };
            edges.into_iter().filter_map(call).collect()
        })
        .collect();
    calls.into_iter().flatten().collect()
}

/// Whether the script gives two sections to the same statement, so that they can stand side by side. Other
/// calls would only distort the sizes and weights from which clusters are made.
fn share_a_statement<T: Target>(link: &Scanned<'_, T>, a: SectionId, b: SectionId) -> bool {
    let statement = |id: SectionId| link.plan.rule(link.rules[id.index()]?).statement;
    let of_a = statement(a);
    of_a == statement(b) && (of_a.is_some() || link.section_info(a).name == link.section_info(b).name)
}

/// `--print-symbol-order`: one line for each symbol in a section with a priority, in the order of sections
/// and symbol tables.
pub fn symbols_in_order<T: Target>(link: &Scanned<'_, T>, priorities: &Priorities) -> Vec<u8> {
    let order = priorities.in_order();
    let ranks: HashMap<SectionId, usize, Hasher> =
        order.iter().enumerate().map(|(rank, &id)| (id, rank)).collect();
    let mut found: Vec<(usize, u32, &[u8])> = link
        .objects
        .par_iter()
        .filter(|object| object.section_ids().any(|id| ranks.contains_key(&link.folds.standing(id))))
        .flat_map_iter(|object| {
            (1..object.symbols.len() as u32).filter_map(|index| {
                let (section, _) = object.symbol_section(index)?;
                let name = object.symbol_name(index as usize);
                let named = object.symbols[index as usize].kind() != elf::STT_SECTION && !name.is_empty();
                named.then_some((*ranks.get(&link.folds.standing(section))?, index, name))
            })
        })
        .collect();
    found.sort_unstable();
    found.into_iter().flat_map(|(_, _, name)| [name, b"\n"].concat()).collect()
}
