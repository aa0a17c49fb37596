//! A minimal reader of `.eh_frame` and `.eh_frame_hdr` (LSB core specification, 10.6).

use super::elf::{Elf, Section, quad, word};

/// One frame description entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Fde {
    /// Address of the entry.
    pub address: u64,
    /// Offset of its CIE in the section.
    pub cie: usize,
    /// First address of the function.
    pub start: u64,
    /// Size of the function in bytes.
    pub size: u64,
}

/// The offsets of the CIEs and the FDEs in a linked `.eh_frame`. A terminator ends the reading.
#[track_caller]
pub fn read(section: &Section) -> (Vec<usize>, Vec<Fde>) {
    let data = &section.data;
    let (mut cies, mut fdes, mut at) = (Vec::new(), Vec::new(), 0);
    while at + 4 <= data.len() {
        let length = word(data, at) as usize;
        if length == 0 {
            break;
        }
        let id = word(data, at + 4);
        if id == 0 {
            cies.push(at);
        } else {
            let cie = at + 4 - id as usize;
            assert!(cies.contains(&cie), "FDE at {at:#x} points to {cie:#x}, which is no CIE before it");
            let encoding = pointer_encoding(&data[cie..]);
            let place = section.addr + at as u64 + 8;
            let (start, size) = match encoding & 0x0f {
                0x0b | 0x03 => (i64::from(word(data, at + 8) as i32) as u64, u64::from(word(data, at + 12))),
                0x00 | 0x04 | 0x0c => (quad(data, at + 8), quad(data, at + 16)),
                other => panic!("pointer encoding {other:#x}"),
            };
            let start = if encoding & 0x70 == 0x10 { place.wrapping_add(start) } else { start };
            fdes.push(Fde { address: section.addr + at as u64, cie, start, size });
        }
        at += length + 4;
    }
    (cies, fdes)
}

/// The pointer encoding of a CIE's FDEs, from its augmentation `z...`.
fn pointer_encoding(cie: &[u8]) -> u8 {
    let letters: Vec<u8> = cie[9..].iter().copied().take_while(|&b| b != 0).collect();
    let mut at = 9 + letters.len() + 1;
    at = skip_leb(cie, at);
    at = skip_leb(cie, at);
    at = skip_leb(cie, at);
    for letter in letters {
        match letter {
            b'z' => at = skip_leb(cie, at),
            b'R' => return cie[at],
            b'L' => at += 1,
            b'P' => at += 1 + if cie[at] & 0x0f == 0 || cie[at] & 0x0f == 4 { 8 } else { 4 },
            _ => {}
        }
    }
    0
}

fn skip_leb(data: &[u8], mut at: usize) -> usize {
    while data[at] & 0x80 != 0 {
        at += 1;
    }
    at + 1
}

/// The search table of `.eh_frame_hdr`: the addresses of functions and FDEs, as they are stored.
#[track_caller]
pub fn search_table(elf: &Elf) -> Vec<(u64, u64)> {
    let section = elf.section(".eh_frame_hdr");
    let data = &section.data;
    assert_eq!(data[..4], [1, 0x1b, 3, 0x3b], "version and encodings of .eh_frame_hdr");
    let frames = section.addr.wrapping_add(4).wrapping_add_signed(i64::from(word(data, 4) as i32));
    assert_eq!(frames, elf.section(".eh_frame").addr, "eh_frame_ptr");
    let count = word(data, 8) as usize;
    assert_eq!(data.len(), 12 + 8 * count, "size of .eh_frame_hdr");
    let address = |at| section.addr.wrapping_add_signed(i64::from(word(data, at) as i32));
    (0..count).map(|i| (address(12 + 8 * i), address(16 + 8 * i))).collect()
}

/// Checks that the search table is sorted and names every FDE of `.eh_frame`; returns the FDEs.
#[track_caller]
pub fn check(elf: &Elf) -> Vec<Fde> {
    let (_, fdes) = read(elf.section(".eh_frame"));
    let table = search_table(elf);
    assert!(table.is_sorted_by(|a, b| a.0 < b.0), "the search table is sorted: {table:x?}");
    let mut expected: Vec<(u64, u64)> = fdes.iter().map(|f| (f.start, f.address)).collect();
    expected.sort_unstable();
    assert_eq!(table, expected, "the search table names every FDE");
    fdes
}
