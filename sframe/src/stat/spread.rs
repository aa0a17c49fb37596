//! The distribution of numbers: extremes, mean, median, and the count of each bucket.

use diagnostics::words::count;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The largest number of buckets that a distribution is shown in.
const BUCKETS: usize = 20;
/// The widths that a bucket may have, in percentage points.
const WIDTHS: [f64; 6] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0];

/// How the share of file size that a table takes is distributed over files.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    /// Names of the sections that the table consists of.
    pub table: String,
    /// Number of files.
    pub files: usize,
    /// Smallest share, in per cent.
    pub min: f64,
    /// Largest share, in per cent.
    pub max: f64,
    /// Arithmetic mean, in per cent.
    pub mean: f64,
    /// Median, in per cent.
    pub median: f64,
    /// Width of a bucket, in percentage points.
    pub bucket_width: f64,
    /// Files in each bucket; the first starts at 0.
    pub buckets: Vec<u64>,
}

impl Spread {
    /// The distribution of these percentages; `None` if there are none.
    pub fn new(table: &str, mut shares: Vec<f64>) -> Option<Self> {
        shares.sort_by(f64::total_cmp);
        let (min, max) = (*shares.first()?, *shares.last()?);
        let fits = |width: &&f64| max / **width < BUCKETS as f64;
        let width = WIDTHS.iter().find(fits).copied().unwrap_or(20.0);
        let mut buckets = vec![0; (max / width) as usize + 1];
        for share in &shares {
            buckets[(share / width) as usize] += 1;
        }
        let middle = shares.len() / 2;
        let median = match shares.len() % 2 {
            0 => (shares[middle - 1] + shares[middle]) / 2.0,
            _ => shares[middle],
        };
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let table = table.to_owned();
        Some(Self { table, files: shares.len(), min, max, mean, median, bucket_width: width, buckets })
    }

    /// End of the last bucket.
    pub fn end(&self) -> f64 {
        self.buckets.len() as f64 * self.bucket_width
    }

    /// Writes the distribution, a line for each bucket.
    pub fn write(&self, output: &mut dyn Write) -> io::Result<()> {
        writeln!(output, "share of file size, {} ({}):", self.table, count(self.files as u64, "file"))?;
        writeln!(
            output,
            "  min {:.2} %, max {:.2} %, mean {:.2} %, median {:.2} %",
            self.min, self.max, self.mean, self.median
        )?;
        let most = self.buckets.iter().copied().max().unwrap_or(0).max(1);
        for (place, count) in self.buckets.iter().enumerate() {
            let from = place as f64 * self.bucket_width;
            let bar = "#".repeat((count * 50).div_ceil(most) as usize);
            let line = format!("  {from:>5.1} - {:>5.1} %  {count:>7}  {bar}", from + self.bucket_width);
            writeln!(output, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Groups counts into ranges whose ends are powers of two: 0, 1, 2, 3-4, 5-8 and so on.
pub fn by_powers(counts: &BTreeMap<u64, u64>) -> Vec<(String, u64)> {
    let mut ranges: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for (&number, &count) in counts {
        let end = if number == 0 { 0 } else { number.checked_next_power_of_two().unwrap_or(u64::MAX) };
        let start = if number <= 2 { number } else { end / 2 + 1 };
        *ranges.entry((start, end)).or_default() += count;
    }
    let name =
        |(start, end): (u64, u64)| if start == end { start.to_string() } else { format!("{start}-{end}") };
    ranges.into_iter().map(|(range, count)| (name(range), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Spread, by_powers};

    #[test]
    fn numbers_fall_into_buckets() {
        let spread = Spread::new("t", vec![3.0, 0.1, 0.2, 9.9]).unwrap();
        assert_eq!((spread.min, spread.max, spread.files), (0.1, 9.9, 4));
        assert!((spread.mean - 3.3).abs() < 1e-9 && (spread.median - 1.6).abs() < 1e-9);
        assert_eq!((spread.bucket_width, spread.buckets.len()), (0.5, 20));
        assert_eq!((spread.buckets[0], spread.buckets[6], spread.buckets[19]), (2, 1, 1));
        assert!(Spread::new("t", vec![]).is_none());
        assert_eq!(Spread::new("t", vec![100.0]).unwrap().buckets, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn counts_are_gathered_by_powers_of_two() {
        let counts = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (8, 7), (9, 8)].into_iter().collect();
        let names: Vec<(String, u64)> = by_powers(&counts);
        let expected = [("0", 1), ("1", 2), ("2", 3), ("3-4", 9), ("5-8", 13), ("9-16", 8)];
        assert_eq!(names, expected.map(|(name, count)| (name.to_owned(), count)));
    }
}
