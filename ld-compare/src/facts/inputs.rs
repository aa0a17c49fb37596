//! Finds what became of each input section, by the symbols in it.
//!
//! An output does not say which input sections the linker kept, or where. Symbols tell:
//!
//! ```text
//! input:  a.o:.text.f defines f at 0 and g at 16       output: f = 0x401020, g = 0x401030, no h
//!         a.o:.text.h defines h at 0                   so .text.f is kept at 0x401020, .text.h is gone
//! ```
//!
//! The addresses of sections give their order. If the distance between two symbols of one section changes,
//! the linker has edited the section. A name that occurs twice among the inputs is ambiguous, so it is left
//! out. Copies of a COMDAT group are interchangeable, so their names stay.

use super::collector::{Aspect, Collector};
use super::view::View;
use crate::cases::{Case, Step, System};
use crate::model::{Object, Place};
use files::{InputSource, SystemSource};
use object::elf;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The symbols that identify input sections in the output.
#[derive(Default)]
pub struct Inputs {
    /// For each section, its name in reports and its symbols with their offsets.
    sections: Vec<(String, Vec<(String, u64)>)>,
}

/// If the inputs have more sections than this, the rest is left out. Facts about each section would hide all
/// other facts.
const MOST: usize = 20_000;

/// The objects that a command line names, except for those of the system.
fn own_objects<'a>(step: &'a Step, folder: &Path) -> impl Iterator<Item = &'a String> + use<'a> {
    let system = System::of(&step.arguments, folder);
    step.arguments.iter().filter(move |word| word.ends_with(".o") && !system.holds(Path::new(word)))
}

impl Inputs {
    /// Reads the objects that a case names, but no libraries.
    pub fn read(case: &Case) -> Self {
        let mut sections: Vec<(String, Vec<(String, u64)>)> = Vec::new();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut comdat = BTreeSet::new();
        for argument in case.steps.iter().flat_map(|step| own_objects(step, &case.folder)) {
            let Ok(bytes) = SystemSource.read(&case.folder.join(argument)) else { continue };
            let Ok(object) = Object::parse(&bytes) else { continue };
            let file = argument.rsplit('/').next().unwrap_or(argument);
            for (row, section) in object.sections.iter().enumerate() {
                let in_group = object.group_of(row).is_some_and(super::super::model::Group::is_comdat);
                let own =
                    object.symbols.iter().filter(|s| s.place == Place::Section(row) && !s.name.is_empty());
                let own = own.filter(|s| s.kind != elf::STT_SECTION && !s.name.starts_with(['.', '$']));
                let symbols: Vec<(String, u64)> = own.map(|s| (s.name.clone(), s.value)).collect();
                if symbols.is_empty() || (in_group && !comdat.insert(symbols[0].0.clone())) {
                    continue;
                }
                for (name, _) in &symbols {
                    *seen.entry(name.clone()).or_default() += 1;
                }
                let name = if in_group { section.name.clone() } else { format!("{file}:{}", section.name) };
                sections.push((name, symbols));
            }
        }
        for (_, symbols) in &mut sections {
            symbols.retain(|(name, _)| seen.get(name) == Some(&1));
        }
        sections.retain(|(_, symbols)| !symbols.is_empty());
        sections.truncate(MOST);
        Inputs { sections }
    }

    /// Collects which sections are kept and discarded, their order, and changed distances between symbols of
    /// one section.
    pub(super) fn look_at(&self, collector: &mut Collector, view: &View<'_>) {
        if view.symbols.len() < 2 {
            return;
        }
        let mut places = BTreeMap::new();
        for symbol in
            view.symbols.iter().filter(|s| s.is_defined() && s.section < u32::from(elf::SHN_LORESERVE))
        {
            places.insert(symbol.name.as_str(), (symbol.section, symbol.value));
        }
        let mut order: BTreeMap<u32, Vec<(u64, &str)>> = BTreeMap::new();
        for (name, symbols) in &self.sections {
            let found =
                symbols.iter().filter_map(|(symbol, offset)| Some((places.get(&**symbol)?, symbol, offset)));
            let found: Vec<_> = found.collect();
            let Some(((section, value), first, offset)) = found.first().copied() else {
                collector.set(Aspect::Inputs, name, "discarded");
                continue;
            };
            collector.set(Aspect::Inputs, name, format!("in {}", view.section_name(*section)));
            order.entry(*section).or_default().push((value.wrapping_sub(*offset), name));
            for ((_, other), symbol, at) in found.iter().skip(1) {
                if other.wrapping_sub(*value) != at.wrapping_sub(*offset) {
                    collector.set(Aspect::Values, format!("{symbol} - {first}"), "changed");
                }
            }
        }
        for (section, mut sections) in order {
            if sections.len() > 1 {
                sections.sort();
                let names: Vec<&str> = sections.into_iter().map(|(_, name)| name).collect();
                collector.set(Aspect::Order, view.section_name(section), names.join(" "));
            }
        }
    }
}
