//! The scope of expressions in scripts: symbols, output sections, regions, constants.
//!
//! A layout runs in rounds. If this round has not reached a name yet, the name has its value of the round
//! before. Rounds go on until both values are equal.

use super::names::{Entry, InObject, Source};
use super::state::LayoutState;
use crate::ids::{OutputId, SectionId};
use crate::plan::Command;
use crate::plan::memory;
use crate::script::data_segment::DataSegment;
use crate::script::eval::{Lookup, OutputSectionValues, Scope, Symbol, Value};

impl LayoutState<'_> {
    /// The value of a symbol at this point of the round.
    fn value_of(&self, entry: &Entry) -> Symbol {
        match entry.source {
            // Before its assignment, a symbol that needs itself has the value that an object gives it. So `a
            // = a + 1` adds 1 to the same value in each round.
            Source::Script(_) => match (entry.value.or(entry.settled()), entry.in_objects) {
                (Some(value), _) => Symbol::Defined(value),
                (None, Some(InObject::Section(section, offset))) => self.value_in_section(section, offset),
                (None, Some(InObject::Number(value))) => Symbol::Defined(Value::absolute(value)),
                (None, Some(InObject::Common)) => Symbol::Undefined,
                (None, None) => entry.previous.map_or(Symbol::NotYetKnown, Symbol::Defined),
            },
            Source::Section(section, offset) => self.value_in_section(section, offset),
            Source::Number(value) => Symbol::Defined(Value::absolute(value)),
            Source::Edge(output, stop) => {
                let size = self.outputs[output.index()].size;
                Symbol::Defined(Value::relative(output.number(), if stop { size } else { 0 }))
            }
            Source::Headers => match self.headers_address {
                Some(address) => Symbol::Defined(Value { moves: true, ..Value::absolute(address) }),
                None => Symbol::NotYetKnown,
            },
            Source::Discarded => Symbol::Discarded,
            Source::Undefined => Symbol::Undefined,
        }
    }

    fn value_in_section(&self, section: SectionId, offset: u64) -> Symbol {
        let Some(rule) = self.section_rules[section.index()] else { return Symbol::Discarded };
        let (list, rule) = (&self.lists[rule.index()], self.plan.rule(rule));
        if !self.outputs[rule.output.index()].placed || list.computed_for.is_none() {
            return Symbol::NotYetKnown;
        }
        let in_output = list.start.wrapping_add(self.offsets[section.index()]).wrapping_add(offset);
        Symbol::Defined(Value::relative(rule.output.number(), in_output))
    }

    fn facts(&self, output: OutputId) -> OutputSectionValues {
        let state = &self.outputs[output.index()];
        OutputSectionValues {
            section: output.number(),
            load_address: state.load_address,
            size: state.size,
            alignment: state.align,
        }
    }
}

impl Scope for LayoutState<'_> {
    fn dot(&self) -> Option<u64> {
        Some(self.dot)
    }

    fn current_section(&self) -> Option<u32> {
        self.current.map(OutputId::number)
    }

    fn section_address(&self, section: u32) -> u64 {
        self.outputs[section as usize].address
    }

    fn section(&self, name: &[u8]) -> Lookup<OutputSectionValues> {
        let Some(output) = self.output_names.find(name) else { return Lookup::Missing };
        let state = &self.outputs[output.index()];
        if !state.placed && state.is_processed() {
            return Lookup::NotYetKnown;
        }
        Lookup::Known(self.facts(output))
    }

    fn next_section(&self) -> Lookup<OutputSectionValues> {
        let mut behind = self.plan.commands[self.position..].iter().skip(1).filter_map(Command::output);
        let next = behind.find(|output| self.outputs[output.index()].in_output);
        next.map_or(Lookup::Missing, |output| Lookup::Known(self.facts(output)))
    }

    fn symbol(&self, name: &[u8]) -> Symbol {
        match self.symbols.row(name) {
            Some(row) => self.value_of(&self.symbols.entries[row as usize]),
            None => Symbol::Undefined,
        }
    }

    fn is_defined(&self, name: &[u8]) -> bool {
        let Some(row) = self.symbols.row(name) else { return false };
        let entry = &self.symbols.entries[row as usize];
        match entry.source {
            Source::Script(visible) => {
                entry.value.is_some() || entry.in_objects.is_some() || self.in_regions && visible.is_some()
            }
            Source::Undefined | Source::Discarded => false,
            _ => true,
        }
    }

    fn region(&self, name: &[u8]) -> Lookup<(u64, u64)> {
        match memory::find(self.plan, name).and_then(|region| self.regions.get(region.index())) {
            Some(region) => Lookup::Known((region.origin, region.length)),
            None => Lookup::Missing,
        }
    }

    fn constant(&self, name: &[u8]) -> Option<u64> {
        match name {
            b"MAXPAGESIZE" => Some(self.settings.max_page_size),
            b"COMMONPAGESIZE" => Some(self.settings.common_page_size),
            _ => self.settings.switches.and_then(|switches| switches.constant(name)),
        }
    }

    fn size_of_headers(&self) -> u64 {
        self.headers_size
    }

    fn segment_start(&self, name: &[u8]) -> Option<u64> {
        match name {
            b"text-segment" => self.settings.image_base,
            b"rodata-segment" => self.settings.rodata_segment,
            b"ldata-segment" => self.settings.ldata_segment,
            _ => None,
        }
    }

    fn data_segment(&mut self) -> &mut DataSegment {
        &mut self.data_segment
    }

    fn sane_expressions(&self) -> bool {
        self.plan.sane_expressions
    }
}
