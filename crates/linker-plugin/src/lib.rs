//! A host for linker plugins: shared libraries of compilers that take objects of intermediate code out of a
//! link and return machine code (link-time optimization).
//!
//! The interface is GNU's, which gcc's `liblto_plugin.so` and LLVM's `LLVMgold.so` implement. It passes no
//! pointer of the linker to callbacks, so a process has only one [`Session`] at a time. A plugin that reports
//! a fatal error must not return from that call, so plugins run in their own threads, which can be parked.
//!
//! [`abi`] is the interface itself, for plugins too.

pub mod abi;
mod callbacks;
mod facts;
mod session;
mod state;

pub use facts::{
    Added, Binding, Claim, Failure, InputFile, Level, LinkFacts, Message, OutputKind, Resolution, Spec,
    Symbol, SymbolKind, Visibility,
};
pub use session::Session;
