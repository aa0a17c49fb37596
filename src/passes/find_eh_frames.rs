//! Finds call frame information in sections whose names are not `.eh_frame`.
//!
//! The output section counts, as in GNU ld: whatever a script puts into `.eh_frame` is read as frame records.
//! The usual scripts put `.eh_frame.*` there, names that `-r --split-by-file` and objcopy make. Under `-r`,
//! sections of these names stay apart, and still are frame records.
//!
//! The sections get [`SectionClass::EH_FRAME`], and all later passes ask for that.

use crate::arch::Target;
use crate::arch::machine::SHT_UNWIND;
use crate::elf::consts as elf;
use crate::ids::SectionId;
use crate::input::section_class::OTHER_EH_FRAME;
use crate::input::{ObjectFile, SectionClass};
use crate::passes::match_script::unique_patterns;
use crate::phase::{Inputs, SectionStates};
use crate::plan::LayoutPlan;
use crate::plan::finder::{RuleFinder, file_of};
use crate::script::ast::SectionPattern;
use crate::script::glob::Glob;
use parallel::{IntoParallel, ParallelSlice};

/// Finds these sections.
pub fn run<T: Target>(link: &Inputs<'_, T>, sections: &SectionStates, plan: &LayoutPlan) -> Vec<SectionId> {
    if link.config.is_relocatable() {
        candidates(link, sections, false)
    } else {
        Search { link, sections, plan, unique: unique_patterns(link.config) }.sections()
    }
}

/// The sections that may hold call frame information by their type and flags. With `all`, sections of any
/// name; otherwise only those named `.eh_frame.*`.
fn candidates<T: Target>(link: &Inputs<'_, T>, sections: &SectionStates, all: bool) -> Vec<SectionId> {
    let of_object = |object: &ObjectFile<'_, T::E>| -> Vec<SectionId> {
        let may_hold = |index: &usize| may_hold_frames(link, sections, object, *index);
        let id = |index: usize| object.section_id(index as u32);
        if all {
            return (1..object.headers.len()).filter(may_hold).map(id).collect();
        }
        let special = object.special.iter().map(|&index| index as usize);
        let named = special.filter(|&index| object.section_name_begins(index, OTHER_EH_FRAME));
        named.filter(may_hold).map(id).collect()
    };
    link.objects.par_iter().flat_map_iter(of_object).collect()
}

/// Whether a section has loaded contents of the program about which nothing else is known.
fn may_hold_frames<T: Target>(
    link: &Inputs<'_, T>,
    sections: &SectionStates,
    object: &ObjectFile<'_, T::E>,
    index: usize,
) -> bool {
    let id = object.section_id(index as u32);
    let class = link.class_of(id);
    let other = SectionClass::SFRAME | SectionClass::EH_FRAME | SectionClass::MERGE | SectionClass::ORDERED;
    class.contains(SectionClass::ALLOC)
        && !class.intersects(other)
        && matches!(object.headers[index].sh_type.get(), elf::SHT_PROGBITS | SHT_UNWIND)
        && sections.is_alive(id)
}

/// Searches for the sections that a script puts into `.eh_frame`.
struct Search<'l, 'a, T: Target> {
    link: &'l Inputs<'a, T>,
    sections: &'l SectionStates,
    plan: &'l LayoutPlan,
    unique: Vec<Glob>,
}

impl<T: Target> Search<'_, '_, T> {
    fn sections(&self) -> Vec<SectionId> {
        let mut found = candidates(self.link, self.sections, self.takes_any_name());
        // Almost no section fits the few rules of `.eh_frame`. A rule before them may take one that does.
        for finder in
            [RuleFinder::of_outputs(self.plan, |output| self.is_eh_frame(output)), RuleFinder::new(self.plan)]
        {
            if !found.is_empty() {
                found = found.into_par_iter().filter(|&id| self.goes_there(&finder, id)).collect();
            }
        }
        found
    }

    /// Whether a rule of `.eh_frame` takes sections of other names than `.eh_frame` and `.eh_frame.*`. Then
    /// the names of all sections have to be compared.
    fn takes_any_name(&self) -> bool {
        self.plan.rules.iter().filter(|rule| self.is_eh_frame(rule.output.index())).any(|rule| {
            let Some(statement) = rule.statement else { return false };
            let patterns = self.plan.statements[statement.index()].sections.as_ref();
            let is_other = |pattern: &SectionPattern| !pattern.glob.bytes.starts_with(b".eh_frame");
            patterns.is_none_or(|patterns| patterns.iter().any(is_other))
        })
    }

    fn is_eh_frame(&self, output: usize) -> bool {
        self.plan.outputs[output].name == b".eh_frame"
    }

    fn goes_there(&self, finder: &RuleFinder<'_>, id: SectionId) -> bool {
        let Some((object, index)) = self.link.locate(id) else { return false };
        let name = object.section_name(index as usize);
        let flags = object.headers[index as usize].sh_flags.get();
        let rule = finder.find(name, file_of(object.name), flags, |_, _| true);
        rule.is_some_and(|rule| self.is_eh_frame(self.plan.rule(rule).output.index()))
            && !self.unique.iter().any(|pattern| pattern.matches(name))
    }
}
