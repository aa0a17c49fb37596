//! `--why-live`: for each symbol that the option names and that is in the output, shows the references that
//! kept it, up to a root of `--gc-sections`.
//!
//! `collect_garbage` remembers no paths. With this option, the linker walks its edges once more, serially and
//! breadth first. This finds the shortest path to each section, and the same path in every link.

use super::collect_garbage::{Aim, Reach, Root, Visits, retrace};
use crate::arch::Target;
use crate::diag::words::shown;
use crate::elf::consts as elf;
use crate::ids::{FileId, SectionId, SymbolId};
use crate::input::ObjectFile;
use crate::input::object::SymbolPlace;
use crate::merge::UsedOffsets;
use crate::passes::merge_strings::piece_at;
use crate::phase::{Bound, SectionStates};
use crate::script::glob::Glob;
use crate::symbols::Definition;
use hashbrown::HashMap;
use std::cell::RefCell;
use std::fmt::Write;

type Map<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

/// The path to each section, and to each global that no object defines in a section.
#[derive(Default)]
struct Trail {
    sections: RefCell<Map<SectionId, Step>>,
    names: RefCell<Map<SymbolId, Reach>>,
}

#[derive(Clone, Copy)]
struct Step {
    by: Option<Aim>,
    how: Reach,
}

impl Visits for Trail {
    fn section(&self, id: SectionId, by: Option<Aim>, how: Reach) -> bool {
        self.sections.borrow_mut().try_insert(id, Step { by, how }).is_ok()
    }

    fn name(&self, id: SymbolId, how: Reach) -> bool {
        self.names.borrow_mut().try_insert(id, how).is_ok()
    }
}

/// A live section or symbol.
#[derive(Clone, Copy)]
enum Item {
    Symbol(SymbolId),
    Section(SectionId),
}

/// The next line of a path.
enum Line {
    /// The root, with its reason.
    End(&'static str),
    /// The kind of edge, and the item at its other end.
    Kept(&'static str, Item),
}

/// The paths to all symbols that `--why-live` names: first globals, in the order of their first mention, then
/// the local symbols of each object.
pub fn text<T: Target>(link: &Bound<'_, T>, sections: &SectionStates, used: &UsedOffsets) -> String {
    let globs: Vec<Glob> = link.config.gc.why_live.iter().map(|pattern| Glob::new(pattern)).collect();
    let trail = retrace(link, sections, Trail::default());
    let report = Report { link, used, trail, sized: RefCell::default(), enclosing: RefCell::default() };
    let wanted = |name: &[u8]| globs.iter().any(|glob| glob.matches(name));
    let mut text = String::new();
    let mut seen = vec![false; link.globals.len()];
    let mentioned = link.objects.iter().flat_map(|object| object.globals.iter().copied());
    for id in mentioned.chain(link.globals.ids()) {
        if !std::mem::replace(&mut seen[id.index()], true) && wanted(link.globals.names[id.index()]) {
            report.explain(id, &mut text);
        }
    }
    for object in &link.objects {
        for index in 1..object.first_global {
            let symbol = &object.symbols[index as usize];
            if symbol.kind() != elf::STT_SECTION && wanted(object.symbol_name(index as usize)) {
                report.explain(object.symbol_id(index), &mut text);
            }
        }
    }
    text
}

struct Report<'l, 'a, T: Target> {
    link: &'l Bound<'a, T>,
    used: &'l UsedOffsets,
    trail: Trail,
    /// By object, once it was asked for: the symbols that have bytes, each behind its section.
    sized: RefCell<Map<FileId, Vec<(SectionId, u32)>>>,
    /// What [`Self::enclosing`] has found: paths share their ends.
    enclosing: RefCell<Map<(SectionId, u64), Option<SymbolId>>>,
}

impl<T: Target> Report<'_, '_, T> {
    /// Adds the path to a symbol, if it is alive.
    fn explain(&self, id: SymbolId, text: &mut String) {
        if !self.is_alive(id) {
            return;
        }
        let mut item = Item::Symbol(id);
        let _ = write!(text, "live symbol: {}", self.describe(item));
        loop {
            match self.reason(item) {
                Line::End(end) => break text.push_str(&format!(" ({end})\n")),
                Line::Kept(how, next) => {
                    let _ = write!(text, "\n>>> {how}: {}", self.describe(next));
                    item = next;
                }
            }
        }
    }

    fn is_alive(&self, id: SymbolId) -> bool {
        if let Some((section, offset)) = self.link.symbol_section(id) {
            return self.trail.sections.borrow().contains_key(&section) && self.is_used(section, offset);
        }
        match self.link.definition(id) {
            // A library's symbol or a common block has no section. It is alive if a live section refers to
            // it.
            Definition::Shared { .. } => self.trail.names.borrow().contains_key(&id),
            Definition::Object { .. } if self.is_common(id) => self.trail.names.borrow().contains_key(&id),
            _ => true,
        }
    }

    /// Whether an offset of a live section is not in a string or constant that is left out.
    fn is_used(&self, section: SectionId, offset: u64) -> bool {
        let Some(used) = self.used.of(section) else { return true };
        let Some((object, index)) = self.link.locate(section) else { return true };
        let piece = piece_at(object, index as usize, offset);
        piece.is_none_or(|(_, bytes, start)| used.any(start as usize..start as usize + bytes.len()))
    }

    fn is_common(&self, id: SymbolId) -> bool {
        let entry = self.link.symbol_entry(id);
        entry.is_some_and(|(file, symbol)| {
            self.link.objects[file.index()].symbol_place(symbol as usize) == SymbolPlace::Common
        })
    }

    fn reason(&self, item: Item) -> Line {
        match item {
            Item::Section(section) => {
                let Some(step) = self.step(section) else { return Line::End("not collected") };
                match self.way_in(section, step) {
                    Some(symbol) => Line::Kept("contained live symbol", Item::Symbol(symbol)),
                    None => self.line(step.how),
                }
            }
            Item::Symbol(symbol) => match self.link.symbol_section(symbol) {
                Some((section, _)) => match self.step(section) {
                    Some(step) if self.way_in(section, step) == Some(symbol) => self.line(step.how),
                    _ => Line::Kept("in live section", Item::Section(section)),
                },
                None if self.is_common(symbol) || self.is_shared(symbol) => {
                    let how = self.trail.names.borrow().get(&symbol).copied();
                    how.map_or(Line::End("no section"), |how| self.line(how))
                }
                None => Line::End("no section"),
            },
        }
    }

    fn is_shared(&self, id: SymbolId) -> bool {
        matches!(self.link.definition(id), Definition::Shared { .. })
    }

    fn step(&self, section: SectionId) -> Option<Step> {
        self.trail.sections.borrow().get(&section).copied()
    }

    /// The symbol by which marking reached a section: the symbol of the relocation. If that is a section
    /// symbol, it is the symbol that encloses the place which the addend selects.
    fn way_in(&self, section: SectionId, step: Step) -> Option<SymbolId> {
        let Aim { symbol, offset, .. } = step.by?;
        let (file, index) = self.link.symbol_entry(symbol)?;
        match self.link.objects[file.index()].symbols[index as usize].kind() {
            elf::STT_SECTION => self.enclosing(section, offset),
            _ => Some(symbol),
        }
    }

    /// The first symbol of a section whose bytes include an offset.
    fn enclosing(&self, section: SectionId, offset: u64) -> Option<SymbolId> {
        *self
            .enclosing
            .borrow_mut()
            .entry((section, offset))
            .or_insert_with(|| self.find_enclosing(section, offset))
    }

    fn find_enclosing(&self, section: SectionId, offset: u64) -> Option<SymbolId> {
        let (object, _) = self.link.locate(section)?;
        let mut sized = self.sized.borrow_mut();
        let sized = sized.entry(object.id).or_insert_with(|| self.sized(object));
        let of_section = &sized[sized.partition_point(|&(holder, _)| holder < section)..];
        let of_section = of_section.iter().take_while(|(holder, _)| *holder == section);
        let mut symbols = of_section.map(|&(_, index)| (index, &object.symbols[index as usize]));
        let found =
            symbols.find(|(_, symbol)| offset.wrapping_sub(symbol.st_value.get()) < symbol.st_size.get());
        found.map(|(index, _)| object.symbol_id(index))
    }

    /// The symbols of an object that have bytes, each behind its section: by section, then in order.
    fn sized(&self, object: &ObjectFile<'_, T::E>) -> Vec<(SectionId, u32)> {
        let sized = (1..object.symbols.len() as u32).filter(|&index| {
            let symbol = &object.symbols[index as usize];
            symbol.st_size.get() != 0 && symbol.kind() != elf::STT_SECTION
        });
        let placed =
            sized.filter_map(|index| Some((self.link.symbol_section(object.symbol_id(index))?.0, index)));
        let mut placed: Vec<(SectionId, u32)> = placed.collect();
        placed.sort_unstable();
        placed
    }

    fn line(&self, how: Reach) -> Line {
        match how {
            Reach::Root(root) => Line::End(root_text(root)),
            Reach::Reference(section, offset) => match self.enclosing(section, offset) {
                Some(symbol) => Line::Kept("referenced by", Item::Symbol(symbol)),
                None => Line::Kept("referenced by", Item::Section(section)),
            },
            Reach::Frame(section) => Line::Kept("referenced by frame records of", Item::Section(section)),
            Reach::Group(section) => Line::Kept("in section group with", Item::Section(section)),
            Reach::Dependent(section) => Line::Kept("depended on by section", Item::Section(section)),
        }
    }

    /// The text of an item: `FILE:(NAME)`.
    fn describe(&self, item: Item) -> String {
        match item {
            Item::Section(section) => match self.link.locate(section) {
                Some((object, index)) => object.described(&object.section_name_lossy(index as usize)),
                None => String::from("<internal>"),
            },
            Item::Symbol(symbol) => {
                format!("{}:({})", shown(&self.file_of(symbol)), self.link.symbol_text(symbol))
            }
        }
    }

    /// The file that defines a symbol, or else the first file that mentions it.
    fn file_of(&self, id: SymbolId) -> String {
        let link = self.link;
        if let Some((file, _)) = link.symbol_entry(id) {
            return link.objects[file.index()].name.to_string();
        }
        if let Definition::Shared { library, .. } = link.definition(id) {
            return link.shared[library.index()].name.to_string();
        }
        let mentions = link.objects.iter().find(|object| object.globals.contains(&id));
        mentions.map_or_else(|| String::from("<internal>"), |object| object.name.to_string())
    }
}

fn root_text(root: Root) -> &'static str {
    match root {
        Root::Entry => "entry point",
        Root::Initializer => "initializer function",
        Root::Finalizer => "finalizer function",
        Root::Option => "undefined command line flag",
        Root::Script => "referenced by linker script",
        Root::Exported => "externally visible symbol; may interpose",
        Root::Retained => "retained",
        Root::Keep => "KEEP in linker script",
        Root::Reserved => "reserved",
        Root::Frames => "exception handling frame",
        Root::NotLoaded => "not loaded",
    }
}
