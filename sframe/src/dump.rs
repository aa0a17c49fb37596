//! `sframe dump`: prints everything that a section contains, with names for addresses.
//!
//! A row in words takes many times the bytes of the row in the section. So functions and rows are made while
//! they are written, one at a time, and never all at once.

use super::args::Dump;
use super::compact::{TableDump, table_dump, write_table};
use super::derived;
use super::open::{Input, Kind, Problem, SFrameSection, Target, for_each_input};
use super::readelf_text;
use super::report::{Outcome, write};
use super::rules::{RulesDump, as_hexadecimal, rules_dump, write_rules};
use diagnostics::demangle::demangle;
use diagnostics::words::{count, shown};
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};
use sframe_format::light::{self, Unit};
use sframe_format::{Abi, Attributes, Blob, FdeType, Flags, PauthKey, PcType, Piece, Row};
use std::io::{self, Write};

/// A file's sections.
#[derive(Serialize)]
struct FileDump<'a> {
    file: &'a str,
    relocatable: bool,
    sections: Vec<SectionDump<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tables: Vec<TableDump<'a>>,
}

#[derive(Serialize)]
struct SectionDump<'a> {
    name: &'a str,
    #[serde(serialize_with = "as_hexadecimal")]
    address: u64,
    size: usize,
    blobs: Vec<BlobDump<'a>>,
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
struct BlobDump<'a> {
    /// `blob`, or `light-unit`, which has versions of its own.
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
    #[serde(skip_serializing_if = "Functions::is_empty")]
    functions: Functions<'a>,
}

/// The functions of a blob. A light unit contains one blob for each function; then the functions of all of
/// them.
struct Functions<'a> {
    input: &'a Input<'a>,
    section: &'a SFrameSection<'a>,
    blobs: Vec<Blob<'a>>,
    /// `false` with `--headers`.
    shown: bool,
    demangled: bool,
}

#[derive(Serialize)]
struct FunctionDump<'a> {
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
    rows: Rows<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The rows of a function; `None` if one of them is malformed.
struct Rows<'a>(Option<(Blob<'a>, Attributes)>);

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

impl Functions<'_> {
    fn is_empty(&self) -> bool {
        !self.shown || self.blobs.iter().all(|blob| blob.header().fde_count == 0)
    }

    fn each(&self) -> impl Iterator<Item = FunctionDump<'_>> {
        let shown = self.blobs.iter().filter(|_| self.shown);
        let functions = shown.flat_map(|blob| blob.functions().map(move |found| (blob, found)));
        (0..).zip(functions).map(|(index, (blob, (fde, attributes)))| {
            let name = |address| self.input.places.symbol_name(address, self.demangled);
            let mut function = FunctionDump {
                index,
                offset: fde.offset,
                address: fde.address,
                size: fde.size,
                section: None,
                symbol: name(fde.address),
                attributes: None,
                rows: Rows(None),
                error: None,
            };
            self.place(&mut function);
            let rows = attributes.and_then(|attributes| Ok((attributes, Rows::checked(blob, &attributes)?)));
            match rows {
                Ok((attributes, rows)) => {
                    function.attributes = Some(attributes_dump(blob.header().abi, &attributes));
                    function.rows = rows;
                }
                Err(error) => function.error = Some(error.to_string()),
            }
            function
        })
    }

    /// Sets the place of a function in a relocatable object: the place that the function's relocation names.
    /// A symbol found by address would be wrong, because this module made up the address.
    fn place(&self, function: &mut FunctionDump<'_>) {
        match self.section.target_at(function.offset) {
            Some(Target::Place(_, name, offset)) => {
                function.section = Some(name.clone());
                function.address = *offset;
            }
            Some(Target::Undefined(name)) => {
                function.section = Some("*UND*".into());
                function.symbol = Some(if self.demangled { demangle(name.as_bytes()) } else { name.clone() });
                function.address = 0;
            }
            None if self.input.kind != Kind::Relocatable => {}
            None if self.section.derived => {
                if let Some(section) = self.input.places.section_at(function.address) {
                    function.section = Some(section.name.clone());
                    function.address -= section.address;
                }
            }
            None => (function.address, function.symbol) = (0, None),
        }
    }
}

impl Serialize for Functions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.each())
    }
}

impl<'a> Rows<'a> {
    /// Reads all rows once, to find their errors.
    fn checked(blob: &Blob<'a>, attributes: &Attributes) -> Result<Self, sframe_format::Error> {
        blob.rows(attributes).try_for_each(|row| row.map(|_| ()))?;
        Ok(Self(Some((*blob, *attributes))))
    }

    fn each(&self) -> impl Iterator<Item = RowDump> {
        self.0.iter().flat_map(|(blob, attributes)| {
            let abi = blob.header().abi;
            let without = blob.rules_without_rows(attributes).filter(|_| attributes.fre_count == 0);
            let rows = blob.rows(attributes).flatten();
            rows.chain(without.map(|rules| Row { start: 0, rules }))
                .map(move |row| RowDump { start: row.start, rules: rules_dump(abi, Some(&row.rules)) })
        })
    }
}

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.each())
    }
}

/// Prints the sections of all files.
pub fn run(arguments: &Dump) -> Outcome {
    if arguments.json {
        return print_json(arguments);
    }
    for_each_file(arguments, &mut |input| {
        write(|output| {
            if arguments.readelf {
                readelf_text::write(output, input)
            } else {
                write_text(output, &file_dump(input, arguments))
            }
        })
    })
}

/// Prints an array of all files, and writes each one before it reads the next.
fn print_json(arguments: &Dump) -> Outcome {
    let mut outcome = Outcome::Fine;
    let written = write(|output| {
        let mut serializer = serde_json::Serializer::pretty(&mut *output);
        let mut files = serializer.serialize_seq(None)?;
        let mut written = Ok(());
        outcome = for_each_file(arguments, &mut |input| {
            if written.is_ok() {
                written = files.serialize_element(&file_dump(input, arguments));
            }
            Ok(())
        });
        written.and_then(|()| files.end())?;
        output.write_all(b"\n")
    });
    outcome.max(Outcome::of(written))
}

/// Calls `visit` for each file that can be read, and reports the others.
fn for_each_file(arguments: &Dump, visit: &mut dyn FnMut(&Input<'_>) -> Result<(), Problem>) -> Outcome {
    let mut outcome = Outcome::Fine;
    for path in &arguments.files {
        let mut found = false;
        let result = for_each_input(path, arguments.address, &mut |mut input| {
            if arguments.derivation.wanted(&input) {
                derived::replace(&mut input, arguments.derivation.version())?;
            }
            found |= input.has_rows();
            visit(&input)
        });
        let advice =
            if arguments.derivation.derived { "" } else { "; --derived prints what .eh_frame gives" };
        let missing = || Problem::new(path.display().to_string(), format!("no SFrame section{advice}"));
        let result = result.and_then(|()| if found { Ok(()) } else { Err(missing()) });
        outcome = outcome.max(Outcome::of(result));
    }
    outcome
}

fn file_dump<'a>(input: &'a Input<'a>, arguments: &Dump) -> FileDump<'a> {
    let sections = input.sframe.iter().map(|section| section_dump(input, section, arguments)).collect();
    let tables = input.compact.iter().map(|section| table_dump(input, section, arguments)).collect();
    FileDump { file: &input.name, relocatable: input.kind == Kind::Relocatable, sections, tables }
}

fn section_dump<'a>(
    input: &'a Input<'a>,
    section: &'a SFrameSection<'a>,
    arguments: &Dump,
) -> SectionDump<'a> {
    let (mut blobs, mut gaps) = (Vec::<BlobDump<'_>>::new(), Vec::new());
    for piece in section.section().pieces() {
        match piece {
            Piece::Blob(blob) => {
                let of_unit = |last: &&mut BlobDump<'_>| last.offset == blob.header_offset();
                match blobs.last_mut().filter(of_unit) {
                    Some(unit) if blob.header().is_light() => unit.add(&blob),
                    _ => blobs.push(blob_dump(input, section, &blob, arguments)),
                }
            }
            Piece::Gap(gap) => {
                let reason = gap.error.kind.to_string();
                gaps.push(GapDump { offset: gap.offset, length: gap.length, reason });
            }
        }
    }
    let address = if input.kind == Kind::Relocatable { 0 } else { section.address };
    SectionDump { name: &section.name, address, size: section.data.len(), blobs, gaps }
}

impl<'a> BlobDump<'a> {
    /// Adds a function to its unit.
    fn add(&mut self, function: &Blob<'a>) {
        let header = function.header();
        self.function_count += header.fde_count;
        self.row_count += header.fre_count;
        self.row_bytes += header.fre_length;
        self.functions.blobs.push(*function);
    }
}

/// Names of the flags, as people and programs read them.
fn flag_names(flags: Flags) -> Vec<&'static str> {
    let known = [
        (Flags::SORTED, "sorted"),
        (Flags::FRAME_POINTER, "frame-pointer"),
        (Flags::FIELD_RELATIVE, "field-relative"),
    ];
    known.into_iter().filter(|(flag, _)| flags.0 & flag.0 != 0).map(|(_, name)| name).collect()
}

fn blob_dump<'a>(
    input: &'a Input<'a>,
    section: &'a SFrameSection<'a>,
    blob: &Blob<'a>,
    arguments: &Dump,
) -> BlobDump<'a> {
    let header = blob.header();
    let unit = section.data.get(blob.header_offset()..).and_then(|rest| Unit::parse(rest).ok());
    let (form, size, version, flags) = match unit.filter(|_| header.is_light()) {
        Some(unit) => ("light-unit", unit.length as usize, light::VERSION, Vec::new()),
        None => ("blob", blob.data().len(), header.version as u8, flag_names(header.flags)),
    };
    let shown = !arguments.headers;
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
        functions: Functions { input, section, blobs: vec![*blob], shown, demangled: arguments.demangle },
    }
}

fn attributes_dump(abi: Abi, attributes: &Attributes) -> AttributesDump {
    let key = match attributes.pauth_key {
        PauthKey::A => "a",
        PauthKey::B => "b",
    };
    AttributesDump {
        kind: match attributes.fde_type {
            FdeType::Default => "default",
            FdeType::Flexible => "flexible",
        },
        start_width: attributes.start_width,
        repeat_size: (attributes.pc_type == PcType::Mask).then_some(attributes.repeat_size),
        signal: attributes.signal,
        pauth_key: abi.is_aarch64().then_some(key),
    }
}

fn write_text(output: &mut dyn Write, file: &FileDump<'_>) -> io::Result<()> {
    for section in &file.sections {
        let at = if file.relocatable { String::new() } else { format!(" at {:#x}", section.address) };
        let line =
            format!("{}: section {}{at}, {}", file.file, section.name, count(section.size as u64, "byte"));
        writeln!(output, "{}", shown(&line))?;
        for blob in &section.blobs {
            write_blob(output, blob)?;
        }
        for gap in &section.gaps {
            let length = count(gap.length as u64, "byte");
            writeln!(output, "\n  {length} at {:#x}: no blob: {}", gap.offset, gap.reason)?;
        }
        writeln!(output)?;
    }
    file.tables.iter().try_for_each(|table| write_table(output, file.file, table))
}

fn write_blob(output: &mut dyn Write, blob: &BlobDump<'_>) -> io::Result<()> {
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
        "    {}, {}, {} in {}",
        count(blob.size as u64, "byte"),
        count(blob.function_count, "function"),
        count(blob.row_count, "row"),
        count(blob.row_bytes, "byte")
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
        write!(output, ", auxiliary header of {}", count(blob.auxiliary_header_length, "byte"))?;
    }
    writeln!(output)?;
    blob.functions.each().try_for_each(|function| write_function(output, &function))
}

fn write_function(output: &mut dyn Write, function: &FunctionDump<'_>) -> io::Result<()> {
    let place = match &function.section {
        Some(section) => format!("{section}+{:#x}", function.address),
        None => format!("{:#x}", function.address),
    };
    let symbol = function.symbol.as_ref().map_or(String::new(), |name| format!(" <{name}>"));
    let line = format!("function {}: {place}{symbol}, {}", function.index, count(function.size, "byte"));
    write!(output, "\n    {}", shown(&line))?;
    if let Some(attributes) = &function.attributes {
        if attributes.kind != "default" {
            write!(output, ", {}", attributes.kind)?;
        }
        if attributes.signal {
            write!(output, ", signal frame")?;
        }
        if let Some(size) = attributes.repeat_size {
            write!(output, ", repeats every {}", count(size, "byte"))?;
        }
        if attributes.pauth_key == Some("b") {
            write!(output, ", key b")?;
        }
    }
    writeln!(output)?;
    for row in function.rows.each() {
        write_rules(output, row.start, &row.rules)?;
    }
    if let Some(error) = &function.error {
        writeln!(output, "      malformed: {error}")?;
    }
    Ok(())
}
