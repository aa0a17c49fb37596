//! Merges sections with equal strings and constants, so that the output has each of them once.
//!
//! Most objects of a program bring strings such as `"error"` or `"%s\n"`, and debug information brings the
//! same file and type names in each object (`.debug_str`). [`crate::merge`] finds equal pieces. This pass
//! decides which sections may be merged with each other, and gives each such group one synthetic section:
//!
//! ```text
//! a.o(.rodata.str1.1) --+
//! b.o(.rodata.str1.1) --+--> one synthetic section, where the section of a.o stood
//! c.o(.rodata.str1.1) --+
//! ```
//!
//! A group has sections of the same output section, type, flags and kind of pieces. Sections of different
//! output sections may not share pieces: the script could put one of them into memory that is not there when
//! the other is used. Under `-r`, only sections of one name are merged, and neither members of groups, whose
//! group another file may discard, nor `.comment`, where each line belongs to one file.
//!
//! Sections that cannot be cut into pieces stay as they are: sections with relocations, writable ones, those
//! whose size is no multiple of the entry size, and those whose last string has no end.
//!
//! The pass runs after garbage collection, so that no string of a dead section stays, and before layout,
//! which needs the sizes. The merged input sections count as absorbed. `-O0` merges nothing. `-O2` also lets
//! a string be the end of a longer one ("name" in "filename"), except under `-r`.

use crate::arch::Target;
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::consts as elf;
use crate::ids::{OutputId, SectionId};
use crate::input::SectionInfo;
use crate::input::{ObjectFile, SectionClass};
use crate::merge::{Group, MergeInput, MergedSections, Pieces, UsedOffsets};
use crate::passes::match_script;
use crate::phase::{Inputs, Live, MergedSection, RelocNeeds, Scanned, SectionState, SectionStates};
use crate::tables::section::{Kind, SyntheticSection};
use indexmap::IndexMap;
use parallel::{IntoParallel, ParallelSlice};
use std::num::NonZeroU32;
use zerocopy::byteorder::ByteOrder;

/// What sections must have in common to be merged with each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key<'a> {
    /// The output section that rules put the sections into; `None` for orphans.
    output: Option<OutputId>,
    /// The name of the sections, for orphans and under `-r`, where it decides on the output section.
    /// Otherwise empty.
    name: &'a [u8],
    sh_type: u32,
    flags: u64,
    pieces: Pieces,
}

/// A section that can be merged.
struct Candidate<'a> {
    key: Key<'a>,
    input: MergeInput<'a>,
}

/// Merged groups of sections, none of them empty. They have no synthetic section yet.
pub struct Merged<'a> {
    groups: Vec<(Key<'a>, Vec<SectionId>, Group<'a>)>,
}

/// Merges pieces, and leaves out those that nothing uses. It only reads the link, so another thread can scan
/// relocations at the same time.
pub fn run<'a, T: Target>(link: &Live<'a, T>, used: &UsedOffsets) -> Merged<'a> {
    if link.config.layout.optimization == 0 {
        return Merged { groups: Vec::new() };
    }
    let tails = link.config.layout.optimization > 1 && !link.config.is_relocatable();
    // A section that may have to go on to another region goes there as it is.
    let may_go_on = match_script::alternatives(link);
    let candidates: Vec<Candidate<'a>> = link
        .objects
        .par_iter()
        .flat_map_iter(|object| {
            (1..object.headers.len()).filter_map(move |index| candidate(link, object, index))
        })
        .filter(|candidate| !may_go_on.contains_key(&candidate.input.section))
        .collect();
    let mut groups: IndexMap<Key<'a>, Vec<MergeInput<'a>>, foldhash::fast::FixedState> = IndexMap::default();
    for candidate in candidates {
        groups.entry(candidate.key).or_default().push(candidate.input);
    }
    let groups: Vec<_> = groups.into_iter().collect();
    let merged = groups.into_par_iter().flat_map_iter(|(key, inputs)| merge(key, &inputs, used, tails));
    Merged { groups: merged.collect() }
}

/// Merges sections of one key into one group, or into several if offsets would not fit into 32 bits. A single
/// section that is too large is not merged.
fn merge<'a>(
    key: Key<'a>,
    inputs: &[MergeInput<'a>],
    used: &UsedOffsets,
    tails: bool,
) -> Vec<(Key<'a>, Vec<SectionId>, Group<'a>)> {
    match Group::merge(key.pieces, inputs, used, tails) {
        Ok(group) => vec![(key, inputs.iter().map(|input| input.section).collect(), group)],
        Err(_) if inputs.len() > 1 => {
            let (first, second) = inputs.split_at(inputs.len() / 2);
            let mut groups = merge(key, first, used, tails);
            groups.extend(merge(key, second, used, tails));
            groups
        }
        Err(_) => Vec::new(),
    }
}

/// Makes a synthetic section for each group. From here on, the sections of a group count as absorbed.
pub fn place<'a, T: Target>(
    mut live: Live<'a, T>,
    reloc_needs: RelocNeeds,
    groups: Merged<'a>,
) -> Scanned<'a, T> {
    let mut merges = MergedSections::new(live.first_internal() as usize);
    let mut merged: Vec<MergedSection<'a>> = Vec::with_capacity(groups.groups.len());
    for (number, (key, inputs, mut group)) in (0..).zip(groups.groups) {
        let first = inputs[0];
        let name = live.section_info(first).name;
        let kind = Kind::Merged(number);
        let section = SyntheticSection::new(kind, name, key.sh_type, key.flags, 1 << group.align);
        let entsize = match key.pieces {
            Pieces::Strings { unit } => unit.into(),
            Pieces::Constants { size } => size.into(),
        };
        let section = SyntheticSection { entsize, size: group.size, first_input: Some(first), ..section };
        group.section = SectionId::from_index(live.section_count() + merged.len());
        merged.push(MergedSection { section, rule: live.rules[first.index()] });
        merges.add(group, &inputs);
        live.sections.absorb(inputs);
    }
    Scanned { live, reloc_needs, merges, merged }
}

/// The loaded sections that [`run`] will cut into pieces if `--gc-sections` keeps them. References decide on
/// each of these pieces, and none has been seen yet. Under `-r` all pieces stay: what refers to them may be
/// in another file.
pub fn divided_by_references<T: Target>(link: &Inputs<'_, T>, sections: &SectionStates) -> UsedOffsets {
    if link.config.is_relocatable() || link.config.layout.optimization == 0 {
        return UsedOffsets::default();
    }
    let divided = &|object: &ObjectFile<'_, T::E>, index: usize| {
        let id = object.section_id(index as u32);
        let loaded = SectionClass::ALLOC | SectionClass::MERGE;
        let state = SectionState::ALIVE | SectionState::ABSORBED | SectionState::NOT_CONTENT;
        if !link.class_of(id).contains(loaded) || sections.get(id) & state != SectionState::ALIVE {
            return None;
        }
        let (pieces, bytes) = pieces_of(object, index)?;
        let size = NonZeroU32::new(bytes.len() as u32)?;
        can_be_cut(object, index, pieces, bytes).then_some((id, size))
    };
    let divided: Vec<_> = link
        .objects
        .par_iter()
        .flat_map_iter(|object| (1..object.headers.len()).filter_map(move |index| divided(object, index)))
        .collect();
    UsedOffsets::new(link.first_internal() as usize, &divided)
}

fn candidate<'a, T: Target>(
    link: &Live<'a, T>,
    object: &ObjectFile<'a, T::E>,
    index: usize,
) -> Option<Candidate<'a>> {
    let id = object.section_id(index as u32);
    if !link.class_of(id).contains(SectionClass::MERGE) {
        return None;
    }
    let flags = object.headers[index].sh_flags.get();
    let sections = &link.sections;
    let (alive, collected) = (sections.is_alive(id), sections.is(id, SectionState::COLLECTED));
    if sections.is(id, SectionState::ABSORBED)
        || sections.is(id, SectionState::NOT_CONTENT)
        || !alive && !collected
    {
        return None;
    }
    // A string without an end is an error in a collected section, too: the file is broken, whether or not
    // anything refers to the section.
    let (pieces, bytes) = pieces_of(object, index)?;
    if is_endless(pieces, bytes) {
        link.sink.report_recoverable(endless(object, index, bytes.len() as u64));
    }
    let relocatable = link.config.is_relocatable();
    let info = SectionInfo::of(object, index, relocatable);
    if collected || relocatable && !is_joined_by_r(link, info.name, flags) {
        return None;
    }
    if !can_be_cut(object, index, pieces, bytes) {
        return None;
    }
    let output = link.rules[id.index()].map(|rule| link.plan.rule(rule).output);
    let by_name = relocatable || output.is_none();
    // Flags about groups and retention do not change the kind of pieces.
    let irrelevant = elf::SHF_GROUP | elf::SHF_GNU_RETAIN | elf::SHF_INFO_LINK;
    Some(Candidate {
        key: Key {
            output,
            name: if by_name { info.name } else { b"" },
            sh_type: info.sh_type,
            flags: flags & !irrelevant,
            pieces,
        },
        input: MergeInput { section: id, bytes, align: info.align.trailing_zeros() as u8 },
    })
}

/// Flags of sections that are not merged.
const REFUSED: u64 =
    elf::SHF_WRITE | elf::SHF_EXECINSTR | elf::SHF_LINK_ORDER | elf::SHF_TLS | elf::SHF_COMPRESSED;

/// The kind of a section's pieces, and its bytes.
fn pieces_of<'a, E: ByteOrder>(object: &ObjectFile<'a, E>, index: usize) -> Option<(Pieces, &'a [u8])> {
    let header = &object.headers[index];
    if header.sh_flags.get() & REFUSED != 0 {
        return None;
    }
    let pieces = pieces(header.sh_entsize.get(), header.sh_flags.get())?;
    Some((pieces, object.section_bytes(index).ok()?))
}

/// Whether a section consists of whole pieces and has no relocations, which would tie a piece to its place.
fn can_be_cut<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize, pieces: Pieces, bytes: &[u8]) -> bool {
    let nothing = object.headers[index].sh_type.get() == elf::SHT_NOBITS;
    !nothing && holds(pieces, bytes) && object.relocations(index).is_empty()
}

/// The longest string, in bytes, that [`piece_at`] looks for. Thousands of relocations may refer to one
/// string, and each of these look-ups reads it from its start to its end.
const LONGEST_PIECE: usize = 4096;

/// The piece at an offset of a section, and the offset where it starts. A program cannot tell equal pieces of
/// one kind from each other. `None` if the section's pieces are not merged, or if the piece is a string
/// longer than [`LONGEST_PIECE`].
pub fn piece_at<'a, E: ByteOrder>(
    object: &ObjectFile<'a, E>,
    index: usize,
    offset: u64,
) -> Option<(Pieces, &'a [u8], u64)> {
    let (pieces, bytes) = pieces_of(object, index)?;
    let at = usize::try_from(offset).ok().filter(|&at| at < bytes.len())?;
    if !can_be_cut(object, index, pieces, bytes) {
        return None;
    }
    let unit = match pieces {
        Pieces::Constants { size } => {
            let start = at - at % size as usize;
            return Some((pieces, &bytes[start..start + size as usize], start as u64));
        }
        Pieces::Strings { unit } => unit as usize,
    };
    let is_end = |unit: &[u8]| unit.iter().all(|&byte| byte == 0);
    let at = at - at % unit;
    let first = at.saturating_sub(LONGEST_PIECE);
    let last = bytes.len().min(at + LONGEST_PIECE);
    let start = match bytes[first..at].chunks_exact(unit).rposition(is_end) {
        Some(end) => first + (end + 1) * unit,
        None if first == 0 => 0,
        None => return None,
    };
    let end = at + (bytes[at..last].chunks_exact(unit).position(is_end)? + 1) * unit;
    (end - start <= LONGEST_PIECE).then(|| (pieces, &bytes[start..end], start as u64))
}

/// Whether `-r` joins a section with others.
fn is_joined_by_r<T: Target>(link: &Inputs<'_, T>, name: &[u8], flags: u64) -> bool {
    let grouped = flags & elf::SHF_GROUP != 0;
    name != b".comment" && (!grouped || link.config.layout.force_group_allocation)
}

fn pieces(entsize: u64, flags: u64) -> Option<Pieces> {
    let size = u32::try_from(entsize).ok().filter(|&size| size > 0)?;
    if flags & elf::SHF_STRINGS == 0 {
        return Some(Pieces::Constants { size });
    }
    matches!(size, 1 | 2 | 4).then_some(Pieces::Strings { unit: size })
}

/// Whether the last string of a section has no terminator.
fn is_endless(pieces: Pieces, bytes: &[u8]) -> bool {
    let Pieces::Strings { unit } = pieces else { return false };
    let start = bytes.len().saturating_sub(unit as usize);
    bytes.len().is_multiple_of(unit as usize) && bytes[start..].iter().any(|&byte| byte != 0)
}

fn endless<E: ByteOrder>(object: &ObjectFile<'_, E>, index: usize, offset: u64) -> Diagnostic {
    let section = object.section_name_lossy(index);
    Diagnostic::error(Code::MalformedInput, "string is not null terminated")
        .at(Location::Section { file: object.name.to_string(), section, offset })
        .help("end the last string of the section with a zero, or leave out the flag SHF_STRINGS")
        .ordered(object.id.0, index as u32, offset)
}

/// Whether bytes consist of whole pieces, and offsets in them fit 32 bits.
fn holds(pieces: Pieces, bytes: &[u8]) -> bool {
    if bytes.is_empty() || bytes.len() >= u32::MAX as usize {
        return false;
    }
    match pieces {
        Pieces::Constants { size } => bytes.len().is_multiple_of(size as usize),
        Pieces::Strings { unit } => {
            let unit = unit as usize;
            bytes.len().is_multiple_of(unit) && bytes[bytes.len() - unit..].iter().all(|&byte| byte == 0)
        }
    }
}

#[cfg(test)]
mod tests;
