//! The state that callbacks work on.
//!
//! The interface passes no pointer of ours to callbacks. So each process has one state, behind a lock. Nobody
//! holds the lock while a plugin runs, because the plugin calls back, and also from threads of its own.

use crate::abi::{ClaimFile, ClaimFileV2, Hook, NewInput};
use crate::facts::{Added, Level, Message, Resolution, Symbol};
use std::ffi::CString;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard};

/// A loaded plugin's hooks.
#[derive(Clone, Default)]
pub struct Hooks {
    pub path: PathBuf,
    pub claim: Option<ClaimFile>,
    pub claim_v2: Option<ClaimFileV2>,
    pub all_symbols_read: Option<Hook>,
    pub new_input: Option<NewInput>,
    pub cleanup: Option<Hook>,
}

/// A file that a plugin examines or has claimed. Its handle is its number plus one.
pub struct Open {
    pub path: PathBuf,
    pub name: CString,
    pub offset: u64,
    pub size: u64,
    pub symbols: Vec<Symbol>,
    /// A resolution for each symbol. `None`: the file takes no part in the link.
    pub resolutions: Option<Vec<Resolution>>,
    /// The descriptor, if a plugin has requested it.
    pub descriptor: Option<File>,
    /// The contents, if a plugin has requested them.
    pub view: Option<memmap2::Mmap>,
}

/// One session's state.
#[derive(Default)]
pub struct State {
    pub plugins: Vec<Hooks>,
    /// Number of the plugin that was called last.
    pub current: usize,
    pub files: Vec<Open>,
    pub messages: Vec<Message>,
    pub added: Vec<Added>,
    /// Texts that plugins may keep pointers to.
    pub texts: Vec<CString>,
    /// Addresses of the names of `--wrap`. They are numbers, because pointers cannot be sent between threads.
    pub wrapped: Vec<usize>,
    /// Addresses of the linker's name and version.
    pub linker: (usize, usize),
    /// Informs the session that a plugin has reported a fatal error.
    pub on_fatal: Option<Box<dyn Fn() + Send>>,
    /// Whether a plugin has reported a fatal error. Its thread is then parked forever.
    pub spent: bool,
}

impl State {
    /// Keeps a text until the session ends, and returns its address. A zero byte in it ends the text.
    pub fn keep(&mut self, text: &[u8]) -> usize {
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        self.texts.push(CString::new(&text[..end]).unwrap_or_default());
        self.texts.last().map_or(0, |text| text.as_ptr() as usize)
    }

    /// Records a message of the current plugin.
    pub fn say(&mut self, level: Level, text: String) {
        let plugin = self.plugins.get(self.current).map(|hooks| hooks.path.clone()).unwrap_or_default();
        self.messages.push(Message { level, text, plugin });
    }

    /// Takes the cleanup hooks, so that each runs only once.
    pub fn take_cleanups(&mut self) -> Vec<Hook> {
        self.plugins.iter_mut().filter_map(|hooks| hooks.cleanup.take()).collect()
    }
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
static ENDED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits until no other session runs, and begins one. `false`: a plugin has failed before, and its threads
/// still use the state.
pub fn begin() -> bool {
    let mut state = lock();
    loop {
        match &*state {
            None => {
                *state = Some(State::default());
                return true;
            }
            Some(state) if state.spent => return false,
            Some(_) => state = ENDED.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner),
        }
    }
}

/// Ends the session, unless a plugin's thread is parked in it.
pub fn end() {
    let mut state = lock();
    if state.as_ref().is_some_and(|state| !state.spent) {
        *state = None;
        ENDED.notify_one();
    }
}

/// Works on the session's state. Outside a session, it works on an empty state, which is dropped.
pub fn with<R>(work: impl FnOnce(&mut State) -> R) -> R {
    match &mut *lock() {
        Some(state) => work(state),
        None => work(&mut State::default()),
    }
}
