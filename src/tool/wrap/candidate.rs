//! Which inputs may have to be split, told from their bytes without reading them as ELF.

/// Names of sections that show that an object takes part in link-time optimization, gcc's or clang's: the
/// linker's plugin compiles it anew.
const LTO: [&[u8]; 2] = [b".gnu.lto_", b".llvm.lto"];

/// Whether an object has frames and is not for the plugin. Others need not be looked at.
pub fn is_candidate(bytes: &[u8]) -> bool {
    let relocatable = bytes.starts_with(b"\x7fELF") && matches!(bytes.get(16..18), Some([1, 0] | [0, 1]));
    relocatable
        && may_have_frames(bytes)
        && LTO.iter().all(|name| memchr::memmem::find(bytes, name).is_none())
}

/// Whether any name in these bytes may be that of frames.
pub fn may_have_frames(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b".sframe").is_some()
}
