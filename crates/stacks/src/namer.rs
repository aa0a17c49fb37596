//! Finds the names of places: by symbols, by debug information, by what programs say of the code that they
//! make. It asks the files as they are now, so a program that records can name frames at any time.

use crate::files::{FileId, Files, MappedFile};
use crate::jit_map::JitMap;
use crate::kernel::Kernel;
use crate::name::{Name, nameless, not_sampled, unnamed};
use crate::process::Place;
use crate::session::Frame;
use crate::symbols::{Symbol, demangled};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many demangled names are kept.
const MOST_FUNCTIONS: usize = 1 << 18;
/// A list that lacks a name is read again after this time, as long as its process may write to it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Finds the names of places, and keeps what several of them share.
#[derive(Default)]
pub struct Namer {
    /// Names of functions by file and start, because demangling is slow.
    functions: HashMap<(FileId, u64), Arc<str>, FixedState>,
    /// Lists of the code that processes have made, and when they were read.
    made: HashMap<u32, (Option<JitMap>, Instant), FixedState>,
}

impl Namer {
    /// The names of a frame, innermost first: with `inlined`, functions that were inlined come before the one
    /// that contains them, with source lines. There is at least one.
    pub fn names(&mut self, files: &Files, kernel: &Kernel, frame: &Frame, inlined: bool) -> Vec<Name> {
        let mut names = Vec::new();
        self.add((files, kernel), (frame.place, frame.returns), inlined, &mut names);
        names
    }

    /// Forgets what a process has made: it has ended, or executes another program.
    pub fn forget(&mut self, pid: u32) {
        self.made.remove(&pid);
    }

    /// Adds the names of a place, innermost first. If an address `returns`, the place is that of the call.
    pub(crate) fn add(
        &mut self,
        (files, kernel): (&Files, &Kernel),
        (place, returns): (Place, bool),
        inlined: bool,
        names: &mut Vec<Name>,
    ) {
        if self.functions.len() > MOST_FUNCTIONS {
            self.functions.clear();
        }
        let start = names.len();
        Search { files, kernel, inlined, namer: self }.add(place, names);
        let offsets = names[start..].iter_mut().filter_map(|name| name.offset.as_mut());
        offsets.for_each(|offset| *offset += u64::from(returns));
    }
}

/// A look-up.
struct Search<'a> {
    files: &'a Files,
    kernel: &'a Kernel,
    inlined: bool,
    namer: &'a mut Namer,
}

impl Search<'_> {
    fn add(&mut self, place: Place, names: &mut Vec<Name>) {
        match place {
            Place::File(id, address) => self.add_of_file(id, address, names),
            Place::Anonymous(pid, address) => names.push(self.of_made_code(pid, address)),
            Place::Unmapped(address) => names.push(nameless(address, "[unknown]")),
            Place::Kernel(address) => names.push(self.kernel.name(address)),
            Place::NotSampled => names.push(not_sampled()),
        }
    }

    /// The name of code that a process made while it ran.
    fn of_made_code(&mut self, pid: u32, address: u64) -> Name {
        let files = self.files;
        if let Some(name) = self.of_dumped_code(pid, address) {
            return name;
        }
        if let Some(name) = self.of_code_in_memory(pid, address) {
            return name;
        }
        let read = || (files.jit_map(pid), Instant::now());
        let (map, since) = self.namer.made.entry(pid).or_insert_with(read);
        let knows = |map: &Option<JitMap>| map.as_ref().is_some_and(|map| map.at(address).is_some());
        if files.are_live() && since.elapsed() > PATIENCE && !knows(map) {
            (*map, *since) = read();
        }
        let Some((map, (name, offset))) = map.as_ref().and_then(|map| Some((map, map.at(address)?))) else {
            return nameless(address, "[anonymous code]");
        };
        let function = String::from_utf8_lossy(name).into();
        Name {
            function,
            known: true,
            offset: Some(offset),
            file: Arc::clone(&map.path),
            place: None,
            inlined: false,
        }
    }

    /// The name of code by the jitdump of its process, with its source line if lines are asked for.
    fn of_dumped_code(&self, pid: u32, address: u64) -> Option<Name> {
        let dump = self.files.jit_dump(pid)?;
        let read = dump.read();
        let found = read.at(address)?;
        let text = |bytes| String::from_utf8_lossy(bytes);
        Some(Name {
            function: text(found.name).into(),
            known: true,
            offset: Some(found.offset),
            file: Arc::clone(&dump.path),
            place: found.line.filter(|_| self.inlined).map(|(file, line)| (text(file).into_owned(), line)),
            inlined: false,
        })
    }

    /// The name of code by what its process kept in memory for gdb.
    fn of_code_in_memory(&self, pid: u32, address: u64) -> Option<Name> {
        let object = self.files.last_jit_object(pid, address)?;
        let (name, offset) = object.name_at(address)?;
        let (function, file) = (demangled(name), "[code in memory]".into());
        Some(Name { function, known: true, offset: Some(offset), file, place: None, inlined: false })
    }

    fn add_of_file(&mut self, id: FileId, address: u64, names: &mut Vec<Name>) {
        let Some(file) = self.files.get(id) else { return names.push(nameless(address, "[unknown]")) };
        let outer = self.outer(id, file, address);
        // Reading debug information takes longer than all other work, so it happens only for `inlined`.
        let lines = if self.inlined { file.lines_at(address) } else { Vec::new() };
        let Some(last) = lines.len().checked_sub(1) else { return names.push(outer) };
        let name = |(number, line): (usize, crate::inlines::Line)| {
            let inlined = number != last;
            let function = line.function.filter(|_| inlined || !outer.known);
            let known = function.is_some() || !inlined && outer.known;
            let unnamed = || if inlined { "??".into() } else { Arc::clone(&outer.function) };
            Name {
                function: function.unwrap_or_else(unnamed),
                known,
                offset: outer.offset.filter(|_| !inlined),
                file: Arc::clone(&outer.file),
                place: line.place,
                inlined,
            }
        };
        names.extend(lines.into_iter().enumerate().map(name));
    }

    /// The function at an address of a file, into which others may have been inlined. If no symbol is there,
    /// it still starts where the file's frames say so.
    fn outer(&mut self, id: FileId, file: &MappedFile, address: u64) -> Name {
        let symbols = file.symbols();
        let symbol = symbols.at(address);
        let described = if symbol.is_some_and(Symbol::has_size) { None } else { file.start_at(address) };
        // A symbol without a size reaches to the next one, and functions without symbols may lie between.
        let symbol = symbol.filter(|symbol| described.is_none_or(|start| start <= symbol.address));
        let start = symbol.map(|symbol| symbol.address).or(described);
        let function = match symbol {
            Some(symbol) => {
                let known = self.namer.functions.entry((id, symbol.address));
                Arc::clone(known.or_insert_with(|| demangled(symbols.name(symbol))))
            }
            None => unnamed(Some(file.name()), start.unwrap_or(address)),
        };
        let (known, offset) = (symbol.is_some(), start.map(|start| address - start));
        Name { function, known, offset, file: Arc::clone(&file.path), place: None, inlined: false }
    }
}
