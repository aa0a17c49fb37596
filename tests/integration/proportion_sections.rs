//! Section headers that refer to the same bytes, or the same names, many times. A header has 64 bytes, and
//! may refer to as many bytes as the file has. The limits are those of `proportion`.

use crate::proportion::{elf_header, within};
use crate::support::Work;

/// The fields of a section header that these tests choose.
#[derive(Clone, Copy)]
struct Header {
    name: u32,
    kind: u32,
    flags: u64,
    range: (u64, u64),
    link: u32,
    info: u32,
    entsize: u64,
}

const PLAIN: Header = Header { name: 1, kind: 1, flags: 3, range: (64, 0), link: 0, info: 0, entsize: 0 };

/// A file with these contents at 64, these names and these sections; the last section contains the names.
fn file(contents: &[u8], names: &[u8], sections: &[Header]) -> Vec<u8> {
    let start = (64 + contents.len() + names.len()).next_multiple_of(8) as u64;
    let mut file = elf_header(start, sections.len() as u16 + 2, sections.len() as u16 + 1);
    file.extend(contents);
    let strings = (file.len() as u64, names.len() as u64);
    file.extend(names);
    file.resize(start as usize + 64, 0);
    let table = Header { name: 0, kind: 3, flags: 0, range: strings, ..PLAIN };
    for header in sections.iter().chain([&table]) {
        file.extend([header.name, header.kind].map(u32::to_le_bytes).concat());
        file.extend([header.flags, 0, header.range.0, header.range.1].map(u64::to_le_bytes).concat());
        file.extend([header.link, header.info].map(u32::to_le_bytes).concat());
        file.extend([1, header.entsize].map(u64::to_le_bytes).concat());
    }
    file
}

fn start(work: &Work) -> String {
    work.s("start", ".globl _start\n_start: ret\n")
}

/// Sections that all contain the same 400 KB: loaded, debug information, strings to merge, notes, frames.
#[test]
fn sections_that_share_their_bytes() {
    let work = Work::new();
    let start = start(&work);
    let (names, size) = (b"\0.x\0.debug_info\0.eh_frame\0.sframe\0", 400_000);
    let contents = b"text\0\0\0\0".repeat(size / 8);
    let shared = Header { range: (64, size as u64), ..PLAIN };
    for section in [
        shared,
        Header { flags: 0, name: 4, ..shared },
        Header { flags: 0x32, entsize: 1, ..shared },
        Header { kind: 7, flags: 2, ..shared },
        Header { flags: 2, name: 16, ..shared },
        Header { kind: 0x6fff_fff4, flags: 2, name: 26, ..shared },
        // Relocations for this many sections.
        Header { kind: 4, flags: 0, info: 1, entsize: 24, ..shared },
    ] {
        work.write("shared", file(&contents, names, &vec![section; 4000]));
        for options in [&[][..], &["-r"], &["--sframe-split"]] {
            let outcome = within(&work, &[options, &[&start, "shared"]].concat());
            outcome.fails().says(&["shared: ", "the contents of its sections overlap beyond measure"]);
        }
    }
    // A few sections may share bytes, because other linkers accept that.
    work.write("shared", file(&contents, names, &[shared; 3]));
    within(&work, &[&start, "shared"]).ok();
    assert_eq!(work.elf_unchecked("out").section(".x").size, 3 * size as u64);
}

/// Sections of zeros that are all the same bytes, which an option asks the linker to read.
#[test]
fn sections_that_share_their_zeros() {
    let work = Work::new();
    let start = start(&work);
    let zeros = Header { range: (64, 400_000), ..PLAIN };
    work.write("shared", file(&vec![0; 400_000], b"\0.x\0", &vec![zeros; 4000]));
    let outcome = within(&work, &["--zero-to-bss", &start, "shared"]);
    outcome.fails().says(&["shared: ", "the contents of its sections overlap beyond measure"]);
}

/// Dynamic sections of a library that have the same entries.
#[test]
fn dynamic_sections_that_share_their_bytes() {
    let work = Work::new();
    let start = start(&work);
    let entries: Vec<u8> = (0..30_000).flat_map(|_| [1u64, 1].map(u64::to_le_bytes).concat()).collect();
    let needed = Header { kind: 6, range: (64, entries.len() as u64), link: 4001, entsize: 16, ..PLAIN };
    let mut library = file(&entries, b"\0libneeded.so\0", &vec![needed; 4000]);
    library[16] = 3;
    work.write("libx.so", library);
    within(&work, &[&start, "libx.so"])
        .fails()
        .says(&["libx.so: ", "the contents of its sections overlap beyond measure"]);
    // Names of needed libraries that are ends of other names.
    let count = 40_000u64;
    let entries: Vec<u8> = (0..count).flat_map(|at| [1, at + 1].map(u64::to_le_bytes).concat()).collect();
    let needed = Header { kind: 6, range: (64, entries.len() as u64), link: 2, entsize: 16, ..PLAIN };
    let names = [&[0][..], &vec![b'x'; count as usize], &[0]].concat();
    let mut library = file(&entries, &names, &[needed]);
    library[16] = 3;
    work.write("libx.so", library);
    within(&work, &[&start, "libx.so"]).fails().says(&["names of its symbols overlap beyond measure"]);
}

/// A library that needs many others names many directories, and each library is looked for in each directory.
#[test]
fn directories_of_a_library_that_needs_many() {
    const COUNT: u64 = 30_000;
    let work = Work::new();
    let start = start(&work);
    let (needed, run_path) = (1u64, 29u64);
    let directories = vec!["d"; COUNT as usize].join(":");
    let mut names = format!("\0{directories}\0").into_bytes();
    let mut entries = [run_path, 1].map(u64::to_le_bytes).concat();
    for library in 0..COUNT {
        entries.extend([needed, names.len() as u64].map(u64::to_le_bytes).concat());
        names.extend(format!("l{library}\0").bytes());
    }
    let dynamic = Header { kind: 6, range: (64, entries.len() as u64), link: 2, entsize: 16, ..PLAIN };
    let mut library = file(&entries, &names, &[dynamic]);
    library[16] = 3;
    work.write("libx.so", library);
    within(&work, &[&start, "libx.so", "-rpath-link=elsewhere"]).ok();
}

/// Names of sections are ends of other names.
#[test]
fn section_names_that_share_their_bytes() {
    let work = Work::new();
    let start = start(&work);
    for count in [3000, 30_000] {
        let names = [&[0][..], &vec![b'x'; 64 * count], &[0]].concat();
        let section = |at| Header { name: at as u32 + 1, range: (64, 8), ..PLAIN };
        work.write("names", file(&[0xc3; 8], &names, &(0..count).map(section).collect::<Vec<_>>()));
        for options in [&[][..], &["-r"], &["--sframe-split"], &["--gc-sections", "--print-gc-sections"]] {
            let outcome = within(&work, &[options, &[&start, "names"]].concat());
            outcome.fails().says(&["names: ", "the names of its sections overlap beyond measure"]);
        }
    }
    // Any number of sections may have the same name, as with `-fno-unique-section-names`.
    let names = [&[0][..], &vec![b'x'; 500], &[0]].concat();
    work.write("names", file(&[0xc3; 8], &names, &vec![Header { range: (64, 1), ..PLAIN }; 50_000]));
    within(&work, &[&start, "names"]).ok();
}
