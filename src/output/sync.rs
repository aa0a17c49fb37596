//! What locks of this folder are made of.

pub(super) use std::sync::atomic::{AtomicBool, Ordering};
pub(super) use std::thread::yield_now;
