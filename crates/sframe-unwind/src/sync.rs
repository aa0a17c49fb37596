//! The atomics of [`Current`](super::current::Current) and [`Pool`](super::pool::Pool), which `tests/models.rs`
//! replaces.

pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
pub use std::thread::yield_now;
