//! A session: plugins are loaded, examine files, compile, and clean up.

use crate::abi::{Onload, RawFile, status};
use crate::callbacks::transfer_vector;
use crate::facts::{Added, Claim, Failure, InputFile, LinkFacts, Message, Resolution, Spec};
use crate::state::{self, Hooks, Open};
use std::ffi::{CStr, CString, c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

/// Stack size in bytes of a plugin's thread. LLVM optimises in this thread, and recurses deeply. The system
/// provides pages only when they are touched.
const STACK: usize = 256 << 20;

/// The plugins of a link. A process has one session at a time, and another one waits for it. When the session
/// is dropped, the plugins remove their temporary files.
#[derive(Debug)]
pub struct Session {
    /// Whether temporary files stay (`-plugin-save-temps`).
    pub keep_temporaries: bool,
}

impl Session {
    /// Loads the plugins.
    ///
    /// # Errors
    /// A library cannot be loaded, has no `onload`, or its `onload` fails. [`Failure::Spent`]: a plugin has
    /// failed in this process before.
    pub fn start(plugins: &[Spec], link: &LinkFacts) -> Result<Self, Failure> {
        if !state::begin() {
            return Err(Failure::Spent);
        }
        let session = Session { keep_temporaries: false };
        state::with(|state| {
            state.wrapped = link.wrapped.iter().map(|name| state.keep(name)).collect();
            state.linker = (state.keep(link.linker.as_bytes()), state.keep(link.linker_version.as_bytes()));
        });
        let (plugins, link) = (plugins.to_vec(), link.clone());
        let mut loaded = Vec::new();
        run(move || plugins.iter().try_for_each(|plugin| load(plugin, &link, &mut loaded)))??;
        Ok(session)
    }

    /// Offers each file to one plugin after the other until one claims it. Returns a claim for each file, or
    /// `None` if no plugin claims it.
    ///
    /// # Errors
    /// A file cannot be opened, or a plugin fails.
    pub fn claim(&mut self, files: Vec<InputFile>) -> Result<Vec<Option<Claim>>, Failure> {
        run(move || {
            let mut last: Option<(PathBuf, File)> = None;
            files.into_iter().map(|file| offer(file, &mut last)).collect()
        })
        .flatten()
    }

    /// Passes the resolutions of all claimed files to the plugins, by the files' numbers (`None`: the file
    /// takes no part), and makes the plugins compile. Returns everything that they add to the link, in order.
    ///
    /// # Errors
    /// A plugin fails.
    pub fn compile(&mut self, resolutions: Vec<Option<Vec<Resolution>>>) -> Result<Vec<Added>, Failure> {
        state::with(|state| {
            for (file, resolutions) in state.files.iter_mut().zip(resolutions) {
                file.resolutions = resolutions;
            }
        });
        run(|| {
            for (number, hooks) in plugins() {
                if let Some(hook) = hooks.all_symbols_read {
                    state::with(|state| state.current = number);
                    // SAFETY: the plugin registered it to be called without arguments, once all
                    // symbols are resolved.
                    succeeded(&hooks, "all_symbols_read", unsafe { hook() })?;
                }
            }
            let added = state::with(|state| std::mem::take(&mut state.added));
            added.iter().try_for_each(announce)?;
            Ok(added)
        })
        .flatten()
    }

    /// The messages since the last call.
    pub fn messages(&mut self) -> Vec<Message> {
        state::with(|state| std::mem::take(&mut state.messages))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let keep = self.keep_temporaries;
        let _ = run(move || {
            for cleanup in state::with(super::state::State::take_cleanups) {
                if !keep {
                    // SAFETY: the plugin registered it to be called once, at the end.
                    unsafe { cleanup() };
                }
            }
        });
        state::end();
    }
}

/// Runs work in its own thread. A plugin that reports a fatal error must not return from that call. So its
/// thread is parked, and the linker continues without it.
fn run<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, Failure> {
    if state::with(|state| state.spent) {
        return Err(Failure::Fatal);
    }
    let (sender, receiver) = mpsc::channel();
    let fatal = sender.clone();
    state::with(|state| {
        state.on_fatal = Some(Box::new(move || {
            let _ = fatal.send(None);
        }));
    });
    // A panic ends the process. In tests it only ends the thread, and nobody would tell the receiver.
    let body = move || {
        let _ = sender.send(catch_unwind(AssertUnwindSafe(work)).ok());
    };
    let thread = std::thread::Builder::new().name("linker plugin".into()).stack_size(STACK).spawn(body);
    let thread = thread.map_err(|error| Failure::Thread { reason: error.to_string() })?;
    let result = receiver.recv().ok().flatten().ok_or(Failure::Fatal)?;
    let _ = thread.join();
    Ok(result)
}

fn plugins() -> Vec<(usize, Hooks)> {
    state::with(|state| state.plugins.iter().cloned().enumerate().collect())
}

fn succeeded(hooks: &Hooks, hook: &'static str, status: c_int) -> Result<(), Failure> {
    match status {
        status::OK => Ok(()),
        status => Err(Failure::Hook { plugin: hooks.path.clone(), hook, status }),
    }
}

fn load(plugin: &Spec, link: &LinkFacts, loaded: &mut Vec<usize>) -> Result<(), Failure> {
    let onload = open(&plugin.path, loaded)?;
    let hooks = Hooks { path: plugin.path.clone(), ..Hooks::default() };
    let vector = state::with(|state| {
        state.plugins.push(hooks.clone());
        state.current = state.plugins.len() - 1;
        transfer_vector(state, link, &plugin.options)
    });
    // SAFETY: a plugin's `onload` takes the vector, which ends with an entry of tag 0; the texts in
    // it stay until the session ends.
    succeeded(&hooks, "onload", unsafe { onload(vector.as_ptr()) })
}

/// The function `onload` of a library that is not among those `loaded` for this session. The library stays
/// loaded until the process ends, because its threads may outlive a session.
fn open(path: &Path, loaded: &mut Vec<usize>) -> Result<Onload, Failure> {
    let cannot = |reason: String| Failure::CannotLoad { plugin: path.to_owned(), reason };
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| cannot(error.to_string()))?;
    // SAFETY: the library's initialisers run; whoever names it on the command line trusts it.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        return Err(cannot(load_error()));
    }
    if loaded.contains(&library.addr()) {
        return Err(Failure::Duplicated { plugin: path.to_owned() });
    }
    loaded.push(library.addr());
    let symbol = |name: &CStr| {
        // SAFETY: the handle is of the library just loaded.
        unsafe { libc::dlsym(library, name.as_ptr()) }
    };
    let found = [c"onload", c"_onload"].into_iter().map(symbol).find(|found| !found.is_null());
    let Some(found) = found else { return Err(cannot("it defines no function onload".into())) };
    // SAFETY: a function of this name in a linker plugin is of this type.
    Ok(unsafe { std::mem::transmute::<*mut c_void, Onload>(found) })
}

fn load_error() -> String {
    // SAFETY: it gives the text of this thread's last error, or null.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "unknown error".into();
    }
    // SAFETY: the text ends with a zero byte and stays until the next call of this thread.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Offers a file to each plugin until one claims it. `last` is the file that was opened last: members of an
/// archive share its descriptor.
fn offer(file: InputFile, last: &mut Option<(PathBuf, File)>) -> Result<Option<Claim>, Failure> {
    if last.as_ref().is_none_or(|(path, _)| *path != file.path) {
        let opened = File::open(&file.path)
            .map_err(|error| Failure::CannotOpen { path: file.path.clone(), reason: error.to_string() })?;
        *last = Some((file.path.clone(), opened));
    }
    let descriptor = last.as_ref().map_or(-1, |(_, opened)| opened.as_raw_fd());
    let name = CString::new(file.path.as_os_str().as_bytes()).unwrap_or_default();
    let number = state::with(|state| {
        state.files.push(Open {
            path: file.path.clone(),
            name: name.clone(),
            offset: file.offset,
            size: file.size,
            symbols: Vec::new(),
            resolutions: None,
            descriptor: None,
            view: None,
        });
        state.files.len() - 1
    });
    let raw = RawFile {
        name: name.as_ptr(),
        fd: descriptor,
        offset: file.offset as libc::off_t,
        size: file.size as libc::off_t,
        handle: (number + 1) as *mut c_void,
    };
    for (plugin, hooks) in plugins() {
        state::with(|state| state.current = plugin);
        let mut claimed: c_int = 0;
        let status = match (hooks.claim_v2, hooks.claim) {
            // SAFETY: the plugin registered it for this call; both pointers outlast it.
            (Some(hook), _) => unsafe { hook(&raw, &mut claimed, file.known_used.into()) },
            // SAFETY: as above.
            (None, Some(hook)) => unsafe { hook(&raw, &mut claimed) },
            (None, None) => continue,
        };
        succeeded(&hooks, "claim_file", status)?;
        if claimed != 0 {
            let symbols = state::with(|state| {
                state.files.last_mut().map(|file| file.symbols.clone()).unwrap_or_default()
            });
            return Ok(Some(Claim { number, plugin, symbols }));
        }
    }
    state::with(|state| state.files.pop());
    Ok(None)
}

/// Informs plugins of a file that one of them has added, if they want to know.
fn announce(added: &Added) -> Result<(), Failure> {
    let Added::File(path) = added else { return Ok(()) };
    for (plugin, hooks) in plugins() {
        let Some(hook) = hooks.new_input else { continue };
        state::with(|state| state.current = plugin);
        let unreadable =
            |error: std::io::Error| Failure::CannotOpen { path: path.clone(), reason: error.to_string() };
        let opened = File::open(path).map_err(unreadable)?;
        let size = opened.metadata().map_err(unreadable)?.len();
        let name = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        let raw = RawFile {
            name: name.as_ptr(),
            fd: opened.as_raw_fd(),
            offset: 0,
            size: size as libc::off_t,
            handle: std::ptr::null_mut(),
        };
        // SAFETY: the plugin registered it for this call; the pointer outlasts it.
        succeeded(&hooks, "new_input", unsafe { hook(&raw) })?;
    }
    Ok(())
}
