//! Rows of addresses that exceptions passed, for all threads, without a lock.
//!
//! To find a row in a table takes longer than the whole step by it. So a row is kept in a place that its
//! address leads to, two cache lines large. A place has a sequence number, odd while somebody writes:
//! readers copy the row and look whether the number stayed the same, and whoever finds an odd number goes
//! without. So a thread or a signal handler that is stopped anywhere stops nobody else, and reading writes
//! nothing.
//!
//! Only rows of modules that stay loaded are kept.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use crate::row::{Head, Pad, Pair, Row, flags};

/// Rows that are kept. It is a power of two.
const PLACES: usize = 1 << 14;
/// Words of a row: address, function, personality routine, data, and then as [`pack`] says.
const WORDS: usize = 15;
const FIXED: usize = 6;

#[repr(align(128))]
struct Place {
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The rows.
pub struct Cache {
    places: [Place; PLACES],
}

impl Cache {
    /// A cache without rows. It is all zeros, so a program's file has no room for it.
    #[allow(clippy::new_without_default, reason = "a cache is large and belongs into a static")]
    pub const fn new() -> Self {
        Self {
            places: [const { Place { sequence: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS] } };
                PLACES],
        }
    }

    fn place(&self, address: u64) -> &Place {
        let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACES.trailing_zeros());
        &self.places[hash as usize % PLACES]
    }

    /// Fills in the row of an address, if it is known.
    #[inline]
    pub fn get(&self, address: u64, row: &mut Row) -> bool {
        let place = self.place(address);
        let sequence = place.sequence.load(Ordering::Acquire);
        if sequence & 1 != 0 || place.words[0].load(Ordering::Relaxed) != address || address == 0 {
            return false;
        }
        // SAFETY: the words are those of a place.
        unsafe { unpack(row, &place.words) };
        fence(Ordering::Acquire);
        place.sequence.load(Ordering::Relaxed) == sequence
    }

    /// Keeps the row of an address, unless it does not fit or somebody else writes there.
    pub fn put(&self, address: u64, row: &Row) {
        let Some(mut words) = pack(row) else { return };
        words[0] = address;
        let place = self.place(address);
        let sequence = place.sequence.load(Ordering::Relaxed);
        let writing = sequence.wrapping_add(1);
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        if sequence & 1 != 0 || place.sequence.compare_exchange(sequence, writing, success, failure).is_err()
        {
            return;
        }
        fence(Ordering::Release);
        for (word, value) in place.words.iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        place.sequence.store(sequence.wrapping_add(2), Ordering::Release);
    }
}

/// Word 4 is the row's head; word 5 the bytes of arguments, and the landing pad in the upper half. Then
/// the loads, in pairs.
fn pack(row: &Row) -> Option<[u64; WORDS]> {
    let mut words = [0; WORDS];
    (words[1], words[2], words[3]) = (row.function, row.personality, row.data);
    (words[4], words[5]) = (row.head().word(), u64::from(row.args_size) | u64::from(row.pad.word()) << 32);
    let places = words.get_mut(FIXED..)?;
    if row.has(flags::FAR) || row.pairs().len() > places.len() {
        return None;
    }
    places.iter_mut().zip(row.pairs()).for_each(|(place, pair)| *place = pair.word());
    Some(words)
}

/// # Safety
/// The words are those of a place. While somebody writes there, some may be of another row than others: each
/// by itself is of some row, or zero.
#[inline]
unsafe fn unpack(row: &mut Row, words: &[AtomicU64; WORDS]) {
    let [_, function, personality, data, head, sizes, pairs @ ..] = words;
    let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
    (row.function, row.personality, row.data) = (word(function), word(personality), word(data));
    let sizes = word(sizes);
    (row.args_size, row.pad) = (sizes as u32, Pad::from_word((sizes >> 32) as u32));
    // SAFETY: `pack` made the head and each pair. Zero is a head without loads, and a pair that loads the
    // first register.
    unsafe {
        row.take_packed(Head::from_word(word(head)), |number| {
            Pair::from_word(pairs.get(number).map_or(0, word))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registers::REGISTERS;
    use crate::row::{Cfa, How, Rule};
    use std::boxed::Box;
    use std::vec::Vec;

    fn row(number: u64) -> Row {
        let mut row = Row::new();
        row.clear(16);
        (row.function, row.personality, row.data) = (number, number + 1, number + 2);
        row.set_cfa(Cfa::Register { place: 7, offset: -(number as i64) });
        (row.args_size, row.pad) = (48, Pad::cleans_up(0x8000_0000 + number).unwrap());
        row.set(flags::SIGNAL | flags::KEY_B, true);
        for place in 0..number as u8 % 19 {
            let value = -(1 << 23) + i32::from(place);
            row.push(Rule { value, place: place % REGISTERS as u8, ..Rule::default() }).unwrap();
        }
        row
    }

    fn says(row: &Row) -> impl PartialEq + core::fmt::Debug + use<> {
        let numbers = (row.function, row.personality, row.data, row.cfa(), row.args_size, row.pad);
        (numbers, row.head(), row.loads().collect::<Vec<_>>(), Vec::from(row.others()))
    }

    fn cache() -> Box<Cache> {
        // SAFETY: a cache is all zeros at first.
        unsafe { Box::<Cache>::new_zeroed().assume_init() }
    }

    #[test]
    fn rows_come_back_as_they_were() {
        let (cache, mut found) = (cache(), Row::new());
        for number in 0..20 {
            assert!(!cache.get(0x1000 + number, &mut found));
            cache.put(0x1000 + number, &row(number));
            assert!(cache.get(0x1000 + number, &mut found));
            assert_eq!(says(&found), says(&row(number)));
        }
    }

    #[test]
    fn rows_that_do_not_fit_are_not_kept() {
        let (cache, mut found) = (cache(), Row::new());
        let mut far = row(3);
        far.push(Rule { value: 1 << 23, ..Rule::default() }).unwrap();
        let mut many = row(18);
        many.push(Rule::default()).unwrap();
        let mut expression = row(1);
        expression.push(Rule { how: How::AtExpression, ..Rule::default() }).unwrap();
        let [mut computed, mut distant] = [row(1), row(1)];
        computed.set_cfa(Cfa::Expression(&[]));
        distant.set_cfa(Cfa::Register { place: 7, offset: 1 << 31 });
        for row in [far, many, expression, computed, distant] {
            cache.put(0x1000, &row);
            assert!(!cache.get(0x1000, &mut found));
        }
    }

    #[test]
    fn threads_never_read_half_a_row() {
        let cache = cache();
        // Addresses that lead to the same place.
        let same: Vec<u64> =
            (1..).filter(|&at| core::ptr::eq(cache.place(at), cache.place(1))).take(3).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (cache, same) = (&cache, &same);
                scope.spawn(move || {
                    let mut found = Row::new();
                    for round in 0..5000 {
                        let address = same[(round + thread) % 3];
                        if cache.get(address, &mut found) {
                            assert_eq!(says(&found), says(&row(address)));
                        } else {
                            cache.put(address, &row(address));
                        }
                    }
                });
            }
        });
    }
}
