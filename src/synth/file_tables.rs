//! The tables about the output itself: `.symtab`, `.symtab_shndx`, `.strtab` and `.shstrtab`.
//!
//! Their sizes depend on the number of symbols and sections in the output, which is known last. So
//! `make_image` computes the sizes. `write_output` writes the first three tables together
//! ([`super::symtab`]), and the names of sections with the section headers.

use super::synthesis::{Create, Grow, Size, Synthesis, Write};
use crate::arch::Target;
use crate::cli::Strip;
use crate::elf::consts as elf;
use crate::phase::Inputs;
use crate::tables::section::{Kind, SyntheticSection, WORD};

/// `.symtab`.
pub fn symbols<T: Target>() -> Synthesis<T> {
    let create = Create::Early(|link| {
        let section = || SyntheticSection::new(Kind::SymTab, b".symtab", elf::SHT_SYMTAB, 0, WORD);
        has_symbols(link).then(|| section().entries(24)).into()
    });
    Synthesis { create, ..about_file() }
}

/// `.symtab_shndx`.
pub fn section_numbers<T: Target>() -> Synthesis<T> {
    let create = Create::Early(|link| {
        let (name, sh_type) = (b".symtab_shndx", elf::SHT_SYMTAB_SHNDX);
        let section = || SyntheticSection::new(Kind::SymTabShndx, name, sh_type, 0, 4);
        has_symbols(link).then(|| section().entries(4)).into()
    });
    Synthesis { create, ..about_file() }
}

/// `.strtab`.
pub fn symbol_names<T: Target>() -> Synthesis<T> {
    let create = Create::Early(|link| {
        let section = || SyntheticSection::new(Kind::StrTab, b".strtab", elf::SHT_STRTAB, 0, 1);
        has_symbols(link).then(section).into()
    });
    Synthesis { create, ..about_file() }
}

/// `.shstrtab`.
pub fn section_names<T: Target>() -> Synthesis<T> {
    let create = Create::Early(|link| {
        let section = || SyntheticSection::new(Kind::ShStrTab, b".shstrtab", elf::SHT_STRTAB, 0, 1);
        (!link.config.layout.no_section_headers).then(section).into()
    });
    Synthesis { create, ..about_file() }
}

fn has_symbols<T: Target>(link: &Inputs<'_, T>) -> bool {
    let keeps = link.config.is_relocatable() || link.config.strip.strip != Strip::All;
    keeps && !link.config.layout.no_section_headers
}

fn about_file<T: Target>() -> Synthesis<T> {
    Synthesis { create: Create::Later, size: Size::File, grow: Grow::Never, write: Write::Together }
}
