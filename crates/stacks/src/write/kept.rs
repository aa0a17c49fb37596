//! A profile in a file, from which every form can be written again, also when the programs are gone or have
//! been built anew: it has the names of its frames and the statistics of its recording.
//!
//! The file is JSON, compressed by gzip. Each text and each frame is there once, and rows are short arrays.
//! The reader trusts nothing: each number must be that of something that is there, and the memory is in
//! proportion to the file, because gzip shrinks nothing to less than a thousandth.

use super::numbers::Numbers;
use crate::files::{FileId, Files};
use crate::kernel::Kernel;
use crate::modules::Modules;
use crate::name::Name;
use crate::named::Named;
use crate::process::Place;
use crate::profile::{FrameKey, NONE, Names, Node, Profile, Row, Thread};
use crate::session::SOURCES;
use crate::statistics::{End, Report, Statistics};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use sframe_format::Source;
use std::borrow::Cow;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The first bytes of a file: those of gzip.
const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// What the file calls itself, and its version.
const FORM: &str = "sframe profile";
const VERSION: u32 = 1;

/// A profile with everything that its writers need.
#[derive(Default)]
pub struct Kept {
    /// The samples.
    pub profile: Profile,
    /// Names of their frames.
    pub names: Names,
    /// The files of their frames.
    pub modules: Modules,
    /// How complete the stacks are.
    pub report: Report,
    /// The subject of the recording: a file name or a command.
    pub title: String,
}

/// The contents of a file.
#[derive(Serialize, Deserialize)]
struct Layout<'a> {
    form: Cow<'a, str>,
    version: u32,
    title: Cow<'a, str>,
    events: Cow<'a, [String]>,
    notes: Cow<'a, [String]>,
    /// Nanoseconds since 1970. Files of earlier commands do not have it.
    #[serde(default)]
    begun: Option<u64>,
    report: Cow<'a, Report>,
    modules: Cow<'a, Modules>,
    threads: Cow<'a, [Thread]>,
    ends: Vec<End>,
    texts: Vec<Cow<'a, str>>,
    frames: Vec<FrameRow>,
    /// The number of the caller's stack if there is one, and that of the frame.
    stacks: Vec<(Option<u32>, u32)>,
    rows: Vec<SampleRow>,
}

#[derive(Serialize, Deserialize)]
struct FrameRow(Spot, u64, bool, Option<u8>, Vec<NameRow>);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Spot {
    File(FileId, u64),
    Anonymous(u32, u64),
    Unmapped(u64),
    Kernel(u64),
    NotSampled,
}

/// Function, offset, file, source file and line, whether it was inlined, and whether its name is known.
#[derive(Serialize, Deserialize)]
struct NameRow(u32, Option<u64>, u32, Option<(u32, u32)>, bool, bool);

/// Thread, stack, event, processor, time, period, end.
#[derive(Serialize, Deserialize)]
struct SampleRow(u32, Option<u32>, u32, Option<u32>, Option<u64>, u64, u32);

impl From<Place> for Spot {
    fn from(place: Place) -> Self {
        match place {
            Place::File(file, address) => Self::File(file, address),
            Place::Anonymous(pid, address) => Self::Anonymous(pid, address),
            Place::Unmapped(address) => Self::Unmapped(address),
            Place::Kernel(address) => Self::Kernel(address),
            Place::NotSampled => Self::NotSampled,
        }
    }
}

impl From<Spot> for Place {
    fn from(spot: Spot) -> Self {
        match spot {
            Spot::File(file, address) => Self::File(file, address),
            Spot::Anonymous(pid, address) => Self::Anonymous(pid, address),
            Spot::Unmapped(address) => Self::Unmapped(address),
            Spot::Kernel(address) => Self::Kernel(address),
            Spot::NotSampled => Self::NotSampled,
        }
    }
}

impl Kept {
    /// Names the frames of a profile. With `inlined`, also looks up inlined functions and source lines.
    pub fn new(
        profile: Profile,
        (files, kernel): (&Files, &Kernel),
        statistics: &Statistics,
        inlined: bool,
        title: &str,
    ) -> Self {
        let names = Names::new(&profile, files, kernel, inlined);
        Self::with_names(profile, names, files, statistics, title)
    }

    /// A profile whose frames have these names.
    pub fn with_names(
        mut profile: Profile,
        names: Names,
        files: &Files,
        statistics: &Statistics,
        title: &str,
    ) -> Self {
        profile.sort();
        let (modules, report) = (Modules::of(files), statistics.report(files));
        Self { profile, names, modules, report, title: title.to_owned() }
    }

    /// The parts, for writers.
    pub fn named(&self) -> Named<'_> {
        let Self { profile, names, modules, report, title } = self;
        Named { profile, names, modules, report, title }
    }

    /// Whether a file begins like one with a profile.
    pub fn begins(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It is damaged, or a later version: a sentence.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut text = Vec::new();
        let expanded = GzDecoder::new(bytes).read_to_end(&mut text);
        expanded.map_err(|error| format!("not a profile of sframe: it cannot be expanded: {error}"))?;
        let layout: Layout<'_> = serde_json::from_slice(&text).map_err(|error| {
            format!("not a profile of sframe, as -o FILE.sframe-profile writes it: {error}")
        })?;
        if layout.form != FORM {
            return Err(format!("it calls itself {:?}; expected {FORM:?}", layout.form));
        }
        if layout.version != VERSION {
            return Err(format!("version {} of the form; this command reads {VERSION}", layout.version));
        }
        layout.kept()
    }
}

/// Writes a file.
pub(crate) fn write(named: Named<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    let layout = layout(named);
    let mut compressed = GzEncoder::new(to, Compression::default());
    serde_json::to_writer(&mut compressed, &layout)?;
    compressed.finish()?;
    Ok(())
}

fn layout(named: Named<'_>) -> Layout<'_> {
    let (profile, mut texts, mut ends) = (named.profile, Numbers::default(), Numbers::default());
    let mut name = |name| {
        let Name { function, offset, file, place, inlined, known }: &Name = name;
        let place =
            place.as_ref().map(|(source, line)| (texts.number(Cow::Borrowed(source.as_str())), *line));
        let (function, file) =
            (texts.number(Cow::Borrowed(&**function)), texts.number(Cow::Borrowed(&**file)));
        NameRow(function, *offset, file, place, *inlined, *known)
    };
    let frames = (0..).zip(&profile.frames).map(|(number, key)| {
        let source = key.source.and_then(|source| SOURCES.iter().position(|known| *known == source));
        let names = named.names.of(number).iter().map(&mut name).collect();
        FrameRow(key.place.into(), key.address, key.returns, source.map(|number| number as u8), names)
    });
    let frames = frames.collect();
    let some = |number: u32| (number != NONE).then_some(number);
    let rows = profile.rows.iter().map(|row| {
        let &Row { thread, stack, event, cpu, time, period, end } = row;
        SampleRow(thread, some(stack), event, cpu, time, period, ends.number(end))
    });
    let rows = rows.collect();
    Layout {
        form: FORM.into(),
        version: VERSION,
        title: named.title.into(),
        events: (&*profile.events).into(),
        notes: (&*profile.notes).into(),
        begun: profile.begun.and_then(nanoseconds),
        report: Cow::Borrowed(named.report),
        modules: Cow::Borrowed(named.modules),
        threads: (&*profile.threads).into(),
        ends: ends.all,
        texts: texts.all,
        frames,
        stacks: profile.stacks.iter().map(|node| (some(node.caller), node.frame)).collect(),
        rows,
    }
}

impl Layout<'_> {
    /// Checks that each number is that of something that is there.
    fn kept(self) -> Result<Kept, String> {
        let texts: Vec<Arc<str>> = self.texts.iter().map(|text| Arc::from(&**text)).collect();
        let text = |number: u32| texts.get(number as usize).cloned().ok_or_else(|| missing("text", number));
        let (mut names, mut frames) = (Names::default(), Vec::new());
        for FrameRow(spot, address, returns, source, own) in self.frames {
            let place = Place::from(spot);
            if let Place::File(file, _) = place {
                let known = self.modules.get(file).is_some();
                known.then_some(()).ok_or_else(|| missing("file", file.0))?;
            }
            if own.is_empty() {
                return Err("a frame without a name".into());
            }
            let mut all = Vec::with_capacity(own.len());
            for NameRow(function, offset, file, place, inlined, known) in own {
                let place = place.map(|(source, line)| Ok::<_, String>((text(source)?.to_string(), line)));
                let (function, file, place) = (text(function)?, text(file)?, place.transpose()?);
                all.push(Name { function, known, offset, file, place, inlined });
            }
            names.push(all);
            let source: Option<Source> = source.and_then(|number| SOURCES.get(usize::from(number)).copied());
            frames.push(FrameKey { place, address, returns, source });
        }
        let mut stacks = Vec::new();
        for (caller, frame) in self.stacks {
            // A caller comes before its callees, so no walk to the root goes in circles.
            let known = caller.is_none_or(|caller| (caller as usize) < stacks.len());
            known.then_some(()).ok_or_else(|| missing("caller", caller.unwrap_or(NONE)))?;
            frames.get(frame as usize).ok_or_else(|| missing("frame", frame))?;
            stacks.push(Node { caller: caller.unwrap_or(NONE), frame });
        }
        let mut rows = Vec::new();
        for SampleRow(thread, stack, event, cpu, time, period, end) in self.rows {
            self.threads.get(thread as usize).ok_or_else(|| missing("thread", thread))?;
            let stack = stack.unwrap_or(NONE);
            (stack == NONE || (stack as usize) < stacks.len())
                .then_some(())
                .ok_or_else(|| missing("stack", stack))?;
            let end = *self.ends.get(end as usize).ok_or_else(|| missing("end", end))?;
            rows.push(Row { thread, stack, event, cpu, time, period, end });
        }
        let mut profile = Profile::of_parts((frames, stacks), self.threads.into_owned(), rows);
        (profile.events, profile.notes) = (self.events.into_owned(), self.notes.into_owned());
        profile.begun = self.begun.and_then(|begun| UNIX_EPOCH.checked_add(Duration::from_nanos(begun)));
        let (report, title) = (self.report.into_owned(), self.title.into_owned());
        Ok(Kept { profile, names, modules: self.modules.into_owned(), report, title })
    }
}

/// Nanoseconds since 1970.
fn nanoseconds(moment: SystemTime) -> Option<u64> {
    moment.duration_since(UNIX_EPOCH).ok()?.as_nanos().try_into().ok()
}

fn missing(what: &str, number: u32) -> String {
    format!("the profile is damaged: it has no {what} of the number {number}")
}
