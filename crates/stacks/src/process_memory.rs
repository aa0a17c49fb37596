//! The memory of a process that runs.

use crate::bytes::Reader;
use sframe_format::Endian;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes that are copied at a time: nobody knows whether all that was asked for exists.
const PIECE: usize = 64 << 10;

/// The memory of a process. It may change, and end, at any time.
pub struct ProcessMemory {
    file: File,
    endian: Endian,
}

impl ProcessMemory {
    /// That of a process of this byte order. `None`: it may not be read.
    pub fn open(pid: u32, endian: Endian) -> Option<Self> {
        Some(Self { file: File::open(format!("/proc/{pid}/mem")).ok()?, endian })
    }

    /// Some bytes.
    pub fn bytes(&self, address: u64, size: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        while bytes.len() < size {
            let start = bytes.len();
            bytes.resize(start + PIECE.min(size - start), 0);
            self.file.read_exact_at(&mut bytes[start..], address.checked_add(start as u64)?).ok()?;
        }
        Some(bytes)
    }

    /// Some words, one behind another.
    pub fn words(&self, address: u64, count: usize) -> Option<Vec<u64>> {
        let bytes = self.bytes(address, count.checked_mul(8)?)?;
        let mut reader = Reader::new(&bytes, self.endian);
        (0..count).map(|_| reader.u64()).collect()
    }

    /// A number of 1, 2, 4 or 8 bytes.
    pub fn number(&self, address: u64, size: u8) -> Option<u64> {
        let mut bytes = [0; 8];
        let bytes = bytes.get_mut(..size.into())?;
        self.file.read_exact_at(bytes, address).ok()?;
        let (little, big) = (|number, &byte: &u8| number << 8 | u64::from(byte), bytes.iter());
        Some(match self.endian {
            Endian::Little => big.rev().fold(0, little),
            Endian::Big => big.fold(0, little),
        })
    }

    /// The text at an address up to its zero byte, or its first `most` bytes.
    pub fn text(&self, address: u64, most: usize) -> Option<Vec<u8>> {
        let mut text = vec![0; most];
        let read = self.file.read_at(&mut text, address).ok().filter(|&read| read > 0)?;
        text.truncate(read);
        text.truncate(text.iter().position(|&byte| byte == 0).unwrap_or(read));
        Some(text)
    }
}
