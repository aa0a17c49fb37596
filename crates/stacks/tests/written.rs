//! Tests of what is written and read again: profiles, the text of `perf script`, pictures, and messages of
//! OpenTelemetry.

mod common;

use common::Writer;
use common::unwound::{Unwound, fixture, unwind};
use common::words;
use stacks::session::Settings;
use stacks::write::{Format, Kept, write};

const STACK: u64 = 0x7ffe_0000_1000;

/// `_start` calls `f` in a program of the fixtures.
fn stack() -> Vec<u8> {
    words(&[0x40_1049, 0, 0x1234])
}

fn simple() -> Writer {
    let mut writer = Writer::default();
    writer.comm(7, "prog", true, 1);
    writer.mmap(
        7,
        (0x40_1000, 0x1000, 0x1000),
        &fixture("../../tests/fixtures/sframe/linked/prog.x86_64.ld2.47"),
        2,
    );
    writer.sample(7, 10, [STACK, 5, 0x40_1080], &[], &stack());
    writer
}

/// A profile that was written says all that the one in memory says, in every form.
#[test]
fn a_profile_is_written_again_without_the_files() {
    let mut writer = simple();
    let kernel = [-128i64 as u64, 0xffff_8000_0000_1000];
    writer.sample(7, 11, [STACK, 5, 0x40_1080], &kernel, &stack());
    writer.sample(7, 13, [STACK, 5, 0x7100_0010], &[], &stack());
    let unwound = Unwound::of(&writer);
    let bytes = unwound.written(Format::Profile);
    assert!(Kept::begins(&bytes));
    let kept = Kept::read(&bytes).unwrap();
    for format in [Format::Text, Format::Folded, Format::Json, Format::Pprof, Format::Speedscope, Format::Svg]
    {
        let mut again = Vec::new();
        write(format, kept.named(), &mut again).unwrap();
        assert!(again == unwound.written(format), "{format:?}");
    }
    let report = serde_json::to_value(&kept.report).unwrap();
    assert_eq!(report["samples"], 3);
    for length in 0..bytes.len() {
        assert!(Kept::read(&bytes[..length]).is_err());
    }
}

/// Numbers of things that are not there are refused, and so are stacks that are their own callers.
#[test]
fn a_damaged_profile_is_refused() {
    use flate2::{Compression, read::GzDecoder, write::GzEncoder};
    use std::io::{Read, Write};
    let mut text = String::new();
    GzDecoder::new(&*Unwound::of(&simple()).written(Format::Profile)).read_to_string(&mut text).unwrap();
    let whole: serde_json::Value = serde_json::from_str(&text).unwrap();
    let refused = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut value = whole.clone();
        change(&mut value);
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(value.to_string().as_bytes()).unwrap();
        Kept::read(&packed.finish().unwrap()).err().unwrap_or_default()
    };
    assert_eq!(refused(&|_| {}), "");
    assert!(refused(&|value| value["stacks"][0][0] = 0.into()).contains("no caller of the number 0"));
    assert!(refused(&|value| value["stacks"][0][1] = 99.into()).contains("no frame of the number 99"));
    assert!(refused(&|value| value["rows"][0][0] = 99.into()).contains("no thread of the number 99"));
    assert!(refused(&|value| value["rows"][0][6] = 99.into()).contains("no end of the number 99"));
    assert!(refused(&|value| value["texts"] = serde_json::json!([])).contains("no text of the number"));
    assert!(refused(&|value| value["modules"] = serde_json::json!([])).contains("no file of the number"));
    assert!(refused(&|value| value["version"] = 2.into()).contains("version 2"));
    assert!(refused(&|value| value["form"] = "other".into()).contains("calls itself"));
}

/// The text of `perf script -F +srcline` and of this crate gives the samples again.
#[test]
fn the_text_of_perf_script_is_read() {
    let text = "# captured on: Sat\n#\npython3 41/42 [001] 7.250000:    1003009 cpu-clock:uppp: \n\
        \tffffffff81000010 do_thing+0x10 ([kernel.kallsyms])\n\
        \t          401080 helper<int> (inlined) a.cc:3\n\
        \t          401080 leaf(int)+0x10 (/bin/prog) a.cc:30\n\
        \t          401049 _start+0x9 (/bin/prog)\n\
        \t    7f0000000010 [unknown] ([unknown])\n\npython3 41/42 [001] 7.260000: 1003009 cpu-clock:uppp: \n\
        \t          401080 leaf(int)+0x10 (/bin/other)\n";
    assert!(stacks::script::begins(text.as_bytes()) && !stacks::script::begins(b"PERFILE2"));
    let kept = stacks::script::read(text.as_bytes(), "perf.txt").unwrap();
    let written = |format| {
        let mut output = Vec::new();
        write(format, kept.named(), &mut output).unwrap();
        String::from_utf8(output).unwrap()
    };
    let folded = "python3;[unknown];_start;leaf(int);helper<int>;do_thing 1\npython3;leaf(int) 1\n";
    assert_eq!(written(Format::Folded), folded);
    let again = written(Format::Text);
    assert!(again.starts_with("python3 41/42 [001] 7.250000: 1003009 cpu-clock:uppp:\n"), "{again}");
    assert!(again.contains(" leaf(int)+0x10 (/bin/prog) a.cc:30\n"), "{again}");
    // What was written is read again.
    let second = stacks::script::read(again.as_bytes(), "perf.txt").unwrap();
    let mut folded_again = Vec::new();
    write(Format::Folded, second.named(), &mut folded_again).unwrap();
    assert_eq!(String::from_utf8(folded_again).unwrap(), folded);
    let wrong = stacks::script::read(b"a 1 2.5: x:\n\tnothing\n", "t").err().unwrap();
    assert!(wrong.starts_with("line 2: expected a frame"), "{wrong}");
}

/// What perf prints of names is read again, whatever they contain.
#[test]
fn odd_names_of_threads_are_read_again() {
    for (name, again) in [
        ("\u{1}\u{2} a", "a"),
        ("[a] b:", "[a] b:"),
        ("\n \u{85}", ":-1"),
        ("a\u{1}b", "a b"),
        ("7 8", "7 8"),
    ] {
        let text = "x 41/42 [001] 7.250000: 100 cpu-clock: \n\t 401080 leaf+0x10 (/bin/prog)\n";
        let mut kept = stacks::script::read(text.as_bytes(), "t").unwrap();
        kept.profile.threads[0].name = name.to_owned();
        let mut written = Vec::new();
        write(Format::Text, kept.named(), &mut written).unwrap();
        let second = stacks::script::read(&written, "t").unwrap();
        let thread = &second.profile.threads[0];
        assert_eq!((thread.name.as_str(), thread.pid, thread.tid), (again, 41, 42), "{name:?}");
    }
}

/// What is read of any text is written so that it is read again.
#[test]
fn texts_with_random_changes_are_written_and_read_again() {
    let text = b"a b 41/42 [001] 7.250000: 100 cpu-clock:u: \n\t 401080 leaf+0x10 (/bin/prog) a.c:3\n\t 10 [unknown] ([unknown])\n\nx 7 1.5: 9 ev: \n\t 1 f (g)\n\ny 3/3 1 e:\n\t 1 f (g)\n\nz 3/3 1 : ::\n\t 1 f (g)\n";
    let odd = [b' ', b'\n', b'\t', b'/', b':', b'[', b']', b'(', b'#', b'.', b'0', b'9', 1, 0x85, 0xc2, 0xff];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut number = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as usize % below
    };
    let mut read = 0;
    for _ in 0..30_000 {
        let mut changed = text.to_vec();
        for _ in 0..=number(4) {
            let at = number(changed.len());
            match number(3) {
                0 => changed[at] = odd[number(odd.len())],
                1 => changed.insert(at, odd[number(odd.len())]),
                _ => drop(changed.remove(at)),
            }
        }
        let Ok(kept) = stacks::script::read(&changed, "t") else { continue };
        read += 1;
        let mut written = Vec::new();
        write(Format::Text, kept.named(), &mut written).unwrap();
        let again = stacks::script::read(&written, "t");
        assert!(again.is_ok(), "{:?}: {:?}", again.err(), String::from_utf8_lossy(&changed));
    }
    assert!(read > 3000, "{read}");
}

/// A JIT compiler may use one address for many functions. Each keeps its name, and none costs more than the
/// one before.
#[test]
fn functions_may_follow_each_other_at_one_address() {
    use std::fmt::Write;
    let mut text = String::new();
    for number in 0..40_000 {
        let path = ["//anon", "/bin/prog"][number % 2];
        writeln!(text, "node {}/7 1.000000: 1 cpu-clock:\n\t 1000 f{number}+0x0 ({path})\n", number % 3)
            .unwrap();
    }
    let kept = stacks::script::read(text.as_bytes(), "t").unwrap();
    let mut folded = Vec::new();
    write(Format::Folded, kept.named(), &mut folded).unwrap();
    let folded = String::from_utf8(folded).unwrap();
    assert_eq!(folded.lines().count(), 40_000);
    assert!(folded.contains("node;f39999 1\n") && folded.contains("node;f0 1\n"), "{}", &folded[..80]);
}

/// Nanoseconds of waiting are not added to samples.
#[test]
fn folded_stacks_keep_events_apart() {
    let mut unwound = Unwound::of(&simple());
    unwound.profile.events = ["cpu-clock", "off-cpu", "never"].map(str::to_owned).to_vec();
    let one = String::from_utf8(unwound.written(Format::Folded)).unwrap();
    assert!(one.starts_with("prog;") && one.ends_with(";leaf 1\n"), "{one}");
    let mut waits = unwound.profile.rows[0];
    (waits.event, waits.period) = (1, 70);
    unwound.profile.rows.push(waits);
    let both = String::from_utf8(unwound.written(Format::Folded)).unwrap();
    let lines: Vec<&str> = both.lines().collect();
    assert!(lines[0].starts_with("cpu-clock;prog;") && lines[0].ends_with(" 1"), "{both}");
    assert!(lines[1].starts_with("off-cpu;prog;") && lines[1].ends_with(" 70"), "{both}");
}

/// A picture is well-formed, has a box for each function, and no name that XML forbids.
#[test]
fn a_picture_shows_the_functions() {
    let mut writer = simple();
    writer.comm(7, "a<b&\x01", false, 3);
    writer.sample(7, 11, [STACK, 5, 0x40_1100], &[], &stack());
    let picture = String::from_utf8(Unwound::of(&writer).written(Format::Svg)).unwrap();
    assert!(picture.starts_with("<?xml") && picture.ends_with("</svg>\n"), "{picture}");
    assert!(picture.contains("a &lt;test&gt;: 2 samples") && picture.contains("a&lt;b&amp; "), "{picture}");
    assert!(picture.contains("<title>_start ("), "{picture}");
    assert!(
        picture.contains("<title>leaf (") && picture.contains(": 1 sample, 50.00 %</title>"),
        "{picture}"
    );
    assert_eq!(picture.matches("<g>").count(), picture.matches("</g>").count());
    assert!(!picture.chars().any(|letter| letter.is_control() && letter != '\n'), "{picture}");
}

/// A part of OpenTelemetry's `profiles.proto` 1.9 and of its `common.proto`.
mod otlp {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ProfilesData {
        #[prost(message, repeated, tag = "1")]
        pub resource_profiles: Vec<ResourceProfiles>,
        #[prost(message, optional, tag = "2")]
        pub dictionary: Option<Dictionary>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ResourceProfiles {
        #[prost(message, repeated, tag = "2")]
        pub scope_profiles: Vec<ScopeProfiles>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ScopeProfiles {
        #[prost(message, optional, tag = "1")]
        pub scope: Option<Scope>,
        #[prost(message, repeated, tag = "2")]
        pub profiles: Vec<Profile>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Scope {
        #[prost(string, tag = "1")]
        pub name: String,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Dictionary {
        #[prost(message, repeated, tag = "1")]
        pub mapping_table: Vec<Mapping>,
        #[prost(message, repeated, tag = "2")]
        pub location_table: Vec<Location>,
        #[prost(message, repeated, tag = "3")]
        pub function_table: Vec<Function>,
        #[prost(message, repeated, tag = "4")]
        pub link_table: Vec<Link>,
        #[prost(string, repeated, tag = "5")]
        pub string_table: Vec<String>,
        #[prost(message, repeated, tag = "6")]
        pub attribute_table: Vec<Attribute>,
        #[prost(message, repeated, tag = "7")]
        pub stack_table: Vec<Stack>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Profile {
        #[prost(message, optional, tag = "1")]
        pub sample_type: Option<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub samples: Vec<Sample>,
        #[prost(fixed64, tag = "3")]
        pub time_unix_nano: u64,
        #[prost(uint64, tag = "4")]
        pub duration_nano: u64,
        #[prost(message, optional, tag = "5")]
        pub period_type: Option<ValueType>,
        #[prost(int64, tag = "6")]
        pub period: i64,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ValueType {
        #[prost(int32, tag = "1")]
        pub kind: i32,
        #[prost(int32, tag = "2")]
        pub unit: i32,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Sample {
        #[prost(int32, tag = "1")]
        pub stack_index: i32,
        #[prost(int32, repeated, tag = "2")]
        pub attribute_indices: Vec<i32>,
        #[prost(int32, tag = "3")]
        pub link_index: i32,
        #[prost(int64, repeated, tag = "4")]
        pub values: Vec<i64>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Mapping {
        #[prost(uint64, tag = "1")]
        pub memory_start: u64,
        #[prost(uint64, tag = "2")]
        pub memory_limit: u64,
        #[prost(int32, tag = "4")]
        pub filename: i32,
        #[prost(int32, repeated, tag = "5")]
        pub attribute_indices: Vec<i32>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Stack {
        #[prost(int32, repeated, tag = "1")]
        pub location_indices: Vec<i32>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Location {
        #[prost(int32, tag = "1")]
        pub mapping_index: i32,
        #[prost(uint64, tag = "2")]
        pub address: u64,
        #[prost(message, repeated, tag = "3")]
        pub lines: Vec<Line>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Line {
        #[prost(int32, tag = "1")]
        pub function_index: i32,
        #[prost(int64, tag = "2")]
        pub line: i64,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Function {
        #[prost(int32, tag = "1")]
        pub name: i32,
        #[prost(int32, tag = "2")]
        pub system_name: i32,
        #[prost(int32, tag = "3")]
        pub filename: i32,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Link {
        #[prost(bytes = "vec", tag = "1")]
        pub trace_id: Vec<u8>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Attribute {
        #[prost(int32, tag = "1")]
        pub key: i32,
        #[prost(message, optional, tag = "2")]
        pub value: Option<AnyValue>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct AnyValue {
        #[prost(string, optional, tag = "1")]
        pub text: Option<String>,
        #[prost(int64, optional, tag = "3")]
        pub number: Option<i64>,
    }
}

#[test]
fn opentelemetry_reads_back_field_by_field() {
    use prost::Message;
    let mut writer = simple();
    writer.sample(7, 30, [STACK, 5, 0x40_1080], &[], &stack());
    let mut unwound = Unwound::of(&writer);
    unwound.profile.events = ["cpu-clock", "off-cpu"].map(str::to_owned).to_vec();
    let mut waits = unwound.profile.rows[0];
    (waits.event, waits.period) = (1, 70);
    unwound.profile.rows.push(waits);
    let data = otlp::ProfilesData::decode(&*unwound.written(Format::Otlp)).unwrap();
    let dictionary = data.dictionary.unwrap();
    // All tables begin with a value of zeros.
    assert_eq!(dictionary.string_table[0], "");
    assert_eq!(dictionary.mapping_table[0], otlp::Mapping::default());
    assert_eq!(dictionary.location_table[0], otlp::Location::default());
    assert_eq!(dictionary.function_table[0], otlp::Function::default());
    assert_eq!(dictionary.link_table, [otlp::Link::default()]);
    assert_eq!(dictionary.attribute_table[0], otlp::Attribute::default());
    assert_eq!(dictionary.stack_table[0], otlp::Stack::default());
    let text = |number: i32| dictionary.string_table[number as usize].as_str();
    let scope = &data.resource_profiles[0].scope_profiles[0];
    assert_eq!(scope.scope.as_ref().unwrap().name, "sframe");
    let kinds: Vec<_> = scope.profiles.iter().map(|profile| profile.sample_type.as_ref().unwrap()).collect();
    let kinds: Vec<_> = kinds.into_iter().map(|kind| (text(kind.kind), text(kind.unit))).collect();
    assert_eq!(kinds, [("cpu", "nanoseconds"), ("off-cpu", "nanoseconds")]);
    let [first, second] = &scope.profiles[..] else { panic!("{} profiles", scope.profiles.len()) };
    assert_eq!((first.duration_nano, first.period, first.time_unix_nano), (20, 1, 0));
    assert_eq!(
        (first.samples.len(), &first.samples[0].values[..], &second.samples[0].values[..]),
        (1, &[2][..], &[70][..])
    );
    assert_eq!(first.samples[0].stack_index, second.samples[0].stack_index);
    let attributes: Vec<_> = first.samples[0]
        .attribute_indices
        .iter()
        .map(|&number| {
            let attribute = &dictionary.attribute_table[number as usize];
            let value = attribute.value.as_ref().unwrap();
            (text(attribute.key), value.text.as_deref(), value.number)
        })
        .collect();
    let expected = [
        ("process.pid", None, Some(7)),
        ("process.executable.name", Some("prog"), None),
        ("thread.id", None, Some(7)),
        ("thread.name", Some("prog"), None),
    ];
    assert_eq!(attributes, expected);
    let stack = &dictionary.stack_table[first.samples[0].stack_index as usize];
    let locations: Vec<_> =
        stack.location_indices.iter().map(|&number| &dictionary.location_table[number as usize]).collect();
    assert_eq!(locations[1].address, 0x40_1048);
    let function = &dictionary.function_table[locations[1].lines[0].function_index as usize];
    assert_eq!((text(function.name), text(function.system_name)), ("_start", "_start"));
    let mapping = &dictionary.mapping_table[locations[1].mapping_index as usize];
    assert!(text(mapping.filename).ends_with("prog.x86_64.ld2.47") && mapping.memory_limit > 0x40_1100);
}

/// perf.data has addresses and mappings: what reads it again finds the same frames, and from them the same
/// names.
#[test]
fn call_chains_for_perf_read_back() {
    let mut writer = simple();
    let kernel = [-128i64 as u64, 0xffff_8000_0000_1000];
    writer.sample(7, 11, [STACK, 5, 0x40_1080], &kernel, &stack());
    writer.sample(7, 12, [STACK, 5, 0x7100_0010], &[], &stack());
    // Another program in the same process, and the same file at another address.
    writer.comm(7, "other", true, 20);
    writer.mmap(
        7,
        (0x50_1000, 0x1000, 0x1000),
        &fixture("../../tests/fixtures/sframe/linked/prog.x86_64.ld2.47"),
        21,
    );
    writer.sample(7, 30, [STACK, 5, 0x50_1080], &[], &words(&[0x50_1049, 0, 0x1234]));
    let unwound = Unwound::of(&writer);
    let again = unwind(unwound.written(Format::PerfData), Settings::default());
    assert_eq!(again.damage, None);
    let stacks = |unwound: &Unwound| -> Vec<_> {
        let names = String::from_utf8(unwound.written(Format::Folded)).unwrap();
        (0..4)
            .map(|sample| unwound.frames(sample).into_iter().map(|frame| frame.0).collect::<Vec<_>>())
            .zip(names.lines().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    };
    assert_eq!(stacks(&again), stacks(&unwound));
    let heads = |unwound: &Unwound| -> Vec<_> {
        let rows = unwound.profile.rows.iter();
        rows.map(|row| (row.time, row.cpu, row.period, unwound.profile.threads[row.thread as usize].clone()))
            .collect()
    };
    assert_eq!(heads(&again), heads(&unwound));
}
