//! Puts the records of a recording in the order of time.
//!
//! perf empties the rings of processors one after the other, so the file is a series of stretches in which
//! time only advances. A first walk notes the [`Stretches`], and [`Records::in_order`] merges them. That
//! takes no memory for each record, and a recording of many short processes has a hundred thousand of them.

use super::header::RECORD_HEADER;
use crate::bytes::{Reader, fetch_ahead};
use crate::event::Record;
use sframe_format::Endian;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

/// Bytes of a sample to fetch ahead: its head, its registers, and the top of its stack.
const OF_SAMPLE: usize = 2048;
/// What to fetch ahead at a short record, from its start on. The time of a record is at its end, and a walk
/// over short ones would wait for memory at each.
pub const FAR: Range<usize> = 1024..1152;

/// Records that follow each other in the file and in time. Stretches are in the order of their first records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stretch {
    /// The time of the first record.
    time: u64,
    /// The offset of the first record. Records with the same time stay in the order of the file.
    at: usize,
    /// The offset behind the last record.
    end: usize,
}

/// The stretches of a recording.
#[derive(Default)]
pub struct Stretches {
    all: Vec<Stretch>,
    /// The time of the last record of this series.
    last: Option<u64>,
}

impl Stretches {
    /// Begins another series of records, in other bytes.
    pub fn begin(&mut self) {
        self.last = None;
    }

    /// The time of the last record of this series.
    pub fn last(&self) -> u64 {
        self.last.unwrap_or(0)
    }

    /// Adds a record: its time, its offset, and the offset behind it.
    #[inline]
    pub fn add(&mut self, time: u64, at: usize, end: usize) {
        match self.all.last_mut() {
            Some(stretch) if stretch.end == at && self.last.is_some_and(|last| last <= time) => {
                stretch.end = end;
            }
            _ => self.all.push(Stretch { time, at, end }),
        }
        self.last = Some(time);
    }

    /// Puts them in the order of time, when all records have been added.
    pub fn sort(&mut self) {
        self.all.sort_unstable();
    }
}

/// The bytes of a recording that hold records.
#[derive(Clone, Copy)]
pub struct Records<'data> {
    /// The file.
    pub file: &'data [u8],
    /// Records that were compressed. Their offsets count from the end of `file`.
    pub expanded: &'data [u8],
    /// The byte order of both.
    pub endian: Endian,
}

impl<'data> Records<'data> {
    /// The bytes of a stretch.
    fn of(&self, stretch: &Stretch) -> &'data [u8] {
        let (bytes, base) = match stretch.at.checked_sub(self.file.len()) {
            None => (self.file, 0),
            Some(_) => (self.expanded, self.file.len()),
        };
        bytes.get(stretch.at - base..stretch.end - base).unwrap_or_default()
    }

    /// Passes on all records in the order of time. `time` says when a record was made, by itself and the time
    /// of the record before it.
    pub fn in_order(
        &self,
        stretches: &Stretches,
        time: impl Fn(&Record<'data>, u64) -> u64,
        mut take: impl FnMut(&Record<'data>),
    ) {
        // Whoever writes to the file meanwhile may have put anything there.
        let read = |bytes| record_at(self.endian, bytes).filter(|&(_, size)| size >= RECORD_HEADER);
        let mut left = Left { begun: BinaryHeap::new(), later: &stretches.all };
        while let Some(mut stretch) = left.take_first() {
            let bound = left.first();
            let mut bytes = self.of(&stretch);
            let mut next = read(bytes);
            while let Some((record, size)) = next {
                bytes = bytes.get(size..).unwrap_or_default();
                stretch.at += size;
                next = read(bytes);
                if let Some((next, size)) = next
                    && next.is_sample()
                {
                    fetch_ahead(next.body, 0..OF_SAMPLE);
                    fetch_ahead(bytes, size..size + FAR.start);
                } else {
                    fetch_ahead(bytes, FAR);
                }
                take(&record);
                let Some((next, _)) = &next else { break };
                stretch.time = time(next, stretch.time).max(stretch.time);
                if bound.is_some_and(|bound| bound < stretch) {
                    left.begun.push(Reverse(stretch));
                    break;
                }
            }
        }
    }
}

/// What is left of the stretches.
struct Left<'a> {
    /// Of those that have begun.
    begun: BinaryHeap<Reverse<Stretch>>,
    /// Those that have not begun, in order.
    later: &'a [Stretch],
}

impl Left<'_> {
    /// What is left of the stretch with the earliest record.
    fn first(&self) -> Option<Stretch> {
        let begun = self.begun.peek().map(|&Reverse(first)| first);
        self.later.first().copied().into_iter().chain(begun).min()
    }

    fn take_first(&mut self) -> Option<Stretch> {
        let later = self.later.split_first();
        if let Some(begun) = self.begun.peek_mut()
            && later.is_none_or(|(first, _)| begun.0 < *first)
        {
            return Some(PeekMut::pop(begun).0);
        }
        let (&first, rest) = later?;
        self.later = rest;
        Some(first)
    }
}

/// The record at the start of bytes, and its size. `None`: it is cut off.
#[inline]
pub fn record_at(endian: Endian, bytes: &[u8]) -> Option<(Record<'_>, usize)> {
    let mut reader = Reader::new(bytes, endian);
    let (kind, misc, size) = (reader.u32()?, reader.u16()?, usize::from(reader.u16()?));
    let body = if size < RECORD_HEADER { &[] } else { bytes.get(RECORD_HEADER..size)? };
    Some((Record { kind, misc, body }, size))
}

#[cfg(test)]
mod tests {
    use super::{Records, Stretches, record_at};
    use crate::event::Record;
    use sframe_format::Endian;

    /// The time of a record of the tests, which is its first word. 0 stands for none.
    fn time(record: &Record<'_>, last: u64) -> u64 {
        let word = record.body.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if word == 0 { last } else { word }
    }

    /// Records with these times and a number each. Between some of them are records that do not count.
    fn records(times: &[u64], first: u64, gaps: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, time) in times.iter().enumerate() {
            let extra = number % 3 * 8;
            bytes.extend([9, 0, 0, 0, 0, 0, 24 + extra as u8, 0]);
            bytes.extend([*time, first + number as u64].map(u64::to_le_bytes).concat());
            bytes.resize(bytes.len() + extra, 0);
            if gaps && number % 5 == 0 {
                bytes.extend([68, 0, 0, 0, 0, 0, 8, 0]);
            }
        }
        bytes
    }

    /// Merging gives what sorting all records gives, and those of one time stay in the order of the file.
    #[test]
    fn stretches_are_merged_in_the_order_of_time() {
        let mut state = 1u64;
        let mut random = move |most: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % most
        };
        for round in 0..300 {
            let count = |random: &mut dyn FnMut(u64) -> u64| random(40) as usize;
            let counts = [count(&mut random), count(&mut random)];
            let most = 1 + random(60);
            let times = counts.map(|count| (0..count).map(|_| random(most)).collect::<Vec<u64>>());
            let parts =
                [records(&times[0], 0, round % 2 == 0), records(&times[1], counts[0] as u64, round % 3 == 0)];
            let (mut stretches, mut expected) = (Stretches::default(), Vec::new());
            for (part, base) in parts.iter().zip([0, parts[0].len()]) {
                let mut at = 0;
                stretches.begin();
                while let Some((record, size)) = record_at(Endian::Little, &part[at..]) {
                    if record.kind == 9 {
                        let time = time(&record, stretches.last());
                        stretches.add(time, base + at, base + at + size);
                        expected.push((time, record.body));
                    }
                    at += size;
                }
            }
            stretches.sort();
            expected.sort_by_key(|(time, _)| *time);
            let all = Records { file: &parts[0], expanded: &parts[1], endian: Endian::Little };
            let mut found = Vec::new();
            all.in_order(&stretches, time, |record| found.push(record.body));
            assert_eq!(found, expected.iter().map(|(_, body)| *body).collect::<Vec<_>>(), "{times:?}");
        }
    }
}
