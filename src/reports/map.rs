//! `-Map` and `--print-map`: the place of every section and symbol, in GNU ld's form.
//!
//! The map follows the commands of the script. Each command has the addresses that it produced: an output
//! section lists the input sections of each pattern, and an input section lists its symbols.

use super::trace::{IncludedMember, ReportData};
use crate::arch::Target;
use crate::diag::words::shown;
use crate::elf::consts as elf;
use crate::ids::{ChunkId, OutputId, RuleId, SectionId, SymbolId};
use crate::input::object::SymbolPlace;
use crate::passes::drop_commons;
use crate::phase::SectionState;
use crate::phase::{Image, Placed};
use crate::plan::{Body, Command, OutputPlan};
use crate::script::Span;
use crate::script::ast::{Assignment, RegionAttributes, RegionLetters};
use crate::symbols::Definition;
use hashbrown::HashMap;
use parallel::{ParallelSlice, ParallelSort};
use std::fmt::Write;
use std::path::PathBuf;

/// Width of the columns of names.
const NAME_COLUMN: usize = 16;

/// The whole map.
pub fn map<T: Target>(link: &Image<'_, T>, data: &ReportData<'_>) -> String {
    let mut map = Map { link, text: String::new(), symbols: symbols(link), by_rule: absorbed(link) };
    map.members(&data.members);
    map.as_needed();
    if !link.config.reports.no_map_discarded {
        map.discarded();
    }
    map.memory();
    map.script(&data.paths);
    map.text
}

/// A symbol, and the section that defines it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PlacedSymbol {
    section: SectionId,
    value: u64,
    symbol: SymbolId,
}

/// All symbols of the map, by section and address.
fn symbols<T: Target>(link: &Placed<'_, T>) -> Vec<PlacedSymbol> {
    let locals = link.config.reports.map_locals;
    let mut placed: Vec<PlacedSymbol> = link
        .objects
        .par_iter()
        .flat_map_iter(|object| {
            let first = if locals { 1 } else { object.first_global as usize };
            (first..object.symbols.len()).filter_map(move |index| {
                let symbol = object.symbol_id(index as u32);
                if matches!(object.symbols[index].kind(), elf::STT_SECTION | elf::STT_FILE) {
                    return None;
                }
                let section = match object.symbol_place(index) {
                    SymbolPlace::Section(section) => object.section_id(section),
                    SymbolPlace::Common => link.common_place(symbol)?.section,
                    SymbolPlace::Undefined | SymbolPlace::Absolute => return None,
                };
                let owned = Definition::Object { file: object.id, symbol: index as u32 };
                let is_definition = !link.globals.contains(symbol) || link.definition(symbol) == owned;
                if link.merges.leaves_out(section, link.symbol_section(symbol).map_or(0, |(_, value)| value))
                {
                    return None;
                }
                let value = link.values.get(symbol.index()).copied()?;
                (is_definition && section.is_some()).then_some(PlacedSymbol { section, value, symbol })
            })
        })
        .collect();
    placed.par_sort_unstable();
    placed
}

/// The live input sections whose contents are in a section of the linker, by rule.
fn absorbed<T: Target>(link: &Placed<'_, T>) -> HashMap<RuleId, Vec<SectionId>> {
    let mut by_rule: HashMap<RuleId, Vec<SectionId>> = HashMap::new();
    for id in (0..link.first_internal()).map(SectionId) {
        if let Some(rule) = link.rules[id.index()]
            && link.sections.is(id, SectionState::ABSORBED | SectionState::ALIVE)
        {
            by_rule.entry(rule).or_default().push(id);
        }
    }
    by_rule
}

struct Map<'m, 'a, T: Target> {
    link: &'m Image<'a, T>,
    text: String,
    symbols: Vec<PlacedSymbol>,
    by_rule: HashMap<RuleId, Vec<SectionId>>,
}

impl<T: Target> Map<'_, '_, T> {
    fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(&shown(line.as_ref()));
        self.text.push('\n');
    }

    /// Writes a heading and an empty line.
    fn heading(&mut self, line: impl AsRef<str>) {
        self.line(line);
        self.line("");
    }

    /// Writes a name in its column. A name that is too long gets a line of its own.
    fn name(&mut self, name: &str) {
        let name = &*shown(name);
        if name.len() >= NAME_COLUMN {
            self.line(name);
            let _ = write!(self.text, "{:NAME_COLUMN$}", "");
        } else {
            let _ = write!(self.text, "{name:<NAME_COLUMN$}");
        }
    }

    fn members(&mut self, members: &[IncludedMember<'_>]) {
        let link = self.link;
        if members.is_empty() {
            return;
        }
        self.heading("Archive member included to satisfy reference by file (symbol)");
        for included in members {
            let symbol = link.name_text(link.globals.names[included.symbol.index()]);
            self.line(included.member.to_string());
            let referrer = included.referrer.map_or_else(|| "<internal>".into(), |name| name.to_string());
            self.line(format!("{:30}{referrer} ({symbol})", ""));
        }
        self.line("");
    }

    fn as_needed(&mut self) {
        let link = self.link;
        let mut used = link
            .shared
            .iter()
            .filter(|library| library.as_needed && link.dynamic.needs(library.id))
            .peekable();
        if used.peek().is_none() {
            return;
        }
        self.heading("As-needed library included to satisfy a reference");
        for library in used {
            self.line(format!("{} ({})", library.name, String::from_utf8_lossy(library.soname)));
        }
        self.line("");
    }

    fn discarded(&mut self) {
        let link = self.link;
        let gone =
            SectionState::DISCARDED_BY_GROUP | SectionState::DISCARDED_BY_SCRIPT | SectionState::COLLECTED;
        self.heading("Discarded input sections");
        for id in (0..link.first_internal()).map(SectionId) {
            let state = link.sections.get(id);
            if state.intersects(gone) && !state.contains(SectionState::ALIVE) {
                self.section(id, false);
            }
        }
        for block in drop_commons::dropped(link) {
            self.place(" COMMON", 0, block.size);
            self.line(format!(" {}", link.objects[block.file.index()].name));
        }
        self.line("");
    }

    fn memory(&mut self) {
        let link = self.link;
        self.heading("Memory Configuration");
        self.line(format!("{:<16} {:<18} {:<18} Attributes", "Name", "Origin", "Length"));
        for (declared, region) in link.plan.memory.iter().zip(&link.layout.regions) {
            let (name, attributes) = (declared.name.text(), attributes(declared.attributes));
            let line = format!("{name:<16} {:#018x} {:#018x} {attributes}", region.origin, region.length);
            self.line(line.trim_end());
        }
        self.heading(format!("{:<16} {:#018x} {:#018x}", "*default*", 0, u64::MAX));
    }

    /// The script's text of a span, on one line.
    fn source(&self, span: Span) -> String {
        let text = String::from_utf8_lossy(self.link.plan.sources.slice(span)).into_owned();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn script(&mut self, inputs: &[PathBuf]) {
        let link = self.link;
        self.heading("Linker script and memory map");
        // Objects, archives, libraries and scripts among the inputs.
        for path in inputs {
            self.line(format!("LOAD {}", path.display()));
        }
        let chunks = self.chunks_of_outputs();
        let mut shown = vec![false; link.layout.chunks.len()];
        for command in &link.plan.commands {
            match command {
                Command::Assignment(assignment) => self.assignment(assignment),
                Command::Assert(assert) => {
                    let text = self.source(assert.span);
                    self.line(format!("{:50}{text}", ""));
                }
                Command::Output(row) => {
                    let plan = &link.plan.outputs[row.index()];
                    let chunk = chunks.get(row).copied();
                    if let Some(chunk) = chunk {
                        shown[chunk.index()] = true;
                    }
                    self.output(plan, chunk);
                }
                Command::OverlayStart { .. } | Command::OverlayEnd => {}
            }
        }
        for (index, chunk) in link.layout.chunks.iter().enumerate() {
            if !shown[index] {
                self.line("");
                self.chunk(ChunkId::from_index(index));
                for &item in &chunk.items {
                    self.section(item, true);
                }
            }
        }
        self.line(format!("OUTPUT({} {})", link.config.output.display(), T::OUTPUT_FORMAT));
    }

    /// The output section of each description: the one that has items of its rules, or else the one of its
    /// name.
    fn chunks_of_outputs(&self) -> HashMap<OutputId, ChunkId> {
        let link = self.link;
        let mut chunks = HashMap::new();
        let mut taken = vec![false; link.layout.chunks.len()];
        for (index, chunk) in link.layout.chunks.iter().enumerate() {
            for item in &chunk.items {
                if let Some(rule) = link.rules[item.index()] {
                    let output = link.plan.rule(rule).output;
                    chunks.entry(output).or_insert(ChunkId::from_index(index));
                    taken[index] = true;
                }
            }
        }
        let mut by_name = HashMap::new();
        for (index, chunk) in link.layout.chunks.iter().enumerate() {
            by_name.entry(chunk.name).or_insert(ChunkId::from_index(index));
        }
        for (row, plan) in (0..).map(OutputId::new).zip(&link.plan.outputs) {
            if !chunks.contains_key(&row)
                && let Some(&chunk) = by_name.get(&*plan.name)
                && !std::mem::replace(&mut taken[chunk.index()], true)
            {
                chunks.insert(row, chunk);
            }
        }
        chunks
    }

    fn assignment(&mut self, assignment: &Assignment) {
        let link = self.link;
        let text = self.source(assignment.span);
        let value = link.globals.lookup(&assignment.target.bytes).and_then(|id| match link.definition(id) {
            Definition::Linker(row) => link.linker_values.get(row as usize).map(|symbol| symbol.value),
            _ => None,
        });
        match value {
            Some(value) => self.line(format!("{:NAME_COLUMN$}{value:#018x}{:16}{text}", "", "")),
            None if assignment.kind.is_provide() => {
                self.line(format!("{:NAME_COLUMN$}{:<34}{text}", "", "[!provide]"))
            }
            None => self.line(format!("{:50}{text}", "")),
        }
    }

    fn output(&mut self, plan: &OutputPlan, chunk: Option<ChunkId>) {
        let link = self.link;
        self.line("");
        let mut items: HashMap<RuleId, Vec<SectionId>> = HashMap::new();
        match chunk {
            Some(id) => {
                self.chunk(id);
                for &item in &link.layout.chunks[id.index()].items {
                    if let Some(rule) = link.rules[item.index()] {
                        items.entry(rule).or_default().push(item);
                    }
                }
            }
            None => self.line(String::from_utf8_lossy(&plan.name)),
        }
        for part in &plan.body {
            match part {
                Body::Rule(rule) => self.rule(*rule, &items.remove(rule).unwrap_or_default()),
                Body::Assignment(assignment) => self.assignment(assignment),
                Body::Assert(assert) => {
                    let text = self.source(assert.span);
                    self.line(format!("{:50}{text}", ""));
                }
                Body::Data(..) | Body::Text(_) | Body::Fill(_) => {}
            }
        }
        if let Some(chunk) = chunk {
            for data in &link.layout.chunks[chunk.index()].data {
                let address = link.layout.chunks[chunk.index()].address.wrapping_add(data.offset);
                self.place(" *data*", address, data.bytes.len() as u64);
                self.line("");
            }
        }
    }

    /// Writes the pattern of a rule and the sections that match it.
    fn rule(&mut self, id: RuleId, taken: &[SectionId]) {
        let plan = &self.link.plan;
        if let Some(statement) = plan.rule(id).statement {
            let text = self.source(plan.statements[statement.index()].span);
            self.line(format!(" {text}"));
        }
        let mut end: Option<u64> = None;
        for &item in taken {
            let start = self.link.section_address(item);
            if let Some(end) = end.filter(|&end| end < start) {
                self.place(" *fill*", end, start - end);
                self.line("");
            }
            self.section(item, true);
            end = Some(start.wrapping_add(self.link.section_size(item)));
        }
        for id in self.by_rule.remove(&id).unwrap_or_default() {
            self.section(id, true);
        }
    }

    fn place(&mut self, name: &str, address: u64, size: u64) {
        self.name(name);
        let size = format!("{size:#x}");
        let _ = write!(self.text, "{address:#018x} {size:>10}");
    }

    fn chunk(&mut self, id: ChunkId) {
        let chunk = &self.link.layout.chunks[id.index()];
        // A section of a separate debug file is not in the output.
        let section = self.link.file_sections.get(id.index());
        let (name, size) = section.map_or((chunk.name, chunk.size), |section| (section.name, section.size));
        self.place(&String::from_utf8_lossy(name), chunk.address, size);
        if chunk.load_address != chunk.address && crate::elf::is_alloc(chunk.flags) {
            let _ = write!(self.text, " load address {:#018x}", chunk.load_address);
        }
        self.line("");
    }

    /// Writes an input section with its file, and with its symbols if it is in the output.
    fn section(&mut self, id: SectionId, kept: bool) {
        let link = self.link;
        let info = link.section_info(id);
        let name = format!(" {}", String::from_utf8_lossy(info.name));
        let absorbed = link.sections.is(id, SectionState::ABSORBED);
        let address = if !absorbed {
            link.section_address(id)
        } else if link.merges.leaves_out(id, 0) {
            // Its first piece is not in the output.
            link.final_section(id).map_or(0, |section| link.section_address(section))
        } else {
            link.absorbed_address(id, 0)
        };
        self.place(&name, if kept { address } else { 0 }, link.section_size(id));
        let file = match link.locate(id) {
            Some((object, _)) => object.name.to_string(),
            None => {
                let row = id.0.wrapping_sub(link.first_internal());
                let file = link.synthetics.rows.get(row as usize).and_then(|section| section.file);
                let object = file.and_then(|file| link.objects.get(file.index()));
                object.map_or_else(|| "<internal>".into(), |object| object.name.to_string())
            }
        };
        let how = match absorbed && kept {
            true if link.sections.is(id, SectionState::FOLDED) => " (folded)",
            true => " (merged)",
            false => "",
        };
        self.line(format!(" {file}{how}"));
        if !kept {
            return;
        }
        let start = self.symbols.partition_point(|placed| placed.section < id);
        let end = self.symbols.partition_point(|placed| placed.section <= id);
        for row in start..end {
            let PlacedSymbol { value, symbol, .. } = self.symbols[row];
            let name = self.symbol_text(symbol);
            self.line(format!("{:NAME_COLUMN$}{value:#018x}{:16}{name}", "", ""));
        }
    }

    fn symbol_text(&self, id: SymbolId) -> String {
        let link = self.link;
        if link.globals.contains(id) {
            return link.name_text(link.globals.names[id.index()]);
        }
        match link.symbol_entry(id) {
            Some((file, symbol)) => link.name_text(link.objects[file.index()].symbol_name(symbol as usize)),
            None => String::new(),
        }
    }
}

/// The letters behind a memory region's name, in GNU ld's order.
fn attributes(attributes: RegionAttributes) -> String {
    let letters = |of: RegionLetters| -> String {
        let known = [
            (of.executable, 'x'),
            (of.read_only, 'r'),
            (of.writable, 'w'),
            (of.allocated, 'a'),
            (of.loaded, 'l'),
        ];
        known.into_iter().filter_map(|(is_set, letter)| is_set.then_some(letter)).collect()
    };
    let (with, without) = (letters(attributes.with), letters(attributes.without));
    if without.is_empty() { with } else { format!("{with}!{without}") }
}
