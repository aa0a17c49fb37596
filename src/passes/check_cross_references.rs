//! `NOCROSSREFS` and `NOCROSSREFS_TO`: reports references between output sections that the script forbids.
//!
//! The sections of an overlay are never in memory together, so a reference from one to another is a mistake.
//! The pass runs after the layout, over the relocations of the sections that rules name.

use crate::arch::Target;
use crate::diag::{Code, Diagnostic};
use crate::ids::{ChunkId, SectionId};
use crate::phase::Placed;
use crate::script::ast::Name;
use hashbrown::HashMap;
use parallel::ParallelSlice;

/// By output section, the rules that name it. A rule is a number.
#[derive(Default)]
struct Rules {
    /// Rules that forbid references from an output section to others; ascending.
    of_referring: HashMap<ChunkId, Vec<u32>>,
    /// Rules that forbid references from others to an output section; ascending.
    of_referred: HashMap<ChunkId, Vec<u32>>,
}

impl Rules {
    /// Adds a rule: no output section of `from` may refer to another one that is in `to`.
    fn add(&mut self, rule: u32, from: &[ChunkId], to: &[ChunkId]) {
        from.iter().for_each(|&chunk| self.of_referring.entry(chunk).or_default().push(rule));
        to.iter().for_each(|&chunk| self.of_referred.entry(chunk).or_default().push(rule));
    }

    /// Whether a rule forbids a reference.
    fn forbid(&self, from: ChunkId, to: ChunkId) -> bool {
        let (Some(of_from), Some(of_to)) = (self.of_referring.get(&from), self.of_referred.get(&to)) else {
            return false;
        };
        let (few, many) = if of_from.len() < of_to.len() { (of_from, of_to) } else { (of_to, of_from) };
        from != to && few.iter().any(|rule| many.binary_search(rule).is_ok())
    }
}

/// Reports every reference that a rule forbids.
pub fn run<T: Target>(link: &Placed<'_, T>) {
    let rules = rules(link);
    if rules.of_referring.is_empty() {
        return;
    }
    link.objects.par_iter().for_each(|object| {
        for id in object.section_ids().filter(|&id| link.sections.is_alive(id)) {
            let Some(from) = link.output_chunk(id) else { continue };
            if rules.of_referring.contains_key(&from) {
                check(link, &rules, id, from);
            }
        }
    });
}

fn rules<T: Target>(link: &Placed<'_, T>) -> Rules {
    let plan = &link.plan;
    let mut rules = Rules::default();
    if plan.no_cross_refs.is_empty() && plan.no_cross_refs_to.is_empty() {
        return rules;
    }
    let mut chunk_of: HashMap<&[u8], ChunkId> = HashMap::new();
    for (row, chunk) in link.layout.chunks.iter().enumerate() {
        chunk_of.entry(chunk.name).or_insert(ChunkId::from_index(row));
    }
    let chunks = |names: &[Name]| -> Vec<ChunkId> {
        names.iter().filter_map(|name| chunk_of.get(&*name.bytes).copied()).collect()
    };
    let mut numbers = 0..;
    for (names, number) in plan.no_cross_refs.iter().zip(&mut numbers) {
        let chunks = chunks(names);
        rules.add(number, &chunks, &chunks);
    }
    for ((to, from), number) in plan.no_cross_refs_to.iter().zip(numbers) {
        rules.add(number, &chunks(from), &chunks(std::slice::from_ref(to)));
    }
    rules
}

fn check<T: Target>(link: &Placed<'_, T>, rules: &Rules, id: SectionId, from: ChunkId) {
    let Some((object, index)) = link.locate(id) else { return };
    for relocation in object.relocations(index as usize) {
        let symbol = relocation.symbol();
        let Some((target, _)) = link.referenced_section(object, symbol) else { continue };
        let Some(to) = link.output_chunk(target) else { continue };
        if !rules.forbid(from, to) {
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
