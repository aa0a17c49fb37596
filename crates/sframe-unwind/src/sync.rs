//! The atomics of [`Current`](super::current::Current) and [`Slot`](super::slot::Slot), which
//! `tests/models.rs` replaces.

pub use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
pub use std::thread::yield_now;
