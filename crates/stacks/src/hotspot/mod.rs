//! Code that HotSpot, Java's virtual machine, has made: where it is, how its frames are left, and of which
//! method it is.
//!
//! Without `-XX:+PreserveFramePointer`, compiled methods use the frame pointer for values, and nothing but
//! the virtual machine knows their frames. It keeps all code in heaps of blobs, each with the size of its
//! frames, and says in tables for debuggers ([`fields`]) where that is. The interpreter, one blob, does have
//! a frame pointer, and next to it the stack pointer that its caller goes on with and the method that it
//! runs. This follows what `frame::sender` of HotSpot does, on x86-64.
//!
//! Where frame pointers are kept, a program in the kernel leaves the code by itself, however deep the stack
//! is. But a frame pointer says nothing of a method that is about to make its frame, so stacks that are
//! unwound here go by the sizes of frames in any case.
//!
//! The process may change its memory at any time, so every loop and every size has a bound, and what was read
//! of an address is looked at again after some time.

mod fields;
mod frame;

use crate::jit_object::JitObject;
use crate::process_memory::ProcessMemory;
use fields::{Field, Fields};
pub use frame::Frame;
use frame::{Instructions, Shape};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For how long a blob is taken to be what it was.
const TRUSTED: Duration = Duration::from_millis(20);
/// The largest numbers of heaps, of steps to the start of a blob, and of parts of the interpreter.
const MAX_HEAPS: u64 = 16;
const MAX_STEPS: usize = 1 << 16;
const MAX_CODELETS: usize = 1 << 12;
/// The largest number of interpreted methods whose names are kept, and of blobs that are not there any more.
const MAX_METHODS: usize = 1 << 16;
const MAX_FORMER: usize = 1 << 12;
/// The largest number of flags.
const MAX_FLAGS: u64 = 1 << 13;
/// Bytes of a name at most: of a blob, a flag, a class or a method.
const MAX_NAME: usize = 256;
/// The byte of a segment that no blob has.
const FREE: u64 = 0xff;
/// `push %rbp; mov %rsp, %rbp`, in both forms.
const ENTERS: [[u8; 4]; 2] = [[0x55, 0x48, 0x8b, 0xec], [0x55, 0x48, 0x89, 0xe5]];

/// What a blob was when it was read.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    name: u64,
    method: u64,
    start: u64,
    end: u64,
}

/// A blob: code that was made at once.
struct Blob {
    end: u64,
    stamp: Stamp,
    looked_at: Instant,
    /// `None`: it cannot be read.
    object: Option<Arc<JitObject>>,
}

/// The code of a process.
pub struct HotSpot {
    memory: Arc<ProcessMemory>,
    keeps_frame_pointer: bool,
    layout: Layout,
    /// The addresses of its heaps, with the binary logarithms of the sizes of their segments.
    heaps: Vec<(u64, u32)>,
    fields: Fields,
    /// By the starts of their code.
    blobs: BTreeMap<u64, Blob>,
    /// What was there before other blobs, which names samples that were taken before.
    former: Vec<Blob>,
    /// Methods that were interpreted, by their addresses. `None`: there was no method.
    methods: HashMap<u64, Option<Arc<JitObject>>>,
}

/// Where things are.
struct Layout {
    low: Field,
    high: Field,
    heap_memory: Field,
    heap_segments: Field,
    is_used: Field,
    header: u64,
    blob_name: Field,
    blob_start: Field,
    blob_end: Field,
    frame_size: Field,
    frame_complete: Field,
    method: Option<Methods>,
}

/// Where the names of methods are.
struct Methods {
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

impl HotSpot {
    /// The code of a process that has the variables of HotSpot at these addresses. `None`: its memory says
    /// something else.
    pub fn open(memory: Arc<ProcessMemory>, structs: u64, types: u64) -> Option<Self> {
        let fields = Fields::read(&memory, structs, types)?;
        let keeps_frame_pointer = flag(&memory, &fields, b"PreserveFramePointer").unwrap_or(false);
        let layout = Layout::of(&fields)?;
        let list = fields.field(&["CodeCache"], "_heaps")?.value(&memory)?;
        let count =
            fields.field(&["GrowableArrayBase", "GenericGrowableArray"], "_len")?.of(&memory, list)?;
        let data = fields.field(&["GrowableArray<int>"], "_data")?.of(&memory, list)?;
        let shift = fields.field(&["CodeHeap"], "_log2_segment_size")?;
        let heap =
            |address: u64| Some((address, shift.of(&memory, address)? as u32)).filter(|heap| heap.1 < 32);
        let heaps = memory.words(data, count.min(MAX_HEAPS) as usize)?.into_iter().filter_map(heap).collect();
        let (blobs, former) = (BTreeMap::new(), Vec::new());
        Some(Self {
            memory,
            keeps_frame_pointer,
            layout,
            heaps,
            fields,
            blobs,
            former,
            methods: HashMap::new(),
        })
    }

    /// The code at an address, as it is now, or as it was last if the process has ended.
    pub fn now_at(&mut self, address: u64) -> Option<Arc<JitObject>> {
        if let Some(blob) = self.blob_at(address)
            && blob.looked_at.elapsed() < TRUSTED
        {
            return blob.object.clone();
        }
        if let Some((blob, stamp)) = self.find(address) {
            let same = self.blobs.get_mut(&stamp.start).filter(|known| known.stamp == stamp);
            match same {
                Some(known) => known.looked_at = Instant::now(),
                None => self.add(blob, stamp),
            }
        }
        self.blob_at(address)?.object.clone()
    }

    /// The code, or the interpreted method, that was last at an address.
    pub fn at(&self, address: u64) -> Option<Arc<JitObject>> {
        let was_at = |blob: &&Blob| (blob.stamp.start..blob.end).contains(&address);
        let blob = self.blob_at(address).or_else(|| self.former.iter().rfind(was_at));
        blob.and_then(|blob| blob.object.clone()).or_else(|| self.methods.get(&address)?.clone())
    }

    /// Whether a method is at an address, which the interpreter is said to run.
    pub fn has_method(&mut self, address: u64) -> bool {
        let (memory, layout) = (&self.memory, &self.layout);
        let read = || {
            let name = layout.method.as_ref()?.name_of(memory, address)?;
            Some(Arc::new(JitObject::of_method(address, name)))
        };
        self.methods.len() < MAX_METHODS && self.methods.entry(address).or_insert_with(read).is_some()
    }

    fn blob_at(&self, address: u64) -> Option<&Blob> {
        let (_, blob) = self.blobs.range(..=address).next_back()?;
        (address < blob.end).then_some(blob)
    }

    /// Adds a blob in place of those that it overlaps.
    fn add(&mut self, blob: u64, stamp: Stamp) {
        let object = self.object(blob, stamp).map(Arc::new);
        let overlapped = self.blobs.range(..stamp.end).rev().take_while(|(_, old)| old.end > stamp.start);
        for old in overlapped.map(|(&old, _)| old).collect::<Vec<_>>() {
            self.former.extend(self.blobs.remove(&old).filter(|_| self.former.len() < MAX_FORMER));
        }
        self.blobs.insert(stamp.start, Blob { end: stamp.end, stamp, looked_at: Instant::now(), object });
    }

    /// The blob whose code is at an address.
    fn find(&self, address: u64) -> Option<(u64, Stamp)> {
        let (memory, layout) = (&*self.memory, &self.layout);
        let (low, shift, heap) = self.heaps.iter().find_map(|&(heap, shift)| {
            let space = heap.checked_add(layout.heap_memory.place)?;
            let (low, high) = (layout.low.of(memory, space)?, layout.high.of(memory, space)?);
            (low..high).contains(&address).then_some((low, shift, heap))
        })?;
        let segments = layout.low.of(memory, heap.checked_add(layout.heap_segments.place)?)?;
        let mut segment = (address - low) >> shift;
        // Each segment of a blob says how many segments its start is before it, or that there are more.
        for _ in 0..MAX_STEPS {
            match memory.number(segments.checked_add(segment)?, 1)? {
                FREE => return None,
                0 => break,
                back => segment = segment.checked_sub(back)?,
            }
        }
        let block = low.checked_add(segment << shift)?;
        if layout.is_used.of(memory, block)? == 0 {
            return None;
        }
        let blob = block.checked_add(layout.header)?;
        let stamp = Stamp {
            name: layout.blob_name.of(memory, blob)?,
            method: layout.method.as_ref().and_then(|method| method.of_blob.of(memory, blob)).unwrap_or(0),
            start: layout.blob_start.of(memory, blob)?,
            end: layout.blob_end.of(memory, blob)?,
        };
        (stamp.start..stamp.end).contains(&address).then_some((blob, stamp))
    }

    fn object(&self, blob: u64, stamp: Stamp) -> Option<JitObject> {
        let (memory, layout) = (&self.memory, &self.layout);
        let name = memory.text(stamp.name, MAX_NAME)?;
        let code = stamp.start..stamp.end;
        let words = layout.frame_size.of(memory, blob).filter(|&words| words > 1 && words < 1 << 20);
        let complete =
            layout.frame_complete.of(memory, blob).filter(|&offset| offset < code.end - code.start);
        let shape = match words {
            // It is complete by now: somebody runs it.
            _ if name == b"Interpreter" => Shape::Interpreted(entries(memory, &self.fields)?),
            Some(words) => Shape::Sized {
                size: 8 * words as i64,
                complete: code.start + complete.unwrap_or(0),
                instructions: Instructions::of(code.clone()),
            },
            None => Shape::Stub,
        };
        let method = layout.method.as_ref().filter(|_| name.ends_with(b"nmethod"));
        let name = method.and_then(|methods| methods.name_of(memory, stamp.method)).unwrap_or(name);
        let (memory, keeps_frame_pointer) = (Arc::clone(memory), self.keeps_frame_pointer);
        let frame = Frame { code: code.clone(), keeps_frame_pointer, shape, memory };
        Some(JitObject::of_hotspot(code, name, frame))
    }
}

impl Layout {
    fn of(fields: &Fields) -> Option<Self> {
        let of = |owner: &str, name: &str| fields.field(&[owner], name);
        Some(Self {
            low: of("VirtualSpace", "_low")?,
            high: of("VirtualSpace", "_high")?,
            heap_memory: of("CodeHeap", "_memory")?,
            heap_segments: of("CodeHeap", "_segmap")?,
            is_used: of("HeapBlock::Header", "_used")?,
            header: fields.size("HeapBlock")?,
            blob_name: of("CodeBlob", "_name")?,
            blob_start: of("CodeBlob", "_code_begin")?,
            blob_end: of("CodeBlob", "_code_end")?,
            frame_size: of("CodeBlob", "_frame_size")?,
            frame_complete: of("CodeBlob", "_frame_complete_offset")?,
            method: Methods::of(fields),
        })
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
    fn name_of(&self, memory: &ProcessMemory, method: u64) -> Option<Vec<u8>> {
        let constant = self.constant.of(memory, method)?;
        let pool = self.pool.of(memory, constant)?;
        let place = pool.checked_add(self.pool_size + 8 * self.name.of(memory, constant)?)?;
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

/// Whether a flag is set.
fn flag(memory: &ProcessMemory, fields: &Fields, name: &[u8]) -> Option<bool> {
    let of = |name: &str| fields.field(&["JVMFlag", "Flag"], name);
    let (first, count) = (of("flags")?.value(memory)?, of("numFlags")?.value(memory)?.min(MAX_FLAGS));
    let size = fields.size("JVMFlag").or_else(|| fields.size("Flag"))?;
    let flags = (0..count).filter_map(|number| first.checked_add(number.checked_mul(size)?));
    let named = |&flag: &u64| {
        let place = of("_name").and_then(|field| field.of(memory, flag));
        place.and_then(|place| memory.text(place, MAX_NAME)).is_some_and(|found| found == name)
    };
    let flag = flags.into_iter().find(named)?;
    Some(memory.number(of("_addr")?.of(memory, flag)?, 1)? != 0)
}

/// The parts of the interpreter that make its frames: from the start of each entry to where the frame is
/// made.
fn entries(memory: &ProcessMemory, fields: &Fields) -> Option<Vec<Instructions>> {
    let queue = fields.field(&["AbstractInterpreter"], "_code")?.value(memory)?;
    let of = |name: &str| fields.field(&["StubQueue"], name);
    let (first, end) = (of("_stub_buffer")?.of(memory, queue)?, of("_queue_end")?.of(memory, queue)?);
    let codelet = |name: &str| fields.field(&["InterpreterCodelet"], name);
    let (size, description) = (codelet("_size")?, codelet("_description")?);
    let (mut at, end, mut found) = (first, first.checked_add(end)?, Vec::new());
    for _ in 0..MAX_CODELETS {
        let length = size.of(memory, at).filter(|&length| length > 0 && at < end)?;
        let next = at.checked_add(length)?;
        let text = memory.text(description.of(memory, at)?, MAX_NAME).unwrap_or_default();
        if text.starts_with(b"method entry point") {
            let code = memory.bytes(at, length.min(1 << 16) as usize)?;
            let made = code.windows(4).position(|bytes| ENTERS.iter().any(|enter| enter == bytes));
            let end = made.map_or(next, |place| at + place as u64 + 4);
            found.push(Instructions::of(at..end));
        }
        if next >= end {
            break;
        }
        at = next;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::HotSpot;
    use crate::process_memory::ProcessMemory;
    use sframe_format::{Abi, Registers};
    use std::ffi::CStr;
    use std::sync::Arc;

    /// All fields that are read, with their places in [`HEAP`]: static ones from its start.
    const FIELDS: [(&CStr, &CStr, &CStr, u64); 31] = [
        (c"CodeCache", c"_heaps", c"static", 0),
        (c"GrowableArrayBase", c"_len", c"int", 0),
        (c"GrowableArray<int>", c"_data", c"int*", 8),
        (c"CodeHeap", c"_memory", c"VirtualSpace", 0),
        (c"CodeHeap", c"_segmap", c"VirtualSpace", 16),
        (c"CodeHeap", c"_log2_segment_size", c"int", 32),
        (c"VirtualSpace", c"_low", c"char*", 0),
        (c"VirtualSpace", c"_high", c"char*", 8),
        (c"HeapBlock::Header", c"_used", c"bool", 8),
        (c"CodeBlob", c"_name", c"const char*", 0),
        (c"CodeBlob", c"_frame_size", c"int", 8),
        (c"CodeBlob", c"_frame_complete_offset", c"int", 16),
        (c"CodeBlob", c"_code_begin", c"address", 24),
        (c"CodeBlob", c"_code_end", c"address", 32),
        (c"CompiledMethod", c"_method", c"Method*", 40),
        (c"Method", c"_constMethod", c"ConstMethod*", 0),
        (c"ConstMethod", c"_constants", c"ConstantPool*", 0),
        (c"ConstMethod", c"_name_index", c"u2", 8),
        (c"ConstantPool", c"_pool_holder", c"InstanceKlass*", 0),
        (c"Klass", c"_name", c"Symbol*", 0),
        (c"Symbol", c"_length", c"u2", 0),
        (c"Symbol", c"_body", c"u1", 8),
        (c"AbstractInterpreter", c"_code", c"static", 8 * 40),
        (c"StubQueue", c"_stub_buffer", c"address", 0),
        (c"StubQueue", c"_queue_end", c"int", 8),
        (c"InterpreterCodelet", c"_description", c"const char*", 0),
        (c"InterpreterCodelet", c"_size", c"int", 8),
        (c"JVMFlag", c"flags", c"static", 8 * 48),
        (c"JVMFlag", c"numFlags", c"static", 8 * 49),
        (c"JVMFlag", c"_name", c"const char*", 0),
        (c"JVMFlag", c"_addr", c"void*", 8),
    ];
    /// Words of the heap and all that leads to it.
    const HEAP: usize = 512;

    fn address<T: ?Sized>(of: &T) -> u64 {
        std::ptr::from_ref(of).cast::<u8>().addr() as u64
    }

    /// A number, by Marsaglia's xorshift.
    fn next(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    /// Fills in a heap with two blobs, a method and the interpreter, each of which has 14 segments.
    fn fill(words: &mut [u64]) {
        let start = address(&words[0]);
        let at = |word: u64| start + 8 * word;
        let text = |text: &'static CStr| text.as_ptr().addr() as u64;
        let mut set = |place: usize, values: &[u64]| words[place..][..values.len()].copy_from_slice(values);
        // The list of heaps, and the one heap with its segments.
        set(0, &[at(1), 1, at(3), at(4), at(64), at(512), at(16), at(20), 7]);
        let segments: Vec<u8> = (0..14).chain(0..14).chain([0xff; 4]).collect();
        let words_of = |bytes: &[u8]| u64::from_le_bytes(*bytes.first_chunk().unwrap());
        set(16, &segments.chunks(8).map(words_of).collect::<Vec<_>>());
        // A method, its constants, their pool, its class, and the name that both have.
        set(24, &[at(26), 0, at(30), 0, 0, 0, at(34), at(36), 0, 0, at(36), 0, 4, words_of(b"name\0\0\0\0")]);
        set(40, &[at(41), at(44), 32, 0, text(c"method entry point"), 32]);
        set(48, &[at(50), 1, text(c"PreserveFramePointer"), at(52), 0]);
        set(64, &[14, 1, text(c"nmethod"), 8, 5, at(72), at(288), at(24)]);
        set(288, &[14, 1, text(c"Interpreter"), 0, 0, at(296), at(512), 0]);
    }

    /// Whatever a process writes where HotSpot has its heaps, nothing panics or goes on for ever.
    #[test]
    fn memory_may_hold_anything() {
        let (mut state, mut found) = (88_172_645_463_325_252, [0; 3]);
        for round in 0..800u64 {
            let mut words = vec![0u64; HEAP];
            let start = address(&words[0]);
            fill(&mut words);
            for _ in 0..round % 4 {
                let word = match next(&mut state) % 4 {
                    0 => next(&mut state),
                    1 => next(&mut state) % 32,
                    2 => u64::MAX - next(&mut state) % 32,
                    _ => start + 8 * (next(&mut state) % HEAP as u64),
                };
                let place = next(&mut state) as usize % if round % 8 < 4 { HEAP } else { 72 };
                words[place] = word;
            }
            let pointer = |text: &CStr| text.as_ptr().addr() as u64;
            let field = |&(owner, name, of, place): &(&CStr, &CStr, &CStr, u64)| {
                let is_static = u64::from(of == c"static");
                [pointer(owner), pointer(name), pointer(of), is_static, place, start + place]
            };
            let fields: Vec<[u64; 6]> = FIELDS.iter().map(field).chain([[0; 6]]).collect();
            let sizes = [(c"HeapBlock", 16), (c"ConstantPool", 8), (c"JVMFlag", 16)];
            let types = sizes.iter().map(|&(name, size)| [pointer(name), 0, 0, 0, size]);
            let types: Vec<[u64; 5]> = types.chain([[0; 5]]).collect();
            let memory = Arc::new(ProcessMemory::open(std::process::id(), Abi::Amd64.endian()).unwrap());
            let (structs, types) = (address(&fields[0]), address(&types[0]));
            let Some(mut heap) = HotSpot::open(memory, address(&structs), address(&types)) else { continue };
            found[2] += usize::from(heap.has_method(start + 8 * 24) && heap.at(start + 8 * 24).is_some());
            for at in (start..start + 8 * HEAP as u64).step_by(97) {
                heap.has_method(at);
                let Some(object) = heap.now_at(at) else { continue };
                let mut registers = Registers::new(start, start + 64, None);
                let _ = object.step_at(at, at % 2 == 0, &mut registers, &mut |_| Ok(start));
                match object.name_at(at) {
                    Some((b"name.name", _)) => found[0] += 1,
                    Some((b"Interpreter", _)) => found[1] += 1,
                    _ => {}
                }
            }
        }
        assert!(found.iter().all(|&found| found > 400), "{found:?}");
    }
}
