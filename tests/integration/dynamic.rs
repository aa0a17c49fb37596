//! Dynamic linking: copy relocations, canonical PLT entries, hash tables, tags, RELRO, RELR.

use crate::on_every_machine;
use crate::support::elf::*;
use crate::support::{Machine, Work};

const HELLO: &str = "#include <stdio.h>\nint main(void) { printf(\"hello\\n\"); return 0; }";

fn copy_relocations_move_library_data_into_the_program(machine: &'static Machine) {
    let work = Work::on(machine);
    work.shared("data", "int data[4] = {1, 2, 3, 4}; __attribute__((aligned(64))) long wide = 8; extern int twin[4] __attribute__((weak, alias(\"data\"))); int sum(void) { return data[0] + twin[1] + (int)wide; }", &[]);
    let main = work.c("main", "#include <stdio.h>\nextern int data[4], twin[4]; extern long wide; int sum(void);\nstatic __attribute__((noipa)) int same(int *a, int *b) { return a == b; }\nint main(void) { data[0] = 10; wide += 1; printf(\"%d %d %d %d\\n\", data[3], sum(), same(data, twin), (int)((long)&wide % 64)); }", &["-fno-PIE"]);
    work.gcc(&["-no-pie", "-o", "program", &main, "-L.", "-ldata"]).quiet();
    assert_eq!(work.run("program"), "4 21 1 0\n");
    let elf = work.elf("program");
    let copies: Vec<String> =
        elf.dynamic_relocations_of(machine.relocations.copy).into_iter().map(|(_, n)| n).collect();
    assert_eq!(copies.len(), 2, "one copy for data and its alias, one for wide: {copies:?}");
    let (data, twin) = (elf.dynamic("data"), elf.dynamic("twin"));
    assert!(data.value == twin.value && data.section != SHN_UNDEF && data.size == 16);
    work.gcc(&["-no-pie", "-o", "p", &main, "-L.", "-ldata", "-Wl,-z,nocopyreloc"])
        .fails()
        .says(&["data", "main.o"]);
}

fn a_copied_constant_stays_read_only_after_relocation(machine: &'static Machine) {
    let work = Work::on(machine);
    work.shared("data", "extern const int table[2]; const int table[2] = {1, 2};", &[]);
    let main =
        work.c("main", "extern const int table[2]; int main(void) { return table[1] - 2; }", &["-fno-PIE"]);
    work.gcc(&["-no-pie", "-o", "program", &main, "-L.", "-ldata"]).quiet();
    work.run("program");
    let elf = work.elf("program");
    let relro = elf.segment(PT_GNU_RELRO);
    let table = elf.dynamic("table").value;
    assert!(relro.addr <= table && table < relro.addr + relro.size, "copied into .data.rel.ro");
}

#[test]
fn a_protected_symbol_is_not_copied() {
    let work = Work::new();
    work.shared("data", "__attribute__((visibility(\"protected\"))) int data = 1;", &[]);
    let main = work.s("main", ".globl main\nmain: movl data(%rip),%eax\nret\n");
    work.gcc(&["-no-pie", "-o", "program", &main, "-L.", "-ldata"]).fails().says(&["data", "main.o"]);
}

fn function_addresses_are_the_same_everywhere(machine: &'static Machine) {
    for (compile, link) in [("-fno-PIE", "-no-pie"), ("-fPIE", "-pie")] {
        let work = Work::on(machine);
        work.shared("f", "int f(void) { return 1; } int (*address(void))(void) { return f; }", &[]);
        let main = work.c("main", "#include <stdio.h>\nint f(void); int (*address(void))(void);\nint (*pointer)(void) = f;\nint main(void) { printf(\"%d %d\\n\", address() == f, pointer == f); }", &[compile]);
        work.gcc(&[link, "-o", "program", &main, "-L.", "-lf"]).quiet();
        assert_eq!(work.run("program"), "1 1\n", "{link}");
        let elf = work.elf("program");
        let f = elf.dynamic("f");
        assert_eq!(f.section, SHN_UNDEF);
        assert_eq!(f.value != 0, link == "-no-pie", "a canonical PLT entry only where the address is fixed");
    }
}

#[test]
fn every_hash_style_finds_every_symbol() {
    let work = Work::new();
    let source: String = (0..50).map(|i| format!("int name_{i}(void) {{ return {i}; }}\n")).collect();
    let main = work.c("main", "#include <stdio.h>\nint name_7(void); int name_42(void);\nint main(void) { printf(\"%d %d\\n\", name_7(), name_42()); }", &[]);
    for (style, sysv, gnu) in [("sysv", 1, 0), ("gnu", 0, 1), ("both", 1, 1)] {
        work.shared("names", &source, &[&format!("-Wl,--hash-style={style}")]);
        work.gcc(&["-o", "program", &main, "-L.", "-lnames"]).quiet();
        assert_eq!(work.run("program"), "7 42\n");
        let elf = work.elf("libnames.so");
        assert_eq!((elf.tags(DT_HASH).len(), elf.tags(DT_GNU_HASH).len()), (sysv, gnu), "{style}");
        if gnu == 1 {
            check_gnu_hash(&elf);
        }
    }
}

/// Checks that the dynamic loader's look-up finds every defined symbol.
fn check_gnu_hash(elf: &Elf) {
    let data = &elf.section(".gnu.hash").data;
    let (buckets, first, words, shift) = (word(data, 0), word(data, 4), word(data, 8), word(data, 12));
    let symbols = elf.dynamic_symbols();
    let chains = 16 + words as usize * 8 + buckets as usize * 4;
    for symbol in symbols.iter().filter(|s| s.section != SHN_UNDEF && s.index > 0) {
        let hash = symbol.name.bytes().fold(5381u32, |h, b| h.wrapping_mul(33).wrapping_add(b.into()));
        let filter = quad(data, 16 + (hash / 64 % words) as usize * 8);
        assert!(filter >> (hash % 64) & filter >> ((hash >> shift) % 64) & 1 == 1, "{}", symbol.name);
        let mut at = word(data, 16 + words as usize * 8 + (hash % buckets) as usize * 4);
        assert!(at >= first, "{}", symbol.name);
        loop {
            let entry = word(data, chains + (at - first) as usize * 4);
            if entry | 1 == hash | 1 && symbols[at as usize].name == symbol.name {
                break;
            }
            assert!(entry & 1 == 0, "{} is not in its chain", symbol.name);
            at += 1;
        }
    }
}

#[test]
fn dynamic_tags_follow_the_options() {
    let work = Work::new();
    let library = work.shared(
        "a",
        "int a(void) { return 1; }",
        &[
            "-Wl,-soname,libspecial.so.3",
            "-Wl,-rpath,/opt/x",
            "-Wl,-rpath=/opt/y",
            "-Wl,-z,now",
            "-Wl,-z,nodelete",
            "-Wl,-z,origin",
            "-Wl,-z,initfirst",
            "-Wl,-z,interpose",
            "-Wl,-z,nodlopen",
            "-Wl,-z,nodefaultlib",
            "-Wl,-z,global",
        ],
    );
    let elf = work.elf(&library);
    assert_eq!(elf.tag_strings(DT_SONAME), ["libspecial.so.3"]);
    assert_eq!(elf.tag_strings(DT_RUNPATH), ["/opt/x:/opt/y"]);
    assert!(elf.tags(DT_FLAGS)[0] & 8 != 0, "DF_BIND_NOW");
    assert_eq!(elf.tags(DT_FLAGS_1)[0] & 0xceb, 0x1 | 0x8 | 0x20 | 0x40 | 0x80 | 0x400 | 0x800 | 0x2);
    work.shared("b", "int b(void) { return 1; }", &["-Wl,-rpath,/opt/x", "-Wl,--disable-new-dtags"]);
    let elf = work.elf("libb.so");
    assert_eq!((elf.tag_strings(DT_RPATH).len(), elf.tags(DT_RUNPATH).len()), (1, 0));
    let main = work.c("main", "int a(void); int main(void) { return a() - 1; }", &[]);
    work.gcc(&["-o", "program", &main, "liba.so", "-Wl,--dynamic-linker=/lib64/ld-linux-x86-64.so.2"])
        .quiet();
    let elf = work.elf("program");
    assert!(elf.needed().contains(&"libspecial.so.3".into()), "{:?}", elf.needed());
    assert_eq!(*elf.section(".interp").data, *b"/lib64/ld-linux-x86-64.so.2\0");
}

#[test]
fn as_needed_drops_libraries_that_nothing_uses() {
    let work = Work::new();
    work.shared("used", "int used(void) { return 1; }", &[]);
    work.shared("unused", "int unused(void) { return 1; }", &[]);
    let main = work.c("main", "int used(void); int main(void) { return used() - 1; }", &[]);
    let needed = |args: &[&str]| {
        let mut all = vec!["-o", "program", main.as_str(), "-L."];
        all.extend(args);
        work.gcc(&all).quiet();
        let mut names = work.elf("program").needed();
        names.retain(|n| n.contains("used"));
        names
    };
    assert_eq!(needed(&["-Wl,--as-needed", "-lunused", "-lused"]), ["libused.so"]);
    assert_eq!(needed(&["-Wl,--no-as-needed", "-lunused", "-lused"]), ["libunused.so", "libused.so"]);
    assert_eq!(
        needed(&["-Wl,--push-state,--as-needed", "-lunused", "-Wl,--pop-state", "-lused"]),
        ["libused.so"]
    );
    assert_eq!(needed(&["-lused", "-lused"]), ["libused.so"]);
}

#[test]
fn an_as_needed_library_is_kept_for_a_weak_reference_only_if_it_is_needed_anyway() {
    let work = Work::new();
    work.shared("weak", "int maybe(void) { return 1; }", &[]);
    let main = work.c(
        "main",
        "__attribute__((weak)) int maybe(void); int main(void) { return maybe ? 0 : 0; }",
        &[],
    );
    work.gcc(&["-o", "program", &main, "-L.", "-Wl,--as-needed", "-lweak"]).quiet();
    assert!(!work.elf("program").needed().contains(&"libweak.so".into()));
}

fn relro_covers_sections_that_only_relocation_writes(machine: &'static Machine) {
    let work = Work::on(machine);
    let main = work.c("main", "#include <stdio.h>\nstatic const char *const names[] = {\"a\", \"b\"}; const char *const *table = names; int data = 1;\nint main(void) { printf(\"%s\\n\", table[data]); }", &["-fPIE"]);
    work.gcc(&["-pie", "-o", "lazy", &main, "-Wl,-z,relro,-z,lazy"]).quiet();
    work.gcc(&["-pie", "-o", "now", &main, "-Wl,-z,relro,-z,now"]).quiet();
    work.gcc(&["-pie", "-o", "none", &main, "-Wl,-z,norelro"]).quiet();
    for program in ["lazy", "now", "none"] {
        assert_eq!(work.run(program), "b\n");
        let elf = work.elf(program);
        if program == "none" {
            assert!(elf.segments_of(PT_GNU_RELRO).is_empty());
            continue;
        }
        let relro = elf.segment(PT_GNU_RELRO);
        assert_eq!((relro.addr + relro.size) % 4096, 0, "the loader protects whole pages only");
        for name in [".init_array", ".fini_array", ".data.rel.ro", ".dynamic", ".got"] {
            if let Some(section) = elf.find(name) {
                assert!(relro.covers(section), "{program}: {name}");
            }
        }
        for name in [".data", ".bss"] {
            assert!(elf.section(name).addr >= relro.addr + relro.size, "{program}: {name}");
        }
        if let Some(slots) = elf.find(".got.plt") {
            assert_eq!(relro.covers(slots), program == "now", "{program}: .got.plt");
        }
    }
}

fn relr_packs_relative_relocations(machine: &'static Machine) {
    let work = Work::on(machine);
    let entries: String = (0..200).map(|i| format!("&data[{i}], ")).collect();
    let source = format!(
        "#include <stdio.h>\nint data[200] = {{1}}; int *table[] = {{{entries}}}; struct __attribute__((packed)) {{ char c; int *p; }} odd = {{1, data}};\nint main(void) {{ printf(\"%d %d\\n\", *table[0], *odd.p); }}"
    );
    let main = work.c("main", &source, &["-fPIE"]);
    for option in ["-Wl,-z,pack-relative-relocs", "-Wl,--pack-dyn-relocs=relr"] {
        work.gcc(&["-pie", "-o", "program", &main, option]).quiet();
        assert_eq!(work.run("program"), "1 1\n");
        let elf = work.elf("program");
        let table = elf.symbol("table").value;
        let packed = elf.relr();
        assert!((0..200).all(|i| packed.contains(&(table + 8 * i))), "every aligned word is packed");
        assert_eq!(elf.tags(DT_RELR), [elf.section(".relr.dyn").addr]);
        let relative = elf.dynamic_relocations_of(machine.relocations.relative);
        assert_eq!(relative.len(), 1, "the unaligned word: {relative:?}");
        assert_eq!(elf.quad_at(table + 8), elf.symbol("data").value + 4, "the addend is in place");
    }
    let elf = work.elf("program");
    let glibc = elf.version_names().iter().any(|(_, n)| n == "GLIBC_ABI_DT_RELR");
    assert!(glibc, "old loaders must refuse it");
    work.gcc(&["-pie", "-o", "plain", &main, "-Wl,-z,nopack-relative-relocs"]).quiet();
    let elf = work.elf("plain");
    assert!(elf.relr().is_empty() && elf.dynamic_relocations_of(machine.relocations.relative).len() > 200);
}

fn relative_relocations_come_first_and_are_counted(machine: &'static Machine) {
    let work = Work::on(machine);
    let main = work.c("main", "#include <stdio.h>\nint d; int *p[] = {&d, &d, &d}; FILE **q[] = {&stdout, &stderr};\nint main(void) { fprintf(*q[0], \"%d\\n\", p[0] == p[1]); }", &["-fPIE"]);
    work.gcc(&["-pie", "-o", "program", &main]).quiet();
    assert_eq!(work.run("program"), "1\n");
    let elf = work.elf("program");
    let relocations = elf.relocations_in(elf.section(".rela.dyn"));
    let relative = relocations.iter().take_while(|r| r.kind == machine.relocations.relative).count();
    assert!(relocations[relative..].iter().all(|r| r.kind != machine.relocations.relative));
    assert_eq!(elf.tags(0x6fff_fff9), [relative as u64], "DT_RELACOUNT");
}

fn lazy_binding_fills_slots_at_the_first_call(machine: &'static Machine) {
    let work = Work::on(machine);
    let main = work.c("main", HELLO, &["-fPIE"]);
    work.gcc(&["-pie", "-o", "lazy", &main, "-Wl,-z,lazy"]).quiet();
    work.gcc(&["-pie", "-o", "now", &main, "-Wl,-z,now"]).quiet();
    // Slots that are all protected stand in one table.
    for (program, table) in [("lazy", ".got.plt"), ("now", ".got")] {
        assert_eq!(work.run(program), "hello\n");
        let elf = work.elf(program);
        let slots = elf.dynamic_relocations_of(machine.relocations.jump_slot);
        assert!(slots.iter().any(|(_, n)| n == "puts"), "{program}: {slots:?}");
        assert_eq!(elf.section(".rela.plt").info as usize, elf.section(table).index, "sh_info");
        let now = elf.tags(DT_FLAGS).first().is_some_and(|f| f & 8 != 0) || !elf.tags(DT_BIND_NOW).is_empty();
        assert_eq!(now, program == "now");
    }
}

#[test]
fn text_relocations_are_errors_unless_allowed() {
    let work = Work::new();
    let a = work.s("a", ".globl f\nf: movabs $value, %rax\nret\n.data\n.globl value\nvalue: .long 1\n");
    work.ld(&["-shared", "-z", "text", "-o", "liba.so", &a]).fails().says(&["a.o", "value", ".text"]);
    work.ld(&["-shared", "-z", "notext", "-o", "liba.so", &a]).ok();
    let elf = work.elf_unchecked("liba.so");
    let flagged = !elf.tags(DT_TEXTREL).is_empty() || elf.tags(DT_FLAGS).iter().any(|f| f & 4 != 0);
    assert!(flagged);
}

fn data_pointers_to_preemptible_symbols_get_symbolic_relocations(machine: &'static Machine) {
    let work = Work::on(machine);
    work.shared(
        "p",
        "int open_value = 1; int *pointer = &open_value; static int inside; int *local = &inside;",
        &[],
    );
    let elf = work.elf("libp.so");
    let symbolic: Vec<String> =
        elf.dynamic_relocations_of(machine.relocations.absolute).into_iter().map(|(_, n)| n).collect();
    assert_eq!(symbolic, ["open_value"]);
    let local = elf.symbol("local").value;
    assert!(elf.dynamic_relocations_of(machine.relocations.relative).iter().any(|(r, _)| r.offset == local));
    assert!(elf.dynamic_relocations_of(machine.relocations.glob_dat).iter().all(|(_, n)| n != "open_value"));
}

fn export_dynamic_offers_symbols_to_loaded_libraries(machine: &'static Machine) {
    let work = Work::on(machine);
    let plugin = work.shared("plugin", "int service(void); int ask(void) { return service(); }", &[]);
    let source = format!(
        "#include <dlfcn.h>\n#include <stdio.h>\nint service(void) {{ return 6; }}\nint main(void) {{ void *h = dlopen(\"./{plugin}\", RTLD_NOW); if (!h) {{ puts(dlerror()); return 1; }} int (*ask)(void) = (int (*)(void))dlsym(h, \"ask\"); printf(\"%d\\n\", ask()); }}"
    );
    let main = work.c("main", &source, &[]);
    work.gcc(&["-o", "hidden", &main]).quiet();
    assert_eq!(work.run_any("hidden").code, Some(1));
    work.gcc(&["-rdynamic", "-o", "program", &main]).quiet();
    assert_eq!(work.run("program"), "6\n");
}

on_every_machine!(
    copy_relocations_move_library_data_into_the_program,
    a_copied_constant_stays_read_only_after_relocation,
    function_addresses_are_the_same_everywhere,
    relro_covers_sections_that_only_relocation_writes,
    relr_packs_relative_relocations,
    relative_relocations_come_first_and_are_counted,
    lazy_binding_fills_slots_at_the_first_call,
    data_pointers_to_preemptible_symbols_get_symbolic_relocations,
    export_dynamic_offers_symbols_to_loaded_libraries,
);
