//! Inputs other than objects and archives: text scripts, response files, raw bytes. Also compressed debug
//! sections in inputs and outputs.

use crate::need;
use crate::support::elf::*;
use crate::support::work::linker;
use crate::support::{Work, built, tools};

#[test]
fn a_text_script_stands_for_a_library() {
    let work = Work::new();
    work.shared("real", "int real(void) { return 1; }", &["-Wl,-soname,libreal.so"]);
    work.shared("spare", "int spare(void) { return 1; }", &["-Wl,-soname,libspare.so"]);
    let helper = work.c("helper", "int real(void); int helper(void) { return real() + 1; }", &[]);
    work.ar("libhelper_nonshared.a", "", &[&helper]);
    work.write("libfront.so", "/* GNU ld script */\nOUTPUT_FORMAT(elf64-x86-64)\nGROUP ( libreal.so libhelper_nonshared.a AS_NEEDED ( libspare.so ) )\n");
    let main = work.c("main", "int helper(void); int main(void) { return helper() - 2; }", &[]);
    work.gcc(&["-o", "program", &main, "-L.", "-lfront"]).quiet();
    work.run("program");
    let needed = work.elf("program").needed();
    assert!(needed.contains(&"libreal.so".into()) && !needed.contains(&"libspare.so".into()), "{needed:?}");
}

/// An input may name any file, but a device may have no end, and a pipe no writer.
#[test]
fn files_that_inputs_name_are_regular() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    work.shared("late", "int late(void) { return 1; }", &["-Wl,-soname,late.so"]);
    work.shared("needy", "int late(void); int needy(void) { return late(); }", &["liblate.so"]);
    work.command("mkfifo", &["pipe", "late.so"]).ok();
    let link = |arguments: &[&str]| crate::proportion::within(&work, &[&[&start[..]], arguments].concat());
    let header = |name: &str, size: usize| format!("{name:<16}0           0     0     644     {size:<10}`\n");
    for (number, place) in ["/dev/zero", "./pipe"].iter().enumerate() {
        let says = [*place, "not a regular file"];
        for text in [format!("INPUT({place})"), format!("INCLUDE {place}"), format!("GROUP({place})")] {
            let script = work.write(&format!("script{number}"), text);
            link(&[&script]).fails().says(&says);
            link(&["-T", &script]).fails().says(&says);
        }
        // Members start at even offsets.
        let name = format!("{place}/\n{}", if place.len() % 2 == 1 { "\n" } else { "" });
        let thin = format!("!<thin>\n{}{name}{}", header("//", name.len()), header("/0", 100));
        let thin = work.write(&format!("thin{number}.a"), thin);
        link(&["--whole-archive", &thin]).fails().says(&says);
        let deplibs = format!(".section .deplibs,\"MS\",@0x6fff4c04,1\n.asciz \"{place}\"\n");
        let deplibs = work.s(&format!("deplibs{number}"), &deplibs);
        link(&[&deplibs]).fails().says(&[*place]);
        let tool = built::sframe();
        for words in [format!("stat {thin}"), format!("wrap-ld --cache cache /bin/true start.o {thin}")] {
            let limits = format!("ulimit -c 0; ulimit -v 400000; exec {tool} {words}");
            let outcome = work.command("sh", &["-c", &limits]).says(&says);
            assert!(matches!(outcome.code, Some(0..=2)), "{outcome}");
        }
    }
    // If a library that a library needs is not a regular file, it is skipped.
    for option in ["-rpath-link=.", "--copy-dt-needed-entries"] {
        link(&[option, "-rpath-link=.", "--allow-shlib-undefined", "libneedy.so"]).ok();
    }
    link(&["@/dev/zero"]).fails().says(&["/dev/zero", "may have no end"]);
    link(&["/dev/zero"]).fails().says(&["/dev/zero", "may have no end"]);
    let through_a_pipe = format!("cat start.o > pipe & exec {} -o out pipe", linker().display());
    work.command("sh", &["-c", &through_a_pipe]).ok();
}

/// Linux allows 65,530 mappings for a process.
#[test]
fn more_files_than_a_process_can_map() {
    let work = Work::new();
    let start = work.s("start", ".globl _start\n_start: ret\n");
    let object = work.path(&work.s("object", "nop\n"));
    let count = 66_000;
    std::fs::create_dir(work.path("names")).unwrap();
    for number in 0..count {
        std::os::unix::fs::symlink(&object, work.path(&format!("names/{number}"))).unwrap();
    }
    let names: Vec<String> = (0..count).map(|number| format!("names/{number}\n")).collect();
    work.write("all", names.concat());
    work.ld(&["-o", "out", &start, "@all"]).ok();
    assert_eq!(work.elf("out").section(".text").size, 1 + count);
}

#[test]
fn input_commands_take_files_and_libraries() {
    let work = Work::new();
    let f = work.c("f", "int f(void) { return 1; }", &[]);
    let g = work.c("g", "int g(void) { return 2; }", &[]);
    work.ar("libg.a", "", &[&g]);
    work.write("both.ld", format!("INPUT({f} , -lg)\n"));
    work.write("extern.ld", "EXTERN(g) /* a comment */\n");
    let main = work.c("main", "int f(void); int g(void); int main(void) { return f() + g() - 3; }", &[]);
    work.gcc(&["-o", "program", &main, "both.ld", "-L."]).quiet();
    work.run("program");
    let plain = work.c("plain", "int main(void) { return 0; }", &[]);
    work.gcc(&["-o", "program", &plain, "extern.ld", "-L.", "-lg"]).quiet();
    assert!(work.elf("program").find_symbol("g").is_some());
}

#[test]
fn a_broken_text_script_is_shown_with_its_line() {
    let work = Work::new();
    work.write("bad.ld", "INPUT(a.o)\nNONSENSE here\n");
    let main = work.c("main", "int main(void) { return 0; }", &[]);
    work.gcc(&["-o", "program", &main, "bad.ld"]).fails().says(&["bad.ld:2"]);
    work.write("random.bin", [0u8, 159, 146, 150, 1, 2, 3]);
    work.gcc(&["-o", "program", &main, "random.bin"]).fails().says(&["random.bin"]);
}

#[test]
fn response_files_hold_arguments_quoted_and_nested() {
    let work = Work::new();
    work.c("main", "int f(void); int main(void) { return f(); }", &[]);
    let f = work.c("f", "int f(void) { return 0; }", &[]);
    std::fs::rename(work.path(&f), work.path("with space.o")).unwrap();
    work.write("outer.rsp", "-o 'my program'\n@inner.rsp \"with space.o\"\n");
    work.write("inner.rsp", "main.o --defsym=quoted=\\1 -e main\n");
    work.ld(&["@outer.rsp"]).ok();
    assert_eq!(work.elf("my program").symbol("quoted").value, 1);
    work.ld(&["@missing.rsp", "-o", "x"]).fails().says(&["missing.rsp"]);
    work.write("loop.rsp", "@loop.rsp");
    work.ld(&["@loop.rsp"]).fails();
}

#[test]
fn binary_input_becomes_data_with_symbols() {
    let work = Work::new();
    work.write("data-file.txt", "hello binary\n");
    let main = work.c("main", "#include <stdio.h>\nextern const char _binary_data_file_txt_start[], _binary_data_file_txt_end[];\nint main(void) { fwrite(_binary_data_file_txt_start, 1, _binary_data_file_txt_end - _binary_data_file_txt_start, stdout); }", &[]);
    work.gcc(&["-o", "program", &main, "-Wl,-b,binary", "data-file.txt", "-Wl,-b,default"]).quiet();
    assert_eq!(work.run("program"), "hello binary\n");
    assert_eq!(work.elf("program").symbol("_binary_data_file_txt_size").value, 13);
    work.ld(&["-r", "-m", "elf_x86_64", "-b", "binary", "-o", "data.o", "data-file.txt"]).ok();
    work.gcc(&["-o", "program", &main, "data.o"]).ok();
    assert_eq!(work.run("program"), "hello binary\n");
}

const DEBUGGED: &str = "#include <stdio.h>\nstruct point { int x, y; }; static struct point p = {1, 2};\nint main(void) { printf(\"%d\\n\", p.x + p.y); }";

fn debug_dump(work: &Work, program: &str) -> String {
    let outcome = work.command(tools::readelf().unwrap(), &["--debug-dump=info", program]).ok();
    outcome
        .stdout
        .lines()
        .filter(|l| l.contains("DW_AT_name"))
        .map(|l| l.rsplit(' ').next().unwrap_or("").to_owned() + "\n")
        .collect()
}

#[test]
fn compressed_debug_sections_are_read() {
    need!(tools::readelf());
    let work = Work::new();
    let plain = work.c("plain", DEBUGGED, &["-g"]);
    work.gcc(&["-o", "expected", &plain]).quiet();
    let expected = debug_dump(&work, "expected");
    assert!(expected.contains("point"));
    for (name, flag) in
        [("zlib", "-gz=zlib"), ("zstd", "--compress-debug-sections=zstd"), ("gnu", "-gz=zlib-gnu")]
    {
        let object = if name == "zstd" {
            let output = format!("{name}.o");
            work.command(work.tool("objcopy"), &[flag, &plain, &output]).ok();
            output
        } else {
            work.c(name, DEBUGGED, &["-g", flag])
        };
        work.gcc(&["-o", "program", &object]).quiet();
        let elf = work.elf("program");
        let info = elf.section(".debug_info");
        assert_eq!(info.flags & SHF_COMPRESSED, 0, "{name}");
        assert_eq!(debug_dump(&work, "program").replace(name, "plain"), expected, "{name}");
    }
}

#[test]
fn debug_sections_are_compressed_on_request() {
    need!(tools::readelf());
    let work = Work::new();
    let object = work.c("plain", DEBUGGED, &["-g3"]);
    work.gcc(&["-o", "expected", &object]).quiet();
    let expected = debug_dump(&work, "expected");
    for (style, kind) in [("zlib", 1), ("zlib-gabi", 1), ("zstd", 2)] {
        work.gcc(&["-o", "program", &object, &format!("-Wl,--compress-debug-sections={style}")]).quiet();
        let elf = work.elf("program");
        let macros = elf.section(".debug_str");
        assert!(macros.flags & SHF_COMPRESSED != 0, "{style}");
        assert_eq!(word(&macros.data, 0), kind, "ch_type for {style}");
        let plain = work.elf("expected");
        assert_eq!(quad(&macros.data, 8), plain.section(".debug_str").size, "ch_size");
        assert!(macros.size < plain.section(".debug_str").size);
        assert_eq!(debug_dump(&work, "program"), expected, "{style}");
    }
    work.gcc(&["-o", "program", &object, "-Wl,--compress-debug-sections=none"]).quiet();
    assert_eq!(work.elf("program").section(".debug_str").flags & SHF_COMPRESSED, 0);
}

#[test]
fn damaged_compressed_sections_are_errors() {
    let work = Work::new();
    let object = work.c("plain", DEBUGGED, &["-g3", "-gz=zlib"]);
    let elf = work.elf_unchecked(&object);
    let section = elf.section(".debug_str");
    let mut bytes = elf.bytes.clone();
    let start = section.offset as usize;
    bytes[start + 40..start + 60].fill(0xff);
    work.write("damaged.o", &bytes);
    work.gcc(&["-o", "program", "damaged.o"]).fails().says(&["damaged.o", ".debug_str"]);
    bytes.copy_from_slice(&elf.bytes);
    bytes[start + 8..start + 16].fill(0x7f);
    work.write("huge.o", &bytes);
    work.gcc(&["-o", "program", "huge.o"]).fails().says(&["huge.o", ".debug_str"]);
}

#[test]
fn lto_only_objects_are_refused_clearly() {
    let work = Work::new();
    let object = work.c("slim", "int main(void) { return 0; }", &["-flto", "-fno-fat-lto-objects"]);
    work.ld(&["-o", "program", &object]).fails().says(&["slim.o", "LTO"]);
    work.write("bitcode.o", b"BC\xc0\xde\x35\x14\x00\x00");
    work.ld(&["-o", "program", "bitcode.o"]).fails().says(&["bitcode.o", "LTO"]);
    let fat = work.c("fat", "int main(void) { return 0; }", &["-flto", "-ffat-lto-objects"]);
    work.gcc(&["-fno-lto", "-o", "program", &fat]).ok();
    work.run("program");
    assert!(work.elf("program").section_names().iter().all(|n| !n.starts_with(".gnu.lto")));
}

#[test]
fn members_of_intermediate_code_matter_only_if_the_link_needs_them() {
    let work = Work::new();
    let slim = work.c("slim", "int helper(void) { return 1; }", &["-flto", "-fno-fat-lto-objects"]);
    work.write("bitcode.o", b"BC\xc0\xde\x35\x14\x00\x00");
    let code = work.c("code", "int plain(void) { return 0; }", &[]);
    let main = work.c("main", "int plain(void); int main(void) { return plain(); }", &[]);
    let user = work.c("user", "int helper(void); int main(void) { return helper() - 1; }", &[]);
    // The compiler's own ar lists the symbols of intermediate code.
    work.command("gcc-ar", &["rcs", "libnamed.a", &slim, &code]).ok();
    let link = |object: &str, archive: &str| work.gcc(&["-fno-lto", "-o", "program", object, archive]);
    link(&main, "libnamed.a").quiet();
    work.run("program");
    let needed = link(&user, "libnamed.a").fails();
    needed.says(&["libnamed.a(slim.o)", "LTO", "it defines helper"]).says_not(&["undefined"]);
    work.command("gcc-ar", &["rcT", "libthin.a", &slim, &code]).ok();
    link(&main, "libthin.a").quiet();
    link(&user, "libthin.a").fails().says(&["slim.o", "LTO", "it defines helper"]);
    // Without names, nothing can ask for a member.
    let unnamed = work.ar("libunnamed.a", "", &["bitcode.o", &code]);
    let outcome = link(&main, &unnamed).ok();
    outcome.says(&["warning", "libunnamed.a", "1 of its members", "bitcode.o"]);
    work.run("program");
    work.gcc(&[
        "-fno-lto",
        "-o",
        "program",
        &main,
        "-Wl,--whole-archive",
        &unnamed,
        "-Wl,--no-whole-archive",
    ])
    .fails()
    .says(&["libunnamed.a(bitcode.o)", "LTO"]);
}

#[test]
fn an_object_of_another_machine_is_an_error_and_a_library_is_passed_over() {
    let work = Work::new();
    let main = work.c("main", "int f(void); int main(void) { return f(); }", &[]);
    let f = work.c("f", "int f(void) { return 0; }", &[]);
    let mut foreign = work.read(&f);
    foreign[18] = 183;
    work.write("foreign.o", &foreign);
    work.gcc(&["-o", "program", &main, "foreign.o"]).fails().says(&["foreign.o"]);
    for dir in ["wrong", "right"] {
        std::fs::create_dir(work.path(dir)).unwrap();
    }
    work.ar("wrong/libf.a", "", &["foreign.o"]);
    work.ar("right/libf.a", "", &[&f]);
    work.gcc(&["-o", "program", &main, "-Lwrong", "-Lright", "-lf"]).ok();
    work.run("program");
    work.write("wrong/libf.so", "OUTPUT_FORMAT(elf64-s390)\nGROUP ( libf.so.6 )\n");
    let outcome = work.gcc(&["-o", "program", &main, "-Lwrong", "-Lright", "-lf"]).ok();
    outcome.says(&["skipping incompatible wrong/libf.so", "skipping incompatible wrong/libf.a"]);
    work.run("program");
}

#[test]
fn objects_of_sections_beyond_sixteen_bits_are_read() {
    let work = Work::new();
    let count = 66_000;
    let mut source = String::new();
    for i in 0..count {
        source.push_str(&format!(".section .text.f{i},\"ax\",@progbits\nf{i}: .byte 0xc3\n"));
    }
    source.push_str(&format!(
        ".text\n.globl _start\n_start: call f{}\nmov $60,%eax\nxor %edi,%edi\nsyscall\n",
        count - 1
    ));
    let object = work.s("many", &source);
    work.ld(&["-o", "program", &object]).ok();
    work.run("program");
    work.ld(&["-r", "-o", "again.o", &object]).ok();
    work.ld(&["-o", "program", "again.o"]).ok();
    work.run("program");
}

#[test]
fn relocation_tables_that_cannot_be_read_are_refused_clearly() {
    use crate::support::elf_write::{Link, RawSection, RawSymbol, object};
    // Compact relocations whose first number never ends; relative relocations, which objects must not have.
    let odd = [(".crel.text", 0x4000_0014u32, 0x80), (".relr.dyn", SHT_RELR, 0)];
    for (name, kind, byte) in odd {
        let text = RawSection {
            name: ".text",
            kind: SHT_PROGBITS,
            flags: SHF_ALLOC | SHF_EXECINSTR,
            align: 1,
            data: vec![0xe8, 0, 0, 0, 0, 0xc3],
            link: Link::Index(0),
            ..Default::default()
        };
        let relocations =
            RawSection { name, kind, info: 1, align: 8, data: vec![byte; 8], ..Default::default() };
        let start = RawSymbol { name: "_start", info: 0x12, section: 1, value: 0 };
        let work = Work::new();
        work.write("odd.o", object(&[text, relocations], &[start]));
        work.ld(&["-o", "program", "odd.o"]).fails().says(&["odd.o", name]);
    }
}
