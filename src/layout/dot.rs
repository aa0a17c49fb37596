//! The location counter: one run over the plan, statement by statement, exactly as written.
//!
//! A run gives every output section an address, a load address and a size, and every assigned symbol a value.
//! Where a statement needs a value that comes later in the script, it gets the value of the run before
//! ([`super::scope`]).

use super::names::{InObject, Source};
use super::regions::is_unallocated_kind;
use super::size;
use super::state::{LayoutState, Start};
use crate::arch::machine::SHF_PURE_CODE;
use crate::chunks::align;
use crate::chunks::memory::{Last, Region};
use crate::chunks::{Data, Fill};
use crate::diag::{Code, Diagnostic};
use crate::elf::consts as elf;
use crate::elf::is_alloc;
use crate::ids::{OutputId, RegionId};
use crate::plan::memory;
use crate::plan::{Body, Command, OutputPlan};
use crate::script::Span;
use crate::script::ast::{Assert, Assignment, DataSize, Name};
use crate::script::eval::{EvalError, Scope, Value, eval, fill_bytes};
use crate::script::expr::{BinaryOp, Expr, ExprKind};

impl<'p> LayoutState<'p> {
    /// Carries out the plan once.
    pub fn run(&mut self) {
        self.findings.clear();
        self.dot = 0;
        self.current = None;
        self.last_output = None;
        self.next_loaded.set(None);
        self.tls_zeros_end = None;
        self.regions_before = (RegionId::DEFAULT, None);
        self.dot_assigned = false;
        for entry in &mut self.symbols.entries {
            entry.value = None;
        }
        self.start_regions();
        for (position, command) in self.plan.commands.iter().enumerate() {
            self.position = position;
            match command {
                Command::Assignment(assignment) => self.assign(assignment),
                Command::Assert(assert) => self.check(assert),
                Command::Output(output) => self.output(*output),
                Command::OverlayStart { address, .. } => self.start_overlay(address.as_deref()),
                Command::OverlayEnd => self.end_overlay(),
            }
        }
        let overflows = self.overflows.take(self.plan, &self.regions);
        self.findings.extend(overflows);
    }

    fn start_regions(&mut self) {
        self.regions.clear();
        self.regions.push(Region::new(0, u64::MAX));
        self.in_regions = true;
        for region in &self.plan.memory {
            let origin = self.number(&region.origin).unwrap_or(0);
            let length = self.number(&region.length).unwrap_or(0);
            self.regions.push(Region::new(origin, length));
        }
        self.in_regions = false;
    }

    /// The value of an expression. Errors go into `findings`.
    fn eval(&mut self, expr: &Expr) -> Option<Value> {
        match eval(expr, self) {
            Ok(value) => Some(value),
            Err(error) => {
                self.fail(&error);
                None
            }
        }
    }

    fn number(&mut self, expr: &Expr) -> Option<u64> {
        Some(self.eval(expr)?.value)
    }

    /// The value as an address.
    pub(super) fn address(&mut self, expr: &Expr) -> Option<u64> {
        let value = self.eval(expr)?;
        Some(value.address(self.current_section(), self))
    }

    fn fail(&mut self, error: &EvalError) {
        let diagnostic = error.diagnostic(&self.plan.sources);
        self.findings.push(diagnostic);
    }

    pub(super) fn find_fault(&mut self, span: Span, code: Code, message: String) {
        let diagnostic = Diagnostic::error(code, message).at(self.plan.sources.location(span)).ordered(
            span.file,
            0,
            span.start.into(),
        );
        self.findings.push(diagnostic);
    }

    fn assign(&mut self, assignment: &'p Assignment) {
        if assignment.is_to_dot() {
            return self.move_dot(assignment);
        }
        self.move_default_region_to_dot();
        let Some(row) = self.symbols.row(&assignment.target.bytes) else { return };
        let entry = &self.symbols.entries[row as usize];
        let Source::Script(visible) = entry.source else { return };
        // If several `PROVIDE`s assign a symbol, the first one that is carried out counts, unless an object
        // defines the symbol.
        let in_object = matches!(entry.in_objects, Some(InObject::Section(..) | InObject::Number(_)));
        if assignment.kind.is_provide() && (entry.value.is_some() || in_object) {
            return;
        }
        let value = match eval(&assignment.value, self) {
            Ok(value) => value,
            Err(error) => {
                // A provided symbol without references need not have a value.
                if visible.is_some() || !assignment.kind.is_provide() {
                    self.fail(&error);
                }
                return;
            }
        };
        // Before all sections (`--defsym=a=_end`), a value is near the next section only if it is the
        // counter's own address.
        let is_near = self.last_output.is_some() || asks_for_dot(&assignment.value);
        let anchor = if is_near { self.section_of_dot() } else { None };
        let value = self.anchored(value);
        let entry = &mut self.symbols.entries[row as usize];
        (entry.value, entry.anchor) = (Some(value), anchor);
        entry.absolute = matches!(assignment.value.kind, ExprKind::Absolute(_));
    }

    /// At every assignment and assertion outside of sections, the default region continues at the location
    /// counter, even if the counter was moved by a section that is not allocated or that goes to another
    /// region.
    fn move_default_region_to_dot(&mut self) {
        if self.current.is_none() {
            self.regions[RegionId::DEFAULT.index()].current = self.dot;
        }
    }

    /// The section to which an address of the location counter belongs outside of sections: the section
    /// before, or the next one if the counter was assigned since.
    fn section_of_dot(&self) -> Option<OutputId> {
        match self.last_output {
            Some(last) if !self.dot_assigned => Some(last),
            last => self.next_loaded_section().or(last),
        }
    }

    /// The next loaded section that is not thread-local. Many assignments may stand before it, so it is
    /// searched only once.
    fn next_loaded_section(&self) -> Option<OutputId> {
        if let Some((position, found)) = self.next_loaded.get()
            && position >= self.position
        {
            return found;
        }
        let commands = self.plan.commands[self.position..].iter().enumerate();
        let mut loaded = commands.filter_map(|(ahead, command)| match command {
            Command::Output(output) => {
                let state = &self.outputs[output.index()];
                let tls = state.attributes.flags & elf::SHF_TLS != 0;
                let loaded = state.in_output && is_alloc(state.attributes.flags) && !tls;
                loaded.then_some((self.position + ahead, Some(*output)))
            }
            _ => None,
        });
        let found = loaded.next().unwrap_or((usize::MAX, None));
        self.next_loaded.set(Some(found));
        found.1
    }

    /// Inside an output section's description, makes a number an offset in that section. Outside, makes a
    /// relocatable address relative to the section before it.
    fn anchored(&self, value: Value) -> Value {
        let (section, number) = value.symbol(self.current_section());
        match (section, self.last_output) {
            (Some(section), _) => Value::relative(section, number),
            (None, Some(last)) if value.moves && !self.dot_assigned => {
                Value::relative(last.number(), number.wrapping_sub(self.outputs[last.index()].address))
            }
            (None, _) => Value { moves: value.moves, ..Value::absolute(number) },
        }
    }

    fn move_dot(&mut self, assignment: &Assignment) {
        let Some(value) = self.eval(&assignment.value) else {
            if let Some(current) = self.current {
                self.outputs[current.index()].undetermined = true;
            }
            return;
        };
        let address = value.address(self.current_section(), self);
        let Some(current) = self.current else {
            self.dot = address;
            self.regions[RegionId::DEFAULT.index()].current = address;
            self.tls_zeros_end = None;
            self.dot_assigned = true;
            return;
        };
        let state = &mut self.outputs[current.index()];
        let offset = address.wrapping_sub(state.address);
        if !(offset == 0 && is_zero_form(&assignment.value)) {
            state.keep();
        }
        if address < self.dot {
            let message = format!(
                "the location counter cannot move backwards in output section `{}`, from {:#x} to {:#x}",
                self.plan.outputs[current.index()].name_text(),
                self.dot,
                address
            );
            return self.find_fault(assignment.span, Code::ScriptError, message);
        }
        if address > self.dot {
            let offset = self.dot.wrapping_sub(self.outputs[current.index()].address);
            self.start_gap(current.index(), offset);
        }
        self.dot = address;
    }

    fn check(&mut self, assert: &Assert) {
        self.move_default_region_to_dot();
        let Some(value) = self.eval(&assert.condition) else { return };
        if value.value == 0 {
            let message = assert.message.text().into_owned();
            let message = if message.is_empty() { "assertion failed".to_owned() } else { message };
            self.find_fault(assert.span, Code::AssertionFailed, message);
        }
    }

    fn output(&mut self, output: OutputId) {
        let plan = &self.plan.outputs[output.index()];
        let index = output.index();
        let regions = self.declared_regions(plan);
        if !plan.orphan || self.outputs[index].is_processed() {
            self.regions_before = regions;
        }
        if plan.discard {
            return;
        }
        if !self.outputs[index].is_processed() {
            self.unmade(plan, index);
            return;
        }
        let before = self.dot;
        let alloc = is_alloc(self.outputs[index].attributes.flags);
        let region = self.region_of(plan, index, alloc, regions.0);
        self.outputs[index].region = region;
        let start = self.start_address(plan, index, alloc, region);
        self.outputs[index].undetermined = start.is_none();
        let Some(start) = start else { return };
        let address = start.address;
        if self.begins_overlay(plan) {
            (self.overlay_start, self.overlay_end) = (address, address);
        }
        self.outputs[index].address = address;
        self.outputs[index].placed = true;
        self.dot = address;
        self.current = Some(output);
        if self.body(plan, index).is_none() {
            let name = plan.name_text();
            let message =
                format!("output section `{name}` does not fit the address space, from {address:#x}");
            self.find_fault(plan.span, Code::LayoutError, message);
            self.dot = address;
        }
        self.current = None;
        let end = self.dot;
        self.outputs[index].size = end.wrapping_sub(address);
        self.load_address(plan, index, alloc, region, regions.1, start);
        self.overlay_begun |= plan.overlay && self.outputs[index].in_output;
        if self.settings.relocatable {
            if self.outputs[index].in_output {
                // Sections begin at 0 here, so the location counter is an offset in the section before,
                // whatever its flags are.
                self.last_output = Some(output);
                self.dot_assigned = false;
            } else {
                self.dot = before;
            }
            return;
        }
        if !self.outputs[index].in_output {
            self.dot = address;
            return;
        }
        // Sections that are loaded but not allocated (`INFO` and similar types) move the location counter,
        // too.
        let unallocated = !alloc && !self.is_loaded(plan, index);
        if unallocated {
            if stands_at_zero(plan, alloc) {
                self.dot = if plan.orphan { before } else { self.behind_unallocated(index, before) };
            }
            return;
        }
        let tls = self.outputs[index].attributes.flags & elf::SHF_TLS != 0;
        if alloc && !tls {
            self.last_output = Some(output);
        }
        self.dot_assigned = false;
        if self.outputs[index].is_tls_zeros() {
            self.tls_zeros_end = Some(end);
            self.dot = address;
        } else {
            self.tls_zeros_end = None;
        }
        self.advance(plan, index, region);
    }

    /// Where the location counter goes on behind a section that stands at address 0. As in GNU ld and gold,
    /// the section takes its size from the counter, so the counter does not fall back to the end of the
    /// section's bytes.
    fn behind_unallocated(&self, index: usize, before: u64) -> u64 {
        let state = &self.outputs[index];
        align::round_up(before, state.align).unwrap_or(before).saturating_add(state.size)
    }

    /// Gives addresses to an output section that is not made: its empty inputs may hold symbols, and `ADDR`
    /// and `LOADADDR` may name it. Neither the location counter nor a region moves, but sections behind it
    /// without load addresses follow its `AT(…)`.
    fn unmade(&mut self, plan: &OutputPlan, index: usize) {
        let address = plan.address.as_ref().and_then(|address| self.address(address));
        let load_address = self.own_load_address(plan);
        let align = plan.align.as_ref().and_then(|align| self.number(align)).unwrap_or(1);
        let aligned = |address| align::round_up(address, align).unwrap_or(address);
        let next_in = |layout_state: &Self, region: &Option<Name>| {
            let id = memory::find(layout_state.plan, &region.as_ref()?.bytes)?;
            Some(layout_state.regions[id.index()].current)
        };
        let start = address.or_else(|| next_in(self, &plan.region)).unwrap_or(self.dot);
        let loaded = load_address.or_else(|| next_in(self, &plan.load_region).map(aligned));
        let loaded = loaded.or_else(|| self.load_address_in_overlay(plan, self.overlay_region));
        if let (Some(load), false, false) = (load_address, plan.overlay, self.settings.relocatable) {
            let region = plan.region.as_ref().and_then(|name| memory::find(self.plan, &name.bytes));
            let place = Last { address: aligned(start), load, size: 0 };
            self.regions[region.unwrap_or_default().index()].remember(place, false);
        }
        let state = &mut self.outputs[index];
        state.address = aligned(start);
        state.align = align.max(state.input_align);
        state.load_address = loaded.unwrap_or(state.address);
        state.size = 0;
        state.placed = state.facts.count > 0 || address.is_some();
    }

    /// With `--xosegment`: whether a section is pure code and the one before it is not, or the other way
    /// round. The system gives permissions to whole pages.
    fn enters_or_leaves_pure_code(&self, index: usize) -> bool {
        let is_pure = |index: usize| self.outputs[index].attributes.flags & SHF_PURE_CODE != 0;
        let changes = || self.last_output.is_some_and(|last| is_pure(last.index()) != is_pure(index));
        self.settings.separate_pure_code && self.outputs[index].in_output && changes()
    }

    /// The address of the section's first byte. `None` if its expression fails or overflows.
    fn start_address(
        &mut self,
        plan: &OutputPlan,
        index: usize,
        alloc: bool,
        region: RegionId,
    ) -> Option<Start> {
        let align = match &plan.align {
            Some(align) => self.number(align).unwrap_or(1).max(1),
            None => 1,
        };
        let own = match self.subalign(plan, index) {
            Some(subalign) if self.outputs[index].facts.count > 0 => subalign.max(1),
            _ => self.outputs[index].input_align,
        };
        if let Some(odd) = [align, own].into_iter().find(|align| !align.is_power_of_two()) {
            let message = format!("an alignment of {odd} is not a power of two");
            self.find_fault(plan.span, Code::ScriptError, message);
            return None;
        }
        self.outputs[index].align = align.max(own);
        let explicit = match &plan.address {
            Some(address) => Some(self.address(address)?),
            None => None,
        };
        let (base, used) = match explicit {
            Some(address) => (address, align),
            // All sections of an overlay have the same address. A section with a larger alignment begins with
            // padding.
            None if plan.overlay && (self.overlay_begun || self.overlay_fixed) => (self.overlay_start, align),
            // Under `-r`, an address is for the section that comes next.
            None if self.settings.relocatable && self.dot_assigned => (self.dot, align),
            None if self.settings.relocatable || stands_at_zero(plan, alloc) => (0, 1),
            None => {
                let zeros_end = self.tls_zeros_end.filter(|_| self.outputs[index].is_tls_zeros());
                let page = if alloc && self.enters_or_leaves_pure_code(index) {
                    self.settings.max_page_size
                } else {
                    1
                };
                (zeros_end.unwrap_or(self.regions[region.index()].current), align.max(own).max(page))
            }
        };
        let address = align::round_up(base, used);
        if address.is_none() {
            let name = plan.name_text();
            let message = format!("output section `{name}` does not fit the address space, at {base:#x}");
            self.find_fault(plan.span, Code::LayoutError, message);
        }
        let address = address?;
        if explicit.is_some() && address != base {
            let name = plan.name_text();
            let by = address - base;
            let message =
                format!("ALIGN moves the start of output section `{name}` by {by} bytes, to {address:#x}");
            let place = self.plan.sources.location(plan.span);
            let finding = Diagnostic::warning(Code::ScriptError, message).at(place);
            self.findings.push(finding.ordered(plan.span.file, 0, plan.span.start.into()));
        }
        if explicit.is_none() && address != base && self.settings.warn_section_align && alloc {
            self.report_moved(plan, index, address, address - base);
        }
        Some(Start { address, padding: address - base, used, asked: align })
    }

    /// `--warn-section-align`.
    fn report_moved(&mut self, plan: &OutputPlan, index: usize, address: u64, by: u64) {
        let output = &self.outputs[index];
        if !output.in_output {
            return;
        }
        let (name, align) = (plan.name_text(), output.align);
        let message = format!(
            "the alignment of output section `{name}`, {align}, moves its start by {by} bytes, to {address:#x}"
        );
        let place = (plan.span.file, plan.span.start.into());
        self.findings.push(Diagnostic::warning(Code::LayoutError, message).ordered(place.0, 0, place.1));
    }

    /// The value of `SUBALIGN`. Readers of SFrame look for each section's data at a multiple of its
    /// alignment, so a script may only raise that.
    fn subalign(&mut self, plan: &OutputPlan, index: usize) -> Option<u64> {
        let subalign = self.number(plan.subalign.as_deref()?)?;
        let output = &self.outputs[index];
        Some(if output.facts.sframe { subalign.max(output.input_align) } else { subalign })
    }

    /// Carries out the statements between the braces. `None` if they leave the address space.
    fn body(&mut self, plan: &'p OutputPlan, index: usize) -> Option<()> {
        let start = self.dot;
        let subalign = self.subalign(plan, index).filter(|align| align.is_power_of_two());
        let subalign = subalign.map(|align| align.trailing_zeros() as u8);
        self.outputs[index].fills.clear();
        self.outputs[index].data.clear();
        self.pattern.clear();
        if let Some(fill) = &plan.fill {
            self.fill(fill, index, start);
        }
        for item in &plan.body {
            match item {
                Body::Rule(rule) => {
                    let list = &mut self.lists[rule.index()];
                    if !list.items.is_empty() {
                        let offset = self.dot.wrapping_sub(start);
                        self.dot = size::lay_out(list, self.dot, subalign, &mut self.offsets)?;
                        list.start = offset;
                    }
                }
                Body::Assignment(assignment) => self.assign(assignment),
                Body::Assert(assert) => self.check(assert),
                Body::Data(size, value) => {
                    let value = self.outside(|layout_state| layout_state.address(value)).unwrap_or(0);
                    let bytes = data_bytes(*size, value, self.settings.big_endian);
                    self.write(index, start, bytes)?;
                }
                Body::Text(bytes) => self.write(index, start, bytes.to_vec())?,
                Body::Fill(value) => self.fill(value, index, start),
            }
        }
        Some(())
    }

    /// Evaluates the expression of a data statement or a fill. As in GNU ld, it computes with addresses, as
    /// expressions outside of sections do, and not with offsets in its section.
    fn outside<R>(&mut self, evaluate: impl FnOnce(&mut Self) -> R) -> R {
        let section = self.current.take();
        let result = evaluate(self);
        self.current = section;
        result
    }

    fn write(&mut self, index: usize, start: u64, bytes: Vec<u8>) -> Option<()> {
        let offset = self.dot.wrapping_sub(start);
        self.start_gap(index, offset);
        self.dot = self.dot.checked_add(bytes.len() as u64)?;
        self.outputs[index].data.push(Data { offset, bytes });
        self.start_gap(index, self.dot.wrapping_sub(start));
        Some(())
    }

    fn fill(&mut self, value: &Expr, index: usize, start: u64) {
        match self.outside(|layout_state| fill_bytes(value, layout_state)) {
            Ok(pattern) => {
                self.pattern = pattern;
                self.start_gap(index, self.dot.wrapping_sub(start));
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Begins a gap at `offset`. Its fill starts with the first byte of the pattern.
    fn start_gap(&mut self, index: usize, offset: u64) {
        let pattern = self.pattern.clone();
        let fills = &mut self.outputs[index].fills;
        fills.pop_if(|last| last.offset == offset);
        fills.push(Fill { offset, pattern });
    }

    /// Lets the region continue behind the section. For a section of an overlay, also notes the overlay's
    /// end.
    fn advance(&mut self, plan: &OutputPlan, index: usize, region: RegionId) {
        let end = self.dot;
        if plan.overlay {
            self.overlay_end = self.overlay_end.max(end);
            self.overlay_region = region;
        }
        self.regions[region.index()].current = end;
        if self.outputs[index].size > 0 {
            self.check_region(region, plan, (self.outputs[index].address, end), plan.region.as_ref());
        }
    }

    fn start_overlay(&mut self, address: Option<&Expr>) {
        let start = address.and_then(|address| self.address(address));
        self.overlay_fixed = start.is_some();
        self.overlay_begun = false;
        self.overlay_start = start.unwrap_or(self.dot);
        self.overlay_end = self.overlay_start;
    }

    /// Ends an overlay: the location counter goes on behind the longest section. An overlay that has no
    /// section in the output takes nothing from its region.
    fn end_overlay(&mut self) {
        self.dot = self.overlay_end;
        if self.overlay_begun {
            self.regions[self.overlay_region.index()].current = self.overlay_end;
        }
    }
}

/// Whether a section stands at address 0. A section that is not allocated does, unless the script says where
/// it stands. Then offsets into it, as debug information has them, are right.
fn stands_at_zero(plan: &OutputPlan, alloc: bool) -> bool {
    !alloc && plan.address.is_none() && !plan.overlay && !is_unallocated_kind(plan)
}

fn data_bytes(size: DataSize, value: u64, big_endian: bool) -> Vec<u8> {
    let count = size.bytes() as usize;
    if big_endian { value.to_be_bytes()[8 - count..].to_vec() } else { value.to_le_bytes()[..count].to_vec() }
}

/// Whether a value depends on the location counter.
fn asks_for_dot(value: &Expr) -> bool {
    matches!(value.kind, ExprKind::Dot | ExprKind::Align { value: None, .. } | ExprKind::Next(_))
        || value.operands().any(asks_for_dot)
}

/// Whether an assignment to the location counter does not keep an empty section (GNU ld's manual, "Output
/// Section Discarding").
fn is_zero_form(value: &Expr) -> bool {
    let is_zero = |expr: &Expr| matches!(&expr.kind, ExprKind::Number(number) if number.value == 0);
    match &value.kind {
        ExprKind::Number(_) | ExprKind::Symbol(_) => true,
        ExprKind::Binary(BinaryOp::Add, left, right) => {
            matches!(left.kind, ExprKind::Dot)
                && (is_zero(right) || matches!(right.kind, ExprKind::Symbol(_)))
        }
        ExprKind::Align { value: None, alignment } => matches!(
            &alignment.kind,
            ExprKind::Conditional { condition, .. } if is_dot_not_zero(condition)
        ),
        ExprKind::Conditional { condition, .. } => is_dot_not_zero(condition),
        _ => false,
    }
}

fn is_dot_not_zero(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Binary(BinaryOp::NotEqual, left, right)
        if matches!(left.kind, ExprKind::Dot)
            && matches!(&right.kind, ExprKind::Number(number) if number.value == 0))
}
