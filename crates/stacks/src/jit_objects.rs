//! Code that a running process made, by what it keeps in memory for gdb, for profilers, or for itself.
//!
//! Compilers keep a list of ELF files in memory for gdb (`__jit_debug_descriptor`; gdb's manual, "JIT
//! Interface"): LLVM, LuaJIT, PHP, V8 and others do, if they are asked to. Programs that use
//! `libsframe_unwind` have a list of code and SFrame sections (`__sframe_jit_descriptor` in
//! `sframe-unwind.h`). This module reads both in the memory of the process, when a walk meets code of no
//! file. New entries come first in a list, so it is read from its first entry to one that is known. What a
//! process unlinks describes no frames any more, but it still names samples that were taken before. Java's
//! virtual machine has no list, but heaps of code, which [`crate::hotspot`] reads.
//!
//! The process may change its memory at any time, and may write anything: a list is followed for a number of
//! entries, and memory is copied piece by piece, up to a size.

use crate::bytes::Bytes;
use crate::hotspot::HotSpot;
use crate::jit_object::JitObject;
use crate::process_memory::ProcessMemory;
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, elf};
use sframe_format::Abi;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest number of entries of a list.
const MAX_ENTRIES: usize = 1 << 16;
/// The most bytes that are copied for one entry, and for all entries of a process.
const MAX_SIZE: u64 = 16 << 20;
const MAX_TOTAL: u64 = 256 << 20;

/// A variable that leads to code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variable {
    /// The descriptor of a list.
    List(Kind),
    /// The tables of the fields and the types of HotSpot.
    HotSpotStructs,
    HotSpotTypes,
}

impl Variable {
    fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"__jit_debug_descriptor" => Some(Self::List(Kind::Gdb)),
            b"__sframe_jit_descriptor" => Some(Self::List(Kind::Sframe)),
            b"gHotSpotVMStructs" => Some(Self::HotSpotStructs),
            b"gHotSpotVMTypes" => Some(Self::HotSpotTypes),
            _ => None,
        }
    }
}

/// What a list is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// gdb. Its descriptor: version, action, the entry of the action, the first entry. Its entries: the next
    /// one, the one before, address and size of a file.
    Gdb,
    /// Profilers. Its descriptor: version, size of entries, the first entry. Its entries: the next one,
    /// address and size of a section, address and size of its code.
    Sframe,
}

impl Kind {
    /// Where the descriptor has the address of the first entry.
    const fn first_at(self) -> u64 {
        match self {
            Self::Gdb => 16,
            Self::Sframe => 8,
        }
    }

    /// The words of an entry.
    const fn words(self) -> usize {
        match self {
            Self::Gdb => 4,
            Self::Sframe => 5,
        }
    }
}

/// The variables that a file defines, with the addresses that it states.
pub fn variables(bytes: &[u8]) -> Vec<(Variable, u64)> {
    let read = |kind| {
        let header = elf::FileHeader64::<Endianness>::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        let symbols = header.sections(endian, bytes).ok()?.symbols(endian, bytes, kind).ok()?;
        let found = symbols.iter().filter(|symbol| symbol.st_type() == elf::STT_OBJECT);
        let found = found.filter(|symbol| symbol.st_shndx(endian) != elf::SHN_UNDEF);
        let found = found.filter_map(|symbol| {
            let name = symbol.name(endian, symbols.strings()).ok()?;
            Some((Variable::named(name)?, symbol.st_value(endian)))
        });
        Some(found.collect::<Vec<_>>())
    };
    let mut all: Vec<_> = [elf::SHT_SYMTAB, elf::SHT_DYNSYM].into_iter().filter_map(read).flatten().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// A descriptor in a process, and the entry that was first when its list was read.
struct List {
    kind: Kind,
    descriptor: u64,
    first: u64,
}

/// An entry of a list: its address and its words but for the links, with what it leads to.
struct Entry {
    key: (Kind, u64, [u64; 4]),
    object: Option<Arc<JitObject>>,
}

/// The code of a process.
pub struct JitObjects {
    abi: Abi,
    memory: Arc<ProcessMemory>,
    hotspot: Option<HotSpot>,
    lists: Vec<List>,
    entries: Vec<Entry>,
    /// By the start of the code: its end, and whether it is still in a list.
    code: BTreeMap<u64, (u64, bool, Arc<JitObject>)>,
    copied: u64,
}

impl JitObjects {
    /// Whether a virtual machine has made the code.
    pub fn are_of_virtual_machine(&self) -> bool {
        self.hotspot.is_some()
    }

    /// The code of a process that has variables at these addresses. `None`: its memory cannot be read.
    pub fn open(abi: Abi, pid: u32, variables: &[(Variable, u64)]) -> Option<Self> {
        let memory = Arc::new(ProcessMemory::open(pid, abi.endian())?);
        let list = |&(variable, descriptor)| match variable {
            Variable::List(kind) => Some(List { kind, descriptor, first: 0 }),
            _ => None,
        };
        let lists = variables.iter().filter_map(list).collect();
        let of = |wanted| variables.iter().find(|(variable, _)| *variable == wanted).map(|found| found.1);
        let tables = of(Variable::HotSpotStructs).zip(of(Variable::HotSpotTypes));
        let tables = tables.filter(|_| abi == Abi::Amd64);
        let hotspot = tables.and_then(|(structs, types)| HotSpot::open(Arc::clone(&memory), structs, types));
        let (entries, code) = (Vec::new(), BTreeMap::new());
        Some(Self { abi, memory, hotspot, lists, entries, code, copied: 0 })
    }

    /// The code at an address, as far as it is in a list now.
    pub fn now_at(&mut self, address: u64) -> Option<Arc<JitObject>> {
        let is_new = |list: &List| self.first_of(list).is_some_and(|first| first != list.first);
        if self.lists.iter().any(is_new) {
            self.read();
        }
        match self.listed_at(address) {
            Some((object, true)) => Some(Arc::clone(object)),
            _ => self.hotspot.as_mut()?.now_at(address),
        }
    }

    /// Whether a method is at an address, which an interpreter is said to run. It has a name from then on.
    pub fn has_method(&mut self, address: u64) -> bool {
        self.hotspot.as_mut().is_some_and(|hotspot| hotspot.has_method(address))
    }

    /// Reads what a virtual machine has made since the last look.
    pub fn look(&mut self) {
        if let Some(hotspot) = &mut self.hotspot {
            hotspot.look();
        }
    }

    /// The code that was last at an address.
    pub fn at(&self, address: u64) -> Option<Arc<JitObject>> {
        match self.listed_at(address) {
            Some((object, _)) => Some(Arc::clone(object)),
            None => self.hotspot.as_ref()?.at(address),
        }
    }

    /// The code that was last at an address, and whether it is in a list.
    fn listed_at(&self, address: u64) -> Option<(&Arc<JitObject>, bool)> {
        let (_, (end, is_listed, object)) = self.code.range(..=address).next_back()?;
        (address < *end).then_some((object, *is_listed))
    }

    fn first_of(&self, list: &List) -> Option<u64> {
        Some(self.memory.words(list.descriptor.checked_add(list.kind.first_at())?, 1)?[0])
    }

    /// Reads the lists.
    fn read(&mut self) {
        let known = std::mem::take(&mut self.entries);
        let mut lists = std::mem::take(&mut self.lists);
        for (_, is_listed, _) in self.code.values_mut() {
            *is_listed = false;
        }
        for list in &mut lists {
            list.first = self.first_of(list).unwrap_or(0);
            let mut at = list.first;
            let mut found = Vec::new();
            while at != 0 && found.len() < MAX_ENTRIES {
                let Some(words) = self.memory.words(at, list.kind.words()) else { break };
                let mut what = [0; 4];
                what[..words.len() - 1].copy_from_slice(&words[1..]);
                let key = (list.kind, at, what);
                // What comes behind an entry that was there before has not changed.
                if let Some(place) = known.iter().position(|entry| entry.key == key) {
                    let same = known[place..].iter().filter(|entry| entry.key.0 == list.kind);
                    found.extend(same.map(|entry| Entry { key: entry.key, object: entry.object.clone() }));
                    break;
                }
                let object = self.object(list.kind, what).map(Arc::new);
                found.push(Entry { key, object });
                at = words[0];
            }
            // The newest come first, and hold where code overlaps.
            for entry in found.iter().rev() {
                entry.object.iter().for_each(|object| self.add(object));
            }
            self.entries.extend(found);
        }
        self.lists = lists;
    }

    /// Adds code in place of that which it overlaps.
    fn add(&mut self, object: &Arc<JitObject>) {
        for range in &object.code {
            let overlapped =
                self.code.range(..range.end).rev().take_while(|(_, (end, ..))| *end > range.start);
            for old in overlapped.map(|(&old, _)| old).collect::<Vec<_>>() {
                self.code.remove(&old);
            }
            self.code.insert(range.start, (range.end, true, Arc::clone(object)));
        }
    }

    /// What an entry leads to.
    fn object(&mut self, kind: Kind, what: [u64; 4]) -> Option<JitObject> {
        match kind {
            Kind::Gdb => JitObject::of_elf(self.abi, &self.copy(what[1], what[2])?),
            Kind::Sframe => {
                let code = what[2]..what[2].checked_add(what[3]).filter(|&end| end > what[2])?;
                Some(JitObject::of_sframe(self.copy(what[0], what[1])?, what[0], code))
            }
        }
    }

    /// Copies memory of the process.
    fn copy(&mut self, address: u64, size: u64) -> Option<Bytes> {
        if size > MAX_SIZE || self.copied + size > MAX_TOTAL {
            return None;
        }
        let bytes = self.memory.bytes(address, size as usize)?;
        self.copied += size;
        Some(bytes.into())
    }
}
