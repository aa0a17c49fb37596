//! Records the violations lab: the matrix of every shape, machine and linker, its page and a picture of the
//! page. Also hides a violation among several hundred objects and finds it again.

use super::proof::Proof;
use crate::commands::output;
use crate::{folders, peers, records};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Number of objects among which the violation is hidden.
pub(super) const OBJECTS: usize = 300;
/// The one object that is assembled with frames.
const HIDDEN: usize = 137;
/// The most seconds that the reduction may take.
const SECONDS: f64 = 300.0;
/// The largest object that may be left, in bytes.
const LARGEST: u64 = 1000;

pub fn violations(proof: &mut Proof, program: &Path) -> Result<()> {
    let ours = proof.folder.join("installed/bin/sframe-ld").display().to_string();
    let page = proof.folder.join("lab.html");
    let mut command = Command::new(program);
    command.arg("lab").arg("--peers").arg(peers::folder()).arg("--html").arg(&page);
    command.args([format!("--linker=sframe-ld={ours}"), format!("--linker=index={ours} --sframe-index")]);
    command.arg(format!("--linker=split={ours} --sframe-split"));
    command.args(peers::linkers().iter().map(|name| format!("--linker={name}")));
    let text = output(&mut command)?;
    // The record has the heading already.
    proof.note(text.split_once("\n\n").map_or("", |(_, rest)| rest))?;
    picture(proof, &page)?;
    hidden(proof, program, &ours)
}

/// The page as a browser shows it.
fn picture(proof: &Proof, page: &Path) -> Result<()> {
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    let Some(browser) = browser else {
        println!("no chromium here: no picture of the page");
        return Ok(());
    };
    let shot = proof.folder.join("violations.png");
    let _ = std::fs::remove_file(&shot);
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]);
    command.arg(format!("--user-data-dir={}", proof.folder.join("browser").display()));
    command.args(["--hide-scrollbars", "--window-size=1680,1500"]);
    command.arg(format!("--screenshot={}", shot.display())).arg(format!("file://{}", page.display()));
    output(&mut command)?;
    ensure!(std::fs::metadata(&shot)?.len() > 10_000, "the picture is empty");
    if proof.is_recorded {
        records::replace(&records::path("violations").with_extension("png"), &std::fs::read(shot)?)?;
    }
    Ok(())
}

/// Hides a violation in a C++ project, and reduces the link with lld.
fn hidden(proof: &mut Proof, program: &Path, ours: &str) -> Result<()> {
    let folder = proof.folder.join("hidden");
    std::fs::create_dir_all(&folder)?;
    write_project(&folder)?;
    let assembler = folder.join("as");
    folders::link(peers::program("as")?, &assembler)?;
    let objects: Vec<String> = (0..OBJECTS).map(|number| format!("m{number}.o")).collect();
    for batch in (0..OBJECTS).collect::<Vec<_>>().chunks(50) {
        let mut command = Command::new("g++");
        command.current_dir(&folder).args(["-O1", "-ffunction-sections", "-c"]);
        output(command.args(batch.iter().map(|number| format!("m{number}.cc"))))?;
    }
    let mut command = Command::new("g++");
    command.current_dir(&folder).arg(format!("-B{}", folder.display())).args([
        "-O1",
        "-ffunction-sections",
        "-c",
    ]);
    output(command.arg("-Wa,--gsframe").arg(format!("m{HIDDEN}.cc")))?;
    let small = folder.join("small");
    let _ = std::fs::remove_dir_all(&small);
    let started = Instant::now();
    let mut command = Command::new(program);
    command.current_dir(&folder).args(["reduce", "--topic=discarded-reference"]);
    for family in ["lld-", "gold-"] {
        let name = peers::linkers().into_iter().rfind(|name| name.starts_with(family));
        command.arg(format!(
            "--linker={}",
            name.with_context(|| format!("no {family}*; run cargo xtask peers"))?
        ));
    }
    command.arg(format!("--linker=sframe-ld={ours}")).arg("--peers").arg(peers::folder());
    command.args(["--output=small", "--", "-e", "main"]).args(&objects);
    let text = output(&mut command)?;
    let seconds = started.elapsed().as_secs_f64();
    ensure!(seconds < SECONDS, "{seconds:.0} s");
    let mut sizes = Vec::new();
    for entry in std::fs::read_dir(&small)?.flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "o") {
            sizes.push(entry.metadata()?.len());
        }
    }
    ensure!(sizes.len() == 2 && sizes.iter().all(|size| *size < LARGEST), "{sizes:?}");
    proof.note("\n## A violation hidden in a link of several hundred objects\n")?;
    proof.note(format!(
        "{OBJECTS} objects of a C++ project, of which one was assembled with `--gsframe`; reduced so that lld, gold and sframe-ld \
         all still refuse:\n"
    ))?;
    text.lines()
        .filter(|line| !line.starts_with("written"))
        .try_for_each(|line| proof.note(format!("    {line}")))?;
    let mut sources: Vec<_> = std::fs::read_dir(&small)?.flatten().map(|entry| entry.path()).collect();
    sources.sort();
    for source in sources.iter().filter(|path| path.extension().is_some_and(|extension| extension == "s")) {
        let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
        proof.note(format!("\n`{name}`:\n\n```asm\n{}```", std::fs::read_to_string(source)?))?;
    }
    Ok(())
}

/// Writes files that share inline functions and call each other.
pub(super) fn write_project(folder: &Path) -> Result<()> {
    let header = "template <int N> __attribute__((noinline)) int shared(int x) { volatile int a[4] = {x + N}; return a[0] * N; }\n";
    std::fs::write(folder.join("shared.h"), header)?;
    for number in 0..OBJECTS {
        let mut text = String::from("#include \"shared.h\"\n");
        for row in 0..6 {
            let shared = (number * 7 + row) % 40;
            text.push_str(&format!("int f{number}_{row}(int x) {{ return shared<{shared}>(x) + {row}; }}\n"));
        }
        let next = (number + 1) % OBJECTS;
        text.push_str(&format!("int f{next}_1(int);\nint call{number}(int x) {{ return f{next}_1(x); }}\n"));
        if number == 0 {
            text.push_str("int main(int c, char **) { return f0_0(c) + call0(c); }\n");
        }
        std::fs::write(folder.join(format!("m{number}.cc")), text)?;
    }
    Ok(())
}
