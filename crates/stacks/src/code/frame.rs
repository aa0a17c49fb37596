//! A function's frame in front of an instruction, derived from the instructions before it.

use sframe_format::{Abi, CfaRule, Frame, Location, RegisterRule};

/// The frame. Offsets are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The CFA minus the stack pointer, if it is known.
    height: Option<i64>,
    /// The same at the function's first instruction. The height is never smaller.
    least: i64,
    /// The CFA minus the frame pointer, if the frame pointer was set from the stack pointer.
    by_frame_pointer: Option<i64>,
    /// Offset of the saved frame pointer from the CFA. `None`: the register still has the caller's value.
    frame_pointer: Option<i64>,
    /// The same for the return address.
    return_address: Option<i64>,
    /// AArch64: whether the return address is signed.
    signed: bool,
}

impl State {
    /// A frame whose CFA is `height` bytes above the stack pointer. At most the return address has been
    /// saved.
    pub const fn new(height: i64, return_address: Option<i64>) -> Self {
        Self {
            height: Some(height),
            least: height,
            by_frame_pointer: None,
            frame_pointer: None,
            return_address,
            signed: false,
        }
    }

    /// A frame whose CFA is unknown.
    pub const fn lost() -> Self {
        Self { height: None, ..Self::new(0, None) }
    }

    /// Whether the CFA is unknown.
    pub fn is_lost(&self) -> bool {
        self.height.is_none() && self.by_frame_pointer.is_none()
    }

    /// The rules of a row.
    pub fn rules(&self, abi: Abi) -> Option<Frame> {
        let cfa = match (self.marked(), self.height, self.by_frame_pointer) {
            (Some(offset), ..) | (None, None, Some(offset)) => CfaRule::register(abi.frame_pointer(), offset),
            (None, Some(offset), _) => CfaRule::register(abi.stack_pointer(), offset),
            (None, None, None) => return None,
        };
        let saved = |offset: Option<i64>| match offset {
            None => Some(RegisterRule::Unchanged),
            Some(offset) => Some(RegisterRule::Saved(Location::at_cfa(i32::try_from(offset).ok()?))),
        };
        let (ra, fp) = (saved(self.return_address)?, saved(self.frame_pointer)?);
        Some(Frame { cfa, ra, fp, mangled: self.signed })
    }

    /// The CFA minus the frame pointer, if the register points at the caller's saved frame pointer. Then it
    /// is a real frame pointer, and reliable even if loops push or callees pop. Otherwise the register may
    /// point at something else.
    fn marked(&self) -> Option<i64> {
        let (by, saved) = (self.by_frame_pointer?, self.frame_pointer?);
        (by.checked_neg()? == saved).then_some(by)
    }

    /// Adds to the stack pointer. If it rises above its value at the function's start, the frame is not what
    /// it seemed to be.
    pub fn move_stack_pointer(&mut self, by: i64) {
        self.height = self.height.and_then(|height| height.checked_sub(by));
        if self.height.is_some_and(|height| height < self.least) {
            *self = Self::lost();
        }
    }

    /// Gives the stack pointer an unknown value.
    pub fn lose_stack_pointer(&mut self) {
        self.height = None;
    }

    /// Sets the stack pointer to the frame pointer plus `offset`.
    pub fn stack_pointer_from_frame_pointer(&mut self, offset: i64) {
        self.height = self.by_frame_pointer.and_then(|by| by.checked_sub(offset));
    }

    /// Sets the frame pointer to the stack pointer plus `offset`.
    pub fn frame_pointer_from_stack_pointer(&mut self, offset: i64) {
        self.by_frame_pointer = self.height.and_then(|height| height.checked_sub(offset));
    }

    /// Gives the frame pointer another value.
    pub fn lose_frame_pointer(&mut self) {
        self.by_frame_pointer = None;
    }

    /// Stores the frame pointer `offset` bytes above the stack pointer. A second store does not store the
    /// caller's value.
    pub fn save_frame_pointer(&mut self, offset: i64) {
        if self.by_frame_pointer.is_none() {
            self.frame_pointer = self.frame_pointer.or_else(|| self.counted_from_cfa(offset));
        }
    }

    /// Restores the caller's frame pointer.
    pub fn restore_frame_pointer(&mut self) {
        (self.frame_pointer, self.by_frame_pointer) = (None, None);
    }

    /// Stores the return address `offset` bytes above the stack pointer.
    pub fn save_return_address(&mut self, offset: i64) {
        self.return_address = self.return_address.or_else(|| self.counted_from_cfa(offset));
    }

    /// Loads the return address into its register again.
    pub fn restore_return_address(&mut self) {
        self.return_address = None;
    }

    /// A call overwrites the link register. A function that has not saved it cannot return, so its frame is
    /// unknown.
    pub fn call(&mut self) {
        if self.return_address.is_none() {
            *self = Self::lost();
        }
    }

    /// Signs the return address, or authenticates it.
    pub fn sign(&mut self, signed: bool) {
        self.signed = signed;
    }

    fn counted_from_cfa(&self, offset: i64) -> Option<i64> {
        offset.checked_sub(self.height?)
    }
}
