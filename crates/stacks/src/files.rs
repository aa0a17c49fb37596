//! One cache of files for all processes.
//!
//! Path and build-id identify a file, or its path and inode in a process that runs, and its rows are made
//! once, on demand. If a file was replaced after the recording, its build-id differs from the recorded one.
//! The cache does not use such a file, and the statistics say so. If a file no longer exists, the cache looks
//! for its build-id where perf and debuggers keep files.

use crate::build_id::build_id_path;
pub use crate::build_id::hexadecimal;
use crate::bytes::Bytes;
use crate::calls::Calls;
use crate::code::switch::Back;
use crate::code::{LONGEST_CALL, ends_with_call};
use crate::debug_file::Places;
use crate::go_lines::GoLines;
use crate::image::{Image, NOT_ELF, Sources};
use crate::in_memory::InMemory;
use crate::inlines::{Inlines, Line};
use crate::jit_dump::JitDump;
use crate::jit_map::JitMap;
use crate::jit_object::JitObject;
use crate::jit_objects::{Variable, variables};
use crate::kernel::{KERNEL, running_build_id};
use crate::made_code::MadeCode;
use crate::rows::{ReadTime, Rows};
use crate::running::{Identity, REPLACED, Running};
pub use crate::shelf::Bound;
use crate::shelf::{self, Counts, Opened, Shelf};
use crate::symbols::Symbols;
use crate::table::{Material, Table};
use hashbrown::{Equivalent, HashMap};
use sframe_format::abi::Register;
use sframe_format::{Abi, FileRows, FrameAddress, Module, RegisterRule, Registers, UnwindError};
use std::cell::{OnceCell, RefCell};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

/// After how many samples and events the bound is looked at, though no file was opened.
const LOOK: u64 = 64;

/// The number of a file in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct FileId(pub u32);

/// How to find and read files.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Folder that contains the files of the recording.
    pub sysroot: Option<PathBuf>,
    /// The program that fetches debug files by build-id, if they may be fetched: `debuginfod-find`.
    pub fetcher: Option<PathBuf>,
    /// Which of their rows to use.
    pub sources: Sources,
    /// Whether the samples come from this machine since it was booted. Then their kernel is the running one.
    pub here: bool,
    /// Whether to measure the time of unwinding and of reading rows.
    pub measure: bool,
    /// How many files may be open at a time.
    pub bound: Bound,
}

/// The files that are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// How many.
    pub files: u64,
    /// Their bytes, and those of their debug files.
    pub bytes: u64,
    /// How often a file was closed because of the bound.
    pub closed: u64,
    /// How often a file was opened again.
    pub reopened: u64,
}

/// A file that processes mapped.
pub struct MappedFile {
    /// Its path in the recording.
    pub path: Arc<str>,
    /// Its build-id in the recording.
    expected: Option<Vec<u8>>,
    is_foreign: bool,
    shelf: Arc<Shelf>,
    /// What the shelf holds, as long as it is open.
    opened: OnceCell<Opened>,
    /// Its rows for unwinders. A file that cannot be used has none.
    rows: Arc<FileRows<Bytes>>,
    table: OnceCell<Option<Arc<Table>>>,
    symbols: OnceCell<Symbols>,
    inlines: OnceCell<Option<Inlines>>,
    go_lines: OnceCell<Option<GoLines>>,
    /// The variables that lead to code, with the addresses that the file states.
    variables: OnceCell<Vec<(Variable, u64)>>,
}

impl MappedFile {
    fn opened(&self) -> &Opened {
        self.shelf.touch();
        self.opened.get_or_init(|| self.shelf.opened())
    }

    /// Its rows, made on demand.
    fn made(&self) -> Option<&Rows> {
        self.opened().made.as_deref()
    }

    /// Closes it if it can be opened again. Returns whether it did.
    fn close(&mut self) -> bool {
        let closes = self.shelf.close();
        if closes {
            (self.opened, self.symbols) = (OnceCell::new(), OnceCell::new());
            (self.inlines, self.go_lines) = (OnceCell::new(), OnceCell::new());
        }
        closes
    }

    /// The ELF file, or a sentence that says why it cannot be used.
    pub fn image(&self) -> Result<&Image, &str> {
        self.opened().image.as_deref().map_err(String::as_str)
    }

    /// Whether it has code in another format, of which only the program knows what that means: images of
    /// Lisp, assemblies of .NET, libraries of Windows.
    pub(crate) fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Why it cannot be used, if that is because another file has its path.
    pub fn replaced(&self) -> Option<&str> {
        self.image().err().filter(|reason| reason.starts_with(REPLACED))
    }

    /// The last part of its path.
    pub fn name(&self) -> &str {
        let name = self.path.strip_suffix(" (deleted)").unwrap_or(&self.path);
        name.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(&self.path)
    }

    /// The build-id in the recording, or else the file's own.
    pub fn build_id(&self) -> Option<&[u8]> {
        let own = self.image().ok().and_then(Image::build_id);
        self.expected.as_deref().or(own)
    }

    /// Its rows.
    pub fn rows(&self) -> &Arc<FileRows<Bytes>> {
        &self.rows
    }

    /// Number of addresses for which samples needed its rows.
    pub fn addresses_asked(&self) -> usize {
        self.made().map_or(0, Rows::known)
    }

    /// Where the function around the file's address `pc` starts, according to what the file says of frames.
    pub fn start_at(&self, pc: u64) -> Option<u64> {
        self.made()?.start_at(pc)
    }

    /// Where the caller's value of a register is while the code at the file's address `pc` runs, if rows do
    /// not track that register.
    pub fn register_at(&self, pc: u64, register: Register) -> Option<RegisterRule> {
        self.made()?.register_at(pc, register)
    }

    /// How the function gets back that has called on another stack in front of the file's address `at`.
    pub(crate) fn way_back(&self, at: u64) -> Option<&Back> {
        self.made()?.switch_at(at)?.back.as_ref()
    }

    /// The way back from the call in front of the file's address `at`, in a function that nothing describes,
    /// that aligns its stack and keeps where it was.
    pub(crate) fn aligned_at(&self, at: u64) -> Option<Back> {
        self.made()?.aligned_at(at)
    }

    /// Steps from the frame at the file's address `pc` by call frame information that has no form as rows.
    pub(crate) fn step_at(
        &self,
        pc: u64,
        topmost: bool,
        registers: &mut Registers,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<Result<Option<FrameAddress>, UnwindError>> {
        self.made()?.step_at(pc, topmost, registers, read)
    }

    /// Whether its compact table has been made.
    pub fn has_table(&self) -> bool {
        self.table.get().is_some()
    }

    /// Its symbols, those of its separate debug file, and those that are compressed into it.
    pub fn symbols(&self) -> &Symbols {
        self.symbols
            .get_or_init(|| Symbols::read(&self.opened().debug.with_symbols().cloned().collect::<Vec<_>>()))
    }

    /// The functions at the file's address, innermost first, with their source lines: by its debug
    /// information, or that of its separate debug file, or else by the table of a program of Go.
    pub(crate) fn lines_at(&self, address: u64) -> Vec<Line> {
        let inlines = self.inlines.get_or_init(|| Inlines::read(&self.opened().debug));
        let lines = inlines.as_ref().map(|inlines| inlines.at(address)).unwrap_or_default();
        if !lines.is_empty() {
            return lines;
        }
        let read = || GoLines::read(self.image().ok()?.bytes());
        let own = self.go_lines.get_or_init(read);
        own.as_ref().map(|own| own.at(address)).unwrap_or_default()
    }
}

/// Path, build-id and inode of a file.
type OwnedKey = (Vec<u8>, Option<Vec<u8>>, Option<Identity>);

/// The same, borrowed for look-ups, because processes map the same files again and again.
#[derive(Hash)]
struct Key<'a>(&'a [u8], Option<&'a [u8]>, Option<Identity>);

impl Equivalent<OwnedKey> for Key<'_> {
    fn equivalent(&self, (path, build_id, identity): &OwnedKey) -> bool {
        (self.0, self.1, self.2) == (path, build_id.as_deref(), *identity)
    }
}

/// All files.
pub struct Files {
    options: Options,
    abi: Abi,
    files: Vec<MappedFile>,
    by_key: HashMap<OwnedKey, FileId>,
    /// Build-ids of paths, from the recording.
    build_ids: HashMap<Vec<u8>, Vec<u8>>,
    /// What processes have written of the code that they have made.
    jit_dumps: HashMap<u32, JitDump>,
    /// What processes that run keep in memory of such code.
    jit_objects: RefCell<HashMap<u32, InMemory>>,
    calls: Calls,
    /// When the first file could come.
    since: SystemTime,
    reading: ReadTime,
    /// The time spent making tables.
    making: ReadTime,
    counts: Arc<Counts>,
    /// How often a file had been opened when the bound was looked at.
    looked_at: u64,
    /// How often a file was closed.
    closed: u64,
}

impl Files {
    /// A cache without files, for processes of one architecture.
    pub fn new(abi: Abi, options: Options) -> Self {
        Self {
            abi,
            files: Vec::new(),
            by_key: HashMap::new(),
            build_ids: HashMap::new(),
            jit_dumps: HashMap::new(),
            jit_objects: RefCell::default(),
            calls: Calls::default(),
            since: SystemTime::now(),
            reading: ReadTime::new(options.measure),
            making: ReadTime::new(options.measure),
            counts: Arc::default(),
            looked_at: 0,
            closed: 0,
            options,
        }
    }

    /// Records the build-id that a path had when it was mapped.
    pub fn expect(&mut self, path: &[u8], build_id: &[u8]) {
        self.build_ids.insert(path.to_vec(), build_id.to_vec());
    }

    /// The build-id that a path had. `None`: the recording does not say.
    pub fn expected(&self, path: &str) -> Option<&[u8]> {
        self.build_ids.get(path.as_bytes()).map(Vec::as_slice)
    }

    /// The file that was mapped under a path. `running` is its mapping if the process may still run.
    pub fn open(&mut self, stored: &[u8], build_id: Option<&[u8]>, running: Option<&Running>) -> FileId {
        let known = self.build_ids.get(stored).map(Vec::as_slice);
        // The kernel writes zeros if it could not read the build-id.
        let told = build_id.filter(|id| id.iter().any(|&byte| byte != 0));
        let key = Key(stored, told.or(known), running.and_then(|running| running.identity));
        if let Some(&id) = self.by_key.get(&key) {
            return id;
        }
        let key = (stored.to_vec(), key.1.map(<[u8]>::to_vec), key.2);
        let image = self.find(stored, key.1.as_deref(), running);
        let other = running.and_then(Running::other_root);
        let is_of_process = other.is_some();
        let root = other.or_else(|| self.options.sysroot.clone());
        let id = self.add(&String::from_utf8_lossy(stored), key.1.clone(), root, image);
        if is_of_process {
            // When names are asked for, the process may have ended, and its root with it.
            let debug = &self.files[id.0 as usize].opened().debug;
            let _ = (debug.bytes(), debug.shared());
        }
        self.by_key.insert(key, id);
        id
    }

    /// The file at a path of this machine, wherever others of the recording are. It must have the build-id.
    pub fn open_here(&mut self, path: &Path, build_id: Option<&[u8]>) -> FileId {
        let image = Image::open(path).and_then(|image| self.accept(image, build_id));
        self.add(&path.to_string_lossy(), build_id.map(<[u8]>::to_vec), None, image)
    }

    /// A file that is in no folder: its bytes.
    pub fn add_image(&mut self, name: &str, bytes: Bytes) -> FileId {
        let image = Image::new(bytes).and_then(|image| self.accept(image, None));
        self.add(name, None, None, image)
    }

    /// Adds a file. `root`: the folder that its path counts from, if it is not the root of this machine.
    fn add(
        &mut self,
        path: &str,
        expected: Option<Vec<u8>>,
        root: Option<PathBuf>,
        image: Result<Image, String>,
    ) -> FileId {
        let id = FileId(self.files.len() as u32);
        let settings = shelf::Settings {
            path: path.into(),
            places: Places { root, fetcher: self.options.fetcher.clone() },
            sources: self.options.sources,
            reading: self.reading.clone(),
            counts: Arc::clone(&self.counts),
        };
        let is_usable = image.is_ok();
        // One that had a build-id was an ELF file: another one has its path by now.
        let is_foreign = expected.is_none() && image.as_ref().err().is_some_and(|reason| reason == NOT_ELF);
        let shelf = Arc::new(Shelf::new(image, settings));
        let rows = if is_usable {
            FileRows::default().with_source(Arc::clone(&shelf) as _)
        } else {
            FileRows::default()
        };
        self.files.push(MappedFile {
            path: path.into(),
            expected,
            is_foreign,
            shelf,
            opened: OnceCell::new(),
            rows: rows.into(),
            table: OnceCell::new(),
            symbols: OnceCell::new(),
            inlines: OnceCell::new(),
            go_lines: OnceCell::new(),
            variables: OnceCell::new(),
        });
        id
    }

    fn find(&self, path: &[u8], build_id: Option<&[u8]>, running: Option<&Running>) -> Result<Image, String> {
        if path == b"[vdso]" {
            return self.find_vdso(build_id);
        }
        let stored = Path::new(OsStr::from_bytes(path.strip_suffix(b" (deleted)").unwrap_or(path)));
        let accept = |place: &Path| Image::open(place).and_then(|image| self.accept(image, build_id));
        let found = match (&self.options.sysroot, running) {
            (Some(root), _) => accept(&root.join(without_root(stored))),
            (None, Some(running)) => accept(&running.exact()).or_else(|_| {
                let check = |place: &Path, image: Image| running.check(place, image.bytes()).map(|()| image);
                let mut refused = String::new();
                for place in running.places(stored) {
                    match accept(&place).and_then(|image| check(&place, image)) {
                        Ok(image) => return Ok(image),
                        Err(reason) => refused = reason,
                    }
                }
                // The last place is that of the path itself, so its reason is the one to tell.
                Err(refused)
            }),
            (None, None) => accept(stored),
        };
        match found {
            Ok(image) => Ok(image),
            Err(reason) => self.find_by_build_id(stored, build_id).ok_or(reason),
        }
    }

    /// Checks that a file is the one that was mapped.
    fn accept(&self, image: Image, build_id: Option<&[u8]>) -> Result<Image, String> {
        if image.abi() != self.abi {
            return Err(format!("it is for {}, the process was {}", image.abi(), self.abi));
        }
        match (build_id, image.build_id()) {
            (Some(expected), Some(found)) if !same_id(expected, found) => Err(format!(
                "{REPLACED}: its build-id is {}, the process saw {}",
                hexadecimal(found),
                hexadecimal(expected)
            )),
            _ => Ok(image),
        }
    }

    /// Looks where perf keeps copies of files, and where debuggers look.
    fn find_by_build_id(&self, path: &Path, build_id: Option<&[u8]>) -> Option<Image> {
        let id = build_id?;
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".debug"));
        let cached = home.iter().flat_map(|home| {
            let own = home.join(without_root(path)).join(hexadecimal(id));
            let linked = build_id_path(&home.join(".build-id"), id);
            [Some(own), linked].into_iter().flatten()
        });
        let cached = cached.flat_map(|folder| [folder.join("elf"), folder.join("vdso")]);
        let installed = build_id_path(Path::new("/usr/lib/debug/.build-id"), id);
        cached.chain(installed).find_map(|place| {
            let image = Image::open(&place).ok()?;
            image.build_id().is_some_and(|found| same_id(id, found)).then_some(image)
        })
    }

    /// Whether the recorded kernel is the one that runs here. Newer versions of perf record its build-id, but
    /// none of the vDSO, which is a part of it.
    fn is_kernel_here(&self) -> bool {
        let recorded = self.expected(KERNEL);
        let same = |recorded: &[u8]| running_build_id().is_some_and(|running| same_id(recorded, &running));
        self.options.here || recorded.is_some_and(same)
    }

    /// The vDSO. If this process has the same kernel, its own vDSO is the same.
    fn find_vdso(&self, build_id: Option<&[u8]>) -> Result<Image, String> {
        let own = crate::vdso::own().and_then(|bytes| Image::new(bytes.into()).ok());
        let same = |image: &Image| match (build_id, image.build_id()) {
            (Some(expected), Some(found)) => same_id(expected, found),
            _ => self.is_kernel_here(),
        };
        let own = own.filter(|image| image.abi() == self.abi && same(image));
        own.or_else(|| self.find_by_build_id(Path::new("[vdso]"), build_id))
            .ok_or_else(|| "not that of this kernel".into())
    }

    /// The files that are open now.
    pub fn open_now(&self) -> Open {
        let all = self.files.iter().filter_map(|file| file.shelf.open_now());
        let (files, bytes) = all.fold((0, 0), |(files, bytes), (_, size)| (files + 1, bytes + size));
        let opened = self.counts.opened.load(Ordering::Relaxed);
        Open { files, bytes, closed: self.closed, reopened: opened - self.files.len() as u64 }
    }

    /// Closes the least recently used files as long as more are open than may be. Do this between samples.
    pub fn close_unused(&mut self) {
        let bound = self.options.bound;
        if bound.is_none() {
            return;
        }
        let opened = self.counts.opened.load(Ordering::Relaxed);
        let now = self.counts.clock.fetch_add(1, Ordering::Relaxed);
        // Open files become larger when their debug files are found.
        if opened == self.looked_at && !now.is_multiple_of(LOOK) {
            return;
        }
        self.looked_at = opened;
        let open = |(place, file): (usize, &MappedFile)| {
            file.shelf.open_now().map(|(used, size)| (used, place, size))
        };
        let mut open: Vec<_> = self.files.iter().enumerate().filter_map(open).collect();
        let (mut files, mut bytes) = (open.len() as u64, open.iter().map(|(_, _, size)| size).sum());
        if !bound.is_exceeded(files, bytes) {
            return;
        }
        open.sort_unstable();
        for (_, place, size) in open {
            if bound.is_exceeded(files, bytes) && self.files[place].close() {
                (files, bytes) = (files - 1, bytes - size);
                self.closed += 1;
            }
        }
    }

    /// A file of the cache.
    pub fn get(&self, id: FileId) -> Option<&MappedFile> {
        self.files.get(id.0 as usize)
    }

    /// Whether a call ends at an address of a file. Instructions that cannot be read may be anything.
    pub(crate) fn may_be_behind_call(&self, id: FileId, address: u64) -> bool {
        self.calls.are_before(id.0, address, || {
            let Some(image) = self.get(id).and_then(|file| file.image().ok()) else { return true };
            let code = image.code_before(address, LONGEST_CALL);
            code.is_none_or(|code| ends_with_call(image.abi(), code))
        })
    }

    /// All files, in the order in which they were mapped first.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &MappedFile)> {
        (0..).map(FileId).zip(&self.files)
    }

    /// The time spent reading rows, if it was measured.
    pub fn reading(&self) -> Duration {
        self.reading.total()
    }

    /// Remembers that a process has mapped the jitdump that it writes.
    pub(crate) fn add_jit_dump(&mut self, pid: u32, stored: &[u8], running: Option<&Running>) {
        let path = Path::new(OsStr::from_bytes(stored));
        let places: Vec<PathBuf> = match (&self.options.sysroot, running) {
            (Some(root), _) => vec![root.join(without_root(path))],
            (None, Some(running)) => std::iter::once(running.exact()).chain(running.places(path)).collect(),
            (None, None) => vec![path.to_owned()],
        };
        let name = String::from_utf8_lossy(stored);
        let dump = places.iter().find_map(|place| JitDump::open(place, &name, self.abi));
        self.jit_dumps.extend(dump.map(|dump| (pid, dump)));
    }

    /// What a process has written of the code that it has made.
    pub(crate) fn jit_dump(&self, pid: u32) -> Option<&JitDump> {
        self.jit_dumps.get(&pid)
    }

    /// What a process that runs keeps in memory of the code at an address. `modules` are its files.
    #[cold]
    pub(crate) fn jit_object(
        &self,
        pid: u32,
        modules: &[Module<Bytes>],
        address: u64,
    ) -> Option<Arc<JitObject>> {
        if !self.options.here {
            return None;
        }
        let mut all = self.jit_objects.borrow_mut();
        let known = all.entry(pid).or_default();
        known.object_at((self.abi, pid), modules.len(), || self.variables_of(modules), address)
    }

    /// Asks the code that a process which runs has made for what its instructions tell. `None`: its memory
    /// cannot be read, or something else describes such code.
    #[cold]
    pub(crate) fn ask_made_code<R>(
        &self,
        pid: u32,
        ask: impl FnOnce(&mut MadeCode) -> Option<R>,
    ) -> Option<R> {
        if !self.options.here {
            return None;
        }
        ask(self.jit_objects.borrow_mut().entry(pid).or_default().code(self.abi, pid)?)
    }

    /// Whether a process that runs has a method at an address, which an interpreter is said to run.
    pub(crate) fn has_method(&self, pid: u32, address: u64) -> bool {
        self.jit_objects.borrow_mut().get_mut(&pid).is_some_and(|known| known.has_method(address))
    }

    /// Reads what virtual machines have made lately: it may be gone before a sample asks for it.
    pub(crate) fn look_at_made_code(&self) {
        self.jit_objects.borrow_mut().values_mut().for_each(InMemory::look);
    }

    /// Whether a process has a virtual machine whose memory was read.
    pub(crate) fn has_virtual_machine(&self, pid: u32) -> bool {
        self.jit_objects.borrow().get(&pid).is_some_and(InMemory::is_of_virtual_machine)
    }

    /// Whether one of the files is a virtual machine whose memory says how the code that it makes is left.
    pub(crate) fn have_virtual_machine(&self, modules: &[Module<Bytes>]) -> bool {
        let is_hotspot = |&(variable, _): &(Variable, u64)| variable == Variable::HotSpotStructs;
        self.options.here && self.variables_of(modules).iter().any(is_hotspot)
    }

    /// Where files have variables that lead to code.
    fn variables_of(&self, modules: &[Module<Bytes>]) -> Vec<(Variable, u64)> {
        let of = |module: &Module<Bytes>| {
            let file = self.get(FileId(module.id().0 as u32))?;
            let own = file
                .variables
                .get_or_init(|| file.image().map(Image::bytes).map_or(vec![], |bytes| variables(bytes)));
            Some(own.iter().map(|&(kind, own)| (kind, own.wrapping_add(module.bias()))).collect::<Vec<_>>())
        };
        let mut found: Vec<_> = modules.iter().filter_map(of).flatten().collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// What a process kept in memory of the code at an address, as far as that was read while it ran.
    pub(crate) fn last_jit_object(&self, pid: u32, address: u64) -> Option<Arc<JitObject>> {
        self.jit_objects.borrow().get(&pid)?.last_object_at(address)
    }

    /// Whether the processes may be running now, on this machine.
    pub(crate) fn are_live(&self) -> bool {
        self.options.here
    }

    /// Forgets what a process has made. The files that it has mapped stay.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.jit_dumps.remove(&pid);
        self.jit_objects.get_mut().remove(&pid);
    }

    /// Forgets the code that a process has made, as it has ended ([`InMemory::end`]).
    pub(crate) fn end(&mut self, pid: u32) {
        let all = self.jit_objects.get_mut();
        if all.get_mut(&pid).is_some_and(|known| !known.end()) {
            all.remove(&pid);
        }
    }

    /// Forgets the memory of a process that executes another program, or that has just begun: another one
    /// may have had its number ([`InMemory::begin`]).
    pub(crate) fn begin(&mut self, pid: u32) {
        self.end(pid);
        if let Some(known) = self.jit_objects.get_mut().get_mut(&pid) {
            known.begin();
        }
    }

    /// Processes of which it is known what they have made.
    pub(crate) fn makers(&self) -> impl Iterator<Item = u32> {
        let objects: Vec<u32> = self.jit_objects.borrow().keys().copied().collect();
        self.jit_dumps.keys().copied().chain(objects)
    }

    /// The list of the code that a process has made.
    pub(crate) fn jit_map(&self, pid: u32) -> Option<JitMap> {
        match &self.options.sysroot {
            Some(root) => JitMap::below(root, pid),
            None if self.options.here => JitMap::of_process(pid, self.since),
            None => JitMap::below(Path::new("/"), pid),
        }
    }

    /// The time spent making tables, if it was measured. Another thread may have spent it.
    pub(crate) fn making(&self) -> Duration {
        self.making.total()
    }

    /// A file's compact table, if it has been made.
    pub fn table(&self, id: FileId) -> Option<&Table> {
        self.get(id)?.table.get()?.as_deref()
    }

    /// A file's compact table, which this makes unless another thread has done so.
    pub fn make_table(&self, id: FileId) -> Option<&Table> {
        if !self.get(id)?.has_table() {
            self.set_table(id, self.material(id)?.make().map(Arc::new));
        }
        self.table(id)
    }

    /// What a file's compact table is made of. `None`: the file cannot be used.
    pub(crate) fn material(&self, id: FileId) -> Option<Material> {
        let file = self.get(id)?;
        let opened = file.opened();
        let (image, rows) = (opened.image.as_ref().ok()?, opened.made.as_ref()?);
        let (image, rows) = (Arc::clone(image), Arc::clone(rows));
        Some(Material { image, rows, sources: self.options.sources, making: self.making.clone() })
    }

    /// Records the compact table that was made for a file. `None`: it has none.
    pub(crate) fn set_table(&self, id: FileId, table: Option<Arc<Table>>) {
        if let Some(file) = self.get(id) {
            // The first one stays.
            let _ = file.table.set(table);
        }
    }
}

/// A path relative to a folder that replaces the root.
fn without_root(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Whether two build-ids are equal. Recordings pad build-ids with zeros, or truncate them to 20 bytes.
fn same_id(recorded: &[u8], found: &[u8]) -> bool {
    let length = recorded.len().min(found.len());
    let rest = |id: &[u8]| id[length..].iter().all(|&byte| byte == 0) || id.len() > 20;
    recorded[..length] == found[..length] && rest(recorded) && rest(found)
}
