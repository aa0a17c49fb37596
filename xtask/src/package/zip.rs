//! Writes archives in the ZIP format for Python's package clients (PKWARE's APPNOTE.TXT 6.3): deflated files
//! with Unix permissions and without times.

use anyhow::Result;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use std::io::Write;

/// 1 January 1980, the first day that the format can express.
const DATE: u16 = 1 << 5 | 1;
/// Version 2.0, which supports deflated files.
const NEEDED: u16 = 20;
/// The same version, made on Unix.
const MADE_BY: u16 = 3 << 8 | NEEDED;
const DEFLATED: u16 = 8;
/// Names are in UTF-8.
const FLAGS: u16 = 1 << 11;

/// An archive that is being written.
#[derive(Default)]
pub struct Zip {
    files: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

impl Zip {
    /// Adds a file. `mode` is its type and permissions, as in `st_mode`.
    ///
    /// # Errors
    /// A number of the archive would no longer fit a 32-bit field.
    pub fn add(&mut self, name: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes)?;
        let packed = encoder.finish()?;
        let mut sum = flate2::Crc::new();
        sum.update(bytes);
        let offset = u32::try_from(self.files.len())?;
        let mut common = Vec::new();
        for half in [NEEDED, FLAGS, DEFLATED, 0, DATE] {
            common.extend(half.to_le_bytes());
        }
        for word in [sum.sum(), u32::try_from(packed.len())?, u32::try_from(bytes.len())?] {
            common.extend(word.to_le_bytes());
        }
        common.extend(u16::try_from(name.len())?.to_le_bytes());
        // No extra field.
        common.extend(0u16.to_le_bytes());
        self.files.extend(b"PK\x03\x04");
        self.files.extend(&common);
        self.files.extend(name.as_bytes());
        self.files.extend(packed);
        self.directory.extend(b"PK\x01\x02");
        self.directory.extend(MADE_BY.to_le_bytes());
        self.directory.extend(common);
        // No comment, the first disk, and no attributes of MS-DOS.
        self.directory.extend([0; 6]);
        self.directory.extend((mode << 16).to_le_bytes());
        self.directory.extend(offset.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.count += 1;
        Ok(())
    }

    /// The complete archive.
    ///
    /// # Errors
    /// A number of the archive does not fit a 32-bit field.
    pub fn finish(self) -> Result<Vec<u8>> {
        let Zip { files: mut bytes, directory, count } = self;
        let (size, offset) = (u32::try_from(directory.len())?, u32::try_from(bytes.len())?);
        bytes.extend(directory);
        bytes.extend(b"PK\x05\x06");
        for half in [0, 0, count, count] {
            bytes.extend(half.to_le_bytes());
        }
        for word in [size, offset] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(0u16.to_le_bytes());
        Ok(bytes)
    }
}
