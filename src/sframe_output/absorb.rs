//! Reads the inputs that the linker's own blob replaces, and makes the section for that blob.
//!
//! [`absorb`] runs before the linker matches scripts, and marks recognised sections as absorbed. So
//! `*(.sframe)` then matches the linker's own section and the inputs that were not recognised.

use super::overlay;
use crate::arch::Target;
use crate::cli::{Config, SFrameFromEhFrame, SFrameIndex, SFrameMode};
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::consts as elf;
use crate::frames::Frames;
use crate::ids::SectionId;
use crate::input::sframe::{orphan_name, output_type};
use crate::phase::{Inputs, Resolved, SectionState, SectionStates, Synthesized};
use crate::sframe::collect::{self, Batch, Origin, Refused, Role};
use crate::sframe::{derive, read};
use crate::tables::section::{Kind, SyntheticSection};
use sframe_format::light::SHT_SFRAME_LIGHT;
use sframe_format::{SHT_GNU_SFRAME, compact};

/// Whether this link makes one table of the inputs that it recognises.
pub fn is_wanted<T: Target>(link: &Inputs<'_, T>) -> bool {
    link.config.sframe.has_table() || link.config.sframe.mode == SFrameMode::Merge
}

/// Whether recognised inputs stay in `.sframe` beside the table. A compact table is not in the SFrame format,
/// so it cannot replace them for other readers.
fn keeps_inputs(config: &Config) -> bool {
    config.sframe.index == Some(SFrameIndex::Compact) && config.sframe.mode == SFrameMode::Concat
}

/// The role of recognised inputs. `None`: the linker neither replaces them nor derives functions. With
/// `--sframe-from-eh-frame=all`, derived functions replace them in every mode that has a blob.
pub(super) fn role_of_inputs<T: Target>(link: &Inputs<'_, T>) -> Option<Role> {
    match (link.config.sframe.from_eh_frame, is_wanted(link)) {
        (None, false) => None,
        (_, false) if link.config.sframe.mode == SFrameMode::Discard => None,
        (Some(SFrameFromEhFrame::All), _) => Some(Role::Superseded),
        (_, true) => Some(Role::Written),
        (Some(SFrameFromEhFrame::Missing), false) => Some(Role::Present),
    }
}

/// Reads the inputs, derives functions from `.eh_frame`, and marks the inputs that the linker's own blob
/// replaces.
pub fn absorb<'a, T: Target>(
    link: &Resolved<'a, T>,
    sections: &mut SectionStates,
    frames: &Frames<'a, T::E>,
) -> collect::Inputs {
    let Some(role) = role_of_inputs(link) else { return collect::Inputs::default() };
    let (mut batches, mut refused) = read::inputs(link, sections, role);
    if role == Role::Present {
        // In this mode, unrecognised sections pass unchanged like all inputs, and `check_sframes` reports
        // them.
        refused.clear();
    } else {
        replace(link, sections, &batches, &refused);
    }
    if let Some(which) = link.config.sframe.from_eh_frame {
        batches.extend(derive::batches(link, sections, frames, which, &batches));
    }
    collect::Inputs { batches, refused }
}

/// Marks recognised inputs as absorbed, unless they stay beside the table. Reports the others.
fn replace<T: Target>(
    link: &Inputs<'_, T>,
    sections: &mut SectionStates,
    batches: &[Batch],
    refused: &[Refused],
) {
    let replaced = |batch: &&Batch| batch.role == Role::Superseded || !keeps_inputs(link.config);
    let replaced: Vec<&Batch> = batches.iter().filter(replaced).collect();
    sections.absorb(replaced.into_iter().flat_map(Batch::shares).filter_map(|share| match share.origin {
        Origin::Input(section) => Some(section),
        _ => None,
    }));
    for refused in refused {
        report(link, refused);
        if link.config.sframe.mode == SFrameMode::Merge {
            sections.discard(refused.section, SectionState::empty());
        }
    }
}

/// The section for the linker's own blob, if the link may have one. [`absorb`] must have run.
pub fn section<T: Target>(
    link: &Inputs<'_, T>,
    described: &collect::Inputs,
) -> Option<SyntheticSection<'static>> {
    let describes = described.batches.iter().any(|batch| batch.role == Role::Written);
    let drops_all = link.config.sframe.mode == SFrameMode::Discard && !link.config.sframe.has_table();
    // An overlay indexes what is in `.sframe`, so rows for the linker's own code must be there, too.
    let overlays =
        overlay::is_wanted(link.config) && link.objects.iter().any(|object| !object.sframes.is_empty());
    let wants_plt = link.config.sframe.plt_alone || overlays && link.config.sframe.plt;
    let wants_plt = wants_plt && !drops_all && !link.config.is_relocatable();
    if !describes && !wants_plt {
        return None;
    }
    let (name, sh_type): (&[u8], u32) = match link.config.sframe.index {
        Some(SFrameIndex::Compact) => (compact::SECTION_NAME.as_bytes(), elf::SHT_PROGBITS),
        Some(SFrameIndex::V3) => (b".sframe_idx", SHT_GNU_SFRAME),
        Some(SFrameIndex::Overlay) | None => (b".sframe", SHT_GNU_SFRAME),
    };
    let flags = if link.config.sframe.alloc { elf::SHF_ALLOC } else { 0 };
    Some(SyntheticSection::new(Kind::SFrame, name, sh_type, flags, 8))
}

/// Reports an input that the linker does not recognise.
fn report<T: Target>(link: &Inputs<'_, T>, refused: &Refused) {
    let Some((object, index)) = link.locate(refused.section) else { return };
    let name = object.section_name(index as usize);
    let form = output_type(object.headers[index as usize].sh_type.get(), name);
    let light = form == SHT_SFRAME_LIGHT;
    let output = String::from_utf8_lossy(orphan_name(form));
    let (code, message) = match refused.version {
        Some(version) => {
            let (form, known) =
                if light { ("light SFrame", "version 1 is") } else { ("SFrame", "versions 1 to 3 are") };
            (Code::SFrameVersion, format!("{form} version {version} is not known; {known}"))
        }
        None => (Code::SFrameCorrupt, format!("corrupt SFrame data: {}", refused.what)),
    };
    let table = link.config.sframe.index.filter(|_| link.config.sframe.has_table());
    let fate = match (link.config.sframe.mode, table) {
        (SFrameMode::Merge, _) => "the section is left out".to_owned(),
        (SFrameMode::Discard, _) => "the section is left out, as --sframe=discard says".to_owned(),
        (SFrameMode::Concat, Some(_)) => {
            format!("the section is not in the index; it goes into {output} unchanged")
        }
        (SFrameMode::Concat, None) => {
            format!("no derived rows replace it; it goes into {output} unchanged")
        }
    };
    link.sink.report(
        Diagnostic::warning(code, message)
            .at(Location::Section {
                file: object.name.to_string(),
                section: object.section_name_lossy(index as usize),
                offset: refused.offset,
            })
            .note(fate)
            .ordered(object.id.0, index, refused.offset),
    );
}

/// Whether an input was reported as not recognised.
pub fn is_refused<T: Target>(link: &Synthesized<'_, T>, id: SectionId) -> bool {
    link.described.refused.binary_search_by_key(&id, |refused| refused.section).is_ok()
}
