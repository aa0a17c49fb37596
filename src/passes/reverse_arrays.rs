//! Reverses `.ctors` and `.dtors` sections that a script puts into `.init_array` and `.fini_array`.
//!
//! Start-up code runs `.ctors` from its end to its beginning, and `.init_array` the other way. So the words
//! of a `.ctors` section must be reversed if the section goes into `.init_array`, and those of `.dtors` in
//! `.fini_array`. Their relocations move with them, but symbols stay where they are, as in GNU ld and gold. A
//! section that is not a list of words stays as it is. The new contents lie in bytes that the link owns
//! ([`ObjectFile::made`]), so later passes see an ordinary section.

use crate::arch::Target;
use crate::elf::consts as elf;
use crate::elf::{Rela, Shdr, whole_table};
use crate::ids::FileId;
use crate::input::ObjectFile;
use crate::input::store::InputStore;
use crate::phase::{Inputs, Matched, Resolved};
use rayon::prelude::*;
use zerocopy::IntoBytes;
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
        let mut edit = Edit { headers: object.headers.to_vec(), made: object.made.to_vec() };
        for &(_, index) in of_file {
            edit.reverse(object, index as usize, store);
        }
        object.headers = whole_table(store.keep(edit.headers.as_bytes()));
        object.made = store.keep(edit.made);
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

/// An object's changed section headers, and the bytes with the new contents, which the link owns.
struct Edit<E: ByteOrder> {
    headers: Vec<Shdr<E>>,
    made: Vec<u8>,
}

impl<E: ByteOrder> Edit<E> {
    fn reverse<'a>(&mut self, object: &mut ObjectFile<'a, E>, index: usize, store: &'a InputStore) {
        let Ok(bytes) = object.section_bytes(index) else { return };
        let size = bytes.len() as u64;
        let words: Vec<u8> = bytes.rchunks_exact(WORD as usize).flatten().copied().collect();
        let relocations: Vec<Rela<E>> =
            object.relocations(index).iter().rev().map(|relocation| turned(*relocation, size)).collect();
        self.replace(object, index, &words);
        let table = object.relocation_sections.get(index).map_or(0, |&table| table as usize);
        if table == 0 {
            return;
        }
        if object.headers[table].sh_type.get() == elf::SHT_RELA {
            self.replace(object, table, relocations.as_bytes());
        } else if let Ok(row) =
            object.implicit.binary_search_by_key(&(table as u32), |implicit| implicit.section)
        {
            object.implicit[row].relocations = whole_table(store.keep(relocations.as_bytes()));
        }
    }

    /// Gives a section other contents. Its header then names a place behind the end of the file.
    fn replace(&mut self, object: &ObjectFile<'_, E>, index: usize, contents: &[u8]) {
        self.headers[index].sh_offset.set(object.bytes.len() as u64 + self.made.len() as u64);
        self.headers[index].sh_size.set(contents.len() as u64);
        self.made.extend(contents);
    }
}

/// A relocation for the same word, after a section of `size` bytes was reversed.
fn turned<E: ByteOrder>(relocation: Rela<E>, size: u64) -> Rela<E> {
    let offset = relocation.r_offset.get();
    let inside = offset % WORD;
    let word = offset - inside;
    let offset = if word < size { size - WORD - word + inside } else { offset };
    Rela { r_offset: U64::new(offset), ..relocation }
}
