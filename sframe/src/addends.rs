//! The error for relocations without addends (`SHT_REL`) that apply to frame information. The ABIs of the
//! three machines use `SHT_RELA` there. The readers look for `SHT_RELA` only, so without this error a section
//! with `SHT_REL` would look like one without relocations. To them, a function without a relocation is one
//! that an earlier link removed: they would drop every function of the file.

/// Explains the error; `target` is the section that the relocations apply to.
pub fn missing(target: &str) -> String {
    format!(
        "relocations without addends (SHT_REL) for {target}, expected SHT_RELA as the ABIs of x86-64, AArch64 and s390x \
         have it; assemble the file anew"
    )
}
