//! What an instruction does to a function's frame.
//!
//! An effect has a direction in both ways: it gives the frame behind an instruction from the one before it,
//! and the one before from the one behind ([`State::apply`](super::frame::State::apply),
//! [`State::undo`](super::frame::State::undo)). An instruction may have several effects, one after another.

use sframe_format::abi::Register;

/// An effect. Offsets are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Adds to the stack pointer.
    MoveStackPointer(i64),
    /// Gives the stack pointer an unknown value.
    LoseStackPointer,
    /// Rounds the stack pointer down.
    AlignStackPointer,
    /// Sets a register to the stack pointer plus an offset.
    HoldStackPointer(Register, i64),
    /// Sets the stack pointer to a register plus an offset.
    StackPointerFrom(Register, i64),
    /// The same where no symbol says that the code is of a function: it may as well go on to another stack,
    /// so the register says nothing of the frame before.
    StackPointerFromAny(Register, i64),
    /// Gives a register another value.
    Overwrite(Register),
    /// Sets the stack pointer to the frame pointer plus an offset.
    StackPointerFromFramePointer(i64),
    /// Sets the frame pointer to the stack pointer plus an offset.
    FramePointerFromStackPointer(i64),
    /// Gives the frame pointer another value.
    LoseFramePointer,
    /// Stores the frame pointer this far above the stack pointer.
    SaveFramePointer(i64),
    /// Loads the frame pointer from there.
    LoadFramePointer(i64),
    /// Stores the return address this far above the stack pointer.
    SaveReturnAddress(i64),
    /// Loads the return address from there into its register.
    LoadReturnAddress(i64),
    /// Takes the word on top of the stack into a register, which a later instruction puts back. If it is the
    /// return address, what is moved in between are arguments below it.
    TakeWord(Register),
    /// Puts it back from there.
    PutWordBack(Register),
    /// Loads all registers, the stack pointer too, as they were at the function's first instruction.
    LeaveFrame,
    /// Calls a function, which overwrites the link register where there is one.
    OverwriteLink,
    /// Signs the return address, or authenticates it.
    Sign(bool),
}

impl Effect {
    /// Whether the frame pointer is another one behind it, or was saved.
    pub fn is_of_frame_pointer(self) -> bool {
        matches!(
            self,
            Self::LoseFramePointer
                | Self::LoadFramePointer(_)
                | Self::SaveFramePointer(_)
                | Self::FramePointerFromStackPointer(_)
                | Self::StackPointerFromFramePointer(_)
                | Self::LeaveFrame
        )
    }
}
