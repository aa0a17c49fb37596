//! Finds the `MEMORY` region of a section: by its name, or else by the region's attributes.

use super::LayoutPlan;
use crate::diag::{Code, Diagnostic};
use crate::elf::{consts as elf, is_alloc};
use crate::ids::RegionId;
use crate::script::ast::{MemoryRegion, Name, RegionLetters};
use std::collections::HashMap;

/// The name of the default region.
pub const DEFAULT_NAME: &[u8] = b"*default*";

/// The region of this name or alias.
pub fn find(plan: &LayoutPlan, name: &[u8]) -> Option<RegionId> {
    if name == DEFAULT_NAME {
        return Some(RegionId::DEFAULT);
    }
    plan.region_rows.get(name).copied().map(RegionId::declared)
}

/// Gives the aliases of regions the rows of these regions. An alias may name another alias, so chains are
/// followed, and each alias is followed once.
pub(super) fn follow_aliases(plan: &mut LayoutPlan) {
    let LayoutPlan { region_aliases, region_rows, .. } = plan;
    let mut open: HashMap<&[u8], &[u8]> = HashMap::new();
    for (alias, region) in &*region_aliases {
        open.entry(&alias.bytes).or_insert(&region.bytes);
    }
    for (alias, _) in &*region_aliases {
        let (mut name, mut chain) = (&alias.bytes[..], Vec::new());
        while !region_rows.contains_key(name)
            && let Some(next) = open.remove(name)
        {
            chain.push(name);
            name = next;
        }
        if let Some(&row) = region_rows.get(name) {
            region_rows.extend(chain.into_iter().map(|name| (name.into(), row)));
        }
    }
}

/// The region of an allocated section that names none: the first region whose letters fit. `data` says
/// whether any input section in it is loaded and not code.
pub fn by_attributes(plan: &LayoutPlan, sh_type: u32, flags: u64, data: bool) -> RegionId {
    let has = |letters| has_one(letters, sh_type, flags, data);
    let fits = |region: &MemoryRegion| has(region.attributes.with) && !has(region.attributes.without);
    plan.memory.iter().position(fits).map_or(RegionId::DEFAULT, RegionId::declared)
}

fn has_one(letters: RegionLetters, sh_type: u32, flags: u64, data: bool) -> bool {
    let writable = flags & elf::SHF_WRITE != 0;
    let executable = flags & elf::SHF_EXECINSTR != 0;
    let loaded = is_alloc(flags) && sh_type != elf::SHT_NOBITS;
    // In GNU ld, `w` means data: whatever is loaded and not code, read-only or not, even if there is also
    // code.
    letters.read_only && !writable
        || letters.writable && (data || !executable && (loaded || writable))
        || letters.executable && executable
        || letters.allocated && is_alloc(flags)
        || letters.loaded && loaded
}

/// A message lists at most so many regions, because there may be as many messages as regions.
const LISTED: usize = 8;

/// The warning about a region that a section names and nothing declares. The first `declared` regions of the
/// plan are those of the script.
pub fn undeclared_region(plan: &LayoutPlan, declared: usize, name: &Name) -> Diagnostic {
    let diagnostic =
        Diagnostic::warning(Code::ScriptError, format!("memory region `{}' not declared", name.text()))
            .at(plan.sources.location(name.span))
            .ordered(name.span.file, 0, name.span.start.into());
    if declared == 0 {
        return diagnostic.help("declare it with MEMORY { … }");
    }
    let listed = &plan.memory[..declared.min(LISTED)];
    let names: Vec<_> = listed.iter().map(|region| region.name.text()).collect();
    let more = match declared - listed.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    diagnostic.help(format!("the regions are {}{more}", names.join(", ")))
}
