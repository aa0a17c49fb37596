//! Core files: registers of the threads, memory, and mapped files with their addresses.
//!
//! Linux writes a note for each (`<linux/elfcore.h>`, `fs/binfmt_elf.c`): `NT_PRSTATUS` with the registers of
//! a thread in the order of the machine's `user_regs`, `NT_FILE` with the mapped files, `NT_AUXV` with the
//! address of the vDSO.

mod mapped;
mod words;

use crate::bytes::Bytes;
use crate::memory::Memory;
use crate::session::Session;
use crate::snapshot::{Snapshot, Thread};
pub use mapped::{Code, MappedFile};
use mapped::{Protections, mapped_files};
use object::Endian as _;
use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use sframe_format::Abi;
use words::Words;

/// Offset of the process number in `struct elf_prstatus` (64 bits).
const PID: usize = 32;
/// Offset of the number of the signal that ended the process.
const SIGNAL: usize = 12;
/// Offset of the registers.
const REGISTERS: usize = 112;
/// Offset and size of the program's name in `struct elf_prpsinfo` (64 bits).
const PROGRAM: usize = 40;
const PROGRAM_SIZE: usize = 16;
/// `AT_SYSINFO_EHDR`: where the vDSO is.
const VDSO: u64 = 33;
/// DWARF numbers in the order of x86-64's `user_regs_struct`; 100 marks a register that is not needed, 16 is
/// the program counter.
const AMD64_ORDER: [usize; 20] = [15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5, 100, 16, 100, 100, 7];
/// Place of the base of a thread's own data in the same order.
const FS_BASE: usize = 21;

/// The contents of a core file.
pub struct CoreFile {
    /// The process.
    pub snapshot: Snapshot,
    /// The files that it had mapped.
    pub files: Vec<MappedFile>,
    protections: Protections,
    vdso: Option<u64>,
}

impl CoreFile {
    /// The parts of a file that are mapped as code; none if the process only read it.
    pub fn code(&self, file: &MappedFile) -> Vec<Code> {
        file.code(&self.protections, &self.snapshot.memory)
    }

    /// Maps the kernel's vDSO into the process, from the memory that holds it as a whole.
    pub fn map_vdso(&self, session: &mut Session) {
        let image = self.vdso.and_then(|address| Some((address, self.snapshot.memory.part(address)?)));
        if let Some((address, bytes)) = image {
            let file = session.files_mut().add_image("[vdso]", bytes);
            session.map_whole(self.snapshot.pid, file, |image| image.bias(0, address));
        }
    }

    /// Reads a core file.
    ///
    /// # Errors
    /// A sentence: it is no core file, or holds no thread.
    pub fn read(bytes: &Bytes) -> Result<Self, String> {
        let malformed = |error: object::read::Error| format!("malformed core file: {error}");
        let header = elf::FileHeader64::<Endianness>::parse(&**bytes).map_err(malformed)?;
        let endian = header.endian().map_err(malformed)?;
        if header.e_type(endian) != elf::ET_CORE {
            return Err("not a core file".into());
        }
        let machine = header.e_machine(endian);
        let abi = Abi::from_elf(machine, endian.is_big_endian())
            .ok_or_else(|| format!("core file of ELF machine {machine}, which has no SFrame"))?;
        let mut snapshot = Snapshot::new(abi);
        let (mut files, mut vdso) = (Vec::new(), None);
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
                return Err(
                    "malformed core file: its note segments overlap, for they hold more bytes than the file"
                        .into(),
                );
            }
            while let Some(note) = notes.next().map_err(malformed)? {
                let words = Words { endian, bytes: note.desc() };
                match note.n_type(endian) {
                    elf::NT_PRSTATUS => snapshot.threads.extend(thread(abi, &words)),
                    elf::NT_PRPSINFO => snapshot.name = program(words.bytes),
                    elf::NT_FILE => files = mapped_files(&words),
                    elf::NT_AUXV => vdso = address_of_vdso(&words),
                    _ => {}
                }
            }
        }
        let Some(first) = snapshot.threads.first() else {
            return Err("the core file has no NT_PRSTATUS note: no thread's registers".into());
        };
        // The kernel's number of a process is that of its first thread, which need not come first in a core
        // file. There is one process, so any number serves.
        snapshot.pid = first.tid;
        snapshot.memory = Memory::new(pieces);
        snapshot.saved = bytes.len();
        Ok(Self { snapshot, files, protections: Protections::new(protections), vdso })
    }
}

/// The name of the program, up to its first zero byte.
fn program(note: &[u8]) -> Vec<u8> {
    let name = note.get(PROGRAM..PROGRAM + PROGRAM_SIZE).unwrap_or_default();
    name.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
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
    let tid = words.bytes.get(PID..)?.first_chunk().map(|bytes| words.endian.read_u32(*bytes))?;
    let signal = words.bytes.get(SIGNAL..)?.first_chunk().map(|bytes| words.endian.read_u16(*bytes))?;
    let base = word(FS_BASE).filter(|_| abi == Abi::Amd64);
    Some(Thread { tid, signal, pc, registers, base })
}

/// The address of the vDSO among the auxiliary vector.
fn address_of_vdso(words: &Words<'_>) -> Option<u64> {
    let pairs = (0..words.bytes.len() / 16).map(|place| (words.at(16 * place), words.at(16 * place + 8)));
    pairs.into_iter().find(|(key, _)| *key == Some(VDSO)).and_then(|(_, address)| address)
}
