//! `NOCROSSREFS` and `NOCROSSREFS_TO`: references between output sections that the script forbids.
//!
//! Sections of an overlay are never in memory together, so a reference from one to another is a
//! mistake. Checked after the layout, over the relocations of the sections that rules name.

use crate::arch::Target;
use crate::diag::{Code, Diagnostic};
use crate::ids::{ChunkId, SectionId};
use crate::phase::Placed;
use crate::script::ast::Name;
use rayon::prelude::*;

/// A forbidden direction: no output section of `from` may refer to another one that is in `to`.
struct Rule {
    from: Vec<ChunkId>,
    to: Vec<ChunkId>,
}

/// Reports every reference that a rule forbids.
pub fn run<T: Target>(link: &Placed<'_, T>) {
    let rules = rules(link);
    if rules.is_empty() {
        return;
    }
    link.objects.par_iter().for_each(|object| {
        for id in object.section_ids().filter(|&id| link.sections.is_alive(id)) {
            let Some(from) = link.output_chunk(id) else { continue };
            if rules.iter().any(|rule| rule.from.contains(&from)) {
                check(link, &rules, id, from);
            }
        }
    });
}

fn rules<T: Target>(link: &Placed<'_, T>) -> Vec<Rule> {
    let plan = &link.layout.plan;
    let chunks = |names: &[Name]| names.iter().filter_map(|name| link.layout.find(&name.bytes)).collect();
    let mutual = plan.no_cross_refs.iter().map(|names| Rule { from: chunks(names), to: chunks(names) });
    let one_way = plan
        .no_cross_refs_to
        .iter()
        .map(|(to, from)| Rule { from: chunks(from), to: chunks(std::slice::from_ref(to)) });
    mutual.chain(one_way).collect()
}

fn check<T: Target>(link: &Placed<'_, T>, rules: &[Rule], id: SectionId, from: ChunkId) {
    let Some((object, index)) = link.locate(id) else { return };
    for relocation in object.relocations(index as usize) {
        let symbol = relocation.symbol();
        let Some((target, _)) = link.referenced_section(object, symbol) else { continue };
        let Some(to) = link.output_chunk(target) else { continue };
        let forbids = |rule: &Rule| from != to && rule.from.contains(&from) && rule.to.contains(&to);
        if !rules.iter().any(forbids) {
            continue;
        }
        let name = |chunk: ChunkId| String::from_utf8_lossy(link.layout.chunks[chunk.index()].name);
        let offset = relocation.r_offset.get();
        link.sink.report_recoverable(
            Diagnostic::error(
                Code::ScriptError,
                format!(
                    "prohibited cross reference from {} to `{}' in {}",
                    name(from),
                    link.symbol_text(object.symbol_id(symbol)),
                    name(to)
                ),
            )
            .note(format!("in {}", link.describe_place(id, offset)))
            .help("NOCROSSREFS in the linker script forbids it: the sections are not in memory together")
            .ordered(object.id.0, index, offset),
        );
    }
}
