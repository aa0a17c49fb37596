//! The debug information that was split off from a file, and what it says of frames.
//!
//! A file names its debug file by its build-id, or by a name and a checksum in `.gnu_debuglink`. Debug files
//! of several programs may share a further one (`.gnu_debugaltlink`, which dwz writes). All of them are
//! looked for below the folder that stands for the recording's root, if there is one, and those that a
//! build-id identifies also on this machine. If names need it and the user wants that, debuginfod's client
//! fetches it.

use crate::build_id::{build_id_path, hexadecimal};
use crate::bytes::Bytes;
use crate::image::Image;
use crate::sections::{mini_debug_file, section};
use object::Object;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

/// Where debuggers look for debug files.
const FOLDER: &str = "/usr/lib/debug";

/// The file with the debug information of another file. It is looked for when it is needed.
pub(crate) struct DebugFile {
    /// The path of the other file, from the root.
    path: PathBuf,
    places: Places,
    image: Option<Arc<Image>>,
    found: OnceLock<Option<Found>>,
    fetched: OnceLock<Option<Found>>,
    shared: OnceLock<Option<Bytes>>,
    frames: OnceLock<Option<Bytes>>,
    mini: OnceLock<Option<Bytes>>,
}

/// Where debug files come from.
#[derive(Clone, Default)]
pub(crate) struct Places {
    /// The folder that stands for the root. `None`: the root of this machine.
    pub root: Option<PathBuf>,
    /// The program that fetches debug files by build-id.
    pub fetcher: Option<PathBuf>,
}

/// A file that was found.
struct Found {
    /// Its path on this machine.
    path: PathBuf,
    bytes: Bytes,
}

impl Found {
    fn open(path: PathBuf) -> Option<Self> {
        Some(Self { bytes: Bytes::open(&path).ok()?, path })
    }

    fn has_build_id(&self, id: &[u8]) -> bool {
        let file = object::File::parse(&*self.bytes).ok();
        file.and_then(|file| file.build_id().ok()?).is_some_and(|found| found == id)
    }
}

impl DebugFile {
    /// The debug information of the file at a path.
    pub fn new(path: &str, places: Places, image: Option<&Arc<Image>>) -> Self {
        Self {
            path: path.into(),
            places,
            image: image.map(Arc::clone),
            found: OnceLock::new(),
            fetched: OnceLock::new(),
            shared: OnceLock::new(),
            frames: OnceLock::new(),
            mini: OnceLock::new(),
        }
    }

    /// The bytes of the files that have been found so far, and of what was expanded.
    pub fn size(&self) -> usize {
        let found = [&self.found, &self.fetched].map(|found| Some(found.get()?.as_ref()?.bytes.len()));
        let parts = [&self.shared, &self.mini].map(|part| Some(part.get()?.as_ref()?.len()));
        found.into_iter().chain(parts).flatten().sum()
    }

    /// The file, found by build-id or by the name in `.gnu_debuglink`.
    pub fn bytes(&self) -> Option<&Bytes> {
        Some(&self.found()?.bytes)
    }

    /// The files that have symbols: the file itself, and its debug file. A debug file is fetched if there is
    /// no other.
    pub fn with_symbols(&self) -> impl Iterator<Item = &Bytes> {
        let own = self.image.as_deref().map(Image::bytes);
        let is_stripped = own.is_some_and(|bytes| !has(bytes, ".symtab"));
        let other = self.bytes().or_else(|| self.mini());
        let other = other.or_else(|| Some(&self.fetched().filter(|_| is_stripped)?.bytes));
        own.into_iter().chain(other)
    }

    /// The file itself or its debug file, whichever has debug information, and its path.
    pub fn information(&self) -> Option<(&Bytes, PathBuf)> {
        let has_any = |bytes: &Bytes| has(bytes, ".debug_info");
        let own = self.image.as_deref().map(Image::bytes).filter(|bytes| has_any(bytes));
        let own = own.map(|bytes| (bytes, self.in_root(&self.path)));
        let found = || self.found().filter(|found| has_any(&found.bytes)).or_else(|| self.fetched());
        own.or_else(|| found().map(|found| (&found.bytes, found.path.clone())))
    }

    /// The file that the one with debug information shares with others.
    pub fn shared(&self) -> Option<&Bytes> {
        self.shared.get_or_init(|| self.find_shared()).as_ref()
    }

    /// The section `.debug_frame` of the file itself, or else of the one with its debug information.
    pub fn frames(&self) -> Option<&Bytes> {
        let frames_in = |bytes: &Bytes| section(bytes, &object::File::parse(&**bytes).ok()?, ".debug_frame");
        let read = || {
            let own = self.image.as_deref().and_then(|image| frames_in(image.bytes()));
            own.or_else(|| frames_in(self.bytes()?))
        };
        self.frames.get_or_init(read).as_ref()
    }

    /// The file with symbols that is compressed into the file itself.
    fn mini(&self) -> Option<&Bytes> {
        self.mini.get_or_init(|| mini_debug_file(self.image.as_ref()?.bytes())).as_ref()
    }

    fn found(&self) -> Option<&Found> {
        let find = || {
            let id = self.image.as_ref()?.build_id();
            id.and_then(|id| self.by_build_id(id)).or_else(|| self.by_link())
        };
        self.found.get_or_init(find).as_ref()
    }

    /// The file as debuginfod's client has it. Asking servers takes time, so only names ask for it.
    fn fetched(&self) -> Option<&Found> {
        let fetch = || {
            let (fetcher, id) = (self.places.fetcher.as_ref()?, self.image.as_ref()?.build_id()?);
            let said =
                Command::new(fetcher).args(["debuginfo", &hexadecimal(id)]).stdin(Stdio::null()).output();
            let path = said.ok().filter(|said| said.status.success())?.stdout;
            let found = Found::open(OsStr::from_bytes(path.trim_ascii()).into())?;
            found.has_build_id(id).then_some(found)
        };
        self.fetched.get_or_init(fetch).as_ref()
    }

    fn by_build_id(&self, id: &[u8]) -> Option<Found> {
        let path = build_id_path(&Path::new(FOLDER).join(".build-id"), id)?.with_extension("debug");
        let places = [Some(self.in_root(&path)), self.places.root.as_ref().map(|_| path)];
        places.into_iter().flatten().filter_map(Found::open).find(|found| found.has_build_id(id))
    }

    fn by_link(&self) -> Option<Found> {
        let image = self.image.as_ref()?;
        let file = object::File::parse(&**image.bytes()).ok()?;
        let (name, checksum) = file.gnu_debuglink().ok()??;
        let name = std::str::from_utf8(name).ok().filter(|name| !name.contains('/'))?;
        let folder = self.path.parent()?;
        let global = Path::new(FOLDER).join(folder.strip_prefix("/").unwrap_or(folder));
        let places = [folder.join(name), folder.join(".debug").join(name), global.join(name)];
        places.iter().filter_map(|place| Found::open(self.in_root(place))).find(|found| {
            let mut crc = flate2::Crc::new();
            crc.update(&found.bytes);
            crc.sum() == checksum
        })
    }

    /// A relative name in `.gnu_debugaltlink` counts from the folder of the file that has the section.
    fn find_shared(&self) -> Option<Bytes> {
        let (bytes, path) = self.information()?;
        let file = object::File::parse(&**bytes).ok()?;
        let (name, id) = file.gnu_debugaltlink().ok()??;
        let name = Path::new(std::str::from_utf8(name).ok()?);
        let target = path.canonicalize().unwrap_or_else(|_| path.clone());
        let relative = [&path, &target].into_iter().filter_map(|path| Some(path.parent()?.join(name)));
        let named = [self.in_root(name)].into_iter().filter(|_| name.is_absolute());
        let mut places = named.chain(relative.filter(|_| name.is_relative()));
        let by_name = places.find_map(|place| Found::open(place).filter(|found| found.has_build_id(id)));
        Some(by_name.or_else(|| self.by_build_id(id))?.bytes)
    }

    fn in_root(&self, path: &Path) -> PathBuf {
        let inside = |root: &PathBuf| root.join(path.strip_prefix("/").unwrap_or(path));
        self.places.root.as_ref().map_or_else(|| path.to_owned(), inside)
    }
}

/// Whether a file has a section.
fn has(bytes: &Bytes, section: &str) -> bool {
    object::File::parse(&**bytes).is_ok_and(|file| file.section_by_name(section).is_some())
}
