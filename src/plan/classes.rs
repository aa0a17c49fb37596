//! Section classes (`CLASS`, as in lld): input sections that a script chooses in one place and puts in
//! another.
//!
//! Input statements do two things at once: they choose sections, before all statements behind them, and they
//! say where these stand. A class takes the two apart:
//!
//! ```text
//! CLASS(hot) { *(.text.hot*) }          chooses, before the next line can
//! .text : { *(.text*) CLASS(hot) }      puts them behind the others
//! ```
//!
//! So the rules of a class belong to the output section that names the class first, but are matched where the
//! class is defined. Further output sections that name it get copies of its statements. Nothing is left for
//! these to match, until a memory region is full: then [`crate::layout::spill`] moves sections on to them.

use super::{Body, LayoutPlan, Naming, Rule};
use crate::diag::{Code, Diagnostic};
use crate::ids::{RuleId, StatementId};
use crate::script::ast::Name;
use std::collections::HashMap;

/// A class that a script defines.
struct Class {
    name: Name,
    /// The rules of its statements, for no output section yet.
    rules: Vec<Rule>,
    /// The number of output sections that stand before the definition.
    place: usize,
    /// The number of places that name it.
    namings: u32,
    /// Whether the first of them is in `/DISCARD/`.
    discard: bool,
}

/// The classes of a link, in order.
#[derive(Default)]
pub(super) struct Classes {
    rows: Vec<Class>,
    row_of: HashMap<Box<[u8]>, usize>,
    /// The names that output sections mentioned before a definition.
    unknown: Vec<Name>,
}

impl Classes {
    /// Adds a class with the rules of its statements, at the end of the output sections that the plan has.
    ///
    /// # Errors
    /// There is a class of that name.
    pub(super) fn define(
        &mut self,
        plan: &LayoutPlan,
        name: Name,
        rules: Vec<Rule>,
    ) -> Result<(), Box<Diagnostic>> {
        if self.row_of.contains_key(&name.bytes) {
            let message = format!("section class `{}` is defined twice", name.text());
            return Err(error(plan, &name, message, "give the classes different names, or join them").into());
        }
        self.row_of.insert(name.bytes.clone(), self.rows.len());
        self.rows.push(Class { name, rules, place: plan.outputs.len(), namings: 0, discard: false });
        Ok(())
    }

    /// The rules for an output section that names a class. `discard`: it is `/DISCARD/`. A name without a
    /// definition has none, and is reported at the end.
    ///
    /// # Errors
    /// Sections of the class would go on from or to `/DISCARD/`.
    pub(super) fn name(
        &mut self,
        plan: &mut LayoutPlan,
        name: Name,
        discard: bool,
    ) -> Result<Vec<Rule>, Box<Diagnostic>> {
        let Some(&row) = self.row_of.get(&name.bytes) else {
            self.unknown.push(name);
            return Ok(Vec::new());
        };
        let class = &mut self.rows[row];
        let naming = Naming { class: row as u32, before: class.namings };
        let is_first = naming.before == 0;
        if !is_first && (class.discard || discard) {
            let message = format!("section class `{}` cannot go on from or to /DISCARD/", name.text());
            let help = "name a class that is discarded in no other place";
            return Err(error(plan, &name, message, help).into());
        }
        class.namings += 1;
        class.discard |= discard;
        let mut rules = class.rules.clone();
        if !is_first {
            plan.classes_spill = true;
            copy_statements(plan, &mut rules);
        }
        rules.iter_mut().for_each(|rule| rule.class = Some(naming));
        Ok(rules)
    }

    /// The rules to be matched where classes are defined, each with the number of output sections that stand
    /// before, ascending.
    pub(super) fn rules_by_place(&self, plan: &LayoutPlan) -> Vec<(usize, RuleId)> {
        let bodies = plan.outputs.iter().flat_map(|output| &output.body);
        let mut rules: Vec<(u32, RuleId)> = bodies
            .filter_map(|item| match item {
                Body::Rule(rule) => {
                    let naming = plan.rule(*rule).class.filter(|naming| naming.before == 0)?;
                    Some((naming.class, *rule))
                }
                _ => None,
            })
            .collect();
        rules.sort_unstable();
        rules.into_iter().map(|(class, rule)| (self.rows[class as usize].place, rule)).collect()
    }

    /// Names without a definition, and definitions whose sections would be lost.
    pub(super) fn findings(&self, plan: &LayoutPlan) -> Vec<Diagnostic> {
        let unknown = self.unknown.iter().map(|name| {
            let (what, help) = if self.row_of.contains_key(&name.bytes) {
                ("is named before its definition", "move the definition to the front")
            } else {
                ("is not defined", "define it before: `CLASS(name) { input sections }`")
            };
            error(plan, name, format!("section class `{}` {what}", name.text()), help)
        });
        let unnamed = self.rows.iter().filter(|class| class.namings == 0).map(|Class { name, .. }| {
            let message = format!("no output section names section class `{}`", name.text());
            error(plan, name, message, "write `CLASS(name)` into an output section, or into /DISCARD/")
        });
        unknown.chain(unnamed).collect()
    }
}

/// Gives rules statements of their own, which come after all others that were read.
fn copy_statements(plan: &mut LayoutPlan, rules: &mut [Rule]) {
    let mut copies = HashMap::new();
    for statement in rules.iter_mut().filter_map(|rule| rule.statement.as_mut()) {
        *statement = *copies.entry(*statement).or_insert_with(|| {
            let copy = plan.statements[statement.index()].clone();
            plan.statements.push(copy);
            StatementId::from_index(plan.statements.len() - 1)
        });
    }
}

fn error(plan: &LayoutPlan, name: &Name, message: String, help: &str) -> Diagnostic {
    Diagnostic::error(Code::ScriptError, message).at(plan.sources.location(name.span)).help(help).ordered(
        name.span.file,
        0,
        name.span.start.into(),
    )
}
