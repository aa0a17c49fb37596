//! Tests a recording that its caller drives: the descriptor says when to read, names are there meanwhile, and
//! the end of the programs is told. Where the kernel does not allow to take samples, it has to say so.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use stacks::kernel::Kernel;
use stacks::live::{Clock, NATIVE, Recorder, Refusal, Request, Target};
use stacks::namer::Namer;
use stacks::process::Place;
use stacks::session::{Session, Settings, Stack};
use stacks::statistics::End;
use std::collections::BTreeMap;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The system's numbers for what it does not allow, or does not have.
const REFUSALS: [i32; 3] = [1, 13, 38];
const NO_PROCESS: i32 = 3;

/// It ends by itself, should a test fail.
const BUSY: &str = "i=0; while [ $i -lt 50000000 ]; do i=$((i + 1)); done";

fn session() -> Option<Session> {
    let mut settings = Settings::default();
    settings.files.here = true;
    Some(Session::new(NATIVE?, settings))
}

fn busy() -> Child {
    Command::new("sh").args(["-c", BUSY]).spawn().unwrap()
}

fn begin(target: Target, session: &mut Session) -> Option<Recorder> {
    match Recorder::begin(&Request::new(target), session, None) {
        Ok(recorder) => Some(recorder),
        Err(Refusal { code, message }) if REFUSALS.contains(&code) => {
            assert!(!message.is_empty());
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// Whether the descriptor becomes readable within this time.
fn is_readable(recorder: &Recorder, milliseconds: i64) -> bool {
    let mut polled = [PollFd::new(recorder, PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    poll(&mut polled, Some(&time)).unwrap_or(0) > 0
}

#[test]
fn samples_come_when_the_descriptor_says_so_until_the_process_ends() {
    fn goes<T: Send>() {}
    goes::<Recorder>();
    let (Some(mut session), mut child) = (session(), busy()) else { return };
    let Some(mut recorder) = begin(Target::Processes(vec![child.id()]), &mut session) else {
        return child.kill().unwrap();
    };
    let (mut namer, kernel, mut names) = (Namer::default(), Kernel::running(), Vec::new());
    let (start, mut count, mut killed) = (Instant::now(), 0, false);
    loop {
        assert!(is_readable(&recorder, 900), "the descriptor is readable after a while");
        let mut frames = Vec::new();
        let mut take = |stack: &Stack<'_>| {
            assert_eq!(stack.pid, child.id());
            count += u64::from(stack.end != End::NotSampled);
            frames.extend_from_slice(stack.frames);
        };
        let goes_on = recorder.read(&mut session, &mut take);
        for frame in &frames {
            names.extend(namer.names(session.files(), &kernel, frame, false));
        }
        if !goes_on {
            break;
        }
        if (count > 50 || start.elapsed() > Duration::from_secs(30)) && !killed {
            child.kill().unwrap();
            child.wait().unwrap();
            killed = true;
        }
    }
    assert!(killed && recorder.is_over());
    assert_eq!(recorder.progress().samples, count);
    let statistics = recorder.statistics(&mut session);
    let ended = recorder.end(&mut session, &mut |_| panic!("everything has been passed on")).unwrap();
    assert!(count > 10 && names.iter().any(|name| name.known), "{count} samples");
    assert_eq!((statistics.samples, session.take_statistics().samples), (count, 0));
    assert!(statistics.coverage.processor_time.is_none_or(|time| time.counted > Duration::ZERO));
    assert_eq!((ended.status, ended.events.len()), (None, 1));
}

/// Processes that end within a period have no samples of their own clock. Their time is there all the same,
/// and says whose it is; with the samples it is all that the kernel counts.
#[test]
fn time_of_processes_without_samples_is_told() {
    let Some(mut session) = session() else { return };
    let script = "i=0; while [ $i -lt 300 ]; do i=$((i + 1)); /bin/true; done";
    let command = ["sh", "-c", script].map(Into::into).to_vec();
    let request = Request { clock: Clock::Thread, frequency: 200, ..Request::new(Target::Command(command)) };
    let mut recorder = match Recorder::begin(&request, &mut session, None) {
        Ok(recorder) => recorder,
        Err(refusal) => return assert!(REFUSALS.contains(&refusal.code), "{refusal}"),
    };
    let (mut not_sampled, mut sampled) = (BTreeMap::new(), 0);
    let mut take = |stack: &Stack<'_>| {
        if stack.end == End::NotSampled {
            assert!(matches!(stack.frames, [frame] if frame.place == Place::NotSampled));
            *not_sampled.entry(String::from_utf8_lossy(stack.thread).into_owned()).or_insert(0) +=
                stack.period;
        } else {
            sampled += stack.period;
        }
    };
    while recorder.read(&mut session, &mut take) {
        assert!(is_readable(&recorder, 900));
    }
    let statistics = recorder.statistics(&mut session);
    let ended = recorder.end(&mut session, &mut take).unwrap();
    let Some(time) = statistics.coverage.processor_time.filter(|_| ended.events == ["cpu-clock"]) else {
        return;
    };
    assert!(not_sampled.get("true").is_some_and(|&time| time > 0), "{not_sampled:?}, {time:?}");
    let told: u64 = not_sampled.values().sum();
    assert_eq!(Duration::from_nanos(told), time.unsampled);
    let share = (sampled + told) as f64 / time.counted.as_nanos() as f64;
    assert!((0.8..1.2).contains(&share), "{share}: {not_sampled:?}, {time:?}");
}

#[test]
fn a_thread_that_has_begun_a_recording_may_end_before_it() {
    let (Some(mut session), mut child) = (session(), busy()) else { return };
    let target = Target::Processes(vec![child.id()]);
    let begun = std::thread::scope(|scope| scope.spawn(|| begin(target, &mut session)).join().unwrap());
    if let Some(mut recorder) = begun {
        recorder.read(&mut session, &mut |_| {});
        let start = Instant::now();
        let mut turns = 0;
        while start.elapsed() < Duration::from_millis(300) {
            assert!(is_readable(&recorder, 900));
            recorder.read(&mut session, &mut |_| {});
            turns += 1;
        }
        // It would be readable all the time if its rings belonged to that thread.
        assert!(turns < 60, "{turns} turns in 0.3 s");
        recorder.end(&mut session, &mut |_| {}).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let Some(mut session) = session() else { return };
    let nobody = Request::new(Target::Processes(vec![u32::MAX >> 1]));
    let refusal = Recorder::begin(&nobody, &mut session, None).err().unwrap();
    assert_eq!(refusal.code, NO_PROCESS);
    assert!(refusal.to_string().contains("there is no process"), "{refusal}");
    let other = sframe_format::Abi::S390x;
    let own = Request::new(Target::Processes(vec![std::process::id()]));
    let mut foreign = Session::new(other, Settings::default());
    assert!(NATIVE == Some(other) || Recorder::begin(&own, &mut foreign, None).is_err());
}
