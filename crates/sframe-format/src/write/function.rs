//! The function that a writer takes, and the options of its blob.

use alloc::vec::Vec;

use crate::abi::Abi;
use crate::blob::Blob;
use crate::error::Error;
use crate::fde::Fde;
use crate::fre::{ATTRIBUTE_SIZE, PauthKey, PcType};
use crate::rules::Row;
use crate::version::Version;

/// A function to be written, without its address.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Function {
    /// Size in bytes.
    pub size: u32,
    /// Whether it is a signal frame.
    pub signal: bool,
    /// AArch64 signing key.
    pub pauth_key: PauthKey,
    /// Repetition block in bytes, for PC-mask functions.
    pub repeat_size: Option<u8>,
    /// The rows, strictly ascending by start. [`Rules::SignalContext`](crate::Rules::SignalContext) means a
    /// signal frame without rows, and must be the only row.
    pub rows: Vec<Row>,
}

impl Function {
    /// Reads the function of `fde`.
    ///
    /// # Errors
    /// Its attribute or rows are malformed.
    pub fn read(blob: &Blob<'_>, fde: &Fde) -> Result<Self, Error> {
        let mut function = Self::default();
        function.read_from(blob, fde)?;
        Ok(function)
    }

    /// Does the work of [`Function::read`] in an existing value, to reuse its memory. It omits a last row
    /// that starts where the function ends, because such a row covers nothing: GNU as writes it if call frame
    /// information follows the last instruction.
    ///
    /// # Errors
    /// Its attribute or rows are malformed. The former contents of `self` are lost then.
    pub fn read_from(&mut self, blob: &Blob<'_>, fde: &Fde) -> Result<(), Error> {
        let attributes = blob.attributes(fde)?;
        self.size = fde.size;
        self.signal = attributes.signal;
        self.pauth_key = if blob.header().abi.is_aarch64() { attributes.pauth_key } else { PauthKey::A };
        self.repeat_size = (attributes.pc_type == PcType::Mask).then_some(attributes.repeat_size);
        self.rows.clear();
        for row in blob.rows(&attributes) {
            self.rows.push(row?);
        }
        let end = self.repeat_size.map_or(self.size, u32::from);
        self.rows.pop_if(|row| row.start == end && end > 0);
        if attributes.fre_count == 0 {
            self.rows.extend(blob.rules_without_rows(&attributes).map(|rules| Row { start: 0, rules }));
        }
        Ok(())
    }
}

/// Properties of the blob that an [`Encoder`](super::Encoder) writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// ABI of the output. It decides the byte order.
    pub abi: Abi,
    /// Version 2 or 3. Version 1 cannot be written: for it, [`Encoder`](super::Encoder) writes version 2,
    /// which has the same limits.
    pub version: Version,
    /// Whether functions share identical bytes.
    pub share: bool,
}

impl Options {
    /// Version 3, sharing in little-endian outputs.
    pub fn new(abi: Abi) -> Self {
        Self { abi, version: Version::V3, share: abi.endian() == crate::Endian::Little }
    }

    /// The same for another version.
    #[must_use]
    pub fn version(mut self, version: Version) -> Self {
        self.version = version.max(Version::V2);
        self
    }

    /// The same, with or without sharing.
    #[must_use]
    pub fn share(mut self, share: bool) -> Self {
        self.share = share;
        self
    }
}

/// Bytes in front of a function's FREs in the FRE sub-section.
pub(super) const fn attribute_size(version: Version) -> usize {
    match version {
        Version::V3 => ATTRIBUTE_SIZE,
        _ => 0,
    }
}
