//! Tests on what a recording says of its own gaps: lost records, stretches without samples, threads that
//! wait, and programs that are about to be executed.

mod common;

use common::unwound::{Unwound, fixture};
use common::{Writer, words};
use sframe_format::Abi;
use stacks::bytes::Bytes;
use stacks::coverage::Stretch;
use stacks::process::Place;
use stacks::profile::Profile;
use stacks::recording::Recording;
use stacks::session::{Session, Settings};
use stacks::write::Format;
use std::time::Duration;

const IMAGE: (u64, u64, u64) = (0x40_1000, 0x1000, 0x1000);
const STACK: u64 = 0x7ffe_0000_1000;
const LOST: u32 = 2;
const THROTTLE: u32 = 5;
const UNTHROTTLE: u32 = 6;
const SWITCH: u32 = 14;
const OUT: u16 = 1 << 13;

fn writer() -> Writer {
    let mut writer = Writer::default();
    writer.comm(7, "prog", true, 1);
    writer.mmap(7, IMAGE, &fixture("../../tests/fixtures/sframe/linked/prog.x86_64.ld2.47"), 2);
    writer
}

/// A sample of processor 3, as all of the writer's are.
fn sample(writer: &mut Writer, time: u64) {
    writer.sample(7, time, [STACK, 5, 0x40_1080], &[], &words(&[0x40_1049, 0, 0x1234]));
}

/// A record that is no sample, of processor 3.
fn event(writer: &mut Writer, kind: u32, misc: u16, body: &[u64], time: u64) {
    let tail = [words(&[7 | 7 << 32]), words(&[time, 3])].concat();
    writer.record(kind, misc, &[words(body), tail].concat());
}

#[test]
fn gaps_have_their_places_in_time() {
    let mut writer = writer();
    sample(&mut writer, 1_000_000);
    event(&mut writer, LOST, 0, &[1, 12], 5_000_000);
    sample(&mut writer, 6_000_000);
    event(&mut writer, THROTTLE, 0, &[7_000_000, 1, 1], 7_000_000);
    event(&mut writer, UNTHROTTLE, 0, &[9_000_000, 1, 1], 9_000_000);
    sample(&mut writer, 10_000_000);
    let unwound = Unwound::of(&writer);
    let coverage = &unwound.statistics.coverage;
    assert_eq!((unwound.statistics.lost, coverage.lost.count), (12, 1));
    assert_eq!(coverage.lost.first, [Stretch { start: 1_000_000, end: 5_000_000, cpu: Some(3) }]);
    assert_eq!(coverage.throttled.first, [Stretch { start: 7_000_000, end: 9_000_000, cpu: Some(3) }]);
    assert_eq!(coverage.throttled.longest, Duration::from_millis(2));
    let half = coverage.intervals.quantile(0.5).unwrap().as_secs_f64();
    assert!((0.0037..0.0043).contains(&half), "{half}");
    let report = serde_json::to_value(unwound.statistics.report(&unwound.files)).unwrap();
    assert_eq!(report["coverage"]["lost"]["first"][0]["cpu"], 3);
    assert_eq!(report["coverage"]["throttled"]["seconds"], 0.002);
    assert!(report["coverage"].get("share").is_none(), "nobody counted the processor time: {report}");
    // A speed that was not measured is not said to be infinite.
    assert_eq!(report["samples_per_second_unwinding"], 0.0);
}

#[test]
fn the_page_says_what_is_missing() {
    let mut writer = writer();
    sample(&mut writer, 1_000_000);
    event(&mut writer, LOST, 0, &[1, 12], 5_000_000);
    let mut unwound = Unwound::of(&writer);
    unwound.profile.notes = unwound.statistics.coverage.notes();
    let page = String::from_utf8(unwound.written(Format::Html)).unwrap();
    let data = page.split_once("type=\"application/json\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let lost = "samples were lost in 1 stretches of 4.0 ms, the longest of 4.0 ms";
    assert_eq!(data["notes"], serde_json::json!([lost]));
}

#[test]
fn threads_that_wait_are_weighed_by_how_long() {
    let mut writer = writer();
    sample(&mut writer, 100);
    event(&mut writer, SWITCH, OUT, &[], 101);
    event(&mut writer, SWITCH, 0, &[], 4100);
    // It waits until the recording ends.
    sample(&mut writer, 5000);
    event(&mut writer, SWITCH, OUT, &[], 5900);
    let recording = Recording::new(Bytes::from(writer.file())).unwrap();
    let (mut session, mut profile) = (Session::new(Abi::Amd64, Settings::default()), Profile::new(true));
    session.wait_for_switches(0);
    recording.each_event(&mut |event, record| {
        session.handle(event, record, &mut |stack| profile.add(stack));
    });
    session.finish(&mut |stack| profile.add(stack));
    assert_eq!(profile.rows.iter().map(|row| row.period).collect::<Vec<_>>(), [4000, 900]);
}

/// While the kernel makes a process execute a program, the registers are those of the program before.
#[test]
fn samples_of_an_exec_have_only_frames_of_the_kernel() {
    const KERNEL: [u64; 2] = [(-128i64) as u64, 0xffff_ffff_8100_0000];
    let mut writer = Writer::default();
    writer.comm(7, "prog", true, 1);
    let mut registers = [0u64; 17];
    (registers[7], registers[8]) = (STACK, 0x7000_1234);
    let in_kernel = |time: u64| {
        let head = words(&[KERNEL[1], 7 | 7 << 32, time, 3, 1, 2, KERNEL[0], KERNEL[1], 2]);
        [head, words(&registers), words(&[24]), words(&[1, 2, 3]), words(&[24])].concat()
    };
    writer.record(9, 1, &in_kernel(2));
    // Later, such a place in user code is what it seems.
    writer.sample(7, 3, [STACK, 5, 0x7000_1234], &[], &words(&[1, 2, 3]));
    writer.record(9, 1, &in_kernel(4));
    let unwound = Unwound::of(&writer);
    let users = |row: &stacks::profile::Row| {
        let frames = unwound.profile.frames_of(row.stack);
        frames
            .filter(|&frame| !matches!(unwound.profile.frames[frame as usize].place, Place::Kernel(_)))
            .count()
    };
    let rows: Vec<_> = unwound.profile.rows.iter().map(|row| (users(row), row.end.is_rooted())).collect();
    assert_eq!(rows, [(0, true), (1, false), (1, false)]);
}
