//! What the writer adds for tables of version 2: layouts of rules, handlers, continued functions.
//!
//! As in version 1, everything but pages and handlers is made before addresses are known. [`WholeShapes`]
//! then computes the size of the table at any addresses, so that a linker's layout can make room for it.

use alloc::vec::Vec;

use super::build::{Builder, FULL};
use super::collected::Collected;
use super::entries::Entries;
use super::forms::Form;
use super::functions::ShapeId;
use super::handlers::{MOST_ROUTINE, RANK, ROUTINE_SHIFT, WIDE};
use super::row_rules::{NO_ROW, RowRules, number};
use super::write::{Pages, Shapes};
use super::{Handler, MAX_PERSONALITIES, Personality, WHOLE_VERSION, WholeHeader};
use crate::abi::Abi;
use crate::cfi::{CfiFunction, CfiRow, CfiRows, NumberedFunction, Saved};
use crate::error::{Error, ErrorKind};
use crate::rules::{Base, CfaRule, Frame, Location, RegisterRule, Rules, UnwindRules};
use crate::write::{Inexpressible, LeftOut, Reason, Written};

impl Builder {
    /// A builder without functions, for a table of version 2.
    pub fn whole(abi: Abi) -> Self {
        let mut builder = Self::of_version(abi, WHOLE_VERSION);
        // A layout without registers has number 0.
        builder.layouts.intern(&[0, 0]);
        builder
    }

    /// Adds a function to a table of version 2. `rows` has its rows, and is the same list for all functions.
    ///
    /// # Errors
    /// The function has no bytes, its rows do not ascend, or a row has no form. Nothing is added then.
    pub fn add_whole(
        &mut self,
        function: &NumberedFunction,
        rows: &CfiRows,
    ) -> Result<ShapeId, Inexpressible> {
        if function.size == 0 {
            return Err(Inexpressible { row: None, reason: Reason::RowOutside });
        }
        if !self.has_known_rows(function) {
            self.read_whole(function, rows)?;
        }
        self.stretches.clear();
        self.add_pieces(function.size);
        Ok(self.take())
    }

    /// Numbers the rules of a function's rows, as [`Builder::read_whole`] does. `false`: not all of them were
    /// met before, or they are not in order. Most functions consist of known rows.
    fn has_known_rows(&mut self, function: &NumberedFunction) -> bool {
        self.rows.clear();
        let (kind, mut last, mut least) = (function.kind(), NO_ROW, 0);
        if function.rows.first().is_none_or(|&(start, _)| start > 0) {
            self.rows.push((0, NO_ROW));
        }
        for &(start, row) in &function.rows {
            let Some(number) = self.forms.rule(row, kind) else { return false };
            if start < least || start >= function.size {
                return false;
            }
            least = start + 1;
            if number != last {
                self.rows.push((start, number));
                last = number;
            }
        }
        true
    }

    /// Numbers the rules of a function's rows.
    fn read_whole(&mut self, function: &NumberedFunction, rows: &CfiRows) -> Result<(), Inexpressible> {
        if let Some(pair) = function.rows.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            return Err(Inexpressible { row: Some(pair[1].0), reason: Reason::RowOrder });
        }
        self.places.clear();
        for &(start, row) in &function.rows {
            let make = |row: &CfiRow| rules_of(self.abi, function, start, row);
            self.places.push(self.forms.form(function, row, rows, make)?);
        }
        self.rows.clear();
        if function.rows.first().is_none_or(|&(start, _)| start > 0) {
            self.rows.push((0, NO_ROW));
        }
        let starting = function.rows.iter().take_while(|row| row.0 < function.size);
        for (&(start, row), &place) in starting.zip(&self.places) {
            let Self { forms, rules, numbers, layouts, .. } = self;
            let number = forms.number(place, (row, function.kind()), |Form { rules: found, layout }| {
                let words: Vec<u32> = layout.iter().copied().map(u32::from).collect();
                let layout = layouts.intern(&words).0;
                number(rules, numbers, RowRules { rules: *found, layout })
            });
            if self.rows.last().is_none_or(|&(_, last)| last != number) {
                self.rows.push((start, number));
            }
        }
        Ok(())
    }
}

/// The form of a row, which starts at `start` in the function.
fn rules_of(abi: Abi, function: &NumberedFunction, start: u32, row: &CfiRow) -> Result<Form, Inexpressible> {
    let refuse = || Inexpressible { row: Some(start), reason: Reason::NoForm };
    let mut others = row.saved.clone();
    let mut take = |register| {
        let place = others.iter().position(|&(other, _)| other == register)?;
        let rule = plain(others[place].1)?;
        others.remove(place);
        Some(rule)
    };
    let frame = Frame {
        cfa: CfaRule::register(row.cfa_register, row.cfa_offset),
        ra: take(abi.return_address()).unwrap_or(RegisterRule::Unchanged),
        fp: take(abi.frame_pointer()).unwrap_or(RegisterRule::Unchanged),
        mangled: row.signed,
    };
    // On AArch64 the CFA moves with the stack pointer, and the slots do not.
    let from_base = abi.is_aarch64().then_some(row.cfa_offset);
    let layout =
        super::layout::bytes(&others, from_base, function.key_b, row.args_size).ok_or_else(refuse)?;
    let rules = UnwindRules { abi, signal: function.signal, rules: Rules::Frame(frame) };
    Ok(Form { rules, layout })
}

/// A rule of the return address or the frame pointer, if rules of rows have it.
fn plain(saved: Saved) -> Option<RegisterRule> {
    let cfa = |offset: i64, dereference| {
        let offset = i32::try_from(offset).ok()?;
        Some(Location { base: Base::Cfa, offset, dereference })
    };
    Some(RegisterRule::Saved(match saved {
        Saved::AtCfa(offset) => cfa(offset, true)?,
        Saved::CfaPlus(offset) => cfa(offset, false)?,
        Saved::In(register) => Location::in_register(register),
        Saved::Undefined => return None,
    }))
}

/// A function of a table of version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedFunction {
    /// Its address.
    pub address: u64,
    /// Its rows.
    pub shape: ShapeId,
    /// Who handles exceptions that pass it.
    pub handler: Option<PlacedHandler>,
}

/// The handler of a [`PlacedFunction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedHandler {
    /// Place of the personality routine in the table's list.
    pub personality: u32,
    /// Address of the language-specific data.
    pub lsda: Option<u64>,
}

/// What errors call language-specific data.
const LSDA: &str = "language-specific data";

/// A table of version 2 without its addresses.
#[derive(Clone, Debug)]
pub struct WholeShapes(Shapes);

/// An entry whose function has a handler.
struct Owner {
    entry: u32,
    personality: u32,
    lsda: Option<u64>,
}

/// The parts about handlers.
#[derive(Default)]
struct Handlers {
    bits: Vec<u8>,
    pages: Vec<[u32; 3]>,
    lsdas: Vec<u8>,
    count: u32,
}

impl WholeShapes {
    /// Makes everything that does not depend on addresses.
    ///
    /// # Errors
    /// There are more steps, rules, layouts or bytes of shapes than a table can hold.
    pub fn new(collected: impl Into<Collected>) -> Result<Self, Inexpressible> {
        collected.into().finish().map(Self)
    }

    /// Size in bytes of a table of these functions, given by their shapes and whether they have handlers, if
    /// they lie on so many pages, are all there, have so many personality routines, one in each page, and
    /// have their language-specific data near each other.
    pub fn size(
        &self,
        pages: Pages,
        personalities: u32,
        functions: impl IntoIterator<Item = (ShapeId, bool)>,
    ) -> u64 {
        let (mut entries, mut whole) = (0, WholeHeader { personalities, ..WholeHeader::default() });
        for (function, has_handler) in functions {
            let own = self.0.entries(function);
            entries += own;
            whole.continued = whole.continued.saturating_add(own.saturating_sub(1) as u32);
            whole.handlers += u32::from(has_handler);
        }
        whole.lsda_bytes = whole.handlers.saturating_mul(2);
        self.0.header(pages, u32::try_from(entries).unwrap_or(u32::MAX), whole).needed()
    }

    /// Where the shape of a function lies among the shapes of every table, if the function is one piece.
    pub fn place_of(&self, function: ShapeId) -> Option<u32> {
        let known = ((function.0 as usize) < self.0.functions.len()).then_some(function.0)?;
        let shape = self.0.functions.piece(known)?;
        Some(self.0.places[shape as usize])
    }

    /// The table of functions at these addresses, which must ascend, for a section at `address`. The
    /// functions name their personality routines by their places in `personalities`.
    ///
    /// # Errors
    /// Addresses do not ascend strictly; a number was not handed out; something is too far from the table; or
    /// the table would have 4 GiB or more.
    pub fn to_bytes(
        &self,
        address: u64,
        personalities: &[Personality],
        functions: &[PlacedFunction],
    ) -> Result<Vec<u8>, Error> {
        self.to_bytes_of(address, personalities, functions.len(), |place| functions[place])
    }

    /// The same, of so many functions, each of which `function` makes as often as it is asked for it.
    ///
    /// # Errors
    /// Those of [`WholeShapes::to_bytes`].
    pub fn to_bytes_of(
        &self,
        address: u64,
        personalities: &[Personality],
        functions: usize,
        function: impl Fn(usize) -> PlacedFunction,
    ) -> Result<Vec<u8>, Error> {
        let (mut first, mut continued, mut owners) = (0, Vec::new(), Vec::with_capacity(functions));
        let place = |place: usize| {
            let PlacedFunction { address, shape, .. } = function(place);
            (address, shape)
        };
        let entries = self.0.entries_at(functions, place, |place, entry, continues| {
            if continues {
                continued.push((entry, first));
                return;
            }
            first = entry;
            let handler = function(place).handler;
            owners.extend(handler.map(|PlacedHandler { personality, lsda }| Owner {
                entry,
                personality,
                lsda,
            }));
        })?;
        let handlers = Handlers::new(address, &entries, &owners, personalities.len())?;
        let whole = WholeHeader {
            personalities: personalities.len() as u32,
            handlers: handlers.count,
            lsda_bytes: handlers.lsdas.len() as u32,
            continued: continued.len() as u32,
            ..WholeHeader::default()
        };
        let header = self.0.header_of(&entries, whole)?;
        let mut bytes = Vec::with_capacity(header.length as usize);
        self.0.write_common(&header, address, &entries, &mut bytes);
        self.0.layout_numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend(&self.0.layouts);
        for personality in personalities {
            bytes.extend(near("a personality routine", personality.address, address)?.to_le_bytes());
            bytes.extend(u32::from(personality.indirect).to_le_bytes());
        }
        handlers.pages.iter().flatten().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(handlers.bits);
        bytes.extend(handlers.lsdas);
        for (entry, first) in continued {
            bytes.extend(entry.to_le_bytes());
            bytes.extend(first.to_le_bytes());
        }
        debug_assert_eq!(bytes.len() as u64, header.needed());
        Ok(bytes)
    }
}

impl Handlers {
    /// The handlers of entries, which ascend.
    fn new(address: u64, entries: &Entries, owners: &[Owner], personalities: usize) -> Result<Self, Error> {
        if owners.is_empty() {
            return Ok(Self::default());
        }
        if personalities > MAX_PERSONALITIES {
            return Err(full("different personality routines"));
        }
        if let Some(owner) = owners.iter().find(|owner| owner.personality as usize >= personalities) {
            let found = owner.personality;
            return Err(Error::new(0, ErrorKind::CompactNumber { what: "personality routine", found }));
        }
        let mut handlers = Self { bits: alloc::vec![0; entries.starts.len().div_ceil(8)], ..Self::default() };
        let ends = entries.pages.iter().skip(1).copied().chain([entries.starts.len() as u32]);
        let mut rest = owners;
        for end in ends {
            let (page, behind) = rest.split_at(rest.partition_point(|owner| owner.entry < end));
            rest = behind;
            handlers.add_page(address, page)?;
        }
        Ok(handlers)
    }

    /// Adds the handlers of a page.
    fn add_page(&mut self, address: u64, owners: &[Owner]) -> Result<(), Error> {
        let known = owners.iter().filter_map(|owner| owner.lsda);
        // A distance of 0 means that there is no data.
        let base = known.clone().min().map_or(address, |least| least.wrapping_sub(1));
        let most = known.max().unwrap_or(base);
        let wide = match most.wrapping_sub(base) {
            0..=0xffff => 0,
            0x1_0000..=0xffff_ffff => WIDE,
            _ => return Err(far(LSDA, most, address)),
        };
        let first = owners.first().map_or(0, |owner| owner.personality);
        let is_one = owners.iter().all(|owner| owner.personality == first);
        let routine = if is_one && first < MOST_ROUTINE { first + 1 } else { 0 };
        if self.count > RANK {
            return Err(full("functions with personality routines"));
        }
        let word = self.count | routine << ROUTINE_SHIFT | wide;
        self.pages.push([word, self.lsdas.len() as u32, near(LSDA, base, address)? as u32]);
        for &Owner { entry, lsda, .. } in owners {
            self.bits[entry as usize / 8] |= 1 << (entry % 8);
            let distance = lsda.map_or(0, |lsda| lsda.wrapping_sub(base));
            match wide {
                0 => self.lsdas.extend((distance as u16).to_le_bytes()),
                _ => self.lsdas.extend((distance as u32).to_le_bytes()),
            }
        }
        if routine == 0 {
            self.lsdas.extend(owners.iter().map(|owner| owner.personality as u8));
        }
        self.count += owners.len() as u32;
        Ok(())
    }
}

fn full(what: &'static str) -> Error {
    Error::new(0, ErrorKind::CompactFull { what })
}

fn far(what: &'static str, address: u64, table: u64) -> Error {
    Error::new(0, ErrorKind::CompactFar { what, address, table })
}

/// The distance of something from the table.
fn near(what: &'static str, address: u64, table: u64) -> Result<i32, Error> {
    i32::try_from(address.wrapping_sub(table) as i64).map_err(|_| far(what, address, table))
}

/// Writes functions, given by address and in its order, as one table of version 2 for a section at `address`.
/// It omits functions without a form, or without bytes, and those that need most layouts if there is no room
/// for all.
///
/// # Errors
/// Those of [`WholeShapes::to_bytes`], or the functions have more different rows than a table can hold.
pub fn write_whole_table(
    abi: Abi,
    address: u64,
    functions: &[(u64, CfiFunction, Option<Handler>)],
) -> Result<Written, Error> {
    let (mut builder, mut rows) = (Builder::whole(abi), CfiRows::default());
    let mut left_out = Vec::new();
    let mut personalities: Vec<Personality> = Vec::new();
    let mut placed = Vec::with_capacity(functions.len());
    let mut places = Vec::with_capacity(functions.len());
    for (place, (start, function, handler)) in functions.iter().enumerate() {
        let shape = match builder.add_whole(&rows.numbered(function), &rows) {
            Ok(shape) => shape,
            Err(reason) => {
                left_out.push((place, LeftOut::Inexpressible(reason)));
                continue;
            }
        };
        let handler = handler.map(|Handler { personality, lsda }| {
            let known = personalities.iter().position(|&known| known == personality);
            let number = known.unwrap_or_else(|| {
                personalities.push(personality);
                personalities.len() - 1
            });
            PlacedHandler { personality: number as u32, lsda }
        });
        places.push(place);
        placed.push(PlacedFunction { address: *start, shape, handler });
    }
    let mut collected = Collected::from(builder);
    if let Some(numbers) = collected.fit() {
        let full = Inexpressible { row: None, reason: Reason::SectionFull };
        let number = |function: &PlacedFunction| numbers[function.shape.0 as usize];
        let out = places.iter().zip(&placed).filter(|(_, function)| number(function).is_none());
        left_out.extend(out.map(|(&place, _)| (place, LeftOut::Inexpressible(full))));
        left_out.sort_by_key(|&(place, _)| place);
        placed.retain_mut(|function| number(function).map(|shape| function.shape = shape).is_some());
    }
    let shapes = WholeShapes::new(collected).map_err(|_| FULL)?;
    Ok(Written { bytes: shapes.to_bytes(address, &personalities, &placed)?, left_out })
}
