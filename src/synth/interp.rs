//! `.interp`: the path of the dynamic linker that starts the program (gABI, "Program Interpreter").

use super::synthesis::Synthesis;
use crate::arch::Target;
use crate::elf::consts as elf;
use crate::phase::Inputs;
use crate::tables::section::{Kind, READ_ONLY, SyntheticSection};

/// `.interp`.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis::fixed(|link| {
        let section = |path: &[u8]| {
            let bytes = link.store.keep([path, b"\0"].concat());
            SyntheticSection::of_bytes(Kind::Interp, b".interp", elf::SHT_PROGBITS, READ_ONLY, 1, bytes)
        };
        path(link).map(section).into()
    })
}

/// Whether a dynamic linker starts the output.
pub fn is_wanted<T: Target>(link: &Inputs<'_, T>) -> bool {
    path(link).is_some()
}

/// The path; `None` if no dynamic linker starts the output.
fn path<'a, T: Target>(link: &Inputs<'a, T>) -> Option<&'a [u8]> {
    let config = link.config;
    if !link.is_dynamic() || config.is_shared() || config.dynamic.no_dynamic_linker || config.static_link {
        return None;
    }
    Some(match &config.dynamic.dynamic_linker {
        Some(path) => path.as_os_str().as_encoded_bytes(),
        None => T::INTERPRETER.as_bytes(),
    })
}
