//! `--trace`, `--trace-symbol`, `--why-extract`, `--print-archive-stats`: the files of the link, the files
//! that mention a symbol, the reasons for archive members, and how many there are.

use crate::arch::Target;
use crate::diag::words::shown;
use crate::ids::SymbolId;
use crate::input::object::{FileName, SymbolPlace};
use crate::passes::extract_members::Extracted;
use crate::passes::open_inputs::{Candidate, Opened, Role};
use crate::phase::Inputs;
use hashbrown::{HashMap, HashSet};
use indexmap::IndexMap;
use std::fmt::{Display, Write};
use std::path::PathBuf;

/// An archive member that takes part, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IncludedMember<'a> {
    /// Name of the archive and the member.
    pub member: FileName<'a>,
    /// The first object that refers to the symbol, or else the first library. `None`: only an option or a
    /// script refers to it.
    pub referrer: Option<FileName<'a>>,
    /// The symbol that the link needed and the member defines.
    pub symbol: SymbolId,
}

/// Data of earlier passes that reports need.
#[derive(Clone, Debug, Default)]
pub struct ReportData<'a> {
    /// Archive members in the order of their extraction.
    pub members: Vec<IncludedMember<'a>>,
    /// Every input file that was opened, in order.
    pub paths: Vec<PathBuf>,
}

/// `-t`: a line for each file that the linker read. An archive is replaced by its members that take part, and
/// so are the objects behind `--start-lib`. If the option is given twice, the archive itself and all objects
/// are listed, too.
pub fn files<T: Target>(inputs: &Inputs<'_, T>, opened: &Opened<'_>, data: &ReportData<'_>) -> String {
    let mut text = String::new();
    let of_members = opened.files.iter().filter(|file| file.name.member.is_some());
    let archives: HashSet<&str> = of_members.map(|file| file.name.path).collect();
    let mut members: HashMap<&str, Vec<FileName<'_>>> = HashMap::new();
    let is_object = |file: &&Candidate<'_>| file.name.member.is_none() && !file.shared;
    // Compiled files took part.
    let objects = opened.files.iter().filter(is_object).filter(|file| file.role != Role::Spent);
    let mut left: HashSet<&str> = objects.map(|file| file.name.path).collect();
    for object in &inputs.objects {
        if object.name.member.is_some() {
            members.entry(object.name.path).or_default().push(object.name);
        } else {
            left.remove(object.name.path);
        }
    }
    for path in &data.paths {
        let path = path.to_string_lossy();
        let takes_part = !archives.contains(&*path) && !left.contains(&*path);
        if inputs.config.reports.trace > 1 || takes_part {
            let _ = writeln!(text, "{}", shown(&path));
        }
        for member in members.remove(&*path).unwrap_or_default() {
            let _ = writeln!(text, "{}", shown(&member.to_string()));
        }
    }
    text
}

/// The archive members that take part, each with the symbol that extracted it and the first file that refers
/// to that symbol.
pub fn included_members<'a, T: Target>(
    inputs: &Inputs<'a, T>,
    opened: &Opened<'a>,
    extracted: &Extracted,
) -> Vec<IncludedMember<'a>> {
    let mut referrers: HashMap<SymbolId, Option<FileName<'a>>> =
        extracted.reasons.iter().map(|&(_, symbol)| (symbol, None)).collect();
    for object in &inputs.objects {
        let globals = object.symbols.iter().skip(object.first_global as usize).zip(&object.globals);
        for (_, id) in globals.filter(|(symbol, _)| symbol.is_undefined()) {
            if let Some(referrer) = referrers.get_mut(id) {
                referrer.get_or_insert(object.name);
            }
        }
    }
    for library in &inputs.shared {
        for (position, id) in library.globals.iter().enumerate() {
            let undefined = library.symbols.get(position).is_none_or(|symbol| symbol.is_undefined());
            if undefined && let Some(referrer) = referrers.get_mut(id) {
                referrer.get_or_insert(library.name);
            }
        }
    }
    extracted
        .reasons
        .iter()
        .filter_map(|&(file, symbol)| {
            let member = opened.files.get(file as usize)?.name;
            Some(IncludedMember { member, referrer: referrers.get(&symbol).copied().flatten(), symbol })
        })
        .collect()
}

/// `--why-extract`: a table whose columns are separated by tabs.
pub fn why_extract<T: Target>(inputs: &Inputs<'_, T>, data: &ReportData<'_>) -> String {
    let mut text = String::from("reference\textracted\tsymbol\n");
    for included in &data.members {
        let referrer = included.referrer.map_or_else(|| "<internal>".into(), |name| name.to_string());
        let (referrer, member) = (shown(&referrer), included.member.to_string());
        let symbol = inputs.name_text(inputs.globals.names[included.symbol.index()]);
        let _ = writeln!(text, "{referrer}\t{}\t{symbol}", shown(&member));
    }
    text
}

/// `--print-archive-stats`: for each archive, in the order of the command line, the number of its members and
/// of those that take part. The columns are separated by tabs, as in lld.
pub fn archives(opened: &Opened<'_>, extracted: &Extracted) -> String {
    let mut counts: IndexMap<&str, (usize, usize)> = IndexMap::new();
    for path in opened.files.iter().filter_map(|file| archive_of(file.name)) {
        counts.entry(path).or_default().0 += 1;
    }
    let taken = extracted.objects.iter().filter_map(|&row| opened.files.get(row as usize));
    for path in taken.filter_map(|file| archive_of(file.name)) {
        counts.entry(path).or_default().1 += 1;
    }
    let mut text = String::from("members\textracted\tarchive\n");
    for (path, (members, taken)) in counts {
        let _ = writeln!(text, "{members}\t{taken}\t{}", shown(path));
    }
    text
}

fn archive_of<'a>(name: FileName<'a>) -> Option<&'a str> {
    name.member.map(|_| name.path)
}

/// `-y`: the objects and then the libraries that refer to a symbol or define it, in input order.
pub fn symbols<T: Target>(inputs: &Inputs<'_, T>) -> String {
    let names = || inputs.config.reports.trace_symbols.iter();
    let ids: Vec<SymbolId> = names().filter_map(|name| inputs.globals.lookup(name)).collect();
    // The lines of each symbol, and the file of its last line.
    let mut traced: HashMap<SymbolId, (String, usize)> =
        ids.iter().map(|&id| (id, (String::new(), usize::MAX))).collect();
    if traced.is_empty() {
        return String::new();
    }
    let mut note = |file: usize, name: &dyn Display, id: SymbolId, word: &dyn Fn() -> &'static str| {
        if let Some((lines, last)) = traced.get_mut(&id)
            && *last != file
        {
            let symbol = inputs.name_text(inputs.globals.names[id.index()]);
            let _ = writeln!(lines, "{}: {} {symbol}", shown(&name.to_string()), word());
            *last = file;
        }
    };
    for (file, object) in inputs.objects.iter().enumerate() {
        for (position, &id) in object.globals.iter().enumerate() {
            note(file, &object.name, id, &|| match object
                .symbol_place(object.first_global as usize + position)
            {
                SymbolPlace::Undefined => "reference to",
                SymbolPlace::Common => "common definition of",
                SymbolPlace::Section(_) | SymbolPlace::Absolute => "definition of",
            });
        }
    }
    for (file, library) in inputs.shared.iter().enumerate() {
        for (position, &id) in library.globals.iter().enumerate() {
            let undefined = || library.symbols.get(position).is_none_or(|symbol| symbol.is_undefined());
            note(inputs.objects.len() + file, &library.name, id, &|| {
                if undefined() { "reference to" } else { "definition of" }
            });
        }
    }
    ids.iter().map(|id| &*traced[id].0).collect()
}
