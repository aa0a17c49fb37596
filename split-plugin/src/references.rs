//! Shows the references of claimed objects to other plugins.
//!
//! For a linker, the references of a claimed file are references of intermediate code, whichever plugin
//! claimed it. A compiler's plugin assumes that it sees all intermediate code. So it would drop a definition
//! that only this plugin's files refer to. To prevent that, an object that nobody claims and that contains
//! nothing else repeats each reference.
//!
//! GNU ld reads files that are added while others are claimed. gold cannot do that, so with gold such a link
//! ends with a message that says so. sframe-ld tells the files of different plugins apart.

use crate::copies::Claimed;
use crate::linker::Linker;
use crate::object::Splittable;
use linker_plugin::{Resolution, Symbol};
use sframe_ld::input::placeholder;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Checks that files of other plugins define no symbol that these files refer to.
///
/// # Errors
/// A message with the symbol, the file that refers to it, and what helps.
pub fn check(used: &[&Claimed]) -> Result<(), String> {
    let all = || used.iter().flat_map(|claim| claim.table.resolved().map(move |symbol| (claim, symbol)));
    let own: HashSet<_> = all().filter(|(_, (_, defined, _))| *defined).map(|(_, (name, ..))| name).collect();
    let foreign = all().find(|(_, (name, defined, resolution))| {
        !defined && *resolution == Resolution::ResolvedByClaimed as i32 && !own.contains(name)
    });
    let Some((claim, (name, ..))) = foreign else { return Ok(()) };
    Err(format!(
        "{} refers to {}, which an object for link-time optimization defines; with this plugin, gold lets the compiler \
         drop it; use the wrapper instead: sframe wrap-ld LINKER …",
        claim.shown(),
        name.to_string_lossy()
    ))
}

/// The references that were repeated so far.
pub struct References {
    folder: PathBuf,
    wanted: bool,
    known: HashSet<Vec<u8>>,
    files: usize,
}

impl References {
    /// None so far.
    pub fn new(linker: &Linker, folder: &Path) -> Self {
        Self { folder: folder.to_owned(), wanted: linker.is_gnu_ld(), known: HashSet::new(), files: 0 }
    }

    /// Repeats those references of an object that were not repeated before.
    ///
    /// # Errors
    /// The file with the references cannot be written, or the linker refuses it.
    pub fn add(&mut self, linker: &Linker, found: &Splittable) -> Result<(), String> {
        if !self.wanted {
            return Ok(());
        }
        let new = found.symbols.iter().filter(|symbol| symbol.binding.is_reference());
        let new: Vec<Symbol> = new.filter(|symbol| self.known.insert(symbol.name.clone())).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        self.files += 1;
        let path = self.folder.join(format!("references{}.o", self.files));
        let written = std::fs::write(&path, placeholder::write(&new, found.machine));
        written.map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        if linker.add_input_file(&path) {
            Ok(())
        } else {
            Err(format!("the linker does not take {}", path.display()))
        }
    }
}
