//! The header of a recording: its events, and the features after the data.

use super::damage::{Damage, damage};
use crate::bytes::Reader;
use crate::event::Layout;
use sframe_format::Endian;
use std::ops::Range;

/// Features by their numbers in the header's bit set.
pub mod feature {
    pub const BUILD_ID: u64 = 2;
    pub const ARCH: u64 = 6;
    pub const EVENT_DESC: u64 = 12;
    pub const CLOCK_DATA: u64 = 29;
}

/// One moment by two clocks, in nanoseconds. Recordings of `perf record -k CLOCK` have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Since 1970.
    pub wall: u64,
    /// By the clock of samples.
    pub samples: u64,
}

/// Size of a record's header, in bytes.
pub const RECORD_HEADER: usize = 8;
/// Size of the header of a pipe: magic number and size.
const PIPE_HEADER: u64 = 16;
/// Size of a section's place: offset and size.
const SECTION: usize = 16;

/// The build-id of a file that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildId {
    /// Path.
    pub path: Vec<u8>,
    /// Build-id.
    pub id: Vec<u8>,
}

/// An event, with the ids in its records.
pub struct Attribute {
    pub layout: Layout,
    pub name: Option<String>,
    pub ids: Vec<u64>,
}

pub struct Header {
    pub endian: Endian,
    /// Where the records are.
    pub data: Range<usize>,
    pub attributes: Vec<Attribute>,
    pub build_ids: Vec<BuildId>,
    pub machine: Option<String>,
    pub clocks: Option<Clocks>,
    pub damage: Option<Damage>,
}

impl Header {
    pub fn read(bytes: &[u8]) -> Result<Self, Damage> {
        let endian = match bytes.first_chunk::<8>() {
            Some(b"PERFILE2") => Endian::Little,
            Some(b"2ELIFREP") => Endian::Big,
            Some(b"PERFFILE") => {
                return Err(damage(0, "a recording of the first format, which perf wrote before 2010"));
            }
            Some(_) => return Err(damage(0, "not a recording of perf: it does not begin with PERFILE2")),
            None => return Err(damage(0, format!("the file has {} bytes, no header fits", bytes.len()))),
        };
        let mut reader = Reader::new(&bytes[8..], endian);
        let truncated = || damage(bytes.len(), "the recording ends within its header");
        let size = reader.u64().ok_or_else(truncated)?;
        let mut header = Self {
            endian,
            data: PIPE_HEADER as usize..bytes.len(),
            attributes: Vec::new(),
            build_ids: Vec::new(),
            machine: None,
            clocks: None,
            damage: None,
        };
        if size == PIPE_HEADER {
            return Ok(header);
        }
        let attribute_size =
            reader.u64().and_then(|size| usize::try_from(size).ok()).ok_or_else(truncated)?;
        let attributes = section(bytes, &mut reader).ok_or_else(truncated)?;
        header.set_data(bytes, &mut reader).ok_or_else(truncated)?;
        let _event_types = (reader.u64(), reader.u64());
        let features = [reader.u64(), reader.u64(), reader.u64(), reader.u64()];
        let attributes =
            attributes.ok_or_else(|| damage(24, "the events lie beyond the end of the recording"))?;
        header.read_attributes(bytes, attributes, attribute_size)?;
        header.read_features(bytes, &features.map(Option::unwrap_or_default));
        Ok(header)
    }

    /// Reads the place of the data. perf writes the size when it ends, and until then it is 0.
    fn set_data(&mut self, bytes: &[u8], reader: &mut Reader<'_>) -> Option<()> {
        let (offset, size) = (reader.u64()?, reader.u64()?);
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let end = start.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
        if end > bytes.len() {
            let message = format!(
                "the data should end at {:#x}, but the recording has {:#x} bytes: it was cut off",
                offset.saturating_add(size),
                bytes.len()
            );
            self.damage = Some(damage(bytes.len(), message));
        } else if size == 0 {
            let message = "the header does not say how long the data is, because perf did not end properly";
            self.damage = Some(damage(48, message));
        }
        self.data = start..if size == 0 { bytes.len() } else { end.min(bytes.len()) };
        Some(())
    }

    fn read_attributes(&mut self, bytes: &[u8], all: &[u8], size: usize) -> Result<(), Damage> {
        if size <= SECTION || size > all.len().max(SECTION + 1) {
            return Err(damage(16, format!("the description of an event cannot have {size} bytes")));
        }
        for described in all.chunks_exact(size) {
            let (attribute, place) = described.split_at(size - SECTION);
            let Some((layout, _)) = Layout::of_attribute(attribute, self.endian) else { continue };
            let ids = section(bytes, &mut Reader::new(place, self.endian)).flatten().unwrap_or_default();
            let ids = ids.as_chunks().0.iter().map(|id| crate::bytes::word(*id, self.endian)).collect();
            self.attributes.push(Attribute { layout, name: None, ids });
        }
        Ok(())
    }

    /// Reads the features. Their places follow the data, one for each bit.
    fn read_features(&mut self, bytes: &[u8], bits: &[u64; 4]) {
        let mut places = Reader::new(bytes.get(self.data.end..).unwrap_or_default(), self.endian);
        let set = |number: &u64| bits[*number as usize / 64] >> (number % 64) & 1 != 0;
        for number in (0..256).filter(set) {
            let Some(place) = section(bytes, &mut places) else { return };
            let Some(data) = place else { continue };
            match number {
                feature::BUILD_ID => self.build_ids = build_ids(self.endian, data).collect(),
                feature::ARCH => self.machine = text(self.endian, data),
                feature::CLOCK_DATA => self.clocks = clocks(self.endian, data),
                feature::EVENT_DESC => {
                    for (attribute, described) in
                        self.attributes.iter_mut().zip(event_descriptions(self.endian, data))
                    {
                        attribute.name = described.name;
                    }
                }
                _ => {}
            }
        }
    }
}

/// Reads the place of a section, and returns the section's bytes. Outer `None`: the place is truncated. Inner
/// `None`: the section is not in the file.
fn section<'data>(bytes: &'data [u8], reader: &mut Reader<'_>) -> Option<Option<&'data [u8]>> {
    let (offset, size) = (reader.u64()?, reader.u64()?);
    let range = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
    Some(range.and_then(|(offset, size)| bytes.get(offset..offset.checked_add(size)?)))
}

/// The two clocks, behind a version and the number of the clock of samples.
pub fn clocks(endian: Endian, data: &[u8]) -> Option<Clocks> {
    let mut reader = Reader::new(data, endian);
    let (version, _) = (reader.u32()?, reader.u32()?);
    let (wall, samples) = (reader.u64()?, reader.u64()?);
    (version == 1).then_some(Clocks { wall, samples })
}

/// A text that follows its length.
pub fn text(endian: Endian, data: &[u8]) -> Option<String> {
    let mut reader = Reader::new(data, endian);
    let size = reader.u32()? as usize;
    let mut inside = Reader::new(reader.take(size)?, endian);
    Some(String::from_utf8_lossy(inside.text()).into_owned())
}

/// The entries of a list of build-ids: records that each have a header.
pub fn build_ids(endian: Endian, data: &[u8]) -> impl Iterator<Item = BuildId> {
    let mut rest = Reader::new(data, endian);
    std::iter::from_fn(move || {
        let mut header = rest;
        let (_, _, size) = (header.u32()?, header.u16()?, header.u16()?);
        let entry = rest.take(usize::from(size).max(RECORD_HEADER))?;
        Some(build_id(endian, entry.get(RECORD_HEADER..)?))
    })
    .flatten()
}

/// A build-id record without its header: process, 20 bytes and their number, path.
pub fn build_id(endian: Endian, body: &[u8]) -> Option<BuildId> {
    let mut reader = Reader::new(body, endian);
    reader.u32()?;
    let field = reader.take(24)?;
    // Old versions of perf do not record the length.
    let length = match field[20] {
        0 => 20,
        length => usize::from(length).min(20),
    };
    Some(BuildId { path: reader.text().to_vec(), id: field[..length].to_vec() })
}

/// An event's name and numbers.
pub struct EventDescription {
    pub name: Option<String>,
    pub ids: Vec<u64>,
}

/// The names of events.
pub fn event_descriptions(endian: Endian, data: &[u8]) -> impl Iterator<Item = EventDescription> {
    let mut reader = Reader::new(data, endian);
    let (count, size) = (reader.u32().unwrap_or(0), reader.u32().unwrap_or(0));
    (0..count).map_while(move |_| {
        reader.take(size as usize)?;
        let ids = reader.u32()?;
        let length = reader.u32()? as usize;
        let name = Reader::new(reader.take(length)?, endian).text();
        let (ids, _) = reader.take((ids as usize).checked_mul(8)?)?.as_chunks();
        let ids = ids.iter().map(|id| crate::bytes::word(*id, endian)).collect();
        Some(EventDescription { name: Some(String::from_utf8_lossy(name).into_owned()), ids })
    })
}
