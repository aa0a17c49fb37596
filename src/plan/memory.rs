//! Finds the `MEMORY` region of a section: by name, else by the region's attributes.

use super::LayoutPlan;
use crate::diag::{Code, Diagnostic};
use crate::elf::{consts as elf, is_alloc};
use crate::script::ast::{MemoryRegion, RegionLetters};

/// Row of the default region, for sections that fit no declared one.
pub const DEFAULT: usize = 0;

/// The name of that region.
pub const DEFAULT_NAME: &[u8] = b"*default*";

/// Row of a region by name, aliases followed; row 0 is the default region.
pub fn find(plan: &LayoutPlan, name: &[u8]) -> Option<usize> {
    if name == DEFAULT_NAME {
        return Some(DEFAULT);
    }
    let row = |name: &[u8]| plan.memory.iter().position(|region| *region.name.bytes == *name);
    let aliased = |name: &[u8]| plan.region_aliases.iter().find(|(alias, _)| *alias.bytes == *name);
    let mut name = name;
    // An alias may name another one; no chain is longer than there are aliases.
    for _ in 0..plan.region_aliases.len() {
        match aliased(name) {
            Some((_, region)) => name = &region.bytes,
            None => break,
        }
    }
    row(name).map(|row| row + 1)
}

/// The region of an allocated section that names none: the first one whose letters fit.
pub fn by_attributes(plan: &LayoutPlan, sh_type: u32, flags: u64) -> usize {
    let fits = |region: &MemoryRegion| {
        has_one(region.attributes.with, sh_type, flags) && !has_one(region.attributes.without, sh_type, flags)
    };
    plan.memory.iter().position(fits).map_or(DEFAULT, |row| row + 1)
}

fn has_one(letters: RegionLetters, sh_type: u32, flags: u64) -> bool {
    let writable = flags & u64::from(elf::SHF_WRITE) != 0;
    let executable = flags & u64::from(elf::SHF_EXECINSTR) != 0;
    let loaded = is_alloc(flags) && sh_type != elf::SHT_NOBITS;
    // GNU ld's `w` is data: whatever is loaded and no code, read-only or not.
    letters.read_only && !writable
        || letters.writable && !executable && (loaded || writable)
        || letters.executable && executable
        || letters.allocated && is_alloc(flags)
        || letters.loaded && loaded
}

/// A warning about a region that a section names and nothing declares.
pub fn undeclared_region(plan: &LayoutPlan, name: &crate::script::ast::Name) -> Diagnostic {
    let known: Vec<_> = plan.memory.iter().map(|region| region.name.text()).collect();
    let diagnostic =
        Diagnostic::warning(Code::ScriptError, format!("memory region `{}' not declared", name.text()))
            .at(plan.sources.location(name.span))
            .ordered(name.span.file, 0, name.span.start.into());
    if known.is_empty() {
        diagnostic.help("declare it with MEMORY { … }")
    } else {
        diagnostic.help(format!("the regions are {}", known.join(", ")))
    }
}
