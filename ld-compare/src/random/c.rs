//! Writes a description as C: units that a compiler makes, so that the compiler chooses the relocations.
//!
//! Forms are expressions (`compiled`). As in assembly, comments describe the notes.

use super::assembly::{describe, words};
use super::dialect::{Dialect, Form};
use super::machines::dialect;
use super::program::{Act, Array, Definition, Entity, Kind, Program, Scope, Unit};
use std::fmt::Write;

/// The text of a unit.
pub fn unit(program: &Program, number: usize) -> String {
    let writer = Writer { program, dialect: dialect(program.machine), number, text: String::new() };
    writer.write(&program.units[number])
}

struct Writer<'a> {
    program: &'a Program,
    dialect: &'static Dialect,
    number: usize,
    text: String,
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn write(mut self, unit: &Unit) -> String {
        self.line("typedef unsigned long u64;");
        self.line("void observe(int, u64), observe_text(int, const char *);");
        self.line("void observe_range(int, const u64 *, const u64 *);");
        let number = self.number;
        let own = |entity: &Entity| entity.definitions.iter().any(|it| it.unit == number);
        for (at, entity) in self.program.entities.iter().enumerate() {
            if entity.scope != Scope::Local || own(entity) {
                self.declare(at, entity);
            }
        }
        for (at, entity) in self.program.entities.iter().enumerate() {
            for definition in entity.definitions.iter().filter(|it| it.unit == number) {
                self.define(at, entity, definition);
            }
        }
        for (set, word) in &unit.set_words {
            let name = format!("word_{word:x}");
            self.line(&format!(
                "static u64 {name} __attribute__((section(\"{set}\"), used, retain)) = {word:#x}ul;"
            ));
        }
        for (end, word) in &unit.table_words {
            let name = format!("word_{word:x}");
            self.line(&format!(
                "static u64 {name} __attribute__((section(\".table.{end}\"), used)) = {word:#x}ul;"
            ));
        }
        self.runners(unit);
        let mut body = String::new();
        for (id, act) in &unit.acts {
            let _ = writeln!(body, "// {id:x}: {}", describe(self.program, act));
            let statement = self.act(*id, act);
            let _ = writeln!(body, "    {statement}");
        }
        self.line(&format!("void unit_{}(void) {{\n{body}}}", self.number));
        self.text
    }

    fn runners(&mut self, unit: &Unit) {
        for (id, runner) in &unit.runners {
            let priority = runner.priority.map_or(String::new(), |priority| format!("({priority})"));
            let attribute = match runner.array {
                Array::Init => format!("constructor{priority}"),
                Array::Fini => format!("destructor{priority}"),
                Array::Preinit => "used".into(),
            };
            self.line(&format!(
                "static __attribute__(({attribute})) void runner_{id}(void) {{ observe({id}, 1); }}"
            ));
            if runner.array == Array::Preinit {
                let place = "__attribute__((section(\".preinit_array\"), used))";
                self.line(&format!("static void (*entry_{id})(void) {place} = runner_{id};"));
            }
        }
    }

    /// The attributes in a symbol's definition.
    fn attributes(&self, entity: &Entity, definition: &Definition, section: Option<&str>) -> String {
        let mut all: Vec<String> = Vec::new();
        if definition.weak && entity.scope != Scope::Local {
            all.push("weak".into());
        }
        match entity.scope {
            Scope::Hidden => all.push("visibility(\"hidden\")".into()),
            Scope::Protected => all.push("visibility(\"protected\")".into()),
            Scope::Local | Scope::Default => {}
        }
        if let Some(section) = section {
            let (name, at) = (&entity.name, self.dialect.at);
            let flags = if section.starts_with(".text") { "axG" } else { "aG" };
            // The compiler copies the name as it is, so the rest of the line becomes a comment.
            let comment = self.dialect.comment;
            all.push(if entity.group {
                format!("section(\"{section},\\\"{flags}\\\",{at}progbits,{name},comdat{comment}\")")
            } else {
                format!("section(\"{section}\")")
            });
        }
        format!("__attribute__(({}))", all.join(", "))
    }

    /// `static` if the symbol is local.
    fn storage(entity: &Entity) -> &'static str {
        if entity.scope == Scope::Local { "static " } else { "" }
    }

    fn declare(&mut self, at: usize, entity: &Entity) {
        let name = &entity.name;
        let storage = if entity.scope == Scope::Local { "static" } else { "extern" };
        let module = self.program.units[self.number].home.module();
        let is_own = entity.definitions.iter().any(|it| it.unit == self.number);
        // The code may know that no other file can define the symbol, or may learn it from the linker.
        let hidden = entity.scope == Scope::Hidden
            && !is_own
            && self.program.module(at) == Some(module)
            && (at + self.number).is_multiple_of(2);
        let attribute = if hidden { " __attribute__((visibility(\"hidden\")))" } else { "" };
        let declaration = match self.program.kind(at) {
            _ if self.program.is_function(at) => format!("{storage} u64 {name}(void)"),
            Kind::Tls { words, .. } => format!("{storage} __thread u64 {name}[{words}]"),
            Kind::Text { .. } if entity.scope == Scope::Local => return,
            Kind::Text { text, .. } => format!("{storage} const char {name}[{}]", text.len() + 1),
            Kind::Data { words, section, .. } => {
                format!("{storage} {}u64 {name}[{words}]", constant(section))
            }
            Kind::Bss { size, .. } | Kind::Common { size, .. } => {
                format!("{storage} u64 {name}[{}]", size / 8)
            }
            Kind::Missing => format!("extern __attribute__((weak)) u64 {name}[]"),
            _ => return,
        };
        if matches!(entity.kind, Kind::Alias { by_option: false, .. }) && is_own {
            return;
        }
        self.line(&format!("{declaration}{attribute};"));
    }

    fn define(&mut self, number: usize, entity: &Entity, definition: &Definition) {
        let (name, storage) = (&entity.name, Self::storage(entity));
        let group = |section: String| entity.group.then_some(section);
        let value = definition.value;
        match &entity.kind {
            Kind::Function { callee } => {
                let section = group(format!(".text.{name}"));
                let attributes = self.attributes(entity, definition, section.as_deref());
                let called = callee.map_or("0".into(), |(callee, form)| self.expression(form, callee, 0));
                let apart = if value.is_multiple_of(2) { "__attribute__((noinline)) " } else { "" };
                self.line(&format!(
                    "{storage}{apart}{attributes} u64 {name}(void) {{ return {called} + {value:#x}ul; }}"
                ));
            }
            Kind::Wrapper { of } => {
                let real = format!("__real_{}", self.program.entities[*of].name);
                self.line(&format!(
                    "u64 {real}(void);\nu64 {name}(void) {{ return {real}() + {value:#x}ul; }}"
                ));
            }
            Kind::Versioned => {
                for (own, version, value) in [("old", "@V1", value), ("new", "@@V2", !value)] {
                    self.line(&format!(
                        "__attribute__((symver(\"{name}{version}\"))) u64 {name}_{own}(void) {{ return {value:#x}ul; }}"
                    ));
                }
            }
            Kind::Ifunc => {
                self.line(&format!("static u64 {name}_chosen(void) {{ return {value:#x}ul; }}"));
                self.line(&format!("static void *{name}_resolver(void) {{ return {name}_chosen; }}"));
                let attributes = self.attributes(entity, definition, None);
                self.line(&format!(
                    "{storage}{attributes} u64 {name}(void) __attribute__((ifunc(\"{name}_resolver\")));"
                ));
            }
            Kind::Data { words: count, section, align } => {
                let is_plain = matches!(section.as_str(), ".data" | ".rodata");
                let section_name = (!is_plain || entity.group).then(|| apart(section, name));
                let attributes = self.attributes(entity, definition, section_name.as_deref());
                let list: Vec<String> =
                    words(definition, *count).map(|word| format!("{word:#x}ul")).collect();
                let (constant, list) = (constant(section), list.join(", "));
                self.line(&format!(
                    "{storage}{constant}{attributes} u64 {name}[{count}] __attribute__((aligned({align}))) = {{ {list} }};"
                ));
            }
            Kind::Bss { size, align } => {
                let attributes = self.attributes(entity, definition, None);
                self.line(&format!(
                    "{storage}{attributes} u64 {name}[{}] __attribute__((aligned({align}))) = {{ 0 }};",
                    size / 8
                ));
            }
            Kind::Common { size, align } => {
                let attributes = self.attributes(entity, &Definition { weak: false, ..*definition }, None);
                self.line(&format!(
                    "{attributes} u64 {name}[{}] __attribute__((aligned({align})));",
                    size / 8
                ));
            }
            Kind::Tls { words: count, zero, align } => {
                let attributes = self.attributes(entity, definition, None);
                let list: Vec<String> = words(definition, *count)
                    .map(|word| if *zero { "0".into() } else { format!("{word:#x}ul") })
                    .collect();
                self.line(&format!(
                    "{storage}__thread {attributes} u64 {name}[{count}] __attribute__((aligned({align}))) = {{ {} }};",
                    list.join(", ")
                ));
            }
            Kind::Text { .. } if entity.scope == Scope::Local => {}
            Kind::Text { text, .. } => {
                let attributes = self.attributes(entity, definition, None);
                self.line(&format!("{attributes} const char {name}[] = \"{text}\";"));
            }
            Kind::Pointer { word, target, addend, section } => {
                let place = match section.as_str() {
                    ".data" => String::new(),
                    section => format!(" __attribute__((section(\"{}\")))", apart(section, name)),
                };
                let target = self.expression(&word.form, *target, *addend);
                self.line(&format!("static volatile u64 {name}{place} = {target};"));
            }
            Kind::Alias { of, by_option: false } => {
                let attributes = self.attributes(entity, definition, None);
                let of = &self.program.entities[*of];
                let storage = if storage.is_empty() { "extern " } else { storage };
                let parentheses = if self.program.is_function(number) { "(void)" } else { "" };
                let kind =
                    if parentheses.is_empty() { format!("__typeof__({})", of.name) } else { "u64".into() };
                self.line(&format!(
                    "{storage}{attributes} {kind} {name}{parentheses} __attribute__((alias(\"{}\")));",
                    of.name
                ));
            }
            Kind::Absolute { .. } | Kind::Holder { .. } | Kind::Alias { .. } | Kind::Missing => {}
        }
    }

    /// A form with its symbol; a local text becomes a literal.
    fn expression(&self, form: &Form, entity: usize, addend: usize) -> String {
        let entity = &self.program.entities[entity];
        let name = match &entity.kind {
            Kind::Text { text, .. } if entity.scope == Scope::Local => format!("\"{text}\""),
            _ => entity.name.clone(),
        };
        let sum = if addend == 0 { String::new() } else { format!(" + {addend}") };
        form.text.replace("{t}", &name).replace("{a}", &sum)
    }

    fn act(&mut self, id: usize, act: &Act) -> String {
        let noted = match act {
            Act::Call(entity, form) => self.expression(form, *entity, 0),
            Act::CallThrough(entity, form) => {
                format!("((u64 (*)(void))({}))()", self.expression(form, *entity, 0))
            }
            Act::Load(entity, offset, form) | Act::Tls(entity, offset, form) => {
                format!("*(u64 *)({})", self.expression(form, *entity, *offset))
            }
            Act::Store(entity, offset, form, value) => {
                let place = self.expression(form, *entity, *offset);
                return format!("*(u64 *)({place}) = {value:#x}ul; observe({id}, {value:#x}ul);");
            }
            Act::CallOld(entity, _) => {
                let name = &self.program.entities[*entity].name;
                let own = format!("{name}_{id}");
                self.line(&format!("__asm__(\".symver {own}, {name}@V1\");\nextern u64 {own}(void);"));
                format!("{own}()")
            }
            Act::Text(entity, form) => {
                let text = self.expression(form, *entity, 0);
                return format!("observe_text({id}, (const char *)({text}));");
            }
            Act::Same(entity, one, other) => {
                let [one, other] = [one, other].map(|form| self.expression(form, *entity, 0));
                format!("({other}) - ({one})")
            }
            Act::Aligned(entity, align, form) => {
                let shift = 64 - align.trailing_zeros();
                format!("({}) << {shift}", self.expression(form, *entity, 0))
            }
            Act::Follow(pointer, _) => return self.follow(id, *pointer),
            Act::Missing(entity, form) => self.expression(form, *entity, 0),
            Act::Range(set, _) => {
                let hidden = "__attribute__((visibility(\"hidden\")))";
                self.line(&format!("extern u64 __start_{set}[] {hidden}, __stop_{set}[] {hidden};"));
                return format!("observe_range({id}, __start_{set}, __stop_{set});");
            }
            Act::Table(_) => {
                self.line("extern __attribute__((weak)) u64 table_start[], table_end[];");
                return format!("observe_range({id}, table_start, table_end);");
            }
            Act::TableSize(_) => {
                self.line("extern __attribute__((weak)) u64 table_size[];");
                "(u64)table_size".into()
            }
            // Fields of instructions can only be written in assembly.
            Act::Number(..) => return String::new(),
        };
        format!("observe({id}, {noted});")
    }

    /// Follows a word to its target.
    fn follow(&self, id: usize, pointer: usize) -> String {
        let entity = &self.program.entities[pointer];
        let (name, Kind::Pointer { target, .. }) = (&entity.name, &entity.kind) else { return String::new() };
        if matches!(self.program.kind(*target), Kind::Text { .. }) {
            format!("observe_text({id}, (const char *){name});")
        } else if self.program.is_function(*target) {
            format!("observe({id}, ((u64 (*)(void)){name})());")
        } else {
            format!("observe({id}, *(u64 *){name});")
        }
    }
}

/// The section of a variable. On s390x, gcc puts its own constants into `.data.rel.ro` and refuses variables
/// in the same section, so they get another one.
fn apart(section: &str, name: &str) -> String {
    if section == ".data.rel.ro" { format!("{section}.{name}") } else { section.to_owned() }
}

/// `const` for sections that the program does not write.
fn constant(section: &str) -> &'static str {
    if section.starts_with(".rodata") { "const " } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::random::generate::generate;

    /// gcc for s390x refuses a variable in the section that contains its own constants.
    #[test]
    fn no_variable_stands_in_the_section_of_the_compilers_constants() {
        let mut apart = 0;
        for seed in 1..200 {
            let program = generate(Machine::S390x, seed);
            for number in (0..program.units.len()).filter(|&number| program.units[number].compiled.is_some())
            {
                let text = unit(&program, number);
                assert!(!text.contains("section(\".data.rel.ro\")"), "seed {seed}, unit {number}:\n{text}");
                apart += text.matches("section(\".data.rel.ro.").count();
            }
        }
        assert!(apart > 0, "no variable was meant for it");
    }
}
