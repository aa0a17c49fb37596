//! A file that can be closed and opened again, with what was read of it.
//!
//! Whoever follows a whole machine for days meets thousands of files, but samples need some of them at a
//! time. If there is a bound, the least recently used files are closed between samples: their mappings and
//! rows go, and processes keep a [`Shelf`], which opens the file again when a sample needs it. A file that
//! could not be opened again, since it was deleted or replaced or had no path, is never closed.

use crate::bytes::Stamp;
use crate::debug_file::{DebugFile, Places};
use crate::image::{Image, Sources};
use crate::rows::{ReadTime, Rows};
use crate::running::REPLACED;
use sframe_format::file_rows::RowSource;
use sframe_format::{Error, Source, UnwindRules};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How many files may be open at a time. The bounds hold between samples: a sample has open what it needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Files. `None`: any number.
    pub files: Option<u64>,
    /// Their bytes, and those of their debug files. What is read of a file takes memory in proportion.
    pub bytes: Option<u64>,
}

impl Bound {
    /// Whether there is none.
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether so much is too much.
    pub(crate) fn is_exceeded(&self, files: u64, bytes: u64) -> bool {
        self.files.is_some_and(|most| files > most) || self.bytes.is_some_and(|most| bytes > most)
    }
}

/// What the files of one cache have in common.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Counts samples and events, to tell which file was used last.
    pub clock: AtomicU64,
    /// How often a file was opened, the first time included.
    pub opened: AtomicU64,
}

impl Counts {
    pub fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    fn open(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }
}

/// How rows of a file are made, whenever it is opened.
pub(crate) struct Settings {
    /// Its path in the recording.
    pub path: Box<str>,
    pub places: Places,
    pub sources: Sources,
    pub reading: ReadTime,
    pub counts: Arc<Counts>,
}

/// A file that is open, with what was read of it. Clones share it.
#[derive(Clone)]
pub(crate) struct Opened {
    /// The file, or why it cannot be used.
    pub image: Result<Arc<Image>, String>,
    /// The file with its debug information.
    pub debug: Arc<DebugFile>,
    /// Its rows. A file that cannot be used has none.
    pub made: Option<Arc<Rows>>,
}

impl Opened {
    fn new(image: Result<Image, String>, settings: &Settings) -> Self {
        let image = image.map(Arc::new);
        let debug = Arc::new(DebugFile::new(&settings.path, settings.places.clone(), image.as_ref().ok()));
        let rows = |image: &Arc<Image>| {
            let from = (Arc::clone(image), Arc::clone(&debug));
            Arc::new(Rows::new(from, settings.sources, settings.reading.clone()))
        };
        let made = image.as_ref().ok().map(rows);
        Self { image, debug, made }
    }

    /// The bytes that are mapped.
    fn size(&self) -> u64 {
        let own = self.image.as_ref().map_or(0, |image| image.bytes().len());
        (own + self.debug.size()) as u64
    }
}

/// The file.
pub(crate) struct Shelf {
    settings: Settings,
    /// Where it can be opened again. `None`: nowhere.
    origin: Option<(PathBuf, Stamp)>,
    opened: Mutex<Option<Opened>>,
    /// When it was used last, by the clock of the counts.
    used: AtomicU64,
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("path", &self.settings.path).field("origin", &self.origin).finish()
    }
}

impl RowSource for Shelf {
    fn rules_at(&self, pc: u64) -> Result<Option<(UnwindRules, Source)>, Error> {
        let mut opened = self.lock();
        let rows = opened.get_or_insert_with(|| self.again()).made.as_ref();
        rows.map_or(Ok(None), |rows| rows.rules_at(pc))
    }
}

impl Shelf {
    /// A file that has just been opened.
    pub fn new(image: Result<Image, String>, settings: Settings) -> Self {
        let origin = image.as_ref().ok().and_then(|image| lasting(image, &settings.path));
        let opened = Opened::new(image, &settings);
        settings.counts.open();
        let used = AtomicU64::new(settings.counts.now());
        Self { settings, origin, opened: Mutex::new(Some(opened)), used }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Opened>> {
        self.touch();
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the file is used.
    pub fn touch(&self) {
        self.used.store(self.settings.counts.now(), Ordering::Relaxed);
    }

    /// The file, which this opens if it is closed.
    pub fn opened(&self) -> Opened {
        self.lock().get_or_insert_with(|| self.again()).clone()
    }

    fn again(&self) -> Opened {
        self.settings.counts.open();
        let image = match &self.origin {
            Some((path, stamp)) => Image::open(path).and_then(|image| {
                let is_same = image.origin().is_some_and(|(_, now)| now == stamp);
                if is_same { Ok(image) } else { Err(format!("{REPLACED} after it was closed")) }
            }),
            None => Err("it was closed".into()),
        };
        Opened::new(image, &self.settings)
    }

    /// When it was used last, and its bytes that are mapped. `None`: it is closed, or cannot be used.
    pub fn open_now(&self) -> Option<(u64, u64)> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = opened.as_ref().filter(|opened| opened.image.is_ok())?;
        Some((self.used.load(Ordering::Relaxed), opened.size()))
    }

    /// Closes it if it can be opened again. Returns whether it did.
    pub fn close(&self) -> bool {
        let is_there = |(path, stamp): &(PathBuf, Stamp)| Stamp::at(path).as_ref() == Some(stamp);
        let closes = self.origin.as_ref().is_some_and(is_there);
        if closes {
            *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        closes
    }
}

/// A path at which a file can be opened as long as it is there. Paths in `/proc/PID` end with the process, so
/// the file's own path must lead to it, too.
fn lasting(image: &Image, stored: &str) -> Option<(PathBuf, Stamp)> {
    let (path, stamp) = image.origin()?;
    if !path.starts_with("/proc") {
        return Some((path.clone(), *stamp));
    }
    (Stamp::at(Path::new(stored)).as_ref() == Some(stamp)).then(|| (stored.into(), *stamp))
}
