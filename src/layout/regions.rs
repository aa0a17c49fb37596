//! The part of the location counter that is about regions: where a section goes, where it is loaded, and
//! whether it fits ("Output Section LMA" and "Output Section Region" in GNU ld's manual).

use super::state::{LayoutState, OutputState, Start};
use crate::chunks::align;
use crate::chunks::memory::Last;
use crate::diag::Code;
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::RegionId;
use crate::plan::OutputPlan;
use crate::plan::memory;
use crate::script::ast::{Name, OutputSectionType};

impl LayoutState<'_> {
    /// Whether an output section of kind `INFO`, or of a similar kind, has allocated contents. These are
    /// loaded, though the script makes the section not allocated.
    pub(super) fn is_loaded(&self, plan: &OutputPlan, index: usize) -> bool {
        let facts = &self.outputs[index].facts;
        is_unallocated_kind(plan) && is_alloc(facts.any) && facts.sh_type != elf::SHT_NOBITS
    }

    /// The regions for addresses and load addresses that the script names for a section. `AT>` alone is for
    /// both. A section without load address or load region has the load region of the section before, if both
    /// go to the same region.
    pub(super) fn declared_regions(&self, plan: &OutputPlan) -> (RegionId, Option<RegionId>) {
        let find = |name: &Option<Name>| memory::find(self.plan, &name.as_ref()?.bytes);
        let (region, load) = (find(&plan.region), find(&plan.load_region));
        let region = match (region, load) {
            (None, Some(load)) if plan.address.is_none() => load,
            (region, _) => region.unwrap_or(RegionId::DEFAULT),
        };
        let (region_before, load_before) = self.regions_before;
        // A section with an address of its own is in no region, so it does not share one with the section
        // before.
        let same_region = region == region_before && region != RegionId::DEFAULT;
        let inherits = plan.load_address.is_none() && plan.address.is_none() && same_region;
        (region, load.or(load_before.filter(|_| inherits)))
    }

    /// The region that the section goes to. `declared` is the region that the script names for it.
    pub(super) fn region_of(
        &mut self,
        plan: &OutputPlan,
        index: usize,
        alloc: bool,
        declared: RegionId,
    ) -> RegionId {
        if declared != RegionId::DEFAULT {
            return declared;
        }
        // An explicit address overrides the region that attributes would choose.
        let has_address = plan.address.is_some() || plan.overlay && self.overlay_fixed;
        if self.plan.memory.is_empty() || has_address || !alloc || self.settings.relocatable {
            return RegionId::DEFAULT;
        }
        let OutputState { attributes, facts, .. } = &self.outputs[index];
        let flags = attributes.flags & !attributes.by_name;
        let region = memory::by_attributes(self.plan, attributes.sh_type, flags, facts.data);
        if region == RegionId::DEFAULT && self.outputs[index].facts.bytes > 0 {
            let name = plan.name_text();
            let message =
                format!("no memory region for output section `{name}`, and none fits its attributes");
            self.find_fault(plan.span, Code::LayoutError, message);
        }
        region
    }

    /// Gives a section its load address (GNU ld's manual, "Output Section LMA"), and lets its load region
    /// continue behind it.
    pub(super) fn load_address(
        &mut self,
        plan: &OutputPlan,
        index: usize,
        alloc: bool,
        region: RegionId,
        load_region: Option<RegionId>,
        start: Start,
    ) {
        let (address, size) = (self.outputs[index].address, self.outputs[index].size);
        let explicit = self.own_load_address(plan);
        let aligned = |value: u64, align: u64| align::round_up(value, align).unwrap_or(value);
        let load = match (explicit, load_region) {
            (Some(load), _) => load,
            (None, Some(its)) => {
                let current = self.regions[its.index()].current;
                match (plan.align_with_input, its == region) {
                    (true, _) => current.wrapping_add(start.padding),
                    (false, true) => aligned(current, start.used),
                    (false, false) => aligned(current, start.asked),
                }
            }
            (None, None) if !alloc => address,
            (None, None) if plan.overlay && self.overlay_begun => {
                self.load_address_in_overlay(plan, region).unwrap_or(address)
            }
            (None, None) => self.regions[region.index()].load_address(address, size, start.used),
        };
        let state = &mut self.outputs[index];
        state.load_address = load;
        if self.settings.relocatable || !state.in_output {
            return;
        }
        let takes_room = alloc && !state.is_tls_zeros();
        let loaded = state.attributes.sh_type != elf::SHT_NOBITS;
        match load_region {
            Some(its) if its != region && alloc && (loaded || plan.align_with_input) => {
                let end = load.wrapping_add(if takes_room { size } else { 0 });
                self.regions[its.index()].current = end;
                self.check_region(its, plan, (load, end), plan.load_region.as_ref());
            }
            None if takes_room => {
                let first = self.begins_overlay(plan);
                self.regions[region.index()].remember(Last { address, load, size }, first);
            }
            _ => {}
        }
    }

    /// Whether a section that is made now is the first of its overlay. Sections of the overlay before it are
    /// empty, and are not made.
    pub(super) fn begins_overlay(&self, plan: &OutputPlan) -> bool {
        plan.overlay && !self.overlay_begun
    }

    /// The value of `AT(…)`. In an overlay, it is for the first section.
    pub(super) fn own_load_address(&mut self, plan: &OutputPlan) -> Option<u64> {
        let load = plan.load_address.as_ref().filter(|_| !plan.overlay || self.begins_overlay(plan))?;
        self.address(load)
    }

    /// Where a section of an overlay is loaded if it is not the first one: behind the section before.
    pub(super) fn load_address_in_overlay(&self, plan: &OutputPlan, region: RegionId) -> Option<u64> {
        let last = self.regions[region.index()].last.filter(|_| plan.overlay && self.overlay_begun)?;
        Some(last.load.wrapping_add(last.size))
    }

    /// Notes a section whose addresses, from `start` up to `end`, are not all in its region.
    pub(super) fn check_region(
        &mut self,
        id: RegionId,
        plan: &OutputPlan,
        (start, end): (u64, u64),
        named: Option<&Name>,
    ) {
        let region = self.regions[id.index()];
        let (under, over) = (region.underflow(start), region.overflow(end));
        let Some(declaration) = id.declaration() else { return };
        if over == 0 && (start == end || under == 0) {
            return;
        }
        let name = plan.name_text();
        let span = named.map_or(plan.span, |name| name.span);
        if under > 0 {
            let message = format!(
                "output section `{name}` does not fit region `{}`: it starts at {start:#x}, {under} bytes ({under:#x}) \
                 below the region's start",
                self.plan.memory[declaration].name.text(),
            );
            return self.find_fault(span, Code::LayoutError, message);
        }
        self.overflows.add(id, &name, span, (end, over));
    }
}

/// Whether the kind is `INFO` or a similar one: not allocated, but laid out among allocated sections.
pub(super) fn is_unallocated_kind(plan: &OutputPlan) -> bool {
    matches!(plan.kind.as_deref(), Some(OutputSectionType::NoAlloc))
}
