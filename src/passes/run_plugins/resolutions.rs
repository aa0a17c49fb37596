//! Tells plugins how the symbols of their files are resolved, as GNU ld does.
//!
//! A definition that prevails may be changed or dropped by the compiler if nothing but intermediate
//! code refers to it. Everything else counts as a reference from outside: machine code, options,
//! scripts, `--wrap`, and whatever the output exports.

use crate::arch::Target;
use crate::cli::Config;
use crate::ids::{FileId, SymbolId};
use crate::passes::define_linker_symbols::Interned;
use crate::passes::open_inputs::Role;
use crate::passes::settle_symbols;
use crate::phase::Resolved;
use crate::relocs::undefined;
use crate::symbols::{Definition, Globals, SymbolFlags};
use hashbrown::HashSet;
use linker_plugin::Resolution;

/// For each claim, by its number, the resolution of each of its symbols; `None` if the file takes no
/// part. `roles` are those of the link's objects.
pub fn all<T: Target>(
    link: &Resolved<'_, T>,
    roles: &[Role],
    assigned: &Interned,
    claims: usize,
) -> Vec<Option<Vec<Resolution>>> {
    let (outside, unreported) = (outside(link, roles, assigned), undefined::unreported(link));
    let judge = Judge { link, roles, outside, unreported };
    let mut all = vec![None; claims];
    for (object, role) in link.objects.iter().zip(roles) {
        if let Role::Claimed(number) = role
            && let Some(place) = all.get_mut(*number as usize)
        {
            let first = object.first_global as usize;
            let resolve = |(row, &id): (usize, &SymbolId)| {
                let symbol = &object.symbols[first + row];
                if symbol.is_undefined() || symbol.is_common() {
                    judge.reference(object.id, id)
                } else {
                    judge.definition(object.id, id)
                }
            };
            *place = Some(object.globals.iter().enumerate().map(resolve).collect());
        }
    }
    all
}

/// By global: whether something outside of intermediate code refers to it or defines it.
fn outside<T: Target>(link: &Resolved<'_, T>, roles: &[Role], assigned: &Interned) -> Vec<bool> {
    let mut outside = vec![false; link.globals.len()];
    let mut mark = |id: SymbolId| outside[id.index()] = true;
    for (object, role) in link.objects.iter().zip(roles) {
        if !matches!(role, Role::Claimed(_)) {
            object.globals.iter().copied().for_each(&mut mark);
        }
    }
    assigned.wanted.iter().copied().for_each(&mut mark);
    for symbol in &assigned.symbols {
        mark(symbol.symbol);
        symbol.source.into_iter().for_each(&mut mark);
    }
    named(link.config, &link.globals).into_iter().for_each(&mut mark);
    outside
}

/// Symbols that options name.
fn named(config: &Config, globals: &Globals<'_>) -> Vec<SymbolId> {
    let symbols = &config.symbols;
    let mut found: Vec<SymbolId> =
        [&symbols.init, &symbols.fini].into_iter().filter_map(|name| globals.lookup(name)).collect();
    for name in &symbols.wrap {
        let wrapper = [b"__wrap_", &name[..]].concat();
        found.extend(globals.lookup(name));
        found.extend(globals.lookup(&wrapper));
    }
    found
}

struct Judge<'l, 'a, T: Target> {
    link: &'l Resolved<'a, T>,
    roles: &'l [Role],
    outside: Vec<bool>,
    unreported: HashSet<&'l [u8]>,
}

impl<T: Target> Judge<'_, '_, T> {
    fn is_claimed(&self, file: FileId) -> bool {
        matches!(self.roles.get(file.index()), Some(Role::Claimed(_)))
    }

    /// Common blocks are treated as references, unless they prevail.
    fn reference(&self, own: FileId, id: SymbolId) -> Resolution {
        match self.link.definition(id) {
            Definition::Undefined => Resolution::Undefined,
            Definition::Object { file, .. } if file == own => self.prevailing(id),
            Definition::Object { file, .. } if self.is_claimed(file) => Resolution::ResolvedByClaimed,
            Definition::Object { .. } | Definition::Linker(_) => Resolution::ResolvedByCode,
            Definition::Shared { .. } => Resolution::ResolvedByLibrary,
        }
    }

    fn definition(&self, own: FileId, id: SymbolId) -> Resolution {
        match self.link.definition(id) {
            Definition::Object { file, .. } if file == own => self.prevailing(id),
            Definition::Object { file, .. } if self.is_claimed(file) => Resolution::PreemptedByClaimed,
            _ => Resolution::PreemptedByCode,
        }
    }

    fn prevailing(&self, id: SymbolId) -> Resolution {
        if self.outside[id.index()] {
            return Resolution::Prevailing;
        }
        let flags = settle_symbols::global_flags(self.link, &self.unreported, id);
        if self.link.config.is_relocatable() || flags.contains(SymbolFlags::EXPORTED) {
            Resolution::PrevailingExported
        } else {
            Resolution::PrevailingInside
        }
    }
}
