//! Makes descriptions of programs from seeds.
//!
//! If a program may behave in two ways, two correct linkers can disagree on it, and the comparison is worth
//! nothing. So a generated program means the same for every linker: it uses a form only where the ABI allows
//! it, and observes an order only where it is defined.

use super::compiled::Compiled;
use super::dialect::{Dialect, Form, Needs, Word};
use super::machines::dialect;
use super::program::{Act, Array, Definition, Entity, Home, Kind, Lto, Program, Runner, Scope, Unit};
use super::rng::Rng;
use super::versions;
use crate::machine::Machine;

/// The most entities that a unit has.
const MOST: usize = 9;

/// Makes the program of a seed.
pub fn generate(machine: Machine, seed: u64) -> Program {
    let mut rng = Rng::new(seed.wrapping_mul(3) + machine as u64);
    let libraries = *rng.pick(&[0, 0, 1, 1, 2]);
    let fixed = rng.one_in(2);
    let mut program = Program {
        machine,
        seed,
        fixed,
        units: Vec::new(),
        libraries,
        entities: Vec::new(),
        joinable: libraries == 0 || rng.one_in(2),
        versioned: false,
        framed: rng.one_in(3),
        options: Vec::new(),
        versions: String::new(),
        lto: None,
        scripted: false,
        split_frames: rng.one_in(2),
    };
    program.versioned = !program.joinable && rng.one_in(2);
    let has_c = rng.one_in(3);
    if has_c && machine == Machine::X86_64 && rng.one_in(3) {
        program.lto = Some(*rng.pick(&[Lto::Slim, Lto::Fat]));
    }
    program.scripted = program.lto.is_none() && rng.one_in(6);
    let mut generator = Generator { rng, program, dialect: dialect(machine), numbers: 0 };
    generator.units(has_c);
    for unit in 0..generator.program.units.len() {
        for _ in 0..3 + generator.rng.below(MOST - 2) {
            generator.entity(unit);
        }
    }
    generator.repeated();
    generator.linked_options();
    generator.mangle();
    for unit in 0..generator.program.units.len() {
        generator.observe_own(unit);
        generator.observe_script(unit);
        generator.runners(unit);
    }
    if generator.program.versioned {
        generator.program.versions = versions::script(&mut generator.rng, &generator.program);
    }
    generator.program
}

struct Generator {
    rng: Rng,
    program: Program,
    dialect: &'static Dialect,
    numbers: usize,
}

impl Generator {
    fn number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers
    }

    fn units(&mut self, has_c: bool) {
        let mut homes = vec![Home::Program; 2 + self.rng.below(3)];
        homes.extend(vec![Home::Archive; *self.rng.pick(&[0, 0, 1, 2])]);
        for library in 0..self.program.libraries {
            homes.extend(vec![Home::Library(library); 1 + self.rng.below(2)]);
        }
        for home in homes {
            let fixed = self.program.fixed && home.module() == 0 && !self.rng.one_in(4);
            let function_sections = self.rng.one_in(2);
            let mut unit = Unit {
                home,
                fixed,
                acts: Vec::new(),
                runners: Vec::new(),
                set_words: Vec::new(),
                table_words: Vec::new(),
                function_sections,
                compiled: None,
            };
            if has_c && self.rng.one_in(2) {
                let mut compiled =
                    Compiled::new(&mut self.rng, self.program.machine, home.module() == 0, fixed);
                compiled.lto = self.program.lto.is_some() && !self.rng.one_in(3);
                unit.compiled = Some(compiled);
            }
            if has_order(&unit) {
                for _ in 0..self.rng.below(if self.program.scripted { 4 } else { 1 }) {
                    let end = format!("{}{}", self.rng.pick(&["a", "b", "c", "d"]), self.rng.below(20));
                    unit.table_words.push((end, self.rng.number()));
                }
                for _ in 0..self.rng.below(3) {
                    let word = self.rng.number();
                    unit.set_words.push((format!("set_{}", self.rng.below(2)), word));
                }
            }
            self.program.units.push(unit);
        }
    }

    fn value(&mut self) -> u64 {
        // Some numbers are frequent, so that some functions and data are equal and can be folded.
        if self.rng.one_in(3) { self.rng.below(3) as u64 + 1 } else { self.rng.number() }
    }

    fn scope(&mut self) -> Scope {
        *self.rng.pick(&[Scope::Local, Scope::Default, Scope::Default, Scope::Hidden, Scope::Protected])
    }

    fn add(&mut self, unit: usize, kind: Kind, scope: Scope, weak: bool) -> usize {
        let number = self.program.entities.len();
        let value = self.value();
        let name = format!("{}_{number}", name_of(&kind));
        let definitions = vec![Definition { unit, weak, value }];
        self.program.entities.push(Entity { name, kind, scope, definitions, group: false });
        number
    }

    fn entity(&mut self, unit: usize) {
        let scope = self.scope();
        let align = 1 << self.rng.below(7);
        match self.rng.below(20) {
            0..4 => {
                let callee = self.callee(unit);
                let weak = scope != Scope::Local && self.rng.one_in(6);
                self.add(unit, Kind::Function { callee }, scope, weak);
            }
            4..8 => {
                let words = 1 + self.rng.below(4);
                let section = self.data_section();
                let weak = scope != Scope::Local && self.rng.one_in(6);
                self.add(unit, Kind::Data { words, section, align: align.max(8) }, scope, weak);
            }
            8 => {
                let size = 8 * (1 + self.rng.below(40));
                self.add(unit, Kind::Bss { size, align: align.max(8) }, scope, false);
            }
            9 => {
                let size = 8 * (1 + self.rng.below(9));
                let scope = if scope == Scope::Local { Scope::Default } else { scope };
                self.add(unit, Kind::Common { size, align: align.max(8) }, scope, false);
            }
            10..13 => {
                let (words, zero) = (1 + self.rng.below(3), self.rng.one_in(3));
                self.add(unit, Kind::Tls { words, zero, align: align.max(8) }, scope, false);
            }
            13 => {
                let scope = if scope == Scope::Protected { Scope::Hidden } else { scope };
                self.add(unit, Kind::Ifunc, scope, false);
            }
            14 => self.text(unit, scope),
            15..18 => self.pointer(unit),
            18 if self.program.versioned && self.program.units[unit].home == Home::Library(0) => {
                self.add(unit, Kind::Versioned, Scope::Default, false);
            }
            18 => self.absolute(unit),
            _ => self.alias(unit),
        }
    }

    fn data_section(&mut self) -> String {
        let number = self.rng.below(3);
        let names = [
            ".data",
            ".data",
            ".rodata",
            ".data.more",
            ".rodata.more",
            ".data.rel.ro",
            "written",
            ".data.rel",
            ".sdata.x",
        ];
        let name = *self.rng.pick(&names);
        if name.ends_with("more") { format!("{name}{number}") } else { name.to_owned() }
    }

    fn text(&mut self, unit: usize, scope: Scope) {
        const WORDS: [&str; 6] =
            ["tail", "longer tail", "", "x", "a text that others end with tail", "other"];
        let text = (*self.rng.pick(&WORDS)).to_owned();
        let section = (*self.rng.pick(&[".rodata.str1.1", ".rodata.str1.1", ".rodata.str1.8"])).to_owned();
        let scope = if self.rng.one_in(2) { Scope::Local } else { scope };
        self.add(unit, Kind::Text { text, section }, scope, false);
    }

    /// Whether a unit can refer to an entity through a form with these needs.
    fn allowed(&self, unit: usize, entity: usize, needs: Needs) -> bool {
        let (from, to) = (&self.program.units[unit], &self.program.entities[entity]);
        let module = from.home.module();
        let plain = to.scope != Scope::Local && !matches!(self.program.kind(entity), Kind::Ifunc);
        if needs.global && !plain {
            return false;
        }
        if needs.fixed && !from.fixed || needs.program && module != 0 {
            return false;
        }
        let Some(first) = to.definitions.first() else { return !needs.near };
        let home = self.program.units[first.unit].home.module();
        if to.scope == Scope::Local && first.unit != unit {
            return false;
        }
        if home == module {
            // GNU ld does not support these addresses for ifuncs in libraries.
            let chosen = matches!(self.program.kind(entity), Kind::Ifunc);
            return !needs.near || module == 0 || to.scope != Scope::Default && !chosen;
        }
        // Another module exports it: the program itself, or a library that was linked earlier.
        let seen = module == 0 || home == 0 || home < module;
        let exported = to.scope == Scope::Default;
        // A program gets copy relocations for data, and PLT entries for functions.
        let copied = module == 0 && matches!(self.program.kind(entity), Kind::Data { .. } | Kind::Bss { .. })
            || module == 0 && from.fixed && matches!(self.program.kind(entity), Kind::Function { .. });
        let copied = copied && !matches!(to.kind, Kind::Alias { .. });
        // The dynamic linker relocates libraries before the program. It would run a resolver that is not
        // relocated yet.
        let ready = module == 0 || home != 0 || !matches!(self.program.kind(entity), Kind::Ifunc);
        seen && exported
            && ready
            && (!needs.near || copied && !needs.global && (!needs.program || needs.fixed))
    }

    /// The forms that a unit has for the address of an entity.
    fn addresses(&self, unit: usize, entity: usize) -> &'static [Form] {
        match &self.program.units[unit].compiled {
            Some(it) if self.program.is_function(entity) => it.forms().functions,
            Some(it) => it.forms().data,
            None => self.dialect.addresses,
        }
    }

    /// The forms that a unit has for calls.
    fn calls(&self, unit: usize) -> &'static [Form] {
        self.program.units[unit].compiled.as_ref().map_or(self.dialect.calls, |it| it.forms().calls)
    }

    /// The forms that a unit has for addresses in data.
    fn words(&self, unit: usize) -> &'static [Word] {
        self.program.units[unit].compiled.as_ref().map_or(self.dialect.words, |it| it.forms().words)
    }

    /// A random form for an entity's address.
    fn address(&mut self, unit: usize, entity: usize) -> Option<&'static Form> {
        let forms = self.addresses(unit, entity);
        self.form(unit, entity, forms)
    }

    fn form(&mut self, unit: usize, entity: usize, forms: &'static [Form]) -> Option<&'static Form> {
        let fitting: Vec<&Form> =
            forms.iter().filter(|form| self.allowed(unit, entity, form.needs)).collect();
        if fitting.is_empty() { None } else { Some(fitting[self.rng.below(fitting.len())]) }
    }

    /// A random entity that meets a condition.
    fn some(&mut self, holds: impl Fn(&Program, usize) -> bool) -> Option<usize> {
        let all: Vec<usize> =
            (0..self.program.entities.len()).filter(|&entity| holds(&self.program, entity)).collect();
        if all.is_empty() { None } else { Some(all[self.rng.below(all.len())]) }
    }

    fn callee(&mut self, unit: usize) -> Option<(usize, &'static Form)> {
        if !self.rng.one_in(3) {
            return None;
        }
        let callee = self.some(super::program::Program::is_function)?;
        Some((callee, self.form(unit, callee, self.calls(unit))?))
    }

    fn pointer(&mut self, unit: usize) {
        let Some(target) = self.some(|program, entity| is_place(program.kind(entity))) else { return };
        let function = self.program.is_function(target);
        let words: Vec<_> = self
            .words(unit)
            .iter()
            .filter(|word| self.allowed(unit, target, word.form.needs) && (function || !word.function))
            // Data of a library does not refer to a preemptible symbol relative to itself. If a program did
            // that, in 32 bits, to a symbol of a library, it would need a copy, which the forms of code
            // already test.
            .filter(|word| {
                !word.form.needs.near
                    || self.program.module(target) == Some(self.program.units[unit].home.module())
            })
            .collect();
        if words.is_empty() {
            return;
        }
        let word = words[self.rng.below(words.len())];
        let addend = if word.addend { self.offset(target) } else { 0 };
        let section = *self.rng.pick(&[".data", ".data.rel.ro", ".data.rel", ".data.pointers"]);
        let kind = Kind::Pointer { word, target, addend, section: section.into() };
        self.add(unit, kind, Scope::Local, false);
    }

    /// An offset in bytes into an entity, where a word can be read.
    fn offset(&mut self, entity: usize) -> usize {
        let into = match &self.program.entities[entity].kind {
            Kind::Alias { .. } => 0,
            Kind::Data { words, .. } | Kind::Tls { words, .. } => words - 1,
            Kind::Bss { size, .. } | Kind::Common { size, .. } => size / 8 - 1,
            _ => 0,
        };
        8 * self.rng.below(into + 1)
    }

    fn absolute(&mut self, unit: usize) {
        let dialect = self.dialect;
        let in_data = self.rng.one_in(2);
        let fields = if in_data { dialect.data_fields } else { dialect.code_fields };
        if self.program.units[unit].compiled.is_some() {
            return;
        }
        // Two units must define the symbol and refer to it: otherwise the assembler knows the value.
        let Some(user) = (0..self.program.units.len()).find(|&user| {
            user != unit
                && self.program.units[user].compiled.is_none()
                && self.program.units[user].home.module() == self.program.units[unit].home.module()
        }) else {
            return;
        };
        let fields: Vec<_> =
            fields.iter().filter(|field| !field.form.needs.fixed || self.program.units[user].fixed).collect();
        if fields.is_empty() {
            return;
        }
        let field = fields[self.rng.below(fields.len())];
        let value = *self.rng.pick(field.limits);
        let absolute = self.add(unit, Kind::Absolute { value }, Scope::Hidden, false);
        if in_data {
            let kind = Kind::Holder { field: &field.form, target: absolute };
            self.add(user, kind, Scope::Local, false);
        } else {
            let number = self.number();
            self.program.units[user].acts.push((number, Act::Number(absolute, field)));
        }
    }

    fn alias(&mut self, unit: usize) {
        let Some(of) = self.some(|program, entity| {
            program.entities[entity].definitions[0].unit == unit
                && matches!(
                    program.entities[entity].kind,
                    Kind::Function { .. } | Kind::Data { .. } | Kind::Bss { .. }
                )
        }) else {
            return;
        };
        let scope = self.scope();
        self.add(unit, Kind::Alias { of, by_option: false }, scope, false);
    }

    /// Makes several definitions of one symbol, in different units: weak definitions, COMDAT groups, common
    /// symbols, and definitions that another module preempts. Also makes symbols that nobody defines.
    fn repeated(&mut self) {
        let units = self.program.units.len();
        for _ in 0..=self.rng.below(4) {
            let kind = self.rng.below(5);
            let library = self.program.libraries > 0 && !self.program.joinable && self.rng.one_in(2);
            let mut order: Vec<usize> = (0..units)
                .filter(|&unit| match self.program.units[unit].home {
                    Home::Program => true,
                    Home::Archive => false,
                    Home::Library(_) => library,
                })
                .collect();
            order.retain(|&unit| !self.rng.one_in(4) && (kind != 4 || !self.is_optimized(unit)));
            let Some(&first) = order.first() else { continue };
            let entity = match kind {
                0 => {
                    let missing = self.add(first, Kind::Missing, Scope::Default, true);
                    self.program.entities[missing].definitions.clear();
                    continue;
                }
                1 => self.add(first, Kind::Common { size: 32, align: 8 }, Scope::Default, false),
                2 | 3 => {
                    let function = self.rng.one_in(2);
                    let kind = if function {
                        Kind::Function { callee: None }
                    } else {
                        Kind::Data { words: 2, section: ".data.repeated".into(), align: 8 }
                    };
                    self.add(first, kind, Scope::Default, true)
                }
                _ => {
                    let function = self.rng.one_in(2);
                    let kind = if function {
                        Kind::Function { callee: None }
                    } else {
                        Kind::Data { words: 2, section: ".rodata.grouped".into(), align: 8 }
                    };
                    let entity = self.add(first, kind, Scope::Default, true);
                    self.program.entities[entity].group = true;
                    entity
                }
            };
            let strong = self.rng.below(order.len() + 2);
            for (at, &unit) in order.iter().enumerate() {
                let value = self.rng.number();
                let weak = kind != 1 && (kind == 4 || at != strong);
                let definition = Definition { unit, weak, value };
                let definitions = &mut self.program.entities[entity].definitions;
                if at == 0 { definitions[0] = definition } else { definitions.push(definition) }
            }
        }
    }

    fn linked_options(&mut self) {
        // Linkers tell the plugin different things about such names.
        if self.program.lto.is_some() {
            return;
        }
        // GNU ld and lld disagree on what `--wrap` affects, and mold has no vote on scripts.
        if !self.program.scripted && self.rng.one_in(4) {
            self.wrapped();
        }
        if self.rng.one_in(3) {
            let in_program = |program: &Program, entity: usize| {
                program.module(entity) == Some(0)
                    && program.entities[entity].scope == Scope::Default
                    && matches!(program.entities[entity].kind, Kind::Data { .. } | Kind::Function { .. })
                    && program.entities[entity].definitions.len() == 1
            };
            if let Some(of) = self.some(in_program) {
                let unit = self.program.entities[of].definitions[0].unit;
                let name = self.program.entities[of].name.clone();
                let entity = self.add(unit, Kind::Alias { of, by_option: true }, Scope::Default, false);
                let own = format!("defsym_{entity}");
                self.program.options.push(format!("--defsym={own}={name}"));
                self.program.entities[entity].name = own;
            }
        }
    }

    /// Gives functions of the library with versions the names that C++ would give them.
    fn mangle(&mut self) {
        for entity in 0..self.program.entities.len() {
            let it = &self.program.entities[entity];
            let is_there =
                it.definitions.iter().all(|it| self.program.units[it.unit].home == Home::Library(0));
            let fits = matches!(it.kind, Kind::Function { .. }) && it.scope == Scope::Default && is_there;
            if self.program.versioned && fits && self.rng.one_in(3) {
                self.program.entities[entity].name = versions::mangled(&self.program.entities[entity].name);
            }
        }
    }

    /// Makes a function that replaces another one (`--wrap`) in all units that do not define that other one.
    fn wrapped(&mut self) {
        let plain = |program: &Program, entity: usize| {
            let it = &program.entities[entity];
            matches!(it.kind, Kind::Function { .. })
                && it.scope == Scope::Default
                && it.definitions.len() == 1
                && !it.definitions[0].weak
                && program.units[it.definitions[0].unit].home == Home::Program
        };
        let Some(of) = self.some(plain) else { return };
        let defined = self.program.entities[of].definitions[0].unit;
        let units = &self.program.units;
        let Some(unit) = (0..units.len()).find(|&unit| unit != defined && units[unit].home == Home::Program)
        else {
            return;
        };
        let name = self.program.entities[of].name.clone();
        let wrapper = self.add(unit, Kind::Wrapper { of }, Scope::Default, false);
        self.program.entities[wrapper].name = format!("__wrap_{name}");
        self.program.options.push(format!("--wrap={name}"));
    }

    fn runners(&mut self, unit: usize) {
        for _ in 0..self.rng.below(3) {
            let home = self.program.units[unit].home;
            let array = match home {
                Home::Program if !self.is_optimized(unit) => {
                    *self.rng.pick(&[Array::Init, Array::Init, Array::Fini, Array::Preinit])
                }
                _ => *self.rng.pick(&[Array::Init, Array::Fini]),
            };
            let number = self.number();
            // If there is no defined order, no two functions have the same priority.
            let priority = match home {
                _ if !has_order(&self.program.units[unit]) => Some(20_000 + number as u16),
                _ if array != Array::Preinit && self.rng.one_in(2) => {
                    Some(*self.rng.pick(&[101, 102, 999, 1000, 10_000, 65_534]))
                }
                _ => None,
            };
            self.program.units[unit].runners.push((number, Runner { array, priority }));
        }
    }

    /// Whether the link compiles a unit.
    fn is_optimized(&self, unit: usize) -> bool {
        self.program.units[unit].compiled.as_ref().is_some_and(|it| it.lto)
    }

    /// Makes observations of the entities that a unit can reach: nearly all of its own, and some of others.
    fn observe_own(&mut self, unit: usize) {
        for entity in 0..self.program.entities.len() {
            let own = self.program.entities[entity].definitions.iter().any(|it| it.unit == unit);
            let wanted = own && !self.rng.one_in(8) || self.rng.one_in(5);
            if let Some(act) = wanted.then(|| self.act(unit, entity)).flatten() {
                let number = self.number();
                self.program.units[unit].acts.push((number, act));
            }
        }
        let module = self.program.units[unit].home.module();
        for set in ["set_0", "set_1"] {
            let there = |unit: &Unit| {
                unit.home.module() == module && unit.set_words.iter().any(|(name, _)| name == set)
            };
            if self.rng.one_in(3) && self.program.units.iter().any(there) {
                let near: Vec<_> = self
                    .dialect
                    .addresses
                    .iter()
                    .filter(|form| form.needs.near && !form.needs.fixed)
                    .collect();
                let form = near[self.rng.below(near.len())];
                let number = self.number();
                self.program.units[unit].acts.push((number, Act::Range(set.into(), form)));
            }
        }
    }

    /// Makes observations of what linker scripts define. In some ways to link, there is no such script, so
    /// the symbols may be missing.
    fn observe_script(&mut self, unit: usize) {
        let forms = self.program.units[unit].compiled.as_ref();
        let forms = forms.map_or(self.dialect.addresses, |it| it.forms().data);
        let far: Vec<_> = forms.iter().filter(|form| !form.needs.near && !form.needs.global).collect();
        if !self.program.scripted || far.is_empty() || self.program.units[unit].home.module() != 0 {
            return;
        }
        let form = far[self.rng.below(far.len())];
        for act in [Act::Table(form), Act::TableSize(form)] {
            let number = self.number();
            self.program.units[unit].acts.push((number, act));
        }
    }

    fn act(&mut self, unit: usize, entity: usize) -> Option<Act> {
        let kind = self.program.kind(entity).clone();
        match kind {
            Kind::Tls { .. } => {
                let own = self.program.units[unit].compiled.as_ref();
                let forms = own.map_or(self.dialect.tls, |it| it.forms().tls);
                let form = self.form(unit, entity, forms)?;
                Some(Act::Tls(entity, self.offset(entity), form))
            }
            Kind::Pointer { .. } => {
                let form = self.address(unit, entity)?;
                Some(Act::Follow(entity, form))
            }
            Kind::Absolute { .. } => None,
            Kind::Missing => {
                let form = self.address(unit, entity)?;
                Some(Act::Missing(entity, form))
            }
            Kind::Versioned if self.rng.one_in(2) && self.older(unit, entity) => {
                Some(Act::CallOld(entity, self.form(unit, entity, self.calls(unit))?))
            }
            Kind::Function { .. } | Kind::Ifunc | Kind::Wrapper { .. } | Kind::Versioned => {
                let call = self.form(unit, entity, self.calls(unit))?;
                let address = self.address(unit, entity)?;
                Some(match self.rng.below(4) {
                    0 => Act::CallThrough(entity, address),
                    1 if self.same_is_promised(entity) => {
                        let other = self.address(unit, entity)?;
                        Act::Same(entity, address, other)
                    }
                    _ => Act::Call(entity, call),
                })
            }
            Kind::Text { .. } => Some(Act::Text(entity, self.address(unit, entity)?)),
            Kind::Data { .. } | Kind::Bss { .. } | Kind::Common { .. }
                if self.rng.one_in(4) && self.is_written(&kind) =>
            {
                let form = self.address(unit, entity)?;
                Some(Act::Store(entity, self.offset(entity), form, self.rng.number()))
            }
            Kind::Data { align, .. } | Kind::Bss { align, .. } | Kind::Common { align, .. } => {
                let address = self.address(unit, entity)?;
                Some(match self.rng.below(5) {
                    0 if self.same_is_promised(entity) => {
                        let other = self.address(unit, entity)?;
                        Act::Same(entity, address, other)
                    }
                    1 if self.program.module(entity) == Some(self.program.units[unit].home.module())
                        && !matches!(self.program.entities[entity].kind, Kind::Alias { .. })
                        && self.program.entities[entity].definitions.len() == 1 =>
                    {
                        Act::Aligned(entity, align, address)
                    }
                    _ => Act::Load(entity, self.offset(entity), address),
                })
            }
            Kind::Holder { .. } => Some(Act::Load(entity, 0, self.address(unit, entity)?)),
            Kind::Alias { .. } => None,
        }
    }

    /// Whether a unit can ask for an older version of a symbol: only another file can.
    fn older(&self, unit: usize, entity: usize) -> bool {
        !self.is_optimized(unit)
            && self.program.module(entity) != Some(self.program.units[unit].home.module())
    }

    fn is_written(&self, kind: &Kind) -> bool {
        match kind {
            Kind::Data { section, .. } => !section.starts_with(".rodata") && section != ".data.rel.ro",
            _ => true,
        }
    }

    /// Whether all ways to form an entity's address must give the same address. For ifuncs, and for protected
    /// symbols that other modules refer to, linkers differ.
    fn same_is_promised(&self, entity: usize) -> bool {
        let chosen = matches!(self.program.kind(entity), Kind::Ifunc);
        !chosen && self.program.entities[entity].scope != Scope::Protected
    }
}

/// Whether all linkers take a unit's sections in the same order. Linkers read members of archives in
/// different orders, and place what the link compiles in different places.
fn has_order(unit: &Unit) -> bool {
    unit.home != Home::Archive && !unit.compiled.as_ref().is_some_and(|it| it.lto)
}

fn is_place(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Function { .. }
            | Kind::Ifunc
            | Kind::Data { .. }
            | Kind::Bss { .. }
            | Kind::Common { .. }
            | Kind::Text { .. }
    )
}

fn name_of(kind: &Kind) -> &'static str {
    match kind {
        Kind::Function { .. } => "function",
        Kind::Wrapper { .. } => "wrapper",
        Kind::Versioned => "versioned",
        Kind::Ifunc => "ifunc",
        Kind::Data { .. } => "data",
        Kind::Bss { .. } => "bss",
        Kind::Common { .. } => "common",
        Kind::Tls { .. } => "tls",
        Kind::Text { .. } => "text",
        Kind::Pointer { .. } => "pointer",
        Kind::Absolute { .. } => "absolute",
        Kind::Holder { .. } => "holder",
        Kind::Alias { .. } => "alias",
        Kind::Missing => "missing",
    }
}
