//! Finds the rule that takes a section, from the section's name, file and flags.

use super::{LayoutPlan, Rule};
use crate::ids::RuleId;
use crate::input::object::FileName;
use crate::script::ast::InputStatement;
use crate::script::matcher::{File, Matcher};

/// All rules of a plan, ready to be matched.
pub struct RuleFinder<'p> {
    plan: &'p LayoutPlan,
    matcher: Matcher,
    /// For each statement, the rule of each of its patterns.
    rules: Vec<Vec<RuleId>>,
}

impl<'p> RuleFinder<'p> {
    /// Compiles the patterns of all rules.
    pub fn new(plan: &'p LayoutPlan) -> Self {
        Self::of_outputs(plan, |_| true)
    }

    /// Compiles the patterns of the rules of some output sections, given by their rows.
    pub fn of_outputs(plan: &'p LayoutPlan, wanted: impl Fn(usize) -> bool) -> Self {
        let mut rules: Vec<Vec<RuleId>> = vec![Vec::new(); plan.statements.len()];
        let mut statements: Vec<(u32, &InputStatement)> = Vec::new();
        for (number, rule) in plan.rules.iter().enumerate() {
            let Some(statement) = rule.statement.filter(|_| wanted(rule.output.index())) else { continue };
            let of_statement = &mut rules[statement.index()];
            if of_statement.is_empty() {
                statements.push((statement.number(), &plan.statements[statement.index()]));
            }
            of_statement.extend(rule.patterns.clone().map(|_| RuleId::from_index(number)));
        }
        RuleFinder { plan, matcher: Matcher::new(statements), rules }
    }

    /// The first matching rule among the statements that `accept` allows. `accept` gets the number of the
    /// statement and its first rule.
    pub fn find(
        &self,
        name: &[u8],
        file: File<'_>,
        sh_flags: u64,
        accept: impl Fn(u32, &Rule) -> bool,
    ) -> Option<RuleId> {
        let found = self.matcher.find_among(name, file, sh_flags, |statement| {
            let rule = self.rules[statement as usize].first();
            rule.is_some_and(|&rule| accept(statement, self.plan.rule(rule)))
        })?;
        self.rules[found.rule as usize].get(found.pattern as usize).copied()
    }
}

/// The file's name in the form that patterns match.
pub fn file_of<'a>(name: FileName<'a>) -> File<'a> {
    match name.member {
        Some(member) => File { name: member.as_bytes(), archive: Some(name.path.as_bytes()) },
        None => File { name: name.path.as_bytes(), archive: None },
    }
}
