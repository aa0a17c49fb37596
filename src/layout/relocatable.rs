//! Adds relocation sections (`-r`, `--emit-relocs`) and section groups (`-r`).
//!
//! Only when all output sections are known, it is known which of them have relocations and which members of a
//! group are left. So this is the layout's last step. The added sections have no addresses.
//!
//! Groups stand before everything else, because the gABI wants a group's header before those of its members.
//! Under `-r`, relocations stand behind the section that they apply to. In a final link (`--emit-relocs`),
//! they stand before the symbol table, behind all other sections. This step also drops `.symtab_shndx` if it
//! is not needed, because only here the number of sections is final.

use crate::arch::Target;
use crate::chunks::{Chunk, Layout};
use crate::elf::consts as elf;
use crate::ids::{ChunkId, SectionId};
use crate::phase::{Geometry, Inputs, Located, OutputGroup, OutputRelocations};
use crate::relocs::emit;
use crate::sframe::collect::Chosen;
use crate::tables::section::{Kind, SyntheticSection};
use hashbrown::HashSet;
use parallel::ParallelSlice;

/// Adds the sections and their chunks. Returns the relocation tables and groups that they stand for. All ids
/// of chunks change, so the places of sections, the layout's order and linker-defined symbols get the new
/// ids. `chosen` holds the functions of the SFrame table.
pub fn run<'a, T: Target>(
    link: Located<'a, T>,
    chosen: &Chosen,
) -> (Located<'a, T>, Vec<OutputRelocations>, Vec<OutputGroup>) {
    if !emit::is_wanted(&link) {
        return (link, Vec::new(), Vec::new());
    }
    let relocations = relocations(&link, chosen);
    let groups = groups(&link);
    let order = order(&link, &relocations, &groups);
    insert(link, &order, relocations, groups)
}

/// An entry of the new order of chunks.
#[derive(Clone, Copy)]
enum Place {
    /// An old chunk, by its old number.
    Chunk(usize),
    /// Relocations, by row.
    Relocations(usize),
    /// A group, by row.
    Group(usize),
}

/// The relocation table of each chunk that has relocations, in the order of chunks.
fn relocations<T: Target>(link: &Geometry<'_, T>, chosen: &Chosen) -> Vec<OutputRelocations> {
    link.layout
        .chunks
        .par_iter()
        .enumerate()
        .filter_map(|(index, chunk)| {
            let counts: Vec<u32> =
                chunk.items.par_iter().map(|&item| emit::count(link, chosen, item)).collect();
            let mut written = chunk.items.iter().zip(&counts).filter(|(_, count)| **count > 0);
            let implicit = written.all(|(&item, _)| emit::is_implicit(link, item));
            let table = OutputRelocations { target: ChunkId::from_index(index), counts, implicit };
            (table.count() > 0).then_some(table)
        })
        .collect()
}

/// The prevailing groups that have live members. There are none if the output dissolves groups (final links,
/// `--force-group-allocation`).
fn groups<T: Target>(link: &Geometry<'_, T>) -> Vec<OutputGroup> {
    if !link.config.is_relocatable() || link.config.layout.force_group_allocation {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (object, entries) in link.objects.iter().zip(&link.groups.by_file) {
        for entry in entries.iter().filter(|entry| !entry.discarded) {
            let group = OutputGroup {
                file: object.id,
                section: entry.group.section,
                signature: entry.group.signature_symbol,
                flags: entry.group.flags,
                members: members(link, entry.group.members.iter().map(|&member| object.section_id(member))),
            };
            if !group.members.is_empty() {
                found.push(group);
            }
        }
    }
    found
}

/// The output sections of a group's members, each once. If a script gave an output section also sections from
/// outside the group, it has lost `SHF_GROUP` and is no member.
fn members<T: Target>(link: &Geometry<'_, T>, sections: impl Iterator<Item = SectionId>) -> Vec<ChunkId> {
    let (mut members, mut known) = (Vec::new(), HashSet::new());
    for id in sections.filter(|&id| link.sections.is_alive(id)) {
        if let Some(chunk) = link.layout.chunk_with(id)
            && link.layout.chunks[chunk.index()].flags & elf::SHF_GROUP != 0
            && known.insert(chunk)
        {
            members.push(chunk);
        }
    }
    members
}

fn order<T: Target>(
    link: &Geometry<'_, T>,
    relocations: &[OutputRelocations],
    groups: &[OutputGroup],
) -> Vec<Place> {
    let chunks = &link.layout.chunks;
    let mut order: Vec<Place> = (0..groups.len()).map(Place::Group).collect();
    let count = 1 + chunks.len() + relocations.len() + groups.len();
    let unneeded = link.chunk_of(Kind::SymTabShndx).filter(|_| count < usize::from(elf::SHN_LORESERVE));
    let mut rows = (0..relocations.len()).peekable();
    let relocatable = link.config.is_relocatable();
    for (index, chunk) in chunks.iter().enumerate() {
        if !relocatable && chunk.sh_type == elf::SHT_SYMTAB {
            order.extend(rows.by_ref().map(Place::Relocations));
        }
        if unneeded != Some(ChunkId::from_index(index)) {
            order.push(Place::Chunk(index));
        }
        if relocatable && let Some(row) = rows.next_if(|&row| relocations[row].target.index() == index) {
            order.push(Place::Relocations(row));
        }
    }
    order.extend(rows.map(Place::Relocations));
    order
}

fn insert<'a, T: Target>(
    mut link: Located<'a, T>,
    order: &[Place],
    mut relocations: Vec<OutputRelocations>,
    mut groups: Vec<OutputGroup>,
) -> (Located<'a, T>, Vec<OutputRelocations>, Vec<OutputGroup>) {
    let moved = moved(order, link.layout.chunks.len());
    let renumber = |id: ChunkId| moved[id.index()];
    let group_rows: Vec<usize> = groups.iter().map(|group| group_row(&link, group)).collect();
    let Geometry { contents, layout, linker_values, .. } = &mut link.geometry;
    layout.places.chunk.par_iter_mut().with_min_len(4096).for_each(|id| *id = id.and_then(renumber));
    linker_values.iter_mut().for_each(|symbol| symbol.chunk = symbol.chunk.and_then(renumber));
    layout.order = layout.order.iter().copied().filter_map(renumber).collect();
    let mut relocations_of = vec![None; moved.len()];
    for (index, place) in order.iter().enumerate() {
        let id = ChunkId::from_index(index);
        match *place {
            Place::Chunk(_) => {}
            Place::Relocations(row) => relocations_of[relocations[row].target.index()] = Some(id),
            // The group section itself may define a local signature.
            Place::Group(row) => layout.places.chunk[group_rows[row]] = Some(id),
        }
    }
    for group in &mut groups {
        let members = std::mem::take(&mut group.members);
        let tables = members.iter().filter_map(|member| relocations_of[member.index()]);
        group.members = members.iter().copied().filter_map(renumber).chain(tables).collect();
    }
    let added = order.iter().enumerate().filter_map(|(index, place)| {
        let section = match *place {
            Place::Chunk(_) => return None,
            Place::Relocations(row) => relocation_section(contents, layout, row, &relocations[row]),
            Place::Group(row) => group_section(contents, row, &groups[row]),
        };
        Some((ChunkId::from_index(index), section))
    });
    let added: Vec<(ChunkId, SyntheticSection<'a>)> = added.collect();
    let mut old: Vec<Option<Chunk<'a>>> = std::mem::take(&mut layout.chunks).into_iter().map(Some).collect();
    let mut chunk = |place: &Place| match *place {
        Place::Chunk(row) => old[row].take().unwrap_or_default(),
        Place::Relocations(_) | Place::Group(_) => Chunk::default(),
    };
    layout.chunks = order.iter().map(&mut chunk).collect();
    for (id, section) in added {
        fill(layout, id, &section);
        contents.synthetics.rows.push(section);
    }
    relocations.iter_mut().for_each(|table| table.target = renumber(table.target).unwrap_or(table.target));
    (link, relocations, groups)
}

/// The row of a group's own section in the section table.
fn group_row<T: Target>(link: &Inputs<'_, T>, group: &OutputGroup) -> usize {
    link.objects[group.file.index()].section_id(group.section).index()
}

/// By old id of a chunk: its new id, or `None` for the dropped `.symtab_shndx`.
fn moved(order: &[Place], count: usize) -> Vec<Option<ChunkId>> {
    let mut moved = vec![None; count];
    for (new, place) in order.iter().enumerate() {
        if let Place::Chunk(old) = *place {
            moved[old] = Some(ChunkId::from_index(new));
        }
    }
    moved
}

/// The section of a relocation table. Its target still has the old number.
fn relocation_section<'a, T: Target>(
    link: &Inputs<'a, T>,
    layout: &Layout<'a>,
    row: usize,
    table: &OutputRelocations,
) -> SyntheticSection<'a> {
    let target = &layout.chunks[table.target.index()];
    let (prefix, sh_type, entsize) = if table.implicit {
        (&b".rel"[..], elf::SHT_REL, size_of::<crate::elf::Rel<T::E>>())
    } else {
        (&b".rela"[..], elf::SHT_RELA, size_of::<crate::elf::Rela<T::E>>())
    };
    let name = link.store.keep([prefix, target.name].concat());
    let flags = elf::SHF_INFO_LINK | target.flags & elf::SHF_GROUP;
    let kind = Kind::OutputRelocations(row as u32);
    let mut section = SyntheticSection::new(kind, name, sh_type, flags, 8);
    section.entsize = entsize as u64;
    section.size = table.count() * section.entsize;
    section
}

fn group_section<'a, T: Target>(
    link: &Inputs<'a, T>,
    row: usize,
    group: &OutputGroup,
) -> SyntheticSection<'a> {
    let name = link.objects[group.file.index()].section_name(group.section as usize);
    let mut section = SyntheticSection::new(Kind::OutputGroup(row as u32), name, elf::SHT_GROUP, 0, 4);
    section.entsize = 4;
    section.size = group.size();
    section
}

/// Makes a chunk hold one new section of the linker.
fn fill<'a>(layout: &mut Layout<'a>, id: ChunkId, section: &SyntheticSection<'a>) {
    let item = SectionId::from_index(layout.places.chunk.len());
    layout.places.chunk.push(Some(id));
    layout.places.offset.push(0);
    layout.chunks[id.index()] = Chunk {
        name: section.name,
        sh_type: section.sh_type,
        flags: section.flags,
        entsize: section.entsize,
        align: section.align,
        size: section.size,
        items: vec![item],
        ..Chunk::default()
    };
}
