//! Writes blobs of version 2 and 3.
//!
//! An [`Encoder`] takes functions one by one, each with its rows, and stores their bytes. None of these
//! depends on an address. So a linker knows the size of the blob before the layout, and [`Encoder::write`]
//! puts the FDE array in front when addresses are known. On request, functions with identical attribute and
//! row bytes share them. Sharing is for little-endian outputs only: readers on a machine of the other byte
//! order (libsframe of binutils 2.47) swap bytes once for each function, and reject shared ones.
//!
//! Version 2 here means errata 1, which cannot express an undefined return address. The encoder reports a
//! function that a version cannot express, and never writes it wrong.

mod copy;
mod encode;
mod function;
mod overlay;
mod recent;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::blob::Blob;
use crate::error::{Error, ErrorKind};
use crate::fde::Fde;
use crate::fre::Attributes;
use crate::header::{HEADER_SIZE, Header};
use crate::light::{FUNCTION_HEAD_SIZE, UNIT_HEADER_SIZE, Unit};
use crate::version::{Flags, Version};
use copy::Stored;
pub use encode::{Inexpressible, Reason};
pub use function::{Function, Options};
pub use overlay::{Overlaid, overlay_size, takes, write_overlay};
use recent::{NO_BODY, RECENT, Recent};

/// The number of a function in an [`Encoder`], counted from 0 in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// A function: its size, and the number of its body.
#[derive(Clone, Copy, Debug)]
struct Entry {
    size: u32,
    body: u32,
}

/// The attribute and rows of a function among the encoded bytes, and the fields that an FDE of version 2
/// contains. With sharing, functions that agree in all of this have one body.
#[derive(Clone, Copy, Debug)]
struct Body {
    fre_offset: u32,
    length: u32,
    encoded: encode::Encoded,
}

/// How the encoder finds a body to share.
#[derive(Clone, Debug)]
enum Sharing {
    /// Every function has its own body.
    Nothing,
    /// Among all bodies: the hash of each body's bytes, and its number.
    All(HashTable<(u32, u32)>),
    /// Among recent bodies: the last body of each [`Recent::slot`].
    Recent(Box<[Recent; RECENT]>),
}

/// The bodies that an [`Encoder`] has taken from another encoder so far. With this, it takes each shared body
/// once.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// For each body of the other encoder, its number in this one, or [`NO_BODY`] before it is taken.
    bodies: Vec<u32>,
}

/// The attributes and rows of a function, without its place and its size. Functions for which they are equal
/// unwind alike.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Unwinding<'e> {
    fre_count: u32,
    info: u8,
    repeat_size: u8,
    /// Its bytes in the FRE sub-section.
    bytes: &'e [u8],
}

/// Collects functions and writes them as one blob.
///
/// ```
/// use sframe_format::write::{Encoder, Function, Options};
/// use sframe_format::{Abi, Blob, CfaRule, Frame, Location, RegisterRule, Row, Rules};
/// let rules = Rules::Frame(Frame {
///     cfa: CfaRule::register(7, 8),
///     ra: RegisterRule::Saved(Location::at_cfa(-8)),
///     fp: RegisterRule::Unchanged,
///     mangled: false,
/// });
/// let leaf = Function { size: 16, rows: vec![Row { start: 0, rules }], ..Function::default() };
/// let mut encoder = Encoder::new(Options::new(Abi::Amd64));
/// let (first, second) = (encoder.add(&leaf).unwrap(), encoder.add(&leaf).unwrap());
/// let mut bytes = vec![0; encoder.size()];
/// encoder.write(0x4000, &[(0x1000, first), (0x1010, second)], &mut bytes).unwrap();
/// let blob = Blob::parse(&bytes, 0x4000).unwrap();
/// assert!(blob.header().is_sorted());
/// assert_eq!(blob.lookup(0x1018).unwrap().unwrap().row.rules, rules);
/// // Both functions use the same 5 + 3 bytes.
/// assert_eq!(blob.header().fre_length, 8);
/// ```
#[derive(Clone, Debug)]
pub struct Encoder {
    options: Options,
    fres: Vec<u8>,
    entries: Vec<Entry>,
    bodies: Vec<Body>,
    sharing: Sharing,
    scratch: Vec<u8>,
}

/// A state of an [`Encoder`].
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    entries: usize,
    bodies: usize,
    fres: usize,
}

impl Encoder {
    /// An encoder without functions.
    pub fn new(options: Options) -> Self {
        Self::sharing(options, if options.share { Sharing::All(HashTable::new()) } else { Sharing::Nothing })
    }

    /// An encoder without functions, for a batch that another encoder will take. A function shares rows with
    /// recent functions only. That is cheaper than a search among all functions, which the other encoder
    /// does.
    pub fn for_batch(options: Options) -> Self {
        let sharing =
            if options.share { Sharing::Recent(Box::new([Recent::NONE; RECENT])) } else { Sharing::Nothing };
        Self::sharing(options, sharing)
    }

    fn sharing(options: Options, sharing: Sharing) -> Self {
        Self {
            options: options.version(options.version),
            fres: Vec::new(),
            entries: Vec::new(),
            bodies: Vec::new(),
            sharing,
            scratch: Vec::new(),
        }
    }

    /// The properties of the blob.
    pub fn options(&self) -> Options {
        self.options
    }

    /// Number of functions taken.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no function was taken.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Makes room for so many more functions.
    pub fn reserve(&mut self, functions: usize) {
        self.entries.reserve(functions);
        if !self.options.share {
            self.bodies.reserve(functions);
        }
    }

    /// The current state, for [`Encoder::rewind`].
    pub fn mark(&self) -> Mark {
        Mark { entries: self.entries.len(), bodies: self.bodies.len(), fres: self.fres.len() }
    }

    /// Drops all functions that were added since `mark`.
    pub fn rewind(&mut self, mark: Mark) {
        self.entries.truncate(mark.entries);
        self.fres.truncate(mark.fres);
        if self.bodies.len() > mark.bodies {
            self.bodies.truncate(mark.bodies);
            let is_left = |number: u32| (number as usize) < mark.bodies;
            match &mut self.sharing {
                Sharing::Nothing => {}
                Sharing::All(table) => table.retain(|&mut (_, number)| is_left(number)),
                Sharing::Recent(recent) => {
                    recent
                        .iter_mut()
                        .filter(|recent| !is_left(recent.body))
                        .for_each(|recent| *recent = Recent::NONE);
                }
            }
        }
    }

    /// Adds a function. Equal neighbouring rows become one, and the encoder chooses the smallest widths that
    /// hold the values.
    ///
    /// # Errors
    /// The version cannot express the function. Nothing is added then.
    pub fn add(&mut self, function: &Function) -> Result<FunctionId, Inexpressible> {
        self.scratch.clear();
        let encoded = encode::encode(self.options, function, &mut self.scratch)?;
        let bytes = core::mem::take(&mut self.scratch);
        let result = self.body(encoded, &bytes, None);
        self.scratch = bytes;
        Ok(self.push(function.size, result?))
    }

    /// Copies a function from a blob without decoding its rows, if [`Encoder::add`] would write the same
    /// rows. Returns its id and the number of its rows. `None`: nothing was added, and the caller must use
    /// [`Function::read`] and [`Encoder::add`]. These also find the error if there is one.
    pub fn copy(&mut self, blob: &Blob<'_>, fde: &Fde, attributes: &Attributes) -> Option<(FunctionId, u32)> {
        let stored = Stored::of(self.options, blob, fde, attributes)?;
        let body = match self.recent_body(&stored, fde.size) {
            Some(known) => known,
            None => {
                let copied = stored.walk(self.options, fde.size)?;
                let mut memory = core::mem::take(&mut self.scratch);
                let bytes = copied.bytes(self.options.abi.endian(), &mut memory);
                let result = self.body(copied.encoded, bytes, copied.last_start_as_stored());
                self.scratch = memory;
                result.ok()?
            }
        };
        Some((self.push(fde.size, body), attributes.fre_count))
    }

    /// Adds all functions of another encoder with the same options, in its order. Its function `i` gets the
    /// number `i` plus the former [`Encoder::len`]. So several threads can encode functions, and one encoder
    /// joins the results.
    ///
    /// # Errors
    /// The FRE sub-section would be larger than 4 GiB. The functions up to there have been added.
    pub fn append(&mut self, other: &Self) -> Result<(), Inexpressible> {
        let mut taken = Taken::default();
        for number in 0..other.entries.len() as u32 {
            self.take(other, FunctionId(number), &mut taken)?;
        }
        Ok(())
    }

    /// Adds function `id` of another encoder with the same options. `taken` records what was taken from that
    /// encoder.
    ///
    /// # Errors
    /// The FRE sub-section would be larger than 4 GiB, or the other encoder has no such function. Nothing is
    /// added then.
    pub fn take(
        &mut self,
        other: &Self,
        id: FunctionId,
        taken: &mut Taken,
    ) -> Result<FunctionId, Inexpressible> {
        let missing = Inexpressible { row: None, reason: Reason::NoRows };
        let entry = other.entries.get(id.0 as usize).ok_or(missing)?;
        let body = &other.bodies[entry.body as usize];
        if !self.options.share {
            let body = self.add_body(body.encoded, other.bytes_of(body))?;
            return Ok(self.push(entry.size, body));
        }
        if taken.bodies.len() < other.bodies.len() {
            taken.bodies.resize(other.bodies.len(), NO_BODY);
        }
        let known = &mut taken.bodies[entry.body as usize];
        if *known == NO_BODY {
            *known = self.body(body.encoded, other.bytes_of(body), None)?;
        }
        Ok(self.push(entry.size, *known))
    }

    fn bytes_of(&self, body: &Body) -> &[u8] {
        &self.fres[body.fre_offset as usize..][..body.length as usize]
    }

    fn push(&mut self, size: u32, body: u32) -> FunctionId {
        let number = self.entries.len() as u32;
        self.entries.push(Entry { size, body });
        FunctionId(number)
    }

    /// The number of a body with these bytes: a shared one, or a new one. `last_start` becomes
    /// [`Recent::last_start`].
    fn body(
        &mut self,
        encoded: encode::Encoded,
        bytes: &[u8],
        last_start: Option<u32>,
    ) -> Result<u32, Inexpressible> {
        match &self.sharing {
            Sharing::Nothing => self.add_body(encoded, bytes),
            Sharing::All(_) => self.shared_body(encoded, bytes),
            Sharing::Recent(recent) => {
                let slot = Recent::slot(encoded, bytes);
                let known = recent[slot].body;
                let is_it = |body: &Body| body.encoded == encoded && self.bytes_of(body) == bytes;
                if self.bodies.get(known as usize).is_some_and(is_it) {
                    return Ok(known);
                }
                let number = self.add_body(encoded, bytes)?;
                if let Sharing::Recent(recent) = &mut self.sharing {
                    recent[slot] = Recent { body: number, last_start };
                }
                Ok(number)
            }
        }
    }

    /// The number of a recent body whose bytes a function of `size` bytes has in a blob.
    fn recent_body(&self, stored: &Stored<'_>, size: u32) -> Option<u32> {
        let Sharing::Recent(recent) = &self.sharing else { return None };
        let Recent { body: number, last_start } = recent[Recent::slot(stored.encoded, stored.bytes)];
        let body =
            self.bodies.get(number as usize).filter(|_| last_start.is_some_and(|start| start < size))?;
        (body.encoded == stored.encoded && stored.bytes.starts_with(self.bytes_of(body))).then_some(number)
    }

    /// The number of a body with these bytes. Any function may share it. Bodies with the same bytes but other
    /// FDE fields of version 2 share the bytes.
    fn shared_body(&mut self, encoded: encode::Encoded, bytes: &[u8]) -> Result<u32, Inexpressible> {
        use core::hash::BuildHasher;
        let Sharing::All(table) = &self.sharing else { return self.add_body(encoded, bytes) };
        let hash = FixedState::with_seed(0).hash_one(bytes) as u32;
        let body_of = |number: u32| &self.bodies[number as usize];
        let same = |&(of, number): &(u32, u32)| of == hash && self.bytes_of(body_of(number)) == bytes;
        let found = table.find(spread(hash), same).map(|&(_, number)| number);
        let number = match found {
            None => self.add_body(encoded, bytes)?,
            Some(number) if body_of(number).encoded == encoded => return Ok(number),
            Some(number) => {
                let equal = |row: &(u32, u32)| same(row) && body_of(row.1).encoded == encoded;
                if let Some(&(_, equal)) = table.find(spread(hash), equal) {
                    return Ok(equal);
                }
                let body = *body_of(number);
                self.bodies.push(Body { encoded, ..body });
                self.bodies.len() as u32 - 1
            }
        };
        if let Sharing::All(table) = &mut self.sharing {
            table.insert_unique(spread(hash), (hash, number), |&(hash, _)| spread(hash));
        }
        Ok(number)
    }

    /// Adds a body with its own bytes.
    fn add_body(&mut self, encoded: encode::Encoded, bytes: &[u8]) -> Result<u32, Inexpressible> {
        let end = u32::try_from(self.fres.len() + bytes.len()).ok();
        let fre_offset = end.and(u32::try_from(self.fres.len()).ok());
        let fre_offset = fre_offset.ok_or(Inexpressible { row: None, reason: Reason::SectionFull })?;
        let number = self.bodies.len() as u32;
        self.fres.extend_from_slice(bytes);
        self.bodies.push(Body { fre_offset, length: bytes.len() as u32, encoded });
        Ok(number)
    }

    /// The FDE of a function, without an address or a position in the FDE array. Every blob that this encoder
    /// writes contains its rows, even a blob without functions. In version 3, functions with the same size
    /// and the same [`Fde::fre_offset`] are equal.
    pub fn fde(&self, id: FunctionId) -> Option<Fde> {
        let entry = self.entries.get(id.0 as usize)?;
        let version = self.options.version;
        let Body { fre_offset, encoded, .. } = self.bodies[entry.body as usize];
        let encode::Encoded { fre_count, info, repeat_size } = encoded;
        Some(Fde {
            index: id.0,
            offset: HEADER_SIZE,
            start_width: version.start_width(),
            raw_start: 0,
            address: 0,
            size: entry.size,
            fre_offset,
            inline: (version == Version::V2).then_some((fre_count, info, repeat_size)),
        })
    }

    /// The attributes and rows of a function in every blob of this encoder.
    pub fn unwinding(&self, id: FunctionId) -> Option<Unwinding<'_>> {
        let body = &self.bodies[self.entries.get(id.0 as usize)?.body as usize];
        let encode::Encoded { fre_count, info, repeat_size } = body.encoded;
        Some(Unwinding { fre_count, info, repeat_size, bytes: self.bytes_of(body) })
    }

    /// Size in bytes of the blob with all functions.
    pub fn size(&self) -> usize {
        self.size_with(self.entries.len())
    }

    /// Size in bytes of a blob with `count` functions.
    pub fn size_with(&self, count: usize) -> usize {
        HEADER_SIZE + count * self.options.version.fde_size() + self.fres.len()
    }

    /// Writes the blob for a section at `section_address`, with the functions in the order of `functions`
    /// (address and number). It marks the blob sorted if the addresses ascend. `out` must have
    /// [`Encoder::size_with`] bytes.
    ///
    /// # Errors
    /// [`ErrorKind::StartRange`]: version 2 cannot reach a function. The blob is complete nevertheless, as
    /// [`Encoder::write_fdes`] says. [`ErrorKind::Truncated`]: `out` has another size.
    /// [`ErrorKind::FdeIndex`]: a number was not handed out.
    pub fn write(
        &self,
        section_address: u64,
        functions: &[(u64, FunctionId)],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let sorted = functions.is_sorted_by_key(|&(address, _)| address);
        self.write_whole(Some(section_address), functions.iter().copied(), sorted, out)
    }

    /// Writes the blob for a relocatable object. All start fields are 0; one PC-relative relocation must fill
    /// each. [`Header::fde_position`] says where the fields are. `out` must have [`Encoder::size_with`]
    /// bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`]: `out` has another size. [`ErrorKind::FdeIndex`]: a number was not handed
    /// out.
    pub fn write_relocatable(
        &self,
        functions: &[FunctionId],
        sorted: bool,
        out: &mut [u8],
    ) -> Result<(), Error> {
        self.write_whole(None, functions.iter().map(|&id| (0, id)), sorted, out)
    }

    fn write_whole(
        &self,
        section_address: Option<u64>,
        functions: impl ExactSizeIterator<Item = (u64, FunctionId)> + Clone,
        sorted: bool,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let size = self.size_with(functions.len());
        if out.len() != size {
            return Err(truncated(out, size));
        }
        let (head, rows) = out.split_at_mut(size - self.fres.len());
        let (head, fdes) = head.split_at_mut(HEADER_SIZE);
        head.copy_from_slice(&self.header(functions.clone().map(|(_, id)| id), sorted)?);
        // The rows come first, because the FDEs may be an error, and functions within reach need their rows
        // even then.
        rows.copy_from_slice(&self.fres);
        self.write_fdes(section_address, 0, functions, fdes)
    }

    /// The header of a blob with these functions, for threads that write a blob in parts. The parts are the
    /// header, the FDEs ([`Encoder::write_fdes`]) and the rows ([`Encoder::rows`]), in this order.
    ///
    /// # Errors
    /// [`ErrorKind::FdeIndex`]: a number was not handed out.
    pub fn header(
        &self,
        functions: impl ExactSizeIterator<Item = FunctionId>,
        sorted: bool,
    ) -> Result<[u8; HEADER_SIZE], Error> {
        let Options { abi, version, .. } = self.options;
        let count = functions.len();
        let mut fre_count = 0u32;
        for id in functions {
            fre_count = fre_count.wrapping_add(self.function(id)?.1.encoded.fre_count);
        }
        let header = Header {
            version,
            endian: abi.endian(),
            flags: Flags::FIELD_RELATIVE.with(Flags::SORTED, sorted),
            abi,
            fixed_fp_offset: 0,
            fixed_ra_offset: abi.fixed_ra_offset(),
            auxiliary_length: 0,
            fde_count: count as u32,
            fre_count,
            fre_length: self.fres.len() as u32,
            fde_offset: 0,
            fre_offset: (count * version.fde_size()) as u32,
            unit_distance: 0,
        };
        Ok(header.to_bytes())
    }

    /// Writes FDEs of a blob for a section at `section_address`. `first` is the index of the first one.
    /// Without an address, start fields are 0, and relocations must fill them. `out` must be as long as these
    /// FDEs.
    ///
    /// # Errors
    /// [`ErrorKind::StartRange`] for the first function that version 2 cannot reach. All FDEs are written
    /// nevertheless. Those out of reach get size 0, so that no address matches them, and the nearest start
    /// that the field can hold, so that a sorted blob stays sorted. [`ErrorKind::Truncated`]: `out` has
    /// another size. [`ErrorKind::FdeIndex`]: a number was not handed out. In these two cases, FDEs are
    /// missing.
    pub fn write_fdes(
        &self,
        section_address: Option<u64>,
        first: usize,
        functions: impl ExactSizeIterator<Item = (u64, FunctionId)>,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let width = self.options.version.fde_size();
        if out.len() != functions.len() * width {
            return Err(truncated(out, functions.len() * width));
        }
        let (mut position, mut result) = (HEADER_SIZE + first * width, Ok(()));
        for (place, (address, id)) in out.chunks_exact_mut(width).zip(functions) {
            let (size, body) = self.function(id)?;
            self.write_fde(size, body, place);
            if let Some(section) = section_address {
                let written = self.write_start(address, section.wrapping_add(position as u64), place);
                result = result.and(written.map_err(|kind| Error::new(position, kind)));
            }
            position += width;
        }
        result
    }

    /// The rows of all functions, with their attributes.
    pub fn rows(&self) -> &[u8] {
        &self.fres
    }

    /// Size and body of a function.
    fn function(&self, id: FunctionId) -> Result<(u32, &Body), Error> {
        let kind = ErrorKind::FdeIndex { index: id.0, count: self.entries.len() as u32 };
        let entry = self.entries.get(id.0 as usize).ok_or(Error::new(0, kind))?;
        Ok((entry.size, &self.bodies[entry.body as usize]))
    }

    /// Appends a [unit](crate::light) with these functions to `out`, for a relocatable object. All start
    /// fields are 0; one PC-relative relocation must fill each. Returns the offsets of the start fields, in
    /// bytes from the unit's start. The encoder's version must be 3, because units have V3 rows.
    ///
    /// # Errors
    /// [`ErrorKind::FdeIndex`]: a number was not handed out. [`ErrorKind::UnitVersion`]: the encoder has
    /// version 2. [`ErrorKind::Truncated`]: the unit would have more than 4 GiB. `out` is unchanged after an
    /// error.
    pub fn write_unit(&self, functions: &[FunctionId], out: &mut Vec<u8>) -> Result<Vec<u32>, Error> {
        let Options { abi, version, .. } = self.options;
        if version != Version::V3 {
            return Err(Error::new(0, ErrorKind::UnitVersion { found: version as u8 }));
        }
        let mut entries = Vec::with_capacity(functions.len());
        for id in functions {
            entries.push(self.function(*id)?);
        }
        let lengths = entries.iter().map(|(_, body)| FUNCTION_HEAD_SIZE as u64 + u64::from(body.length));
        let size = UNIT_HEADER_SIZE as u64 + lengths.sum::<u64>();
        let too_long = |_| {
            Error::new(4, ErrorKind::Truncated { what: "unit", needed: size, available: u32::MAX.into() })
        };
        let length = u32::try_from(size).map_err(too_long)?;
        let start = out.len();
        out.reserve(size as usize);
        let unit = Unit { abi, fixed_fp_offset: 0, fixed_ra_offset: abi.fixed_ra_offset(), length };
        out.extend_from_slice(&unit.to_bytes());
        let mut places = Vec::with_capacity(entries.len());
        for (size, body) in entries {
            places.push((out.len() - start) as u32);
            out.extend_from_slice(&[0; 8]);
            out.extend_from_slice(&abi.endian().u32_bytes(size));
            out.extend_from_slice(self.bytes_of(body));
        }
        Ok(places)
    }

    fn write_fde(&self, size: u32, body: &Body, place: &mut [u8]) {
        let endian = self.options.abi.endian();
        place.fill(0);
        let rest = usize::from(self.options.version.start_width());
        place[rest..rest + 4].copy_from_slice(&endian.u32_bytes(size));
        place[rest + 4..rest + 8].copy_from_slice(&endian.u32_bytes(body.fre_offset));
        if self.options.version == Version::V2 {
            place[12..16].copy_from_slice(&endian.u32_bytes(body.encoded.fre_count));
            place[16] = body.encoded.info;
            place[17] = body.encoded.repeat_size;
        }
    }

    /// Writes the start of a function into its FDE, which is at address `field`. If the function is out of
    /// reach, this sets its size to 0.
    fn write_start(&self, address: u64, field: u64, place: &mut [u8]) -> Result<(), ErrorKind> {
        let Options { abi, version, .. } = self.options;
        let (width, endian) = (version.start_width(), abi.endian());
        let distance = address.wrapping_sub(field) as i64;
        if width == 8 {
            place[..8].copy_from_slice(&endian.i64_bytes(distance));
            return Ok(());
        }
        if let Ok(distance) = i32::try_from(distance) {
            place[..4].copy_from_slice(&endian.i32_bytes(distance));
            return Ok(());
        }
        // Another start, such as the field itself, would be out of order, and bisection would miss other
        // functions.
        let nearest = if address < field { i32::MIN } else { i32::MAX };
        place[..4].copy_from_slice(&endian.i32_bytes(nearest));
        place[4..8].fill(0);
        Err(ErrorKind::StartRange { distance, width })
    }
}

/// Spreads a hash over 64 bits, because the table takes bits from both ends.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn truncated(out: &[u8], needed: usize) -> Error {
    let available = out.len() as u64;
    Error::new(0, ErrorKind::Truncated { what: "output", needed: needed as u64, available })
}

/// A blob, and the functions that it lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The bytes of the section.
    pub bytes: Vec<u8>,
    /// Functions that the blob lacks, by their place in the input.
    pub left_out: Vec<(usize, LeftOut)>,
}

/// Why a function is not in a [`Written`] blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// The version cannot express it.
    Inexpressible(Inexpressible),
    /// Another function of the input starts at the same address. Of several, the largest is written, and the
    /// first of equally large ones.
    Duplicate,
    /// It has no bytes.
    Empty,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inexpressible(inexpressible) => inexpressible.fmt(f),
            Self::Duplicate => f.pad("another function starts at the same address"),
            Self::Empty => f.pad("the function has no bytes"),
        }
    }
}

/// Writes functions, given by address, as one sorted blob at `section_address`. It omits empty functions. If
/// several functions start at one address, it writes the largest.
///
/// # Errors
/// [`ErrorKind::StartRange`]: version 2 cannot reach a function.
pub fn write_sorted(
    options: Options,
    section_address: u64,
    functions: &[(u64, Function)],
) -> Result<Written, Error> {
    let mut encoder = Encoder::new(options);
    let mut left_out = Vec::new();
    let mut order: Vec<usize> = (0..functions.len()).collect();
    order.sort_by_key(|&place| (functions[place].0, core::cmp::Reverse(functions[place].1.size), place));
    let mut placed: Vec<(u64, FunctionId)> = Vec::with_capacity(order.len());
    for place in order {
        let (address, function) = &functions[place];
        if function.size == 0 {
            left_out.push((place, LeftOut::Empty));
        } else if placed.last().is_some_and(|last| last.0 == *address) {
            left_out.push((place, LeftOut::Duplicate));
        } else {
            match encoder.add(function) {
                Ok(id) => placed.push((*address, id)),
                Err(reason) => left_out.push((place, LeftOut::Inexpressible(reason))),
            }
        }
    }
    left_out.sort_by_key(|&(place, _)| place);
    let mut bytes = alloc::vec![0; encoder.size()];
    encoder.write(section_address, &placed, &mut bytes)?;
    Ok(Written { bytes, left_out })
}
