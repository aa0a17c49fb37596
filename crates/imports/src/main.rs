//! `cargo xtask graph`: prints which file of the linker imports which, circles, and imports against the order
//! in DESIGN.md.
//!
//! This is a program of its own because parsing Rust needs a large library, and the first build should not
//! wait for that.

use anyhow::Result;
use clap::Parser;
use imports::{Arrow, Graph, Order, packages};
use std::path::{Path, PathBuf};

/// Print circles of imports between files, and imports against DESIGN.md's order
#[derive(Parser)]
#[command(name = "cargo xtask graph")]
struct Arguments {
    /// Print every import between files, too
    #[arg(long)]
    all: bool,
    /// Print the lines of each import
    #[arg(long)]
    lines: bool,
    /// The crate's root file
    #[arg(long, default_value = "src/lib.rs")]
    root: PathBuf,
}

/// The workspace's folder.
fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .and_then(Path::parent)
        .expect("a folder of the workspace's crates")
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let graph = Graph::read(&workspace().join(&arguments.root))?;
    if arguments.all {
        println!("imports between files:");
        graph.arrows().for_each(|arrow| print(&arrow, arguments.lines));
    }
    let circles = graph.circles();
    for circle in &circles {
        println!("circle of {} files, {} imports:", circle.files.len(), circle.arrows.len());
        println!("  {}", circle.files.join(" "));
        circle.arrows.iter().for_each(|arrow| print(arrow, arguments.lines));
    }
    let in_circles: usize = circles.iter().map(|circle| circle.files.len()).sum();
    let counts = (graph.files.len(), graph.arrows().count());
    println!("{} files, {} imports, {} circles with {in_circles} files", counts.0, counts.1, circles.len());
    if arguments.root.starts_with("src") {
        against_the_order(&graph, arguments.lines)?;
    }
    Ok(())
}

fn against_the_order(graph: &Graph, lines: bool) -> Result<()> {
    let text = std::fs::read_to_string(workspace().join("DESIGN.md"))?;
    let all = packages::packages(workspace())?;
    let needs: usize = all.iter().map(|package| package.needs.len()).sum();
    let wrong = packages::against(&Order::from_table(&text, "Packages, lowest first")?, &all);
    println!(
        "{} packages, which need each other {needs} times, {} against the order:",
        all.len(),
        wrong.len()
    );
    wrong.iter().for_each(|line| println!("  {line}"));
    let against = Order::from_table(&text, "Modules, lowest first")?.against(graph);
    println!("{} imports run against the order of DESIGN.md:", against.upward.len());
    against.upward.iter().for_each(|arrow| print(arrow, lines));
    against.unknown.iter().for_each(|file| println!("not in the order: {file}"));
    against.empty.iter().for_each(|module| println!("of the order, without files: {module}"));
    Ok(())
}

fn print(arrow: &Arrow<'_>, lines: bool) {
    println!("  {} -> {}", arrow.from, arrow.to);
    if lines {
        arrow.uses.iter().for_each(|place| println!("    {}: {}", place.line, place.path));
    }
}
