//! The debug information that was split off from a file, and what it says of frames.

use crate::build_id::build_id_path;
use crate::bytes::Bytes;
use crate::image::Image;
use object::{Object, ObjectSection};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The largest size of an expanded section, as a multiple of its compressed size. zlib shrinks nothing
/// further.
const MAX_EXPANSION: u64 = 1032;

/// The file with the debug information of another file. It is looked for when it is needed.
pub(crate) struct DebugFile {
    path: PathBuf,
    image: Option<Arc<Image>>,
    bytes: OnceLock<Option<Bytes>>,
    frames: OnceLock<Option<Bytes>>,
}

impl DebugFile {
    /// The debug information of the file at a path.
    pub fn new(path: &str, image: Option<&Arc<Image>>) -> Self {
        let (path, image) = (PathBuf::from(path), image.map(Arc::clone));
        Self { path, image, bytes: OnceLock::new(), frames: OnceLock::new() }
    }

    /// The file, found by build-id or by the name in `.gnu_debuglink`.
    pub fn bytes(&self) -> Option<&Bytes> {
        self.bytes.get_or_init(|| self.by_build_id().or_else(|| self.by_link())).as_ref()
    }

    /// The section `.debug_frame` of the file itself, or else of the one with its debug information.
    pub fn frames(&self) -> Option<&Bytes> {
        let read = || {
            let own = self.image.as_deref().and_then(|image| frames_in(image.bytes()));
            own.or_else(|| frames_in(self.bytes()?))
        };
        self.frames.get_or_init(read).as_ref()
    }

    fn by_build_id(&self) -> Option<Bytes> {
        let id = self.image.as_ref()?.build_id()?;
        let path = build_id_path(Path::new("/usr/lib/debug/.build-id"), id)?.with_extension("debug");
        Bytes::open(&path).ok()
    }

    fn by_link(&self) -> Option<Bytes> {
        let image = self.image.as_ref()?;
        let file = object::File::parse(&**image.bytes()).ok()?;
        let (name, checksum) = file.gnu_debuglink().ok()??;
        let name = std::str::from_utf8(name).ok().filter(|name| !name.contains('/'))?;
        let folder = self.path.parent()?;
        let global = Path::new("/usr/lib/debug").join(folder.strip_prefix("/").unwrap_or(folder));
        let places = [folder.join(name), folder.join(".debug").join(name), global.join(name)];
        places.iter().filter_map(|place| Bytes::open(place).ok()).find(|bytes| {
            let mut crc = flate2::Crc::new();
            crc.update(bytes);
            crc.sum() == checksum
        })
    }
}

/// The section `.debug_frame` of a file. It may be compressed.
fn frames_in(bytes: &Bytes) -> Option<Bytes> {
    let file = object::File::parse(&**bytes).ok()?;
    let section = file.section_by_name(".debug_frame").or_else(|| file.section_by_name(".zdebug_frame"))?;
    let compressed = section.compressed_data().ok()?;
    if compressed.format == object::CompressionFormat::None {
        return bytes.part(compressed.data).filter(|part| !part.is_empty());
    }
    let most = (compressed.data.len() as u64).saturating_mul(MAX_EXPANSION);
    let expanded = (compressed.uncompressed_size <= most).then(|| compressed.decompress().ok())??;
    Some(expanded.into_owned().into())
}
