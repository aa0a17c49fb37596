//! Removes terminators from the middle of an `.eh_frame` section that stays whole (`-r`).
//!
//! A zero word ends the section for everyone who walks it, and hides the records after it. `-r` places
//! sections that end with a zero word last. Another zero word may still stand between records or fill the gap
//! between two sections. The linker makes it part of the record before it: records may end with zeros, which
//! are instructions without effect.

use super::eh_frame::FileFrames;
use super::reader::Reader;
use zerocopy::byteorder::{ByteOrder, U32, U64};

/// Joins the zero words of an input section with the records before them. `index` is the section's header
/// index; `out` is the section's bytes in the output and those up to the next section.
pub fn join<E: ByteOrder>(frames: &FileFrames<'_, E>, index: u32, out: &mut [u8]) {
    let section = frames.section(index).map(|row| &frames.sections[row]);
    if section.is_some_and(|section| section.has_terminator || section.bytes.len() < out.len()) {
        join_words::<E>(out);
    }
}

fn join_words<E: ByteOrder>(out: &mut [u8]) {
    let (mut at, mut last) = (0, None);
    loop {
        let mut reader = Reader::new(out, at);
        let Some(word) = reader.u32::<E>() else { return };
        let length = match word {
            0 => {
                if let Some(record) = last {
                    lengthen::<E>(out, record);
                }
                at += 4;
                continue;
            }
            u32::MAX => reader.u64::<E>(),
            length => Some(length.into()),
        };
        last = Some(at);
        let end = length.and_then(|length| reader.at.checked_add(usize::try_from(length).ok()?));
        match end.filter(|&end| end <= out.len()) {
            Some(end) => at = end,
            None => return,
        }
    }
}

/// Adds a word to the length of the record at this offset.
fn lengthen<E: ByteOrder>(out: &mut [u8], record: usize) {
    let mut reader = Reader::new(out, record);
    match reader.u32::<E>() {
        Some(u32::MAX) => {
            if let Some(length) = reader.u64::<E>() {
                out[record + 4..record + 12].copy_from_slice(&U64::<E>::new(length + 4).to_bytes());
            }
        }
        Some(length) if length < 0xffff_fff0 - 4 => {
            out[record..record + 4].copy_from_slice(&U32::<E>::new(length + 4).to_bytes());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::join_words;
    use zerocopy::byteorder::{BE, LE};

    #[test]
    fn zero_words_become_part_of_the_record_before_them() {
        let words = |words: &[u32], big: bool| -> Vec<u8> {
            words.iter().flat_map(|word| if big { word.to_be_bytes() } else { word.to_le_bytes() }).collect()
        };
        let before = [0, 8, 0, 1, 0, 0, 4, 7, 0];
        let after = [0, 16, 0, 1, 0, 0, 8, 7, 0];
        for big in [false, true] {
            let mut bytes = words(&before, big);
            if big {
                join_words::<BE>(&mut bytes)
            } else {
                join_words::<LE>(&mut bytes)
            }
            assert_eq!(bytes, words(&after, big));
        }
        let mut long = words(&[u32::MAX, 4, 0, 7, 0], false);
        join_words::<LE>(&mut long);
        assert_eq!(long, words(&[u32::MAX, 8, 0, 7, 0], false));
        let mut cut = words(&[40, 0, 0], false);
        join_words::<LE>(&mut cut);
        assert_eq!(cut, words(&[40, 0, 0], false));
    }
}
