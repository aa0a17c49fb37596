//! The unwinder (`--unwind-runtime=full`): the interface of "Itanium C++ ABI: Exception Handling", level 1,
//! and what libgcc has besides.
//!
//! Both phases walk by [`Context::step`](crate::context::Context::step), with rows from the program's table,
//! from other modules' tables and `.eh_frame`, and from the kernel's signal frames. The second phase finds
//! the rows that the first one left in the cache, and with them what the personality routine of C++ says
//! in any case.
//!
//! **Beside libgcc.** glibc loads libgcc_s to end threads, and takes its functions from there, not from the
//! program. So a forced unwinding belongs to libgcc_s wherever that is loaded, from its first to its last
//! frame, and the look-ups of the other archive are here, too. Personality routines ask the program's
//! functions about contexts of both; contexts tell whose they are. An exception that flies in two phases may
//! be resumed by either: both mean the same by `private_2`.
//!
//! | module | contents |
//! |---|---|
//! | `assembly` | what stands around the instructions of each function in assembly |
//! | `entry` | assembly: saves registers at entry |
//! | `landing` | assembly: loads them at a landing pad |
//! | `rows` | the row of an address, from whoever has it |
//! | `cxx` | the personality routine of C++, which often need not be asked |
//! | `permanent` | which addresses never change their meaning |
//! | `phases` | throwing, resuming, forced unwinding, walking |
//! | `interface` | what personality routines ask |

#[macro_use]
mod assembly;
mod cxx;
mod entry;
mod interface;
mod landing;
mod permanent;
mod phases;
mod rows;

use crate::system;

/// Whether shared libraries throw by this unwinder, as the program does. If they had another one, personality
/// routines would get contexts of the one and ask the other.
pub fn check() {
    unsafe extern "C" {
        fn _Unwind_RaiseException();
    }
    let first = system::first(c"_Unwind_RaiseException");
    if first != 0 && first != _Unwind_RaiseException as *const () as usize {
        system::stop(
            "shared libraries do not find the program's unwinder, because the program does not export it; link \
             with --unwind-runtime=hooks\n",
        );
    }
}
