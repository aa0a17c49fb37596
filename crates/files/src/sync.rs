//! The parts of [`super::spin_lock`] that a test replaces.

pub(super) use std::sync::atomic::{AtomicBool, Ordering};
pub(super) use std::thread::yield_now;
