//! `MEMORY` regions: where the next section of each goes.

use super::plan::LayoutPlan;
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::link::is_alloc;
use crate::script::ast::{MemoryRegion, RegionLetters};

/// A region during one run of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First address.
    pub origin: u64,
    /// Length in bytes.
    pub length: u64,
    /// Where the next section goes.
    pub current: u64,
    /// The last section that was put here and that others take their load addresses after.
    pub last: Option<Last>,
}

/// Where a section is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    /// Address.
    pub address: u64,
    /// Load address.
    pub load: u64,
    /// Bytes.
    pub size: u64,
}

impl Region {
    /// A region that starts at `origin`.
    pub fn new(origin: u64, length: u64) -> Region {
        Region { origin, length, current: origin, last: None }
    }

    /// Load address of a section that says nothing about it: as far from its address as that of
    /// the section before, unless it lies wholly below that one.
    pub fn load_address(&self, address: u64, size: u64, align: u64) -> u64 {
        let Some(last) = self.last else { return address };
        if size != 0 && address < last.address && last.address - address >= size {
            return address;
        }
        let load = address.wrapping_add(last.load.wrapping_sub(last.address));
        super::size::round_up(load, align).unwrap_or(load)
    }

    /// Remembers a section for those behind it. Empty ones say something only by a load address of
    /// their own, or if they stand behind the others.
    pub fn remember(&mut self, section: Last, always: bool) {
        let counts = match self.last {
            None => section.address != section.load,
            Some(last) => section.address >= last.address,
        };
        if always || section.size != 0 || counts {
            self.last = Some(section);
        }
    }

    /// By how many bytes a section that ends at `end` leaves the region.
    pub fn overflow(&self, end: u64) -> u64 {
        match self.origin.checked_add(self.length) {
            Some(limit) => end.saturating_sub(limit),
            None => 0,
        }
    }
}

/// Row of the region that holds everything for which no other is found.
pub const DEFAULT: usize = 0;

/// Row of a region by name, aliases followed; row 0 is the default region.
pub fn find(plan: &LayoutPlan, name: &[u8]) -> Option<usize> {
    if name == b"*default*" {
        return Some(DEFAULT);
    }
    let aliased = plan.region_aliases.iter().find(|(alias, _)| *alias.bytes == *name);
    let name = aliased.map_or(name, |(_, region)| &region.bytes);
    plan.memory.iter().position(|region| *region.name.bytes == *name).map(|row| row + 1)
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
