//! The linker that loaded the plugin: its functions, and whether it can serve the plugin at all.

use crate::copies::Claimed;
use linker_plugin::abi::{self, Transfer, level, status, tag};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// How serious a message is.
#[derive(Clone, Copy)]
pub enum Level {
    Information,
    Warning,
    /// The link ends.
    Fatal,
}

/// The options: the texts after `-plugin-opt=`.
const OPTIONS: [&str; 2] = ["verbose", "light"];
/// Linkers that only offer objects of intermediate code to plugins, by the names that they report.
const FOR_LTO_ONLY: [&str; 2] = ["mold", "wild"];

/// The linker's functions and facts, from the transfer vector.
#[derive(Default)]
pub struct Linker {
    message: Option<abi::SendMessage>,
    register_claim_file: Option<abi::RegisterClaimFile>,
    register_all_symbols_read: Option<abi::RegisterHook>,
    register_cleanup: Option<abi::RegisterHook>,
    add_symbols: Option<abi::AddSymbols>,
    get_symbols: Option<abi::GetSymbols>,
    add_input_file: Option<abi::AddInputFile>,
    /// The name that it reports; empty if it reports none.
    name: String,
    is_gold: bool,
    is_gnu: bool,
    options: Vec<String>,
}

/// The functions that the linker calls.
pub struct Hooks {
    pub claim_file: abi::ClaimFile,
    pub all_symbols_read: abi::Hook,
    pub cleanup: abi::Hook,
}

/// A function in the transfer vector.
///
/// # Safety
/// `F` must be the function type that the tag of the entry says.
unsafe fn function<F>(entry: &Transfer) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
    // SAFETY: the entry for a function contains a pointer.
    let address = unsafe { entry.value.function };
    // SAFETY: the caller's promise; the sizes are equal.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
}

impl Linker {
    /// Reads the transfer vector.
    ///
    /// # Safety
    /// It ends with an entry of tag 0, and its values have the types that their tags say.
    pub unsafe fn read(vector: *const Transfer) -> Self {
        let mut this = Self::default();
        let (mut entry, mut symbols_by_kind, mut version) = (vector, false, None::<abi::GetApiVersion>);
        // SAFETY: the caller's promise, for all of this block.
        unsafe {
            while (*entry).tag != tag::NULL {
                let one = &*entry;
                match one.tag {
                    tag::MESSAGE => this.message = function(one),
                    tag::REGISTER_CLAIM_FILE => this.register_claim_file = function(one),
                    tag::REGISTER_ALL_SYMBOLS_READ => this.register_all_symbols_read = function(one),
                    tag::REGISTER_CLEANUP => this.register_cleanup = function(one),
                    tag::ADD_SYMBOLS if !symbols_by_kind => this.add_symbols = function(one),
                    tag::ADD_SYMBOLS_V2 => (this.add_symbols, symbols_by_kind) = (function(one), true),
                    tag::GET_SYMBOLS_V3 => this.get_symbols = function(one),
                    tag::ADD_INPUT_FILE => this.add_input_file = function(one),
                    tag::GET_API_VERSION => version = function(one),
                    tag::GOLD_VERSION => this.is_gold = true,
                    tag::GNU_LD_VERSION => this.is_gnu = true,
                    tag::OPTION => this.options.push(text(one.value.text)),
                    _ => {}
                }
                entry = entry.add(1);
            }
        }
        this.name = version.map(name).unwrap_or_default();
        this
    }

    /// Checks that the linker can serve the plugin.
    ///
    /// # Errors
    /// A text that says what the linker lacks, and what helps.
    pub fn check(&self) -> Result<(), String> {
        let lacks = [
            (self.register_claim_file.is_none(), "claim files"),
            (self.add_symbols.is_none(), "tell symbols of claimed files"),
            (self.register_all_symbols_read.is_none() || self.add_input_file.is_none(), "add objects"),
            (self.register_cleanup.is_none(), "clean up"),
        ];
        let helps = "use the wrapper instead: sframe wrap-ld LINKER …";
        if let Some((_, what)) = lacks.into_iter().find(|(lacks, _)| *lacks) {
            return Err(format!("this linker lets plugins not {what}; {helps}"));
        }
        let name = self.name.to_lowercase();
        if let Some(linker) = FOR_LTO_ONLY.into_iter().find(|linker| name.contains(linker)) {
            return Err(format!(
                "{linker} offers plugins only objects for link-time optimization, so no others can be split; {helps}"
            ));
        }
        let unknown = self.options.iter().filter(|option| !OPTIONS.contains(&option.as_str()));
        for option in unknown {
            let text = format!("-plugin-opt={option} is unknown; the options are {}", OPTIONS.join(", "));
            self.say(Level::Warning, &text);
        }
        Ok(())
    }

    /// Registers the hooks. The claim hook is that of version 1: to plugins with a hook of version 2, GNU ld
    /// since 2.44 only offers objects of intermediate code.
    ///
    /// # Errors
    /// The linker does not accept a hook.
    pub fn register(&self, hooks: Hooks) -> Result<(), String> {
        let Hooks { claim_file, all_symbols_read, cleanup } = hooks;
        let hooks = [(self.register_all_symbols_read, all_symbols_read), (self.register_cleanup, cleanup)];
        // SAFETY: the linker passed these functions for these hooks.
        let registered = unsafe {
            self.register_claim_file.is_some_and(|register| register(Some(claim_file)) == status::OK)
                && hooks.iter().all(|(register, hook)| {
                    register.is_some_and(|register| register(Some(*hook)) == status::OK)
                })
        };
        registered.then_some(()).ok_or_else(|| "the linker does not take its hooks".into())
    }

    /// Whether this is gold, which passes symbol versions separately from names.
    pub fn is_gold(&self) -> bool {
        self.is_gold
    }

    /// Whether this is GNU ld itself, and not a linker that behaves like it.
    pub fn is_gnu_ld(&self) -> bool {
        self.is_gnu && !self.name.contains("sframe")
    }

    /// Whether an option was given.
    pub fn has_option(&self, name: &str) -> bool {
        self.options.iter().any(|option| option == name)
    }

    /// Whether it should say what it does.
    pub fn is_verbose(&self) -> bool {
        self.has_option("verbose")
    }

    /// Sends a message. With a fatal one, this may not return.
    pub fn say(&self, level: Level, message: &str) {
        let text = CString::new(format!("sframe_split: {}", message.replace('\0', "?"))).unwrap_or_default();
        let level = match level {
            Level::Information => level::INFO,
            Level::Warning => level::WARNING,
            Level::Fatal => level::FATAL,
        };
        match self.message {
            // SAFETY: this is the linker's function, and it gets a text for its one argument.
            Some(send) => unsafe {
                send(level, c"%s".as_ptr(), text.as_ptr());
            },
            None => eprintln!("{}", text.to_string_lossy()),
        }
    }

    /// Tells the linker the symbols of a claimed file. Returns whether the linker accepts them.
    pub fn add_symbols(&self, claim: &Claimed) -> bool {
        let (count, symbols) = claim.table.raw();
        // SAFETY: the handle is the linker's, and the table stays until the link ends.
        self.add_symbols.is_some_and(|add| unsafe { add(claim.handle(), count, symbols) } == status::OK)
    }

    /// Whether a claimed file takes part. A member of an archive may not.
    pub fn uses(&self, claim: &mut Claimed) -> bool {
        let handle = claim.handle();
        let (count, symbols) = claim.table.raw_mut();
        // SAFETY: as above; the linker fills in the resolutions.
        let status = self.get_symbols.map(|get| unsafe { get(handle, count, symbols) });
        status != Some(status::NO_SYMBOLS)
    }

    /// Adds an object to the link. Returns whether the linker accepts it.
    pub fn add_input_file(&self, path: &Path) -> bool {
        let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
        // SAFETY: the linker copies the text.
        self.add_input_file.is_some_and(|add| unsafe { add(path.as_ptr()) } == status::OK)
    }
}

/// A text; empty for a null pointer.
///
/// # Safety
/// The text ends with a zero byte.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The name that a linker reports.
fn name(get: abi::GetApiVersion) -> String {
    let (mut name, mut version) = (ptr::null(), ptr::null());
    let own = CString::new(env!("CARGO_PKG_VERSION")).unwrap_or_default();
    // The plugin calls this for the name only, so it accepts any version.
    let (least, greatest): (c_int, c_int) = (0, abi::NEGOTIATED_VERSION);
    // SAFETY: this is the linker's function. It fills in both texts, and keeps them.
    unsafe {
        get(c"sframe_split".as_ptr(), own.as_ptr(), least, greatest, &mut name, &mut version);
        text(name)
    }
}
