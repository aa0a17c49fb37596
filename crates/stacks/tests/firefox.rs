//! Tests the profile for the Firefox Profiler by what the profiler's types say of its tables.

mod common;

use common::unwound::{Unwound, fixture};
use common::{Writer, words};
use serde_json::{Value, json};
use stacks::named::Named;
use stacks::recording::Recording;
use stacks::write::{Format, Kept, write};
use std::time::{Duration, UNIX_EPOCH};

fn profile(named: Named<'_>) -> Value {
    let mut bytes = Vec::new();
    write(Format::Firefox, named, &mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// Columns that number the rows of another table, and what stands for none there.
const NUMBERS: [(&str, &str, &str, Value); 11] = [
    ("samples", "stack", "stackTable", Value::Null),
    ("stackTable", "prefix", "stackTable", Value::Null),
    ("stackTable", "frame", "frameTable", Value::Bool(false)),
    ("frameTable", "func", "funcTable", Value::Bool(false)),
    ("frameTable", "nativeSymbol", "nativeSymbols", Value::Null),
    ("funcTable", "name", "stringArray", Value::Bool(false)),
    ("funcTable", "fileName", "stringArray", Value::Null),
    ("resourceTable", "name", "stringArray", Value::Bool(false)),
    ("resourceTable", "lib", "libs", Value::Null),
    ("nativeSymbols", "name", "stringArray", Value::Bool(false)),
    ("nativeSymbols", "libIndex", "libs", Value::Bool(false)),
];

/// The columns that every table must have, in version 55.
const COLUMNS: [(&str, &[&str]); 7] = [
    ("samples", &["stack", "timeDeltas", "weight"]),
    ("stackTable", &["prefix", "frame"]),
    (
        "frameTable",
        &[
            "address",
            "inlineDepth",
            "category",
            "subcategory",
            "func",
            "nativeSymbol",
            "innerWindowID",
            "line",
            "column",
        ],
    ),
    ("funcTable", &["name", "isJS", "relevantForJS", "resource", "fileName", "lineNumber", "columnNumber"]),
    ("resourceTable", &["lib", "name", "host", "type"]),
    ("nativeSymbols", &["libIndex", "address", "name", "functionSize"]),
    ("markers", &["data", "name", "startTime", "endTime", "phase", "category"]),
];

/// Checks that all tables are there, with columns of one length, and lead to each other.
fn check(profile: &Value) {
    for field in
        ["interval", "startTime", "processType", "stackwalk", "version", "preprocessedProfileVersion"]
    {
        assert!(profile["meta"][field].is_number(), "{field}");
    }
    assert_eq!(profile["meta"]["categories"][0]["color"], "grey");
    for lib in profile["libs"].as_array().unwrap() {
        for field in ["name", "path", "debugName", "debugPath", "breakpadId"] {
            assert!(lib[field].is_string(), "{field} of {lib}");
        }
        assert!(lib["codeId"].is_string() || lib["codeId"].is_null(), "{lib}");
    }
    for thread in profile["threads"].as_array().unwrap() {
        assert!(thread["pid"].is_string() && thread["tid"].is_number() && thread["name"].is_string());
        let rows = |table: &str| match table {
            "libs" => profile["libs"].as_array().unwrap().len(),
            "stringArray" => thread["stringArray"].as_array().unwrap().len(),
            _ => thread[table]["length"].as_u64().unwrap() as usize,
        };
        for (table, columns) in COLUMNS {
            for column in columns {
                let length = thread[table][column].as_array().map(Vec::len);
                assert_eq!(length, Some(rows(table)), "{column} of {table}");
            }
        }
        for (table, column, of, none) in &NUMBERS {
            for (place, number) in thread[table][column].as_array().unwrap().iter().enumerate() {
                let most = if table == of { place } else { rows(of) };
                let is_row = number.as_u64().is_some_and(|number| (number as usize) < most);
                assert!(is_row || number == none, "{column} of {table} is {number}");
            }
        }
    }
}

/// A frame of a sample: function, source file, line, address, depth, and the function in whose code it is.
type Frame = (String, Option<String>, Option<u64>, i64, u64, Option<(String, u64)>);

/// The frames of a thread's sample, outermost first.
fn frames(thread: &Value, sample: usize) -> Vec<Frame> {
    let text = |number: &Value| Some(thread["stringArray"][number.as_u64()? as usize].as_str()?.to_owned());
    let mut frames = Vec::new();
    let mut at = thread["samples"]["stack"][sample].as_u64();
    while let Some(stack) = at {
        let frame = thread["stackTable"]["frame"][stack as usize].as_u64().unwrap() as usize;
        let column = |name: &str| &thread["frameTable"][name][frame];
        let function = column("func").as_u64().unwrap() as usize;
        let symbol = column("nativeSymbol").as_u64().map(|symbol| {
            let column = |name: &str| &thread["nativeSymbols"][name][symbol as usize];
            (text(column("name")).unwrap(), column("address").as_u64().unwrap())
        });
        frames.push((
            text(&thread["funcTable"]["name"][function]).unwrap(),
            text(&thread["funcTable"]["fileName"][function]),
            column("line").as_u64(),
            column("address").as_i64().unwrap(),
            column("inlineDepth").as_u64().unwrap(),
            symbol,
        ));
        at = thread["stackTable"]["prefix"][stack as usize].as_u64();
    }
    frames.reverse();
    frames
}

/// The profile starts when the recording began, not when it is written. If nobody knows, it had its length
/// when its file was written.
#[test]
fn a_profile_starts_when_its_recording_began() {
    let text = "prog 41/42 [001] 7.250000: 1 cpu-clock: \n\t 401080 leaf+0x10 (/bin/prog)\n\n\
        prog 41/42 [001] 7.750000: 1 cpu-clock: \n\t 401080 leaf+0x10 (/bin/prog)\n";
    let mut kept = stacks::script::read(text.as_bytes(), "perf.txt").unwrap();
    let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    kept.profile.has_ended(at(1_700_000_000));
    let start = |kept: &Kept| profile(kept.named())["meta"]["startTime"].as_f64().unwrap();
    assert_eq!(start(&kept), 1_699_999_999_500.0);
    kept.profile.begun = Some(at(1_600_000_000));
    kept.profile.has_ended(at(1_700_000_000));
    assert_eq!(start(&kept), 1_600_000_000_000.0);
    let mut bytes = Vec::new();
    write(Format::Profile, kept.named(), &mut bytes).unwrap();
    assert_eq!(start(&Kept::read(&bytes).unwrap()), 1_600_000_000_000.0);
}

/// `perf record -k CLOCK` says which moment by people's clock a time of samples is.
#[test]
fn times_of_samples_are_moments_if_the_recording_says_so() {
    let mut writer = Writer::default();
    writer.comm(7, "prog", true, 1);
    let moment = |version: u32, time| {
        let mut clocks = Writer::default();
        let words = words(&[29, u64::from(version) | 1 << 32, 1_700_000_000_000_000_000, 5_000_000_000]);
        clocks.record(80, 0, &words);
        let recording = Recording::new([writer.pipe(), clocks.data].concat().into()).unwrap();
        recording.moment(time).map(|moment| moment.duration_since(UNIX_EPOCH).unwrap().as_millis())
    };
    assert_eq!(moment(1, 7_000_000_000), Some(1_700_000_002_000));
    assert_eq!(moment(1, 4_000_000_000), Some(1_699_999_999_000));
    assert_eq!(moment(2, 7_000_000_000), None);
    assert_eq!(Recording::new(writer.pipe().into()).unwrap().moment(7), None);
}

/// Lines, inlined functions and events are those of the samples.
#[test]
fn lines_and_inlined_functions_are_frames_of_their_own() {
    let text = "prog 41/42 [001] 7.250000:    1003009 cpu-clock: \n\
        \t          401080 helper<int> (inlined) a.cc:3\n\
        \t          401080 leaf(int)+0x10 (/bin/prog) a.cc:30\n\
        \t          401049 _start+0x9 (/bin/prog)\n\nprog 41/41 [001] 7.260000: 2000000 off-cpu: \n\
        \tffffffff81000010 schedule+0x10 ([kernel.kallsyms])\n\
        \t          401080 leaf(int)+0x10 (/bin/prog)\n\nprog 41/42 [001] 7.270000:    1003009 cpu-clock: \n\
        \t          401080 leaf(int)+0x10 (/bin/prog)\n";
    let kept = stacks::script::read(text.as_bytes(), "perf.txt").unwrap();
    let profile = profile(kept.named());
    check(&profile);
    assert_eq!(profile["meta"]["interval"], 1.003_009);
    let [waits, runs] = &profile["threads"].as_array().unwrap()[..] else { panic!("{profile}") };
    // The process's first thread comes first.
    assert_eq!((&waits["name"], &runs["name"]), (&json!("prog: off-cpu"), &json!("prog: cpu-clock")));
    assert_eq!((&waits["isMainThread"], &runs["isMainThread"]), (&json!(true), &json!(false)));
    assert_eq!(runs["samples"]["threadCPUDelta"], json!([1003.009, 1003.009]));
    assert_eq!(runs["samples"]["timeDeltas"], json!([0.0, 20.0]));
    let waited = &waits["samples"];
    assert_eq!((&waited["weightType"], &waited["weight"]), (&json!("tracing-ms"), &json!([2.0])));
    assert!(waited.get("threadCPUDelta").is_none());
    let frames = frames(runs, 0);
    let parts: Vec<_> = frames
        .iter()
        .map(|(name, file, line, _, depth, symbol)| {
            let symbol = symbol.as_ref().map(|(name, _)| &**name);
            (&**name, file.as_deref(), *line, *depth, symbol)
        })
        .collect();
    assert_eq!(
        parts,
        [
            ("_start", None, None, 0, Some("_start")),
            ("leaf(int)", Some("a.cc"), Some(30), 0, Some("leaf(int)")),
            ("helper<int>", Some("a.cc"), Some(3), 1, Some("leaf(int)")),
        ]
    );
    let in_kernel = waits["stringArray"].as_array().unwrap();
    assert!(in_kernel.contains(&json!("[kernel.kallsyms]")) && in_kernel.contains(&json!("schedule")));
}

/// Addresses are those from the start of a file, of calls and not behind them.
#[test]
fn addresses_are_relative_to_their_file() {
    let mut writer = Writer::default();
    writer.comm(7, "prog", true, 1);
    let program = fixture("../../tests/fixtures/sframe/linked/prog.x86_64.ld2.47");
    writer.mmap(7, (0x40_1000, 0x1000, 0x1000), &program, 2);
    let stack = words(&[0x40_1049, 0, 0x1234]);
    writer.sample(7, 10, [0x7ffe_0000_1000, 5, 0x40_1080], &[], &stack);
    let bytes = Unwound::of(&writer).written(Format::Firefox);
    let profile: Value = serde_json::from_slice(&bytes).unwrap();
    check(&profile);
    let thread = &profile["threads"][0];
    let start = frames(thread, 0).into_iter().find(|frame| frame.0 == "_start").unwrap();
    assert_eq!((start.3, start.5), (0x1048, Some(("_start".to_owned(), 0x1040))));
    assert_eq!(profile["libs"][0]["path"], program.as_str());
    assert_eq!(profile["libs"][0]["arch"], "x86_64");
    assert_eq!(thread["resourceTable"]["type"][0], 1);
}
