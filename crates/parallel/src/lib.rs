//! Loops whose items are worked on side by side.
//!
//! The threads, and the queues in which they find each other's work, are rayon's. Its parallel iterators are
//! not used: out of each chain of them the compiler makes code for splitting, queueing, waiting and joining.
//! The linker has 270 such chains, for three machines, and that code was 2.1 of the 5.4 million lines that
//! LLVM was given for it. Yet it does the same for each chain. So here a chain is compiled to the loop over a
//! piece of its items. Splitting is compiled once for each type of source, and all else in `divide` once: it
//! knows a piece as a [`divide::Job`], and what to do with it as a function, behind pointers. Two calls
//! through pointers for a piece are nothing beside the loop.
//!
//! The words are rayon's: `par_iter`, `map`, `collect`. A chain begins with a [`source::Source`], whose items
//! have numbers, and goes on with [`steps::Steps`], each of which takes an item and hands on none, one or
//! several. Results come in the order of the items, whichever thread made them.

mod divide;
mod places;
mod sort;
mod source;
mod steps;
#[cfg(test)]
mod tests;

pub use divide::join;
pub use sort::ParallelSort;

use divide::{Limits, Results, divide};
use places::Places;
use source::{Chunks, ChunksMut, Enumerate, Source, Zip};
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, Ordering};
use steps::{Filter, FilterMap, FlatMap, Map, Same, Steps};

/// A chain: items, and what happens to each. Nothing happens before its last method is called.
#[must_use]
pub struct Chain<S, T> {
    source: S,
    steps: T,
    limits: Limits,
}

/// What a chain may begin with.
pub trait IntoParallel {
    /// Its items.
    type Source: Source;
    /// Begins a chain.
    fn into_par_iter(self) -> Chain<Self::Source, Same>;
}

impl<S: Source> IntoParallel for S {
    type Source = S;
    fn into_par_iter(self) -> Chain<S, Same> {
        Chain { source: self, steps: Same, limits: Limits::default() }
    }
}

impl<S: Source> IntoParallel for Chain<S, Same> {
    type Source = S;
    fn into_par_iter(self) -> Self {
        self
    }
}

impl<'a, V: Sync> IntoParallel for &'a Vec<V> {
    type Source = &'a [V];
    fn into_par_iter(self) -> Chain<&'a [V], Same> {
        self.as_slice().into_par_iter()
    }
}

impl<'a, V: Send> IntoParallel for &'a mut Vec<V> {
    type Source = &'a mut [V];
    fn into_par_iter(self) -> Chain<&'a mut [V], Same> {
        self.as_mut_slice().into_par_iter()
    }
}

/// Chains over the items of a slice.
pub trait ParallelSlice<V> {
    /// References to the items.
    fn par_iter(&self) -> Chain<&[V], Same>
    where
        V: Sync;

    /// References that may change the items.
    fn par_iter_mut(&mut self) -> Chain<&mut [V], Same>
    where
        V: Send;

    /// Slices of `size` items, the last of which may be shorter. `size` is not 0.
    fn par_chunks(&self, size: usize) -> Chain<Chunks<'_, V>, Same>
    where
        V: Sync;

    /// The same, of items that may be changed.
    fn par_chunks_mut(&mut self, size: usize) -> Chain<ChunksMut<'_, V>, Same>
    where
        V: Send;
}

impl<V> ParallelSlice<V> for [V] {
    fn par_iter(&self) -> Chain<&[V], Same>
    where
        V: Sync,
    {
        self.into_par_iter()
    }

    fn par_iter_mut(&mut self) -> Chain<&mut [V], Same>
    where
        V: Send,
    {
        self.into_par_iter()
    }

    fn par_chunks(&self, size: usize) -> Chain<Chunks<'_, V>, Same>
    where
        V: Sync,
    {
        Chunks::new(self, size).into_par_iter()
    }

    fn par_chunks_mut(&mut self, size: usize) -> Chain<ChunksMut<'_, V>, Same>
    where
        V: Send,
    {
        ChunksMut::new(self, size).into_par_iter()
    }
}

impl<S: Source> Chain<S, Same> {
    /// Pairs each item with the one of the same number in `other`. The longer side's last items are left out.
    pub fn zip<O: IntoParallel>(self, other: O) -> Chain<Zip<S, O::Source>, Same> {
        let source = Zip::new(self.source, other.into_par_iter().source);
        Chain { source, steps: Same, limits: self.limits }
    }

    /// Puts its number before each item.
    pub fn enumerate(self) -> Chain<Enumerate<S>, Same> {
        Chain { source: Enumerate::new(self.source), steps: Same, limits: self.limits }
    }
}

impl<S: Source, T: Steps<S::Item>> Chain<S, T> {
    /// Makes no piece of fewer items than this, for items that are little work.
    pub fn with_min_len(mut self, count: usize) -> Self {
        self.limits.least = count;
        self
    }

    /// Makes no piece of more items than this, for items that are much work. Where there is one thread, there
    /// is one piece.
    pub fn with_max_len(mut self, count: usize) -> Self {
        self.limits.most = count;
        self
    }

    /// Makes something of each item.
    pub fn map<R, F: Fn(T::Out) -> R + Sync>(self, make: F) -> Chain<S, Map<T, F>> {
        Chain { source: self.source, steps: Map(self.steps, make), limits: self.limits }
    }

    /// Keeps some items.
    pub fn filter<F: Fn(&T::Out) -> bool + Sync>(self, keeps: F) -> Chain<S, Filter<T, F>> {
        Chain { source: self.source, steps: Filter(self.steps, keeps), limits: self.limits }
    }

    /// Makes something of some items.
    pub fn filter_map<R, F: Fn(T::Out) -> Option<R> + Sync>(self, make: F) -> Chain<S, FilterMap<T, F>> {
        Chain { source: self.source, steps: FilterMap(self.steps, make), limits: self.limits }
    }

    /// Makes any number of items of each.
    pub fn flat_map_iter<R: IntoIterator, F: Fn(T::Out) -> R + Sync>(
        self,
        make: F,
    ) -> Chain<S, FlatMap<T, F>> {
        Chain { source: self.source, steps: FlatMap(self.steps, make), limits: self.limits }
    }

    /// Folds each piece: what `start` makes becomes the result as `add` takes item after item. The results
    /// come in the order of the pieces, whose number depends on the threads.
    pub fn fold_pieces<A: Send>(
        self,
        start: impl Fn() -> A + Sync,
        add: impl Fn(&mut A, T::Out) + Sync,
    ) -> Vec<A> {
        let results = Results::new();
        let Chain { source, steps, limits } = self;
        divide(source, limits, &|first, piece: S| {
            let mut result = start();
            piece.items().for_each(|item| steps.feed(item, &mut |out| add(&mut result, out)));
            results.add(first, result);
        });
        results.into_vec()
    }

    /// Calls `work` with each item.
    pub fn for_each(self, work: impl Fn(T::Out) + Sync) {
        let Chain { source, steps, limits } = self;
        divide(source, limits, &|_, piece: S| {
            piece.items().for_each(|item| steps.feed(item, &mut |out| work(out)));
        });
    }

    /// Lists all items.
    pub fn collect(self) -> Vec<T::Out>
    where
        T::Out: Send,
    {
        if T::ONE_FOR_ONE { self.collect_in_place() } else { self.collect_pieces() }
    }

    /// For as many items as the source has: each goes straight to its place.
    fn collect_in_place(self) -> Vec<T::Out>
    where
        T::Out: Send,
    {
        let Chain { source, steps, limits } = self;
        let places = Places::new(source.count());
        divide(source, limits, &|first, piece: S| {
            // SAFETY: no two pieces have an item in common.
            let mut part = unsafe { places.part(first, piece.count()) };
            piece.items().for_each(|item| steps.feed(item, &mut |out| part.push(out)));
        });
        places.into_vec()
    }

    /// For any number of items: each piece makes a list.
    fn collect_pieces(self) -> Vec<T::Out>
    where
        T::Out: Send,
    {
        let mut lists = self.fold_pieces(Vec::new, Vec::push).into_iter();
        let mut all = lists.next().unwrap_or_default();
        all.reserve(lists.as_slice().iter().map(Vec::len).sum());
        lists.for_each(|mut list| all.append(&mut list));
        all
    }

    /// Lists the first and the second halves of pairs.
    pub fn unzip<A: Send, B: Send>(self) -> (Vec<A>, Vec<B>)
    where
        T: Steps<S::Item, Out = (A, B)>,
    {
        self.collect().into_iter().unzip()
    }

    /// Puts all items together by `join`, for which it does not matter how they are grouped.
    pub fn reduce(
        self,
        nothing: impl Fn() -> T::Out,
        join: impl Fn(T::Out, T::Out) -> T::Out + Sync,
    ) -> T::Out
    where
        T::Out: Send,
    {
        let add = |sum: &mut Option<T::Out>, item| {
            *sum = Some(match sum.take() {
                Some(sum) => join(sum, item),
                None => item,
            });
        };
        self.fold_pieces(|| None, add).into_iter().flatten().reduce(&join).unwrap_or_else(nothing)
    }

    /// How many items there are.
    pub fn count(self) -> usize {
        self.fold_pieces(|| 0, |count, _| *count += 1).into_iter().sum()
    }

    /// The sum of all items.
    pub fn sum(self) -> T::Out
    where
        T::Out: Send + Default + AddAssign,
    {
        let add = |mut sum: T::Out, item| {
            sum += item;
            sum
        };
        self.reduce(T::Out::default, add)
    }

    /// The least item.
    pub fn min(self) -> Option<T::Out>
    where
        T::Out: Send + Ord,
    {
        self.map(Some).reduce(|| None, |a, b| a.into_iter().chain(b).min())
    }

    /// Whether `holds` says so of an item. Not all others are asked then.
    pub fn any(self, holds: impl Fn(T::Out) -> bool + Sync) -> bool {
        let found = AtomicBool::new(false);
        self.for_each(|item| {
            if !found.load(Ordering::Relaxed) && holds(item) {
                found.store(true, Ordering::Relaxed);
            }
        });
        found.into_inner()
    }
}
