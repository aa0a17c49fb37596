//! Runs every parser of this module over arbitrary text, for the fuzz target `script` and its test.

use super::version::{SymbolSet, VersionMatcher};
use super::version::{parse_dynamic_list, parse_symbol_names, parse_version_script};
use super::{Sources, parse_expression, parse_mri_script, parse_script, parse_section_order};

/// Names that patterns are held against.
const NAMES: [&[u8]; 4] =
    [b"", b"main", b"_ZN1a1bEv", b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"];

/// Reads `text` as each kind of script, and holds names against its patterns. Any result will do, as long as nothing panics.
pub fn exercise(text: &[u8]) {
    // A script that includes itself, until parsers refuse.
    let include = &mut |name: &str, _: &str| match name {
        "fuzz" => Ok((name.to_owned(), text.to_vec())),
        _ => Err("no such file".to_owned()),
    };
    let _ = parse_script(&mut Sources::new(), "fuzz", text, include);
    let _ = parse_mri_script(&mut Sources::new(), "fuzz", text, include);
    let _ = parse_section_order(&mut Sources::new(), "fuzz", text);
    let _ = parse_expression(&mut Sources::new(), "fuzz", text);
    if let Ok(script) = parse_version_script(&mut Sources::new(), "fuzz", text) {
        let matcher = VersionMatcher::new(&script);
        for name in NAMES {
            let _ = (matcher.find(name), matcher.names_as_local(name));
        }
    }
    for parse in [parse_dynamic_list, parse_symbol_names] {
        if let Ok(patterns) = parse(&mut Sources::new(), "fuzz", text) {
            let set = SymbolSet::new(&patterns);
            let _ = NAMES.map(|name| set.contains(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::script::builtin::Layout;

    /// Whatever the fuzzer found worth keeping.
    #[test]
    fn kept_scripts_are_read_or_refused() {
        for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/script")).unwrap() {
            super::exercise(&std::fs::read(entry.unwrap().path()).unwrap());
        }
    }

    /// The built-in scripts, and one of versions, with some of their bytes replaced by others of theirs.
    #[test]
    fn damaged_scripts_are_read_or_refused() {
        let versions = "V1 { global: f; \"a b\"; extern \"C++\" { a::b*; \"a::b()\"; }; local: *; };\nV2 { [a-z]?*; } V1;\n";
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for text in Layout::ALL.map(Layout::text).into_iter().chain([versions, "a = b + (c ? 1K : ~2);"]) {
            super::exercise(text.as_bytes());
            for _ in 0..200 {
                let mut damaged = text.as_bytes().to_vec();
                for _ in 0..3 {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let (at, from) =
                        ((seed >> 33) as usize % damaged.len(), (seed >> 13) as usize % damaged.len());
                    damaged[at] = damaged[from];
                }
                super::exercise(&damaged);
            }
        }
    }
}
