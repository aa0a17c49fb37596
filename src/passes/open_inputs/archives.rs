//! Archives among the inputs: their members become candidates.

use super::early::Contents;
use super::{Origin, Role, Step, Walk, cut_short, wrong_machine};
use crate::cli::InputState;
use crate::diag::{Code, Diagnostic, Location};
use crate::input::archive;
use crate::input::object::FileName;
use crate::input::sniff::FileKind;
use std::path::Path;

/// The report of a member that `--whole-archive` asks for, and of which there is nothing to link.
fn no_object(name: FileName<'_>) -> Diagnostic {
    Diagnostic::error(
        Code::UnsupportedInput,
        "the member is no object, and --whole-archive takes every member",
    )
    .at(Location::File(name.to_string()))
    .help("remove it from the archive (ar d ARCHIVE MEMBER), or name the archive behind --no-whole-archive")
}

impl<'a> Walk<'_, 'a> {
    /// Adds the members of an archive. Compilers name some archives more than once. If members are only
    /// searched, each later mention refers to the rows of the first one.
    pub(super) fn archive(
        &mut self,
        path: &Path,
        name: FileName<'a>,
        contents: Contents<'a>,
        state: &InputState,
    ) {
        let is_searched = !state.whole_archive && !state.just_symbols && self.lib.is_none();
        if is_searched && let Some(seen) = self.opened.seen_archives.get(path) {
            return self.opened.steps.push(Step::Members(seen.clone()));
        }
        let list = || archive::members(path, contents.bytes, self.source, self.store);
        let members = match contents.members.unwrap_or_else(list) {
            Ok(members) => members,
            Err(what) => {
                return self.report(
                    Diagnostic::error(Code::MalformedInput, what).at(Location::File(name.to_string())),
                );
            }
        };
        if is_searched && self.config.search.no_mapless_archives && !members.is_empty() {
            self.check_symbol_table(name, contents.bytes);
        }
        let first = self.opened.files.len() as u32;
        let hide = self.is_excluded(path);
        let archive_path = self.kept_path(path, name.path);
        for member in members {
            let name = FileName { path: name.path, member: Some(member.name) };
            let role = match member.kind {
                FileKind::Object if self.fits(name, member.machine) => Role::Opened,
                FileKind::Bitcode => Role::Bitcode,
                FileKind::Elf32 if self.opened.machine.is_none() => {
                    self.narrow(name, member.bytes);
                    break;
                }
                FileKind::CutElf => {
                    self.report(cut_short(name, member.bytes));
                    continue;
                }
                FileKind::Object => continue,
                FileKind::Elf32 if state.whole_archive => {
                    self.report(wrong_machine(name, "32-bit", self.opened.machine));
                    continue;
                }
                _ if state.whole_archive => {
                    self.report(no_object(name));
                    continue;
                }
                // An archive may hold any files (documentation, shared libraries). A member that is not an
                // object defines no symbol.
                _ => continue,
            };
            let path = match &member.file {
                Some(file) => self.kept_path(file, self.store.keep_str(&file.to_string_lossy())),
                None => archive_path,
            };
            let index = self.push(name, member.bytes, state, false);
            let file = &mut self.opened.files[index as usize];
            (file.hide_symbols, file.role) = (hide, role);
            file.origin = Some(Origin { path, offset: member.offset });
        }
        let range = first..self.opened.files.len() as u32;
        if state.whole_archive {
            self.opened.steps.extend(range.map(Step::File));
            return;
        }
        if is_searched {
            self.opened.seen_archives.insert(path.to_path_buf(), range.clone());
        }
        if self.lib.is_none() {
            self.opened.steps.push(Step::Members(range));
        }
    }

    /// `--no-link-mapless`: reports an archive without a symbol table.
    fn check_symbol_table(&self, name: FileName<'a>, bytes: &[u8]) {
        if !archive::has_index(bytes) {
            self.report(
                Diagnostic::error(Code::MalformedInput, "the archive has no symbol table")
                    .at(Location::File(name.to_string()))
                    .help("ranlib adds one; without --no-link-mapless the linker does not need it"),
            );
        }
    }

    /// Whether `--exclude-libs` names an archive, by file name, with or without `.a`.
    fn is_excluded(&self, path: &Path) -> bool {
        let file = path.file_name().map_or(&b""[..], |name| name.as_encoded_bytes());
        let stem = file.strip_suffix(b".a");
        self.config
            .symbols
            .exclude_libs
            .iter()
            .any(|name| name == b"ALL" || name == file || stem == Some(name.as_slice()))
    }
}
