//! Rows for the procedure linkage tables, which no assembler describes.
//!
//! All entries of a table look the same, so one PC-mask function describes them: the reader takes the program
//! counter modulo the size of an entry. The machine knows what an entry does to the stack
//! ([`Target::plt_frames`]).

use crate::arch::Target;
use crate::arch::target::{PltFrame, PltPart, PltShape};
use crate::phase::Numbered;
use crate::sframe::collect::{Batch, Origin, Place, Role};
use crate::sframe::{abi, encoding};
use crate::tables::section::Kind;
use sframe_format::write::Function;
use sframe_format::{CfaRule, Frame, Location, RegisterRule, Row, Rules};

/// Describes the PLTs of this link, as one batch of functions.
pub fn describe<T: Target>(link: &Numbered<'_, T>) -> Batch {
    let shape = &link.plt_shape;
    let mut batch = Batch::new(Role::Written, encoding::<T>(link.config));
    batch.begin(Origin::Plt);
    let lazy = u64::from(link.slots.plt) * shape.entry;
    let (_, sec, direct) = link.plt_sizes();
    let header = if lazy == 0 { 0 } else { shape.header };
    let parts = [
        (Kind::Plt, 0, header, PltPart::Header, None),
        (Kind::Plt, header, lazy, PltPart::Lazy, Some(shape.entry)),
        (Kind::PltSec, 0, sec, PltPart::Direct, Some(shape.direct_entry)),
        (Kind::PltGot, 0, direct, PltPart::Direct, Some(shape.direct_entry)),
    ];
    for (kind, offset, size, part, repeat) in parts {
        let Some(row) = link.synthetic.find(kind) else { continue };
        let Ok(size) = u32::try_from(size) else { continue };
        let section = link.synthetic_id(row);
        let function = function_of::<T>(part, shape, size, repeat);
        // The rows of a machine's PLTs are well-formed. If the version cannot express one, the batch omits
        // it, and `build_sframe` reports it.
        let _ = batch.add(Place { section, offset }, &function);
    }
    batch
}

/// The function for a part of a PLT with `size` bytes. An entry takes `repeat` bytes; `None` means the
/// header, which does not repeat.
pub(super) fn function_of<T: Target>(
    part: PltPart,
    shape: &PltShape,
    size: u32,
    repeat: Option<u64>,
) -> Function {
    Function {
        size,
        repeat_size: repeat.map(|size| size as u8),
        rows: T::plt_frames(part, shape).iter().map(row_of::<T>).collect(),
        ..Function::default()
    }
}

/// The SFrame row for a frame of the linker's own code.
pub(super) fn row_of<T: Target>(frame: &PltFrame) -> Row {
    let abi = abi::<T>();
    let at_entry = abi.cfa_bias() - i64::from(abi.fixed_ra_offset());
    let saved = |offset: i32| RegisterRule::Saved(Location::at_cfa(offset));
    let rules = Rules::Frame(Frame {
        cfa: CfaRule::register(abi.stack_pointer(), at_entry + i64::from(frame.pushed)),
        ra: match (frame.return_address, abi.fixed_ra_offset()) {
            (Some(offset), _) => saved(offset),
            (None, 0) => RegisterRule::Unchanged,
            (None, fixed) => saved(fixed.into()),
        },
        fp: RegisterRule::Unchanged,
        mangled: false,
    });
    Row { start: frame.start.into(), rules }
}
