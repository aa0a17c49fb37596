//! A function's frame in front of an instruction, derived from the instructions around it.

use super::effect::Effect;
use sframe_format::abi::Register;
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
    /// A register that holds an address of the frame, and the CFA minus that.
    held: Option<(Register, i64)>,
    /// Offset of the saved frame pointer from the CFA. `None`: the register still has the caller's value.
    frame_pointer: Option<i64>,
    /// The same for the return address.
    return_address: Option<i64>,
    /// AArch64: whether the return address is signed.
    signed: bool,
    /// x86-64: the register that has the return address for now, while the stack pointer moves below it.
    taken: Option<Register>,
}

/// What comes of two states that meet at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// The state that was there holds.
    Same,
    /// They agree on less than the state that was there.
    Less(State),
    /// They cannot both be right.
    Conflict,
}

impl State {
    /// A frame whose CFA is `height` bytes above the stack pointer. At most the return address has been
    /// saved.
    pub const fn new(height: i64, return_address: Option<i64>) -> Self {
        Self {
            height: Some(height),
            least: height,
            by_frame_pointer: None,
            held: None,
            frame_pointer: None,
            return_address,
            signed: false,
            taken: None,
        }
    }

    /// The same behind an instruction that has pushed a word.
    pub const fn pushed(self, size: i64) -> Self {
        match self.height {
            Some(height) => Self { height: Some(height + size), ..self },
            None => self,
        }
    }

    /// Whether the CFA is unknown.
    pub fn is_lost(&self) -> bool {
        self.height.is_none() && self.by_frame_pointer.is_none() && self.held.is_none()
    }

    /// Whether only a register leads to the CFA that is neither the stack pointer nor the frame pointer.
    pub fn is_held(&self) -> bool {
        self.height.is_none() && self.by_frame_pointer.is_none() && self.held.is_some()
    }

    /// Whether the stack pointer has the value that it had at the function's first instruction.
    pub fn is_at_entry(&self) -> bool {
        self.height == Some(self.least) && self.taken.is_none()
    }

    /// The rules of a row. With `by_stack_pointer`, the CFA counts from that register if it can.
    pub fn rules(&self, abi: Abi, by_stack_pointer: bool) -> Option<Frame> {
        if self.taken.is_some() {
            return None;
        }
        let marked = self.marked().filter(|_| !by_stack_pointer || self.height.is_none());
        let cfa = match (marked, self.height, self.by_frame_pointer) {
            (Some(offset), ..) | (None, None, Some(offset)) => CfaRule::register(abi.frame_pointer(), offset),
            (None, Some(offset), _) => CfaRule::register(abi.stack_pointer(), offset),
            (None, None, None) => {
                let (register, offset) = self.held?;
                CfaRule::register(register, offset)
            }
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

    /// What holds where this state was known and another one arrives.
    pub fn meet(&self, other: &Self) -> Meeting {
        let (marked, height) = (self.marked(), self.height.zip(other.height));
        let differ = |pair: Option<(i64, i64)>| pair.is_some_and(|(one, two)| one != two);
        let frames = self.by_frame_pointer.zip(other.by_frame_pointer);
        let same_mark = marked.is_some() && marked == other.marked();
        if differ(height) && !same_mark
            || differ(frames) && (marked.is_some() || other.marked().is_some())
            || differ(self.frame_pointer.zip(other.frame_pointer))
            || self.return_address != other.return_address
            || self.taken != other.taken
        {
            return Meeting::Conflict;
        }
        let mut less = *self;
        if differ(height) {
            less.height = None;
        }
        if differ(frames) {
            less.by_frame_pointer = None;
        }
        if self.held != other.held {
            less.held = None;
        }
        if less == *self { Meeting::Same } else { Meeting::Less(less) }
    }

    /// Goes on behind an effect.
    pub fn apply(&mut self, effect: Effect) {
        if let Some(register) = self.taken {
            // What comes in between moves arguments, and may take other words and put them back.
            self.taken = self.taken.filter(|_| effect != Effect::PutWordBack(register));
            return;
        }
        self.lose_changed_frame_pointer(effect);
        match effect {
            Effect::MoveStackPointer(by) => self.move_stack_pointer(by),
            Effect::LoseStackPointer | Effect::AlignStackPointer => self.height = None,
            Effect::HoldStackPointer(register, offset) => {
                let by = self.height.and_then(|height| height.checked_sub(offset));
                self.held = by.map(|by| (register, by));
            }
            Effect::StackPointerFrom(register, offset) | Effect::StackPointerFromAny(register, offset) => {
                let held = self.held.take().filter(|held| held.0 == register);
                let height = held.and_then(|(_, by)| by.checked_sub(offset));
                self.height = height.filter(|&height| height >= self.least);
            }
            Effect::Overwrite(register) => self.held = self.held.filter(|held| held.0 != register),
            Effect::StackPointerFromFramePointer(offset) => {
                self.height = self.by_frame_pointer.and_then(|by| by.checked_sub(offset));
            }
            Effect::FramePointerFromStackPointer(offset) => {
                self.by_frame_pointer = self.height.and_then(|height| height.checked_sub(offset));
            }
            Effect::LoseFramePointer => self.by_frame_pointer = None,
            // A second store does not store the caller's value.
            Effect::SaveFramePointer(offset) if self.by_frame_pointer.is_none() => {
                self.frame_pointer = self.frame_pointer.or_else(|| self.counted_from_cfa(offset));
            }
            Effect::SaveFramePointer(_) => {}
            Effect::LoadFramePointer(offset) => {
                self.by_frame_pointer = None;
                if self.frame_pointer == self.counted_from_cfa(offset) {
                    self.frame_pointer = None;
                }
            }
            Effect::SaveReturnAddress(offset) => {
                self.return_address = self.return_address.or_else(|| self.counted_from_cfa(offset));
            }
            Effect::LoadReturnAddress(_) => self.return_address = None,
            Effect::TakeWord(register) if self.has_return_address_on_top() => self.take(register),
            Effect::TakeWord(_) => self.move_stack_pointer(8),
            Effect::PutWordBack(_) => self.move_stack_pointer(-8),
            Effect::LeaveFrame => *self = Self::new(self.least, None),
            // A function that has not saved the link register cannot return, so its frame is unknown.
            Effect::OverwriteLink if self.return_address.is_none() => self.lose(),
            Effect::OverwriteLink => {}
            Effect::Sign(signed) => self.signed = signed,
        }
    }

    /// Goes back in front of an effect.
    pub fn undo(&mut self, effect: Effect) {
        if let Some(register) = self.taken {
            self.taken = self.taken.filter(|_| effect != Effect::TakeWord(register));
            return;
        }
        self.lose_changed_frame_pointer(effect);
        match effect {
            Effect::MoveStackPointer(by) => self.move_stack_pointer(by.wrapping_neg()),
            Effect::LoseStackPointer | Effect::AlignStackPointer => self.height = None,
            Effect::StackPointerFromAny(..) => (self.height, self.held) = (None, None),
            Effect::HoldStackPointer(register, offset) => {
                let held = self.held.take().filter(|held| held.0 == register);
                let height = held.and_then(|(_, by)| by.checked_add(offset));
                self.height = height.filter(|&height| height >= self.least).or(self.height);
            }
            Effect::StackPointerFrom(register, offset) => {
                let by = self.height.and_then(|height| height.checked_add(offset));
                (self.held, self.height) = (by.map(|by| (register, by)), None);
            }
            Effect::Overwrite(register) => self.held = self.held.filter(|held| held.0 != register),
            Effect::StackPointerFromFramePointer(offset) => {
                self.by_frame_pointer = self.height.and_then(|height| height.checked_add(offset));
                self.height = None;
            }
            Effect::FramePointerFromStackPointer(offset) => {
                let height = self.by_frame_pointer.and_then(|by| by.checked_add(offset));
                self.by_frame_pointer = None;
                self.height = match (self.height, height) {
                    (Some(known), Some(other)) if known != other => None,
                    (known, other) => known.or(other).filter(|&height| height >= self.least),
                };
            }
            Effect::LoseFramePointer => self.by_frame_pointer = None,
            Effect::SaveFramePointer(offset) => {
                if self.frame_pointer == self.counted_from_cfa(offset) {
                    self.frame_pointer = None;
                }
            }
            Effect::LoadFramePointer(offset) => {
                self.by_frame_pointer = None;
                self.frame_pointer = self.frame_pointer.or_else(|| self.counted_from_cfa(offset));
            }
            Effect::SaveReturnAddress(offset) => {
                if self.return_address == self.counted_from_cfa(offset) {
                    self.return_address = None;
                }
            }
            Effect::LoadReturnAddress(offset) => {
                self.return_address = self.return_address.or_else(|| self.counted_from_cfa(offset));
            }
            Effect::PutWordBack(register) if self.has_return_address_on_top() => self.take(register),
            Effect::PutWordBack(_) => self.move_stack_pointer(8),
            Effect::TakeWord(_) => self.move_stack_pointer(-8),
            Effect::LeaveFrame => self.lose(),
            Effect::OverwriteLink if self.return_address.is_none() => self.lose(),
            Effect::OverwriteLink => {}
            Effect::Sign(signed) => self.signed = !signed,
        }
    }

    /// Adds to the stack pointer. If it rises above its value at the function's start, the frame is not what
    /// it seemed to be.
    fn move_stack_pointer(&mut self, by: i64) {
        self.height = self.height.and_then(|height| height.checked_sub(by));
        if self.height.is_some_and(|height| height < self.least) {
            self.lose();
        }
    }

    fn has_return_address_on_top(&self) -> bool {
        self.height == Some(self.least) && self.return_address == Some(-self.least)
    }

    /// The return address moves to or from a register, and the CFA with the arguments below it: no register
    /// is as far from it afterwards as it was before.
    fn take(&mut self, register: Register) {
        (self.taken, self.by_frame_pointer, self.held) = (Some(register), None, None);
    }

    fn lose(&mut self) {
        (self.height, self.by_frame_pointer, self.held) = (None, None, None);
    }

    /// Where the stack pointer is unknown, nobody knows where the frame pointer is saved. So if it changes
    /// and has not been saved before, the caller's is unknown.
    fn lose_changed_frame_pointer(&mut self, effect: Effect) {
        let changes = matches!(
            effect,
            Effect::LoseFramePointer
                | Effect::LoadFramePointer(_)
                | Effect::FramePointerFromStackPointer(_)
                | Effect::StackPointerFromFramePointer(_)
        );
        if changes && self.is_held() && self.frame_pointer.is_none() {
            self.lose();
        }
    }

    fn counted_from_cfa(&self, offset: i64) -> Option<i64> {
        offset.checked_sub(self.height?)
    }
}
