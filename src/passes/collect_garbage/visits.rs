//! What marking remembers of the sections and symbols that it reaches.
//!
//! The collection itself needs a mark for each ([`Marks`]); `--why-live` wants the way to each, too. In
//! mergeable sections a mark says little: one section holds the strings of all functions of an object. There
//! each piece lives or dies for itself, so marks keep the offsets that references lead to.

use crate::arch::Target;
use crate::ids::{SectionId, SymbolId};
use crate::merge::UsedOffsets;
use crate::passes::merge_strings;
use crate::phase::{Bound, SectionStates};
use std::ops::RangeFrom;
use std::sync::atomic::{AtomicU8, Ordering};

/// The reason why a section is a root, as `--why-live` shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::passes) enum Root {
    /// The entry symbol.
    Entry,
    /// `-init`.
    Initializer,
    /// `-fini`.
    Finalizer,
    /// `-u`, `--require-defined` and similar options.
    Option,
    /// An expression of a script refers to it.
    Script,
    /// It is exported.
    Exported,
    /// `SHF_GNU_RETAIN`.
    Retained,
    /// `KEEP`.
    Keep,
    /// Start-up code or readers of the program look for it by type or name: initializers, notes.
    Reserved,
    /// `.eh_frame`: each live function keeps the targets of its own records.
    Frames,
    /// Debug information and other sections that are not loaded. They keep no other section alive.
    NotLoaded,
}

/// The edge by which marking reached a section or a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::passes) enum Reach {
    /// It is a root.
    Root(Root),
    /// By a relocation at this offset of a section.
    Reference(SectionId, u64),
    /// By frame records of a function in this section.
    Frame(SectionId),
    /// As a member of this section's group.
    Group(SectionId),
    /// `SHF_LINK_ORDER`: it describes this section.
    Dependent(SectionId),
}

/// What a reference to a section names.
#[derive(Clone, Copy)]
pub(in crate::passes) struct Aim {
    /// The symbol.
    pub symbol: SymbolId,
    /// The offset in the section that it leads to: the symbol's, or with a section symbol, the one that the
    /// addend selects.
    pub offset: u64,
    /// The symbol's own offset if the reference may lead through a slot of the GOT; otherwise `offset`.
    pub start: u64,
}

/// A record of the sections and symbols that marking has reached.
pub(in crate::passes) trait Visits {
    /// Notes that marking reached a section, by a reference if `by` says which. Returns whether this is the
    /// first time.
    fn section(&self, id: SectionId, by: Option<Aim>, how: Reach) -> bool;
    /// The same for a global that no object defines in a section.
    fn name(&self, id: SymbolId, how: Reach) -> bool;
    /// Whether marking certainly reached a section before, and need not know of further references to it. The
    /// test must be cheap: most edges lead to such sections.
    fn has_seen(&self, _: SectionId) -> bool {
        false
    }
}

/// Marking has reached the section or the name.
const REACHED: u8 = 1;
/// The pieces of the section are marked one by one, so every reference to it counts.
const DIVIDED: u8 = 2;

/// The marks of the pass itself, which any thread may set.
pub(super) struct Marks {
    /// For each section, [`REACHED`] and [`DIVIDED`].
    sections: Vec<AtomicU8>,
    /// For each global, [`REACHED`] if a live section refers to its name.
    names: Vec<AtomicU8>,
    /// The pieces that are in use.
    pub pieces: UsedOffsets,
}

impl Marks {
    pub(super) fn new<T: Target>(link: &Bound<'_, T>, sections: &SectionStates) -> Self {
        let unmarked = |count| (0..count).map(|_| AtomicU8::new(0)).collect();
        let pieces = merge_strings::divided_by_references(link, sections);
        let mut marks: Vec<AtomicU8> = unmarked(link.section_count());
        for section in pieces.sections() {
            *marks[section.index()].get_mut() = DIVIDED;
        }
        Marks { sections: marks, names: unmarked(link.globals.len()), pieces }
    }

    /// For each of these sections, whether marking reached it.
    pub(super) fn reached(&self, sections: RangeFrom<usize>) -> impl Iterator<Item = bool> + '_ {
        self.sections[sections].iter().map(|mark| mark.load(Ordering::Relaxed) & REACHED != 0)
    }

    /// For each global, a mark that is 0 unless its name was reached; and the pieces in use.
    pub(super) fn finish(self) -> (Vec<AtomicU8>, UsedOffsets) {
        (self.names, self.pieces)
    }

    /// Marks the pieces of a divided section that an edge leads to. Returns whether there are any.
    #[cold]
    fn mark_pieces(&self, id: SectionId, by: Option<Aim>, how: Reach) -> bool {
        match (how, by) {
            // A group holds a function and its strings together, but its code says which of them it needs.
            (Reach::Group(_), _) => return false,
            (Reach::Root(_) | Reach::Reference(..), Some(aim)) => {
                self.pieces.mark(id, aim.offset);
                self.pieces.mark(id, aim.start);
            }
            // `KEEP`, `__start_NAME` and others mean the section as a whole.
            _ => self.pieces.mark_all(id),
        }
        true
    }
}

/// Sets a mark. Returns whether it was not set before. The mark is read first: mostly it is set, and a cache
/// line that is only read stays shared between processors.
#[inline]
fn set(mark: &AtomicU8) -> bool {
    mark.load(Ordering::Relaxed) & REACHED == 0 && mark.fetch_or(REACHED, Ordering::Relaxed) & REACHED == 0
}

impl Visits for Marks {
    fn section(&self, id: SectionId, by: Option<Aim>, how: Reach) -> bool {
        let mark = &self.sections[id.index()];
        if mark.load(Ordering::Relaxed) & DIVIDED != 0 && !self.mark_pieces(id, by, how) {
            return false;
        }
        set(mark)
    }

    #[inline]
    fn has_seen(&self, id: SectionId) -> bool {
        self.sections[id.index()].load(Ordering::Relaxed) == REACHED
    }

    fn name(&self, id: SymbolId, _: Reach) -> bool {
        set(&self.names[id.index()])
    }
}
