//! gdb by SFrame: the script that is installed for it (`sframe/share/gdb-unwind.py`).

use crate::support::{Machine, Work, built, tools};
use crate::{need, on_every_machine};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

on_every_machine![gdb_unwinds_by_a_table_as_by_eh_frame];

/// Stops in a frame with an aligned stack, called by one of variable size and by one that keeps values in
/// registers.
const PROGRAM: &str = r"
#include <alloca.h>
#include <cstdlib>
#include <cstring>
__attribute__((noinline)) int aligned(int n) { alignas(64) volatile char b[256]; b[n] = 1; if (n > 0) abort(); return b[n]; }
__attribute__((noinline)) int variable(int n) { char *p = (char *)alloca(n * 16 + 64); memset(p, n, n); return aligned(n) + p[0] + p[n - 1]; }
__attribute__((noinline)) int saves(int a, int b, int c) { int x = a * 3, y = b * 5, z = c * 7; return variable(x) + x + y * z; }
int main(int argc, char **) { return saves(argc, argc + 1, argc + 2) + 1; }
";
const FRAMES: [&str; 4] = ["aligned(int)", "variable(int)", "saves(int, int, int)", "main"];

/// The registers that functions keep, by gdb's names.
fn registers(machine: &Machine) -> &'static str {
    match machine.name {
        "x86_64" => "rbx rbp rsp r12 r13 r14 r15 rip",
        "aarch64" => "x19 x20 x21 x22 x28 x29 x30 sp pc d8 d15",
        _ => "r6 r7 r8 r9 r10 r11 r12 r13 r15 pc f8 f15",
    }
}

/// A program that waits for a debugger in an emulator, which ends with this value.
struct Waiting(Child);

impl Waiting {
    /// Starts the program, with a socket by which gdb reaches it.
    fn new(emulator: &Path, program: &Path, socket: &Path) -> Self {
        let mut command = Command::new(emulator);
        command.arg("-g").arg(socket).arg(program).stdout(Stdio::null()).stderr(Stdio::null());
        let waiting = Self(command.spawn().expect("the emulator starts"));
        while !socket.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        waiting
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What gdb prints when it has loaded the script, run the program until it stops, and executed these
/// commands.
fn gdb(work: &Work, program: &str, commands: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("sframe/share/gdb-unwind.py");
    let (program, socket) = (work.path(program), work.path("socket"));
    let load = [
        "set pagination off".to_owned(),
        "set debuginfod enabled off".to_owned(),
        format!("source {}", script.display()),
        format!("set sframe-command {}", built::sframe()),
    ];
    let emulator = work.machine().emulator().expect("the machine's tests run");
    let waiting = emulator.map(|emulator| Waiting::new(&emulator, &program, &socket));
    let begin = match waiting {
        Some(_) => vec![format!("target remote {}", socket.display()), "continue".to_owned()],
        None => vec!["run".to_owned()],
    };
    let commands = commands.iter().map(|&command| command.to_owned());
    let all = load.into_iter().chain(begin).chain(commands).chain(["kill".to_owned()]);
    let words: Vec<String> = all.flat_map(|command| ["-ex".to_owned(), command]).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let program = program.display().to_string();
    let outcome = work.command(
        tools::gdb().expect("the caller has asked"),
        &[&["-nx", "-batch"], &words[..], &[&program]].concat(),
    );
    assert!(!outcome.stderr.contains("SFrame:") && !outcome.stderr.contains("Python"), "{outcome}");
    outcome.stdout
}

/// A table of version 2 says all that `.eh_frame` says, which is there as well: every register of every frame
/// is the same by both.
fn gdb_unwinds_by_a_table_as_by_eh_frame(machine: &'static Machine) {
    need!(tools::gdb());
    let work = Work::on(machine);
    work.write("p.cc", PROGRAM);
    let flags = ["-O2", "-fomit-frame-pointer", "-static", "-Wl,--unwind-table=add", "-o", "p", "p.cc"];
    work.gxx(&flags).quiet();
    let show = format!("info registers {}", registers(machine));
    let mark = "echo MARK\\n";
    let look = ["frame 0", "bt", "frame function saves", &show, "up", &show, mark];
    let said = gdb(&work, "p", &[&[mark][..], &look, &["set sframe-unwinder never"], &look].concat());
    let parts: Vec<&str> = said.split("MARK\n").collect();
    let (by_table, by_eh_frame) = (parts[1], parts[2]);
    assert_eq!(by_table, by_eh_frame, "{said}");
    let mut rest = by_table;
    for name in FRAMES {
        rest = rest.split_once(&format!("in {name}")).unwrap_or_else(|| panic!("{name}: {said}")).1;
    }
}

/// Without `.eh_frame` and `.debug_frame`, gdb alone takes an aligned frame for one at the frame pointer.
#[test]
fn gdb_unwinds_a_program_that_has_only_sframe() {
    need!(tools::gdb());
    let work = Work::new();
    work.write("p.cc", PROGRAM);
    let table = "-Wl,--sframe-index,--sframe-from-eh-frame=all";
    work.gxx(&["-O2", "-fomit-frame-pointer", table, "-o", "p", "p.cc"]).quiet();
    let remove = ["-R", ".eh_frame", "-R", ".eh_frame_hdr", "p", "alone"];
    work.command(need!(tools::binutil("objcopy")), &remove).quiet();
    let mut rest = &*gdb(&work, "alone", &["bt"]);
    for name in FRAMES {
        rest = rest.split_once(&format!("in {name}")).unwrap_or_else(|| panic!("{name}: {rest}")).1;
    }
    let alone = gdb(&work, "alone", &["set sframe-unwinder never", "bt"]);
    assert!(!alone.contains("in main"), "{alone}");
}
