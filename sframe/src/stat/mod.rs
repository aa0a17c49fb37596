//! `sframe stat`: counts the size and the contents of tables, and the bytes that sharing saves.

mod plot;
mod spread;

use super::args::Stat;
use super::functions::Functions;
use super::inputs::{self, FileResult};
use super::open::{Input, Problem};
use super::report::{Outcome, complain, print_json, write};
use super::{compact, derived};
use diagnostics::words;
use serde::Serialize;
use sframe_format::compact::{SECTION_NAME, write_table};
use sframe_format::convert::convert;
use sframe_format::light::{self, UNIT_HEADER_SIZE};
use sframe_format::write::Options;
use sframe_format::{Abi, FdeType, PcType, Section, Version};
use spread::Spread;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// The tables of a file.
#[derive(Debug, Default, Serialize)]
pub struct FileStatistics {
    file: String,
    file_size: u64,
    sframe_size: u64,
    /// Bytes of sections that contain light units.
    light_size: u64,
    compact_size: u64,
    derived: bool,
    eh_frame_size: u64,
    eh_frame_hdr_size: u64,
    sections: usize,
    blobs: u64,
    /// Units of the light form; these are not blobs.
    units: u64,
    functions: u64,
    rows: u64,
    flexible_functions: u64,
    repeating_functions: u64,
    signal_functions: u64,
    /// Bytes that rows and attributes would take if functions shared none.
    row_bytes: u64,
    /// Bytes of rows that are stored.
    stored_row_bytes: u64,
    /// Functions by number of rows.
    functions_by_rows: BTreeMap<u64, u64>,
    /// Functions by width of the start field of their rows, in bytes.
    functions_by_start_width: BTreeMap<u8, u64>,
    /// Rows by size of their data words, in bytes.
    rows_by_word_size: BTreeMap<u8, u64>,
    /// Size of the same functions, encoded again as one sorted V3 blob: without sharing, and with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    rewritten: Option<Rewritten>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Rewritten {
    plain: u64,
    shared: u64,
    /// The size as a compact table.
    compact: u64,
}

impl FileStatistics {
    fn tables(&self) -> u64 {
        self.eh_frame_size + self.eh_frame_hdr_size
    }

    /// The percentage of the file that a table takes. A derived table is in no file, so its size is added to
    /// the file's.
    fn share(&self, size: u64) -> f64 {
        let whole = self.file_size + if self.derived { self.sframe_size } else { 0 };
        percent(size, whole)
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Counts the tables of a file.
///
/// # Errors
/// Rows are malformed.
fn statistics(input: &Input<'_>) -> Result<FileStatistics, Problem> {
    let mut found = FileStatistics {
        file: input.name.clone(),
        file_size: input.size,
        eh_frame_size: input.eh_frame.iter().map(|section| section.data.len() as u64).sum(),
        eh_frame_hdr_size: input.eh_frame_hdr.as_ref().map_or(0, |header| header.data.len() as u64),
        sections: input.sframe.len(),
        derived: input.sframe.iter().any(|section| section.derived),
        ..FileStatistics::default()
    };
    let mut rewritten = Some(Rewritten { plain: 0, shared: 0, compact: 0 });
    for section in &input.sframe {
        found.sframe_size += section.data.len() as u64;
        found.light_size += if section.is_light() { section.data.len() as u64 } else { 0 };
        let bytes = section.section();
        count(&bytes, &mut found)
            .map_err(|error| Problem::new(&*input.name, format!("section {}: {error}", section.name)))?;
        let abi = bytes.blobs().next().map(|blob| blob.header().abi);
        let sizes = abi.and_then(|abi| rewrite(&bytes, abi));
        rewritten = rewritten.zip(sizes).map(|(sum, sizes)| Rewritten {
            plain: sum.plain + sizes.plain,
            shared: sum.shared + sizes.shared,
            compact: sum.compact + sizes.compact,
        });
    }
    found.compact_size = input.compact.iter().map(|section| section.data.len() as u64).sum();
    let (entries, summary) = compact::summary(input)?;
    if input.sframe.is_empty() {
        // An entry is a function, except that a very long function has several.
        (found.functions, found.rows, rewritten) = (entries, summary.rows, None);
    }
    found.rewritten = rewritten.filter(|_| found.functions > 0);
    Ok(found)
}

/// The sizes of the section, encoded again as one sorted V3 blob.
fn rewrite(section: &Section<'_>, abi: Abi) -> Option<Rewritten> {
    let size = |share| {
        let options = Options::new(abi).version(Version::V3).share(share);
        convert(section, options, section.address()).ok().map(|converted| converted.bytes.len() as u64)
    };
    let mut functions = Functions::default();
    functions.read(section, abi);
    let compact = write_table(abi, section.address(), &functions.list).ok()?.bytes.len() as u64;
    Some(Rewritten { plain: size(false)?, shared: size(true)?, compact })
}

fn count(section: &Section<'_>, found: &mut FileStatistics) -> Result<(), sframe_format::Error> {
    for blob in section.blobs() {
        let header = blob.header();
        found.blobs += u64::from(!header.is_light());
        found.units += u64::from(header.unit_distance as usize == UNIT_HEADER_SIZE);
        let mut stored: BTreeSet<(u32, u64)> = BTreeSet::new();
        for (fde, attributes) in blob.functions() {
            let attributes = attributes?;
            let mut fres = blob.fres(&attributes);
            let start = u64::from(fde.fre_offset);
            for fre in fres.by_ref() {
                *found.rows_by_word_size.entry(fre?.word_size()).or_default() += 1;
            }
            let bytes = fres.position() as u64 - start;
            found.row_bytes += bytes;
            if stored.insert((fde.fre_offset, bytes)) {
                found.stored_row_bytes += bytes;
            }
            found.functions += 1;
            found.rows += u64::from(attributes.fre_count);
            found.flexible_functions += u64::from(attributes.fde_type == FdeType::Flexible);
            found.repeating_functions += u64::from(attributes.pc_type == PcType::Mask);
            found.signal_functions += u64::from(attributes.signal);
            *found.functions_by_rows.entry(attributes.fre_count.into()).or_default() += 1;
            *found.functions_by_start_width.entry(attributes.start_width).or_default() += 1;
        }
    }
    Ok(())
}

/// Prints statistics of all files.
pub fn run(arguments: &Stat) -> Outcome {
    if let Some(Err(problem)) = arguments.plot.as_deref().map(plot::check) {
        return Outcome::of(Err(problem));
    }
    let derivation = arguments.derivation;
    let results = inputs::for_each_file(&arguments.files, arguments.address, &|mut input| {
        if derivation.wanted(&input) {
            derived::replace(&mut input, derivation.version())?;
        }
        let empty = !input.has_rows() && input.eh_frame.iter().all(|section| section.data.is_empty());
        if empty { Ok(None) } else { statistics(&input).map(Some) }
    });
    let mut outcome = Outcome::Fine;
    let mut files = Vec::new();
    for result in results {
        match result {
            FileResult::Done(file) => files.push(file),
            FileResult::Problem(problem) => {
                complain(&problem);
                outcome = Outcome::Unusable;
            }
            FileResult::Nothing(name, true) => {
                complain(&Problem::new(name, "neither .sframe nor .eh_frame"));
                outcome = Outcome::Unusable;
            }
            FileResult::Nothing(_, false) => {}
        }
    }
    let spreads = spreads(&files);
    let printed = if arguments.json {
        print_json(&serde_json::json!({ "files": files, "shares": spreads }))
    } else {
        write(|output| write_text(output, &files, &spreads))
    };
    outcome = outcome.max(Outcome::of(printed));
    if let Some(path) = &arguments.plot
        && let Err(message) = plot::write(path, &spreads, files.len())
    {
        complain(&Problem::new(path.display().to_string(), message));
        outcome = Outcome::Unusable;
    }
    outcome
}

/// For each table that any file has, how the shares of file size are distributed.
fn spreads(files: &[FileStatistics]) -> Vec<Spread> {
    let eh_frame = files.iter().filter(|file| file.tables() > 0);
    let sframe = files.iter().filter(|file| file.sframe_size > 0);
    let derived = files.iter().any(|file| file.derived);
    let name = if derived { ".sframe (derived)" } else { ".sframe" };
    let all = [
        Spread::new(".eh_frame + .eh_frame_hdr", eh_frame.map(|file| file.share(file.tables())).collect()),
        Spread::new(name, sframe.map(|file| file.share(file.sframe_size)).collect()),
    ];
    all.into_iter().flatten().collect()
}

fn write_text(output: &mut dyn Write, files: &[FileStatistics], spreads: &[Spread]) -> io::Result<()> {
    if let [file] = files {
        return write_file(output, file);
    }
    let sum = |of: fn(&FileStatistics) -> u64| files.iter().map(of).sum::<u64>();
    let mut all = FileStatistics {
        file: words::count(files.len() as u64, "file"),
        file_size: sum(|file| file.file_size),
        sframe_size: sum(|file| file.sframe_size),
        compact_size: sum(|file| file.compact_size),
        derived: files.iter().any(|file| file.derived),
        eh_frame_size: sum(|file| file.eh_frame_size),
        eh_frame_hdr_size: sum(|file| file.eh_frame_hdr_size),
        sections: files.iter().map(|file| file.sections).sum(),
        blobs: sum(|file| file.blobs),
        units: sum(|file| file.units),
        light_size: sum(|file| file.light_size),
        functions: sum(|file| file.functions),
        rows: sum(|file| file.rows),
        flexible_functions: sum(|file| file.flexible_functions),
        repeating_functions: sum(|file| file.repeating_functions),
        signal_functions: sum(|file| file.signal_functions),
        row_bytes: sum(|file| file.row_bytes),
        stored_row_bytes: sum(|file| file.stored_row_bytes),
        ..FileStatistics::default()
    };
    for file in files {
        add(&mut all.functions_by_rows, &file.functions_by_rows);
        add(&mut all.functions_by_start_width, &file.functions_by_start_width);
        add(&mut all.rows_by_word_size, &file.rows_by_word_size);
    }
    let rewritten: Vec<Rewritten> = files.iter().filter_map(|file| file.rewritten).collect();
    all.rewritten = (!rewritten.is_empty()).then(|| Rewritten {
        plain: rewritten.iter().map(|sizes| sizes.plain).sum(),
        shared: rewritten.iter().map(|sizes| sizes.shared).sum(),
        compact: rewritten.iter().map(|sizes| sizes.compact).sum(),
    });
    write_file(output, &all)?;
    for spread in spreads {
        writeln!(output)?;
        spread.write(output)?;
    }
    Ok(())
}

fn add<K: Ord + Copy>(sum: &mut BTreeMap<K, u64>, other: &BTreeMap<K, u64>) {
    for (key, count) in other {
        *sum.entry(*key).or_default() += count;
    }
}

fn write_file(output: &mut dyn Write, file: &FileStatistics) -> io::Result<()> {
    let per = |size: u64, count: u64| size as f64 / count.max(1) as f64;
    writeln!(output, "{}: {}", words::shown(&file.file), words::count(file.file_size, "byte"))?;
    writeln!(output, "  {:<26}{:>12}  {:>7}  {:>10}  {:>8}", "", "bytes", "of file", "/function", "/row")?;
    let mut line = |name: &str, size: u64| {
        let (share, function, row) = (file.share(size), per(size, file.functions), per(size, file.rows));
        match file.functions {
            0 => writeln!(output, "  {name:<26}{size:>12}  {share:>6.2}%"),
            _ => writeln!(output, "  {name:<26}{size:>12}  {share:>6.2}%  {function:>10.2}  {row:>8.2}"),
        }
    };
    line(".eh_frame", file.eh_frame_size)?;
    line(".eh_frame_hdr", file.eh_frame_hdr_size)?;
    let blobs = file.sframe_size - file.light_size;
    if file.light_size == 0 || blobs > 0 {
        line(if file.derived { ".sframe (derived)" } else { ".sframe" }, blobs)?;
    }
    if file.light_size > 0 {
        line(light::SECTION_NAME, file.light_size)?;
    }
    if file.compact_size > 0 {
        line(SECTION_NAME, file.compact_size)?;
    }
    if let Some(Rewritten { plain, shared, compact }) = file.rewritten {
        line("as sorted V3, plain", plain)?;
        line("as sorted V3, shared", shared)?;
        line("as a compact table", compact)?;
    }
    if file.compact_size > 0 && file.tables() > 0 {
        let ratio = percent(file.compact_size, file.tables());
        writeln!(output, "  {SECTION_NAME} is {ratio:.1} % of .eh_frame and .eh_frame_hdr")?;
    }
    if file.functions == 0 || file.sframe_size == 0 {
        return Ok(());
    }
    if file.tables() > 0 {
        let ratio = percent(file.sframe_size, file.tables());
        writeln!(output, "  .sframe is {ratio:.1} % of .eh_frame and .eh_frame_hdr")?;
    }
    if let Some(Rewritten { plain, shared, .. }) = file.rewritten {
        let saved = percent(plain.saturating_sub(shared), plain);
        writeln!(output, "  sharing saves {saved:.1} % of a sorted V3 section")?;
    }
    let stored = percent(file.stored_row_bytes, file.row_bytes);
    writeln!(
        output,
        "  rows: {}, of which {} ({stored:.1} %) are stored",
        words::count(file.row_bytes, "byte"),
        file.stored_row_bytes
    )?;
    writeln!(
        output,
        "  {} in {}: {} flexible, {} repeating, {}; {}",
        words::count(file.functions, "function"),
        match (file.blobs, file.units) {
            (blobs, 0) => words::count(blobs, "blob"),
            (0, units) => words::count(units, "light unit"),
            (blobs, units) => {
                format!("{} and {}", words::count(blobs, "blob"), words::count(units, "light unit"))
            }
        },
        file.flexible_functions,
        file.repeating_functions,
        words::count(file.signal_functions, "signal frame"),
        words::count(file.rows, "row")
    )?;
    writeln!(output, "  functions by number of rows:")?;
    for (name, count) in spread::by_powers(&file.functions_by_rows) {
        writeln!(output, "  {name:>12}  {count:>9}  {:>6.2}%", percent(count, file.functions))?;
    }
    write_widths(output, "functions by width of row starts", &file.functions_by_start_width)?;
    write_widths(output, "rows by size of data words", &file.rows_by_word_size)
}

fn write_widths(output: &mut dyn Write, title: &str, counts: &BTreeMap<u8, u64>) -> io::Result<()> {
    let total: u64 = counts.values().sum();
    let part = |(width, count): (&u8, &u64)| format!("{width} B: {count} ({:.1} %)", percent(*count, total));
    let parts: Vec<String> = counts.iter().map(part).collect();
    writeln!(output, "  {title}: {}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::statistics;
    use crate::fixtures;
    use crate::open::open_elf;

    fn of(name: &str) -> super::FileStatistics {
        let bytes = std::fs::read(fixtures::path(name)).unwrap();
        statistics(&open_elf(name, &bytes).unwrap()).unwrap()
    }

    #[test]
    fn sections_are_counted() {
        let found = of("v3-gas2.47/demo.x86_64.o");
        assert_eq!((found.functions, found.rows, found.blobs), (7, 25, 1));
        // The header takes 28 bytes, 7 entries take 16 each, and the rows come with their attributes.
        assert_eq!(found.sframe_size, 28 + 7 * 16 + found.stored_row_bytes);
        assert_eq!(found.functions_by_rows.values().sum::<u64>(), 7);
        let rewritten = found.rewritten.unwrap();
        assert_eq!(rewritten.plain, found.sframe_size);
        assert!(rewritten.shared < rewritten.plain);
    }

    #[test]
    fn shared_bytes_count_once() {
        let found = of("crafted-v3/share.x86_64.o");
        assert_eq!((found.functions, found.row_bytes), (3, 3 * found.stored_row_bytes));
    }
}
