//! Numbers what takes part in the link: objects in link order, their local symbols, and their sections.
//!
//! This pass is the first to walk through section tables, in parallel over objects. It ties relocation
//! sections to the sections that they apply to, lists SFrame inputs and special sections, and gives each
//! section its initial state. It marks sections without contents of the program (tables, relocations, groups)
//! as `NOT_CONTENT`, so that later passes need not check types.

use super::extract_members::Extracted;
use super::parse_inputs::{Parsed, ParsedInputs};
use super::unpack_sections;
use super::warn_symbols::{is_warning, is_warning_name};
use crate::arch::{Mode, Target};
use crate::cli::{Config, OutputMode, Report};
use crate::diag::{Code, Diagnostic, Location, Severity, Sink};
use crate::elf::consts as elf;
use crate::ids::{FileId, SharedId};
use crate::input::object::{Malformed, SHT_CREL, SHT_LLVM_ADDRSIG, SHT_LLVM_DEPENDENT_LIBRARIES};
use crate::input::section_class::is_special;
use crate::input::{
    self, InputStore, ObjectFile, SectionClass, SharedFile, call_graph, decompress, implicit,
};
use crate::phase::SectionState;
use crate::phase::{Directives, Inputs, Session};
use crate::rows::filled;
use crate::sframe;
use parallel::{IntoParallel, ParallelSlice};
use zerocopy::byteorder::ByteOrder;

/// One job moves so many objects at least.
const FEW: usize = 128;

/// Numbers the extracted files, their sections and symbols. If several shared libraries have one soname, only
/// the first takes part.
pub fn run<'a, T: Target>(
    directives: Directives<'a>,
    parsed: ParsedInputs<'a, T>,
    extracted: &Extracted,
) -> Inputs<'a, T> {
    let ParsedInputs { mut files, globals } = parsed;
    let Session { config, sink, store, .. } = directives.session;
    let mode = config.mode;
    let mut objects = take_objects(&mut files, &extracted.objects);
    let mut shared: Vec<SharedFile<'a, T::E>> = Vec::new();
    for &file in &extracted.shared {
        if let Parsed::Shared(mut library) = take(&mut files[file as usize])
            && !shared.iter().any(|earlier| earlier.soname == library.soname)
        {
            let wanted = extracted.needed_for.iter().filter(|(of, _)| *of == file);
            library.wanted = wanted.map(|&(_, id)| id).collect();
            shared.push(library);
        }
    }
    for (index, library) in shared.iter_mut().enumerate() {
        library.id = SharedId::from_index(index);
    }
    if sframe::split::is_wanted(config) {
        split_frames(&mut objects, store, sink);
    }
    let (symbol_count, section_count) = assign_rows::<T>(&mut objects, globals.len());
    let mut section_files = filled(FileId(0), section_count);
    let mut section_states = filled(SectionState::NOT_CONTENT, section_count);
    let mut section_classes = filled(SectionClass::empty(), section_count);
    let slots =
        Slots { files: &mut section_files, states: &mut section_states, classes: &mut section_classes };
    let indexed: Vec<_> = slots.split(&mut objects);
    let rows: Vec<Row> = indexed
        .into_par_iter()
        .map(|(object, slots)| index_object::<T>(object, slots, mode, store, sink))
        .collect();
    let executable_stack = rows.iter().filter_map(|row| row.executable_stack).reduce(|a, b| a | b);
    if config.layout.executable_stack.is_none() && mode != OutputMode::Relocatable {
        let asking = objects.iter().zip(&rows).filter(|(_, row)| row.executable_stack == Some(true));
        asking.for_each(|(object, _)| report_executable_stack(object, config, sink));
    }
    report_execstack_option(config, sink);
    Inputs {
        directives,
        objects,
        shared,
        globals,
        section_files,
        section_states,
        section_classes,
        symbol_count,
        executable_stack,
        has_large: rows.iter().any(|row| row.has_large),
        mode: Mode::new(config, T::IMAGE_BASE),
    }
}

/// Takes a file out of its place.
fn take<'a, T: Target>(file: &mut Parsed<'a, T>) -> Parsed<'a, T> {
    std::mem::replace(file, Parsed::Nothing)
}

/// Takes the objects with these numbers, in this order. Their rows are large, so all threads move them.
fn take_objects<'a, T: Target>(files: &mut [Parsed<'a, T>], numbers: &[u32]) -> Vec<ObjectFile<'a, T::E>> {
    let mut left: Vec<_> = files.iter_mut().map(Some).collect();
    let objects = numbers.iter().filter_map(|&number| left[number as usize].take());
    let objects: Vec<_> = objects.filter(|file| matches!(file, Parsed::Object(_))).collect();
    let object = |file| match take(file) {
        Parsed::Object(object) => object,
        _ => unreachable!("only objects are left"),
    };
    objects.into_par_iter().with_min_len(FEW).map(object).collect()
}

/// The facts of each section, in rows that one object's sections have, or those of all objects.
struct Slots<'s> {
    files: &'s mut [FileId],
    /// The initial state of each section.
    states: &'s mut [SectionState],
    classes: &'s mut [SectionClass],
}

impl<'s> Slots<'s> {
    /// The rows of each object.
    fn split<'o, 'a, E: ByteOrder>(
        self,
        objects: &'o mut [ObjectFile<'a, E>],
    ) -> Vec<(&'o mut ObjectFile<'a, E>, Slots<'s>)> {
        let Slots { mut files, mut states, mut classes } = self;
        let own = |object: &'o mut ObjectFile<'a, E>| {
            let count = object.headers.len();
            let slots = Slots {
                files: files.split_off_mut(..count).unwrap_or_default(),
                states: states.split_off_mut(..count).unwrap_or_default(),
                classes: classes.split_off_mut(..count).unwrap_or_default(),
            };
            (object, slots)
        };
        objects.iter_mut().map(own).collect()
    }
}

/// Facts from the section headers of one object.
struct Row {
    /// Whether `.note.GNU-stack` asks for an executable stack; `None` without the section.
    executable_stack: Option<bool>,
    /// Whether a loaded section belongs to the large code model.
    has_large: bool,
}

/// `--sframe-split`: gives objects the sections that they would have if the assembler had split their SFrame.
fn split_frames<'a, E: ByteOrder + Send + Sync>(
    objects: &mut [ObjectFile<'a, E>],
    store: &'a InputStore,
    sink: &Sink,
) {
    objects.par_iter_mut().enumerate().for_each(|(order, object)| {
        check_names(object, order as u32, sink);
        let findings = sframe::split::split(object, store, order as u32);
        findings.into_iter().for_each(|finding| sink.report(finding));
    });
}

/// Refuses an object whose section names overlap. The object goes on without sections, because every pass
/// would read these names.
fn check_names<E: ByteOrder>(object: &mut ObjectFile<'_, E>, order: u32, sink: &Sink) {
    if let Err(Malformed { what, .. }) = object.check_section_names() {
        let place = Location::File(object.name.to_string());
        sink.report(Diagnostic::error(Code::MalformedInput, what).at(place).ordered(order, 0, 0));
        object.headers = &[];
    }
}

/// Reports `-z execstack`, if that is asked for. The message is GNU ld's line.
fn report_execstack_option(config: &Config, sink: &Sink) {
    let diagnostics = &config.diagnostics;
    let severity = match diagnostics.execstack {
        Report::Error => Severity::Error,
        Report::Warning if diagnostics.execstack_option => Severity::Warning,
        Report::Warning | Report::Ignore => return,
    };
    if config.layout.executable_stack == Some(true) && !config.is_relocatable() {
        let message = "enabling an executable stack because of -z execstack command line option";
        sink.report(Diagnostic::new(severity, Code::ExecutableStack, message));
    }
}

/// Reports an executable stack that no option asks for. The message is exactly GNU ld's line, because builds
/// filter it out by its text.
fn report_executable_stack<E: ByteOrder>(object: &ObjectFile<'_, E>, config: &Config, sink: &Sink) {
    let severity = match config.diagnostics.execstack {
        Report::Ignore => return,
        Report::Warning => Severity::Warning,
        Report::Error => Severity::Error,
    };
    sink.report(
        Diagnostic::new(
            severity,
            Code::ExecutableStack,
            "requires executable stack (because the .note.GNU-stack section is executable)",
        )
        .at(Location::File(object.name.to_string()))
        .ordered(object.id.0, 0, 0),
    );
}

/// Gives objects their ids, and the first ids of their local symbols and sections. Returns the number of
/// symbols, globals included, and the number of sections.
fn assign_rows<T: Target>(objects: &mut [ObjectFile<'_, T::E>], global_count: usize) -> (usize, usize) {
    let (mut symbols, mut sections) = (global_count, 0usize);
    for (index, object) in objects.iter_mut().enumerate() {
        object.id = FileId::from_index(index);
        object.first_local = u32::try_from(symbols).expect("fewer than 2^32 symbols");
        object.first_section = u32::try_from(sections).expect("fewer than 2^32 sections");
        symbols += object.local_rows();
        sections += object.headers.len();
    }
    assert!(symbols < u32::MAX as usize && sections < u32::MAX as usize, "fewer than 2^32 rows");
    (symbols, sections)
}

fn index_object<'a, T: Target>(
    object: &mut ObjectFile<'a, T::E>,
    slots: Slots<'_>,
    mode: OutputMode,
    store: &'a InputStore,
    sink: &Sink,
) -> Row {
    check_names(object, object.id.0, sink);
    for (section, malformed) in decompress::declare(object, store) {
        sink.report(unpack_sections::finding(object, section, 0, malformed.what));
    }
    match object.index_relocation_sections() {
        Ok(false) => {}
        Ok(true) => {
            if let Err(malformed) = implicit::read::<T>(object, store) {
                report(sink, object, malformed.offset, malformed.what);
            }
        }
        Err(malformed) => report(sink, object, malformed.offset, malformed.what),
    }
    let (mut executable_stack, mut has_large) = (None, false);
    slots.files.fill(object.id);
    let (mut sframes, mut special) = (Vec::new(), Vec::new());
    for (index, header) in object.headers.iter().enumerate() {
        let kind = header.sh_type.get();
        let flags = header.sh_flags.get();
        let class = SectionClass::of(object, index);
        slots.classes[index] = class;
        has_large |= flags & T::SHF_LARGE != 0 && flags & ALLOC != 0;
        let used_up = kind == SHT_LLVM_DEPENDENT_LIBRARIES && mode != OutputMode::Relocatable;
        let content = index != 0
            && !used_up
            && (is_content(kind, flags) || is_stab_strings(kind, || object.section_name(index)));
        if content {
            if let Err(malformed) = object.section_bytes(index) {
                report(sink, object, malformed.offset, malformed.what);
            }
            let align = header.sh_addralign.get();
            if align > 1 && !align.is_power_of_two() {
                let name = object.section_name_lossy(index);
                let what = format!("section {name} has alignment {align:#x}, expected a power of two");
                report(sink, object, header.sh_offset.get(), what);
            }
            if flags & !elf::SHF_EXECINSTR == 0 && object.section_name(index) == b".note.GNU-stack" {
                executable_stack = Some(flags & elf::SHF_EXECINSTR != 0);
            }
            if class.contains(SectionClass::SFRAME) {
                sframes.push(index as u32);
            }
            if is_special(object, index) {
                special.push(index as u32);
            }
        }
        if call_graph::is_profile(header) {
            object.profile = index as u32;
        }
        // Marks of tagged variables are for linkers.
        let marks = T::MEMORY_TAGS.map(|tagging| tagging.marks);
        // The build-id of an input names that file (an output of `-r`), not this output.
        let foreign_id = kind == elf::SHT_NOTE && object.section_name(index) == b".note.gnu.build-id";
        let excluded = foreign_id
            || mode != OutputMode::Relocatable
                && (flags & elf::SHF_EXCLUDE != 0
                    || flags & ALLOC == 0 && (call_graph::is_profile(header) || marks == Some(kind))
                    || flags & ALLOC == 0
                        && matches!(mode, OutputMode::Executable { .. })
                        && is_warning(header, || is_warning_name(object.section_name(index))));
        slots.states[index] = match (content, excluded) {
            (false, _) => SectionState::NOT_CONTENT,
            (true, true) => SectionState::empty(),
            (true, false) => SectionState::ALIVE,
        };
    }
    object.sframes = sframes;
    object.special = special;
    if input::sframe::load(object, store) {
        object.sframes.iter().for_each(|&index| slots.classes[index as usize] |= SectionClass::ALLOC);
    }
    Row { executable_stack, has_large }
}

const ALLOC: u64 = elf::SHF_ALLOC;

/// Whether a section holds contents of the program, as opposed to the object's own tables.
fn is_content(kind: u32, flags: u64) -> bool {
    match kind {
        elf::SHT_NULL
        | elf::SHT_SYMTAB
        | elf::SHT_SYMTAB_SHNDX
        | elf::SHT_RELA
        | elf::SHT_REL
        | SHT_CREL
        | elf::SHT_GROUP
        | SHT_LLVM_ADDRSIG => false,
        // The object's own string tables are not allocated. Any other section of that type is data.
        elf::SHT_STRTAB => flags & ALLOC != 0,
        _ => true,
    }
}

/// Whether a section holds the strings of stabs debug information. No table of the object refers to them.
fn is_stab_strings<'n>(kind: u32, name: impl Fn() -> &'n [u8]) -> bool {
    kind == elf::SHT_STRTAB && name().starts_with(b".stab")
}

fn report<E: ByteOrder>(sink: &Sink, object: &ObjectFile<'_, E>, offset: u64, what: String) {
    sink.report(
        Diagnostic::error(Code::MalformedInput, what)
            .at(Location::File(object.name.to_string()))
            .note(format!("at offset {offset:#x} of the file"))
            .ordered(object.id.0, 0, offset),
    );
}
