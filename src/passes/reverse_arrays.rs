//! Reverses `.ctors` and `.dtors` sections that a script puts into `.init_array` and `.fini_array`.
//!
//! Start-up code runs `.ctors` from its end to its beginning, and `.init_array` the other way. So the words
//! of a `.ctors` section must be reversed if the section goes into `.init_array`, and those of `.dtors` in
//! `.fini_array`. Their relocations move with them, but symbols stay where they are, as in GNU ld and gold. A
//! section that is not a list of words stays as it is. The new contents lie in bytes that the link owns
//! ([`ObjectFile::made`]), so later passes see an ordinary section.

use crate::arch::Target;
use crate::elf::Rela;
use crate::elf::consts as elf;
use crate::ids::FileId;
use crate::input::ObjectFile;
use crate::input::edit::Edit;
use crate::input::store::InputStore;
use crate::phase::{Inputs, Matched, Resolved};
use parallel::ParallelSlice;
use zerocopy::byteorder::{ByteOrder, U64};

/// Size of an entry in bytes.
const WORD: u64 = 8;

/// Reverses the words of such sections.
pub fn run<T: Target>(link: Matched<'_, T>) -> Matched<'_, T> {
    if link.config.is_relocatable() {
        return link;
    }
    let found = find(&link);
    link.refine(|made| {
        made.refine(|resolved| Resolved { inputs: reverse(resolved.inputs, &found), ..resolved })
    })
}

fn reverse<'a, T: Target>(mut inputs: Inputs<'a, T>, found: &[(FileId, u32)]) -> Inputs<'a, T> {
    let store = inputs.store;
    for of_file in found.chunk_by(|a, b| a.0 == b.0) {
        let object = &mut inputs.objects[of_file[0].0.index()];
        let mut edit = Edit::new(object);
        for &(_, index) in of_file {
            turn(&mut edit, object, index as usize, store);
        }
        edit.finish(object, store);
    }
    inputs
}

/// The sections to reverse, as file and header index, in input order.
fn find<T: Target>(link: &Matched<'_, T>) -> Vec<(FileId, u32)> {
    // By rule: the name of sections whose words must be reversed in the rule's output section.
    let old_names: Vec<Option<&[u8]>> = link
        .plan
        .rules
        .iter()
        .map(|rule| match &link.plan.outputs[rule.output.index()].name[..] {
            b".init_array" => Some(&b".ctors"[..]),
            b".fini_array" => Some(&b".dtors"[..]),
            _ => None,
        })
        .collect();
    if old_names.iter().all(Option::is_none) {
        return Vec::new();
    }
    let of_object = |object: &ObjectFile<'_, T::E>| {
        let turned = object.special.iter().copied().filter(|&index| {
            let Some(rule) = link.rules[object.section_id(index).index()] else { return false };
            let rest = old_names[rule.index()]
                .and_then(|old_name| object.section_name(index as usize).strip_prefix(old_name));
            let header = &object.headers[index as usize];
            header.sh_type.get() == elf::SHT_PROGBITS
                && header.sh_size.get().is_multiple_of(WORD)
                && rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'.')))
        });
        turned.map(|index| (object.id, index)).collect::<Vec<_>>()
    };
    link.objects.par_iter().flat_map_iter(of_object).collect()
}

/// Reverses the words of one section.
fn turn<'a, E: ByteOrder>(
    edit: &mut Edit<'a, E>,
    object: &ObjectFile<'a, E>,
    index: usize,
    store: &'a InputStore,
) {
    let Ok(bytes) = object.section_bytes(index) else { return };
    let size = bytes.len() as u64;
    let words: Vec<u8> = bytes.rchunks_exact(WORD as usize).flatten().copied().collect();
    let relocations: Vec<Rela<E>> =
        object.relocations(index).iter().rev().map(|relocation| turned(*relocation, size)).collect();
    edit.replace(object, index, &words);
    edit.replace_relocations(object, index, &relocations, store);
}

/// A relocation for the same word, after a section of `size` bytes was reversed.
fn turned<E: ByteOrder>(relocation: Rela<E>, size: u64) -> Rela<E> {
    let offset = relocation.r_offset.get();
    let inside = offset % WORD;
    let word = offset - inside;
    let offset = if word < size { size - WORD - word + inside } else { offset };
    Rela { r_offset: U64::new(offset), ..relocation }
}
