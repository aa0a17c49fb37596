//! Input of the benches: one library with its `.eh_frame`, the SFrame section derived from that, and stacks
//! of its functions.

use std::path::PathBuf;
use std::process::Command;

use framehop::Unwinder as _;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use object::{Object, ObjectSection};
use sframe_format::{
    Abi, Base, Blob, CompactTable, Fde, FileRows, Frame, Location, Match, Module, ModuleId, RegisterRule,
    Registers, RuleCache, Rules, Unwinder, compact, derive, write,
};

/// Stack pointer of the topmost frame of every stack.
const STACK_BASE: u64 = 0x7f00_0000_0000;
/// Size in bytes of a frame whose row does not say its size.
const DYNAMIC_FRAME: u64 = 96;

/// A library, loaded at the addresses in the file itself.
pub struct Input {
    pub name: String,
    pub sframe: Vec<u8>,
    pub sframe_address: u64,
    end: u64,
    eh_frame: (u64, Vec<u8>),
    eh_frame_hdr: (u64, Vec<u8>),
    compact: Vec<u8>,
}

/// A stack, and the frames that a walk must find.
pub struct Stack {
    pub pc: u64,
    pub sp: u64,
    pub fp: u64,
    pub frames: Vec<u64>,
    words: Vec<u64>,
}

impl Stack {
    /// The word at an address of the stack.
    #[inline]
    pub fn read(&self, address: u64) -> Result<u64, ()> {
        let at = address.wrapping_sub(STACK_BASE) / 8;
        self.words.get(at as usize).copied().ok_or(())
    }

    fn write(&mut self, address: u64, value: u64) {
        let at = ((address - STACK_BASE) / 8) as usize;
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        self.words[at] = value;
    }
}

/// A small generator (splitmix64) that makes the same choices in every run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ value >> 31) % below
    }
}

/// A compact table of the functions of a section.
fn compact_table(section: &[u8], address: u64) -> Vec<u8> {
    let blob = Blob::parse(section, address).unwrap();
    let function = |fde: Fde| (fde.address, write::Function::read(&blob, &fde).unwrap());
    let functions: Vec<_> = blob.fdes().map(function).collect();
    compact::write_table(Abi::Amd64, 0, &functions).unwrap().bytes
}

impl Input {
    /// The library of the Rust toolchain whose file name has this prefix, if it is an x86-64 library with
    /// `.eh_frame_hdr`.
    pub fn of_toolchain(prefix: &str) -> Option<Self> {
        let output = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
        let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()).join("lib");
        let folders = [folder.join("rustlib/x86_64-unknown-linux-gnu/lib"), folder];
        let folders = folders.into_iter().flat_map(std::fs::read_dir);
        let files = folders.flat_map(|entries| entries.flatten().map(|entry| entry.path()));
        let starts = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with(prefix) && name.ends_with(".so")
        };
        let path = files.filter(starts).min()?;
        let bytes = std::fs::read(&path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        if file.architecture() != object::Architecture::X86_64 {
            return None;
        }
        let section = |name| {
            let section = file.section_by_name(name)?;
            Some((section.address(), section.data().ok()?.to_vec()))
        };
        let (eh_frame, eh_frame_hdr) = (section(".eh_frame")?, section(".eh_frame_hdr")?);
        let end = file.sections().map(|section| section.address() + section.size()).max()?;
        let sframe_address = end.next_multiple_of(4096);
        let options = write::Options::new(Abi::Amd64);
        let derived = derive::derive(options, &eh_frame.1, eh_frame.0, sframe_address).unwrap();
        let name = path.file_name()?.to_string_lossy().split('-').next()?.to_owned();
        let compact = compact_table(&derived.bytes, sframe_address);
        Some(Self { name, sframe: derived.bytes, sframe_address, end, eh_frame, eh_frame_hdr, compact })
    }

    fn blob(&self) -> Blob<'_> {
        Blob::parse(&self.sframe, self.sframe_address).unwrap()
    }

    /// Number of functions.
    pub fn functions(&self) -> u32 {
        self.blob().header().fde_count
    }

    /// The module for this crate.
    pub fn module(&self) -> Module<&[u8]> {
        Module::new(ModuleId(1), 0..self.end, 0, self.rows())
    }

    /// The rows of the library.
    pub fn rows(&self) -> FileRows<&[u8]> {
        FileRows::new(&self.sframe, self.sframe_address)
    }

    /// An unwinder with this module only.
    pub fn unwinder(&self) -> Unwinder<&[u8]> {
        let mut unwinder = Unwinder::new(Abi::Amd64);
        unwinder.add_module(self.module());
        unwinder
    }

    /// The same, with a table.
    pub fn tabled(&self) -> Unwinder<&[u8]> {
        let mut unwinder = Unwinder::new(Abi::Amd64);
        unwinder.add_module(Module::new(ModuleId(1), 0..self.end, 0, self.rows().tabled()));
        unwinder
    }

    /// The compact table of the same rows.
    pub fn compact(&self) -> CompactTable<&[u8]> {
        CompactTable::parse(&self.compact[..], 0).unwrap()
    }

    /// An unwinder with the compact table only.
    pub fn by_compact_table(&self) -> Unwinder<&[u8]> {
        let mut unwinder = Unwinder::new(Abi::Amd64);
        let rows = FileRows::default().with_compact(self.compact());
        unwinder.add_module(Module::new(ModuleId(1), 0..self.end, 0, rows));
        unwinder
    }

    /// The module for framehop.
    pub fn framehop_module(&self) -> framehop::Module<&[u8]> {
        let (eh_frame, header) = (&self.eh_frame, &self.eh_frame_hdr);
        let sections = framehop::ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame_svma: Some(eh_frame.0..eh_frame.0 + eh_frame.1.len() as u64),
            eh_frame: Some(&eh_frame.1[..]),
            eh_frame_hdr_svma: Some(header.0..header.0 + header.1.len() as u64),
            eh_frame_hdr: Some(&header.1[..]),
            ..Default::default()
        };
        framehop::Module::new(String::new(), 0..self.end, 0, sections)
    }

    /// framehop's unwinder with this module only.
    pub fn framehop(&self) -> UnwinderX86_64<&[u8]> {
        let mut unwinder = UnwinderX86_64::new();
        unwinder.add_module(self.framehop_module());
        unwinder
    }

    fn random_function(&self, random: &mut Random) -> Fde {
        let blob = self.blob();
        loop {
            let fde = blob.fde(random.next(blob.header().fde_count.into()) as u32).unwrap();
            if fde.size != 0 {
                return fde;
            }
        }
    }

    /// Addresses of instructions in random functions.
    pub fn random_pcs(&self, count: usize) -> Vec<u64> {
        let mut random = Random(1);
        let mut one = || {
            let fde = self.random_function(&mut random);
            fde.address + random.next(fde.size.into())
        };
        (0..count).map(|_| one()).collect()
    }

    /// Return addresses for which a stack can be made, with their rows.
    fn return_addresses(&self, count: usize) -> Vec<(u64, Frame)> {
        let (blob, mut random) = (self.blob(), Random(2));
        let mut found = Vec::with_capacity(count);
        while found.len() < count {
            let fde = self.random_function(&mut random);
            let pc = fde.address + random.next(fde.size.into());
            if let Ok(Some(Match { row, .. })) = blob.lookup_in(fde, pc)
                && let Rules::Frame(frame) = row.rules
                && is_ordinary(&frame)
            {
                found.push((pc + 1, frame));
            }
        }
        found
    }

    /// A stack of `count` frames with `distinct` return addresses. Both unwinders find these frames.
    pub fn stack(&self, count: usize, distinct: usize) -> Stack {
        let stack = self.lay_out(count, distinct);
        assert_eq!(self.walk_with_framehop(&stack), stack.frames, "framehop walks another stack");
        for unwinder in [self.unwinder(), self.tabled(), self.by_compact_table()] {
            assert_eq!(walk(&unwinder, &stack), stack.frames);
        }
        stack
    }

    fn lay_out(&self, count: usize, distinct: usize) -> Stack {
        let calls = self.return_addresses(distinct);
        let calls: Vec<_> = calls.into_iter().cycle().take(count).collect();
        let mut stack =
            Stack { pc: calls[0].0 - 1, sp: STACK_BASE, fp: 0, frames: Vec::new(), words: Vec::new() };
        let mut sp = STACK_BASE;
        let mut cfas = Vec::new();
        for (number, (pc, frame)) in calls.iter().enumerate() {
            let size = if frame.cfa.register == 7 { frame.cfa.offset as u64 } else { DYNAMIC_FRAME };
            sp += size;
            cfas.push(sp);
            stack.write(sp - 8, calls.get(number + 1).map_or(0, |call| call.0));
            stack.frames.push(if number == 0 { *pc - 1 } else { *pc });
        }
        // The frame pointer of a frame must hold the value that the last frame to save it expects.
        let mut wanted = 0;
        for ((_, frame), &cfa) in calls.iter().zip(&cfas).rev() {
            if let RegisterRule::Saved(location) = frame.fp {
                stack.write(cfa.wrapping_add_signed(location.offset.into()), wanted);
            }
            if frame.cfa.register == 6 {
                wanted = cfa.wrapping_add_signed(-frame.cfa.offset);
            }
        }
        stack.fp = wanted;
        stack
    }

    /// The addresses that framehop finds in a stack.
    fn walk_with_framehop(&self, stack: &Stack) -> Vec<u64> {
        let unwinder = self.framehop();
        let mut cache = CacheX86_64::<_>::new();
        let mut read = |address| stack.read(address);
        let registers = UnwindRegsX86_64::new(stack.pc, stack.sp, stack.fp);
        let mut frames = unwinder.iter_frames(stack.pc, registers, &mut cache, &mut read);
        let mut found = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            found.push(frame.address());
        }
        found
    }
}

/// Whether framehop caches the row, and its frame can be laid out without the other frames.
fn is_ordinary(frame: &Frame) -> bool {
    let saved = match frame.fp {
        RegisterRule::Unchanged => None,
        RegisterRule::Saved(Location { base: Base::Cfa, offset, dereference: true }) => {
            Some(i64::from(offset))
        }
        RegisterRule::Saved(_) => return false,
    };
    let by_sp = frame.cfa.register == 7
        && (16..4096).contains(&frame.cfa.offset)
        && saved.is_none_or(|offset| offset < -8 && offset >= -frame.cfa.offset);
    let by_fp = frame.cfa.register == 6 && frame.cfa.offset == 16 && saved == Some(-16);
    !frame.cfa.dereference && frame.ra == RegisterRule::Saved(Location::at_cfa(-8)) && (by_sp || by_fp)
}

/// The addresses that this crate finds in a stack.
fn walk(unwinder: &Unwinder<&[u8]>, stack: &Stack) -> Vec<u64> {
    let registers = Registers::new(stack.sp, stack.fp, None);
    let mut cache = RuleCache::<512>::new();
    let frames = unwinder.iter_frames(stack.pc, registers, &mut cache, |address| stack.read(address));
    frames.map_while(Result::ok).map(|frame| frame.address.address()).collect()
}

/// Number of frames that this crate finds.
pub fn count(unwinder: &Unwinder<&[u8]>, stack: &Stack, cache: &mut RuleCache<512>) -> usize {
    let registers = Registers::new(stack.sp, stack.fp, None);
    unwinder.iter_frames(stack.pc, registers, cache, |address| stack.read(address)).count()
}

/// Number of frames that framehop finds.
pub fn count_with_framehop(
    unwinder: &UnwinderX86_64<&[u8]>,
    stack: &Stack,
    cache: &mut CacheX86_64,
) -> usize {
    let mut read = |address| stack.read(address);
    let registers = UnwindRegsX86_64::new(stack.pc, stack.sp, stack.fp);
    let mut frames = unwinder.iter_frames(stack.pc, registers, cache, &mut read);
    let mut count = 0;
    while let Ok(Some(_)) = frames.next() {
        count += 1;
    }
    count
}
