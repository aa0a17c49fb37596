//! `--section-ordering-file` in GNU ld's form: input statements that stand in front of the script's own
//! statements for the same output section.

use super::Body;
use super::build::Builder;
use crate::diag::{Code, Diagnostic};
use crate::ids::OutputId;
use crate::script::ast::{Name, OutputSection};

impl Builder<'_> {
    /// Puts the bodies, in order, in front of the bodies of the output sections that they name.
    pub(super) fn put_first(&mut self, orders: Vec<OutputSection>) {
        let mut bodies: Vec<(OutputId, Vec<Body>)> = Vec::new();
        for section in orders {
            let Some(output) = self.find_output(&section.name) else { continue };
            let discard = section.is_discard();
            let row = match bodies.iter().position(|(known, _)| *known == output) {
                Some(row) => row,
                None => {
                    bodies.push((output, Vec::new()));
                    bodies.len() - 1
                }
            };
            for item in section.body {
                self.body_item(output, discard, item, &mut bodies[row].1);
            }
        }
        for (output, mut body) in bodies {
            let plan = &mut self.plan.outputs[output.index()];
            body.append(&mut plan.body);
            plan.body = body;
        }
    }

    /// The first output section of that name.
    fn find_output(&mut self, name: &Name) -> Option<OutputId> {
        let mut outputs = self.plan.in_order();
        let found = outputs.find(|output| self.plan.outputs[output.index()].name == *name.bytes);
        drop(outputs);
        if found.is_none() {
            let message = format!("section ordering file: there is no output section `{}`", name.text());
            self.findings.push(
                Diagnostic::error(Code::ScriptError, message)
                    .at(self.plan.sources.location(name.span))
                    .help("name an output section of the script in use; `--verbose` prints the built-in one")
                    .ordered(name.span.file, 0, name.span.start.into()),
            );
        }
        found
    }
}
