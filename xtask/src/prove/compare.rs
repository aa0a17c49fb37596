//! Proves agreement: this linker and every other one on this machine make real links of every kind, for three
//! machines. The baseline must explain every difference from the majority.

use super::proof::Proof;
use crate::commands::output;
use crate::peers;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The fewest links that must take part.
const LEAST: usize = 60;

/// A program: name, sources, flags of the compiler.
struct Program {
    name: &'static str,
    sources: &'static [&'static str],
    /// Names of links, and their flags: those for the compiler, then those for the link.
    forms: &'static [(&'static str, &'static str, &'static str)],
}

const EXECUTABLES: &[(&str, &str, &str)] = &[
    ("pie", "-fPIE", "-pie"),
    ("no-pie", "-fno-PIE", "-no-pie"),
    ("static", "-fno-PIE", "-static"),
    ("static-pie", "-fPIE", "-static-pie"),
];
const WITH_LIBRARY: &[(&str, &str, &str)] = &[
    ("pie", "-fPIE", "-pie"),
    ("no-pie", "-fno-PIE", "-no-pie"),
    ("static", "-fno-PIE", "-static"),
    ("shared", "-fPIC", "-shared"),
];

const PROGRAMS: &[Program] = &[
    Program { name: "hello", sources: &["hello.c"], forms: EXECUTABLES },
    Program { name: "exceptions", sources: &["exceptions.cc"], forms: EXECUTABLES },
    Program { name: "tls", sources: &["tls.c"], forms: WITH_LIBRARY },
    Program { name: "ifunc", sources: &["ifunc.c"], forms: WITH_LIBRARY },
    Program {
        name: "sections",
        sources: &["sections.c"],
        forms: &[
            ("pie", "-fPIE", "-pie"),
            ("common", "-fno-PIE -fcommon", "-no-pie"),
            ("gc", "-fPIE -ffunction-sections -fdata-sections", "-pie -Wl,--gc-sections"),
            ("now", "-fPIE", "-pie -Wl,-z,now -Wl,-z,relro"),
            ("relocatable", "-fno-PIE", "-r"),
        ],
    },
    Program {
        name: "library",
        sources: &["library.c"],
        forms: &[
            ("shared", "-fPIC", "-shared -Wl,-soname,liblibrary.so.1"),
            ("versions", "-fPIC", "-shared -Wl,--version-script=library.map -Wl,-soname,liblibrary.so.1"),
            ("symbolic", "-fPIC", "-shared -Wl,-Bsymbolic -Wl,-z,defs"),
        ],
    },
    Program {
        name: "groups",
        sources: &["groups-main.cc", "groups-other.cc"],
        forms: &[
            ("pie", "-fPIE -ffunction-sections", "-pie"),
            ("debug", "-fPIE -g", "-pie"),
            ("gc", "-fPIE -ffunction-sections -fdata-sections", "-pie -Wl,--gc-sections"),
            ("relocatable", "-fno-PIE -ffunction-sections", "-r"),
        ],
    },
];

const MACHINES: &[(&str, &str)] =
    &[("x86_64", ""), ("aarch64", "aarch64-linux-gnu-"), ("s390x", "s390x-linux-gnu-")];

pub fn compare(proof: &mut Proof, program: &Path) -> Result<()> {
    let cases = proof.folder.join("cases");
    let _ = std::fs::remove_dir_all(&cases);
    let mut captured = 0;
    for &(machine, prefix) in MACHINES {
        for form in PROGRAMS.iter().flat_map(|program| program.forms.iter().map(move |form| (program, form)))
        {
            if machine == "s390x" && form.1.0 == "static-pie" {
                continue;
            }
            capture(proof, program, &cases, machine, prefix, form)
                .with_context(|| format!("{machine} {} {}", form.0.name, form.1.0))?;
            captured += 1;
        }
    }
    ensure!(captured >= LEAST, "only {captured} links");
    report(proof, program, &cases)
}

/// Compiles a program and records how the compiler links it.
fn capture(
    proof: &Proof,
    program: &Path,
    cases: &Path,
    machine: &str,
    prefix: &str,
    (source, form): (&Program, &(&str, &str, &str)),
) -> Result<()> {
    let &(kind, compile, link) = form;
    let name = format!("{machine}-{}-{kind}", source.name);
    let work = proof.folder.join("work").join(&name);
    std::fs::create_dir_all(&work)?;
    let sources = crate::folders::workspace().join("ld-compare/programs");
    let mut objects = Vec::new();
    for file in source.sources {
        let object = format!("{}.o", file.split('.').next().unwrap_or(file));
        let mut command = Command::new(compiler(prefix, file)?);
        command
            .current_dir(&work)
            .args(["-O1", "-c", "-o", &object])
            .args(compile.split(' '))
            .arg(sources.join(file));
        output(&mut command)?;
        objects.push(object);
    }
    std::fs::copy(sources.join("library.map"), work.join("library.map"))?;
    let (log, folder) = (work.join("log"), work.join("linker"));
    let _ = std::fs::remove_dir_all(&log);
    let mut command = Command::new(program);
    command.args(["capture", "--real"]).arg(proof.prefix.join("ld"));
    output(command.arg("--log").arg(&log).arg("--setup").arg(&folder))?;
    let mut command = Command::new(compiler(prefix, source.sources[0])?);
    command.current_dir(&work).arg(format!("-B{}", folder.display())).args(["-o", "out"]);
    output(command.args(link.split(' ')).args(&objects))?;
    std::fs::create_dir_all(cases)?;
    let text = std::fs::read_to_string(log.join("0001-out/case.json"))?.replacen("0001-out", &name, 1);
    std::fs::write(log.join("0001-out/case.json"), text)?;
    Ok(std::fs::rename(log.join("0001-out"), cases.join(&name))?)
}

/// The machine's own compiler, or one that was fetched for another machine.
fn compiler(prefix: &str, file: &str) -> Result<PathBuf> {
    let name = format!("{prefix}{}", if file.ends_with(".cc") { "g++" } else { "gcc" });
    if prefix.is_empty() { Ok(name.into()) } else { peers::program(&name) }
}

/// Runs all links, and records versions, counts and the differences that the baseline had to explain.
fn report(proof: &mut Proof, program: &Path, cases: &Path) -> Result<()> {
    let (json, html) = (proof.folder.join("report.json"), proof.folder.join("report.html"));
    let mut command = Command::new(program);
    command.arg("run").arg(cases).arg("--peers").arg(peers::folder());
    command.env("SFRAME_LD", proof.folder.join("installed/bin/sframe-ld"));
    command.arg("--baseline").arg(crate::folders::workspace().join("ld-compare/baseline.json"));
    let run = command.arg("--json").arg(&json).arg("--html").arg(&html).output()?;
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    ensure!(json.exists(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json)?)?;
    let cases = report["cases"].as_array().context("no cases")?;
    let links = cases.len();
    proof.note(format!(
        "{links} links, each by every linker that is there. Votes are by family; a difference is one of a fact from its majority.\n"
    ))?;
    proof.note("| linker | version | links | failed | differences | known | unexplained |\n|---|---|---|---|---|---|---|")?;
    let mut rows: Vec<(String, String, [usize; 5])> = Vec::new();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut refused: BTreeMap<(String, String), usize> = BTreeMap::new();
    for result in cases.iter().flat_map(|case| case["results"].as_array().into_iter().flatten()) {
        let (name, version) = (text_of(&result["linker"]["name"]), text_of(&result["linker"]["version"]));
        let row = match rows.iter().position(|row| row.0 == name) {
            Some(row) => row,
            None => {
                rows.push((name.clone(), version, [0; 5]));
                rows.len() - 1
            }
        };
        let counts = &mut rows[row].2;
        counts[0] += 1;
        if result["facts"]["status"]["exit"] != 0 {
            counts[1] += 1;
            let first = &result["facts"]["messages"][0];
            let said = match first["topic"].as_str() {
                Some("other") | None => text_of(&first["subject"]),
                Some(topic) => format!("{topic} {}", text_of(&first["subject"])),
            };
            *refused.entry((name.clone(), said)).or_default() += 1;
        }
        for difference in result["differences"].as_array().into_iter().flatten() {
            counts[2] += 1;
            let accepted = &difference["judgement"]["accepted"];
            counts[3] += usize::from(accepted.is_string());
            counts[4] += usize::from(difference["judgement"] == "unexplained");
            if let (Some(reason), "sframe-ld") = (accepted.as_str(), name.as_str()) {
                *reasons.entry(reason.to_owned()).or_default() += 1;
            }
        }
    }
    for (name, version, [links, failed, differences, known, open]) in &rows {
        // The baseline in the repository is about this linker. Differences of other linkers are listed, not
        // judged.
        let open = if known + open == *differences { open.to_string() } else { "not judged".into() };
        proof.note(format!(
            "| {name} | {version} | {links} | {failed} | {differences} | {known} | {open} |"
        ))?;
    }
    proof.note("\nLinks that others refused:\n")?;
    for ((name, said), count) in refused {
        proof.note(format!("- {count} by {name}: {said}"))?;
    }
    proof.note("\nWhat the baseline explains of sframe-ld:\n")?;
    for (reason, count) in reasons {
        proof.note(format!("- {count}: {reason}"))?;
    }
    let ours = rows.iter().find(|row| row.0 == "sframe-ld").context("sframe-ld took no part")?;
    ensure!(
        ours.2[3] + ours.2[4] == ours.2[2],
        "the baseline does not know this version of sframe-ld, so that nothing was judged"
    );
    ensure!(
        ours.2[1] == 0 && ours.2[4] == 0,
        "{} links failed, {} differences are unexplained\n{text}",
        ours.2[1],
        ours.2[4]
    );
    proof.note("\nDifferences of sframe-ld from the majority that are not explained: 0")
}

fn text_of(value: &serde_json::Value) -> String {
    value.as_str().unwrap_or("").to_owned()
}
