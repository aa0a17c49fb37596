//! `libsframe_split.so`: a plugin for GNU ld and gold that splits the `.sframe` of objects, so that the
//! frames of each text section live and die with it in these linkers, too.
//!
//! ```text
//! ld -plugin libsframe_split.so -plugin-opt=verbose ...
//! ```
//!
//! GNU's plugin interface cannot replace a file. But a plugin may claim a file, tell the linker its symbols,
//! and add other files when all symbols are resolved, as compilers do for link-time optimization. This plugin
//! claims objects whose `.sframe` covers several text sections ([`object`]), adds split copies ([`copies`]),
//! and deletes these when the link is over:
//!
//! ```text
//! linker:  offers a.o          resolves symbols, chooses groups and members          links a-copy.o
//! plugin:         claims a.o: main, f                                adds a-copy.o
//! ```
//!
//! The linker makes its choices by the symbols of the originals; then the copies replace them.
//!
//! | option (`-plugin-opt=`) | effect |
//! |---|---|
//! | `verbose` | says for each object how it was split |
//! | `light` | frames become units (`.sframe_light`) |
//!
//! Start-up files are left alone, because their place among the inputs matters. So are objects for link-time
//! optimization. The linker puts all copies after the first claimed file, so the order relative to other
//! inputs changes.

mod copies;
mod linker;
mod object;
mod references;
mod table;

use copies::{Claimed, Copies};
use linker::{Hooks, Level, Linker};
use linker_plugin::abi::{RawFile, Transfer, status};
use references::References;
use std::ffi::{CStr, OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use tempfile::TempDir;

/// The state of one link.
struct Plugin {
    linker: Arc<Linker>,
    claimed: Vec<Claimed>,
    references: References,
}

static PLUGIN: Mutex<Option<Plugin>> = Mutex::new(None);
/// The folder of the copies. A linker that gives up calls `cleanup` in the middle of another call, while
/// [`PLUGIN`] is locked. So the folder has its own lock, which is not held while the linker is called.
static FOLDER: Mutex<Option<TempDir>> = Mutex::new(None);

/// A fatal message, which ends the link.
struct Stop(String);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Does the work of a hook. A fatal message comes last, while no lock is held: the linker may not return from
/// that call.
fn ended(work: impl FnOnce() -> Result<(), (Arc<Linker>, Stop)>) -> c_int {
    match work() {
        Ok(()) => status::OK,
        Err((linker, Stop(message))) => {
            linker.say(Level::Fatal, &message);
            status::ERROR
        }
    }
}

/// Works on the state of the link. Outside a link, it does nothing.
fn with(work: impl FnOnce(&mut Plugin) -> Result<(), Stop>) -> c_int {
    ended(|| match &mut *lock(&PLUGIN) {
        Some(plugin) => work(plugin).map_err(|stop| (plugin.linker.clone(), stop)),
        None => Ok(()),
    })
}

/// The linker loads the plugin.
///
/// # Safety
/// `vector` must come from the plugin interface: it ends with an entry of tag 0, and its functions and texts
/// have the types that their tags say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onload(vector: *const Transfer) -> c_int {
    ended(|| {
        // SAFETY: the caller's promise.
        let linker = Arc::new(unsafe { Linker::read(vector) });
        let stop = |message| (linker.clone(), Stop(message));
        linker.check().map_err(stop)?;
        let made = tempfile::Builder::new().prefix("sframe-split-").tempdir();
        let folder = made.map_err(|error| stop(format!("cannot make a temporary folder: {error}")))?;
        let references = References::new(&linker, folder.path());
        *lock(&FOLDER) = Some(folder);
        *lock(&PLUGIN) = Some(Plugin { linker: linker.clone(), claimed: Vec::new(), references });
        linker.register(Hooks { claim_file, all_symbols_read, cleanup }).map_err(stop)
    })
}

/// The linker offers a file.
unsafe extern "C" fn claim_file(file: *const RawFile, claimed: *mut c_int) -> c_int {
    with(|plugin| {
        // SAFETY: the linker passes both for this call.
        let (file, claimed) = unsafe { (&*file, &mut *claimed) };
        *claimed = c_int::from(plugin.claim(file)?);
        Ok(())
    })
}

/// The linker knows all symbols.
unsafe extern "C" fn all_symbols_read() -> c_int {
    with(Plugin::replace)
}

/// The link is over, or has failed.
unsafe extern "C" fn cleanup() -> c_int {
    let folder = lock(&FOLDER).take();
    if let Ok(mut plugin) = PLUGIN.try_lock() {
        *plugin = None;
    }
    // Errors are ignored, because it is in the folder for temporary files.
    drop(folder);
    status::OK
}

impl Plugin {
    /// Claims a file if its `.sframe` covers several text sections.
    fn claim(&mut self, file: &RawFile) -> Result<bool, Stop> {
        // SAFETY: the interface promises a text that ends with a zero byte.
        let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(file.name) }.to_bytes()));
        if file.offset == 0 && object::is_start_up(path) {
            return Ok(false);
        }
        let Some(bytes) = copies::map(file.fd, file.offset as u64, file.size as u64) else {
            return Ok(false);
        };
        let Some(found) = object::Splittable::read(&bytes) else { return Ok(false) };
        self.references.add(&self.linker, &found).map_err(Stop)?;
        let claim = Claimed::new(path, file, &found.symbols, self.linker.is_gold());
        if !self.linker.add_symbols(&claim) {
            return Err(Stop(format!("{}: the linker does not take its symbols", claim.shown())));
        }
        self.claimed.push(claim);
        Ok(true)
    }

    /// Adds split copies of all claimed files that take part.
    fn replace(&mut self) -> Result<(), Stop> {
        let Some(folder) = lock(&FOLDER).as_ref().map(|folder| folder.path().to_owned()) else {
            return Ok(());
        };
        let linker = &self.linker;
        let count = self.claimed.len();
        let used: Vec<&Claimed> =
            self.claimed.iter_mut().filter_map(|it| linker.uses(it).then_some(&*it)).collect();
        if linker.is_gold() {
            references::check(&used).map_err(Stop)?;
        }
        let copies = Copies { folder: &folder, light: linker.has_option("light") };
        for made in copies.make(&used) {
            let made = made.map_err(Stop)?;
            if let Some(warning) = &made.warning {
                linker.say(Level::Warning, warning);
            }
            if linker.is_verbose() {
                linker.say(Level::Information, &made.told);
            }
            if !linker.add_input_file(&made.path) {
                return Err(Stop(format!("the linker does not take {}", made.path.display())));
            }
        }
        if linker.is_verbose() {
            let text = format!("{count} objects claimed, of which {} take part", used.len());
            linker.say(Level::Information, &text);
        }
        Ok(())
    }
}
