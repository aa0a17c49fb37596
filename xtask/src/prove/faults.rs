//! Proves what happens if faults occur. A link is killed at random moments and before each system call, each
//! call fails, disks are full, inputs change while they are mapped, limits are low, and links run at the same
//! time. Each link must end in the usual output, or in a message with the old output in place.

mod bench;

use super::limits::Ended;
use super::proof::Proof;
use anyhow::{Result, ensure};
use bench::{Bench, End, OLD, overwrite};
use std::fs::OpenOptions;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The number of links that each signal ends at a random moment, and of links whose inputs change at one.
const MOMENTS: u32 = 1000;
/// The system calls of a link, and the errors that the system can return for each.
const CALLS: &[(&str, &[i32])] = &[
    (
        "openat",
        &[libc::EACCES, libc::EMFILE, libc::ENFILE, libc::EIO, libc::ENOMEM, libc::EINTR, libc::ESTALE],
    ),
    ("read", &[libc::EIO, libc::EINTR, libc::ENOMEM, libc::ESTALE]),
    ("statx", &[libc::EIO, libc::ENOMEM, libc::ESTALE]),
    ("mmap", &[libc::ENOMEM, libc::EAGAIN]),
    ("munmap", &[libc::EINVAL]),
    ("mprotect", &[libc::ENOMEM]),
    ("madvise", &[libc::EINVAL, libc::ENOMEM]),
    ("clone3", &[libc::EAGAIN, libc::ENOMEM]),
    ("futex", &[libc::EINTR]),
    ("fstatfs", &[libc::ENOSYS, libc::EIO]),
    ("flock", &[libc::ENOLCK, libc::EWOULDBLOCK, libc::EINTR]),
    ("fallocate", &[libc::ENOSPC, libc::EDQUOT, libc::EFBIG, libc::EIO, libc::EOPNOTSUPP, libc::EINTR]),
    ("ftruncate", &[libc::ENOSPC, libc::EIO]),
    ("pwrite64", &[libc::ENOSPC, libc::EDQUOT, libc::EIO, libc::EINTR, libc::ESTALE]),
    ("write", &[libc::ENOSPC, libc::EPIPE]),
    ("rename", &[libc::EACCES, libc::EXDEV, libc::ENOSPC, libc::EIO, libc::EROFS, libc::EBUSY, libc::ESTALE]),
    ("sched_getaffinity", &[libc::ENOSYS]),
    ("getcwd", &[libc::ENOENT]),
    ("close", &[libc::EIO, libc::EINTR]),
];
const ALL: &str = "openat,read,statx,mmap,munmap,madvise,clone3,fstatfs,flock,fallocate,ftruncate,pwrite64,write,rename,unlink,close";

/// Counts of one kind of fault.
#[derive(Default)]
struct Row {
    links: u32,
    ends: [u32; 4],
    litter: u32,
    /// Links after which the next link did not leave everything in order.
    unclean: u32,
    wrong: Vec<String>,
}

impl Row {
    fn add(&mut self, bench: &Bench, ended: &Ended, what: &str) -> Result<End> {
        let end = bench.judge(ended)?;
        self.links += 1;
        self.ends[end as usize] += 1;
        self.litter += u32::from(bench.has_litter()?);
        if end == End::Wrong {
            let said: String = ended.said.chars().take(200).collect();
            self.wrong.push(format!("{what}: {}: {}", ended.status, said.replace('\n', " | ")));
        }
        Ok(end)
    }
}

/// A table that is being written.
struct Table<'p> {
    proof: &'p mut Proof,
    wrong: Vec<String>,
}

impl Table<'_> {
    fn row(&mut self, what: &str, row: Row) -> Result<()> {
        let [new, old, killed, wrong] = row.ends;
        let Row { links, litter, unclean, .. } = row;
        if links == 0 {
            return Ok(());
        }
        self.wrong.extend(row.wrong);
        if unclean > 0 {
            self.wrong.push(format!("{what}: {unclean} times the next link left something"));
        }
        self.proof
            .note(format!("| {what} | {links} | {new} | {old} | {killed} | {litter} | {unclean} | {wrong} |"))
    }
}

#[derive(clap::Args)]
pub struct Wanted {
    /// Number of links for each kind of random moment
    #[arg(long = "count", default_value_t = MOMENTS)]
    moments: u32,
}

pub fn faults(proof: &mut Proof, &Wanted { moments }: &Wanted) -> Result<()> {
    let bench = Bench::new(proof)?;
    proof.note(format!(
        "A link of {} bytes of output, of an object, an archive and a library. System calls are watched and answered from outside \
         (seccomp's notifications), those of the process's start left out.\n\n\
         Right ends are three: the output that the link makes without faults; a message, exit status 1 and the old output; \
         and, where a signal was sent, the end by it with a whole output, old or new.\n",
        bench.expected.len()
    ))?;
    proof.note("| fault | links | new output | message, old output | ended by the signal | something left beside it | left after the next link | wrong |\n|---|---:|---:|---:|---:|---:|---:|---:|")?;
    let mut table = Table { proof, wrong: Vec::new() };
    signals(&mut table, &bench, moments)?;
    calls(&mut table, &bench)?;
    disks(&mut table, &bench)?;
    inputs(&mut table, &bench, moments / 2)?;
    surroundings(&mut table, &bench)?;
    together(&mut table, &bench)?;
    let wrong = table.wrong;
    proof.note(format!("\nWrong ends: {}", wrong.len()))?;
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Spreads the moments of a link over its whole time, in the order of a golden section.
fn moment(round: u32, whole: Duration) -> Duration {
    whole.mul_f64(f64::from(round) * 0.618_033_988_75 % 1.0)
}

/// The shortest time of several links.
fn usual_time(bench: &Bench) -> Result<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..10 {
        let started = Instant::now();
        bench.run(bench.command("out/program"))?;
        least = least.min(started.elapsed());
    }
    Ok(least)
}

fn signals(table: &mut Table<'_>, bench: &Bench, moments: u32) -> Result<()> {
    // A shell makes the processes that it starts in the background ignore SIGINT, and a linker keeps that
    // setting.
    // SAFETY: this is a system call, and this process has no handler for the signal.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    let whole = usual_time(bench)?;
    for (name, signal) in [("SIGKILL", libc::SIGKILL), ("SIGINT", libc::SIGINT)] {
        let mut row = Row::default();
        for round in 0..moments {
            bench.reset()?;
            let mut child =
                bench.command("out/program").stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
            std::thread::sleep(moment(round, whole));
            // SAFETY: this is a system call. Nobody has waited for the child yet, so the number is still its
            // own.
            unsafe { libc::kill(child.id() as i32, signal) };
            let ended = Ended { status: child.wait()?, said: String::new(), memory: 0 };
            row.add(bench, &ended, name)?;
            row.unclean += u32::from(!bench.next_link_is_clean()?);
        }
        table.row(&format!("{name} at a random moment"), row)?;
    }
    for (name, what) in [("SIGKILL", "kill"), ("SIGINT", "int")] {
        let mut row = Row::default();
        for at in bench.calls(ALL)? {
            bench.reset()?;
            let ended = bench.run(bench.fault(at, 0, what, ALL))?;
            row.add(bench, &ended, &format!("{name} before call {at}"))?;
            row.unclean += u32::from(!bench.next_link_is_clean()?);
        }
        ensure!(
            row.ends[2] > 0,
            "{name} before each system call ended no link: is it blocked in what starts this?"
        );
        table.row(&format!("{name} before each system call"), row)?;
    }
    Ok(())
}

fn calls(table: &mut Table<'_>, bench: &Bench) -> Result<()> {
    for (call, errors) in CALLS {
        let mut row = Row::default();
        for at in bench.calls(call)? {
            for error in *errors {
                bench.reset()?;
                let ended = bench.run(bench.fault(at, 0, &error.to_string(), call))?;
                row.add(bench, &ended, &format!("{call} {at} with error {error}"))?;
                row.unclean += u32::from(!bench.next_link_is_clean()?);
            }
        }
        table.row(&format!("`{call}` fails, {} errors", errors.len()), row)?;
    }
    let mut row = Row::default();
    for call in ["openat", "read", "pwrite64", "fallocate", "flock", "futex"] {
        bench.reset()?;
        let ended = bench.run(bench.fault(bench.calls(call)?.start, 2, &libc::EINTR.to_string(), call))?;
        if row.add(bench, &ended, call)? != End::New {
            row.wrong.push(format!("{call} was not made again"));
        }
    }
    table.row("each second call of a kind is interrupted", row)
}

/// Disks and limits with room for a part of the output, and places that cannot be written to.
fn disks(table: &mut Table<'_>, bench: &Bench) -> Result<()> {
    let whole = bench.expected.len() as u64;
    let step = whole / 60;
    let mut row = Row::default();
    for size in (1..70).map(|part| (part * step).next_multiple_of(4096)) {
        bench.reset()?;
        // Only its own name space sees the disk, so the result is copied out of it.
        let script = format!(
            "mount -t tmpfs -o size={size} none disk && echo -n '{}' > disk/program && \
             {} ; status=$?; ls -A disk | grep -v '^program$' >&2; cp disk/program out/program; exit $status",
            String::from_utf8_lossy(OLD),
            bench.words("disk/program")
        );
        std::fs::create_dir_all(bench.path("disk"))?;
        let mut command = Command::new("unshare");
        command.current_dir(&bench.folder).args(["-m", "bash", "-c", &script]);
        let ended = bench.run(command)?;
        row.add(bench, &ended, &format!("a disk of {size} bytes"))?;
    }
    table.row("a disk with room for a part", row)?;
    let mut row = Row::default();
    for blocks in (4..whole * 11 / 10 / 1024).step_by((step / 1024).max(1) as usize) {
        bench.reset()?;
        let ended = bench.run(bench.shell(&format!("ulimit -f {blocks}; exec LINK")))?;
        row.add(bench, &ended, &format!("ulimit -f {blocks}"))?;
    }
    table.row("a limit on the size of files", row)
}

/// Inputs become shorter, are overwritten, or are replaced, at random moments.
fn inputs(table: &mut Table<'_>, bench: &Bench, moments: u32) -> Result<()> {
    let whole = usual_time(bench)?;
    let object = std::fs::read(bench.path("main.o"))?;
    let other = {
        let mut bytes = object.clone();
        let half = bytes.len() / 2;
        bytes[half..half + 8].fill(7);
        bytes
    };
    overwrite(&bench.path("main.o"), &other)?;
    bench.run(bench.command("out/program"))?;
    let of_other = std::fs::read(bench.out())?;
    overwrite(&bench.path("main.o"), &object)?;
    type Change = fn(&Bench, &[u8], u32) -> Result<()>;
    let changes: [(&str, Change); 4] = [
        ("becomes shorter", |bench, _, round| {
            let length = u64::from(1 + round % 7) * 5000;
            Ok(OpenOptions::new().write(true).open(bench.path("main.o"))?.set_len(length)?)
        }),
        ("is written to in place", |bench, other, _| overwrite(&bench.path("main.o"), other)),
        ("is written to at length", |bench, other, _| {
            for bytes in other.chunks(other.len() / 5) {
                overwrite(&bench.path("main.o"), bytes)?;
            }
            overwrite(&bench.path("main.o"), other)
        }),
        ("is replaced", |bench, other, _| {
            std::fs::write(bench.path("new.o"), other)?;
            Ok(std::fs::rename(bench.path("new.o"), bench.path("main.o"))?)
        }),
    ];
    for (what, change) in changes {
        let mut row = Row::default();
        for round in 0..moments {
            bench.reset()?;
            std::fs::write(bench.path("main.o"), &object)?;
            let log = std::fs::File::create(bench.path("log"))?;
            let mut child = bench.command("out/program").stderr(log).spawn()?;
            std::thread::sleep(moment(round, whole));
            change(bench, &other, round)?;
            let status = child.wait()?;
            let said = std::fs::read_to_string(bench.path("log"))?;
            if status.success() && std::fs::read(bench.out())? == of_other {
                // The link opened the file when the change was over.
                overwrite(&bench.out(), &bench.expected)?;
            }
            row.add(bench, &Ended { status, said, memory: 0 }, &format!("an input {what}"))?;
        }
        table.row(&format!("an input {what} at a random moment"), row)?;
    }
    std::fs::write(bench.path("main.o"), &object)?;
    Ok(())
}

/// Limits that shells set, closed descriptors, environments, and kinds of outputs.
fn surroundings(table: &mut Table<'_>, bench: &Bench) -> Result<()> {
    let sets: [(&str, Vec<String>); 6] = [
        ("`ulimit -v`, 80 MB to 2 GB", (1..=25).map(|n| format!("ulimit -v {}; exec LINK", n * 80_000)).collect()),
        ("`ulimit -n`, 4 to 64", (4..=64).step_by(4).map(|n| format!("ulimit -n {n}; exec LINK")).collect()),
        (
            "closed descriptors and full ones",
            [">&-", "2>&-", "<&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full", "--print-map >/dev/full", "--stats >&-"]
                .map(|end| format!("exec LINK {end}"))
                .into(),
        ),
        (
            "environments",
            ["env -i", "env -u HOME", "env LC_ALL=C", "env LC_ALL=none.such LANG=x", "env TMPDIR=/none/such", "env RAYON_NUM_THREADS=x"]
                .map(|before| format!("exec {before} LINK"))
                .into(),
        ),
        (
            "no `/proc`, no `/sys`, no `/tmp`",
            ["/proc", "/sys", "/tmp"].map(|place| format!("unshare -m bash -c 'mount -t tmpfs none {place}; exec LINK'")).into(),
        ),
        (
            "the same output as a symbolic link, a hard link, read-only, running",
            [
                "mv out/program other; ln -s ../other out/program; LINK && cp out/program x && mv x out/program",
                "ln out/program hard; LINK; status=$?; rm -f hard; exit $status",
                "chmod 0 out/program; exec LINK",
                "unshare -m bash -c 'mount --bind out out; mount -o remount,ro,bind out; exec LINK'",
                "cp $(which sleep) out/program; out/program 3 & sleep 0.1; exec LINK",
            ]
            .map(str::to_owned)
            .into(),
        ),
    ];
    for (what, scripts) in sets {
        let mut row = Row::default();
        for script in scripts {
            bench.reset()?;
            let ended = bench.run(bench.shell(&script))?;
            row.add(bench, &ended, &script)?;
        }
        table.row(what, row)?;
    }
    let mut row = Row::default();
    for threads in ["", "--threads=8"] {
        bench.reset()?;
        let place = std::env::temp_dir().join("sframe-ld-faults");
        let place = place.display();
        let script = format!(
            "rm -rf {place}; mkdir -p {place}/out && chmod 777 {place} {place}/out && cp -L main.o libf.a libg.so list {} {place} && cd {place} && \
             setpriv --reuid=54321 --regid=54321 --clear-groups bash -c 'ulimit -u 1; exec ./ld {threads} -o out/program {}'; \
             status=$?; cd -; cp {place}/out/program out/program; rm -rf {place}; exit $status",
            bench.linker.display(),
            bench.words("").split_once(" -o  ").map_or("", |(_, words)| words)
        );
        let ended = bench.run(bench.shell(&script))?;
        row.add(bench, &ended, "no threads")?;
    }
    table.row("`ulimit -u 1` as a user without rights: threads cannot start", row)?;
    let mut row = Row::default();
    for out in ["main.o", "./libf.a", "libg.so", "list", "link-to-main"] {
        let before = [std::fs::read(bench.path("main.o"))?, std::fs::read(bench.path("libf.a"))?];
        let _ = std::os::unix::fs::symlink("main.o", bench.path("link-to-main"));
        bench.reset()?;
        let ended = bench.run(bench.command(out))?;
        row.add(bench, &ended, &format!("the output {out} is an input"))?;
        ensure!(
            before == [std::fs::read(bench.path("main.o"))?, std::fs::read(bench.path("libf.a"))?],
            "an input is gone"
        );
    }
    table.row("the output is an input", row)?;
    let mut row = Row::default();
    for script in [
        "mkfifo pipe; cat pipe > copy & LINK_TO_PIPE; status=$?; wait; rm pipe; mv copy out/program; exit $status",
        "mkfifo input; (python3 -c \"import sys; d=open('main.o','rb').read(); f=open('input','wb',0); [f.write(d[i:i+4001]) for i in range(0,len(d),4001)]\") & LINK_FROM_PIPE; status=$?; rm input; exit $status",
    ] {
        bench.reset()?;
        let script = script
            .replace("LINK_TO_PIPE", &bench.words("pipe"))
            .replace("LINK_FROM_PIPE", &bench.words("out/program").replace("main.o", "input"));
        let ended = bench.run(bench.shell(&script))?;
        row.add(bench, &ended, "a pipe")?;
    }
    table.row("a pipe as output, and as input", row)
}

/// Sixteen links at the same time: to the same output, and to different ones.
fn together(table: &mut Table<'_>, bench: &Bench) -> Result<()> {
    for (what, same) in
        [("sixteen links at once to one output", true), ("sixteen links at once, an output each", false)]
    {
        let mut row = Row::default();
        for _ in 0..30 {
            bench.reset()?;
            let start = |number| {
                let out = if same { "out/program".to_owned() } else { format!("out-{number}") };
                let mut command = bench.command(&out);
                Ok::<_, anyhow::Error>((command.stderr(Stdio::null()).spawn()?, out))
            };
            let children: Vec<_> = (0..16).map(start).collect::<Result<_>>()?;
            for (mut child, out) in children {
                let status = child.wait()?;
                if !same {
                    std::fs::rename(bench.path(&out), bench.out())?;
                }
                row.add(bench, &Ended { status, said: String::new(), memory: 0 }, what)?;
            }
            row.unclean += u32::from(bench.has_litter()?);
        }
        table.row(what, row)?;
    }
    Ok(())
}
