//! Where functions are, according to a file's symbols.
//!
//! Compilers move code that hardly ever runs out of a function, into a part with a symbol of its own
//! (`name.cold`). Such a part is no function: its frame is that of the branch that leads to it. So a function
//! and its parts are read together.

use super::switch::Switch;
use std::ops::Range;

/// The largest piece of code without symbols that is read at once, in bytes.
const MAX_UNKNOWN: u64 = 1 << 20;

/// A function, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub start: u64,
    /// The address after its last byte.
    pub end: u64,
    /// Whether it is a part that is not entered by a call.
    pub is_part: bool,
    /// A number that a function and its parts have in common.
    pub group: Option<u32>,
}

/// A piece of code: a function, a part of one, or code between functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub range: Range<u64>,
    pub kind: Kind,
}

/// What a piece of code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A function, which begins with the piece.
    Function,
    /// A part of a function.
    Part,
    /// Code without symbols, which may contain any number of functions.
    Unknown,
}

/// The functions of a file.
#[derive(Debug, Default)]
pub struct Functions {
    /// Ascending. No two overlap.
    known: Vec<Known>,
    /// Where functions start that have no caller, ascending.
    outermost: Vec<u64>,
    /// Functions whose CFI for debuggers does not hold.
    misdescribed: Vec<Range<u64>>,
    /// Functions that call on another stack and never return to the one before.
    left: Vec<Range<u64>>,
    /// Calls on another stack, ascending.
    switches: Vec<Switch>,
    /// Code whose stack may be moved while it waits for a callee.
    moving: Range<u64>,
}

impl Functions {
    /// Functions, in any order, and the starts of those that have no caller. A size of 0 reaches to the next
    /// function.
    pub fn new(mut known: Vec<Known>, mut outermost: Vec<u64>) -> Self {
        known.sort_unstable_by_key(|known| (known.start, std::cmp::Reverse(known.end)));
        known.dedup_by_key(|known| known.start);
        for place in 0..known.len() {
            let next = known.get(place + 1).map_or(u64::MAX, |next| next.start);
            let known = &mut known[place];
            known.end = if known.end > known.start { known.end.min(next) } else { next };
        }
        outermost.sort_unstable();
        Self {
            known,
            outermost,
            misdescribed: Vec::new(),
            left: Vec::new(),
            switches: Vec::new(),
            moving: 0..0,
        }
    }

    /// The same, with the functions that call on another stack and never return to the one before.
    #[must_use]
    pub fn with_left(self, left: Vec<Range<u64>>) -> Self {
        Self { left, ..self }
    }

    /// Whether the function at an address calls on another stack and never returns to the one before.
    pub fn leaves_stack_at(&self, address: u64) -> bool {
        self.left.iter().any(|range| range.contains(&address))
    }

    /// The same, with the functions whose CFI for debuggers does not hold.
    #[must_use]
    pub fn with_misdescribed(self, misdescribed: Vec<Range<u64>>) -> Self {
        Self { misdescribed, ..self }
    }

    /// The function at an address whose CFI for debuggers does not hold.
    pub fn misdescribed_at(&self, address: u64) -> Option<&Range<u64>> {
        self.misdescribed.iter().find(|range| range.contains(&address))
    }

    /// The same, with the calls on another stack.
    #[must_use]
    pub fn with_switches(mut self, mut switches: Vec<Switch>) -> Self {
        switches.sort_by_key(|switch| switch.at);
        switches.dedup_by_key(|switch| switch.at);
        self.switches = switches;
        self
    }

    /// The same, with the code whose stack may be moved while it waits for a callee.
    #[must_use]
    pub fn with_moving(self, moving: Range<u64>) -> Self {
        Self { moving, ..self }
    }

    /// Whether the stack of the code at an address may be moved while it waits for a callee. Then a frame
    /// pointer that C has kept meanwhile leads to the stack that was left.
    pub fn moves_stack_at(&self, address: u64) -> bool {
        self.moving.contains(&address)
    }

    /// Calls on another stack, ascending.
    pub fn switches(&self) -> &[Switch] {
        &self.switches
    }

    /// The call on another stack that ends in front of an address.
    pub fn switch_at(&self, address: u64) -> Option<&Switch> {
        let place = self.switches.binary_search_by_key(&address, |switch| switch.at).ok()?;
        self.switches.get(place)
    }

    /// Where functions start that have no caller, ascending.
    pub fn outermost(&self) -> &[u64] {
        &self.outermost
    }

    /// The piece at an address, as far as it is in `gap`.
    pub fn piece_at(&self, address: u64, gap: &Range<u64>) -> Piece {
        let place = self.known.partition_point(|known| known.start <= address);
        let before = place.checked_sub(1).map(|place| self.known[place]);
        if let Some(known) = before.filter(|known| address < known.end) {
            return piece(&known, gap);
        }
        let start = before.map_or(gap.start, |known| gap.start.max(known.end));
        let end = self.known.get(place).map_or(gap.end, |next| gap.end.min(next.start));
        let start = start + (address - start) / MAX_UNKNOWN * MAX_UNKNOWN;
        Piece { range: start..end.min(start.saturating_add(MAX_UNKNOWN)), kind: Kind::Unknown }
    }

    /// The function at an address and its parts, or the parts and their function, but not the piece at the
    /// address itself.
    pub fn others_of(&self, address: u64) -> impl Iterator<Item = Known> {
        let place = self.known.partition_point(|known| known.start <= address);
        let own = place.checked_sub(1).map(|place| self.known[place]).filter(|known| address < known.end);
        let group = own.and_then(|own| own.group);
        let others = self.known.iter().filter(move |known| group.is_some() && known.group == group);
        others.filter(move |known| own.is_none_or(|own| own.start != known.start)).copied()
    }
}

/// A function as far as it is in `gap`. What is left of one without its first instruction is a part.
pub fn piece(known: &Known, gap: &Range<u64>) -> Piece {
    let kind = if known.is_part || known.start < gap.start { Kind::Part } else { Kind::Function };
    Piece { range: known.start.max(gap.start)..known.end.min(gap.end), kind }
}
