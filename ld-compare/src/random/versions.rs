//! Makes version scripts for the first library, in several forms. A symbol that another file may refer to
//! stays exported. A symbol that only the library itself refers to may become local.

use super::program::{Home, Kind, Program, Scope};
use super::rng::Rng;

/// The version script of a program. It has at least the nodes `V1` and `V2`, because versioned functions need
/// both.
pub fn script(rng: &mut Rng, program: &Program) -> String {
    let names = exported(program);
    let spare = |name: &&String| name.starts_with(MANGLED);
    let exact = names.iter().find(spare).map_or(String::new(), |name| format!("\"{}\"; ", demangled(name)));
    match rng.below(5) {
        0 => "V1 { global: *; };\nV2 { } V1;\n".into(),
        1 => "V1 { local: only_here*; };\nV2 { global: *; } V1;\nV3 { } V2;\n".into(),
        2 => named(rng, &names),
        3 => globs(rng),
        _ => format!(
            "V0 {{ global: extern \"C\" {{ {} }}; }};\nV1 {{ global: extern \"C++\" {{ {exact}spare::* }}; [a-u]*; }} V0;\nV2 {{ global: v*; __st*; local: *; }} V1;\n",
            names
                .iter()
                .filter(|name| !spare(name))
                .take(2)
                .map(|name| format!("{name};"))
                .collect::<Vec<_>>()
                .join(" ")
        ),
    }
}

/// Functions that name their versions themselves, as a pattern of the node that makes the rest local. GNU ld
/// and lld hide them otherwise by `local: *`, gold and mold do not.
const VERSIONED: &str = "versioned_*;";

/// The start of mangled names.
const MANGLED: &str = "_ZN5spare";

/// The name that C++ gives to a function; demanglers show `spare::NAME()`.
pub fn mangled(name: &str) -> String {
    format!("{MANGLED}{}{name}Ev", name.len())
}

/// What demanglers show for a mangled name.
fn demangled(name: &str) -> String {
    let name = name.strip_prefix(MANGLED).and_then(|rest| rest.strip_suffix("Ev")).unwrap_or(name);
    format!("spare::{}()", name.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// The symbols that other files may need.
fn exported(program: &Program) -> Vec<String> {
    let in_library = |unit: usize| program.units[unit].home == Home::Library(0);
    let entities = program.entities.iter().filter(|entity| {
        let versioned = matches!(entity.kind, Kind::Versioned);
        entity.scope == Scope::Default
            && !versioned
            && entity.definitions.iter().any(|it| in_library(it.unit))
    });
    let units = (0..program.units.len()).filter(|&unit| in_library(unit)).map(|unit| format!("unit_{unit}"));
    units.chain(entities.map(|entity| entity.name.clone())).collect()
}

/// Names every symbol, in one of three nodes.
fn named(rng: &mut Rng, names: &[String]) -> String {
    // Linkers treat sets with local symbols differently. And a library without any symbol of the C library
    // lacks the version that packed relocations need.
    let mut nodes = [format!(" __start_*; __stop_*; uses_*; {VERSIONED}"), String::new(), String::new()];
    names.iter().for_each(|name| nodes[rng.below(3)].push_str(&format!(" {name};")));
    // A versioned function names its nodes itself.
    let [one, two, three] = nodes.map(|node| if node.is_empty() { node } else { format!(" global:{node}") });
    format!("V1 {{{one} local: *; }};\nV2 {{{two} }} V1;\nV3 {{{three} }} V2;\n")
}

/// Uses globs of each form.
fn globs(rng: &mut Rng) -> String {
    let order = rng.one_in(2);
    let (one, two) = if order { ("V1", "V2") } else { ("V2", "V1") };
    let (first, second) = if order { ("", " V1") } else { (" V1", "") };
    let nodes = [
        format!("{one} {{ global: f*_*; [!f]*_[0-4]*; __st*; uses_*; {VERSIONED} local: *; }}{first};\n"),
        format!("{two} {{ global: ?*_[5-9]*; }}{second};\n"),
    ];
    // A node must be named before the nodes that inherit from it.
    if order { nodes.concat() } else { nodes.into_iter().rev().collect() }
}
