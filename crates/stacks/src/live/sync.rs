//! The atomics of [`drain`](super::drain::drain), which `tests/models.rs` replaces.

pub use std::sync::atomic::{AtomicU64, Ordering};
