//! Rounding up to alignments, where addresses may overflow.

/// Rounds up to a power of two given by its exponent. `None` if that overflows.
#[inline]
pub fn align_to(value: u64, exponent: u8) -> Option<u64> {
    let mask = 1u64.checked_shl(exponent.into())?.wrapping_sub(1);
    value.checked_add(mask).map(|sum| sum & !mask)
}

/// Rounds up to a multiple of `align` (0 counts as 1). `None` if that overflows.
#[inline]
pub fn round_up(value: u64, align: u64) -> Option<u64> {
    match align {
        0 | 1 => Some(value),
        align if align.is_power_of_two() => align_to(value, align.trailing_zeros() as u8),
        align => value.checked_next_multiple_of(align),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflowing_alignments_give_none() {
        assert_eq!(align_to(u64::MAX, 3), None);
        assert_eq!(align_to(1, 64), None);
        assert_eq!(round_up(5, 0), Some(5));
        assert_eq!(round_up(5, 3), Some(6));
    }
}
