//! Finds the sections whose addresses a program may compare. `--icf=safe` must not fold them: two functions
//! that had different addresses would have the same one.
//!
//! Compilers of the LLVM family write a table (`SHT_LLVM_ADDRSIG`) with the symbols of an object whose
//! addresses the code uses. For other objects, the relocations show it: nobody compares a function that code
//! only calls, or that a vtable names. Other modules may compare each symbol that they can see.

use crate::arch::Target;
use crate::cli::Icf;
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::frames::reader::Reader;
use crate::ids::{SectionId, SymbolId};
use crate::input::object::SHT_LLVM_ADDRSIG;
use crate::input::{ObjectFile, SectionClass};
use crate::phase::{Bound, SectionState, SectionStates};
use crate::symbols::SymbolFlags;
use parallel::ParallelSlice;
use std::sync::atomic::{AtomicBool, Ordering};

/// The sections that must not be folded. Threads only ever set these marks.
pub(super) struct Pinned(Vec<AtomicBool>);

impl Pinned {
    /// Whether a section is not folded.
    pub(super) fn contains(&self, id: SectionId) -> bool {
        self.0[id.index()].load(Ordering::Relaxed)
    }

    fn add(&self, id: SectionId) {
        if let Some(mark) = self.0.get(id.index())
            && !mark.load(Ordering::Relaxed)
        {
            mark.store(true, Ordering::Relaxed);
        }
    }
}

/// Finds the sections that must not be folded, because of an option or because of their addresses.
pub(super) fn pin<T: Target>(link: &Bound<'_, T>, sections: &SectionStates) -> Pinned {
    let marks = (0..link.first_internal()).map(|_| AtomicBool::new(false)).collect();
    let marker = Marker { link, sections, pinned: Pinned(marks), safe: link.config.icf.level == Icf::Safe };
    marker.keep_unique();
    if marker.safe || !link.config.icf.ignore_data_addresses {
        link.globals.ids().for_each(|id| marker.exported(id));
        link.objects.par_iter().for_each(|object| marker.object(object));
    }
    marker.pinned
}

struct Marker<'m, 'a, T: Target> {
    link: &'m Bound<'a, T>,
    sections: &'m SectionStates,
    pinned: Pinned,
    /// Functions must not be folded either, not only data.
    safe: bool,
}

impl<T: Target> Marker<'_, '_, T> {
    /// `--keep-unique`.
    fn keep_unique(&self) {
        let link = self.link;
        for name in &link.config.icf.keep_unique {
            match link.globals.lookup(name).and_then(|id| link.symbol_section(id)) {
                Some((section, _)) => self.pinned.add(section),
                None => {
                    let message = format!("could not find symbol {} to keep unique", link.name_text(name));
                    let place = Location::Argument("--keep-unique".into());
                    link.sink.report(Diagnostic::warning(Code::BadOption, message).at(place));
                }
            }
        }
    }

    fn exported(&self, id: SymbolId) {
        if self.link.symbol_flags(id).contains(SymbolFlags::EXPORTED)
            && let Some((section, _)) = self.link.symbol_section(id)
        {
            self.significant(section);
        }
    }

    /// Notes that a section's address may be compared.
    fn significant(&self, id: SectionId) {
        if self.safe || !self.is_code(id) {
            self.pinned.add(id);
        }
    }

    fn is_code(&self, id: SectionId) -> bool {
        self.link.locate(id).is_some_and(|(object, index)| is_code(object, index as usize))
    }

    fn object(&self, object: &ObjectFile<'_, T::E>) {
        let is_table = |index: &usize| object.headers[*index].sh_type.get() == SHT_LLVM_ADDRSIG;
        let table = (1..object.headers.len()).find(is_table);
        // Tools that renumber symbols without knowing the table leave a wrong `sh_link`, or 0. Then the
        // indices of the table are out of date.
        let table = table.filter(|&index| object.headers[index].sh_link.get() == object.symtab_index);
        match table {
            Some(index) => self.by_table(object, index),
            None => (1..object.headers.len()).for_each(|index| self.by_relocations(object, index)),
        }
    }

    fn by_table(&self, object: &ObjectFile<'_, T::E>, table: usize) {
        let bytes = object.section_bytes(table).unwrap_or_default();
        let mut reader = Reader::new(bytes, 0);
        while reader.at < bytes.len() {
            let start = reader.at;
            let index = reader.uleb128().and_then(|index| u32::try_from(index).ok());
            let Some(index) = index.filter(|&index| (index as usize) < object.symbols.len()) else {
                return self.broken_table(object, table, start as u64);
            };
            if let Some((section, _)) = self.link.referenced_section(object, index) {
                self.significant(section);
            }
        }
    }

    #[cold]
    fn broken_table(&self, object: &ObjectFile<'_, T::E>, table: usize, offset: u64) {
        let count = object.symbols.len();
        let message =
            format!("broken address-significance table: expected the number of one of {count} symbols");
        let section = object.section_name_lossy(table);
        self.link.sink.report(
            Diagnostic::error(Code::MalformedInput, message)
                .at(Location::Section { file: object.name.to_string(), section, offset })
                .help("build the object anew, or link without --icf")
                .ordered(object.id.0, table as u32, offset),
        );
    }

    /// Marks the sections whose address a relocation takes for another purpose than to jump there.
    fn by_relocations(&self, object: &ObjectFile<'_, T::E>, index: usize) {
        let (link, id) = (self.link, object.section_id(index as u32));
        let class = link.class_of(id);
        let describes = SectionClass::EH_FRAME | SectionClass::SFRAME | SectionClass::ORDERED;
        if !class.contains(SectionClass::ALLOC | SectionClass::RELOCATED)
            || class.intersects(describes)
            || !self.sections.is(id, SectionState::ALIVE)
            || self.sections.is(id, SectionState::NOT_CONTENT)
        {
            return;
        }
        let bytes = object.section_bytes(index).unwrap_or_default();
        let code = is_code(object, index);
        let vtable = is_vtable(object.section_name(index));
        for relocation in object.relocations(index) {
            let Some((section, _)) = link.referenced_section(object, relocation.symbol()) else { continue };
            if self.pinned.contains(section) {
                continue;
            }
            let jumps = || {
                let info = T::reloc_info(relocation.kind());
                let offset = usize::try_from(relocation.r_offset.get()).unwrap_or(usize::MAX);
                info.is_some_and(|info| T::is_branch(info, bytes, offset))
            };
            if !(vtable && self.is_code(section) || code && jumps()) {
                self.significant(section);
            }
        }
    }
}

fn is_code<E: zerocopy::byteorder::ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> bool {
    let flags = object.headers[index].sh_flags.get();
    is_alloc(flags) && flags & elf::SHF_EXECINSTR != 0
}

/// Whether a section holds a C++ vtable. The mangled name that compilers give it shows this. C++ compares
/// virtual functions by their index in the vtable, never by their address.
fn is_vtable(name: &[u8]) -> bool {
    let rest = [&b".data.rel.ro."[..], b".rodata."].iter().find_map(|prefix| name.strip_prefix(*prefix));
    let rest = rest.map(|rest| rest.strip_prefix(b"local.").unwrap_or(rest));
    rest.is_some_and(|rest| rest.starts_with(b"_ZTV") || rest.starts_with(b"_ZTC"))
}
