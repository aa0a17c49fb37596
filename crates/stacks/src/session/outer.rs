//! Parts of stacks that are larger than samples copy.
//!
//! The program in the kernel writes such a part when the event takes its sample, so the two belong together
//! if one thread has both at one time. Either may be lost.

use std::collections::VecDeque;

/// The times of a sample and of its part differ by less than this, in nanoseconds: kernels take that of the
/// sample before or after the program runs. The shortest period is longer.
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

/// Parts that wait for their samples, in the order of time.
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
    pub fn take(&mut self, tid: u32, time: Option<u64>) -> Option<Outer> {
        let time = time.filter(|_| !self.0.is_empty())?;
        let is_of_sample = |part: &Outer| part.tid == tid && time.abs_diff(part.time) < APART;
        self.0.remove(self.0.iter().position(is_of_sample)?)
    }
}

#[cfg(test)]
mod tests {
    use super::{APART, Outers};
    use sframe_bpf::OuterStack;

    #[test]
    fn a_part_is_of_the_next_sample_of_its_thread() {
        let mut outers = Outers::default();
        let part = |tid, time, address| OuterStack { time, pid: 1, tid, address, bytes: &[1; 8] };
        let take = |outers: &mut Outers, tid, time| outers.take(tid, time).map(|part| part.address);
        let start = 10 * APART;
        outers.add(&part(1, start, 0x10));
        outers.add(&part(2, start, 0x20));
        outers.add(&part(3, start, 0x30));
        assert_eq!(take(&mut outers, 4, Some(start)), None);
        assert_eq!(take(&mut outers, 2, Some(start - APART)), None);
        assert_eq!(take(&mut outers, 2, None), None);
        assert_eq!(take(&mut outers, 2, Some(start + APART - 1)), Some(0x20));
        assert_eq!(take(&mut outers, 2, Some(start + APART - 1)), None);
        assert_eq!(take(&mut outers, 3, Some(start - APART + 1)), Some(0x30));
        // Its own sample was lost.
        assert_eq!(take(&mut outers, 1, Some(start + APART)), None);
        outers.add(&part(3, start + 2 * APART + 1, 0x40));
        assert_eq!(outers.0.len(), 1);
    }
}
