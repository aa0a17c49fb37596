//! `--explain-discarded`: a full account of every reference to a discarded section.
//!
//! An error message has room for two files and a place. The account adds the groups of both files with their
//! members, the copy that prevails and the reason, the path of the reference, and what other modes would do
//! with it. It comes as text for people and as a graph for Graphviz, both from the same data.

use super::discarded::{Remedies, is_violation};
use crate::arch::Target;
use crate::decision::site::Reference;
use crate::diag::words::{count, shown};
use crate::ids::{FileId, SectionId};
use crate::input::ObjectFile;
use crate::input::group::GroupEntry;
use crate::phase::Scanned;
use crate::phase::SectionState;
use hashbrown::HashMap;
use std::fmt::Write;
use zerocopy::byteorder::ByteOrder;

/// The account of one reference, all as text.
struct Account {
    /// `file:(section+offset)` of the reference.
    place: String,
    /// File and section that refer.
    from: (String, String),
    /// Type and symbol of the relocation.
    by: String,
    /// File and section that the reference leads to.
    to: (String, String),
    /// Why that section is not in the output.
    why: String,
    /// Name of the group's signature, if the section is in a group.
    signature: Option<String>,
    /// The copies of the group: the prevailing one, then the one that the reference leads to.
    copies: Vec<Copy>,
    /// Why the referring section is in the output.
    stays: String,
    /// Kinds of links, and what each would do with the reference.
    modes: Vec<(&'static str, String)>,
}

/// A group in a file.
struct Copy {
    file: String,
    prevails: bool,
    /// Names and sizes in bytes.
    members: Vec<(String, u64)>,
}

/// The accounts of all references as text.
pub fn text<T: Target>(link: &Scanned<'_, T>) -> String {
    let accounts = accounts(link);
    if accounts.is_empty() {
        return "no reference leads into a discarded section\n".into();
    }
    let mut text = String::new();
    for (number, account) in accounts.iter().enumerate() {
        let _ = writeln!(
            text,
            "reference {} of {}: {} to {} of {}, which is not in the output",
            number + 1,
            accounts.len(),
            account.place,
            account.to.1,
            account.to.0
        );
        write_account(&mut text, account);
    }
    text
}

fn write_account(text: &mut String, account: &Account) {
    let _ = writeln!(text, "  not in the output: {}", account.why);
    if let Some(signature) = &account.signature {
        let _ = writeln!(text, "  section group {signature}:");
        for copy in &account.copies {
            let fate = if copy.prevails { "prevails" } else { "discarded" };
            let members: Vec<String> = copy
                .members
                .iter()
                .map(|(name, size)| format!("{name} ({})", count(*size, "byte")))
                .collect();
            let _ = writeln!(text, "    {}, {fate}: {}", copy.file, members.join(", "));
        }
    }
    let _ =
        writeln!(text, "  path: {} --{}--> {} of {}", account.place, account.by, account.to.1, account.to.0);
    let _ = writeln!(text, "  {} of {} is in the output: {}", account.from.1, account.from.0, account.stays);
    let _ = writeln!(text, "  what becomes of the reference:");
    let width = account.modes.iter().map(|(mode, _)| mode.len()).max().unwrap_or(0);
    for (mode, what) in &account.modes {
        let _ = writeln!(text, "    {mode:width$}  {what}");
    }
    text.push('\n');
}

/// The accounts as a graph for Graphviz: a box for each file with its groups inside, and arrows for
/// references.
pub fn graph<T: Target>(link: &Scanned<'_, T>) -> String {
    let mut text = String::from(
        "digraph discarded {\n  rankdir=LR;\n  compound=true;\n  node [shape=box, fontname=\"monospace\", fontsize=10];\n  \
         edge [fontname=\"sans-serif\", fontsize=9];\n",
    );
    for (number, account) in accounts(link).iter().enumerate() {
        let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let node = |copy: usize, name: &str| quoted(&format!("{number}.{copy}.{name}"));
        let _ = writeln!(text, "  subgraph cluster_{number} {{\n    label={};", quoted(&account.place));
        for (row, copy) in account.copies.iter().enumerate() {
            let (fate, colour) =
                if copy.prevails { ("prevails", "darkgreen") } else { ("discarded", "firebrick") };
            let signature = account.signature.as_deref().unwrap_or_default();
            let label = format!("{}\ngroup {signature}\n{fate}", copy.file).replace('\n', "\\n");
            let _ = writeln!(
                text,
                "    subgraph cluster_{number}_{row} {{\n      label=\"{}\"; color={colour};",
                label.replace('"', "\\\"")
            );
            for (name, size) in &copy.members {
                let style = if copy.prevails { "solid" } else { "dashed" };
                let label = quoted(&format!("{name}: {}", count(*size, "byte")));
                let _ = writeln!(text, "      {} [label={label}, style={style}];", node(row, name));
            }
            text.push_str("    }\n");
        }
        let target = account.copies.len().saturating_sub(1);
        let from = quoted(&format!("{number}.from"));
        let label = quoted(&format!("{}:{}", account.from.0, account.from.1));
        let _ = writeln!(text, "    {from} [label={label}, style=bold];");
        if account.copies.is_empty() {
            let label = quoted(&format!("{}:{}, {}", account.to.0, account.to.1, account.why));
            let _ = writeln!(text, "    {} [label={label}, style=dashed];", node(0, &account.to.1));
        }
        let arrow = quoted(&account.by);
        let _ =
            writeln!(text, "    {from} -> {} [label={arrow}, color=firebrick];", node(target, &account.to.1));
        if let [prevailing, lost] = &account.copies[..]
            && prevailing.members.iter().any(|(name, _)| *name == account.to.1)
            && lost.members.iter().any(|(name, _)| *name == account.to.1)
        {
            let _ = writeln!(
                text,
                "    {} -> {} [label=\"same signature, later file\", style=dotted];",
                node(1, &account.to.1),
                node(0, &account.to.1)
            );
        }
        let modes: Vec<String> = account.modes.iter().map(|(mode, what)| format!("{mode}: {what}")).collect();
        let label = modes.join("\n").replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\l");
        let _ = writeln!(text, "    \"{number}.modes\" [shape=note, label=\"{label}\\l\"];\n  }}");
    }
    text.push_str("}\n");
    text
}

/// Data that the accounts of one link share, because an object may have thousands of references.
#[derive(Default)]
struct Shared {
    remedies: Remedies,
    /// The type of the first relocation at each offset of a section.
    relocations: HashMap<SectionId, HashMap<u64, u32>>,
}

/// The accounts of all violations, in link order of the referring objects.
fn accounts<T: Target>(link: &Scanned<'_, T>) -> Vec<Account> {
    let references = link.reloc_needs.discarded.iter().flatten();
    let mut shared = Shared::default();
    references
        .filter(|reference| is_violation(link, reference))
        .filter_map(|reference| account(link, &mut shared, reference))
        .collect()
}

fn account<T: Target>(link: &Scanned<'_, T>, shared: &mut Shared, reference: &Reference) -> Option<Account> {
    let (target, _) = link.symbol_section(reference.symbol)?;
    let (defining, target_index) = link.locate(target)?;
    let entry = link.groups.of_section(defining.id, target_index);
    let mut copies = Vec::new();
    if let Some(entry) = entry {
        if entry.discarded {
            let prevailing = link.groups.prevailing(entry);
            copies.extend(prevailing.map(|kept| copy_of(link, entry.prevailing, kept, true)));
        }
        copies.push(copy_of(link, defining.id, entry, !entry.discarded));
    }
    let (referring, index) = link.locate(reference.section)?;
    Some(Account {
        place: link.describe_place(reference.section, reference.offset),
        from: names(referring, index),
        by: relocation_text(link, shared, reference),
        to: names(defining, target_index),
        why: why_gone(link, target, entry),
        signature: entry.map(|entry| link.name_text(entry.group.signature)),
        copies,
        stays: why_there(link, reference.section, target),
        modes: modes(link, shared, reference),
    })
}

/// The names of a file and of one of its sections, for display.
fn names<E: ByteOrder>(object: &ObjectFile<'_, E>, section: u32) -> (String, String) {
    let name = object.section_name_lossy(section as usize);
    (shown(&object.name.to_string()).into_owned(), shown(&name).into_owned())
}

fn copy_of<T: Target>(link: &Scanned<'_, T>, file: FileId, entry: &GroupEntry<'_>, prevails: bool) -> Copy {
    let object = &link.objects[file.index()];
    // Relocation sections are members, too, but they only repeat the name of their target.
    let content = |member: &&u32| {
        let kind = object.headers.get(**member as usize).map(|header| header.sh_type.get());
        kind.is_some_and(|kind| kind != crate::elf::consts::SHT_RELA && kind != crate::elf::consts::SHT_REL)
    };
    let members = entry.group.members.iter().filter(content);
    let members = members.map(|&member| {
        let size = object.headers.get(member as usize).map_or(0, |header| header.sh_size.get());
        (names(object, member).1, size)
    });
    Copy { file: shown(&object.name.to_string()).into_owned(), prevails, members: members.collect() }
}

fn relocation_text<T: Target>(link: &Scanned<'_, T>, shared: &mut Shared, reference: &Reference) -> String {
    let symbol = link.symbol_text(reference.symbol);
    let kinds = shared.relocations.entry(reference.section).or_insert_with(|| {
        let relocations =
            link.locate(reference.section).map(|(object, index)| object.relocations(index as usize));
        let relocations = relocations.unwrap_or_default().iter().rev();
        relocations.map(|relocation| (relocation.r_offset.get(), relocation.kind())).collect()
    });
    match kinds.get(&reference.offset) {
        Some(&kind) => format!("{} against {symbol}", T::relocation_name(kind)),
        None => format!("against {symbol}"),
    }
}

fn why_gone<T: Target>(link: &Scanned<'_, T>, target: SectionId, entry: Option<&GroupEntry<'_>>) -> String {
    match entry {
        Some(entry) if entry.discarded => {
            let file = link.objects.get(entry.prevailing.index());
            let file = file.map_or_else(String::new, |file| format!(", and {} comes first", file.name));
            format!("the linker keeps the first group of each signature{file}")
        }
        _ if link.sections.is(target, SectionState::DISCARDED_BY_SCRIPT) => {
            "the linker script discards it".into()
        }
        _ if link.sections.is(target, SectionState::COLLECTED) => "nothing needs it (--gc-sections)".into(),
        _ => "it is a .gnu.linkonce section, and another one of its name is kept".into(),
    }
}

fn why_there<T: Target>(link: &Scanned<'_, T>, section: SectionId, target: SectionId) -> String {
    let (Some((object, index)), Some((defining, target_index))) = (link.locate(section), link.locate(target))
    else {
        return "the linker made it".into();
    };
    let own = link.groups.of_section(object.id, index);
    let theirs = link.groups.of_section(defining.id, target_index);
    match (own, theirs) {
        (None, Some(_)) => {
            "it is in no group, so it is not discarded with the group that it refers to".into()
        }
        (Some(own), Some(_)) => {
            format!("it is in another group ({}), which is kept", link.name_text(own.group.signature))
        }
        (_, None) => "no group or link ties it to the section that it refers to".into(),
    }
}

/// Kinds of links (`-r`, modes of `--sframe`), and what each would do with the reference.
fn modes<T: Target>(
    link: &Scanned<'_, T>,
    shared: &mut Shared,
    reference: &Reference,
) -> Vec<(&'static str, String)> {
    let mut modes: Vec<(&'static str, String)> = Vec::new();
    let section = reference.section;
    if !link.is_sframe_section(section) {
        modes.push(("final link", "an error".into()));
        modes.push(("-r", "a warning; the relocation is removed".into()));
        modes.push(("--noinhibit-exec", "a warning; the field is computed as if the symbol were 0".into()));
        modes.push((
            "the compiler",
            "should put the section into the group, so that both are discarded".into(),
        ));
        return modes;
    }
    let remedy = shared.remedies.of(link, section);
    let taken = |what: &str| {
        if remedy.table {
            what.to_owned()
        } else {
            "an error: the linker cannot read the section and leaves it unchanged".to_owned()
        }
    };
    modes.push(("--sframe=concat", "an error".into()));
    modes.push((
        "  -z sframe-violation=warning",
        "a warning; the function gets size 0 and no rows, and covers nothing".into(),
    ));
    modes.push(("  -r", "a warning; the function gets size 0 and no rows, its relocation R_*_NONE".into()));
    modes.push(("--sframe-index", taken("no row for the discarded copy in .sframe_idx, and no warning")));
    modes.push(("--sframe=merge", taken("no row for the discarded copy in .sframe, and no warning")));
    let split = if remedy.split {
        "the row's part joins the group of its text and is discarded with it"
    } else {
        "nothing changes: the section cannot be split"
    };
    modes.push(("--sframe-split", split.into()));
    modes.push((
        "--sframe-from-eh-frame=all",
        "the section is dropped; rows come from the kept .eh_frame".into(),
    ));
    modes.push(("--sframe=discard", "the section is dropped".into()));
    modes
}
