//! The layout that scripts and options ask for, as one list of commands.
//!
//! Where a section goes may depend on the built-in script, on scripts of `-T`, on scripts among the inputs,
//! and on a dozen options. If each later pass asked all of them, two passes could answer differently. So they
//! are joined once, here.
//!
//! [`LayoutPlan::new`] joins the main script (the built-in one, or that of `-T`), the scripts among the
//! inputs and `--defsym` into one list. It carries out `INSERT`, splits overlays into commands, and gives
//! every run of input patterns that share an order a dense *rule* number: the first rule that matches a
//! section takes it. Options that change the layout change the plan here (`--section-start`,
//! `--sort-section`), so that nothing later asks for options.

mod build;
mod classes;
pub mod finder;
pub mod memory;
mod ordering;
mod provides;

pub use build::Scripts;

use crate::cli::Config;
use crate::ids::{OutputId, RuleId, StatementId};
use crate::script::ast::{
    Assert, Assignment, Constraint, DataSize, InputStatement, MemoryRegion, Name, OutputSectionType, Phdr,
    Sort,
};
use crate::script::expr::Expr;
use crate::script::{Sources, Span};
use indexmap::IndexMap;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// What names this linker in `.comment`, with its NUL.
pub const LINKER_VERSION: &str = concat!("Linker: sframe-ld ", env!("CARGO_PKG_VERSION"), "\0");

/// Scripts and options, joined.
#[derive(Clone, Debug, Default)]
pub struct LayoutPlan {
    /// The commands of the layout, in order.
    pub commands: Vec<Command>,
    /// The output sections that commands name, in the order of the text. Those of orphans follow.
    pub outputs: Vec<OutputPlan>,
    /// The rules in the order of their priority. Those of orphans follow.
    pub rules: Vec<Rule>,
    /// The input statements that rules are parts of.
    pub statements: Vec<InputStatement>,
    /// Whether several output sections name one section class, so that its sections may go on from one to the
    /// next.
    pub classes_spill: bool,
    /// `PHDRS`; empty if segments are derived.
    pub phdrs: Vec<Phdr>,
    /// `MEMORY` regions.
    pub memory: Vec<MemoryRegion>,
    /// The rows of `memory`, by the names and aliases of regions.
    region_rows: HashMap<Box<[u8]>, usize>,
    /// `REGION_ALIAS`: the new name, and the name that it stands for.
    pub region_aliases: Vec<(Name, Name)>,
    /// `ENTRY`, the last one.
    pub entry: Option<Name>,
    /// `EXTERN` symbols.
    pub undefined: Vec<Name>,
    /// `NOCROSSREFS`: sections that may not refer to one another.
    pub no_cross_refs: Vec<Vec<Name>>,
    /// `NOCROSSREFS_TO`: the section, and the sections that may not refer to it.
    pub no_cross_refs_to: Vec<(Name, Vec<Name>)>,
    /// `FORCE_COMMON_ALLOCATION` (`Some(true)`) or `INHIBIT_COMMON_ALLOCATION` (`Some(false)`).
    pub allocate_commons: Option<bool>,
    /// `--force-group-allocation` or `FORCE_GROUP_ALLOCATION`.
    pub force_group_allocation: bool,
    /// `--section-start` and similar options (`-Ttext`, …). They apply to orphans, too.
    pub section_starts: IndexMap<Vec<u8>, u64>,
    /// `LD_FEATURE("SANE_EXPR")`.
    pub sane_expressions: bool,
    /// Whether a script of the user takes the place of the built-in one: a script of `-dT`, or one of `-T`
    /// with `SECTIONS` and without `INSERT`.
    pub replaces_default: bool,
    /// The texts into which spans point.
    pub sources: Sources,
}

/// One step of the layout.
#[derive(Clone, Debug)]
pub enum Command {
    /// An assignment to a symbol or to the location counter.
    Assignment(Box<Assignment>),
    /// An assertion.
    Assert(Box<Assert>),
    /// An output section, as a row of [`LayoutPlan::outputs`].
    Output(OutputId),
    /// The sections up to [`Command::OverlayEnd`] have the same address.
    OverlayStart {
        /// Place in the script.
        span: Span,
        /// The shared address. If it is absent, the location counter is.
        address: Option<Box<Expr>>,
    },
    /// The location counter goes behind the longest section of the overlay.
    OverlayEnd,
}

/// An output section as the plan describes it.
#[derive(Clone, Debug)]
pub struct OutputPlan {
    /// Where the script has it. The default for orphans.
    pub span: Span,
    /// Name.
    pub name: Vec<u8>,
    /// `/DISCARD/`.
    pub discard: bool,
    /// Whether it was made for sections that no rule takes.
    pub orphan: bool,
    /// The address expression. It is boxed, because few descriptions have one, and relocatable output may
    /// have an output section for each of a million sections.
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
    /// `ONLY_IF_RO` and similar words.
    pub constraint: Option<Constraint>,
    /// Statements between the braces.
    pub body: Vec<Body>,
    /// `>region`.
    pub region: Option<Name>,
    /// `AT>region`.
    pub load_region: Option<Name>,
    /// `:phdr`. If sections share a list, as sections of an overlay and orphans do, the list is in memory
    /// once.
    pub phdrs: Arc<[Name]>,
    /// `=fill`.
    pub fill: Option<Box<Expr>>,
    /// Whether `OVERWRITE_SECTIONS` describes it, and no command has placed it yet.
    pub unplaced: bool,
    /// Whether it stands in an overlay. The overlay's `AT(…)` and address are for the first of its sections
    /// that is made.
    pub overlay: bool,
}

/// A statement in an output section.
#[derive(Clone, Debug)]
pub enum Body {
    /// The sections of a rule.
    Rule(RuleId),
    /// An assignment.
    Assignment(Box<Assignment>),
    /// An assertion.
    Assert(Box<Assert>),
    /// `BYTE(value)` and similar statements.
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
    pub output: OutputId,
    /// The statement that it is a part of; `None` for orphans.
    pub statement: Option<StatementId>,
    /// Patterns of the statement.
    pub patterns: Range<u32>,
    /// The order of sections, with `--sort-section` applied.
    pub sort: Sort,
    /// Order of files.
    pub file_sort: Sort,
    /// Whether it stands inside `KEEP`.
    pub keep: bool,
    /// Whether it belongs to `/DISCARD/`.
    pub discard: bool,
    /// The section class whose sections it puts here.
    pub class: Option<Naming>,
}

/// A place where an output section names a section class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Naming {
    /// The number of the class.
    pub class: u32,
    /// The number of such places of the class that come before.
    pub before: u32,
}

impl Rule {
    /// Whether it puts the sections of the same class in a further place.
    pub fn continues(&self, rule: &Rule) -> bool {
        let (Some(own), Some(other)) = (self.class, rule.class) else { return false };
        own.class == other.class && own.before > other.before
    }
}

/// A symbol that a script or `--defsym` assigns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScriptSymbol<'p> {
    /// Its name.
    pub name: &'p [u8],
    /// Whether all assignments are `PROVIDE`. Then they define the symbol only if something refers to it and
    /// nothing else defines it.
    pub provide: bool,
    /// Whether some assignment is `HIDDEN` or `PROVIDE_HIDDEN`.
    pub hidden: bool,
    /// The first assignment.
    pub span: Span,
    /// The only symbol in the expression of the last assignment, or of the first `PROVIDE`. `None` if there
    /// is not exactly one.
    pub source: Option<&'p [u8]>,
}

impl LayoutPlan {
    /// Whether common blocks get room. They do in a final link, and under `-r` if `-d` or the script says so.
    /// They never do if `--no-define-common` or the script forbids it.
    pub fn allocates_commons(&self, config: &Config) -> bool {
        let wishes = [config.symbols.define_common, self.allocate_commons];
        !wishes.contains(&Some(false)) && (wishes.contains(&Some(true)) || !config.is_relocatable())
    }

    /// Every symbol that is assigned, in the order of first assignments.
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
                    symbol.hidden |= kind.is_hidden();
                    if !kind.is_provide() {
                        symbol.provide = false;
                        symbol.source = source;
                    }
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

    /// Every symbol whose value expressions ask for, in order, with repetitions. A `PROVIDE` counts only if
    /// the symbol that it provides is `wanted`.
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

    /// Visits every assignment, and tells whether it stands in an output section's description.
    pub fn for_each_placed_assignment<'p>(&'p self, visit: &mut dyn FnMut(&'p Assignment, bool)) {
        for command in &self.commands {
            match command {
                Command::Assignment(assignment) => visit(assignment, false),
                Command::Output(output) => self.outputs[output.index()].for_each_assignment(visit),
                _ => {}
            }
        }
        let unplaced = self.outputs.iter().filter(|output| output.unplaced);
        unplaced.for_each(|output| output.for_each_assignment(visit));
    }

    /// Visits every expression that is not the value of an assignment.
    pub fn for_each_other_expression<'p>(&'p self, visit: &mut dyn FnMut(&'p Expr)) {
        self.memory.iter().flat_map(|region| [&region.origin, &region.length]).for_each(&mut *visit);
        for phdr in &self.phdrs {
            visit(&phdr.kind);
            [&phdr.load_address, &phdr.flags].into_iter().flatten().for_each(&mut *visit);
        }
        for command in &self.commands {
            match command {
                Command::Assert(assert) => visit(&assert.condition),
                Command::OverlayStart { address: Some(address), .. } => visit(address),
                Command::Output(output) => {
                    let output = &self.outputs[output.index()];
                    let attributes = [
                        &output.address,
                        &output.load_address,
                        &output.align,
                        &output.subalign,
                        &output.fill,
                    ];
                    attributes.into_iter().flatten().for_each(|expr| visit(expr));
                    if let Some(OutputSectionType::Type { value, .. }) = output.kind.as_deref() {
                        visit(value);
                    }
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

    /// Visits every expression of the plan.
    pub fn for_each_expression<'p>(&'p self, visit: &mut dyn FnMut(&'p Expr)) {
        self.for_each_assignment(&mut |assignment| visit(&assignment.value));
        self.for_each_other_expression(visit);
    }

    /// Changes every expression.
    fn change_expressions(&mut self, change: &mut dyn FnMut(&mut Expr)) {
        self.memory
            .iter_mut()
            .flat_map(|region| [&mut region.origin, &mut region.length])
            .for_each(&mut *change);
        for phdr in &mut self.phdrs {
            change(&mut phdr.kind);
            [&mut phdr.load_address, &mut phdr.flags].into_iter().flatten().for_each(&mut *change);
        }
        for command in &mut self.commands {
            match command {
                Command::Assignment(assignment) => change(&mut assignment.value),
                Command::Assert(assert) => change(&mut assert.condition),
                Command::OverlayStart { address, .. } => address.iter_mut().for_each(|expr| change(expr)),
                Command::Output(_) | Command::OverlayEnd => {}
            }
        }
        for output in &mut self.outputs {
            let OutputPlan { address, load_address, align, subalign, fill, kind, body, .. } = output;
            let attributes = [address, load_address, align, subalign, fill];
            attributes.into_iter().flatten().for_each(|expr| change(expr));
            if let Some(OutputSectionType::Type { value, .. }) = kind.as_deref_mut() {
                change(value);
            }
            for item in body {
                match item {
                    Body::Assignment(assignment) => change(&mut assignment.value),
                    Body::Assert(assert) => change(&mut assert.condition),
                    Body::Data(_, value) | Body::Fill(value) => change(value),
                    Body::Rule(_) | Body::Text(_) => {}
                }
            }
        }
    }

    /// A rule of this plan.
    #[inline]
    pub fn rule(&self, id: RuleId) -> &Rule {
        &self.rules[id.index()]
    }

    /// The output sections in the order of the commands.
    pub fn in_order(&self) -> impl Iterator<Item = OutputId> {
        self.commands.iter().filter_map(Command::output)
    }

    /// Adds an output section for orphans, with one rule. The caller adds the command. Returns the rows of
    /// both.
    pub fn add_orphan_output(&mut self, name: &[u8]) -> (OutputId, RuleId) {
        let output = OutputId::from_index(self.outputs.len());
        let rule = self.add_orphan_rule(output);
        let mut plan = OutputPlan::named(name, Span::default());
        plan.orphan = true;
        plan.body.push(Body::Rule(rule));
        plan.address =
            self.section_starts.get(name).map(|&start| Box::new(Expr::number(Span::default(), start)));
        self.outputs.push(plan);
        (output, rule)
    }

    /// Adds a rule for orphans that go into output section `output`. The caller puts it into the body.
    pub fn add_orphan_rule(&mut self, output: OutputId) -> RuleId {
        let rule = RuleId::from_index(self.rules.len());
        let sort = Sort::default();
        self.rules.push(Rule {
            output,
            statement: None,
            patterns: 0..0,
            sort,
            file_sort: sort,
            keep: false,
            discard: false,
            class: None,
        });
        rule
    }

    /// The position at which to insert a command behind the output section at `position`. It is behind the
    /// assignments to symbols that follow the section, but before the location counter is moved for the next
    /// allocated section. `allocated` tells whether an output section of the plan is allocated, or may be.
    pub fn position_after(&self, position: usize, allocated: &dyn Fn(OutputId) -> bool) -> usize {
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

impl Command {
    /// The output section, if it is one.
    pub fn output(&self) -> Option<OutputId> {
        match self {
            Command::Output(output) => Some(*output),
            _ => None,
        }
    }
}

impl OutputPlan {
    /// The rules of its sections, in the order of its body.
    pub fn rules(&self) -> impl Iterator<Item = RuleId> {
        self.body.iter().filter_map(|item| match item {
            Body::Rule(rule) => Some(*rule),
            _ => None,
        })
    }

    fn for_each_assignment<'p>(&'p self, visit: &mut dyn FnMut(&'p Assignment, bool)) {
        for item in &self.body {
            if let Body::Assignment(assignment) = item {
                visit(assignment, true);
            }
        }
    }

    /// Its name for messages.
    pub fn name_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.name)
    }

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
            phdrs: Arc::default(),
            fill: None,
            unplaced: false,
            overlay: false,
        }
    }
}

/// The symbol of an expression that has exactly one.
fn only_symbol(expr: &Expr) -> Option<&[u8]> {
    let (mut found, mut count) = (None, 0);
    expr.for_each_symbol(&mut |name| {
        found = Some(&name.bytes[..]);
        count += 1;
    });
    found.filter(|_| count == 1)
}
