//! Files at the addresses they were loaded at.

use super::memory::Memory;
use crate::tool::args::Derivation;
use crate::tool::derived;
use crate::tool::open::{Input, Load, Problem, for_each_input, open_elf};
use crate::tool::places::Places;
use sframe_format::convert::unite;
use sframe_format::write::Options;
use sframe_format::{Abi, CompactTable, FileRows, Module, ModuleId, Unwinder};
use std::ops::Range;
use std::path::Path;

/// A loaded file, without its rows.
struct Loaded {
    name: String,
    range: Range<u64>,
    bias: u64,
    places: Places,
}

/// The loaded files of a process.
pub struct Modules {
    abi: Abi,
    unwinder: Unwinder<Vec<u8>>,
    loaded: Vec<Loaded>,
    problems: Vec<Problem>,
}

/// The place at which a file is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This many bytes above the file's own addresses.
    Bias(u64),
    /// The byte at a file offset is at an address.
    Mapping {
        /// Offset in the file.
        offset: u64,
        /// Run-time address of that byte.
        address: u64,
    },
}

impl Modules {
    /// No files yet, for a process of an architecture.
    pub fn new(abi: Abi) -> Self {
        Self { abi, unwinder: Unwinder::new(abi), loaded: Vec::new(), problems: Vec::new() }
    }

    /// The unwinder over all of them.
    pub fn unwinder(&self) -> &Unwinder<Vec<u8>> {
        &self.unwinder
    }

    /// Files that could not be used. The other files are used all the same.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Adds a file from disk. A file that cannot be read is noted.
    pub fn add_file(&mut self, path: &Path, name: &str, place: Place, derivation: Derivation) {
        let result = for_each_input(path, 0, &mut |input| self.add(input, name, place, derivation));
        self.problems.extend(result.err());
    }

    /// Adds a file that memory holds as a whole from `address` on: the kernel's vDSO.
    pub fn add_image(&mut self, memory: &Memory, address: u64, name: &str) {
        let Some(bytes) = memory.from(address) else { return };
        let derivation = Derivation::of_files_without();
        let place = Place::Mapping { offset: 0, address };
        let result = open_elf(name, bytes).and_then(|input| self.add(input, name, place, derivation));
        self.problems.extend(result.err());
    }

    fn add(
        &mut self,
        mut input: Input<'_>,
        name: &str,
        place: Place,
        derivation: Derivation,
    ) -> Result<(), Problem> {
        let abi = self.abi;
        if input.abi != Some(abi) {
            let message = format!(
                "is for {}, the process was {abi}",
                input.abi.map_or("nothing".into(), |a| a.to_string())
            );
            return Err(Problem::new(name, message));
        }
        if derivation.wanted(&input) {
            derived::replace(&mut input, derivation.version())?;
        }
        let Some(bias) = bias(&input.loads, place) else {
            return Err(Problem::new(name, "no loadable segment of the file is where it was mapped"));
        };
        let start = input.loads.iter().map(|load| load.address).min().unwrap_or(0);
        let end =
            input.loads.iter().map(|load| load.address.saturating_add(load.memory_size)).max().unwrap_or(0);
        let range = start.wrapping_add(bias)..end.wrapping_add(bias);
        match (rows(&input, abi), input.compact.first()) {
            (Some(rows), _) => {
                let id = ModuleId(self.loaded.len() as u64);
                self.unwinder.add_module(Module::new(id, range.clone(), bias, rows));
            }
            (None, Some(section)) => {
                let id = ModuleId(self.loaded.len() as u64);
                let table = CompactTable::parse(section.data.to_vec(), section.address)
                    .map_err(|error| Problem::new(name, format!("compact table: {error}")))?;
                let rows = FileRows::default().with_compact(table);
                self.unwinder.add_module(Module::new(id, range.clone(), bias, rows));
            }
            (None, None) => {
                let message = "no SFrame section; --derived takes what .eh_frame gives";
                self.problems.push(Problem::new(name, message));
            }
        }
        self.loaded.push(Loaded { name: name.into(), range, bias, places: input.places });
        Ok(())
    }

    /// A code address with file and symbol; `inside` is an address within the instruction that is meant.
    pub fn describe(&self, address: u64, inside: u64, demangled: bool) -> String {
        let Some(loaded) = self.loaded.iter().find(|loaded| loaded.range.contains(&inside)) else {
            return "??".into();
        };
        let own = inside.wrapping_sub(loaded.bias);
        let symbol = loaded.places.symbol_at(own).map(|symbol| symbol.address);
        let name = loaded.places.symbol_name(symbol.unwrap_or(own), demangled);
        let file_address = address.wrapping_sub(loaded.bias);
        match (name, symbol) {
            (Some(name), Some(start)) => format!("{name}+{:#x} ({})", file_address - start, loaded.name),
            _ => format!("{file_address:#x} ({})", loaded.name),
        }
    }
}

/// The difference between run-time addresses and the file's own. Mappings start at whole pages,
/// segments need not.
fn bias(loads: &[Load], place: Place) -> Option<u64> {
    let (offset, address) = match place {
        Place::Bias(bias) => return Some(bias),
        Place::Mapping { offset, address } => (offset, address),
    };
    let holds = |load: &&Load| {
        let page = load.alignment.max(1);
        let start = load.offset - load.offset % page;
        start <= offset && offset < load.offset.saturating_add(load.file_size)
    };
    let load = loads.iter().find(holds)?;
    Some(address.wrapping_sub(load.address.wrapping_add(offset).wrapping_sub(load.offset)))
}

/// The rows of a file's sections; `None` without any.
fn rows(input: &Input<'_>, abi: Abi) -> Option<FileRows<Vec<u8>>> {
    // An index, where there is one, holds all functions.
    let index = input.sframe.iter().find(|section| section.name == ".sframe_idx");
    Some(match (index, input.sframe.as_slice()) {
        (None, []) => return None,
        (Some(section), _) | (None, [section]) if section.derived => {
            FileRows::default().with_derived(section.data.to_vec(), section.address)
        }
        (Some(section), _) | (None, [section]) => FileRows::new(section.data.to_vec(), section.address),
        // Blobs, and units of other objects.
        (None, several) => {
            let sections: Vec<_> = several.iter().map(|section| section.section()).collect();
            FileRows::new(unite(&sections, Options::new(abi), 0).ok()?.bytes, 0)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{Place, bias};
    use crate::tool::open::Load;

    #[test]
    fn segments_need_not_start_at_a_page() {
        let load = |offset, address, file_size| Load {
            offset,
            address,
            file_size,
            memory_size: file_size,
            alignment: 0x1000,
        };
        let loads = [load(0, 0, 0x1234), load(0x2340, 0x3340, 0x2000)];
        let mapped = |offset, address| bias(&loads, Place::Mapping { offset, address });
        assert_eq!(mapped(0, 0x7f00_0000), Some(0x7f00_0000));
        assert_eq!(mapped(0x2000, 0x7f00_3000), Some(0x7f00_0000));
        assert_eq!(mapped(0x9000, 0x7f00_3000), None);
    }
}
