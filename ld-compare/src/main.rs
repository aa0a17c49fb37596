//! The command `ld-compare`: reads arguments, prints reports, returns the exit status.

use anyhow::{Context, Result, ensure};
use ld_compare::args::{self, Arguments, Command, Output};
use ld_compare::baseline::Baseline;
use ld_compare::cases::Case;
use ld_compare::compare::{CaseReport, Report, compare};
use ld_compare::conformance::record::Record;
use ld_compare::progress::Progress;
use ld_compare::{capture, conformance, html, lab, random, reduce, table};

use diagnostics::Severity;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    // This program was called as a linker, from a folder that `capture --setup` made.
    if let Some(code) = capture::as_linker() {
        return code;
    }
    let arguments: Arguments = match commands::parse(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(answer) => answer.exit(),
    };
    let result = match arguments.command {
        Command::Run(arguments) => run(arguments),
        Command::Capture(arguments) => capture::run(&arguments),
        Command::Lab(arguments) => run_lab(&arguments),
        Command::Random(arguments) => run_random(&arguments),
        Command::Reduce(arguments) => run_reduce(arguments),
        Command::Conformance(arguments) => run_conformance(&arguments),
    };
    result.unwrap_or_else(|error| {
        commands::tell("ld-compare", Severity::Error, &format!("{error:#}"));
        ExitCode::from(2)
    })
}

fn cases(paths: &[PathBuf], arguments: Vec<String>) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for path in paths {
        cases.extend(Case::load(path)?);
    }
    if !arguments.is_empty() {
        cases.push(Case::new("command line", Path::new("."), arguments)?);
    }
    ensure!(!cases.is_empty(), "no case: name a folder or a tarball, or give a linker's arguments after --");
    Ok(cases)
}

fn run(arguments: args::Run) -> Result<ExitCode> {
    arguments.output.check()?;
    args::check_files(&[arguments.baseline.as_deref().filter(|_| arguments.record_baseline)])?;
    let cases = cases(&arguments.cases, arguments.arguments)?;
    let path = arguments.baseline.as_deref();
    let mut baseline = path.map(|path| Baseline::load(path, arguments.record_baseline)).transpose()?;
    let quiet = arguments.output.json.as_deref() == Some(Path::new("-"));
    let mut progress = Progress::new(cases.len(), "cases");
    let mut told = |case: &CaseReport| {
        progress.done(1);
        if !quiet {
            progress.aside(|| print(&(table::case(case) + "\n")));
        }
    };
    let report = compare(&cases, &arguments.wanted, &arguments.limits, baseline.as_ref(), &mut told)?;
    drop(progress);
    write_reports(&arguments.output, &report, || html::page(&report))?;
    if !quiet {
        print(&table::summary(&report, baseline.is_some()));
    }
    if let (Some(baseline), Some(path), true) = (&mut baseline, path, arguments.record_baseline) {
        record(baseline, &report);
        baseline.save(path)?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if report.unexplained() > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn record(baseline: &mut Baseline, report: &Report) {
    for case in &report.cases {
        for result in &case.results {
            let differences: Vec<_> =
                result.differences.iter().map(|judged| judged.difference.clone()).collect();
            baseline.record(&result.linker, &case.name, &differences);
        }
    }
}

fn run_lab(arguments: &args::Lab) -> Result<ExitCode> {
    arguments.output.check()?;
    args::check_folder(arguments.choice.cases.as_deref())?;
    let matrix = lab::run(&arguments.choice, &arguments.wanted, &arguments.limits)?;
    write_reports(&arguments.output, &matrix, || lab::page(&matrix))?;
    if arguments.output.json.as_deref() != Some(Path::new("-")) {
        print(&lab::markdown(&matrix));
    }
    Ok(ExitCode::SUCCESS)
}

fn run_random(arguments: &args::Random) -> Result<ExitCode> {
    args::check_files(&[arguments.choice.json.as_deref()])?;
    args::check_folder(arguments.choice.keep.as_deref())?;
    let tally = random::run(&arguments.choice, &arguments.wanted, &|text| print(&format!("{text}\n")))?;
    print(&tally.summary());
    Ok(if tally.open().next().is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn run_reduce(arguments: args::Reduce) -> Result<ExitCode> {
    args::check_folder(Some(&arguments.output))?;
    let mut cases = cases(arguments.case.as_slice(), arguments.arguments)?;
    ensure!(cases.len() == 1, "one case can be reduced at a time, this names {}", cases.len());
    let told = reduce::run(
        cases.remove(0),
        &arguments.goal,
        &arguments.wanted,
        &arguments.limits,
        &arguments.output,
    )?;
    print(&told);
    Ok(ExitCode::SUCCESS)
}

fn run_conformance(arguments: &args::Conformance) -> Result<ExitCode> {
    let choice = &arguments.choice;
    if choice.list {
        print(&conformance::list(&conformance::chosen(choice)?));
        return Ok(ExitCode::SUCCESS);
    }
    if let (Some(name), Some(folder)) = (&choice.reproduce, &choice.into) {
        let cases = conformance::cases();
        let case = cases.iter().find(|case| case.name() == *name);
        let case = case.with_context(|| format!("no case is named {name}; --list shows all"))?;
        conformance::reproduce::write(case, folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    args::check_files(&[choice.output.as_deref(), choice.baseline.as_deref().filter(|_| choice.bless)])?;
    let baseline = choice.baseline.as_deref();
    let record = baseline.map(|path| Record::load(path, choice.bless)).transpose()?;
    let matrix = conformance::run(choice, &arguments.limits)?;
    let text = conformance::write(choice.format, &matrix, record.as_ref().unwrap_or(&Record::default()))?;
    match &choice.output {
        None => print(&text),
        Some(path) => {
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    let Some((mut record, path)) = record.zip(baseline) else {
        return Ok(if matrix.failing() > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    };
    let (changes, worse) = conformance::changes(&matrix, &record);
    // On standard error, so that the results can be a file of any form.
    eprint!("{changes}");
    if choice.bless {
        record.bless(&matrix);
        record.save(path)?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if worse { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn write_reports<T: serde::Serialize>(
    output: &Output,
    report: &T,
    page: impl FnOnce() -> html::Page,
) -> Result<()> {
    if let Some(path) = &output.json {
        let text = serde_json::to_string_pretty(report)? + "\n";
        if path == Path::new("-") {
            print(&text);
        } else {
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    if let Some(path) = &output.html {
        std::fs::write(path, html::write(&page()))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Prints on standard output. A closed pipe is no error.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
