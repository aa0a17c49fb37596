//! `--zero-to-bss`: writable sections of nothing but zeros take no space in the file.
//!
//! Compilers put variables that start as zero into `.bss`, unless the source names another section for them.
//! Such a section is as good as `.bss` if nothing but zeros is in it. It keeps its name, and so its place in
//! the script, and its type becomes `SHT_NOBITS`, as if the compiler had known.

use crate::arch::Target;
use crate::elf::consts as elf;
use crate::elf::whole_table;
use crate::ids::FileId;
use crate::input::{ObjectFile, SectionClass};
use crate::phase::{Inputs, Resolved, SectionStates};
use parallel::ParallelSlice;
use zerocopy::IntoBytes;

/// Changes the type of such sections. Relocatable output keeps it for the final link.
pub fn run<'a, T: Target>(link: Resolved<'a, T>, sections: &SectionStates) -> Resolved<'a, T> {
    if !link.config.layout.zeros_as_bss || link.config.is_relocatable() {
        return link;
    }
    let found: Vec<(FileId, Vec<usize>)> =
        link.objects.par_iter().map(|object| (object.id, zeros(&link, sections, object))).collect();
    Resolved { inputs: change(link.inputs, found), ..link }
}

/// The header indices of an object's sections of zeros.
fn zeros<T: Target>(
    link: &Inputs<'_, T>,
    sections: &SectionStates,
    object: &ObjectFile<'_, T::E>,
) -> Vec<usize> {
    let is_zero = |&index: &usize| {
        let header = &object.headers[index];
        let id = object.section_id(index as u32);
        let kind = SectionClass::ALLOC
            | SectionClass::RELOCATED
            | SectionClass::MERGE
            | SectionClass::SFRAME
            | SectionClass::EH_FRAME;
        header.sh_type.get() == elf::SHT_PROGBITS
            && header.sh_flags.get() & (elf::SHF_WRITE | elf::SHF_EXECINSTR | elf::SHF_COMPRESSED)
                == elf::SHF_WRITE
            && link.class_of(id) & kind == SectionClass::ALLOC
            && sections.is_alive(id)
            && object
                .section_bytes(index)
                .is_ok_and(|bytes| !bytes.is_empty() && bytes.iter().all(|&byte| byte == 0))
    };
    if object.just_symbols { Vec::new() } else { (1..object.headers.len()).filter(is_zero).collect() }
}

fn change<'a, T: Target>(mut inputs: Inputs<'a, T>, found: Vec<(FileId, Vec<usize>)>) -> Inputs<'a, T> {
    let store = inputs.store;
    for (file, indices) in found.into_iter().filter(|(_, indices)| !indices.is_empty()) {
        let object = &mut inputs.objects[file.index()];
        let mut headers = object.headers.to_vec();
        for index in indices {
            headers[index].sh_type.set(elf::SHT_NOBITS);
            let id = object.section_id(index as u32);
            inputs.section_classes[id.index()].insert(SectionClass::NOBITS);
        }
        object.headers = whole_table(store.keep(headers.as_bytes()));
    }
    inputs
}
