//! The rows of a file, from several sources.
//!
//! A file may have its own rows, in an SFrame section or a compact table. It may also have rows that were
//! derived from its `.eh_frame`, and rows that were read from its instructions. A look-up asks these sources
//! in this order until one has a row. Rows are made once, and all processes that have loaded the file share
//! them. A profiler that needs a few functions of many files makes rows on demand ([`RowSource`]).

use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

use crate::abi::Abi;
use crate::compact::CompactTable;
use crate::error::Error;
use crate::index::SectionIndex;
use crate::packed::{Kind, Packed};
use crate::rules::{Rules, UnwindRules};
use crate::source::Source;
use crate::table::RuleTable;

const NO_RULES: UnwindRules = UnwindRules { abi: Abi::Amd64, signal: false, rules: Rules::Outermost };

/// The rows of a file, from several sources.
#[derive(Clone, Debug)]
pub struct FileRows<D> {
    compact: Option<CompactTable<D>>,
    own: Option<Rows<D>>,
    derived: Option<Rows<D>>,
    instructions: Option<Rows<D>>,
    more: Option<Arc<dyn RowSource>>,
}

/// A source that makes rows on demand.
///
/// An implementation may allocate and lock, so signal handlers must not unwind with one.
pub trait RowSource: fmt::Debug + Send + Sync {
    /// The rules at the file's address `pc`, and their source. The answer for an address must never change,
    /// because the unwinder caches it.
    ///
    /// # Errors
    /// The rows are malformed.
    fn rules_at(&self, pc: u64) -> Result<Option<(UnwindRules, Source)>, Error>;
}

#[derive(Clone, Debug)]
struct Rows<D> {
    index: SectionIndex<D>,
    table: Option<RuleTable>,
}

impl<D> Default for FileRows<D> {
    fn default() -> Self {
        Self { compact: None, own: None, derived: None, instructions: None, more: None }
    }
}

impl<D: Deref<Target = [u8]>> FileRows<D> {
    /// The rows of an SFrame section with the bytes `data` at the file's address `address`.
    /// [`FileRows::default`] is a file without rows.
    pub fn new(data: D, address: u64) -> Self {
        Self { own: Some(Rows::new(data, address)), ..Self::default() }
    }

    /// The same with a compact table of the file, which look-ups ask first. Its frames have
    /// [`Source::Sframe`].
    #[must_use]
    pub fn with_compact(mut self, table: CompactTable<D>) -> Self {
        self.compact = Some(table);
        self
    }

    /// The same with an SFrame section that was derived from the file's `.eh_frame`
    /// ([`derive()`](crate::derive), feature `derive`), for code without the file's own rows. Its frames have
    /// [`Source::EhFrame`].
    #[must_use]
    pub fn with_derived(mut self, data: D, address: u64) -> Self {
        self.derived = Some(Rows::new(data, address));
        self
    }

    /// The same with an SFrame section that was read from the file's instructions, for code without any other
    /// rows. Its frames have [`Source::Instructions`].
    #[must_use]
    pub fn with_instructions(mut self, data: D, address: u64) -> Self {
        self.instructions = Some(Rows::new(data, address));
        self
    }

    /// The same with rows that are made on demand, for code without any other rows.
    #[must_use]
    pub fn with_source(mut self, source: Arc<dyn RowSource>) -> Self {
        self.more = Some(source);
        self
    }

    /// The rules at the file's address `pc`, and their source.
    ///
    /// # Errors
    /// The rows are malformed.
    pub fn rules_at(&self, pc: u64) -> Result<Option<(UnwindRules, Source)>, Error> {
        let mut kept = NO_RULES;
        let found = self.find(pc, &mut kept)?;
        let rules = match found.kind() {
            Kind::NoRow => return Ok(None),
            Kind::Kept(_) => kept,
            Kind::Frame | Kind::Outermost => found.unpack().unwrap_or(kept),
        };
        Ok(Some((rules, found.source())))
    }

    /// Where the function around the file's address `pc` starts, according to its compact table or its SFrame
    /// section. A compact table may divide a long function; this is then the start of the part.
    pub fn start_at(&self, pc: u64) -> Option<u64> {
        let by_table = self.compact.as_ref().and_then(|table| table.lookup(pc).ok()?).map(|row| row.function);
        by_table.or_else(|| self.all().find_map(|rows| Some(rows.index.find(pc)?.1.address)))
    }

    /// These rows, with those of its SFrame sections laid out for speed where that is possible
    /// ([`RuleTable::new`]). [`RuleTable`] says how much time and memory this takes.
    #[must_use]
    pub fn tabled(mut self) -> Self {
        for rows in [&mut self.own, &mut self.derived, &mut self.instructions].into_iter().flatten() {
            rows.table = RuleTable::new(&rows.index);
        }
        self
    }

    /// The index of the file's own section.
    pub fn index(&self) -> Option<&SectionIndex<D>> {
        self.own.as_ref().map(|rows| &rows.index)
    }

    /// Bytes of memory that the tables use ([`RuleTable::size`]).
    pub fn table_size(&self) -> usize {
        self.all().filter_map(|rows| rows.table.as_ref()).map(RuleTable::size).sum()
    }

    fn all(&self) -> impl Iterator<Item = &Rows<D>> {
        [&self.own, &self.derived, &self.instructions].into_iter().flatten()
    }

    /// The rules at the file's address `pc` as a word. Rules that do not fit a word are written to `kept`.
    ///
    /// # Errors
    /// The rows are malformed.
    #[inline]
    pub(crate) fn find(&self, pc: u64, kept: &mut UnwindRules) -> Result<Packed, Error> {
        if let Some(table) = &self.compact {
            let found = table.packed_at(pc, kept)?;
            if found != Packed::NO_ROW {
                return Ok(found.by(Source::Sframe));
            }
        }
        let sources = [
            (&self.own, Source::Sframe),
            (&self.derived, Source::EhFrame),
            (&self.instructions, Source::Instructions),
        ];
        for (rows, source) in sources {
            let Some(rows) = rows else { continue };
            let found = rows.find(pc, kept)?;
            if found != Packed::NO_ROW {
                return Ok(found.by(source));
            }
        }
        match &self.more {
            Some(more) => Self::ask(&**more, pc, kept),
            None => Ok(Packed::NO_ROW),
        }
    }

    #[inline(never)]
    fn ask(more: &dyn RowSource, pc: u64, kept: &mut UnwindRules) -> Result<Packed, Error> {
        let Some((rules, source)) = more.rules_at(pc)? else {
            return Ok(Packed::NO_ROW);
        };
        let packed = Packed::new(&rules).unwrap_or_else(|| {
            *kept = rules;
            Packed::kept(0)
        });
        Ok(packed.by(source))
    }
}

impl<D: Deref<Target = [u8]>> Rows<D> {
    fn new(data: D, address: u64) -> Self {
        Self { index: SectionIndex::new(data, address), table: None }
    }

    #[inline]
    fn find(&self, pc: u64, kept: &mut UnwindRules) -> Result<Packed, Error> {
        if let Some(table) = &self.table
            && let Some(packed) = table.packed_at(pc)
        {
            if let Kind::Kept(place) = packed.kind()
                && let Some(rules) = table.kept(place)
            {
                *kept = *rules;
            }
            return Ok(packed);
        }
        self.index.packed_at(pc, kept)
    }
}
