//! Compares linkers: runs the same link with each of them and finds the differences.
//!
//! | module | contents |
//! |---|---|
//! | `machine`, `peers` | the names of a machine's tools; the linkers to compare |
//! | `model` | relocatable objects as data that can be edited and written |
//! | `cases`, `capture` | links that can be run again, and how they are recorded |
//! | `run` | runs a linker on a case, with limits |
//! | `facts` | the properties of an output, in a form that can be compared |
//! | `differ`, `baseline` | differences from the majority, and those with a known reason |
//! | `compare` | makes a report from cases |
//! | `table`, `html` | the report as text and as a page |
//! | `lab` | generates section-group violations, and judges each linker's output |
//! | `random` | random programs, linked by every linker and run |
//! | `conformance` | a suite that says which assembler, linker and reader keeps which rule |
//! | `progress` | shows that a long command is at work |
//! | `reduce` | makes a failing link as small as possible |

#![allow(missing_docs, reason = "fields whose type and name say all have no comment")]

pub mod args;
mod arguments;
pub mod baseline;
pub mod capture;
pub mod cases;
pub mod compare;
pub mod conformance;
pub mod differ;
pub mod facts;
pub mod html;
pub mod lab;
pub mod machine;
pub mod model;
pub mod peers;
pub mod progress;
pub mod random;
pub mod reduce;
pub mod run;
pub mod table;
