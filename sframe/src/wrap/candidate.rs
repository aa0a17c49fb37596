//! Finds inputs that may need splitting, by a search in their bytes that does not parse ELF.
//!
//! Most inputs of a link need none, and the wrapper must not slow their link down. The search may find too
//! many files; the splitter then leaves these as they are.

/// Names of sections of objects for link-time optimization, by gcc and clang. The linker's plugin compiles
/// such objects again, so their frames do not matter.
const LTO: [&[u8]; 2] = [b".gnu.lto_", b".llvm.lto"];

/// Whether a file may be an object with frames, and is not for link-time optimization. No other file is
/// split.
pub fn is_candidate(bytes: &[u8]) -> bool {
    is_relocatable(bytes)
        && may_have_frames(bytes)
        && LTO.iter().all(|name| memchr::memmem::find(bytes, name).is_none())
}

/// Whether a file starts like a relocatable object (gABI, `ET_REL`).
pub fn is_relocatable(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF") && matches!(bytes.get(16..18), Some([1, 0] | [0, 1]))
}

/// Whether these bytes contain the name of an SFrame section.
pub fn may_have_frames(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b".sframe").is_some()
}
