//! Looks up rows in all blobs of a section, by an index that is made once.

use alloc::vec::Vec;
use core::ops::Deref;

use crate::blob::{Blob, Gap, Piece, Section};
use crate::error::Error;
use crate::fde::Fde;
use crate::fre::Attributes;
use crate::header::Header;
use crate::lookup::Match;
use crate::packed::Packed;
use crate::rules::UnwindRules;

/// Finds rows in a section with any number of blobs.
///
/// Making an index costs as much as parsing a header if the section is one sorted blob, one step for each
/// blob if all blobs are sorted and do not overlap, and otherwise one step for each function and a sort. A
/// look-up allocates nothing. `D` holds the bytes: a slice, a vector, a mapped file, or a shared pointer to
/// one of these.
#[derive(Clone, Debug)]
pub struct SectionIndex<D> {
    data: D,
    address: u64,
    order: Order,
    gaps: Vec<Gap>,
}

#[derive(Clone, Debug)]
enum Order {
    /// The section is one sorted blob with this header.
    One(Header),
    /// The first address of each sorted blob, ascending, and the blobs in the same order.
    Blobs(Vec<u64>, Vec<Place>),
    /// Address, blob number and FDE index of every function that has bytes, ascending, and the blobs.
    Functions(Vec<(u64, u32, u32)>, Vec<Place>),
}

/// Offset and header of a blob. The header is stored so that it is parsed only once.
type Place = (usize, Header);

impl<D: Deref<Target = [u8]>> SectionIndex<D> {
    /// Walks over the section with the bytes `data` at `address` and indexes its blobs.
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

    /// The section.
    pub fn section(&self) -> Section<'_> {
        Section::new(&self.data, self.address)
    }

    /// The parts of the section that cannot be read.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// The blob and the FDE whose function covers the address `pc`.
    pub fn find(&self, pc: u64) -> Option<(Blob<'_>, Fde)> {
        self.find_with(pc, |blob, fde| (*blob, fde))
    }

    /// Passes the result of [`SectionIndex::find`] to `take` without moving it.
    #[inline]
    fn find_with<'index, R>(&'index self, pc: u64, take: impl FnOnce(&Blob<'index>, Fde) -> R) -> Option<R> {
        match &self.order {
            Order::One(header) => {
                let blob = self.section().blob_with(*header, 0);
                Some(take(&blob, blob.find_fde_between(0, header.fde_count, pc)?))
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
                // Several functions may start at one address. Readers take any of them that covers `pc`.
                let same = functions.get(..end)?.iter().rev().take_while(|entry| entry.0 == start);
                let mut found = same.filter_map(|&(_, number, index)| {
                    let blob = blob(blobs.get(number as usize)?);
                    Some((blob, blob.fde(index)?))
                });
                found.find(|(_, fde)| pc.wrapping_sub(fde.address) < fde.size.into())
            }
            Order::One(_) => None,
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

    /// The rules at the address `pc` as a word. Rules that do not fit a word are written to `kept`, and the
    /// word then holds place 0.
    #[inline]
    pub(crate) fn packed_at(&self, pc: u64, kept: &mut UnwindRules) -> Result<Packed, Error> {
        let find = |blob: &Blob<'_>, fde: Fde| {
            let attributes = blob.attributes(&fde)?;
            let offset = pc.wrapping_sub(fde.address);
            match blob.plain_row(&attributes, offset) {
                Some(packed) => Ok(packed),
                None => decode(blob, &fde, &attributes, offset, kept),
            }
        };
        self.find_with(pc, find).unwrap_or(Ok(Packed::NO_ROW))
    }

    /// Passes every function with its blob to `take`. If the blobs are sorted as they claim, the addresses
    /// ascend.
    pub(crate) fn for_each_function<'index>(&'index self, mut take: impl FnMut(&Blob<'index>, Fde)) {
        let section = self.section();
        let mut whole = |blob: Blob<'index>| blob.fdes().for_each(|fde| take(&blob, fde));
        match &self.order {
            Order::One(header) => whole(section.blob_with(*header, 0)),
            Order::Blobs(_, blobs) => {
                blobs.iter().for_each(|&(offset, header)| whole(section.blob_with(header, offset)));
            }
            Order::Functions(functions, blobs) => {
                for &(_, number, index) in functions {
                    let Some(&(offset, header)) = blobs.get(number as usize) else { continue };
                    let blob = section.blob_with(header, offset);
                    if let Some(fde) = blob.fde(index) {
                        take(&blob, fde);
                    }
                }
            }
        }
    }
}

/// The rules that hold `offset` bytes from the start of a function.
#[inline(never)]
fn decode(
    blob: &Blob<'_>,
    fde: &Fde,
    attributes: &Attributes,
    offset: u64,
    kept: &mut UnwindRules,
) -> Result<Packed, Error> {
    (kept.abi, kept.signal) = (blob.header().abi, attributes.signal);
    match blob.row_into(fde, attributes, offset, &mut kept.rules)? {
        Some(_) => Ok(Packed::new(kept).unwrap_or(Packed::kept(0))),
        None => Ok(Packed::NO_ROW),
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

/// The blobs by first address, if all are sorted and none overlaps the next.
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
