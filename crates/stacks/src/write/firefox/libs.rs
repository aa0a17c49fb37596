//! The files that frames are in.

use crate::files::FileId;
use crate::modules::Module;
use crate::named::Named;
use serde::Serialize;
use std::collections::BTreeMap;

/// A file of frames.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lib<'a> {
    arch: Option<&'a str>,
    name: &'a str,
    path: &'a str,
    debug_name: &'a str,
    debug_path: &'a str,
    breakpad_id: String,
    code_id: Option<&'a str>,
}

/// The files that frames are in, by the numbers that the profile gives them.
#[derive(Default)]
pub struct Libs<'a> {
    /// The files.
    pub all: Vec<Lib<'a>>,
    by_file: BTreeMap<FileId, u32>,
}

impl<'a> Libs<'a> {
    /// The number of a file, and its start.
    pub fn of(&mut self, named: Named<'a>, id: FileId) -> Option<(u32, u64)> {
        let module = named.modules.get(id)?;
        let next = self.all.len() as u32;
        let number = *self.by_file.entry(id).or_insert(next);
        if number == next {
            self.all.push(lib(module));
        }
        Some((number, module.start))
    }

    /// The name of the file with a number.
    pub fn name(&self, number: u32) -> &'a str {
        self.all.get(number as usize).map_or("", |lib| lib.name)
    }
}

fn lib(module: &Module) -> Lib<'_> {
    let name = module.path.rsplit('/').next().unwrap_or(&module.path);
    let (path, build_id) = (&*module.path, module.build_id.as_deref());
    let breakpad_id = breakpad_id(build_id.unwrap_or(""));
    let arch = module.machine.as_deref();
    Lib { arch, name, path, debug_name: name, debug_path: path, breakpad_id, code_id: build_id }
}

/// The first 16 bytes of a build-id as Breakpad has them: as numbers of four bytes, two and two, which are
/// little-endian in the build-id, and eight bytes. The age of the file follows, which is 0.
fn breakpad_id(build_id: &str) -> String {
    let digit = |place: usize| build_id.as_bytes().get(place).map_or('0', |digit| char::from(*digit));
    let bytes = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let digits = bytes.into_iter().flat_map(|byte| [digit(2 * byte), digit(2 * byte + 1)]);
    digits.map(|digit| digit.to_ascii_uppercase()).chain(['0']).collect()
}

#[cfg(test)]
mod tests {
    use super::breakpad_id;

    #[test]
    fn a_build_id_has_a_form_of_breakpad() {
        let id = breakpad_id("3af1aef5f51db95cafd8fc0ab2d7a8c8e93aaf19");
        assert_eq!(id, "F5AEF13A1DF55CB9AFD8FC0AB2D7A8C80");
        assert_eq!(breakpad_id("0102"), "00000201000000000000000000000000".to_owned() + "0");
        assert_eq!(breakpad_id(""), "0".repeat(33));
    }
}
