//! The programs behind the substitutions of tests, and the features that follow from them.
//!
//! They come from the tree that `cargo xtask peers` makes (`SFRAME_PEERS`, or else `target/peers`), whatever
//! else the machine has installed. Their behaviour decides what they are: the toolchain tries out which
//! SFrame version an assembler emits. Only gcc comes from the machine itself. If the tree has not been made,
//! so do the tools that come with gcc (`as`, `readelf`).

use crate::conditions::Features;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Paths that the build knows.
pub struct Places {
    /// The linker under test.
    pub linker: PathBuf,
    /// The command `sframe`.
    pub sframe: PathBuf,
    /// The folder of the tests.
    pub tests: PathBuf,
    /// A folder for their outputs.
    pub scratch: PathBuf,
    /// The tree of peers, unless the environment names another.
    pub peers: PathBuf,
}

/// Machines other than the default one, with the prefixes of their compilers.
const OTHER_MACHINES: [(&str, &str); 2] = [("aarch64", "aarch64-linux-gnu"), ("s390x", "s390x-linux-gnu")];

/// The substitutions and features of this machine.
pub struct Toolchain {
    linker_name: String,
    /// `%name` and its command, or why there is none. Longer names come first, because a shorter one may be
    /// their prefix.
    pub substitutions: Vec<(String, Result<String, String>)>,
    pub features: Features,
}

impl Toolchain {
    /// Finds all programs. `linker` has the form of `--ld`. `None`: our own linker.
    pub fn find(places: &Places, linker: Option<&str>) -> Result<Self> {
        let tree = Tree(std::env::var_os("SFRAME_PEERS").map_or_else(|| places.peers.clone(), PathBuf::from));
        let (linker_name, command) = match linker {
            None => ("sframe-ld".to_owned(), places.linker.clone()),
            Some(text) => named_linker(text, &tree)?,
        };
        let mut found = Toolchain { linker_name, substitutions: Vec::new(), features: Features::new() };
        found.add("%ld", Ok(command.clone()));
        for (machine, _) in OTHER_MACHINES {
            found.add(&format!("%ld-{machine}"), Ok(for_machine(&command, machine)));
        }
        // `lld-23` also has the feature `lld`.
        let family =
            found.linker_name.split_once('-').filter(|(_, v)| v.starts_with(|c: char| c.is_ascii_digit()));
        let family = family.map_or(found.linker_name.clone(), |(family, _)| family.to_owned());
        found.features.extend([found.linker_name.clone(), family]);
        found.add("%sframe", Ok(places.sframe.clone()));
        found.assemblers(&tree, &places.scratch)?;
        found.compilers(&tree);
        for name in ["readelf", "objdump", "objcopy", "nm", "ar", "strip"] {
            let tool = tree.newest(name).or_else(|reason| on_path(name).ok_or(reason));
            found.add(&format!("%{name}"), tool);
        }
        found.substitutions.sort_by_key(|(name, _)| (std::cmp::Reverse(name.len()), name.clone()));
        Ok(found)
    }

    /// The name of the linker that the tests run with. Ours is `sframe-ld`.
    pub fn linker_name(&self) -> &str {
        &self.linker_name
    }

    fn add(&mut self, name: &str, tool: Result<PathBuf, String>) {
        self.substitutions.push((name.to_owned(), tool.map(|path| path.display().to_string())));
    }

    fn feature(&mut self, name: &str, tool: &Result<PathBuf, String>) {
        if tool.is_ok() {
            self.features.insert(name.to_owned());
        }
    }

    /// `%as` is the newest assembler. `%as-v1` and so on emit older versions of SFrame.
    fn assemblers(&mut self, tree: &Tree, scratch: &Path) -> Result<()> {
        std::fs::create_dir_all(scratch)?;
        let known = |name: &str| -> Vec<(u8, PathBuf)> {
            tree.all(name).into_iter().filter_map(|p| Some((emitted_version(&p, scratch)?, p))).collect()
        };
        let all = known("as");
        for version in 1..=3 {
            let fitting = all.iter().find(|(v, _)| *v == version).map(|(_, path)| path.clone());
            let tool = fitting.ok_or_else(|| format!("no assembler that emits SFrame V{version}"));
            self.feature(&format!("gas-v{version}"), &tool);
            self.add(&format!("%as-v{version}"), tool);
        }
        let newest = all.iter().max_by_key(|(v, _)| *v).map(|(_, path)| path.clone());
        let tool = newest.or_else(|| on_path("as")).ok_or_else(|| "no as".to_owned());
        self.feature("x86-64", &tool);
        self.add("%as", tool);
        for (machine, triple) in OTHER_MACHINES {
            let name = format!("{triple}-as");
            let newest = known(&name).into_iter().max_by_key(|(version, _)| *version);
            let tool = newest.map(|(_, path)| path);
            let tool = tool.ok_or_else(|| format!("no {name} that emits SFrame (cargo xtask peers)"));
            self.feature(machine, &tool);
            self.add(&format!("%as-{machine}"), tool);
        }
        Ok(())
    }

    fn compilers(&mut self, tree: &Tree) {
        let cc = on_path("gcc").ok_or_else(|| "no gcc".to_owned());
        self.feature("cc", &cc);
        self.add("%cc", cc);
        for (machine, triple) in OTHER_MACHINES {
            let cc = tree.newest(&format!("{triple}-gcc"));
            self.feature(&format!("cc-{machine}"), &cc);
            self.add(&format!("%cc-{machine}"), cc);
            let emulator = tree.newest(&format!("qemu-{machine}"));
            self.feature(&format!("run-{machine}"), &emulator);
            self.add(&format!("%run-{machine}"), emulator);
        }
    }

    /// Replaces the `%` words of a command. The error is a missing tool.
    pub fn substitute(&self, command: &str, own: &[(&str, String)]) -> Result<String, String> {
        let mut text = String::with_capacity(command.len() * 2);
        let mut rest = command;
        while let Some(at) = rest.find('%') {
            text.push_str(&rest[..at]);
            rest = &rest[at..];
            let tool = self.substitutions.iter().find(|(name, _)| rest.starts_with(name.as_str()));
            let file = own.iter().find(|(name, _)| rest.starts_with(name));
            let length = match (tool, file) {
                (Some((name, value)), _) => {
                    text.push_str(value.as_ref()?);
                    name.len()
                }
                (None, Some((name, value))) => {
                    text.push_str(value);
                    name.len()
                }
                (None, None) => {
                    text.push('%');
                    // `%%` means a percent sign.
                    1 + usize::from(rest[1..].starts_with('%'))
                }
            };
            rest = &rest[length..];
        }
        text.push_str(rest);
        Ok(text)
    }

    /// Substitutions and features, for LLVM's `lit`.
    pub fn json(&self) -> String {
        let found =
            |(name, value): &(String, Result<String, String>)| Some((name.clone(), value.clone().ok()?));
        let substitutions: Vec<(String, String)> = self.substitutions.iter().filter_map(found).collect();
        serde_json::json!({ "substitutions": substitutions, "features": self.features }).to_string()
    }
}

/// A folder that contains one folder for each tool and version.
struct Tree(PathBuf);

impl Tree {
    /// All programs with this name, by the names of their folders.
    fn all(&self, name: &str) -> Vec<PathBuf> {
        let folders = std::fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut found: Vec<PathBuf> = folders.map(|f| f.join(name)).filter(|path| path.is_file()).collect();
        found.sort();
        found
    }

    /// The program with the highest version.
    fn newest(&self, name: &str) -> Result<PathBuf, String> {
        self.all(name).pop().ok_or_else(|| format!("no {name} (cargo xtask peers)"))
    }
}

/// Name and command from the text of `--ld`.
fn named_linker(text: &str, tree: &Tree) -> Result<(String, PathBuf)> {
    if let Some((name, command)) = text.split_once('=') {
        let path = std::path::absolute(command)?;
        if !path.is_file() {
            bail!("--ld {text}: there is no file {}", path.display());
        }
        return Ok((name.to_owned(), path));
    }
    let path = tree.0.join(text).join("ld");
    let found = path.is_file().then(|| (text.to_owned(), path.clone()));
    found.with_context(|| format!("--ld {text}: there is no {} (cargo xtask peers)", path.display()))
}

/// The same linker for another machine, if there is one beside it: `aarch64/ld` beside `ld`, or
/// `NAME-aarch64` beside `NAME`.
fn for_machine(command: &Path, machine: &str) -> PathBuf {
    let name = command.file_name().unwrap_or_default().to_string_lossy();
    let folder = command.parent().unwrap_or(Path::new(""));
    let candidates = [folder.join(machine).join(&*name), folder.join(format!("{name}-{machine}"))];
    candidates.into_iter().find(|path| path.is_file()).unwrap_or_else(|| command.to_owned())
}

/// The SFrame version that an assembler emits. `None`: it emits no SFrame.
fn emitted_version(assembler: &Path, scratch: &Path) -> Option<u8> {
    let folder = tempfile::tempdir_in(scratch).ok()?;
    let (source, object) = (folder.path().join("probe.s"), folder.path().join("probe.o"));
    std::fs::write(&source, ".cfi_sections .sframe\nf: .cfi_startproc\nnop\n.cfi_endproc\n").ok()?;
    let done = Command::new(assembler).arg("-o").arg(&object).arg(&source).output().ok()?;
    let bytes = std::fs::read(object).ok()?;
    // Such a small object contains the magic number only once, in its machine's byte order.
    let at = bytes.windows(2).position(|pair| pair == [0xe2, 0xde] || pair == [0xde, 0xe2])?;
    bytes.get(at + 2).copied().filter(|_| done.status.success())
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolchain() -> Toolchain {
        let substitutions = [("%as-v2", Err("no V2".to_owned())), ("%as", Ok("/bin/as".to_owned()))];
        let substitutions = substitutions.map(|(name, value)| (name.to_owned(), value)).into();
        Toolchain { linker_name: "sframe-ld".into(), substitutions, features: Features::new() }
    }

    #[test]
    fn json_holds_the_tools_that_were_found_whatever_their_paths() {
        let mut toolchain = toolchain();
        toolchain.add("%ld", Ok(PathBuf::from("/a \"b\"\u{7f}\u{1}/ld")));
        toolchain.features.insert("gas-v3".into());
        let read: serde_json::Value = serde_json::from_str(&toolchain.json()).unwrap();
        let expected = serde_json::json!([["%as", "/bin/as"], ["%ld", "/a \"b\"\u{7f}\u{1}/ld"]]);
        assert_eq!(read["substitutions"], expected);
        assert_eq!(read["features"], serde_json::json!(["gas-v3"]));
    }

    #[test]
    fn the_longest_name_is_replaced() {
        let own = [("%S", "/tests".to_owned()), ("%s", "/tests/a.s".to_owned())];
        let text = toolchain().substitute("%as %s -I%S; date +%% %q", &own);
        assert_eq!(text.as_deref(), Ok("/bin/as /tests/a.s -I/tests; date +% %q"));
    }

    #[test]
    fn a_missing_tool_is_named() {
        assert_eq!(toolchain().substitute("%as-v2 x", &[]), Err("no V2".to_owned()));
    }
}
