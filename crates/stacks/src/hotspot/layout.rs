//! Where HotSpot has its heaps, blobs and methods, by the names of fields: what has moved between versions is
//! looked for in each of its places.
//!
//! Until Java 8, there is one heap and not a list. Blobs have had the addresses of their code (9 to 22), and
//! offsets from their own start, where data are next to code (before, and since).

use super::fields::{Field, Fields};
use crate::process_memory::ProcessMemory;
use std::ops::Range;

/// Bytes of a name at most: of a blob, a part of the interpreter, a class or a method.
pub const MAX_NAME: usize = 256;
/// The byte of a segment that no blob has.
pub const FREE: u64 = 0xff;
/// The largest number of heaps.
const MAX_HEAPS: u64 = 16;

/// What a blob was when it was read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Where its name is.
    pub name: u64,
    /// Where its method is, or 0.
    pub method: u64,
    /// Where its code starts.
    pub start: u64,
    /// The address behind its code.
    pub end: u64,
    /// The words of its frames. They have no fixed size if there are none.
    pub words: i64,
    /// Bytes to where a frame is complete. It never is if they are negative.
    pub complete: i64,
}

impl Stamp {
    /// Its code.
    pub fn code(&self) -> Range<u64> {
        self.start..self.end
    }
}

/// Where things are.
pub struct Layout {
    list: List,
    shift: Field,
    pub low: Field,
    pub high: Field,
    pub heap_memory: Field,
    pub heap_segments: Field,
    is_used: Field,
    header: u64,
    blob_name: Field,
    blob_start: Bound,
    blob_end: Bound,
    frame_size: Field,
    frame_complete: Field,
    pub method: Option<Methods>,
}

/// Where the heaps are.
enum List {
    /// There is one.
    One(Field),
    /// A list: its address, its length, its members.
    Many([Field; 3]),
}

/// An end of a blob's code.
#[derive(Clone, Copy)]
enum Bound {
    Address(Field),
    /// From the start of the blob.
    Offset(Field),
}

/// Where the names of methods are.
pub struct Methods {
    of_blob: Field,
    constant: Field,
    pool: Field,
    name: Field,
    holder: Field,
    class_name: Field,
    pool_size: u64,
    length: Field,
    text: Field,
}

impl Layout {
    pub fn of(fields: &Fields) -> Option<Self> {
        let of = |owner: &str, name: &str| fields.field(&[owner], name);
        let bound = |address: &str, offset: &str| {
            let offset = || of("CodeBlob", offset).map(Bound::Offset);
            of("CodeBlob", address).map(Bound::Address).or_else(offset)
        };
        Some(Self {
            list: List::of(fields)?,
            shift: of("CodeHeap", "_log2_segment_size")?,
            low: of("VirtualSpace", "_low")?,
            high: of("VirtualSpace", "_high")?,
            heap_memory: of("CodeHeap", "_memory")?,
            heap_segments: of("CodeHeap", "_segmap")?,
            is_used: of("HeapBlock::Header", "_used")?,
            header: fields.size("HeapBlock")?,
            blob_name: of("CodeBlob", "_name")?,
            blob_start: bound("_code_begin", "_code_offset")?,
            blob_end: bound("_code_end", "_data_offset")?,
            frame_size: of("CodeBlob", "_frame_size")?,
            frame_complete: of("CodeBlob", "_frame_complete_offset")?,
            method: Methods::of(fields),
        })
    }

    /// The addresses of the heaps, with the binary logarithms of the sizes of their segments.
    pub fn heaps(&self, memory: &ProcessMemory) -> Option<Vec<(u64, u32)>> {
        let heaps = match self.list {
            List::One(heap) => vec![heap.value(memory)?],
            List::Many([list, length, data]) => {
                let list = list.value(memory)?;
                let count = length.of(memory, list)?.min(MAX_HEAPS);
                memory.words(data.of(memory, list)?, count as usize)?
            }
        };
        let with_shift = |heap| Some((heap, self.shift.of(memory, heap)? as u32));
        Some(heaps.into_iter().filter_map(with_shift).filter(|heap| heap.1 < 32).collect())
    }

    /// The blob in a block of a heap, if it is used.
    pub fn blob_in(&self, memory: &ProcessMemory, block: u64) -> Option<Stamp> {
        if self.is_used.of(memory, block)? == 0 {
            return None;
        }
        self.stamp(memory, block.checked_add(self.header)?)
    }

    /// What a blob is now.
    fn stamp(&self, memory: &ProcessMemory, blob: u64) -> Option<Stamp> {
        let method = self.method.as_ref().and_then(|method| method.of_blob.of(memory, blob));
        Some(Stamp {
            name: self.blob_name.of(memory, blob)?,
            method: method.unwrap_or(0),
            start: self.blob_start.of(memory, blob)?,
            end: self.blob_end.of(memory, blob)?,
            words: self.frame_size.signed_of(memory, blob)?,
            complete: self.frame_complete.signed_of(memory, blob)?,
        })
    }
}

impl List {
    fn of(fields: &Fields) -> Option<Self> {
        let many = || {
            Some(Self::Many([
                fields.field(&["CodeCache"], "_heaps")?,
                fields.field(&["GrowableArrayBase", "GenericGrowableArray"], "_len")?,
                fields.field(&["GrowableArray<int>"], "_data")?,
            ]))
        };
        many().or_else(|| fields.field(&["CodeCache"], "_heap").map(Self::One))
    }
}

impl Bound {
    fn of(self, memory: &ProcessMemory, blob: u64) -> Option<u64> {
        match self {
            Self::Address(field) => field.of(memory, blob),
            Self::Offset(field) => blob.checked_add(field.of(memory, blob)?),
        }
    }
}

impl Methods {
    fn of(fields: &Fields) -> Option<Self> {
        let of = |owner: &str, name: &str| fields.field(&[owner], name);
        Some(Self {
            of_blob: fields.field(&["CompiledMethod", "nmethod"], "_method")?,
            constant: of("Method", "_constMethod")?,
            pool: of("ConstMethod", "_constants")?,
            name: of("ConstMethod", "_name_index")?,
            holder: of("ConstantPool", "_pool_holder")?,
            class_name: of("Klass", "_name")?,
            pool_size: fields.size("ConstantPool")?,
            length: of("Symbol", "_length")?,
            text: of("Symbol", "_body")?,
        })
    }

    /// The name of a method, behind that of its class.
    pub fn name_of(&self, memory: &ProcessMemory, method: u64) -> Option<Vec<u8>> {
        let constant = self.constant.of(memory, method)?;
        let pool = self.pool.of(memory, constant)?;
        let offset = self.name.of(memory, constant)?.checked_mul(8)?.checked_add(self.pool_size)?;
        let place = pool.checked_add(offset)?;
        let class = self.class_name.of(memory, self.holder.of(memory, pool)?)?;
        let mut name = self.text_of(memory, class)?;
        for byte in &mut name {
            *byte = if *byte == b'/' { b'.' } else { *byte };
        }
        name.push(b'.');
        name.extend(self.text_of(memory, memory.number(place, 8)?)?);
        Some(name)
    }

    fn text_of(&self, memory: &ProcessMemory, symbol: u64) -> Option<Vec<u8>> {
        let length = self.length.of(memory, symbol)?.min(MAX_NAME as u64);
        memory.bytes(symbol.checked_add(self.text.place)?, length as usize)
    }
}
