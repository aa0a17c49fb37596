//! Holds linkers against each other: the same link by each of them, and what differs.
//!
//! | module | what |
//! |---|---|
//! | `machine`, `peers` | what a machine's tools are called; which linkers there are |
//! | `model` | relocatable objects as data that can be edited and written |
//! | `cases`, `capture` | links that can be run again, and how they are recorded |
//! | `run` | a linker on a case, with limits |
//! | `facts` | what an output says, in a form that can be compared |
//! | `differ`, `baseline` | what differs from the majority, and what of that is known |
//! | `compare` | all of it, into a report |
//! | `table`, `html` | the report as text and as a page |
//! | `lab` | generated section-group violations, and what each linker makes of them |
//! | `reduce` | a failing link made as small as it can be |

pub mod args;
pub mod baseline;
pub mod capture;
pub mod cases;
pub mod compare;
pub mod differ;
pub mod facts;
pub mod html;
pub mod lab;
pub mod machine;
pub mod model;
pub mod peers;
pub mod reduce;
pub mod run;
pub mod table;
