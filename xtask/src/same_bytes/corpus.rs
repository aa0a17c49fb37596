//! Captured links on disk. Each different file is stored once, under its hash; for each link there is a list
//! of its files.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// One link.
#[derive(Serialize, Deserialize)]
pub struct Case {
    /// The hash of everything below, so equal links are stored once.
    #[serde(skip)]
    pub name: String,
    /// The name under which the linker was called; messages start with it.
    pub program: String,
    /// The variables that the linker reads.
    pub environment: BTreeMap<String, String>,
    /// The files, by their paths in the link's folder. One of them is `response.txt`, which has the options.
    pub files: BTreeMap<String, String>,
}

/// The folder with all links.
pub struct Corpus {
    folder: PathBuf,
}

impl Corpus {
    /// Opens the folder, or makes it.
    pub fn open(folder: PathBuf) -> Result<Self> {
        for name in ["files", "links", "new"] {
            std::fs::create_dir_all(folder.join(name))
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        Ok(Corpus { folder })
    }

    /// A temporary name for a file that is not part of the corpus yet.
    pub fn new_file(&self) -> Result<tempfile::TempPath> {
        Ok(tempfile::NamedTempFile::new_in(self.folder.join("new"))?.into_temp_path())
    }

    /// A temporary folder on the same file system, so that files can be linked into it.
    pub fn scratch(&self) -> Result<tempfile::TempDir> {
        Ok(tempfile::tempdir_in(self.folder.join("new"))?)
    }

    /// The names of all links, sorted.
    pub fn names(&self) -> Result<Vec<String>> {
        let entries = std::fs::read_dir(self.folder.join("links"))?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            names.extend(name.strip_suffix(".json").map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }

    /// The names that contain a text.
    ///
    /// # Errors
    /// There are none.
    pub fn wanted(&self, filter: &str) -> Result<Vec<String>> {
        let mut names = self.names()?;
        names.retain(|name| name.contains(filter));
        ensure!(!names.is_empty(), "no link is captured (cargo xtask same-bytes capture)");
        Ok(names)
    }

    /// Reads the list of a link's files.
    pub fn case(&self, name: &str) -> Result<Case> {
        let path = self.folder.join("links").join(format!("{name}.json"));
        let text = std::fs::read_to_string(&path).with_context(|| format!("no link {name}"))?;
        let mut case: Case = serde_json::from_str(&text).context(path.display().to_string())?;
        case.name = name.to_owned();
        Ok(case)
    }

    /// Adds the archive that `--reproduce` wrote to the corpus.
    pub fn add(&self, archive: &Path, program: String, environment: BTreeMap<String, String>) -> Result<()> {
        let mut files = BTreeMap::new();
        let mut archive = tar::Archive::new(std::io::BufReader::new(std::fs::File::open(archive)?));
        let mut output = None;
        for entry in archive.entries()? {
            let mut entry = entry?;
            // The first component is the name of the archive.
            let path: PathBuf = entry.path()?.components().skip(1).filter(is_name).collect();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            if path == Path::new("version.txt") {
                continue;
            }
            if path == Path::new("response.txt") {
                output = output_of(&bytes);
            }
            files.insert(path.display().to_string(), self.keep(&bytes)?);
        }
        let case = Case { name: String::new(), program, environment, files };
        let text = serde_json::to_string_pretty(&case)? + "\n";
        let hash = blake3::hash(text.as_bytes()).to_hex();
        let name = format!("{}-{}", output.as_deref().unwrap_or("a.out"), &hash[..12]);
        self.write(&self.folder.join("links").join(format!("{name}.json")), text.as_bytes())
    }

    fn keep(&self, bytes: &[u8]) -> Result<String> {
        let hash = blake3::hash(bytes).to_hex().to_string();
        let path = self.kept(&hash);
        if !path.exists() {
            self.write(&path, bytes)?;
        }
        Ok(hash)
    }

    fn kept(&self, hash: &str) -> PathBuf {
        self.folder.join("files").join(hash)
    }

    /// Writes a file completely or not at all: tests link at the same time.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let new = self.new_file()?;
        std::fs::write(&new, bytes)?;
        new.persist(path)?;
        Ok(())
    }

    /// Unpacks the files of a link below a folder.
    pub fn unpack(&self, case: &Case, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        case.files.keys().try_for_each(|path| self.unpack_file(case, path, folder))
    }

    /// Unpacks one of them. It is a copy, because linkers also write to files that tests name as inputs.
    pub fn unpack_file(&self, case: &Case, path: &str, folder: &Path) -> Result<()> {
        let place = folder.join(path);
        if let Some(parent) = place.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let hash = case.files.get(path).with_context(|| format!("{} has no {path}", case.name))?;
        std::fs::copy(self.kept(hash), &place)
            .with_context(|| format!("cannot copy {path} of {}", case.name))?;
        Ok(())
    }
}

fn is_name(component: &Component<'_>) -> bool {
    matches!(component, Component::Normal(_))
}

/// The name of the output, for people. `--reproduce` writes it in its own line or after `-o`.
fn output_of(response: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(response);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let value = match line {
            "-o" | "--output" => lines.next(),
            _ => line.strip_prefix("--output=").or_else(|| line.strip_prefix("-o")),
        };
        let plain =
            |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "._-".contains(c));
        if let Some(value) = value.filter(plain) {
            return Some(value.to_owned());
        }
    }
    None
}
