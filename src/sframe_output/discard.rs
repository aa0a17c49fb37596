//! Decides which SFrame inputs are in the output, and why the others are not.
//!
//! SFrame rule 2: `.sframe` keeps nothing alive, and the text that it describes keeps it. A section that is
//! linked to its text (`SHF_LINK_ORDER`) lives and dies with it. A member of a group dies with the group. Any
//! other section lives as long as one of the sections that its relocations point at. A section without
//! relocations describes unknown code, so the linker keeps it unless `--gc-sections` is given.
//!
//! Rule 3: if text lost with its group but its `.sframe` is outside the group, that is a violation. The
//! linker keeps that section, so that it can report the reference.

use super::absorb::is_refused;
use crate::arch::Target;
use crate::cli::SFrameMode;
use crate::elf::consts as elf;
use crate::ids::SectionId;
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use crate::phase::Inputs;
use crate::phase::Placed;
use crate::phase::{Resolved, SectionState, SectionStates};
use parallel::ParallelSlice;
use zerocopy::byteorder::ByteOrder;

/// The fate of an SFrame input. Machine-readable reports use these words, which are stable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Fate {
    /// It is in the output.
    Kept,
    /// The linker's own blob replaces it.
    Taken,
    /// `--sframe=merge` cannot read it.
    Unrecognised,
    /// It has no bytes.
    Empty,
    /// `--sframe=discard` drops it.
    NotWanted,
    /// Its group lost to another of the same signature.
    LostGroup,
    /// A script discards it.
    Script,
    /// No text that it describes is in the output.
    DeadText,
    /// `--icf` folded the text that it describes.
    FoldedText,
}

impl Fate {
    /// The word of machine-readable reports.
    pub fn word(self) -> &'static str {
        match self {
            Fate::Kept => "kept",
            Fate::Taken => "taken",
            Fate::Unrecognised => "unrecognised",
            Fate::Empty => "empty",
            Fate::NotWanted => "discarded-by-option",
            Fate::LostGroup => "discarded-with-group",
            Fate::Script => "discarded-by-script",
            Fate::DeadText => "collected-with-text",
            Fate::FoldedText => "folded-with-text",
        }
    }

    /// The reason in words.
    pub fn text(self) -> &'static str {
        match self {
            Fate::Kept => "kept",
            Fate::Taken => "taken",
            Fate::Unrecognised => "dropped: it was not recognised",
            Fate::Empty => "dropped: it is empty",
            Fate::NotWanted => "dropped: --sframe=discard",
            Fate::LostGroup => "dropped: another group of the same signature prevails",
            Fate::Script => "dropped: the linker script discards it",
            Fate::DeadText => "dropped: nothing that it describes is in the output",
            Fate::FoldedText => "dropped: the text that it describes was folded into equal text",
        }
    }
}

/// The fate of an SFrame input. Liveness must be frozen.
pub fn fate<T: Target>(link: &Placed<'_, T>, id: SectionId) -> Fate {
    let has = |bits| link.sections.is(id, bits);
    if link.sections.is_alive(id) {
        match (has(SectionState::ABSORBED), &link.chosen.table) {
            (false, _) => Fate::Kept,
            (true, Some(_)) => Fate::Taken,
            // There is no table: the script discarded the linker's own section, which would replace the
            // input.
            (true, None) => Fate::Script,
        }
    } else if is_refused(link, id) && !is_unwanted(link) {
        Fate::Unrecognised
    } else if link.section_info(id).size == 0 {
        Fate::Empty
    } else if has(SectionState::DISCARDED_BY_GROUP) {
        Fate::LostGroup
    } else if has(SectionState::DISCARDED_BY_SCRIPT) {
        Fate::Script
    } else if is_unwanted(link) {
        Fate::NotWanted
    } else if has(SectionState::FOLDED) {
        Fate::FoldedText
    } else {
        Fate::DeadText
    }
}

fn is_unwanted<T: Target>(link: &Inputs<'_, T>) -> bool {
    link.config.sframe.mode == SFrameMode::Discard
}

/// Clears `ALIVE` of the SFrame inputs that are not in the output. It runs when the liveness of all other
/// sections is known, and again after text has been folded.
pub fn discard<T: Target>(link: &Resolved<'_, T>, sections: &mut SectionStates) {
    let states = &*sections;
    let dead: Vec<(SectionId, SectionState)> = link
        .objects
        .par_iter()
        .flat_map_iter(|object| {
            let reason = move |&index: &u32| {
                let id = object.section_id(index);
                Some((id, state_if_discarded(link, states, object, index as usize)?))
            };
            object.sframes.iter().filter_map(reason)
        })
        .collect();
    dead.into_iter().for_each(|(id, why)| sections.discard(id, why));
}

/// The state of an SFrame input that leaves the output now. `None`: it stays, or it has left before.
fn state_if_discarded<T: Target>(
    link: &Resolved<'_, T>,
    sections: &SectionStates,
    object: &ObjectFile<'_, T::E>,
    index: usize,
) -> Option<SectionState> {
    let state = sections.get(object.section_id(index as u32));
    if !state.contains(SectionState::ALIVE) || state.contains(SectionState::ABSORBED) {
        return None;
    }
    if is_unwanted(link) {
        return Some(SectionState::empty());
    }
    if object.headers[index].sh_size.get() == 0 {
        // An empty section stays if a symbol is defined in it. Start-up files mark the beginning of a table
        // this way.
        return (!has_symbol(object, index)).then_some(SectionState::empty());
    }
    discarded_with_text(link, sections, object, index)
}

/// Whether a section defines a symbol other than its own (`STT_SECTION`).
fn has_symbol<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> bool {
    let is_there = |symbol: usize| object.symbol_place(symbol) == SymbolPlace::Section(index as u32);
    (1..object.symbols.len())
        .any(|symbol| is_there(symbol) && object.symbols[symbol].kind() != elf::STT_SECTION)
}

/// The state of an SFrame section if all of its text has left the output. `None`: some of the text, or a
/// violation to report, keeps the section. The section itself has not been discarded.
fn discarded_with_text<T: Target>(
    link: &Resolved<'_, T>,
    sections: &SectionStates,
    object: &ObjectFile<'_, T::E>,
    index: usize,
) -> Option<SectionState> {
    let header = &object.headers[index];
    let linked = header.sh_link.get();
    if header.sh_flags.get() & elf::SHF_LINK_ORDER != 0
        && linked != 0
        && (linked as usize) < object.headers.len()
    {
        let text = object.section_id(linked);
        if !sections.is_in_output(text) && names_others::<T>(object, index, linked) {
            return discarded_with_described_text(link, sections, object, index);
        }
        // A violation keeps the section. But `--sframe-split` makes parts for `.gnu.linkonce` text, and such
        // a part is discarded with its text.
        let kept =
            sections.is_in_output(text) || (is_violated(sections, text) && !object.is_generated(index));
        return (!kept).then(|| discard_state(sections, text));
    }
    discarded_with_described_text(link, sections, object, index)
}

/// Whether SFrame data that is linked to one section (`SHF_LINK_ORDER`) also describes others of its file:
/// GNU ld links the data that it has merged to the first of them.
pub fn describes_others<T: Target>(link: &Inputs<'_, T>, section: SectionId, linked: SectionId) -> bool {
    let Some((object, index)) = link.locate(section) else { return false };
    names_others::<T>(object, index as usize, linked.0 - object.first_section)
}

fn names_others<T: Target>(object: &ObjectFile<'_, T::E>, index: usize, linked: u32) -> bool {
    object.relocations(index).iter().filter(|entry| entry.kind() != T::DYNAMIC.none).any(|entry| {
        let place = object.symbol_place(entry.symbol() as usize);
        matches!(place, SymbolPlace::Section(named) if named != linked && named != index as u32)
    })
}

/// Does the work of [`discarded_with_text`] for a section that describes what its relocations point at.
fn discarded_with_described_text<T: Target>(
    link: &Resolved<'_, T>,
    sections: &SectionStates,
    object: &ObjectFile<'_, T::E>,
    index: usize,
) -> Option<SectionState> {
    let mut first = None;
    let mut several = false;
    let mut way = SectionState::COLLECTED;
    for relocation in object.relocations(index) {
        if relocation.symbol() == 0 || relocation.kind() == T::DYNAMIC.none {
            continue;
        }
        // A symbol in no section never leaves, so it keeps the section.
        let (text, _) = link.referenced_section(object, relocation.symbol())?;
        if sections.is_in_output(text) {
            return None;
        }
        way |= discard_state(sections, text);
        several |= first.is_some_and(|first| first != text);
        first.get_or_insert(text);
    }
    let kept = match first {
        None => !link.config.gc.enabled,
        // If the section describes one text only, and that text's group was discarded, that is a violation to
        // report.
        Some(text) => !several && is_violated(sections, text),
    };
    (!kept).then_some(way)
}

fn discard_state(sections: &SectionStates, text: SectionId) -> SectionState {
    sections.get(text) & SectionState::FOLDED | SectionState::COLLECTED
}

fn is_violated(sections: &SectionStates, text: SectionId) -> bool {
    sections.is(text, SectionState::DISCARDED_BY_GROUP)
}
