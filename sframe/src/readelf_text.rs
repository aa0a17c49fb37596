//! `sframe dump --readelf`: prints the text of GNU `readelf --sframe`, so that `diff` can compare the two.
//!
//! The layout is that of binutils 2.47. For V1, which newer releases cannot read, it is that of 2.40. In a
//! relocatable object, readelf shows relocated starts if starts count from their own field, and otherwise the
//! stored ones, which are zeros. It knows nothing of light units.

use super::open::{Input, Kind, SFrameSection, Target};
use sframe_format::abi::Register;
use sframe_format::{
    Abi, Attributes, Base, Blob, CfaRule, Fde, FdeType, Flags, Header, Location, PauthKey, PcType,
    RegisterRule, Row, Rules, Version,
};
use std::io::{self, Write};

/// Writes every blob of every section.
pub fn write(output: &mut dyn Write, input: &Input<'_>) -> io::Result<()> {
    for section in &input.sframe {
        for blob in section.section().blobs().filter(|blob| !blob.header().is_light()) {
            writeln!(output, "Contents of the SFrame section {}:", section.name)?;
            write_header(output, &blob)?;
            writeln!(output, "  Function Index :\n")?;
            for (fde, attributes) in blob.functions() {
                if fde.index > 0 {
                    writeln!(output)?;
                }
                let address = start(input, section, &blob, &fde);
                match attributes {
                    Ok(attributes) => write_function(output, &blob, &fde, &attributes, address)?,
                    Err(_) => writeln!(output, "    func idx [{}]: malformed", fde.index)?,
                }
            }
        }
    }
    Ok(())
}

/// The address that readelf shows.
fn start(input: &Input<'_>, section: &SFrameSection<'_>, blob: &Blob<'_>, fde: &Fde) -> u64 {
    if input.kind != Kind::Relocatable {
        return fde.address;
    }
    match section.target_at(fde.offset) {
        Some(Target::Place(_, _, offset)) if blob.header().is_field_relative() => *offset,
        None if section.derived => {
            input.places.section_at(fde.address).map_or(0, |text| fde.address - text.address)
        }
        _ => 0,
    }
}

fn write_header(output: &mut dyn Write, blob: &Blob<'_>) -> io::Result<()> {
    let header = blob.header();
    writeln!(output, "  Header :\n")?;
    writeln!(output, "    Version: SFRAME_VERSION_{}", header.version as u8)?;
    let names = [
        (Flags::SORTED, "SFRAME_F_FDE_SORTED"),
        (Flags::FRAME_POINTER, "SFRAME_F_FRAME_POINTER"),
        (Flags::FIELD_RELATIVE, "SFRAME_F_FDE_FUNC_START_PCREL"),
    ];
    let set: Vec<&str> =
        names.iter().filter(|(flag, _)| header.flags.0 & flag.0 != 0).map(|(_, name)| *name).collect();
    let flags = if set.is_empty() { "NONE".to_owned() } else { set.join(",\n           ") };
    writeln!(output, "    Flags: {flags}")?;
    if header.version != Version::V1 {
        for (what, offset) in [("FP", header.fixed_fp_offset), ("RA", header.fixed_ra_offset)] {
            if offset != 0 {
                writeln!(output, "    CFA fixed {what} offset: {offset}")?;
            }
        }
    }
    writeln!(output, "    Num FDEs: {}", header.fde_count)?;
    writeln!(output, "    Num FREs: {}\n", header.fre_count)
}

fn write_function(
    output: &mut dyn Write,
    blob: &Blob<'_>,
    fde: &Fde,
    attributes: &Attributes,
    address: u64,
) -> io::Result<()> {
    write!(output, "    func idx [{}]: pc = {address:#x}, size = {} bytes", fde.index, fde.size)?;
    let letters = [(attributes.signal, 'S'), (attributes.fde_type == FdeType::Flexible, 'F')];
    let letters: String = letters.iter().filter(|(on, _)| *on).map(|(_, letter)| *letter).collect();
    if !letters.is_empty() {
        write!(output, ", attr = \"{letters}\"")?;
    }
    if attributes.pauth_key == PauthKey::B && blob.header().abi.is_aarch64() {
        write!(output, ", pauth = B key")?;
    }
    let mask = attributes.pc_type == PcType::Mask;
    let column = if mask { "STARTPC[m]" } else { "STARTPC" };
    writeln!(output, "\n    {column:<16}{:<10}{:<10}{:<13}", "CFA", "FP", "RA")?;
    let base = if mask { 0 } else { address };
    for row in blob.rows(attributes).flatten() {
        write_row(output, blob, base, &row, attributes.fde_type)?;
    }
    Ok(())
}

fn write_row(
    output: &mut dyn Write,
    blob: &Blob<'_>,
    base: u64,
    row: &Row,
    fde_type: FdeType,
) -> io::Result<()> {
    let header = blob.header();
    let (abi, version) = (header.abi, header.version);
    let start = base.wrapping_add(row.start.into());
    let Rules::Frame(frame) = row.rules else {
        return writeln!(output, "    {start:016x}  RA undefined");
    };
    let ra = return_address(header, fde_type, frame.fp, frame.ra);
    let signed = if frame.mangled { "[s]" } else { "" };
    let (cfa, fp) = (cfa(abi, fde_type, &frame.cfa), register_rule(abi, version, &frame.fp));
    writeln!(output, "    {start:016x}  {cfa:<10}{fp:<10}{:<13}", format!("{ra}{signed}"))
}

/// Writes the rule of the return address. readelf shows words that only hold the place of the return address
/// before that of the frame pointer as `U`.
fn return_address(header: &Header, fde_type: FdeType, fp: RegisterRule, ra: RegisterRule) -> String {
    let is_flexible = fde_type == FdeType::Flexible;
    let holds_a_place = fp != RegisterRule::Unchanged && (is_flexible || header.abi == Abi::S390x);
    let fixed = RegisterRule::Saved(Location::at_cfa(header.fixed_ra_offset.into()));
    match ra {
        rule if header.fixed_ra_offset != 0 && rule == fixed => match header.version {
            Version::V1 => "u".to_owned(),
            _ if is_flexible && holds_a_place => "U".to_owned(),
            _ => "f".to_owned(),
        },
        RegisterRule::Unchanged if holds_a_place => "U".to_owned(),
        rule => register_rule(header.abi, header.version, &rule),
    }
}

fn register(abi: Abi, number: Register) -> String {
    match number {
        number if number == abi.stack_pointer() => "sp".into(),
        number if number == abi.frame_pointer() => "fp".into(),
        number => format!("r{number}"),
    }
}

/// Writes a CFA. In default FDEs, readelf writes a plus sign before a minus sign.
fn cfa(abi: Abi, fde_type: FdeType, rule: &CfaRule) -> String {
    if fde_type == FdeType::Default {
        return format!("{}+{}", register(abi, rule.register), rule.offset);
    }
    let sum = format!("{}{:+}", register(abi, rule.register), rule.offset);
    if rule.dereference { format!("({sum})") } else { sum }
}

/// Writes a rule. readelf does not show whether a value that counts from the CFA is dereferenced.
fn register_rule(abi: Abi, version: Version, rule: &RegisterRule) -> String {
    let RegisterRule::Saved(Location { base, offset, dereference }) = *rule else { return "u".into() };
    match base {
        Base::Cfa => format!("c{offset:+}"),
        Base::Register(number) if dereference => format!("({}{offset:+})", register(abi, number)),
        // In V2, a register number has no offset (V2 errata 1, s390x).
        Base::Register(number) if version != Version::V3 => format!("r{number}"),
        Base::Register(number) => format!("{}{offset:+}", register(abi, number)),
    }
}

#[cfg(test)]
mod tests {
    use super::{cfa, return_address, write};
    use crate::fixtures;
    use crate::open::open_elf;
    use sframe_format::{Abi, CfaRule, Endian, FdeType, Flags, Header, Location, RegisterRule, Version};

    #[test]
    fn negative_offsets_of_the_cfa_are_written_as_readelf_writes_them() {
        let rule = CfaRule { register: Abi::Amd64.stack_pointer(), offset: -16, dereference: false };
        assert_eq!(cfa(Abi::Amd64, FdeType::Default, &rule), "sp+-16");
        assert_eq!(cfa(Abi::Amd64, FdeType::Flexible, &rule), "sp-16");
    }

    #[test]
    fn words_that_only_hold_a_place_are_written_as_readelf_writes_them() {
        let header = |abi| Header {
            version: Version::V3,
            endian: Endian::Little,
            flags: Flags(0),
            abi,
            fixed_fp_offset: 0,
            fixed_ra_offset: 0,
            auxiliary_length: 0,
            fde_count: 0,
            fre_count: 0,
            fre_length: 0,
            fde_offset: 0,
            fre_offset: 0,
            unit_distance: 0,
        };
        let (aarch64, s390x) = (header(Abi::AArch64Little), header(Abi::S390x));
        let (saved, unchanged) = (RegisterRule::Saved(Location::at_cfa(-16)), RegisterRule::Unchanged);
        assert_eq!(return_address(&aarch64, FdeType::Flexible, saved, unchanged), "U");
        assert_eq!(return_address(&aarch64, FdeType::Default, saved, unchanged), "u");
        assert_eq!(return_address(&aarch64, FdeType::Flexible, unchanged, unchanged), "u");
        assert_eq!(return_address(&s390x, FdeType::Default, saved, unchanged), "U");
        assert_eq!(return_address(&aarch64, FdeType::Default, saved, saved), "c-16");
    }

    /// Compares the text of every fixture, with three exceptions. readelf shows only the first blob of a
    /// section, and it looks for the name `.sframe`. It also refuses a foreign byte order if functions share
    /// bytes or bytes follow the blob.
    #[test]
    fn fixtures_read_as_readelf_prints_them() {
        let (mut same, mut refused) = (0, 0);
        for fixture in fixtures::all() {
            let Some(recorded) = &fixture.text else { continue };
            let bytes = std::fs::read(&fixture.path).unwrap();
            let input = open_elf(&fixture.name, &bytes).unwrap();
            let mut ours = Vec::new();
            write(&mut ours, &input).unwrap();
            let ours = String::from_utf8(ours).unwrap();
            if !recorded.contains("func idx") {
                refused += 1;
                continue;
            }
            let concatenated = input.sframe.iter().any(|section| section.section().blobs().count() > 1);
            if concatenated {
                assert!(ours.starts_with(recorded.as_str()), "{}", fixture.name);
            } else {
                pretty_assertions::assert_str_eq!(ours, *recorded, "{}", fixture.name);
            }
            same += 1;
        }
        assert_eq!((same, refused), (87, 8));
    }
}
