//! Stacks of the calling process: from the caller, or from the code that a signal interrupted.
//!
//! A profiler in the process reads the loaded files once (`Local::refresh`), and again after further files
//! were loaded. Its signal handler then walks the stack (`Local::walk`). The handler may have interrupted
//! the allocator or a thread with a lock, so the walk neither allocates nor locks. It takes a cache that no
//! other handler uses at the moment, reads a snapshot of the files behind an atomic pointer, and reads memory
//! with a system call that fails if nothing is mapped there. A child of a fork continues where its parent
//! was. The rows come from the `.sframe` of a file, then from its `.eh_frame`. This works on x86-64, AArch64
//! and s390x Linux.
//!
//! | module | contents |
//! |---|---|
//! | `loaded` | the files that the dynamic linker has loaded |
//! | `made` | code that the program made, with its frames |
//! | `memory` | reads that cannot fault |
//! | [`local`] | snapshots and walks |
//! | `current` | a value that is replaced while others look at it |
//! | `slot` | marks that one thread at a time sets |
//! | `process` | which process this is, after forks |
//! | [`c`] | the same for C: `include/sframe-unwind.h` |
//!
//! ```
//! use sframe_unwind::local::{Frame, Local};
//! static STACKS: Local = Local::new();
//! STACKS.refresh();
//! let mut frames = [Frame::default(); 64];
//! let (count, end) = STACKS.walk_from_here(&mut frames);
//! assert!(count > 1 && end.is_root(), "{end:?}");
//! ```
#![cfg(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        all(target_arch = "aarch64", target_endian = "little"),
        target_arch = "s390x"
    )
))]
#![warn(missing_docs)]

pub mod c;
mod current;
mod loaded;
pub mod local;
mod made;
mod memory;
mod process;
mod slot;
mod sync;
