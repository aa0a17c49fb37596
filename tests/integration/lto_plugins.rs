//! The interface to linker plugins, with a plugin that the tests make.

use crate::need;
use crate::support::{Work, tools};

const PLAIN: &[&str] = &["-O2", "-fPIC"];

/// A plugin that does what its options say. It logs what the linker tells it.
const PLUGIN: &str = include_str!("support/plugin.c");

pub(crate) fn plugin(work: &Work) -> String {
    let object = work.c("plugin", PLUGIN, &["-fPIC", "-Wall", "-Werror"]);
    // Linked with gcc's default linker, because the plugin is only a tool here.
    work.command("gcc", &["-shared", "-o", "plugin.so", &object]).ok();
    "plugin.so".into()
}

/// An object that the plugins of gcc and LLVM do not know.
pub(crate) fn marked(work: &Work, name: &str) -> String {
    work.s(
        name,
        ".section .gnu.lto_mark,\"e\",@progbits\n.ascii \"MARK\"\n.text\n.globl code_of\ncode_of: nop",
    )
}

#[test]
fn the_interface_tells_plugins_all_that_it_promises() {
    need!(tools::own_linker());
    let work = Work::new();
    plugin(&work);
    let marked = marked(&work, "marked");
    let result =
        work.c("result", "int ir_main(void) { return 7; } int ir_weak, ir_common; int ir_other;", PLAIN);
    let main = work.c(
        "main",
        "int ir_main(void); int ir_common; int main(void) { return ir_main() - 7; } int known;",
        &["-fcommon"],
    );
    let archive = work.ar("libmarked.a", "", &[&marked]);
    let file = format!("-plugin-opt=file={result}");
    let gcc = |input: &str, extra: &[&str]| {
        let _ = std::fs::remove_file(work.path("log"));
        let plugin = ["-plugin", "./plugin.so", &file].map(|option| format!("-Wl,{option}"));
        let plugin: Vec<&str> = plugin.iter().map(String::as_str).collect();
        work.gcc(&[&["-fno-lto", "-no-pie", "-o", "program", &main, input], &plugin[..], extra].concat())
    };
    let log = || String::from_utf8(work.read("log")).unwrap();
    gcc(&archive, &["-Wl,--wrap=one,--wrap=two"])
        .ok()
        .says(&["plugin.so: 12 of symbols", "warning: plugin.so: careful"]);
    work.run("program");
    let text = log();
    for line in [
        "api 1 output 1 name program gnu 1",
        "wrap one two",
        "claim libmarked.a at-offset used 0",
        "view MARK",
        "file libmarked.a at-offset",
        "v3 status 0 ir_main 2 ir_weak 3 ir_common 7 known 7 missing 1 printf 8 ir_other 3",
        "cleanup",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    gcc(&marked, &["-Wl,-export-dynamic"]).ok();
    let text = log();
    for line in [
        "claim marked.o whole used 1",
        "ir_weak 9",
        "v2 status 0 ir_main 2 ir_weak 9",
        "v1 status 0 ir_main 2 ir_weak 2",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // A member that nobody needs takes no part.
    let other = work.s("other", ".section .gnu.lto_mark,\"e\",@progbits\n.ascii \"IDLE\"");
    let archive = work.ar("libidle.a", "", &[&other]);
    gcc(&marked, &[&archive]).ok();
    assert!(log().contains("v3 status 1"), "{}", log());
}

#[test]
fn a_plugin_that_claims_nothing_hears_of_the_symbols_and_may_add_files() {
    need!(tools::own_linker());
    let work = Work::new();
    plugin(&work);
    let result = work.c("result", "int ir_main(void) { return 7; }", PLAIN);
    let main = work.c("main", "int ir_main(void); int main(void) { return ir_main() - 7; }", PLAIN);
    let option = format!("-Wl,-plugin,./plugin.so,-plugin-opt=decline,-plugin-opt=file={result}");
    work.gcc(&["-fno-lto", "-o", "program", &main, &option]).ok().says(&["plugin.so: 12 of symbols"]);
    work.run("program");
    assert!(String::from_utf8(work.read("log")).unwrap().contains("cleanup"));
}

/// Its second `onload` would meet the state of the first.
#[test]
fn a_plugin_is_not_loaded_twice() {
    need!(tools::own_linker());
    let work = Work::new();
    plugin(&work);
    let main = work.c("main", "int main(void) { return 0; }", PLAIN);
    for second in ["./plugin.so", "././plugin.so"] {
        let option = format!("-Wl,-plugin,./plugin.so,-plugin,{second}");
        let expected = format!("duplicated plugin {second}");
        work.gcc(&["-fno-lto", "-o", "program", &main, &option]).fails().says(&[&expected]);
    }
}

#[test]
fn a_plugin_that_fails_fails_the_link_after_it_has_cleaned_up() {
    need!(tools::own_linker());
    let work = Work::new();
    plugin(&work);
    let marked = marked(&work, "marked");
    let main = work.c("main", "int ir_main(void); int main(void) { return ir_main(); }", PLAIN);
    for (option, says) in [
        ("fatal=claim", &["error: plugin.so: it cannot go on: 42"][..]),
        ("fatal=read", &["error: plugin.so: it cannot go on: 42"]),
        ("error=read", &["error: plugin.so: something is wrong"]),
        ("status=onload", &["plugin.so failed in onload with status 3"]),
        ("status=claim", &["plugin.so failed in claim_file with status 3"]),
        ("status=read", &["plugin.so failed in all_symbols_read with status 3"]),
        ("nothing", &["gave no object"]),
        ("file=missing.o", &["missing.o", "No such file"]),
        ("decline", &["undefined symbol: ir_main"]),
    ] {
        let _ = std::fs::remove_file(work.path("log"));
        let option = format!("-Wl,-plugin,./plugin.so,-plugin-opt={option}");
        work.gcc(&["-fno-lto", "-o", "program", &main, &marked, &option]).fails().says(says);
        assert!(!work.exists("program"), "{option}");
        let log = String::from_utf8(work.read("log")).unwrap();
        assert!(log.contains("cleanup") || option.contains("status=onload"), "{option}: {log}");
        assert!(!log.contains("went on"), "{option}: {log}");
    }
}

/// A program without a library, which copies a large structure, and a member of an archive that has `memcpy`.
fn copying(work: &Work) -> [String; 2] {
    let flags = ["-O2", "-flto", "-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-fno-pic"];
    let main = "struct big { char bytes[4096]; } from = {{1}}, to;
        void copy(struct big *a, struct big *b) { *a = *b; }
        void _start(void) { copy(&to, &from);
            __asm__ volatile(\"mov $60,%%eax; mov %0,%%edi; syscall\" :: \"r\"(((volatile char *)to.bytes)[0] + 41) : \"eax\"); }";
    let member = "void *memcpy(void *to, const void *from, unsigned long n) {
            char *t = to; const char *f = from;
            while (n--) { *t++ = *f++; __asm__ volatile(\"\"); }
            return to; }
        int idle(void) { return 1; }";
    let clang = tools::clang("clang").unwrap();
    [("main", main), ("member", member)].map(|(name, source)| {
        let (source, object) = (work.write(&format!("{name}.c"), source), format!("{name}.o"));
        work.command(&clang, &[&flags[..], &["-c", "-o", &object, &source]].concat()).ok();
        object
    })
}

#[test]
fn members_with_what_the_compiler_calls_are_found_in_time() {
    need!(tools::clang("clang"));
    let plugin = need!(tools::llvm_plugin()).display().to_string();
    let mut work = Work::new();
    work.env("LD_LIBRARY_PATH", &tools::llvm_libraries());
    let [main, member] = copying(&work);
    let other = work.c("other", "int other(void) { return 2; }", PLAIN);
    let fixed =
        ["-plugin", &plugin, "-static", "-o", "out", &main, "--start-lib", &other, &member, "--end-lib"];
    work.ld(&fixed).quiet();
    let elf = work.elf_unchecked("out");
    assert!(elf.find_symbol("memcpy").is_some() && elf.find_symbol("idle").is_none());
    assert!(elf.find_symbol("other").is_none());
    assert_eq!(work.run_any("out").code, Some(42));
    // The linker can find machine code when the compiler has asked for it.
    let code =
        work.c("code", "void *memcpy(void *to, const void *from, unsigned long n) { return 0; }", PLAIN);
    work.ld(&["-plugin", &plugin, "-static", "-o", "out", &main, "--start-lib", &code, &member, "--end-lib"])
        .quiet();
    assert_eq!(work.run_any("out").code, Some(41));
}
