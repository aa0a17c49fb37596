//! Modules: framehop's own, and the bytes from which rows are made.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, Range};
use inner::ModuleSectionInfo;

/// A section: its bytes, and the address of the first byte in the file.
type Section = (Vec<u8>, u64);

/// A loaded file.
pub struct Module<D> {
    pub(crate) inner: inner::Module<D>,
    /// The number to add to the file's own addresses.
    pub(crate) bias: u64,
    pub(crate) frames: Arc<Frames>,
}

/// The sections from which rows are made.
#[derive(Default)]
pub(crate) struct Frames {
    pub sframe: Option<Section>,
    pub eh_frame: Option<Section>,
}

impl<D> Clone for Module<D> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), bias: self.bias, frames: Arc::clone(&self.frames) }
    }
}

impl<D: Deref<Target = [u8]>> Module<D> {
    /// A file that is loaded at the addresses `avma_range`; its own base address is at `base_avma`.
    pub fn new(
        name: String,
        avma_range: Range<u64>,
        base_avma: u64,
        mut section_info: impl ModuleSectionInfo<D>,
    ) -> Self {
        let bias = base_avma.wrapping_sub(section_info.base_svma());
        let sframe =
            section(section_info.section_svma_range(b".sframe"), section_info.section_data(b".sframe"));
        let mut noting = Noting { info: section_info, data: None, range: None };
        let inner = inner::Module::new(name, avma_range, base_avma, &mut noting);
        // Both may be necessary, because SFrame need not describe all functions.
        let eh_frame = section(noting.range, noting.data);
        Self { inner, bias, frames: Arc::new(Frames { sframe, eh_frame }) }
    }

    /// The addresses that it is loaded at.
    pub fn avma_range(&self) -> Range<u64> {
        self.inner.avma_range()
    }

    /// The address that its own base address is loaded at.
    pub fn base_avma(&self) -> u64 {
        self.inner.base_avma()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.inner.name()
    }
}

fn section<D: Deref<Target = [u8]>>(range: Option<Range<u64>>, data: Option<D>) -> Option<Section> {
    Some((data?.to_vec(), range?.start))
}

/// Passes requests on to the program and keeps a copy of `.eh_frame`, because each section may be asked for
/// only once.
struct Noting<I> {
    info: I,
    data: Option<Vec<u8>>,
    range: Option<Range<u64>>,
}

impl<D: Deref<Target = [u8]>, I: ModuleSectionInfo<D>> ModuleSectionInfo<D> for &mut Noting<I> {
    fn base_svma(&self) -> u64 {
        self.info.base_svma()
    }

    fn section_svma_range(&mut self, name: &[u8]) -> Option<Range<u64>> {
        let range = self.info.section_svma_range(name);
        if name == b".eh_frame" {
            self.range = range.clone();
        }
        range
    }

    fn section_data(&mut self, name: &[u8]) -> Option<D> {
        let data = self.info.section_data(name);
        if name == b".eh_frame" {
            self.data = data.as_ref().map(|data| data.to_vec());
        }
        data
    }

    fn segment_svma_range(&mut self, name: &[u8]) -> Option<Range<u64>> {
        self.info.segment_svma_range(name)
    }

    fn segment_data(&mut self, name: &[u8]) -> Option<D> {
        self.info.segment_data(name)
    }
}
