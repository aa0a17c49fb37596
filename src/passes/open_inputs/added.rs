//! Opens files that plugins add to the link: the machine code of link-time optimization, and libraries that
//! it may need.
//!
//! They are opened after all other files are known, but take part where the intermediate code stood
//! (`extract_members::again`).

use super::{Opened, Origin, Role, Scripts, Walk};
use crate::cli::{Config, InputSource as Named, InputSpec, InputState};
use crate::diag::Sink;
use crate::input::object::FileName;
use crate::input::sniff::{FileKind, file_kind};
use crate::input::store::{InputSource, InputStore, SystemSource};
use crate::script::Sources;
use linker_plugin::Added;
use std::path::Path;

/// Opens the files and libraries that plugins added, in order, and puts them behind all other files in
/// `opened`.
pub fn open_added<'a>(
    added: &[Added],
    config: &Config,
    source: &dyn InputSource,
    store: &'a InputStore,
    sink: &Sink,
    opened: &mut Opened<'a>,
    sources: &mut Sources,
) {
    let mut walk = Walk {
        config,
        source,
        store,
        sources,
        sink,
        opened: std::mem::take(opened),
        early: Vec::new(),
        group: None,
        lib: None,
        scripts: Scripts::default(),
        position: usize::MAX,
    };
    for added in added {
        match added {
            Added::File(path) => walk.added_file(path),
            // An object for a later link takes nothing from libraries that the user did not name.
            Added::Library(_) if config.is_relocatable() => {}
            Added::Library(name) => walk.added_library(name),
            Added::Directory(path) => walk.opened.directories.push(path.clone()),
        }
    }
    *opened = walk.opened;
}

impl<'a> Walk<'_, 'a> {
    /// Opens a file that a plugin wrote. It is read from the system, whatever the source of other inputs is,
    /// and its path is not among [`Opened::paths`].
    fn added_file(&mut self, path: &Path) {
        let bytes = match SystemSource.read(path) {
            Ok(bytes) => self.store.keep_file(bytes),
            Err(error) => return self.cannot_open("an LTO plugin", path, &error),
        };
        let state = InputState::default();
        if file_kind(bytes) != FileKind::Object {
            return self.file(path, bytes.into(), &state, "an LTO plugin");
        }
        let text = self.store.keep_str(&path.to_string_lossy());
        let origin = Origin { path: self.kept_path(path, text), offset: 0 };
        let index = self.opened.files.len();
        self.object(FileName { path: text, member: None }, bytes.into(), &state, Some(origin));
        if let Some(file) = self.opened.files.get_mut(index) {
            file.role = Role::Code;
        }
    }

    /// Opens a library that the compiled code may need, as if it stood after `--as-needed`.
    fn added_library(&mut self, name: &[u8]) {
        let state =
            InputState { static_only: self.config.static_link, as_needed: true, ..InputState::default() };
        let argument = format!("-l{}", String::from_utf8_lossy(name));
        let input = InputSpec { source: Named::Library(name.to_vec()), state, argument };
        let paths = self.opened.paths.len();
        self.library(name, false, &input);
        self.opened.paths.truncate(paths);
    }
}
