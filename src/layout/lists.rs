//! Decides which sections stand in the place of each rule, and in which order, before there are addresses.
//!
//! A rule has the sections that its pattern took, in the order of the inputs, or in the order that the
//! pattern, a profile or an ordering file asks for. Sections that no rule took are orphans and get rules of
//! their own.

use super::link_order;
use super::orphan::{self, Key, Orphan};
use super::place::{self, List};
use super::priority::{self, Priorities};
use super::shuffle::InputOrder;
use super::{converge, padding, settings, sort, split};
use crate::arch::Target;
use crate::cli::{Config, OrphanHandling};
use crate::diag::{Code, Diagnostic, Severity};
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::{RuleId, SectionId};
use crate::input::SectionInfo;
use crate::input::sframe::orphan_name;
use crate::phase::{Contents, Inputs};
use crate::plan::{LayoutPlan, Rule};
use crate::script::glob::Glob;
use crate::symbols::is_identifier;
use crate::tables::section::Kind;
use parallel::{IntoParallel, ParallelSlice};

/// The sections of each rule, and the rule of each section.
pub struct Lists {
    /// The sections, by rule.
    pub lists: Vec<List>,
    /// The rules, by section; `None` for sections outside the layout.
    pub rules: Vec<Option<RuleId>>,
}

/// One job describes so many orphans at least.
const FEW: usize = 256;

/// Lists the sections of each rule, in order. Orphans get rules of their own in the plan. `priorities` is the
/// order from a profile or an ordering file.
pub fn of_rules<T: Target>(link: &Contents<'_, T>, priorities: &Priorities, plan: &mut LayoutPlan) -> Lists {
    let rule =
        |id: usize| link.rules.get(id).copied().unwrap_or_else(|| link.merged[id - link.rules.len()].rule);
    let count = link.rules.len() + link.merged.len();
    let mut rules: Vec<Option<RuleId>> = (0..count).into_par_iter().with_min_len(4096).map(rule).collect();
    let order = InputOrder::new(link);
    let (mut lists, left) = place::list(link, &rules, &order);
    mix_orders(link, &order, &mut rules, &mut lists);
    priority::gather(link, &mut rules, priorities, &order, &mut lists);
    lists.par_iter_mut().zip(&plan.rules).for_each(|(list, rule)| {
        if !list.mixed {
            sort::sort(link, rule, &mut list.items);
        }
        priorities.sort(&mut list.items);
    });
    place::gather(link, &mut lists);
    let first_new = lists.len();
    let mut orphans = orphans(link, &left);
    if link.config.is_relocatable() {
        let output_of = |id: SectionId| rules[id.index()].map(|rule| plan.rule(rule).output);
        orphan::join_described(&mut orphans, |id| described(link, id), output_of);
    }
    orphan::place(plan, &mut lists, &mut rules, &orphans, link.config.is_relocatable());
    for list in &mut lists[first_new..] {
        priorities.sort(&mut list.items);
        list.has_internal = list.items.iter().any(|item| item.0 >= link.first_internal());
    }
    place::gather(link, &mut lists[first_new..]);
    split::run(link, plan, &mut lists, &mut rules);
    link_order::prepare(link, &mut lists);
    let mut positions = Vec::new();
    if lists.iter().any(|list| list.link_order) {
        positions = vec![0u64; link.section_count()];
        link_order::initial_positions(link, &lists, &converge::list_ranks(plan), &mut positions);
    }
    link_order::sort(link, &mut lists, &|id| positions.get(id.index()).copied());
    padding::choose(link, plan, &mut lists, settings::page_sizes::<T>(link.config).0);
    Lists { lists, rules }
}

/// Puts the sections of all patterns of an input statement into the list of the first pattern, in mixed
/// order, if the patterns ask for different orders.
fn mix_orders<T: Target>(
    link: &Contents<'_, T>,
    order: &InputOrder,
    rule_of: &mut [Option<RuleId>],
    lists: &mut [List],
) {
    let rules = &link.plan.rules;
    let mut start = 0;
    while start < rules.len() {
        let statement = rules[start].statement;
        let same = |rule: &&Rule| rule.statement == statement && statement.is_some();
        let count = rules[start..].iter().take_while(same).count().max(1);
        let held: Vec<&[SectionId]> =
            lists[start..start + count].iter().map(|list| &list.items[..]).collect();
        if held.iter().filter(|items| !items.is_empty()).count() > 1 {
            let items = sort::mix(link, order, &rules[start..start + count], &held);
            let has_internal = lists[start..start + count].iter().any(|list| list.has_internal);
            for &item in &items {
                rule_of[item.index()] = Some(RuleId::from_index(start));
            }
            for list in &mut lists[start..start + count] {
                *list = List::default();
            }
            lists[start] = List { items, mixed: true, has_internal, ..List::default() };
        }
        start += count;
    }
}

/// The orphans among `left`, with the keys by which they join output sections. Reports them if
/// `--orphan-handling` asks for it.
fn orphans<'a, T: Target>(link: &Contents<'a, T>, left: &[SectionId]) -> Vec<Orphan<'a>> {
    let handling = link.config.layout.orphan_handling;
    left.par_iter()
        .with_min_len(FEW)
        .map(|&id| {
            let orphan = orphan(link, id);
            // An empty synthetic section will be dropped, so nobody needs to hear of it.
            let unused = id.0 >= link.first_internal() && orphan.info.size == 0;
            if !orphan.last
                && !unused
                && !is_hidden(link, id)
                && matches!(handling, OrphanHandling::Warn | OrphanHandling::Error)
            {
                report_orphan(link, &orphan, handling);
            }
            orphan
        })
        .collect()
}

fn orphan<'a, T: Target>(link: &Contents<'a, T>, id: SectionId) -> Orphan<'a> {
    let mut info = link.section_info(id);
    let relocatable = link.config.is_relocatable();
    if is_common(link, id) && info.name == b"COMMON" {
        info.name = b".bss";
    }
    if !relocatable && link.is_sframe_section(id) {
        // `.sframe.text` and similar names, if a script has no place for them.
        info.name = orphan_name(info.sh_type);
    }
    let has = |flag: u64| info.flags & flag != 0;
    let last = match link.synthetic_row(id) {
        Some(row) => is_about_output(link.synthetics.section(row).kind, info.sh_type, relocatable),
        None => false,
    };
    let grouped = relocatable && has(elf::SHF_GROUP) && !link.plan.force_group_allocation;
    let alone = last
        || grouped
        || relocatable && (has(elf::SHF_LINK_ORDER) || info.is_sframe())
        || is_unique(link.config, &info);
    let merge = elf::SHF_MERGE | elf::SHF_STRINGS;
    let united = elf::SHF_GROUP | elf::SHF_WRITE | elf::SHF_EXECINSTR | merge;
    let exact = (info.sh_type, info.flags & !united);
    let key = Key {
        name: info.name,
        alloc: is_alloc(info.flags),
        tls: has(elf::SHF_TLS),
        contents: info.sh_type != elf::SHT_NOBITS || has(elf::SHF_TLS) || is_identifier(info.name),
        exact: relocatable.then_some(exact),
        own: alone.then_some(id),
        describes: None,
    };
    Orphan { id, info, key, may_join: !alone, last }
}

/// The target of an `SHF_LINK_ORDER` orphan, if the orphan may share an output section with others whose
/// targets lie in one output section. Members of groups may not, and neither may `.sframe`, which tools read
/// as one table.
fn described<T: Target>(link: &Contents<'_, T>, id: SectionId) -> Option<SectionId> {
    let target = link_order::target(link, id)?;
    let info = link.section_info(id);
    let grouped = info.flags & elf::SHF_GROUP != 0 && !link.plan.force_group_allocation;
    (!grouped && !info.is_sframe() && !is_unique(link.config, &info)).then_some(target)
}

/// Whether `--unique` keeps orphans of this name apart.
fn is_unique(config: &Config, info: &SectionInfo<'_>) -> bool {
    let unique = &config.layout.unique;
    unique.orphans || unique.patterns.iter().any(|pattern| Glob::new(pattern).matches(info.name))
}

fn is_common<T: Target>(link: &Contents<'_, T>, id: SectionId) -> bool {
    let row = link.synthetic_row(id);
    row.is_some_and(|row| link.synthetics.section(row).kind == Kind::Common)
}

/// Whether no script could give it a place, so that it is nobody's fault if none does.
fn is_hidden<T: Target>(link: &Contents<'_, T>, id: SectionId) -> bool {
    let row = link.synthetic_row(id);
    row.is_some_and(|row| link.synthetics.section(row).kind.is_hidden_from_scripts())
}

/// Whether a synthetic section is a table about the output itself, which stands last.
fn is_about_output(kind: Kind, sh_type: u32, relocatable: bool) -> bool {
    kind.is_about_file() || relocatable && matches!(sh_type, elf::SHT_RELA | elf::SHT_REL | elf::SHT_GROUP)
}

fn report_orphan<T: Target>(link: &Inputs<'_, T>, orphan: &Orphan<'_>, handling: OrphanHandling) {
    let place = String::from_utf8_lossy(orphan.info.name);
    let (name, file) = match link.locate(orphan.id) {
        Some((object, index)) => (object.section_name_lossy(index as usize), object.name.to_string()),
        None => (place.to_string(), "<internal>".to_owned()),
    };
    let (severity, message) = match handling {
        OrphanHandling::Error => (Severity::Error, format!("unplaced orphan section `{name}' from `{file}'")),
        _ => (
            Severity::Warning,
            format!("orphan section `{name}' from `{file}' being placed in section `{place}'"),
        ),
    };
    let number = link.rank_of_file(orphan.id);
    link.sink.report(
        Diagnostic::new(severity, Code::OrphanSection, message)
            .help("give it a place in the script's SECTIONS, or discard it there")
            .ordered(number, orphan.id.0, 0),
    );
}
