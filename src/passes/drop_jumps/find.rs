//! Finds the jumps that lead to what follows them.

use super::jumps::Jump;
use crate::arch::Target;
use crate::arch::relocation::{RelocBase, RelocExpr};
use crate::arch::target::RelocInfo;
use crate::elf::Rela;
use crate::elf::consts as elf;
use crate::ids::SectionId;
use crate::input::{ObjectFile, SectionClass};
use crate::layout::output;
use crate::layout::place::List;
use crate::phase::Contents;
use crate::plan::{Body, LayoutPlan, OutputPlan};
use crate::relocs::shortcuts::is_own;
use parallel::{IntoParallel, ParallelSort};

/// One job looks at so many sections at least.
const FEW: usize = 256;

/// The jumps, by section.
pub fn run<T: Target>(link: &Contents<'_, T>, plan: &LayoutPlan, lists: &[List]) -> Vec<Jump> {
    let mut jumps = Vec::new();
    for output in &plan.outputs {
        let has_code = |list: &List| list.facts.any & elf::SHF_EXECINSTR != 0;
        if output.discard || !output.rules().any(|rule| has_code(&lists[rule.index()])) {
            continue;
        }
        for items in runs(output, lists) {
            let run = Run { link, items: &items, pads: pads_with_code::<T>(output) };
            let found = (0..items.len()).into_par_iter().with_min_len(FEW).filter_map(|at| run.jump(at));
            jumps.append(&mut found.collect());
        }
    }
    jumps.par_sort_by_key(|jump| jump.section);
    jumps
}

/// The sections of an output section that follow one another without anything of the script in between.
fn runs(output: &OutputPlan, lists: &[List]) -> Vec<Vec<SectionId>> {
    let mut runs = vec![Vec::new()];
    for item in &output.body {
        match item {
            Body::Rule(rule) => {
                if let Some(run) = runs.last_mut() {
                    run.extend(&lists[rule.index()].items);
                }
            }
            Body::Assignment(assignment) if !assignment.is_to_dot() => {}
            Body::Assert(_) | Body::Fill(_) => {}
            Body::Assignment(_) | Body::Data(..) | Body::Text(_) => runs.push(Vec::new()),
        }
    }
    runs
}

/// Whether instructions that do nothing fill gaps between sections. A script may ask for other bytes.
fn pads_with_code<T: Target>(output: &OutputPlan) -> bool {
    let fills = |item: &Body| matches!(item, Body::Fill(_));
    output.fill.is_none() && !output.body.iter().any(fills) && !T::CODE_FILL.is_empty()
}

/// Sections in a row.
struct Run<'r, 'a, T: Target> {
    link: &'r Contents<'a, T>,
    items: &'r [SectionId],
    /// Whether code may run through gaps between them.
    pads: bool,
}

impl<'a, T: Target> Run<'_, 'a, T> {
    /// The jump at the end of a section, if it can be dropped.
    fn jump(&self, at: usize) -> Option<Jump> {
        let (object, index) = self.code(self.items[at])?;
        let bytes = object.section_bytes(index as usize).ok()?;
        let (last, before) = object.relocations(index as usize).split_last()?;
        let tail = T::tail(bytes, usize::try_from(last.r_offset.get()).ok()?)?;
        if tail.start == 0 {
            return None;
        }
        let alone = before.last().is_none_or(|other| other.r_offset.get() < tail.start as u64);
        if !alone || !is_branch::<T>(last, bytes) {
            return None;
        }
        let next = self.following(at)?;
        let jump = Jump { section: self.items[at], size: tail.start as u64, flipped: None };
        if self.leads_to(object, last, next) {
            return Some(jump);
        }
        let (conditional, branch) = (tail.conditional?, before.last()?);
        let matches = branch.r_offset.get() == conditional.operand as u64 && is_branch::<T>(branch, bytes);
        let flips = matches && self.leads_to(object, branch, next);
        flips.then_some(Jump { flipped: Some(conditional), ..jump })
    }

    /// The object and header index of a section of code that the linker copies.
    fn code(&self, id: SectionId) -> Option<(&ObjectFile<'a, T::E>, u32)> {
        let (object, index) = self.link.locate(id)?;
        let header = &object.headers[index as usize];
        let flags = header.sh_flags.get() & (elf::SHF_ALLOC | elf::SHF_EXECINSTR | elf::SHF_WRITE);
        let others = SectionClass::EH_FRAME | SectionClass::SFRAME | SectionClass::NOBITS;
        let is_code = header.sh_type.get() == elf::SHT_PROGBITS
            && flags == elf::SHF_ALLOC | elf::SHF_EXECINSTR
            && !self.link.class_of(id).intersects(others);
        is_code.then_some((object, index))
    }

    /// The sections that begin where the code of a section goes on: empty ones, and the first that is not.
    /// `None`: what follows is no code, or the bytes between are none.
    fn following(&self, at: usize) -> Option<&[SectionId]> {
        let rest = &self.items[at + 1..];
        let mut count = 0;
        loop {
            let &id = rest.get(count)?;
            self.code(id)?;
            let info = self.link.section_info(id);
            if !self.pads && (output::alignment(&info) > 1 || !self.is_tight()) {
                return None;
            }
            count += 1;
            if info.size > 0 {
                return Some(&rest[..count]);
            }
        }
    }

    /// Whether only the alignment of sections puts gaps between them.
    fn is_tight(&self) -> bool {
        self.link.config.layout.padding_seed.is_none()
    }

    /// Whether a branch leads to the beginning of one of these sections.
    fn leads_to(&self, object: &ObjectFile<'a, T::E>, branch: &Rela<T::E>, next: &[SectionId]) -> bool {
        let index = branch.symbol();
        if index as usize >= object.symbols.len() || !is_own(self.link, object.symbol_id(index)) {
            return false;
        }
        let Some((section, value)) = self.link.referenced_section(object, index) else { return false };
        let distance = branch.r_addend.get().wrapping_add(T::BRANCH_BIAS);
        value.wrapping_add_signed(distance) == 0 && next.contains(&self.link.folds.standing(section))
    }
}

/// Whether a relocation is that of a branch in this code.
fn is_branch<T: Target>(relocation: &Rela<T::E>, code: &[u8]) -> bool {
    let offset = usize::try_from(relocation.r_offset.get()).unwrap_or(usize::MAX);
    let is_distance = |info: &RelocInfo<T>| {
        matches!(info.expr, RelocExpr::Plt | RelocExpr::Symbol)
            && info.base == RelocBase::Place
            && info.size == 4
    };
    T::reloc_info(relocation.kind()).is_some_and(is_distance) && T::is_direct_branch(code, offset)
}
