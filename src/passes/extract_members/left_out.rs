//! Members that define a symbol that stays undefined, for messages. They were not taken, because nothing had
//! asked for them where the search came to their archive: the object that needs the symbol stands behind it.

use super::Extracted;
use crate::arch::Target;
use crate::ids::FileId;
use crate::input::ObjectFile;
use crate::input::object::{FileName, SymbolPlace};
use crate::passes::open_inputs::{Candidate, Role};
use hashbrown::HashMap;
use parallel::ParallelSlice;

/// For each of these names that such a member defines, the first one. Each comes with the first object that
/// needs it.
pub fn definers<'a, T: Target>(
    candidates: &[Candidate<'a>],
    extracted: &Extracted,
    names: &[(&'a [u8], FileId)],
) -> HashMap<&'a [u8], FileName<'a>> {
    let row = |(name, object): &(&'a [u8], FileId)| Some((*name, *extracted.objects.get(object.index())?));
    let names: Vec<(&[u8], u32)> = names.iter().filter_map(row).collect();
    let mut taken = vec![false; candidates.len()];
    extracted.objects.iter().for_each(|&file| taken[file as usize] = true);
    let of_member = |(file, (candidate, taken)): (usize, (&Candidate<'a>, &bool))| {
        let is_left_out = !taken && !candidate.shared && candidate.role == Role::Opened;
        let found = if is_left_out { defined::<T>(candidate, &names) } else { Vec::new() };
        let member = candidate.name;
        let behind = found.into_iter().filter(move |(_, needs)| file < *needs as usize);
        behind.map(move |(name, _)| (name, member))
    };
    let mut first = HashMap::new();
    for (name, member) in candidates.par_iter().zip(&taken).enumerate().flat_map_iter(of_member).collect() {
        first.entry(name).or_insert(member);
    }
    first
}

/// Those of the names that a member defines. One that cannot be read has been reported.
fn defined<'a, T: Target>(candidate: &Candidate<'a>, names: &[(&'a [u8], u32)]) -> Vec<(&'a [u8], u32)> {
    let Ok(object) = ObjectFile::<T::E>::parse(candidate.name, candidate.bytes) else { return Vec::new() };
    let globals = object.first_global as usize..object.symbols.len();
    let defined = globals.filter(|&index| object.symbol_place(index) != SymbolPlace::Undefined);
    let own = defined.map(|index| object.symbol_name(index));
    own.filter_map(|own| names.iter().copied().find(|(name, _)| *name == own)).collect()
}
