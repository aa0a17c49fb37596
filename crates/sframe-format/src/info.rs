//! The info byte of a frame row entry. [`crate::fre`] describes its bits.

/// Number of data words.
#[inline]
pub(crate) fn word_count(info: u8) -> u8 {
    info >> 1 & 0xf
}

/// Size of a data word in bytes: 1, 2 or 4.
#[inline]
pub(crate) fn word_size(info: u8) -> u8 {
    1 << (info >> 5 & 3)
}

/// Length of the data words in bytes.
#[inline]
pub(crate) fn words_length(info: u8) -> usize {
    usize::from(word_count(info)) << (info >> 5 & 3)
}
