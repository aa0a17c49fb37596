//! The kernel's series takes the tables of outputs: of programs and libraries, of the vDSO, of vmlinux and of
//! modules, by the names that it looks for ([`kernel_reader`]).

use crate::on_every_machine;
use crate::support::elf::*;
use crate::support::kernel_reader::check;
use crate::support::machine::Machine;
use crate::support::sframe::blobs;
use crate::support::{Elf, Work};
use std::ops::Range;

/// `PF_X`.
const EXECUTE: u32 = 1;

/// Objects with rows of GNU as for every kind of function.
fn objects(work: &Work, machine: &Machine) -> Vec<String> {
    ["demo", "main", "inl2"].map(|name| work.fixture(&format!("v3-gas2.47/{name}.{}.o", machine.name))).into()
}

/// Links these objects with options; what they do not define stays undefined.
fn link(work: &Work, options: &[&str], objects: &[String]) -> Elf {
    let inputs: Vec<&str> = objects.iter().map(String::as_str).collect();
    let base = ["-e", "0", "-Bsymbolic", "-z", "muldefs", "--unresolved-symbols=ignore-all", "-o", "out"];
    work.ld(&[&base[..], options, &inputs].concat()).ok();
    work.elf_unchecked("out")
}

fn range(segment: &Segment) -> Range<u64> {
    segment.addr..segment.addr + segment.size
}

/// What the kernel registers at `execve` (`load_elf_binary`): the table of `PT_GNU_SFRAME` for each segment
/// of code. `sframe_add_section` wants the whole table in one mapping.
#[track_caller]
fn check_program(elf: &Elf, what: &str) -> Result<usize, String> {
    let (segment, code) = (elf.segment(PT_GNU_SFRAME), elf.segments_of(PT_LOAD));
    let code: Vec<Range<u64>> = code.iter().filter(|s| s.flags & EXECUTE != 0).map(|s| range(s)).collect();
    assert_eq!(code.len(), 1, "{what}: it is registered once, so one segment holds all functions");
    let table = elf.sections.iter().find(|section| {
        section.kind == SHT_GNU_SFRAME && (section.addr, section.size) == (segment.addr, segment.size)
    });
    let table = table.unwrap_or_else(|| panic!("{what}: PT_GNU_SFRAME covers no section"));
    assert!(elf.load_at(table.addr).is_some_and(|load| load.covers(table)), "{what}");
    check(table, &code)
}

/// Every form that holds one sorted table is taken. Concatenated blobs are refused as a whole, not read in
/// part.
fn tables_of_programs_and_libraries_are_taken(machine: &'static Machine) {
    let work = Work::on(machine);
    let objects = objects(&work, machine);
    for kind in ["-no-pie", "-pie", "-shared"] {
        for mode in ["--sframe-index", "--sframe-index=overlay", "--sframe=merge"] {
            for rows in ["--sframe-from-eh-frame=missing", "--sframe-from-eh-frame=all", "--gc-sections"] {
                let what = format!("{kind} {mode} {rows}");
                let elf = link(&work, &[kind, mode, rows, "--undefined=_start"], &objects);
                let found = check_program(&elf, &what);
                assert!(found.as_ref().is_ok_and(|&count| count > 0), "{what}: {found:?}");
            }
        }
        let elf = link(&work, &[kind], &objects);
        let refused = check_program(&elf, kind).unwrap_err();
        assert!(refused.contains("flags 0x4"), "{kind}: {refused}");
    }
}

/// The lines of the vDSO's script that place the table.
const VDSO: &str = "
PHDRS { text PT_LOAD FLAGS(5) FILEHDR PHDRS; dynamic PT_DYNAMIC FLAGS(4); eh_frame_hdr PT_GNU_EH_FRAME; sframe 0x6474e554; }
SECTIONS
{
  . = SIZEOF_HEADERS;
  .hash : { *(.hash) } :text
  .gnu.hash : { *(.gnu.hash) }
  .dynsym : { *(.dynsym) }
  .dynstr : { *(.dynstr) }
  .dynamic : { *(.dynamic) } :text :dynamic
  .rodata : { *(.rodata*) *(.data*) *(.got*) *(.bss*) } :text
  .eh_frame_hdr : { *(.eh_frame_hdr) } :text :eh_frame_hdr
  .eh_frame : { KEEP (*(.eh_frame)) } :text
  .sframe : { *(.sframe) TAKEN } :text :sframe
  .text : { *(.text*) } :text
  /DISCARD/ : { *(.note*) *(.comment) *(.rela*) }
}
";

/// The lines of the kernel's script that place the table; `.init.sframe` comes from objects whose sections
/// were renamed for early code.
const VMLINUX: &str = "
SECTIONS
{
  . = 0x1000000;
  .text : { _stext = .; *(.text*) _etext = .; }
  . = ALIGN(0x1000);
  .rodata : { *(.rodata*) }
  .sframe : { __start_sframe = .; KEEP(*(.sframe)) KEEP(*(.init.sframe)) TAKEN __end_sframe = .; }
  . = ALIGN(0x1000);
  .init.text : { _sinittext = .; *(.init.text) _einittext = .; }
  .data : { *(.data*) *(.got*) *(.bss*) }
  /DISCARD/ : { *(.eh_frame) *(.note*) *(.comment) }
}
";

fn the_vdso_has_one_table_by_the_name_and_the_segment(machine: &'static Machine) {
    let work = Work::on(machine);
    let objects = [work.fixture(&format!("v3-gas2.47/demo.{}.o", machine.name))];
    for (mode, taken) in [("--sframe=merge", ""), ("--sframe-index", "*(.sframe_idx)")] {
        let script = work.write("vdso.lds", VDSO.replace("TAKEN", taken));
        let elf = link(&work, &["-shared", mode, "-T", &script, "--hash-style=both"], &objects);
        assert_eq!(elf.section(".sframe").addr, elf.segment(PT_GNU_SFRAME).addr, "{mode}");
        let found = check_program(&elf, mode);
        assert!(found.as_ref().is_ok_and(|&count| count > 0), "{mode}: {found:?}");
    }
}

/// Assembly in the section of early code.
fn early(work: &Work) -> String {
    let start = ".section .init.text,\"ax\"\n.globl early\n.type early, %function\nearly: .cfi_startproc\n";
    work.s("early", &format!("{start}.quad 0\n.cfi_endproc\n.size early, .-early\n"))
}

fn vmlinux_has_one_table_between_the_symbols(machine: &'static Machine) {
    let work = Work::on(machine);
    let mut objects = objects(&work, machine);
    objects.push(early(&work));
    for (mode, taken) in [("--sframe=merge", ""), ("--sframe-index", "*(.sframe_idx)")] {
        let script = work.write("vmlinux.lds", VMLINUX.replace("TAKEN", taken));
        let elf = link(&work, &[mode, "--sframe-from-eh-frame=missing", "-T", &script], &objects);
        let table = elf.section(".sframe");
        let value = |name: &str| elf.symbol(name).value;
        assert_eq!((value("__start_sframe"), value("__end_sframe")), (table.addr, table.end()), "{mode}");
        let code = [value("_stext")..value("_etext"), value("_sinittext")..value("_einittext")];
        let found = check(table, &code);
        assert!(found.as_ref().is_ok_and(|&count| count > 2), "{mode}: {found:?}");
        assert!(blobs(table)[0].row_at(value("early")).is_some(), "{mode}");
    }
}

/// The loader of modules (`sframe_module_init`): a section named `.sframe`, to which it applies the
/// relocations, and whose index it sorts.
fn modules_have_one_table_that_the_loader_can_sort(machine: &'static Machine) {
    let work = Work::on(machine);
    let mut objects = objects(&work, machine);
    objects.push(early(&work));
    let script = work.write(
        "module.lds",
        "SECTIONS { __ksymtab 0 : ALIGN(8) { *(SORT(___ksymtab+*)) } .text 0 : { *(.text .text.*) } }",
    );
    let named = concat!(env!("CARGO_MANIFEST_DIR"), "/linker-scripts/kernel-module.ld");
    for way in [&["--sframe=merge", "-T", &script][..], &["--sframe-index", "-T", &script, "-T", named]] {
        let options = [&["-r", "--sframe-from-eh-frame=missing"][..], way].concat();
        let elf = link(&work, &options, &objects);
        let frames: Vec<_> = elf.sections.iter().filter(|section| section.kind == SHT_GNU_SFRAME).collect();
        let [table] = frames[..] else { panic!("{way:?}: {frames:?}") };
        assert_eq!((table.name.as_str(), table.flags & SHF_ALLOC), (".sframe", SHF_ALLOC), "{way:?}");
        let (loaded, code) = loaded(&elf, table);
        let found = check(&loaded, &code);
        assert!(found.as_ref().is_ok_and(|&count| count > 2), "{way:?}: {found:?}");
    }
}

/// The table as the loader leaves it, and the code of the module: sections of code get addresses one after
/// the other, relocations of the index hold distances from their fields, and entries are sorted by their
/// starts.
fn loaded(elf: &Elf, table: &Section) -> (Section, Vec<Range<u64>>) {
    let (mut next, mut code, mut places) = (0x10_0000, Vec::new(), vec![0; elf.sections.len() + 1]);
    for section in elf.sections.iter().filter(|section| section.flags & SHF_EXECINSTR != 0) {
        places[section.index] = next;
        code.push(next..next + section.size);
        next = (next + section.size).next_multiple_of(0x1000);
    }
    let symbols = elf.symbols();
    let mut loaded = Section { addr: next, ..table.clone() };
    let [blob] = &blobs(table)[..] else { panic!("several blobs") };
    let relocations = elf.relocations_for(table.index);
    let mut entries: Vec<(u64, Vec<u8>)> = Vec::new();
    for row in &blob.rows {
        let relocation = relocations.iter().find(|r| r.offset == row.field as u64).expect("a relocation");
        let symbol = symbols.iter().find(|s| s.index == relocation.symbol).expect("a symbol");
        let start = places[usize::from(symbol.section)] + symbol.value.wrapping_add_signed(relocation.addend);
        entries.push((start, table.data[row.field + 8..row.field + 16].to_vec()));
    }
    assert_eq!(relocations.len(), blob.rows.len(), "one relocation for each function");
    entries.sort();
    for (row, (start, rest)) in blob.rows.iter().zip(entries) {
        let distance = start.wrapping_sub(loaded.addr + row.field as u64);
        loaded.data.put_quad(row.field, distance);
        loaded.data.put(row.field + 8, &rest);
    }
    // The flag follows from the order, which is now that of addresses.
    let flags = loaded.data[3] | 1;
    loaded.data.put(3, &[flags]);
    (loaded, code)
}

/// Each rule refuses a table that breaks it.
fn each_rule_bites(machine: &'static Machine) {
    let work = Work::on(machine);
    let elf = link(&work, &["--sframe-index"], &objects(&work, machine));
    let (table, code) = (elf.section(".sframe_idx"), elf.segments_of(PT_LOAD));
    let code: Vec<Range<u64>> = code.iter().filter(|s| s.flags & EXECUTE != 0).map(|s| range(s)).collect();
    check(table, &code).unwrap();
    let index = 28 + word(&table.data, 20) as usize;
    let rows = 28 + word(&table.data, 24) as usize + word(&table.data, index + 12) as usize;
    let refuses = |at: usize, bytes: &[u8], rule: &str| {
        let mut changed = table.clone();
        changed.data.put(at, bytes);
        let refused = check(&changed, &code).expect_err(rule);
        assert!(refused.contains(rule), "{rule}: {refused}");
    };
    refuses(2, &[2], "no header of version 3");
    refuses(3, &[1], "flags 0x1");
    refuses(3, &[4], "flags 0x4");
    refuses(7, &[4], "auxiliary header of 4 bytes");
    refuses(8, &[0; 4], "no function, or no row");
    refuses(12, &[0; 4], "no function, or no row");
    refuses(16, &[0x7f; 4], "do not follow each other");
    refuses(24, &[0; 4], "do not follow each other");
    refuses(index, &[0x7f; 8], "is outside the code");
    refuses(index + 12, &[0x7f; 4], "are outside the rows");
    refuses(rows + 2, &[3], "row type 3");
    refuses(rows + 2, &[0x10], "blocks of no bytes");
    refuses(rows + 3, &[2], "function type 2");
    let mut short = table.clone();
    short.data.put(index + 8, &[0; 4]);
    short.data.put(rows + 5, &[1]);
    assert!(check(&short, &code).unwrap_err().contains("of 0"));
    let mut twice = table.clone();
    let second = (table.addr + index as u64 + 16).wrapping_add(quad(&table.data, index + 16));
    twice.data.put_quad(index, second.wrapping_sub(table.addr + index as u64));
    assert!(check(&twice, &code).unwrap_err().contains("is not sorted"));
    assert!(check(table, &[]).unwrap_err().contains("is outside the code"));
}

on_every_machine![
    tables_of_programs_and_libraries_are_taken,
    the_vdso_has_one_table_by_the_name_and_the_segment,
    vmlinux_has_one_table_between_the_symbols,
    modules_have_one_table_that_the_loader_can_sort,
    each_rule_bites
];
