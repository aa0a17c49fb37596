//! Tables with a row for each symbol or section of a link.
//!
//! Such a table has millions of rows, and at first all of them hold "none". To write that is nothing. But the
//! system gives memory when a page is touched for the first time, and then has to find and clear it: for the
//! tables of a large program, that takes as long as the passes that fill them. One thread would do it alone
//! while the others sleep, so all of them do it.

use parallel::IntoParallel;

/// Rows that one job fills: some pages.
const BLOCK: usize = 1 << 14;

/// A table with `count` rows that hold `value`.
pub fn filled<V: Copy + Send + Sync>(value: V, count: usize) -> Vec<V> {
    (0..count).into_par_iter().with_min_len(BLOCK).map(|_| value).collect()
}
