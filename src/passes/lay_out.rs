//! Gives every section and symbol its address.
//!
//! Lists the live sections of each rule, puts them in order, finds places for orphans, and lets
//! [`crate::layout::converge`] carry the plan out until no address changes.

use crate::arch::Target;
use crate::cli::{Config, Magic, OrphanHandling, OutputFormat, SFrameIndex, SeparateCode};
use crate::diag::{Code, Diagnostic, Severity};
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::{RuleId, SectionId};
use crate::input::SectionInfo;
use crate::input::sframe::orphan_name;
use crate::layout::check::{self, Origin};
use crate::layout::converge::{self, Fixed, Special};
use crate::layout::machine::{Machine, OutputState, Settings};
use crate::layout::names::{OutputNames, Symbols};
use crate::layout::orphan::{self, Key, Orphan};
use crate::layout::place::{self, List};
use crate::layout::priority::Priorities;
use crate::layout::segments::Wishes;
use crate::layout::shuffle::InputOrder;
use crate::layout::spill::{self, Alternatives};
use crate::layout::{file_offsets, finish, kept, link_order, priority, sort, split};
use crate::passes::{compute_values, create_relocatable, insert_thunks, match_script, read_scripts};
use crate::phase::{Growing, Inputs, Placed, Tables};
use crate::plan::{Body, LayoutPlan, Rule};
use crate::relocs::{address, emit};
use crate::script::ast::Assignment;
use crate::script::builtin::Switches;
use crate::script::expr::{Expr, ExprKind};
use crate::script::glob::Glob;
use crate::sframe_output;
use crate::symbols::{Definition, LinkerSymbolOrigin, Mentions, Reserved, is_identifier};
use crate::synth::{self, references, symtab_entries};
use crate::tables::section::Kind;
use crate::timing::Timings;
use rayon::prelude::*;

/// Most rounds in which sections may change their size because addresses changed. Sections only grow, so few
/// rounds are needed.
const MAX_RESIZES: u32 = 32;

/// Lays the output out. `priorities` is the order of a profile or an ordering file.
pub fn run<'a, T: Target>(
    tables: Tables<'a, T>,
    growing: Growing<'a>,
    priorities: &Priorities,
    timings: &mut Timings,
) -> Placed<'a, T> {
    let mut link = Placed::new(tables, growing);
    warn_image_base(&link);
    let merged = link.merged.iter().map(|merged| merged.rule);
    let mut rules: Vec<Option<RuleId>> = link.rules.iter().copied().chain(merged).collect();
    let mut plan = link.plan.clone();
    let lists = list_sections(&link, priorities, &mut plan, &mut rules);
    let alternatives = match_script::alternatives(&link);
    link.places.rule = converge(&mut link, &plan, rules, lists, alternatives);
    link.layout.plan = plan;
    link.local_symbols = synth::thunks::names(&link);
    report_missing_headers(&link);
    create_relocatable::run(&mut link);
    link.places.rule.resize(link.section_count(), None);
    for (index, chunk) in link.layout.chunks.iter_mut().enumerate() {
        chunk.header_index = index as u32 + 1;
    }
    link.named_globals = references::globals(&link);
    link.symtab = symtab_entries::plan(&link);
    timings.pass("lay out");
    if !link.sink.has_errors() {
        link.addresses = address::look_up(&link);
        link.frame_order = sframe_output::table::order(&link);
        timings.pass("order SFrame table");
        link.values = compute_values::run(&link);
        link.layout.entry = finish::entry(&link);
        timings.pass("compute values");
    }
    link
}

/// The sections of each rule, in order. Orphans get rules of their own in the plan.
fn list_sections<T: Target>(
    link: &Placed<'_, T>,
    priorities: &Priorities,
    plan: &mut LayoutPlan,
    rules: &mut [Option<RuleId>],
) -> Vec<List> {
    let order = InputOrder::new(link);
    let (mut lists, left) = place::list(link, rules, &order);
    mix_orders(link, &order, rules, &mut lists);
    priority::gather(link, rules, priorities, &order, &mut lists);
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
    orphan::place(plan, &mut lists, rules, &orphans, link.config.is_relocatable());
    for list in &mut lists[first_new..] {
        priorities.sort(&mut list.items);
        list.has_internal = list.items.iter().any(|item| item.0 >= link.first_internal());
    }
    place::gather(link, &mut lists[first_new..]);
    split::run(link, plan, &mut lists, rules);
    link_order::prepare(link, &mut lists);
    let mut positions = Vec::new();
    if lists.iter().any(|list| list.link_order) {
        positions = vec![0u64; link.section_count()];
        link_order::initial_positions(link, &lists, &converge::list_ranks(plan), &mut positions);
    }
    link_order::sort(link, &mut lists, &|id| positions.get(id.index()).copied());
    lists
}

/// Input statements whose patterns ask for different orders: puts the sections of all patterns into the list
/// of the first, in mixed order.
fn mix_orders<T: Target>(
    link: &Placed<'_, T>,
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

/// The orphans among `left`, with the keys by which they join output sections. Reports them as
/// `--orphan-handling` asks.
fn orphans<'a, T: Target>(link: &Placed<'a, T>, left: &[SectionId]) -> Vec<Orphan<'a>> {
    let handling = link.config.layout.orphan_handling;
    left.iter()
        .map(|&id| {
            let orphan = orphan(link, id);
            // Empty synthetic sections will be dropped, so nobody needs to hear of them.
            let unused = id.0 >= link.first_internal() && orphan.info.size == 0;
            if !orphan.last && !unused && matches!(handling, OrphanHandling::Warn | OrphanHandling::Error) {
                report_orphan(link, &orphan, handling);
            }
            orphan
        })
        .collect()
}

fn orphan<'a, T: Target>(link: &Placed<'a, T>, id: SectionId) -> Orphan<'a> {
    let mut info = link.section_info(id);
    let relocatable = link.config.is_relocatable();
    if is_common(link, id) && info.name == b"COMMON" {
        info.name = b".bss";
    }
    if !relocatable && link.is_sframe_section(id) {
        // `.sframe.text` and the like, where a script has no place for them.
        info.name = orphan_name(info.sh_type);
    }
    let has = |bit: u32| info.flags & u64::from(bit) != 0;
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
    let united = u64::from(elf::SHF_GROUP | elf::SHF_WRITE | elf::SHF_EXECINSTR | merge);
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

/// The target of an `SHF_LINK_ORDER` orphan that may share an output section with orphans of targets in one
/// output section. Members of groups may not, nor `.sframe`, which tools read as one table.
fn described<T: Target>(link: &Placed<'_, T>, id: SectionId) -> Option<SectionId> {
    let target = link_order::target(link, id)?;
    let info = link.section_info(id);
    let grouped = info.flags & u64::from(elf::SHF_GROUP) != 0 && !link.plan.force_group_allocation;
    (!grouped && !info.is_sframe() && !is_unique(link.config, &info)).then_some(target)
}

/// Whether `--unique` keeps orphans of this name apart.
fn is_unique(config: &Config, info: &SectionInfo<'_>) -> bool {
    let unique = &config.layout.unique;
    unique.orphans || unique.patterns.iter().any(|pattern| Glob::new(pattern).matches(info.name))
}

fn is_common<T: Target>(link: &Placed<'_, T>, id: SectionId) -> bool {
    let row = link.synthetic_row(id);
    row.is_some_and(|row| link.synthetics.section(row).kind == Kind::Common)
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

/// Repeats rounds of the layout until addresses converge, then updates sizes that depend on addresses, until
/// those stay the same, too. Gives the rules of all sections: `--enable-non-contiguous-regions` changes them,
/// and pools of thunks get theirs here.
fn converge<T: Target>(
    link: &mut Placed<'_, T>,
    plan: &LayoutPlan,
    rules: Vec<Option<RuleId>>,
    lists: Vec<List>,
    mut alternatives: Alternatives,
) -> Vec<Option<RuleId>> {
    let relocatable = link.config.is_relocatable();
    let sframe_alloc = link.config.sframe.alloc;
    let offsets = vec![0; link.section_count()];
    let outputs = plan.outputs.iter().map(|_| OutputState::default()).collect();
    let mut machine = Machine::new(plan, rules, lists, offsets, outputs, settings::<T>(link.config));
    converge::refresh_outputs(&mut machine, relocatable, sframe_alloc);
    report_types(link, &machine);
    start_outputs(link, &mut machine);
    machine.output_names = OutputNames::new(plan, &|output| machine.outputs[output as usize].facts.count > 0);
    machine.symbols = Symbols::new(link, plan, &machine.output_names);
    let fixed = fixed(link, plan);
    machine.headers_size = fixed.file_header_size;
    let mut attempt = 0;
    loop {
        let mut round = converge::repeat(link, &mut machine, &fixed);
        while spill::run(link, &mut machine, &mut alternatives) {
            converge::refresh_outputs(&mut machine, relocatable, sframe_alloc);
            machine.output_names =
                OutputNames::new(plan, &|output| machine.outputs[output as usize].facts.count > 0);
            round = converge::repeat(link, &mut machine, &fixed);
        }
        let origins: Vec<Origin> = round
            .outputs
            .iter()
            .map(|&output| &plan.outputs[output as usize])
            .map(|output| Origin { span: output.span, overlay: output.overlay })
            .collect();
        finish::publish(link, &mut machine, round);
        if synth::android::is_wanted(link) {
            // The size of Android's packed relocations depends on addends.
            link.addresses = address::look_up(link);
            link.values = compute_values::run(link);
        }
        let goes_on = !link.sink.has_errors() && attempt < MAX_RESIZES;
        if goes_on && synth::update_sizes(link) | insert_thunks::run(link, &mut machine) {
            for list in machine.lists.iter_mut().filter(|list| list.has_internal) {
                list.gather(link);
            }
            converge::refresh_outputs(&mut machine, relocatable, sframe_alloc);
            attempt += 1;
            continue;
        }
        for finding in std::mem::take(&mut machine.findings) {
            link.sink.report_recoverable(finding);
        }
        if link.config.layout.check_sections && !relocatable {
            for finding in check::overlaps(plan, &link.layout.chunks, &origins) {
                link.sink.report_recoverable(finding);
            }
        }
        return machine.section_rules;
    }
}

/// Whether an assignment on demand (`PROVIDE`) makes the symbol.
fn is_made<T: Target>(link: &Placed<'_, T>, assignment: &Assignment) -> bool {
    let id = link.globals.lookup(&assignment.target.bytes);
    id.is_some_and(|id| matches!(link.definition(id), Definition::Linker(_)))
}

/// Decides which output sections exist in the first round: those with input sections, with data, or with an
/// assignment to dot.
fn start_outputs<T: Target>(link: &Placed<'_, T>, machine: &mut Machine<'_>) {
    for (index, output) in machine.plan.outputs.iter().enumerate() {
        let lists = output.body.iter().filter_map(|item| match item {
            Body::Rule(rule) => Some(&machine.lists[rule.index()]),
            _ => None,
        });
        // Tables about the file get their sizes after layout, so they look empty here.
        let is_table = |id: &SectionId| {
            link.synthetic_row(*id).is_some_and(|row| link.synthetics.section(row).kind.is_about_file())
        };
        let keep = lists.flat_map(|list| list.items.first()).any(is_table);
        let writes = |item: &Body| match item {
            Body::Data(..) | Body::Text(_) => true,
            Body::Assignment(assignment) => assignment.is_to_dot(),
            _ => false,
        };
        let assigns = |item: &Body| match item {
            Body::Assignment(assignment) if assignment.is_to_dot() => false,
            Body::Assignment(assignment) => !assignment.kind.is_provide() || is_made(link, assignment),
            _ => false,
        };
        let state = &mut machine.outputs[index];
        state.keep = keep;
        state.in_output = keep || state.facts.count > 0 || output.body.iter().any(writes);
        state.assigns = output.body.iter().any(assigns);
    }
    if !link.config.is_relocatable() {
        kept::keep_those_with_symbols(link, machine);
    }
    // A table of long section numbers is only needed where there are so many.
    let count = machine.outputs.iter().filter(|state| state.in_output).count();
    if count < usize::from(elf::SHN_LORESERVE) - MARGIN
        && !emit::is_wanted(link)
        && let Some(row) = link.synthetics.find(Kind::SymTabShndx)
    {
        let id = link.synthetic_id(row);
        if let Some(rule) = machine.section_rules[id.index()] {
            let state = &mut machine.outputs[machine.plan.rule(rule).output as usize];
            (state.keep, state.in_output, state.unneeded) = (false, false, true);
        }
    }
}

/// Number of output sections that may still be added: empty ones that get contents in a later round.
const MARGIN: usize = 256;

fn page_sizes<T: Target>(config: &Config) -> (u64, u64) {
    let layout = &config.layout;
    let common = layout.common_page_size;
    let max = layout.max_page_size.unwrap_or(T::MAX_PAGE_SIZE.max(common.unwrap_or(0)));
    (max, common.unwrap_or(T::COMMON_PAGE_SIZE).min(max))
}

fn separate_code<T: Target>(config: &Config) -> bool {
    let layout = &config.layout;
    let default = T::SEPARATE_CODE && layout.rosegment != Some(false);
    let wanted = layout.separate_code.map_or(default, |wanted| wanted != SeparateCode::No);
    layout.magic == Magic::Paged && wanted
}

/// The text of the built-in script that this link uses, as GNU ld would read it.
pub fn built_in_text<T: Target>(config: &Config) -> String {
    let script = read_scripts::built_in(config);
    let order = read_scripts::built_in_order(config);
    settings::<T>(config).switches.map_or_else(String::new, |switches| script.resolved_text(order, &switches))
}

/// Warns of an image base that is no multiple of the page size: the system maps a program in whole pages.
fn warn_image_base<T: Target>(link: &Inputs<'_, T>) {
    let (max_page_size, _) = page_sizes::<T>(link.config);
    if let Some(base) = link.config.layout.image_base
        && link.config.layout.magic == Magic::Paged
        && link.config.scripts.scripts.is_empty()
        && base % max_page_size != 0
    {
        link.sink.report(
            Diagnostic::warning(
                Code::LayoutError,
                format!("the address of the first segment, {base:#x}, is not a multiple of the maximum page size, {max_page_size:#x}"),
            )
            .help("-z max-page-size=SIZE sets that size"),
        );
    }
}

fn settings<T: Target>(config: &Config) -> Settings {
    let layout = &config.layout;
    let (max_page_size, common_page_size) = page_sizes::<T>(config);
    Settings {
        max_page_size,
        common_page_size,
        relro_page_size: if T::RELRO_ENDS_ON_MAX_PAGE { max_page_size } else { 0 },
        switches: Some(Switches {
            separate_code: separate_code::<T>(config),
            protect_got: config.dynamic.bind_now && layout.relro,
            paged_data: layout.magic != Magic::OMagic,
            image_base: T::IMAGE_BASE,
            reserved_slots: T::GOT_PLT_RESERVED * 8,
            symbol_alignment: if T::EVEN_TARGETS { 2 } else { 1 },
        }),
        image_base: layout.image_base,
        rodata_segment: layout.rodata_segment,
        ldata_segment: layout.ldata_segment,
        relocatable: config.is_relocatable(),
        big_endian: T::EI_DATA == elf::ELFDATA2MSB,
    }
}

/// Whether the script makes room for headers: whether an expression uses `SIZEOF_HEADERS`.
fn keeps_headers_room(plan: &LayoutPlan) -> bool {
    fn speaks_of(expr: &Expr) -> bool {
        matches!(expr.kind, ExprKind::SizeOfHeaders) || expr.operands().into_iter().any(speaks_of)
    }
    let mut found = false;
    plan.for_each_expression(&mut |expr| found |= speaks_of(expr));
    found
}

fn fixed<'a, T: Target>(link: &Placed<'a, T>, plan: &LayoutPlan) -> Fixed<'a> {
    let config = link.config;
    let layout = &config.layout;
    let alive = |kind: Kind| {
        let id = link.synthetic_id(link.synthetics.find(kind)?);
        link.sections.is_alive(id).then_some(id)
    };
    let image = config.output_format == OutputFormat::Binary;
    let paged = layout.magic == Magic::Paged;
    let (max_page_size, _) = page_sizes::<T>(config);
    let executable = layout.executable_stack.or(link.executable_stack);
    // If neither objects nor options mention a stack (firmware), there is no header for it.
    let stack = executable.or(layout.stack_size.map(|_| false)).filter(|_| !layout.no_gnu_stack);
    Fixed {
        names: plan.outputs.iter().map(|output| link.store.keep(&output.name[..])).collect(),
        relro: layout.relro && paged && !config.is_relocatable(),
        special: Special {
            dynamic: alive(Kind::Dynamic),
            eh_frame_hdr: alive(Kind::EhFrameHdr),
            sframe_index: alive(Kind::SFrame).filter(|_| config.sframe.index == Some(SFrameIndex::V3)),
        },
        wishes: Wishes {
            page_size: max_page_size,
            align_page: if paged { max_page_size } else { 1 },
            separate_code: separate_code::<T>(config),
            separate_all: layout.separate_code == Some(SeparateCode::AllSegments),
            paged,
            headers_room: keeps_headers_room(plan),
            // The flag of a section of an object would stay in the program that is made of it.
            writable_text: layout.magic == Magic::OMagic && !config.is_relocatable(),
            stack: stack.map(|executable| (executable, layout.stack_size.unwrap_or(0))),
            ..Wishes::default()
        },
        segments: !config.is_relocatable() && !image,
        file_header_size: if image { 0 } else { file_offsets::FILE_HEADER_SIZE },
    }
}

/// Warns of output sections whose input sections have types that do not go together.
fn report_types<T: Target>(link: &Placed<'_, T>, machine: &Machine<'_>) {
    for (plan, state) in machine.plan.outputs.iter().zip(&machine.outputs) {
        let Some((first, other)) = state.facts.mismatch.filter(|_| !plan.discard) else { continue };
        let described = |id: SectionId| {
            format!("{} has type {:#x}", link.describe_place(id, 0), link.section_info(id).sh_type)
        };
        link.sink.report(
            Diagnostic::warning(
                Code::LayoutError,
                format!(
                    "sections of different types are put into output section {}, which gets type {:#x}",
                    String::from_utf8_lossy(&plan.name),
                    state.attributes.sh_type
                ),
            )
            .note(described(first))
            .note(described(other))
            .ordered(link.rank_of_file(other), other.0, 0),
        );
    }
}

/// Reports a strong reference to `__ehdr_start` if no segment loads the headers.
fn report_missing_headers<T: Target>(link: &Placed<'_, T>) {
    let headers = link.linker_symbols.iter().find(|symbol| {
        symbol.origin == LinkerSymbolOrigin::Reserved(Reserved::EhdrStart)
            && link.mentions(symbol.symbol).contains(Mentions::STRONG_REFERENCE)
            && link.is_name_used(symbol.symbol)
    });
    if headers.is_some() && link.layout.headers_address.is_none() {
        link.sink.report_recoverable(
            Diagnostic::error(
                Code::UndefinedSymbol,
                "__ehdr_start has no address: the file header is not in a loaded segment",
            )
            .help("leave room for SIZEOF_HEADERS before the first section of the script"),
        );
    }
}
