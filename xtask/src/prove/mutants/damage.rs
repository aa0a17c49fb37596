//! Damages a real file in its structure.
//!
//! Random bytes rarely get further than the first check of a reader. So the damage is aimed: fields of
//! headers, symbols, relocations, groups and tables get values at the limits of their range, or the values of
//! other fields; texts lose, repeat and change words. The same number makes the same damage.

/// An endless sequence of numbers from a seed (xorshift).
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..4 {
            numbers.next();
        }
        numbers
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn pick<'l, V>(&mut self, list: &'l [V]) -> &'l V {
        &list[self.below(list.len())]
    }
}

/// A field: its place and its size in bytes.
type Field = (usize, usize);

/// The fields of a file header, section header, program header, symbol, relocation and dynamic entry.
const HEADER: &[Field] = &[
    (16, 2),
    (18, 2),
    (20, 4),
    (32, 8),
    (40, 8),
    (48, 4),
    (52, 2),
    (54, 2),
    (56, 2),
    (58, 2),
    (60, 2),
    (62, 2),
];
const SECTION: &[Field] =
    &[(0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8), (56, 8)];
const SEGMENT: &[Field] = &[(0, 4), (4, 4), (8, 8), (16, 8), (32, 8), (40, 8), (48, 8)];
const SYMBOL: &[Field] = &[(0, 4), (4, 1), (5, 1), (6, 2), (8, 8), (16, 8)];
const RELOCATION: &[Field] = &[(0, 8), (8, 4), (12, 4), (16, 8)];
const DYNAMIC: &[Field] = &[(0, 8), (8, 8)];

/// The section types whose entries are known (`SHT_*`).
const SYMTAB: u64 = 2;
const RELA: u64 = 4;
const DYNAMIC_SECTION: u64 = 6;
const DYNSYM: u64 = 11;

/// A byte order.
#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

impl Order {
    /// The byte order that an ELF file names (`EI_DATA`).
    fn of(elf: &[u8]) -> Order {
        if elf.get(5) == Some(&2) { Order::Big } else { Order::Little }
    }

    /// Reads a field; 0 if the field lies beyond the end.
    fn read(self, bytes: &[u8], (at, size): Field) -> u64 {
        let field = bytes.get(at..at + size).unwrap_or_default();
        let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        match self {
            Order::Little => field.iter().rev().fold(0, add),
            Order::Big => field.iter().fold(0, add),
        }
    }

    fn write(self, bytes: &mut [u8], (at, size): Field, value: u64) {
        let Some(field) = bytes.get_mut(at..at + size) else { return };
        match self {
            Order::Little => field.copy_from_slice(&value.to_le_bytes()[..size]),
            Order::Big => field.copy_from_slice(&value.to_be_bytes()[8 - size..]),
        }
    }
}

/// A value that is wrong in an interesting way.
fn odd_value(numbers: &mut Numbers, old: u64, length: usize) -> u64 {
    let length = length as u64;
    match numbers.below(16) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => 0x7fff_ffff,
        4 => 0x8000_0000,
        5 => i64::MIN as u64,
        6 => old.wrapping_add(1),
        7 => old.wrapping_sub(1),
        8 => old.wrapping_mul(2),
        9 => old ^ 1 << numbers.below(64),
        10 => length,
        11 => length.wrapping_sub(1),
        12 => numbers.next() % 64,
        13 => numbers.next() % (length + 1),
        14 => 0xff00 + numbers.next() % 256,
        _ => numbers.next(),
    }
}

/// Damages a file of any kind.
pub fn damage(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    let rounds = 1 + numbers.below(3);
    for _ in 0..rounds {
        if bytes.starts_with(b"\x7fELF") && bytes.len() > 64 {
            elf(bytes, numbers);
        } else if bytes.starts_with(b"!<arch>\n") || bytes.starts_with(b"!<thin>\n") {
            archive(bytes, numbers);
        } else {
            text(bytes, numbers);
        }
    }
    if numbers.one_in(20) {
        bytes.truncate(numbers.below(bytes.len()));
    }
}

fn elf(bytes: &mut [u8], numbers: &mut Numbers) {
    let order = Order::of(bytes);
    let (table, count) = (order.read(bytes, (40, 8)) as usize, order.read(bytes, (60, 2)) as usize);
    let (segments, segment_count) =
        (order.read(bytes, (32, 8)) as usize, order.read(bytes, (56, 2)) as usize);
    let section = table.saturating_add(numbers.below(count) * 64);
    match numbers.below(12) {
        0 => change(bytes, order, numbers, 0, HEADER),
        1 if segment_count > 0 => {
            let segment = segments.saturating_add(numbers.below(segment_count) * 56);
            change(bytes, order, numbers, segment, SEGMENT);
        }
        2 => {
            // Two headers exchange the values of a field.
            let field = *numbers.pick(SECTION);
            let other = table.saturating_add(numbers.below(count) * 64);
            let (a, b) =
                ((section.saturating_add(field.0), field.1), (other.saturating_add(field.0), field.1));
            if a.0 < bytes.len() && b.0 < bytes.len() {
                let (first, second) = (order.read(bytes, a), order.read(bytes, b));
                order.write(bytes, a, second);
                order.write(bytes, b, first);
            }
        }
        3 | 4 => change(bytes, order, numbers, section, SECTION),
        5 => {
            let at = numbers.below(bytes.len());
            bytes[at] = numbers.next() as u8;
        }
        _ => contents(bytes, order, numbers, section),
    }
}

/// Damages an entry of a table, or a word in a section whose entries are not known.
fn contents(bytes: &mut [u8], order: Order, numbers: &mut Numbers, header: usize) {
    if header.saturating_add(64) > bytes.len() {
        return;
    }
    let kind = order.read(bytes, (header + 4, 4));
    let (offset, size) =
        (order.read(bytes, (header + 24, 8)) as usize, order.read(bytes, (header + 32, 8)) as usize);
    let size = size.min(bytes.len().saturating_sub(offset));
    if size == 0 || kind == 8 {
        return;
    }
    let entries = match kind {
        SYMTAB | DYNSYM => Some((SYMBOL, 24)),
        RELA => Some((RELOCATION, 24)),
        DYNAMIC_SECTION => Some((DYNAMIC, 16)),
        _ => None,
    };
    match entries {
        Some((fields, width)) => {
            let entry = offset + numbers.below(size / width) * width;
            change(bytes, order, numbers, entry, fields);
        }
        None => {
            // In groups, notes, hash tables, versions, frames and strings: a word of any width.
            let width = *numbers.pick(&[1, 1, 2, 4, 4, 8]);
            let word = offset + numbers.below(size) / width * width;
            change(bytes, order, numbers, word, &[(0, width)]);
        }
    }
}

/// Changes one field of a structure.
fn change(bytes: &mut [u8], order: Order, numbers: &mut Numbers, start: usize, fields: &[Field]) {
    let (offset, size) = *numbers.pick(fields);
    let Some(at) = start.checked_add(offset).filter(|at| at + size <= bytes.len()) else { return };
    let value = odd_value(numbers, order.read(bytes, (at, size)), bytes.len());
    order.write(bytes, (at, size), value);
}

/// Damages the header of an archive's member, the archive's table of symbols, or a member.
fn archive(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    let mut headers = Vec::new();
    let mut at = 8;
    while let Some(header) = bytes.get(at..at + 60) {
        headers.push(at);
        let size: usize = String::from_utf8_lossy(&header[48..58]).trim().parse().unwrap_or(0);
        let inside =
            bytes.starts_with(b"!<arch>\n") || header[0] == b'/' && (header[1] == b' ' || header[1] == b'/');
        at += 60 + if inside { size + size % 2 } else { 0 };
    }
    let Some(&header) = headers.get(numbers.below(headers.len())) else { return };
    let next = headers.iter().find(|&&other| other > header).copied().unwrap_or(bytes.len());
    match numbers.below(8) {
        0 => {
            let sizes: &[&[u8]] =
                &[b"0", b"1", b"4294967295", b"9999999999", b"-1", b"", b"18446744073", b"7"];
            let size = *numbers.pick(sizes);
            bytes[header + 48..header + 58].fill(b' ');
            bytes[header + 48..header + 48 + size.len().min(10)].copy_from_slice(&size[..size.len().min(10)]);
        }
        1 => {
            let names: &[&[u8]] = &[b"/", b"//", b"/9999999", b"/0", b"#1/20", b"/SYM64/", b"", b"../x"];
            let name = *numbers.pick(names);
            bytes[header..header + 16].fill(b' ');
            bytes[header..header + name.len()].copy_from_slice(name);
        }
        2 => {
            let at = header + numbers.below(60);
            bytes[at] = numbers.next() as u8;
        }
        3 => {
            let copy = bytes[header..next.min(bytes.len())].to_vec();
            bytes.extend(copy);
        }
        4 => drop(bytes.drain(header..next.min(bytes.len()))),
        5 if header == 8 => {
            let at = 68 + numbers.below(next.saturating_sub(68));
            let value = odd_value(numbers, Order::Big.read(bytes, (at, 4)), bytes.len());
            Order::Big.write(bytes, (at, 4), value);
        }
        _ => {
            let (start, end) = ((header + 60).min(bytes.len()), next.min(bytes.len()));
            let mut member = bytes[start..end].to_vec();
            if member.starts_with(b"\x7fELF") && member.len() > 64 {
                elf(&mut member, numbers);
                bytes[start..end].copy_from_slice(&member);
            } else if start < end {
                let at = start + numbers.below(end - start);
                bytes[at] = numbers.next() as u8;
            }
        }
    }
}

/// The words that scripts and version scripts consist of.
const WORDS: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    ";",
    ":",
    ",",
    "=",
    "+",
    "-",
    "*",
    "/",
    "?",
    "!",
    "~",
    "<<",
    ">>",
    "&",
    "|",
    "0",
    "1",
    "-1",
    "0xffffffffffffffff",
    "1<<63",
    "4K",
    ".",
    "ALIGN(1<<40)",
    "ALIGN(0)",
    "SIZEOF(.text)",
    "ADDR(.nowhere)",
    "LOADADDR(.data)",
    "ASSERT(0, \"x\")",
    "PROVIDE(x = y)",
    "PROVIDE(y = x)",
    "KEEP",
    "SORT",
    "EXCLUDE_FILE(*)",
    "/DISCARD/",
    "INSERT AFTER .text",
    "OVERLAY",
    "NOLOAD",
    "AT(0)",
    "> nowhere",
    ":nowhere",
    "*(*)",
    "*(.text .text.*)",
    "global:",
    "local:",
    "extern \"C++\"",
    "V1",
    "*",
    "[a-",
    "QUAD(x)",
    "FILL(0)",
    "INCLUDE script",
    "PHDRS",
    "MEMORY",
    "SECTIONS",
    "VERSION",
    "DATA_SEGMENT_ALIGN(1, 2)",
    "SEGMENT_START(\"text\", 0)",
    ". = . - 1",
    "\"",
    "/*",
    "\0",
    "\u{ff}",
];

fn text(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    let mut words: Vec<String> =
        String::from_utf8_lossy(bytes).split_inclusive([' ', '\n']).map(str::to_owned).collect();
    let at = numbers.below(words.len());
    match numbers.below(6) {
        _ if words.is_empty() => words.push((*numbers.pick(WORDS)).to_owned()),
        0 => drop(words.remove(at)),
        1 => words.insert(at, words[at].clone()),
        2 => {
            let other = numbers.below(words.len());
            words.swap(at, other);
        }
        3 => words[at] = format!("{} ", numbers.pick(WORDS)),
        4 => {
            let end = (at + numbers.below(20)).min(words.len());
            let copy = words[at..end].to_vec();
            let place = numbers.below(words.len());
            words.splice(place..place, copy);
        }
        _ => words.insert(at, format!(" {} ", numbers.pick(WORDS))),
    }
    *bytes = words.concat().into_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_written_in_the_file_s_byte_order() {
        let mut bytes = [1, 2, 3, 4];
        assert_eq!([Order::Little, Order::Big].map(|order| order.read(&bytes, (1, 2))), [0x302, 0x203]);
        Order::Little.write(&mut bytes, (0, 2), 0xabcd);
        Order::Big.write(&mut bytes, (2, 2), 0xabcd);
        assert_eq!(bytes, [0xcd, 0xab, 0xab, 0xcd]);
        assert_eq!(Order::Big.read(&bytes, (3, 2)), 0);
    }

    #[test]
    fn a_seed_makes_the_same_damage_again_and_any_bytes_can_be_damaged() {
        let archive =
            [&b"!<arch>\n"[..], b"a.o/            0           0     0     644     4         `\nabcd"]
                .concat();
        let object = |order| {
            let mut object = b"\x7fELF\x02".to_vec();
            object.extend([order, 1]);
            object.resize(200, 0);
            object
        };
        for original in
            [archive, object(1), object(2), b"SECTIONS { .text : { *(.text) } }".to_vec(), Vec::new()]
        {
            let mut kinds = std::collections::BTreeSet::new();
            for seed in 0..2000 {
                let damaged = || {
                    let mut bytes = original.clone();
                    damage(&mut bytes, &mut Numbers::new(seed));
                    bytes
                };
                assert!(damaged() == damaged(), "{seed}");
                kinds.insert(damaged());
            }
            assert!(kinds.len() > 100, "{}", kinds.len());
        }
    }
}
