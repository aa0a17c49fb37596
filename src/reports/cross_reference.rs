//! `--cref`: for each symbol, the file that defines it and the files that refer to it.

use crate::arch::Target;
use crate::diag::words::shown;
use crate::ids::SymbolId;
use crate::input::object::FileName;
use crate::phase::Inputs;
use crate::phase::Resolved;
use crate::symbols::Definition;
use crate::symbols::MentionedBy;
use parallel::{ParallelSlice, ParallelSort};
use std::fmt::Write;

/// Column of the file names.
const FILE_COLUMN: usize = 50;

/// A file with a symbol in its symbol table. Mentions sort by symbol. Of one symbol, the prevailing
/// definition comes first, then objects, then libraries, in link order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Mention {
    symbol: SymbolId,
    is_reference: bool,
    is_library: bool,
    file: u32,
}

/// The table in GNU ld's form, sorted by name. It omits symbols that only libraries mention.
pub fn table<T: Target>(link: &Resolved<'_, T>) -> String {
    let mut mentions = mentions(link);
    mentions.par_sort_unstable();
    mentions.dedup();
    let mut groups: Vec<(String, &[Mention])> = mentions
        .chunk_by(|a, b| a.symbol == b.symbol)
        .filter(|group| link.mentions(group[0].symbol).contains(MentionedBy::IN_OBJECT))
        .map(|group| (link.name_text(link.globals.names[group[0].symbol.index()]), group))
        .collect();
    sort_by_name(&mut groups);
    let mut text = format!("\nCross Reference Table\n\n{:<FILE_COLUMN$}File\n", "Symbol");
    for (name, group) in groups {
        let mut column = name;
        for mention in group {
            let _ = writeln!(text, "{column:<FILE_COLUMN$}{}", shown(&file_name(link, mention).to_string()));
            column.clear();
        }
    }
    text
}

fn sort_by_name(groups: &mut [(String, &[Mention])]) {
    groups.sort_by(|a, b| a.0.cmp(&b.0).then(a.1[0].symbol.cmp(&b.1[0].symbol)));
}

fn mentions<T: Target>(link: &Resolved<'_, T>) -> Vec<Mention> {
    let of_objects = link.objects.par_iter().flat_map_iter(|object| {
        object.globals.iter().map(move |&symbol| {
            let defines =
                matches!(link.definition(symbol), Definition::Object { file, .. } if file == object.id);
            Mention { symbol, is_reference: !defines, is_library: false, file: object.id.0 }
        })
    });
    let of_libraries = link.shared.par_iter().flat_map_iter(|library| {
        library.globals.iter().filter(|id| id.is_some()).map(move |&symbol| {
            let definition = link.definition(symbol);
            let defines =
                matches!(definition, Definition::Shared { library: owner, .. } if owner == library.id);
            Mention { symbol, is_reference: !defines, is_library: true, file: library.id.0 }
        })
    });
    let mut all = of_objects.collect();
    all.append(&mut of_libraries.collect());
    all
}

fn file_name<'a, T: Target>(link: &Inputs<'a, T>, mention: &Mention) -> FileName<'a> {
    if mention.is_library {
        link.shared[mention.file as usize].name
    } else {
        link.objects[mention.file as usize].name
    }
}
