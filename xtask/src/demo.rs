//! Demonstrates SFrame linking: frames of its own for every text section, the violation that one section for
//! a whole object causes, and the options that help then. It builds, links, runs and shows each step, and
//! fails if one does not end as expected.

use crate::install;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Output};

/// The output of the program.
const EXPECTED: &str = "disc 314, ring 235\n";

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    linker: install::Linker,
}

pub fn run(arguments: Arguments) -> Result<()> {
    let linker = arguments.linker.soon()?;
    let folder = crate::folders::target().join("demo");
    std::fs::create_dir_all(&folder)?;
    let prefix = install::install(&linker, &folder.join("installed"))?;
    let demo =
        Demo { folder: &folder, source: &crate::folders::workspace().join("examples/demo"), linker: &prefix };
    demo.compile()?;

    println!("\n== Per-text frames: a section for each function, in its group and linked to it");
    let linked = demo.link("per-text", &["disc.o", "ring.o"], &["--print-sframe", "--stats"])?;
    show(&linked);
    ensure!(linked.status.success(), "the link should succeed");
    demo.execute("per-text")?;

    println!("\n== Monolithic frames: one section for each file, as today's assemblers emit");
    let refused = demo.link("refused", &["disc-monolithic.o", "ring-monolithic.o"], &[])?;
    show(&refused);
    ensure!(!refused.status.success(), "the link should be refused");
    let message = String::from_utf8_lossy(&refused.stderr);
    ensure!(message.contains("discarded section"), "the message should say what is wrong");

    println!("\n== The same with -z sframe-violation=warning: dead rows");
    let options = ["-z", "sframe-violation=warning", "--print-sframe", "--stats"];
    let warned = demo.link("warned", &["disc-monolithic.o", "ring-monolithic.o"], &options)?;
    show(&warned);
    ensure!(warned.status.success(), "the link should succeed");
    demo.execute("warned")?;

    println!("\n== The same with --sframe-split: taken apart on reading, as if the assembler had done right");
    demo.succeed("split", &["--sframe-split", "--print-sframe"])?;

    println!("\n== The same with --sframe-index: one sorted table, rows for the PLT too");
    demo.succeed("index", &["--sframe-index", "--print-sframe"])?;

    println!("\n== And with rows derived from .eh_frame for what has none: main.o, the start-up code");
    demo.succeed("complete", &["--sframe-index", "--sframe-from-eh-frame=missing", "--print-sframe"])
}

struct Demo<'a> {
    folder: &'a Path,
    source: &'a Path,
    linker: &'a Path,
}

impl Demo<'_> {
    fn compile(&self) -> Result<()> {
        let source = self.source.display();
        self.tool("g++", &["-O1", "-c", "-o", "main.o", &format!("{source}/main.cc")])?;
        for name in ["disc", "ring"] {
            let input = format!("{source}/{name}.s");
            let include = format!("-I{source}");
            self.tool("gcc", &["-c", &include, "-o", &format!("{name}.o"), &input])?;
            let output = format!("{name}-monolithic.o");
            self.tool("gcc", &["-c", &include, "-Wa,--defsym,MONOLITHIC=1", "-o", &output, &input])?;
        }
        Ok(())
    }

    fn link(&self, program: &str, objects: &[&str], options: &[&str]) -> Result<Output> {
        let _ = std::fs::remove_file(self.folder.join(program));
        let mut command = Command::new("g++");
        command.current_dir(self.folder).arg(format!("-B{}", self.linker.display()));
        command.args(["-o", program, "main.o"]).args(objects);
        command.args(options.iter().map(|o| format!("-Wl,{o}")));
        let words = format!("g++ -Blibexec/sframe-ld -o {program} main.o {}", objects.join(" "));
        println!("$ {words} {}", options.iter().map(|o| format!("-Wl,{o}")).collect::<Vec<_>>().join(" "));
        command.output().context("cannot start g++")
    }

    /// Links the objects whose frames are in one section, shows the linker's messages, and runs the program.
    fn succeed(&self, program: &str, options: &[&str]) -> Result<()> {
        let linked = self.link(program, &["disc-monolithic.o", "ring-monolithic.o"], options)?;
        show(&linked);
        ensure!(linked.status.success(), "the link should succeed");
        ensure!(linked.stderr.is_empty(), "the link should be silent");
        self.execute(program)
    }

    fn execute(&self, program: &str) -> Result<()> {
        install::made_here(&self.folder.join(program))?;
        let output = Command::new(self.folder.join(program)).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        print!("$ ./{program}\n{text}");
        ensure!(text == EXPECTED && output.status.success(), "the program should print {EXPECTED:?}");
        Ok(())
    }

    fn tool(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let status = Command::new(program)
            .current_dir(self.folder)
            .args(arguments)
            .status()
            .with_context(|| format!("cannot start {program}"))?;
        ensure!(status.success(), "{program} failed");
        Ok(())
    }
}

fn show(output: &Output) {
    print!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}
