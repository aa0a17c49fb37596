//! `--split-by-file`, `--split-by-reloc`: under `-r`, makes output sections of a limited size or number of
//! relocations, for loaders that take no more.
//!
//! An output section ends before the input section with which it would reach a limit, as in GNU ld. The rest
//! goes into `NAME.0`, `NAME.1` and so on, right behind it. An input section is never split, so a large one
//! may exceed a limit by itself.

use super::place::{self, List};
use super::size;
use crate::arch::Target;
use crate::ids::{OutputId, RuleId, SectionId};
use crate::phase::Contents;
use crate::plan::{Body, Command, LayoutPlan};
use hashbrown::HashSet;

/// The pieces of an output section, each with its input sections.
type Pieces = Vec<Vec<SectionId>>;

/// Splits the output sections of a plan whose lists are full. `rules` has the rule of each section, and
/// `lists` grows with the plan's rules.
pub fn run<T: Target>(
    link: &Contents<'_, T>,
    plan: &mut LayoutPlan,
    lists: &mut Vec<List>,
    rules: &mut [Option<RuleId>],
) {
    let options = &link.config.layout;
    if !link.config.is_relocatable() || options.split_by_file.is_none() && options.split_by_reloc.is_none() {
        return;
    }
    let mut names: HashSet<Vec<u8>, foldhash::fast::FixedState> =
        plan.outputs.iter().map(|output| output.name.clone()).collect();
    let mut commands = Vec::with_capacity(plan.commands.len());
    for command in std::mem::take(&mut plan.commands) {
        let output = command.output();
        commands.push(command);
        let Some(output) = output else { continue };
        let first_new = lists.len();
        for items in pieces(link, plan, lists, output) {
            let name = unused_name(&plan.outputs[output.index()].name, &mut names);
            let (piece, rule) = plan.add_orphan_output(&name);
            for item in &items {
                rules[item.index()] = Some(rule);
            }
            lists.push(List { items, ..List::default() });
            commands.push(Command::Output(piece));
        }
        place::gather(link, &mut lists[first_new..]);
    }
    plan.commands = commands;
}

/// Takes the sections beyond the limits out of an output section. If the script writes bytes or assigns
/// symbols in an output section, that one stays whole, because bytes and symbols have their place among the
/// sections.
fn pieces<T: Target>(
    link: &Contents<'_, T>,
    plan: &LayoutPlan,
    lists: &mut [List],
    output: OutputId,
) -> Pieces {
    let output = &plan.outputs[output.index()];
    if !output.body.iter().all(|item| matches!(item, Body::Rule(_))) {
        return Pieces::new();
    }
    let mut pieces = Pieces::new();
    let mut piece = Piece::default();
    for rule in output.rules() {
        let list = &mut lists[rule.index()];
        let mut kept = list.items.len();
        for (at, &id) in list.items.iter().enumerate() {
            let relocations = relocation_count(link, id);
            if piece.reaches_bound(link, list.sizes[at], list.aligns[at], relocations) {
                piece = Piece::default();
                pieces.push(Vec::new());
            }
            piece.add(list.sizes[at], list.aligns[at], relocations);
            if let Some(last) = pieces.last_mut() {
                last.push(id);
                kept = kept.min(at);
            }
        }
        if kept < list.items.len() {
            list.items.truncate(kept);
            list.gather(link);
        }
    }
    pieces
}

/// What a piece contains so far.
#[derive(Default)]
struct Piece {
    /// Size in bytes.
    size: u64,
    relocations: u64,
    sections: u32,
}

impl Piece {
    fn size_with(&self, size: u64, align: u8) -> u64 {
        size::start_of(self.size, align, None).and_then(|start| start.checked_add(size)).unwrap_or(u64::MAX)
    }

    fn reaches_bound<T: Target>(
        &self,
        link: &Contents<'_, T>,
        size: u64,
        align: u8,
        relocations: u64,
    ) -> bool {
        let options = &link.config.layout;
        let too_long = options.split_by_file.is_some_and(|limit| self.size_with(size, align) >= limit);
        let too_many =
            options.split_by_reloc.is_some_and(|limit| self.relocations.saturating_add(relocations) >= limit);
        self.sections > 0 && (too_long || too_many)
    }

    fn add(&mut self, size: u64, align: u8, relocations: u64) {
        // Empty sections make no piece of their own. They go with the next section that is not empty.
        self.sections += u32::from(size > 0);
        self.size = self.size_with(size, align);
        self.relocations = self.relocations.saturating_add(relocations);
    }
}

fn relocation_count<T: Target>(link: &Contents<'_, T>, id: SectionId) -> u64 {
    link.locate(id).map_or(0, |(object, index)| object.relocations(index as usize).len() as u64)
}

/// `NAME.N` with the first number that makes a new name.
fn unused_name(name: &[u8], names: &mut HashSet<Vec<u8>, foldhash::fast::FixedState>) -> Vec<u8> {
    let numbered = |number: u32| [name, b".", number.to_string().as_bytes()].concat();
    let name =
        (0..u32::MAX).map(numbered).find(|name| !names.contains(name)).unwrap_or_else(|| name.to_vec());
    names.insert(name.clone());
    name
}
