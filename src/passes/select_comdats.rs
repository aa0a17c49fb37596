//! Selects the prevailing copy of each COMDAT group.
//!
//! Groups are chosen after archive extraction and before definitions: the first file in link order
//! prevails, as a minimum over keys, so that objects can be looked at in any order. All members of the
//! other copies are discarded, even if the prevailing copy has other members (gABI, "Section Groups").
//! `.gnu.linkonce.*` sections, the older form, are groups of one, signed by the section's name; between
//! `.gnu.linkonce.t.NAME` and a group NAME the first one wins too, if the group has but one section (GNU ld's rule).

use crate::arch::Target;
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::consts as elf;
use crate::ids::FileId;
use crate::input::ObjectFile;
use crate::input::group::{Group, GroupEntry, GroupTable, groups};
use crate::input::object::SHT_CREL;
use crate::phase::{Inputs, SectionState, SectionStates};
use crate::symbols::Globals;
use hashbrown::HashMap;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads all groups, picks the prevailing ones and discards the members of the others.
pub fn run<'a, T: Target>(inputs: &Inputs<'a, T>) -> (GroupTable<'a>, SectionStates) {
    let (objects, globals, sink) = (&inputs.objects, &inputs.globals, inputs.sink);
    let mut sections = SectionStates::of_inputs(&inputs.section_states);
    let owners: Vec<AtomicU64> = (0..globals.len()).map(|_| AtomicU64::new(u64::MAX)).collect();
    let found: Vec<Vec<(Group<'_>, Option<u32>)>> = objects
        .par_iter()
        .map(|object| {
            let (groups, findings) = groups(object);
            for what in findings {
                sink.report(
                    Diagnostic::error(Code::MalformedGroup, what)
                        .at(Location::File(object.name.to_string()))
                        .ordered(object.id.0, 0, 0),
                );
            }
            groups.into_iter().map(|group| claim(object, group, globals, &owners)).collect()
        })
        .collect();
    let linkonce = find_linkonce(objects);
    let local_owners = claim_by_local_signatures(&found);
    let by_file: Vec<Vec<GroupEntry<'_>>> = found
        .into_par_iter()
        .zip(sections.by_object(objects))
        .enumerate()
        .map(|(file, (groups, own))| {
            let file = FileId::from_index(file);
            groups
                .into_iter()
                .map(|(group, global)| {
                    let owner = match global {
                        _ if !group.is_comdat() => key(file, group.section),
                        Some(global) => owners[global as usize].load(Ordering::Relaxed),
                        None => local_owners[group.signature],
                    };
                    let object = &objects[file.index()];
                    let owner = linkonce_before(object, &group, &linkonce).unwrap_or(owner);
                    decide(object, group, owner, own)
                })
                .collect()
        })
        .collect();
    discard_linkonce(objects, globals, &owners, &linkonce, &mut sections);
    (GroupTable::new(by_file, objects), sections)
}

fn key(file: FileId, section: u32) -> u64 {
    u64::from(file.0) << 32 | u64::from(section)
}

/// Offers a group as owner of its signature's global; gives the global. `None` for groups that are no COMDATs, and for
/// signatures that are no globals: those are claimed by name ([`claim_by_local_signatures`]).
fn claim<'a, E: zerocopy::byteorder::ByteOrder>(
    object: &ObjectFile<'a, E>,
    group: Group<'a>,
    globals: &Globals<'a>,
    owners: &[AtomicU64],
) -> (Group<'a>, Option<u32>) {
    if !group.is_comdat() {
        return (group, None);
    }
    let symbol = &object.symbols[group.signature_symbol as usize];
    let is_versioned = || object.versioned.iter().any(|versioned| versioned.symbol == group.signature_symbol);
    let id = if group.signature_symbol >= object.first_global
        && symbol.kind() != elf::STT_SECTION
        && !symbol.is_undefined()
        && !is_versioned()
    {
        Some(object.symbol_id(group.signature_symbol))
    } else {
        // Undefined signatures may have been renamed by --wrap: the name decides.
        globals.lookup(group.signature)
    };
    let Some(id) = id else { return (group, None) };
    owners[id.index()].fetch_min(key(object.id, group.section), Ordering::Relaxed);
    (group, Some(id.0))
}

fn claim_by_local_signatures<'a>(found: &[Vec<(Group<'a>, Option<u32>)>]) -> HashMap<&'a [u8], u64> {
    let mut owners = HashMap::new();
    for (file, groups) in found.iter().enumerate() {
        for (group, global) in groups {
            if group.is_comdat() && global.is_none() {
                owners.entry(group.signature).or_insert(key(FileId::from_index(file), group.section));
            }
        }
    }
    owners
}

fn decide<'a, E: zerocopy::byteorder::ByteOrder>(
    object: &ObjectFile<'a, E>,
    group: Group<'a>,
    owner: u64,
    own: &mut [SectionState],
) -> GroupEntry<'a> {
    let prevailing = FileId((owner >> 32) as u32);
    let discarded = owner != key(object.id, group.section);
    if discarded {
        for &member in &group.members {
            own[member as usize].discard(SectionState::DISCARDED_BY_GROUP);
        }
    }
    GroupEntry { group, prevailing, discarded }
}

const LINKONCE: &[u8; 14] = b".gnu.linkonce.";

/// Sections named `.gnu.linkonce.*`.
#[derive(Default)]
struct Linkonce<'a> {
    /// By file: their header indices.
    by_file: Vec<Vec<u32>>,
    /// By name: the position of the first one in link order.
    first: HashMap<&'a [u8], u64>,
}

fn find_linkonce<'a, E: zerocopy::byteorder::ByteOrder + Sync>(
    objects: &[ObjectFile<'a, E>],
) -> Linkonce<'a> {
    let by_file: Vec<Vec<u32>> = objects
        .par_iter()
        .map(|object| {
            let special = object.special.iter().copied();
            special.filter(|&index| object.section_name_begins(index as usize, LINKONCE)).collect()
        })
        .collect();
    let mut first = HashMap::new();
    for (object, found) in objects.iter().zip(&by_file) {
        for &index in found {
            first.entry(object.section_name(index as usize)).or_insert(key(object.id, index));
        }
    }
    Linkonce { by_file, first }
}

/// The key of the section `.gnu.linkonce.t.SIGNATURE` of an earlier file, if it prevails over this group, which has
/// but one section.
fn linkonce_before<E: zerocopy::byteorder::ByteOrder>(
    object: &ObjectFile<'_, E>,
    group: &Group<'_>,
    linkonce: &Linkonce<'_>,
) -> Option<u64> {
    if linkonce.first.is_empty() || !group.is_comdat() {
        return None;
    }
    let is_content = |member: &&u32| {
        let sh_type =
            object.headers.get(**member as usize).map_or(elf::SHT_NULL, |header| header.sh_type.get());
        !matches!(sh_type, elf::SHT_RELA | elf::SHT_REL | SHT_CREL)
    };
    let name = [b".gnu.linkonce.t.", group.signature].concat();
    let first = *linkonce.first.get(&name[..])?;
    (first < key(object.id, 0) && group.members.iter().filter(is_content).count() == 1).then_some(first)
}

fn discard_linkonce<E: zerocopy::byteorder::ByteOrder + Sync>(
    objects: &[ObjectFile<'_, E>],
    globals: &Globals<'_>,
    owners: &[AtomicU64],
    linkonce: &Linkonce<'_>,
    sections: &mut SectionStates,
) {
    for (object, found) in objects.iter().zip(&linkonce.by_file) {
        for &index in found {
            let name = object.section_name(index as usize);
            let first = linkonce.first.get(name).is_none_or(|&first| first >> 32 == u64::from(object.id.0));
            let signature = name.strip_prefix(b".gnu.linkonce.t.");
            let group = signature
                .and_then(|signature| globals.lookup(signature))
                .is_some_and(|id| owners[id.index()].load(Ordering::Relaxed) < key(object.id, 0));
            if !first || group {
                sections.discard(object.section_id(index), SectionState::DISCARDED_BY_GROUP);
            }
        }
    }
}
