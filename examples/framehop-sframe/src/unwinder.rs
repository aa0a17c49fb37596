//! The unwinders: they try the rows first, then framehop.

use crate::module::Module;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::{AtomicUsize, Ordering};
use inner::aarch64::UnwindRegsAarch64;
use inner::x86_64::UnwindRegsX86_64;
use inner::{AllocationPolicy, CacheStats, Error, FrameAddress, MayAllocateDuringUnwind, Unwinder};
use sframe_format::derive::derive;
use sframe_format::write::Options;
use sframe_format::{Abi, FileRows, ModuleId, Registers, RuleCache};

/// Slots in the cache of rules; framehop's cache has the same number.
const SLOTS: usize = 512;

/// The rows of a module.
fn rows<D>(abi: Abi, module: &Module<D>) -> FileRows<Vec<u8>> {
    let mut rows = FileRows::default();
    if let Some((data, address)) = &module.frames.sframe {
        rows = FileRows::new(data.clone(), *address);
    }
    if let Some((data, address)) = &module.frames.eh_frame
        && let Ok(derived) = derive(Options::new(abi), data, *address, 0)
    {
        rows = rows.with_derived(derived.bytes, 0);
    }
    rows.tabled()
}

fn module<D: Deref<Target = [u8]>>(abi: Abi, module: &Module<D>) -> sframe_format::Module<Vec<u8>> {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    let id = ModuleId(LAST.fetch_add(1, Ordering::Relaxed) as u64);
    sframe_format::Module::new(id, module.avma_range(), module.bias, rows(abi, module))
}

/// A machine's registers, in both forms.
trait Convert: Copy {
    const ABI: Abi;
    /// `first` says whether they are the registers of the topmost frame, where the link register still has
    /// the value from the call.
    fn read(self, first: bool) -> Registers;
    fn write(&mut self, registers: &Registers, return_address: u64);
}

impl Convert for UnwindRegsX86_64 {
    const ABI: Abi = Abi::Amd64;

    fn read(self, _: bool) -> Registers {
        Registers::new(self.sp(), self.bp(), None)
    }

    fn write(&mut self, registers: &Registers, return_address: u64) {
        self.set_ip(return_address);
        self.set_sp(registers.sp);
        self.set_bp(registers.fp);
    }
}

impl Convert for UnwindRegsAarch64 {
    const ABI: Abi = Abi::AArch64Little;

    fn read(self, first: bool) -> Registers {
        let mut registers = Registers::new(self.sp(), self.fp(), first.then(|| self.lr()));
        registers.address_bits = (64 - self.lr_mask().0.leading_zeros()) as u8;
        registers
    }

    fn write(&mut self, registers: &Registers, return_address: u64) {
        self.set_lr(return_address);
        self.set_sp(registers.sp);
        self.set_fp(registers.fp);
    }
}

/// Takes a step by rows; `None` if they do not find the caller. Only a successful step changes registers.
fn step<R: Convert>(
    unwinder: &sframe_format::Unwinder<Vec<u8>>,
    address: FrameAddress,
    registers: &mut R,
    cache: &mut RuleCache<SLOTS>,
    read_stack: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<Option<u64>> {
    let (first, at) = match address {
        FrameAddress::InstructionPointer(pc) => (true, sframe_format::FrameAddress::InstructionPointer(pc)),
        FrameAddress::ReturnAddress(address) => {
            (false, sframe_format::FrameAddress::ReturnAddress(address.get()))
        }
    };
    let mut known = registers.read(first);
    let caller = unwinder.unwind_frame(at, &mut known, cache, read_stack).ok()?;
    if let Some(caller) = caller {
        registers.write(&known, caller.address.address());
    }
    Some(caller.map(|caller| caller.address.address()))
}

macro_rules! machine {
    ($unwinder:ident, $cache:ident, $folder:ident, $registers:ty, $name:literal) => {
        #[doc = concat!("The cache of rules for ", $name, ".")]
        pub struct $cache<P: AllocationPolicy = MayAllocateDuringUnwind> {
            inner: inner::$folder::$cache<P>,
            rules: Box<RuleCache<SLOTS>>,
        }

        impl $cache<MayAllocateDuringUnwind> {
            /// An empty cache.
            pub fn new() -> Self {
                Self::new_in()
            }
        }

        impl<P: AllocationPolicy> $cache<P> {
            /// An empty cache.
            pub fn new_in() -> Self {
                Self { inner: inner::$folder::$cache::new_in(), rules: Box::new(RuleCache::new()) }
            }

            /// How often framehop's part was used.
            pub fn stats(&self) -> CacheStats {
                self.inner.stats()
            }
        }

        impl<P: AllocationPolicy> Default for $cache<P> {
            fn default() -> Self {
                Self::new_in()
            }
        }

        #[doc = concat!("The unwinder for ", $name, ".")]
        pub struct $unwinder<D, P = MayAllocateDuringUnwind> {
            inner: inner::$folder::$unwinder<D, P>,
            rows: sframe_format::Unwinder<Vec<u8>>,
        }

        impl<D, P> $unwinder<D, P> {
            /// An unwinder for a process.
            pub fn new() -> Self {
                let rows = sframe_format::Unwinder::new(<$registers>::ABI);
                Self { inner: inner::$folder::$unwinder::new(), rows }
            }
        }

        impl<D, P> Default for $unwinder<D, P> {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<D, P> Clone for $unwinder<D, P> {
            fn clone(&self) -> Self {
                Self { inner: self.inner.clone(), rows: self.rows.clone() }
            }
        }

        impl<D: Deref<Target = [u8]>, P: AllocationPolicy> Unwinder for $unwinder<D, P> {
            type UnwindRegs = $registers;
            type Cache = $cache<P>;
            type Module = Module<D>;

            fn add_module(&mut self, added: Module<D>) {
                self.rows.add_module(module(<$registers>::ABI, &added));
                self.inner.add_module(added.inner);
            }

            fn remove_module(&mut self, start: u64) {
                self.rows.remove_module(start);
                self.inner.remove_module(start);
            }

            fn max_known_code_address(&self) -> u64 {
                self.inner.max_known_code_address()
            }

            fn unwind_frame<F>(
                &self,
                address: FrameAddress,
                registers: &mut $registers,
                cache: &mut $cache<P>,
                read_stack: &mut F,
            ) -> Result<Option<u64>, Error>
            where
                F: FnMut(u64) -> Result<u64, ()>,
            {
                match step(&self.rows, address, registers, &mut cache.rules, read_stack) {
                    Some(caller) => Ok(caller),
                    None => self.inner.unwind_frame(address, registers, &mut cache.inner, read_stack),
                }
            }
        }
    };
}

machine!(UnwinderX86_64, CacheX86_64, x86_64, UnwindRegsX86_64, "x86-64");
machine!(UnwinderAarch64, CacheAarch64, aarch64, UnwindRegsAarch64, "AArch64");
