//! Tests of the commands that read profiles. The recordings are texts of `perf script`, which need no kernel.

use std::path::Path;
use std::process::{Command, Output};

/// A sample with these functions, innermost first.
fn sample(functions: &[&str]) -> String {
    let mut text = "prog 7/8 [000] 1.000000: 1000 cpu-clock:\n".to_owned();
    for (address, function) in (0x40_1000..).zip(functions) {
        // Each function has an address of its own.
        let address = address + 0x1000 * function.bytes().map(u64::from).sum::<u64>();
        text += &format!("\t{address:16x} {function}+0x1 (/bin/prog)\n");
    }
    text + "\n"
}

fn run(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sframe")).current_dir(folder).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_profile_is_kept_and_written_in_other_forms() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("perf.txt"), sample(&["leaf", "main"])).unwrap();
    let kept = run(folder.path(), &["stacks", "perf.txt", "-o", "one.sframe-profile"]);
    assert_eq!(kept.status.code(), Some(0), "{}", text(&kept.stderr));
    std::fs::remove_file(folder.path().join("perf.txt")).unwrap();
    let folded = run(folder.path(), &["stacks", "one.sframe-profile", "--format", "folded", "--stats"]);
    assert_eq!(text(&folded.stdout), "prog;main;leaf 1\n");
    assert!(text(&folded.stderr).starts_with("samples            1"), "{}", text(&folded.stderr));
    std::fs::write(folder.path().join("cut.sframe-profile"), b"\x1f\x8b\x08").unwrap();
    let cut = run(folder.path(), &["stacks", "cut.sframe-profile"]);
    assert_eq!(cut.status.code(), Some(2));
    assert!(text(&cut.stderr).contains("not a profile of sframe"), "{}", text(&cut.stderr));
}

/// The program and its library have other names in the second profile, and so has the thread.
#[test]
fn a_program_is_the_same_one_under_another_name() {
    let folder = tempfile::tempdir().unwrap();
    let of_library = |text: String| text.replace("quick+0x1 (/bin/prog)", "quick+0x1 (/lib/libquick.so.1)");
    let both = |slow, quick| {
        of_library(sample(&["slow", "main"]).repeat(slow) + &sample(&["quick", "main"]).repeat(quick))
    };
    let renamed = both(10, 90).replace("prog", "prog.new").replace("libquick.so.1", "libquick.so.2");
    std::fs::write(folder.path().join("before.txt"), both(80, 20)).unwrap();
    std::fs::write(folder.path().join("after.txt"), renamed).unwrap();
    let diff = run(folder.path(), &["diff", "before.txt", "after.txt"]);
    let said = text(&diff.stdout);
    let mut rows: Vec<&str> =
        said.lines().filter(|line| line.ends_with(')') && line.contains("70.00")).collect();
    rows.sort_unstable();
    let expected = [
        "  20.00   90.00  +70.00      20.00   90.00  +70.00  quick (libquick.so.2)",
        "  80.00   10.00  -70.00      80.00   10.00  -70.00  slow (prog.new)",
    ];
    assert_eq!(rows, expected, "{said}{}", text(&diff.stderr));
    let page = run(folder.path(), &["diff", "before.txt", "after.txt", "-o", "diff.html"]);
    assert_eq!(page.status.code(), Some(0), "{}", text(&page.stderr));
    let page = std::fs::read_to_string(folder.path().join("diff.html")).unwrap();
    // All, the thread, and three functions.
    let parents = page.split("\"parent\":[").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
    assert_eq!(parents.split(',').count(), 5, "{parents}");
}

/// As `sframe record` shows it, also in the text that it writes.
#[test]
fn time_that_was_not_sampled_is_no_sample() {
    let folder = tempfile::tempdir().unwrap();
    let not_sampled = "prog 7/8 1.000000: 1000 cpu-clock:\n\t               0 [not sampled] ([unknown])\n\n";
    let all = sample(&["leaf", "main"]).repeat(3) + &not_sampled.repeat(2);
    std::fs::write(folder.path().join("all.txt"), all).unwrap();
    let folded = run(folder.path(), &["stacks", "all.txt", "--format", "folded", "--stats"]);
    assert_eq!(text(&folded.stdout), "prog;[not sampled] 2\nprog;main;leaf 3\n");
    assert!(text(&folded.stderr).starts_with("samples            3"), "{}", text(&folded.stderr));
    let diff = run(folder.path(), &["diff", "all.txt", "all.txt", "--all"]);
    let said = text(&diff.stdout);
    assert!(said.starts_with("before: all.txt (3 samples, 2 periods not sampled)\n"), "{said}");
    assert!(
        said.contains("  40.00   40.00   +0.00      40.00   40.00   +0.00  [not sampled] ([unknown])"),
        "{said}"
    );
}

#[test]
fn two_profiles_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let repeat = |functions: &[&str], times| sample(functions).repeat(times);
    let before = [repeat(&["slow", "main"], 80), repeat(&["quick", "main"], 20)].concat();
    let after = [repeat(&["slow", "main"], 10), repeat(&["quick", "main"], 19), repeat(&["new", "main"], 71)]
        .concat();
    std::fs::write(folder.path().join("before.txt"), before).unwrap();
    std::fs::write(folder.path().join("after.txt"), after).unwrap();
    let diff = run(folder.path(), &["diff", "before.txt", "after.txt"]);
    let said = text(&diff.stdout);
    assert_eq!(diff.status.code(), Some(0), "{}", text(&diff.stderr));
    let rows: Vec<&str> = said.lines().filter(|line| line.ends_with("(prog)")).collect();
    let expected = [
        "   0.00   71.00  +71.00       0.00   71.00  +71.00  new (prog)",
        "  80.00   10.00  -70.00      80.00   10.00  -70.00  slow (prog)",
    ];
    assert_eq!(rows, expected, "{said}");
    assert!(said.contains("2 functions have changed no more than samples do by chance"), "{said}");
    let json = run(folder.path(), &["diff", "before.txt", "after.txt", "--format", "json", "--all"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["samples"], serde_json::json!([100, 100]));
    assert_eq!(json["functions"].as_array().unwrap().len(), 4);
    let page = run(folder.path(), &["diff", "before.txt", "after.txt", "-o", "diff.html"]);
    assert_eq!(page.status.code(), Some(0), "{}", text(&page.stderr));
    let page = std::fs::read_to_string(folder.path().join("diff.html")).unwrap();
    assert!(page.contains(r#""sides":["before.txt","after.txt"]"#) && !page.contains("@DATA@"));
    let same = run(folder.path(), &["diff", "before.txt", "after.txt", "-o", "after.txt"]);
    assert_eq!(same.status.code(), Some(2));
}
