//! Options and `-z` words of GNU ld, lld and mold that this linker refuses.
//!
//! They are errors like any unknown option, so that a build system that probes for one sees that it is
//! missing. The error gives the reason. A test compares these tables with the peers' `--help`: if a peer gets
//! an option that this linker does not take over, the option needs a line here.

use crate::spec::Refused;

const fn refused(names: &'static [&'static str], why: &'static str) -> Refused {
    Refused { names, why }
}

const NO_LTO: &str = "only a plugin (-plugin) compiles intermediate code, and it has options of its own";
const OTHER_MACHINE: &str = "it is for a machine that this linker does not support";
const NO_CTF: &str = "this linker does not merge sections of compact C types (.ctf)";

/// The options.
pub static REFUSED: &[Refused] = &[
    refused(
        &["no-strip-discarded"],
        "symbols of discarded sections have no address; GNU ld writes their offsets in the sections instead",
    ),
    refused(&["force-exe-suffix"], "it is for Windows, whose programs need a suffix; -o names the output"),
    refused(&["out-implib"], "it lists the addresses of a program; -R takes them from the program itself"),
    refused(&["ctf-variables", "ctf-share-types"], NO_CTF),
    refused(&["A", "architecture"], OTHER_MACHINE),
    refused(
        &[
            "be8",
            "cmse-implib",
            "in-implib",
            "fix-cortex-a8",
            "merge-exidx-entries",
            "no-merge-exidx-entries",
            "target1-abs",
            "target1-rel",
            "target2",
            "pcrel-optimize",
            "no-pcrel-optimize",
            "power10-stubs",
            "no-power10-stubs",
            "toc-optimize",
            "no-toc-optimize",
            "relax-gp",
            "no-relax-gp",
            "split-stack-adjust-size",
            "embedded-relocs",
            "gnu-tls-tag",
            "version-exports-section",
        ],
        OTHER_MACHINE,
    ),
    refused(
        &["physical-image-base"],
        "load addresses come from a linker script: AT(ADDRESS) behind an output section, or AT>REGION",
    ),
    refused(
        &["section-order"],
        "a linker script puts sections in order; --section-ordering-file=FILE orders what is inside of them",
    ),
    refused(&["print-dependencies"], "--cref prints which file refers to which symbol of which file"),
    refused(
        &["relocatable-merge-sections"],
        "-r with a linker script (-T) joins sections: .text : { *(.text*) }",
    ),
    refused(
        &["task-link"],
        "it is for COFF; GNU ld makes an ELF object with it as with -r, and no symbol local",
    ),
    refused(
        &["lto-emit-asm", "lto-emit-llvm", "thinlto-index-only", "load-pass-plugin", "lto-obj-path"],
        NO_LTO,
    ),
];

/// The words of `-z`.
pub static REFUSED_WORDS: &[Refused] = &[refused(
    &["extern-protected-data"],
    "GNU ld has dropped it, too: a library goes on using its protected data, whatever copy a program has",
)];
