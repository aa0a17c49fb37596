//! Code that a running process made and says nothing of: how it is left, by its instructions.
//!
//! Most compilers keep a frame pointer in the code that they make, or describe it. Some do neither. Python
//! 3.12 and 3.13 (`-X perf`) call each function of a script through a small piece of code of its own, which
//! only moves the stack pointer, and compiled regular expressions use the frame pointer for other things. A
//! walk by the frame pointer would skip a caller there. So the code behind an address is read in the memory
//! of the process, as far as a function is likely to end, and the frame is followed back from where it
//! returns ([`crate::code`]).
//!
//! The code may have changed since the sample. It is read again after a second, as long as the process is
//! there, and followed again if it has changed; and whoever steps by its rules must see that they lead to
//! code.

use crate::code::functions::{Functions, Kind, Piece};
use crate::code::{Area, Code, LONGEST_CALL, called_before, ends_with_call};
use crate::process_memory::ProcessMemory;
use hashbrown::HashMap;
use sframe_format::{Abi, Frame, Location, RegisterRule, Rules};
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

/// The most bytes of code that are read. What does not return within them is not followed.
const MOST_CODE: usize = 1024;
/// How many of them are looked at first, and how many times more then. Few are enough for most code, and what
/// lies behind a function may be no code.
const FIRST_CODE: usize = 32;
const MORE_CODE: usize = 4;
/// The bytes of a return address on the stack.
const WORD: i64 = 8;
/// What is mapped is a multiple of this.
const PAGE: u64 = 4096;
/// How many addresses are remembered.
const MOST_KNOWN: usize = 1 << 16;
/// After how long the code at an address is read again.
const KEPT: Duration = Duration::from_secs(1);

/// The code that a process made, as far as walks have asked for it.
pub struct MadeCode {
    abi: Abi,
    memory: ProcessMemory,
    /// For an address, and whether it is that of an instruction behind a call.
    known: HashMap<(u64, bool), Known>,
    /// After how long the code at an address is read again.
    kept: Duration,
}

/// What is known of the code at an address.
#[derive(Clone, Copy)]
struct Known {
    /// When it was read.
    read: Instant,
    /// A hash of it. Code that is as it was need not be followed again.
    hash: u64,
    /// Its rules, if it tells any.
    rules: Option<Rules>,
}

impl MadeCode {
    /// That of a process. `None`: its memory may not be read.
    pub fn open(abi: Abi, pid: u32) -> Option<Self> {
        let memory = ProcessMemory::open(pid, abi.endian())?;
        Some(Self { abi, memory, known: HashMap::new(), kept: KEPT })
    }

    /// The rules in front of the instruction at an address, which is said to be behind a call if it
    /// `returns`. `None`: it is not, or its instructions do not tell.
    pub fn rules_at(&mut self, address: u64, returns: bool) -> Option<Rules> {
        let key = (address, returns);
        let known = self.known.get(&key).copied();
        if let Some(known) = known.filter(|known| known.read.elapsed() < self.kept) {
            return known.rules;
        }
        let Some((before, code)) = self.around(address, returns) else { return known?.rules };
        let hash = self.known.hasher().hash_one((&before, &code));
        let rules = match known {
            Some(known) if known.hash == hash => known.rules,
            _ if returns && !ends_with_call(self.abi, &before) => None,
            _ => first_rules(self.abi, address, &code),
        };
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        self.known.insert(key, Known { read: Instant::now(), hash, rules });
        rules
    }

    /// Whether a call in front of an address leads directly to another one. At a function's first
    /// instruction, the return address is where the call has put it.
    pub fn calls(&self, returns_to: u64, function: u64) -> bool {
        let before = self.before(returns_to);
        before.is_some_and(|code| called_before(self.abi, returns_to, &code) == Some(function))
    }

    /// The code in front of an address: as much as a call may have. The page before may not be mapped.
    fn before(&self, address: u64) -> Option<Vec<u8>> {
        let in_page = (address % PAGE) as usize;
        let before = |size| self.memory.bytes(address.checked_sub(size as u64)?, size);
        before(LONGEST_CALL).or_else(|| before(in_page.min(LONGEST_CALL)))
    }

    /// The code in front of an address, if it is said to be behind a call, and the code from there on.
    /// `None`: the memory cannot be read.
    fn around(&self, address: u64, returns: bool) -> Option<(Vec<u8>, Vec<u8>)> {
        let before = if returns { self.before(address)? } else { Vec::new() };
        // The page behind may not be mapped.
        let in_page = (PAGE - address % PAGE) as usize;
        let bytes = |size| self.memory.bytes(address, size);
        Some((before, bytes(MOST_CODE).or_else(|| bytes(in_page))?))
    }
}

/// The rules in front of the first instruction of some code, which is at an address, by as little of it as
/// tells any.
fn first_rules(abi: Abi, address: u64, code: &[u8]) -> Option<Rules> {
    let larger = |size: &usize| (*size < code.len()).then_some(size * MORE_CODE);
    let mut sizes = std::iter::successors(Some(FIRST_CODE), larger);
    sizes.find_map(|size| rules_of(abi, address, code.get(..size).unwrap_or(code)))
}

/// The rules in front of the first instruction of some code, which is at an address.
fn rules_of(abi: Abi, address: u64, code: &[u8]) -> Option<Rules> {
    let area = Area { address, code };
    let piece = Piece { range: address..area.end(), kind: Kind::Part };
    let functions = Functions::default();
    let found = Code { abi, areas: vec![area], functions: &functions }.rows_of(&[piece]);
    let (_, function) = found.into_iter().find(|(start, _)| *start == address)?;
    function.rows.first().filter(|row| row.start == 0).map(|row| row.rules)
}

/// Whether rules lead to another caller than the frame pointer: that has the address of the caller's frame
/// pointer, with the return address behind it. At a function's first instructions any rules do, so where no
/// call `returns`, only a frame tells that does not save it.
pub fn has_no_frame_pointer(abi: Abi, rules: &Rules, returns: bool) -> bool {
    let Rules::Frame(Frame { cfa, ra, fp, .. }) = rules else { return returns };
    let at = |offset: i64| {
        let offset = i32::try_from(offset - cfa.offset).unwrap_or(i32::MAX);
        RegisterRule::Saved(Location::at_cfa(offset))
    };
    let is_frame_pointer =
        cfa.register == abi.frame_pointer() && !cfa.dereference && (*fp, *ra) == (at(0), at(8));
    let has_frame = *fp == RegisterRule::Unchanged && cfa.offset > WORD;
    !is_frame_pointer && (returns || has_frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sframe_format::CfaRule;

    fn left(abi: Abi, code: &[u8]) -> Option<(CfaRule, bool)> {
        let rules = rules_of(abi, 0x7000_0000, code)?;
        let Rules::Frame(frame) = rules else { panic!("{rules:?}") };
        Some((frame.cfa, !has_no_frame_pointer(abi, &rules, true)))
    }

    /// What follows a call.
    #[test]
    fn instructions_up_to_a_return_tell_the_frame() {
        let left = |code: &[u8]| left(Abi::Amd64, code);
        // add $8,%rsp; ret, and the next function.
        let trampoline = [0x48, 0x83, 0xc4, 8, 0xc3, 0x90, 0x90, 0x41, 0x57, 0x48, 0x83, 0xec, 8];
        assert_eq!(left(&trampoline), Some((CfaRule::register(7, 16), false)));
        // leave; ret. And: mov %rbp,%rsp; pop %rbp; ret $16.
        assert_eq!(left(&[0xc9, 0xc3]), Some((CfaRule::register(6, 16), true)));
        assert!(left(&[0x48, 0x89, 0xec, 0x5d, 0xc2, 16, 0]).unwrap().1);
        // test %eax,%eax; jne over a call of another function: pop %rbx; pop %rbp; ret.
        let branch = [0x85, 0xc0, 0x75, 5, 0xe8, 0, 1, 0, 0, 0x5b, 0x5d, 0xc3];
        assert_eq!(left(&branch), Some((CfaRule::register(7, 24), false)));
        // jmp *%rax; and code that is no code, or no end of any.
        for none in [&[0xff, 0xe0][..], &[0x06, 0xc3], &[0x90, 0x90], &[]] {
            assert_eq!(left(none), None, "{none:x?}");
        }
    }

    #[test]
    fn a_function_that_begins_may_keep_a_frame_pointer() {
        let is_without = |code: &[u8]| {
            let rules = rules_of(Abi::Amd64, 0x7000_0000, code).unwrap();
            has_no_frame_pointer(Abi::Amd64, &rules, false)
        };
        // push %rbp; mov %rsp,%rbp; nop; leave; ret: from its first, second and third instruction on.
        let keeps = [0x55, 0x48, 0x89, 0xe5, 0x90, 0xc9, 0xc3];
        assert!(!is_without(&keeps) && !is_without(&keeps[1..]) && !is_without(&keeps[4..]));
        // nop; add $24,%rsp; ret.
        assert!(is_without(&[0x90, 0x48, 0x83, 0xc4, 24, 0xc3]) && !is_without(&[0x90, 0xc3]));
    }

    #[test]
    fn code_of_other_machines_is_read() {
        // ldp x29, x30, [sp], #16; ret.
        let code = [0xa8c1_7bfdu32, 0xd65f_03c0].map(u32::to_le_bytes);
        assert!(left(Abi::AArch64Little, code.as_flattened()).is_some());
    }

    #[test]
    fn only_what_is_mapped_and_behind_a_call_is_read() {
        // call *%rcx; add $8,%rsp; ret.
        let mut code = [0xccu8; 64];
        code[7..14].copy_from_slice(&[0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3]);
        // Nobody but the system reads it.
        let start = std::hint::black_box(&code).as_ptr() as u64;
        let mut made = MadeCode::open(Abi::Amd64, std::process::id()).unwrap();
        for _ in 0..2 {
            assert!(made.rules_at(start + 9, true).is_some());
            assert_eq!(made.rules_at(start + 13, true), None);
            assert!(made.rules_at(start + 13, false).is_some());
            assert_eq!(made.rules_at(8, true), None);
            assert_eq!(made.rules_at(u64::MAX, false), None);
        }
        // call +16.
        code[20..25].copy_from_slice(&[0xe8, 16, 0, 0, 0]);
        std::hint::black_box(&code);
        assert!(made.calls(start + 25, start + 41) && !made.calls(start + 25, start + 40));
        assert!(!made.calls(start + 9, start + 9) && !made.calls(8, 8) && !made.calls(0, 0));
    }

    #[test]
    fn code_that_has_changed_is_followed_again() {
        let cfa = |made: &mut MadeCode, at| match made.rules_at(at, true) {
            Some(Rules::Frame(frame)) => Some(frame.cfa),
            _ => None,
        };
        // call *%rcx; add $8,%rsp; ret.
        let mut code = memmap2::MmapMut::map_anon(PAGE as usize).unwrap();
        code[..7].copy_from_slice(&[0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3]);
        let at = code.as_ptr() as u64 + 2;
        let mut made = MadeCode::open(Abi::Amd64, std::process::id()).unwrap();
        made.kept = Duration::ZERO;
        let first = Some(CfaRule::register(7, 16));
        assert_eq!((cfa(&mut made, at), cfa(&mut made, at)), (first, first));
        code[5] = 24;
        assert_eq!(cfa(&mut made, at), Some(CfaRule::register(7, 32)));
        // No call is before it any more.
        code[0] = 0x90;
        assert_eq!(cfa(&mut made, at), None);
    }

    #[test]
    fn code_at_both_ends_of_a_mapping_is_read() {
        let page = PAGE as usize;
        let mut all = memmap2::MmapMut::map_anon(3 * page).unwrap();
        let code = [0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3];
        all[page..page + 7].copy_from_slice(&code);
        all[2 * page - 7..2 * page].copy_from_slice(&code);
        let start = all.as_ptr() as u64 + PAGE;
        for unmapped in [0, 2 * page] {
            // SAFETY: nobody uses these pages any more, for nobody unmaps them again.
            assert_eq!(unsafe { libc::munmap(all.as_mut_ptr().add(unmapped).cast(), page) }, 0);
        }
        std::mem::forget(all);
        let mut made = MadeCode::open(Abi::Amd64, std::process::id()).unwrap();
        assert!(made.rules_at(start + 2, true).is_some());
        assert!(made.rules_at(start + PAGE - 5, true).is_some());
    }
}
