//! The versions that the output defines (gABI extension, "Symbol Versioning").
//!
//! Version scripts and `.symver` directives define them; `.gnu.version_d` and `.gnu.version` are
//! written from these tables.

use crate::elf::consts as elf;

/// The versions that version scripts and `.symver` directives define.
#[derive(Debug, Default)]
pub struct Versions<'a> {
    /// Versions of the output. The first has index [`FIRST_VERSION`]; index 1 is the output itself.
    pub definitions: Vec<VersionDefinition<'a>>,
    /// Version word of each global that this output defines, for `.gnu.version`: 0 local (hidden by
    /// a version script), 1 global, 2 and more an index of `definitions`; for any other global, 1.
    /// [`crate::input::shared::VERSION_HIDDEN`] marks `name@VERSION`.
    pub words: Vec<u16>,
}

/// A version of the output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionDefinition<'a> {
    /// Name without `@`.
    pub name: &'a [u8],
    /// Names of the versions that it follows.
    pub parents: Vec<&'a [u8]>,
    /// `VER_FLG_WEAK`: no symbol has it.
    pub weak: bool,
}

/// Index of the first version that is not the output itself.
pub const FIRST_VERSION: u16 = elf::VER_NDX_GLOBAL + 1;

impl Versions<'_> {
    /// Index of a version by its name.
    pub fn index_of(&self, name: &[u8]) -> Option<u16> {
        let row = self.definitions.iter().position(|definition| definition.name == name)?;
        u16::try_from(row).ok()?.checked_add(FIRST_VERSION)
    }
}
