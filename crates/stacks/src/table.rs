//! Compact tables of files, for readers in the kernel: a file's own table, or one made of all its rows.

use crate::bytes::Bytes;
use crate::code::switch::Switch;
use crate::image::{Image, RowSection, Segment, Sources};
use crate::rows::{ReadTime, Rows};
use sframe_format::compact::write_table;
use sframe_format::write::Function;
use sframe_format::{Abi, CompactTable, Section, Source};
use std::ops::Range;
use std::sync::Arc;

/// What the table of a file is made of. Any thread may make it.
pub(crate) struct Material {
    pub image: Arc<Image>,
    pub rows: Arc<Rows>,
    pub sources: Sources,
    pub making: ReadTime,
}

/// What files with the same table have in common: the build-id, and for those that a tool has changed without
/// a new one, the size and the segments with code.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Content {
    build_id: Vec<u8>,
    size: usize,
    code: Vec<Segment>,
}

impl Material {
    /// Makes the table. `None`: the file has no rows.
    pub fn make(&self) -> Option<Table> {
        self.making.of(|| Table::new(&self.image, &self.rows, self.sources))
    }

    /// Bytes of code.
    pub fn code_size(&self) -> u64 {
        self.image.code().map(|segment| segment.size).fold(0, u64::saturating_add)
    }

    /// By what another file is known to have the same table. `None`: it has no build-id.
    pub fn content(&self) -> Option<Content> {
        let build_id = self.image.build_id()?.to_vec();
        Some(Content { build_id, size: self.image.bytes().len(), code: self.image.code().collect() })
    }
}

/// The compact table of a file.
pub struct Table {
    bytes: Bytes,
    address: u64,
    /// The source of its rows. If it was made from several sources, the first one.
    pub source: Source,
    /// The code whose rows were read off instructions, ascending.
    by_instructions: Vec<Range<u64>>,
    /// The calls that functions make on other stacks, ascending.
    pub(crate) switches: Vec<Switch>,
}

impl Table {
    /// The table of a file: its own, or else one made from the rows of `sources`.
    pub(crate) fn new(image: &Image, rows: &Rows, sources: Sources) -> Option<Self> {
        let own = (sources != Sources::Derived).then(|| image.own_table()).flatten();
        match own {
            Some(table) => {
                let (bytes, address) = (image.bytes().part(table.data())?, table.address());
                let (by_instructions, switches) = (Vec::new(), Vec::new());
                Some(Self { bytes, address, source: Source::Sframe, by_instructions, switches })
            }
            None => {
                let made = Self::made(image.abi(), &rows.sections())?;
                Some(made.with_calls(rows))
            }
        }
    }

    /// The same, with the calls from which words lead back, where no row can say how.
    fn with_calls(mut self, rows: &Rows) -> Self {
        self.switches = rows.switches().to_vec();
        for (range, calls) in rows.all_aligned() {
            // Some of its code may have rows.
            self.by_instructions.retain(|part| part.end <= range.start || part.start >= range.end);
            self.by_instructions.push(range);
            self.switches.extend(calls);
        }
        self.switches.sort_by_key(|call| call.at);
        self.switches.dedup_by_key(|call| call.at);
        self.by_instructions.sort_by_key(|range| range.start);
        self
    }

    /// A table of the rows of several sections. If two describe a function's start, the first one counts.
    fn made(abi: Abi, sections: &[RowSection]) -> Option<Self> {
        let mut functions = Vec::new();
        let mut covered: Vec<Range<u64>> = Vec::new();
        let mut by_instructions = Vec::new();
        for RowSection { bytes, address, source } in sections {
            let before = functions.len();
            for blob in Section::new(bytes, *address).blobs() {
                for (fde, attributes) in blob.functions() {
                    if attributes.is_ok()
                        && !holds(&covered, fde.address)
                        && let Ok(function) = Function::read(&blob, &fde)
                    {
                        functions.push((fde.address, function));
                    }
                }
            }
            let ranges = |(address, function): &(u64, Function)| {
                *address..address.saturating_add(function.size.into())
            };
            covered.extend(functions[before..].iter().map(ranges));
            if *source == Source::Instructions {
                by_instructions.extend(functions[before..].iter().map(ranges));
            }
            covered.sort_by_key(|range| range.start);
        }
        let bytes = write_table(abi, 0, &functions).ok()?.bytes;
        let source = sections.first()?.source;
        by_instructions.sort_by_key(|range| range.start);
        let (bytes, switches) = (bytes.into(), Vec::new());
        (!functions.is_empty()).then_some(Self { bytes, address: 0, source, by_instructions, switches })
    }

    /// Its size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The source of the rows at the file's address `own`.
    pub fn source_at(&self, own: u64) -> Source {
        if holds(&self.by_instructions, own) { Source::Instructions } else { self.source }
    }

    /// The table.
    pub fn table(&self) -> Option<CompactTable<&[u8]>> {
        CompactTable::parse(&self.bytes[..], self.address).ok()
    }
}

/// Whether the last range that starts at or before an address contains it.
fn holds(ranges: &[Range<u64>], address: u64) -> bool {
    let place = ranges.partition_point(|range| range.start <= address);
    place.checked_sub(1).is_some_and(|before| ranges[before].contains(&address))
}
