//! `sframe dump --readelf`: prints the text of GNU `readelf --sframe`, so that `diff` can compare the two.
//!
//! The layout is that of binutils 2.47. For V1, which newer releases cannot read, it is that of 2.40. In a
//! relocatable object, readelf shows relocated starts if starts count from their own field, and otherwise the
//! stored ones, which are zeros. It knows nothing of light units.

use super::open::{Input, Kind, SFrameSection, Target};
use sframe_format::abi::Register;
use sframe_format::{
    Abi, Attributes, Base, Blob, CfaRule, Fde, FdeType, Flags, Location, PauthKey, PcType, RegisterRule, Row,
    Rules, Version,
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
    let fixed = RegisterRule::Saved(Location::at_cfa(header.fixed_ra_offset.into()));
    let ra = match frame.ra {
        rule if header.fixed_ra_offset != 0 && rule == fixed => match (version, fde_type) {
            (Version::V1, _) => "u".to_owned(),
            (_, FdeType::Flexible) if frame.fp != RegisterRule::Unchanged => "U".to_owned(),
            _ => "f".to_owned(),
        },
        RegisterRule::Unchanged if abi == Abi::S390x && frame.fp != RegisterRule::Unchanged => "U".to_owned(),
        rule => register_rule(abi, version, &rule),
    };
    let signed = if frame.mangled { "[s]" } else { "" };
    let (cfa, fp) = (cfa(abi, &frame.cfa), register_rule(abi, version, &frame.fp));
    writeln!(output, "    {start:016x}  {cfa:<10}{fp:<10}{:<13}", format!("{ra}{signed}"))
}

fn register(abi: Abi, number: Register) -> String {
    match number {
        number if number == abi.stack_pointer() => "sp".into(),
        number if number == abi.frame_pointer() => "fp".into(),
        number => format!("r{number}"),
    }
}

fn cfa(abi: Abi, rule: &CfaRule) -> String {
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
    use super::write;
    use crate::fixtures;
    use crate::open::open_elf;

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
