//! What a chain begins with: items that have numbers.

use std::ops::Range;

/// Items of which any first part can be split off.
pub trait Source: Sized + Send {
    /// An item.
    type Item;
    /// Its items, one by one.
    type Items: Iterator<Item = Self::Item>;
    /// How many there are.
    fn count(&self) -> usize;
    /// The first `count` items and the rest. There are as many at least.
    fn split_at(self, count: usize) -> (Self, Self);
    /// Goes through the items.
    fn items(self) -> Self::Items;
}

impl<'a, V: Sync> Source for &'a [V] {
    type Item = &'a V;
    type Items = std::slice::Iter<'a, V>;

    fn count(&self) -> usize {
        self.len()
    }

    fn split_at(self, count: usize) -> (Self, Self) {
        <[V]>::split_at(self, count)
    }

    fn items(self) -> Self::Items {
        self.iter()
    }
}

impl<'a, V: Send> Source for &'a mut [V] {
    type Item = &'a mut V;
    type Items = std::slice::IterMut<'a, V>;

    fn count(&self) -> usize {
        self.len()
    }

    fn split_at(self, count: usize) -> (Self, Self) {
        self.split_at_mut(count)
    }

    fn items(self) -> Self::Items {
        self.iter_mut()
    }
}

/// A list that the loop takes apart. To split it moves its second part, so it is for lists of jobs, which are
/// short.
impl<V: Send> Source for Vec<V> {
    type Item = V;
    type Items = std::vec::IntoIter<V>;

    fn count(&self) -> usize {
        self.len()
    }

    fn split_at(mut self, count: usize) -> (Self, Self) {
        let rest = self.split_off(count);
        (self, rest)
    }

    fn items(self) -> Self::Items {
        self.into_iter()
    }
}

impl Source for Range<usize> {
    type Item = usize;
    type Items = Self;

    fn count(&self) -> usize {
        self.len()
    }

    fn split_at(self, count: usize) -> (Self, Self) {
        let middle = self.start + count;
        (self.start..middle, middle..self.end)
    }

    fn items(self) -> Self {
        self
    }
}

impl Source for Range<u32> {
    type Item = u32;
    type Items = Self;

    fn count(&self) -> usize {
        self.len()
    }

    fn split_at(self, count: usize) -> (Self, Self) {
        let middle = self.start + count as u32;
        (self.start..middle, middle..self.end)
    }

    fn items(self) -> Self {
        self
    }
}

/// Slices of a slice.
pub struct Chunks<'a, V> {
    slice: &'a [V],
    size: usize,
}

impl<'a, V> Chunks<'a, V> {
    pub fn new(slice: &'a [V], size: usize) -> Self {
        Chunks { slice, size }
    }
}

impl<'a, V: Sync> Source for Chunks<'a, V> {
    type Item = &'a [V];
    type Items = std::slice::Chunks<'a, V>;

    fn count(&self) -> usize {
        self.slice.len().div_ceil(self.size)
    }

    fn split_at(self, count: usize) -> (Self, Self) {
        let (first, rest) = self.slice.split_at((count * self.size).min(self.slice.len()));
        (Chunks { slice: first, ..self }, Chunks { slice: rest, ..self })
    }

    fn items(self) -> Self::Items {
        self.slice.chunks(self.size)
    }
}

/// Slices of a slice that may be changed.
pub struct ChunksMut<'a, V> {
    slice: &'a mut [V],
    size: usize,
}

impl<'a, V> ChunksMut<'a, V> {
    pub fn new(slice: &'a mut [V], size: usize) -> Self {
        ChunksMut { slice, size }
    }
}

impl<'a, V: Send> Source for ChunksMut<'a, V> {
    type Item = &'a mut [V];
    type Items = std::slice::ChunksMut<'a, V>;

    fn count(&self) -> usize {
        self.slice.len().div_ceil(self.size)
    }

    fn split_at(self, count: usize) -> (Self, Self) {
        let middle = (count * self.size).min(self.slice.len());
        let (first, rest) = self.slice.split_at_mut(middle);
        (ChunksMut { slice: first, size: self.size }, ChunksMut { slice: rest, size: self.size })
    }

    fn items(self) -> Self::Items {
        self.slice.chunks_mut(self.size)
    }
}

/// Pairs of two sources' items.
pub struct Zip<A, B> {
    a: A,
    b: B,
}

impl<A, B> Zip<A, B> {
    pub fn new(a: A, b: B) -> Self {
        Zip { a, b }
    }
}

impl<A: Source, B: Source> Source for Zip<A, B> {
    type Item = (A::Item, B::Item);
    type Items = std::iter::Zip<A::Items, B::Items>;

    fn count(&self) -> usize {
        self.a.count().min(self.b.count())
    }

    fn split_at(self, count: usize) -> (Self, Self) {
        let (first_a, rest_a) = self.a.split_at(count);
        let (first_b, rest_b) = self.b.split_at(count);
        (Zip { a: first_a, b: first_b }, Zip { a: rest_a, b: rest_b })
    }

    fn items(self) -> Self::Items {
        self.a.items().zip(self.b.items())
    }
}

/// Items with their numbers.
pub struct Enumerate<A> {
    of: A,
    /// The number of the first item.
    first: usize,
}

impl<A> Enumerate<A> {
    pub fn new(of: A) -> Self {
        Enumerate { of, first: 0 }
    }
}

impl<A: Source> Source for Enumerate<A> {
    type Item = (usize, A::Item);
    type Items = std::iter::Zip<std::ops::RangeFrom<usize>, A::Items>;

    fn count(&self) -> usize {
        self.of.count()
    }

    fn split_at(self, count: usize) -> (Self, Self) {
        let (first, rest) = self.of.split_at(count);
        (Enumerate { of: first, first: self.first }, Enumerate { of: rest, first: self.first + count })
    }

    fn items(self) -> Self::Items {
        (self.first..).zip(self.of.items())
    }
}
