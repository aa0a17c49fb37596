//! Parses opened files, and gives a number to each name that an object mentions or that a library refers to.
//!
//! All candidates are parsed, also archive members that are never extracted, because the search for
//! definitions looks at their symbols. Files are parsed in batches. Where a batch ends depends only on the
//! sizes of files, and each batch hashes its names into lists by shard (see [`crate::symbols::intern`]). So
//! the threads need no lock, and the ids do not depend on them.

use super::open_inputs::{Candidate, Role};
use crate::arch::Target;
use crate::cli::Config;
use crate::diag::{Code, Diagnostic, Location, Sink};
use crate::ids::SymbolId;
use crate::input::object::{FileName, Intermediate, Malformed, VersionedSymbol};
use crate::input::{InputStore, ObjectFile, SharedFile, SymbolUse};
use crate::phase::Session;
use crate::symbols::Globals;
use crate::symbols::intern::{Batch, HashedName, Interner};
use hashbrown::HashMap;
use parallel::IntoParallel;
use std::ops::Range;
use std::path::Path;

/// A parsed candidate.
pub enum Parsed<'a, T: Target> {
    /// A relocatable object.
    Object(ObjectFile<'a, T::E>),
    /// A shared library.
    Shared(SharedFile<'a, T::E>),
    /// Broken, which has been reported.
    Broken,
    /// Nothing to link: bitcode, or intermediate code that a plugin has compiled.
    Nothing,
}

impl<'a, T: Target> Parsed<'a, T> {
    /// The number of an object's globals. Libraries mention so few names that they do not count.
    fn global_count(&self) -> usize {
        match self {
            Parsed::Object(object) => object.symbols.len() - object.first_global as usize,
            _ => 0,
        }
    }

    fn push_names(
        &mut self,
        candidate: &Candidate<'a>,
        wrap: &Wrap<'a>,
        batch: &mut Batch<'a>,
    ) -> Result<(), Malformed> {
        match self {
            Parsed::Object(object) => {
                push_object_names(object, wrap, batch)?;
                if candidate.role != Role::Opened {
                    object.intermediate = Intermediate::No;
                }
            }
            Parsed::Shared(shared) => push_shared_names(shared, batch),
            Parsed::Broken | Parsed::Nothing => {}
        }
        Ok(())
    }
}

/// All candidates with their globals.
pub struct ParsedInputs<'a, T: Target> {
    /// As in [`super::open_inputs::Opened::files`].
    pub files: Vec<Parsed<'a, T>>,
    /// Names of their globals.
    pub globals: Globals<'a>,
}

/// The largest number of batches, roughly: enough for any number of threads, and few enough that a batch's
/// lists stay long.
const BATCHES: usize = 128;

/// A batch has at least so many bytes of files, because its lists cost as much as some hundred names.
const SMALL: usize = 512 << 10;

/// One job makes room for so many files at least.
const FEW: usize = 128;

/// Parses all candidates.
pub fn run<'a, T: Target>(session: Session<'a>, candidates: &[Candidate<'a>]) -> ParsedInputs<'a, T> {
    let Session { config, sink, store, .. } = session;
    let wrap = Wrap::new(config, store);
    let ranges = cut(candidates);
    // Each file is parsed into its place, because the rows are large and to move them is work for one thread.
    let mut files: Vec<Parsed<'a, T>> =
        (0..candidates.len()).into_par_iter().with_min_len(FEW).map(|_| Parsed::Nothing).collect();
    // Each batch is a job. With larger jobs, threads would wait for the last one.
    let batches: Vec<Batch<'a>> = places(&ranges, &mut files)
        .into_par_iter()
        .with_max_len(1)
        .map(|(range, own)| parse_batch(own, &candidates[range.clone()], range.start as u32, &wrap, sink))
        .collect();
    let (interner, ids, names) = Interner::build(&batches);
    let of_batches = places(&ranges, &mut files).into_par_iter().zip(ids);
    of_batches.with_max_len(1).for_each(|((_, own), ids)| hand_out(own, &ids));
    let mut globals = Globals::new(interner, names);
    if config.is_relocatable() {
        let objects = files.iter_mut().filter_map(|parsed| match parsed {
            Parsed::Object(object) => Some(object),
            _ => None,
        });
        objects.for_each(|object| part_default_versions(object, &mut globals));
    }
    ParsedInputs { files, globals }
}

/// Parses the candidates of a batch, of which the first has the number `first`, and pushes their names.
fn parse_batch<'a, T: Target>(
    files: &mut [Parsed<'a, T>],
    candidates: &[Candidate<'a>],
    first: u32,
    wrap: &Wrap<'a>,
    sink: &Sink,
) -> Batch<'a> {
    let broken = |place: usize, malformed: &Malformed| {
        report(sink, candidates[place].name, malformed, first + place as u32);
        Parsed::Broken
    };
    for (place, file) in files.iter_mut().enumerate() {
        *file = parse_one::<T>(&candidates[place]).unwrap_or_else(|malformed| broken(place, &malformed));
        if matches!(file, Parsed::Shared(shared) if shared.is_program) {
            report_program(sink, candidates[place].name, first + place as u32);
        }
    }
    // The lists have room for all names from the start. If they grew, they would be copied again and again.
    let mut batch = Batch::with_capacity(files.iter().map(Parsed::global_count).sum());
    for (place, file) in files.iter_mut().enumerate() {
        if let Err(malformed) = file.push_names(&candidates[place], wrap, &mut batch) {
            *file = broken(place, &malformed);
        }
    }
    batch
}

/// The files of each batch.
fn places<'r, 'f, F>(
    ranges: &'r [Range<usize>],
    mut files: &'f mut [F],
) -> Vec<(&'r Range<usize>, &'f mut [F])> {
    let own = |range: &'r Range<usize>| (range, files.split_off_mut(..range.len()).unwrap_or_default());
    ranges.iter().map(own).collect()
}

/// Under `-r`, gives `name@@VERSION` a global of its own if an object also defines `name`, as `.symver`
/// leaves them. A final link takes both for one symbol, but the output of `-r` must have both names.
fn part_default_versions<'a, E: zerocopy::byteorder::ByteOrder>(
    object: &mut ObjectFile<'a, E>,
    globals: &mut Globals<'a>,
) {
    let first = object.first_global;
    let defaults: Vec<u32> =
        object.versioned.iter().filter(|it| it.default).map(|it| it.symbol - first).collect();
    if defaults.is_empty() {
        return;
    }
    let mut definitions: HashMap<SymbolId, u32> =
        defaults.iter().map(|&row| (object.globals[row as usize], 0)).collect();
    for (id, symbol) in object.globals.iter().zip(&object.symbols[first as usize..]) {
        if let Some(count) = definitions.get_mut(id).filter(|_| !symbol.is_undefined()) {
            *count += 1;
        }
    }
    for row in defaults.into_iter().map(|row| row as usize) {
        let symbol = first as usize + row;
        if definitions[&object.globals[row]] > 1 && !object.symbols[symbol].is_undefined() {
            object.globals[row] = globals.intern(object.symbol_name(symbol), |_| object.symbol_name(symbol));
        }
    }
}

/// Cuts the candidates into batches of about the same size in bytes.
fn cut(candidates: &[Candidate<'_>]) -> Vec<Range<usize>> {
    let size: usize = candidates.iter().map(|candidate| candidate.bytes.len()).sum();
    let full = (size / BATCHES).max(SMALL);
    let mut batches = Vec::with_capacity(BATCHES);
    let (mut start, mut bytes) = (0, 0);
    for (index, candidate) in candidates.iter().enumerate() {
        bytes += candidate.bytes.len();
        if bytes >= full || index + 1 == candidates.len() {
            batches.push(start..index + 1);
            (start, bytes) = (index + 1, 0);
        }
    }
    batches
}

fn report(sink: &Sink, name: FileName<'_>, malformed: &Malformed, order: u32) {
    sink.report(
        Diagnostic::error(Code::MalformedInput, malformed.what.clone())
            .at(Location::File(name.to_string()))
            .note(format!("at offset {:#x} of the file", malformed.offset))
            .ordered(order, 0, malformed.offset),
    );
}

/// Reports a program among the libraries. Nothing would load it for this output.
fn report_program(sink: &Sink, name: FileName<'_>, order: u32) {
    let message = "a position-independent executable cannot be an input to a link: dynamic linkers do not load it as a library";
    sink.report(
        Diagnostic::error(Code::UnsupportedInput, message)
            .at(Location::File(name.to_string()))
            .help(
                "name what the program was made of; a plugin that the program loads names nothing of it, and the \
                 program is linked with --export-dynamic",
            )
            .ordered(order, 0, 0),
    );
}

fn parse_one<'a, T: Target>(candidate: &Candidate<'a>) -> Result<Parsed<'a, T>, Malformed> {
    if matches!(candidate.role, Role::Bitcode | Role::Spent) {
        return Ok(Parsed::Nothing);
    }
    if candidate.shared {
        let found_as = match Path::new(candidate.name.path).file_name().filter(|_| candidate.searched) {
            Some(name) => name.as_encoded_bytes(),
            None => candidate.name.path.as_bytes(),
        };
        let mut shared = SharedFile::parse(candidate.name, candidate.bytes, found_as, T::SYSV_HASH_ENTRY)?;
        shared.as_needed = candidate.as_needed;
        return Ok(Parsed::Shared(shared));
    }
    let mut object = ObjectFile::parse(candidate.name, candidate.bytes)?;
    object.hide_symbols = candidate.hide_symbols;
    if candidate.just_symbols {
        object.just_symbols = true;
        object.headers = &[];
    }
    Ok(Parsed::Object(object))
}

/// Pushes the names of an object's globals. Until [`hand_out`] replaces them by ids, `globals` holds slots of
/// the batch.
fn push_object_names<'a, E: zerocopy::byteorder::ByteOrder>(
    object: &mut ObjectFile<'a, E>,
    wrap: &Wrap<'a>,
    batch: &mut Batch<'a>,
) -> Result<(), Malformed> {
    let first = object.first_global as usize;
    let count = object.symbols.len() - first;
    let (mut globals, mut usages) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut measure = object.measure_of_names();
    for (index, symbol) in object.symbols.iter().enumerate().skip(first) {
        let start = symbol.st_name.get() as usize;
        if !symbol.is_global() {
            return Err(not_global(object, index));
        }
        let rest = object.symbol_names.get(start..).unwrap_or(&[]);
        // One search finds the end and a version.
        let name = match memchr::memchr2(0, b'@', rest) {
            Some(end) if rest[end] == 0 => &rest[..end],
            Some(at) => {
                let end = memchr::memchr(0, &rest[at..]).ok_or_else(|| unterminated(index, start))?;
                versioned_name(object, index as u32, &rest[..at + end], at)
            }
            None => return Err(unterminated(index, start)),
        };
        measure.take(name.len() as u64).map_err(|_| Malformed::overlap("names of its symbols"))?;
        if name == b"__gnu_lto_slim" {
            object.intermediate = Intermediate::Only;
        }
        let usage = SymbolUse::of(symbol);
        let name = if usage.is_reference() { wrap.reference(name) } else { name };
        globals.push(SymbolId(batch.push(HashedName::new(name))));
        usages.push(usage);
    }
    (object.globals, object.usages) = (globals, usages);
    Ok(())
}

/// A symbol behind the last local one that no binding makes global. gABI, "Symbol Table".
#[cold]
fn not_global<E: zerocopy::byteorder::ByteOrder>(object: &ObjectFile<'_, E>, index: usize) -> Malformed {
    let (symbol, first) = (&object.symbols[index], object.first_global);
    let offset = std::ptr::from_ref(symbol).addr() - object.bytes.as_ptr().addr();
    let what = if symbol.is_local() {
        format!("symbol {index} is local, but the symbol table says that globals begin at {first}")
    } else {
        format!(
            "symbol {index} has the unknown binding {}, expected GLOBAL, WEAK or UNIQUE",
            symbol.binding()
        )
    };
    Malformed::at(offset as u64, what)
}

fn unterminated(symbol: usize, offset: usize) -> Malformed {
    Malformed::at(
        offset as u64,
        format!("the name of symbol {symbol} at offset {offset:#x} of the string table does not end"),
    )
}

/// Notes the version of `name@VERSION` or `name@@VERSION`. Returns the name to intern: the plain one for a
/// default version, otherwise the whole one. A definition with an empty version has none, whatever a script
/// says.
fn versioned_name<'a, E: zerocopy::byteorder::ByteOrder>(
    object: &mut ObjectFile<'a, E>,
    symbol: u32,
    whole: &'a [u8],
    at: usize,
) -> &'a [u8] {
    let default = whole[at..].starts_with(b"@@");
    let version = &whole[at + 1 + usize::from(default)..];
    let undefined = object.symbols.get(symbol as usize).is_none_or(|symbol| symbol.is_undefined());
    if at == 0 || version.is_empty() && undefined && default {
        return whole;
    }
    object.versioned.push(VersionedSymbol { symbol, version, default });
    if default { &whole[..at] } else { whole }
}

/// Pushes the names that a library refers to. When all other names are known,
/// [`super::find_library_definitions`] looks up its definitions.
fn push_shared_names<'a, E: zerocopy::byteorder::ByteOrder>(
    shared: &mut SharedFile<'a, E>,
    batch: &mut Batch<'a>,
) {
    let mut globals = vec![SymbolId::NONE; shared.symbols.len()];
    for (index, symbol) in shared.symbols.iter().enumerate() {
        if symbol.is_undefined() && !symbol.is_local() {
            let name = shared.symbol_name(index);
            if !name.is_empty() {
                globals[index] = SymbolId(batch.push(HashedName::new(name)));
            }
        }
    }
    shared.globals = globals;
}

/// Replaces slots by ids.
fn hand_out<T: Target>(files: &mut [Parsed<'_, T>], ids: &[SymbolId]) {
    for file in files {
        let globals = match file {
            Parsed::Object(object) => &mut object.globals,
            Parsed::Shared(shared) => &mut shared.globals,
            Parsed::Broken | Parsed::Nothing => continue,
        };
        for global in globals {
            if global.is_some() {
                *global = ids[global.index()];
            }
        }
    }
}

/// `--wrap` ([`SymbolOptions::wrapped_references`](crate::cli::SymbolOptions::wrapped_references)), applied
/// to the references of files.
struct Wrap<'a> {
    names: HashMap<Vec<u8>, &'a [u8]>,
}

impl<'a> Wrap<'a> {
    fn new(config: &Config, store: &'a InputStore) -> Self {
        let mut names = HashMap::new();
        for (from, to) in config.symbols.wrapped_references() {
            names.entry(from).or_insert_with(|| store.keep(to));
        }
        Wrap { names }
    }

    #[inline]
    fn reference(&self, name: &'a [u8]) -> &'a [u8] {
        if self.names.is_empty() {
            return name;
        }
        self.names.get(name).copied().unwrap_or(name)
    }
}
