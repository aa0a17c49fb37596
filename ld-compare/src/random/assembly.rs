//! Writes a description as assembly: one text for each unit, and one for the function that calls all of them.

use super::dialect::{Dialect, Form, Leads};
use super::frames;
use super::machines::dialect;
use super::program::{Act, Array, Definition, Entity, Home, Kind, Program, Scope, Unit};
use crate::machine::Machine;
use std::collections::BTreeSet;

/// The text of a unit.
pub fn unit(program: &Program, number: usize) -> String {
    Writer::new(program).unit(number)
}

/// The text of `run_units`, which calls every unit.
pub fn main(program: &Program) -> String {
    let mut writer = Writer::new(program);
    writer.function_start("run_units", ".text", true, "");
    writer.line(writer.dialect.enter);
    for unit in 0..program.units.len() {
        writer.form(&writer.dialect.calls[0], &format!("unit_{unit}"), 0);
    }
    writer.line(writer.dialect.leave);
    writer.function_end("run_units");
    writer.end()
}

struct Writer<'a> {
    program: &'a Program,
    dialect: &'static Dialect,
    text: String,
    labels: usize,
    /// Symbols with weak references.
    weak: BTreeSet<String>,
    /// Whether each function gets its own `.sframe`.
    writes_frames: bool,
    /// Number of `.sframe` sections so far.
    frames: usize,
}

impl<'a> Writer<'a> {
    fn new(program: &'a Program) -> Self {
        let dialect = dialect(program.machine);
        Writer {
            program,
            dialect,
            text: String::new(),
            labels: 0,
            weak: BTreeSet::new(),
            writes_frames: false,
            frames: 0,
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn form(&mut self, form: &Form, symbol: &str, addend: usize) {
        self.labels += 1;
        let sum = if addend == 0 { String::new() } else { format!("+{addend}") };
        let text = form.text.replace("{t}", symbol).replace("{a}", &sum);
        let text = text.replace("{n}", &addend.to_string()).replace("{l}", &self.labels.to_string());
        self.line(&text);
    }

    fn numbered(&mut self, template: &str, number: usize) {
        let text = template.replace("{i}", &number.to_string());
        self.line(&text);
    }

    fn section(&mut self, name: &str, flags: &str, kind: &str, more: &str) {
        let at = self.dialect.at;
        self.line(&format!("\t.section {name},\"{flags}\",{at}{kind}{more}"));
    }

    fn function_start(&mut self, name: &str, section: &str, global: bool, group: &str) {
        let (flags, more) =
            if group.is_empty() { ("ax", String::new()) } else { ("axG", format!(",{group},comdat")) };
        self.section(section, flags, "progbits", &more);
        let align = if self.program.machine == Machine::X86_64 { 1 } else { 16 };
        let at = self.dialect.at;
        self.line(&format!("\t.balign {align}\n\t.type {name}, {at}function"));
        if global {
            self.line(&format!("\t.globl {name}"));
        }
        self.line(&format!("{name}:\t.cfi_startproc"));
    }

    fn function_end(&mut self, name: &str) {
        self.line(&format!("\t.cfi_endproc\n\t.size {name}, .-{name}"));
    }

    /// Ends a function that calls nothing, and writes its `.sframe`.
    fn leaf_end(&mut self, name: &str, group: bool) {
        self.function_end(name);
        self.line(&format!(".Lend_{name}:\n\t.set .Lbegin_{name}, {name}"));
        let text = frames::section(name, group, self.program.machine.dialect());
        self.frames += 1;
        self.line(&text.replace("{u}", &self.frames.to_string()));
    }

    fn unit(mut self, number: usize) -> String {
        let unit = &self.program.units[number];
        self.writes_frames = self.program.writes_frames(number);
        for (at, entity) in self.program.entities.iter().enumerate() {
            for definition in entity.definitions.iter().filter(|it| it.unit == number) {
                self.entity(at, entity, definition, unit);
            }
        }
        for (id, runner) in &unit.runners {
            let name = format!("runner_{id}");
            self.function_start(&name, ".text", false, "");
            self.line(self.dialect.enter);
            self.line(&(self.dialect.constant)(1));
            self.numbered(self.dialect.observe, *id);
            self.line(self.dialect.leave);
            self.function_end(&name);
            let array = match runner.array {
                Array::Preinit => "preinit_array",
                Array::Init => "init_array",
                Array::Fini => "fini_array",
            };
            let suffix = runner.priority.map_or(String::new(), |priority| format!(".{priority:05}"));
            self.section(&format!(".{array}{suffix}"), "aw", array, "");
            self.line(&format!("\t.balign 8\n\t.quad {name}"));
        }
        for (set, word) in &unit.set_words {
            self.section(set, "awR", "progbits", "");
            self.line(&format!("\t.balign 8\n\t.quad {word:#x}"));
        }
        for (end, word) in &unit.table_words {
            self.section(&format!(".table.{end}"), "aw", "progbits", "");
            self.line(&format!("\t.balign 8\n\t.quad {word:#x}"));
        }
        let name = format!("unit_{number}");
        let section = if unit.function_sections { format!(".text.{name}") } else { ".text".into() };
        self.function_start(&name, &section, true, "");
        self.line(self.dialect.enter);
        for (id, act) in &unit.acts {
            self.act(*id, act);
        }
        self.line(self.dialect.leave);
        self.function_end(&name);
        self.end()
    }

    fn end(mut self) -> String {
        for name in std::mem::take(&mut self.weak) {
            self.line(&format!("\t.weak {name}"));
        }
        self.section(".note.GNU-stack", "", "progbits", "");
        self.text
    }

    /// Writes the binding and the visibility of a symbol.
    fn symbol(&mut self, entity: &Entity, weak: bool) {
        let name = &entity.name;
        if entity.scope != Scope::Local {
            self.line(&format!("\t.{} {name}", if weak { "weak" } else { "globl" }));
        }
        match entity.scope {
            Scope::Hidden => self.line(&format!("\t.hidden {name}")),
            Scope::Protected => self.line(&format!("\t.protected {name}")),
            Scope::Local | Scope::Default => {}
        }
    }

    fn object(&mut self, entity: &Entity, definition: &Definition, kind: &str, align: usize, size: usize) {
        let (name, at) = (&entity.name, self.dialect.at);
        self.symbol(entity, definition.weak);
        self.line(&format!("\t.balign {align}\n\t.type {name}, {at}{kind}\n\t.size {name}, {size}\n{name}:"));
    }

    fn entity(&mut self, number: usize, entity: &Entity, definition: &Definition, unit: &Unit) {
        let name = &entity.name;
        let group = if entity.group { name.as_str() } else { "" };
        let (grouped, group_flag) =
            if entity.group { (format!(",{name},comdat"), "G") } else { (String::new(), "") };
        match &entity.kind {
            Kind::Function { callee } => {
                let own = unit.function_sections || entity.group;
                let section = if own { format!(".text.{name}") } else { ".text".into() };
                self.symbol(entity, definition.weak);
                self.function_start(name, &section, false, group);
                match callee {
                    None => {
                        self.line(&(self.dialect.constant)(definition.value));
                        self.line(self.dialect.ret);
                        if self.writes_frames {
                            return self.leaf_end(name, entity.group);
                        }
                    }
                    Some((callee, form)) => {
                        self.line(self.dialect.enter);
                        let callee = self.program.entities[*callee].name.clone();
                        self.form(form, &callee, 0);
                        self.line(self.dialect.save);
                        self.line(&(self.dialect.constant)(definition.value));
                        self.line(self.dialect.add);
                        self.line(self.dialect.leave);
                    }
                }
                self.function_end(name);
            }
            Kind::Wrapper { of } => {
                self.symbol(entity, false);
                self.function_start(name, ".text", false, "");
                self.line(self.dialect.enter);
                let real = format!("__real_{}", self.program.entities[*of].name);
                self.form(&self.dialect.calls[0], &real, 0);
                self.line(self.dialect.save);
                self.line(&(self.dialect.constant)(definition.value));
                self.line(self.dialect.add);
                self.line(self.dialect.leave);
                self.function_end(name);
            }
            Kind::Versioned => {
                for (own, version, value) in
                    [("old", "@V1", definition.value), ("new", "@@V2", !definition.value)]
                {
                    let own = format!("{name}_{own}");
                    self.line(&format!("\t.symver {own}, {name}{version}"));
                    self.function_start(&own, ".text", true, "");
                    self.line(&(self.dialect.constant)(value));
                    self.line(self.dialect.ret);
                    self.function_end(&own);
                }
            }
            Kind::Ifunc => self.ifunc(entity, definition),
            Kind::Data { words, section, align } => {
                let flags = if section.starts_with(".rodata") { "a" } else { "aw" };
                self.section(section, &format!("{flags}{group_flag}"), "progbits", &grouped);
                self.object(entity, definition, "object", *align, words * 8);
                for word in self::words(definition, *words) {
                    self.line(&format!("\t.quad {word:#x}"));
                }
            }
            Kind::Bss { size, align } => {
                self.section(".bss", "aw", "nobits", "");
                self.object(entity, definition, "object", *align, *size);
                self.line(&format!("\t.zero {size}"));
            }
            Kind::Common { size, align } => {
                self.line(&format!("\t.comm {name}, {size}, {align}"));
                if matches!(entity.scope, Scope::Hidden | Scope::Protected) {
                    self.symbol(entity, false);
                }
            }
            Kind::Tls { words, zero, align } => {
                let (section, kind) = if *zero { (".tbss", "nobits") } else { (".tdata", "progbits") };
                self.section(section, "awT", kind, "");
                self.object(entity, definition, "tls_object", *align, words * 8);
                for word in self::words(definition, *words) {
                    self.line(&format!("\t.quad {:#x}", if *zero { 0 } else { word }));
                }
            }
            Kind::Text { text, section } => {
                // Instructions of s390x can only form even addresses.
                let odd = self.program.machine == Machine::S390x && section.ends_with(".1");
                let section = if odd { ".rodata.str1.2" } else { section };
                self.section(section, "aMS", "progbits", ",1");
                let align = section.rsplit('.').next().unwrap_or("1").to_owned();
                self.line(&format!("\t.balign {align}"));
                self.symbol(entity, definition.weak);
                self.line(&format!("{name}:\t.asciz \"{text}\""));
            }
            Kind::Pointer { word, target, addend, section } => {
                self.section(section, "aw", "progbits", "");
                self.line("\t.balign 8");
                if word.form.name.ends_with("unaligned") {
                    self.line(self.dialect.unaligned);
                }
                self.line(&format!("{name}:"));
                let target = self.program.entities[*target].name.clone();
                self.form(&word.form, &target, *addend);
            }
            Kind::Absolute { value } => {
                self.symbol(entity, definition.weak);
                self.line(&format!("\t.set {name}, {value}"));
            }
            Kind::Holder { field, target } => {
                self.section(".data.holders", "aw", "progbits", "");
                self.line(&format!("\t.balign 8\n{name}:"));
                let target = self.program.entities[*target].name.clone();
                self.form(field, &target, 0);
            }
            Kind::Alias { by_option: true, .. } | Kind::Missing => {}
            Kind::Alias { of, .. } => {
                let of = &self.program.entities[*of];
                let (kind, at) =
                    (if self.program.is_function(number) { "function" } else { "object" }, self.dialect.at);
                self.symbol(entity, definition.weak);
                self.line(&format!("\t.set {name}, {}\n\t.type {name}, {at}{kind}", of.name));
            }
        }
    }

    fn ifunc(&mut self, entity: &Entity, definition: &Definition) {
        let (name, at) = (&entity.name, self.dialect.at);
        let chosen = format!("{name}_chosen");
        self.function_start(&chosen, ".text", false, "");
        self.line(&(self.dialect.constant)(definition.value));
        self.line(self.dialect.ret);
        self.function_end(&chosen);
        self.symbol(entity, definition.weak);
        self.line(&format!(
            "\t.balign 8\n\t.type {name}, {at}gnu_indirect_function\n{name}:\t.cfi_startproc"
        ));
        self.form(&self.dialect.addresses[0], &chosen, 0);
        self.line(self.dialect.ret);
        self.function_end(name);
    }

    fn act(&mut self, id: usize, act: &Act) {
        let dialect = self.dialect;
        let entities = &self.program.entities;
        self.line(&format!("{} {id:x}: {}", dialect.comment, describe(self.program, act)));
        match act {
            Act::Call(entity, form) => self.form(form, &entities[*entity].name, 0),
            Act::CallThrough(entity, form) => {
                self.form(form, &entities[*entity].name, 0);
                self.line(dialect.call_a);
            }
            Act::Load(entity, offset, form) | Act::Tls(entity, offset, form) => {
                self.form(form, &entities[*entity].name, *offset);
                self.line(dialect.load);
            }
            Act::Store(entity, offset, form, value) => {
                self.form(form, &entities[*entity].name, *offset);
                self.line(dialect.save);
                self.line(&(dialect.constant)(*value));
                self.line(dialect.store);
            }
            Act::CallOld(entity, form) => {
                let name = &entities[*entity].name;
                let own = format!("{name}_{id}");
                self.line(&format!("\t.symver {own}, {name}@V1"));
                self.form(form, &own, 0);
            }
            Act::Text(entity, form) => {
                self.form(form, &entities[*entity].name, 0);
                return self.numbered(dialect.observe_text, id);
            }
            Act::Same(entity, one, other) => {
                self.form(one, &entities[*entity].name, 0);
                self.line(dialect.save);
                self.form(other, &entities[*entity].name, 0);
                self.line(dialect.subtract);
            }
            Act::Aligned(entity, align, form) => {
                self.form(form, &entities[*entity].name, 0);
                self.numbered(dialect.shift, 64 - align.trailing_zeros() as usize);
            }
            Act::Follow(pointer, form) => {
                if self.follow(*pointer, form) {
                    return self.numbered(dialect.observe_text, id);
                }
            }
            Act::Number(entity, field) => self.form(&field.form, &entities[*entity].name, 0),
            Act::Missing(entity, form) => {
                self.weak_address(&entities[*entity].name, form);
            }
            Act::Table(form) => {
                self.weak_address("table_start", form);
                self.line(dialect.save);
                self.weak_address("table_end", form);
                return self.numbered(dialect.observe_range, id);
            }
            Act::TableSize(form) => self.weak_address("table_size", form),
            Act::Range(set, form) => {
                self.line(&format!("\t.hidden __start_{set}\n\t.hidden __stop_{set}"));
                self.form(form, &format!("__start_{set}"), 0);
                self.line(dialect.save);
                self.form(form, &format!("__stop_{set}"), 0);
                return self.numbered(dialect.observe_range, id);
            }
        }
        self.numbered(dialect.observe, id);
    }

    /// Makes `A` the address of a symbol that may be missing.
    fn weak_address(&mut self, name: &str, form: &Form) {
        self.weak.insert(name.to_owned());
        self.form(form, name, 0);
    }

    /// Follows a word, and reads or calls its target. Returns whether the result is a text.
    fn follow(&mut self, pointer: usize, form: &Form) -> bool {
        let dialect = self.dialect;
        let entity = &self.program.entities[pointer];
        let Kind::Pointer { word, target, .. } = &entity.kind else { return false };
        if word.leads == Leads::GotRelative {
            self.line(dialect.got);
        }
        self.form(form, &entity.name, 0);
        if matches!(word.leads, Leads::Relative | Leads::ShortRelative | Leads::Slot) {
            self.line(dialect.save);
        }
        self.line(match word.leads {
            Leads::Address | Leads::Relative | Leads::GotRelative => dialect.load,
            Leads::Short => dialect.load_short,
            Leads::ShortRelative | Leads::Slot => dialect.load_signed,
        });
        if !matches!(word.leads, Leads::Address | Leads::Short) {
            self.line(dialect.add);
        }
        if word.leads == Leads::Slot {
            self.line(dialect.load);
        }
        if matches!(self.program.kind(*target), Kind::Text { .. }) {
            return true;
        }
        self.line(if self.program.is_function(*target) { dialect.call_a } else { dialect.load });
        false
    }
}

/// The words of a data definition.
pub fn words(definition: &Definition, count: usize) -> impl Iterator<Item = u64> + use<> {
    let value = definition.value;
    (0..count).map(move |at| value.rotate_left(at as u32 * 7).wrapping_add(at as u64))
}

/// Describes an observation in words.
pub fn describe(program: &Program, act: &Act) -> String {
    let name = |entity: &usize| {
        let entity = &program.entities[*entity];
        let homes: Vec<String> = entity
            .definitions
            .iter()
            .map(|it| match program.units[it.unit].home {
                Home::Program => format!("unit {}", it.unit),
                Home::Archive => format!("unit {} in the archive", it.unit),
                Home::Library(number) => format!("unit {} in library {number}", it.unit),
            })
            .collect();
        format!("{} ({:?}, {})", entity.name, entity.scope, homes.join(", "))
    };
    match act {
        Act::Call(entity, form) => format!("call {} by {}", name(entity), form.name),
        Act::CallThrough(entity, form) => {
            format!("call {} at its address by {}", name(entity), form.name)
        }
        Act::Load(entity, offset, form) => format!("load {}+{offset} by {}", name(entity), form.name),
        Act::Tls(entity, offset, form) => format!("load {}+{offset} by {}", name(entity), form.name),
        Act::Store(entity, offset, form, _) => {
            format!("store {}+{offset} by {}", name(entity), form.name)
        }
        Act::CallOld(entity, form) => format!("call {} of V1 by {}", name(entity), form.name),
        Act::Text(entity, form) => format!("text {} by {}", name(entity), form.name),
        Act::Same(entity, one, other) => {
            format!("{}: {} against {}", name(entity), one.name, other.name)
        }
        Act::Aligned(entity, align, form) => {
            format!("{} is aligned to {align}, by {}", name(entity), form.name)
        }
        Act::Follow(entity, form) => match &program.entities[*entity].kind {
            Kind::Pointer { word, target, addend, .. } => {
                format!(
                    "what {} leads to, {}+{addend} by {}; reached by {}",
                    name(entity),
                    name(target),
                    word.form.name,
                    form.name
                )
            }
            _ => name(entity),
        },
        Act::Number(entity, field) => format!("{} in a field of {}", name(entity), field.form.name),
        Act::Missing(entity, form) => format!("{} is missing, by {}", name(entity), form.name),
        Act::Range(set, form) => format!("the words of {set}, by {}", form.name),
        Act::Table(form) => format!("the words of the script's table, by {}", form.name),
        Act::TableSize(form) => format!("the size of the script's table, by {}", form.name),
    }
}
