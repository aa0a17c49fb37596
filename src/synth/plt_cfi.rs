//! `.eh_frame` records of the procedure linkage tables, which no assembler describes
//! (`--ld-generated-unwind-info`): a CIE for all of them, and an FDE for each table.
//!
//! They stand behind the records of the inputs. A link whose inputs have none gets none of these either. The
//! rows of the SFrame table say the same ([`crate::sframe_output`]).

use crate::arch::Target;
use crate::diag::{Code, Diagnostic};
use crate::phase::{Geometry, Numbered};
use crate::relocs::address;
use crate::tables::section::Kind;
use zerocopy::byteorder::{I32, U32};

/// The bytes of an FDE before its instructions: length, pointer to the CIE, start and size of the code, and
/// the length 0 of augmentation data.
const FDE_HEAD: usize = 17;

/// The tables of this link that have records, each with its size in bytes and the instructions of its FDE.
fn tables<T: Target>(link: &Numbered<'_, T>) -> Vec<(Kind, u64, &'static [u8])> {
    let wanted = link.config.dynamic.plt_unwind_info && !link.kept_frames.files.is_empty();
    if !wanted || T::PLT_CIE.is_empty() {
        return Vec::new();
    }
    let (lazy, sec, direct) = link.plt_sizes();
    let tables = [
        (Kind::Plt, lazy, T::lazy_plt_cfi(&link.plt_shape)),
        (Kind::PltGot, direct, &[]),
        (Kind::PltSec, sec, &[]),
    ];
    tables.into_iter().filter(|&(_, size, _)| size > 0).collect()
}

/// The size of an FDE with these instructions, in bytes.
fn fde_size(instructions: &[u8]) -> usize {
    (FDE_HEAD + instructions.len()).next_multiple_of(8)
}

/// The number of FDEs.
pub fn fdes<T: Target>(link: &Numbered<'_, T>) -> usize {
    tables(link).len()
}

/// The size of all records in bytes.
pub fn size<T: Target>(link: &Numbered<'_, T>) -> u64 {
    let tables = tables(link);
    let cie = if tables.is_empty() { 0 } else { T::PLT_CIE.len() };
    (cie + tables.iter().map(|(.., instructions)| fde_size(instructions)).sum::<usize>()) as u64
}

/// The offset of each FDE from the CIE, with the address of its code.
pub fn rows<T: Target>(link: &Geometry<'_, T>) -> Vec<(u64, u64)> {
    let mut at = T::PLT_CIE.len() as u64;
    let row = |(kind, _, instructions): (Kind, u64, &'static [u8])| {
        let offset = at;
        at += fde_size(instructions) as u64;
        (offset, address::of_synthetic(link, kind))
    };
    tables(link).into_iter().map(row).collect()
}

/// Writes the records. `place` is the address of the first one.
pub fn write<T: Target>(link: &Geometry<'_, T>, place: u64, out: &mut [u8]) {
    if out.is_empty() {
        return;
    }
    let (cie, mut rest) = out.split_at_mut(T::PLT_CIE.len());
    cie.copy_from_slice(T::PLT_CIE);
    let mut at = cie.len();
    for (kind, size, instructions) in tables(link) {
        let Some(fde) = rest.split_off_mut(..fde_size(instructions)) else { return };
        fde.fill(0);
        let start = place.wrapping_add(at as u64 + 8);
        let code = address::of_synthetic(link, kind);
        let distance = i32::try_from(code.wrapping_sub(start) as i64).unwrap_or_else(|_| {
            let message = format!(
                "code of the procedure linkage table at {code:#x} is more than 2 GiB away from its record in .eh_frame at {start:#x}"
            );
            let help = "--no-ld-generated-unwind-info links without the record";
            link.sink.report(Diagnostic::error(Code::EhFrame, message).help(help));
            0
        });
        let length = fde.len();
        let mut put = |at: usize, word: [u8; 4]| fde[at..at + 4].copy_from_slice(&word);
        put(0, U32::<T::E>::new(length as u32 - 4).to_bytes());
        put(4, U32::<T::E>::new(at as u32 + 4).to_bytes());
        put(8, I32::<T::E>::new(distance).to_bytes());
        put(12, U32::<T::E>::new(size as u32).to_bytes());
        fde[FDE_HEAD..FDE_HEAD + instructions.len()].copy_from_slice(instructions);
        at += length;
    }
}
