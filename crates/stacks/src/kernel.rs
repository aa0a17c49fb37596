//! Names of the kernel's functions, from `/proc/kallsyms`.
//!
//! The kernel makes the list for every reader, which takes longer than all other work for a small recording.
//! So this module reads the list when it needs the first name, and prefers the copy of `perf record`. Such a
//! copy may come from an earlier run of the same kernel at another address. The recording says where the
//! kernel was.

use crate::build_id::hexadecimal;
use crate::bytes::{Bytes, Reader};
use crate::name::{Name, nameless};
use std::cell::OnceCell;
use std::ops::Range;
use std::path::PathBuf;

/// The path by which recordings name the kernel.
pub(crate) const KERNEL: &str = "[kernel.kallsyms]";
/// Digits of an address.
const DIGITS: usize = 16;
/// No function has more bytes. The list gives no sizes, and nothing may follow the last function of a module.
const MAX_SIZE: u64 = 1 << 20;
/// The largest number of lines between an address and the function before it. Symbols of data may be in
/// between.
const MAX_LINES_BETWEEN: usize = 256;

/// A symbol with its address, by which a recording says where the kernel is.
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
    /// No names.
    #[default]
    Nowhere,
    /// The kernel that is running.
    Running,
    /// perf's copy of the list. Without a copy, the running kernel if it is the recorded one.
    Recorded { build_id: Vec<u8>, reference: Option<Reference> },
}

/// The functions of a kernel. There are none if the kernel is unknown.
#[derive(Default)]
pub struct Kernel {
    place: Place,
    list: OnceCell<List>,
}

impl Kernel {
    /// The functions of the running kernel. There are none if it does not reveal them.
    pub fn running() -> Self {
        Self { place: Place::Running, list: OnceCell::new() }
    }

    /// The functions of the kernel with this build-id, in which `reference` was at its address. Without a
    /// build-id, the functions of the running kernel.
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
            let read = |path: &str| Bytes::from(std::fs::read(path).unwrap_or_default());
            let list = List::new(read("/proc/kallsyms"), None).unwrap_or_default();
            List { places: read("/proc/modules"), ..list }
        };
        match &self.place {
            Place::Nowhere => List::default(),
            Place::Running => running(),
            Place::Recorded { build_id, reference } => {
                let copied = copy(build_id).and_then(|text| List::new(text, Some(reference.as_ref()?)));
                copied.unwrap_or_else(|| match running_build_id() {
                    Some(running) if running != *build_id => List::default(),
                    _ => running(),
                })
            }
        }
    }
}

/// perf's copy of the list of the kernel with this build-id.
fn copy(build_id: &[u8]) -> Option<Bytes> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    let folder = home.join(".debug/[kernel.kallsyms]").join(hexadecimal(build_id));
    Bytes::open(&folder.join("kallsyms")).ok()
}

/// The list of a kernel's symbols. Each line has an address, a type, a name, and the module in brackets.
///
/// The list is long, and a profile needs few names, so this searches lines in the text. The kernel's own
/// symbols come first, ascending by address (`kernel/kallsyms.c` relies on that, too). Those of modules
/// follow in no order.
#[derive(Default)]
struct List {
    text: Bytes,
    /// Where the lines of modules begin.
    modules_at: usize,
    modules: OnceCell<Vec<Symbol>>,
    /// Where modules are: `/proc/modules`, if the list is that of the running kernel.
    places: Bytes,
    ranges: OnceCell<Vec<Range<u64>>>,
    /// The difference from the list's addresses to those of the recording.
    moved: u64,
}

/// A function.
#[derive(Clone, Copy)]
struct Symbol {
    address: u64,
    /// Offset of its line.
    line: usize,
}

impl List {
    /// A list for a kernel in which the address of the symbol `reference` may differ from the list's. `None`:
    /// the list does not contain that symbol.
    fn new(text: Bytes, reference: Option<&Reference>) -> Option<Self> {
        let of_module = |start: usize| line(&text, start).last() == Some(&b']');
        let modules_at = first_line(&text, of_module);
        let mut moved = 0;
        if let Some(reference) = reference {
            let wanted = [b" ", &*reference.name, b"\n"].concat();
            let found = memchr::memmem::find(&text[..modules_at], &wanted)?;
            moved = reference.address.wrapping_sub(address(&text, line_start(&text, found)));
        }
        let (modules, ranges) = (OnceCell::new(), OnceCell::new());
        Some(Self { text, modules_at, modules, places: Bytes::default(), ranges, moved })
    }

    /// The addresses of each module. A line has its name, its size, how many use it, who, a state, and its
    /// address, which is 0 for readers who may not know it.
    fn ranges(&self) -> &[Range<u64>] {
        self.ranges.get_or_init(|| {
            let text = String::from_utf8_lossy(&self.places);
            let range = |line: &str| {
                let mut words = line.split_whitespace().skip(1);
                let size: u64 = words.next()?.parse().ok()?;
                let start = u64::from_str_radix(words.nth(3)?.strip_prefix("0x")?, 16).ok()?;
                (start != 0).then(|| start..start.saturating_add(size))
            };
            text.lines().filter_map(range).collect()
        })
    }

    fn name(&self, address: u64) -> Name {
        let stated = address.wrapping_sub(self.moved);
        // Modules do not move with the kernel.
        let of_module = if self.moved == 0 { self.of_module(stated) } else { None };
        let found = self.own(stated).into_iter().chain(of_module).max_by_key(|symbol| symbol.address);
        let inside = |symbol: &Symbol| {
            let module = self.ranges().iter().find(|range| range.contains(&symbol.address));
            stated - symbol.address < MAX_SIZE && module.is_none_or(|module| module.contains(&stated))
        };
        let Some(symbol) = found.filter(inside) else { return nameless(address, "[kernel]") };
        let text = String::from_utf8_lossy(name_in(&self.text, symbol.line));
        let mut words = text.split_whitespace();
        let function = words.next().unwrap_or_default().into();
        let file = words.next().unwrap_or("[kernel]").into();
        let offset = Some(stated - symbol.address);
        Name { function, known: true, offset, file, place: None, inlined: false }
    }

    /// The last function of the kernel itself that starts at or before an address. If it has several names,
    /// the first in the alphabet.
    fn own(&self, stated: u64) -> Option<Symbol> {
        let text = self.text.get(..self.modules_at)?;
        let mut at = first_line(text, |start| address(text, start) > stated);
        let mut found: Option<Symbol> = None;
        for _ in 0..MAX_LINES_BETWEEN {
            at = line_start(text, at.checked_sub(1)?);
            if let Some(symbol) = function(text, at) {
                match found {
                    Some(best) if best.address != symbol.address => break,
                    Some(best) if name_in(text, best.line) <= name_in(text, at) => {}
                    _ => found = Some(symbol),
                }
            } else if found.is_some_and(|best| best.address != address(text, at)) {
                break;
            }
            if at == 0 {
                break;
            }
        }
        found
    }

    fn of_module(&self, stated: u64) -> Option<Symbol> {
        let modules = self.modules.get_or_init(|| {
            let ends = memchr::memchr_iter(b'\n', self.text.get(self.modules_at..).unwrap_or_default());
            let starts = [self.modules_at].into_iter().chain(ends.map(|end| self.modules_at + end + 1));
            let mut symbols: Vec<Symbol> = starts.filter_map(|start| function(&self.text, start)).collect();
            symbols.sort_by_key(|symbol| symbol.address);
            symbols
        });
        let end = modules.partition_point(|symbol| symbol.address <= stated);
        end.checked_sub(1).map(|at| modules[at])
    }
}

/// The start of the line that contains the byte at an offset.
fn line_start(text: &[u8], at: usize) -> usize {
    text.get(..at).and_then(|before| memchr::memrchr(b'\n', before)).map_or(0, |end| end + 1)
}

/// The line that starts at an offset.
fn line(text: &[u8], start: usize) -> &[u8] {
    let rest = text.get(start..).unwrap_or_default();
    &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())]
}

/// The name in the line that starts at an offset, and the rest of the line.
fn name_in(text: &[u8], start: usize) -> &[u8] {
    line(text, start).get(DIGITS + 3..).unwrap_or_default()
}

/// The start of the first line for which `is_true` holds, or the end of the text. `is_true` must hold for all
/// later lines.
fn first_line(text: &[u8], is_true: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, text.len());
    while low < high {
        let middle = line_start(text, low + (high - low) / 2);
        if is_true(middle) {
            high = middle;
        } else {
            low = (middle + line(text, middle).len() + 1).min(text.len());
        }
    }
    low
}

/// The address in the line that starts at an offset.
fn address(text: &[u8], start: usize) -> u64 {
    let digits = text.get(start..).and_then(|line| line.first_chunk::<DIGITS>()).unwrap_or(&[b'0'; DIGITS]);
    let (halves, _) = digits.as_chunks();
    halves.iter().fold(0, |address, &half| address << 32 | of_digits(half))
}

/// The function in the line at an offset, if the line contains one.
fn function(text: &[u8], start: usize) -> Option<Symbol> {
    let (_, [b' ', b't' | b'T' | b'w' | b'W', b' ', _, ..]) = line(text, start).split_at_checked(DIGITS)?
    else {
        return None;
    };
    let address = address(text, start);
    (address != 0).then_some(Symbol { address, line: start })
}

/// The value of eight hexadecimal digits, computed at once. Other bytes give any value.
fn of_digits(digits: [u8; 8]) -> u64 {
    let bytes = u64::from_be_bytes(digits);
    // Letters begin at 9 more than the low half of their code.
    let mut value = (bytes & 0x0f0f_0f0f_0f0f_0f0f) + 9 * (bytes >> 6 & 0x0101_0101_0101_0101);
    value = (value | value >> 4) & 0x00ff_00ff_00ff_00ff;
    value = (value | value >> 8) & 0x0000_ffff_0000_ffff;
    (value | value >> 16) & 0xffff_ffff
}

/// The build-id of the running kernel, from its ELF notes (gABI, "Note Section"): sizes of name and
/// description, type, name, description. Name and description are padded to 4 bytes.
pub(crate) fn running_build_id() -> Option<Vec<u8>> {
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
          0000000000001000 t alias\n0000000000001100 d data\n\
          0000000000002000 t second\t[module]\n0000000000001800 t third\t[module]\n0000000000002100 d more\t[module]\n";

    fn name(list: &List, address: u64) -> (String, Option<u64>, String) {
        let name = list.name(address);
        (name.function.to_string(), name.offset, name.file.to_string())
    }

    #[test]
    fn kernel_symbols_are_found_by_address() {
        let list = List::new(TEXT.to_vec().into(), None).unwrap();
        assert_eq!(name(&list, 0x1010), ("alias".into(), Some(0x10), "[kernel]".into()));
        assert_eq!(name(&list, 0x2100), ("second".into(), Some(0x100), "[module]".into()));
        assert_eq!(name(&list, 0x1810), ("third".into(), Some(0x10), "[module]".into()));
        assert_eq!(name(&list, 0x950), ("_stext".into(), Some(0x50), "[kernel]".into()));
        assert_eq!(name(&list, 0x8ff).0, "0x8ff");
    }

    /// What is far behind the last function of a module is in no function.
    #[test]
    fn modules_have_an_end() {
        let list = List::new(TEXT.to_vec().into(), None).unwrap();
        assert_eq!(name(&list, 0x2000 + 0xf_ffff).0, "second");
        assert_eq!(name(&list, 0x2000 + 0x10_0000).0, "0x102000");
        assert_eq!(name(&list, (-128i64) as u64).0, "0xffffffffffffff80");
        let places =
            b"module 4096 1 other, Live 0x0000000000001800 (O)\nother 8 0 - Live 0x0\n".to_vec().into();
        let list = List { places, ..List::new(TEXT.to_vec().into(), None).unwrap() };
        assert_eq!(name(&list, 0x27ff).0, "second");
        assert_eq!(name(&list, 0x2800).0, "0x2800");
    }

    #[test]
    fn a_copy_serves_a_kernel_that_lies_elsewhere() {
        let reference = |name: &str, address| Reference { name: name.into(), address };
        let list = List::new(TEXT.to_vec().into(), Some(&reference("_text", 0x10900))).unwrap();
        assert_eq!(name(&list, 0x11010), ("alias".into(), Some(0x10), "[kernel]".into()));
        assert_eq!(name(&list, 0x11810), ("alias".into(), Some(0x810), "[kernel]".into()));
        assert_eq!(name(&list, 0x12100).0, "alias", "modules lie where they lie");
        assert!(List::new(TEXT.to_vec().into(), Some(&reference("start", 0x900))).is_none());
    }
}
