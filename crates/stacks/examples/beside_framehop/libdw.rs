//! Writes the samples for a program that unwinds with libdw (`xtask/src/prove/libdw.c` describes the form),
//! and reads its results.

use super::{Result, Walk};
use sframe_format::Endian;
use stacks::event::Sample;
use stacks::files::{FileId, Files};
use stacks::process::Processes;
use std::collections::HashMap;
use std::io::Write;
use std::process::Command;

/// The samples in the program's form.
#[derive(Default)]
pub struct Samples {
    bytes: Vec<u8>,
    /// For each process, the generation of its list of files when that was last written.
    generations: HashMap<u32, u64>,
}

impl Samples {
    fn words(&mut self, words: &[u64]) {
        self.bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.words(&[bytes.len() as u64]);
        self.bytes.extend(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    /// Adds a sample. If the files of its process have changed, adds these as well.
    pub fn add(&mut self, files: &Files, processes: &mut Processes, sample: &Sample<'_>) {
        let Some(user) = &sample.user else { return };
        let unwinder = processes.get(sample.pid).unwinder();
        let generation = unwinder.generation();
        if self.generations.insert(sample.pid, generation) != Some(generation) {
            let modules = unwinder.modules().iter();
            let mut known: Vec<(u64, &str)> = modules
                .filter_map(|module| {
                    let file = files.get(FileId(module.id().0 as u32))?;
                    (file.image().is_ok() && file.path.starts_with('/'))
                        .then_some((module.bias(), &*file.path))
                })
                .collect();
            // A file may be mapped in several pieces.
            known.dedup();
            self.words(&[1, sample.pid.into(), known.len() as u64]);
            for (bias, path) in known {
                self.words(&[bias]);
                self.padded(path.as_bytes());
            }
        }
        let registers: Vec<(u32, u64)> = user.registers(Endian::Little).collect();
        let mask = registers.iter().fold(0, |mask, (number, _)| mask | 1 << number);
        self.words(&[2, sample.pid.into(), mask, registers.len() as u64]);
        for (_, value) in registers {
            self.words(&[value]);
        }
        self.padded(user.stack);
    }

    /// Runs the program on the samples. Returns its results.
    pub fn walk(&self, program: &str) -> (Result, Vec<Walk>) {
        let mut file = tempfile::NamedTempFile::new().expect("a scratch file");
        file.write_all(&self.bytes).expect("the samples");
        let output = Command::new(program).arg(file.path()).output().expect("the program for libdw");
        assert!(output.status.success(), "the program for libdw: {}", output.status);
        let text = String::from_utf8_lossy(&output.stdout);
        let walks = text.lines().map(|line| {
            let frames = line.split(' ').filter_map(|word| u64::from_str_radix(word, 16).ok());
            (frames.collect(), line.ends_with("root"), String::new())
        });
        let walks: Vec<Walk> = walks.collect();
        (Result::of(&walks, f64::NAN, 0.0), walks)
    }
}
