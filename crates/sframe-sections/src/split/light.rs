//! Encodes functions of any blobs as a unit of the light form.

use sframe_format::write::{Encoder, Function, FunctionId, Options};
use sframe_format::{Abi, Blob, Error, Fde, Version};

/// Why functions cannot become a unit.
pub enum Fault {
    /// A function's rows are malformed.
    Format(Error),
    /// V3, the form of a unit's rows, cannot express a function. The offset of the function's entry, and the
    /// reason.
    Inexpressible(u64, String),
}

/// Appends a unit with functions of this ABI to `out`, in this order. Returns the offsets of their start
/// fields in it. Rows of every version become V3 rows.
///
/// # Errors
/// See [`Fault`].
pub fn write<'b>(
    abi: Abi,
    functions: impl Iterator<Item = (&'b Blob<'b>, Fde)>,
    out: &mut Vec<u8>,
) -> Result<Vec<u32>, Fault> {
    let mut encoder = Encoder::new(Options::new(abi).version(Version::V3).share(false));
    let mut ids = Vec::new();
    for (blob, fde) in functions {
        ids.push(match encoder.copy(blob, &fde, &blob.attributes(&fde).map_err(Fault::Format)?) {
            Some((id, _)) => id,
            None => encode(&mut encoder, blob, &fde)?,
        });
    }
    encoder.write_unit(&ids, out).map_err(Fault::Format)
}

fn encode(encoder: &mut Encoder, blob: &Blob<'_>, fde: &Fde) -> Result<FunctionId, Fault> {
    let function = Function::read(blob, fde).map_err(Fault::Format)?;
    encoder.add(&function).map_err(|why| Fault::Inexpressible(fde.offset as u64, why.to_string()))
}
