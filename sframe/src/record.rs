//! `sframe record`: samples the stacks of a running program.

use super::args::{Record, Sampled};
use super::open::Problem;
use super::report::{Outcome, complain, tell, warn};
use super::rotation::Rotation;
use super::sampling::{request, rotate_by_signal, stop_by_signals, stopped};
use super::stack_output::{Plan, settings, summary, write_all};
use diagnostics::words::count;
use indicatif::{ProgressBar, ProgressStyle};
use stacks::kernel::Kernel;
use stacks::live::{InKernel, Progress, Recorded, Turn, record};
use stacks::profile::Profile;
use stacks::session::Stack;
use stacks::statistics::End;
use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The page that the command writes if the user asks for nothing else.
const PAGE: &str = "stacks.html";

/// Files that are open at a time where everything on a machine, or in a control group, is sampled. Programs
/// of such a machine need some hundred of them at a time, and the kernel allows a process 65530 mappings.
const MOST_FILES: u64 = 4096;

/// The share of processor time below which a warning says why.
const ENOUGH: f64 = 0.9;
/// The share of stacks that are cut off from which on a warning says what helps.
const MANY: f64 = 0.1;
/// Processor time that is long enough to be compared with samples.
const MEASURABLE: Duration = Duration::from_millis(100);

/// Records and writes. The exit status is that of the started command, if one was started and all went well.
pub fn run(arguments: &Record) -> ExitCode {
    match sample(arguments) {
        Ok(status) => ExitCode::from(status),
        Err(problem) => {
            complain(&problem);
            Outcome::Unusable.exit_code()
        }
    }
}

fn sample(arguments: &Record) -> Result<u8, Problem> {
    let mut output = arguments.output.clone();
    let by_default = output.output.is_none() && output.html.is_none() && output.format.is_none();
    if by_default {
        output.output = Some(PathBuf::from(PAGE));
    }
    let (request, title) = request(&arguments.target);
    let mut rotation = Rotation::begin(arguments, &output, &title)?;
    if rotation.is_some() {
        rotate_by_signal();
    }
    let plan = Plan::new(&output, None)?;
    let in_kernel = in_kernel(arguments);
    let profile = RefCell::new(Profile::new(plan.wants_addresses()));
    stop_by_signals();
    let bar = progress_bar();
    let mut watch = |turn: &mut Turn<'_>| {
        let Progress { samples, lost, elapsed } = turn.progress;
        bar.set_message(format!("{}, {lost} lost, {} s", count(samples, "sample"), elapsed.as_secs()));
        // A thread of its own could do this, but the system may have no thread left.
        bar.tick();
        if let Some(rotation) = &mut rotation {
            rotation.turn(turn, &profile);
        }
    };
    let mut settings = settings(&arguments.rows, None, arguments.output.stats.is_some());
    settings.files.bound.files = most_files(arguments);
    let mut take = |stack: &Stack<'_>| profile.borrow_mut().add(stack);
    let may_do_without = in_kernel.is_some() && !arguments.bpf;
    let mut begin =
        |in_kernel| record(&request, settings.clone(), in_kernel, stopped(), &mut watch, &mut take);
    let mut recorded = begin(in_kernel);
    // Unwinding in the kernel takes more memory and descriptors, of which there may be too few. Nothing has
    // been sampled then.
    if recorded.is_err() && may_do_without {
        recorded = begin(None);
    }
    bar.finish_and_clear();
    let recorded = recorded.map_err(|message| Problem::new(&*title, message))?;
    warn_of_the_incomplete(&recorded);
    let profile = profile.into_inner();
    match rotation {
        Some(rotation) => rotation.end(profile, &recorded)?,
        None => write_one(&plan, profile, &recorded, (&title, by_default))?,
    }
    Ok(recorded.status.and_then(|status| u8::try_from(status).ok()).unwrap_or(0))
}

/// Writes the only file, or files, of a recording.
fn write_one(
    plan: &Plan<'_>,
    mut profile: Profile,
    recorded: &Recorded,
    (title, by_default): (&str, bool),
) -> Result<(), Problem> {
    profile.events.clone_from(&recorded.events);
    profile.notes = recorded.statistics.coverage.notes();
    profile.begun = Some(recorded.begun);
    let kept = if by_default { keep_earlier(PAGE) } else { "" };
    let summary = summary_of_all(&profile, recorded);
    write_all(plan, profile, &recorded.files, &recorded.statistics, &Kernel::running(), title)?;
    tell(&format!("{summary}{}{kept}", places(plan)));
    Ok(())
}

/// How many files may be open at a time. A machine, or a container in which programs come and go, has more
/// and more of them; samples need few at a time.
fn most_files(arguments: &Record) -> Option<u64> {
    let has_many = arguments.target.all || arguments.target.cgroup.is_some();
    arguments.most_files.or_else(|| has_many.then_some(MOST_FILES)).filter(|&most| most > 0)
}

/// How complete the samples of a whole recording are.
fn summary_of_all(profile: &Profile, recorded: &Recorded) -> String {
    let lost = match recorded.statistics.lost {
        0 => String::new(),
        // The clocks of processors sample all programs, and what is lost may be of any.
        lost if recorded.by_processor => format!(", {lost} of all programs lost"),
        lost => format!(", {lost} lost"),
    };
    let coverage = &recorded.statistics.coverage;
    let covered = match coverage.processor_time.zip(coverage.share()) {
        Some((time, share)) => {
            let seconds = time.counted.as_secs_f64();
            let not_sampled =
                time.unsampled_share().map(|share| format!(", {:.0} % [not sampled]", 100.0 * share));
            let rest = not_sampled.unwrap_or_default();
            format!(", for {:.0} % of {seconds:.3} s of processor time{rest}", 100.0 * share)
        }
        None => String::new(),
    };
    format!("{}{lost}{covered}", summary(profile))
}

/// Where the output is.
fn places(plan: &Plan<'_>) -> String {
    let written: Vec<String> = plan.files().map(|path| path.display().to_string()).collect();
    if written.is_empty() { String::new() } else { format!("; see {}", written.join(" and ")) }
}

/// Says what made the samples fewer or the stacks shorter than they could be.
fn warn_of_the_incomplete(recorded: &Recorded) {
    if let Some(bytes) = recorded.smaller_copies {
        warn(&format!(
            "the kernel gives this user so little memory for samples that {bytes} bytes of each stack are copied instead of \
             32768; raise `ulimit -l` or /proc/sys/kernel/perf_event_mlock_kb"
        ));
    }
    let ended = |end| recorded.statistics.ends.get(&end).copied().unwrap_or(0);
    let (samples, by_bpf) = (recorded.statistics.samples, recorded.in_kernel.is_some());
    let cut = cut_off(ended(End::CopyEnded), samples, by_bpf);
    let missing = behind_missing_pages(ended(End::PageMissing), samples, by_bpf);
    let switched = on_other_stacks(ended(End::OtherStack), samples, by_bpf);
    cut.iter().chain(&missing).chain(&switched).for_each(|text| warn(text));
    let coverage = &recorded.statistics.coverage;
    let Some((time, share)) = coverage.processor_time.zip(coverage.share()) else { return };
    if share < ENOUGH && !recorded.by_processor && coverage.lost.count == 0 && time.counted > MEASURABLE {
        let helps = if time.with_kernel {
            "threads that end within a period have none; --per-processor sees them, as root"
        } else {
            "this user may not sample the kernel, and threads that end within a period have none; root sees both, and \
             kernel.perf_event_paranoid=1 lets others see the kernel"
        };
        warn(&format!("samples stand for {:.0} % of the processor time: {helps}", 100.0 * share));
    }
}

/// A sentence about stacks that are cut off where their copy ended, if these are many.
fn cut_off(cut: u64, samples: u64, by_bpf: bool) -> Option<String> {
    let share = cut as f64 / samples.max(1) as f64;
    let whole = if by_bpf { "" } else { ", and --bpf reads whole stacks, as root" };
    (share >= MANY).then(|| {
        format!(
            "{:.0} % of the stacks are cut off where their copy ended: --stack-size 65528 copies more of each{whole}",
            100.0 * share
        )
    })
}

/// A sentence about stacks that are cut off at a page that was not there, if these are many.
fn behind_missing_pages(cut: u64, samples: u64, by_bpf: bool) -> Option<String> {
    let share = cut as f64 / samples.max(1) as f64;
    let behind =
        if by_bpf { "no frame pointers lead behind it" } else { "--bpf reads what is behind, as root" };
    (share >= MANY).then(|| {
        format!(
            "{:.0} % of the stacks are cut off at a page to which nobody has written yet, in a large array for example: \
             the kernel copies no further, and {behind}",
            100.0 * share
        )
    })
}

/// A sentence about stacks of which the part before a switch to another one is missing, if these are many.
fn on_other_stacks(switched: u64, samples: u64, by_bpf: bool) -> Option<String> {
    let share = switched as f64 / samples.max(1) as f64;
    (share >= MANY && !by_bpf).then(|| {
        format!(
            "{:.0} % of the stacks begin where the program went on on another stack (Go does so for its own work and for C, and \
             some signal handlers do), because the kernel copies one stack of a sample: --bpf reads both, as root",
            100.0 * share
        )
    })
}

/// Renames the page of an earlier recording, as perf does with its recordings. Returns what to tell the user
/// about it.
fn keep_earlier(page: &str) -> &'static str {
    if !std::fs::symlink_metadata(page).is_ok_and(|metadata| metadata.is_file()) {
        return "";
    }
    match std::fs::rename(page, format!("{page}.old")) {
        Ok(()) => " (the one that was there is now stacks.html.old)",
        Err(_) => " (which replaced the one that was there)",
    }
}

/// The program that unwinds in the kernel. If it cannot be loaded, this process unwinds everything, and where
/// the user asked for it, a warning says why.
fn in_kernel(arguments: &Record) -> Option<InKernel> {
    let Sampled { all, cgroup, event, off_cpu, stack_size, .. } = &arguments.target;
    // Few programs that use their processors. A whole machine would need the tables of all that it runs.
    let is_usual = !all && cgroup.is_none() && event.is_empty() && !off_cpu && stack_size.is_none();
    if arguments.no_bpf || !(arguments.bpf || is_usual) {
        return None;
    }
    let loaded = InKernel::load(false);
    if let Err(reason) = &loaded
        && arguments.bpf
    {
        warn(&format!("--bpf: {reason}; stacks are copied and unwound in this process instead"));
    }
    loaded.ok()
}

/// A progress line on the terminal; nothing without a terminal.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} sampling: {msg} (Ctrl-C ends)") {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::{behind_missing_pages, cut_off, on_other_stacks};

    #[test]
    fn a_warning_says_what_helps_if_many_stacks_are_cut_off() {
        assert_eq!(cut_off(0, 0, false), None);
        assert_eq!(cut_off(9, 100, false), None);
        let text = cut_off(82, 100, false).unwrap();
        assert!(text.starts_with("82 % ") && text.contains("--stack-size 65528") && text.contains("--bpf"));
        assert!(!cut_off(82, 100, true).unwrap().contains("--bpf"));
        let text = behind_missing_pages(82, 100, false).unwrap();
        assert!(text.starts_with("82 % ") && !text.contains("--stack-size") && text.contains("--bpf"));
        let by_bpf = behind_missing_pages(82, 100, true).unwrap();
        assert!(by_bpf.ends_with("no frame pointers lead behind it"), "{by_bpf}");
        assert_eq!((behind_missing_pages(9, 100, false), behind_missing_pages(9, 100, true)), (None, None));
        assert_eq!(on_other_stacks(9, 100, false), None);
        assert!(
            on_other_stacks(12, 100, false)
                .is_some_and(|text| text.starts_with("12 % ") && text.contains("--bpf"))
        );
        assert_eq!(on_other_stacks(82, 100, true), None);
        // Sentences that go on in the next line of the source are whole.
        let all = [cut_off, behind_missing_pages, on_other_stacks].map(|of| of(82, 100, false).unwrap());
        assert!(all.iter().all(|text| !text.contains("  ") && !text.contains('\n')), "{all:?}");
    }
}
