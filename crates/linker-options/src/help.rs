//! The text of `--help`, which is made from the tables.
//!
//! Configure scripts read this text. libtool looks for `: supported targets:` followed by an ELF name; others
//! look for option names such as `--whole-archive`, `-soname` or `--version-script`. So a name that GNU ld
//! shows with one dash has one dash here.

use super::spec::{OptionGroup, OptionSpec};
use super::table::GROUPS;
use super::values::{EMULATIONS, TARGETS};
use super::z::{WORDS, ZEffect, ZSpec};
use std::fmt::Write;

/// Where the descriptions start, in columns.
const COLUMN: usize = 34;

/// The whole text.
pub fn help_text(program: &str) -> String {
    let mut out = format!("Usage: {program} [options] file...\n");
    for group in GROUPS {
        append_group(&mut out, group);
    }
    out.push_str("\nWords of -z:\n");
    for word in WORDS {
        append_line(&mut out, &z_usage(word), word.help);
    }
    out.push_str("\nArguments:\n");
    append_line(&mut out, "@FILE", "Read options from FILE");
    out.push_str("\nEnvironment:\n");
    append_line(&mut out, "SFRAME_LD_OPTIONS", "Options that come before those of the command line");
    append_line(&mut out, "SFRAME_LD_IDENTITY", "Same as --identity");
    append_line(&mut out, "LD_RUN_PATH", "Same as -rpath, if there is no -rpath");
    let targets: Vec<&str> = TARGETS.iter().map(|&(name, _)| name).collect();
    let _ = write!(out, "\n{program}: supported targets: {} binary\n", targets.join(" "));
    let _ = writeln!(out, "{program}: supported emulations: {}", emulation_names().join(" "));
    out
}

/// Names of the emulations.
pub fn emulation_names() -> Vec<&'static str> {
    EMULATIONS.iter().map(|emulation| emulation.name).collect()
}

fn append_group(out: &mut String, group: &OptionGroup) {
    let _ = write!(out, "\n{}:\n", group.title);
    for option in group.options {
        append_line(out, &usage(option), option.help);
    }
}

fn append_line(out: &mut String, usage: &str, help: &str) {
    if usage.len() + 2 < COLUMN {
        let _ = writeln!(out, "  {usage:width$}{help}", width = COLUMN - 2);
    } else {
        let _ = writeln!(out, "  {usage}\n{:COLUMN$}{help}", "");
    }
}

/// All names of an option, with the value behind the last one.
fn usage(option: &OptionSpec) -> String {
    let names: Vec<String> = option.names.iter().map(|name| shown_name(name)).collect();
    let mut text = names.join(", ");
    if option.needs_value() {
        let value_name = if option.value_name.is_empty() { "VALUE" } else { option.value_name };
        let _ = write!(text, " {value_name}");
    } else if option.takes_value() {
        let value_name = if option.value_name.is_empty() { "VALUE" } else { option.value_name };
        let _ = write!(text, "[={value_name}]");
    }
    text
}

/// A name with the dashes that GNU ld's manual gives it.
fn shown_name(name: &str) -> String {
    let single = name.len() == 1
        || name.starts_with(|c: char| c.is_ascii_uppercase())
        || matches!(
            name,
            "soname"
                | "rpath"
                | "rpath-link"
                | "shared"
                | "pie"
                | "no-pie"
                | "static"
                | "nostdlib"
                | "init"
                | "fini"
                | "plugin"
                | "plugin-opt"
                | "plugin-save-temps"
                | "flto"
                | "flto-partition"
                | "fno-lto"
                | "fuse-ld"
                | "dT"
                | "dn"
                | "dy"
                | "dc"
                | "dp"
                | "non_shared"
                | "call_shared"
                | "qmagic"
                | "mllvm"
                | "assert"
        );
    if single { format!("-{name}") } else { format!("--{name}") }
}

fn z_usage(word: &ZSpec) -> String {
    let names: Vec<String> = word.names.iter().map(|name| format!("-z {name}")).collect();
    match word.effect {
        ZEffect::Flag(_) => names.join(", "),
        ZEffect::Value(_) => format!("{}={}", names.join(", "), word.value_name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_configure_scripts_look_for() {
        let text = help_text("ld");
        for needle in [
            "\nld: supported targets: elf64-x86-64 elf64-littleaarch64 elf64-s390",
            "\nld: supported emulations: elf_x86_64 elf_amd64 aarch64linux aarch64elf elf64_s390 elf_x86_64_fbsd elf_amd64_fbsd aarch64fbsd",
            "--whole-archive",
            "no-whole-archive",
            "--version-script",
            "-soname",
            "-rpath",
            "-shared",
            "--as-needed",
            "--eh-frame-hdr",
            "--hash-style",
            "--build-id",
            "-z relro",
            "-z now",
            "--dynamic-list",
            "--sysroot",
            "--gc-sections",
            "--compress-debug-sections",
            "-plugin",
            "--push-state",
            "--discard-sframe",
            "-Bsymbolic-functions",
            "--no-dynamic-linker",
            "--demangle",
        ] {
            assert!(text.contains(needle), "{needle}");
        }
    }

    #[test]
    fn every_option_and_word_is_told() {
        let text = help_text("ld");
        for option in GROUPS.iter().flat_map(|group| group.options) {
            assert!(!option.help.is_empty(), "{:?}", option.names);
            assert!(text.contains(&usage(option)), "{:?}", option.names);
        }
        assert!(WORDS.iter().all(|word| text.contains(&z_usage(word))));
    }
}
