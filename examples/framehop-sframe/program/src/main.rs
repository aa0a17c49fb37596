//! Unwinds a stack with framehop: `program FILE PC SP WORD...`, with all numbers in hexadecimal. The words
//! are those that the stack pointer points to. The file is loaded at its own addresses. For x86-64.

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Module, ModuleSectionInfo, Unwinder};
use object::{Object, ObjectSection};
use std::ops::Range;

struct Sections<'data>(object::File<'data>);

impl ModuleSectionInfo<Vec<u8>> for Sections<'_> {
    fn base_svma(&self) -> u64 {
        0
    }

    fn section_svma_range(&mut self, name: &[u8]) -> Option<Range<u64>> {
        let section = self.0.section_by_name_bytes(name)?;
        Some(section.address()..section.address() + section.size())
    }

    fn section_data(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        Some(self.0.section_by_name_bytes(name)?.data().ok()?.to_vec())
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("a file");
    let numbers: Vec<u64> = arguments.map(|text| u64::from_str_radix(&text, 16).expect("a number")).collect();
    let [pc, sp, stack @ ..] = &*numbers else { panic!("program counter and stack pointer") };
    let bytes = std::fs::read(path).expect("the file");
    let file = object::File::parse(&*bytes).expect("an object file");
    let mut unwinder = UnwinderX86_64::<Vec<u8>>::new();
    unwinder.add_module(Module::new("file".into(), 0..1 << 40, 0, Sections(file)));
    let mut cache = CacheX86_64::new();
    let mut read = |address: u64| {
        let place = usize::try_from(address.wrapping_sub(*sp) / 8).map_err(|_| ())?;
        stack.get(place).copied().ok_or(())
    };
    let mut frames = unwinder.iter_frames(*pc, UnwindRegsX86_64::new(*pc, *sp, 0), &mut cache, &mut read);
    loop {
        match frames.next() {
            Ok(Some(frame)) => println!("{:x}", frame.address()),
            Ok(None) => return println!("root"),
            Err(error) => return println!("{error}"),
        }
    }
}
