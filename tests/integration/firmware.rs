//! Images of bare-metal programs (`--oformat binary`), with scripts like those of Zephyr, newlib's boards and
//! U-Boot. They must equal GNU ld's, byte for byte.
//!
//! The programs leave no choice to a linker: there are no strings to merge, and no instructions to rewrite
//! (`--no-relax`).

use crate::support::{Machine, Work, machine, tools};
use std::path::{Path, PathBuf};

const FLAGS: &[&str] = &[
    "-ffreestanding",
    "-fno-pic",
    "-fno-merge-constants",
    "-fno-asynchronous-unwind-tables",
    "-fno-stack-protector",
];

/// The ways to compile it.
const STYLES: [&[&str]; 2] = [&["-O1"], &["-O2", "-ffunction-sections", "-fdata-sections"]];

const SCRIPTS: [&str; 3] = ["regions.ld", "plain.ld", "boot.ld"];

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/firmware").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn objects(work: &Work, machine: &Machine, style: &[&str]) -> [String; 2] {
    let own: &[&str] = if machine.native { &["-mcmodel=large", "-mno-red-zone"] } else { &[] };
    let flags = [FLAGS, own, style].concat();
    ["firmware", "library"].map(|name| work.c(name, &fixture(&format!("{name}.c")), &flags))
}

fn gnu_ld(machine: &Machine) -> Result<PathBuf, String> {
    let newest = machine.gnu_lds().pop();
    newest.map(|ld| ld.path).ok_or_else(|| format!("no GNU ld for {}", machine.name))
}

/// GNU ld only writes images for some machines. For the others, `objcopy` makes the image from GNU ld's ELF
/// file.
fn images_equal(machine: &'static Machine) {
    let ld = match gnu_ld(machine) {
        Ok(ld) => ld,
        Err(reason) => return tools::skip("firmware", &reason),
    };
    for style in STYLES {
        let work = Work::on(machine);
        let [firmware, library] = objects(&work, machine, style);
        for script in SCRIPTS {
            work.write(script, fixture(script));
            for collect in ["--no-gc-sections", "--gc-sections"] {
                let common = [collect, "--no-relax", "-T", script, &firmware, &library];
                work.ld(&[&common[..], &["--oformat", "binary", "-o", "ours.bin"]].concat()).ok();
                work.command(&ld, &[&common[..], &["-o", "theirs"]].concat()).ok();
                work.command(objcopy(machine), &["-O", "binary", "theirs", "theirs.bin"]).ok();
                let (ours, theirs) = (work.read("ours.bin"), work.read("theirs.bin"));
                assert!(ours.len() > 400, "{script}: {} bytes", ours.len());
                let differs = ours.iter().zip(&theirs).position(|(a, b)| a != b);
                assert_eq!(
                    (ours.len(), differs),
                    (theirs.len(), None),
                    "{script}, {collect}, {style:?}, {}: sizes, and the first byte that differs",
                    machine.name
                );
            }
        }
    }
}

fn objcopy(machine: &Machine) -> PathBuf {
    machine.tool("objcopy").unwrap_or_else(|reason| panic!("{reason}"))
}

#[test]
fn x86_64_images_equal_gnu_ld() {
    machine::check(&machine::X86_64, images_equal);
}

#[test]
fn aarch64_images_equal_gnu_ld() {
    machine::check(&machine::AARCH64, images_equal);
}

/// GNU ld's own image for x86-64, if it writes one.
#[test]
fn gnu_ld_writes_the_same_image() {
    let machine = &machine::X86_64;
    let Ok(ld) = gnu_ld(machine) else { return tools::skip("firmware", "no GNU ld") };
    let work = Work::new();
    let [firmware, library] = objects(&work, machine, STYLES[0]);
    for script in SCRIPTS {
        work.write(script, fixture(script));
        let common = ["--no-relax", "-T", script, "--oformat", "binary", &firmware, &library];
        work.ld(&[&common[..], &["-o", "ours.bin"]].concat()).ok();
        work.command(&ld, &[&common[..], &["-o", "theirs.bin"]].concat()).ok();
        assert!(work.read("ours.bin") == work.read("theirs.bin"), "{script}");
    }
}

/// The start-up code of the Zephyr-like script copies the data from its place after the code.
#[test]
fn data_is_stored_behind_the_code() {
    let work = Work::new();
    let [firmware, library] = objects(&work, &machine::X86_64, STYLES[0]);
    work.write("regions.ld", fixture("regions.ld"));
    work.ld(&["-T", "regions.ld", &firmware, &library, "-o", "firmware", "--print-memory-usage"])
        .ok()
        .says_not(&["error"]);
    let elf = work.elf_unchecked("firmware");
    let value = |name: &str| elf.symbol(name).value;
    assert_eq!(value("data_start"), 0x2000_0000);
    assert_eq!(value("data_load") % 4, 0);
    assert!(value("data_load") >= value("__rodata_region_end"));
    let copied = elf.segments_of(1).into_iter().find(|load| load.addr == 0x2000_0000).expect("RAM");
    assert_eq!(copied.load_addr, value("data_load"));
}
