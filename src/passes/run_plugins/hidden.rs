//! `--exclude-libs` for compiled code.
//!
//! The option hides the definitions of whole archives. The compiler joins their members with other files, so
//! the linker hides the symbols that came from such archives one by one.

use crate::arch::Target;
use crate::elf::Sym;
use crate::elf::consts as elf;
use crate::input::object::{FileName, SymbolPlace};
use crate::input::{InputStore, ObjectFile};
use crate::passes::open_inputs::Role;
use crate::phase::Resolved;
use crate::symbols::Definition;
use hashbrown::HashSet;
use zerocopy::byteorder::ByteOrder;

/// The names that a claimed file of an excluded archive defines. `roles` has the roles of the link's objects.
pub fn names<'a, T: Target>(link: &Resolved<'a, T>, roles: &[Role]) -> HashSet<&'a [u8]> {
    let mut names = HashSet::new();
    for (object, role) in link.objects.iter().zip(roles) {
        if object.hide_symbols && matches!(role, Role::Claimed(_)) {
            let prevails =
                |id| matches!(link.definition(id), Definition::Object { file, .. } if file == object.id);
            let own = object.globals.iter().filter(|&&id| prevails(id));
            names.extend(own.map(|id| link.globals.names[id.index()]));
        }
    }
    names
}

/// Returns the object with its default-visibility definitions of these names hidden: a copy in the store, or
/// `bytes` if it has no such definition. A broken object stays as it is, and parsing reports it.
pub fn hide<'a, E: ByteOrder>(bytes: &'a [u8], names: &HashSet<&[u8]>, store: &'a InputStore) -> &'a [u8] {
    /// Offset of `st_other` in a symbol.
    const OTHER: usize = 5;
    let name = FileName { path: "", member: None };
    let Ok(object) = ObjectFile::<E>::parse(name, bytes) else { return bytes };
    let Some(header) = object.headers.get(object.symtab_index as usize) else { return bytes };
    let start = header.sh_offset.get() as usize;
    let mut copy = Vec::new();
    for index in object.first_global as usize..object.symbols.len() {
        let symbol = &object.symbols[index];
        if object.symbol_place(index) == SymbolPlace::Undefined
            || symbol.visibility() != elf::STV_DEFAULT
            || !names.contains(object.symbol_name(index))
        {
            continue;
        }
        if copy.is_empty() {
            copy = bytes.to_vec();
        }
        copy[start + index * size_of::<Sym<E>>() + OTHER] |= elf::STV_HIDDEN;
    }
    if copy.is_empty() { bytes } else { store.keep(copy) }
}
