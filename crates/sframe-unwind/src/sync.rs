//! What [`Current`](super::current::Current) and [`Pool`](super::pool::Pool) are made of.

pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
pub use std::thread::yield_now;
