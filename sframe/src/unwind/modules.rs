//! Files at the addresses they were loaded at.

use super::memory::Memory;
use crate::args::Derivation;
use crate::derived;
use crate::open::{Input, Load, Problem, for_each_input, open_elf};
use crate::places::Places;
use sframe_format::convert::unite;
use sframe_format::write::Options;
use sframe_format::{Abi, CompactTable, FileRows, Module, ModuleId, Unwinder};
use stacks::files::hexadecimal;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A loaded file, without its rows.
struct Loaded {
    name: String,
    range: Range<u64>,
    bias: u64,
    places: Arc<Places>,
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
        /// Bytes of a page: mappings begin at one, segments need not.
        page: u64,
        /// Whether code may run there, if that is known.
        executable: Option<bool>,
    },
}

/// A file that is loaded somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loading {
    /// Where.
    pub place: Place,
    /// The build-id that the process saw there, if memory tells.
    pub build_id: Option<Vec<u8>>,
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

    /// Adds a file from disk, wherever it is loaded. A file that cannot be read is noted.
    pub fn add_file(&mut self, path: &Path, name: &str, loadings: &[Loading], derivation: Derivation) {
        let result = for_each_input(path, 0, &mut |input| self.add(input, name, loadings, derivation));
        self.problems.extend(result.err());
    }

    /// Adds a file that memory holds as a whole from `address` on: the kernel's vDSO.
    pub fn add_image(&mut self, memory: &Memory, address: u64, name: &str) {
        let Some(bytes) = memory.from(address) else { return };
        let derivation = Derivation::of_files_without();
        let place = Place::Mapping { offset: 0, address, page: 0x1000, executable: Some(true) };
        let loadings = [Loading { place, build_id: None }];
        let result = open_elf(name, bytes).and_then(|input| self.add(input, name, &loadings, derivation));
        self.problems.extend(result.err());
    }

    fn add(
        &mut self,
        mut input: Input<'_>,
        name: &str,
        loadings: &[Loading],
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
        let biases = self.biases(&input, name, loadings);
        if biases.is_empty() {
            return Ok(());
        }
        let rows = rows(&input, name, abi)?.map(Arc::new);
        if rows.is_none() {
            let message = "no SFrame section; --derived takes what .eh_frame gives";
            self.problems.push(Problem::new(name, message));
        }
        let start = input.loads.iter().map(|load| load.address).min().unwrap_or(0);
        let end =
            input.loads.iter().map(|load| load.address.saturating_add(load.memory_size)).max().unwrap_or(0);
        let places = Arc::new(input.places);
        for bias in biases {
            let range = start.wrapping_add(bias)..end.wrapping_add(bias);
            if let Some(rows) = &rows {
                let id = ModuleId(self.loaded.len() as u64);
                self.unwinder.add_module(Module::new(id, range.clone(), bias, Arc::clone(rows)));
            }
            self.loaded.push(Loaded { name: name.into(), range, bias, places: Arc::clone(&places) });
        }
        Ok(())
    }

    /// What is to be added to a file's addresses where it is loaded, each once. What is wrong with a place is
    /// noted.
    fn biases(&mut self, input: &Input<'_>, name: &str, loadings: &[Loading]) -> BTreeSet<u64> {
        let (mut biases, mut messages) = (BTreeSet::new(), BTreeSet::new());
        let text = |id: Option<&Vec<u8>>| id.map_or("none".into(), |id| hexadecimal(id));
        for loading in loadings {
            if loading.build_id.is_some() && loading.build_id != input.build_id {
                messages.insert(format!(
                    "the file was replaced since the process ran: its build-id is {}, the core file says {}; --sysroot or a FILE \
                     says where the old one is, FILE@BIAS takes one as it is",
                    text(input.build_id.as_ref()),
                    text(loading.build_id.as_ref())
                ));
            } else if let Some(bias) = bias(&input.loads, loading.place) {
                biases.insert(bias);
            } else {
                messages.insert("no loadable segment of the file is where it was mapped".into());
            }
        }
        self.problems.extend(messages.into_iter().map(|message| Problem::new(name, message)));
        biases
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

/// The difference between run-time addresses and the file's own. Of several segments in one page it is the
/// one that is executable as the mapping is.
fn bias(loads: &[Load], place: Place) -> Option<u64> {
    let (offset, address, page, executable) = match place {
        Place::Bias(bias) => return Some(bias),
        Place::Mapping { offset, address, page, executable } => (offset, address, page, executable),
    };
    let start = |load: &Load| load.offset - load.offset % page.max(1);
    let holds = |load: &&Load| start(load) <= offset && offset < load.offset.saturating_add(load.file_size);
    let fits = |load: &&Load| (executable.is_none_or(|it| it == load.executable), start(load) == offset);
    // Of those that fit equally well, the first.
    let load = loads.iter().rev().filter(holds).max_by_key(fits)?;
    Some(address.wrapping_sub(load.address.wrapping_add(offset).wrapping_sub(load.offset)))
}

/// The rows of a file; `None` without any.
fn rows(input: &Input<'_>, name: &str, abi: Abi) -> Result<Option<FileRows<Vec<u8>>>, Problem> {
    if let Some(rows) = own_rows(input, abi) {
        return Ok(Some(rows));
    }
    let Some(section) = input.compact.first() else { return Ok(None) };
    let table = CompactTable::parse(section.data.to_vec(), section.address)
        .map_err(|error| Problem::new(name, format!("compact table: {error}")))?;
    Ok(Some(FileRows::default().with_compact(table)))
}

/// The rows of a file's sections; `None` without any.
fn own_rows(input: &Input<'_>, abi: Abi) -> Option<FileRows<Vec<u8>>> {
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
    use crate::open::Load;

    #[test]
    fn segments_need_not_start_at_a_page() {
        let load = |offset, address, file_size, executable| Load {
            offset,
            address,
            file_size,
            memory_size: file_size,
            executable,
        };
        let loads = [load(0, 0, 0x1234, false), load(0x2340, 0x3340, 0x2000, true)];
        let mapped = |loads: &[Load], offset, address, executable| {
            bias(loads, Place::Mapping { offset, address, page: 0x1000, executable })
        };
        assert_eq!(mapped(&loads, 0, 0x7f00_0000, None), Some(0x7f00_0000));
        assert_eq!(mapped(&loads, 0x2000, 0x7f00_3000, Some(true)), Some(0x7f00_0000));
        assert_eq!(mapped(&loads, 0x9000, 0x7f00_3000, Some(true)), None);
        // As lld lays segments out: both have bytes in one page of the file, and a page of memory each.
        let loads = [load(0, 0, 0x2338, false), load(0x2340, 0x3340, 0x2000, true)];
        assert_eq!(mapped(&loads, 0x2000, 0x7f00_3000, Some(true)), Some(0x7f00_0000));
        assert_eq!(mapped(&loads, 0x2000, 0x7f00_2000, Some(false)), Some(0x7f00_0000));
    }
}
