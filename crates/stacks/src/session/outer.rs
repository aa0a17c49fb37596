//! Parts of stacks that are larger than samples copy.
//!
//! The program in the kernel writes such a part when the event takes its sample, so the two belong together
//! if one thread has both at one time. Either may be lost. Samples that a thread has at the highest
//! frequencies are closer than times are exact, so of several parts the nearest counts.

use std::collections::VecDeque;

/// The times of a sample and of its part differ by less than this, in nanoseconds: kernels take that of the
/// sample before or after the program runs.
pub const APART: u64 = 100_000;

/// A part of a stack.
pub struct Outer {
    tid: u32,
    time: u64,
    /// The address of the first byte.
    pub address: u64,
    /// What is there.
    pub bytes: Vec<u8>,
}

/// Parts of the last moments, in the order of time.
#[derive(Default)]
pub struct Outers(VecDeque<Outer>);

impl Outers {
    /// Adds a part.
    pub fn add(&mut self, part: &sframe_bpf::OuterStack<'_>) {
        let sframe_bpf::OuterStack { tid, time, address, bytes, .. } = *part;
        while self.0.front().is_some_and(|first| first.time.saturating_add(2 * APART) < time) {
            self.0.pop_front();
        }
        self.0.push_back(Outer { tid, time, address, bytes: bytes.to_vec() });
    }

    /// The part of the stack of which a sample has the top.
    pub fn of(&self, tid: u32, time: Option<u64>) -> Option<&Outer> {
        let time = time.filter(|_| !self.0.is_empty())?;
        let apart = |part: &&Outer| time.abs_diff(part.time);
        self.0.iter().filter(|part| part.tid == tid && apart(part) < APART).min_by_key(apart)
    }
}

#[cfg(test)]
mod tests {
    use super::{APART, Outers};
    use sframe_bpf::OuterStack;

    fn part(tid: u32, time: u64, address: u64) -> OuterStack<'static> {
        OuterStack { time, pid: 1, tid, address, bytes: &[1; 8] }
    }

    fn found(outers: &Outers, tid: u32, time: u64) -> Option<u64> {
        outers.of(tid, Some(time)).map(|part| part.address)
    }

    #[test]
    fn a_part_is_of_the_sample_of_its_thread() {
        let mut outers = Outers::default();
        let start = 10 * APART;
        outers.add(&part(1, start, 0x10));
        outers.add(&part(2, start, 0x20));
        outers.add(&part(3, start, 0x30));
        assert_eq!(found(&outers, 4, start), None);
        assert_eq!(found(&outers, 2, start - APART), None);
        assert!(outers.of(2, None).is_none());
        assert_eq!(found(&outers, 2, start + APART - 1), Some(0x20));
        assert_eq!(found(&outers, 3, start - APART + 1), Some(0x30));
        assert_eq!(found(&outers, 1, start + APART), None);
        outers.add(&part(3, start + 2 * APART + 1, 0x40));
        assert_eq!(outers.0.len(), 1);
    }

    /// The first sample has no part, since all of its stack was copied, or it was lost.
    #[test]
    fn samples_at_a_high_frequency_have_their_own_parts() {
        let mut outers = Outers::default();
        let (start, period) = (10 * APART, APART / 5);
        for number in 1..4 {
            outers.add(&part(1, start + number * period, number));
        }
        let later = period / 4;
        let parts = [0, 1, 2, 3].map(|number| found(&outers, 1, start + number * period + later));
        assert_eq!(parts, [Some(1), Some(1), Some(2), Some(3)]);
    }
}
