//! Compact tables of files: `sframe table` makes them, other subcommands print them or convert them to SFrame
//! to compare them.

use super::args::{Dump, Table};
use super::edit::{Image, ORDER_LITTLE, byte_order, check_output, read_file, replace_file};
use super::functions::Functions;
use super::open::{Input, Problem, SFrameSection, open_elf};
use super::places::Places;
use super::report::{Outcome, hexadecimal};
use super::rules::{RulesDump, as_hexadecimal, rules_dump, write_rules_and};
use super::table_section::TableSection;
use super::whole::{HandlerDump, WholeDump, WholeHeaderDump};
use diagnostics::words::{count, shown};
use serde::{Serialize, Serializer};
use sframe_format::CompactTable;
use sframe_format::compact::{PieceRow, SECTION_NAME, Summary, WHOLE_VERSION};
use sframe_format::write::{Encoder, Function, Options};
use sframe_format::{Row, UnwindRules};
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::PathBuf;
use zerocopy::byteorder::{BE, ByteOrder, LE};

/// Writes the table of a finished file.
pub fn run(arguments: &Table) -> Outcome {
    Outcome::of(make(arguments))
}

fn make(arguments: &Table) -> Result<(), Problem> {
    check_output(&arguments.output(), Some(&arguments.file))?;
    let bytes = read_file(&arguments.file)?;
    let name = arguments.file.display().to_string();
    match byte_order(&name, &bytes)? {
        ORDER_LITTLE => make_of_image(&Image::<LE>::parse(&name, &bytes)?, arguments),
        _ => make_of_image(&Image::<BE>::parse(&name, &bytes)?, arguments),
    }
}

fn make_of_image<E: ByteOrder>(image: &Image<'_, E>, arguments: &Table) -> Result<(), Problem> {
    if image.is_relocatable() {
        let message = "a relocatable object, whose functions have no addresses; link it first";
        return Err(image.problem(message));
    }
    let input = open_elf(image.name, image.bytes)?;
    let abi = image.abi()?;
    let mut functions = if input.sframe.is_empty() || arguments.eh_frame {
        Functions::derive(image, abi)?
    } else {
        let mut functions = Functions::default();
        input.sframe.iter().for_each(|section| functions.read(&section.section(), abi));
        functions
    };
    functions.keep_code(image);
    let (bytes, left_out) = functions.write_compact(image.name, abi, arguments.address)?;
    replace_file(&arguments.output(), &bytes, None)?;
    super::attach::report(image.name, &left_out, arguments.verbose);
    Ok(())
}

impl Table {
    /// The file that receives the table.
    fn output(&self) -> PathBuf {
        self.output.clone().unwrap_or_else(|| {
            let mut name = self.file.file_name().unwrap_or_default().to_owned();
            name.push(SECTION_NAME);
            PathBuf::from(name)
        })
    }
}

/// Reads the header of the table in a section.
///
/// # Errors
/// Its header is malformed.
pub fn parse<'a>(
    input: &Input<'_>,
    section: &'a TableSection<'_>,
) -> Result<CompactTable<&'a [u8]>, Problem> {
    CompactTable::parse(&*section.data, section.address)
        .map_err(|error| Problem::new(&*input.name, format!("section {}: {error}", section.name)))
}

/// The number of entries and the sums over all tables of a file.
///
/// # Errors
/// A table breaks a rule of the format.
pub fn summary(input: &Input<'_>) -> Result<(u64, Summary), Problem> {
    let (mut entries, mut sum) = (0, Summary::default());
    for section in &input.compact {
        let table = parse(input, section)?;
        let found = table
            .check()
            .map_err(|error| Problem::new(&*input.name, format!("section {}: {error}", section.name)))?;
        entries += u64::from(table.header().entries);
        sum.rows += found.rows;
        sum.text += found.text;
        sum.repeating += found.repeating;
    }
    Ok((entries, sum))
}

/// Adds each sound table of the file as an SFrame section in memory. Each entry that SFrame can express
/// becomes a function. Returns the errors of the other tables, which break a rule of the format, each with
/// the name of the section.
pub fn expand(input: &mut Input<'_>) -> Vec<(String, sframe_format::Error)> {
    let mut findings = Vec::new();
    let mut sections = Vec::new();
    for section in &input.compact {
        let table = CompactTable::parse(&*section.data, section.address);
        match table.and_then(|table| table.verify().and_then(|()| as_v3(&table))) {
            Ok(bytes) => sections.push(SFrameSection {
                name: section.name.clone(),
                data: Cow::Owned(bytes),
                address: section.address,
                relocations: Vec::new(),
                targets: Vec::new(),
                derived: true,
            }),
            Err(error) => findings.push((section.name.clone(), error)),
        }
    }
    input.sframe.extend(sections);
    findings
}

/// The rows of a table as one sorted V3 blob for its address. It encodes each function before it reads the
/// next one, so the blob shares the rows that functions share in the table.
fn as_v3(table: &CompactTable<&[u8]>) -> Result<Vec<u8>, sframe_format::Error> {
    let mut encoder = Encoder::new(Options::new(table.header().abi));
    let mut functions = Vec::new();
    let mut take = |address, function: &Function| {
        if let Ok(id) = encoder.add(function) {
            functions.push((address, id));
        }
    };
    for piece in table.pieces() {
        let rows = piece.rows().collect::<Result<Vec<_>, _>>()?;
        let size = piece.size()?;
        if let Some(repeat) = piece.repeat_size() {
            let repeat_size = u8::try_from(repeat).ok();
            take(piece.address, &Function { repeat_size, ..function_of(&rows, 0, size) });
            continue;
        }
        // SFrame has no rule for "no row", so the function ends there.
        for known in rows.chunk_by(|one, other| one.rules.is_some() == other.rules.is_some()) {
            let (Some(first), Some(last)) = (known.first(), known.last()) else { continue };
            let size = last.start + last.size - first.start;
            if first.rules.is_some() && size > 0 {
                let address = piece.address.wrapping_add(first.start.into());
                take(address, &function_of(known, first.start, size));
            }
        }
    }
    functions.sort_by_key(|&(address, _)| address);
    functions.dedup_by_key(|&mut (address, _)| address);
    let mut bytes = vec![0; encoder.size_with(functions.len())];
    encoder.write(table.address(), &functions, &mut bytes)?;
    Ok(bytes)
}

fn function_of(rows: &[PieceRow], start: u32, size: u32) -> Function {
    let known = |row: &PieceRow| Some((row.start - start, row.rules?));
    let known: Vec<(u32, UnwindRules)> = rows.iter().filter_map(known).collect();
    Function {
        size,
        signal: known.iter().any(|(_, rules)| rules.signal),
        rows: known.iter().map(|&(start, UnwindRules { rules, .. })| Row { start, rules }).collect(),
        ..Function::default()
    }
}

/// A table, as people and programs read it.
#[derive(Serialize)]
pub struct TableDump<'a> {
    name: String,
    #[serde(serialize_with = "as_hexadecimal")]
    address: u64,
    size: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<HeaderDump>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<Entries<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The entries of a table. They are made while they are written, because each entry may have [`MAX_ROWS`]
/// rows in a few bytes.
///
/// [`MAX_ROWS`]: sframe_format::compact::MAX_ROWS
struct Entries<'a> {
    table: CompactTable<&'a [u8]>,
    places: &'a Places,
    demangled: bool,
}

#[derive(Serialize)]
struct HeaderDump {
    version: u8,
    abi: String,
    endian: String,
    length: u32,
    regions: u32,
    pages: u32,
    entries: u32,
    rules: u32,
    long_rules: u32,
    steps: u32,
    step_width: u8,
    shape_bytes: u32,
    place_width: u8,
    #[serde(flatten)]
    whole: Option<WholeHeaderDump>,
}

#[derive(Serialize)]
struct EntryDump {
    #[serde(serialize_with = "as_hexadecimal")]
    address: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    symbol: Option<String>,
    size: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat_size: Option<u32>,
    #[serde(flatten)]
    handler: Option<HandlerDump>,
    rows: Vec<EntryRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct EntryRow {
    start: u32,
    signal: bool,
    #[serde(flatten)]
    rules: RulesDump,
    #[serde(flatten)]
    more: Option<WholeDump>,
}

/// Everything that a table contains.
pub fn table_dump<'a>(
    input: &'a Input<'a>,
    section: &'a TableSection<'a>,
    arguments: &Dump,
) -> TableDump<'a> {
    let mut dump = TableDump {
        name: section.name.clone(),
        address: section.address,
        size: section.data.len(),
        header: None,
        entries: None,
        error: None,
    };
    let table = match CompactTable::parse(&*section.data, section.address) {
        Ok(table) => table,
        Err(error) => {
            dump.error = Some(error.to_string());
            return dump;
        }
    };
    let header = table.header();
    dump.header = Some(HeaderDump {
        version: header.version,
        abi: header.abi.to_string(),
        endian: header.endian.to_string(),
        length: header.length,
        regions: header.regions,
        pages: header.pages,
        entries: header.entries,
        rules: header.rules,
        long_rules: header.long_rules,
        steps: header.steps,
        step_width: header.step_width,
        shape_bytes: header.shape_bytes,
        place_width: header.place_width,
        whole: (header.version == WHOLE_VERSION).then(|| WholeHeaderDump::new(&header.whole)),
    });
    if !arguments.headers && header.entries > 0 {
        dump.entries = Some(Entries { table, places: &input.places, demangled: arguments.demangle });
    }
    dump
}

impl Entries<'_> {
    fn each(&self) -> impl Iterator<Item = EntryDump> {
        let abi = self.table.header().abi;
        self.table.pieces().map(move |piece| {
            let rows: Result<Vec<PieceRow>, _> = piece.rows().collect();
            let error = rows.as_ref().err().map(ToString::to_string);
            let whole = |start: u32| {
                let found = self.table.look_up_whole(piece.address.wrapping_add(start.into()));
                found.ok().flatten()
            };
            let row = |row: PieceRow| EntryRow {
                start: row.start,
                signal: row.rules.is_some_and(|rules| rules.signal),
                rules: rules_dump(abi, row.rules.as_ref().map(|rules| &rules.rules)),
                more: whole(row.start).map(|found| WholeDump::new(abi, &found.rules)),
            };
            EntryDump {
                address: piece.address,
                symbol: self.places.symbol_name(piece.address, self.demangled),
                size: piece.size().unwrap_or(0),
                repeat_size: piece.repeat_size(),
                handler: whole(0).and_then(|found| found.handler).map(|handler| HandlerDump::new(&handler)),
                rows: rows.unwrap_or_default().into_iter().map(row).collect(),
                error,
            }
        })
    }
}

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.each())
    }
}

/// Prints a table.
///
/// # Errors
/// The output cannot be written.
pub fn write_table(output: &mut dyn Write, file: &str, table: &TableDump<'_>) -> io::Result<()> {
    let size = count(table.size as u64, "byte");
    writeln!(output, "{}: section {} at {:#x}, {size}", shown(file), table.name, table.address)?;
    if let Some(header) = &table.header {
        writeln!(
            output,
            "\n  compact table V{}, {}, {}, {}",
            header.version,
            header.abi,
            header.endian,
            count(header.length, "byte")
        )?;
        writeln!(
            output,
            "    {} on {} in {}, {} ({} long), {} of {}, {} of shapes",
            count(header.entries, "entry"),
            count(header.pages, "page"),
            count(header.regions, "region"),
            count(header.rules, "rule"),
            header.long_rules,
            count(header.steps, "step"),
            count(header.step_width, "byte"),
            count(header.shape_bytes, "byte")
        )?;
        if let Some(whole) = &header.whole {
            writeln!(
                output,
                "    {} of layouts, {} with {} and {} of language-specific data, {} that {} a function",
                count(whole.layout_bytes, "byte"),
                count(whole.handlers, "function"),
                count(whole.personalities, "personality routine"),
                count(whole.lsda_bytes, "byte"),
                count(whole.continued, "entry"),
                if whole.continued == 1 { "continues" } else { "continue" },
            )?;
        }
    }
    for entry in table.entries.iter().flat_map(Entries::each) {
        let symbol = entry.symbol.as_ref().map_or(String::new(), |name| format!(" <{}>", shown(name)));
        let repeats = entry
            .repeat_size
            .map_or(String::new(), |size| format!(", repeats every {}", count(size, "byte")));
        let signal = if entry.rows.iter().any(|row| row.signal) { ", signal frame" } else { "" };
        let size = count(entry.size, "byte");
        let handler = entry.handler.as_ref().map_or(String::new(), |handler| format!(", {}", handler.text()));
        writeln!(output, "\n    {:#x}{symbol}, {size}{signal}{repeats}{handler}", entry.address)?;
        for row in &entry.rows {
            let more = row.more.as_ref().map(WholeDump::text).unwrap_or_default();
            write_rules_and(output, row.start, &row.rules, &more)?;
        }
        if let Some(error) = &entry.error {
            writeln!(output, "      malformed: {error}")?;
        }
    }
    if let Some(error) = &table.error {
        writeln!(output, "\n  malformed: {error}")?;
    }
    writeln!(output)
}

/// The row of a compact table that holds at an address.
pub struct CompactRow {
    /// The name of the table's section.
    pub section: String,
    /// The table's version.
    pub version: u8,
    /// Address of its entry.
    pub function: u64,
    /// Size of its entry in bytes.
    pub function_size: u32,
    /// Address of its first byte.
    pub start: u64,
    /// Its rules.
    pub rules: UnwindRules,
    /// What version 2 says besides.
    pub more: Option<WholeDump>,
    /// Version 2: who handles exceptions that pass the function.
    pub handler: Option<HandlerDump>,
}

/// Looks an address up in a file's compact tables.
///
/// # Errors
/// A table is malformed.
pub fn look_up(input: &Input<'_>, address: u64) -> Result<Option<CompactRow>, Problem> {
    for section in &input.compact {
        let malformed = |error| Problem::new(&*input.name, format!("section {}: {error}", section.name));
        let table = parse(input, section)?;
        let Some(found) = table.lookup(address).map_err(malformed)? else { continue };
        let piece = table.pieces().find(|piece| piece.address == found.function);
        let function_size = piece.map_or(Ok(found.size), |piece| piece.size()).map_err(malformed)?;
        let sframe_format::compact::CompactMatch { function, start, rules, .. } = found;
        let whole = table.look_up_whole(address).map_err(malformed)?;
        return Ok(Some(CompactRow {
            section: section.name.clone(),
            version: table.header().version,
            function,
            function_size,
            start,
            rules,
            more: whole.as_ref().map(|found| WholeDump::new(table.header().abi, &found.rules)),
            handler: whole.and_then(|found| found.handler).map(|handler| HandlerDump::new(&handler)),
        }));
    }
    Ok(None)
}

/// Puts a finding about a table into the form of the findings about SFrame sections.
pub fn finding(error: &sframe_format::Error) -> (String, String) {
    (hexadecimal(error.offset as u64), error.kind.to_string())
}
