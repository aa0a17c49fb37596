//! Derives functions of `.eh_frame` or `.debug_frame` one by one, on demand.
//!
//! Deriving all rows of a large library takes longer than most work that uses them: a profile touches some
//! hundreds of the library's functions. So an [`FdeIndex`] finds and runs only the FDE that covers an
//! address. Linked files have a sorted table for that, `.eh_frame_hdr` (LSB, "The .eh_frame_hdr section"). In
//! other files, the index reads the headers of all FDEs once.

use alloc::vec::Vec;
use core::ops::{Deref, Range};

use super::entries::{Cie, Fde, Frames};
use super::evaluate::Place;
use super::expect_return_column;
use super::project::{Projection, Reason, project, register_rule};
use super::rows::{Columns, Runner};
use super::search_table::Header;
use crate::abi::{Abi, Register};
use crate::registers::Registers;
use crate::rules::{RegisterRule, UnwindRules};
use crate::unwind::{FrameAddress, UnwindError};

/// `.eh_frame` or `.debug_frame` of a linked file, for look-ups by address. `D` holds its bytes.
#[derive(Debug)]
pub struct FdeIndex<D> {
    abi: Abi,
    data: D,
    /// The address of the section.
    address: u64,
    /// The address that pointers relative to text count from, if it is known.
    text: Option<u64>,
    /// Whether it is `.debug_frame`.
    debug: bool,
    order: Order<D>,
}

/// Memory for running an FDE. Reuse it from one call to the next.
#[derive(Debug, Default)]
pub struct Scratch(Runner);

#[derive(Debug)]
enum Order<D> {
    /// `.eh_frame_hdr`.
    Header(Header<D>),
    /// Start, end and offset in the section of every FDE, ascending.
    List(Vec<(Range<u64>, usize)>),
}

impl<D: Deref<Target = [u8]>> FdeIndex<D> {
    /// Makes an index of the section `eh_frame` at `address`. `header` are the bytes and the address of
    /// `.eh_frame_hdr`. If the file has no such section, or one without a table, this takes time in
    /// proportion to the section.
    pub fn new(abi: Abi, eh_frame: D, address: u64, header: Option<(D, u64)>) -> Self {
        let mut index = Self::unordered(abi, eh_frame, address);
        let header = header.and_then(|(data, at)| Header::parse(abi.endian(), data, at, address));
        index.order = header.map_or_else(|| Order::List(index.list()), Order::Header);
        index
    }

    /// Makes an index of the section `debug_frame`, in time in proportion to its size.
    pub fn of_debug_frame(abi: Abi, debug_frame: D) -> Self {
        let mut index = Self { debug: true, ..Self::unordered(abi, debug_frame, 0) };
        index.order = Order::List(index.list());
        index
    }

    /// The same as [`FdeIndex::new`] for code that a program made as it ran. Some compilers write addresses
    /// relative to the start of the code, `text`, into its `.eh_frame`; linkers write no such addresses.
    pub fn of_made_code(abi: Abi, eh_frame: D, address: u64, text: u64) -> Self {
        let mut index = Self { text: Some(text), ..Self::unordered(abi, eh_frame, address) };
        index.order = Order::List(index.list());
        index
    }

    fn unordered(abi: Abi, data: D, address: u64) -> Self {
        Self { abi, data, address, text: None, debug: false, order: Order::List(Vec::new()) }
    }

    /// The rules at `pc`. `None`: no FDE covers it. `Ok(None)`: the FDE that covers it has no row there.
    ///
    /// # Errors
    /// The rules have no SFrame form, or the FDE is malformed before their row.
    pub fn rules_at(&self, pc: u64, scratch: &mut Scratch) -> Option<Result<Option<UnwindRules>, Reason>> {
        let frames = self.frames();
        let fde = self.fde_at(&frames, pc)?;
        Some(self.rules_of(&frames, &fde, pc, &mut scratch.0))
    }

    fn rules_of<'data>(
        &self,
        frames: &Frames<'data>,
        fde: &Fde<'data>,
        pc: u64,
        runner: &mut Runner,
    ) -> Result<Option<UnwindRules>, Reason> {
        expect_return_column(self.abi, fde)?;
        let mut rows = runner.rows(frames, fde, Columns::of(self.abi, None)).map_err(Reason::Cfi)?;
        while let Some(row) = rows.next_row().map_err(Reason::Cfi)? {
            if !row.contains(pc) {
                continue;
            }
            let rules = match project(self.abi, &frames.section, row)? {
                Projection::Rules(rules) => rules,
                Projection::Plt(expression) => {
                    if row.start % u64::from(expression.repeat_size) != 0 {
                        return Err(Reason::CfaExpression);
                    }
                    let offset = (pc % u64::from(expression.repeat_size)) as u32;
                    match expression.rows(self.abi).into_iter().rfind(|row| row.start <= offset) {
                        Some(row) => row.rules,
                        None => return Ok(None),
                    }
                }
            };
            return Ok(Some(UnwindRules { abi: self.abi, signal: fde.cie.signal, rules }));
        }
        Ok(None)
    }

    /// Where the caller's value of a register is while `pc` runs. `None`: no FDE covers `pc`, calls need not
    /// preserve the register, or its rule has no SFrame form.
    ///
    /// SFrame tracks only the stack pointer and the frame pointer. In a few frames the CFA counts from
    /// another register, and the functions that such a frame calls may save that register. `.eh_frame` says
    /// where.
    pub fn register_at(&self, pc: u64, register: Register) -> Option<RegisterRule> {
        if !is_kept(self.abi, register) {
            return None;
        }
        let frames = self.frames();
        let fde = self.fde_at(&frames, pc)?;
        let mut runner = Runner::default();
        let mut rows = runner.rows(&frames, &fde, Columns::of(self.abi, Some(register))).ok()?;
        loop {
            let row = rows.next_row().ok()??;
            if row.contains(pc) {
                return register_rule(&frames.section, row.register(register), Reason::FramePointer).ok();
            }
        }
    }

    /// The addresses around `pc` that no FDE covers. Empty: an FDE covers `pc`.
    pub fn gap_at(&self, pc: u64) -> Range<u64> {
        let frames = self.frames();
        let place = self.place(pc);
        let before = place.checked_sub(1).and_then(|before| Some(self.fde(&frames, before)?.end()));
        let after = self.start(place).unwrap_or(u64::MAX);
        match before.unwrap_or(0) {
            start if start <= pc => start..after,
            _ => pc..pc,
        }
    }

    /// The addresses that the FDE at `pc` covers. `None`: no FDE covers `pc`.
    pub fn range_at(&self, pc: u64) -> Option<Range<u64>> {
        let fde = self.fde_at(&self.frames(), pc)?;
        Some(fde.start..fde.end())
    }

    /// Steps from the frame at `pc` to its caller by everything that call frame information can say, which is
    /// more than rules can ([`FdeIndex::rules_at`]): it computes any expression. `None`: no FDE covers `pc`,
    /// or it has no row there.
    ///
    /// `topmost` and `read_word` are as in [`step`](crate::unwind::step()), and so is the result.
    pub fn step_at<F>(
        &self,
        pc: u64,
        topmost: bool,
        registers: &mut Registers,
        read_word: &mut F,
    ) -> Option<Result<Option<FrameAddress>, UnwindError>>
    where
        F: FnMut(u64) -> Result<u64, ()>,
    {
        let frames = self.frames();
        let fde = self.fde_at(&frames, pc)?;
        expect_return_column(self.abi, &fde).ok()?;
        let mut runner = Runner::default();
        let mut rows = runner.rows(&frames, &fde, Columns::of(self.abi, None)).ok()?;
        loop {
            let row = rows.next_row().ok()??;
            if row.contains(pc) {
                let at =
                    Place { abi: self.abi, section: &frames.section, pc, topmost, signal: fde.cie.signal };
                return Some(at.step(row, registers, read_word));
            }
        }
    }

    fn frames(&self) -> Frames<'_> {
        if self.debug {
            return Frames::of_debug(self.abi, &self.data);
        }
        Frames::new(self.abi, &self.data, self.address).with_text(self.text)
    }

    fn fde_at<'data>(&self, frames: &Frames<'data>, pc: u64) -> Option<Fde<'data>> {
        let fde = self.fde(frames, self.place(pc).checked_sub(1)?)?;
        fde.contains(pc).then_some(fde)
    }

    /// Number of the FDEs that start at or before `pc`.
    fn place(&self, pc: u64) -> usize {
        match &self.order {
            Order::Header(header) => header.place(pc),
            Order::List(list) => list.partition_point(|(range, _)| range.start <= pc),
        }
    }

    /// The start of the FDE at a place in the order.
    fn start(&self, place: usize) -> Option<u64> {
        match &self.order {
            Order::Header(header) => Some(header.entry(place)?.0),
            Order::List(list) => Some(list.get(place)?.0.start),
        }
    }

    /// The FDE at a place in the order.
    fn fde<'data>(&self, frames: &Frames<'data>, place: usize) -> Option<Fde<'data>> {
        let offset = match &self.order {
            Order::Header(header) => usize::try_from(header.entry(place)?.1).ok()?,
            Order::List(list) => list.get(place)?.1,
        };
        frames.fde(offset, None).ok()
    }

    /// Range and offset of every FDE, ascending. It omits malformed FDEs, and ends at an entry with a
    /// malformed length.
    fn list(&self) -> Vec<(Range<u64>, usize)> {
        let frames = self.frames();
        let (mut list, mut known): (Vec<_>, Option<Cie<'_>>) = Default::default();
        for record in frames.records().take_while(|record| !record.behind) {
            if let Ok(Some(fde)) = frames.entry(&record, known.as_ref()) {
                list.push((fde.start..fde.end(), fde.offset));
                known = Some(fde.cie);
            }
        }
        list.sort_by_key(|(range, _): &(Range<u64>, usize)| range.start);
        list
    }
}

/// Whether functions must preserve a register (x86-64 psABI 3.2.1, AAPCS64 6.1.1, s390x ABI 1.2.1).
/// `.eh_frame` does not describe other registers.
fn is_kept(abi: Abi, register: Register) -> bool {
    match abi {
        Abi::Amd64 => matches!(register, 3 | 6 | 12..=15),
        Abi::AArch64Little | Abi::AArch64Big => matches!(register, 19..=29),
        Abi::S390x => matches!(register, 6..=13),
    }
}
