//! The mappings of processes in the kernel: slices of one array. The map of processes says where each slice
//! is.
//!
//! If a process maps something, its ranges are written to a new slice. Then the map is changed to point
//! there. Meanwhile the program may still be reading the old slice, which another process may get. So each
//! range names its process, and the program ignores ranges of other processes.

use crate::layout::{Range, Slice};
use crate::slices::Slices;
use aya::maps::{Array, HashMap, MapData};
use std::collections::{HashMap as Map, HashSet};

/// The most ranges of a process; the program's binary search takes 16 steps. Further ranges are left out.
const MOST: usize = (1 << 16) - 1;

/// The most processes whose samples are dropped; those of others would have no room.
const MOST_IGNORED: usize = 1 << 13;

/// All mappings.
pub struct Ranges {
    ranges: Array<MapData, Range>,
    processes: HashMap<MapData, u32, Slice>,
    slices: Slices,
    by_pid: Map<u32, Slice>,
    ignored: HashSet<u32>,
}

impl Ranges {
    /// No mappings.
    pub fn new(ranges: Array<MapData, Range>, processes: HashMap<MapData, u32, Slice>) -> Self {
        let slices = Slices::new(ranges.len());
        Self { ranges, processes, slices, by_pid: Map::new(), ignored: HashSet::new() }
    }

    /// Sets the ranges of a process.
    pub fn set(&mut self, pid: u32, ranges: &[Range]) -> Result<(), String> {
        let count = ranges.len().min(MOST) as u32;
        let Some(first) = self.slices.take(count) else {
            self.remove(pid);
            return Err("there is no room for so many mappings".into());
        };
        for (place, range) in (first..first + count).zip(ranges) {
            let range = Range { pid, ..*range };
            self.ranges.set(place, range, 0).map_err(|error| error.to_string())?;
        }
        let slice = Slice { first, count };
        self.processes.insert(pid, slice, 0).map_err(|error| {
            self.slices.give(first, count);
            error.to_string()
        })?;
        self.ignored.remove(&pid);
        if let Some(old) = self.by_pid.insert(pid, slice) {
            self.slices.give(old.first, old.count);
        }
        Ok(())
    }

    /// Forgets a process.
    pub fn remove(&mut self, pid: u32) {
        let old = self.by_pid.remove(&pid);
        if self.ignored.remove(&pid) || old.is_some() {
            // The only possible error is that there is no entry.
            let _ = self.processes.remove(&pid);
        }
        if let Some(old) = old {
            self.slices.give(old.first, old.count);
        }
    }

    /// Makes the program drop the samples of a process that has no ranges, until it gets some or is
    /// forgotten.
    pub fn ignore(&mut self, pid: u32) {
        if self.ignored.len() < MOST_IGNORED
            && !self.by_pid.contains_key(&pid)
            && self.ignored.insert(pid)
            && self.processes.insert(pid, Slice::IGNORED, 0).is_err()
        {
            self.ignored.remove(&pid);
        }
    }
}
