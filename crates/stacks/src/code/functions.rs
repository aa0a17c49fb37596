//! Where functions are, according to a file's symbols.
//!
//! Compilers move code that hardly ever runs out of a function, into a part with a symbol of its own
//! (`name.cold`). Such a part is no function: its frame is that of the branch that leads to it. So a function
//! and its parts are read together.

use super::names::{Names, whole};
use super::switch::Switch;
use crate::by_address::sorted;
use hashbrown::{HashMap, HashSet};
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::OnceLock;

/// The names of the code where a program starts, which has no caller.
const STARTS: [&[u8]; 2] = [b"_start", b"__start"];
/// The largest piece of code without symbols that is read at once, in bytes.
const MAX_UNKNOWN: u64 = 1 << 20;

/// A function, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub start: u64,
    /// The address after its last byte.
    pub end: u64,
    /// The place of its name.
    pub name: u64,
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
#[derive(Default)]
pub struct Functions {
    /// Ascending. No two overlap.
    known: Vec<Known>,
    /// The other names of functions, by the starts of the functions, ascending.
    other_names: Vec<(u64, u64)>,
    names: Names,
    /// The numbers of those that are parts, ascending.
    parts: OnceLock<Vec<usize>>,
    /// Names of functions that have parts.
    divided: OnceLock<HashSet<Vec<u8>>>,
    /// A number for each function that a function and its parts have in common. `None`: there are no others.
    groups: OnceLock<Vec<Option<u32>>>,
    /// Where functions start that have no caller, ascending, but for those that their names tell.
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
    pub fn new(known: &[Known], mut outermost: Vec<u64>) -> Self {
        let mut known = sorted(known, |known| known.start, |known| (Reverse(known.end), known.name));
        let mut other_names = Vec::new();
        known.dedup_by(|other, kept| {
            let is_same = other.start == kept.start;
            if is_same && other.name != kept.name {
                other_names.push((other.start, other.name));
            }
            is_same
        });
        for place in 0..known.len() {
            let next = known.get(place + 1).map_or(u64::MAX, |next| next.start);
            let known = &mut known[place];
            known.end = if known.end > known.start { known.end.min(next) } else { next };
        }
        outermost.sort_unstable();
        Self { known, other_names, outermost, ..Self::default() }
    }

    /// The same, with the names of functions.
    #[must_use]
    pub fn with_names(self, names: Names) -> Self {
        Self { names, ..self }
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

    /// Where functions start in a range that have no caller, ascending. This reads the names of all functions
    /// that start there.
    pub fn outermost_in(&self, range: &Range<u64>) -> Vec<u64> {
        let told = of_range(&self.outermost, range, |&start| start).iter().copied();
        let known = of_range(&self.known, range, |known| known.start);
        let known = known.iter().map(|known| (known.start, known.name));
        let others = of_range(&self.other_names, range, |&(start, _)| start).iter().copied();
        let named = known.chain(others).filter(|&(_, name)| STARTS.contains(&self.names.at(name)));
        let mut all: Vec<u64> = told.chain(named.map(|(start, _)| start)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The piece at an address, as far as it is in `gap`.
    pub fn piece_at(&self, address: u64, gap: &Range<u64>) -> Piece {
        let place = self.known.partition_point(|known| known.start <= address);
        let before = place.checked_sub(1).map(|place| self.known[place]);
        if let Some(known) = before.filter(|known| address < known.end) {
            return self.piece(&known, gap);
        }
        let start = before.map_or(gap.start, |known| gap.start.max(known.end));
        let end = self.known.get(place).map_or(gap.end, |next| gap.end.min(next.start));
        let start = start + (address - start) / MAX_UNKNOWN * MAX_UNKNOWN;
        Piece { range: start..end.min(start.saturating_add(MAX_UNKNOWN)), kind: Kind::Unknown }
    }

    /// The function at an address and its parts, or the parts and their function, but not the piece at the
    /// address itself.
    pub fn others_of(&self, address: u64) -> impl Iterator<Item = Known> {
        let behind = self.known.partition_point(|known| known.start <= address);
        let own = behind.checked_sub(1).filter(|&own| address < self.known[own].end);
        let own = own.filter(|&own| self.may_be_divided(&self.known[own]));
        let groups = own.map_or(&[][..], |_| self.groups());
        let group = own.and_then(|own| groups[own]);
        let others = self.known.iter().zip(groups).enumerate();
        let others = others.filter(move |(_, (_, other))| group.is_some() && **other == group);
        others.filter(move |(place, _)| own != Some(*place)).map(|(_, (known, _))| *known)
    }

    /// The functions that have parts, each with its parts.
    pub fn divided(&self) -> Vec<Vec<Known>> {
        let mut all: Vec<Vec<Known>> = Vec::new();
        for (known, group) in self.known.iter().zip(self.groups()) {
            if let Some(group) = group {
                let group = *group as usize;
                all.resize_with(all.len().max(group + 1), Vec::new);
                all[group].push(*known);
            }
        }
        all
    }

    /// Whether it is a part, or has the name of a function with parts. Most functions do not, and no other
    /// name needs to be read to say so.
    fn may_be_divided(&self, own: &Known) -> bool {
        let name = |known: &Known| whole(self.names.at(known.name));
        let divided = || self.parts().map(|part| name(part).to_vec()).collect();
        let is_divided = |divided: &HashSet<Vec<u8>>| !divided.is_empty() && divided.contains(name(own));
        self.is_part(own) || is_divided(self.divided.get_or_init(divided))
    }

    fn groups(&self) -> &[Option<u32>] {
        let name = |known: &Known| whole(self.names.at(known.name));
        self.groups.get_or_init(|| {
            let mut numbers = HashMap::new();
            for part in self.parts() {
                let next = numbers.len() as u32;
                numbers.entry(name(part)).or_insert(next);
            }
            self.known.iter().map(|known| numbers.get(name(known)).copied()).collect()
        })
    }

    /// Whether it is a part that is not entered by a call.
    fn is_part(&self, known: &Known) -> bool {
        let name = self.names.at(known.name);
        whole(name).len() < name.len()
    }

    /// All parts, ascending.
    fn parts(&self) -> impl Iterator<Item = &Known> {
        let numbers = self.parts.get_or_init(|| {
            let parts = self.names.parts();
            (0..self.known.len()).filter(|&number| parts.have(self.known[number].name)).collect()
        });
        numbers.iter().map(|&number| &self.known[number])
    }

    /// A function as far as it is in `gap`. What is left of one without its first instruction is a part.
    pub fn piece(&self, known: &Known, gap: &Range<u64>) -> Piece {
        let is_part = known.start < gap.start || self.is_part(known);
        let kind = if is_part { Kind::Part } else { Kind::Function };
        Piece { range: known.start.max(gap.start)..known.end.min(gap.end), kind }
    }
}

/// Those of `all`, ascending, that start in a range.
fn of_range<'a, T>(all: &'a [T], range: &Range<u64>, start: impl Fn(&T) -> u64) -> &'a [T] {
    let first = all.partition_point(|one| start(one) < range.start);
    let count = all[first..].partition_point(|one| start(one) < range.end);
    &all[first..first + count]
}

#[cfg(test)]
mod tests {
    use super::{Functions, Known, Names};

    /// Linkers fold equal functions, and then one of them has several names. Which one is asked for a name
    /// does not matter.
    #[test]
    fn the_start_of_a_program_is_known_by_any_of_its_names() {
        let mut names = Names::default();
        names.add(b"a\0_start\0z\0restart\0".to_vec().into());
        let known = |start, end, name| Known { start, end, name };
        let all = [
            known(0x30, 0x40, 11),
            known(0x10, 0x20, 9),
            known(0x10, 0x28, 0),
            known(0x10, 0x20, 2),
            known(0x50, 0x60, 2),
        ];
        let functions = Functions::new(&all, vec![0x70, 0x50]).with_names(names);
        assert_eq!(functions.outermost_in(&(0..u64::MAX)), [0x10, 0x50, 0x70]);
        assert_eq!(functions.outermost_in(&(0x10..0x11)), [0x10]);
        assert!(functions.outermost_in(&(0x11..0x50)).is_empty());
    }
}
