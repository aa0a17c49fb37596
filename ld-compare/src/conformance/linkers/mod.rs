//! The cases for linkers.
//!
//! | module | topic |
//! |---|---|
//! | `common` | inputs and facts that several topics share |
//! | `objects` | one or several objects with sound `.sframe` sections, of any version and form |
//! | `container` | type, flags, alignment and segment of the output section |
//! | `groups` | COMDAT groups, link order, and both |
//! | `gc` | garbage collection and folding of equal functions |
//! | `relocatable` | `-r`, and a final link after it |
//! | `scripts` | linker scripts |
//! | `versions` | inputs of several, unknown and damaged versions |
//! | `rows` | every kind of function and row |
//! | `calls` | PLTs and thunks |
//! | `modes` | options that choose a way to link frames |

mod calls;
mod common;
mod container;
mod gc;
mod groups;
mod modes;
mod objects;
mod relocatable;
mod rows;
mod scripts;
mod versions;

use super::case::Case;
use crate::machine::Machine;

/// Every case for linkers.
pub fn cases() -> Vec<Case> {
    let topics = [
        objects::cases,
        container::cases,
        groups::cases,
        gc::cases,
        relocatable::cases,
        scripts::cases,
        versions::cases,
        rows::cases,
        calls::cases,
        modes::cases,
    ];
    topics.iter().flat_map(|topic| Machine::ALL.into_iter().flat_map(topic)).collect()
}
