//! Tests the command `sframe` as its users see it: its output and its exit status.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/sframe").join(name)
}

fn sframe(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sframe"));
    command.args(arguments.iter().map(|argument| match argument.strip_prefix("fixture:") {
        Some(name) => fixture(name).into_os_string(),
        None => argument.into(),
    }));
    split(command.output().unwrap())
}

fn split(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn right_frames_are_fine_and_wrong_ones_are_findings() {
    let (status, text, _) = sframe(&["verify", "fixture:linked/prog.x86_64.ld2.47"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("11 without a difference, 0 wrong"), "{text}");
    let (status, text, _) = sframe(&["verify", "fixture:linked/prog_pltgot.x86_64.ld2.47"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("wrong CFA at 0x401010, 8 bytes: expected rsp+8, found rsp+16"), "{text}");
    assert!(text.contains("since the link, sframe attach makes the rows anew"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let attached = folder.path().join("attached").to_str().unwrap().to_owned();
    let (status, _, complaint) =
        sframe(&["attach", "-o", &attached, "fixture:linked/prog_pltgot.x86_64.ld2.47"]);
    assert_eq!(status, 0, "{complaint}");
    let (status, text, _) = sframe(&["verify", &attached]);
    assert!(status == 0 && !text.contains("attach makes"), "{text}");
}

#[test]
fn frames_are_compared_without_section_headers_too() {
    let folder = tempfile::tempdir().unwrap();
    let bare = folder.path().join("bare").to_str().unwrap().to_owned();
    for name in ["prog.x86_64.mold3.0", "prog.aarch64.mold3.0", "prog.s390x.mold3.0"] {
        let whole = format!("fixture:linked/{name}");
        let mut bytes = std::fs::read(fixture(&format!("linked/{name}"))).unwrap();
        // `e_shoff`, `e_shnum` and `e_shstrndx`.
        bytes[40..48].fill(0);
        bytes[60..64].fill(0);
        std::fs::write(&bare, bytes).unwrap();
        let summary = |file: &str| {
            let (status, text, complaint) = sframe(&["verify", file]);
            assert_eq!(status, 0, "{text}{complaint}");
            let line = text.lines().find(|line| line.starts_with("  .eh_frame:")).map(str::to_owned);
            line.unwrap_or_else(|| panic!("{name}: {text}"))
        };
        assert_eq!(summary(&bare), summary(&whole), "{name}");
    }
}

#[test]
fn code_without_frames_is_a_finding_only_if_asked_for() {
    let special = "fixture:v2e1-gas2.45/special.s390x.o";
    assert_eq!(sframe(&["verify", special]).0, 0);
    assert_eq!(sframe(&["verify", "--complete", special]).0, 1);
}

#[test]
fn files_without_frames_and_no_files_are_unusable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.txt");
    std::fs::write(&path, "no ELF file").unwrap();
    let (status, _, complaint) = sframe(&["verify", path.to_str().unwrap()]);
    assert_eq!(status, 2);
    assert!(complaint.contains("neither an ELF file nor an archive"), "{complaint}");
    assert_eq!(sframe(&["dump", "/no/such/file"]).0, 2);
    let own = env!("CARGO_BIN_EXE_sframe");
    let (status, _, complaint) = sframe(&["lookup", own, "main"]);
    assert_eq!(status, 2, "{complaint}");
    assert!(complaint.contains("--derived"), "{complaint}");
    let (status, text, complaint) = sframe(&["lookup", "--derived", own, "main"]);
    assert_eq!(status, 0, "{complaint}");
    assert!(text.contains("cfa=rsp+8"), "{text}");
    let (status, _, complaint) = sframe(&["dump", own]);
    assert!(status == 2 && complaint.contains("--derived"), "{complaint}");
}

/// Every command that reads rows can derive them. So can `dump`, in each of its forms; for objects, it shows
/// section and offset.
#[test]
fn dump_prints_what_eh_frame_gives() {
    let object = "fixture:v3-gas2.47/demo.x86_64.o";
    let functions = |options: &[&str]| {
        let (status, text, complaint) = sframe(&[&["dump", "--json"], options, &[object]].concat());
        assert_eq!(status, 0, "{complaint}");
        let dump: serde_json::Value = serde_json::from_str(&text).unwrap();
        let section = &dump[0]["sections"][0];
        let functions = section["blobs"][0]["functions"].as_array().unwrap();
        let place =
            |f: &serde_json::Value| ["section", "address", "symbol", "size"].map(|key| f[key].to_string());
        let mut places: Vec<_> = functions.iter().map(place).collect();
        places.sort();
        (section["name"].as_str().unwrap().to_owned(), places)
    };
    let stored = functions(&[]);
    let derived = functions(&["--derived", "--derived-always"]);
    assert_eq!((stored.0.as_str(), derived.0.as_str()), (".sframe", ".sframe (derived)"));
    assert_eq!(functions(&["--derived"]), stored, "a file's own SFrame comes first");
    assert_eq!(derived.1, stored.1);
    let (status, text, _) = sframe(&["dump", "--readelf", "--derived", "--derived-always", object]);
    assert!(status == 0 && text.contains("SFrame section .sframe (derived)"), "{text}");
}

#[test]
fn archives_are_read_member_by_member() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("libdemo.a");
    for (flags, name) in [("rcs", "libdemo.a"), ("rcsT", "libthin.a")] {
        let archive = archive.with_file_name(name);
        let mut ar = Command::new("ar");
        ar.arg(flags).arg(&archive);
        ar.arg(fixture("v3-gas2.47/demo.x86_64.o")).arg(fixture("v2-gas2.44/main.x86_64.o"));
        assert!(ar.status().unwrap().success());
        let (status, text, complaint) = sframe(&["verify", "--verbose", archive.to_str().unwrap()]);
        assert_eq!(status, 0, "{text}{complaint}");
        assert!(
            text.contains(&format!("{name}(")) && text.contains("demo.x86_64.o): SFrame V3, 7 functions"),
            "{text}"
        );
        assert!(text.contains("2 files, 10 SFrame functions, 0 errors"), "{text}");
    }
}

#[test]
fn a_section_may_come_from_standard_input() {
    let elf = std::fs::read(fixture("linked/prog.x86_64.ld2.47")).unwrap();
    let start = elf.windows(4).position(|bytes| bytes == [0xe2, 0xde, 3, 5]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sframe"));
    command.args(["dump", "--json", "--address", "0x402000", "-"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&elf[start..start + 0x100]).unwrap();
    let (status, text, complaint) = split(child.wait_with_output().unwrap());
    assert_eq!(status, 0, "{complaint}");
    let files: serde_json::Value = serde_json::from_str(&text).unwrap();
    let section = &files[0]["sections"][0];
    assert_eq!((&section["address"], &files[0]["file"]), (&"0x402000".into(), &"<stdin>".into()));
}

#[test]
fn json_has_the_same_facts_as_text() {
    let (status, text, _) = sframe(&["verify", "--json", "fixture:linked/prog_pltgot.x86_64.ld2.47"]);
    assert_eq!(status, 1);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["total"]["wrong"]["functions"], 1);
    assert_eq!(report["files"][0]["comparison"]["differences"][0]["expected"], "rsp+8");
    let (_, text, _) = sframe(&["stat", "--json", "fixture:v3-gas2.47/demo.x86_64.o"]);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["files"][0]["functions"], 7);
    let (_, text, _) = sframe(&["dump", "--json", "-C", "fixture:v3-gas2.47/inl.x86_64.o"]);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let function = &report[0]["sections"][0]["blobs"][0]["functions"][1];
    assert_eq!((&function["symbol"], &function["size"]), (&"Base::f(int)".into(), &34.into()));
    assert_eq!(function["rows"][1]["cfa"], "rsp+16");
}

/// An object that claims that its relocations for a section have no addends.
fn without_addends(section: &str) -> Vec<u8> {
    use object::elf::{FileHeader64, SHT_REL};
    use object::read::elf::{FileHeader, SectionHeader};
    let mut bytes = std::fs::read(fixture("v3-gas2.47/demo.x86_64.o")).unwrap();
    let header = FileHeader64::<object::LittleEndian>::parse(&*bytes).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, &*bytes).unwrap();
    let name = format!(".rela{section}");
    let named = |s: &_| sections.section_name(endian, s).unwrap() == name.as_bytes();
    let index = sections.iter().position(named).unwrap();
    assert_eq!(sections.iter().nth(index).unwrap().sh_type(endian), object::elf::SHT_RELA);
    let at = header.e_shoff(endian) as usize + index * 64 + 4;
    bytes[at..at + 4].copy_from_slice(&SHT_REL.to_le_bytes());
    bytes
}

#[test]
fn relocations_without_addends_are_told_and_not_taken_for_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rel.o").display().to_string();
    for (section, commands) in [
        (".sframe", &["split", "derive", "verify", "dump", "stat"][..]),
        (".eh_frame", &["derive", "verify"]),
    ] {
        let bytes = without_addends(section);
        for command in commands {
            std::fs::write(&path, &bytes).unwrap();
            let (status, text, complaint) = sframe(&[command, &path]);
            assert_eq!(status, 2, "{command} {section}: {text}{complaint}");
            assert!(
                complaint.contains("relocations without addends (SHT_REL) for "),
                "{command}: {complaint}"
            );
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "{command} {section}");
        }
    }
}

/// A program in which a walk over `.eh_frame` ends after the first FDE: a terminator replaces the start of
/// the second one. `.eh_frame_hdr` leads to the others.
fn with_a_terminator_in_between(program: &Path) -> Vec<u8> {
    use object::{Object, ObjectSection};
    let mut bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let start = file.section_by_name(".eh_frame").unwrap().file_range().unwrap().0 as usize;
    let big = !file.is_little_endian();
    let word = |bytes: &[u8], at: usize| {
        let word = *bytes[at..].first_chunk().unwrap();
        if big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    };
    let (mut at, mut fdes) = (start, Vec::new());
    while word(&bytes, at) > 0 {
        if word(&bytes, at + 4) > 0 {
            fdes.push(at);
        }
        at += 4 + word(&bytes, at) as usize;
    }
    let at = fdes[1];
    let length = word(&bytes, at);
    for (place, value) in [(at, 0), (at + 4, length - 4), (at + 8, 8)] {
        let value: u32 = value;
        let value = if big { value.to_be_bytes() } else { value.to_le_bytes() };
        bytes[place..place + 4].copy_from_slice(&value);
    }
    bytes
}

#[test]
fn functions_behind_a_terminator_are_those_that_the_search_table_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let json = |arguments: &[&str]| -> serde_json::Value {
        let (status, text, complaint) = sframe(arguments);
        assert_eq!(status, 0, "{text}{complaint}");
        serde_json::from_str(&text).unwrap()
    };
    let functions = |report: &serde_json::Value, what: &str| {
        report["files"][0]["comparison"][what]["functions"].as_u64().unwrap()
    };
    for machine in ["x86_64", "aarch64", "s390x"] {
        let whole = fixture(&format!("linked/prog.{machine}.mold3.0"));
        let count = functions(&json(&["verify", "--json", whole.to_str().unwrap()]), "cfi");
        std::fs::write(path("prog"), with_a_terminator_in_between(&whole)).unwrap();
        for options in [&["verify", "--json"][..], &["verify", "--json", "--derived"]] {
            let report = json(&[options, &[&path("prog")]].concat());
            // No FDE can be compared with the rows of the replaced one.
            assert_eq!(functions(&report, "cfi"), count - 1, "{machine} {options:?}");
            assert_eq!(functions(&report, "covered"), count - 1, "{machine} {options:?}");
        }
        let (status, _, complaint) = sframe(&["attach", &path("prog"), "-o", &path("attached")]);
        assert_eq!(status, 0, "{complaint}");
        let report = json(&["verify", "--json", &path("attached")]);
        assert_eq!(functions(&report, "covered"), count - 1, "{machine}");
        assert_eq!(functions(&report, "extra"), 0, "{machine}");
    }
}

/// A program with an old FDE, as tools leave it that rewrite functions: the third one describes the code of
/// the second one, and `.eh_frame_hdr` does not lead to it.
fn with_an_old_fde(program: &Path) -> Vec<u8> {
    use object::{Object, ObjectSection};
    let mut bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let section = |name| file.section_by_name(name).unwrap();
    let (frames, header) = (section(".eh_frame"), section(".eh_frame_hdr"));
    let place = |section: &object::Section<'_, '_>| section.file_range().unwrap().0 as usize;
    let (start, table) = (place(&frames), place(&header));
    let distance = frames.address() as i64 - header.address() as i64;
    let big = !file.is_little_endian();
    let word = |bytes: &[u8], at: usize| {
        let word = *bytes[at..].first_chunk().unwrap();
        if big { i32::from_be_bytes(word) } else { i32::from_le_bytes(word) }
    };
    let put = |bytes: &mut [u8], at: usize, value: i32| {
        bytes[at..at + 4].copy_from_slice(&if big { value.to_be_bytes() } else { value.to_le_bytes() });
    };
    let (mut at, mut fdes) = (start, Vec::new());
    while word(&bytes, at) > 0 {
        if word(&bytes, at + 4) > 0 {
            fdes.push(at);
        }
        at += 4 + word(&bytes, at) as usize;
    }
    let (new, old) = (fdes[1], fdes[2]);
    let begin = word(&bytes, new + 8) + (new as i32 - old as i32);
    put(&mut bytes, old + 8, begin);
    let count = word(&bytes, table + 8) as usize;
    let entry = |number: usize| table + 12 + 8 * number;
    let leads_to = distance as i32 + (old - start) as i32;
    let of_old = (0..count).find(|&number| word(&bytes, entry(number) + 4) == leads_to).unwrap();
    bytes.copy_within(entry(of_old + 1)..entry(count), entry(of_old));
    put(&mut bytes, table + 8, count as i32 - 1);
    bytes
}

/// BOLT leaves the FDEs of the functions that it rewrites in place.
#[test]
fn old_fdes_of_rewritten_code_are_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for machine in ["x86_64", "aarch64", "s390x"] {
        let whole = fixture(&format!("linked/prog.{machine}.mold3.0"));
        std::fs::write(path("prog"), with_an_old_fde(&whole)).unwrap();
        let (status, text, complaint) = sframe(&["attach", "-v", &path("prog"), "-o", &path("attached")]);
        assert_eq!(status, 0, "{text}{complaint}");
        assert!(complaint.contains("an old FDE of rewritten code"), "{complaint}");
        let (status, text, complaint) = sframe(&["verify", &path("attached")]);
        assert_eq!(status, 0, "{text}{complaint}");
        assert!(text.contains(".eh_frame_hdr lists new ones: 1") && text.contains(" 0 wrong"), "{text}");
        assert!(!text.contains("not covered"), "{text}");
        let (status, text, _) = sframe(&["verify", "--derived", &path("prog")]);
        assert!(status == 0 && text.contains(" 0 wrong"), "{text}");
    }
}

#[path = "../../crates/stacks/tests/common/mod.rs"]
mod recordings;

/// A recording of the fixture program in its function `leaf`, which `_start` called.
fn recording() -> Vec<u8> {
    let program = fixture("linked/prog.x86_64.ld2.47").canonicalize().unwrap().display().to_string();
    let mut writer = recordings::Writer::default();
    writer.comm(7, "prog", true, 1);
    writer.mmap(7, (0x40_1000, 0x1000, 0x1000), &program, 2);
    writer.sample(7, 10, [0x7ffe_0000, 5, 0x40_1080], &[], &recordings::words(&[0x40_1049, 0, 0x1234]));
    writer.file()
}

#[test]
fn samples_of_a_recording_are_written_in_the_form_that_the_output_s_name_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("perf.data"), recording()).unwrap();
    let (status, text, complaint) = sframe(&["stacks", &path("perf.data"), "--stats"]);
    assert_eq!(status, 0, "{complaint}");
    assert!(text.contains("_start+0x9"), "{text}");
    assert!(complaint.contains("an address in no file") && complaint.contains("sframe  "), "{complaint}");
    let written = |name: &str| {
        let (status, text, complaint) = sframe(&["stacks", &path("perf.data"), "-o", &path(name)]);
        assert_eq!((status, text.as_str(), complaint.as_str()), (0, "", ""), "{name}");
        std::fs::read(path(name)).unwrap()
    };
    assert!(written("a.folded").starts_with(b"prog;"));
    assert!(written("a.json").starts_with(b"[\n{"));
    assert!(written("a.pb.gz").starts_with(&[0x1f, 0x8b]));
    assert!(written("a.html").starts_with(b"<!DOCTYPE html>"));
    assert_eq!(written("a.txt"), text.as_bytes());
}

#[test]
fn a_damaged_recording_gives_what_it_has_and_is_unusable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let whole = recording();
    std::fs::write(&path, &whole[..whole.len() - 200]).unwrap();
    let (status, _, complaint) = sframe(&["stacks", path.to_str().unwrap()]);
    assert_eq!(status, 2, "{complaint}");
    assert!(complaint.contains("cut off"), "{complaint}");
    let (status, _, complaint) = sframe(&["stacks", "fixture:linked/prog.x86_64.ld2.47"]);
    assert_eq!(status, 2);
    assert!(complaint.contains("not a recording of perf"), "{complaint}");
}

#[test]
fn a_command_is_sampled_where_the_kernel_allows_it() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("stacks.json").display().to_string();
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; exit 3";
    let (status, _, complaint) = sframe(&["record", "-o", &page, "--", "sh", "-c", script]);
    if status == 2 {
        assert!(
            complaint.contains("does not allow") || complaint.contains("takes no samples"),
            "{complaint}"
        );
        return;
    }
    assert_eq!(status, 3, "{complaint}");
    let samples: serde_json::Value = serde_json::from_slice(&std::fs::read(page).unwrap()).unwrap();
    let samples = samples.as_array().unwrap();
    let rooted = samples.iter().filter(|sample| sample["rooted"] == true).count();
    assert!(samples.len() > 10 && rooted * 10 > samples.len() * 8, "{rooted} of {}", samples.len());
    let (status, _, complaint) = sframe(&["record", "--", "/no/such/program"]);
    assert_eq!(status, 2);
    assert!(complaint.contains("cannot execute"), "{complaint}");
}

/// If a command cannot write its output, it says so before it begins to work, and not at the end.
#[test]
fn outputs_are_checked_before_work_begins() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let started = at("started");
    let touch = format!("echo > {started}");
    let command = ["--", "sh", "-c", &touch];
    let (none, picture, twice) = (at("none/x.json"), at("x.png"), at("x.html"));
    for (options, reason) in [
        (&["-o", &none][..], "No such file or directory"),
        (&["--html", &none], "No such file or directory"),
        (&["-o", &picture], "--format"),
        (&["-o", &twice, "--html", &twice], "named twice"),
        (&["-o", folder.path().to_str().unwrap()], "a folder"),
    ] {
        let (status, _, complaint) = sframe(&[&["record"], options, &command].concat());
        assert!(status == 2 && complaint.contains(reason), "{options:?}: {complaint}");
        assert!(!complaint.contains("os error"), "{complaint}");
        assert!(!Path::new(&started).exists(), "{options:?}: the command was started");
        let (status, _, complaint) = sframe(&[&["stacks"], options, &["/no/recording"]].concat());
        assert!(status == 2 && complaint.contains(reason), "{options:?}: {complaint}");
    }
    let program = at("program");
    std::fs::copy(fixture("linked/prog.x86_64.ld2.47"), &program).unwrap();
    let before = std::fs::read(&program).unwrap();
    let object = fixture("v3-gas2.47/demo.x86_64.o").to_str().unwrap().to_owned();
    for (command, file) in [
        ("attach", &program),
        ("index", &program),
        ("table", &program),
        ("derive", &program),
        ("derive", &object),
        ("split", &object),
    ] {
        let (status, _, complaint) = sframe(&[command, "-o", &none, file]);
        assert!(status == 2 && complaint.contains("No such file or directory"), "{command}: {complaint}");
    }
    // A file that is not a changed input must not replace the input.
    for words in [&["table", "-o"][..], &["derive", "-o"], &["index", "--raw", "0", "-o"]] {
        let (status, _, complaint) = sframe(&[words, &[&program, &program]].concat());
        assert!(status == 2 && complaint.contains("the input"), "{words:?}: {complaint}");
    }
    let (status, _, complaint) = sframe(&["stat", "--plot", &at("x.png"), &program]);
    assert!(status == 2 && complaint.contains("SVG"), "{complaint}");
    // If a file has several names, the others would keep the old contents.
    std::fs::hard_link(&program, at("second")).unwrap();
    let (status, _, complaint) = sframe(&["attach", &program]);
    assert!(status == 2 && complaint.contains("hard links"), "{complaint}");
    assert_eq!(std::fs::read(&program).unwrap(), before);
    assert!(!Path::new(&picture).exists() && !Path::new(&twice).exists());
}

#[test]
fn control_characters_in_names_are_shown_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a\n\x1b[2Jb.o");
    std::fs::copy(fixture("v3-gas2.47/demo.x86_64.o"), &path).unwrap();
    let name = path.to_str().unwrap();
    for words in [
        &["dump"][..],
        &["dump", "--headers"],
        &["verify", "--verbose"],
        &["stat"],
        &["stat", "--plot", "/none/x.svg"],
        &["table"],
        &["attach"],
    ] {
        let (_, text, complaint) = sframe(&[words, &[name]].concat());
        assert!(!text.contains('\x1b') && !complaint.contains('\x1b'), "{words:?}: {text}{complaint}");
    }
    let (_, text, _) = sframe(&["lookup", name, ".text"]);
    assert!(text.contains("a\\n\\x1b[2Jb.o"), "{text}");
    let (_, text, _) = sframe(&["dump", "--json", name]);
    let dump: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(dump[0]["file"], name, "JSON has escapes of its own");
}

#[test]
fn messages_are_coloured_as_asked_for() {
    for (options, colored) in [(&[][..], false), (&["--color=never"], false), (&["--color=always"], true)] {
        for words in [&["dump", "/no/such/file"][..], &["no-such-command"]] {
            let (status, _, complaint) = sframe(&[options, words].concat());
            assert_eq!(
                (status, complaint.contains('\x1b')),
                (2, colored),
                "{options:?} {words:?}: {complaint}"
            );
        }
    }
}

/// A limit on threads does not apply to every user, but no system has the memory for these stacks of threads.
#[test]
fn a_recording_without_a_thread_is_an_error_and_does_not_start_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sframe"));
    command.current_dir(&folder).env("RUST_MIN_STACK", (1u64 << 46).to_string());
    command.args(["record", "-o", "stacks.json", "--", "sh", "-c", "echo > started"]);
    let (status, _, complaint) = split(command.output().unwrap());
    assert_eq!(status, 2, "{complaint}");
    let refused = complaint.contains("does not allow") || complaint.contains("takes no samples");
    let says = complaint.starts_with("sframe: error: sh -c echo > started: no thread can be started: ");
    assert!(refused || (says && complaint.contains("ulimit -u")), "{complaint}");
    assert!(!folder.path().join("started").exists(), "the command was started");
}

/// A process with more threads than the soft limit on open files has room for.
#[test]
fn many_threads_are_sampled_within_the_hard_limit_on_open_files() {
    let pid = std::process::id().to_string();
    let record = |limits: &str, options: &[&str]| {
        let script = format!("ulimit {limits} && exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_sframe"), "record", "--duration", "0.1"]);
        command.args(options).args(["--format", "folded", "-o", "/dev/null", "-p", &pid]);
        split(command.output().unwrap())
    };
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| wait.lock().unwrap().recv());
        }
        let (status, _, complaint) = record("-Sn 24", &[]);
        let few = "-Sn 24 && ulimit -Hn 24";
        let (refused, _, refusal) = record(few, &["--per-thread"]);
        let (instead, _, said) = record(few, &[]);
        drop(end);
        if complaint.contains("does not allow") || complaint.contains("takes no samples") {
            return;
        }
        assert_eq!(status, 0, "{complaint}");
        assert_eq!(refused, 2, "{refusal}");
        assert!(instead == 0 || said == refusal, "not the clocks of processors instead: {said}");
        let says = "too many files are open; one is needed for each thread and processor: ";
        assert!(refusal.contains(says) && refusal.contains("the hard limit is 24; raise it"), "{refusal}");
    });
}

/// A user without privileges samples programs whose paths lead to other files by now. `/proc/PID/map_files`
/// is closed to such a user.
#[test]
fn programs_that_were_replaced_are_unwound_by_the_files_that_they_execute() {
    let script = "
        ulimit -t 20; cp /bin/sh program; cp /bin/cat new
        ./program -c 'while :; do :; done' &
        for try in $(seq 200); do grep -q program /proc/$!/maps && break; sleep 0.02; done
        mv new program
        \"$0\" record --duration 0.5 -o stacks.json -p $!
        status=$?; kill $!; exit $status";
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("setpriv");
    let sframe = env!("CARGO_BIN_EXE_sframe");
    command.args(["--bounding-set", "-all", "bash", "-c", script, sframe]).current_dir(&folder);
    let Ok(output) = command.output() else { return };
    let (status, _, complaint) = split(output);
    let missing = ["does not allow", "takes no samples", "setpriv: ", "Permission denied"];
    if missing.iter().any(|reason| complaint.contains(reason)) {
        return;
    }
    assert_eq!(status, 0, "{complaint}");
    assert!(!complaint.contains("replaced"), "{complaint}");
    let samples = std::fs::read(folder.path().join("stacks.json")).unwrap();
    let samples: serde_json::Value = serde_json::from_slice(&samples).unwrap();
    let samples = samples.as_array().unwrap();
    let rooted = samples.iter().filter(|sample| sample["rooted"] == true).count();
    assert!(samples.len() > 10 && rooted * 10 > samples.len() * 8, "{rooted} of {}", samples.len());
}

/// What `--stats=json` counts, by name.
fn counts(said: &str) -> impl Fn(&str) -> u64 {
    let report = said.lines().find(|line| line.starts_with('{')).expect("statistics");
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    move |name| report[name].as_u64().unwrap()
}

#[test]
fn stacks_are_unwound_in_the_kernel_where_it_allows_that() {
    let folder = tempfile::tempdir().unwrap();
    let stacks = folder.path().join("stacks.json").display().to_string();
    let script = "i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done; exit 3";
    let options = ["record", "--bpf", "--stats=json", "-o", &stacks, "--", "sh", "-c", script];
    let (status, _, complaint) = sframe(&options);
    if status == 2 {
        assert!(complaint.contains("does not allow"), "{complaint}");
        return;
    }
    assert_eq!(status, 3, "{complaint}");
    let count = counts(&complaint);
    assert!(count("samples") > 10 && count("rooted") * 10 > count("samples") * 8, "{complaint}");
    // Either a warning says why not, or the kernel unwinds as soon as it has the tables.
    if complaint.contains("warning: --bpf: ") {
        assert_eq!(count("in_kernel"), 0, "{complaint}");
    } else {
        assert!(count("in_kernel") > 0, "{complaint}");
    }
}

/// The programs here live a few milliseconds each. From the second on, the kernel knows their files, and is
/// told at once what they map. On a machine that is busy, only some are known before they end; without being
/// told at once, one sample in fifteen was unwound in the kernel.
#[test]
fn programs_that_live_some_milliseconds_are_unwound_in_the_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let short = folder.path().join("short");
    let source = folder.path().join("short.c");
    let text = "int main(void) { for (volatile int i = 0; i < 6000000; i++) {} return 0; }";
    std::fs::write(&source, text).unwrap();
    let built = Command::new("gcc").args(["-O1", "-o"]).arg(&short).arg(&source).status();
    assert!(built.is_ok_and(|status| status.success()));
    let stacks = folder.path().join("stacks.json").display().to_string();
    let script = format!("i=0; while [ $i -lt 200 ]; do {}; i=$((i + 1)); done", short.display());
    let (status, _, complaint) =
        sframe(&["record", "--bpf", "--stats=json", "-o", &stacks, "--", "sh", "-c", &script]);
    if complaint.contains("does not allow") || complaint.contains("warning: --bpf: ") {
        return;
    }
    assert_eq!(status, 0, "{complaint}");
    let count = counts(&complaint);
    assert!(count("samples") > 100 && count("rooted") * 10 > count("samples") * 9, "{complaint}");
    assert!(count("in_kernel") * 8 > count("samples"), "{complaint}");
}

#[test]
fn stacks_are_unwound_in_the_process_where_nobody_tells_the_number_of_processors() {
    let sframe = env!("CARGO_BIN_EXE_sframe");
    let script = "i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done; exit 3";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount -t tmpfs none /sys && exec \"$@\"", "sh", sframe]);
    let folder = tempfile::tempdir().unwrap();
    command.args(["record", "--bpf", "-o"]).arg(folder.path().join("stacks.json"));
    let output = command.args(["--", "sh", "-c", script]).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    if complaint.contains("unshare: ")
        || complaint.contains("mount: ")
        || complaint.contains("does not allow")
    {
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{complaint}");
    let says = "sframe: warning: --bpf: it counts for each processor, and /sys/devices/system/cpu/possible cannot be read: ";
    assert!(complaint.contains(says) && complaint.contains("; mount sysfs on /sys"), "{complaint}");
}

/// The completions that bash offers for the last of these words.
fn completions(share: &Path, words: &[&str]) -> Vec<String> {
    let script = "source \"$1\"; shift
        COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); last=${COMP_WORDS[COMP_CWORD]}; before=${COMP_WORDS[COMP_CWORD - 1]}
        # Bash's own way to the function: what `complete` was told of the command.
        function=$(complete -p sframe | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        \"$function\" sframe \"$last\" \"$before\" && printf '%s\\n' \"${COMPREPLY[@]}\"";
    let file = share.join("bash-completion/completions/sframe");
    let mut command = Command::new("bash");
    command.args(["--norc", "-c", script, "bash"]).arg(file).args(words);
    let (status, text, complaint) = split(command.output().unwrap());
    assert!(status == 0 && complaint.is_empty(), "{words:?}: {complaint}");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_subcommands_options_and_values() {
    let share = tempfile::tempdir().unwrap();
    let (status, _, complaint) = sframe(&["generate", share.path().to_str().unwrap()]);
    assert_eq!(status, 0, "{complaint}");
    let of = |words: &[&str]| completions(share.path(), words);
    assert_eq!(of(&["sframe", "ver"]), ["verify"]);
    assert_eq!(of(&["sframe", "sp"]), ["split"]);
    assert!(of(&["sframe", "split", "--li"]).contains(&"--light".to_owned()));
    assert!(of(&["sframe", "wrap-ld", "--cache"]).contains(&"--cache-limit".to_owned()));
    let forms = of(&["sframe", "stacks", "--format", "f"]);
    assert!(forms.contains(&"folded".to_owned()), "{forms:?}");
}
