//! Tells plugins how the symbols of their files are resolved, as GNU ld does.
//!
//! The compiler may change or drop a prevailing definition if nothing but intermediate code refers to it.
//! Everything else counts as a reference from outside: machine code, options, scripts, `--wrap`, and whatever
//! the output exports. If there are several plugins, each one cannot see into the files of the others, so
//! these files count as machine code to it.

use super::library_calls;
use crate::arch::Target;
use crate::cli::Config;
use crate::ids::{FileId, SymbolId};
use crate::passes::bind_symbols;
use crate::passes::define_linker_symbols::OutsideNames;
use crate::passes::open_inputs::Role;
use crate::phase::{Resolved, SectionStates};
use crate::relocs::undefined;
use crate::symbols::{Definition, Globals, SymbolFlags};
use hashbrown::HashSet;
use linker_plugin::Resolution;

/// The parties that refer to a symbol or define it, as bits: the claimed files of each plugin, and [`CODE`].
type Users = u64;
/// Machine code, and everything else that is not a claimed file.
const CODE: Users = 1 << 63;

/// The bit of a plugin. Plugins from number 62 on share a bit, so each of them counts as outside code to the
/// others.
fn bit(plugin: usize) -> Users {
    1 << plugin.min(62)
}

/// By number of the claim: the resolutions of the file's symbols; `None` if the file takes no part. `roles`
/// has the role of each object of the link, `reserve` what members mention that compiled code may bring in,
/// and `owners` the plugin of each claim.
pub fn all<T: Target>(
    link: &Resolved<'_, T>,
    sections: &SectionStates,
    roles: &[Role],
    assigned: &OutsideNames,
    reserve: &HashSet<SymbolId>,
    owners: &[usize],
) -> Vec<Option<Vec<Resolution>>> {
    let unreported = undefined::unreported(link);
    let mut users = users(link, roles, assigned, owners);
    reserve.iter().for_each(|id| users[id.index()] |= CODE);
    let mut judge = Judge { link, sections, roles, owners, users, unreported, plugin: 0 };
    let mut all = vec![None; owners.len()];
    for (object, role) in link.objects.iter().zip(roles) {
        if let Role::Claimed(number) = role
            && let Some(place) = all.get_mut(*number as usize)
        {
            judge.plugin = owners[*number as usize];
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

/// By global: the parties that mention it.
fn users<T: Target>(
    link: &Resolved<'_, T>,
    roles: &[Role],
    assigned: &OutsideNames,
    owners: &[usize],
) -> Vec<Users> {
    let mut users = vec![0; link.globals.len()];
    for (object, role) in link.objects.iter().zip(roles) {
        let user = match role {
            Role::Claimed(number) => owners.get(*number as usize).map_or(CODE, |&plugin| bit(plugin)),
            _ => CODE,
        };
        object.globals.iter().for_each(|id| users[id.index()] |= user);
    }
    let mut mark = |id: SymbolId| users[id.index()] |= CODE;
    assigned.wanted.iter().copied().for_each(&mut mark);
    for symbol in &assigned.symbols {
        mark(symbol.symbol);
        symbol.source.into_iter().for_each(&mut mark);
    }
    named(link.config, &link.globals).into_iter().for_each(&mut mark);
    library_calls::of(&link.globals).for_each(&mut mark);
    users
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
    sections: &'l SectionStates,
    roles: &'l [Role],
    owners: &'l [usize],
    users: Vec<Users>,
    unreported: HashSet<&'l [u8]>,
    /// The plugin that the resolutions are for.
    plugin: usize,
}

impl<T: Target> Judge<'_, '_, T> {
    /// Whether the plugin itself has claimed a file.
    fn is_claimed(&self, file: FileId) -> bool {
        let Some(Role::Claimed(number)) = self.roles.get(file.index()) else { return false };
        self.owners.get(*number as usize) == Some(&self.plugin)
    }

    /// The resolution of a reference or of a common block. A common block counts as a reference unless it
    /// prevails.
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
        if self.users[id.index()] & !bit(self.plugin) != 0 {
            return Resolution::Prevailing;
        }
        let flags = bind_symbols::global_flags(self.link, self.sections, &self.unreported, id);
        if self.link.config.is_relocatable() || flags.contains(SymbolFlags::EXPORTED) {
            Resolution::PrevailingExported
        } else {
            Resolution::PrevailingInside
        }
    }
}
