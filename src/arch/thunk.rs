//! Thunks: code that the linker puts between a branch and a target out of its reach.

/// The reach of a machine's branches and of its thunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThunkSpec {
    /// Bytes that a call reaches forward and backward.
    pub reach: u64,
    /// Bytes that a [`ThunkForm::Near`] reaches.
    pub near_reach: u64,
    /// Alignment of thunks, in bytes.
    pub align: u64,
}

/// The purpose of a thunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThunkForm {
    /// Jumps to a target within [`ThunkSpec::near_reach`].
    Near,
    /// Jumps to any target.
    Far,
    /// Accepts an indirect jump for a target that has no landing pad, and jumps there directly.
    LandingPad,
    /// Executes an instruction that the linker moved here, and jumps back.
    Moved,
}
