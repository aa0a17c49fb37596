//! Unwinds the samples of a recording by this crate and by framehop in one run, and prints times and
//! differences as JSON.
//!
//! `beside_framehop RECORDING [PASSES [LIBDW]]`. Both unwinders have the same files at the same places, and
//! read them before the measurement starts. LIBDW is a program that unwinds the samples with libdw; nobody
//! measures its time. framehop walks by frame pointers where its rows fail, and does not say so. So the
//! report counts differences by this crate's source of the frame, or by this crate's reason to stop.

mod libdw;

use framehop::Unwinder as _;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use hashbrown::HashMap;
use object::{Object, ObjectSection};
use serde::Serialize;
use sframe_format::Abi;
use stacks::bytes::Bytes;
use stacks::event::{Event, Sample};
use stacks::files::{FileId, Files, Options};
use stacks::process::{Place, Processes};
use stacks::recording::Recording;
use stacks::session::{Session, Settings};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[derive(Default, Serialize)]
struct Result {
    samples: usize,
    rooted: usize,
    frames: usize,
    seconds: f64,
    samples_per_second: f64,
    cache_hit_share: f64,
}

impl Result {
    fn of(walks: &[Walk], seconds: f64, cache_hit_share: f64) -> Self {
        Self {
            samples: walks.len(),
            rooted: walks.iter().filter(|walk| walk.1).count(),
            frames: walks.iter().map(|walk| walk.0.len()).sum(),
            seconds,
            samples_per_second: walks.len() as f64 / seconds,
            cache_hit_share,
        }
    }
}

#[derive(Serialize)]
struct Report {
    ours: Result,
    framehop: Result,
    #[serde(flatten)]
    differences: Differences,
    /// The result of libdw, and its differences from that of this crate.
    libdw: Option<(Result, Differences)>,
}

#[derive(Default, Serialize)]
struct Differences {
    /// Samples with the same frames.
    same_samples: usize,
    /// Frames before the first difference of each sample.
    same_frames: usize,
    /// Frames of the other unwinder after such a difference, if this crate found its frame there without call
    /// frame information. The other unwinder had no rows to follow.
    frames_without_rows: usize,
    /// Number of samples by their first difference, which is described by the source of this crate's frame
    /// there.
    differences: BTreeMap<String, usize>,
}

/// Sources of frames without call frame information.
const WITHOUT_ROWS: [&str; 3] = ["Instructions", "FramePointer", "SignalContext"];

/// One sample's frames, and whether the walk reached the root. For this crate's walks, also their end and
/// sources as `END|SOURCE,...`.
type Walk = (Vec<u64>, bool, String);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("a recording");
    let passes: usize = arguments.next().map_or(3, |passes| passes.parse().expect("a number of passes"));
    let by_libdw = arguments.next();
    let bytes = Bytes::map(&std::fs::File::open(&path).expect("the recording")).expect("the recording");
    let recording = Recording::new(bytes).expect("a recording");
    let mut report: Option<Report> = None;
    for _ in 0..passes {
        let (ours, our_walks) = by_this_crate(&recording);
        let (framehop, their_walks) = by_framehop(&recording);
        let differences = compare("framehop", &our_walks, &their_walks);
        let mut made = Report { ours, framehop, differences, libdw: None };
        // The best time of all passes.
        if let Some(before) = &report {
            for (now, before) in [(&mut made.ours, &before.ours), (&mut made.framehop, &before.framehop)] {
                now.seconds = now.seconds.min(before.seconds);
                now.samples_per_second = now.samples_per_second.max(before.samples_per_second);
            }
        }
        if let Some(program) = &by_libdw {
            let (result, walks) = samples(&recording).walk(program);
            made.libdw = Some((result, compare("libdw", &our_walks, &walks)));
        }
        report = Some(made);
    }
    println!("{}", serde_json::to_string_pretty(&report).expect("a report"));
}

fn by_this_crate(recording: &Recording) -> (Result, Vec<Walk>) {
    let settings =
        || Settings { files: Options { measure: true, ..Options::default() }, ..Settings::default() };
    let mut walks = Vec::new();
    let mut session = Session::new(Abi::Amd64, settings());
    // Reads all rows before the measurement: the session keeps the files of the first run for the second.
    run(recording, &mut session, &mut |_| {});
    session.begin_again();
    run(recording, &mut session, &mut |stack| {
        let user = stack.frames.iter().filter(|frame| !matches!(frame.place, Place::Kernel(_)));
        let addresses: Vec<u64> = user.map(|frame| frame.address).collect();
        let user = stack.frames.iter().filter(|frame| !matches!(frame.place, Place::Kernel(_)));
        let sources = user.map(|frame| format!("{:?}", frame.source)).collect::<Vec<_>>().join(",");
        walks.push((addresses, stack.end.is_rooted(), format!("{:?}|{sources}", stack.end)));
    });
    let (_, statistics) = session.finish(&mut |_| {});
    let seconds = statistics.unwinding.as_secs_f64();
    let (hits, misses) = statistics.cache;
    let result = Result::of(&walks, seconds, hits as f64 / (hits + misses).max(1) as f64);
    (result, walks)
}

fn run(recording: &Recording, session: &mut Session, take: &mut dyn FnMut(&stacks::session::Stack<'_>)) {
    for id in &recording.build_ids {
        session.expect(&id.path, &id.id);
    }
    recording.each_event(&mut |event, record| {
        if !matches!(record, Some(Event::Sample(sample)) if sample.user.is_none()) {
            session.handle(event, record, take);
        }
    });
}

/// framehop's unwinder for each process. It is made again when the process's modules have changed.
struct Framehop<'a> {
    files: &'a Files,
    unwinders: &'a mut HashMap<u32, (u64, UnwinderX86_64<Bytes>)>,
    cache: &'a mut CacheX86_64,
    time: &'a mut Duration,
}

/// Passes on each sample with registers, with the files and processes as they were at that time.
fn each_sample(recording: &Recording, take: &mut dyn FnMut(&Files, &mut Processes, &Sample<'_>)) {
    let mut files = Files::new(Abi::Amd64, Options::default());
    let mut processes = Processes::new(Abi::Amd64, false, false);
    for id in &recording.build_ids {
        files.expect(&id.path, &id.id);
    }
    recording.each_event(&mut |_, record| match record {
        Some(Event::Mapped(mapped)) if !mapped.kernel => processes.map(mapped, &mut files),
        Some(&Event::Named { pid, tid, name, executed }) => processes.name(pid, tid, name, executed),
        Some(&Event::Forked { pid, tid, parent, parent_tid, before }) => {
            processes.fork((pid, tid), (parent, parent_tid), before);
        }
        Some(&Event::Exited { pid, tid }) => processes.exit(pid, tid),
        Some(Event::Sample(sample)) if sample.user.is_some() => take(&files, &mut processes, sample),
        _ => {}
    });
}

/// The samples for libdw.
fn samples(recording: &Recording) -> libdw::Samples {
    let mut samples = libdw::Samples::default();
    each_sample(recording, &mut |files, processes, sample| samples.add(files, processes, sample));
    samples
}

fn by_framehop(recording: &Recording) -> (Result, Vec<Walk>) {
    let mut walks = Vec::new();
    let mut unwinders = HashMap::new();
    let mut cache = CacheX86_64::new();
    let mut time = Duration::ZERO;
    each_sample(recording, &mut |files, processes, sample| {
        let mut framehop = Framehop { files, unwinders: &mut unwinders, cache: &mut cache, time: &mut time };
        walks.push(framehop.walk(processes, sample));
    });
    let statistics = cache.stats();
    let hits = statistics.hits() as f64 / statistics.total().max(1) as f64;
    (Result::of(&walks, time.as_secs_f64(), hits), walks)
}

impl Framehop<'_> {
    fn walk(&mut self, processes: &mut Processes, sample: &Sample<'_>) -> Walk {
        let process = processes.get(sample.pid);
        let generation = process.unwinder().generation();
        let known = self.unwinders.get(&sample.pid).is_some_and(|(known, _)| *known == generation);
        if !known {
            let mut unwinder = UnwinderX86_64::new();
            for module in process.unwinder().modules() {
                if let Some(made) = framehop_module(self.files, module) {
                    unwinder.add_module(made);
                }
            }
            self.unwinders.insert(sample.pid, (generation, unwinder));
        }
        let unwinder = &self.unwinders[&sample.pid].1;
        let user = sample.user.as_ref().expect("registers");
        let (mut ip, mut sp, mut bp) = (0, 0, 0);
        let started = Instant::now();
        for (number, value) in user.registers(sframe_format::Endian::Little) {
            match number {
                6 => bp = value,
                7 => sp = value,
                8 => ip = value,
                _ => {}
            }
        }
        let mut read = |address: u64| {
            let offset = usize::try_from(address.wrapping_sub(sp)).map_err(|_| ())?;
            user.stack
                .get(offset..)
                .and_then(|rest| rest.first_chunk())
                .map(|bytes| u64::from_le_bytes(*bytes))
                .ok_or(())
        };
        let mut frames = unwinder.iter_frames(ip, UnwindRegsX86_64::new(ip, sp, bp), self.cache, &mut read);
        let mut found = Vec::new();
        let rooted = loop {
            match frames.next() {
                Ok(Some(frame)) => found.push(frame.address()),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        *self.time += started.elapsed();
        (found, rooted, String::new())
    }
}

/// A file for framehop, loaded at the same place.
fn framehop_module(files: &Files, module: &sframe_format::Module<Bytes>) -> Option<framehop::Module<Bytes>> {
    let file = files.get(FileId(module.id().0 as u32))?;
    let image = file.image().ok()?;
    let parsed = object::File::parse(&**image.bytes()).ok()?;
    let section = |name: &str| {
        let section = parsed.section_by_name(name)?;
        let data = image.bytes().part(section.data().ok()?)?;
        Some((section.address()..section.address() + section.size(), data))
    };
    let (eh_frame, header, text) = (section(".eh_frame"), section(".eh_frame_hdr"), section(".text"));
    let range =
        |section: &Option<(std::ops::Range<u64>, Bytes)>| section.as_ref().map(|section| section.0.clone());
    let data =
        |section: &Option<(std::ops::Range<u64>, Bytes)>| section.as_ref().map(|section| section.1.clone());
    let sections = framehop::ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: range(&text),
        text: data(&text),
        eh_frame_svma: range(&eh_frame),
        eh_frame: data(&eh_frame),
        eh_frame_hdr_svma: range(&header),
        eh_frame_hdr: data(&header),
        ..Default::default()
    };
    Some(framehop::Module::new(file.path.to_string(), module.range(), module.bias(), sections))
}

/// Counts the differences between our walks and those of another unwinder.
fn compare(name: &str, our_walks: &[Walk], their_walks: &[Walk]) -> Differences {
    let mut report = Differences::default();
    for (own, other) in our_walks.iter().zip(their_walks) {
        let same = own.0.iter().zip(&other.0).take_while(|(own, other)| own == other).count();
        report.same_frames += same;
        if own.0 == other.0 && own.1 == other.1 {
            report.same_samples += 1;
            continue;
        }
        let (end, sources) = own.2.split_once('|').unwrap_or((&own.2, ""));
        let source = sources.split(',').nth(same);
        if source.is_some_and(|source| WITHOUT_ROWS.iter().any(|kind| source.contains(kind))) {
            report.frames_without_rows += other.0.len() - same;
        }
        let kind = match (source.filter(|_| same < own.0.len()), other.0.get(same)) {
            (Some(source), Some(_)) => format!("other frames; ours is by {source}"),
            (Some(source), None) => format!("{name} stops; ours goes on by {source}"),
            (None, Some(_)) => format!("{name} goes on; ours ends at {end}"),
            (None, None) => format!(
                "same frames; ours ends at {end}, {name} {}",
                if other.1 { "at the root" } else { "stops" }
            ),
        };
        *report.differences.entry(kind).or_default() += 1;
    }
    report
}
