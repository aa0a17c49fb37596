//! Mappings of processes in the kernel: slices of one array, to which the map of processes leads.
//!
//! If a process maps something, its ranges are written to a new slice, and then the map is changed to lead
//! there. The program may still be reading the old slice, which another process may get; so each range names
//! its process, and the program takes no range of another.

use crate::layout::{Range, Slice};
use crate::slices::Slices;
use aya::maps::{Array, HashMap, MapData};
use std::collections::HashMap as Map;

/// Most ranges of a process; the program halves their number 16 times. Further ranges are left out.
const MOST: usize = (1 << 16) - 1;

/// All mappings.
pub struct Ranges {
    ranges: Array<MapData, Range>,
    processes: HashMap<MapData, u32, Slice>,
    slices: Slices,
    by_pid: Map<u32, Slice>,
}

impl Ranges {
    /// No mappings.
    pub fn new(ranges: Array<MapData, Range>, processes: HashMap<MapData, u32, Slice>) -> Self {
        let slices = Slices::new(ranges.len());
        Self { ranges, processes, slices, by_pid: Map::new() }
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
        if let Some(old) = self.by_pid.insert(pid, slice) {
            self.slices.give(old.first, old.count);
        }
        Ok(())
    }

    /// Forgets a process.
    pub fn remove(&mut self, pid: u32) {
        if let Some(old) = self.by_pid.remove(&pid) {
            // The only error is that the entry is not there.
            let _ = self.processes.remove(&pid);
            self.slices.give(old.first, old.count);
        }
    }
}
