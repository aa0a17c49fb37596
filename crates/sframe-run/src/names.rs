//! Which programs are linkers, by their names and arguments, and which programs load no library, by their
//! bytes.

/// The names by which compilers start linkers. Cross linkers have a machine before it
/// (`aarch64-linux-gnu-ld`).
const LINKERS: [&[u8]; 9] =
    [b"ld", b"ld.bfd", b"ld.gold", b"ld.lld", b"ld.mold", b"ld.wild", b"lld", b"rust-lld", b"mold"];

/// Whether the program at this path is a linker for ELF.
pub fn is_linker(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    // `cargo-ld` is not a linker: the name of a machine has three parts, or contains `linux`.
    let cross = |suffix: &[u8]| {
        let machine = name.strip_suffix(suffix).and_then(|rest| rest.strip_suffix(b"-"));
        machine.is_some_and(|machine| machine.windows(6).any(|window| window == b"-linux"))
    };
    LINKERS.contains(&name) || LINKERS[..5].iter().any(|suffix| cross(suffix))
}

/// Whether an argument of `-m` names an emulation that is not 64-bit.
pub fn is_32_bit(emulation: &[u8]) -> bool {
    let starts = |prefix: &[u8]| emulation.starts_with(prefix);
    starts(b"elf_i386") || starts(b"elf32") || starts(b"armelf") || emulation == b"elf_s390"
}

/// Whether a file starts like a 64-bit ELF program that asks for no interpreter (gABI, "Program Header").
pub fn is_static(start: &[u8]) -> bool {
    if !start.starts_with(b"\x7fELF\x02") {
        return false;
    }
    let little = start.get(5) == Some(&1);
    let number = |at: usize, size: usize| -> Option<u64> {
        let bytes = start.get(at..at.checked_add(size)?)?;
        let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(if little { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) })
    };
    const PT_INTERP: u64 = 3;
    let kinds = || -> Option<bool> {
        let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let mut found = false;
        for row in 0..count {
            let at = usize::try_from(table.checked_add(row * size)?).ok()?;
            found |= number(at, 4)? == PT_INTERP;
        }
        Some(found)
    };
    // If in doubt, assume that it loads libraries.
    kinds() == Some(false)
}

#[cfg(test)]
mod tests {
    use super::{is_32_bit, is_linker, is_static};

    #[test]
    fn linkers_are_known_by_name() {
        for name in ["ld", "/usr/bin/ld.bfd", "x/rust-lld", "/usr/bin/aarch64-linux-gnu-ld.bfd", "ld.mold"] {
            assert!(is_linker(name.as_bytes()), "{name}");
        }
        for name in ["ldd", "/usr/bin/sframe-ld", "cargo-ld", "ld.so", "gcc", "", "/"] {
            assert!(!is_linker(name.as_bytes()), "{name}");
        }
        assert!(is_32_bit(b"elf_i386") && is_32_bit(b"elf32_x86_64") && !is_32_bit(b"elf_x86_64"));
    }

    #[test]
    fn this_test_loads_libraries() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(!is_static(&own) && !is_static(b"#!/bin/sh") && !is_static(&own[..60]));
        let mut without = own[..4096].to_vec();
        // Changes the type of every program header to 1.
        let count = usize::from(without[56]);
        (0..count).for_each(|row| without[64 + 56 * row] = 1);
        assert!(is_static(&without));
    }
}
