//! Code that HotSpot, Java's virtual machine, has made: where it is, how its frames are left, and of which
//! method it is.
//!
//! Unless they were told to keep a frame pointer, compiled methods use it for values, and nothing but the
//! virtual machine knows their frames. It keeps all code in heaps of blobs, each with the size of its
//! frames, and says in tables for debuggers ([`fields`]) where that is. The interpreter, one blob, does have
//! a frame pointer, and next to it the stack pointer that its caller goes on with and the method that it
//! runs. This follows what `frame::sender` of HotSpot does, on x86-64.
//!
//! Where frame pointers are kept, they still say nothing of a method that is about to make its frame, so all
//! stacks with such code are unwound here, and none by a program in the kernel.
//!
//! Methods are compiled again and again, and what was there before is gone soon, while samples wait to be
//! unwound. So new blobs are read while the process runs, whether a sample has met them or not ([`look`]).
//!
//! The process may change its memory at any time, so every loop and every size has a bound, and what was read
//! of an address is looked at again after some time.

mod fields;
mod layout;
mod look;

use crate::hotspot_frame::{Frame, Instructions, Shape};
use crate::jit_object::JitObject;
use crate::process_memory::ProcessMemory;
use fields::Fields;
use hashbrown::HashMap;
use layout::{FREE, Layout, MAX_NAME, Stamp};
use look::Looked;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For how long a blob is taken to be what it was.
const TRUSTED: Duration = Duration::from_millis(20);
/// The largest numbers of steps to the start of a blob, of 254 segments each at most, and of parts of the
/// interpreter.
const MAX_STEPS: usize = 1 << 10;
const MAX_CODELETS: usize = 1 << 12;
/// The largest number of interpreted methods whose names are kept, of blobs, and of those that are not there
/// any more.
const MAX_METHODS: usize = 1 << 16;
const MAX_BLOBS: usize = 1 << 17;
const MAX_FORMER: usize = 1 << 12;
/// Words of a frame with a fixed size: the return address and the caller's frame pointer at least.
const LEAST_WORDS: i64 = 2;
const MOST_WORDS: i64 = 1 << 20;
/// `push %rbp; mov %rsp, %rbp`, in both forms.
const ENTERS: [[u8; 4]; 2] = [[0x55, 0x48, 0x8b, 0xec], [0x55, 0x48, 0x89, 0xe5]];

/// A blob: code that was made at once.
struct Blob {
    stamp: Stamp,
    /// When a sample asked for it. `None`: none has.
    asked_at: Option<Instant>,
    /// `None`: it cannot be read.
    object: Option<Arc<JitObject>>,
}

/// The code of a process.
pub struct HotSpot {
    memory: Arc<ProcessMemory>,
    layout: Layout,
    /// The addresses of its heaps, with the binary logarithms of the sizes of their segments.
    heaps: Vec<(u64, u32)>,
    /// When they were read: while the virtual machine starts, it has none, or not all.
    read_at: Instant,
    fields: Fields,
    looked: Looked,
    /// By the starts of their code.
    blobs: BTreeMap<u64, Blob>,
    /// What was there before other blobs, which names samples that were taken before.
    former: Vec<Blob>,
    /// Methods that were interpreted, by their addresses.
    methods: HashMap<u64, Arc<JitObject>>,
}

impl HotSpot {
    /// The code of a process that has the variables of HotSpot at these addresses. `None`: its memory says
    /// something else.
    pub fn open(memory: Arc<ProcessMemory>, structs: u64, types: u64) -> Option<Self> {
        let fields = Fields::read(&memory, structs, types)?;
        let layout = Layout::of(&fields)?;
        let heaps = layout.heaps(&memory).unwrap_or_default();
        let (read_at, blobs, former, methods) = (Instant::now(), BTreeMap::new(), Vec::new(), HashMap::new());
        let looked = Looked::default();
        Some(Self { memory, layout, heaps, read_at, fields, looked, blobs, former, methods })
    }

    /// The code at an address, as it is now, or as it was last if the process has ended.
    pub fn now_at(&mut self, address: u64) -> Option<Arc<JitObject>> {
        if let Some(blob) = self.blob_at(address)
            && blob.asked_at.is_some_and(|asked| asked.elapsed() < TRUSTED)
        {
            return blob.object.clone();
        }
        if self.read_at.elapsed() >= TRUSTED && self.heap_at(address).is_none() {
            self.read_heaps();
        }
        if let Some(stamp) = self.find(address) {
            // When it was looked at, it may not have been complete. It is by now: somebody runs it.
            let is_asked = |known: &Blob| known.asked_at.is_some();
            let asked = self.blobs.get(&stamp.start).is_some_and(is_asked);
            self.note(stamp, !asked);
            if let Some(blob) = self.blobs.get_mut(&stamp.start) {
                blob.asked_at = Some(Instant::now());
            }
        }
        self.blob_at(address)?.object.clone()
    }

    /// Reads the blobs that were made since the last look.
    pub fn look(&mut self) {
        if !self.looked.again() {
            return;
        }
        self.read_heaps();
        for heap in self.heaps.clone() {
            let found = self.looked.new_in((&self.memory, &self.layout), heap);
            found.into_iter().flatten().for_each(|stamp| self.note(stamp, false));
        }
        self.looked.over();
    }

    /// Reads where the heaps are.
    fn read_heaps(&mut self) {
        self.read_at = Instant::now();
        // A process that has ended has no memory, but what it had still holds.
        if let Some(heaps) = self.layout.heaps(&self.memory) {
            self.heaps = heaps;
        }
    }

    /// Notes that a blob is there now. `again`: what is known of it is read once more.
    fn note(&mut self, stamp: Stamp, again: bool) {
        let is_same = |known: &&Blob| known.stamp == stamp && known.object.is_some();
        if self.blobs.get(&stamp.start).filter(is_same).is_none() {
            self.add(stamp);
        } else if again && let Some(object) = self.object(stamp) {
            self.blobs.insert(stamp.start, Blob { stamp, asked_at: None, object: Some(Arc::new(object)) });
        }
    }

    /// The code, or the interpreted method, that was last at an address.
    pub fn at(&self, address: u64) -> Option<Arc<JitObject>> {
        let was_at = |blob: &&Blob| blob.stamp.code().contains(&address);
        let blob = self.blob_at(address).or_else(|| self.former.iter().rfind(was_at));
        blob.and_then(|blob| blob.object.clone()).or_else(|| self.methods.get(&address).cloned())
    }

    /// Whether a method is at an address, which the interpreter is said to run.
    pub fn has_method(&mut self, address: u64) -> bool {
        if self.methods.contains_key(&address) {
            return true;
        }
        let name = self.layout.method.as_ref().and_then(|methods| methods.name_of(&self.memory, address));
        let Some(name) = name.filter(|_| self.methods.len() < MAX_METHODS) else { return false };
        self.methods.insert(address, Arc::new(JitObject::of_method(address, name)));
        true
    }

    fn blob_at(&self, address: u64) -> Option<&Blob> {
        let (_, blob) = self.blobs.range(..=address).next_back()?;
        (address < blob.stamp.end).then_some(blob)
    }

    /// Adds a blob in place of those that it overlaps.
    fn add(&mut self, stamp: Stamp) {
        let object = self.object(stamp).map(Arc::new);
        let overlapped =
            self.blobs.range(..stamp.end).rev().take_while(|(_, old)| old.stamp.end > stamp.start);
        for old in overlapped.map(|(&old, _)| old).collect::<Vec<_>>() {
            self.blobs.remove(&old).into_iter().for_each(|blob| self.keep(blob));
        }
        if self.blobs.len() >= MAX_BLOBS {
            return;
        }
        self.blobs.insert(stamp.start, Blob { stamp, asked_at: None, object });
    }

    /// Keeps a blob that is not there any more. Where there are too many, the oldest goes that no sample has
    /// asked for: those that will do so are not much older than what they ask for.
    fn keep(&mut self, blob: Blob) {
        if self.former.len() >= MAX_FORMER {
            let Some(oldest) = self.former.iter().position(|blob| blob.asked_at.is_none()) else { return };
            self.former.remove(oldest);
        }
        self.former.push(blob);
    }

    /// The heap that has an address: where its code starts, its segments' size, and its own address.
    fn heap_at(&self, address: u64) -> Option<(u64, u32, u64)> {
        let (memory, layout) = (&*self.memory, &self.layout);
        self.heaps.iter().find_map(|&(heap, shift)| {
            let space = heap.checked_add(layout.heap_memory.place)?;
            let (low, high) = (layout.low.of(memory, space)?, layout.high.of(memory, space)?);
            (low..high).contains(&address).then_some((low, shift, heap))
        })
    }

    /// The blob whose code is at an address.
    fn find(&self, address: u64) -> Option<Stamp> {
        let (memory, layout) = (&*self.memory, &self.layout);
        let (low, shift, heap) = self.heap_at(address)?;
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
        let stamp = layout.blob_in(memory, low.checked_add(segment << shift)?)?;
        stamp.code().contains(&address).then_some(stamp)
    }

    fn object(&self, stamp: Stamp) -> Option<JitObject> {
        let (memory, layout) = (&self.memory, &self.layout);
        let name = memory.text(stamp.name, MAX_NAME)?;
        let code = stamp.code();
        let shape = match stamp.words {
            _ if name == b"Interpreter" => Shape::Interpreted(entries(memory, &self.fields)?),
            LEAST_WORDS..MOST_WORDS => Shape::Sized {
                size: 8 * stamp.words,
                complete: code.start.saturating_add_signed(stamp.complete.max(0)),
                instructions: Instructions::of(code.clone()),
            },
            _ => Shape::Stub,
        };
        let method = layout.method.as_ref().filter(|_| name.ends_with(b"nmethod"));
        let name = method.and_then(|methods| methods.name_of(memory, stamp.method)).unwrap_or(name);
        let frame = Frame { code: code.clone(), shape, memory: Arc::clone(memory) };
        Some(JitObject::of_hotspot(code, name, frame))
    }
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
    use super::{Blob, HotSpot, MAX_FORMER, MAX_METHODS, TRUSTED};
    use crate::process_memory::ProcessMemory;
    use sframe_format::{Abi, Registers};
    use std::ffi::CStr;
    use std::sync::Arc;

    /// All fields that are read, with their places in [`HEAP`]: static ones from its start.
    const FIELDS: [(&CStr, &CStr, &CStr, u64); 27] = [
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
    ];
    const SIZES: [(&CStr, u64); 2] = [(c"HeapBlock", 16), (c"ConstantPool", 8)];
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
        set(64, &[14, 1, text(c"nmethod"), 8, 5, at(72), at(288), at(24)]);
        set(288, &[14, 1, text(c"Interpreter"), 0, 0, at(296), at(512), 0]);
    }

    type Fields = [(&'static CStr, &'static CStr, &'static CStr, u64)];

    /// A process that has these words, fields and sizes of types: this one.
    fn open(words: &[u64], fields: &Fields, sizes: &[(&'static CStr, u64)]) -> Option<HotSpot> {
        let start = address(&words[0]);
        let pointer = |text: &CStr| text.as_ptr().addr() as u64;
        let field = |&(owner, name, of, place): &(&CStr, &CStr, &CStr, u64)| {
            let is_static = u64::from(of == c"static");
            let own = start.wrapping_add(place);
            [pointer(owner), pointer(name), pointer(of), is_static, place, own]
        };
        let fields: Vec<[u64; 6]> = fields.iter().map(field).chain([[0; 6]]).collect();
        let types = sizes.iter().map(|&(name, size)| [pointer(name), 0, 0, 0, size]);
        let types: Vec<[u64; 5]> = types.chain([[0; 5]]).collect();
        let memory = Arc::new(ProcessMemory::open(std::process::id(), Abi::Amd64.endian()).unwrap());
        let (structs, types) = (address(&fields[0]), address(&types[0]));
        HotSpot::open(memory, address(&structs), address(&types))
    }

    /// Whatever a process writes where HotSpot has its heaps, and in the tables that say where, nothing
    /// panics or goes on for ever.
    #[test]
    fn memory_may_hold_anything() {
        let (mut state, mut found) = (88_172_645_463_325_252, [0; 3]);
        for round in 0..1600u64 {
            let mut words = vec![0u64; HEAP];
            let start = address(&words[0]);
            fill(&mut words);
            let any = |state: &mut u64| match next(state) % 4 {
                0 => next(state),
                1 => next(state) % 32,
                2 => u64::MAX - next(state) % 32,
                _ => start + 8 * (next(state) % HEAP as u64),
            };
            for _ in 0..round % 4 {
                let word = any(&mut state);
                let place = next(&mut state) as usize % if round % 8 < 4 { HEAP } else { 72 };
                words[place] = word;
            }
            let (mut fields, mut sizes) = (FIELDS, SIZES);
            if round >= 800 {
                let field = &mut fields[next(&mut state) as usize % FIELDS.len()];
                let other = next(&mut state) % 64;
                match next(&mut state) % 4 {
                    0 => field.2 = c"char*",
                    1 => field.3 = any(&mut state),
                    2 => field.3 = other,
                    _ => sizes[next(&mut state) as usize % SIZES.len()].1 = any(&mut state),
                }
            }
            let Some(mut heap) = open(&words, &fields, &sizes) else { continue };
            if round % 2 == 0 {
                heap.look();
            }
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

    /// An index into a pool may be as large as a word, and so may the pool.
    #[test]
    fn methods_may_be_anywhere() {
        let mut words = vec![0u64; HEAP];
        let method = address(&words[0]) + 8 * 24;
        fill(&mut words);
        for (size, index) in [(8, u64::MAX / 4), (8, u64::MAX / 8), (u64::MAX, 0), (u64::MAX - 8, 2)] {
            words[26 + 1] = index;
            let fields = FIELDS
                .map(|field| (field.0, field.1, if field.2 == c"u2" { c"char*" } else { field.2 }, field.3));
            let sizes = [SIZES[0], (SIZES[1].0, size)];
            assert!(!open(&words, &fields, &sizes).unwrap().has_method(method), "{size} {index}");
        }
    }

    /// What Java 8 and Java 25 have: one heap, offsets of code, numbers of 2 bytes with others behind them.
    #[test]
    fn other_versions_have_other_fields() {
        let mut words = vec![0u64; HEAP];
        fill(&mut words);
        let start = address(&words[0]);
        words[0] = words[3];
        for (blob, code, end) in [(66, 72, 288), (290, 296, 512)] {
            let offset = |word: u64| (8 * (word - blob)) | (0xabcd << 32);
            (words[blob as usize + 3], words[blob as usize + 4]) = (offset(code), offset(end));
        }
        (words[36], words[68]) = (4 | (0xabcd << 16), 0xffff | (0xabcd << 16));
        let renamed = |&(owner, name, of, place): &(_, &'static CStr, _, _)| match name.to_bytes() {
            b"_heaps" => (owner, c"_heap", of, place),
            b"_code_begin" => (owner, c"_code_offset", c"int", place),
            b"_code_end" => (owner, c"_data_offset", c"int", place),
            b"_frame_complete_offset" => (owner, name, c"number", place),
            b"_length" => (owner, name, c"unsigned short", place),
            b"_method" => (c"nmethod", name, of, place),
            _ => (owner, name, of, place),
        };
        let fields = FIELDS.iter().filter(|field| !matches!(field.1.to_bytes(), b"_len" | b"_data"));
        let fields: Vec<_> = fields.map(renamed).collect();
        let sizes = [&SIZES[..], &[(c"number", 2)]].concat();
        let mut heap = open(&words, &fields, &sizes).unwrap();
        let stamp = heap.find(start + 8 * 80).unwrap();
        assert_eq!((stamp.start, stamp.end), (start + 8 * 72, start + 8 * 288));
        assert_eq!((stamp.words, stamp.complete), (8, -1));
        for (word, name) in [(80, &b"name.name"[..]), (300, b"Interpreter")] {
            let at = start + 8 * word;
            assert_eq!(heap.now_at(at).unwrap().name_at(at).map(|found| found.0), Some(name));
        }
    }

    /// Heaps come one after another while the virtual machine starts.
    #[test]
    fn heaps_that_come_later_are_found() {
        let mut words = vec![0u64; HEAP];
        fill(&mut words);
        let at = address(&words[0]) + 8 * 80;
        words[1] = 0;
        let mut heap = open(&words, &FIELDS, &SIZES).unwrap();
        assert!(heap.now_at(at).is_none());
        words[1] = 1;
        std::thread::sleep(TRUSTED);
        assert!(heap.now_at(std::hint::black_box(at)).is_some());
    }

    /// A method is gone when a sample that was taken before asks for it.
    #[test]
    fn code_has_a_name_that_is_gone_before_a_sample_asks_for_it() {
        let mut words = vec![0u64; HEAP];
        fill(&mut words);
        let at = address(&words[0]) + 8 * 80;
        let start = words[64 + 5];
        let mut heap = open(&words, &FIELDS, &SIZES).unwrap();
        // It is being made.
        words[64 + 5] = 0;
        heap.look();
        assert!(heap.at(at).is_none());
        words[64 + 5] = start;
        std::thread::sleep(2 * TRUSTED);
        heap.look();
        (words[16], words[65]) = (u64::MAX, 0);
        assert_eq!(heap.now_at(at).unwrap().name_at(at).map(|found| found.0), Some(&b"name.name"[..]));
    }

    /// A look may come while the interpreter is made, or a method. Whoever runs it runs all of it.
    #[test]
    fn code_that_was_not_complete_at_a_look_is_read_again_when_it_runs() {
        let mut words = vec![0u64; HEAP];
        fill(&mut words);
        let at = address(&words[0]) + 8 * 80;
        let mut heap = open(&words, &FIELDS, &SIZES).unwrap();
        heap.look();
        words[37] = u64::from_le_bytes(*b"done\0\0\0\0");
        assert_eq!(heap.now_at(at).unwrap().name_at(at).map(|found| found.0), Some(&b"done.done"[..]));
        assert!(heap.former.is_empty());
    }

    /// Looks find much that no sample asks for. It takes no room from what one does.
    #[test]
    fn code_that_a_sample_has_met_is_kept() {
        let mut words = vec![0u64; HEAP];
        fill(&mut words);
        let at = address(&words[0]) + 8 * 80;
        let mut heap = open(&words, &FIELDS, &SIZES).unwrap();
        heap.look();
        let mut stamp = heap.find(at).unwrap();
        assert!(heap.now_at(at).is_some());
        heap.former.extend((0..MAX_FORMER).map(|_| Blob { stamp, asked_at: None, object: None }));
        // Another blob, which begins behind the address.
        stamp.start = at + 8;
        heap.note(stamp, false);
        assert_eq!(heap.former.len(), MAX_FORMER);
        assert_eq!(heap.at(at).unwrap().name_at(at).map(|found| found.0), Some(&b"name.name"[..]));
    }

    /// Code that was made anew in the same place may have frames of another size.
    #[test]
    fn frames_of_code_that_is_made_anew_have_their_own_size() {
        let mut words = vec![0u64; HEAP];
        fill(&mut words);
        let start = address(&words[0]);
        let at = start + 8 * 80;
        let mut heap = open(&words, &FIELDS, &SIZES).unwrap();
        for size in [8, 12] {
            words[67] = size;
            std::thread::sleep(TRUSTED);
            let object = heap.now_at(at).unwrap();
            let (mut registers, mut asked) = (Registers::new(start, start + 64, None), Vec::new());
            let mut read = |place| {
                asked.push(place);
                Ok(at)
            };
            object.step_at(at, false, &mut registers, &mut read).unwrap().0.unwrap();
            assert!(asked.contains(&(start + 8 * size - 8)), "{size} {asked:?}");
        }
    }

    /// Once there are as many methods as are kept, those that are known still have their names.
    #[test]
    fn known_methods_stay_known() {
        let mut words = vec![0u64; HEAP];
        fill(&mut words);
        let method = address(&words[0]) + 8 * 24;
        let mut heap = open(&words, &FIELDS, &SIZES).unwrap();
        assert!(heap.has_method(method));
        let known = heap.at(method).unwrap();
        heap.methods.extend((0..MAX_METHODS as u64).map(|number| (number, Arc::clone(&known))));
        assert!(heap.has_method(method));
        heap.methods.remove(&method);
        assert!(!heap.has_method(method));
    }
}
