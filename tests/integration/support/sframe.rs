//! A minimal reader of SFrame V1, V2 and V3, independent of the product's own.
//!
//! It reads the facts that tests check: where blobs start, and which function each row describes.

use super::elf::{Elf, Section, half, quad, word};

/// `SFRAME_F_FDE_SORTED`.
pub const SORTED: u8 = 1;
/// `SFRAME_F_FDE_FUNC_START_PCREL`.
pub const PCREL: u8 = 4;
const HEADER: usize = 28;

/// Objects of the same two sources, `demo` and `main`, from several assemblers: the folder of the fixtures
/// and the machine.
pub const ASSEMBLED: [(&str, &str); 8] = [
    ("v1-gas2.40", "x86_64"),
    ("v2-gas2.44", "x86_64"),
    ("v2e1-gas2.45", "x86_64"),
    ("v2e1-gas2.45", "aarch64"),
    ("v2e1-gas2.45", "s390x"),
    ("v3-gas2.47", "x86_64"),
    ("v3-gas2.47", "aarch64"),
    ("v3-gas2.47", "s390x"),
];

/// A header with its body.
#[derive(Debug, Clone)]
pub struct Blob {
    /// Offset of the header in its section.
    pub offset: usize,
    /// Size in bytes, from the header to the end of the frame rows.
    pub size: usize,
    pub version: u8,
    pub flags: u8,
    /// Number of frame rows according to the header.
    pub frame_rows: u32,
    pub rows: Vec<Row>,
}

/// The index entry of one function.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Offset of the start field in its section.
    pub field: usize,
    /// The address that the start field decodes to, by the rules of the blob's version and flags.
    pub start: u64,
    /// Function size in bytes.
    pub size: u32,
    /// Number of frame rows.
    pub frame_rows: u32,
}

impl Blob {
    /// The row of the function at an address.
    pub fn row_at(&self, address: u64) -> Option<&Row> {
        self.rows.iter().find(|r| r.start == address && r.size != 0)
    }
}

/// Reads the blob at an offset in a section that is loaded at `section.addr`.
pub fn blob_at(section: &Section, offset: usize) -> Option<Blob> {
    let data = &section.data.from(offset)?;
    if data.len() < HEADER || half(data, 0) != 0xdee2 || !(1..=3).contains(&data[2]) {
        return None;
    }
    let (version, flags) = (data[2], data[3]);
    let entry = [0, 17, 20, 16][version as usize];
    let base = HEADER + data[7] as usize;
    let count = word(data, 8) as usize;
    let first = base + word(data, 20) as usize;
    let area = base + word(data, 24) as usize;
    let size = area + word(data, 16) as usize;
    let mut rows = Vec::new();
    for index in 0..count {
        let field = first + index * entry;
        let (value, length) = match version {
            3 => (quad(data, field) as i64, word(data, field + 8)),
            _ => (i64::from(word(data, field) as i32), word(data, field + 4)),
        };
        let origin = if flags & PCREL != 0 { field } else { 0 };
        let start = section.addr.wrapping_add((offset + origin) as u64).wrapping_add_signed(value);
        let frame_rows = match version {
            3 => u32::from(half(data, area + word(data, field + 12) as usize)),
            _ => word(data, field + 12),
        };
        rows.push(Row { field: offset + field, start, size: length, frame_rows });
    }
    Some(Blob { offset, size, version, flags, frame_rows: word(data, 12), rows })
}

/// All blobs of a section. Each starts at the next multiple of 8 after the one before, and only zeros may be
/// between them.
#[track_caller]
pub fn blobs(section: &Section) -> Vec<Blob> {
    let (mut at, mut all) = (0, Vec::new());
    while at < section.data.len() {
        let blob = blob_at(section, at).unwrap_or_else(|| {
            panic!("no SFrame header at {}+{at:#x}: {:02x?}", section.name, &section.data[at..])
        });
        let end = at + blob.size;
        at = end.next_multiple_of(8).min(section.data.len());
        assert!(section.data[end..at].iter().all(|&b| b == 0), "only zeros between blobs");
        all.push(blob);
    }
    all
}

/// The blobs of the output's `.sframe`.
#[track_caller]
pub fn output_blobs(elf: &Elf) -> Vec<Blob> {
    blobs(elf.section(".sframe"))
}

/// Assembly of a V3 blob with one row for `symbol`, in the section that `directive` opens.
pub fn v3_source(directive: &str, symbol: &str, size: &str) -> String {
    format!(
        "{directive}\n.balign 8\n.2byte 0xdee2\n.byte 3,4,3,0,0xf8,0\n.4byte 1,2,11,0,16\n\
         .8byte {symbol}-.\n.4byte {size},0\n.2byte 2\n.byte 0,0,0,0,3,8,1,3,16\n"
    )
}

/// Assembly of a function in `.text.NAME` with its own V3 `.sframe`, which is linked to it by
/// `SHF_LINK_ORDER`, and in its COMDAT group if `comdat` is set.
pub fn per_text_function(name: &str, body: &str, comdat: bool) -> String {
    let (text, frames) = if comdat {
        (
            format!(".section .text.{name},\"axG\",@progbits,{name},comdat\n.weak {name}"),
            format!(
                ".section .sframe,\"aGo\",@0x6ffffff4,.text.{name},{name},comdat,unique,{}",
                unique(name)
            ),
        )
    } else {
        (
            format!(".section .text.{name},\"ax\",@progbits\n.globl {name}"),
            format!(".section .sframe,\"ao\",@0x6ffffff4,.text.{name},unique,{}", unique(name)),
        )
    };
    let frames = v3_source(&frames, &format!(".L{name}_begin"), &format!(".L{name}_end-.L{name}_begin"));
    format!(
        "{text}\n.type {name},@function\n{name}:\n.L{name}_begin:\n{body}\n.L{name}_end:\n.size {name},.-{name}\n{frames}\n"
    )
}

/// A unique number for each name, to tell sections with the same name apart.
fn unique(name: &str) -> u32 {
    name.bytes().fold(7, |n, b| (n * 31 + u32::from(b)) % 1_000_003)
}
