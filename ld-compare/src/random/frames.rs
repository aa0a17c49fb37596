//! Writes the `.sframe` of one function as data (V3), for a section of its own in the function's group.

use crate::machine::Dialect;

/// The `.sframe` of a function that leaves the CFA where the call put it. The function reaches from its
/// symbol to the label `.Lend_` with its name. One `.sframe` for all functions could not be in a group, and
/// would refer to functions whose group is dropped.
pub fn section(name: &str, group: bool, dialect: &Dialect) -> String {
    let at = dialect.at;
    let (flags, more) = if group { ("aG", format!(",{name},comdat")) } else { ("a", String::new()) };
    let cfa = if dialect.fixed_ra == 0 { 0 } else { 8 };
    format!(
        "\t.section .sframe,\"{flags}\",{at}0x6ffffff4{more},unique,{{u}}\n\t.balign 8\n\t.2byte 0xdee2\n\
         \t.byte 3, 4, {}, 0, {}, 0\n\t.4byte 1, 1, 8, 0, 16\n\t.8byte .Lbegin_{name} - .\n\
         \t.4byte .Lend_{name} - .Lbegin_{name}, 0\n\t.2byte 1\n\t.byte 0, 0, 0\n\t.byte 0, 3, {cfa}\n\t.balign 8\n",
        dialect.sframe_abi, dialect.fixed_ra as u8
    )
}
