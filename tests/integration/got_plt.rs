//! The forms of GOT and PLT, and the relaxation of GOT loads.

use crate::support::Work;
use crate::support::elf::*;

const R_X86_64_GLOB_DAT: u32 = 6;
const R_X86_64_JUMP_SLOT: u32 = 7;
const EXIT: &str = "mov $60,%eax\nsyscall\n";

#[test]
fn got_loads_of_local_symbols_relax_by_opcode() {
    let work = Work::new();
    let source = format!(
        "
.globl _start, target, value
target: ret
.data
value: .long 5
.text
_start:
movq value@GOTPCREL(%rip),%rax
call *target@GOTPCREL(%rip)
testq %rax,value@GOTPCREL(%rip)
addq value@GOTPCREL(%rip),%r9
cmpq value@GOTPCREL(%rip),%rcx
movl value@GOTPCREL(%rip),%r8d
xor %edi,%edi
{EXIT}
jmp *target@GOTPCREL(%rip)
"
    );
    let a = work.s("a", &source);
    work.ld(&["-no-pie", "-o", "program", &a]).quiet();
    work.run("program");
    let elf = work.elf("program");
    let text = &elf.section(".text").data;
    let (start, value) =
        (elf.symbol("_start").value - elf.section(".text").addr, elf.symbol("value").value as u32);
    let code = &text[start as usize..];
    let fixed = |at: usize| word(code, at) == value;
    let lea = code[..3] == [0x48, 0x8d, 0x05];
    let immediate = code[..3] == [0x48, 0xc7, 0xc0] && fixed(3);
    assert!(lea || immediate, "mov becomes lea or mov $imm: {:02x?}", &code[..7]);
    assert!(matches!(code[7..9], [0x67, 0xe8]), "call: {:02x?}", &code[7..13]);
    assert_eq!(code[13..16], [0x48, 0xf7, 0xc0], "test $imm: {:02x?}", &code[13..20]);
    assert!(fixed(16));
    assert_eq!(code[20..23], [0x49, 0x81, 0xc1], "add $imm: {:02x?}", &code[20..27]);
    assert!(fixed(23));
    assert_eq!(code[27..30], [0x48, 0x81, 0xf9], "cmp $imm: {:02x?}", &code[27..34]);
    let jump = text.len() - 6;
    assert_eq!(text[jump], 0xe9, "jmp: {:02x?}", &text[jump..]);
    assert!(elf.find(".got").is_none_or(|got| got.size == 0), "no slot is left");
    work.ld(&["-no-pie", "--no-relax", "-o", "program", &a]).quiet();
    work.run("program");
    let elf = work.elf("program");
    let value = elf.symbol("value").value;
    assert!(elf.section(".got").quads().contains(&value), "kept without relaxation");
}

#[test]
fn a_pushed_got_slot_is_not_taken_for_a_call() {
    let work = Work::new();
    // Newer assemblers put this relocation type on push: its ff 35 is one bit away from ff 15, a call.
    let source = format!(
        "
.globl _start, value
.data
value: .quad 5
.text
_start:
.byte 0xff,0x35
.reloc ., R_X86_64_GOTPCRELX, value-4
.long 0
pop %rax
lea value(%rip),%rcx
sub %rcx,%rax
mov %eax,%edi
{EXIT}
"
    );
    let a = work.s("a", &source);
    for mode in [&["-no-pie"][..], &["-pie", "--no-dynamic-linker"]] {
        let mut args = vec!["-o", "program", &a];
        args.extend(mode);
        work.ld(&args).ok();
        let elf = work.elf_unchecked("program");
        let text = elf.section(".text");
        let code = &text.data[(elf.symbol("_start").value - text.addr) as usize..];
        let kept = code[..2] == [0xff, 0x35];
        let immediate = (code[0] == 0x68 || code[..2] == [0x2e, 0x68]) && mode[0] == "-no-pie";
        assert!(kept || immediate, "{mode:?}: {:02x?}", &code[..6]);
        if mode[0] == "-no-pie" {
            work.run("program");
        }
    }
}

#[test]
fn got_loads_of_preemptible_symbols_keep_their_slot() {
    let work = Work::new();
    let a = work.s("a", ".globl f,value\nf: movq value@GOTPCREL(%rip),%rax\nret\n.data\nvalue: .long 1\n");
    work.ld(&["-shared", "-o", "liba.so", &a]).quiet();
    let elf = work.elf("liba.so");
    let slots = elf.dynamic_relocations_of(R_X86_64_GLOB_DAT);
    assert_eq!(slots.len(), 1);
    assert_eq!(slots[0].1, "value");
    assert!(elf.section(".got").addr <= slots[0].0.offset && slots[0].0.offset < elf.section(".got").end());
}

#[test]
fn ifunc_and_undefined_weak_got_loads_are_not_relaxed_wrongly() {
    let work = Work::new();
    let main = work.c("main", "#include <stdio.h>\n__attribute__((weak)) extern int gone;\nstatic int impl(void) { return 3; } static int (*choose(void))(void) { return impl; } int pick(void) __attribute__((ifunc(\"choose\")));\nint main(void) { int (*volatile p)(void) = pick; printf(\"%d %d\\n\", &gone == 0, p()); }", &["-fPIC"]);
    for link in ["-pie", "-no-pie", "-static", "-static-pie"] {
        work.gcc(&[link, "-o", "program", &main]).quiet();
        assert_eq!(work.run("program"), "1 3\n", "{link}");
    }
}

#[test]
fn lazy_plt_entries_push_their_number() {
    let work = Work::new();
    work.shared("f", "int f(void) { return 1; } int g(void) { return 2; }", &[]);
    let main = work.c(
        "main",
        "int f(void); int g(void); int main(void) { return f() + g() - 3; }",
        &["-fcf-protection=none"],
    );
    work.gcc(&["-o", "program", &main, "-L.", "-lf", "-Wl,-z,lazy"]).quiet();
    work.run("program");
    let elf = work.elf("program");
    let (plt, slots) = (elf.section(".plt"), elf.section(".got.plt"));
    let relocations = elf.dynamic_relocations_of(R_X86_64_JUMP_SLOT);
    assert_eq!(plt.size, 16 * (relocations.len() as u64 + 1));
    assert_eq!(slots.quads()[0], elf.section(".dynamic").addr, "the first slot holds .dynamic");
    for (index, (relocation, name)) in relocations.iter().enumerate() {
        let entry = &plt.data[16 * (index + 1)..][..16];
        assert_eq!(entry[..2], [0xff, 0x25], "{name}: jmp *slot");
        let target = plt.addr + 16 * (index as u64 + 1) + 6;
        assert_eq!(target.wrapping_add_signed(i64::from(word(entry, 2) as i32)), relocation.offset, "{name}");
        assert_eq!((entry[6], word(entry, 7)), (0x68, index as u32), "{name}: push");
        assert_eq!(elf.quad_at(relocation.offset), target, "{name}: the slot points back");
    }
}

#[test]
fn ibt_programs_get_a_second_plt() {
    let work = Work::new();
    work.shared("f", "int f(void) { return 1; }", &[]);
    let ibt = ".section .note.gnu.property,\"a\"\n.p2align 3\n.long 4,16,5\n.asciz \"GNU\"\n.long 0xc0000002,4,3,0\n";
    let a = work.s(
        "a",
        &format!(".globl _start\n_start: endbr64\nsub $8,%rsp\ncall f@PLT\nlea -1(%rax),%edi\n{EXIT}\n{ibt}"),
    );
    let plain = work
        .s("plain", &format!(".globl _start\n_start: sub $8,%rsp\ncall f@PLT\nlea -1(%rax),%edi\n{EXIT}"));
    let interpreter = "--dynamic-linker=/lib64/ld-linux-x86-64.so.2";
    let link = |object: &str, option: &[&str]| {
        let mut args = vec!["-o", "program", object, "-L.", "-lf", interpreter, "-z", "lazy"];
        args.extend(option);
        work.ld(&args).ok();
        work.run("program");
        work.elf("program")
    };
    for elf in [link(&a, &[]), link(&plain, &["-z", "ibtplt"]), link(&plain, &["-z", "force-ibt"])] {
        let (plt, second) = (elf.section(".plt"), elf.section(".plt.sec"));
        let endbr = [0xf3, 0x0f, 0x1e, 0xfa];
        assert_eq!(plt.data[16..20], endbr, "lazy entry");
        assert_eq!(second.data[..4], endbr, "second entry");
        assert_eq!(elf.quad_at(elf.dynamic_relocations_of(R_X86_64_JUMP_SLOT)[0].0.offset), plt.addr + 16);
        let start = elf.symbol("_start").value;
        let call = elf.at(start, 16).iter().position(|&b| b == 0xe8).unwrap() as u64;
        let target =
            (start + call + 5).wrapping_add_signed(i64::from(word(elf.at(start + call + 1, 4), 0) as i32));
        assert_eq!(target, second.addr, "calls go to the second PLT");
    }
    assert!(link(&plain, &[]).find(".plt.sec").is_none());
}

#[test]
fn a_function_called_and_loaded_shares_one_slot_in_plt_got() {
    let work = Work::new();
    work.shared("f", "int f(void) { return 1; }", &[]);
    let main = work.c(
        "main",
        "int f(void); int (*volatile p)(void); int main(void) { p = f; return f() + p() - 2; }",
        &["-fPIC", "-fcf-protection=none"],
    );
    let main = if work.elf_unchecked(&main).symbols().is_empty() { String::new() } else { main };
    let call = work.s("call", ".globl direct\ndirect: sub $8,%rsp\ncall f@PLT\nadd $8,%rsp\nret\n");
    work.gcc(&["-pie", "-o", "program", &main, &call, "-L.", "-lf"]).quiet();
    work.run("program");
    let elf = work.elf("program");
    let glob = elf.dynamic_relocations_of(R_X86_64_GLOB_DAT);
    let jump = elf.dynamic_relocations_of(R_X86_64_JUMP_SLOT);
    assert!(glob.iter().any(|(_, n)| n == "f") && jump.iter().all(|(_, n)| n != "f"), "{glob:?} {jump:?}");
    let section = elf.section(".plt.got");
    assert!(section.size >= 8 && section.flags & SHF_EXECINSTR != 0);
}

#[test]
fn got_and_plt_relocations_of_the_large_model_reach_their_targets() {
    let work = Work::new();
    let main = work.c("main", "#include <stdio.h>\nint data = 4; static int inner = 5; extern char **environ;\nint f(int x) { return x + data + inner; }\nint main(void) { printf(\"%d %d\\n\", f(1), environ != 0); }", &["-mcmodel=large", "-fPIC"]);
    for link in ["-pie", "-no-pie"] {
        work.gcc(&[link, "-o", "program", &main]).quiet();
        assert_eq!(work.run("program"), "10 1\n", "{link}");
        work.elf("program");
    }
}
