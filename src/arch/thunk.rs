//! Thunks: code that the linker puts between a branch and a target out of its reach.

/// How far the field of a relocation reaches that may lead to a thunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// As far as a call: [`ThunkSpec::reach`].
    Call,
    /// As far as a distance in four bytes of data: [`WORD_REACH`].
    Word,
}

/// Bytes that a distance in four bytes of data reaches forward and backward.
pub const WORD_REACH: u64 = 1 << 31;

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

impl ThunkSpec {
    /// The reach in bytes.
    pub fn of(&self, reach: Reach) -> u64 {
        match reach {
            Reach::Call => self.reach,
            Reach::Word => WORD_REACH,
        }
    }
}

/// The purpose of a thunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThunkForm {
    /// Jumps to a target within [`ThunkSpec::near_reach`].
    Near,
    /// Jumps to any target.
    Far,
    /// [`Self::Near`] behind a landing pad, for indirect jumps.
    PaddedNear,
    /// [`Self::Far`] behind a landing pad.
    PaddedFar,
    /// Accepts an indirect jump for a target that has no landing pad, and jumps there directly.
    LandingPad,
    /// Executes an instruction that the linker moved here, and jumps back.
    Moved,
}
