//! Which addresses of files are behind a call. A walk that has to guess asks that of each caller, and stacks
//! have the same callers again and again, so the last answers are kept.

use std::cell::RefCell;

/// The number of answers that are kept.
const KEPT: usize = 1 << 12;

/// Answers, each in the place of its address.
#[derive(Default)]
pub struct Calls(RefCell<Vec<Option<Answer>>>);

#[derive(Clone, Copy)]
struct Answer {
    /// Number of the file.
    file: u32,
    address: u64,
    is_behind_call: bool,
}

impl Calls {
    /// The answer for an address of a file, by its number, which `look` finds if it is not known.
    pub fn are_before(&self, file: u32, address: u64, look: impl FnOnce() -> bool) -> bool {
        let mut kept = self.0.borrow_mut();
        if kept.is_empty() {
            kept.resize(KEPT, None);
        }
        let place = &mut kept[(address ^ u64::from(file) << 5) as usize % KEPT];
        if let Some(known) = place.filter(|known| (known.file, known.address) == (file, address)) {
            return known.is_behind_call;
        }
        let is_behind_call = look();
        *place = Some(Answer { file, address, is_behind_call });
        is_behind_call
    }
}

#[cfg(test)]
mod tests {
    use super::{Calls, KEPT};

    #[test]
    fn answers_are_those_of_their_address_and_file() {
        let calls = Calls::default();
        let behind = |file: u32, address: u64| (u64::from(file) + address).is_multiple_of(3);
        let mut looked = 0;
        // Addresses that share a place, addresses of several files, and each of them twice.
        for _ in 0..2 {
            for file in 0..4 {
                for address in [0, 1, 2, KEPT as u64, KEPT as u64 + 1, 2 * KEPT as u64 + 1, u64::MAX] {
                    let look = || {
                        looked += 1;
                        behind(file, address % 1000)
                    };
                    let found = calls.are_before(file, address, look);
                    assert_eq!(found, behind(file, address % 1000), "{file} {address:#x}");
                    let again = calls.are_before(file, address, || unreachable!("it is known"));
                    assert_eq!(again, found);
                }
            }
        }
        assert!(looked >= 28);
    }
}
