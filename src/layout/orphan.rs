//! Finds places for sections that no rule takes.
//!
//! A user's script names the sections that its author knew of. A newer compiler brings a section `.note.new`
//! or `.data.fancy`, and the program may need it, so the linker must find a place that makes sense: not
//! between code and its constants, and not where `_end` no longer covers it.
//!
//! As in GNU ld, such an *orphan* joins the output section of its own name, if there is one. Otherwise it
//! gets a new output section behind the best neighbour: the customary one of its class (`.text`, `.rodata`,
//! `.data`, …), or the last one whose properties come nearest. It stands behind the symbols that are assigned
//! after the neighbour, but before the location counter is moved for the next section:
//!
//! ```text
//! .data : { *(.data) }
//! edata = .;
//!                               <- the orphan .data.fancy: edata keeps its value
//! . = ALIGN(0x1000);
//! .bss : { *(.bss) }
//! ```
//!
//! An output section that a script describes without a place (`OVERWRITE_SECTIONS`) is placed like an orphan,
//! before them.
//!
//! Orphans of one class stay together, in input order. Orphans that share an output section are placed by the
//! union of their flags.

use super::output::OutputFacts;
use super::place::List;
use crate::cli::StripOptions;
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::{OutputId, RuleId, SectionId};
use crate::input::SectionInfo;
use crate::plan::{Command, LayoutPlan, OutputPlan};
use crate::script::ast::OutputSectionType;
use hashbrown::HashMap;

/// Orphans of equal keys share an output section.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key<'a> {
    /// The name of the output section.
    pub name: &'a [u8],
    /// Whether they are allocated.
    pub alloc: bool,
    /// Whether they are thread-local.
    pub tls: bool,
    /// Whether they have bytes in the file. Thread-local sections count as if they had, and so do sections
    /// that `__start_NAME` symbols may name.
    pub contents: bool,
    /// Type and flags under `-r`, where sections that differ in these stay apart. Two differences do not
    /// count. Permissions do not, because the output section has the permissions of all its sections. Whether
    /// the next link may merge the pieces does not either: as in GNU ld and lld, one name makes one section,
    /// and the next link merges its pieces only if all sections agree about them.
    pub exact: Option<(u32, u64)>,
    /// The section itself, if it gets an output section of its own (group members under `-r`, `--unique`).
    pub own: Option<SectionId>,
    /// Under `-r`, the output section that sections with `SHF_LINK_ORDER` describe, because each output
    /// section has one `sh_link` there.
    pub describes: Option<DescribedOutput>,
}

/// An output section that a section describes. Orphans have no output sections yet, so it has another name
/// for theirs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DescribedOutput {
    /// An output section of the plan, by row.
    Output(OutputId),
    /// The output section of orphans that share a key. The first of them stands for it.
    Orphan(SectionId),
}

/// Lets orphans share an output section if their `SHF_LINK_ORDER` targets lie in one output section.
///
/// `target` returns the section that an orphan describes; `None` means that the orphan stays alone. `output`
/// returns the row of the output section that a rule has chosen. If a section describes such an orphan in
/// turn, it joins others that describe the same orphan.
pub fn join_described(
    orphans: &mut [Orphan<'_>],
    target: impl Fn(SectionId) -> Option<SectionId>,
    output: impl Fn(SectionId) -> Option<OutputId>,
) {
    let targets: Vec<(usize, SectionId)> = orphans
        .iter()
        .enumerate()
        .filter_map(|(row, orphan)| Some((row, target(orphan.key.own?)?)))
        .collect();
    if targets.is_empty() {
        return;
    }
    let mut first_of: HashMap<Key<'_>, SectionId, Hasher> = HashMap::default();
    let first: HashMap<SectionId, SectionId, Hasher> =
        orphans.iter().map(|orphan| (orphan.id, *first_of.entry(orphan.key).or_insert(orphan.id))).collect();
    for (row, target) in targets {
        let described = output(target)
            .map(DescribedOutput::Output)
            .or_else(|| first.get(&target).copied().map(DescribedOutput::Orphan));
        if described.is_some() {
            orphans[row].key.own = None;
            orphans[row].key.describes = described;
        }
    }
}

/// An orphan with the properties that decide about its place.
#[derive(Clone, Copy, Debug)]
pub struct Orphan<'a> {
    /// The section.
    pub id: SectionId,
    /// Its header fields.
    pub info: SectionInfo<'a>,
    /// The key of the output section that it shares with others.
    pub key: Key<'a>,
    /// Whether it may join an output section of the script that has its name.
    pub may_join: bool,
    /// Whether it stands behind all other sections, like the symbol table.
    pub last: bool,
}

/// The properties by which neighbours are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Properties {
    sh_type: u32,
    /// A power of two.
    align: u8,
    contents: bool,
    alloc: bool,
    read_only: bool,
    code: bool,
    tls: bool,
    debug: bool,
}

impl Properties {
    fn new(sh_type: u32, flags: u64, name: &[u8]) -> Self {
        let has = |flag: u64| flags & flag != 0;
        let alloc = is_alloc(flags);
        Properties {
            sh_type,
            align: 0,
            contents: sh_type != elf::SHT_NOBITS,
            alloc,
            read_only: !has(elf::SHF_WRITE),
            code: has(elf::SHF_EXECINSTR),
            tls: has(elf::SHF_TLS),
            debug: !alloc && is_debug(name),
        }
    }

    fn of(orphan: &Orphan<'_>) -> Self {
        let align = orphan.info.align.max(1).trailing_zeros() as u8;
        Properties { align, ..Properties::new(orphan.info.sh_type, orphan.info.flags, orphan.info.name) }
    }
}

/// Whether the name says that a section is debug information, if it is not allocated.
pub fn is_debug(name: &[u8]) -> bool {
    const PREFIXES: &[&[u8]] =
        &[b".debug", b".zdebug", b".gnu.debuglto_", b".gnu.linkonce.wi.", b".line", b".stab", b".gdb_index"];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether an output section goes to the file of `--separate-debug-file`.
pub fn goes_apart(options: &StripOptions, name: &[u8], flags: u64) -> bool {
    options.separate_debug.is_some() && !is_alloc(flags) && is_debug(name)
}

/// The classes of orphans, each with its customary neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Class {
    Text,
    ReadOnly,
    Tls,
    TlsZeros,
    Data,
    Bss,
    Note,
    NotAllocated,
    Debug,
    Last,
}

impl Class {
    /// The class of a section of this type and name that does not stand last.
    fn of(sh_type: u32, name: &[u8], properties: Properties) -> Class {
        if properties.debug {
            Class::Debug
        } else if !properties.alloc {
            Class::NotAllocated
        } else if sh_type == elf::SHT_NOTE || name.starts_with(b".note") {
            Class::Note
        } else if properties.tls {
            if properties.contents { Class::Tls } else { Class::TlsZeros }
        } else if !properties.contents {
            Class::Bss
        } else if !properties.read_only {
            Class::Data
        } else if properties.code {
            Class::Text
        } else {
            Class::ReadOnly
        }
    }

    fn neighbour(self) -> Option<&'static [u8]> {
        match self {
            Class::Text => Some(b".text"),
            Class::ReadOnly => Some(b".rodata"),
            Class::Tls | Class::TlsZeros => Some(b".tdata"),
            Class::Data => Some(b".data"),
            Class::Bss => Some(b".bss"),
            Class::Note => Some(b".interp"),
            Class::NotAllocated | Class::Debug | Class::Last => None,
        }
    }
}

type Hasher = foldhash::fast::FixedState;

/// Puts orphans, in input order, into lists. Each new output section gets one new rule. `lists` grows with
/// the plan's rules, and `rules` tells the rule of each section.
///
/// With `append`, new output sections stand behind all others, as in relocatable output.
pub fn place(
    plan: &mut LayoutPlan,
    lists: &mut Vec<List>,
    rules: &mut [Option<RuleId>],
    orphans: &[Orphan<'_>],
    append: bool,
) {
    let unplaced = unplaced(plan, lists);
    if orphans.is_empty() && unplaced.is_empty() {
        return;
    }
    let mut placer = Placer::new(plan, lists);
    placer.append = append;
    unplaced.into_iter().for_each(|output| placer.place_described(output));
    placer.list_names();
    let (kind_of, mut kinds) = kinds(orphans);
    // Tables that stand last are placed after all other orphans, so that no section gets behind them.
    for last in [false, true] {
        for (orphan, &kind) in orphans.iter().zip(&kind_of).filter(|(orphan, _)| orphan.last == last) {
            let Kind { properties, rule } = &mut kinds[kind];
            let rule = *rule.get_or_insert_with(|| placer.rule_for(orphan, *properties));
            placer.lists[rule.index()].items.push(orphan.id);
            rules[orphan.id.index()] = Some(rule);
        }
    }
    placer.finish();
}

/// Orphans that share an output section.
struct Kind {
    /// What they have together.
    properties: Properties,
    /// The rule that has them, once the first of them is placed.
    rule: Option<RuleId>,
}

/// The kind of each orphan, and the kinds. A key has a name in it, so it is looked up once.
fn kinds(orphans: &[Orphan<'_>]) -> (Vec<usize>, Vec<Kind>) {
    let mut kinds: Vec<Kind> = Vec::new();
    let mut known: HashMap<Key<'_>, usize, Hasher> = HashMap::default();
    let mut kind_of = Vec::with_capacity(orphans.len());
    for orphan in orphans {
        let own = Properties::of(orphan);
        let kind = *known.entry(orphan.key).or_insert(kinds.len());
        match kinds.get_mut(kind) {
            Some(kind) => kind.properties = join(kind.properties, own),
            None => kinds.push(Kind { properties: own, rule: None }),
        }
        kind_of.push(kind);
    }
    (kind_of, kinds)
}

/// The output sections that hold something, and that no command places.
fn unplaced(plan: &LayoutPlan, lists: &[List]) -> Vec<OutputId> {
    let is_filled = |rule: RuleId| lists.get(rule.index()).is_some_and(|list| list.facts.count > 0);
    let rows = plan.outputs.iter().enumerate();
    let found = rows.filter(|(_, output)| output.unplaced && output.rules().any(is_filled));
    found.map(|(row, _)| OutputId::from_index(row)).collect()
}

struct Placer<'p> {
    plan: &'p mut LayoutPlan,
    lists: &'p mut Vec<List>,
    /// The commands of the plan as a linked list, so that an orphan can be put in without moving others.
    nodes: Vec<Node>,
    first: Option<usize>,
    last_of_class: HashMap<Class, usize, Hasher>,
    /// The last orphan to which `--section-start` gives an address. These stand before all others.
    last_started: Option<usize>,
    /// Whether all orphans go behind the script's output sections (`-r`).
    append: bool,
    /// The properties of output sections that are not empty, by row.
    properties: Vec<Option<Properties>>,
    /// The output sections of each name that the script describes, in order.
    by_name: HashMap<Vec<u8>, Vec<OutputId>, Hasher>,
}

struct Node {
    command: Command,
    next: Option<usize>,
}

impl<'p> Placer<'p> {
    fn new(plan: &'p mut LayoutPlan, lists: &'p mut Vec<List>) -> Self {
        let commands = std::mem::take(&mut plan.commands);
        let count = commands.len();
        let nodes: Vec<Node> = commands
            .into_iter()
            .enumerate()
            .map(|(at, command)| Node { command, next: (at + 1 < count).then_some(at + 1) })
            .collect();
        let mut properties = vec![None; plan.outputs.len()];
        for (rule, list) in plan.rules.iter().zip(lists.iter()) {
            let output = rule.output.index();
            if list.facts.count > 0 && !rule.discard {
                let described = &plan.outputs[output];
                let mut one = Properties::new(list.facts.sh_type, list.facts.any, &described.name);
                one.align = list.max_align;
                one.alloc &= !matches!(described.kind.as_deref(), Some(OutputSectionType::NoAlloc));
                one.contents &= !matches!(described.kind.as_deref(), Some(OutputSectionType::NoLoad));
                properties[output] = Some(properties[output].map_or(one, |all| join(all, one)));
            }
        }
        for (described, row) in plan.outputs.iter().zip(&mut properties) {
            if row.is_none() && !described.discard && described.body.iter().any(crate::plan::Body::writes) {
                // Only the script fills this output section, so it has no type yet. Orphans prefer a
                // neighbour of their own type.
                *row = Some(Properties::new(elf::SHT_NULL, elf::SHF_ALLOC, &described.name));
            }
        }
        let first = (count > 0).then_some(0);
        Placer {
            plan,
            lists,
            nodes,
            first,
            last_of_class: HashMap::default(),
            last_started: None,
            append: false,
            properties,
            by_name: HashMap::default(),
        }
    }

    /// Lists the output sections that orphans may join.
    fn list_names(&mut self) {
        let mut node = self.first;
        while let Some(Node { command, next }) = node.map(|node| &self.nodes[node]) {
            if let Command::Output(output) = command {
                let name = &self.plan.outputs[output.index()].name[..];
                self.by_name.entry_ref(name).or_default().push(*output);
            }
            node = *next;
        }
    }

    /// Places an output section that the script describes.
    fn place_described(&mut self, output: OutputId) {
        let Some(properties) = self.properties[output.index()] else { return };
        self.plan.outputs[output.index()].unplaced = false;
        let class = Class::of(properties.sh_type, &self.plan.outputs[output.index()].name, properties);
        self.put(output, class, properties);
    }

    /// The rule for an orphan. `properties` are those of all orphans that share its key.
    fn rule_for(&mut self, orphan: &Orphan<'_>, properties: Properties) -> RuleId {
        if orphan.may_join
            && let Some(output) = self.namesake(orphan.info.name, properties)
        {
            let rule = self.plan.add_orphan_rule(output);
            self.plan.outputs[output.index()].body.push(crate::plan::Body::Rule(rule));
            self.new_list(output, properties);
            return rule;
        }
        let (output, rule) = self.plan.add_orphan_output(orphan.info.name);
        self.properties.push(None);
        self.new_list(output, properties);
        if !self.append && properties.alloc && self.plan.section_starts.contains_key(orphan.info.name) {
            // If this section stood behind others, later sections would move to its address.
            self.last_started = Some(self.insert(self.last_started, Command::Output(output)));
            return rule;
        }
        let class = if orphan.last {
            Class::Last
        } else {
            Class::of(orphan.info.sh_type, orphan.info.name, properties)
        };
        self.put(output, class, properties);
        rule
    }

    /// Puts an output section behind others of its class, or behind its best neighbour.
    fn put(&mut self, output: OutputId, class: Class, properties: Properties) {
        let class = if self.append { Class::Last } else { class };
        let (after, neighbour) = match self.last_like(class) {
            Some(node) => (Some(node), Some(node)),
            None => self.node_after_neighbour(class, properties),
        };
        let after = match class {
            Class::Note if properties.sh_type == elf::SHT_NOTE => {
                self.node_among_notes(properties).unwrap_or(after)
            }
            _ => after,
        };
        if properties.alloc
            && let Some(Command::Output(neighbour)) = neighbour.map(|node| &self.nodes[node].command)
        {
            // An orphan goes into the regions and segments of its neighbour.
            let OutputPlan { region, load_region, phdrs, .. } = &self.plan.outputs[neighbour.index()];
            let (region, load_region, phdrs) = (region.clone(), load_region.clone(), phdrs.clone());
            let plan = &mut self.plan.outputs[output.index()];
            if plan.region.is_none() && plan.load_region.is_none() && plan.phdrs.is_empty() {
                (plan.region, plan.load_region, plan.phdrs) = (region, load_region, phdrs);
            }
        }
        let node = self.insert(after, Command::Output(output));
        self.last_of_class.insert(class, node);
    }

    /// The last orphan that one of this class follows. Thread-local zeros stand behind thread-local data: the
    /// template of a thread's block has bytes in the file only at its start.
    fn last_like(&self, class: Class) -> Option<usize> {
        let data = (class == Class::TlsZeros).then_some(Class::Tls);
        [Some(class), data].into_iter().flatten().find_map(|it| self.last_of_class.get(&it).copied())
    }

    /// The output section of the script that an orphan joins: of those with its name, the first that holds
    /// something of its kind, or else the last that is empty. GNU ld chooses in the same way.
    fn namesake(&self, name: &[u8], own: Properties) -> Option<OutputId> {
        let namesakes = self.by_name.get(name)?;
        let held = |output: &OutputId| self.properties[output.index()];
        let fits = |other: Properties| other.alloc == own.alloc && other.tls == own.tls;
        let filled = namesakes.iter().find(|output| held(output).is_some_and(fits));
        filled.or_else(|| namesakes.iter().rfind(|output| held(output).is_none())).copied()
    }

    fn new_list(&mut self, output: OutputId, properties: Properties) {
        self.lists.push(List::default());
        let row = &mut self.properties[output.index()];
        *row = Some(row.map_or(properties, |all| join(all, properties)));
    }

    /// The node behind which the first orphan of a class goes, and the node of its neighbour.
    fn node_after_neighbour(&self, class: Class, properties: Properties) -> (Option<usize>, Option<usize>) {
        if matches!(class, Class::Debug | Class::Last) {
            return (self.last_node(), None);
        }
        let named = class
            .neighbour()
            .and_then(|name| self.walk().find(|&(_, output)| self.plan.outputs[output.index()].name == name));
        let neighbour = named.map(|(node, _)| node).or_else(|| self.nearest(properties));
        (self.position_after(neighbour), neighbour)
    }

    /// The nodes of all output sections except `/DISCARD/`, in order, with their rows.
    fn walk(&self) -> impl Iterator<Item = (usize, OutputId)> + '_ {
        std::iter::successors(self.first, |&node| self.nodes[node].next).filter_map(|node| {
            match self.nodes[node].command {
                Command::Output(output) if !self.plan.outputs[output.index()].discard => Some((node, output)),
                _ => None,
            }
        })
    }

    fn last_node(&self) -> Option<usize> {
        std::iter::successors(self.first, |&node| self.nodes[node].next).last()
    }

    /// The last output section of the same properties, or else the last of similar ones. Each attempt
    /// compares fewer properties.
    fn nearest(&self, own: Properties) -> Option<usize> {
        // A section of another type is chosen only if there is none of the same type.
        self.nearest_of(own, &|other| other.sh_type == own.sh_type)
            .or_else(|| self.nearest_of(own, &|_| true))
    }

    fn last_filled(&self, near: &dyn Fn(Properties) -> bool) -> Option<usize> {
        let filled = self.walk().filter_map(|(node, output)| Some((node, self.properties[output.index()]?)));
        filled.filter(|&(_, other)| near(other)).last().map(|(node, _)| node)
    }

    /// The node behind which a note goes; `None` if there are no other notes. Notes stay together, those with
    /// larger alignments first.
    fn node_among_notes(&self, own: Properties) -> Option<Option<usize>> {
        let is_note = |other: Properties| other.alloc && other.sh_type == elf::SHT_NOTE;
        let mut before_first = None;
        let mut found = None;
        let mut seen = false;
        for (node, output) in self.walk() {
            let Some(other) = self.properties[output.index()] else { continue };
            if is_note(other) {
                seen = true;
                if other.align >= own.align {
                    found = Some(node);
                }
            } else if seen {
                break;
            } else {
                before_first = Some(node);
            }
        }
        seen.then(|| {
            found.map_or_else(|| self.position_after(before_first), |node| self.position_after(Some(node)))
        })
    }

    fn nearest_of(&self, own: Properties, fits: &dyn Fn(Properties) -> bool) -> Option<usize> {
        let filled = || {
            self.walk()
                .filter_map(|(node, output)| Some((node, self.properties[output.index()]?)))
                .filter(|&(_, other)| fits(other))
        };
        let last = |near: &dyn Fn(Properties) -> bool| {
            filled().filter(|&(_, other)| near(other)).last().map(|(node, _)| node)
        };
        let loaded = |other: Properties| other.alloc && other.contents;
        let exact = last(&|other| {
            (other.contents, other.alloc, other.read_only, other.code, other.tls)
                == (own.contents, own.alloc, own.read_only, own.code, own.tls)
        });
        if exact.is_some() {
            return exact;
        }
        // For sections that are not loaded, the types of neighbours do not count.
        let last =
            |near: &dyn Fn(Properties) -> bool| if own.alloc { last(near) } else { self.last_filled(near) };
        let near = if !own.alloc {
            last(&|other| !other.debug)
        } else if own.code {
            last(&|other| loaded(other) && other.code)
        } else if own.tls {
            return self.nearest_for_tls(own);
        } else if own.read_only && own.contents {
            last(&|other| loaded(other) && other.read_only && !other.tls)
        } else if own.contents {
            last(&|other| loaded(other) && !other.tls)
        } else {
            None
        };
        // Code and read-only data stand before everything that is written.
        let begins = own.code || own.read_only;
        near.or_else(|| if own.alloc && !begins { last(&|other| other.alloc) } else { None })
    }

    /// The neighbour of a thread-local section: the last thread-local section, but for data the last one
    /// before zeros. If there is none, the last loaded section.
    fn nearest_for_tls(&self, own: Properties) -> Option<usize> {
        let mut found = None;
        let mut seen = false;
        for (node, output) in self.walk() {
            let Some(other) = self.properties[output.index()] else { continue };
            if other.alloc && other.tls {
                if own.contents && !other.contents {
                    break;
                }
                (found, seen) = (Some(node), true);
            } else if seen {
                break;
            } else if other.alloc && other.contents {
                found = Some(node);
            }
        }
        found
    }

    /// The node behind which an orphan goes whose neighbour is this node (`None`: the start). It goes behind
    /// the neighbour and the symbols that are assigned after it, but before the location counter is moved for
    /// the next allocated section. If the neighbour is in an overlay, whose sections share their addresses,
    /// it goes behind the whole overlay.
    fn position_after(&self, neighbour: Option<usize>) -> Option<usize> {
        let mut in_overlay = neighbour.is_some_and(|node| self.is_in_overlay(node));
        let mut skip_dot = neighbour.is_none();
        let mut last = neighbour;
        let mut before_dot = None;
        let mut next = match neighbour {
            Some(node) => self.nodes[node].next,
            None => self.first,
        };
        while let Some(node) = next {
            match &self.nodes[node].command {
                Command::OverlayEnd if in_overlay => in_overlay = false,
                _ if in_overlay => {}
                Command::Assignment(assignment) if assignment.is_to_dot() => {
                    if !skip_dot && before_dot.is_none() {
                        before_dot = Some(last);
                    }
                    // The first assignment of a script sets where the program starts.
                    skip_dot = false;
                }
                Command::Assignment(_) | Command::Assert(_) => {}
                Command::Output(output) => {
                    let properties = self.properties[output.index()];
                    let allocated = properties.is_none_or(|properties| properties.alloc);
                    return before_dot.filter(|_| allocated).unwrap_or(last);
                }
                Command::OverlayStart { .. } | Command::OverlayEnd => return before_dot.unwrap_or(last),
            }
            last = Some(node);
            next = self.nodes[node].next;
        }
        last
    }

    fn is_in_overlay(&self, node: usize) -> bool {
        matches!(self.nodes[node].command, Command::Output(output) if self.plan.outputs[output.index()].overlay)
    }

    fn insert(&mut self, after: Option<usize>, command: Command) -> usize {
        let node = self.nodes.len();
        let next = match after {
            Some(after) => self.nodes[after].next.replace(node),
            None => self.first.replace(node),
        };
        self.nodes.push(Node { command, next });
        node
    }

    fn finish(self) {
        let Placer { plan, nodes, first, .. } = self;
        let mut commands: Vec<Option<Command>> = Vec::with_capacity(nodes.len());
        let mut order = Vec::with_capacity(nodes.len());
        let mut next = first;
        while let Some(node) = next {
            order.push(node);
            next = nodes[node].next;
        }
        commands.extend(nodes.into_iter().map(|node| Some(node.command)));
        plan.commands = order.into_iter().filter_map(|node| commands[node].take()).collect();
    }
}

fn join(a: Properties, b: Properties) -> Properties {
    Properties {
        sh_type: if a.sh_type == elf::SHT_NOBITS { b.sh_type } else { a.sh_type },
        align: a.align.max(b.align),
        contents: a.contents || b.contents,
        alloc: a.alloc || b.alloc,
        read_only: a.read_only && b.read_only,
        code: a.code || b.code,
        tls: a.tls || b.tls,
        debug: a.debug && b.debug,
    }
}

/// Header fields of all sections of an output section, joined.
pub fn facts_of(plan: &LayoutPlan, lists: &[List], output: usize) -> OutputFacts {
    plan.outputs[output]
        .rules()
        .fold(OutputFacts::default(), |facts, rule| facts.join(lists[rule.index()].facts))
}
