//! `sframe dump`: everything that a section holds, with names for addresses.

use super::args::Dump;
use super::compact::{TableDump, table_dump, write_table};
use super::open::{Input, Kind, Problem, SframeSection, Target, for_each_input};
use super::readelf_text;
use super::report::{Outcome, print_json, write};
use super::rules::{RulesDump, as_hexadecimal, rules_dump, write_rules};
use crate::diag::demangle::demangle;
use serde::Serialize;
use sframe_format::light::{self, Unit};
use sframe_format::{Attributes, Blob, Fde, FdeType, Flags, PauthKey, PcType, Piece, Row};
use std::io::{self, Write};

/// A file's sections.
#[derive(Serialize)]
struct FileDump {
    file: String,
    relocatable: bool,
    sections: Vec<SectionDump>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tables: Vec<TableDump>,
}

#[derive(Serialize)]
struct SectionDump {
    name: String,
    #[serde(serialize_with = "as_hexadecimal")]
    address: u64,
    size: usize,
    blobs: Vec<BlobDump>,
    gaps: Vec<GapDump>,
}

/// Bytes that are no blob.
#[derive(Serialize)]
struct GapDump {
    offset: usize,
    length: usize,
    reason: String,
}

#[derive(Serialize)]
struct BlobDump {
    /// `blob`, or `light-unit` with a version of its own.
    form: &'static str,
    offset: usize,
    size: usize,
    version: u8,
    abi: String,
    endian: String,
    flags: Vec<&'static str>,
    fixed_frame_pointer_offset: i8,
    fixed_return_address_offset: i8,
    auxiliary_header_length: u8,
    function_count: u32,
    row_count: u32,
    row_bytes: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    functions: Vec<FunctionDump>,
}

#[derive(Serialize)]
struct FunctionDump {
    index: u32,
    offset: usize,
    /// Absolute in linked files, an offset in `section` in relocatable objects.
    #[serde(serialize_with = "as_hexadecimal")]
    address: u64,
    size: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    section: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    symbol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<AttributesDump>,
    rows: Vec<RowDump>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct AttributesDump {
    kind: &'static str,
    start_width: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat_size: Option<u8>,
    signal: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pauth_key: Option<&'static str>,
}

#[derive(Serialize)]
struct RowDump {
    start: u32,
    #[serde(flatten)]
    rules: RulesDump,
}

/// Prints the sections of all files.
pub fn run(arguments: &Dump) -> Outcome {
    let mut outcome = Outcome::Fine;
    let mut files = Vec::new();
    for path in &arguments.files {
        let mut found = false;
        let result = for_each_input(path, arguments.address, &mut |input| {
            found |= input.has_rows();
            if arguments.readelf {
                return write(|output| readelf_text::write(output, &input));
            }
            let file = file_dump(&input, arguments);
            if !arguments.json {
                return write(|output| write_text(output, &file));
            }
            files.push(file);
            Ok(())
        });
        let missing = || Problem::new(path.display().to_string(), "no SFrame section");
        let result = result.and_then(|()| if found { Ok(()) } else { Err(missing()) });
        outcome = outcome.max(Outcome::of(result));
    }
    if arguments.json {
        outcome = outcome.max(Outcome::of(print_json(&files)));
    }
    outcome
}

fn file_dump(input: &Input<'_>, arguments: &Dump) -> FileDump {
    let sections = input.sframe.iter().map(|section| section_dump(input, section, arguments)).collect();
    let tables = input.compact.iter().map(|section| table_dump(input, section, arguments)).collect();
    FileDump { file: input.name.clone(), relocatable: input.kind == Kind::Relocatable, sections, tables }
}

fn section_dump(input: &Input<'_>, section: &SframeSection<'_>, arguments: &Dump) -> SectionDump {
    let (mut blobs, mut gaps) = (Vec::<BlobDump>::new(), Vec::new());
    for piece in section.section().pieces() {
        match piece {
            Piece::Blob(blob) => {
                let dump = blob_dump(input, section, &blob, arguments);
                match blobs.last_mut() {
                    Some(unit) if blob.header().is_light() && unit.offset == dump.offset => add(unit, dump),
                    _ => blobs.push(dump),
                }
            }
            Piece::Gap(gap) => {
                let reason = gap.error.kind.to_string();
                gaps.push(GapDump { offset: gap.offset, length: gap.length, reason });
            }
        }
    }
    let address = if input.kind == Kind::Relocatable { 0 } else { section.address };
    SectionDump { name: section.name.clone(), address, size: section.data.len(), blobs, gaps }
}

/// Adds a function to the unit that it is in.
fn add(unit: &mut BlobDump, mut function: BlobDump) {
    function.functions.iter_mut().for_each(|dump| dump.index = unit.function_count);
    unit.function_count += function.function_count;
    unit.row_count += function.row_count;
    unit.row_bytes += function.row_bytes;
    unit.functions.append(&mut function.functions);
}

/// Names of the flags, for people and machines.
fn flag_names(flags: Flags) -> Vec<&'static str> {
    let known = [
        (Flags::SORTED, "sorted"),
        (Flags::FRAME_POINTER, "frame-pointer"),
        (Flags::FIELD_RELATIVE, "field-relative"),
    ];
    known.into_iter().filter(|(flag, _)| flags.0 & flag.0 != 0).map(|(_, name)| name).collect()
}

fn blob_dump(input: &Input<'_>, section: &SframeSection<'_>, blob: &Blob<'_>, arguments: &Dump) -> BlobDump {
    let header = blob.header();
    let functions = if arguments.headers {
        Vec::new()
    } else {
        let describe = |(fde, attributes): (Fde, Result<Attributes, _>)| {
            let rows = attributes.and_then(|attributes| rows(blob, &attributes));
            function_dump(input, section, &fde, rows, arguments)
        };
        blob.functions().map(describe).collect()
    };
    let unit = section.data.get(blob.header_offset()..).and_then(|rest| Unit::parse(rest).ok());
    let (form, size, version, flags) = match unit.filter(|_| header.is_light()) {
        Some(unit) => ("light-unit", unit.length as usize, light::VERSION, Vec::new()),
        None => ("blob", blob.data().len(), header.version as u8, flag_names(header.flags)),
    };
    BlobDump {
        form,
        offset: blob.header_offset(),
        size,
        version,
        abi: header.abi.to_string(),
        endian: header.endian.to_string(),
        flags,
        fixed_frame_pointer_offset: header.fixed_fp_offset,
        fixed_return_address_offset: header.fixed_ra_offset,
        auxiliary_header_length: header.auxiliary_length,
        function_count: header.fde_count,
        row_count: header.fre_count,
        row_bytes: header.fre_length,
        functions,
    }
}

fn function_dump(
    input: &Input<'_>,
    section: &SframeSection<'_>,
    fde: &Fde,
    rows: Result<(AttributesDump, Vec<RowDump>), sframe_format::Error>,
    arguments: &Dump,
) -> FunctionDump {
    let mut function = FunctionDump {
        index: fde.index,
        offset: fde.offset,
        address: fde.address,
        size: fde.size,
        section: None,
        symbol: input.places.symbol_name(fde.address, arguments.demangle),
        attributes: None,
        rows: Vec::new(),
        error: None,
    };
    match section.target_at(fde.offset) {
        Some(Target::Place(_, name, offset)) => {
            function.section = Some(name.clone());
            function.address = *offset;
        }
        Some(Target::Undefined(name)) => {
            function.section = Some("*UND*".into());
            function.symbol = Some(if arguments.demangle { demangle(name.as_bytes()) } else { name.clone() });
            function.address = 0;
        }
        None if input.kind == Kind::Relocatable => {
            (function.address, function.symbol) = (0, None);
        }
        None => {}
    }
    match rows {
        Ok((attributes, rows)) => {
            function.attributes = Some(attributes);
            function.rows = rows;
        }
        Err(error) => function.error = Some(error.to_string()),
    }
    function
}

fn rows(
    blob: &Blob<'_>,
    attributes: &Attributes,
) -> Result<(AttributesDump, Vec<RowDump>), sframe_format::Error> {
    let abi = blob.header().abi;
    let mut rows: Vec<Row> = blob.rows(attributes).collect::<Result<_, _>>()?;
    if attributes.fre_count == 0 {
        rows.extend(blob.rules_without_rows(attributes).map(|rules| Row { start: 0, rules }));
    }
    let dump = |row: Row| RowDump { start: row.start, rules: rules_dump(abi, Some(&row.rules)) };
    let key = match attributes.pauth_key {
        PauthKey::A => "a",
        PauthKey::B => "b",
    };
    let described = AttributesDump {
        kind: match attributes.fde_type {
            FdeType::Default => "default",
            FdeType::Flexible => "flexible",
        },
        start_width: attributes.start_width,
        repeat_size: (attributes.pc_type == PcType::Mask).then_some(attributes.repeat_size),
        signal: attributes.signal,
        pauth_key: abi.is_aarch64().then_some(key),
    };
    Ok((described, rows.into_iter().map(dump).collect()))
}

fn write_text(output: &mut dyn Write, file: &FileDump) -> io::Result<()> {
    for section in &file.sections {
        let at = if file.relocatable { String::new() } else { format!(" at {:#x}", section.address) };
        writeln!(output, "{}: section {}{at}, {} bytes", file.file, section.name, section.size)?;
        for blob in &section.blobs {
            write_blob(output, blob)?;
        }
        for gap in &section.gaps {
            writeln!(output, "\n  {} bytes at {:#x} are no blob: {}", gap.length, gap.offset, gap.reason)?;
        }
        writeln!(output)?;
    }
    file.tables.iter().try_for_each(|table| write_table(output, &file.file, table))
}

fn write_blob(output: &mut dyn Write, blob: &BlobDump) -> io::Result<()> {
    let flags = if blob.flags.is_empty() { "none".into() } else { blob.flags.join(", ") };
    let BlobDump { offset, version, abi, endian, .. } = blob;
    match blob.form {
        "blob" => {
            writeln!(output, "\n  blob at {offset:#x}: SFrame V{version}, {abi}, {endian}, flags: {flags}")?;
        }
        _ => writeln!(output, "\n  light unit at {offset:#x}: V{version}, {abi}, {endian}")?,
    }
    write!(
        output,
        "    {} bytes, {} functions, {} rows in {} bytes",
        blob.size, blob.function_count, blob.row_count, blob.row_bytes
    )?;
    for (what, offset) in [
        ("return address", blob.fixed_return_address_offset),
        ("frame pointer", blob.fixed_frame_pointer_offset),
    ] {
        if offset != 0 {
            write!(output, ", {what} always at cfa{offset:+}")?;
        }
    }
    if blob.auxiliary_header_length != 0 {
        write!(output, ", auxiliary header of {} bytes", blob.auxiliary_header_length)?;
    }
    writeln!(output)?;
    for function in &blob.functions {
        write_function(output, function)?;
    }
    Ok(())
}

fn write_function(output: &mut dyn Write, function: &FunctionDump) -> io::Result<()> {
    let place = match &function.section {
        Some(section) => format!("{section}+{:#x}", function.address),
        None => format!("{:#x}", function.address),
    };
    let symbol = function.symbol.as_ref().map_or(String::new(), |name| format!(" <{name}>"));
    write!(output, "\n    function {}: {place}{symbol}, {} bytes", function.index, function.size)?;
    if let Some(attributes) = &function.attributes {
        if attributes.kind != "default" {
            write!(output, ", {}", attributes.kind)?;
        }
        if attributes.signal {
            write!(output, ", signal frame")?;
        }
        if let Some(size) = attributes.repeat_size {
            write!(output, ", repeats every {size} bytes")?;
        }
        if attributes.pauth_key == Some("b") {
            write!(output, ", key b")?;
        }
    }
    writeln!(output)?;
    for row in &function.rows {
        write_rules(output, row.start, &row.rules)?;
    }
    if let Some(error) = &function.error {
        writeln!(output, "      malformed: {error}")?;
    }
    Ok(())
}
