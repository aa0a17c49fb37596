//! What the personality routine of C++ says of a frame whatever flies by, read from its language-specific
//! data once ("Itanium C++ ABI: Exception Handling", 2.5.1, and gcc's exception tables).
//!
//! A call without a landing pad, and one whose landing pad only cleans up, get the same answer for every
//! exception. To ask the routine for it takes ten times as long as a step. Everything else is its own matter:
//! handlers, exception specifications, and calls that must not throw.

use crate::row::Pad;

/// Encodings of pointers in language-specific data.
const OMITTED: u8 = 0xff;
const ULEB128: u8 = 0x01;
const UDATA4: u8 = 0x03;

/// Where bytes of a module are read.
struct Bytes {
    at: *const u8,
}

impl Bytes {
    /// # Safety
    /// A byte is there.
    unsafe fn byte(&mut self) -> u8 {
        // SAFETY: as the caller says.
        unsafe {
            let byte = self.at.read();
            self.at = self.at.add(1);
            byte
        }
    }

    /// `None`: it does not fit 63 bits.
    ///
    /// # Safety
    /// A number is there.
    unsafe fn uleb128(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            // SAFETY: as the caller says.
            let byte = unsafe { self.byte() };
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A number of a table of calls. `None`: it has another encoding than compilers choose.
    ///
    /// # Safety
    /// A number is there.
    unsafe fn number(&mut self, encoding: u8) -> Option<u64> {
        // SAFETY: as the caller says.
        unsafe {
            match encoding {
                ULEB128 => self.uleb128(),
                UDATA4 => {
                    let value = self.at.cast::<u32>().read_unaligned();
                    self.at = self.at.add(4);
                    Some(value.into())
                }
                _ => None,
            }
        }
    }
}

/// What holds for a call at an address of a function.
///
/// # Safety
/// `data` is the address of the function's language-specific data, as the personality routine of C++ reads
/// them, or 0.
pub unsafe fn of(function: u64, data: u64, address: u64) -> Pad {
    // SAFETY: as the caller says.
    if data == 0 { Pad::NONE } else { unsafe { look_up(function, data, address) }.unwrap_or(Pad::ASK) }
}

/// # Safety
/// As [`of`] says; the data are there.
unsafe fn look_up(function: u64, data: u64, address: u64) -> Option<Pad> {
    let mut bytes = Bytes { at: data as *const u8 };
    // SAFETY: as the caller says.
    unsafe {
        // Landing pads of another place than the function are rare.
        if bytes.byte() != OMITTED {
            return None;
        }
        if bytes.byte() != OMITTED {
            bytes.uleb128()?;
        }
        let encoding = bytes.byte();
        let length = bytes.uleb128()?;
        let end = (bytes.at as u64).checked_add(length)?;
        let offset = address.checked_sub(function)?;
        while (bytes.at as u64) < end {
            let [start, size, pad] =
                [bytes.number(encoding)?, bytes.number(encoding)?, bytes.number(encoding)?];
            let action = bytes.uleb128()?;
            // The table is sorted. A call that is not in it must not throw.
            let within = offset.checked_sub(start)?;
            if within < size {
                return match (pad, action) {
                    (0, _) => Some(Pad::NONE),
                    (pad, 0) => Pad::cleans_up(pad),
                    _ => None,
                };
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Calls from 16 to 24 without a landing pad, from 24 to 32 with one that cleans up, from 40 to 48 with a
    /// handler; the others must not throw.
    fn data(encoding: u8, types: bool) -> Vec<u8> {
        let number = |value: u32| match encoding {
            ULEB128 => Vec::from([value as u8 | 0x80, 0]),
            _ => Vec::from(value.to_ne_bytes()),
        };
        let calls = [[16, 8, 0, 0], [24, 8, 100, 0], [40, 8, 110, 1]];
        let calls = calls.iter().flat_map(|&[start, size, pad, action]| {
            [number(start), number(size), number(pad), Vec::from([action as u8])].concat()
        });
        let calls: Vec<u8> = calls.collect();
        let header =
            if types { &[OMITTED, 0x9b, 0x85, 0, encoding][..] } else { &[OMITTED, OMITTED, encoding] };
        [header, &[calls.len() as u8], &calls].concat()
    }

    fn at(data: &[u8], offset: u64) -> Pad {
        // SAFETY: the data are whole.
        unsafe { of(0x1000, data.as_ptr() as u64, 0x1000 + offset) }
    }

    #[test]
    fn only_answers_for_every_exception_are_known() {
        for (encoding, types) in [(ULEB128, false), (ULEB128, true), (UDATA4, false), (UDATA4, true)] {
            let data = data(encoding, types);
            let answers = [15, 16, 23, 24, 31, 32, 39, 40, 47, 48].map(|offset| at(&data, offset));
            let (ask, none, cleans) = (Pad::ASK, Pad::NONE, Pad::cleans_up(100).unwrap());
            assert_eq!(answers, [ask, none, none, cleans, cleans, ask, ask, ask, ask, ask], "{encoding}");
        }
    }

    #[test]
    fn nothing_is_known_of_rare_forms() {
        // Landing pads that count from elsewhere; another encoding of calls; no calls.
        let mut elsewhere = data(UDATA4, false);
        elsewhere.splice(0..1, [UDATA4, 0, 0, 0, 0]);
        let mut encoded = data(UDATA4, false);
        encoded[2] = 0x0b;
        for data in [elsewhere, encoded, Vec::from([OMITTED, OMITTED, ULEB128, 0])] {
            assert_eq!(at(&data, 16), Pad::ASK);
        }
    }

    #[test]
    fn functions_without_data_have_no_landing_pads() {
        // SAFETY: there are no data.
        assert_eq!(unsafe { of(0x1000, 0, 0x1010) }, Pad::NONE);
    }

    /// A landing pad more than 4 GiB away, and a number of more than 64 bits.
    #[test]
    fn large_numbers_are_not_taken_for_small_ones() {
        let far = [OMITTED, OMITTED, ULEB128, 9, 0, 8, 0x81, 0x80, 0x80, 0x80, 0x80, 0x01, 0];
        assert_eq!(at(&far, 4), Pad::ASK);
        let wide = [&[OMITTED, OMITTED, ULEB128, 15, 0, 8][..], &[0x80; 11], &[1, 0]].concat();
        assert_eq!(at(&wide, 4), Pad::ASK);
    }
}
