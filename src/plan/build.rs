//! Builds the layout plan from scripts and options.

use super::classes::Classes;
use super::memory;
use super::{Body, Command, LINKER_VERSION, LayoutPlan, OutputPlan, Rule};
use crate::cli::{Config, DefSym, SortSection};
use crate::diag::{Code, Diagnostic};
use crate::ids::{OutputId, RuleId, StatementId};
use crate::script::Sources;
use crate::script::ast::{
    Assignment, AssignmentKind, BodyItem, Command as ScriptCommand, InputStatement, Insert, MemoryRegion,
    Name, OutputSection, Overlay, RegionAttributes, Script, SectionsItem, Sort, SortKey,
};
use crate::script::expr::{BinaryOp, Expr, ExprKind, SectionOperand};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The scripts of a link, parsed.
#[derive(Default)]
pub struct Scripts {
    /// The built-in script, or the one of `-dT`.
    pub builtin: Script,
    /// Whether `-dT` named the default script.
    pub own_default: bool,
    /// The scripts of `-T`, in order, each with the number of inputs before it.
    pub replacing: Vec<(usize, Script)>,
    /// Scripts among the inputs, in order, each with the number of inputs before it.
    pub augmenting: Vec<(usize, Script)>,
    /// `--section-ordering-file`.
    pub orders: Vec<OutputSection>,
    /// `--defsym`, in order.
    pub defsyms: Vec<(DefSym, Assignment)>,
    /// The texts of all scripts.
    pub sources: Sources,
}

impl LayoutPlan {
    /// Joins scripts and options. If a statement cannot be carried out, the plan leaves it out, and a
    /// diagnostic about it is returned.
    pub fn new(mut scripts: Scripts, config: &Config) -> (LayoutPlan, Vec<Diagnostic>) {
        let mut builder = Builder::new(config);
        // A script of -T replaces the built-in one if it describes a layout. It does not if it only inserts
        // into the built-in one.
        let replaced =
            scripts.replacing.iter().any(|(_, script)| has_sections(script) && !has_insert(script));
        builder.plan.replaces_default = replaced || scripts.own_default;
        let (early, in_order) = scripts.take_in_order();
        builder.plan.commands.extend(early.into_iter().map(assign));
        let Scripts { builtin, orders, sources, .. } = scripts;
        builder.plan.sources = sources;
        for part in in_order {
            match part {
                Part::Script(script) => builder.script(script),
                Part::Assignment(assignment) => builder.plan.commands.push(assign(assignment)),
            }
        }
        if !replaced {
            // `ENTRY` of a user's script takes precedence over that of the built-in script.
            let entry = builder.plan.entry.take();
            builder.script(builtin);
            builder.plan.entry = entry.or(builder.plan.entry.take());
        }
        builder.insert();
        builder.overwrite();
        builder.put_first(orders);
        builder.finish()
    }
}

fn assign(assignment: Assignment) -> Command {
    Command::Assignment(Box::new(assignment))
}

/// A part of the command line that adds to the plan.
enum Part {
    Script(Script),
    Assignment(Assignment),
}

impl Scripts {
    /// Takes the scripts of the user and `--defsym`s. Assignments of `--defsym` come first, so that scripts
    /// can use them. But the last assignment to a symbol counts, so a `--defsym` that overrides a script
    /// stands among the other parts, which are in the order of the command line.
    fn take_in_order(&mut self) -> (Vec<Assignment>, Vec<Part>) {
        let (late, early): (Vec<_>, Vec<_>) = std::mem::take(&mut self.defsyms)
            .into_iter()
            .partition(|(defsym, _)| self.assigns_before(defsym));
        // A key is the number of inputs before a part, then the number of other parts before it.
        let mut parts: Vec<((usize, usize), Part)> = Vec::new();
        let replacing = std::mem::take(&mut self.replacing).into_iter().enumerate();
        parts.extend(replacing.map(|(at, (before, script))| ((before, 2 * at + 1), Part::Script(script))));
        parts.extend(late.into_iter().map(|(defsym, assignment)| {
            ((defsym.inputs_before, 2 * defsym.scripts_before), Part::Assignment(assignment))
        }));
        let augmenting = std::mem::take(&mut self.augmenting).into_iter();
        parts.extend(augmenting.map(|(before, script)| ((before, usize::MAX), Part::Script(script))));
        parts.sort_by_key(|(key, _)| *key);
        let early = early.into_iter().map(|(_, assignment)| assignment).collect();
        (early, parts.into_iter().map(|(_, part)| part).collect())
    }

    /// Whether a script that stands before this `--defsym` assigns its symbol.
    fn assigns_before(&self, defsym: &DefSym) -> bool {
        let replacing = self.replacing.iter().take(defsym.scripts_before);
        let augmenting = self.augmenting.iter().filter(|(before, _)| *before < defsym.inputs_before);
        replacing.chain(augmenting).any(|(_, script)| script.assigns(&defsym.name))
    }
}

fn has_sections(script: &Script) -> bool {
    script.commands.iter().any(|command| matches!(command, ScriptCommand::Sections(_)))
}

fn has_insert(script: &Script) -> bool {
    script.commands.iter().any(|command| matches!(command, ScriptCommand::Insert(_)))
}

/// The plan while it is built.
pub(super) struct Builder<'c> {
    config: &'c Config,
    pub(super) plan: LayoutPlan,
    inserts: Vec<(Insert, Vec<Command>)>,
    /// The descriptions of `OVERWRITE_SECTIONS`, in order.
    overwrites: Vec<OutputSection>,
    /// The output sections in these commands and of these descriptions.
    inserted: HashSet<OutputId>,
    /// The section classes of all scripts.
    classes: Classes,
    pub(super) findings: Vec<Diagnostic>,
}

impl<'c> Builder<'c> {
    fn new(config: &'c Config) -> Self {
        let mut plan = LayoutPlan {
            force_group_allocation: config.layout.force_group_allocation,
            ..LayoutPlan::default()
        };
        for (name, start) in &config.layout.section_starts {
            plan.section_starts.insert(name.clone(), *start);
        }
        let (inserts, overwrites) = (Vec::new(), Vec::new());
        let (inserted, classes) = (HashSet::new(), Classes::default());
        Builder { config, plan, inserts, overwrites, inserted, classes, findings: Vec::new() }
    }

    fn script(&mut self, script: Script) {
        let mut commands = Vec::new();
        for command in script.commands {
            self.command(command, &mut commands);
        }
        self.plan.commands.append(&mut commands);
    }

    fn command(&mut self, command: ScriptCommand, out: &mut Vec<Command>) {
        match command {
            ScriptCommand::Sections(items) => {
                for item in items {
                    self.sections_item(item, out);
                }
            }
            ScriptCommand::Overwrite(sections) => self.overwrites.extend(sections),
            ScriptCommand::Insert(insert) => self.inserts.push((insert, std::mem::take(out))),
            ScriptCommand::Assignment(assignment) => out.push(assign(assignment)),
            ScriptCommand::Assert(assert) => out.push(Command::Assert(Box::new(assert))),
            ScriptCommand::Entry(name) => self.plan.entry = Some(name),
            ScriptCommand::Extern(names) => self.plan.undefined.extend(names),
            ScriptCommand::Phdrs(phdrs) => self.plan.phdrs.extend(phdrs),
            ScriptCommand::Memory(regions) => regions.into_iter().for_each(|region| self.region(region)),
            ScriptCommand::RegionAlias { alias, region } => self.plan.region_aliases.push((alias, region)),
            ScriptCommand::NoCrossRefs(names) => self.plan.no_cross_refs.push(names),
            ScriptCommand::NoCrossRefsTo { to, from } => self.plan.no_cross_refs_to.push((to, from)),
            ScriptCommand::ForceCommonAllocation => self.plan.allocate_commons = Some(true),
            ScriptCommand::InhibitCommonAllocation => self.plan.allocate_commons = Some(false),
            ScriptCommand::LdFeature(name) => self.plan.sane_expressions |= *name.bytes == *b"SANE_EXPR",
            ScriptCommand::ForceGroupAllocation => self.plan.force_group_allocation = true,
            ScriptCommand::Input(_)
            | ScriptCommand::Group(_)
            | ScriptCommand::Output(_)
            | ScriptCommand::OutputFormat { .. }
            | ScriptCommand::OutputArch(_)
            | ScriptCommand::Target(_)
            | ScriptCommand::SearchDir(_)
            | ScriptCommand::PrintMap
            | ScriptCommand::Startup(_)
            | ScriptCommand::Version(_)
            | ScriptCommand::Ignored(_) => {} // For the loading of inputs, or without meaning here.
        }
    }

    fn sections_item(&mut self, item: SectionsItem, out: &mut Vec<Command>) {
        match item {
            SectionsItem::Assignment(assignment) => out.push(assign(assignment)),
            SectionsItem::Assert(assert) => out.push(Command::Assert(Box::new(assert))),
            SectionsItem::Entry(name) => self.plan.entry = Some(name),
            SectionsItem::Output(section) => {
                let output = self.output(*section);
                out.push(Command::Output(output));
            }
            SectionsItem::Overlay(overlay) => self.overlay(*overlay, out),
            SectionsItem::Class(class) => {
                let statements = class.statements.into_iter();
                let rules = statements.flat_map(|statement| self.rules(statement)).collect();
                let defined = self.classes.define(&self.plan, class.name, rules);
                self.findings.extend(defined.err().map(|finding| *finding));
            }
        }
    }

    fn output(&mut self, section: OutputSection) -> OutputId {
        let output = OutputId::from_index(self.plan.outputs.len());
        let discard = section.is_discard();
        let mut plan = OutputPlan::named(&section.name.bytes, section.span);
        plan.discard = discard;
        plan.address = section.address.map(Box::new);
        plan.kind = section.kind.map(Box::new);
        plan.load_address = section.load_address.map(Box::new);
        plan.align = section.align.map(Box::new);
        plan.align_with_input = section.align_with_input;
        plan.subalign = section.subalign.map(Box::new);
        plan.constraint = section.constraint;
        plan.region = section.placement.region;
        plan.load_region = section.placement.load_region;
        plan.phdrs = section.placement.phdrs.into();
        plan.fill = section.placement.fill.map(Box::new);
        if let Some(&start) = self.plan.section_starts.get(&plan.name) {
            plan.address = Some(Box::new(Expr::number(plan.span, start)));
        }
        for item in section.body {
            self.body_item(output, discard, item, &mut plan.body);
        }
        self.plan.outputs.push(plan);
        output
    }

    pub(super) fn body_item(
        &mut self,
        output: OutputId,
        discard: bool,
        item: BodyItem,
        body: &mut Vec<Body>,
    ) {
        match item {
            BodyItem::Input(statement) => {
                let rules = self.rules(statement);
                body.extend(self.add_rules(output, discard, rules));
            }
            BodyItem::Class(name) => match self.classes.name(&mut self.plan, name, discard) {
                Ok(rules) => body.extend(self.add_rules(output, discard, rules)),
                Err(finding) => self.findings.push(*finding),
            },
            BodyItem::Assignment(assignment) => body.push(Body::Assignment(Box::new(assignment))),
            BodyItem::Assert(assert) => body.push(Body::Assert(Box::new(assert))),
            BodyItem::Data { size, value } => body.push(Body::Data(size, Box::new(value))),
            BodyItem::Text { bytes, .. } => body.push(Body::Text(bytes)),
            BodyItem::Fill(value) => body.push(Body::Fill(Box::new(value))),
            BodyItem::LinkerVersion(_) if self.config.scripts.linker_version => {
                body.push(Body::Text(LINKER_VERSION.as_bytes().into()));
            }
            // LINKER_VERSION writes nothing without --enable-linker-version, as in GNU ld. The other two mean
            // nothing in ELF.
            BodyItem::LinkerVersion(_) | BodyItem::Constructors(_) | BodyItem::CreateObjectSymbols(_) => {}
        }
    }

    /// Adds rules to the plan, and gives them to an output section.
    fn add_rules(&mut self, output: OutputId, discard: bool, rules: Vec<Rule>) -> impl Iterator<Item = Body> {
        let first = self.plan.rules.len();
        self.plan.rules.extend(rules.into_iter().map(|rule| Rule { output, discard, ..rule }));
        (first..self.plan.rules.len()).map(|row| Body::Rule(RuleId::from_index(row)))
    }

    /// Makes one rule for each run of patterns with the same order. Sections of such a run are mixed in input
    /// order or sorted together, as `.init_array.*` and `.ctors.*` must be. The caller fills in the output
    /// section.
    fn rules(&mut self, statement: InputStatement) -> Vec<Rule> {
        let row = StatementId::from_index(self.plan.statements.len());
        let sorts: Vec<Sort> = match &statement.sections {
            Some(patterns) => patterns.iter().map(|pattern| pattern.sort).collect(),
            None => vec![Sort::default()],
        };
        let mut rules = Vec::new();
        let mut start = 0;
        while start < sorts.len() {
            let run = sorts[start..].iter().take_while(|sort| **sort == sorts[start]).count();
            rules.push(Rule {
                output: OutputId::from_index(0),
                statement: Some(row),
                patterns: start as u32..(start + run) as u32,
                sort: self.with_default_sort(sorts[start]),
                file_sort: statement.file.sort,
                keep: statement.keep,
                discard: false,
                class: None,
            });
            start += run;
        }
        self.plan.statements.push(statement);
        rules
    }

    /// `--sort-section`: gives a pattern without an order this one. For other patterns, it is the second key.
    fn with_default_sort(&self, sort: Sort) -> Sort {
        let default = match self.config.layout.sort_section {
            SortSection::None => return sort,
            SortSection::Name => SortKey::Name,
            SortSection::Alignment => SortKey::Alignment,
        };
        match (sort.first, sort.second) {
            (SortKey::Default, _) => Sort { first: default, ..sort },
            (SortKey::None, _) => sort,
            (first, SortKey::Default) if first != default => Sort { second: default, ..sort },
            _ => sort,
        }
    }

    fn overlay(&mut self, overlay: Overlay, out: &mut Vec<Command>) {
        let Overlay { span, address, no_cross_refs, load_address, subalign, sections, placement } = overlay;
        out.push(Command::OverlayStart { span, address: address.map(Box::new) });
        if no_cross_refs {
            self.plan.no_cross_refs.push(sections.iter().map(|section| section.name.clone()).collect());
        }
        let mut symbols = Vec::new();
        let phdrs: Arc<[Name]> = placement.phdrs.into();
        for section in sections {
            let name = section.name.clone();
            let output = self.output(section);
            let plan = &mut self.plan.outputs[output.index()];
            plan.overlay = true;
            plan.subalign = plan.subalign.take().or_else(|| subalign.clone().map(Box::new));
            plan.region = placement.region.clone();
            plan.load_region = placement.load_region.clone();
            if plan.phdrs.is_empty() {
                plan.phdrs = phdrs.clone();
            }
            plan.fill = plan.fill.take().or_else(|| placement.fill.clone().map(Box::new));
            plan.load_address = load_address.clone().map(Box::new);
            out.push(Command::Output(output));
            symbols.extend(load_symbols(&name));
        }
        out.push(Command::OverlayEnd);
        out.extend(symbols.into_iter().map(assign));
    }

    /// Carries out `INSERT`, in order.
    fn insert(&mut self) {
        if let (true, Some((insert, _))) = (self.config.layout.non_contiguous_regions, self.inserts.first()) {
            self.findings.push(
                Diagnostic::error(
                    Code::ScriptError,
                    "INSERT cannot be used with --enable-non-contiguous-regions",
                )
                .at(self.plan.sources.location(insert.span))
                .ordered(insert.span.file, 0, insert.span.start.into())
                .help("write the output section into the main script"),
            );
        }
        for (insert, commands) in std::mem::take(&mut self.inserts) {
            let named = |command: &Command| match command {
                Command::Output(output) => self.plan.outputs[output.index()].name == *insert.section.bytes,
                _ => false,
            };
            let Some(found) = self.plan.commands.iter().position(named) else {
                self.findings.push(
                    Diagnostic::error(
                        Code::ScriptError,
                        format!("INSERT: there is no output section `{}`", insert.section.text()),
                    )
                    .at(self.plan.sources.location(insert.span))
                    .ordered(insert.span.file, 0, insert.span.start.into())
                    .help("name an output section of the main script; `--verbose` prints the built-in one"),
                );
                continue;
            };
            let at = if insert.after { self.plan.position_after(found, &|_| true) } else { found };
            self.inserted.extend(commands.iter().filter_map(Command::output));
            self.plan.commands.splice(at..at, commands);
        }
    }

    /// Carries out `OVERWRITE_SECTIONS`. A description without a place has no command;
    /// [`crate::layout::orphan`] finds it one if it holds anything.
    fn overwrite(&mut self) {
        for section in std::mem::take(&mut self.overwrites) {
            let plan = &self.plan;
            let has_name = |output: OutputId| plan.outputs[output.index()].name == *section.name.bytes;
            let place = plan.commands.iter().position(|command| command.output().is_some_and(has_name));
            let output = self.output(section);
            self.inserted.insert(output);
            let Some(place) = place else {
                self.plan.outputs[output.index()].unplaced = true;
                continue;
            };
            let old = std::mem::replace(&mut self.plan.commands[place], Command::Output(output));
            if let Some(old) = old.output() {
                self.plan.outputs[old.index()].body.clear();
            }
        }
    }

    fn finish(mut self) -> (LayoutPlan, Vec<Diagnostic>) {
        self.findings.extend(self.classes.findings(&self.plan));
        self.plan.drop_late_provides();
        self.wrap_references();
        self.renumber();
        memory::follow_aliases(&mut self.plan);
        self.check_aliases();
        self.check_load_addresses();
        self.undeclared_regions();
        (self.plan, self.findings)
    }

    /// `--wrap` also renames references in expressions, as in GNU ld and lld. Targets of assignments keep
    /// their names.
    fn wrap_references(&mut self) {
        let mut wrapped = HashMap::new();
        for (from, to) in self.config.symbols.wrapped_references() {
            wrapped.entry(from).or_insert(to);
        }
        if wrapped.is_empty() {
            return;
        }
        self.plan.change_expressions(&mut |expr| {
            expr.change_symbols(&mut |name| {
                if let Some(to) = wrapped.get(&*name.bytes) {
                    name.bytes = to.clone().into();
                }
            });
        });
    }

    /// Adds a region. If a region is declared several times, the last declaration counts, as in GNU ld.
    fn region(&mut self, region: MemoryRegion) {
        let row = match self.plan.region_rows.entry(region.name.bytes.clone()) {
            Entry::Occupied(earlier) => *earlier.get(),
            Entry::Vacant(entry) => {
                entry.insert(self.plan.memory.len());
                return self.plan.memory.push(region);
            }
        };
        let message = format!("redeclaration of memory region `{}'", region.name.text());
        let span = region.span;
        self.plan.memory[row] = region;
        let finding = Diagnostic::warning(Code::ScriptError, message).at(self.plan.sources.location(span));
        self.findings.push(finding.help("the last declaration counts: keep only that one").ordered(
            span.file,
            0,
            span.start.into(),
        ));
    }

    /// Reports sections with both a load address and a load region. A section can have only one of them.
    fn check_load_addresses(&mut self) {
        let mut before = None;
        for output in &self.plan.outputs {
            let (Some(_), Some(region)) = (&output.load_address, &output.load_region) else { continue };
            // Sections of an overlay have both from one place in the script.
            if before.replace(region.span) == Some(region.span) {
                continue;
            }
            let message = format!(
                "output section `{}` has both a load address and a load region",
                String::from_utf8_lossy(&output.name)
            );
            let finding =
                Diagnostic::error(Code::ScriptError, message).at(self.plan.sources.location(region.span));
            let help = "keep either AT(address) or AT>region";
            self.findings.push(finding.help(help).ordered(region.span.file, 0, region.span.start.into()));
        }
    }

    /// Adds regions that sections name and nothing declares. Such a region has all addresses from 0 on, as in
    /// GNU ld.
    fn undeclared_regions(&mut self) {
        let outputs = std::mem::take(&mut self.plan.outputs);
        let declared = self.plan.memory.len();
        for name in outputs.iter().flat_map(|output| [&output.region, &output.load_region]).flatten() {
            if memory::find(&self.plan, &name.bytes).is_none() {
                self.findings.push(memory::undeclared_region(&self.plan, declared, name));
                self.plan.region_rows.insert(name.bytes.clone(), self.plan.memory.len());
                self.plan.memory.push(MemoryRegion {
                    span: name.span,
                    name: name.clone(),
                    attributes: RegionAttributes::default(),
                    origin: Expr::number(name.span, 0),
                    length: Expr::number(name.span, u64::MAX),
                });
            }
        }
        self.plan.outputs = outputs;
    }

    /// Checks aliases of regions. An alias needs a name of its own and must name a region. Neither of the two
    /// may be the region of all memory.
    fn check_aliases(&mut self) {
        let mut names: HashSet<&[u8]> =
            self.plan.memory.iter().map(|region| &region.name.bytes[..]).collect();
        for (alias, region) in &self.plan.region_aliases {
            let mut report = |name: &Name, message: String, help: &str| {
                let finding =
                    Diagnostic::error(Code::ScriptError, message).at(self.plan.sources.location(name.span));
                let place = (name.span.file, name.span.start.into());
                self.findings.push(finding.help(help).ordered(place.0, 0, place.1));
            };
            let is_taken = !names.insert(&alias.bytes);
            if [alias, region].iter().any(|name| *name.bytes == *memory::DEFAULT_NAME) {
                let message =
                    format!("alias for default memory region: `{}' for `{}'", alias.text(), region.text());
                report(alias, message, "declare a region with MEMORY { … }, and name that");
            } else if is_taken {
                let message = format!("redefinition of memory region alias `{}'", alias.text());
                report(alias, message, "give each alias and region a name of its own");
            } else if memory::find(&self.plan, &alias.bytes).is_none() {
                let message =
                    format!("memory region `{}' for alias `{}' does not exist", region.text(), alias.text());
                report(region, message, "declare it with MEMORY { … }");
            }
        }
    }

    /// Numbers rules in the order in which they are tried: first those of inserted output sections, wherever
    /// `INSERT` puts them, then the others in the order of reading. So scripts of the user take precedence
    /// over the one that they insert into. Statements of `--section-ordering-file` were read last, but stand
    /// in front of others. A section class is matched where it is defined, and not where it is named.
    fn renumber(&mut self) {
        let mut order: Vec<usize> = (0..self.plan.outputs.len()).collect();
        order.sort_by_key(|&output| !self.inserted.contains(&OutputId::from_index(output)));
        let early = self.classes.rules_by_place(&self.plan);
        let mut early = early.iter().peekable();
        let mut numbers: Vec<Option<RuleId>> = vec![None; self.plan.rules.len()];
        let mut sorted = Vec::with_capacity(self.plan.rules.len());
        for output in order {
            let mut number = |rule: RuleId| {
                *numbers[rule.index()].get_or_insert_with(|| {
                    sorted.push(self.plan.rules[rule.index()].clone());
                    RuleId::from_index(sorted.len() - 1)
                })
            };
            let is_inserted = self.inserted.contains(&OutputId::from_index(output));
            while let Some(&(_, rule)) = early.next_if(|(place, _)| !is_inserted && *place <= output) {
                number(rule);
            }
            for item in &mut self.plan.outputs[output].body {
                if let Body::Rule(rule) = item {
                    *rule = number(*rule);
                }
            }
        }
        self.plan.rules = sorted;
    }
}

/// The assignments to `__load_start_NAME` and `__load_stop_NAME` of a section in an overlay.
fn load_symbols(section: &Name) -> [Assignment; 2] {
    let cleaned = section.bytes.iter().filter(|byte| byte.is_ascii_alphanumeric() || **byte == b'_');
    let cleaned: Vec<u8> = cleaned.copied().collect();
    let span = section.span;
    let operand = || SectionOperand::Named(section.clone());
    let start = || Expr { span, kind: ExprKind::LoadAddr(operand()) };
    let size = Expr { span, kind: ExprKind::SizeOf(operand()) };
    let stop = Expr { span, kind: ExprKind::Binary(BinaryOp::Add, Box::new(start()), Box::new(size)) };
    let assign = |prefix: &[u8], value| Assignment {
        span,
        kind: AssignmentKind::Provide,
        target: Name { bytes: [prefix, &cleaned].concat().into(), span },
        value,
    };
    [assign(b"__load_start_", start()), assign(b"__load_stop_", stop)]
}
