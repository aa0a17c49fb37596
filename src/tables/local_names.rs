//! Different names for all local symbols (`-z unique-symbol`).
//!
//! Some tools know functions only by their names, as live patching does, and cannot tell two local symbols of
//! one name apart. With this option, every local symbol gets a suffix `.N`, as in GNU ld. N is the number of
//! earlier local symbols of the same name, in hexadecimal. Names that are unique get a suffix, too, because
//! `f.0` may be the name of another symbol.

use crate::ids::SymbolId;
use hashbrown::HashMap;
use std::borrow::Cow;

/// The numbers of local symbols. Empty without the option.
#[derive(Default, Debug)]
pub struct LocalNames(HashMap<SymbolId, u32>);

impl LocalNames {
    /// Numbers symbols. They must come in the order of the output.
    pub fn number<'n>(symbols: impl Iterator<Item = (SymbolId, &'n [u8])>) -> Self {
        let mut seen: HashMap<&[u8], u32> = HashMap::new();
        let number = |(id, name)| {
            let next = seen.entry(name).or_default();
            *next += 1;
            (id, *next - 1)
        };
        LocalNames(symbols.map(number).collect())
    }

    /// The name that a symbol has in the output.
    pub fn name<'n>(&self, id: SymbolId, name: &'n [u8]) -> Cow<'n, [u8]> {
        match self.0.get(&id) {
            Some(number) => Cow::Owned([name, format!(".{number:x}").as_bytes()].concat()),
            None => Cow::Borrowed(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_one_name_are_numbered_in_order() {
        let symbols = [(SymbolId(1), &b"f"[..]), (SymbolId(2), b"g"), (SymbolId(3), b"f")];
        let names = LocalNames::number(symbols.into_iter());
        assert_eq!(symbols.map(|(id, name)| names.name(id, name)), [&b"f.0"[..], b"g.0", b"f.1"]);
        assert_eq!(names.name(SymbolId(4), b"file.c"), &b"file.c"[..]);
        let many = LocalNames::number((0..=0x1f).map(|row| (SymbolId(row), &b"f"[..])));
        assert_eq!(many.name(SymbolId(0x1f), b"f"), &b"f.1f"[..]);
    }
}
