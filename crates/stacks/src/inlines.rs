//! Inlined functions, from DWARF.
//!
//! The information may be spread: dwz moves what several files have in common to a file that they share, and
//! split DWARF leaves most of it in `.dwo` files beside the objects, or in one `.dwp` beside the program.

use crate::bytes::Bytes;
use crate::debug_file::DebugFile;
use crate::sections::section;
use crate::symbols::demangled;
use addr2line::{Context, FrameIter, LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::{Dwarf, DwarfPackage, EndianArcSlice, Reader, RunTimeEndian, SectionId};
use object::Object;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Slice = EndianArcSlice<RunTimeEndian>;

/// A function at an address, and its source line there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The function as people write it. `None`: DWARF does not name it.
    pub function: Option<Arc<str>>,
    /// Source file and line.
    pub place: Option<(String, u32)>,
}

/// The debug information of a file.
pub struct Inlines {
    context: Context<Slice>,
    /// The path of the file on this machine.
    path: PathBuf,
    /// All split parts in one file.
    package: Option<DwarfPackage<Slice>>,
}

impl Inlines {
    /// Reads a file's debug information. `None`: it has none.
    pub(crate) fn read(debug: &DebugFile) -> Option<Self> {
        let (bytes, path) = debug.information()?;
        let name = |id: SectionId| Some(id.name());
        let mut dwarf = Dwarf::load(loader(bytes, &parse(bytes)?, name)).ok()?;
        if let Some(shared) = debug.shared() {
            dwarf.load_sup(loader(shared, &parse(shared)?, name)).ok()?;
        }
        let package = package(&path);
        Some(Self { context: Context::from_dwarf(dwarf).ok()?, path, package })
    }

    /// The functions at an address, innermost first. The last one is the function of the symbol table.
    pub fn at(&self, address: u64) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut found = self.context.find_frames(address);
        let mut frames = loop {
            match found {
                LookupResult::Output(Ok(frames)) => break frames,
                LookupResult::Output(Err(_)) => return lines,
                LookupResult::Load { load, continuation } => {
                    found = continuation.resume(self.split_part(&load));
                }
            }
        };
        while let Some(line) = next(&mut frames) {
            lines.push(line);
        }
        lines
    }

    /// A part of split DWARF: in the package, or in a file of its own, which the compiler has named.
    fn split_part(&self, load: &SplitDwarfLoad<Slice>) -> Option<Arc<Dwarf<Slice>>> {
        let packed =
            self.package.as_ref().and_then(|package| package.find_cu(load.dwo_id, &load.parent).ok()?);
        if let Some(packed) = packed {
            return Some(Arc::new(packed));
        }
        let path_of = |slice: &Slice| Some(PathBuf::from(OsStr::from_bytes(&slice.to_slice().ok()?)));
        let name = path_of(load.path.as_ref()?)?;
        let folder = load.comp_dir.as_ref().and_then(path_of).unwrap_or_default();
        // The folder of the build may be gone, or on another machine.
        let beside = self.path.parent()?.join(name.file_name()?);
        let bytes = [folder.join(&name), beside].iter().find_map(|place| Bytes::open(place).ok())?;
        let mut part = Dwarf::load(loader(&bytes, &parse(&bytes)?, |id| id.dwo_name())).ok()?;
        part.make_dwo(&load.parent);
        // The file may be of another build.
        let mut units = part.units();
        while let Some(header) = units.next().ok()? {
            if part.unit(header).is_ok_and(|unit| unit.dwo_id == Some(load.dwo_id)) {
                return Some(Arc::new(part));
            }
        }
        None
    }
}

/// The package of split DWARF beside a file.
fn package(path: &Path) -> Option<DwarfPackage<Slice>> {
    let mut name = path.as_os_str().to_owned();
    name.push(".dwp");
    let bytes = Bytes::open(Path::new(&name)).ok()?;
    let file = parse(&bytes)?;
    let empty = EndianArcSlice::new(Arc::from([]), endian(&file));
    DwarfPackage::load(loader(&bytes, &file, |id| id.dwo_name()), empty).ok()
}

fn parse(bytes: &Bytes) -> Option<object::File<'_>> {
    object::File::parse(&**bytes).ok()
}

fn endian(file: &object::File<'_>) -> RunTimeEndian {
    if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big }
}

/// Gives the sections of a file by their names. A section that is not there is empty.
fn loader(
    bytes: &Bytes,
    file: &object::File<'_>,
    name: impl Fn(SectionId) -> Option<&'static str>,
) -> impl FnMut(SectionId) -> Result<Slice, gimli::Error> {
    move |id| {
        let found = name(id).and_then(|name| section(bytes, file, name)).unwrap_or_default();
        Ok(EndianArcSlice::new(Arc::from(&*found), endian(file)))
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
