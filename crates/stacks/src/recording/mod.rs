//! Reads the files that `perf record` writes, and the stream that it writes to a pipe.
//!
//! The bytes are mapped and never copied, except for records that perf compressed. The file has the records
//! processor by processor, but a session needs them in the order of time. So a first walk notes where time
//! goes back, and then the records are read in the order of time. perf's `perf.data-file-format.txt`
//! describes the format.
//!
//! The reader trusts nothing: sections must be in the file, records must be in the data, and the expanded
//! size of compressed records has a limit. If a file ends early, the reader uses the records before the end,
//! and [`Recording::damage`] describes the defect.

mod damage;
mod expand;
mod header;
mod order;

use crate::bytes::{Bytes, Reader, fetch_ahead};
use crate::event::{Event, Layout, Record, TimeOf, read};
pub use damage::Damage;
use damage::damage;
use expand::Expander;
use hashbrown::HashMap;
pub use header::BuildId;
pub(crate) use header::feature;
use header::{Clocks, Header, RECORD_HEADER};
use order::{FAR, Records, Stretches, record_at};
use sframe_format::Endian;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Types of the records that perf itself adds.
mod kind {
    pub const FIRST: u32 = 64;
    pub const ATTRIBUTE: u32 = 64;
    pub const TRACING_DATA: u32 = 66;
    pub const BUILD_ID: u32 = 67;
    pub const AUXTRACE: u32 = 71;
    pub const FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

/// A sampled event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// Its name. `None`: the recording does not say.
    pub name: Option<String>,
    layout: Layout,
    time: TimeOf,
}

/// A recording.
pub struct Recording {
    bytes: Bytes,
    /// Records that were compressed. Their offsets count from the end of `bytes`.
    expanded: Vec<u8>,
    stretches: Stretches,
    /// Number of records.
    count: usize,
    /// Number of the event for each id.
    ids: HashMap<u64, usize>,
    /// The sampled events.
    pub sampled: Vec<Sampled>,
    /// Build-ids of files, which perf writes when it ends.
    pub build_ids: Vec<BuildId>,
    /// The machine, as `uname -m` prints it.
    pub machine: Option<String>,
    /// One moment by the clock of samples and as people count time.
    clocks: Option<Clocks>,
    /// The defect after the last record that can be read.
    pub damage: Option<Damage>,
}

impl Recording {
    /// Reads the structure of a recording.
    ///
    /// # Errors
    /// It is not a recording, or its header is damaged.
    pub fn new(bytes: Bytes) -> Result<Self, Damage> {
        let header = Header::read(&bytes)?;
        let mut recording = Self {
            bytes: bytes.clone(),
            expanded: Vec::new(),
            stretches: Stretches::default(),
            count: 0,
            ids: HashMap::new(),
            sampled: Vec::new(),
            build_ids: header.build_ids,
            machine: header.machine,
            clocks: header.clocks,
            damage: header.damage,
        };
        for attribute in header.attributes {
            recording.add_attribute(attribute.layout, attribute.name, &attribute.ids);
        }
        let mut expander = Expander::new(bytes.len());
        let end = header.data.end;
        let ended = recording.note(header.endian, &bytes[..end], header.data.start, 0, Some(&mut expander));
        if let Err(found) = ended {
            recording.damage.get_or_insert(found);
        }
        recording.expanded = expander.finish();
        let expanded = std::mem::take(&mut recording.expanded);
        if let Err(found) = recording.note(header.endian, &expanded, 0, bytes.len(), None) {
            recording.damage.get_or_insert(found);
        }
        recording.expanded = expanded;
        if recording.sampled.is_empty() {
            return Err(damage(0, "the recording describes no event, so its samples cannot be read"));
        }
        recording.stretches.sort();
        Ok(recording)
    }

    /// The moment of a sample's time, as people count time. `None`: the recording does not say. perf says it
    /// only with `-k`; its own header has no date.
    pub fn moment(&self, time: u64) -> Option<SystemTime> {
        let Clocks { wall, samples } = self.clocks?;
        let since = wall.checked_add_signed(time.wrapping_sub(samples) as i64)?;
        UNIX_EPOCH.checked_add(Duration::from_nanos(since))
    }

    fn add_attribute(&mut self, layout: Layout, name: Option<String>, ids: &[u64]) {
        let number = self.sampled.len();
        self.sampled.push(Sampled { name, layout, time: layout.time_of() });
        self.ids.extend(ids.iter().map(|&id| (id, number)));
    }

    /// Notes the records from `start` on. `base` is added to their offsets.
    fn note(
        &mut self,
        endian: Endian,
        bytes: &[u8],
        start: usize,
        base: usize,
        mut expander: Option<&mut Expander>,
    ) -> Result<(), Damage> {
        let mut offset = start;
        self.stretches.begin();
        while offset < bytes.len() {
            let rest = &bytes[offset..];
            fetch_ahead(rest, FAR);
            let Some((record, size)) = record_at(endian, rest) else {
                let message = "a record ends beyond the end of the recording; it was cut off";
                return Err(damage(base + offset, message));
            };
            if size < RECORD_HEADER {
                return Err(damage(base + offset, format!("a record claims a size of {size} bytes")));
            }
            let behind = offset.saturating_add(size);
            if record.kind < kind::FIRST {
                let time = self.time(&record, self.stretches.last());
                self.stretches.add(time, base + offset, base + behind);
                self.count += 1;
                offset = behind;
                continue;
            }
            let extra = self
                .note_one(endian, &record, &mut expander)
                .map_err(|message| damage(base + offset, message))?;
            offset = behind.saturating_add(extra);
        }
        Ok(())
    }

    /// When a record was made that comes in the file after one of the time `last`.
    #[inline]
    fn time(&self, record: &Record<'_>, last: u64) -> u64 {
        let event = self.sampled.get(self.number(record));
        match event.and_then(|event| event.time.read(record)) {
            // Records that perf makes up for the state before the recording have no time, or the largest one.
            Some(u64::MAX) => 0,
            time => time.unwrap_or(last),
        }
    }

    /// Reads a record that perf itself added. Returns the number of bytes after it that belong to it.
    fn note_one(
        &mut self,
        endian: Endian,
        record: &Record<'_>,
        expander: &mut Option<&mut Expander>,
    ) -> Result<usize, String> {
        let mut reader = Reader::new(record.body, endian);
        match record.kind {
            kind::ATTRIBUTE => {
                if let Some((layout, size)) = Layout::of_attribute(record.body, endian) {
                    let rest = record.body.get(size..).unwrap_or_default();
                    let (words, _) = rest.as_chunks();
                    let ids: Vec<u64> = words.iter().map(|id| crate::bytes::word(*id, endian)).collect();
                    self.add_attribute(layout, None, &ids);
                }
            }
            kind::FEATURE => {
                if let Some(feature) = reader.u64() {
                    match feature {
                        header::feature::BUILD_ID => {
                            self.build_ids.extend(header::build_ids(endian, reader.rest))
                        }
                        header::feature::ARCH => self.machine = header::text(endian, reader.rest),
                        header::feature::CLOCK_DATA => self.clocks = header::clocks(endian, reader.rest),
                        header::feature::EVENT_DESC => {
                            for described in header::event_descriptions(endian, reader.rest) {
                                let number = described.ids.first().and_then(|id| self.ids.get(id));
                                if let Some(event) = number.and_then(|&number| self.sampled.get_mut(number)) {
                                    event.name = described.name;
                                }
                            }
                        }
                        _ => {}
                    }
                }
            }
            kind::BUILD_ID => self.build_ids.extend(header::build_id(endian, record.body)),
            kind::TRACING_DATA => return Ok(reader.u32().unwrap_or(0) as usize),
            kind::AUXTRACE => {
                return Ok(usize::try_from(reader.u64().unwrap_or(0)).unwrap_or(usize::MAX));
            }
            kind::COMPRESSED | kind::COMPRESSED2 => {
                let Some(expander) = expander else {
                    return Err("a compressed record holds another one".into());
                };
                let data = if record.kind == kind::COMPRESSED2 {
                    let size = reader.u64().and_then(|size| usize::try_from(size).ok());
                    size.and_then(|size| reader.take(size)).ok_or("a compressed record is too short")?
                } else {
                    record.body
                };
                expander.add(data)?;
            }
            _ => {}
        }
        Ok(0)
    }

    /// The build-id of the recorded kernel.
    pub fn kernel_build_id(&self) -> Option<&[u8]> {
        let kernel = self.build_ids.iter().find(|id| id.path.starts_with(b"[kernel.kallsyms]"));
        kernel.map(|id| &*id.id)
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Byte order.
    pub fn endian(&self) -> Endian {
        self.sampled.first().map_or(Endian::Little, |event| event.layout.endian)
    }

    /// Passes on the records in the order of time, each with the number of its event in
    /// [`Recording::sampled`]. `None` stands for a record that is shorter than it says.
    pub fn each_event(&self, take: &mut dyn FnMut(usize, Option<&Event<'_>>)) {
        let records = Records { file: &self.bytes, expanded: &self.expanded, endian: self.endian() };
        let time = |record: &Record<'_>, last| self.time(record, last);
        records.in_order(&self.stretches, time, |record| {
            let number = self.number(record);
            let layout = self.sampled.get(number).map(|event| &event.layout);
            let event = layout.and_then(|layout| read(layout, record));
            take(number, event.as_ref());
        });
    }

    /// The number of a record's event. Records that perf makes up have no number, but the first event's
    /// layout.
    fn number(&self, record: &Record<'_>) -> usize {
        let [first, _, ..] = &*self.sampled else { return 0 };
        let id = first.layout.event_id(record);
        id.and_then(|id| self.ids.get(&id)).copied().unwrap_or(0)
    }
}
