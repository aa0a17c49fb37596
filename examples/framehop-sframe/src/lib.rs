//! framehop's interface, implemented with SFrame.
//!
//! The facade asks for a module's `.sframe` by name, as framehop asks for `.eh_frame`. If the program's
//! [`ModuleSectionInfo`] does not know it, rows are derived from `.eh_frame` when the module is made. If
//! these rows do not find a frame, framehop does, and it also handles everything that is not ELF. So nothing
//! unwinds worse than before.
//!
//! Two things stay framehop's. [`UnwindIterator`] takes every address after the first for one that a call
//! returns to. The statistics of a cache only count framehop's part.

#![cfg_attr(not(feature = "std"), no_std)]
#![warn(missing_docs)]

extern crate alloc;

mod module;
mod unwinder;

pub use inner::{
    AllocationPolicy, CacheStats, Error, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind,
    ModuleSectionInfo, MustNotAllocateDuringUnwind, UnwindIterator, Unwinder,
};
pub use module::Module;

/// Types for x86-64.
pub mod x86_64 {
    pub use crate::unwinder::{CacheX86_64, UnwinderX86_64};
    pub use inner::x86_64::{ArchX86_64, Reg, UnwindRegsX86_64, UnwindRuleX86_64};
}

/// Types for AArch64.
pub mod aarch64 {
    pub use crate::unwinder::{CacheAarch64, UnwinderAarch64};
    pub use inner::aarch64::{ArchAarch64, PtrAuthMask, UnwindRegsAarch64, UnwindRuleAarch64};
}

#[cfg(target_arch = "aarch64")]
mod native {
    /// The cache for this machine.
    pub type CacheNative<P> = crate::aarch64::CacheAarch64<P>;
    /// The registers of this machine.
    pub type UnwindRegsNative = crate::aarch64::UnwindRegsAarch64;
    /// The unwinder for this machine.
    pub type UnwinderNative<D, P> = crate::aarch64::UnwinderAarch64<D, P>;
}

#[cfg(target_arch = "x86_64")]
mod native {
    /// The cache for this machine.
    pub type CacheNative<P> = crate::x86_64::CacheX86_64<P>;
    /// The registers of this machine.
    pub type UnwindRegsNative = crate::x86_64::UnwindRegsX86_64;
    /// The unwinder for this machine.
    pub type UnwinderNative<D, P> = crate::x86_64::UnwinderX86_64<D, P>;
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use native::*;
