//! What is said of relocations without addends (`SHT_REL`). The ABIs of the three machines have none for
//! frames, and to take them for missing would make each function one that an earlier link removed.

/// What is wrong with such relocations of a section.
pub fn missing(target: &str) -> String {
    format!(
        "relocations without addends (SHT_REL) for {target}, expected SHT_RELA as the ABIs of x86-64, AArch64 and s390x \
         have it; assemble the file anew"
    )
}
