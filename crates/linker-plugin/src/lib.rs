//! A host of linker plugins: shared libraries of compilers that take objects of intermediate code
//! out of a link and give back machine code (link-time optimization).
//!
//! The interface is GNU's: gcc's `liblto_plugin.so` and LLVM's `LLVMgold.so` speak it. It passes no
//! pointer of the linker's to callbacks, so a process has one [`Session`] at a time. Plugins run in
//! threads of their own, because a plugin that reports a fatal error must not return.
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
