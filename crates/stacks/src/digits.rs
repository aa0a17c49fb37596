//! Writes numbers as text. Samples and frames contain many numbers, and the standard library takes several
//! times as long to format them.

/// Appends a number in decimal digits, padded with zeros to a width.
pub fn decimal(mut number: u64, width: usize, to: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while number > 0 || at == digits.len() {
        at -= 1;
        digits[at] += (number % 10) as u8;
        number /= 10;
    }
    to.extend_from_slice(&digits[at.min(digits.len().saturating_sub(width))..]);
}

/// Appends a number in hexadecimal digits, padded with spaces to a width of at most 16.
pub fn hexadecimal(number: u64, width: usize, to: &mut Vec<u8>) {
    let mut digits = [b' '; 16];
    let count = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1) as usize;
    let mut rest = number;
    for digit in digits.iter_mut().rev().take(count) {
        *digit = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
    }
    to.extend_from_slice(&digits[16 - count.max(width.min(16))..]);
}

#[cfg(test)]
mod tests {
    use super::{decimal, hexadecimal};

    #[test]
    fn numbers_are_written_as_the_standard_library_does() {
        let numbers = (0..64).flat_map(|bit| [0, 1 << bit, (1 << bit) - 1, u64::MAX >> bit]);
        for number in numbers.chain([9, 10, 99, 100, 999_999, 1_000_000]) {
            let mut text = Vec::new();
            decimal(number, 0, &mut text);
            text.push(b' ');
            decimal(number, 6, &mut text);
            text.push(b' ');
            hexadecimal(number, 0, &mut text);
            hexadecimal(number, 16, &mut text);
            let expected = format!("{number} {number:06} {number:x}{number:16x}");
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }
}
