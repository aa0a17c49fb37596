//! What a profile says of the files of its frames. It is small and needs none of the files, so that a profile
//! can be written again when they are gone.

use crate::files::{FileId, Files, hexadecimal};
use crate::image::Segment;
use serde::{Deserialize, Serialize};
use sframe_format::Abi;

/// A file of frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Module {
    /// Its path in the recording.
    pub path: String,
    /// Its build-id in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// The start of its addresses: where its first segment is loaded, if the file is not moved.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start: u64,
    /// The end of its addresses. `u64::MAX`: unknown.
    pub end: u64,
    /// Why it could not be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
    /// Its segments with code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub code: Vec<Segment>,
    /// The machine that it is for, as `uname -m` prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
}

/// The files of a profile, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Modules {
    all: Vec<Module>,
}

impl Modules {
    /// What is known of files.
    pub fn of(files: &Files) -> Self {
        let module = |file: &crate::files::MappedFile| Module {
            path: file.path.to_string(),
            build_id: file.build_id().map(hexadecimal),
            start: file.image().map_or(0, |image| image.extent().start),
            end: file.image().map_or(u64::MAX, |image| image.extent().end),
            unusable: file.image().err().map(str::to_owned),
            code: file.image().map_or_else(|_| Vec::new(), |image| image.code().collect()),
            machine: file.image().ok().map(|image| machine(image.abi()).to_owned()),
        };
        Self { all: files.iter().map(|(_, file)| module(file)).collect() }
    }

    /// A file. `None`: the profile has no file of that number.
    pub fn get(&self, id: FileId) -> Option<&Module> {
        self.all.get(id.0 as usize)
    }

    /// The machine of the first file that tells.
    pub(crate) fn machine(&self) -> Option<&str> {
        self.all.iter().find_map(|module| module.machine.as_deref())
    }

    /// Adds a file.
    pub(crate) fn add(&mut self, module: Module) -> FileId {
        self.all.push(module);
        FileId((self.all.len() - 1) as u32)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The name of a machine, as `uname -m` prints it.
fn machine(abi: Abi) -> &'static str {
    match abi {
        Abi::AArch64Big => "aarch64_be",
        Abi::AArch64Little => "aarch64",
        Abi::Amd64 => "x86_64",
        Abi::S390x => "s390x",
    }
}
