//! Checks the project's own rules on the sources: files have a readable length, modules say what they are
//! for, dependencies point downward, and no file contains a path of anybody's machine.

use std::path::{Path, PathBuf};

/// Longest Rust source file, in lines.
const LONGEST: usize = 700;
/// The most columns of a comment; `rustfmt.toml` has the same number for code.
const WIDEST: usize = 110;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below these folders with one of these suffixes, and their texts, sorted by path.
fn files(folders: &[&str], suffixes: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in folders {
        collect(&root().join(folder), suffixes, &mut found);
    }
    found.sort();
    found
        .into_iter()
        .map(|path: PathBuf| {
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            (name, String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned())
        })
        .collect()
}

fn collect(folder: &Path, suffixes: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|n| n != "target" && n != "fixtures") {
                collect(&path, suffixes, found);
            }
        } else if path.extension().is_some_and(|e| suffixes.iter().any(|s| e == *s)) {
            found.push(path);
        }
    }
}

fn sources() -> Vec<(String, String)> {
    files(
        &["src", "sframe", "crates", "ld-compare", "split-plugin", "xtask", "tests", "benches", "fuzz"],
        &["rs"],
    )
}

/// The lines of code, without comments.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(n, l)| (n + 1, l));
    lines.filter(|(_, l)| !l.trim_start().starts_with("//"))
}

#[track_caller]
fn none(what: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

#[test]
fn files_are_of_readable_length() {
    let long = |(name, text): (String, String)| {
        let lines = text.lines().count();
        (lines > LONGEST).then(|| format!("{name}: {lines} lines"))
    };
    none("files longer than 700 lines", sources().into_iter().filter_map(long).collect());
}

/// rustfmt checks the width of code, but leaves comments as they are. Tables and code in comments cannot be
/// broken.
#[test]
fn comments_fit_the_width_of_the_code() {
    let mut found = Vec::new();
    for (name, text) in sources() {
        let mut in_code = false;
        for (number, line) in text.lines().enumerate() {
            let comment =
                line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!', ' ']));
            let Some(comment) = comment else { continue };
            in_code ^= comment.starts_with("```");
            if line.chars().count() > WIDEST && !in_code && !comment.starts_with('|') {
                found.push(format!("{name}:{}", number + 1));
            }
        }
    }
    none("comments wider than 110 columns", found);
}

#[test]
fn every_module_says_what_it_is_for() {
    let silent = |(name, text): (String, String)| {
        let first = text.lines().find(|l| !l.trim().is_empty() && !l.starts_with("#!"));
        (!first.is_some_and(|l| l.starts_with("//!"))).then_some(name)
    };
    none("files that do not open with //!", sources().into_iter().filter_map(silent).collect());
}

#[test]
fn nothing_is_left_undone() {
    // The words are put together here, so that this file does not find itself.
    let words = [
        ["todo", "!("],
        ["unimplement", "ed!("],
        ["dbg", "!("],
        ["FIX", "ME"],
        ["XX", "X:"],
        ["#[ign", "ore"],
    ];
    let words = words.map(|w| w.concat());
    let mut found = Vec::new();
    for (name, text) in sources() {
        for (line, content) in text.lines().enumerate() {
            if words.iter().any(|w| content.contains(w.as_str())) {
                found.push(format!("{name}:{}: {}", line + 1, content.trim()));
            }
        }
    }
    none("unfinished work", found);
}

#[test]
fn modules_depend_downward() {
    let graph = imports::Graph::read(&root().join("src/lib.rs")).unwrap();
    let design = std::fs::read_to_string(root().join("DESIGN.md")).unwrap();
    let order = imports::Order::from_table(&design, "Modules, lowest first").unwrap();
    let against = order.against(&graph);
    let shown = |arrow: &imports::Arrow<'_>| {
        let lines: Vec<String> =
            arrow.uses.iter().map(|place| format!("  line {}: {}", place.line, place.path)).collect();
        format!("{} imports {}\n{}", arrow.from, arrow.to, lines.join("\n"))
    };
    none("imports from above", against.upward.iter().map(shown).collect());
    let unknown = against.unknown.iter().map(|file| (*file).to_owned());
    none("files that DESIGN.md's table has no place for", unknown.collect());
    // The command is a crate of its own, above the library.
    let exists = |module: &str| root().join("src").join(module).exists();
    let missing = against.empty.into_iter().filter(|module| !exists(module));
    none("modules of DESIGN.md's table that are not there", missing.collect());
}

#[test]
fn packages_depend_downward() {
    let design = std::fs::read_to_string(root().join("DESIGN.md")).unwrap();
    let order = imports::Order::from_table(&design, "Packages, lowest first").unwrap();
    let packages = imports::packages::packages(root()).unwrap();
    assert!(packages.len() > 20, "cargo sees {} packages", packages.len());
    none("packages against the order of DESIGN.md", imports::packages::against(&order, &packages));
}

#[test]
fn files_import_one_another_in_no_circle() {
    let folders = std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().file_name());
    let libraries: Vec<String> =
        folders.map(|name| format!("crates/{}/src/lib.rs", name.display())).collect();
    assert!(libraries.len() > 10, "the crates lie elsewhere now");
    let roots = [
        "src/lib.rs",
        "sframe/src/lib.rs",
        "ld-compare/src/lib.rs",
        "split-plugin/src/lib.rs",
        "fuzz/links/src/lib.rs",
        "xtask/src/main.rs",
        "tests/integration/main.rs",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain(libraries);
    let mut found = Vec::new();
    for name in roots {
        let graph = imports::Graph::read(&root().join(&name)).unwrap();
        found.extend(graph.circles().iter().map(|circle| format!("{name}: {}", circle.files.join(" "))));
    }
    none("circles of imports", found);
}

#[test]
fn the_format_crate_knows_nothing_of_the_linker() {
    let mut found = Vec::new();
    for (name, text) in files(&["crates/sframe-format"], &["rs", "toml"]) {
        for (line, content) in code(&text) {
            if content.contains("sframe_ld") || content.contains("sframe-ld") {
                found.push(format!("{name}:{line}: {}", content.trim()));
            }
        }
    }
    none("sframe-format names the linker", found);
}

#[test]
fn only_the_arch_folder_names_architectures() {
    // Only options and commands remain; their words are names of architectures.
    const NEUTRAL: [&str; 11] = [
        "frames", "input", "layout", "merge", "output", "passes", "phase", "relocs", "sframe", "symbols",
        "synth",
    ];
    const WORDS: [&str; 9] = ["x86", "X86", "aarch64", "AArch64", "AARCH64", "s390", "S390", "R_390", "EM_"];
    let folders = NEUTRAL.map(|folder| format!("src/{folder}"));
    let mut all = files(&folders.each_ref().map(String::as_str), &["rs"]);
    let name = "src/pipeline.rs";
    all.push((name.to_owned(), std::fs::read_to_string(root().join(name)).unwrap()));
    assert!(all.len() > 50, "the folders have other names now");
    let mut found = Vec::new();
    for (name, text) in all.iter().filter(|(name, _)| !name.ends_with("tests.rs")) {
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (line, content) in code(product) {
            let content = content.split("//").next().unwrap_or_default();
            if let Some(word) = WORDS.iter().find(|word| content.contains(**word)) {
                found.push(format!("{name}:{line}: {word}"));
            }
        }
    }
    none("architectures named outside src/arch", found);
}

#[test]
fn nothing_names_a_machine() {
    let words = [["/ro", "ot/"], ["/wo", "rk/"], ["/ho", "me/"], ["deb.deb", "ian.org"], ["crat", "es.io"]];
    let words = words.map(|w| w.concat());
    let mut found = Vec::new();
    let mut all = files(
        &[
            "src",
            "sframe",
            "crates",
            "ld-compare",
            "split-plugin",
            "xtask",
            "tests",
            "benches",
            "examples",
            "linker-scripts",
            "lit-tests",
            ".ci",
        ],
        &["rs", "toml", "md", "s", "inc", "cc", "c", "sh", "ld", "x"],
    );
    all.extend(files(&["docs"], &["md", "toml"]));
    for name in ["README.md", "DESIGN.md", "Cargo.toml", ".ci/run"] {
        if let Ok(text) = std::fs::read_to_string(root().join(name)) {
            all.push((name.to_owned(), text));
        }
    }
    for (name, text) in all {
        for (line, content) in text.lines().enumerate() {
            if let Some(word) = words.iter().find(|w| content.contains(w.as_str())) {
                found.push(format!("{name}:{}: {word}", line + 1));
            }
        }
    }
    none("paths or hosts of a machine", found);
}

#[test]
fn every_dependency_has_its_reason() {
    let reasons = std::fs::read_to_string(root().join("docs/design/dependencies.md")).unwrap();
    let mut found = Vec::new();
    let crates = [
        "build-id",
        "commands",
        "demangle",
        "diagnostics",
        "elf",
        "files",
        "linker-options",
        "linker-script",
        "sframe-sections",
        "stacks",
    ];
    let crates = crates.map(|name| format!("crates/{name}/Cargo.toml"));
    for manifest in ["Cargo.toml", "sframe/Cargo.toml"].map(str::to_owned).into_iter().chain(crates) {
        let text = std::fs::read_to_string(root().join(manifest)).unwrap();
        let list = text.split("\n[dependencies]\n").nth(1).and_then(|rest| rest.split("\n[").next()).unwrap();
        let others = list.lines().filter(|line| line.contains('=') && !line.contains("path ="));
        let names = others.filter_map(|line| line.split(['=', '.', ' ']).next());
        let own = |name: &str| root().join("crates").join(name).is_dir() || name.starts_with('#');
        found.extend(
            names.filter(|name| !own(name) && !reasons.contains(&format!("`{name}`"))).map(str::to_owned),
        );
    }
    none("dependencies without a reason in docs/design/dependencies.md", found);
}

#[test]
fn manifests_say_what_their_packages_are() {
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = workspace.split("members = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
    let members: Vec<&str> = members.split('"').skip(1).step_by(2).chain(["."]).collect();
    assert!(members.len() > 10, "the members are listed in another way now");
    let mut found = Vec::new();
    for member in members {
        let manifest = std::fs::read_to_string(root().join(member).join("Cargo.toml")).unwrap();
        for field in ["description = ", "keywords = ", "rust-version", "license"] {
            if !manifest.lines().any(|line| line.starts_with(field)) {
                found.push(format!("{member}/Cargo.toml: {field}"));
            }
        }
    }
    none("fields that manifests lack", found);
}

#[test]
fn recorded_proofs_are_plain_text() {
    let steers = |(name, text): (String, String)| {
        let line = text.lines().position(|line| line.chars().any(|c| c.is_control() && c != '\t'));
        line.map(|line| format!("{name}:{}", line + 1))
    };
    let records = files(&["tests/proofs"], &["md"]);
    assert!(records.len() > 10, "the records lie elsewhere now");
    none("control characters in records", records.into_iter().filter_map(steers).collect());
}

#[test]
fn tests_start_only_programs_that_a_fresh_machine_has() {
    // These programs come with gcc and its packages, with Rust, or with every system of the distribution. All
    // others must come from `tools`.
    let of_compilers =
        ["gcc", "g++", "cc", "gcc-ar", "as", "ar", "nm", "readelf", "c++filt", "cargo", "rustc"];
    let of_system = ["sh", "bash", "cp", "mv", "chmod", "mkfifo", "mknod", "tar", "unshare", "setpriv"];
    let is_there = |name: &str| {
        of_compilers.contains(&name) || of_system.contains(&name) || name.starts_with(['.', '/'])
    };
    let mut found = Vec::new();
    for (name, text) in sources().iter().filter(|(name, _)| name.contains("tests/")) {
        for (number, line) in code(text) {
            for start in ["Command::new(\"", ".command(\"", "tools::program(\""] {
                let mut programs = line.split(start).skip(1).filter_map(|rest| rest.split('"').next());
                found.extend(
                    programs.find(|program| !is_there(program)).map(|it| format!("{name}:{number}: {it}")),
                );
            }
        }
    }
    none("programs that a fresh machine lacks", found);
}

/// The Markdown files that people read.
fn pages() -> Vec<(String, String)> {
    let mut pages = files(&["docs", "benches", "tests/proofs", "crates/sframe-format"], &["md"]);
    for name in ["README.md", "CONTRIBUTING.md", "DESIGN.md", "SECURITY.md", "CHANGELOG.md"] {
        pages.push((name.to_owned(), std::fs::read_to_string(root().join(name)).unwrap()));
    }
    pages
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut found = Vec::new();
    for (name, text) in pages() {
        let folder = root().join(&name).parent().unwrap().to_owned();
        for (number, line) in text.lines().enumerate() {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
            let files = targets.filter(|target| !target.is_empty() && !target.contains("://"));
            let lost = files.filter(|target| !folder.join(target).exists());
            found.extend(lost.map(|target| format!("{name}:{}: {target}", number + 1)));
        }
    }
    none("links that lead nowhere", found);
}

#[test]
fn every_page_is_in_the_book() {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let pages = files(&["docs"], &["md"]).into_iter().map(|(name, _)| name);
    let lost = pages.filter(|name| {
        let name = name.trim_start_matches("docs/");
        name != "SUMMARY.md" && !summary.contains(&format!("]({name})"))
    });
    none("pages that docs/SUMMARY.md does not list", lost.collect());
}

#[test]
fn the_front_door_and_the_map_stay_short() {
    for (name, most) in [("README.md", 120), ("DESIGN.md", 250)] {
        let lines = std::fs::read_to_string(root().join(name)).unwrap().lines().count();
        assert!(lines <= most, "{name} has {lines} lines, of {most} at most: move essays to pages in docs/");
    }
}

#[test]
fn ci_checks_what_the_readme_says_and_form_lints_and_documentation() {
    let ci = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    for command in
        ["cargo xtask test", "fmt", "clippy", "-D warnings", "cargo doc", "SFRAME_TESTS_REQUIRE_ALL=1"]
    {
        assert!(ci.contains(command), ".ci/run lacks {command}");
    }
}
