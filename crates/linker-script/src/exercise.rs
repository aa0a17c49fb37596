//! Runs every parser of this module on arbitrary text, for the fuzz target `script` and for a test.

use super::version::{SymbolSet, VersionMatcher};
use super::version::{parse_dynamic_list, parse_symbol_names, parse_version_script};
use super::{Sources, parse_expression, parse_mri_script, parse_script, parse_section_order};

/// The names that patterns are matched against.
const NAMES: [&[u8]; 4] =
    [b"", b"main", b"_ZN1a1bEv", b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"];

/// Reads `text` as each kind of script, and matches names against its patterns. Any result is right; only a
/// panic is a failure.
pub fn exercise(text: &[u8]) {
    // A script can include itself here, so the parsers must refuse that.
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
