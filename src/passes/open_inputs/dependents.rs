//! Opens the libraries that objects name in `.deplibs` (`SHT_LLVM_DEPENDENT_LIBRARIES`, from `#pragma
//! comment(lib, "NAME")`).
//!
//! Only objects that take part count, and these are known once the search for definitions is over. So the
//! libraries stand behind all other inputs, as in lld, and the search is repeated. Links without such
//! sections pay nothing. Libraries that libraries bring ([`copied_needs`]) come in the same way.

use super::{Opened, Scripts, Walk, copied_needs};
use crate::arch::Target;
use crate::cli::{Config, InputSource as Named, InputSpec, InputState};
use crate::diag::{Code, Diagnostic, Location, Sink};
use crate::input::store::{InputSource, InputStore};
use crate::input::{ObjectFile, object::FileName};
use crate::passes::extract_members::Extracted;
use crate::passes::parse_inputs::Parsed;
use crate::script::Sources;
use std::collections::HashSet;
use std::path::Path;
use zerocopy::byteorder::ByteOrder;

/// Opens the libraries that objects name, and those that libraries bring. Each name is opened once.
pub struct Dependents<'c, 'a> {
    config: &'c Config,
    source: &'c dyn InputSource,
    store: &'a InputStore,
    sink: &'c Sink,
    /// Names of `.deplibs` that were looked for.
    known: HashSet<&'a [u8]>,
    /// Names of `DT_NEEDED` that were looked for.
    sought: HashSet<&'a [u8]>,
}

impl<'c, 'a> Dependents<'c, 'a> {
    /// The state before any library is open.
    pub fn new(
        config: &'c Config,
        source: &'c dyn InputSource,
        store: &'a InputStore,
        sink: &'c Sink,
    ) -> Self {
        Dependents { config, source, store, sink, known: HashSet::new(), sought: HashSet::new() }
    }

    /// Opens libraries that the extracted objects name and that no object named before, and libraries that
    /// libraries bring ([`copied_needs`]). Adds them to `opened`, and the texts of scripts among them to
    /// `sources`. Returns whether it added any: then the caller must join all scripts and repeat the search.
    pub fn open<T: Target>(
        &mut self,
        files: &[Parsed<'a, T>],
        extracted: &Extracted,
        opened: &mut Opened<'a>,
        sources: &mut Sources,
    ) -> bool {
        if self.config.is_relocatable() {
            return false;
        }
        let names = self.names(files, extracted);
        let copies = |row: u32| opened.files[row as usize].copies_needs;
        let needs = copied_needs::needs(files, extracted, copies, &mut self.sought);
        if names.is_empty() && needs.is_empty() {
            return false;
        }
        let before = (opened.files.len(), opened.scripts.len());
        let mut walk = Walk {
            config: self.config,
            source: self.source,
            store: self.store,
            sources,
            sink: self.sink,
            opened: std::mem::take(opened),
            early: Vec::new(),
            group: None,
            lib: None,
            scripts: Scripts::default(),
            position: usize::MAX,
        };
        for (object, name) in names {
            walk.dependent(object, name);
        }
        needs.iter().for_each(|need| walk.needed(need));
        *opened = walk.opened;
        (opened.files.len(), opened.scripts.len()) != before
    }

    /// The names in objects that take part, each with the first object that has it.
    fn names<T: Target>(
        &mut self,
        files: &[Parsed<'a, T>],
        extracted: &Extracted,
    ) -> Vec<(FileName<'a>, &'a [u8])> {
        let mut names = Vec::new();
        if self.config.search.no_dependent_libraries {
            return names;
        }
        for &file in &extracted.objects {
            let Some(Parsed::Object(object)) = files.get(file as usize) else { continue };
            let wanted = named_by(object).into_iter().filter(|&name| self.known.insert(name));
            names.extend(wanted.map(|name| (object.name, name)));
        }
        names
    }
}

/// The names in an object's sections.
fn named_by<'a, E: ByteOrder>(object: &ObjectFile<'a, E>) -> Vec<&'a [u8]> {
    let sections = object.dependent_libraries.iter();
    let contents = sections.filter_map(|&section| object.section_bytes(section as usize).ok());
    contents.flat_map(|bytes| bytes.split(|&byte| byte == 0)).filter(|name| !name.is_empty()).collect()
}

impl<'a> Walk<'_, 'a> {
    /// Opens a library of `.deplibs`. Its name means `-lNAME`, a file of that name in a search directory, or
    /// a path. They are tried in this order, as in lld.
    fn dependent(&mut self, object: FileName<'a>, name: &[u8]) {
        use std::os::unix::ffi::OsStrExt;
        let text = String::from_utf8_lossy(name);
        let state = InputState { static_only: self.config.static_link, ..InputState::default() };
        let input = InputSpec { source: Named::Library(name.to_vec()), state, argument: format!("-l{text}") };
        let mut candidates = vec![[b"lib", name, b".so"].concat(), [b"lib", name, b".a"].concat()];
        if state.static_only {
            candidates.remove(0);
        }
        if self.search(&candidates, &input) || self.search(&[name.to_vec()], &input) {
            return;
        }
        let path = Path::new(std::ffi::OsStr::from_bytes(name));
        if let Ok(bytes) = self.source.read(path) {
            let bytes = self.store.keep_file(bytes);
            return self.file(path, bytes.into(), &state, &text);
        }
        self.report(
            Diagnostic::error(
                Code::LibraryNotFound,
                format!("unable to find library from dependent library specifier: {text}"),
            )
            .about(name)
            .at(Location::File(object.to_string()))
            .help("add its folder with -L, or say --no-dependent-libraries"),
        );
    }
}
