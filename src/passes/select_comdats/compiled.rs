//! Groups whose prevailing copies were intermediate code.
//!
//! The plugin knows that its copy prevails, so the machine code has its definitions, but often outside any
//! group: GCC makes them plain globals. The copies in other files are discarded all the same. Otherwise one
//! thing would be defined twice, or stay in the output unused. But if the machine code lacks a definition of
//! a copy (the compiler dropped it, or made it local), that copy takes part in the choice like any other.
//!
//! A group in the machine code itself wins over those of other files, wherever they stand. The compiler only
//! keeps a group that it knows to prevail, and may have changed its members since: its code may use symbols
//! that another copy lacks. The others come from members that only the machine code brought in.

use crate::arch::Target;
use crate::ids::{FileId, SymbolId};
use crate::input::ObjectFile;
use crate::input::group::{Group, groups};
use crate::input::object::SymbolPlace;
use crate::phase::Inputs;
use hashbrown::{HashMap, HashSet};
use parallel::ParallelSlice;
use zerocopy::byteorder::ByteOrder;

use super::linkonce::Position;

/// What the plugins compiled.
#[derive(Default)]
pub struct Compiled<'a> {
    /// The signatures of COMDAT groups whose prevailing copy was intermediate code.
    pub signatures: HashSet<&'a [u8]>,
    /// The objects that the plugins made, ascending.
    pub files: Vec<FileId>,
}

/// A group, and the globals that it defines.
struct Copy {
    /// The position of the group.
    position: Position,
    globals: Vec<SymbolId>,
}

/// The groups that are discarded because compiled code has their definitions, by position. Each comes with
/// the file that has the definitions.
pub(super) fn displaced<T: Target>(
    inputs: &Inputs<'_, T>,
    compiled: &Compiled<'_>,
) -> HashMap<Position, FileId> {
    if compiled.files.is_empty() {
        return HashMap::new();
    }
    let objects = &inputs.objects;
    let made = || compiled.files.iter().filter_map(|file| objects.get(file.index()));
    let mut own: HashMap<&[u8], FileId> = HashMap::new();
    for object in made() {
        for group in groups(object).0.iter().filter(|group| group.is_comdat()) {
            own.entry(group.signature).or_insert(object.id);
        }
    }
    let others = || objects.par_iter().filter(|object| compiled.files.binary_search(&object.id).is_err());
    let beaten = others().flat_map_iter(|object| {
        let winner = |group: &Group<'_>| own.get(group.signature).copied().filter(|_| group.is_comdat());
        let groups = groups(object).0.into_iter();
        groups.filter_map(move |group| Some((Position::new(object.id, group.section), winner(&group)?)))
    });
    let mut displaced: HashMap<Position, FileId> = beaten.collect().into_iter().collect();
    let is_wanted = |group: &Group<'_>| {
        let is_made = own.contains_key(group.signature);
        group.is_comdat() && compiled.signatures.contains(group.signature) && !is_made
    };
    let copies: Vec<Copy> = others().flat_map_iter(|object| copies_in(object, is_wanted)).collect();
    let mut definers: HashMap<SymbolId, Option<FileId>> =
        copies.iter().flat_map(|copy| &copy.globals).map(|&id| (id, None)).collect();
    if definers.is_empty() {
        return displaced;
    }
    for object in made() {
        for (row, id) in object.globals.iter().enumerate() {
            if object.symbol_place(object.first_global as usize + row) != SymbolPlace::Undefined
                && let Some(definer) = definers.get_mut(id)
            {
                definer.get_or_insert(object.id);
            }
        }
    }
    let definer = |copy: &Copy| {
        let all: Option<Vec<FileId>> = copy.globals.iter().map(|id| definers[id]).collect();
        Some((copy.position, *all?.first()?))
    };
    displaced.extend(copies.iter().filter_map(definer));
    displaced
}

/// The groups of an object that `is_wanted` accepts.
fn copies_in<E: ByteOrder>(object: &ObjectFile<'_, E>, is_wanted: impl Fn(&Group<'_>) -> bool) -> Vec<Copy> {
    let mut copies = Vec::new();
    let mut of_section: HashMap<u32, usize> = HashMap::new();
    for group in groups(object).0.iter().filter(|group| is_wanted(group)) {
        of_section.extend(group.members.iter().map(|&member| (member, copies.len())));
        copies.push(Copy { position: Position::new(object.id, group.section), globals: Vec::new() });
    }
    if copies.is_empty() {
        return copies;
    }
    for (row, &id) in object.globals.iter().enumerate() {
        if let SymbolPlace::Section(section) = object.symbol_place(object.first_global as usize + row)
            && let Some(&copy) = of_section.get(&section)
        {
            copies[copy].globals.push(id);
        }
    }
    copies
}
