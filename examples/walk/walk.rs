//! A stack walker by SFrame, in a library: a program walks its own stack with it (such as `main.c`).
//!
//! It finds the loaded files as a profiler in the process would, through their program headers. It reads the
//! bytes that `PT_GNU_SFRAME` covers, whether a linker made one sorted table of them or left many blobs one
//! after the other. Files without SFrame (such as the C library of distributions), and code that a file's
//! SFrame leaves out, get rows derived from `.eh_frame` in memory. Every walk is compared with one by
//! `.eh_frame` alone (`_Unwind_Backtrace`): the frames and stack pointers must be the same.
//!
//! A walk neither allocates nor locks. Preparing and printing do, so a real profiler would only walk in its
//! signal handler. The walker is for x86-64 Linux. only walk in its signal handler. It is written for x86-64
//! Linux.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use libc::{c_char, c_int, c_void, dl_phdr_info, size_t, ucontext_t};
use object::{Object, ObjectSection};
use sframe_format::derive::derive;
use sframe_format::write::Options;
use sframe_format::{
    Abi, FileRows, FrameAddress, Module, ModuleId, Registers, RuleCache, Section, Source, UnwindError,
    Unwinder,
};
use std::ffi::CStr;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// `PT_GNU_SFRAME`.
const PT_GNU_SFRAME: u32 = 0x6474_e554;
/// More frames than any stack in this example has.
const MAX_FRAMES: usize = 1000;

/// A loaded file.
struct Loaded {
    name: String,
    range: Range<u64>,
    /// A description of the file's own SFrame.
    source: Option<String>,
}

/// Everything that a walk needs.
struct Walker {
    files: Vec<Loaded>,
    unwinder: Unwinder<&'static [u8]>,
    cache: RuleCache<512>,
    stack: Range<u64>,
    steps: Steps,
}

static WALKER: Mutex<Option<Walker>> = Mutex::new(None);

/// A frame: where it continues, and its stack pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Frame {
    address: u64,
    sp: u64,
}

/// The results of single steps.
#[derive(Default)]
struct Steps {
    same: u32,
    /// `.eh_frame` covers too little, but SFrame gave the complete stack.
    beyond: u32,
    /// SFrame cannot express a register that only `.eh_frame` follows.
    refused: u32,
    /// Code without rows.
    without: u32,
    different: u32,
    /// The outermost frame, which every walk must reach.
    outermost: u64,
}

/// Reads the loaded files. Call it once, and again after loading other files.
#[unsafe(no_mangle)]
pub extern "C" fn walk_prepare() {
    let mut files: Vec<Loaded> = Vec::new();
    let mut unwinder = Unwinder::new(Abi::Amd64);
    let mut found: Vec<Headers> = Vec::new();
    // SAFETY: the callback gets the vector that is passed here, and nothing else.
    unsafe { libc::dl_iterate_phdr(Some(note_file), (&raw mut found).cast()) };
    for headers in found {
        let id = ModuleId(files.len() as u64);
        let mut rows = FileRows::default();
        let source = headers.sframe.map(|(data, address)| {
            rows = FileRows::new(data, address);
            describe_section(&headers.path, data, address)
        });
        if let Some((frames, address)) = headers.eh_frame
            && let Ok(derived) = derive(Options::new(Abi::Amd64), frames, address, 0)
        {
            rows = rows.with_derived(derived.bytes.leak(), 0);
        }
        unwinder.add_module(Module::new(id, headers.range.clone(), headers.bias, rows));
        let name = headers.path.rsplit('/').next().unwrap_or_default().to_owned();
        files.push(Loaded { name, range: headers.range, source });
    }
    let walker = Walker { files, unwinder, cache: RuleCache::new(), stack: stack(), steps: Steps::default() };
    *WALKER.lock().unwrap_or_else(PoisonError::into_inner) = Some(walker);
}

/// The program headers of a loaded file.
struct Headers {
    path: String,
    bias: u64,
    range: Range<u64>,
    /// The bytes of its SFrame section, and the address that the file has for it.
    sframe: Option<(&'static [u8], u64)>,
    /// The same for `.eh_frame`.
    eh_frame: Option<(&'static [u8], u64)>,
}

unsafe extern "C" fn note_file(info: *mut dl_phdr_info, _: size_t, data: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker passes a valid description, and the vector from `walk_prepare`. Files stay
    // loaded, because nothing here unloads any.
    unsafe {
        let (info, found) = (&*info, &mut *data.cast::<Vec<Headers>>());
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        let bias = info.dlpi_addr;
        let bytes = |address: u64, size: u64| {
            std::slice::from_raw_parts(bias.wrapping_add(address) as *const u8, size as usize)
        };
        let loads = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let of = |kind: u32| headers.iter().find(|header| header.p_type == kind);
        let eh_frame = of(libc::PT_GNU_EH_FRAME).and_then(|header| {
            let start = eh_frame_start(bytes(header.p_vaddr, header.p_memsz), header.p_vaddr)?;
            let end = |load: &libc::Elf64_Phdr| load.p_vaddr + load.p_filesz;
            let load = loads().find(|load| load.p_vaddr <= start && start < end(load))?;
            Some((records(bytes(start, end(load) - start)), start))
        });
        let start = loads().map(|load| load.p_vaddr).min().unwrap_or(0);
        let end = loads().map(|load| load.p_vaddr + load.p_memsz).max().unwrap_or(0);
        let path = match CStr::from_ptr(info.dlpi_name).to_string_lossy().into_owned() {
            path if path.is_empty() => std::fs::read_link("/proc/self/exe")
                .map_or_else(|_| "program".to_owned(), |path| path.display().to_string()),
            path => path,
        };
        found.push(Headers {
            path,
            bias,
            range: bias.wrapping_add(start)..bias.wrapping_add(end),
            sframe: of(PT_GNU_SFRAME).map(|header| (bytes(header.p_vaddr, header.p_memsz), header.p_vaddr)),
            eh_frame,
        });
    }
    0
}

/// The address of `.eh_frame`, from `.eh_frame_hdr` (LSB, "The .eh_frame_hdr section"). Linkers write it as a
/// 4-byte distance from the field itself.
fn eh_frame_start(header: &[u8], address: u64) -> Option<u64> {
    let [1, 0x1b, _, _, distance @ ..] = header else { return None };
    let distance = i32::from_le_bytes(*distance.first_chunk()?);
    Some((address + 4).wrapping_add_signed(distance.into()))
}

/// The records at the start of `bytes`, up to the zero word that ends them.
fn records(bytes: &[u8]) -> &[u8] {
    let mut end = 0;
    while let Some(length) = bytes.get(end..).and_then(|rest| rest.first_chunk()) {
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || bytes.len() - end - 4 < length {
            break;
        }
        end += 4 + length;
    }
    &bytes[..end]
}

/// Describes a section: its name, if the file on disk has one, and its number of blobs.
fn describe_section(path: &str, data: &[u8], address: u64) -> String {
    let file = std::fs::read(path).unwrap_or_default();
    let name = object::File::parse(&*file).ok().and_then(|file| {
        let section = file.sections().find(|section| section.address() == address && section.size() > 0)?;
        section.name().ok().map(str::to_owned)
    });
    let count = Section::new(data, address).blobs().count();
    let blobs = if count == 1 { "1 blob".to_owned() } else { format!("{count} blobs") };
    format!("{} ({blobs})", name.as_deref().unwrap_or("SFrame segment"))
}

/// The addresses of this thread's stack.
fn stack() -> Range<u64> {
    let (mut start, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: each of these calls writes only to its arguments.
    unsafe {
        let mut attributes = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) == 0 {
            libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut size);
            libc::pthread_attr_destroy(&raw mut attributes);
        }
    }
    start as u64..start as u64 + size as u64
}

impl Walker {
    /// Walks outwards from an instruction into `frames`. For each frame, it stores what led on from it, or
    /// what called the outermost one. Returns why it ended early, if it did.
    fn walk(
        &mut self,
        pc: u64,
        mut registers: Registers,
        frames: &mut Vec<(Frame, Option<Source>)>,
    ) -> Option<UnwindError> {
        frames.clear();
        let stack = self.stack.clone();
        let mut read = |address: u64| {
            if !address.is_multiple_of(8) || !stack.contains(&address) || !stack.contains(&(address + 7)) {
                return Err(());
            }
            // SAFETY: the address is inside this thread's stack.
            Ok(unsafe { (address as *const u64).read_volatile() })
        };
        let mut at = FrameAddress::InstructionPointer(pc);
        while frames.len() < MAX_FRAMES {
            let frame = Frame { address: at.address(), sp: registers.sp };
            match self.unwinder.unwind_frame(at, &mut registers, &mut self.cache, &mut read) {
                Ok(Some(caller)) => {
                    at = caller.address;
                    frames.push((frame, Some(caller.source)));
                }
                Ok(None) => {
                    frames.push((frame, self.unwinder.source_at(at)));
                    return None;
                }
                Err(error) => {
                    frames.push((frame, None));
                    return Some(error);
                }
            }
        }
        None
    }

    fn file_at(&self, address: u64) -> Option<&Loaded> {
        self.files.iter().find(|file| file.range.contains(&address))
    }

    fn describe(&self, frame: Frame, source: Option<Source>) -> String {
        let file = self.file_at(frame.address.wrapping_sub(1));
        let source = match (source, file.and_then(|file| file.source.as_deref())) {
            (Some(Source::Sframe), Some(section)) => section,
            (Some(Source::EhFrame), _) => "derived from .eh_frame",
            (Some(_), _) => "the kernel's signal frame",
            (None, _) => "the walk ends",
        };
        let name = file.map_or("??", |file| &file.name);
        format!("{:#014x} {} in {name}: {source}", frame.address, symbol(frame.address))
    }
}

/// The function that contains an address, as far as dynamic symbols show.
fn symbol(address: u64) -> String {
    // SAFETY: dladdr fills the structure; the names in it stay as long as the file is loaded.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let inside = address.wrapping_sub(1) as *const c_void;
        if libc::dladdr(inside, &raw mut info) == 0 || info.dli_sname.is_null() {
            return "?".to_owned();
        }
        CStr::from_ptr(info.dli_sname).to_string_lossy().into_owned()
    }
}

#[link(name = "gcc_s")]
unsafe extern "C" {
    fn _Unwind_Backtrace(
        callback: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

unsafe extern "C" fn note_frame(context: *mut c_void, data: *mut c_void) -> c_int {
    // SAFETY: the unwinder passes its context, and the vector from `by_eh_frame`.
    unsafe {
        let frame = Frame { address: _Unwind_GetIP(context) as u64, sp: _Unwind_GetCFA(context) as u64 };
        (*data.cast::<Vec<Frame>>()).push(frame);
    }
    0
}

/// The frames by `.eh_frame` alone, starting with the one whose stack pointer is `sp`.
fn by_eh_frame(sp: u64) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    // SAFETY: the callback gets the vector that is passed here.
    unsafe { _Unwind_Backtrace(note_frame, (&raw mut frames).cast()) };
    frames.retain(|frame| frame.sp >= sp && frame.address != 0);
    frames
}

/// Walks from here, prints the frames, and compares. Returns 0 if they are those of `.eh_frame`.
///
/// # Safety
/// `title` is a string.
#[unsafe(no_mangle)]
#[inline(never)]
pub unsafe extern "C" fn walk(title: *const c_char) -> c_int {
    let (pc, sp, fp): (u64, u64, u64);
    // SAFETY: this reads three registers.
    unsafe {
        std::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) pc, out(reg) sp, out(reg) fp);
    }
    let mut reference = by_eh_frame(sp);
    // The innermost frame is this function's, which has continued since.
    if let Some(first) = reference.first_mut() {
        first.address = pc;
    }
    // SAFETY: as the caller promises.
    let title = unsafe { CStr::from_ptr(title) }.to_string_lossy();
    compare(&title, pc, Registers::new(sp, fp, None), &reference)
}

/// The same from the place that a signal interrupted, as a profiler does it.
///
/// # Safety
/// `title` is a string, and `context` is the argument of a signal handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn walk_from(title: *const c_char, context: *const ucontext_t) -> c_int {
    // SAFETY: as the caller promises.
    let (title, interrupted) =
        unsafe { (CStr::from_ptr(title).to_string_lossy(), Interrupted::of(&*context)) };
    let reference = by_eh_frame(interrupted.sp);
    compare(&title, interrupted.pc, interrupted.registers(), &reference)
}

fn compare(title: &str, pc: u64, registers: Registers, reference: &[Frame]) -> c_int {
    let mut guard = WALKER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(walker) = guard.as_mut() else { return 2 };
    let mut frames = Vec::with_capacity(MAX_FRAMES);
    let error = walker.walk(pc, registers, &mut frames);
    let same = error.is_none() && frames.iter().map(|(frame, _)| frame).eq(reference);
    println!("{title}: {} frames, {} those of .eh_frame", frames.len(), if same { "just" } else { "NOT" });
    for (number, &(frame, source)) in frames.iter().enumerate() {
        println!("  #{number} {}", walker.describe(frame, source));
    }
    if let Some(error) = error {
        println!("  the walk ended: {error}");
    }
    if !same {
        for (number, frame) in reference.iter().enumerate() {
            println!("  by .eh_frame #{number} {:#014x} {}", frame.address, symbol(frame.address));
        }
    }
    c_int::from(!same)
}

/// Registers of the code that a signal interrupted.
struct Interrupted {
    pc: u64,
    sp: u64,
    fp: u64,
    /// The registers by DWARF number (x86-64 psABI, "DWARF Register Number Mapping").
    all: [Option<u64>; 16],
}

impl Interrupted {
    fn of(context: &ucontext_t) -> Self {
        use libc::{
            REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RAX, REG_RBP, REG_RBX,
            REG_RCX, REG_RDI, REG_RDX, REG_RIP, REG_RSI, REG_RSP,
        };
        let register = |number: c_int| context.uc_mcontext.gregs[number as usize] as u64;
        let order = [
            REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8, REG_R9, REG_R10,
            REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
        ];
        let all = order.map(|number| Some(register(number)));
        Self { pc: register(REG_RIP), sp: register(REG_RSP), fp: register(REG_RBP), all }
    }

    fn registers(&self) -> Registers {
        Registers::new(self.sp, self.fp, None).with_others(&self.all)
    }
}

/// Walks from the place where a single step stopped, and counts the result.
///
/// # Safety
/// `context` is the argument of a signal handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn walk_step(context: *const ucontext_t) {
    // SAFETY: as the caller promises.
    let interrupted = Interrupted::of(unsafe { &*context });
    let reference = by_eh_frame(interrupted.sp);
    let mut guard = WALKER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(walker) = guard.as_mut() else { return };
    let mut frames = Vec::with_capacity(MAX_FRAMES);
    let error = walker.walk(interrupted.pc, interrupted.registers(), &mut frames);
    let outermost = frames.last().map_or(0, |(frame, _)| frame.address);
    let steps = &mut walker.steps;
    if steps.outermost == 0 && error.is_none() {
        steps.outermost = outermost;
    }
    let whole = error.is_none() && outermost == steps.outermost;
    let same = frames.iter().map(|(frame, _)| frame).eq(&reference);
    match error {
        None if same => steps.same += 1,
        // The unwinder of `.eh_frame` stops at code without FDEs; with most linkers, PLTs are such code.
        None if whole && reference.len() == 1 => steps.beyond += 1,
        Some(UnwindError::Register { .. }) => steps.refused += 1,
        Some(UnwindError::NoInformation { .. }) => steps.without += 1,
        _ => {
            steps.different += 1;
            let (frame, source) = frames[0];
            println!("  different at {}", walker.describe(frame, source));
        }
    }
}

/// Prints the results of single steps. Returns 0 if nothing differed.
#[unsafe(no_mangle)]
pub extern "C" fn walk_steps() -> c_int {
    let mut guard = WALKER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(walker) = guard.as_mut() else { return 2 };
    let Steps { same, beyond, refused, without, different, .. } = walker.steps;
    println!(
        "single steps: {same} as by .eh_frame, {beyond} where that says nothing, {refused} behind a register that SFrame \
         does not follow, {without} without rows, {different} different"
    );
    c_int::from(different > 0)
}
