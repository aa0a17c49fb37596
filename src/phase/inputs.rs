//! The files of the link: objects in link order, shared libraries, their sections, and the names of their
//! globals.
//!
//! `index_objects` makes it after archive extraction, and numbers files and sections. No file joins the link
//! later.

use super::{Directives, SectionState, builds_on};
use crate::arch::{Mode, Target};
use crate::cli::OutputMode;
use crate::diag::{Code, Location};
use crate::ids::{FileId, SectionId, SymbolId};
use crate::input::SectionClass;
use crate::input::source_lines::{PlaceRole, SourceLines};
use crate::input::{ObjectFile, SharedFile};
use crate::symbols::Globals;

/// Messages about relocations that get a function and a source line. Further ones are not read.
const MAX_DESCRIBED: usize = 32;

/// All input files, with a number for each object, section and symbol.
pub struct Inputs<'a, T: Target> {
    /// The phase before: directives about symbols.
    pub directives: Directives<'a>,
    /// Objects that take part, in link order.
    pub objects: Vec<ObjectFile<'a, T::E>>,
    /// Shared libraries, in order of first appearance.
    pub shared: Vec<SharedFile<'a, T::E>>,
    /// Names of globals, and their numbers.
    pub globals: Globals<'a>,
    /// The object of each input section, by [`SectionId`]. Ids of synthetic sections follow those of input
    /// sections.
    pub section_files: Vec<FileId>,
    /// The initial state of each input section, by [`SectionId`].
    pub section_states: Vec<SectionState>,
    /// The class of each input section, by [`SectionId`].
    pub section_classes: Vec<SectionClass>,
    /// The number of symbols, including locals.
    pub symbol_count: usize,
    /// Whether some object asks for an executable stack (`.note.GNU-stack`); `None` if no object has the
    /// section.
    pub executable_stack: Option<bool>,
    /// Whether sections of the large code model take part.
    pub has_large: bool,
    /// The kind of output, in the form that decisions on relocations need.
    pub mode: Mode,
}

builds_on!(['a, T: Target] Inputs<'a, T>, directives: Directives<'a>);

impl<'a, T: Target> Inputs<'a, T> {
    /// The object and header index of a section; `None` for the linker's own.
    #[inline]
    pub fn locate(&self, id: SectionId) -> Option<(&ObjectFile<'a, T::E>, u32)> {
        let object = &self.objects[self.section_files.get(id.index())?.index()];
        Some((object, id.0 - object.first_section))
    }

    /// Size of an input section, in bytes; 0 for the linker's own.
    #[inline]
    pub fn input_size(&self, id: SectionId) -> u64 {
        self.locate(id).map_or(0, |(object, index)| object.headers[index as usize].sh_size.get())
    }

    /// The class of an input section; empty for the linker's own.
    #[inline]
    pub fn class_of(&self, id: SectionId) -> SectionClass {
        self.section_classes.get(id.index()).copied().unwrap_or_default()
    }

    /// The number of the first synthetic section.
    #[inline]
    pub fn first_internal(&self) -> u32 {
        self.section_files.len() as u32
    }

    /// The object of an input section; `None` for the linker's own.
    #[inline]
    pub fn section_file(&self, id: SectionId) -> Option<FileId> {
        self.section_files.get(id.index()).copied()
    }

    /// The sort key of a section's file for diagnostics: messages about the linker's own sections come last.
    pub fn rank_of_file(&self, id: SectionId) -> u32 {
        self.section_file(id).map_or(u32::MAX, |file| file.0)
    }

    /// The number of a synthetic section, by its row.
    #[inline]
    pub fn synthetic_id(&self, row: u32) -> SectionId {
        SectionId(self.first_internal() + row)
    }

    /// The row of a synthetic section; `None` for input sections.
    #[inline]
    pub fn synthetic_row(&self, id: SectionId) -> Option<u32> {
        id.0.checked_sub(self.first_internal())
    }

    /// Whether an executable for no dynamic linker is to export symbols. It then has the tables of a dynamic
    /// one, which whoever loads it may read. So it is in GNU ld.
    fn exports_without_loader(&self) -> bool {
        let symbols = &self.config.symbols;
        self.config.dynamic.no_dynamic_linker
            && (symbols.export_dynamic
                || symbols.dynamic_list_data
                || !self.config.scripts.dynamic_lists.is_empty())
    }

    /// Whether the output has a `.dynamic` section.
    pub fn is_dynamic(&self) -> bool {
        match self.config.mode {
            OutputMode::Relocatable => false,
            OutputMode::Shared | OutputMode::Executable { pie: true } => true,
            OutputMode::Executable { pie: false } => !self.shared.is_empty() || self.exports_without_loader(),
        }
    }

    /// `file:(section+offset)` for messages about an input section.
    pub fn describe_place(&self, id: SectionId, offset: u64) -> String {
        self.describe_place_in(id, || b"", offset)
    }

    /// The same for any section. `own_name` returns the name of a synthetic section.
    pub fn describe_place_in(
        &self,
        id: SectionId,
        own_name: impl FnOnce() -> &'a [u8],
        offset: u64,
    ) -> String {
        match self.locate(id) {
            Some((object, index)) => {
                object.described(&format!("{}+{offset:#x}", object.section_name_lossy(index as usize)))
            }
            None => format!("<internal>:({}+{offset:#x})", String::from_utf8_lossy(own_name())),
        }
    }

    /// `file:(section)` for lists of input sections.
    pub fn describe_section(&self, id: SectionId) -> String {
        match self.locate(id) {
            Some((object, index)) => object.described(&object.section_name_lossy(index as usize)),
            None => "<internal>".to_owned(),
        }
    }

    /// The note lines of a message about a place. They have the source line and the function, if debug
    /// information tells them. `deed` chooses the verb ("referenced", "defined").
    pub fn describe_source(
        &self,
        lines: &mut SourceLines,
        deed: PlaceRole,
        id: SectionId,
        offset: u64,
    ) -> Vec<String> {
        match self.locate(id) {
            Some((object, index)) => {
                lines.notes(deed, object, index, offset, self.config.diagnostics.demangle)
            }
            None => vec![format!("{} {}", deed.words(), self.describe_place(id, offset))],
        }
    }

    /// Adds the function and the source line to messages about relocations, which point to places in objects.
    /// The passes that make them work side by side, and no two may read debug information at a time.
    pub fn describe_relocation_errors(&self) {
        let of_relocations = [
            Code::RelocationNotAllowed,
            Code::RelocationOverflow,
            Code::SymbolMismatch,
            Code::TextRelocation,
            Code::UnknownRelocation,
        ];
        let mut lines = SourceLines::default();
        self.sink.add_notes(MAX_DESCRIBED, &mut |diagnostic| {
            let Location::Section { offset, .. } = &diagnostic.location else { return None };
            let object = self.objects.get(diagnostic.order.file as usize)?;
            let demangle = self.config.diagnostics.demangle;
            let is_one = of_relocations.contains(&diagnostic.code);
            is_one.then(|| lines.around(object, diagnostic.order.section, *offset, demangle)).flatten()
        });
    }

    /// Whether a section is SFrame input (SFrame rule 1).
    pub fn is_sframe_section(&self, id: SectionId) -> bool {
        self.class_of(id).contains(SectionClass::SFRAME)
    }

    /// The object and symbol index of a local symbol.
    pub fn local_entry(&self, id: SymbolId) -> Option<(FileId, u32)> {
        let file = self.objects.partition_point(|object| object.first_local <= id.0).checked_sub(1)?;
        Some((FileId::from_index(file), id.0 - self.objects[file].first_local))
    }
}

#[cfg(test)]
impl<'a, T: Target> Inputs<'a, T> {
    /// For tests of passes: inputs with numbered objects, the names of their globals, and the initial state
    /// of each section.
    pub fn of(
        session: super::Session<'a>,
        objects: Vec<ObjectFile<'a, T::E>>,
        names: Vec<&'a [u8]>,
        section_states: Vec<SectionState>,
    ) -> Self {
        let directives = Directives {
            session,
            entry: Vec::new(),
            script_references: Vec::new(),
            script_paths: Vec::new(),
            lists: super::Lists::default(),
            orders: Default::default(),
        };
        let section_files =
            objects.iter().flat_map(|object| std::iter::repeat_n(object.id, object.headers.len())).collect();
        let class_of = |object: &ObjectFile<'a, T::E>| {
            (0..object.headers.len()).map(|index| SectionClass::of(object, index)).collect::<Vec<_>>()
        };
        let section_classes = objects.iter().flat_map(class_of).collect();
        Inputs {
            directives,
            symbol_count: names.len(),
            objects,
            shared: Vec::new(),
            globals: Globals::new(
                crate::symbols::Interner::default(),
                crate::symbols::Names { all: names, first_mentions: Vec::new() },
            ),
            section_files,
            section_states,
            section_classes,
            executable_stack: None,
            has_large: false,
            mode: Mode::new(session.config, T::IMAGE_BASE),
        }
    }
}
