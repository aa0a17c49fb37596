//! Damage to a recording.

/// A defect. Because of it, a recording cannot be used, or only up to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// What was found, and what was expected.
    pub message: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "offset {:#x}: {}", self.offset, self.message)
    }
}

impl std::error::Error for Damage {}

/// A defect at an offset.
pub fn damage(offset: usize, message: impl Into<String>) -> Damage {
    Damage { offset: offset as u64, message: message.into() }
}
