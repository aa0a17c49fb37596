//! Thunks: code that the linker puts between a branch and a target out of its reach.

/// How far branches of a machine reach, and how the linker's code goes on from there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThunkSpec {
    /// Bytes that a call reaches forward and backward.
    pub reach: u64,
    /// Bytes that a [`ThunkForm::Near`] reaches.
    pub near_reach: u64,
    /// Alignment of thunks, in bytes.
    pub align: u64,
}

/// The work of a thunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThunkForm {
    /// Jumps to a target that is not very far.
    Near,
    /// Jumps to any target.
    Far,
    /// Accepts an indirect jump for a target that does not, and goes there directly.
    LandingPad,
    /// Carries out an instruction that was moved here, and goes back.
    Moved,
}
