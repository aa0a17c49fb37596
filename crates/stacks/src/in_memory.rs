//! The code that a running process has made, as far as its memory tells of it: by lists ([`JitObjects`]), or
//! by the instructions ([`MadeCode`]).
//!
//! A file of the process's memory is that of one program: it leads nowhere once the process has executed
//! another one, or has ended and left its number to another process. So it is closed then, and so are those
//! of processes that have ended, of which a recording of days has many.

use crate::jit_object::JitObject;
use crate::jit_objects::{JitObjects, Variable};
use crate::made_code::MadeCode;
use sframe_format::Abi;
use std::cell::OnceCell;
use std::sync::Arc;

/// The code of a process.
#[derive(Default)]
pub struct InMemory {
    /// The number of its mapped files when they were looked for.
    files: usize,
    /// Where its variables are that lead to code.
    variables: Vec<(Variable, u64)>,
    /// `None`: it has no lists, or its memory cannot be read.
    objects: Option<JitObjects>,
    /// What it had before it executed its program, or another process of its number. It names frames.
    former: Option<JitObjects>,
    /// The code that no list has. `None` inside: its memory cannot be read.
    code: OnceCell<Option<MadeCode>>,
}

impl InMemory {
    /// What is in a list now of the code at an address. The process has so many `files` with these
    /// `variables`.
    pub fn object_at(
        &mut self,
        (abi, pid): (Abi, u32),
        files: usize,
        variables: impl FnOnce() -> Vec<(Variable, u64)>,
        address: u64,
    ) -> Option<Arc<JitObject>> {
        if self.files != files {
            self.files = files;
            let found = variables();
            if found != self.variables {
                self.objects = JitObjects::open(abi, pid, &found);
                self.variables = found;
            }
        }
        self.objects.as_mut()?.now_at(address)
    }

    /// The code that no list has. `None`: the memory cannot be read, or the process has a virtual machine.
    /// What that does not know is gone by now.
    pub fn code(&mut self, abi: Abi, pid: u32) -> Option<&mut MadeCode> {
        if self.is_of_virtual_machine() {
            return None;
        }
        self.code.get_or_init(|| MadeCode::open(abi, pid));
        self.code.get_mut()?.as_mut()
    }

    /// Whether the process has a virtual machine whose memory was read.
    pub fn is_of_virtual_machine(&self) -> bool {
        self.objects.as_ref().is_some_and(JitObjects::are_of_virtual_machine)
    }

    /// Whether the process has a method at an address, which an interpreter is said to run.
    pub fn has_method(&mut self, address: u64) -> bool {
        self.objects.as_mut().is_some_and(|objects| objects.has_method(address))
    }

    /// Reads what a virtual machine has made lately: it may be gone before a sample asks for it.
    pub fn look(&mut self) {
        if let Some(objects) = &mut self.objects {
            objects.look();
        }
    }

    /// What was last in a list of the code at an address.
    pub fn last_object_at(&self, address: u64) -> Option<Arc<JitObject>> {
        [&self.objects, &self.former].into_iter().flatten().find_map(|objects| objects.at(address))
    }

    /// Forgets the code of a process that has ended, but not its lists: the kernel may still take samples of
    /// it, and its frames get their names later. Returns whether anything is left.
    pub fn end(&mut self) -> bool {
        self.code = OnceCell::new();
        self.objects.is_some() || self.former.is_some()
    }

    /// Forgets all but the names of frames: the process has begun, or executes another program.
    pub fn begin(&mut self) {
        let former = self.objects.take().or(self.former.take());
        *self = Self { former, ..Self::default() };
    }
}
