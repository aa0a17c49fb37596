//! The symbol versions that the output defines (gABI extension, "Symbol Versioning").
//!
//! Version scripts and `.symver` directives define versions. The linker writes `.gnu.version_d` and
//! `.gnu.version` from these tables.

use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Splits `name@VERSION` and `name@@VERSION` into the name and the version.
pub fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b'@', name)?;
    let version = &name[at + 1..];
    Some((&name[..at], version.strip_prefix(b"@").unwrap_or(version)))
}

/// The versions that version scripts and `.symver` directives define.
#[derive(Debug, Default)]
pub struct Versions<'a> {
    /// Versions of the output. The first one here has index [`FIRST_VERSION`]; index 1 is the output itself.
    pub definitions: Vec<VersionDefinition<'a>>,
    /// The word of each global in `.gnu.version`. For a global that this output defines: 0 if a version
    /// script hides it, 1 if it has no version, otherwise the index of its version. For any other global: 1.
    /// [`crate::input::shared::VERSION_HIDDEN`] marks `name@VERSION`.
    pub words: Vec<u16>,
}

/// A version of the output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionDefinition<'a> {
    /// Its name, without `@`.
    pub name: &'a [u8],
    /// Names of the versions that it succeeds.
    pub parents: Vec<&'a [u8]>,
    /// Whether it is `VER_FLG_WEAK`, because no symbol has it.
    pub weak: bool,
}

/// Index of the first version behind the output's own.
pub const FIRST_VERSION: u16 = elf::VER_NDX_GLOBAL + 1;

/// The error if there are more versions, defined and needed, than an index of 15 bits can number.
pub fn too_many(count: usize) -> Option<Diagnostic> {
    const MOST: usize = 0x8000 - FIRST_VERSION as usize;
    let message =
        || format!("{count} symbol versions are more than .gnu.version can number, which are {MOST}");
    (count > MOST).then(|| Diagnostic::error(Code::VersionScript, message()))
}

impl<'a> Versions<'a> {
    /// The index of each version by its name. If two have one name, the first counts.
    pub fn indices(&self) -> Indices<'a> {
        let mut indices = Indices::default();
        for (row, definition) in self.definitions.iter().enumerate() {
            indices.add(definition.name, row);
        }
        indices
    }
}

/// The index of each version by its name.
#[derive(Debug, Default)]
pub struct Indices<'a>(HashMap<&'a [u8], u16, FixedState>);

impl<'a> Indices<'a> {
    /// Adds the version that has this row in [`Versions::definitions`].
    pub fn add(&mut self, name: &'a [u8], row: usize) {
        if let Some(index) = u16::try_from(row).ok().and_then(|row| row.checked_add(FIRST_VERSION)) {
            self.0.entry(name).or_insert(index);
        }
    }

    /// The index of the version of this name.
    pub fn of(&self, name: &[u8]) -> Option<u16> {
        self.0.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_split_at_the_version() {
        assert_eq!(super::split(b"read@GLIBC_2.2"), Some((&b"read"[..], &b"GLIBC_2.2"[..])));
        assert_eq!(super::split(b"read@@GLIBC_2.2"), Some((&b"read"[..], &b"GLIBC_2.2"[..])));
        assert_eq!(super::split(b"read"), None);
    }
}
