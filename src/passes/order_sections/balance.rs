//! Orders sections for a quick start and for compression (`--bp-startup-sort`, `--bp-compression-sort`).
//!
//! A program that starts reads each page that it touches from the disk. It calls some hundred functions that
//! the linker has strewn over its code, and so reads most of it. Side by side, they fill a few pages:
//!
//! ```text
//! input order   |f · · ·|· · · ·|· g · ·|· · · ·|· · h ·|      pages read: 3
//! by a trace    |f g h ·|· · · ·|· · · ·|· · · ·|· · · ·|      pages read: 1
//! ```
//!
//! A profile has a trace of each recorded start: the functions in the order of their first calls. One trace
//! would be an order. Several ones contradict each other, so the functions are the things of a graph and
//! [`super::bisect`] orders them. The reasons to be neighbours are beginnings of traces: the functions of the
//! first page of a start belong together, those of the first two pages, of the first four, and so on.
//!
//! For compression, the reasons are what sections have in common ([`super::similarity`]). Sections that a
//! file orders stay out of this: files come first, then functions of the start, then sections that
//! `--bp-compression-sort-section` matches, then the rest.

use super::{bisect, similarity};
use crate::arch::Target;
use crate::cli::CompressionGroup;
use crate::elf::consts as elf;
use crate::ids::SectionId;
use crate::input::object::SymbolPlace;
use crate::input::temporal_profile::{Function, base_name, root_name};
use crate::input::{ObjectFile, SectionClass};
use crate::layout::priority::may_move;
use crate::phase::Scanned;
use crate::script::ast::Sort;
use crate::script::glob::Glob;
use crate::symbols::is_identifier;
use hashbrown::{HashMap, HashSet};
use parallel::{ParallelSlice, ParallelSort};
use std::collections::BTreeMap;
use std::fmt::Write;

type Hasher = foldhash::fast::FixedState;
type Sections = HashSet<SectionId, Hasher>;

/// The smallest page that a system reads, in bytes.
const PAGE: u64 = 0x1000;
/// The most sections that a function of a profile may be.
const NAMESAKES: usize = 16;

/// What balanced partitioning has ordered.
#[derive(Default)]
pub struct Balanced {
    /// Sections that options ask to come first. Their order holds across the statements of built-in scripts.
    pub firm: Vec<SectionId>,
    /// Sections that come next and that move only within their statement, so that cold code stays cold.
    pub loose: Vec<SectionId>,
    /// `--verbose-bp-section-orderer`.
    pub report: String,
}

/// Computes the order of all sections but the `named` ones, which a file orders.
pub fn run<T: Target>(link: &Scanned<'_, T>, named: &Sections) -> Balanced {
    let options = &link.config.layout.balance;
    let mut balanced = Balanced::default();
    if options.startup {
        balanced.firm = startup(link, named);
    }
    let startup = balanced.firm.len();
    let taken: Sections = named.iter().chain(&balanced.firm).copied().collect();
    let groups: Vec<(Group<'_>, Vec<SectionId>)> = groups(link, &taken).into_iter().collect();
    let ordered: Vec<Vec<SectionId>> = groups
        .par_iter()
        .map(|(_, sections)| ordered(sections, &similarity::reasons(link, sections)))
        .collect();
    let mut counts: BTreeMap<(u32, u32, &str), usize> = BTreeMap::new();
    for ((group, _), sections) in groups.iter().zip(ordered) {
        *counts.entry((group.layout_priority, group.position, &group.title)).or_default() += sections.len();
        let list = if group.position < ANY { &mut balanced.firm } else { &mut balanced.loose };
        list.extend(sections);
    }
    if options.verbose {
        balanced.report = report(link, &balanced, startup, &counts);
    }
    balanced
}

/// Sections in the order that their reasons give.
fn ordered(sections: &[SectionId], reasons: &[Vec<u32>]) -> Vec<SectionId> {
    bisect::order(reasons).into_iter().map(|row| sections[row as usize]).collect()
}

/// The text of `--verbose-bp-section-orderer`.
fn report<T: Target>(
    link: &Scanned<'_, T>,
    balanced: &Balanced,
    startup: usize,
    counts: &BTreeMap<(u32, u32, &str), usize>,
) -> String {
    let all = || balanced.firm.iter().chain(&balanced.loose);
    let bytes: u64 = all().map(|&id| link.input_size(id)).sum();
    let count = all().count();
    let mut text = format!("Ordered {count} sections ({bytes} bytes) using balanced partitioning:\n");
    let _ = writeln!(text, "  Functions for startup: {startup}");
    let _ = writeln!(text, "  Sections for compression: {}", count - startup);
    let _ = writeln!(text, "  Compression groups: {}", counts.len());
    for ((_, _, title), count) in counts {
        let _ = writeln!(text, "    {title}: {count} sections");
    }
    text
}

/// The functions that the traces of the profile call, in the order for a quick start.
fn startup<T: Target>(link: &Scanned<'_, T>, named: &Sections) -> Vec<SectionId> {
    let profile = &link.orders.traces;
    let functions = sections_of(link, &profile.functions, named);
    let (sections, traces) = called_sections(&functions, &profile.traces);
    let sizes: Vec<u64> = sections.iter().map(|&id| link.input_size(id)).collect();
    let (mut reasons, next) = beginnings(&traces, &sizes);
    if link.config.layout.balance.similar_startup {
        for (reasons, similar) in reasons.iter_mut().zip(similarity::reasons(link, &sections)) {
            reasons.extend(similar.into_iter().map(|reason| next + reason));
        }
    }
    ordered(&sections, &reasons)
}

/// The sections that traces call, those first that any trace calls early, and the traces as rows of them.
/// `functions` are the sections of each function of the profile.
fn called_sections(functions: &[Vec<SectionId>], traces: &[Vec<u32>]) -> (Vec<SectionId>, Vec<Vec<usize>>) {
    let traces: Vec<Vec<SectionId>> = traces
        .iter()
        .map(|trace| {
            let mut seen = Sections::default();
            let called = trace.iter().flat_map(|&function| &functions[function as usize]);
            called.copied().filter(|&id| seen.insert(id)).collect()
        })
        .collect();
    let mut earliest: HashMap<SectionId, usize, Hasher> = HashMap::default();
    for (place, &id) in traces.iter().flat_map(|trace| trace.iter().enumerate()) {
        let known = earliest.entry(id).or_insert(place);
        *known = place.min(*known);
    }
    let mut sections: Vec<SectionId> = traces.concat();
    sections.par_sort_by_key(|id| (earliest[id], *id));
    sections.dedup();
    let rows: HashMap<SectionId, usize, Hasher> =
        sections.iter().enumerate().map(|(row, &id)| (id, row)).collect();
    let in_rows = |trace: &Vec<SectionId>| trace.iter().map(|id| rows[id]).collect();
    let traces = traces.iter().map(in_rows).collect();
    (sections, traces)
}

/// The reasons of functions to lie together: the beginnings of traces of one page, two pages, four pages,
/// which have them. Also returns the number of reasons.
fn beginnings(traces: &[Vec<usize>], sizes: &[u64]) -> (Vec<Vec<u32>>, u32) {
    let mut reasons = vec![Vec::new(); sizes.len()];
    let mut next = 0;
    for trace in traces {
        let mut bytes = 0u64;
        let doublings = trace.iter().map(|&row| {
            let pages = bytes / PAGE;
            bytes = bytes.saturating_add(sizes[row]);
            pages.checked_ilog2().map_or(0, |doublings| doublings + 1)
        });
        let doublings: Vec<u32> = doublings.collect();
        let last = doublings.last().copied().unwrap_or_default();
        for (&row, first) in trace.iter().zip(doublings) {
            reasons[row].extend((first..=last).map(|doubling| next + doubling));
        }
        next += last + 1;
    }
    (reasons, next)
}

/// A symbol that has the name of a function of the profile.
struct Namesake {
    /// The row of the name.
    name: usize,
    /// The row of the function if the symbol is what the profile means: a local symbol of that source file,
    /// or a global one.
    function: Option<usize>,
    section: SectionId,
}

/// The sections of code of these functions, by function. If a local function's source file is not found, any
/// symbol of that name counts, but not if there are many.
fn sections_of<T: Target>(
    link: &Scanned<'_, T>,
    functions: &[Function],
    named: &Sections,
) -> Vec<Vec<SectionId>> {
    let mut names: HashMap<&[u8], usize, Hasher> = HashMap::default();
    let mut exact: HashMap<(&[u8], &[u8]), usize, Hasher> = HashMap::default();
    let mut name_of = Vec::with_capacity(functions.len());
    for (row, function) in functions.iter().enumerate() {
        let next = names.len();
        name_of.push(*names.entry(&function.name).or_insert(next));
        exact.insert((&function.file, &function.name), row);
    }
    let of_object = |object: &ObjectFile<'_, T::E>| -> Vec<Namesake> {
        let mut file = &b""[..];
        let namesake = |index: usize| {
            let symbol = object.symbol_name(index);
            if object.symbols[index].kind() == elf::STT_FILE {
                file = base_name(symbol);
                return None;
            }
            let symbol = root_name(symbol);
            let name = *names.get(symbol)?;
            let SymbolPlace::Section(section) = object.symbol_place(index) else { return None };
            let section = link.folds.standing(object.section_id(section));
            let counts = !named.contains(&section) && may_move(link, section) && is_code(link, section);
            let file = if index < object.first_global as usize { file } else { b"" };
            let function = exact.get(&(file, symbol)).copied();
            counts.then_some(Namesake { name, function, section })
        };
        (1..object.symbols.len()).filter_map(namesake).collect()
    };
    let found: Vec<Vec<Namesake>> = link.objects.par_iter().map(of_object).collect();
    let (mut of_names, mut sections) = (vec![Vec::new(); names.len()], vec![Vec::new(); functions.len()]);
    for namesake in found.into_iter().flatten() {
        of_names[namesake.name].push(namesake.section);
        if let Some(function) = namesake.function {
            sections[function].push(namesake.section);
        }
    }
    for (sections, name) in sections.iter_mut().zip(name_of) {
        if sections.is_empty() && of_names[name].len() <= NAMESAKES {
            sections.clone_from(&of_names[name]);
        }
        sections.truncate(NAMESAKES);
    }
    sections
}

fn is_code<T: Target>(link: &Scanned<'_, T>, id: SectionId) -> bool {
    link.section_info(id).flags & elf::SHF_EXECINSTR != 0
}

/// [`Group::position`] of sections that no pattern matches.
const ANY: u32 = u32::MAX - 1;

/// Sections that are ordered together. Groups are in the order of their fields.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Group<'a> {
    /// As the option gives it.
    layout_priority: u32,
    /// The number of the option; [`ANY`] and the number behind it for functions and data without one.
    position: u32,
    /// A statement or an output section, in which the sections may move.
    room: Room<'a>,
    /// The pattern, for the report.
    title: String,
}

/// Where sections may lie side by side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Room<'a> {
    /// The output section of this number.
    Output(usize),
    /// The input statement of this number.
    Statement(usize),
    /// No rule matches the sections. They join others of their name.
    Orphan(&'a [u8]),
}

/// The groups in their order, each with its sections in input order.
fn groups<'a, T: Target>(link: &Scanned<'a, T>, taken: &Sections) -> BTreeMap<Group<'a>, Vec<SectionId>> {
    let options = &link.config.layout.balance;
    let mut groups: BTreeMap<Group<'a>, Vec<SectionId>> = BTreeMap::new();
    if !options.functions && !options.data && options.groups.is_empty() {
        return groups;
    }
    let patterns: Vec<(Glob, &CompressionGroup)> =
        options.groups.iter().map(|group| (Glob::new(&group.pattern), group)).collect();
    let of_object = |object: &ObjectFile<'a, T::E>| -> Vec<(Group<'a>, SectionId)> {
        let ids = with_symbols(object).into_iter();
        ids.filter(|id| !taken.contains(id))
            .filter_map(|id| Some((group(link, &patterns, id)?, id)))
            .collect()
    };
    let found: Vec<Vec<(Group<'a>, SectionId)>> = link.objects.par_iter().map(of_object).collect();
    for (group, id) in found.into_iter().flatten() {
        groups.entry(group).or_default().push(id);
    }
    groups
}

/// The sections of an object in which symbols lie. Others may be parts of a table that many objects make up,
/// in the order of the inputs.
fn with_symbols<E: zerocopy::byteorder::ByteOrder>(object: &ObjectFile<'_, E>) -> Vec<SectionId> {
    let mut has_symbol = vec![false; object.headers.len()];
    for (index, symbol) in object.symbols.iter().enumerate().skip(1) {
        if symbol.kind() != elf::STT_SECTION
            && let SymbolPlace::Section(section) = object.symbol_place(index)
            && let Some(has_symbol) = has_symbol.get_mut(section as usize)
        {
            *has_symbol = true;
        }
    }
    let sections = (0..).zip(has_symbol).filter(|(_, has_symbol)| *has_symbol);
    sections.map(|(section, _)| object.section_id(section)).collect()
}

/// The group of a section that may be ordered.
fn group<'a, T: Target>(
    link: &Scanned<'a, T>,
    patterns: &[(Glob, &CompressionGroup)],
    id: SectionId,
) -> Option<Group<'a>> {
    let class = link.class_of(id);
    let other = SectionClass::SFRAME
        | SectionClass::EH_FRAME
        | SectionClass::ORDERED
        | SectionClass::MERGE
        | SectionClass::NOBITS;
    let info = link.section_info(id);
    let is_content = class.contains(SectionClass::ALLOC) && !class.intersects(other);
    if !is_content || info.sh_type != elf::SHT_PROGBITS || info.size == 0 || !may_move(link, id) {
        return None;
    }
    let rule = link.rules[id.index()].map(|rule| link.plan.rule(rule));
    if let Some((position, group)) = matching(patterns, info.name) {
        let room = match rule {
            Some(rule) if !link.plan.replaces_default => Room::Output(rule.output.index()),
            Some(rule) => rule.statement.map_or(Room::Orphan(info.name), |row| Room::Statement(row.index())),
            None => Room::Orphan(info.name),
        };
        let title = String::from_utf8_lossy(&group.pattern).into_owned();
        return Some(Group { layout_priority: group.layout_priority, position, room, title });
    }
    let options = &link.config.layout.balance;
    let code = is_code(link, id);
    // The order of a sorted statement and of an array with a C name may have a meaning.
    let is_sorted = rule.is_some_and(|rule| [rule.sort, rule.file_sort] != [Sort::default(); 2]);
    if !(if code { options.functions } else { options.data }) || is_sorted || is_identifier(info.name) {
        return None;
    }
    let statement = rule.and_then(|rule| rule.statement);
    let room = statement.map_or(Room::Orphan(info.name), |statement| Room::Statement(statement.index()));
    let title = if code { "functions" } else { "data" };
    Some(Group { layout_priority: u32::MAX, position: ANY + u32::from(!code), room, title: title.to_owned() })
}

/// The `--bp-compression-sort-section` that counts for a section of this name, with its number.
fn matching<'p>(
    patterns: &[(Glob, &'p CompressionGroup)],
    name: &[u8],
) -> Option<(u32, &'p CompressionGroup)> {
    let matching = (0..).zip(patterns).filter(|(_, (glob, _))| glob.matches(name));
    let rank = |position: u32, group: &CompressionGroup| match group.match_priority {
        Some(priority) => (false, priority, position),
        None => (true, u32::MAX - position, position),
    };
    matching
        .map(|(position, (_, group))| (position, *group))
        .min_by_key(|&(position, group)| rank(position, group))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str, match_priority: Option<u32>) -> CompressionGroup {
        CompressionGroup { pattern: text.into(), layout_priority: 0, match_priority }
    }

    #[test]
    fn the_lowest_match_priority_counts_or_else_the_last_pattern() {
        let groups = [
            pattern(".text*", None),
            pattern(".text.a*", Some(5)),
            pattern(".*.a1", Some(3)),
            pattern("*", None),
        ];
        let patterns: Vec<(Glob, &CompressionGroup)> =
            groups.iter().map(|group| (Glob::new(&group.pattern), group)).collect();
        let of = |name: &str| matching(&patterns, name.as_bytes()).map(|(position, _)| position);
        assert_eq!(of(".text.a1"), Some(2));
        assert_eq!(of(".text.a2"), Some(1));
        assert_eq!(of(".text.b"), Some(3));
        assert_eq!(matching(&patterns[..1], b".data"), None);
    }

    #[test]
    fn beginnings_of_a_trace_double() {
        // Functions of a page each: the first page, the first two, the first four have a reason.
        let (reasons, count) = beginnings(&[vec![0, 1, 2, 3, 4]], &[PAGE; 5]);
        assert_eq!(reasons, [vec![0, 1, 2, 3], vec![1, 2, 3], vec![2, 3], vec![2, 3], vec![3]]);
        assert_eq!(count, 4);
    }

    #[test]
    fn functions_of_the_same_starts_lie_together() {
        // Two starts with nothing in common but the first function, and a third one that repeats the first.
        let traces = [vec![0, 1, 3, 5], vec![0, 2, 4, 6], vec![0, 1, 3, 5]];
        let (reasons, _) = beginnings(&traces, &[64; 7]);
        let order = bisect::order(&reasons);
        let place = |thing: u32| order.iter().position(|&other| other == thing).unwrap();
        for [one, other] in [[1, 3], [3, 5], [2, 4], [4, 6]] {
            assert!(place(one).abs_diff(place(other)) <= 2, "{order:?}");
        }
    }
}
