//! The files to damage: what compilers, assemblers and archivers make for each machine, and scripts as people
//! write them.

use super::super::proof::Proof;
use crate::commands::output;
use crate::peers;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A way to link, the same for every linker. `MUTANT` stands for the damaged file.
pub type Way = &'static [&'static str];

/// A machine whose files are damaged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine {
    /// Its name, which is also the name of the folder with its files.
    pub name: &'static str,
    /// Its name for `-m`.
    emulation: &'static str,
    /// The prefix of the names of its tools.
    prefix: &'static str,
    /// Compiler options that only it has.
    protection: &'static str,
}

pub const MACHINES: [Machine; 3] = [
    Machine { name: "x86-64", emulation: "elf_x86_64", prefix: "", protection: "-fcf-protection" },
    Machine {
        name: "aarch64",
        emulation: "aarch64linux",
        prefix: "aarch64-linux-gnu-",
        protection: "-mbranch-protection=standard",
    },
    Machine { name: "s390x", emulation: "elf64_s390", prefix: "s390x-linux-gnu-", protection: "-mzarch" },
];

/// A file to damage.
pub struct Original {
    pub machine: Machine,
    pub kind: &'static str,
    pub name: String,
    pub bytes: Vec<u8>,
    pub ways: &'static [Way],
}

const OBJECT_WAYS: &[Way] = &[
    &[
        "-e",
        "start",
        "--gc-sections",
        "--eh-frame-hdr",
        "start.o",
        "MUTANT",
        "--unresolved-symbols=ignore-all",
    ],
    &["-shared", "-z", "now", "--build-id", "start.o", "MUTANT"],
    &["-r", "start.o", "MUTANT"],
    &[
        "-pie",
        "-e",
        "start",
        "-z",
        "relro",
        "MUTANT",
        "start.o",
        "good.so",
        "--unresolved-symbols=ignore-all",
    ],
];
const LIBRARY_WAYS: &[Way] = &[
    &["-e", "start", "start.o", "MUTANT", "--unresolved-symbols=ignore-all"],
    &["-shared", "start.o", "MUTANT", "-z", "defs"],
];
const ARCHIVE_WAYS: &[Way] = &[
    &["-e", "start", "start.o", "MUTANT", "--unresolved-symbols=ignore-all"],
    &["-shared", "start.o", "--whole-archive", "MUTANT"],
];
const SCRIPT_WAYS: &[Way] = &[&["-T", "MUTANT", "-e", "start", "start.o", "plain.o"]];
const VERSION_WAYS: &[Way] = &[&["-shared", "--version-script=MUTANT", "start.o", "plain.o"]];

const SOURCES: &[(&str, &str)] = &[
    ("start.c", "int f(int); int start(void) { return f(3); }"),
    (
        "plain.c",
        "#include <stddef.h>\nint common[100]; const char *word = \"a word\"; static const char other[] = \"another\";\nint f(int n) { static int calls; calls += n; return calls + common[n] + other[n]; }\nint g(void) { return f(1); } __attribute__((weak)) int h(void) { return 2; }\n",
    ),
    (
        "tls.c",
        "__thread int one = 1; extern __thread int two; __thread int zero[10]; int sum(int n) { return one + two + zero[n]; }\nstatic int real(int n) { return n; } typedef int function(int); static function *choose(void) { return real; } int chosen(int) __attribute__((ifunc(\"choose\")));\n__attribute__((constructor)) static void first(void) { one = 2; } int call(void) { return chosen(1); }\n",
    ),
    (
        "groups.cc",
        "#include <string>\n#include <vector>\ntemplate <int N> struct T { static int &value() { static int v = N; return v; } virtual int get() { return N; } virtual ~T() {} };\nint f(int n) { try { std::vector<std::string> v(n, \"text\"); T<1> t; return T<2>::value() + t.get() + v.at(n).size(); } catch (std::exception &) { return 0; } }\n",
    ),
    (
        "library.c",
        "int data = 5; int f(int n) { return n + data; } int old(void) { return 1; } int new_one(void) { return 2; } __thread int two;\n#ifdef VERSIONED\n__asm__(\".symver old, versioned@V1\\n.symver new_one, versioned@@V2\");\n#endif\n",
    ),
    ("library.map", "V1 { global: f; data; versioned; }; V2 { global: two; local: *; } V1;"),
];

const SCRIPT: &str = "\
MEMORY { rom (rx) : ORIGIN = 0x10000, LENGTH = 256K ram (rwx) : ORIGIN = 0x800000, LENGTH = 1M }
PHDRS { text PT_LOAD FLAGS ( 5 ) ; over PT_LOAD ; data PT_LOAD FLAGS ( 6 ) ; stack PT_GNU_STACK ; }
ENTRY ( start )
top = ORIGIN ( ram ) + LENGTH ( ram ) ;
SECTIONS {
  .text : ALIGN ( 16 ) { first = . ; KEEP ( *(.init) ) *(EXCLUDE_FILE ( *x.o ) .text .text.*) *(SORT ( .text.s* )) last = . ; } > rom : text
  .rodata : { *(.rodata .rodata.*) . = ALIGN ( 8 ) ; QUAD ( SIZEOF ( .text ) ) FILL ( 0x90 ) . += 16 ; *(.eh_frame) } > rom : text
  .before 0x8ff000 : AT ( 0x1f000 ) { BYTE ( 1 ) } : over
  OVERLAY 0x900000 : AT ( 0x20000 ) { .one { *(.one) } .two { *(.two) BYTE ( 3 ) } }
  .data : AT ( LOADADDR ( .rodata ) + SIZEOF ( .rodata ) ) { *(.data .data.*) PROVIDE ( middle = . ) ; CONSTRUCTORS } > ram : data
  .bss ( NOLOAD ) : { *(.bss) *(COMMON) . = ALIGN ( CONSTANT ( MAXPAGESIZE ) ) ; PROVIDE_HIDDEN ( end = . ) ; } > ram
  ASSERT ( last >= first , \"order\" )
  other = DEFINED ( start ) ? MAX ( start , first ) : ADDR ( .data ) ;
  /DISCARD/ : { *(.comment) *(.note*) }
}
";

const VERSIONS: &str = "\
V1 { global: start ; f ; g* ; [a-c]* ; extern \"C\" { h ; \"word\" } ; local: other ; } ;
V2 { global: extern \"C++\" { std::* ; T<*>::value* ; \"f(int)\" ; } ; com?on ; } V1 ;
V3 { local: * ; } V1 V2 ;
";

/// Makes the originals of a machine in a folder with its name, and the other files that links need.
pub fn make(proof: &Proof, folder: &Path, machine: Machine) -> Result<Vec<Original>> {
    let folder = folder.join(machine.name);
    std::fs::create_dir_all(&folder)?;
    for (name, text) in SOURCES {
        std::fs::write(folder.join(name), text)?;
    }
    compile(proof, &folder, machine)?;
    let objects = ["plain.o", "sections.o", "tls.o", "groups.o", "debug.o", "library.o"];
    let frames = ["frames.o", "split.o", "index.o"];
    let archives = ["plain.a", "long_names.a", "thin.a"];
    let mut originals = Vec::new();
    for (kind, names, ways) in [
        ("object", &objects[..], OBJECT_WAYS),
        ("object with `.sframe`", &frames, OBJECT_WAYS),
        ("shared library", &["good.so"], LIBRARY_WAYS),
        ("archive", &archives, ARCHIVE_WAYS),
    ] {
        for name in names {
            let bytes = std::fs::read(folder.join(name))?;
            originals.push(Original { machine, kind, name: (*name).to_owned(), bytes, ways });
        }
    }
    for (kind, name, text, ways) in [
        ("linker script", "script.ld", SCRIPT, SCRIPT_WAYS),
        ("version script", "versions.map", VERSIONS, VERSION_WAYS),
    ] {
        originals.push(Original { machine, kind, name: name.to_owned(), bytes: text.into(), ways });
    }
    Ok(originals)
}

fn compile(proof: &Proof, folder: &Path, machine: Machine) -> Result<()> {
    let run = |program: &Path, arguments: &str| -> Result<()> {
        output(Command::new(program).current_dir(folder).args(arguments.split_whitespace())).map(drop)
    };
    let driver = |name: &str| match machine.prefix {
        "" => Ok(PathBuf::from(name)),
        prefix => peers::program(&format!("{prefix}{name}")),
    };
    let (gcc, gxx) = (driver("gcc")?, driver("g++")?);
    run(&gcc, "-c -fPIC -O1 start.c")?;
    run(&gcc, "-c -fPIC -O1 -fcommon plain.c")?;
    run(&gcc, "-c -fPIC -O1 -g -ffunction-sections -fdata-sections plain.c -o sections.o")?;
    run(&gcc, &format!("-c -fPIC -O1 {} tls.c", machine.protection))?;
    run(&gxx, "-c -fPIC -O1 groups.cc")?;
    run(&gxx, "-c -fPIC -O0 -g -gz groups.cc -o debug.o")?;
    run(&gcc, "-c -fPIC library.c")?;
    run(&gcc, "-c -fPIC -DVERSIONED library.c -o versioned.o")?;
    let linker = proof.prefix.join("ld");
    let emulation = machine.emulation;
    run(
        &gcc,
        "-shared -nostdlib -o good.so versioned.o -Wl,--version-script=library.map -Wl,--hash-style=both",
    )?;
    run(&gxx, "-S -O1 -fPIC groups.cc -o frames.s")?;
    run(&peers::program(&format!("{}as", machine.prefix))?, "--gsframe -o frames.o frames.s")?;
    run(&linker, &format!("-m {emulation} -r --sframe-split -o split.o frames.o"))?;
    run(&linker, &format!("-m {emulation} -r --sframe-index -o index.o frames.o"))?;
    std::fs::copy(folder.join("frames.o"), folder.join("a_long_name_of_a_member.o"))?;
    let ar = peers::program(&format!("{}ar", machine.prefix))?;
    run(&ar, "rc plain.a plain.o tls.o")?;
    run(&ar, "rc long_names.a sections.o tls.o a_long_name_of_a_member.o")?;
    run(&ar, "rcT thin.a plain.o groups.o")
}

impl Original {
    /// The arguments of one of its ways, with a file of this name in its place.
    pub fn arguments(&self, way: Way, name: &str) -> Vec<String> {
        let words = way.iter().map(|word| word.replace("MUTANT", name));
        ["-m".to_owned(), self.machine.emulation.to_owned()].into_iter().chain(words).collect()
    }
}
