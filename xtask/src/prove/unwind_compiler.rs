//! Proves `--unwind-table=replace` on a whole compiler: clang from Debian's static archives, linked as usual,
//! with the look-ups and with the unwinder. Each compiles C and C++, itself among them, to the same bytes,
//! and what it compiled runs. The record says how large the tables are, and what the links cost.

use super::exceptions::ways::{Way, ways};
use super::proof::Proof;
use super::sqlite;
use super::turns::prepared;
use crate::bench::case::Case;
use crate::bench::measure::{Cost, measure, median};
use crate::bench::workload::Workload;
use crate::commands::output;
use crate::records::Measured;
use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSection};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROCESSORS: usize = 2;
/// Links of each way in turns, for the times.
const ROUNDS: usize = 9;
/// The sections that say how to unwind, in memory.
const FRAMES: [&str; 3] = [".eh_frame", ".eh_frame_hdr", ".sframe_unwind"];
/// The most that a table may take with the frames that stay, as a share of `.eh_frame` and its header.
const SHARE: f64 = 0.19;
/// A file with mistakes: messages are printed while the compiler goes on.
const WRONG: &str = "template <class T> int f(T a) { return a.b; }\nint g() { return f(1) + h(); }\n";

pub fn unwind_compiler(proof: &mut Proof) -> Result<()> {
    let (folder, case) = prepared(proof, Workload::Llvm)?;
    let ways = ways(proof)?;
    let stand = Stand { proof, folder, case, ways };
    let costs = stand.link_in_turns()?;
    let sizes = (0..stand.ways.len()).map(|way| stand.frames(way)).collect::<Result<Vec<_>>>()?;
    let built = stand.compile()?;
    let (lines, names) = (stand.table(&sizes, &costs), stand.names());
    proof.note(format!(
        "clang from Debian's static archives. Times are medians of {ROUNDS} links in turns, on two processors; a ratio is the median of\n\
         the rounds' ratios.\n\n| way | bytes that unwind | to `.eh_frame` | peak, MiB | ms | to the usual link | CPU, ms | to the usual link |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|"
    ))?;
    lines.iter().try_for_each(|line| proof.note(line))?;
    proof.note(format!(
        "\nBy {names}, the compiler makes the same bytes and messages of {built}, and what it compiled runs."
    ))?;
    let most = sizes.iter().skip(1).max().copied().unwrap_or_default() as f64 / sizes[0] as f64;
    ensure!(most <= SHARE, "{most:.3} of .eh_frame");
    Ok(())
}

/// What the compilers are made of.
struct Stand<'a> {
    proof: &'a Proof,
    folder: PathBuf,
    case: Case,
    ways: Vec<Way>,
}

impl Stand<'_> {
    fn names(&self) -> String {
        self.ways.iter().map(|way| way.name).collect::<Vec<_>>().join(", ")
    }

    fn compiler(&self, way: usize) -> PathBuf {
        self.proof.folder.join(format!("compiler-{way}"))
    }

    /// The command that links a compiler.
    fn link(&self, way: usize, case: &[String], to: &Path) -> Vec<String> {
        let linker = self.proof.folder.join("installed/bin/sframe-ld");
        let mut command = vec![linker.display().to_string()];
        command.extend(case.iter().chain(&self.ways[way].options).cloned());
        command.extend(["-o".to_owned(), to.display().to_string()]);
        command
    }

    /// Links every compiler once, and then again for the times, by way and round.
    fn link_in_turns(&self) -> Result<Vec<Vec<Cost>>> {
        let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); self.ways.len()];
        for round in 0..=ROUNDS {
            for turn in 0..self.ways.len() {
                // Each round begins with another way.
                let way = (turn + round) % self.ways.len();
                let command = self.link(way, &self.case.link, &self.compiler(way));
                let run = measure(&self.folder, PROCESSORS, &command)?;
                ensure!(run.cost.success, "{}: {}", self.ways[way].name, run.messages);
                if round > 0 {
                    costs[way].push(run.cost);
                }
            }
        }
        Ok(costs)
    }

    /// The bytes of a compiler that say how to unwind it.
    fn frames(&self, way: usize) -> Result<u64> {
        let bytes = std::fs::read(self.compiler(way))?;
        let file = object::File::parse(&*bytes)?;
        Ok(FRAMES.iter().filter_map(|name| Some(file.section_by_name(name)?.size())).sum())
    }

    /// The rows of the record.
    fn table(&self, sizes: &[u64], costs: &[Vec<Cost>]) -> Vec<String> {
        let row = |way: usize| {
            let of = |value: fn(&Cost) -> f64| median(costs[way].iter().map(value)).unwrap_or(f64::NAN);
            let ratio = |value: fn(&Cost) -> f64| {
                let pairs = costs[way].iter().zip(&costs[0]);
                Measured(format!(
                    "{:.2}",
                    median(pairs.map(|(own, usual)| value(own) / value(usual))).unwrap_or(f64::NAN)
                ))
            };
            let ms = |value: fn(&Cost) -> f64| Measured((of(value) * 1e3).round());
            format!(
                "| {} | {} | {:.3} | {} | {} | {} | {} | {} |",
                self.ways[way].name,
                sizes[way],
                sizes[way] as f64 / sizes[0] as f64,
                Measured((of(|cost| cost.peak_memory as f64) / f64::from(1 << 20)).round()),
                ms(|cost| cost.wall),
                ratio(|cost| cost.wall),
                ms(|cost| cost.cpu),
                ratio(|cost| cost.cpu)
            )
        };
        (0..self.ways.len()).map(row).collect()
    }

    /// Lets every compiler compile the same files, and runs what it compiled. Returns what the files are.
    fn compile(&self) -> Result<&'static str> {
        let sqlite = sqlite::source(self.proof)?;
        let own = |name: &str, text: &str| std::fs::write(self.proof.folder.join(name), text);
        own("sqlite-main.c", sqlite::MAIN)?;
        own("wrong.cc", WRONG)?;
        let include = format!("-I{}", sqlite.display());
        let amalgamation = sqlite.join("sqlite3.c").display().to_string();
        let c = ["-O1", "-x", "c", &include, "-DSQLITE_ENABLE_MATH_FUNCTIONS"];
        let main = self.folder.join("main.cpp").display().to_string();
        let headers = self.headers_of_main()?;
        let cpp: Vec<&str> = ["-O1", "-x", "c++", "-std=c++17", "-fno-rtti"]
            .into_iter()
            .chain(headers.iter().map(String::as_str))
            .collect();
        for (name, options, source) in [
            ("sqlite3", &c[..], &*amalgamation),
            ("sqlite-main", &c[..], "sqlite-main.c"),
            ("main", &cpp[..], &*main),
            ("wrong", &["-x", "c++"][..], "wrong.cc"),
        ] {
            self.compile_by_all(name, options, source)?;
        }
        self.run_all()?;
        Ok("sqlite, its own C++ source and a file with mistakes")
    }

    /// The folders of LLVM's headers, with which the compiler's source is compiled.
    fn headers_of_main(&self) -> Result<Vec<String>> {
        let folders = std::fs::read_dir(self.folder.join("root/usr/lib"))?.flatten();
        let mut found: Vec<PathBuf> = folders.map(|folder| folder.path().join("include")).collect();
        found.retain(|folder| folder.join("llvm").is_dir());
        let include = found.pop().context("the case has no headers of LLVM")?;
        Ok(vec![
            format!("-I{}", include.display()),
            "-isystem".into(),
            self.folder.join("root/usr/include").display().to_string(),
        ])
    }

    /// Compiles a file by every compiler: objects and messages must be those of the usual one.
    fn compile_by_all(&self, name: &str, options: &[&str], source: &str) -> Result<()> {
        let mut usual = None;
        for way in 0..self.ways.len() {
            let object = self.proof.folder.join(format!("{name}.o"));
            let _ = std::fs::remove_file(&object);
            let mut command = Command::new(self.compiler(way));
            command.current_dir(&self.proof.folder).args(["-triple", "x86_64-linux-gnu", "-emit-obj"]);
            command.args(["-fgnuc-version=4.2.1", "-fcxx-exceptions", "-fexceptions", "-funwind-tables=2"]);
            command.args(["-mrelocation-model", "pic", "-pic-level", "2", "-pic-is-pie"]);
            command.args(options).args(headers(options)?).arg(source).arg("-o").arg(&object);
            let said = command.output()?;
            let messages = String::from_utf8_lossy(&said.stderr).into_owned();
            let made = (said.status, messages, std::fs::read(&object).ok());
            let is_good = said.status.success() && made.2.is_some();
            ensure!(is_good != (name == "wrong"), "{source}, {}: {}", self.ways[way].name, made.1);
            let usual = usual.get_or_insert_with(|| made.clone());
            ensure!(
                *usual == made,
                "{source}, {}: not as by the usual compiler: {}",
                self.ways[way].name,
                made.1
            );
        }
        Ok(())
    }

    /// Links what was compiled in every way, and runs it: sqlite, and a second generation of the compiler.
    fn run_all(&self) -> Result<()> {
        let objects = self.case.link.iter().map(|word| match &**word {
            "main.o" => self.proof.folder.join("main.o").display().to_string(),
            word => word.to_owned(),
        });
        let link: Vec<String> = objects.collect();
        for (way, Way { name, options, .. }) in self.ways.iter().enumerate() {
            let second = self.proof.folder.join("second");
            let words = self.link(way, &link, &second);
            output(Command::new(&words[0]).current_dir(&self.folder).args(&words[1..]))?;
            self.case.check(&self.folder, &second).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
            let mut command = Command::new("gcc");
            command.current_dir(&self.proof.folder).arg("-B").arg(&self.proof.prefix);
            command.args(["-pie", "sqlite3.o", "sqlite-main.o", "-o", "sqlite", "-lm", "-lpthread"]);
            output(command.args(options.iter().map(|option| format!("-Wl,{option}"))))?;
            let said = output(Command::new("./sqlite").current_dir(&self.proof.folder))?;
            ensure!(said == sqlite::EXPECTED, "{name}: sqlite says {said:?}");
        }
        Ok(())
    }
}

/// The folders of the system's headers, for the language of these options, as gcc searches them.
fn headers(options: &[&str]) -> Result<Vec<String>> {
    let language = if options.contains(&"c++") { "c++" } else { "c" };
    let mut command = Command::new("g++");
    command.env("LC_ALL", "C").args(["-E", "-v", "-x", language, "/dev/null", "-o", "/dev/null"]);
    let said = command.output().context("no g++")?;
    Ok(searched(&String::from_utf8_lossy(&said.stderr)))
}

/// The folders that a compiler's `-v` says it searches, as options.
fn searched(said: &str) -> Vec<String> {
    let from = said.split("#include <...> search starts here:").nth(1).unwrap_or_default();
    let folders = from.split("End of search list.").next().unwrap_or_default();
    folders
        .split_whitespace()
        .flat_map(|folder| ["-internal-isystem".to_owned(), folder.to_owned()])
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_searched_folders_are_those_of_the_second_list() {
        let said = "#include \"...\" search starts here:\n #include <...> search starts here:\n /a\n /b/c\nEnd of search list.\nCOMPILER_PATH=/x\n";
        assert_eq!(super::searched(said), ["-internal-isystem", "/a", "-internal-isystem", "/b/c"]);
    }
}
