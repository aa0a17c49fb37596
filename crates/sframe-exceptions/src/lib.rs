//! What a program is linked with that has one table instead of `.eh_frame` (`sframe-ld
//! --unwind-table=replace`).
//!
//! libgcc stays the unwinder. It asks `_Unwind_Find_FDE` for the FDE of each frame, and asks the definition
//! that comes first in the program's order: so the executable's. This one looks into the executable's compact
//! table of version 2, makes an FDE that says what the table says of that address, and returns it. For code
//! that the table does not know (other modules, kept FDEs, just-in-time compilers) it asks the next
//! definition.
//!
//! libgcc keeps pointers to FDEs while it unwinds, and signal handlers may unwind meanwhile. So an FDE that
//! was made stays as it is, at its place, for good ([`arena`]). It is found again by its contents, so it
//! cannot be wrong even if another library lies at its address by then. There is no lock and no call that a
//! signal handler may not make, once the start-up code ran.
//!
//! A private copy of libgcc inside a shared library does not ask the executable. But since version 12 it asks
//! `_dl_find_object` where `.eh_frame_hdr` is; the second hook answers with a header that leads to the made
//! FDE.
//!
//! All others, LLVM's libunwind and older copies of libgcc among them, ask `dl_iterate_phdr` for program
//! headers. The third hook answers with an `.eh_frame_hdr` of the whole table, which is made when somebody
//! asks for the first time.
//!
//! | module | contents |
//! |---|---|
//! | `emit` | parts of CIEs and FDEs |
//! | `synthesize` | an FDE from what a table says |
//! | `expand` | the whole `.eh_frame_hdr` and `.eh_frame` of a table |
//! | `arena` | made FDEs, and how they are found again |
//! | `module` | the table and the `.eh_frame_hdr` of a loaded module |
//! | `search_table` | kept FDEs by `.eh_frame_hdr`, for programs without another definition |
//! | `place` | the module of an address (feature `archive`) |
//! | `list` | FDEs of a section that nothing sorts |
//! | `find` | the hooks of libgcc (feature `archive`) |
//! | `modules` | the hook of all who look at program headers (feature `archive`) |
//! | `registered` | frames that just-in-time compilers register (feature `archive`) |
//! | `pads` | what the personality routine of C++ says of a frame whatever flies by |
//! | `full` | an unwinder in libgcc's place (feature `full`): `context`, `registers`, `row`, `cache`, `fde`, `expression` are its parts |
//! | `system` | system calls, and functions of the C library that may be missing |
#![no_std]

#[cfg(test)]
extern crate std;

pub mod arena;
pub mod cache;
pub mod context;
pub mod emit;
pub mod expand;
pub mod expression;
pub mod fde;
#[cfg(feature = "archive")]
#[macro_use]
mod weak;
#[cfg(feature = "archive")]
mod find;
#[cfg(feature = "full")]
mod full;
pub mod list;
pub mod module;
#[cfg(feature = "archive")]
mod modules;
pub mod pads;
#[cfg(feature = "archive")]
mod place;
#[cfg(feature = "archive")]
mod registered;
pub mod registers;
pub mod row;
pub mod search_table;
pub mod synthesize;
#[cfg(feature = "archive")]
mod system;

/// There is nobody to tell.
#[cfg(all(feature = "archive", not(test)))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    system::stop("a look-up failed\n")
}
