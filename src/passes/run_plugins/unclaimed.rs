//! Files that hold only intermediate code and that no plugin takes.
//!
//! Nobody can read such a file, so on the command line it is an error. In an archive, it is an error only if
//! the link needs it. The archive's own index tells which symbols the member defines, as for GNU ld, and a
//! stand-in object gets these symbols. Members that the index does not name take no part, and a warning says
//! so.

use crate::cli::Config;
use crate::diag::{Code, Diagnostic, Location};
use crate::input::object::Intermediate;
use crate::input::{InputSource, archive, placeholder};
use crate::passes::extract_members::Extracted;
use crate::passes::open_inputs::{Opened, Role, Step};
use crate::phase::Session;
use hashbrown::HashMap;
use linker_plugin::{Binding, Symbol, SymbolKind, Visibility};
use std::path::Path;

/// Reports files of the command line, and replaces members of searched archives by stand-ins. Returns whether
/// there were such members: then the candidates must be parsed again.
pub fn settle<'a>(
    files: &[(u32, Intermediate)],
    opened: &mut Opened<'a>,
    session: Session<'a>,
    source: &dyn InputSource,
) -> bool {
    let only = files.iter().filter(|(_, intermediate)| *intermediate == Intermediate::Only);
    let searched = searched(opened);
    let is_searched = |row: u32| {
        let before = searched.partition_point(|&(start, _)| start <= row);
        before > 0 && row < searched[before - 1].1 && opened.files[row as usize].name.member.is_some()
    };
    let (members, plain): (Vec<u32>, Vec<u32>) = only.map(|&(row, _)| row).partition(|&row| is_searched(row));
    for row in plain {
        session.sink.report(finding(row, opened, session.config));
    }
    let machine = opened.machine.unwrap_or(crate::arch::machine::DEFAULT);
    let mut indexes: HashMap<&str, archive::Index<'a>> = HashMap::new();
    // By archive: the row of the first member that the index does not name, and the number of such members.
    // The members of an archive have neighbouring rows.
    let mut nameless: Vec<(&str, u32, usize)> = Vec::new();
    for &row in &members {
        let file = &mut opened.files[row as usize];
        let path = file.name.path;
        let index = indexes.entry(path).or_insert_with(|| {
            let bytes = source.read(Path::new(path)).map(|bytes| session.store.keep_file(bytes));
            bytes.map(archive::index).unwrap_or_default()
        });
        let offset = file.origin.map_or(0, |origin| origin.offset);
        let names = index.get(&(file.name.member.unwrap_or_default(), offset));
        let symbols: Vec<Symbol> = names.into_iter().flatten().map(|name| definition(name)).collect();
        if symbols.is_empty() {
            file.role = Role::Spent;
            match nameless.last_mut() {
                Some((last, _, count)) if *last == path => *count += 1,
                _ => nameless.push((path, row, 1)),
            }
        } else {
            file.bytes = session.store.keep(placeholder::write(&symbols, machine));
            file.role = Role::Unclaimed;
        }
    }
    for (path, row, count) in nameless {
        session.sink.report(
            Diagnostic::warning(
                Code::LtoInput,
                "members that hold only the compiler's intermediate code (LTO) take no part: the archive's index names no symbol of theirs",
            )
            .at(Location::File(path.to_owned()))
            .note(format!("{count} of its members, the first is {}", opened.files[row as usize].name))
            .help("make the archive with the compiler's own ar (gcc-ar, llvm-ar), and link with -flto")
            .ordered(row, 0, 0),
        );
    }
    !members.is_empty()
}

/// Reports the members with [`Role::Unclaimed`] that the link needs.
pub fn report_needed(extracted: &Extracted, opened: &Opened<'_>, names: &[&[u8]], session: Session<'_>) {
    for &row in &extracted.objects {
        if opened.files.get(row as usize).is_none_or(|file| file.role != Role::Unclaimed) {
            continue;
        }
        let mut finding = finding(row, opened, session.config);
        if let Some(&(_, id)) = extracted.reasons.iter().find(|&&(of, _)| of == row) {
            finding =
                finding.note(format!("it defines {}, which is needed", session.name_text(names[id.index()])));
        }
        session.sink.report(finding);
    }
}

/// The rows of searched archives as pairs of start and end, ascending. An archive that is named twice has one
/// pair.
fn searched(opened: &Opened<'_>) -> Vec<(u32, u32)> {
    let mut rows: Vec<(u32, u32)> = opened
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Members(rows) => Some((rows.start, rows.end)),
            _ => None,
        })
        .collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// A definition of this name. The index says nothing else about a symbol.
fn definition(name: &[u8]) -> Symbol {
    Symbol {
        name: name.to_vec(),
        version: None,
        binding: Binding::Definition,
        visibility: Visibility::Default,
        kind: SymbolKind::Unknown,
        size: 0,
        comdat: None,
    }
}

fn finding(row: u32, opened: &Opened<'_>, config: &Config) -> Diagnostic {
    let finding =
        Diagnostic::error(Code::LtoInput, "the file holds only the compiler's intermediate code (LTO)")
            .at(Location::File(opened.files[row as usize].name.to_string()))
            .ordered(row, 0, 0);
    let plugins = config.lto.plugin_names();
    if plugins.is_empty() {
        return finding.help(
            "link with the compiler that made it and -flto, so that it names its plugin (-plugin), or compile it with -fno-lto or -ffat-lto-objects",
        );
    }
    finding
        .note(format!("not taken by {plugins}"))
        .help("link with the compiler that made it, or compile it with -fno-lto or -ffat-lto-objects")
}
