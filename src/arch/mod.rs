//! What differs between machines.
//!
//! [`Target`] is a zero-sized type with constants, tables and small functions. The pipeline is
//! generic over it and picked once for a link, so nothing is dispatched per relocation. Passes ask
//! for capabilities; they never ask which machine it is.

pub mod machine;
pub mod target;

pub use target::Target;
