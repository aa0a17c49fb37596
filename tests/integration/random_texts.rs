//! Puts small random files in every place where the linker reads a text. Whatever their bytes are, nothing
//! may panic. A fixed seed gives the numbers; `SFRAME_RANDOM_TEXTS` sets the number of files.

use sframe_ld::cli::{Environment, Invocation, parse};
use sframe_ld::diag::{Diagnostic, RenderOptions, Sink, render};
use sframe_ld::input::{FileBytes, InputSource, exercise};
use sframe_ld::script::version::{
    VersionScript, parse_dynamic_list, parse_symbol_names, parse_version_script,
};
use sframe_ld::script::{Sources, parse_script};
use std::ffi::OsString;
use std::io;
use std::path::Path;

/// Pieces of texts: the words of all languages that the linker reads, and bytes that are not UTF-8.
const PIECES: &[&[u8]] = &[
    b"SECTIONS",
    b"MEMORY",
    b"PHDRS",
    b"VERSION",
    b"INPUT",
    b"GROUP",
    b"AS_NEEDED",
    b"ENTRY",
    b"ASSERT",
    b"PROVIDE",
    b"INCLUDE",
    b"KEEP",
    b"SORT_BY_NAME",
    b"EXCLUDE_FILE",
    b"OVERLAY",
    b"INSERT",
    b"AFTER",
    b"FILL",
    b"BYTE",
    b"QUAD",
    b"ALIGN",
    b"SIZEOF",
    b"ADDR",
    b"DEFINED",
    b"ORIGIN",
    b"/DISCARD/",
    b"AT",
    b".text",
    b".data",
    b"*",
    b"?",
    b"[a-z",
    b"{",
    b"}",
    b"(",
    b")",
    b":",
    b";",
    b",",
    b"=",
    b"+=",
    b"+",
    b"-",
    b"/",
    b"%",
    b"<",
    b">",
    b"&&",
    b"!",
    b"~",
    b"?",
    b"0",
    b"1",
    b"4",
    b"0x10",
    b"7K",
    b"09",
    b"0xg",
    b"-1",
    b"\"",
    b"'",
    b"\\",
    b"/*",
    b"*/",
    b"#",
    b"@",
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b" ",
    b" ",
    b"global",
    b"local",
    b"extern",
    b"\"C++\"",
    b"V1",
    b"_start",
    b"f",
    b"text",
    b"-o",
    b"-T",
    b"--defsym",
    b"-L",
    b"--wrap=",
    b"-z",
    b"--section-start",
    b"@file",
    b"\x00",
    b"\xff",
    b"\xfe",
    b"\xc3",
    b"\xe2\x82",
    b"\xef\xbb\xbf",
    b"\xf0\x9f\x98\x80",
    b"\xcc\x81",
    b"\x1b[",
    b"\x7fELF",
    b"!<arch>\n",
    b"!<thin>\n",
    b"BC\xc0\xde",
];

/// An endless sequence of numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    /// A small file: bytes, words, or both.
    fn file(&mut self) -> Vec<u8> {
        let mixture = self.below(4);
        let mut text = Vec::new();
        for _ in 0..=self.below(40) {
            if mixture == 0 || mixture == 1 && self.below(4) == 0 {
                text.push(self.below(256) as u8);
            } else {
                text.extend(PIECES[self.below(PIECES.len())]);
                if self.below(2) == 0 {
                    text.push(b' ');
                }
            }
        }
        text
    }
}

fn count(usual: usize) -> usize {
    std::env::var("SFRAME_RANDOM_TEXTS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Shows messages in the way of the command, with or without colours.
fn show(diagnostics: &[Diagnostic], color: bool) {
    let options = RenderOptions { program: "sframe-ld".into(), color, visual_studio: false };
    diagnostics.iter().for_each(|diagnostic| drop(render(diagnostic, &options)));
}

/// Runs a check on many files. If it fails, it names the file.
fn on_many(count: usize, seed: u64, check: impl Fn(&[u8], usize) + std::panic::RefUnwindSafe) {
    let mut numbers = Numbers(seed);
    for round in 0..count {
        let file = numbers.file();
        let result = std::panic::catch_unwind(|| check(&file, round));
        assert!(
            result.is_ok(),
            "round {round}: {:?}",
            String::from_utf8_lossy(&file).into_owned() + &format!("\n{file:?}")
        );
    }
}

#[test]
fn random_texts_never_crash_a_parser() {
    on_many(count(20_000), 0x9e37_79b9_7f4a_7c15, |text, round| {
        let color = round % 2 == 0;
        let mut sources = Sources::new();
        let mut include = |_: &str, _: &str| Err("nothing is included".to_owned());
        if let Err(found) = parse_script(&mut sources, "x.ld", text, &mut include) {
            show(&found, color);
        }
        match parse_version_script(&mut sources, "x.map", text) {
            Ok(script) => show(&VersionScript::check(&script, &sources), color),
            Err(found) => show(&found, color),
        }
        for found in [
            parse_dynamic_list(&mut sources, "x.list", text).err(),
            parse_symbol_names(&mut sources, "x.syms", text).err(),
        ] {
            show(&found.unwrap_or_default(), color);
        }
        exercise(text);
    });
}

/// A random file and an object.
struct Two<'t>(&'t [u8], &'t [u8]);

impl InputSource for Two<'_> {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        match path.to_str() {
            Some("file") => Ok(FileBytes::Owned(self.0.to_vec())),
            Some("good.o") => Ok(FileBytes::Owned(self.1.to_vec())),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        matches!(path.to_str(), Some("file" | "good.o"))
    }
}

#[test]
fn links_with_a_random_file_never_crash() {
    let work = crate::support::Work::new();
    let good = work.s("good", ".globl _start, f\n_start: call f\nf: ret\n.data\n.quad f\n");
    let good = work.read(&good);
    const PLACES: [&[&str]; 10] = [
        &["file"],
        &["--whole-archive", "file"],
        &["-T", "file"],
        &["-r", "file"],
        &["-r", "-T", "file"],
        &["-shared", "--version-script=file"],
        &["-shared", "--dynamic-list=file"],
        &["--export-dynamic-symbol-list=file", "-pie"],
        &["--retain-symbols-file=file"],
        &["@file"],
    ];
    on_many(count(2_000), 0x2545_f491_4f6c_dd1d, |text, round| {
        let sink = Sink::default();
        // Nothing is written, because the folder does not exist.
        let fixed = ["good.o", "--threads=1", "-o", "no/such/folder/out"];
        let arguments: Vec<OsString> =
            PLACES[round % PLACES.len()].iter().chain(&fixed).map(OsString::from).collect();
        let environment = Environment { program: "sframe-ld", ..Environment::default() };
        let read = |path: &Path| match path.to_str() {
            Some("file") => Ok(text.to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        match parse(&arguments, &environment, &read, &sink) {
            Ok(Invocation::Link(config, inputs)) => {
                let mut config = *config;
                // Arguments that name another output are not used here.
                config.output = "no/such/folder/out".into();
                config.reports.map = None;
                config.reports.dependency_file = None;
                let outcome = sframe_ld::link(
                    &config,
                    &inputs,
                    &Two(text, &good),
                    sink.into_sorted(),
                    sframe_ld::Memory::Freed,
                );
                show(&outcome.diagnostics, false);
            }
            Ok(Invocation::Print(_)) => {}
            Err(_) => show(&sink.into_sorted(), false),
        }
    });
}
