//! The rows of a file, made as samples ask for them.
//!
//! A recording touches some hundreds of a library's functions, and the library may have two hundred thousand. So nothing is
//! read when a file is mapped; the first sample at an address finds its row, among those of the file's own first, then by
//! running the one FDE that holds it, then by its instructions, and what was found is kept for all processes.

use crate::bytes::Bytes;
use crate::image::{Image, Sources};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use sframe_format::abi::Register;
use sframe_format::derive::FdeIndex;
use sframe_format::file_rows::RowSource;
use sframe_format::{Error, FileRows, RegisterRule, Source, UnwindRules};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Time that was spent in reading rows, of all files together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading(Arc<AtomicU64>);

impl Reading {
    pub fn add(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

type Answer = Result<Option<(UnwindRules, Source)>, Error>;

/// The rows of an ELF file.
pub(crate) struct Rows {
    image: Arc<Image>,
    sources: Sources,
    own: OnceLock<Option<FileRows<Bytes>>>,
    fdes: OnceLock<Option<FdeIndex<Bytes>>>,
    instructions: OnceLock<Option<FileRows<Bytes>>>,
    known: Mutex<HashMap<u64, Answer, FixedState>>,
    reading: Reading,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("sources", &self.sources).field("known", &self.known()).finish()
    }
}

impl RowSource for Rows {
    fn rules_at(&self, pc: u64) -> Answer {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(pc).or_insert_with(|| {
            let started = Instant::now();
            let answer = self.find(pc);
            self.reading.add(started.elapsed());
            answer
        })
    }
}

impl Rows {
    pub fn new(image: Arc<Image>, sources: Sources, reading: Reading) -> Self {
        Self {
            image,
            sources,
            own: OnceLock::new(),
            fdes: OnceLock::new(),
            instructions: OnceLock::new(),
            known: Mutex::default(),
            reading,
        }
    }

    /// Number of addresses that were asked for.
    pub fn known(&self) -> usize {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Where the code at the file's address `pc` has its caller's value of a register, by `.eh_frame`.
    pub fn register_at(&self, pc: u64, register: Register) -> Option<RegisterRule> {
        self.fdes()?.register_at(pc, register)
    }

    fn find(&self, pc: u64) -> Answer {
        if let Some(own) = self.own()
            && let Some(found) = own.rules_at(pc)?
        {
            return Ok(Some(found));
        }
        if self.sources != Sources::Sframe
            && let Some(found) = self.fdes().and_then(|fdes| fdes.rules_at(pc))
        {
            // Rows that have no SFrame form: of such a function the instructions are not asked.
            return Ok(found.ok().flatten().map(|rules| (rules, Source::EhFrame)));
        }
        match self.by_instructions() {
            Some(rows) => rows.rules_at(pc),
            None => Ok(None),
        }
    }

    fn own(&self) -> Option<&FileRows<Bytes>> {
        let read = || if self.sources == Sources::Derived { None } else { self.image.own_rows() };
        self.own.get_or_init(read).as_ref()
    }

    fn fdes(&self) -> Option<&FdeIndex<Bytes>> {
        self.fdes.get_or_init(|| self.image.fdes()).as_ref()
    }

    fn by_instructions(&self) -> Option<&FileRows<Bytes>> {
        let read = || {
            let mut covered = self.image.own_ranges();
            covered.extend(self.fdes().into_iter().flat_map(FdeIndex::ranges));
            let section = self.image.by_instructions(covered)?;
            Some(FileRows::default().with_instructions(section.into(), 0))
        };
        if self.sources != Sources::All {
            return None;
        }
        self.instructions.get_or_init(read).as_ref()
    }
}
