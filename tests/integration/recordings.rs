//! `sframe stacks` of recordings that come from other machines, one of them with the other byte order.
//!
//! An emulator runs the program, which says itself what the kernel would record of it: its registers in one
//! function, and the stack from there to its start. The file around that is `perf.data`, field by field as
//! perf writes it on the machine ("perf.data format" in perf's documentation, `perf_event_open(2)`).

use crate::need;
use crate::support::machine::{AARCH64, S390X, check};
use crate::support::{Elf, Machine, Work, unwind_runtime};

/// Each line has a register, in perf's order; then come those of the stack.
const PROGRAM: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>
static char **arguments;
#define BARRIER __asm__ volatile("" : : : "memory")
__attribute__((noinline)) static void innermost(void) {
    ucontext_t here;
    getcontext(&here);
#ifdef __s390x__
    uint64_t *registers = (uint64_t *)here.uc_mcontext.gregs, stack = registers[15], at = registers[14];
    for (int number = 0; number < 16; number++) printf("%lx\n", registers[number]);
#else
    uint64_t *registers = (uint64_t *)here.uc_mcontext.regs, stack = here.uc_mcontext.sp, at = registers[30];
    for (int number = 0; number < 31; number++) printf("%lx\n", registers[number]);
    printf("%lx\n", stack);
#endif
    printf("%lx\nstack\n", at);
    for (uint64_t *word = (uint64_t *)stack; word < (uint64_t *)arguments; word++) printf("%lx\n", *word);
    BARRIER;
}
__attribute__((noinline)) static void middle(int n) {
    char room[n];
    if (n > 30) middle(n - 10); else innermost();
    __asm__ volatile("" : : "r"(room) : "memory");
}
__attribute__((noinline)) static double outer(double by) { middle(50); BARRIER; return by * 3; }
int main(int count, char **words) {
    arguments = words;
    return outer(count) < 1;
}
"#;

/// Writes numbers in the machine's byte order.
struct Writer {
    big: bool,
    bytes: Vec<u8>,
}

impl Writer {
    fn new(big: bool) -> Self {
        Writer { big, bytes: Vec::new() }
    }

    fn short(&mut self, value: u16) {
        self.bytes.extend(if self.big { value.to_be_bytes() } else { value.to_le_bytes() });
    }

    fn halves(&mut self, values: &[u32]) -> &mut Self {
        for value in values {
            self.bytes.extend(if self.big { value.to_be_bytes() } else { value.to_le_bytes() });
        }
        self
    }

    fn words(&mut self, values: &[u64]) -> &mut Self {
        for value in values {
            self.bytes.extend(if self.big { value.to_be_bytes() } else { value.to_le_bytes() });
        }
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.bytes.extend(text.as_bytes());
        self.bytes.resize((self.bytes.len() + 1).next_multiple_of(8), 0);
        self
    }

    /// Adds a record of user space.
    fn record(&mut self, kind: u32, body: &Writer) {
        const USER: u16 = 2;
        self.halves(&[kind]);
        self.short(USER);
        self.short(body.bytes.len() as u16 + 8);
        self.bytes.extend(&body.bytes);
    }
}

const PID: u32 = 7;
/// IP, TID, TIME, CPU, PERIOD, REGS_USER, STACK_USER.
const SAMPLE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 13;

/// The fields that end all records but samples: pid and tid, time, processor.
fn end(body: &mut Writer, time: u64) {
    body.halves(&[PID, PID]).words(&[time]).halves(&[3, 0]);
}

/// The records: the program's name, its code, and a sample.
fn records(big: bool, program: &str, elf: &Elf, mask: u64, values: &[u64], stack: &[u64]) -> Writer {
    const PT_LOAD: u32 = 1;
    let mut data = Writer::new(big);
    let mut name = Writer::new(big);
    name.halves(&[PID, PID]).text("program");
    end(&mut name, 1);
    data.record(3, &name);
    for segment in elf.segments.iter().filter(|segment| segment.kind == PT_LOAD && segment.flags & 1 != 0) {
        let (start, offset) = (segment.addr & !0xfff, segment.offset & !0xfff);
        let size = (segment.addr + segment.size - start).next_multiple_of(0x1000);
        let mut mapping = Writer::new(big);
        mapping.halves(&[PID, PID]).words(&[start, size, offset]);
        // Device, inode and its generation; readable and executable, private.
        mapping.halves(&[0, 0]).words(&[0, 0]).halves(&[5, 2]).text(program);
        end(&mut mapping, 2);
        data.record(10, &mapping);
    }
    let mut sample = Writer::new(big);
    let at = *values.last().expect("the program counter is the last register");
    sample.words(&[at]).halves(&[PID, PID]).words(&[10]).halves(&[3, 0]).words(&[1]);
    assert_eq!(mask.count_ones() as usize, values.len());
    // Of a process with 64 bits.
    sample.words(&[2]).words(values);
    let size = stack.len() as u64 * 8;
    sample.words(&[size]).words(stack).words(&[size]);
    data.record(9, &sample);
    data
}

/// The file: header, one event, the records, and the machine's name.
fn recording(big: bool, machine: &str, mask: u64, data: &Writer) -> Vec<u8> {
    const HEADER: u64 = 104;
    const ATTRIBUTE: u64 = 112;
    const ARCH: u64 = 6;
    let mut file = Writer::new(big);
    file.bytes.extend(if big { b"2ELIFREP" } else { b"PERFILE2" });
    let start = HEADER + ATTRIBUTE + 16;
    file.words(&[HEADER, ATTRIBUTE + 16, HEADER, ATTRIBUTE + 16, start, data.bytes.len() as u64, 0, 0]);
    file.words(&[1 << ARCH, 0, 0, 0]);
    // Bits have names, of which the first is the highest bit where bytes are the other way round.
    let sample_id_all = if big { 1 << (63 - 18) } else { 1 << 18 };
    file.halves(&[0, ATTRIBUTE as u32]).words(&[
        0,
        4000,
        SAMPLE,
        0,
        sample_id_all,
        0,
        0,
        0,
        0,
        mask,
        0,
        0,
        0,
    ]);
    file.words(&[0, 0]);
    assert_eq!(file.bytes.len() as u64, start);
    file.bytes.extend(&data.bytes);
    let place = file.bytes.len() as u64 + 16;
    file.words(&[place, 4 + 64]).halves(&[64]);
    let end = file.bytes.len() + 64;
    file.text(machine).bytes.resize(end, 0);
    file.bytes
}

/// `mask` has a bit for each register that the program prints.
fn a_stack_of_another_machine_is_whole(machine: &'static Machine, mask: u64) {
    need!(machine.emulator());
    let runtime = need!(unwind_runtime::hooks(machine));
    let work = Work::on(machine);
    let object = work.c("program", PROGRAM, &["-O2", "-fasynchronous-unwind-tables"]);
    let forms: [&[&str]; 4] = [
        &[],
        &["-Wl,--unwind-table=replace", &runtime],
        &["-Wl,--unwind-table=replace,--unwind-debug-frame=drop", &runtime],
        &["-Wl,--sframe-from-eh-frame=all,--sframe-index"],
    ];
    for form in forms {
        work.gcc(&[&["-static", "-o", "program", &object], form].concat()).quiet();
        let printed = work.run("program");
        let (registers, stack) = printed.split_once("stack\n").expect("both parts");
        let [registers, stack] = [registers, stack].map(|part| -> Vec<u64> {
            part.lines().map(|line| u64::from_str_radix(line, 16).expect("a number")).collect()
        });
        let elf = work.elf("program");
        let big = elf.bytes[5] == 2;
        let path = work.path("program").display().to_string();
        let data = records(big, &path, &elf, mask, &registers, &stack);
        let file = work.write("perf.data", recording(big, machine.name, mask, &data));
        let said = work.sframe(&["stacks", &file, "--format", "folded"]).ok().stdout;
        let frames = "main;outer;middle;middle;middle;innermost 1\n";
        assert!(said.starts_with("program;_start;") && said.ends_with(frames), "{form:?}: {said}");
    }
}

#[test]
fn s390x() {
    check(&S390X, |machine| a_stack_of_another_machine_is_whole(machine, 0xffff | 1 << 33));
}

#[test]
fn aarch64() {
    check(&AARCH64, |machine| a_stack_of_another_machine_is_whole(machine, (1 << 33) - 1));
}
