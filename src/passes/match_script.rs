//! Finds for each section the rule of the layout plan that takes it. The pass runs before garbage collection,
//! because `KEEP` makes roots, and because sections of `/DISCARD/` must be dropped before a reference can
//! keep them.
//!
//! The linker's own sections are matched like sections of a file `<internal>`. Sections whose contents are no
//! part of the program (symbol tables, relocations, groups) are not matched, even if a pattern fits their
//! names. A section that no rule takes is an orphan, and `lay_out` finds it a place.

use crate::arch::Target;
use crate::cli::Config;
use crate::cli::{OrphanHandling, Strip};
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::consts as elf;
use crate::elf::{is_alloc, whole_table};
use crate::ids::{OutputId, RuleId, SectionId};
use crate::input::group::GroupEntry;
use crate::input::{ObjectFile, SectionClass, SectionInfo};
use crate::layout::link_order::{self, dependents_of};
use crate::layout::orphan::is_debug;
use crate::layout::spill::Alternatives;
use crate::phase::{Inputs, Live, Matched, Resolved, SectionState, SectionStates, Synthesized};
use crate::plan::finder::{RuleFinder, file_of};
use crate::plan::{Body, LayoutPlan, Rule};
use crate::rows::filled;
use crate::script::ast::Constraint;
use crate::script::glob::Glob;
use crate::script::matcher::File;
use crate::symbols::{LinkerSymbol, LinkerSymbolOrigin, MentionedBy, start_stop};
use hashbrown::HashSet;
use parallel::{IntoParallel, ParallelSlice};
use zerocopy::IntoBytes;

/// Number of sections that one job matches.
const BLOCK: usize = 4096;

/// Matches all sections.
pub fn run<'a, T: Target>(
    mut synthesized: Synthesized<'a, T>,
    sections: &mut SectionStates,
    mut plan: LayoutPlan,
) -> Matched<'a, T> {
    drop_unwanted_provides(&synthesized, &mut plan);
    let mut rules = filled(None, synthesized.section_count());
    let mut disabled = vec![false; plan.outputs.len()];
    if synthesized.config.is_relocatable() && plan.outputs.iter().any(|output| output.discard) {
        let members = Matching::new(&synthesized, sections, &plan).members_of_discarded_groups();
        synthesized = synthesized
            .refine(|resolved| Resolved { inputs: dissolve_groups(resolved.inputs, members), ..resolved });
    }
    let matching = Matching::new(&synthesized, sections, &plan);
    let mut dropped = matching.all(&mut rules, &disabled);
    dropped.append(&mut matching.check_constraints(&mut rules, &mut disabled));
    let kept_behind = matching.kept_behind(&rules);
    dropped.into_iter().for_each(|id| sections.discard(id, SectionState::DISCARDED_BY_SCRIPT));
    mark(&plan, &rules, sections);
    sections.keep(kept_behind);
    let mut withdrawn = Vec::new();
    if disabled.contains(&true) {
        drop_disabled(&mut plan, &disabled);
        withdrawn = without_assignment(&synthesized, &plan);
    }
    discard_dependents(&synthesized, sections);
    withdrawn.extend(edges_without_output(&synthesized, sections, &plan, &rules));
    let synthesized = synthesized.refine(|resolved| resolved.without(&withdrawn));
    let matched = Matched { synthesized, rules, plan };
    report_shared_sframe(&matched, sections);
    matched
}

/// Drops each `PROVIDE` in front of an ordinary assignment if nothing names its symbol: no object, library or
/// option, and not the script before it.
fn drop_unwanted_provides<T: Target>(synthesized: &Synthesized<'_, T>, plan: &mut LayoutPlan) {
    let options = &synthesized.config.symbols;
    let named =
        options.undefined.iter().chain(&options.require_defined).chain([&synthesized.directives.entry]);
    let named: HashSet<&[u8]> = named.map(Vec::as_slice).collect();
    let mentioned = MentionedBy::IN_OBJECT | MentionedBy::IN_SHARED;
    plan.drop_unwanted_provides(&|name| {
        let symbol = synthesized.globals.lookup(name);
        named.contains(name) || symbol.is_some_and(|id| synthesized.mentions(id).intersects(mentioned))
    });
}

/// Makes the members of groups plain sections, as if their files had no groups, because the script discards
/// the sections of these groups.
fn dissolve_groups<'a, T: Target>(
    mut inputs: Inputs<'a, T>,
    members_by_file: Vec<Vec<u32>>,
) -> Inputs<'a, T> {
    let store = inputs.store;
    let files = inputs.objects.iter_mut().zip(members_by_file);
    for (object, members) in files.filter(|(_, members)| !members.is_empty()) {
        let mut headers = object.headers.to_vec();
        for member in members {
            let flags = &mut headers[member as usize].sh_flags;
            flags.set(flags.get() & !elf::SHF_GROUP);
            inputs.section_classes[object.section_id(member).index()].remove(SectionClass::GROUPED);
        }
        object.headers = whole_table(store.keep(headers.as_bytes()));
    }
    inputs
}

/// For each section, the further rules that match it, behind the one that took it:
/// with `--enable-non-contiguous-regions` all, and otherwise those of its section class. Liveness is frozen,
/// so a section cannot move on to `/DISCARD/`, and the search ends there.
pub fn alternatives<T: Target>(link: &Live<'_, T>) -> Alternatives {
    let mut found = Alternatives::default();
    let (plan, all) = (&link.plan, link.config.layout.non_contiguous_regions);
    if !(all || plan.classes_spill) || link.config.is_relocatable() {
        return found;
    }
    let mut disabled = vec![true; plan.outputs.len()];
    plan.in_order().for_each(|output| disabled[output.index()] = false);
    let matching = Matching::new(link, &link.sections, plan);
    for id in (0..link.section_count()).map(SectionId::from_index).filter(|&id| matching.is_matched(id)) {
        let Some(mut last) = link.rules[id.index()].map(|rule| plan.rule(rule)) else { continue };
        if !all && last.class.is_none() {
            continue;
        }
        let info = link.section_info(id);
        let is_open =
            |rule: &Rule, last: &Rule| !disabled[rule.output.index()] && (all || rule.continues(last));
        while let Some(next) = matching.rule_behind(id, &info, &is_open, last)
            && !plan.rule(next).discard
        {
            found.entry(id).or_default().push_back(next);
            last = plan.rule(next);
        }
    }
    found
}

struct Matching<'l, 'a, T: Target> {
    link: &'l Synthesized<'a, T>,
    sections: &'l SectionStates,
    plan: &'l LayoutPlan,
    finder: RuleFinder<'l>,
    unique: Vec<Glob>,
}

/// The result of matching a section.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// This rule takes it; `None` if it is an orphan.
    Rule(Option<RuleId>),
    /// The output leaves it out, though no rule discards it, because of its kind or
    /// `--orphan-handling=discard`.
    Dropped,
}

impl<'l, 'a, T: Target> Matching<'l, 'a, T> {
    fn new(link: &'l Synthesized<'a, T>, sections: &'l SectionStates, plan: &'l LayoutPlan) -> Self {
        Matching { link, sections, plan, finder: RuleFinder::new(plan), unique: unique_patterns(link.config) }
    }

    /// Matches all live sections. Returns the sections with [`Fate::Dropped`].
    fn all(&self, rules: &mut [Option<RuleId>], disabled: &[bool]) -> Vec<SectionId> {
        let blocks = rules.par_chunks_mut(BLOCK).enumerate().map(|(block, rules)| {
            let mut dropped = Vec::new();
            for (at, rule) in rules.iter_mut().enumerate() {
                let id = SectionId::from_index(block * BLOCK + at);
                *rule = None;
                if self.is_matched(id) {
                    match self.fate(id, disabled) {
                        Fate::Rule(found) => *rule = found,
                        Fate::Dropped => dropped.push(id),
                    }
                }
            }
            dropped
        });
        blocks.flat_map_iter(|dropped| dropped).collect()
    }

    /// The sections that a statement with `KEEP` matches behind the statement that takes them. In GNU ld and
    /// lld `KEEP` is about what its patterns match, wherever that goes. The built-in scripts have no such
    /// statements, so links by these do without the search.
    fn kept_behind(&self, rules: &[Option<RuleId>]) -> Vec<SectionId> {
        if !self.link.config.gc.enabled || !self.plan.replaces_default {
            return Vec::new();
        }
        let is_kept = |(at, rule): (usize, &Option<RuleId>)| {
            let id = SectionId::from_index(at);
            let taken = rule.map(|rule| self.plan.rule(rule)).filter(|rule| !rule.keep && !rule.discard)?;
            self.rule_behind(id, &self.link.section_info(id), &|rule, _| rule.keep, taken).map(|_| id)
        };
        rules.par_iter().enumerate().with_min_len(BLOCK).filter_map(is_kept).collect()
    }

    /// The members of groups that the script discards (`/DISCARD/ : { *(.group) }`), as header indices by
    /// file.
    fn members_of_discarded_groups(&self) -> Vec<Vec<u32>> {
        let (link, disabled) = (self.link, vec![false; self.plan.outputs.len()]);
        let is_discarded = |object: &ObjectFile<'_, T::E>, entry: &GroupEntry<'_>| {
            let id = object.section_id(entry.group.section);
            let rule = self.rule(id, &link.section_info(id), &disabled);
            !entry.discarded && rule.is_some_and(|rule| self.plan.rule(rule).discard)
        };
        let of_file = |(object, entries): (&ObjectFile<'a, T::E>, &Vec<GroupEntry<'a>>)| {
            let discarded = entries.iter().filter(|entry| is_discarded(object, entry));
            discarded.flat_map(|entry| entry.group.members.iter().copied()).collect()
        };
        link.objects.iter().zip(&link.groups.by_file).map(of_file).collect()
    }

    fn is_matched(&self, id: SectionId) -> bool {
        if !self.sections.is_alive(id) || self.sections.is(id, SectionState::NOT_CONTENT) {
            return false;
        }
        match self.link.synthetic_row(id) {
            Some(row) => !self.link.synthetic.section(row).kind.is_hidden_from_scripts(),
            // SFrame inputs that the linker's own section replaces are not matched.
            None => !self.sections.is(id, SectionState::ABSORBED) || !self.link.is_sframe_section(id),
        }
    }

    fn fate(&self, id: SectionId, disabled: &[bool]) -> Fate {
        let info = self.link.section_info(id);
        if is_left_out(self.link.config, &info) {
            return Fate::Dropped;
        }
        let stays_alone = self.stays_alone(&info);
        let rule = if self.is_unique(&info) { None } else { self.rule(id, &info, disabled) };
        match rule {
            Some(found) if self.plan.rule(found).discard => Fate::Rule(rule),
            Some(_) if !stays_alone => Fate::Rule(rule),
            _ if self.link.config.layout.orphan_handling == OrphanHandling::Discard => Fate::Dropped,
            _ => Fate::Rule(None),
        }
    }

    /// Whether a section must not join others, because the output is relocatable and the section is a member
    /// of a group.
    fn stays_alone(&self, info: &SectionInfo<'_>) -> bool {
        self.link.config.is_relocatable()
            && !self.plan.force_group_allocation
            && info.flags & elf::SHF_GROUP != 0
    }

    fn is_unique(&self, info: &SectionInfo<'_>) -> bool {
        self.unique.iter().any(|pattern| pattern.matches(info.name))
    }

    fn rule(&self, id: SectionId, info: &SectionInfo<'_>, disabled: &[bool]) -> Option<RuleId> {
        self.find(id, info, |_, rule| !disabled[rule.output.index()])
    }

    fn rule_behind(
        &self,
        id: SectionId,
        info: &SectionInfo<'_>,
        is_open: &dyn Fn(&Rule, &Rule) -> bool,
        last: &Rule,
    ) -> Option<RuleId> {
        let behind = last.statement?.number();
        self.find(id, info, |statement, rule| statement > behind && is_open(rule, last))
    }

    /// The first matching rule among the statements that `accept` allows. `accept` gets the number of the
    /// statement and its first rule.
    fn find(
        &self,
        id: SectionId,
        info: &SectionInfo<'_>,
        accept: impl Fn(u32, &Rule) -> bool,
    ) -> Option<RuleId> {
        let alloc = elf::SHF_ALLOC;
        let flags =
            if info.is_sframe() && !self.link.config.sframe.alloc { info.flags & !alloc } else { info.flags };
        self.finder.find(info.name, self.file(id), flags, accept)
    }

    fn file(&self, id: SectionId) -> File<'a> {
        let file = match self.link.synthetic_row(id) {
            Some(row) => self.link.synthetic.section(row).file,
            None => self.link.section_file(id),
        };
        let Some(file) = file else { return File { name: b"<internal>", archive: None } };
        file_of(self.link.objects[file.index()].name)
    }

    /// Whether a section is writable. Its name, whose end takes a while to find, does not count.
    fn is_writable(&self, id: SectionId) -> bool {
        let flags = match self.link.locate(id) {
            Some((object, index)) => object.headers[index as usize].sh_flags.get(),
            None => self.link.section_info(id).flags,
        };
        flags & elf::SHF_WRITE != 0
    }

    /// Checks `ONLY_IF_RO` and `ONLY_IF_RW` in the order of output sections. If a constraint fails, its
    /// output section is disabled, and the sections are matched again. Returns the sections with
    /// [`Fate::Dropped`].
    fn check_constraints(&self, rules: &mut [Option<RuleId>], disabled: &mut [bool]) -> Vec<SectionId> {
        let mut dropped = Vec::new();
        let is_constrained = |number: usize| {
            let output = self.plan.rule(RuleId::from_index(number)).output;
            self.plan.outputs[output.index()].constraint.is_some()
        };
        // By rule, because every section asks for this.
        let constrained: Vec<bool> = (0..self.plan.rules.len()).map(is_constrained).collect();
        if !constrained.contains(&true) {
            return dropped;
        }
        let mut taken: Vec<Vec<SectionId>> = vec![Vec::new(); self.plan.outputs.len()];
        let found: Vec<SectionId> = rules
            .par_iter()
            .enumerate()
            .with_min_len(BLOCK)
            .filter(|&(_, &rule)| rule.is_some_and(|rule| constrained[rule.index()]))
            .map(|(id, _)| SectionId::from_index(id))
            .collect();
        let output_of = |rule: Option<RuleId>| Some(self.plan.rule(rule?).output.index());
        for id in found {
            taken[output_of(rules[id.index()]).unwrap_or(0)].push(id);
        }
        for (number, output) in self.plan.outputs.iter().enumerate() {
            let Some(constraint) = output.constraint else { continue };
            let of_output = std::mem::take(&mut taken[number]);
            let writable = of_output.par_iter().with_min_len(BLOCK).any(|&id| self.is_writable(id));
            let holds = match constraint {
                Constraint::OnlyIfReadOnly => !writable,
                Constraint::OnlyIfReadWrite => writable,
                Constraint::Special => false,
            };
            if holds {
                continue;
            }
            disabled[number] = true;
            for id in of_output {
                let rule = match self.fate(id, disabled) {
                    Fate::Rule(found) => found,
                    Fate::Dropped => {
                        dropped.push(id);
                        None
                    }
                };
                rules[id.index()] = rule;
                if let Some(output) = output_of(rule) {
                    taken[output].push(id);
                }
            }
        }
        dropped
    }
}

/// Marks sections that rules keep (`KEEP`) or discard (`/DISCARD/`).
fn mark(plan: &LayoutPlan, rules: &[Option<RuleId>], sections: &mut SectionStates) {
    sections.all_mut().par_iter_mut().zip(rules).with_min_len(BLOCK).for_each(|(state, &rule)| {
        let Some(rule) = rule.map(|rule| plan.rule(rule)) else { return };
        if rule.discard {
            state.discard(SectionState::DISCARDED_BY_SCRIPT);
        } else if rule.keep {
            state.insert(SectionState::KEEP);
        }
    });
}

/// `--unique=PATTERN`: sections of these names join no others.
pub fn unique_patterns(config: &Config) -> Vec<Glob> {
    config.layout.unique.patterns.iter().map(|pattern| Glob::new(pattern)).collect()
}

/// Sections that the kind of output leaves out, even if the script names them.
fn is_left_out(config: &Config, info: &SectionInfo<'_>) -> bool {
    if config.strip.strip >= Strip::Debug && !is_alloc(info.flags) && is_debug(info.name) {
        return true;
    }
    if config.is_relocatable() {
        return false;
    }
    info.flags & elf::SHF_EXCLUDE != 0 || info.name == b".note.GNU-stack"
}

/// Removes output sections whose constraint fails from the plan.
fn drop_disabled(plan: &mut LayoutPlan, disabled: &[bool]) {
    plan.commands.retain(|command| command.output().is_none_or(|output| !disabled[output.index()]));
}

/// The symbols that only disabled output sections assign. The link withdraws their definitions.
fn without_assignment<T: Target>(link: &Resolved<'_, T>, plan: &LayoutPlan) -> Vec<LinkerSymbol> {
    let assigned: HashSet<&[u8]> = plan.symbols().iter().map(|symbol| symbol.name).collect();
    let is_lost = |row: &&LinkerSymbol| {
        row.origin == LinkerSymbolOrigin::Assignment
            && !assigned.contains(link.globals.names[row.symbol.index()])
    };
    link.linker_symbols.iter().filter(is_lost).copied().collect()
}

/// The symbols `__start_NAME` and `__stop_NAME` without an output section NAME, because the script puts all
/// sections of that name into other ones or discards them. The link withdraws their definitions, as GNU ld,
/// lld and gold do.
fn edges_without_output<T: Target>(
    link: &Resolved<'_, T>,
    sections: &SectionStates,
    plan: &LayoutPlan,
    rules: &[Option<RuleId>],
) -> Vec<LinkerSymbol> {
    let of_row = |row: &LinkerSymbol| {
        let is_edge = matches!(row.origin, LinkerSymbolOrigin::Start | LinkerSymbolOrigin::Stop);
        is_edge.then(|| start_stop(link.globals.names[row.symbol.index()])).flatten()
    };
    let edges: Vec<(LinkerSymbol, &[u8])> =
        link.linker_symbols.iter().filter_map(|row| Some((*row, of_row(row)?))).collect();
    if edges.is_empty() {
        return Vec::new();
    }
    let outputs = names_of_filled_outputs(plan, rules, sections);
    let becomes_orphan = |id: &SectionId| rules[id.index()].is_none() && sections.is_alive(*id);
    let is_lost = |&(_, name): &(LinkerSymbol, &[u8])| {
        let mut inputs = link.identifier_sections.get(name).into_iter().flatten();
        !outputs.contains(name) && !inputs.any(becomes_orphan)
    };
    edges.into_iter().filter(is_lost).map(|(symbol, _)| symbol).collect()
}

/// The names of output sections that get contents from statements of the script.
fn names_of_filled_outputs<'p>(
    plan: &'p LayoutPlan,
    rules: &[Option<RuleId>],
    sections: &SectionStates,
) -> HashSet<&'p [u8]> {
    let none = || vec![false; plan.outputs.len()];
    let fill = |is_filled: &mut Vec<bool>, (at, rule): (usize, &Option<RuleId>)| {
        if let Some(rule) = *rule
            && sections.is_alive(SectionId::from_index(at))
        {
            is_filled[plan.rule(rule).output.index()] = true;
        }
    };
    let pieces = rules.par_iter().enumerate().with_min_len(BLOCK).fold_pieces(none, fill);
    let is_filled = pieces.into_iter().fold(none(), |mut all, piece| {
        all.iter_mut().zip(piece).for_each(|(all, piece)| *all |= piece);
        all
    });
    let filled = plan.in_order().filter_map(|number| {
        let output = &plan.outputs[number.index()];
        (is_filled[number.index()] || output.body.iter().any(Body::writes)).then_some(&*output.name)
    });
    filled.collect()
}

/// Discards sections that describe a discarded one (`SHF_LINK_ORDER`).
fn discard_dependents<T: Target>(link: &Resolved<'_, T>, sections: &mut SectionStates) {
    let states = &*sections;
    let mut dependents: Vec<(SectionId, SectionId)> = (0..link.first_internal())
        .into_par_iter()
        .with_min_len(BLOCK)
        .map(SectionId)
        .filter(|&id| states.is_alive(id))
        .filter_map(|id| Some((link_order::target(link, id)?, id)))
        .collect();
    dependents.sort_unstable();
    let targets = dependents.iter().map(|&(target, _)| target);
    let mut dead: Vec<SectionId> =
        targets.filter(|&target| sections.is(target, SectionState::DISCARDED_BY_SCRIPT)).collect();
    dead.dedup();
    while let Some(target) = dead.pop() {
        for dependent in dependents_of(&dependents, target) {
            if sections.is_alive(dependent) {
                sections.discard(dependent, SectionState::DISCARDED_BY_SCRIPT);
                dead.push(dependent);
            }
        }
    }
}

/// Reports under `-r` a script's rule that names SFrame data: it may put several SFrame sections into one,
/// which GNU ld cannot read.
fn report_shared_sframe<T: Target>(link: &Matched<'_, T>, sections: &SectionStates) {
    if !link.config.is_relocatable() {
        return;
    }
    let mut taken: Vec<(OutputId, RuleId, SectionId)> = link
        .rules
        .par_iter()
        .enumerate()
        .with_min_len(BLOCK)
        .filter_map(|(id, &rule)| {
            let rule = rule?;
            let id = SectionId::from_index(id);
            let info = link.section_info(id);
            let output = link.plan.rule(rule).output;
            (info.is_sframe() && info.size > 0 && sections.is_alive(id)).then_some((output, rule, id))
        })
        .collect();
    taken.sort_unstable();
    for group in taken.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
        let (output, _, second) = group[1];
        let plan = &link.plan;
        let output = &plan.outputs[output.index()];
        let file = link.rank_of_file(second);
        link.sink.report(
            Diagnostic::warning(
                Code::SFrameNote,
                format!(
                    "{} SFrame sections are put into one section `{}` of relocatable output",
                    group.len(),
                    output.name_text()
                ),
            )
            .at(match plan.sources.location(output.span) {
                Location::Link => Location::Argument("-T".to_owned()),
                place => place,
            })
            .note(format!("the second one is {}", link.describe_place(second, 0)))
            .help("GNU ld refuses such a section; leave `.sframe` to the linker, which keeps each apart")
            .ordered(file, 0, 0),
        );
    }
}
