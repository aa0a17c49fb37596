//! Makes `.eh_frame_hdr` and `.eh_frame` of a whole table (LSB, "Exception Frames"), for unwinders that find
//! frames only by program headers: LLVM's libunwind, and libgcc before version 12 in shared libraries.
//!
//! ```text
//! 0   version 1, forms, distance to the frames, number of pairs
//! 12  pairs: distances from 0 to a function and to its FDE, ascending; kept FDEs are among them
//!     CIEs and FDEs, and the zero word that ends them
//! ```
//!
//! Pairs have twice 4 bytes if the code is near enough, else twice 8. LLVM's libunwind bisects both; libgcc
//! reads FDEs one after the other if they have 8.
//!
//! A first pass with the same code counts the bytes.

use core::iter::Peekable;

use sframe_format::abi::Register;
use sframe_format::cfi::Saved;
use sframe_format::compact::{Handler, Piece, Pieces, WholeRules};
use sframe_format::{Abi, CompactTable};

use crate::emit::{Emit, NEGATE_SIGNED, SIZE_OF_ARGUMENTS};
use crate::search_table::Pairs;

/// Where the pairs begin.
const HEAD: usize = 12;
/// What offsets are divided by.
const FACTOR: i64 = -1;
/// CIEs that are remembered, so that FDEs share them.
const CIES: usize = 16;
/// Registers of a row.
const MOST_REGISTERS: usize = 36;

/// How large an expanded table is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    pairs: usize,
    records: usize,
    /// The lowest address that pairs lead to, and the highest.
    pub bounds: (u64, u64),
}

impl Measured {
    /// What expanding a table takes. `None`: the table is damaged.
    pub fn of(table: &CompactTable<&[u8]>, kept: Option<Pairs>) -> Option<Self> {
        let mut writer = Writer::new(table.header().abi, kept, Out::default(), Out::default());
        writer.all(table)?;
        let measured = writer.measured;
        Some(Self { records: writer.records.length, ..measured })
    }

    fn reach(&mut self, address: u64) {
        let (low, high) = self.bounds;
        self.bounds = (low.min(address), high.max(address));
    }

    /// Bytes of an expanded table at this address.
    pub fn bytes(&self, at: u64) -> usize {
        let width = if self.is_near(at) { 8 } else { 16 };
        self.records.saturating_add(self.pairs.saturating_mul(width)).saturating_add(HEAD)
    }

    /// Whether four bytes reach from an expanded table at this address to the code.
    pub fn is_near(&self, at: u64) -> bool {
        let reaches = |address: u64| i32::try_from(address.wrapping_sub(at) as i64).is_ok();
        let own_end = at.saturating_add((HEAD + self.records + self.pairs * 16) as u64);
        reaches(self.bounds.0) && reaches(self.bounds.1) && reaches(own_end)
    }
}

/// Expands a table into `out`, which will be at the address `at`. `None`: the table is another one than the
/// one that was measured.
pub fn expand(
    table: &CompactTable<&[u8]>,
    kept: Option<Pairs>,
    measured: &Measured,
    at: u64,
    out: &mut [u8],
) -> Option<()> {
    let is_near = measured.is_near(at);
    let (head, rest) = out.split_at_mut_checked(HEAD)?;
    let (pairs, records) =
        rest.split_at_mut_checked(measured.pairs.checked_mul(if is_near { 8 } else { 16 })?)?;
    let distance = u32::try_from(HEAD + pairs.len() - 4).ok()?;
    // DW_EH_PE_pcrel | DW_EH_PE_sdata4, DW_EH_PE_udata4, DW_EH_PE_datarel | DW_EH_PE_sdata4 or sdata8.
    let mut start = Out::to(head, 0);
    start.put(&[1, 0x1b, 0x03, if is_near { 0x3b } else { 0x3c }])?;
    start.word32(distance)?;
    start.word32(u32::try_from(measured.pairs).ok()?)?;
    let at_records = at.wrapping_add((HEAD + pairs.len()) as u64);
    let (pairs, records) = (Out::to(pairs, at), Out::to(records, at_records));
    let mut writer = Writer::new(table.header().abi, kept, pairs, records);
    writer.is_near = is_near;
    writer.all(table)?;
    (writer.measured.pairs == measured.pairs && writer.records.length == measured.records).then_some(())
}

/// Memory, or a count of bytes.
#[derive(Default)]
struct Out<'out> {
    bytes: Option<&'out mut [u8]>,
    length: usize,
    /// The address of the first byte.
    at: u64,
}

impl<'out> Out<'out> {
    fn to(bytes: &'out mut [u8], at: u64) -> Self {
        Self { bytes: Some(bytes), length: 0, at }
    }
}

impl Emit for Out<'_> {
    fn length(&self) -> usize {
        self.length
    }

    fn put_at(&mut self, start: usize, bytes: &[u8]) -> Option<()> {
        if let Some(out) = &mut self.bytes {
            let room = out.get_mut(start..start.checked_add(bytes.len())?)?;
            for (place, byte) in room.iter_mut().zip(bytes) {
                *place = *byte;
            }
        }
        Some(())
    }

    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.put_at(self.length, bytes)?;
        self.length = self.length.checked_add(bytes.len())?;
        Some(())
    }
}

/// What holds in a row. There are two, so that none is copied.
struct State {
    cfa: (Register, i64),
    /// Ascending by register.
    registers: [(Register, Saved); MOST_REGISTERS],
    count: usize,
    signed: bool,
    args_size: u32,
}

impl State {
    const NONE: Self = Self {
        cfa: (0, 0),
        registers: [(0, Saved::Undefined); MOST_REGISTERS],
        count: 0,
        signed: false,
        args_size: 0,
    };

    /// Takes over rules. `None`: there are too many registers.
    fn take(&mut self, abi: Abi, rules: &WholeRules<'_>) -> Option<()> {
        self.cfa = (rules.cfa_register, rules.cfa_offset);
        (self.count, self.signed, self.args_size) = (0, rules.signed, rules.args_size);
        for (register, saved) in rules.registers(abi) {
            let known = self.registers.get(..self.count)?;
            let place = known.iter().rposition(|known| known.0 < register).map_or(0, |before| before + 1);
            self.registers.get_mut(place..=self.count)?.rotate_right(1);
            *self.registers.get_mut(place)? = (register, saved);
            self.count += 1;
        }
        Some(())
    }

    fn is(&self, other: &Self) -> bool {
        let rest = |state: &Self| (state.cfa, state.signed, state.args_size);
        rest(self) == rest(other) && self.registers() == other.registers()
    }

    fn registers(&self) -> &[(Register, Saved)] {
        self.registers.get(..self.count).unwrap_or_default()
    }
}

/// An FDE that is being written.
struct Open {
    /// The number of the entry at which its function starts.
    entry: u32,
    /// Where it is.
    record: usize,
    start: u64,
    /// The address that its instructions have reached, and what holds there.
    row: u64,
    /// Whether it has a row.
    begun: bool,
    /// Where the last row ends.
    end: u64,
}

/// What tells CIEs from each other: the handler without its data, signal frame, key B.
type CieKind = (Option<Handler>, bool, bool);

struct Writer<'out> {
    abi: Abi,
    kept: Option<Pairs>,
    /// Kept pairs that were written.
    kept_before: usize,
    pairs: Out<'out>,
    records: Out<'out>,
    is_near: bool,
    measured: Measured,
    open: Option<Open>,
    /// What holds in the last row and in the next one.
    states: [State; 2],
    /// Whether the first of them is that of the last row.
    is_first: bool,
    cies: [Option<(CieKind, usize)>; CIES],
    next_cie: usize,
}

impl<'out> Writer<'out> {
    fn new(abi: Abi, kept: Option<Pairs>, pairs: Out<'out>, records: Out<'out>) -> Self {
        let measured = Measured { bounds: (u64::MAX, 0), ..Measured::default() };
        Self {
            abi,
            kept,
            kept_before: 0,
            pairs,
            records,
            is_near: true,
            measured,
            open: None,
            states: [State::NONE, State::NONE],
            is_first: true,
            cies: [None; CIES],
            next_cie: 0,
        }
    }

    fn all(&mut self, table: &CompactTable<&[u8]>) -> Option<()> {
        let mut pieces = table.pieces().peekable();
        while let Some(piece) = pieces.next() {
            self.piece(&piece, &mut pieces)?;
        }
        self.close()?;
        self.kept_until(None)?;
        self.records.word32(0)
    }

    /// Writes the rows of an entry, as far as the next one.
    fn piece(&mut self, piece: &Piece<'_>, later: &mut Peekable<Pieces<'_>>) -> Option<()> {
        let (first, size) = (piece.first().ok()?, piece.size().ok()?);
        let mut end = piece.address.checked_add(size.into())?;
        if let Some(next) = later.peek() {
            end = end.min(next.address);
        }
        if self.open.as_ref().is_some_and(|open| open.entry != first) {
            self.close()?;
        }
        let handler = if first == piece.number { piece.handler().ok()? } else { None };
        let mut start = piece.address;
        while start < end {
            for row in piece.whole_rows() {
                let row = row.ok()?;
                let at = start.wrapping_add(row.start.into());
                if at >= end {
                    break;
                }
                let after = at.checked_add(row.size.into())?.min(end);
                match row.rules {
                    Some(rules) => self.row(first, handler, (at, after), &rules)?,
                    None => self.close()?,
                }
            }
            match piece.repeat_size() {
                Some(repeat) => start = start.wrapping_add(repeat.max(1).into()),
                None => break,
            }
        }
        Some(())
    }

    fn row(
        &mut self,
        entry: u32,
        handler: Option<Handler>,
        (at, end): (u64, u64),
        rules: &WholeRules<'_>,
    ) -> Option<()> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.begin(entry, at, handler, rules)?,
        };
        let [first, second] = &mut self.states;
        let (before, now) = if self.is_first { (first, second) } else { (second, first) };
        now.take(self.abi, rules)?;
        let before = open.begun.then_some(&*before);
        if before.is_none_or(|before| !before.is(now)) {
            self.records.advance(at.checked_sub(open.row)?)?;
            self.records.change(before, now)?;
            (open.row, open.begun) = (at, true);
            self.is_first = !self.is_first;
        }
        open.end = end;
        self.open = Some(open);
        Some(())
    }

    /// Begins an FDE.
    fn begin(
        &mut self,
        entry: u32,
        start: u64,
        handler: Option<Handler>,
        rules: &WholeRules<'_>,
    ) -> Option<Open> {
        let kind = handler.map(|handler| Handler { lsda: None, ..handler });
        let cie = self.cie((kind, rules.signal, rules.key_b))?;
        self.kept_until(Some(start))?;
        let record = self.records.length;
        self.pair(start, self.records.at.wrapping_add(record as u64))?;
        self.records.word32(0)?;
        self.records.word32(u32::try_from(self.records.length - cie).ok()?)?;
        self.records.word64(start)?;
        self.records.word64(0)?;
        match handler {
            Some(handler) => {
                self.records.byte(8)?;
                self.records.word64(handler.lsda.unwrap_or(0))?;
            }
            None => self.records.byte(0)?,
        }
        Some(Open { entry, record, start, row: start, begun: false, end: start })
    }

    /// Finishes the FDE that is being written.
    fn close(&mut self) -> Option<()> {
        let Some(open) = self.open.take() else { return Some(()) };
        self.records.put_at(open.record + 16, &open.end.wrapping_sub(open.start).to_ne_bytes())?;
        self.records.finish(open.record)
    }

    /// The place of a CIE of this kind.
    fn cie(&mut self, kind: CieKind) -> Option<usize> {
        let known = self.cies.iter().flatten().find(|(known, _)| *known == kind);
        if let Some(&(_, place)) = known {
            return Some(place);
        }
        let start = self.records.length;
        self.records.word32(0)?;
        let (handler, signal, key_b) = kind;
        self.records.cie_head(self.abi, handler, (signal, key_b), FACTOR)?;
        self.records.finish(start)?;
        *self.cies.get_mut(self.next_cie % CIES)? = Some((kind, start));
        self.next_cie += 1;
        Some(start)
    }

    /// Writes the pairs of kept FDEs of code before this address.
    fn kept_until(&mut self, start: Option<u64>) -> Option<()> {
        let Some(kept) = self.kept else { return Some(()) };
        while let Some([function, fde]) = kept.get(self.kept_before) {
            if start.is_some_and(|start| function >= start) {
                break;
            }
            self.kept_before += 1;
            self.measured.reach(fde);
            self.pair(function, fde)?;
        }
        Some(())
    }

    fn pair(&mut self, function: u64, fde: u64) -> Option<()> {
        // Where the records will be is not known while bytes are counted; they are near the pairs.
        let counts = self.pairs.bytes.is_none();
        self.measured.reach(function);
        self.measured.pairs += 1;
        for address in [function, fde] {
            let distance = address.wrapping_sub(self.pairs.at) as i64;
            match (self.is_near, counts) {
                (_, true) => {}
                (true, false) => self.pairs.word32(i32::try_from(distance).ok()? as u32)?,
                (false, false) => self.pairs.word64(distance as u64)?,
            }
        }
        Some(())
    }
}

impl Out<'_> {
    /// Goes on to the address of the next row.
    fn advance(&mut self, bytes: u64) -> Option<()> {
        match u32::try_from(bytes).ok()? {
            0 => Some(()),
            // DW_CFA_advance_loc, _loc1, _loc2, _loc4
            bytes @ 1..0x40 => self.byte(0x40 | bytes as u8),
            bytes @ 0x40..0x100 => self.put(&[0x02, bytes as u8]),
            bytes @ 0x100..0x1_0000 => {
                self.byte(0x03)?;
                self.put(&(bytes as u16).to_ne_bytes())
            }
            bytes => {
                self.byte(0x04)?;
                self.word32(bytes)
            }
        }
    }

    /// The instructions that lead from one row to the next.
    fn change(&mut self, before: Option<&State>, now: &State) -> Option<()> {
        if before.is_none_or(|before| before.cfa != now.cfa) {
            self.cfa(now.cfa.0, now.cfa.1, FACTOR)?;
        }
        let mut earlier = before.map_or(&[][..], State::registers).iter().peekable();
        for &(register, saved) in now.registers() {
            while let Some(gone) = earlier.next_if(|before| before.0 < register) {
                self.restore(gone.0)?;
            }
            let same = earlier.next_if(|before| before.0 == register);
            if same.is_none_or(|before| before.1 != saved) {
                self.register(register, saved, FACTOR)?;
            }
        }
        for gone in earlier {
            self.restore(gone.0)?;
        }
        if before.is_some_and(|before| before.signed) != now.signed {
            self.byte(NEGATE_SIGNED)?;
        }
        if before.map_or(0, |before| before.args_size) != now.args_size {
            self.byte(SIZE_OF_ARGUMENTS)?;
            self.unsigned(now.args_size.into())?;
        }
        Some(())
    }

    /// A register is what it was in the CIE: unchanged.
    fn restore(&mut self, register: Register) -> Option<()> {
        match u8::try_from(register) {
            // DW_CFA_restore, DW_CFA_restore_extended
            Ok(register @ 0..64) => self.byte(0xc0 | register),
            _ => {
                self.byte(0x06)?;
                self.unsigned(register.into())
            }
        }
    }
}
