//! Makes a book of the pages in `docs/`, with mdbook, which cargo builds below `target/`.
//!
//! Pages link to files elsewhere in the repository (`DESIGN.md`, records of proofs), but mdbook only knows
//! what lies below its own folder. So the book is made from a copy of all Markdown files and pictures, which
//! has `docs/SUMMARY.md` at the top.

use crate::folders::{copy_to, files, target, tracked, workspace};
use anyhow::{Context, Result, ensure};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that builds the book. Another version may expect another form of `book.toml`.
const VERSION: &str = "0.5.4";
/// Pages, and what they link to.
const PARTS: [&str; 12] = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "DESIGN.md",
    "SECURITY.md",
    "benches",
    "crates/sframe-format/CHANGELOG.md",
    "crates/sframe-format/README.md",
    "crates/sframe-format/COMPACT.md",
    "crates/sframe-format/LIGHT.md",
    "docs",
    "tests/proofs",
];

/// The endings of pages and pictures.
const KINDS: [&str; 3] = ["md", "svg", "png"];

#[derive(clap::Args)]
pub struct Arguments {
    /// Folder to write to [default: target/book]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

pub fn run(arguments: Arguments) -> Result<()> {
    let output = std::path::absolute(arguments.output.unwrap_or_else(|| target().join("book")))?;
    let source = target().join("book-source");
    if source.exists() {
        std::fs::remove_dir_all(&source)?;
    }
    let pages = source.join("src");
    copy_pages(&pages)?;
    std::fs::write(pages.join("SUMMARY.md"), summary(&pages)?)?;
    std::fs::copy(workspace().join("docs/book.toml"), source.join("book.toml"))?;
    let mut build = Command::new(mdbook()?);
    build.arg("build").arg(&source).arg("--dest-dir").arg(&output);
    ensure!(build.status()?.success(), "mdbook does not build the book");
    println!("{}", output.join("index.html").display());
    Ok(())
}

/// Copies to `to` the pages and their pictures, in the same folders as in the workspace.
///
/// # Errors
/// A file cannot be read or written.
pub fn copy_pages(to: &Path) -> Result<()> {
    let is_page = |file: &PathBuf| file.extension().is_some_and(|kind| KINDS.iter().any(|it| kind == *it));
    for file in tracked(&PARTS)?.into_iter().filter(is_page) {
        copy_to(&file, to).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// The pages of `docs/SUMMARY.md`, followed by all records.
fn summary(source: &Path) -> Result<String> {
    let pages = std::fs::read_to_string(workspace().join("docs/SUMMARY.md"))?;
    let mut text = pages.replace("](", "](docs/").replace("](docs/../", "](");
    text.push_str("\n# Records\n\n");
    for folder in ["benches", "tests/proofs"] {
        for file in files(&source.join(folder))? {
            let Some(name) =
                file.file_name().and_then(|name| name.to_str()).filter(|name| name.ends_with(".md"))
            else {
                continue;
            };
            let record = std::fs::read_to_string(&file)?;
            let title = record.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']);
            writeln!(text, "- [{title}]({folder}/{name})")?;
        }
    }
    Ok(text)
}

/// The program; it is built if it does not exist.
fn mdbook() -> Result<PathBuf> {
    let root = target().join("tools");
    let program = root.join("bin/mdbook");
    if !program.exists() {
        let mut install = Command::new("cargo");
        install.args(["install", "mdbook", "--locked", "--no-default-features", "--features", "search"]);
        install.args(["--version", VERSION, "--root"]).arg(&root);
        ensure!(install.status()?.success(), "mdbook {VERSION} cannot be built");
    }
    Ok(program)
}
