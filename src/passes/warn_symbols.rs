//! Reports the warnings that inputs hold for users of their symbols.
//!
//! A section `.gnu.warning.SYMBOL` holds a warning about references to SYMBOL, and `.gnu.warning` one about
//! linking the object at all. This is a convention of GNU ld; the C library has such sections for its
//! dangerous functions, in its shared form, too. Each object that refers to the symbol from a kept section
//! gets one warning, at the first such place.

use crate::arch::Target;
use crate::diag::{Code, Diagnostic, Location};
use crate::elf::Shdr;
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::{FileId, SymbolId};
use crate::input::ObjectFile;
use crate::phase::Live;
use crate::phase::Resolved;
use crate::phase::SectionState;
use crate::symbols::Definition;
use crate::symbols::MentionedBy;
use hashbrown::HashMap;
use parallel::ParallelSlice;
use zerocopy::byteorder::ByteOrder;

const NAME: &[u8] = b".gnu.warning";

/// Whether a section holds a warning text and is not loaded. Executables leave such sections out. `name`
/// tells whether the section has the name of one ([`is_warning_name`]). It is called last, because it reads
/// the name.
pub fn is_warning<E: ByteOrder>(header: &Shdr<E>, name: impl FnOnce() -> bool) -> bool {
    !is_alloc(header.sh_flags.get()) && holds_text(header, name)
}

/// Whether a section holds a warning text. Compilers load what C code puts into a section of such a name.
fn holds_text<E: ByteOrder>(header: &Shdr<E>, name: impl FnOnce() -> bool) -> bool {
    header.sh_type.get() == elf::SHT_PROGBITS && name()
}

/// Whether this is the name of a section with a warning text.
pub fn is_warning_name(name: &[u8]) -> bool {
    name.strip_prefix(NAME).is_some_and(|rest| rest.is_empty() || rest[0] == b'.')
}

/// The warning of a symbol.
struct Warning {
    symbol: SymbolId,
    text: String,
}

/// Reports the warnings. The pass runs after garbage collection, because only references from live sections
/// count.
pub fn run<T: Target>(link: &Live<'_, T>) {
    if link.config.is_relocatable() {
        return;
    }
    let mut warnings: Vec<Warning> = of_objects(link);
    warnings.extend(of_libraries(link));
    if warnings.is_empty() {
        return;
    }
    keep_first_of_each_symbol(&mut warnings);
    link.objects.par_iter().for_each(|object| report_references(link, object, &warnings));
}

fn keep_first_of_each_symbol(warnings: &mut Vec<Warning>) {
    warnings.sort_by_key(|warning| warning.symbol);
    warnings.dedup_by_key(|warning| warning.symbol);
}

fn of_objects<T: Target>(link: &Resolved<'_, T>) -> Vec<Warning> {
    link.objects
        .par_iter()
        .flat_map_iter(|object| {
            object.special.iter().filter_map(move |&index| {
                let index = index as usize;
                let name = || object.section_name(index);
                if !holds_text(&object.headers[index], || is_warning_name(name())) {
                    return None;
                }
                let text = shown(object.section_bytes(index).ok()?);
                match name().strip_prefix(NAME)?.strip_prefix(b".") {
                    Some(symbol) => Some(Warning { symbol: used(link, symbol)?, text }),
                    None => {
                        link.sink.report(
                            Diagnostic::warning(Code::InputWarning, text)
                                .at(Location::File(object.name.to_string()))
                                .ordered(object.id.0, index as u32, 0),
                        );
                        None
                    }
                }
            })
        })
        .collect()
}

/// The warnings of libraries about symbols that bind to them.
fn of_libraries<T: Target>(link: &Resolved<'_, T>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for library in &link.shared {
        for (index, header) in library.headers.iter().enumerate() {
            let name = || library.section_name(index);
            if !holds_text(header, || is_warning_name(name())) {
                continue;
            }
            let symbol = name().strip_prefix(NAME).and_then(|rest| rest.strip_prefix(b"."));
            let Some(symbol) = symbol.and_then(|symbol| used(link, symbol)) else { continue };
            let strong = link.mentions(symbol).contains(MentionedBy::STRONG_REFERENCE);
            let bound = matches!(
                link.definition(symbol),
                Definition::Shared { library: definer, .. } if definer == library.id
            );
            if let (true, Some(bytes)) = (bound && strong, library.section_bytes(index)) {
                warnings.push(Warning { symbol, text: shown(bytes) });
            }
        }
    }
    warnings
}

/// The symbol of this name, if an object mentions it.
fn used<T: Target>(link: &Resolved<'_, T>, name: &[u8]) -> Option<SymbolId> {
    link.globals.lookup(name).filter(|&id| link.mentions(id).contains(MentionedBy::IN_OBJECT))
}

fn shown(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim_end().to_string()
}

fn report_references<T: Target>(link: &Live<'_, T>, object: &ObjectFile<'_, T::E>, warnings: &[Warning]) {
    let first = object.first_global;
    let mut wanted: HashMap<u32, &str> = HashMap::new();
    for (offset, id) in object.globals.iter().enumerate() {
        let index = first + offset as u32;
        if object.symbols[index as usize].is_undefined()
            && let Ok(row) = warnings.binary_search_by_key(id, |warning| warning.symbol)
        {
            wanted.insert(index, &warnings[row].text);
        }
    }
    for index in 1..object.headers.len() {
        if wanted.is_empty() {
            return;
        }
        let id = object.section_id(index as u32);
        if !link.sections.is_alive(id) || link.sections.is(id, SectionState::NOT_CONTENT) {
            continue;
        }
        for relocation in object.relocations(index) {
            // Only the object's first reference to each symbol is reported.
            if let Some(text) = wanted.remove(&relocation.symbol()) {
                report(link, object, index, relocation.r_offset.get(), text);
            }
        }
    }
}

fn report<T: Target>(
    link: &Live<'_, T>,
    object: &ObjectFile<'_, T::E>,
    section: usize,
    offset: u64,
    text: &str,
) {
    let FileId(file) = object.id;
    link.sink.report(
        Diagnostic::warning(Code::InputWarning, text)
            .at(Location::Section {
                file: object.name.to_string(),
                section: object.section_name_lossy(section),
                offset,
            })
            .ordered(file, section as u32, offset),
    );
}
