//! Inlined functions, from DWARF.

use crate::bytes::Bytes;
use crate::symbols::demangled;
use addr2line::{Context, FrameIter};
use gimli::{EndianRcSlice, RunTimeEndian};
use object::{Object, ObjectSection};
use std::rc::Rc;
use std::sync::Arc;

type Slice = EndianRcSlice<RunTimeEndian>;

/// A function at an address, and its source line there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The function as people write it. `None`: DWARF does not name it.
    pub function: Option<Arc<str>>,
    /// Source file and line.
    pub place: Option<(String, u32)>,
}

/// The debug information of a file.
pub struct Inlines(Context<Slice>);

impl Inlines {
    /// Reads a file's debug information. `None`: it has none.
    pub fn read(bytes: &Bytes) -> Option<Self> {
        let file = object::File::parse(&**bytes).ok()?;
        file.section_by_name(".debug_info").or_else(|| file.section_by_name(".zdebug_info"))?;
        let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let load = |id: gimli::SectionId| -> Result<Slice, gimli::Error> {
            let section = file.section_by_name(id.name());
            let data = section.and_then(|section| section.uncompressed_data().ok()).unwrap_or_default();
            Ok(EndianRcSlice::new(Rc::from(&*data), endian))
        };
        let dwarf = gimli::Dwarf::load(load).ok()?;
        Context::from_dwarf(dwarf).ok().map(Self)
    }

    /// The functions at an address, innermost first. The last one is the function of the symbol table.
    pub fn at(&self, address: u64) -> Vec<Line> {
        let mut lines = Vec::new();
        let Ok(mut frames) = self.0.find_frames(address).skip_all_loads() else { return lines };
        while let Some(line) = next(&mut frames) {
            lines.push(line);
        }
        lines
    }
}

fn next(frames: &mut FrameIter<'_, Slice>) -> Option<Line> {
    let frame = frames.next().ok()??;
    let function = frame.function.as_ref().and_then(|function| {
        let name = function.raw_name().ok()?;
        Some(demangled(name.as_bytes()))
    });
    let place =
        frame.location.and_then(|location| Some((location.file?.to_owned(), location.line.unwrap_or(0))));
    Some(Line { function, place })
}
