//! Sorts sections as scripts ask: `SORT_BY_NAME` and similar keywords.

use super::shuffle::InputOrder;
use crate::arch::Target;
use crate::ids::{FileId, SectionId};
use crate::phase::Contents;
use crate::plan::Rule;
use crate::script::ast::{Sort, SortKey};
use std::cmp::{Ordering, Reverse};

/// Puts the sections of a rule in the order that the rule asks for. The sort is stable, so sections of equal
/// keys stay in input order.
pub fn sort<T: Target>(link: &Contents<'_, T>, rule: &Rule, items: &mut [SectionId]) {
    if is_plain(rule.file_sort) && is_plain(rule.sort) {
        return;
    }
    let mut keyed: Vec<Keyed<'_>> = items.iter().map(|&id| Keyed::new(link, rule, id)).collect();
    sort_keyed(rule, &mut keyed);
    for (slot, keyed) in items.iter_mut().zip(keyed) {
        *slot = keyed.id;
    }
}

fn sort_keyed(rule: &Rule, keyed: &mut [Keyed<'_>]) {
    keyed.sort_by(|a, b| compare_files(rule.file_sort, a, b).then_with(|| compare(rule.sort, a, b)));
}

/// Joins the lists of a statement whose patterns ask for different orders. As in GNU ld, sections are
/// inserted in input order. A section of a sorted pattern goes in front of the first section that it sorts
/// before, even if another pattern took that one.
pub fn mix<T: Target>(
    link: &Contents<'_, T>,
    order: &InputOrder,
    rules: &[Rule],
    lists: &[&[SectionId]],
) -> Vec<SectionId> {
    let mut all = Vec::with_capacity(lists.iter().map(|list| list.len()).sum());
    for (rule, list) in rules.iter().zip(lists) {
        for &id in *list {
            let position = super::place::input_position(link, order, id);
            all.push((position, rule, Keyed::new(link, rule, id)));
        }
    }
    insert_in_order(all)
}

/// Inserts sections, each with its position in the input and the rule that takes it.
fn insert_in_order(mut all: Vec<((u32, u32), &Rule, Keyed<'_>)>) -> Vec<SectionId> {
    all.sort_by_key(|(position, ..)| *position);
    let mut mixed: Vec<Keyed<'_>> = Vec::with_capacity(all.len());
    for (_, rule, keyed) in all {
        let same_file = |other: &Keyed<'_>| compare_files(rule.file_sort, &keyed, other);
        let at = mixed.iter().position(|other| match same_file(other) {
            Ordering::Equal => !is_plain(rule.sort) && compare(rule.sort, &keyed, other).is_lt(),
            order => order.is_lt(),
        });
        mixed.insert(at.unwrap_or(mixed.len()), keyed);
    }
    mixed.into_iter().map(|keyed| keyed.id).collect()
}

fn is_plain(sort: Sort) -> bool {
    matches!(sort.first, SortKey::Default | SortKey::None) && !sort.reverse
}

struct Keyed<'a> {
    id: SectionId,
    name: &'a [u8],
    align: u64,
    file: String,
}

impl<'a> Keyed<'a> {
    fn new<T: Target>(link: &Contents<'a, T>, rule: &Rule, id: SectionId) -> Self {
        let info = link.section_info(id);
        let file = if is_plain(rule.file_sort) { None } else { file_of(link, id) };
        let file = file.map_or_else(String::new, |file| link.objects[file.index()].name.to_string());
        Keyed { id, name: info.name, align: info.align, file }
    }
}

/// The file of a section. For common blocks, the file that they come from.
fn file_of<T: Target>(link: &Contents<'_, T>, id: SectionId) -> Option<FileId> {
    match link.synthetic_row(id) {
        Some(row) => link.synthetics.section(row).file,
        None => link.section_file(id),
    }
}

fn compare_files(sort: Sort, a: &Keyed<'_>, b: &Keyed<'_>) -> Ordering {
    if is_plain(sort) {
        return Ordering::Equal;
    }
    let order = a.file.cmp(&b.file);
    if sort.reverse { order.reverse() } else { order }
}

fn compare(sort: Sort, a: &Keyed<'_>, b: &Keyed<'_>) -> Ordering {
    let order = compare_by(sort.first, a, b).then_with(|| compare_by(sort.second, a, b));
    if sort.reverse { order.reverse() } else { order }
}

fn compare_by(key: SortKey, a: &Keyed<'_>, b: &Keyed<'_>) -> Ordering {
    match key {
        SortKey::Default | SortKey::None => Ordering::Equal,
        SortKey::Name => a.name.cmp(b.name),
        SortKey::Alignment => Reverse(a.align).cmp(&Reverse(b.align)),
        SortKey::InitPriority => {
            let key = |name| init_priority(name).unwrap_or(u64::MAX);
            key(a.name).cmp(&key(b.name)).then_with(|| a.name.cmp(b.name))
        }
    }
}

/// The priority at the end of a name: `.init_array.00101` has 101. So has `.ctors.65434`, because these
/// numbers count backwards.
pub fn init_priority(name: &[u8]) -> Option<u64> {
    let dot = memchr::memrchr(b'.', name)?;
    let digits = &name[dot + 1..];
    if digits.is_empty() || digits.len() > 9 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    match &name[..dot] {
        b".ctors" | b".dtors" => Some(65535u64.saturating_sub(number)),
        _ => Some(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_of_both_conventions_agree() {
        assert_eq!(init_priority(b".init_array.00101"), Some(101));
        assert_eq!(init_priority(b".ctors.65434"), Some(101));
        assert_eq!(init_priority(b".ctors"), None);
        assert_eq!(init_priority(b".init_array.a1"), None);
        assert_eq!(init_priority(b".init_array."), None);
        assert_eq!(init_priority(b".x.99999999999999999999999"), None);
    }

    #[test]
    fn sections_sort_by_name_then_alignment_then_input_order() {
        let keyed =
            |id, name: &'static [u8], align| Keyed { id: SectionId(id), name, align, file: String::new() };
        let mut list = [keyed(1, b"b", 4), keyed(2, b"a", 4), keyed(3, b"a", 16), keyed(4, b"b", 4)];
        let sort = Sort { first: SortKey::Name, second: SortKey::Alignment, reverse: false };
        list.sort_by(|a, b| compare(sort, a, b));
        assert_eq!(list.iter().map(|keyed| keyed.id.0).collect::<Vec<_>>(), [3, 2, 1, 4]);
    }
}
