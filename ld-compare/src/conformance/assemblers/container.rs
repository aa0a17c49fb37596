//! The sections that assemblers make: how many, in which group, of which type, with which relocations.

use super::super::blob::{entry_offset, rules};
use super::super::case::{Case, Fact, Source};
use super::super::linked::{Linked, has_type, look, sound};
use super::super::objects::{not_sorted, one_relocation_each, relocations, target};
use super::source::{Must, Place, Text, assemble, describes, rows};
use object::elf;
use sframe_format::Section;

const GROUPS: Source =
    Source::Gabi("ch. 4, Section Groups: sections outside refer to members by global symbols only");
const HEADER: Source = Source::Sframe("SFrame Header");
const PER_TEXT: Source = Source::Proposal("one .sframe for each text section (the linking view)");

fn plain(name: &'static str) -> Text {
    Text::of(name).step("").step("")
}

fn leaf(place: Place, name: &'static str, source: Source) -> Vec<Fact> {
    let wanted = rows(&[(0, rules(place.abi, place.abi.stack_pointer(), entry_offset(place.abi), false))]);
    describes(place, name, wanted, Must::Describe, source)
}

pub fn cases(place: Place) -> Vec<Case> {
    let mut cases = sections(place);
    cases.extend(texts(place));
    cases
}

/// Facts about both functions of most texts.
fn leaves(place: Place) -> Vec<Fact> {
    leaf(place, "f", HEADER).into_iter().chain(leaf(place, "g", HEADER)).collect()
}

/// One function, one section.
fn sections(place: Place) -> Vec<Case> {
    let body = plain("f").write(place, ".text") + &plain("g").write(place, ".text");
    let case = |family: &str, about: &str| assemble(place, &format!("container/{family}"), about, &body);
    vec![
        case("type", "two functions").facts([has_type()]),
        case("flags", "two functions").facts([flags()]),
        case("relocations", "two functions").facts([one_relocation_each()]),
        case("header", "two functions").facts([header(), sound()]),
        case("functions", "two functions in one section").facts(leaves(place)),
        assemble(
            place,
            "container/no-functions",
            "code without call frame information",
            "\t.text\nf:\t.4byte 0\n",
        )
        .facts([look(
            "nothing-to-say",
            "there is no section, or one without functions",
            HEADER,
            |linked, _| match linked.blobs().iter().map(|blob| blob.fdes().count()).sum::<usize>() {
                0 => Ok(()),
                count => Err(format!("{count} functions")),
            },
        )]),
        assemble(place, "container/empty-function", "a function without bytes before another", &{
            Text::of("f").write(place, ".text") + &plain("g").write(place, ".text")
        })
        .facts([leaf_of_two(place), sound()]),
    ]
}

/// `f` is empty and has the address of `g`: the latter must be described.
fn leaf_of_two(place: Place) -> Fact {
    let wanted = rules(place.abi, place.abi.stack_pointer(), entry_offset(place.abi), false);
    look("described", "the function behind an empty one is described", HEADER, move |linked, _| {
        for blob in linked.blobs() {
            for fde in blob.fdes().filter(|fde| fde.size == 8) {
                let attributes = blob.attributes(&fde).map_err(|error| error.to_string())?;
                let first = blob.rows(&attributes).next();
                if matches!(first, Some(Ok(row)) if row.rules == wanted) {
                    return Ok(());
                }
            }
        }
        Err("no entry of its size with its rows".into())
    })
}

fn flags() -> Fact {
    let source = Source::Sframe("Overview: the section is a loaded one");
    look("flags", "allocated, neither writable nor executable, no entry size", source, |linked, _| {
        for section in linked.sections() {
            let wrong = u64::from(elf::SHF_WRITE | elf::SHF_EXECINSTR | elf::SHF_MERGE | elf::SHF_STRINGS);
            if !section.is_alloc() || section.flags & wrong != 0 {
                return Err(format!("flags {:#x}", section.flags));
            }
        }
        if linked.sframe.is_empty() { Err("no SFrame section".into()) } else { Ok(()) }
    })
}

fn header() -> Fact {
    let says = "the ABI is the file's, and the count of rows is exact";
    look("header", says, HEADER, |linked, _| {
        let abi = sframe_format::Abi::from_elf(linked.view.machine, linked.view.big);
        for blob in linked.blobs() {
            let header = blob.header();
            if Some(header.abi) != abi || header.fixed_ra_offset != header.abi.fixed_ra_offset() {
                return Err(format!("ABI {}, fixed RA offset {}", header.abi, header.fixed_ra_offset));
            }
            let counted: u64 =
                blob.functions().filter_map(|(_, found)| found.ok()).map(|a| u64::from(a.fre_count)).sum();
            if counted != u64::from(header.fre_count) {
                return Err(format!("{} rows counted, {counted} there", header.fre_count));
            }
        }
        if linked.blobs().is_empty() { Err("no blob".into()) } else { Ok(()) }
    })
}

/// Several text sections, and groups.
fn texts(place: Place) -> Vec<Case> {
    let at = place.machine.dialect().at;
    let section = |name: &str| format!(".section .text.{name},\"ax\",{at}progbits");
    let group = |name: &str| format!(".section .text.{name},\"axG\",{at}progbits,{name},comdat");
    let two = plain("f").write(place, &section("f")) + &plain("g").write(place, &section("g"));
    let halves = plain("f").write(place, &section("f"))
        + &Text::of("f.cold")
            .step(format!(".cfi_def_cfa_offset {}", entry_offset(place.abi) + 32))
            .write(place, &section("cold"));
    let grouped = plain("f").write(place, ".text") + &plain("g").write(place, &group("g"));
    let cold = rows(&[(0, rules(place.abi, place.abi.stack_pointer(), entry_offset(place.abi) + 32, false))]);
    let case =
        |family: &str, about: &str, body: &str| assemble(place, &format!("container/{family}"), about, body);
    vec![
        case("two-texts", "two functions in two sections", &two).facts(leaves(place)),
        case("two-texts-apart", "two functions in two sections", &two).facts([one_text_each()]),
        case("not-sorted", "two functions in two sections", &two).facts([not_sorted()]),
        case("hot-and-cold", "a function in two parts", &halves)
            .facts(leaf(place, "f", HEADER))
            .facts(describes(place, "f.cold", cold, Must::Describe, HEADER)),
        case("group", "a function in a COMDAT group, and one outside", &grouped).facts(leaves(place)),
        case("group-references", "a function in a COMDAT group, and one outside", &grouped)
            .facts([no_foreign_reference()]),
    ]
}

/// The text sections that a section of frames refers to.
fn places(linked: &Linked<'_>, row: usize) -> Vec<u32> {
    let mut places: Vec<u32> = relocations(&linked.view, row)
        .filter_map(|record| target(&linked.view, record))
        .map(|(section, _)| section)
        .collect();
    places.sort_unstable();
    places.dedup();
    places
}

fn one_text_each() -> Fact {
    look("one-text-each", "a section of frames is about one text section", PER_TEXT, |linked, _| {
        for &row in &linked.sframe {
            let places = places(linked, row);
            if places.len() > 1 {
                return Err(format!("one section for {} text sections", places.len()));
            }
            let blobs = Section::new(linked.view.sections[row].data, 0).blobs().count();
            if blobs > 1 {
                return Err(format!("{blobs} blobs in one section"));
            }
        }
        if linked.sframe.is_empty() { Err("no SFrame section".into()) } else { Ok(()) }
    })
}

/// No section outside a group refers to a local symbol of a member.
fn no_foreign_reference() -> Fact {
    let says = "frames of a group's text are members of the group, or refer to it by a global symbol";
    look("no-foreign-reference", says, GROUPS, |linked, _| {
        let view = &linked.view;
        let grouped = |section: u32| {
            view.sections.get(section as usize).is_some_and(|row| row.flags & u64::from(elf::SHF_GROUP) != 0)
        };
        for &row in &linked.sframe {
            for record in relocations(view, row) {
                let Some(symbol) = view.symbols.get(record.symbol as usize) else { continue };
                if grouped(symbol.section) && !symbol.is_global() && !grouped(row as u32) {
                    let place = view.section_name(symbol.section);
                    return Err(format!("a section outside refers to {place}, a member, by a local symbol"));
                }
            }
        }
        if linked.sframe.is_empty() { Err("no SFrame section".into()) } else { Ok(()) }
    })
}
