//! Link-time optimization: lets plugins of compilers turn intermediate code into machine code.
//!
//! Compilers name their plugin on every command line, so the linker loads it only if an input has
//! intermediate code, which parsing notices. Other plugins may want machine code, too: the linker always
//! loads these, and asks them about every object ([`is_compilers`]).
//!
//! A plugin tells the symbols of the files that it claims. An object with these symbols stands in for each
//! such file ([`crate::input::placeholder`]), so the search for definitions and the passes that resolve
//! symbols treat it like any other. When all symbols are resolved, the plugin learns how ([`resolutions`]),
//! compiles, and names its objects. Then the linker parses the files again and repeats the search with the
//! new objects in place of the old ones. The link goes on as if they had been on the command line.

mod hidden;
mod library_calls;
mod reserve;
mod resolutions;
mod unclaimed;

use crate::arch::Target;
use crate::cli::{Config, GNU_VERSION_NUMBER, OutputMode, VERSION};
use crate::diag::{Aborted, Code, Diagnostic, Location, Severity, Sink};
use crate::ids::{FileId, SymbolId};
use crate::input::object::Intermediate;
use crate::input::{InputSource, placeholder};
use crate::passes::define_linker_symbols::OutsideNames;
use crate::passes::extract_members::again::Before;
use crate::passes::extract_members::{self, Extracted, again};
use crate::passes::open_inputs::{Candidate, Opened, Role, open_added};
use crate::passes::parse_inputs::{Parsed, ParsedInputs};
use crate::passes::select_comdats::Compiled;
use crate::phase::{Resolved, SectionStates, Session};
use crate::script::Sources;
use hashbrown::HashSet;
use linker_plugin::{Claim, Failure, InputFile, Level, LinkFacts, OutputKind};
use std::path::Path;

/// The plugins of a link and the files that they claimed.
#[derive(Default)]
pub struct Plugins<'a> {
    /// The loaded plugins, until they have compiled.
    host: Option<linker_plugin::Session>,
    /// The claimed files, by number of the claim.
    claims: Vec<Claimed<'a>>,
    /// The outcome of the first search, once its intermediate code is compiled.
    before: Option<Before<'a>>,
    /// The signatures of COMDAT groups whose prevailing copy was in a claimed file.
    prevailing_groups: HashSet<&'a [u8]>,
    /// What members mention that compiled code may bring in.
    reserve: HashSet<SymbolId>,
    /// A plugin that is no compiler's has been asked about files. It hears of the symbols even if it claims
    /// none: it may add files to the link then.
    waits: bool,
    /// The number of messages that plugins have sent, which keeps them in order.
    messages: u64,
}

/// A claimed file.
#[derive(Clone, Copy)]
struct Claimed<'a> {
    /// Its row among the candidates.
    file: u32,
    /// Its own contents, which a stand-in replaces in the candidate.
    bytes: &'a [u8],
    /// Whether it also holds machine code (`-ffat-lto-objects`).
    has_code: bool,
    /// The index of the plugin that claimed it.
    plugin: usize,
}

impl<'a> Plugins<'a> {
    /// Offers files with intermediate code to the plugins, or all objects. Returns whether stand-ins replaced
    /// any files: then the candidates must be parsed again. Reports files that hold only intermediate code
    /// and that no plugin claims.
    pub fn claim<T: Target>(
        &mut self,
        session: Session<'a>,
        parsed: &[Parsed<'a, T>],
        opened: &mut Opened<'a>,
        source: &dyn InputSource,
    ) -> bool {
        if self.before.is_some() {
            return false;
        }
        let found: Vec<(u32, Intermediate)> = (0..)
            .zip(parsed)
            .filter_map(|(row, parsed)| Some((row, intermediate(parsed, opened.files.get(row as usize)?)?)))
            .collect();
        let wants_all = session.config.lto.plugins.iter().any(|plugin| !is_compilers(plugin));
        if found.is_empty() && !wants_all {
            return false;
        }
        if session.config.lto.plugins.is_empty() {
            return unclaimed::settle(&found, opened, session, source);
        }
        let offered = match session.config.mode {
            _ if wants_all => objects(opened),
            // Under `-r`, gcc's plugin must also see files that it does not claim: if one of them has machine
            // code, the plugin cannot make an object of intermediate code alone.
            OutputMode::Relocatable => objects(opened),
            _ => found.iter().map(|&(row, _)| row).collect(),
        };
        if offered.is_empty() {
            return false;
        }
        let before = self.claims.len();
        if let Err(failure) = self.offer(&offered, &found, session, opened) {
            report_failure(session.sink, failure);
            return false;
        }
        self.waits |= wants_all;
        let left: Vec<_> = found.into_iter().filter(|&(row, _)| !is_claimed(opened, row)).collect();
        unclaimed::settle(&left, opened, session, source) || self.claims.len() > before
    }

    fn offer(
        &mut self,
        offered: &[u32],
        found: &[(u32, Intermediate)],
        session: Session<'a>,
        opened: &mut Opened<'a>,
    ) -> Result<(), Failure> {
        let files = offered.iter().filter_map(|&row| input_file(opened, row)).collect();
        let claims = match &mut self.host {
            Some(host) => host.claim(files),
            None => start(session.config).and_then(|host| self.host.insert(host).claim(files)),
        };
        self.pass_messages(session.sink);
        let machine = opened.machine.unwrap_or(crate::arch::machine::DEFAULT);
        let rows = offered.iter().filter(|&&row| input_file(opened, row).is_some()).copied();
        for (row, claim) in rows.collect::<Vec<_>>().into_iter().zip(claims?) {
            let file = &mut opened.files[row as usize];
            let Some(Claim { number, plugin, symbols }) = claim else {
                if file.role == Role::Opened {
                    file.role = Role::Code;
                }
                continue;
            };
            debug_assert_eq!(number, self.claims.len());
            let has_code = found.binary_search(&(row, Intermediate::Only)).is_err();
            self.claims.push(Claimed { file: row, bytes: file.bytes, has_code, plugin });
            file.bytes = session.store.keep(placeholder::write(&symbols, machine));
            file.role = Role::Claimed(number as u32);
        }
        Ok(())
    }

    /// Searches for definitions ([`extract_members`]). After compilation, the search keeps all files that
    /// took part before. Before it, if intermediate code takes part, the search also takes members that
    /// define [`library_calls`].
    pub fn search<T: Target>(
        &self,
        parsed: &ParsedInputs<'a, T>,
        opened: &Opened<'a>,
        assigned: &OutsideNames,
    ) -> Extracted {
        let (files, globals) = (&parsed.files, &parsed.globals);
        match &self.before {
            None => {
                let search = |calls: &[_]| {
                    extract_members::run::<T>(files, &opened.steps, globals.len(), assigned, calls)
                };
                let extracted = search(&[]);
                if !self.have_work(&extracted, opened) {
                    return extracted;
                }
                match library_calls::wanted(parsed, &|row| is_claimed(opened, row)) {
                    calls if calls.is_empty() => extracted,
                    calls => search(&calls),
                }
            }
            Some(before) => again::run::<T>(before, files, &opened.steps, globals, assigned),
        }
    }

    /// Notes what the files that the search left in their archives have to do with intermediate code.
    pub fn note_reserve<T: Target>(
        &mut self,
        parsed: &ParsedInputs<'a, T>,
        extracted: &Extracted,
        opened: &Opened<'a>,
    ) {
        self.reserve = reserve::mentioned(parsed, extracted, opened);
    }

    /// Whether intermediate code takes part that no plugin has compiled yet, or a plugin waits for the
    /// symbols without any.
    pub fn have_work(&self, extracted: &Extracted, opened: &Opened<'a>) -> bool {
        let takes_part = || extracted.objects.iter().any(|&row| is_claimed(opened, row));
        self.before.is_none() && (self.waits || takes_part())
    }

    /// Tells the plugins how symbols are `resolved`, has them compile, and adds the objects that they make to
    /// `opened`. The files of `extracted` take part. The caller then resolves all symbols again.
    ///
    /// # Errors
    /// A plugin that fails, and compiled code that cannot be read; both are reported.
    pub fn compile<T: Target>(
        &mut self,
        (resolved, sections): (Resolved<'a, T>, SectionStates),
        assigned: &OutsideNames,
        extracted: &Extracted,
        opened: &mut Opened<'a>,
        sources: &mut Sources,
        source: &dyn InputSource,
    ) -> Result<(), Aborted> {
        let session = resolved.session;
        let names = resolved.globals.names.clone();
        let roles: Vec<Role> = extracted.objects.iter().map(|&row| opened.files[row as usize].role).collect();
        let owners: Vec<usize> = self.claims.iter().map(|claim| claim.plugin).collect();
        let resolutions = resolutions::all(&resolved, &sections, &roles, assigned, &self.reserve, &owners);
        let hidden = hidden::names(&resolved, &roles);
        self.prevailing_groups = prevailing_groups(&resolved, &roles);
        drop(resolved);

        let Some(host) = &mut self.host else { return Err(Aborted) };
        let added = host.compile(resolutions);
        self.pass_messages(session.sink);
        let added = added.map_err(|failure| {
            report_failure(session.sink, failure);
            Aborted
        })?;
        session.sink.check()?;
        let first_added = opened.files.len() as u32;
        self.before = Some(Before::new(extracted, &names, |row| is_claimed(opened, row), first_added));
        self.settle(extracted, opened);
        open_added(&added, session.config, source, session.store, session.sink, opened, sources);
        for file in &mut opened.files[first_added as usize..] {
            if !hidden.is_empty() && file.role == Role::Code {
                file.bytes = hidden::hide::<T::E>(file.bytes, &hidden, session.store);
            }
        }
        if let Some(mut host) = self.host.take() {
            host.keep_temporaries = session.config.lto.keep_temporaries;
        }
        let has_compiled = roles.iter().any(|role| matches!(role, Role::Claimed(_)));
        if has_compiled && !opened.files[first_added as usize..].iter().any(|file| file.role == Role::Code) {
            session.sink.report(
                Diagnostic::error(
                    Code::LtoPlugin,
                    "the plugin took intermediate code and gave no object for it",
                )
                .note(format!("the plugin is {}", session.config.lto.plugin_names())),
            );
        }
        session.sink.check()
    }

    /// Gives claimed files their roles after compilation. Compiled files take no further part. A claimed file
    /// that was not extracted becomes a candidate by its machine code, if it has any.
    fn settle(&self, extracted: &Extracted, opened: &mut Opened<'a>) {
        for &row in &extracted.objects {
            let file = &mut opened.files[row as usize];
            if matches!(file.role, Role::Claimed(_)) {
                file.role = Role::Spent;
            }
        }
        for claim in self.claims.iter().filter(|claim| claim.has_code) {
            let file = &mut opened.files[claim.file as usize];
            if matches!(file.role, Role::Claimed(_)) {
                (file.role, file.bytes) = (Role::Code, claim.bytes);
            }
        }
    }

    /// What the plugins have compiled, among the objects of the second search.
    pub fn compiled(&mut self, extracted: &Extracted, opened: &Opened<'a>) -> Compiled<'a> {
        let Some(before) = &self.before else { return Compiled::default() };
        // Plugins also add archives: the compiler's libraries.
        let is_made =
            |row: u32| row >= before.first_added && opened.files[row as usize].name.member.is_none();
        let made = (0..).zip(&extracted.objects).filter(|(_, row)| is_made(**row));
        let files = made.map(|(place, _)| FileId(place)).collect();
        Compiled { signatures: std::mem::take(&mut self.prevailing_groups), files }
    }

    /// Reports extracted members of intermediate code that nothing will compile. Either no plugin claims
    /// them, or only compiled code needs them, and the plugins have finished.
    pub fn report_not_compiled(
        &self,
        extracted: &Extracted,
        opened: &Opened<'a>,
        names: &[&[u8]],
        session: Session<'a>,
    ) {
        unclaimed::report_needed(extracted, opened, names, session);
        if self.before.is_none() {
            return;
        }
        for &row in extracted.objects.iter().filter(|&&row| is_claimed(opened, row)) {
            let file = opened.files[row as usize];
            let mut finding = Diagnostic::error(
                Code::LtoInput,
                "the file holds only intermediate code (LTO), and is first needed by code that was compiled from such",
            )
            .at(Location::File(file.name.to_string()))
            .help("compile it with -fno-lto, or with -ffat-lto-objects, or name a symbol of it with -u");
            if let Some(&(_, id)) = extracted.reasons.iter().find(|&&(of, _)| of == row) {
                let name = session.name_text(names[id.index()]);
                finding = finding.note(format!("it defines {name}, which the compiler calls"));
            }
            session.sink.report(finding.ordered(row, 0, 0));
        }
    }

    fn pass_messages(&mut self, sink: &Sink) {
        let Some(host) = &mut self.host else { return };
        for message in host.messages() {
            let place = self.messages;
            self.messages += 1;
            let severity = match message.level {
                Level::Information => Severity::Note,
                Level::Warning => Severity::Warning,
                Level::Error | Level::Fatal => Severity::Error,
            };
            let file = message.plugin.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mut lines = message.text.lines();
            let text = format!("{file}: {}", lines.next().unwrap_or_default());
            let said = Diagnostic::new(severity, Code::LtoPlugin, text).ordered(0, 0, place);
            sink.report(lines.fold(said, |said, line| said.note(line)));
        }
    }
}

/// The signatures of COMDAT groups whose prevailing copy is in a claimed file.
fn prevailing_groups<'a, T: Target>(link: &Resolved<'a, T>, roles: &[Role]) -> HashSet<&'a [u8]> {
    let claimed = link.groups.by_file.iter().zip(roles).filter(|(_, role)| matches!(role, Role::Claimed(_)));
    let groups = claimed.flat_map(|(groups, _)| groups);
    let prevailing = groups.filter(|entry| !entry.discarded && entry.group.is_comdat());
    prevailing.map(|entry| entry.group.signature).collect()
}

/// Whether a plugin is gcc's or LLVM's own. Compiler drivers name it in every link, and it claims only
/// intermediate code.
fn is_compilers(plugin: &linker_plugin::Spec) -> bool {
    plugin.is_gccs() || plugin.is_llvms()
}

/// The intermediate code of a file about which no plugin was asked yet.
fn intermediate<T: Target>(parsed: &Parsed<'_, T>, file: &Candidate<'_>) -> Option<Intermediate> {
    match (file.role, parsed) {
        (Role::Bitcode, _) => Some(Intermediate::Only),
        (Role::Opened, Parsed::Object(object)) if !file.just_symbols => {
            Some(object.intermediate).filter(|&it| it != Intermediate::No)
        }
        _ => None,
    }
}

fn is_claimed(opened: &Opened<'_>, row: u32) -> bool {
    opened.files.get(row as usize).is_some_and(|file| matches!(file.role, Role::Claimed(_)))
}

/// The rows of objects about which no plugin was asked yet.
fn objects(opened: &Opened<'_>) -> Vec<u32> {
    let open = |file: &Candidate<'_>| matches!(file.role, Role::Opened | Role::Bitcode);
    let files = (0..).zip(&opened.files);
    files.filter(|(_, file)| open(file) && !file.shared && !file.just_symbols).map(|(row, _)| row).collect()
}

/// A file in the form for plugins; `None` if it is not a file of the system (binary input).
fn input_file(opened: &Opened<'_>, row: u32) -> Option<InputFile> {
    let file = opened.files.get(row as usize)?;
    let origin = file.origin?;
    Some(InputFile {
        path: origin.path.to_path_buf(),
        offset: origin.offset,
        size: file.bytes.len() as u64,
        known_used: file.name.member.is_none(),
    })
}

fn start(config: &Config) -> Result<linker_plugin::Session, Failure> {
    let facts = LinkFacts {
        kind: match config.mode {
            OutputMode::Relocatable => OutputKind::Relocatable,
            OutputMode::Shared => OutputKind::Shared,
            OutputMode::Executable { pie: true } => OutputKind::Pie,
            OutputMode::Executable { pie: false } => OutputKind::Executable,
        },
        output: config.output.clone(),
        gnu_ld_version: GNU_VERSION_NUMBER,
        wrapped: config.symbols.wrap.clone(),
        linker: "sframe-ld".into(),
        linker_version: VERSION.into(),
    };
    let mut host = linker_plugin::Session::start(&config.lto.plugins, &facts)?;
    host.keep_temporaries = config.lto.keep_temporaries;
    Ok(host)
}

fn report_failure(sink: &Sink, failure: Failure) {
    let name = |path: &Path| path.display().to_string();
    let finding = match failure {
        // The plugin's own message says all.
        Failure::Fatal if sink.has_errors() => return,
        Failure::Fatal => Diagnostic::error(Code::LtoPlugin, "an LTO plugin ended without a message"),
        Failure::CannotLoad { plugin, reason } => Diagnostic::error(
            Code::LtoPlugin,
            format!("cannot load the LTO plugin {}: {reason}", name(&plugin)),
        )
        .help("without a plugin, compile with -fno-lto, or with -ffat-lto-objects"),
        Failure::Duplicated { plugin } => {
            Diagnostic::error(Code::LtoPlugin, format!("duplicated plugin {}", name(&plugin)))
                .help("name it once; compiler drivers name the plugin of their compiler")
        }
        Failure::Hook { plugin, hook, status } => Diagnostic::error(
            Code::LtoPlugin,
            format!("the LTO plugin {} failed in {hook} with status {status}", name(&plugin)),
        ),
        Failure::CannotOpen { path, reason } => Diagnostic::error(
            Code::CannotOpen,
            format!("cannot open {} for an LTO plugin: {reason}", name(&path)),
        ),
        Failure::Spent => Diagnostic::error(
            Code::LtoPlugin,
            "an LTO plugin failed earlier in this process, so none can be used any more",
        ),
        Failure::Thread { reason } => {
            Diagnostic::error(Code::LtoPlugin, format!("cannot start a thread for an LTO plugin: {reason}"))
        }
    };
    sink.report(finding);
}
