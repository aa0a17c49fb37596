//! `.group`: section groups of relocatable output (gABI, "Section Groups").
//!
//! A prevailing group goes into the output with its live members, so that the next link can choose again. Its
//! members are output sections here, and their relocation sections.

use super::synthesis::{Synthesis, Write};
use crate::arch::Target;
use crate::ids::{FileId, SymbolId};
use crate::input::object::SymbolPlace;
use crate::phase::{Arranged, Inputs, OutputGroup, Placed};
use zerocopy::FromBytes;
use zerocopy::byteorder::U32;

/// The groups. The layout makes them once sections have places.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis::later(Write::Bytes(|link, section, out| write(link, section.number, out)))
}

/// Writes a group. `row` is a row of [`Arranged::output_groups`].
fn write<T: Target>(link: &Placed<'_, T>, row: u32, out: &mut [u8]) {
    let group = &link.output_groups[row as usize];
    let Ok(words) = <[U32<T::E>]>::mut_from_bytes(out) else { return };
    let members = group.members.iter().map(|member| member.header_index());
    for (word, value) in words.iter_mut().zip(std::iter::once(group.flags).chain(members)) {
        word.set(value);
    }
}

/// The number of a group's signature in the output's symbol table (`sh_info` of the group).
pub fn signature_index<T: Target>(link: &Placed<'_, T>, group: &OutputGroup) -> u32 {
    let object = &link.objects[group.file.index()];
    let id: SymbolId = object.symbol_id(group.signature);
    let index = link.symtab.index_of.get(id.index()).copied().unwrap_or(0);
    if index != 0 {
        return index;
    }
    // In objects of old assemblers, the signature is the unnamed symbol of a section.
    let SymbolPlace::Section(section) = object.symbol_place(group.signature as usize) else { return 0 };
    let chunk = link.output_chunk(object.section_id(section));
    chunk.and_then(|chunk| link.symtab.section_symbol.get(chunk.index()).copied()).unwrap_or(0)
}

/// The globals that are signatures of groups in the output, ascending. They stay in the symbol table even if
/// nothing refers to them.
pub fn global_signatures<T: Target>(link: &Inputs<'_, T>, groups: &[OutputGroup]) -> Vec<SymbolId> {
    let signature = |group: &OutputGroup| link.objects[group.file.index()].symbol_id(group.signature);
    let all = groups.iter().map(signature);
    let mut signatures: Vec<SymbolId> = all.filter(|&id| link.globals.contains(id)).collect();
    signatures.sort_unstable();
    signatures.dedup();
    signatures
}

/// An object's local symbols that are signatures of groups in the output, ascending. They stay in the symbol
/// table even if options drop other locals.
pub fn local_signatures<T: Target>(link: &Arranged<'_, T>, file: FileId) -> Vec<u32> {
    let groups = &link.output_groups;
    let start = groups.partition_point(|group| group.file < file);
    let first_global = link.objects[file.index()].first_global;
    let mut signatures: Vec<u32> = groups[start..]
        .iter()
        .take_while(|group| group.file == file)
        .map(|group| group.signature)
        .filter(|&signature| signature < first_global)
        .collect();
    signatures.sort_unstable();
    signatures.dedup();
    signatures
}
