//! What runs of rows became in a builder, by the numbers of their rows' runs ([`CfiRuns`]).
//!
//! [`CfiRuns`]: crate::cfi::CfiRuns

use alloc::vec::Vec;

use crate::cfi::CfiRows;

/// What a run of rows became in functions of a kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KnownRun {
    /// The number of the builder's run, plus 1, at the end of functions, and elsewhere; 0: it was not needed
    /// there yet.
    pub numbers: [u32; 2],
    /// The rules of the first and the last row.
    pub ends: (u32, u32),
    /// The number of rows.
    pub rows: u32,
    /// The bytes that all rows but the last cover.
    pub bytes: u32,
}

impl KnownRun {
    /// The place of a number in `numbers`.
    pub fn place(is_last: bool) -> usize {
        usize::from(!is_last)
    }
}

/// By number of the rows' run and kind of the function.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownRuns(Vec<[KnownRun; CfiRows::KINDS]>);

impl KnownRuns {
    /// What a run became.
    #[inline]
    pub fn get(&self, run: u32, kind: usize) -> KnownRun {
        self.0.get(run as usize).map_or_else(KnownRun::default, |kinds| kinds[kind])
    }

    /// The place for it.
    pub fn place(&mut self, run: u32, kind: usize) -> &mut KnownRun {
        if self.0.len() <= run as usize {
            self.0.resize(run as usize + 1, Default::default());
        }
        &mut self.0[run as usize][kind]
    }
}
