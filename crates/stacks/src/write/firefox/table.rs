//! The tables of a thread.

use super::libs::Libs;
use crate::name::Name;
use crate::named::Named;
use crate::process::Place;
use crate::profile::{NONE, Row};
use crate::write::numbers::Numbers;
use hashbrown::HashMap;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// Numbers of categories.
const KERNEL: u32 = 1;
const USER: u32 = 2;
/// The type of resources that are files.
const LIBRARY: u32 = 1;
/// In place of the number of a resource or of an address: there is none.
const NOTHING: i64 = -1;

/// Whether a sample of an event stands for so many nanoseconds of processor time.
pub fn is_processor_time(event: &str) -> bool {
    matches!(event, "cpu-clock" | "task-clock")
}

/// Nanoseconds as the profiler counts time.
pub fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

/// The samples of one event of a thread.
pub struct Thread<'a> {
    of: &'a crate::profile::Thread,
    /// The name of the event, if the profile has several.
    event: Option<&'a str>,
    weigh: Weigh,
    samples: Vec<Sample>,
    strings: Numbers<&'a str>,
    resources: Numbers<Resource>,
    symbols: Numbers<Symbol>,
    functions: Numbers<Function>,
    frames: Numbers<Frame>,
    stacks: Numbers<Stack>,
    /// The innermost stack of each of the profile's.
    made: HashMap<u32, Option<u32>>,
    /// The times of its first and its last sample, in nanoseconds from the start.
    since: u64,
    last: u64,
}

struct Sample {
    /// Nanoseconds since the sample before, or since the start.
    later: u64,
    stack: Option<u32>,
    period: u64,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Resource {
    /// `None`: the kernel.
    lib: Option<u32>,
    name: u32,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Symbol {
    lib: u32,
    address: u64,
    name: u32,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Function {
    name: u32,
    resource: Option<u32>,
    file: Option<u32>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Frame {
    /// In the file.
    address: Option<u64>,
    /// How many functions it was inlined into.
    depth: u32,
    category: u32,
    function: u32,
    symbol: Option<u32>,
    line: Option<u32>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Stack {
    prefix: Option<u32>,
    frame: u32,
}

/// Where a frame is: its file's number, its address there, and its resource.
#[derive(Clone, Copy)]
struct Within {
    category: u32,
    lib: Option<(u32, u64)>,
    resource: Option<u32>,
}

impl<'a> Thread<'a> {
    /// No samples yet. The flag says whether the event has to be told from others.
    pub fn new(of: &'a crate::profile::Thread, (event, among_others): (&'a str, bool)) -> Self {
        Self {
            of,
            event: among_others.then_some(event),
            weigh: Weigh::of(event),
            samples: Vec::new(),
            strings: Numbers::default(),
            resources: Numbers::default(),
            symbols: Numbers::default(),
            functions: Numbers::default(),
            frames: Numbers::default(),
            stacks: Numbers::default(),
            made: HashMap::new(),
            since: 0,
            last: 0,
        }
    }

    /// Adds a sample, in the order of time.
    pub fn add(&mut self, named: Named<'a>, libs: &mut Libs<'a>, row: &Row, start: u64) {
        let time = row.time.map_or(0, |time| time.saturating_sub(start));
        if self.samples.is_empty() {
            self.since = time;
        }
        let stack = self.stack(named, libs, row.stack);
        let later = time.saturating_sub(self.last);
        self.last = self.last.max(time);
        self.samples.push(Sample { later, stack, period: row.period });
    }

    /// The number of one of the profile's stacks.
    fn stack(&mut self, named: Named<'a>, libs: &mut Libs<'a>, stack: u32) -> Option<u32> {
        let mut at = stack;
        let mut missing = Vec::new();
        while at != NONE && !self.made.contains_key(&at) {
            let Some(node) = named.profile.stacks.get(at as usize) else { break };
            missing.push((at, node.frame));
            at = node.caller;
        }
        let mut prefix = self.made.get(&at).copied().flatten();
        for (stack, frame) in missing.into_iter().rev() {
            prefix = self.push(named, libs, frame, prefix);
            self.made.insert(stack, prefix);
        }
        prefix
    }

    /// Adds the functions of a frame, outermost first.
    fn push(
        &mut self,
        named: Named<'a>,
        libs: &mut Libs<'a>,
        number: u32,
        mut prefix: Option<u32>,
    ) -> Option<u32> {
        let key = named.profile.frames.get(number as usize);
        let within = self.within(named, libs, key.map(|key| key.place));
        let names = named.names.of(number);
        // Offsets of return addresses are their own, and places are those of the calls.
        let behind = key.is_some_and(|key| key.returns).into();
        let symbol = names.last().and_then(|outermost| self.symbol(within, behind, outermost));
        for (depth, name) in (0..).zip(names.iter().rev()) {
            let (file, line) = name.place.as_ref().map(|(file, line)| (file.as_str(), *line)).unzip();
            let file = file.map(|file| self.strings.number(file));
            let named = self.strings.number(&name.function);
            let function = self.functions.number(Function { name: named, resource: within.resource, file });
            let (address, category) = (within.lib.map(|(_, address)| address), within.category);
            let frame = Frame { address, depth, category, function, symbol, line };
            let frame = self.frames.number(frame);
            prefix = Some(self.stacks.number(Stack { prefix, frame }));
        }
        prefix
    }

    fn within(&mut self, named: Named<'a>, libs: &mut Libs<'a>, place: Option<Place>) -> Within {
        let mut resource = |lib, name| {
            let name = self.strings.number(name);
            Some(self.resources.number(Resource { lib, name }))
        };
        match place {
            Some(Place::Kernel(_)) => {
                Within { category: KERNEL, lib: None, resource: resource(None, "[kernel.kallsyms]") }
            }
            Some(Place::File(id, own)) => match libs.of(named, id) {
                Some((lib, start)) => Within {
                    category: USER,
                    lib: Some((lib, own.wrapping_sub(start))),
                    resource: resource(Some(lib), libs.name(lib)),
                },
                None => Within { category: USER, lib: None, resource: None },
            },
            _ => Within { category: USER, lib: None, resource: None },
        }
    }

    /// The function that has the frame's code in its file. `None`: its start is not known.
    fn symbol(&mut self, within: Within, behind: u64, outermost: &'a Name) -> Option<u32> {
        let ((lib, address), offset) = (within.lib?, outermost.offset.filter(|_| outermost.known)?);
        let address = address.checked_add(behind)?.checked_sub(offset)?;
        let name = self.strings.number(&outermost.function);
        Some(self.symbols.number(Symbol { lib, address, name }))
    }
}

/// A value of a column.
#[derive(Clone, Copy)]
enum Cell {
    Null,
    Flag(bool),
    Number(i64),
    Real(f64),
}

impl Cell {
    fn of(number: Option<u32>) -> Self {
        number.map_or(Self::Null, Self::from)
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_none(),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Real(number) => serializer.serialize_f64(*number),
        }
    }
}

/// A column: its name, and its value for each row of its table.
type Column<T> = (&'static str, fn(&T) -> Cell);

/// A table: its number of rows, and its columns.
struct Table<'t, T>(&'t [T], &'t [Column<T>]);

impl<T> Serialize for Table<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1 + self.1.len()))?;
        map.serialize_entry("length", &self.0.len())?;
        for (name, value) in self.1 {
            map.serialize_entry(name, &Values(self.0, *value))?;
        }
        map.end()
    }
}

struct Values<'t, T>(&'t [T], fn(&T) -> Cell);

impl<T> Serialize for Values<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(self.1))
    }
}

const RESOURCES: [Column<Resource>; 4] = [
    ("lib", |resource| Cell::of(resource.lib)),
    ("name", |resource| resource.name.into()),
    ("host", |_| Cell::Null),
    ("type", |_| LIBRARY.into()),
];

const SYMBOLS: [Column<Symbol>; 4] = [
    ("libIndex", |symbol| symbol.lib.into()),
    ("address", |symbol| address(Some(symbol.address))),
    ("name", |symbol| symbol.name.into()),
    ("functionSize", |_| Cell::Null),
];

const FUNCTIONS: [Column<Function>; 7] = [
    ("name", |function| function.name.into()),
    ("isJS", |_| Cell::Flag(false)),
    ("relevantForJS", |_| Cell::Flag(false)),
    ("resource", |function| function.resource.map_or(Cell::Number(NOTHING), Cell::from)),
    ("fileName", |function| Cell::of(function.file)),
    ("lineNumber", |_| Cell::Null),
    ("columnNumber", |_| Cell::Null),
];

const FRAMES: [Column<Frame>; 9] = [
    ("address", |frame| address(frame.address)),
    ("inlineDepth", |frame| frame.depth.into()),
    ("category", |frame| frame.category.into()),
    ("subcategory", |_| Cell::Number(0)),
    ("func", |frame| frame.function.into()),
    ("nativeSymbol", |frame| Cell::of(frame.symbol)),
    ("innerWindowID", |_| Cell::Number(0)),
    ("line", |frame| Cell::of(frame.line)),
    ("column", |_| Cell::Null),
];

const STACKS: [Column<Stack>; 2] =
    [("prefix", |stack| Cell::of(stack.prefix)), ("frame", |stack| stack.frame.into())];

const MARKERS: [Column<()>; 6] = [
    ("data", |()| Cell::Null),
    ("name", |()| Cell::Null),
    ("startTime", |()| Cell::Null),
    ("endTime", |()| Cell::Null),
    ("phase", |()| Cell::Null),
    ("category", |()| Cell::Null),
];

fn address(address: Option<u64>) -> Cell {
    Cell::Number(address.and_then(|address| i64::try_from(address).ok()).unwrap_or(NOTHING))
}

/// The samples of a thread as a table.
struct Samples<'t>(&'t [Sample], Weigh);

/// What the samples of an event are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weigh {
    /// Processor time: each weighs one, and says how long the thread has run.
    Time,
    /// Waits, which weigh as long as they last.
    Waits,
    /// Each weighs one.
    Ones,
}

impl Weigh {
    fn of(event: &str) -> Self {
        match event {
            _ if is_processor_time(event) => Self::Time,
            "off-cpu" => Self::Waits,
            _ => Self::Ones,
        }
    }
}

impl Serialize for Samples<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(samples, weigh) = *self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("length", &samples.len())?;
        map.serialize_entry("stack", &Values(samples, |sample| Cell::of(sample.stack)))?;
        map.serialize_entry("timeDeltas", &Values(samples, |sample| Cell::Real(milliseconds(sample.later))))?;
        let (kind, weight): (_, fn(&Sample) -> Cell) = match weigh {
            Weigh::Waits => ("tracing-ms", |sample| Cell::Real(milliseconds(sample.period))),
            _ => ("samples", |_| Cell::Number(1)),
        };
        map.serialize_entry("weightType", kind)?;
        map.serialize_entry("weight", &Values(samples, weight))?;
        if weigh == Weigh::Time {
            // In microseconds. Without these, the profiler takes a thread with a sample as one that runs.
            let ran = |sample: &Sample| Cell::Real(sample.period as f64 / 1e3);
            map.serialize_entry("threadCPUDelta", &Values(samples, ran))?;
        }
        map.end()
    }
}

impl Serialize for Thread<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let crate::profile::Thread { pid, tid, process, name } = self.of;
        let is_main = pid == tid;
        let name = if is_main { process } else { name };
        let mut map = serializer.serialize_map(None)?;
        match self.event {
            Some(event) => map.serialize_entry("name", &format!("{name}: {event}"))?,
            None => map.serialize_entry("name", name)?,
        }
        map.serialize_entry("isMainThread", &is_main)?;
        map.serialize_entry("processName", process)?;
        map.serialize_entry("processType", "default")?;
        map.serialize_entry("pid", &pid.to_string())?;
        map.serialize_entry("tid", tid)?;
        let since = milliseconds(self.since);
        map.serialize_entry("processStartupTime", &since)?;
        map.serialize_entry("processShutdownTime", &())?;
        map.serialize_entry("registerTime", &since)?;
        map.serialize_entry("unregisterTime", &())?;
        map.serialize_entry("pausedRanges", &[(); 0])?;
        map.serialize_entry("showMarkersInTimeline", &false)?;
        map.serialize_entry("markers", &Table(&[], &MARKERS))?;
        map.serialize_entry("samples", &Samples(&self.samples, self.weigh))?;
        map.serialize_entry("stackTable", &Table(&self.stacks.all, &STACKS))?;
        map.serialize_entry("frameTable", &Table(&self.frames.all, &FRAMES))?;
        map.serialize_entry("funcTable", &Table(&self.functions.all, &FUNCTIONS))?;
        map.serialize_entry("resourceTable", &Table(&self.resources.all, &RESOURCES))?;
        map.serialize_entry("nativeSymbols", &Table(&self.symbols.all, &SYMBOLS))?;
        map.serialize_entry("stringArray", &self.strings.all)?;
        map.end()
    }
}
