//! Selects the prevailing copy of each COMDAT group.
//!
//! Each object that uses `std::vector<int>` brings its code, in a group whose signature is the function's
//! name. The output needs one copy. The first file in link order prevails: the choice is a minimum over
//! positions, so that objects can be read in any order. All members of the other copies are discarded, even
//! if the prevailing copy has other members (gABI, "Section Groups"). The pass runs after archive extraction,
//! which decides the files, and before definitions are selected, because symbols of discarded copies define
//! nothing.
//!
//! Sections named `.gnu.linkonce.*` are the older form of groups ([`linkonce`]). Copies in intermediate code
//! take part by their stand-ins. When they have become machine code, that code has to prevail in their place
//! ([`compiled`]).

mod compiled;
mod linkonce;

pub use compiled::Compiled;

use crate::arch::Target;
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::consts as elf;
use crate::ids::{FileId, SymbolId};
use crate::input::ObjectFile;
use crate::input::group::{Group, GroupEntry, GroupTable, groups};
use crate::phase::{Inputs, SectionState, SectionStates};
use crate::symbols::Globals;
use hashbrown::HashMap;
use linkonce::Position;
use parallel::{IntoParallel, ParallelSlice};
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads all groups, picks the prevailing ones and discards the members of the others.
pub fn run<'a, T: Target>(
    inputs: &Inputs<'a, T>,
    compiled: &Compiled<'_>,
) -> (GroupTable<'a>, SectionStates) {
    let (objects, globals, sink) = (&inputs.objects, &inputs.globals, inputs.sink);
    let mut sections = SectionStates::of_inputs(&inputs.section_states);
    let by_compiled = compiled::displaced(inputs, compiled);
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
            let takes_part = |group: &Group<'_>| {
                group.is_comdat() && !by_compiled.contains_key(&Position::new(object.id, group.section))
            };
            let claim = |group: Group<'a>| {
                let global = takes_part(&group).then(|| claim(object, &group, globals, &owners)).flatten();
                (group, global)
            };
            groups.into_iter().map(claim).collect()
        })
        .collect();
    let local_owners = claim_by_local_signatures(&found, &by_compiled);
    let global_owner = |id: SymbolId| Position::of_word(owners[id.index()].load(Ordering::Relaxed));
    let owner = |signature: &[u8]| {
        let of_global = globals.lookup(signature).and_then(global_owner);
        of_global.or_else(|| local_owners.get(signature).copied())
    };
    let displaced = linkonce::displace(objects, owner, |position| group_at(&found, position));
    let by_file: Vec<Vec<GroupEntry<'_>>> = found
        .into_par_iter()
        .zip(sections.by_object(objects))
        .enumerate()
        .map(|(file, (groups, own))| {
            let file = FileId::from_index(file);
            groups
                .into_iter()
                .map(|(group, global)| {
                    let at = Position::new(file, group.section);
                    let owner = match global {
                        _ if !group.is_comdat() => at,
                        _ if by_compiled.contains_key(&at) => Position::new(by_compiled[&at], 0),
                        Some(global) => global_owner(SymbolId(global)).unwrap_or(at),
                        None => local_owners[group.signature],
                    };
                    let object = &objects[file.index()];
                    let owner = displaced.groups.get(&owner).copied().unwrap_or(owner);
                    decide(object, group, owner, own)
                })
                .collect()
        })
        .collect();
    let discarded = displaced.sections.into_iter();
    discarded.for_each(|id| sections.discard(id, SectionState::DISCARDED_BY_GROUP));
    (GroupTable::new(by_file, objects), sections)
}

/// The group whose own section is at a position. The groups of a file are in the order of their sections.
fn group_at<'g, 'a>(found: &'g [Vec<(Group<'a>, Option<u32>)>], position: Position) -> Option<&'g Group<'a>> {
    let groups = found.get(position.file.index())?;
    let row = groups.binary_search_by_key(&position.section, |(group, _)| group.section).ok()?;
    Some(&groups[row].0)
}

/// Offers a COMDAT group as owner of its signature's global. Returns the global. If the signature is not a
/// global, returns `None`, and [`claim_by_local_signatures`] claims it by name.
fn claim<'a, E: zerocopy::byteorder::ByteOrder>(
    object: &ObjectFile<'a, E>,
    group: &Group<'a>,
    globals: &Globals<'a>,
    owners: &[AtomicU64],
) -> Option<u32> {
    let symbol = &object.symbols[group.signature_symbol as usize];
    // The list is in the order of the symbol table.
    let versioned = |symbol| object.versioned.binary_search_by_key(&symbol, |versioned| versioned.symbol);
    let is_versioned = || versioned(group.signature_symbol).is_ok();
    let id = if group.signature_symbol >= object.first_global
        && symbol.kind() != elf::STT_SECTION
        && !symbol.is_undefined()
        && !is_versioned()
    {
        Some(object.symbol_id(group.signature_symbol))
    } else {
        // --wrap may have renamed an undefined signature, so the name decides.
        globals.lookup(group.signature)
    }?;
    owners[id.index()].fetch_min(Position::new(object.id, group.section).word(), Ordering::Relaxed);
    Some(id.0)
}

fn claim_by_local_signatures<'a>(
    found: &[Vec<(Group<'a>, Option<u32>)>],
    by_compiled: &HashMap<Position, FileId>,
) -> HashMap<&'a [u8], Position> {
    // Almost all signatures are globals, so one thread alone would look at all groups for a few.
    let local = |(file, groups): (usize, &Vec<(Group<'a>, Option<u32>)>)| {
        let file = FileId::from_index(file);
        let local = groups.iter().filter(|(group, global)| group.is_comdat() && global.is_none());
        let own = local.map(|(group, _)| (group.signature, Position::new(file, group.section)));
        own.filter(|(_, own)| !by_compiled.contains_key(own)).collect::<Vec<_>>()
    };
    let mut owners = HashMap::new();
    for (signature, own) in found.par_iter().enumerate().flat_map_iter(local).collect() {
        owners.entry(signature).or_insert(own);
    }
    owners
}

fn decide<'a, E: zerocopy::byteorder::ByteOrder>(
    object: &ObjectFile<'a, E>,
    group: Group<'a>,
    owner: Position,
    own: &mut [SectionState],
) -> GroupEntry<'a> {
    let discarded = owner != Position::new(object.id, group.section);
    if discarded {
        for &member in &group.members {
            own[member as usize].discard(SectionState::DISCARDED_BY_GROUP);
        }
    }
    GroupEntry { group, prevailing: owner.file, prevailing_section: owner.section, discarded }
}
