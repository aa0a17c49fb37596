//! One look-up over all blobs of a section, made once and asked often.

use alloc::vec::Vec;

use crate::blob::{Blob, Gap, Piece, Section};
use crate::error::Error;
use crate::lookup::Match;

/// Finds rows in a section of any number of blobs.
///
/// Making it costs one step per blob when all blobs are sorted and none overlaps another, else one per function
/// and a sort. Looking up allocates nothing.
#[derive(Clone, Debug)]
pub struct SectionIndex<'data> {
    blobs: Vec<Blob<'data>>,
    gaps: Vec<Gap>,
    order: Order,
}

#[derive(Clone, Debug)]
enum Order {
    /// First address and blob number of each sorted blob, ascending.
    Blobs(Vec<(u64, u32)>),
    /// Address, blob number and FDE index of every function that is not empty, ascending.
    Functions(Vec<(u64, u32, u32)>),
}

impl<'data> SectionIndex<'data> {
    /// Walks over the section and indexes what it finds.
    ///
    /// ```
    /// use sframe_format::{Section, SectionIndex};
    /// let index = SectionIndex::new(&Section::new(b"not SFrame at all", 0x1000));
    /// assert_eq!(index.gaps().len(), 1);
    /// assert_eq!(index.lookup(0x1000), Ok(None));
    /// ```
    pub fn new(section: &Section<'data>) -> Self {
        let (mut blobs, mut gaps) = (Vec::new(), Vec::new());
        for piece in section.pieces() {
            match piece {
                Piece::Blob(blob) => blobs.push(blob),
                Piece::Gap(gap) => gaps.push(gap),
            }
        }
        let order = order_of_blobs(&blobs).unwrap_or_else(|| order_of_functions(&blobs));
        Self { blobs, gaps, order }
    }

    /// The blobs, in the order of the section.
    pub fn blobs(&self) -> &[Blob<'data>] {
        &self.blobs
    }

    /// What could not be read.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// The blob and the index of the FDE whose function holds the address `pc`.
    #[inline]
    pub fn find(&self, pc: u64) -> Option<(&Blob<'data>, u32)> {
        match &self.order {
            Order::Blobs(order) => {
                let place = order.partition_point(|&(first, _)| first <= pc).checked_sub(1)?;
                let blob = self.blobs.get(order.get(place)?.1 as usize)?;
                Some((blob, blob.find_fde(pc)?))
            }
            Order::Functions(order) => {
                let end = order.partition_point(|&(address, ..)| address <= pc);
                let &(start, ..) = order.get(end.checked_sub(1)?)?;
                // Several functions may start at one address; readers take any that covers `pc`.
                order[..end].iter().rev().take_while(|entry| entry.0 == start).find_map(
                    |&(_, number, index)| {
                        let blob = self.blobs.get(number as usize)?;
                        let fde = blob.fde(index)?;
                        (pc.wrapping_sub(fde.address) < u64::from(fde.size)).then_some((blob, index))
                    },
                )
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

/// The blobs by first address, if all are sorted and none reaches into the next.
fn order_of_blobs(blobs: &[Blob<'_>]) -> Option<Order> {
    let mut ranges = Vec::with_capacity(blobs.len());
    for (number, blob) in blobs.iter().enumerate().filter(|(_, blob)| blob.header().fde_count != 0) {
        if !blob.header().is_sorted() {
            return None;
        }
        let last = blob.fde(blob.header().fde_count - 1)?;
        let end = last.address.checked_add(last.size.into())?;
        ranges.push((blob.function_address(0)?, end, number as u32));
    }
    ranges.sort_unstable();
    let disjoint = ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0);
    disjoint.then(|| Order::Blobs(ranges.iter().map(|&(first, _, number)| (first, number)).collect()))
}

fn order_of_functions(blobs: &[Blob<'_>]) -> Order {
    let mut functions = Vec::new();
    for (number, blob) in blobs.iter().enumerate() {
        let live = blob.fdes().filter(|fde| fde.size != 0);
        functions.extend(live.map(|fde| (fde.address, number as u32, fde.index)));
    }
    functions.sort_unstable();
    Order::Functions(functions)
}
