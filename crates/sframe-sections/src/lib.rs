//! SFrame sections of ELF files: which sections they are, and how one that covers several text sections is
//! split into one for each ([`split`]).
//!
//! There are two kinds: sections of blobs, and sections of units (`sframe_format::light`). Sections of units
//! have a name and a type of their own.

pub mod split;

use elf::consts;
use sframe_format::SHT_GNU_SFRAME;
use sframe_format::light::{self, SHT_SFRAME_LIGHT};

/// Whether a section of this type and name is SFrame (SFrame rule 1). The type says so, whatever the name is.
/// Old assemblers wrote `SHT_PROGBITS`; with that type, the name says so.
pub fn is_sframe(sh_type: u32, name: &[u8]) -> bool {
    matches!(sh_type, SHT_GNU_SFRAME | SHT_SFRAME_LIGHT)
        || sh_type == consts::SHT_PROGBITS && is_sframe_name(name)
}

/// The type that an SFrame section of this type and name has in the output: that of units, or that of blobs.
#[inline]
pub fn output_type(sh_type: u32, name: &[u8]) -> u32 {
    let light = sh_type == SHT_SFRAME_LIGHT || sh_type == consts::SHT_PROGBITS && is_light_name(name);
    if light { SHT_SFRAME_LIGHT } else { SHT_GNU_SFRAME }
}

/// Whether a name is `.sframe`, `.sframe.*`, `.sframe_idx`, or a name of units.
#[inline]
pub fn is_sframe_name(name: &[u8]) -> bool {
    match name.strip_prefix(b".sframe") {
        Some(rest) => rest.is_empty() || rest[0] == b'.' || rest == b"_idx" || is_light_name(name),
        None => false,
    }
}

/// Whether a name is `.sframe_light` or `.sframe_light.*`.
#[inline]
fn is_light_name(name: &[u8]) -> bool {
    let rest = name.strip_prefix(light::SECTION_NAME.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'.')
}

#[cfg(test)]
mod tests {
    use super::{SHT_GNU_SFRAME, SHT_SFRAME_LIGHT, is_sframe_name, output_type};

    #[test]
    fn names_and_types() {
        for name in [&b".sframe"[..], b".sframe.text.f", b".sframe_idx", b".sframe_light", b".sframe_light.f"]
        {
            assert!(is_sframe_name(name));
        }
        for name in [&b".sframed"[..], b".sframe_idx2", b".sframe_lights", b".text"] {
            assert!(!is_sframe_name(name));
        }
        assert_eq!(output_type(1, b".sframe_light.f"), SHT_SFRAME_LIGHT);
        assert_eq!(output_type(1, b".sframe"), SHT_GNU_SFRAME);
    }
}
