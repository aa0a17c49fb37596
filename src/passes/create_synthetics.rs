//! Makes the synthetic sections that this link may need.
//!
//! Whether the output needs a section, and how large it is, shows only later (relocations, layout). But
//! scripts match names, so every section that may be needed exists from here on. The layout drops sections
//! that stay empty. [`crate::synth::kinds`] says how each one is made. Types, flags and entry sizes are those
//! of GNU ld.

use crate::arch::Target;
use crate::frames::Frames;
use crate::ids::SectionId;
use crate::phase::{Resolved, SectionStates, Synthesized};
use crate::plan::LayoutPlan;
use crate::sframe::collect;
use crate::synth::synthesis::{Create, Ingredients};
use crate::synth::{kinds, property_note};
use crate::tables::section::{Kind, SyntheticSections};

/// Makes the synthetic sections, and gives common blocks their places.
pub fn run<'a, T: Target>(
    resolved: Resolved<'a, T>,
    sections: &mut SectionStates,
    plan: &LayoutPlan,
    frames: Frames<'a, T::E>,
    described: collect::Inputs,
) -> Synthesized<'a, T> {
    let properties = property_note::merge(&resolved, sections);
    let plt_shape = T::plt_shape(&resolved.config.properties, properties.features);
    let mut synthetic = SyntheticSections::default();
    let (mut absorbed, mut common_places) = (Vec::new(), Vec::new());
    for &kind in Kind::EARLY {
        let Create::Early(create) = kinds::of::<T>(kind).create else { continue };
        let first = SectionId(resolved.first_internal() + synthetic.rows.len() as u32);
        let created = create(&Ingredients {
            resolved: &resolved,
            sections,
            plan,
            frames: &frames,
            described: &described,
            properties: &properties,
            plt_shape,
            first,
        });
        synthetic.rows.extend(created.sections);
        absorbed.extend(created.absorbed);
        common_places.extend(created.common_places);
    }
    sections.absorb(absorbed);
    sections.add_alive(synthetic.rows.len());
    Synthesized {
        resolved,
        frames,
        described,
        synthetic,
        features: properties.features,
        plt_shape,
        common_places,
    }
}
