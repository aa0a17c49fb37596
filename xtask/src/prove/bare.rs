//! Proves the first words of the README. A minimal root of the distribution has gcc, git and a Rust toolchain
//! and nothing else. In it, the two commands of a fresh clone work as they are written, and skip nothing; so
//! do the proofs, if they are asked for.
//!
//! `debootstrap`, which the package client fetches, makes the root. How to reach packages and crates depends
//! on the machine. So the root gets the machine's apt configuration, certificates and proxy variables when it
//! runs, and no file names them.

use super::proof::Proof;
use crate::children::processor_time_so_far;
use crate::commands::{first_line, output};
use crate::records::Measured;
use crate::{apt, peers};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The packages of the root, in addition to those that every Debian system has.
const PACKAGES: &str = "gcc,g++,git,ca-certificates";
/// Commands that must not exist there.
const ABSENT: [&str; 9] = [
    "clang",
    "make",
    "ld.lld",
    "mold",
    "eu-elflint",
    "qemu-aarch64",
    "qemu-s390x",
    "aarch64-linux-gnu-gcc",
    "s390x-linux-gnu-as",
];
/// How names of variables for network access start and end.
const NETWORK: [&str; 6] =
    ["CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTRIES_", "CARGO_SOURCE_", "SSL_CERT_", "CURL_CA_"];
const PROXIES: [&str; 2] = ["_proxy", "_PROXY"];
/// Files and folders for network access.
const CONFIGURATION: [&str; 6] = [
    "/etc/apt",
    "/etc/ssl/certs",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/usr/share/keyrings",
    "/usr/local/share/ca-certificates",
];
/// What proofs print for a part whose tools are missing.
const NOT_HAD: [&str; 3] = ["not to be had", "to be had |", "no chromium here"];
/// The most seconds that the first command may take on two idle processors.
const DEMO_SECONDS: f64 = 120.0;

#[derive(clap::Args)]
pub struct Wanted {
    /// Also run the proofs that need nothing but what the root has and fetches
    #[arg(long)]
    pub proofs: bool,
}

/// Runs the two commands, and in the same root the proofs with these names.
pub fn bare(proof: &mut Proof, names: &[&str]) -> Result<()> {
    let root = proof.folder.join("root");
    make_root(proof, &root, &release("VERSION_CODENAME")?)?;
    let commit = clone(&root)?;
    let packages = enter(&root, &["dpkg-query", "-W", "-f", "${Package}\n"])?.lines().count();
    for name in ABSENT {
        let found =
            Command::new("chroot").arg(&root).args(["sh", "-c", &format!("command -v {name}")]).output()?;
        ensure!(!found.status.success(), "the root has {name}");
    }
    proof.note(format!(
        "{}, {packages} packages ({PACKAGES} and what every system has), Rust's toolchain, a clone of {commit}\n\n\
         It has none of {}.\n",
        release("PRETTY_NAME")?.trim_matches('"'),
        ABSENT.join(", ")
    ))?;
    proof.note("| command | seconds | of processors | result |\n|---|---|---|---|")?;
    for words in commands()? {
        let (text, cost) = command(&root, &words)?;
        let result = if words.iter().any(|word| word == "test") {
            counted(&text)?
        } else {
            "links, runs and shows what it should".to_owned()
        };
        let line = words.join(" ");
        ensure!(
            !line.ends_with("demo") || cost.work < 2.0 * DEMO_SECONDS,
            "{line}: {:.0} s of work",
            cost.work
        );
        proof.note(format!(
            "| `{line}` | {:.0} | {:.0} | {result} |",
            Measured(cost.wall),
            Measured(cost.work)
        ))?;
    }
    names.iter().try_for_each(|name| prove(proof, &root, name))?;
    fetched(proof, &root.join("src/target/peers"))
}

/// Runs a proof in the root, which records it there. Then the files of the proof are removed, because some
/// are large.
fn prove(proof: &mut Proof, root: &Path, name: &str) -> Result<()> {
    let words = ["cargo", "xtask", "prove", name].map(str::to_owned);
    let (text, cost) = command(root, &words)?;
    let missing: Vec<&str> =
        text.lines().filter(|line| NOT_HAD.iter().any(|said| line.contains(said))).collect();
    let result =
        if missing.is_empty() { "holds".to_owned() } else { format!("holds; {}", missing.join("; ")) };
    proof.note(format!(
        "| `{}` | {:.0} | {:.0} | {} |",
        words.join(" "),
        Measured(cost.wall),
        Measured(cost.work),
        result.replace('|', " ")
    ))?;
    let made = root.join("src/target/prove").join(name);
    if made.exists() {
        std::fs::remove_dir_all(made)?;
    }
    Ok(())
}

/// A field of the system's description.
pub(super) fn release(field: &str) -> Result<String> {
    let text = std::fs::read_to_string("/etc/os-release")?;
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix('='));
    value.map(str::to_owned).with_context(|| format!("no {field} in /etc/os-release"))
}

/// Makes the root of a release again. Only the processes in it see its mounts.
pub(super) fn make_root(proof: &Proof, root: &Path, codename: &str) -> Result<()> {
    if root.exists() {
        std::fs::remove_dir_all(root)?;
    }
    let view = proof.folder.join("apt");
    let tools = proof.folder.join("tools");
    apt::fetch_and_unpack(&view, &apt::options(&view, None)?, &["debootstrap"], &tools)?;
    let programs = proof.folder.join("programs");
    std::fs::create_dir_all(&programs)?;
    // debootstrap downloads with wget, whose libraries lie beside it.
    let libraries = peers::library_folders(&tools).map(|folder| folder.display().to_string()).join(":");
    let wget = programs.join("wget");
    let line =
        format!("LD_LIBRARY_PATH='{libraries}' exec '{}' \"$@\"", tools.join("usr/bin/wget").display());
    peers::write_script(&wget, &line)?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh"]).arg(tools.join("usr/sbin/debootstrap"));
    command
        .args(["--variant=minbase", &format!("--include={PACKAGES}"), codename])
        .arg(root)
        .arg(apt::mirror()?);
    command.env("DEBOOTSTRAP_DIR", tools.join("usr/share/debootstrap"));
    command.env("PATH", format!("{}:/usr/sbin:/sbin:{path}", programs.display()));
    output(&mut command).context("debootstrap")?;
    for path in CONFIGURATION.map(Path::new).into_iter().filter(|path| path.exists()) {
        let parent = root.join(path.parent().and_then(|it| it.strip_prefix("/").ok()).context("a parent")?);
        std::fs::create_dir_all(&parent)?;
        // A link in the root would lead out of it.
        output(Command::new("rm").arg("-rf").arg(parent.join(path.file_name().context("a name")?)))?;
        output(Command::new("cp").args(["-a", "--dereference"]).arg(path).arg(&parent))?;
    }
    // The machine may have added methods for its mirrors to the package client.
    let methods = "usr/lib/apt/methods";
    for entry in std::fs::read_dir(Path::new("/").join(methods))?.flatten() {
        let own = root.join(methods).join(entry.file_name());
        if !own.exists() {
            std::fs::copy(entry.path(), own)?;
        }
    }
    std::fs::create_dir_all(root.join("opt/rust"))?;
    cargo_configuration(&root.join("cargo"))
}

/// A home for cargo that only contains the configuration.
fn cargo_configuration(home: &Path) -> Result<()> {
    std::fs::create_dir_all(home)?;
    let own = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let own = own.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    for name in ["config.toml", "config"] {
        let file = own.as_ref().map(|own| own.join(name)).filter(|file| file.exists());
        if let Some(file) = file {
            std::fs::copy(file, home.join(name))?;
        }
    }
    Ok(())
}

/// Clones the current commit and returns its short name.
fn clone(root: &Path) -> Result<String> {
    let mut command = Command::new("git");
    output(
        command
            .args(["clone", "--quiet", "--no-hardlinks"])
            .arg(crate::folders::workspace())
            .arg(root.join("src")),
    )?;
    first_line(Command::new("git").current_dir(root.join("src")).args(["rev-parse", "--short", "HEAD"]))
}

/// The set-up commands of the README; the tests must not skip anything.
fn commands() -> Result<Vec<Vec<String>>> {
    let readme = std::fs::read_to_string(crate::folders::workspace().join("README.md"))?;
    let set_up = readme.split("\n## Get it\n").nth(1).unwrap_or_default();
    let lines = set_up.lines().filter_map(|line| line.strip_prefix("    "));
    let mut commands: Vec<Vec<String>> =
        lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
    ensure!(commands.len() == 2, "the README has {} set-up commands", commands.len());
    commands[1].push("--require-all".into());
    Ok(commands)
}

/// The cost of a command, in seconds.
struct Cost {
    wall: f64,
    /// Seconds of all processors together.
    work: f64,
}

/// Runs a command in the clone; shows its output and returns it.
fn command(root: &Path, words: &[String]) -> Result<(String, Cost)> {
    let name =
        words.iter().skip(2).filter(|word| !word.starts_with('-')).cloned().collect::<Vec<_>>().join("-");
    let log = root.with_extension(format!("{name}.log"));
    let script = format!("cd /src && exec {}", words.join(" "));
    let (begin, before) = (Instant::now(), processor_time_so_far());
    let mut command = inside(root, &["sh", "-c", &script])?;
    let file = std::fs::File::create(&log)?;
    let status = command.stdout(file.try_clone()?).stderr(file).status()?;
    let cost =
        Cost { wall: begin.elapsed().as_secs_f64(), work: (processor_time_so_far() - before).as_secs_f64() };
    let text = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
    ensure!(status.success(), "{} failed, see {}", words.join(" "), log.display());
    Ok((text, cost))
}

/// Gives the root's package client the packages and sources of a release, and nothing else.
pub(super) fn sources(root: &Path, suite: &str) -> Result<()> {
    let folder = root.join("etc/apt/sources.list.d");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let mirror = apt::mirror()?;
    let line = |kind: &str| {
        format!("{kind} [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} {suite} main\n")
    };
    std::fs::write(root.join("etc/apt/sources.list"), line("deb") + &line("deb-src"))?;
    enter(root, &["apt-get", "update", "-qq"]).map(drop)
}

/// Installs packages in the root. The caller has called [`sources`].
pub(super) fn add(root: &Path, packages: &[&str]) -> Result<()> {
    let words = [
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "install",
        "-qq",
        "-y",
        "--no-install-recommends",
    ];
    enter(root, &[&words[..], packages].concat()).map(drop)
}

/// The output of a command in the root.
pub(super) fn enter(root: &Path, words: &[&str]) -> Result<String> {
    output(&mut inside(root, words)?)
}

/// A command in the root, with processes, devices, `/sys` and this machine's Rust toolchain. It gets only
/// those of the machine's variables that are about network access. The root is a mount of its own, as on a
/// machine; otherwise tests could not mount file systems for themselves.
fn inside(root: &Path, words: &[&str]) -> Result<Command> {
    let rust = first_line(Command::new("rustc").args(["--print", "sysroot"]))?;
    // If the proof ends, everything that it started must end too. `unshare` ignores milder signals, so the
    // kernel kills it together with the thread that waits for it, and the first process of the new namespace
    // together with `unshare`.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--kill-child", "sh", "-c"]);
    command.arg(
        "set -e; root=$1; rust=$2; shift 2\n\
         mount --bind \"$root\" \"$root\"\n\
         mount -t proc proc \"$root/proc\"; mount --rbind /dev \"$root/dev\"\n\
         mount --rbind /sys \"$root/sys\"\n\
         mount --bind \"$rust\" \"$root/opt/rust\"\n\
         exec chroot \"$root\" \"$@\"",
    );
    command.arg("sh").arg(root).arg(rust).args(words).env_clear();
    command.envs(std::env::vars().filter(|(name, _)| {
        NETWORK.iter().any(|start| name.starts_with(start)) || PROXIES.iter().any(|end| name.ends_with(end))
    }));
    let path = "/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    command.env("PATH", path).env("HOME", "/tmp").env("CARGO_HOME", "/cargo").env("LC_ALL", "C.UTF-8");
    Ok(command)
}

/// The counts of the test programs. No test failed and none was skipped.
fn counted(text: &str) -> Result<String> {
    let number = |line: &str, word: &str| -> usize {
        let words: Vec<&str> = line.split([' ', ';', ',']).filter(|word| !word.is_empty()).collect();
        let at = words.iter().position(|it| *it == word).unwrap_or(0);
        at.checked_sub(1).and_then(|before| words[before].parse().ok()).unwrap_or(0)
    };
    let sum = |start: &str, word: &str| -> usize {
        text.lines().filter(|line| line.starts_with(start)).map(|line| number(line, word)).sum()
    };
    let (passed, failed, ignored) =
        (sum("test result", "passed"), sum("test result", "failed"), sum("test result", "ignored"));
    let lit =
        text.lines().find(|line| line.contains(" tests with sframe-ld in ")).context("no lit tests ran")?;
    let skips = text.lines().rev().find(|line| line.ends_with(" skips")).context("skips were not counted")?;
    ensure!(failed == 0 && !lit.contains("FAIL") && skips == "0 skips", "{failed} failed; {lit}; {skips}");
    ensure!(passed > 0, "no test ran");
    Ok(format!(
        "{passed} tests and {} of lit-tests pass, 0 failures, {skips}, {ignored} ignored",
        number(lit, "PASS")
    ))
}

/// The packages that the second command fetched.
fn fetched(proof: &mut Proof, folder: &Path) -> Result<()> {
    proof.note("\nFetched and unpacked below `target/` by the second command:\n")?;
    proof.note("| suite | packages | MiB |\n|---|---|---|")?;
    let mut suites = BTreeMap::new();
    for suite in std::fs::read_dir(folder.join("apt"))?.flatten() {
        let packages = std::fs::read_dir(suite.path().join("cache/archives"))?.flatten();
        let sizes: Vec<u64> = packages
            .filter(|file| file.path().extension().is_some_and(|word| word == "deb" || word == "gz"))
            .map(|file| file.metadata().map_or(0, |data| data.len()))
            .collect();
        suites.insert(
            suite.file_name().to_string_lossy().into_owned(),
            (sizes.len(), sizes.iter().sum::<u64>()),
        );
    }
    for (suite, (count, bytes)) in suites {
        proof.note(format!("| {suite} | {count} | {} |", bytes >> 20))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn failures_and_skips_are_no_proof() {
        let good = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured\n\
                    test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured\n\
                    9 tests with sframe-ld in 1.5 s: 9 PASS\n0 skips\n";
        assert_eq!(
            counted(good).unwrap(),
            "12 tests and 9 of lit-tests pass, 0 failures, 0 skips, 1 ignored"
        );
        for (from, to) in [
            ("7 passed; 0 failed", "6 passed; 1 failed"),
            ("0 skips", "1 skips"),
            ("9 PASS", "1 FAIL, 8 PASS"),
        ] {
            assert!(counted(&good.replace(from, to)).is_err(), "{to}");
        }
    }
}
