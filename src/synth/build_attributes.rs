//! Build attributes of AArch64 (`.ARM.attributes`; "Build Attributes for the Arm 64-bit Architecture"), by
//! which an assembler says what program properties say.
//!
//! A section is a version and subsections. Each subsection has a name, two bytes about it, and pairs of a
//! number and a value. The attributes that the linker knows count as the properties of the object
//! ([`super::property_note`]), so that one rule is enough for both. The output gets a section of its own that
//! says the same. The sections of the inputs cannot simply stand behind one another: no reader would
//! understand the result.

use super::attributes::{push_number, split_sized, take_number};
use super::synthesis::Synthesis;
use crate::arch::Target;
use crate::arch::machine::{FEATURE_BTI, FEATURE_GCS, FEATURE_PAC};
use crate::diag::{Code, Diagnostic, Location};
use crate::ids::SectionId;
use crate::input::ObjectFile;
use crate::phase::{Inputs, SectionStates};
use crate::tables::section::{Kind, SyntheticSection};
use zerocopy::byteorder::{ByteOrder, U32};

/// `.ARM.attributes`, if an object has one.
pub fn synthesis<T: Target>() -> Synthesis<T> {
    Synthesis::fixed(|link| {
        let bytes = &link.properties.attributes;
        let section = |sh_type| {
            let bytes = link.store.keep(bytes.clone());
            SyntheticSection::of_bytes(Kind::BuildAttributes, b".ARM.attributes", sh_type, 0, 1, bytes)
        };
        T::BUILD_ATTRIBUTES.filter(|_| !bytes.is_empty()).map(section).into()
    })
}

/// The only version of the format.
const VERSION: u8 = b'A';
const FEATURES: &[u8] = b"aeabi_feature_and_bits";
const SIGNED_POINTERS: &[u8] = b"aeabi_pauthabi";
/// The features, by the numbers of their attributes.
const BITS: [u32; 3] = [FEATURE_BTI, FEATURE_PAC, FEATURE_GCS];
/// The numbers of the platform and of the version of the ABI of signed pointers.
const PLATFORM: u64 = 1;
const SCHEMA: u64 = 2;
/// A reader that does not know the subsection has to refuse the file.
const REQUIRED: u8 = 0;
/// A reader may skip the subsection.
const OPTIONAL: u8 = 1;
/// The values are numbers (ULEB128).
const NUMBERS: u8 = 0;

/// The attributes of an object, or of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BuildAttributes {
    /// Bits of the machine's features; `None` if nothing says them.
    pub features: Option<u32>,
    /// Platform and version of the ABI of signed pointers; `None` if nothing says them.
    pub signed_pointers: Option<(u64, u64)>,
}

/// The attributes of an object, and the sections that hold them.
pub fn read<T: Target>(
    link: &Inputs<'_, T>,
    states: &SectionStates,
    object: &ObjectFile<'_, T::E>,
) -> (BuildAttributes, Vec<SectionId>) {
    let (mut attributes, mut sections) = (BuildAttributes::default(), Vec::new());
    let Some(kind) = T::BUILD_ATTRIBUTES else { return (attributes, sections) };
    for index in object.special.iter().map(|&index| index as usize) {
        let id = object.section_id(index as u32);
        if object.headers[index].sh_type.get() != kind || !states.is_alive(id) {
            continue;
        }
        sections.push(id);
        let bytes = object.section_bytes(index).unwrap_or(&[]);
        let mut unknown = Vec::new();
        if read_section::<T::E>(bytes, &mut attributes, &mut unknown).is_none() {
            let message = "build attributes are cut short or have a wrong size; they are read up to there";
            report(link, object, index, message.to_owned());
        }
        for name in unknown {
            let name = String::from_utf8_lossy(name);
            let message = format!(
                "build attributes {name} are not known, and dropped, though readers have to know them"
            );
            report(link, object, index, message);
        }
    }
    (attributes, sections)
}

fn report<T: Target>(link: &Inputs<'_, T>, object: &ObjectFile<'_, T::E>, index: usize, message: String) {
    let section = object.section_name_lossy(index);
    let location = Location::Section { file: object.name.to_string(), section, offset: 0 };
    let finding = Diagnostic::warning(Code::MalformedInput, message).at(location);
    link.sink.report(finding.ordered(object.id.0, index as u32, 0));
}

/// Reads a section; `None` if it is malformed. Also returns the names of unknown subsections that are not
/// optional.
fn read_section<'a, E: ByteOrder>(
    bytes: &'a [u8],
    attributes: &mut BuildAttributes,
    unknown: &mut Vec<&'a [u8]>,
) -> Option<()> {
    let Some((&version, mut rest)) = bytes.split_first() else { return Some(()) };
    if version != VERSION {
        return None;
    }
    while !rest.is_empty() {
        let (subsection, next) = split_sized::<E>(rest, 0)?;
        rest = next;
        let (name, body) = subsection.split_at(memchr::memchr(0, subsection)?);
        let &[_, comprehension, encoding, ref list @ ..] = body else { return None };
        match name {
            FEATURES if encoding == NUMBERS => read_features(list, attributes.features.get_or_insert(0))?,
            SIGNED_POINTERS if encoding == NUMBERS => {
                read_signed_pointers(list, attributes.signed_pointers.get_or_insert((0, 0)))?;
            }
            _ if comprehension == REQUIRED => unknown.push(name),
            _ => {}
        }
    }
    Some(())
}

fn read_features(mut list: &[u8], features: &mut u32) -> Option<()> {
    while !list.is_empty() {
        let (number, value) = (take_number(&mut list)?, take_number(&mut list)?);
        let bit = usize::try_from(number).ok().and_then(|number| BITS.get(number));
        *features |= bit.filter(|_| value != 0).copied().unwrap_or(0);
    }
    Some(())
}

fn read_signed_pointers(mut list: &[u8], (platform, schema): &mut (u64, u64)) -> Option<()> {
    while !list.is_empty() {
        let (number, value) = (take_number(&mut list)?, take_number(&mut list)?);
        match number {
            PLATFORM => *platform = value,
            SCHEMA => *schema = value,
            _ => {}
        }
    }
    Some(())
}

/// The contents of a section. They are empty if there is nothing to say.
pub fn encode<E: ByteOrder>(attributes: BuildAttributes) -> Vec<u8> {
    let mut out = vec![VERSION];
    if let Some(features) = attributes.features {
        let values = (0..).zip(BITS.map(|bit| u64::from(features & bit != 0)));
        push_subsection::<E>(&mut out, FEATURES, OPTIONAL, values);
    }
    if let Some((platform, schema)) = attributes.signed_pointers {
        push_subsection::<E>(
            &mut out,
            SIGNED_POINTERS,
            REQUIRED,
            [(PLATFORM, platform), (SCHEMA, schema)].into_iter(),
        );
    }
    if out.len() == 1 { Vec::new() } else { out }
}

fn push_subsection<E: ByteOrder>(
    out: &mut Vec<u8>,
    name: &[u8],
    comprehension: u8,
    values: impl Iterator<Item = (u64, u64)>,
) {
    let start = out.len();
    out.extend([0; 4]);
    out.extend(name);
    out.extend([0, comprehension, NUMBERS]);
    for (number, value) in values {
        push_number(out, number);
        push_number(out, value);
    }
    let size = U32::<E>::new((out.len() - start) as u32).to_bytes();
    out[start..start + 4].copy_from_slice(&size);
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::byteorder::LittleEndian;

    fn read(bytes: &[u8]) -> (Option<()>, BuildAttributes, Vec<&[u8]>) {
        let (mut attributes, mut unknown) = (BuildAttributes::default(), Vec::new());
        let result = read_section::<LittleEndian>(bytes, &mut attributes, &mut unknown);
        (result, attributes, unknown)
    }

    const BOTH: BuildAttributes =
        BuildAttributes { features: Some(FEATURE_BTI | FEATURE_GCS), signed_pointers: Some((2, 300)) };

    #[test]
    fn written_attributes_read_back_the_same() {
        let bytes = encode::<LittleEndian>(BOTH);
        assert_eq!(bytes[..5], *b"A\x23\0\0\0");
        assert_eq!(read(&bytes), (Some(()), BOTH, Vec::new()));
        assert!(encode::<LittleEndian>(BuildAttributes::default()).is_empty());
    }

    #[test]
    fn only_what_must_be_known_is_told_of() {
        let bytes = b"A\x0c\0\0\0other\0\x01\x01\x0c\0\0\0needs\0\x00\x00";
        assert_eq!(read(bytes), (Some(()), BuildAttributes::default(), vec![&b"needs"[..]]));
    }

    #[test]
    fn truncated_sections_are_malformed() {
        let bytes = encode::<LittleEndian>(BOTH);
        let ends = [1, 1 + 0x23, bytes.len()];
        for length in (2..bytes.len()).filter(|length| !ends.contains(length)) {
            assert_eq!(read(&bytes[..length]).0, None, "{length}");
        }
        assert_eq!(read(b"B").0, None);
    }
}
