//! Divides work among threads.
//!
//! A piece is halved until there are as many as threads, and then only when another thread has taken one: a
//! thread that has nothing to do takes half of what another has left. So pieces are as large as may be, and
//! still no thread waits for one that has more work than it can see.

use super::source::Source;
use std::sync::{Mutex, PoisonError};

/// How many items a piece may have.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// No fewer.
    pub least: usize,
    /// No more, as long as it can have so few and there are other threads.
    pub most: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { least: 1, most: usize::MAX }
    }
}

/// Work that may be done in two halves, side by side.
pub trait Job<'a>: Send {
    /// The halves. `Err`: it is too small to be halved.
    fn halve(self: Box<Self>) -> Result<[Box<dyn Job<'a> + 'a>; 2], Box<dyn Job<'a> + 'a>>;
    /// Does it.
    fn run(self: Box<Self>);
}

/// What is done with a piece. The number is that of its first item.
pub type Work<'a, S> = &'a (dyn Fn(usize, S) + Sync);

/// Items, and what is done with them.
struct Piece<'a, S> {
    source: S,
    /// The number of the first item.
    first: usize,
    least: usize,
    work: Work<'a, S>,
}

impl<'a, S: Source + 'a> Job<'a> for Piece<'a, S> {
    fn halve(self: Box<Self>) -> Result<[Box<dyn Job<'a> + 'a>; 2], Box<dyn Job<'a> + 'a>> {
        let half = self.source.count() / 2;
        if half < self.least.max(1) {
            return Err(self);
        }
        let Piece { source, first, least, work } = *self;
        let (before, after) = source.split_at(half);
        let before = Piece { source: before, first, least, work };
        let after = Piece { source: after, first: first + half, least, work };
        Ok([Box::new(before), Box::new(after)])
    }

    fn run(self: Box<Self>) {
        (self.work)(self.first, self.source);
    }
}

/// Does `work` with pieces of the source.
pub fn divide<S: Source>(source: S, limits: Limits, work: Work<'_, S>) {
    let threads = rayon_core::current_num_threads();
    let count = source.count();
    if threads == 1 || count / 2 < limits.least.max(1) {
        return work(0, source);
    }
    let all = Piece { source, first: 0, least: limits.least, work };
    run(Box::new(all), threads.max(count / limits.most.max(1)), false);
}

/// The results of pieces, with the numbers of their first items.
pub struct Results<R>(Mutex<Vec<(usize, R)>>);

impl<R> Results<R> {
    pub fn new() -> Self {
        Results(Mutex::new(Vec::new()))
    }

    /// Adds what a piece came to.
    pub fn add(&self, first: usize, result: R) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((first, result));
    }

    /// The results in the order of the items. Of many small pieces there are many, so they are put in order
    /// once, by their numbers.
    pub fn into_vec(self) -> Vec<R> {
        let pieces = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let order = ascending(pieces.iter().map(|piece| piece.0).collect());
        let mut results: Vec<Option<R>> = pieces.into_iter().map(|piece| Some(piece.1)).collect();
        order.into_iter().filter_map(|place| results[place].take()).collect()
    }
}

/// The places of numbers, none of which is there twice, in the order of the numbers.
fn ascending(numbers: Vec<usize>) -> Vec<usize> {
    let mut places: Vec<usize> = (0..numbers.len()).collect();
    places.sort_unstable_by_key(|&place| numbers[place]);
    places
}

/// Does a job in about twice as many pieces, and in more if other threads take some.
fn run(job: Box<dyn Job<'_> + '_>, pieces: usize, taken: bool) {
    let pieces = if taken { pieces.max(2 * rayon_core::current_num_threads()) } else { pieces };
    if pieces == 0 {
        return job.run();
    }
    match job.halve() {
        Ok([before, after]) => {
            rayon_core::join_context(
                |place| run(before, pieces / 2, place.migrated()),
                |place| run(after, pieces / 2, place.migrated()),
            );
        }
        Err(job) => job.run(),
    }
}

/// Calls both functions, side by side if a thread is free.
pub fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    let (mut a, mut b) = (Call::Due(a), Call::Due(b));
    rayon_join(&mut || a.make(), &mut || b.make());
    (a.result(), b.result())
}

/// The one copy of rayon's code.
fn rayon_join(a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
    rayon_core::join(a, b);
}

/// A call of a function, and then its result.
enum Call<F, R> {
    Due(F),
    Made(R),
    Begun,
}

impl<R, F: FnOnce() -> R> Call<F, R> {
    fn make(&mut self) {
        if let Call::Due(function) = std::mem::replace(self, Call::Begun) {
            *self = Call::Made(function());
        }
    }

    fn result(self) -> R {
        match self {
            Call::Made(result) => result,
            Call::Due(_) | Call::Begun => unreachable!("a function whose panic did not end the join"),
        }
    }
}
