//! Objects for tests: real assemblers and linkers wrote them, and the output of `readelf --sframe` lies
//! beside each.

use std::path::{Path, PathBuf};

/// A fixture file.
pub struct Fixture {
    /// Folder and file name.
    pub name: String,
    /// Path on disk.
    pub path: PathBuf,
    /// Output of readelf.
    pub text: Option<String>,
}

/// A file below the folder of the fixtures.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/sframe").join(name)
}

/// Every ELF file among the fixtures, by path.
pub fn all() -> Vec<Fixture> {
    let folders = std::fs::read_dir(path("")).unwrap().map(|folder| folder.unwrap().path());
    let folders = folders.filter(|folder| folder.is_dir());
    let mut paths: Vec<PathBuf> = folders
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()))
        .filter(|path| std::fs::read(path).unwrap().starts_with(b"\x7fELF"))
        .collect();
    paths.sort();
    let fixture = |path: PathBuf| {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let stems = [file.strip_suffix(".o").unwrap_or(&file), &file];
        let text = |stem: &&str| path.with_file_name(format!("{stem}.sframe.txt"));
        let text = stems.iter().find_map(|stem| std::fs::read_to_string(text(stem)).ok());
        let folder = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        Fixture { name: format!("{folder}/{file}"), path, text }
    };
    paths.into_iter().map(fixture).collect()
}
