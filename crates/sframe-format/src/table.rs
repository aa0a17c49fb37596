//! The rows of a section, decoded and laid out by address.
//!
//! A look-up in a section waits for memory several times, and each access needs the result of the one before:
//! the function, its attribute, its rows one after the other. Then it decodes the row. A profiler asks the
//! same module many times, so it pays to do that work once. In the table, every row takes four bytes: the low
//! bits of its address, and the number of its rules. Even large programs have only a few hundred different
//! rules. For each block of text, the table knows the first row that starts in it. So a look-up reads one
//! element of `blocks`, the few rows of one block, and the rules.
//!
//! ```text
//! address ─► blocks[offset >> shift] ─► rows: (start within the block, number) … ─► rules[number]
//! ```
//!
//! The table gives the same rules as the section. Some rows do not fit its form (repeating rows of PLTs,
//! functions that overlap or are malformed). The table leaves these to [`SectionIndex`].

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Deref;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::blob::Blob;
use crate::decoded::Decoded;
use crate::fde::Fde;
use crate::fre::{Attributes, Fre, PcType};
use crate::index::SectionIndex;
use crate::packed::{Kind, Packed};
use crate::rules::UnwindRules;

/// Stands in the place of a number of rules: no function covers the address, or its function has no row
/// there.
const NO_ROW: u16 = 0;
/// Stands in the place of a number of rules: only the section itself knows. No rules have this number.
const ELSEWHERE: u16 = u16::MAX;
/// Average number of rows in a block.
const ROWS_PER_BLOCK: u64 = 8;
/// Number of blocks that a section of any size may have. They take 256 KiB.
const MIN_BLOCK_LIMIT: u64 = 1 << 16;

/// Rules by address.
///
/// Making one is a walk over all rows, at some 15 ns for each. It takes about five bytes for a row, or less
/// if neighbours have the same rules. Whatever the section claims, it takes at most six bytes for each byte
/// of the section, 256 KiB, and the room for its different rules (65,534 at most). A look-up allocates
/// nothing.
#[derive(Clone, Debug)]
pub struct RuleTable {
    /// Address of the first function.
    first: u64,
    /// A block has `1 << shift` bytes.
    shift: u32,
    /// The first row that starts in each block or later. One more element holds the number of rows.
    blocks: Vec<u32>,
    /// Rows by address. The first row is in no block.
    rows: Vec<TableRow>,
    /// By number, from 1 on.
    rules: Vec<Packed>,
    /// The rules that do not fit a word.
    kept: Vec<UnwindRules>,
}

#[derive(Clone, Copy, Debug)]
struct TableRow {
    /// Bytes from the start of its block.
    start: u16,
    /// The number of its rules.
    rules: u16,
}

/// The answer of a [`RuleTable`] for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableAnswer {
    /// The rules of the row that holds there.
    Row(UnwindRules),
    /// No row covers the address.
    NoRow,
    /// The table does not know. [`SectionIndex::lookup`] does.
    Elsewhere,
}

impl RuleTable {
    /// Lays out the rows of the section of `index`. `None`: the section has no functions, they do not ascend
    /// as it claims, or they are so far apart that the table would exceed the size stated above.
    pub fn new<D: Deref<Target = [u8]>>(index: &SectionIndex<D>) -> Option<Self> {
        let mut builder = Builder::new(index)?;
        let mut last = None;
        index.for_each_function(|blob, fde| {
            if let Some((last_blob, last_fde)) = last.replace((*blob, fde)) {
                builder.add(&last_blob, &last_fde, Some(fde.address));
            }
        });
        let (blob, fde) = last?;
        builder.add(&blob, &fde, None);
        builder.finish()
    }

    /// The rules at `address`.
    #[inline]
    pub fn find(&self, address: u64) -> TableAnswer {
        let Some(packed) = self.packed_at(address) else { return TableAnswer::Elsewhere };
        let rules = match packed.kind() {
            Kind::Kept(place) => self.kept.get(place).copied(),
            _ => packed.unpack(),
        };
        rules.map_or(TableAnswer::NoRow, TableAnswer::Row)
    }

    /// The rules at `address` as a word. `None`: the table does not know. [`RuleTable::kept`] finds rules of
    /// [`Kind::Kept`].
    #[inline]
    pub(crate) fn packed_at(&self, address: u64) -> Option<Packed> {
        match self.number_at(address) {
            None | Some(NO_ROW) => Some(Packed::NO_ROW),
            Some(number) => self.rules.get(usize::from(number) - 1).copied(),
        }
    }

    /// Rules that do not fit a word.
    #[inline]
    pub(crate) fn kept(&self, place: usize) -> Option<&UnwindRules> {
        self.kept.get(place)
    }

    #[inline]
    fn number_at(&self, address: u64) -> Option<u16> {
        let offset = address.checked_sub(self.first)?;
        let block = usize::try_from(offset >> self.shift).ok()?;
        let &[low, high] = self.blocks.get(block..)?.first_chunk()?;
        let within = within_block(offset, self.shift);
        let rows = self.rows.get(low as usize..high as usize)?;
        let passed = rows.iter().filter(|row| row.start <= within).count();
        // Up to the block's first row, the row before it holds.
        self.rows.get((low as usize + passed).checked_sub(1)?).map(|row| row.rules)
    }

    /// Bytes of memory that the table uses.
    pub fn size(&self) -> usize {
        size_of_val(&*self.blocks)
            + size_of_val(&*self.rows)
            + size_of_val(&*self.rules)
            + size_of_val(&*self.kept)
    }
}

#[inline]
fn within_block(offset: u64, shift: u32) -> u16 {
    (offset & ((1 << shift) - 1)) as u16
}

/// The number of `rules`. New rules get a new number. `None`: there are too many different rules.
fn number(
    table: &mut RuleTable,
    numbers: &mut HashMap<UnwindRules, u16, FixedState>,
    rules: UnwindRules,
) -> Option<u16> {
    let next = u16::try_from(table.rules.len() + 1).ok().filter(|&next| next != ELSEWHERE);
    if let Some(&number) = numbers.get(&rules) {
        return Some(number);
    }
    numbers.insert(rules, next?);
    let packed = Packed::new(&rules).unwrap_or_else(|| {
        table.kept.push(rules);
        Packed::kept(table.kept.len() - 1)
    });
    table.rules.push(packed);
    next
}

/// A table under construction. Offsets count from the first function.
struct Builder {
    table: RuleTable,
    numbers: HashMap<UnwindRules, u16, FixedState>,
    decoded: Decoded,
    /// The number of the last row.
    last: u16,
    /// Number of rows that may still be read. Functions that share rows could claim any number.
    rows_left: usize,
    most_blocks: u64,
    /// The largest end of a function so far.
    covered: u64,
    /// Whether the functions do not ascend, or would need too many blocks.
    failed: bool,
    /// The rows of one function: their starts and numbers.
    rows: Vec<(u32, u16)>,
}

impl Builder {
    fn new<D: Deref<Target = [u8]>>(index: &SectionIndex<D>) -> Option<Self> {
        let size = index.section().data().len().min(u32::MAX as usize / 2);
        let (mut first, mut end) = (None, 0);
        index.for_each_function(|_, fde| {
            first = first.or(Some(fde.address));
            end = fde.address.saturating_add(fde.size.into());
        });
        let first = first?;
        let rows: u64 = index.section().blobs().map(|blob| u64::from(blob.header().fre_count)).sum();
        let bytes_per_row = end.checked_sub(first)? / rows.clamp(1, size as u64);
        let shift = bytes_per_row.saturating_mul(ROWS_PER_BLOCK).max(2).ilog2().min(16);
        let before = TableRow { start: 0, rules: NO_ROW };
        Some(Self {
            table: RuleTable {
                first,
                shift,
                blocks: Vec::new(),
                rows: vec![before],
                rules: Vec::new(),
                kept: Vec::new(),
            },
            numbers: HashMap::default(),
            decoded: Decoded::default(),
            last: NO_ROW,
            rows_left: size,
            most_blocks: size as u64 / 4 + MIN_BLOCK_LIMIT,
            covered: 0,
            failed: false,
            rows: Vec::new(),
        })
    }

    /// Adds a function. `next` is the address of the function after it.
    fn add(&mut self, blob: &Blob<'_>, fde: &Fde, next: Option<u64>) {
        let offset = |address: u64| address.checked_sub(self.table.first);
        let (start, end) = (offset(fde.address), fde.address.checked_add(fde.size.into()).and_then(offset));
        let next = next.map_or(Some(u64::MAX), offset);
        let (Some(start), Some(end), Some(next)) = (start, end, next) else {
            self.failed = true;
            return;
        };
        self.failed |= next < start;
        let overlaps = start < self.covered || next < end;
        if overlaps || self.read_rows(blob, fde).is_none() {
            self.push(start, ELSEWHERE);
        } else {
            for index in 0..self.rows.len() {
                let (row, number) = self.rows[index];
                self.push(start + u64::from(row), number);
            }
        }
        self.covered = self.covered.max(end);
        if self.covered < next {
            self.push(self.covered, NO_ROW);
        }
    }

    /// Reads the rows of a function. `None`: they do not fit a table.
    fn read_rows(&mut self, blob: &Blob<'_>, fde: &Fde) -> Option<()> {
        self.decoded.enter(blob);
        let attributes = blob.attributes(fde).ok()?;
        self.rows_left = self.rows_left.checked_sub(attributes.fre_count as usize)?;
        self.rows.clear();
        self.rows.push((0, NO_ROW));
        if attributes.pc_type == PcType::Mask {
            return None;
        }
        if attributes.fre_count == 0
            && let Some(rules) = blob.rules_without_rows(&attributes)
        {
            let rules = UnwindRules { abi: blob.header().abi, signal: attributes.signal, rules };
            self.rows[0].1 = number(&mut self.table, &mut self.numbers, rules)?;
        }
        for fre in blob.fres(&attributes) {
            let fre = fre.ok()?;
            let start = fre.start;
            if start >= fde.size {
                break;
            }
            let number = self.number_of_row(blob, &attributes, &fre)?;
            match self.rows.last_mut()? {
                (0, first @ NO_ROW) if start == 0 => *first = number,
                &mut (previous, _) if start <= previous => return None,
                _ => self.rows.push((start, number)),
            }
        }
        Some(())
    }

    /// The number of a row's rules. `None`: the row is malformed, or there are too many different rules.
    fn number_of_row(&mut self, blob: &Blob<'_>, attributes: &Attributes, fre: &Fre<'_>) -> Option<u16> {
        let Self { table, numbers, decoded, .. } = self;
        let number = |rules| number(table, numbers, rules).map(u32::from);
        decoded.number(blob, attributes, fre, number).map(|number| number as u16)
    }

    /// Adds a row: the rules `number` hold from `offset` on.
    fn push(&mut self, offset: u64, number: u16) {
        let RuleTable { shift, blocks, rows, .. } = &mut self.table;
        // Neighbours with the same rules become one row.
        if number == self.last || self.failed {
            return;
        }
        let block = offset >> *shift;
        if block >= self.most_blocks {
            self.failed = true;
            return;
        }
        blocks.resize(blocks.len().max(block as usize + 1), rows.len() as u32);
        rows.push(TableRow { start: within_block(offset, *shift), rules: number });
        self.last = number;
    }

    fn finish(mut self) -> Option<RuleTable> {
        self.table.blocks.push(self.table.rows.len() as u32);
        (!self.failed).then_some(self.table)
    }
}
