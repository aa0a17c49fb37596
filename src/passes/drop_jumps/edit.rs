//! Gives objects the contents that they would have without the dropped jumps.

use super::jumps::{Jump, Jumps};
use crate::arch::{RelocBase, RelocExpr, Target};
use crate::debug_index::ends;
use crate::debug_index::view::View;
use crate::elf::{Rela, Sym, is_alloc, whole_table};
use crate::input::ObjectFile;
use crate::input::edit::Edit;
use crate::input::object::SymbolPlace;
use crate::phase::Contents;
use parallel::ParallelSlice;
use zerocopy::IntoBytes;
use zerocopy::byteorder::{ByteOrder, I64, U64};

/// What changes in an object.
struct Change<'a, E: ByteOrder> {
    /// Its sections and their relocations.
    contents: Option<Edit<'a, E>>,
    /// Its symbols.
    symbols: Option<Vec<Sym<E>>>,
    /// Its `.eh_frame` sections: the row in the object's list, and the bytes.
    frames: Vec<(usize, Vec<u8>)>,
}

/// Changes all objects.
pub fn run<'a, T: Target>(mut contents: Contents<'a, T>, jumps: &Jumps) -> Contents<'a, T> {
    let link = &contents;
    let change = |object: &ObjectFile<'a, T::E>| Change {
        contents: sections(link, object, jumps),
        symbols: symbols(link, object, jumps),
        frames: frames(link, object, jumps),
    };
    let changes: Vec<_> = link.objects.par_iter().map(change).collect();
    let store = link.store;
    let synthesized = &mut contents.tables.numbered.scanned.live.bound.matched.synthesized;
    for (changed, file) in changes.into_iter().zip(0..) {
        let object = &mut synthesized.resolved.inputs.objects[file];
        if let Some(edit) = changed.contents {
            edit.finish(object, store);
        }
        if let Some(symbols) = changed.symbols {
            object.symbols = whole_table(store.keep(symbols.as_bytes()));
        }
        for (section, bytes) in changed.frames {
            synthesized.frames.files[file].sections[section].bytes = store.keep(bytes);
        }
    }
    contents
}

fn sections<'a, T: Target>(
    link: &Contents<'a, T>,
    object: &ObjectFile<'a, T::E>,
    jumps: &Jumps,
) -> Option<Edit<'a, T::E>> {
    // The code of a folded function is that of its leader, and the object's debug information may tell of it.
    let size = |index: u32| jumps.size(link.folds.standing(object.section_id(index)));
    if !(1..object.headers.len() as u32).any(|index| size(index).is_some()) {
        return None;
    }
    let mut edit = Edit::new(object);
    for jump in jumps.of(object) {
        shorten(link, object, jump, &mut edit);
    }
    for index in (1..object.headers.len()).filter(|&index| !is_alloc(object.headers[index].sh_flags.get())) {
        let relocations = object.relocations(index);
        let mut clamped = Vec::new();
        for (row, relocation) in relocations.iter().enumerate() {
            if let Some(addend) = clamped_addend::<T>(object, relocation, &size) {
                if clamped.is_empty() {
                    clamped = relocations.to_vec();
                }
                clamped[row].r_addend = I64::new(addend);
            }
        }
        if !clamped.is_empty() {
            edit.replace_relocations(object, index, &clamped, link.store);
        }
    }
    for (index, bytes) in ends::shortened(&View::<T>::new(object), &size) {
        edit.replace(object, index, &bytes);
    }
    Some(edit)
}

/// Takes the jump away from one section, and turns the branch before it around if that one leads to what
/// follows.
fn shorten<'a, T: Target>(
    link: &Contents<'a, T>,
    object: &ObjectFile<'a, T::E>,
    jump: &Jump,
    edit: &mut Edit<'a, T::E>,
) {
    let index = (jump.section.0 - object.first_section) as usize;
    let relocations = object.relocations(index);
    let Some((last, others)) = relocations.split_last() else { return };
    let Some(branch) = jump.flipped else {
        edit.truncate(index, jump.size);
        edit.truncate_relocations(object, index, others.len());
        return;
    };
    let bytes = object.section_bytes(index).unwrap_or_default();
    let mut bytes = bytes[..jump.size as usize].to_vec();
    bytes[branch.condition] = branch.opposite;
    edit.replace(object, index, &bytes);
    let mut relocations = others.to_vec();
    if let Some(moved) = relocations.last_mut() {
        *moved = Rela { r_offset: moved.r_offset, ..*last };
    }
    edit.replace_relocations(object, index, &relocations, link.store);
}

/// The addend of an address behind the end of a section, as debug information has it, if the section's end
/// moves.
fn clamped_addend<T: Target>(
    object: &ObjectFile<'_, T::E>,
    relocation: &Rela<T::E>,
    size: &dyn Fn(u32) -> Option<u64>,
) -> Option<i64> {
    let SymbolPlace::Section(section) = object.symbol_place(relocation.symbol() as usize) else {
        return None;
    };
    let size = size(section)?;
    let info = T::reloc_info(relocation.kind())?;
    if info.expr != RelocExpr::Symbol || info.base != RelocBase::Zero {
        return None;
    }
    let value = object.symbols.get(relocation.symbol() as usize)?.st_value.get();
    let target = value.wrapping_add_signed(relocation.r_addend.get());
    let old = object.headers[section as usize].sh_size.get();
    (size < target && target <= old).then(|| size.wrapping_sub(value.min(size)) as i64)
}

/// The symbols, if some of them reach behind the new end of their section.
fn symbols<T: Target>(
    link: &Contents<'_, T>,
    object: &ObjectFile<'_, T::E>,
    jumps: &Jumps,
) -> Option<Vec<Sym<T::E>>> {
    let mut changed: Option<Vec<Sym<T::E>>> = None;
    for (index, symbol) in object.symbols.iter().enumerate().skip(1) {
        let SymbolPlace::Section(section) = object.symbol_place(index) else { continue };
        let standing = link.folds.standing(object.section_id(section));
        let Some(size) = jumps.size(standing) else { continue };
        let old = object.headers[section as usize].sh_size.get();
        if let Some((value, length)) = clamped(symbol.st_value.get(), symbol.st_size.get(), size, old) {
            let symbol = &mut changed.get_or_insert_with(|| object.symbols.to_vec())[index];
            symbol.st_value = U64::new(value);
            symbol.st_size = U64::new(length);
        }
    }
    changed
}

/// Value and size of a symbol in a section that has `size` of its `old` bytes left; `None` if they stay.
fn clamped(value: u64, length: u64, size: u64, old: u64) -> Option<(u64, u64)> {
    let end = value.saturating_add(length);
    if end <= size || end > old {
        return None;
    }
    let start = value.min(size);
    Some((start, size - start))
}

/// The `.eh_frame` sections in which records cover dropped jumps.
fn frames<'a, T: Target>(
    link: &Contents<'a, T>,
    object: &ObjectFile<'a, T::E>,
    jumps: &Jumps,
) -> Vec<(usize, Vec<u8>)> {
    let Some(frames) = link.frames.files.get(object.id.index()) else { return Vec::new() };
    let mut changed: Vec<Option<Vec<u8>>> = vec![None; frames.sections.len()];
    for jump in jumps.of(object) {
        let old = link.input_size(jump.section);
        for code in frames.codes_of(object, jump.section) {
            let end = code.begin.saturating_add(code.length);
            if jump.size < end && end <= old && code.begin < jump.size {
                let bytes = &mut changed[code.section];
                let bytes = bytes.get_or_insert_with(|| frames.sections[code.section].bytes.to_vec());
                code.store::<T::E>(bytes, jump.size - code.begin);
            }
        }
    }
    changed.into_iter().enumerate().filter_map(|(section, bytes)| Some((section, bytes?))).collect()
}

#[cfg(test)]
mod tests {
    use super::clamped;

    #[test]
    fn symbols_end_with_their_section() {
        // A function, a part of it, and a mark behind its end.
        assert_eq!(clamped(0, 15, 10, 15), Some((0, 10)));
        assert_eq!(clamped(4, 11, 10, 15), Some((4, 6)));
        assert_eq!(clamped(15, 0, 10, 15), Some((10, 0)));
        // What ends before the jump, at it, or behind the section stays.
        assert_eq!(clamped(0, 8, 10, 15), None);
        assert_eq!(clamped(10, 0, 10, 15), None);
        assert_eq!(clamped(0, 16, 10, 15), None);
    }
}
