//! Core files: registers of the threads, memory, and mapped files with their addresses.
//!
//! Linux writes a note for each (`<linux/elfcore.h>`, `fs/binfmt_elf.c`): `NT_PRSTATUS` with the
//! registers of a thread in the order of the machine's `user_regs`, `NT_FILE` with the mapped
//! files, `NT_AUXV` with the address of the vDSO.

use super::mapped::{MappedFile, Protections, mapped_files};
use super::memory::Memory;
use super::modules::{Loading, Modules, Place};
use super::process::{Process, Thread, bad};
use super::words::Words;
use crate::args::Unwind;
use crate::open::Problem;
use object::Endian as _;
use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use sframe_format::Abi;
use stacks::bytes::Bytes;
use std::path::Path;

/// Offset of the process number in `struct elf_prstatus` (64 bits).
const PID: usize = 32;
/// Offset of the registers.
const REGISTERS: usize = 112;
/// `AT_SYSINFO_EHDR`: where the vDSO is.
const VDSO: u64 = 33;
/// DWARF numbers in the order of x86-64's `user_regs_struct`; 100 marks a register that is not needed, 16 is
/// the program counter.
const AMD64_ORDER: [usize; 20] = [15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5, 100, 16, 100, 100, 7];

/// Reads a core file and the files that were mapped.
///
/// # Errors
/// It is no core file, or holds no thread.
pub fn read(path: &Path, arguments: &Unwind) -> Result<Process, Problem> {
    let name = path.display().to_string();
    let bytes = Bytes::open(path).map_err(|error| bad(&name, format!("cannot read: {error}")))?;
    let mut core = parse(&name, &bytes)?;
    let files = std::mem::take(&mut core.files);
    let named = |file: &MappedFile, path: &Path| path.file_name() == file.path.file_name();
    for file in &files {
        if arguments.modules.iter().any(|module| named(file, &module.path)) {
            continue;
        }
        let loadings = file.loadings(&core.protections, &core.memory);
        let path = match &arguments.sysroot {
            Some(root) => root.join(file.path.strip_prefix("/").unwrap_or(&file.path)),
            None => file.path.clone(),
        };
        // Code may be mapped of a file that is no program: made as the process ran, or of another system.
        if !loadings.is_empty() && !is_data(&path) {
            core.modules.add_file(&path, &file.name, &loadings, arguments.derivation);
        }
    }
    for module in &arguments.modules {
        let name = module.path.display().to_string();
        let loadings = match (module.bias, files.iter().find(|file| named(file, &module.path))) {
            (Some(bias), _) => vec![Loading { place: Place::Bias(bias), build_id: None }],
            (None, Some(file)) => file.loadings(&core.protections, &core.memory),
            (None, None) => return Err(bad(&name, "the core file maps no file of that name; say FILE@BIAS")),
        };
        if loadings.is_empty() {
            return Err(bad(&name, "the process only read the file of that name; say FILE@BIAS"));
        }
        core.modules.add_file(&module.path, &name, &loadings, arguments.derivation);
    }
    Ok(core.process())
}

/// Reads the threads and the memory of a core file, with the vDSO as the only module; opens no file.
///
/// # Errors
/// It is no core file, or holds no thread.
pub fn threads(name: &str, bytes: &Bytes) -> Result<Process, Problem> {
    Ok(parse(name, bytes)?.process())
}

/// The contents of a core file.
struct Core {
    abi: Abi,
    threads: Vec<Thread>,
    memory: Memory,
    modules: Modules,
    protections: Protections,
    files: Vec<MappedFile>,
    vdso: Option<u64>,
    /// Bytes of the file.
    size: usize,
}

impl Core {
    /// The process with its vDSO.
    fn process(mut self) -> Process {
        if let Some(address) = self.vdso {
            self.modules.add_image(&self.memory, address, "[vdso]");
        }
        Process {
            abi: self.abi,
            threads: self.threads,
            memory: self.memory,
            modules: self.modules,
            saved: self.size,
        }
    }
}

fn parse(name: &str, bytes: &Bytes) -> Result<Core, Problem> {
    let malformed = |error: object::read::Error| bad(name, format!("malformed core file: {error}"));
    let header = elf::FileHeader64::<Endianness>::parse(&**bytes).map_err(malformed)?;
    let endian = header.endian().map_err(malformed)?;
    if header.e_type(endian) != elf::ET_CORE {
        return Err(bad(name, "not a core file"));
    }
    let machine = header.e_machine(endian);
    let abi = Abi::from_elf(machine, endian.is_big_endian())
        .ok_or_else(|| bad(name, format!("core file of ELF machine {machine}, which has no SFrame")))?;
    let mut core = Core {
        abi,
        threads: Vec::new(),
        memory: Memory::default(),
        protections: Protections::default(),
        modules: Modules::new(abi),
        files: Vec::new(),
        vdso: None,
        size: bytes.len(),
    };
    // Bytes of notes read so far: many segments that hold the same notes would take quadratic time.
    let mut read = 0_u64;
    let (mut pieces, mut protections) = (Vec::new(), Vec::new());
    for segment in header.program_headers(endian, &**bytes).map_err(malformed)? {
        if segment.p_type(endian) == elf::PT_LOAD {
            let (start, size) = (segment.p_vaddr(endian), segment.p_memsz(endian));
            let executable = segment.p_flags(endian) & elf::PF_X != 0;
            protections.push((start..start.saturating_add(size), executable));
            let data = segment.data(endian, &**bytes).unwrap_or_default();
            pieces.extend(bytes.part(data).map(|part| (start, part)));
        }
        let Some(mut notes) = segment.notes(endian, &**bytes).map_err(malformed)? else { continue };
        read += segment.p_filesz(endian);
        if read > bytes.len() as u64 {
            return Err(bad(
                name,
                "malformed core file: its note segments overlap, for they hold more bytes than the file",
            ));
        }
        while let Some(note) = notes.next().map_err(malformed)? {
            let words = Words { endian, bytes: note.desc() };
            match note.n_type(endian) {
                elf::NT_PRSTATUS => core.threads.extend(thread(abi, &words)),
                elf::NT_FILE => core.files = mapped_files(&words),
                elf::NT_AUXV => core.vdso = vdso(&words),
                _ => {}
            }
        }
    }
    core.memory = Memory::new(pieces);
    core.protections = Protections::new(protections);
    if core.threads.is_empty() {
        return Err(bad(name, "the core file has no NT_PRSTATUS note: no thread's registers"));
    }
    Ok(core)
}

fn thread(abi: Abi, words: &Words<'_>) -> Option<Thread> {
    let word = |place: usize| words.at(REGISTERS + 8 * place);
    let mut registers = vec![None; 33];
    let pc = match abi {
        Abi::Amd64 => {
            for (place, &number) in AMD64_ORDER.iter().enumerate() {
                if let Some(register) = registers.get_mut(number) {
                    *register = word(place);
                }
            }
            registers.get(16).copied().flatten()?
        }
        // x0 to x30, sp, pc.
        Abi::AArch64Little | Abi::AArch64Big => {
            registers.iter_mut().take(32).enumerate().for_each(|(place, register)| *register = word(place));
            word(32)?
        }
        // The program status word's mask and address, then r0 to r15.
        Abi::S390x => {
            registers
                .iter_mut()
                .take(16)
                .enumerate()
                .for_each(|(place, register)| *register = word(place + 2));
            word(1)?
        }
    };
    let pid = words.bytes.get(PID..)?.first_chunk().map(|bytes| words.endian.read_u32(*bytes))?;
    Some(Thread { name: format!("thread {pid}"), pc, registers })
}
/// Whether a mapped file exists and is no ELF file. A core file may name a pipe, which nothing is read from.
fn is_data(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 4];
    let Ok(metadata) = std::fs::metadata(path) else { return false };
    if !metadata.is_file() {
        return true;
    }
    let Ok(mut file) = std::fs::File::open(path) else { return false };
    file.read_exact(&mut magic).is_err() || magic != elf::ELFMAG
}

fn vdso(words: &Words<'_>) -> Option<u64> {
    let pairs = (0..words.bytes.len() / 16).map(|place| (words.at(16 * place), words.at(16 * place + 8)));
    pairs.into_iter().find(|(key, _)| *key == Some(VDSO)).and_then(|(_, address)| address)
}
