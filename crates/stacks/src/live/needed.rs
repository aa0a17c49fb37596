//! The files that a program maps before its first instruction: itself, the dynamic linker that it names, and
//! the libraries that these files say they need, as far as they are beside the dynamic linker.
//!
//! Whoever is told of a mapping is told late: the first samples come before. Nothing depends on this list, so
//! it follows none of the dynamic linker's other rules: a library from elsewhere gets its table when a stack
//! has passed through it, and a table of a file that nobody maps does no harm.

use crate::image::Image;
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _};
use object::{Endianness, elf};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

type Header = elf::FileHeader64<Endianness>;

/// The most files. Programs need some tens at most that are not loaded later.
const MOST: usize = 32;

/// The program at a path, and what it maps before it runs, with the bytes of their code.
pub fn of_program(path: PathBuf) -> Vec<(PathBuf, Image)> {
    let Ok(image) = Image::open(&path) else { return Vec::new() };
    let linker = interpreter(&image).and_then(|path| path.canonicalize().ok());
    let mut all = vec![(path, image)];
    let Some(linker) = linker else { return all };
    let folder = linker.parent().map(Path::to_owned).unwrap_or_default();
    add(&mut all, linker);
    let mut read = 0;
    while let Some((_, image)) = all.get(read) {
        read += 1;
        for name in names(image).unwrap_or_default() {
            // Mappings have the paths that links lead to.
            if let Ok(path) = folder.join(OsStr::from_bytes(&name)).canonicalize() {
                add(&mut all, path);
            }
        }
    }
    all
}

fn add(all: &mut Vec<(PathBuf, Image)>, path: PathBuf) {
    if all.len() < MOST
        && all.iter().all(|(known, _)| *known != path)
        && let Ok(image) = Image::open(&path)
    {
        all.push((path, image));
    }
}

/// The path of the dynamic linker that a program names.
fn interpreter(image: &Image) -> Option<PathBuf> {
    let header = Header::parse(&**image.bytes()).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &**image.bytes()).ok()?;
    let path = segments.iter().find_map(|segment| segment.interpreter(endian, &**image.bytes()).ok()?)?;
    Some(OsStr::from_bytes(path).into())
}

/// The names of the libraries that a file needs.
fn names(image: &Image) -> Option<Vec<Vec<u8>>> {
    let bytes = &**image.bytes();
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let (entries, strings) = sections.dynamic(endian, bytes).ok()??;
    let strings = sections.strings(endian, bytes, strings).ok()?;
    let needed = entries.iter().take_while(|entry| entry.tag(endian) != elf::DT_NULL);
    let needed = needed.filter(|entry| entry.tag(endian) == elf::DT_NEEDED);
    Some(needed.filter_map(|entry| Some(entry.string(endian, strings).ok()?.to_vec())).take(MOST).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_maps_its_dynamic_linker_and_what_all_need() {
        let own = std::env::current_exe().unwrap();
        let found = of_program(own.clone());
        let paths: Vec<&Path> = found.iter().map(|(path, _)| &**path).collect();
        assert_eq!(paths[0], own);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(paths.len() > 1 && paths.len() <= MOST);
        for path in paths {
            assert!(maps.contains(path.to_str().unwrap()), "{} is not mapped", path.display());
        }
        let libc = |(path, _): &(PathBuf, Image)| path.to_string_lossy().contains("libc.so");
        assert!(found.iter().any(libc));
        assert!(of_program("/no/such/file".into()).is_empty());
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/identified");
        assert_eq!(of_program(fixture).len(), 1);
    }
}
