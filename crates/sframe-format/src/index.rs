//! One look-up over all blobs of a section, made once and asked often.

use alloc::vec::Vec;
use core::ops::Deref;

use crate::abi::Abi;
use crate::blob::{Blob, Gap, Piece, Section};
use crate::error::Error;
use crate::fde::Fde;
use crate::header::Header;
use crate::lookup::{Match, last_that_holds};
use crate::rules::Rules;

/// Finds rows in a section of any number of blobs.
///
/// Making it costs nothing but a header's parsing for one sorted blob, one step per blob when all blobs are sorted
/// and none overlaps another, and one per function and a sort otherwise. Looking up allocates nothing. `D` holds the
/// bytes: a slice, a vector, a mapped file, or a shared pointer to one.
#[derive(Clone, Debug)]
pub struct SectionIndex<D> {
    data: D,
    address: u64,
    order: Order,
    gaps: Vec<Gap>,
}

#[derive(Clone, Debug)]
enum Order {
    /// One sorted blob at the start of the section; its header.
    One(Header),
    /// The same with a page table.
    Paged(Header, Pages),
    /// First address of each sorted blob, ascending, and the blobs in the same order.
    Blobs(Vec<u64>, Vec<Place>),
    /// Address, number of the blob and FDE index of every function that is not empty, ascending; the blobs.
    Functions(Vec<(u64, u32, u32)>, Vec<Place>),
}

/// Offset and header of a blob: it is parsed once.
type Place = (usize, Header);

impl<D: Deref<Target = [u8]>> SectionIndex<D> {
    /// Walks over the section with the bytes `data` at `address` and indexes what it finds.
    ///
    /// ```
    /// use sframe_format::SectionIndex;
    /// let index = SectionIndex::new(b"not SFrame at all".as_slice(), 0x1000);
    /// assert_eq!(index.gaps().len(), 1);
    /// assert_eq!(index.lookup(0x1000), Ok(None));
    /// ```
    pub fn new(data: D, address: u64) -> Self {
        let section = Section::new(&data, address);
        let (order, gaps) = match section.blob_at(0) {
            Ok(blob) if blob.header().is_sorted() && blob.data().len() == data.len() => {
                (Order::One(*blob.header()), Vec::new())
            }
            _ => order(&section),
        };
        Self { data, address, order, gaps }
    }

    /// The same index with a page table, if the section is one sorted blob (else unchanged): for each block of text
    /// the first function in it. Making it costs a walk over all functions, and about 14 bytes for each; look-ups in large
    /// tables then take few steps in place of a bisection. Pays from some thousands of look-ups on.
    #[must_use]
    pub fn with_pages(mut self) -> Self {
        if let Order::One(header) = self.order
            && let Some(pages) = Pages::new(&self.section().blob_with(header, 0))
        {
            self.order = Order::Paged(header, pages);
        }
        self
    }

    /// The section.
    pub fn section(&self) -> Section<'_> {
        Section::new(&self.data, self.address)
    }

    /// What could not be read.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// The blob and the FDE whose function holds the address `pc`.
    pub fn find(&self, pc: u64) -> Option<(Blob<'_>, Fde)> {
        self.find_with(pc, |blob, fde| (*blob, fde))
    }

    /// Hands what [`SectionIndex::find`] finds to `take`, without moving it.
    #[inline]
    fn find_with<'index, R>(&'index self, pc: u64, take: impl FnOnce(&Blob<'index>, Fde) -> R) -> Option<R> {
        match &self.order {
            Order::One(header) => {
                let blob = self.section().blob_with(*header, 0);
                Some(take(&blob, blob.find_fde_between(0, header.fde_count, pc)?))
            }
            Order::Paged(header, pages) => {
                let blob = self.section().blob_with(*header, 0);
                Some(take(&blob, pages.find(&blob, pc)?))
            }
            Order::Blobs(..) | Order::Functions(..) => {
                let (blob, fde) = self.find_among_blobs(pc)?;
                Some(take(&blob, fde))
            }
        }
    }

    fn find_among_blobs(&self, pc: u64) -> Option<(Blob<'_>, Fde)> {
        let blob = |&(offset, header): &Place| self.section().blob_with(header, offset);
        match &self.order {
            Order::Blobs(starts, blobs) => {
                let place = starts.partition_point(|&first| first <= pc).checked_sub(1)?;
                let blob = blob(blobs.get(place)?);
                Some((blob, blob.find_fde(pc)?))
            }
            Order::Functions(functions, blobs) => {
                let end = functions.partition_point(|&(address, ..)| address <= pc);
                let &(start, ..) = functions.get(end.checked_sub(1)?)?;
                // Several functions may start at one address; readers take any that covers `pc`.
                let same = functions.get(..end)?.iter().rev().take_while(|entry| entry.0 == start);
                let mut found = same.filter_map(|&(_, number, index)| {
                    let blob = blob(blobs.get(number as usize)?);
                    Some((blob, blob.fde(index)?))
                });
                found.find(|(_, fde)| pc.wrapping_sub(fde.address) < fde.size.into())
            }
            _ => None,
        }
    }

    /// The row that holds at the address `pc`.
    ///
    /// # Errors
    /// The function that covers `pc` is malformed.
    #[inline]
    pub fn lookup(&self, pc: u64) -> Result<Option<Match>, Error> {
        self.find_with(pc, |blob, fde| blob.lookup_in(fde, pc)).unwrap_or(Ok(None))
    }

    /// What unwinding from the address `pc` needs: writes the rules of its row, and returns the architecture and the
    /// signal bit of its function.
    #[inline]
    pub(crate) fn rules_into(&self, pc: u64, rules: &mut Rules) -> Result<Option<(Abi, bool)>, Error> {
        let find = |blob: &Blob<'_>, fde: Fde| {
            let attributes = blob.attributes(&fde)?;
            let start = blob.row_into(&fde, &attributes, pc.wrapping_sub(fde.address), rules)?;
            Ok(start.map(|_| (blob.header().abi, attributes.signal)))
        };
        self.find_with(pc, find).unwrap_or(Ok(None))
    }
}

/// The functions of a sorted blob, packed, and for each block of text the first of them.
///
/// A look-up in a large table waits for memory, each access for the one before it: the block, the function, its rows.
/// Packed functions are fewer cache lines than the FDEs they come from.
#[derive(Clone, Debug)]
struct Pages {
    /// Address of the first function.
    first: u64,
    /// Blocks are `1 << shift` bytes.
    shift: u32,
    /// The first function that starts in each block or later, and one more element: their number.
    blocks: Vec<u32>,
    /// By FDE index.
    functions: Vec<Function>,
}

/// What a look-up needs of an FDE.
#[derive(Clone, Copy, Debug)]
struct Function {
    /// Bytes from the first function.
    start: u32,
    size: u32,
    fre_offset: u32,
}

impl Pages {
    /// About two functions to a block. `None` for a blob whose functions do not ascend after all, or reach over more
    /// than 4 GiB.
    fn new(blob: &Blob<'_>) -> Option<Self> {
        let count = blob.header().fde_count;
        let first = blob.function_address(0)?;
        let span = u32::try_from(blob.function_address(count.checked_sub(1)?)?.checked_sub(first)?).ok()?;
        let shift = (span / count).max(1).ilog2() + 1;
        let mut blocks = Vec::with_capacity((span >> shift) as usize + 2);
        let mut functions = Vec::<Function>::with_capacity(count as usize);
        for fde in blob.fdes() {
            let start = u32::try_from(fde.address.checked_sub(first)?).ok().filter(|&start| start <= span)?;
            if functions.last().is_some_and(|last| last.start > start) {
                return None;
            }
            // Blocks up to this function's that none before it started in.
            while blocks.len() <= (start >> shift) as usize {
                blocks.push(fde.index);
            }
            functions.push(Function { start, size: fde.size, fre_offset: fde.fre_offset });
        }
        blocks.push(count);
        Some(Self { first, shift, blocks, functions })
    }

    /// The function that holds the address `pc`.
    #[inline]
    fn find(&self, blob: &Blob<'_>, pc: u64) -> Option<Fde> {
        let offset = pc.checked_sub(self.first)?;
        // The last block has an end of its own behind it; what lies beyond belongs to the last function.
        let block = ((offset >> self.shift) as usize).min(self.blocks.len().checked_sub(2)?);
        let (low, high) = (*self.blocks.get(block)?, *self.blocks.get(block + 1)?);
        let low = low.saturating_sub(1) as usize;
        let starts = |index: usize| self.functions.get(index).is_some_and(|it| u64::from(it.start) <= offset);
        let index = last_that_holds(low..high as usize, starts)?;
        let function = self.functions.get(index)?;
        if offset - u64::from(function.start) < function.size.into() {
            return function.fde(blob, index as u32, self.first);
        }
        blob.find_fde_with_start_of(&blob.fde(index as u32)?, pc)
    }
}

impl Function {
    #[inline]
    fn fde(&self, blob: &Blob<'_>, index: u32, first: u64) -> Option<Fde> {
        Fde::assemble(blob, index, first + u64::from(self.start), self.size, self.fre_offset)
    }
}

fn order(section: &Section<'_>) -> (Order, Vec<Gap>) {
    let (mut blobs, mut gaps) = (Vec::new(), Vec::new());
    for piece in section.pieces() {
        match piece {
            Piece::Blob(blob) => blobs.push(blob),
            Piece::Gap(gap) => gaps.push(gap),
        }
    }
    (order_of_blobs(&blobs).unwrap_or_else(|| order_of_functions(&blobs)), gaps)
}

/// The blobs by first address, if all are sorted and none reaches into the next.
fn order_of_blobs(blobs: &[Blob<'_>]) -> Option<Order> {
    let mut ranges = Vec::with_capacity(blobs.len());
    for blob in blobs.iter().filter(|blob| blob.header().fde_count != 0) {
        if !blob.header().is_sorted() {
            return None;
        }
        let last = blob.fde(blob.header().fde_count - 1)?;
        let end = last.address.checked_add(last.size.into())?;
        ranges.push((blob.function_address(0)?, end, (blob.offset(), *blob.header())));
    }
    ranges.sort_unstable_by_key(|&(first, end, (offset, _))| (first, end, offset));
    let disjoint = ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0);
    let (starts, places) = ranges.iter().map(|&(first, _, place)| (first, place)).unzip();
    disjoint.then_some(Order::Blobs(starts, places))
}

fn order_of_functions(blobs: &[Blob<'_>]) -> Order {
    let mut functions = Vec::new();
    for (number, blob) in (0..).zip(blobs) {
        let live = blob.fdes().filter(|fde| fde.size != 0);
        functions.extend(live.map(|fde| (fde.address, number, fde.index)));
    }
    functions.sort_unstable();
    Order::Functions(functions, blobs.iter().map(|blob| (blob.offset(), *blob.header())).collect())
}
