//! Counts how many tests passed and failed, from what test drivers print.

use serde::{Deserialize, Serialize};

/// The tests in a log.
#[derive(Serialize, Deserialize, Default, Clone, Copy, Debug, PartialEq)]
pub struct Tests {
    pub passed: usize,
    pub failed: usize,
}

impl Tests {
    /// Counts what the usual test drivers print: automake's totals and `PASS:` lines, DejaGnu, TAP, CTest,
    /// Meson, Python's `unittest` and pytest, Perl's `prove`, and the drivers of Tcl, curl, Rust and Go. What
    /// libraries of tests for C++ print counts as well, beside the programs that a driver counts.
    pub fn count(log: &str) -> Tests {
        let mut tests = Tests::default();
        let (mut lines_passed, mut lines_failed) = (0, 0);
        for line in log.lines().map(str::trim) {
            let number =
                |start: &str| line.strip_prefix(start).and_then(|rest| rest.trim().parse::<usize>().ok());
            if let Some(count) = number("# PASS:") {
                tests.passed += count;
            } else if let Some(count) = number("# FAIL:").or_else(|| number("# ERROR:")) {
                tests.failed += count;
            } else if line.starts_with("PASS: ") {
                lines_passed += 1;
            } else if line.starts_with("FAIL: ") || line.starts_with("ERROR: ") {
                lines_failed += 1;
            } else {
                tests.add_other(line);
            }
        }
        // The totals repeat these lines.
        if !log.contains("# PASS:") {
            tests.passed += lines_passed;
            tests.failed += lines_failed;
        }
        tests
    }

    fn add_other(&mut self, line: &str) {
        self.add_cases(line);
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["ok", index, ..] if number(index).is_some() => self.passed += 1,
            ["not", "ok", ..] if !line.contains("# TODO") => self.failed += 1,
            // CTest: `100% tests passed, 0 tests failed out of 12`.
            [_, "tests", "passed,", failed, "tests", "failed", "out", "of", all] => {
                let (failed, all) = (number(failed).unwrap_or(0), number(all).unwrap_or(0));
                self.passed += all.saturating_sub(failed);
                self.failed += failed;
            }
            // The totals of DejaGnu.
            ["#", "of", "expected", "passes", count] => self.passed += number(count).unwrap_or(0),
            ["#", "of", "unexpected", "failures", count] => self.failed += number(count).unwrap_or(0),
            // The summary of Meson.
            ["Ok:", count] => self.passed += number(count).unwrap_or(0),
            ["Fail:" | "Timeout:", count] => self.failed += number(count).unwrap_or(0),
            // First unittest, then Perl's prove.
            ["Ran", count, "tests", "in", ..] => self.passed += number(count).unwrap_or(0),
            [first, count, ..] if first.starts_with("Files=") && count.starts_with("Tests=") => {
                self.passed += number(count).unwrap_or(0);
            }
            // pytest: `=== 1 failed, 74 passed in 0.12s ===`.
            [line, .., "in", _, end] if line.starts_with("==") && end.starts_with("==") => {
                for pair in words.windows(2) {
                    match pair[1].trim_end_matches(',') {
                        "passed" => self.passed += number(pair[0]).unwrap_or(0),
                        "failed" | "error" | "errors" => self.failed += number(pair[0]).unwrap_or(0),
                        _ => {}
                    }
                }
            }
            // Tcl: `1 errors out of 500 tests`, with or without a machine. Redis: `[ok]: name (1 ms)`.
            [failed, "errors", "out", "of", all, "tests", ..] => {
                let (failed, all) = (number(failed).unwrap_or(0), number(all).unwrap_or(0));
                self.passed += all.saturating_sub(failed);
                self.failed += failed;
            }
            ["[ok]:", ..] => self.passed += 1,
            ["[err]:", ..] => self.failed += 1,
            // curl: `TESTDONE: 1433 tests out of 1435 reported OK: 99%`.
            ["TESTDONE:", passed, "tests", "out", "of", all, ..] => {
                let (passed, all) = (number(passed).unwrap_or(0), number(all).unwrap_or(0));
                self.passed += passed;
                self.failed += all.saturating_sub(passed);
            }
            // Rust: `test result: ok. 5 passed; 0 failed; …`
            ["test", "result:", _, passed, "passed;", failed, "failed;", ..] => {
                self.passed += number(passed).unwrap_or(0);
                self.failed += number(failed).unwrap_or(0);
            }
            // Go, with -v.
            ["---", "PASS:", ..] => self.passed += 1,
            ["---", "FAIL:", ..] => self.failed += 1,
            _ => {}
        }
    }

    /// Adds the cases in a test program's last line. CTest, and the script that builds, put a number and a
    /// colon in front of what test programs print.
    fn add_cases(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let prefix = words.first().and_then(|word| word.strip_suffix(':'));
        let is_prefixed = prefix.is_some_and(|word| word.parse::<usize>().is_ok());
        let (passed, failed) = match words[usize::from(is_prefixed)..] {
            // GoogleTest
            ["[", "PASSED", "]", count, "tests." | "test."] => (number(count), None),
            ["[", "FAILED", "]", count, "tests," | "test,", ..] => (None, number(count)),
            // UnitTest++
            ["Success:", count, "tests" | "test", "passed."] => (number(count), None),
            ["FAILURE:", failed, "out", "of", all, "tests", ..] => (
                number(all).zip(number(failed)).map(|(all, failed)| all.saturating_sub(failed)),
                number(failed),
            ),
            // CppUnit
            ["OK", count] | ["OK", count, "tests)"] if count.starts_with('(') => (number(count), None),
            ["Run:", all, "Failure", "total:", failed, ..] => (
                number(all).zip(number(failed)).map(|(all, failed)| all.saturating_sub(failed)),
                number(failed),
            ),
            // JsonCpp
            ["All", count, "tests", "passed" | "passed."] => (number(count), None),
            // Catch2
            ["All", "tests", "passed", _, _, "in", count, "test", ..] => (number(count), None),
            ["test", "cases:", _, "|", passed, "passed", "|", failed, ..] => (number(passed), number(failed)),
            _ => (None, None),
        };
        self.passed += passed.unwrap_or(0);
        self.failed += failed.unwrap_or(0);
    }
}

fn number(word: &str) -> Option<usize> {
    word.trim_matches(|it: char| !it.is_ascii_digit()).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Tests;

    #[test]
    fn tests_of_every_driver_are_counted_once() {
        for (log, passed, failed) in [
            ("PASS: a\nFAIL: b\n# TOTAL: 2\n# PASS:  1\n# FAIL:  1\n", 1, 1),
            ("PASS: a\nPASS: b\n", 2, 0),
            ("ok 1 - x\nnot ok 2 - y\nnot ok 3 - z # TODO\nok then\n", 1, 1),
            ("100% tests passed, 0 tests failed out of 12\n", 12, 0),
            ("Ok:                 7   \nFail:               1   \nTimeout:            2   \n", 7, 3),
            ("Files=3, Tests=40,  1 wallclock secs\n", 40, 0),
            ("test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n", 5, 0),
            ("--- PASS: TestX (0.00s)\n", 1, 0),
            ("# of expected passes\t\t30\n# of unexpected failures\t2\n", 30, 2),
            ("===== 1 failed, 74 passed, 2 skipped in 0.12s =====\n===== test session starts =====\n", 74, 1),
            ("2 errors out of 500 tests on host Linux 64-bit little-endian\n[ok]: SET (1 ms)\n", 499, 2),
            ("3: [  PASSED  ] 40 tests.\n3: [  FAILED  ] 1 test, listed below:\n", 40, 1),
            ("0: Success: 90 tests passed.\nFAILURE: 1 out of 5 tests failed (1 failures).\n", 94, 1),
            ("0: OK (95)\nOK (3 tests)\nRun:  9   Failure total: 2   Failures: 2   Errors: 0\nOK\n", 105, 2),
            (
                "1: All tests passed (12 assertions in 3 test cases)\ntest cases: 3 | 1 passed | 2 failed\n",
                4,
                2,
            ),
            ("TESTDONE: 10 tests out of 12 reported OK: 83%\n", 10, 2),
        ] {
            assert_eq!(Tests::count(log), Tests { passed, failed }, "{log}");
        }
    }
}
