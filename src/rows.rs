//! Tables with a row for each symbol or section of a link.
//!
//! Such a table has millions of rows, and at first all of them hold "none". To write that is nothing. But the
//! system gives memory when a page is touched for the first time, and then has to find and clear it: for the
//! tables of a large program, that takes as long as the passes that fill them. One thread would do it alone
//! while the others sleep, so all of them do it.

use parallel::{IntoParallel, ParallelSlice};
use sframe_format::compact::SideBySide;

/// Rows that one job fills: some pages.
const BLOCK: usize = 1 << 14;

/// A table with `count` rows that hold `value`.
pub fn filled<V: Copy + Send + Sync>(value: V, count: usize) -> Vec<V> {
    (0..count).into_par_iter().with_min_len(BLOCK).map(|_| value).collect()
}

/// The rows of all tables, one table after the other, and room for `more`. `value` may be any: no row holds
/// it in the end.
pub fn joined<V: Copy + Send + Sync>(tables: &[&[V]], more: usize, value: V) -> Vec<V> {
    let count: usize = tables.iter().map(|table| table.len()).sum();
    if count < 2 * BLOCK {
        let mut all = Vec::with_capacity(count + more);
        tables.iter().for_each(|table| all.extend_from_slice(table));
        return all;
    }
    let mut all = filled(value, count + more);
    all.truncate(count);
    let mut rest = &mut all[..];
    for table in tables {
        let (own, others) = rest.split_at_mut(table.len());
        rest = others;
        let blocks = own.par_chunks_mut(BLOCK).zip(table.par_chunks(BLOCK));
        blocks.for_each(|(own, rows)| own.copy_from_slice(rows));
    }
    all
}

/// All threads of the link, for joining what they collected for a compact table.
pub struct AllThreads;

impl SideBySide for AllThreads {
    fn map<R: Send>(&self, count: usize, make: impl Fn(usize) -> R + Sync) -> Vec<R> {
        (0..count).into_par_iter().map(make).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_tables_have_all_rows_in_order() {
        for size in [1, BLOCK - 1, 3 * BLOCK + 5] {
            let tables: Vec<Vec<usize>> = vec![(0..size).collect(), vec![], (size..3 * size).collect()];
            let tables: Vec<&[usize]> = tables.iter().map(Vec::as_slice).collect();
            let all = joined(&tables, 10, 0);
            assert!(all.iter().copied().eq(0..3 * size));
            assert!(all.capacity() >= 3 * size + 10);
        }
    }
}
