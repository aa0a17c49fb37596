//! Names of the kernel's functions, as `/proc/kallsyms` lists them.
//!
//! The kernel prints its list anew for every reader, which takes longer than all else that is done for a small recording. So
//! it is read when the first name is asked for, and from the copy that `perf record` keeps of it where there is one. Such a
//! copy may be of an earlier run of the same kernel at another address; the recording tells where the kernel was.

use crate::bytes::{Bytes, Reader};
use crate::files::hexadecimal;
use crate::name::{Name, nameless};
use std::cell::OnceCell;
use std::path::PathBuf;

/// Digits of an address.
const DIGITS: usize = 16;
/// A line of the list has more bytes than this, most of them twice as many.
const LEAST_LINE: usize = 24;

/// A symbol by which a recording tells where the kernel is, and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its name: `_text` or `_stext`.
    pub name: Vec<u8>,
    /// Its address when the recording was made.
    pub address: u64,
}

/// Where the names come from.
#[derive(Default)]
enum Place {
    /// There are none.
    #[default]
    Nowhere,
    /// The kernel that runs here.
    Running,
    /// perf's copy of the list, else the kernel that runs here if it is the one.
    Recorded { build_id: Vec<u8>, reference: Option<Reference> },
}

/// The functions of a kernel; none if it cannot be known which.
#[derive(Default)]
pub struct Kernel {
    place: Place,
    list: OnceCell<List>,
}

impl Kernel {
    /// Those of the kernel that runs here; none where it does not tell.
    pub fn running() -> Self {
        Self { place: Place::Running, list: OnceCell::new() }
    }

    /// Those of the kernel with a build-id, which had a symbol at an address. Without a build-id, of the one that runs here.
    pub fn of(build_id: Option<&[u8]>, reference: Option<Reference>) -> Self {
        let Some(build_id) = build_id else { return Self::running() };
        let place = Place::Recorded { build_id: build_id.to_vec(), reference };
        Self { place, list: OnceCell::new() }
    }

    /// The name of the function at an address.
    pub(crate) fn name(&self, address: u64) -> Name {
        self.list.get_or_init(|| self.read()).name(address)
    }

    fn read(&self) -> List {
        let running = || {
            List::parse(std::fs::read("/proc/kallsyms").unwrap_or_default().into(), None).unwrap_or_default()
        };
        match &self.place {
            Place::Nowhere => List::default(),
            Place::Running => running(),
            Place::Recorded { build_id, reference } => {
                let copied = copy(build_id).and_then(|text| List::parse(text, Some(reference.as_ref()?)));
                copied.unwrap_or_else(|| match running_build_id() {
                    Some(running) if running != *build_id => List::default(),
                    _ => running(),
                })
            }
        }
    }
}

/// perf's copy of the list of the kernel with a build-id.
fn copy(build_id: &[u8]) -> Option<Bytes> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    let folder = home.join(".debug/[kernel.kallsyms]").join(hexadecimal(build_id));
    Bytes::open(&folder.join("kallsyms")).ok()
}

/// A list of functions, ascending by address.
#[derive(Default)]
struct List {
    text: Bytes,
    symbols: Vec<Symbol>,
    /// What is to be added to its addresses.
    moved: u64,
}

struct Symbol {
    address: u64,
    /// Offset of the line's rest in the text: the name, and the module in brackets.
    name: u32,
    of_module: bool,
}

impl List {
    /// Reads a list: address, type, name, module. `reference` is a symbol of the kernel that the list is to serve, which may
    /// have lain elsewhere; `None` if the list does not name it.
    fn parse(text: Bytes, reference: Option<&Reference>) -> Option<Self> {
        let mut symbols = Vec::with_capacity(text.len() / LEAST_LINE);
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &text).chain([text.len()]) {
            symbols.extend(symbol(&text[start..end], start));
            start = end + 1;
        }
        let mut moved = 0;
        if let Some(reference) = reference {
            let is_it = |symbol: &&Symbol| line(&text, symbol) == reference.name;
            moved = reference.address.wrapping_sub(symbols.iter().find(is_it)?.address);
        }
        // Modules do not move with the kernel.
        if moved != 0 {
            symbols.retain(|symbol| !symbol.of_module);
        }
        if !symbols.is_sorted_by_key(|symbol: &Symbol| symbol.address) {
            symbols.sort_by_key(|symbol| symbol.address);
        }
        // Of several names of an address the first in the alphabet is taken.
        symbols.dedup_by(|later, first| {
            let same = later.address == first.address;
            if same && line(&text, later) < line(&text, first) {
                std::mem::swap(later, first);
            }
            same
        });
        Some(Self { text, symbols, moved })
    }

    fn name(&self, address: u64) -> Name {
        let stated = address.wrapping_sub(self.moved);
        let end = self.symbols.partition_point(|symbol| symbol.address <= stated);
        let Some(symbol) = end.checked_sub(1).and_then(|at| self.symbols.get(at)) else {
            return nameless(address, "[kernel]");
        };
        let text = String::from_utf8_lossy(line(&self.text, symbol));
        let mut words = text.split_whitespace();
        let function = words.next().unwrap_or_default().to_owned();
        let file = words.next().unwrap_or("[kernel]").to_owned();
        Name { function, offset: Some(stated - symbol.address), file, place: None, inlined: false }
    }
}

/// The name of a symbol and the module it is of.
fn line<'a>(text: &'a [u8], symbol: &Symbol) -> &'a [u8] {
    let rest = text.get(symbol.name as usize..).unwrap_or_default();
    &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())]
}

/// The function that a line lists; `start` is its offset.
fn symbol(line: &[u8], start: usize) -> Option<Symbol> {
    let (digits, rest) = line.split_first_chunk::<DIGITS>()?;
    let [b' ', b't' | b'T' | b'w' | b'W', b' ', name @ ..] = rest else { return None };
    let digit = |value: u64, &byte: &u8| Some(value << 4 | u64::from((byte as char).to_digit(16)?));
    let address = digits.iter().try_fold(0, digit)?;
    let of_module = name.last() == Some(&b']');
    let known = address != 0 && !name.is_empty();
    known.then_some(Symbol { address, name: u32::try_from(start + DIGITS + 3).ok()?, of_module })
}

/// The build-id of the kernel that runs here, from the notes that it shows: sizes of name and description, type, name,
/// description, each padded to 4 bytes.
fn running_build_id() -> Option<Vec<u8>> {
    let notes = std::fs::read("/sys/kernel/notes").ok()?;
    let endian =
        if cfg!(target_endian = "big") { sframe_format::Endian::Big } else { sframe_format::Endian::Little };
    let mut reader = Reader::new(&notes, endian);
    loop {
        let (name, size, kind) = (reader.u32()? as usize, reader.u32()? as usize, reader.u32()?);
        let name = reader.take(name.next_multiple_of(4))?;
        let description = reader.take(size.next_multiple_of(4))?;
        if kind == 3 && name.starts_with(b"GNU\0") {
            return description.get(..size).map(<[u8]>::to_vec);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{List, Reference};

    const TEXT: &[u8] =
        b"0000000000000000 A zero\n0000000000000900 T _text\n0000000000000900 T _stext\n0000000000001000 T first\n\
          0000000000001000 t alias\n0000000000002000 t second\t[module]\n0000000000002100 d data\n";

    fn name(list: &List, address: u64) -> (String, Option<u64>, String) {
        let name = list.name(address);
        (name.function, name.offset, name.file)
    }

    #[test]
    fn kernel_symbols_are_found_by_address() {
        let list = List::parse(TEXT.to_vec().into(), None).unwrap();
        assert_eq!(name(&list, 0x1010), ("alias".into(), Some(0x10), "[kernel]".into()));
        assert_eq!(name(&list, 0x2100), ("second".into(), Some(0x100), "[module]".into()));
        assert_eq!(name(&list, 0x8ff).0, "0x8ff");
    }

    #[test]
    fn a_copy_serves_a_kernel_that_lies_elsewhere() {
        let reference = |name: &str, address| Reference { name: name.into(), address };
        let list = List::parse(TEXT.to_vec().into(), Some(&reference("_text", 0x10900))).unwrap();
        assert_eq!(name(&list, 0x11010), ("alias".into(), Some(0x10), "[kernel]".into()));
        assert_eq!(name(&list, 0x12100).0, "alias", "modules lie where they lie");
        assert!(List::parse(TEXT.to_vec().into(), Some(&reference("start", 0x900))).is_none());
    }
}
