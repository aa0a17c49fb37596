//! The layout that scripts and options ask for, as one list of commands.
//!
//! [`LayoutPlan::new`] joins the main script (built-in, or that of `-T`), scripts among the inputs
//! and `--defsym` into one list, carries out `INSERT`, takes overlays apart, and gives every run of
//! input patterns that share an order a dense *rule* number: the first rule that matches a section
//! takes it. Options that change the layout change the plan here (`--section-start`,
//! `--sort-section`), so that nothing later asks for options.

pub mod memory;
mod ordering;
use crate::cli::{Config, SortSection};
use crate::diag::{Code, Diagnostic};
use crate::script::ast::{
    Assert, Assignment, AssignmentKind, BodyItem, Command as ScriptCommand, Constraint, DataSize,
    InputStatement, Insert, MemoryRegion, Name, OutputSection, OutputSectionType, Overlay, Phdr,
    RegionAttributes, Script, SectionsItem, Sort, SortKey,
};
use crate::script::expr::{BinaryOp, Expr, ExprKind, SectionOperand};
use crate::script::{Sources, Span};
use indexmap::IndexMap;
use std::ops::Range;

/// The rule of a section that no rule takes.
pub const NO_RULE: u32 = u32::MAX;

/// Scripts and options, joined.
#[derive(Clone, Debug, Default)]
pub struct LayoutPlan {
    /// The commands of the layout, in order.
    pub commands: Vec<Command>,
    /// Output sections that commands name, in order of the text; orphans follow.
    pub outputs: Vec<OutputPlan>,
    /// Rules in order of priority; those of orphans follow.
    pub rules: Vec<Rule>,
    /// Input statements that rules are parts of.
    pub statements: Vec<InputStatement>,
    /// `PHDRS`; empty where segments are derived.
    pub phdrs: Vec<Phdr>,
    /// `MEMORY` regions.
    pub memory: Vec<MemoryRegion>,
    /// `REGION_ALIAS`: new name and the name that it stands for.
    pub region_aliases: Vec<(Name, Name)>,
    /// `ENTRY`, the last one.
    pub entry: Option<Name>,
    /// `EXTERN` symbols.
    pub undefined: Vec<Name>,
    /// `NOCROSSREFS`: sections that may not refer to one another.
    pub no_cross_refs: Vec<Vec<Name>>,
    /// `NOCROSSREFS_TO`: the section, and those that may not refer to it.
    pub no_cross_refs_to: Vec<(Name, Vec<Name>)>,
    /// `FORCE_COMMON_ALLOCATION` (`Some(true)`) or `INHIBIT_COMMON_ALLOCATION` (`Some(false)`).
    pub allocate_commons: Option<bool>,
    /// `--force-group-allocation` or `FORCE_GROUP_ALLOCATION`.
    pub force_group_allocation: bool,
    /// `--section-start` and its kin, for orphans too.
    pub section_starts: IndexMap<Vec<u8>, u64>,
    /// `LD_FEATURE("SANE_EXPR")`.
    pub sane_expressions: bool,
    /// A script of `-T` or `-dT` takes the place of the built-in one.
    pub replaces_default: bool,
    /// Texts that spans point into.
    pub sources: Sources,
}

/// One step of the layout.
#[derive(Clone, Debug)]
pub enum Command {
    /// An assignment to a symbol or to the location counter.
    Assignment(Box<Assignment>),
    /// An assertion.
    Assert(Box<Assert>),
    /// An output section: row of [`LayoutPlan::outputs`].
    Output(u32),
    /// The sections up to [`Command::OverlayEnd`] share their address.
    OverlayStart {
        /// Where it is written.
        span: Span,
        /// That address; the location counter if absent.
        address: Option<Box<Expr>>,
    },
    /// The location counter goes behind the longest section of the overlay.
    OverlayEnd,
}

/// Which place an output section has in its overlay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OverlayPlace {
    /// The first one: its load address is that of the overlay.
    First,
    /// Another: its load address follows that of the section before.
    Following,
}

/// An output section as the plan describes it.
#[derive(Clone, Debug)]
pub struct OutputPlan {
    /// Where it is written; the default for orphans.
    pub span: Span,
    /// Name.
    pub name: Vec<u8>,
    /// `/DISCARD/`.
    pub discard: bool,
    /// Made for sections that no rule takes.
    pub orphan: bool,
    /// Address expression. Few descriptions have one, so it is boxed: relocatable output may have
    /// an output section for each of a million sections.
    pub address: Option<Box<Expr>>,
    /// The type in parentheses.
    pub kind: Option<Box<OutputSectionType>>,
    /// `AT(…)`.
    pub load_address: Option<Box<Expr>>,
    /// `ALIGN(…)`.
    pub align: Option<Box<Expr>>,
    /// `ALIGN_WITH_INPUT`.
    pub align_with_input: bool,
    /// `SUBALIGN(…)`.
    pub subalign: Option<Box<Expr>>,
    /// `ONLY_IF_RO` and its like.
    pub constraint: Option<Constraint>,
    /// Statements between the braces.
    pub body: Vec<Body>,
    /// `>region`.
    pub region: Option<Name>,
    /// `AT>region`.
    pub load_region: Option<Name>,
    /// `:phdr`.
    pub phdrs: Vec<Name>,
    /// `=fill`.
    pub fill: Option<Box<Expr>>,
    /// Its place in an overlay.
    pub overlay: Option<OverlayPlace>,
}

/// Something in an output section.
#[derive(Clone, Debug)]
pub enum Body {
    /// The sections of a rule.
    Rule(u32),
    /// An assignment.
    Assignment(Box<Assignment>),
    /// An assertion.
    Assert(Box<Assert>),
    /// `BYTE(value)` and its like.
    Data(DataSize, Box<Expr>),
    /// `ASCIZ "text"`, or the linker's version.
    Text(Box<[u8]>),
    /// `FILL(value)`.
    Fill(Box<Expr>),
}

impl Body {
    /// Whether it puts bytes of the script into the output.
    pub fn writes(&self) -> bool {
        matches!(self, Body::Data(..) | Body::Text(_))
    }
}

/// A run of input patterns of one statement that share an order.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Row of [`LayoutPlan::outputs`].
    pub output: u32,
    /// Row of [`LayoutPlan::statements`]; [`NO_RULE`] for orphans.
    pub statement: u32,
    /// Patterns of the statement.
    pub patterns: Range<u32>,
    /// Order of sections, `--sort-section` included.
    pub sort: Sort,
    /// Order of files.
    pub file_sort: Sort,
    /// Inside `KEEP`.
    pub keep: bool,
    /// Of `/DISCARD/`.
    pub discard: bool,
}

/// A symbol that a script or `--defsym` assigns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScriptSymbol<'p> {
    /// Its name.
    pub name: &'p [u8],
    /// Only where it is referenced and nothing defines it.
    pub provide: bool,
    /// With hidden visibility.
    pub hidden: bool,
    /// The first assignment.
    pub span: Span,
    /// The one symbol that its value, in the last assignment, is made from.
    pub source: Option<&'p [u8]>,
}

/// The scripts of a link, parsed.
#[derive(Default)]
pub struct Scripts {
    /// The built-in script (or that of `-dT`).
    pub builtin: Script,
    /// Whether `-dT` named the default script.
    pub own_default: bool,
    /// Those of `-T`, in order.
    pub replacing: Vec<Script>,
    /// Those among the inputs, in order.
    pub augmenting: Vec<Script>,
    /// `--section-ordering-file`.
    pub orders: Vec<OutputSection>,
    /// `--defsym`, in order.
    pub defsyms: Vec<Assignment>,
    /// Their texts.
    pub sources: Sources,
}

impl LayoutPlan {
    /// Joins scripts and options. A statement that cannot be carried out comes back as a
    /// diagnostic; the plan leaves it out.
    pub fn new(scripts: Scripts, config: &Config) -> (LayoutPlan, Vec<Diagnostic>) {
        let mut builder = Builder::new(config);
        builder.plan.sources = scripts.sources;
        builder.plan.commands.extend(scripts.defsyms.into_iter().map(assign));
        // A script of -T replaces the built-in one unless it only inserts into it.
        let replaced = scripts.replacing.iter().any(|script| !has_insert(script));
        builder.plan.replaces_default = replaced || scripts.own_default;
        for script in scripts.augmenting.into_iter().chain(scripts.replacing) {
            builder.script(script);
        }
        if !replaced {
            builder.script(scripts.builtin);
        }
        builder.insert();
        builder.put_first(scripts.orders);
        builder.finish()
    }

    /// Every symbol that is assigned, in order of first assignment.
    pub fn symbols(&self) -> Vec<ScriptSymbol<'_>> {
        let mut found: IndexMap<&[u8], ScriptSymbol<'_>> = IndexMap::new();
        self.for_each_assignment(&mut |assignment| {
            if assignment.is_to_dot() {
                return;
            }
            let kind = assignment.kind;
            let name = &*assignment.target.bytes;
            let source = only_symbol(&assignment.value);
            found
                .entry(name)
                .and_modify(|symbol| {
                    symbol.provide &= kind.is_provide();
                    symbol.hidden |= kind.is_hidden();
                    symbol.source = source;
                })
                .or_insert(ScriptSymbol {
                    name,
                    provide: kind.is_provide(),
                    hidden: kind.is_hidden(),
                    span: assignment.span,
                    source,
                });
        });
        found.into_values().collect()
    }

    /// Every symbol whose value expressions ask for, in order, with repetitions. A `PROVIDE` counts
    /// only if the symbol that it provides is `wanted`.
    pub fn referenced_symbols(&self, wanted: &dyn Fn(&[u8]) -> bool) -> Vec<&Name> {
        let mut found = Vec::new();
        self.for_each_assignment(&mut |assignment| {
            if !assignment.kind.is_provide() || wanted(&assignment.target.bytes) {
                assignment.value.for_each_symbol(&mut |name| found.push(name));
            }
        });
        self.for_each_other_expression(&mut |expr| expr.for_each_symbol(&mut |name| found.push(name)));
        found
    }

    fn for_each_assignment<'p>(&'p self, visit: &mut dyn FnMut(&'p Assignment)) {
        self.for_each_placed_assignment(&mut |assignment, _| visit(assignment));
    }

    /// Every assignment, and whether it stands in an output section's description.
    pub fn for_each_placed_assignment<'p>(&'p self, visit: &mut dyn FnMut(&'p Assignment, bool)) {
        for command in &self.commands {
            match command {
                Command::Assignment(assignment) => visit(assignment, false),
                Command::Output(output) => {
                    for item in &self.outputs[*output as usize].body {
                        if let Body::Assignment(assignment) = item {
                            visit(assignment, true);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn for_each_other_expression<'p>(&'p self, visit: &mut dyn FnMut(&'p Expr)) {
        for command in &self.commands {
            match command {
                Command::Assert(assert) => visit(&assert.condition),
                Command::OverlayStart { address: Some(address), .. } => visit(address),
                Command::Output(output) => {
                    let output = &self.outputs[*output as usize];
                    let attributes = [&output.address, &output.load_address, &output.align, &output.subalign];
                    attributes.into_iter().flatten().for_each(|expr| visit(expr));
                    for item in &output.body {
                        match item {
                            Body::Assert(assert) => visit(&assert.condition),
                            Body::Data(_, value) | Body::Fill(value) => visit(value),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Every expression of the plan.
    pub fn for_each_expression<'p>(&'p self, visit: &mut dyn FnMut(&'p Expr)) {
        self.for_each_assignment(&mut |assignment| visit(&assignment.value));
        self.for_each_other_expression(visit);
    }

    /// Adds an output section for orphans, with one rule, behind command `position`. Gives the
    /// number of the rule.
    pub fn add_orphan_output(&mut self, name: &[u8]) -> (u32, u32) {
        let output = self.outputs.len() as u32;
        let rule = self.add_orphan_rule(output);
        let mut plan = OutputPlan::named(name, Span::default());
        plan.orphan = true;
        plan.body.push(Body::Rule(rule));
        plan.address =
            self.section_starts.get(name).map(|&start| Box::new(Expr::number(Span::default(), start)));
        self.outputs.push(plan);
        (output, rule)
    }

    /// A rule for orphans that go into output section `output`; the caller puts it in the body.
    pub fn add_orphan_rule(&mut self, output: u32) -> u32 {
        let rule = self.rules.len() as u32;
        let sort = Sort::default();
        self.rules.push(Rule {
            output,
            statement: NO_RULE,
            patterns: 0..0,
            sort,
            file_sort: sort,
            keep: false,
            discard: false,
        });
        rule
    }

    /// The place of a command that is to follow the output section at `position`: behind the
    /// symbols that are assigned after it, but before the location counter is moved for the next
    /// allocated section. `allocated` tells whether an output section of the plan is (or may be).
    pub fn position_after(&self, position: usize, allocated: &dyn Fn(u32) -> bool) -> usize {
        let mut dot_moves = None;
        let mut at = position + 1;
        while let Some(command) = self.commands.get(at) {
            match command {
                Command::Assignment(assignment) => {
                    if assignment.is_to_dot() && dot_moves.is_none() {
                        dot_moves = Some(at);
                    }
                }
                Command::Assert(_) => {}
                Command::Output(next) => {
                    return dot_moves.filter(|_| allocated(*next)).unwrap_or(at);
                }
                Command::OverlayStart { .. } | Command::OverlayEnd => return dot_moves.unwrap_or(at),
            }
            at += 1;
        }
        at
    }
}

impl OutputPlan {
    /// An empty description of that name.
    pub fn named(name: &[u8], span: Span) -> Self {
        OutputPlan {
            span,
            name: name.to_vec(),
            discard: false,
            orphan: false,
            address: None,
            kind: None,
            load_address: None,
            align: None,
            align_with_input: false,
            subalign: None,
            constraint: None,
            body: Vec::new(),
            region: None,
            load_region: None,
            phdrs: Vec::new(),
            fill: None,
            overlay: None,
        }
    }
}

/// The symbol of an expression that has one.
fn only_symbol(expr: &Expr) -> Option<&[u8]> {
    let (mut found, mut count) = (None, 0);
    expr.for_each_symbol(&mut |name| {
        found = Some(&name.bytes[..]);
        count += 1;
    });
    found.filter(|_| count == 1)
}

fn assign(assignment: Assignment) -> Command {
    Command::Assignment(Box::new(assignment))
}

fn has_insert(script: &Script) -> bool {
    script.commands.iter().any(|command| matches!(command, ScriptCommand::Insert(_)))
}

struct Builder<'c> {
    config: &'c Config,
    plan: LayoutPlan,
    inserts: Vec<(Insert, Vec<Command>)>,
    findings: Vec<Diagnostic>,
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
        Builder { config, plan, inserts: Vec::new(), findings: Vec::new() }
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
            ScriptCommand::Insert(insert) => self.inserts.push((insert, std::mem::take(out))),
            ScriptCommand::Assignment(assignment) => out.push(assign(assignment)),
            ScriptCommand::Assert(assert) => out.push(Command::Assert(Box::new(assert))),
            ScriptCommand::Entry(name) => self.plan.entry = Some(name),
            ScriptCommand::Extern(names) => self.plan.undefined.extend(names),
            ScriptCommand::Phdrs(phdrs) => self.plan.phdrs.extend(phdrs),
            ScriptCommand::Memory(regions) => self.plan.memory.extend(regions),
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
        }
    }

    fn output(&mut self, section: OutputSection) -> u32 {
        let output = self.plan.outputs.len() as u32;
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
        plan.phdrs = section.placement.phdrs;
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

    fn body_item(&mut self, output: u32, discard: bool, item: BodyItem, body: &mut Vec<Body>) {
        match item {
            BodyItem::Input(statement) => self.rules(output, discard, statement, body),
            BodyItem::Assignment(assignment) => body.push(Body::Assignment(Box::new(assignment))),
            BodyItem::Assert(assert) => body.push(Body::Assert(Box::new(assert))),
            BodyItem::Data { size, value } => body.push(Body::Data(size, Box::new(value))),
            BodyItem::Text { bytes, .. } => body.push(Body::Text(bytes)),
            BodyItem::Fill(value) => body.push(Body::Fill(Box::new(value))),
            // Without --enable-linker-version it writes nothing, as in GNU ld; the others mean
            // nothing in ELF.
            BodyItem::LinkerVersion(_) | BodyItem::Constructors(_) | BodyItem::CreateObjectSymbols(_) => {}
        }
    }

    /// One rule for each run of patterns with the same order: sections of such a run are mixed in
    /// input order or sorted together, as `.init_array.*` and `.ctors.*` must be.
    fn rules(&mut self, output: u32, discard: bool, statement: InputStatement, body: &mut Vec<Body>) {
        let row = self.plan.statements.len() as u32;
        let sorts: Vec<Sort> = match &statement.sections {
            Some(patterns) => patterns.iter().map(|pattern| pattern.sort).collect(),
            None => vec![Sort::default()],
        };
        let mut start = 0;
        while start < sorts.len() {
            let run = sorts[start..].iter().take_while(|sort| **sort == sorts[start]).count();
            body.push(Body::Rule(self.plan.rules.len() as u32));
            self.plan.rules.push(Rule {
                output,
                statement: row,
                patterns: start as u32..(start + run) as u32,
                sort: self.with_default_sort(sorts[start]),
                file_sort: statement.file.sort,
                keep: statement.keep,
                discard,
            });
            start += run;
        }
        self.plan.statements.push(statement);
    }

    /// `--sort-section`: the order for a pattern without one, the second key for the others.
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
        for (index, section) in sections.into_iter().enumerate() {
            let name = section.name.clone();
            let output = self.output(section);
            let plan = &mut self.plan.outputs[output as usize];
            plan.overlay = Some(if index == 0 { OverlayPlace::First } else { OverlayPlace::Following });
            plan.subalign = plan.subalign.take().or_else(|| subalign.clone().map(Box::new));
            plan.region = placement.region.clone();
            plan.load_region = placement.load_region.clone();
            if plan.phdrs.is_empty() {
                plan.phdrs = placement.phdrs.clone();
            }
            plan.fill = plan.fill.take().or_else(|| placement.fill.clone().map(Box::new));
            if index == 0 {
                plan.load_address = load_address.clone().map(Box::new);
            }
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
                Command::Output(output) => self.plan.outputs[*output as usize].name == *insert.section.bytes,
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
            self.plan.commands.splice(at..at, commands);
        }
    }

    fn finish(mut self) -> (LayoutPlan, Vec<Diagnostic>) {
        self.renumber();
        self.undeclared_regions();
        (self.plan, self.findings)
    }

    /// A region that sections name and nothing declares has all addresses, from 0 on, as in GNU ld.
    fn undeclared_regions(&mut self) {
        let outputs = std::mem::take(&mut self.plan.outputs);
        for name in outputs.iter().flat_map(|output| [&output.region, &output.load_region]).flatten() {
            if memory::find(&self.plan, &name.bytes).is_none() {
                self.findings.push(memory::undeclared_region(&self.plan, name));
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

    /// `INSERT` may have moved output sections before others: rules are tried in the order of the
    /// final list.
    fn renumber(&mut self) {
        let mut order = vec![NO_RULE; self.plan.rules.len()];
        let mut sorted = Vec::with_capacity(self.plan.rules.len());
        for command in &self.plan.commands {
            let Command::Output(output) = command else { continue };
            for item in &mut self.plan.outputs[*output as usize].body {
                if let Body::Rule(rule) = item {
                    order[*rule as usize] = sorted.len() as u32;
                    sorted.push(self.plan.rules[*rule as usize].clone());
                    *rule = order[*rule as usize];
                }
            }
        }
        self.plan.rules = sorted;
    }
}

/// `__load_start_NAME` and `__load_stop_NAME` of a section of an overlay.
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
