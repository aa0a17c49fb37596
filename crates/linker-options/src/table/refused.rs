//! Options and `-z` words that GNU ld, lld or mold have and that this linker does not carry out.
//!
//! They are errors like any unknown option, so that build systems that probe for them see that they
//! are missing; the reason is told with the error. Add a line when a peer gets an option that stays
//! out: a test compares these tables with the peers' `--help`.

use crate::spec::Refused;

const fn refused(names: &'static [&'static str], why: &'static str) -> Refused {
    Refused { names, why }
}

const NO_LTO: &str = "intermediate code is compiled by a plugin only (-plugin), which has options of its own";
const OTHER_MACHINE: &str = "it is for a machine that is not linked for";
const NO_ORDERING: &str = "functions are ordered by call graph profiles only, not for startup or compression";
const NO_CTF: &str = "sections of compact C types (.ctf) are not merged";

/// The options.
pub static REFUSED: &[Refused] = &[
    refused(&["no-strip-discarded"], "symbols of discarded sections are always left out"),
    refused(&["warn-ifunc-textrel"], "there is no such warning; -z text refuses all text relocations"),
    refused(&["warn-section-align"], "there is no such warning; -Map shows where sections start"),
    refused(&["no-link-mapless"], "archives are read without their symbol map, so none is asked for"),
    refused(
        &["enable-linker-version"],
        "LINKER_VERSION in a script writes nothing; .comment names the linker",
    ),
    refused(
        &["disable-multiple-abs-defs"],
        "--just-symbols gives absolute symbols that may be defined once more",
    ),
    refused(&["force-exe-suffix"], "ELF programs need no suffix; name the output with -o"),
    refused(&["traditional-format"], "there is no older format of the output"),
    refused(
        &["gnu-tls-tag", "gnu2-tls-tag"],
        "versions of libc.so for TLS descriptors are recorded only where symbols carry them",
    ),
    refused(&["branch-to-branch"], "branches to branches are not shortened"),
    refused(&["optimize-bb-jumps"], "jumps to the next basic block are not removed"),
    refused(&["ctf-variables", "ctf-share-types"], NO_CTF),
    refused(&["A", "architecture"], OTHER_MACHINE),
    refused(
        &[
            "be8",
            "cmse-implib",
            "in-implib",
            "out-implib",
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
            "version-exports-section",
        ],
        OTHER_MACHINE,
    ),
    refused(
        &["default-imported-symver"],
        "imported symbols have the versions that their libraries give them",
    ),
    refused(&["task-link"], "say in a version script or --retain-symbols-file which symbols stay"),
    refused(
        &["android-memtag-heap", "android-memtag-mode", "android-memtag-stack"],
        "notes for memory tagging are not made",
    ),
    refused(
        &["execute-only", "xosegment"],
        "code segments are readable: constants and tables stand beside code",
    ),
    refused(
        &[
            "bp-compression-sort",
            "bp-compression-sort-section",
            "bp-compression-sort-startup-functions",
            "bp-startup-sort",
            "irpgo-profile",
            "verbose-bp-section-orderer",
        ],
        NO_ORDERING,
    ),
    refused(&["no-fortran-common"], "members of archives that define a common symbol are always taken"),
    refused(&["randomize-section-padding"], "padding is what alignment asks for"),
    refused(&["print-archive-stats"], "--why-extract tells of each member why it was taken"),
    refused(&["vs-diagnostics"], "messages have GNU's form, FILE:LINE:"),
    refused(
        &["lto-emit-asm", "lto-emit-llvm", "thinlto-index-only", "load-pass-plugin", "lto-obj-path"],
        NO_LTO,
    ),
    refused(&["C", "directory"], "change the folder before the link is started"),
    refused(&["chroot"], "--sysroot says where the target's files are; paths are otherwise as given"),
    refused(&["perf"], "--time-report and --stats print the time of passes and sizes"),
    refused(&["repro"], "--reproduce writes a tar file that replays the link"),
    refused(&["reverse-sections"], "sections stay in the order of the script"),
    refused(&["separate-debug-file"], "objcopy --only-keep-debug makes a file of debug sections"),
    refused(&["spare-program-headers"], "program headers have no room to spare; PHDRS in a script adds some"),
    refused(&["zero-to-bss"], "sections stay of the type that the compiler gave them"),
];

/// The words of `-z`.
pub static REFUSED_WORDS: &[Refused] = &[
    refused(&["extern-protected-data"], "protected data of libraries is never copied into executables"),
    refused(&["nolrodata-after-bss"], "large read-only data stands behind .bss in every built-in layout"),
    refused(&["unique"], "libraries of more than one namespace are not marked"),
    refused(
        &["lam-u48", "lam-u57", "lam-u48-report", "lam-u57-report", "lam-report"],
        "properties of linear address masking are not made",
    ),
    refused(&["memtag-mode", "memtag-stack"], "notes for memory tagging are not made"),
    refused(&["rewrite-endbr"], "instructions that mark branch targets are kept"),
];
