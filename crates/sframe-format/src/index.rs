//! One look-up over all blobs of a section, made once and asked often.

use alloc::vec::Vec;
use core::ops::Deref;

use crate::blob::{Blob, Gap, Piece, Section};
use crate::error::Error;
use crate::lookup::Match;

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
    /// One sorted blob at the start of the section.
    One,
    /// First address and offset of each sorted blob, ascending.
    Blobs(Vec<(u64, usize)>),
    /// Address, offset of the blob and FDE index of every function that is not empty, ascending.
    Functions(Vec<(u64, usize, u32)>),
}

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
                (Order::One, Vec::new())
            }
            _ => order(&section),
        };
        Self { data, address, order, gaps }
    }

    /// The section.
    pub fn section(&self) -> Section<'_> {
        Section::new(&self.data, self.address)
    }

    /// What could not be read.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// The blob and the index of the FDE whose function holds the address `pc`.
    #[inline]
    pub fn find(&self, pc: u64) -> Option<(Blob<'_>, u32)> {
        match &self.order {
            Order::One => {
                let blob = self.section().blob_at(0).ok()?;
                Some((blob, blob.find_fde(pc)?))
            }
            Order::Blobs(order) => {
                let place = order.partition_point(|&(first, _)| first <= pc).checked_sub(1)?;
                let blob = self.section().blob_at(order.get(place)?.1).ok()?;
                Some((blob, blob.find_fde(pc)?))
            }
            Order::Functions(order) => {
                let end = order.partition_point(|&(address, ..)| address <= pc);
                let &(start, ..) = order.get(end.checked_sub(1)?)?;
                // Several functions may start at one address; readers take any that covers `pc`.
                let same = order[..end].iter().rev().take_while(|entry| entry.0 == start);
                same.filter_map(|&(_, offset, index)| Some((self.section().blob_at(offset).ok()?, index)))
                    .find(|(blob, index)| {
                        blob.fde(*index).is_some_and(|fde| pc.wrapping_sub(fde.address) < fde.size.into())
                    })
            }
        }
    }

    /// The row that holds at the address `pc`.
    ///
    /// # Errors
    /// The function that covers `pc` is malformed.
    #[inline]
    pub fn lookup(&self, pc: u64) -> Result<Option<Match>, Error> {
        match self.find(pc).and_then(|(blob, index)| Some((blob, blob.fde(index)?))) {
            Some((blob, fde)) => blob.lookup_in(fde, pc),
            None => Ok(None),
        }
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
        ranges.push((blob.function_address(0)?, end, blob.offset()));
    }
    ranges.sort_unstable();
    let disjoint = ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0);
    disjoint.then(|| Order::Blobs(ranges.iter().map(|&(first, _, offset)| (first, offset)).collect()))
}

fn order_of_functions(blobs: &[Blob<'_>]) -> Order {
    let mut functions = Vec::new();
    for blob in blobs {
        let live = blob.fdes().filter(|fde| fde.size != 0);
        functions.extend(live.map(|fde| (fde.address, blob.offset(), fde.index)));
    }
    functions.sort_unstable();
    Order::Functions(functions)
}
