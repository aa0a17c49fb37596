//! `.gnu.linkonce.*` sections, which compilers made before ELF had groups. Decides which of them displace
//! groups, and which are displaced.
//!
//! Of several sections of one name, the first in link order is kept. The part of the name behind the kind
//! (`.gnu.linkonce.t.NAME`) is the signature of a COMDAT group. But a section and a group are copies of one
//! thing only if the group has no other member, and if both sections have the same type and define the same
//! symbols. Then the first of both is kept. These are GNU ld's rules. A name alone says too little: whatever
//! else the displaced copy defines would be lost.
//!
//! There is one more rule. `.gnu.linkonce.r.NAME` holds the constants of `.gnu.linkonce.t.NAME`, and is of no
//! use if another file's code prevails.

use crate::elf::{consts as elf, string_at};
use crate::ids::{FileId, SectionId};
use crate::input::ObjectFile;
use crate::input::group::Group;
use crate::input::object::{SHT_CREL, SymbolPlace};
use hashbrown::{HashMap, HashSet};
use parallel::ParallelSlice;
use zerocopy::byteorder::ByteOrder;

/// The position of a section in the link. The first section has the smallest position.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Position {
    pub file: FileId,
    /// Header index.
    pub section: u32,
}

impl Position {
    pub(super) fn new(file: FileId, section: u32) -> Self {
        Position { file, section }
    }

    /// The position as a number of the same order, for atomics.
    pub(super) fn word(self) -> u64 {
        u64::from(self.file.0) << 32 | u64::from(self.section)
    }

    /// The position of such a number. `u64::MAX` is the number of no position, and gives `None`.
    pub(super) fn of_word(word: u64) -> Option<Self> {
        (word != u64::MAX).then(|| Position::new(FileId((word >> 32) as u32), word as u32))
    }
}

const PREFIX: &[u8; 14] = b".gnu.linkonce.";

/// What the sections and groups displace.
#[derive(Default)]
pub(super) struct Displaced {
    /// Groups that would prevail, by their positions, each with the section that takes its place.
    pub groups: HashMap<Position, Position>,
    /// Sections that are dropped.
    pub sections: Vec<SectionId>,
}

/// Sections named `.gnu.linkonce.*` outside of groups.
struct Sections<'a> {
    /// The header indices of the sections, by file.
    by_file: Vec<Vec<u32>>,
    /// The position of the first section in link order, by name.
    first: HashMap<&'a [u8], Position>,
}

impl<'a> Sections<'a> {
    fn find<E: ByteOrder + Sync>(objects: &[ObjectFile<'a, E>]) -> Self {
        let is_linkonce = |object: &ObjectFile<'a, E>, index: u32| {
            object.section_name_begins(index as usize, PREFIX)
                && object.headers[index as usize].sh_flags.get() & elf::SHF_GROUP == 0
        };
        let of_file = |object: &ObjectFile<'a, E>| {
            let special = object.special.iter().copied();
            special.filter(|&index| is_linkonce(object, index)).collect()
        };
        let by_file: Vec<Vec<u32>> = objects.par_iter().map(of_file).collect();
        let mut first = HashMap::new();
        for (object, found) in objects.iter().zip(&by_file) {
            for &index in found {
                first.entry(object.section_name(index as usize)).or_insert(Position::new(object.id, index));
            }
        }
        Sections { by_file, first }
    }

    fn each(&self) -> impl Iterator<Item = Position> + '_ {
        let files = self.by_file.iter().enumerate();
        files.flat_map(|(file, found)| {
            found.iter().map(move |&index| Position::new(FileId::from_index(file), index))
        })
    }
}

/// A section and a group that may be copies of one thing.
struct Pair {
    section: Position,
    group: Position,
    /// The only member of the group.
    member: Position,
}

/// Decides what is displaced. `owner` returns the position of the group that prevails among those of a
/// signature, and `group` the group at a position.
pub(super) fn displace<'g, 'a: 'g, E: ByteOrder + Sync>(
    objects: &[ObjectFile<'a, E>],
    owner: impl Fn(&[u8]) -> Option<Position>,
    group: impl Fn(Position) -> Option<&'g Group<'a>>,
) -> Displaced {
    let sections = Sections::find(objects);
    let mut displaced = Displaced::default();
    if sections.first.is_empty() {
        return displaced;
    }
    let name = |at: Position| objects[at.file.index()].section_name(at.section as usize);
    let is_first = |at: Position| sections.first.get(name(at)) == Some(&at);
    let pair = |section: Position| {
        let position = owner(signature(name(section))?)?;
        let member = only_member(&objects[position.file.index()], group(position)?)?;
        Some(Pair { section, group: position, member: Position::new(position.file, member) })
    };
    let pairs: Vec<Pair> = sections.each().filter(|&at| is_first(at)).filter_map(pair).collect();
    let definitions = Definitions::of(objects, &pairs);
    let mut lost = HashSet::new();
    for Pair { section, group, member } in pairs {
        if !definitions.match_in(objects, section, member) {
            continue;
        }
        if section < group {
            displaced.groups.entry(group).or_insert(section);
        } else {
            lost.insert(section);
        }
    }
    let is_lost = |&at: &Position| {
        let name = name(at);
        // If one file has several sections of this name, its author wanted all of them.
        let is_copy = sections.first.get(name).is_some_and(|first| first.file != at.file);
        is_copy || lost.contains(&at) || is_of_other_text(&sections, name, at.file)
    };
    let ids = sections.each().filter(is_lost);
    displaced.sections = ids.map(|at| objects[at.file.index()].section_id(at.section)).collect();
    displaced
}

/// The signature in the name of a section.
fn signature(name: &[u8]) -> Option<&[u8]> {
    let rest = name.strip_prefix(PREFIX)?;
    Some(&rest[memchr::memchr(b'.', rest)? + 1..])
}

/// Whether a section holds the constants of code for which an earlier file has a copy, too.
fn is_of_other_text(sections: &Sections<'_>, name: &[u8], file: FileId) -> bool {
    let Some(rest) = name.strip_prefix(b".gnu.linkonce.r.") else { return false };
    let text = [b".gnu.linkonce.t.", rest].concat();
    sections.first.get(&text[..]).is_some_and(|first| first.file < file)
}

/// The only member of a group; `None` if it has several. Relocation sections do not count.
fn only_member<E: ByteOrder>(object: &ObjectFile<'_, E>, group: &Group<'_>) -> Option<u32> {
    let is_content = |member: &&u32| {
        let sh_type = object.headers[**member as usize].sh_type.get();
        !matches!(sh_type, elf::SHT_RELA | elf::SHT_REL | SHT_CREL)
    };
    let mut members = group.members.iter().filter(is_content);
    members.next().filter(|_| members.next().is_none()).copied()
}

/// A symbol of a section: its name, `st_info` and `st_other`.
type Symbol<'a> = (&'a [u8], u8, u8);

/// The symbols that some sections define, by position.
struct Definitions<'a>(HashMap<Position, Vec<Symbol<'a>>>);

impl<'a> Definitions<'a> {
    /// The symbols of all sections in the pairs. The symbols of each file are read once.
    fn of<E: ByteOrder + Sync>(objects: &[ObjectFile<'a, E>], pairs: &[Pair]) -> Self {
        let mut defined: HashMap<Position, Vec<Symbol<'a>>> = HashMap::new();
        defined.extend(pairs.iter().flat_map(|pair| [pair.section, pair.member]).map(|at| (at, Vec::new())));
        // The walk may have any order, because the list is sorted below.
        let mut files: Vec<FileId> = defined.keys().map(|at| at.file).collect();
        files.sort_unstable();
        files.dedup();
        for file in files {
            let object = &objects[file.index()];
            for (index, symbol) in object.symbols.iter().enumerate() {
                if symbol.kind() != elf::STT_SECTION
                    && let SymbolPlace::Section(section) = object.symbol_place(index)
                    && let Some(symbols) = defined.get_mut(&Position::new(object.id, section))
                {
                    let name = string_at(object.symbol_names, symbol.st_name.get() as usize);
                    symbols.push((name.unwrap_or_default(), symbol.st_info, symbol.st_other));
                }
            }
        }
        // Each list is sorted by itself, so the order of the walk does not matter.
        defined.values_mut().for_each(|symbols| symbols.sort_unstable());
        Definitions(defined)
    }

    /// Whether two sections have the same type and define the same symbols, at least one.
    fn match_in<E: ByteOrder>(&self, objects: &[ObjectFile<'_, E>], a: Position, b: Position) -> bool {
        let sh_type = |at: Position| objects[at.file.index()].headers[at.section as usize].sh_type.get();
        let symbols = |at: Position| self.0.get(&at).filter(|symbols| !symbols.is_empty());
        sh_type(a) == sh_type(b) && symbols(a).is_some() && symbols(a) == symbols(b)
    }
}
