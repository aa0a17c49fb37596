//! Runs the command `sframe` and the assembler wrapper under test.

use super::{Outcome, Work, built};
use serde_json::Value;

impl Work {
    /// Runs `sframe` with these arguments.
    #[track_caller]
    pub fn sframe(&self, args: &[&str]) -> Outcome {
        self.command(built::sframe(), args)
    }

    /// Runs the assembler wrapper with these arguments.
    #[track_caller]
    pub fn sframe_as(&self, args: &[&str]) -> Outcome {
        self.command(built::sframe_as(), args)
    }

    /// The functions that `sframe dump` finds in a file, sorted, with a line of JSON for each. Properties of
    /// the table, not of the function, are left out (its number, its offset).
    #[track_caller]
    pub fn functions(&self, file: &str) -> Vec<String> {
        let dump: Value =
            serde_json::from_str(&self.sframe(&["dump", "--json", file]).quiet().stdout).unwrap();
        let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
        let files = dump.as_array().cloned().unwrap_or_default();
        let sections = files.iter().flat_map(|file| list(file, "sections"));
        let blobs = sections.flat_map(|section| list(&section, "blobs"));
        let functions = blobs.flat_map(|blob| {
            let version = blob["version"].to_string();
            list(&blob, "functions").into_iter().map(move |mut function| {
                let fields = function.as_object_mut().unwrap();
                fields.remove("index");
                fields.remove("offset");
                format!("V{version} {function}")
            })
        });
        let mut functions: Vec<String> = functions.collect();
        functions.sort();
        functions
    }

    /// The output of `sframe verify` for a file, without the file's name.
    #[track_caller]
    pub fn verified(&self, file: &str) -> String {
        let outcome = self.sframe(&["verify", "--verbose", file]).ok();
        outcome.stdout.replace(file, "FILE")
    }
}
