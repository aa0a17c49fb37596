//! The link that a fuzzer's bytes describe.

use crate::{object, options, script};
use arbitrary::{Result, Unstructured};
use ld_compare::machine::Machine;

/// Most files of a link.
const FILES: usize = 4;
/// Most places of damage.
const DAMAGE: usize = 6;
/// Numbers at which arithmetic of offsets and sizes goes wrong.
const EDGES: [u64; 12] =
    [0, 1, 7, 0x7f, 0xff, 0xfff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 40, i64::MAX as u64, u64::MAX];

/// A file of a link.
pub struct File {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// A link.
pub struct Link {
    pub machine: Machine,
    pub files: Vec<File>,
    /// A shared library that is made first of the first file, and linked against.
    pub library: bool,
    /// Arguments, inputs among them, in order.
    pub arguments: Vec<String>,
    /// Whether files were damaged when they had been valid.
    pub damaged: bool,
}

impl Link {
    /// Reads a description.
    ///
    /// # Errors
    /// There are too few bytes for one.
    pub fn described(bytes: &[u8]) -> Result<Link> {
        let from = &mut Unstructured::new(bytes);
        let machine = *from.choose(&Machine::ALL)?;
        let mut link = Link {
            machine,
            files: Vec::new(),
            library: false,
            arguments: options::chosen(from)?,
            damaged: false,
        };
        for number in 0..from.int_in_range(1..=FILES)? {
            let name = format!("{number}.o");
            let bytes = object::described(from, machine)?;
            link.add(from, File { name, bytes })?;
        }
        let is_dynamic =
            !link.arguments.iter().any(|word| ["-static", "-r", "--nmagic", "--omagic"].contains(&&**word));
        if is_dynamic && from.ratio(1, 4)? {
            link.library = true;
            link.arguments.push("library.so".into());
        }
        if from.ratio(1, 3)? {
            link.text(from, "script.t", "-T", script::linker_script)?;
        }
        if from.ratio(1, 4)? {
            link.text(from, "versions", "--version-script", script::version_script)?;
        }
        if from.ratio(1, 2)? {
            link.damage(from)?;
        }
        Ok(link)
    }

    /// The bytes of its objects, those in archives included.
    pub fn objects(&self) -> impl Iterator<Item = &[u8]> {
        let of = |file: &'_ File| {
            let start = if file.name.ends_with(".a") { MEMBER } else { 0 };
            let is_object = [".a", ".o"].iter().any(|end| file.name.ends_with(end));
            is_object.then_some(start)
        };
        self.files.iter().filter_map(move |file| file.bytes.get(of(file)?..))
    }

    /// The commands of the link, that of the library first.
    pub fn command_lines(&self) -> Vec<String> {
        let line = |arguments: &[String]| {
            let quoted = arguments.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
            format!("sframe-ld -m {} {quoted}", self.machine.emulation())
        };
        let library = self.library_arguments().map(|words| line(&words) + " -o library.so");
        library.into_iter().chain([line(&self.arguments) + " -o output"]).collect()
    }

    /// The arguments that make the library, if the link has one.
    pub(crate) fn library_arguments(&self) -> Option<[String; 3]> {
        let first = self.files.first().filter(|_| self.library)?;
        Some(["-shared".into(), "--soname=library.so".into(), first.name.clone()])
    }

    /// Adds an object as it is, between `--start-lib` and `--end-lib`, or as the member of an archive.
    fn add(&mut self, from: &mut Unstructured<'_>, file: File) -> Result<()> {
        match from.int_in_range(0..=5)? {
            0 => self.arguments.extend(["--start-lib".into(), file.name.clone(), "--end-lib".into()]),
            1 => {
                let name = file.name.replace(".o", ".a");
                self.arguments.push(name.clone());
                let bytes = archive(&file);
                self.files.push(File { name, bytes });
                return Ok(());
            }
            _ => self.arguments.push(file.name.clone()),
        }
        self.files.push(file);
        Ok(())
    }

    fn text(
        &mut self,
        from: &mut Unstructured<'_>,
        name: &str,
        option: &str,
        text: fn(&mut Unstructured<'_>) -> Result<String>,
    ) -> Result<()> {
        self.files.push(File { name: name.into(), bytes: text(from)?.into_bytes() });
        self.arguments.extend([option.into(), name.into()]);
        Ok(())
    }

    /// Overwrites numbers in files, near the ends of files more often than elsewhere: headers are there.
    fn damage(&mut self, from: &mut Unstructured<'_>) -> Result<()> {
        self.damaged = true;
        for _ in 0..from.int_in_range(1..=DAMAGE)? {
            let file = from.choose_index(self.files.len())?;
            let bytes = &mut self.files[file].bytes;
            let length = bytes.len();
            let at = match from.int_in_range(0..=3)? {
                0 => from.int_in_range(0..=63)?,
                1 => length.saturating_sub(from.int_in_range(0..=1023)?),
                _ => from.int_in_range(0..=length)?,
            };
            let value = if from.ratio(1, 2)? { *from.choose(&EDGES)? } else { from.arbitrary()? };
            let size = 1 << from.int_in_range(0..=3)?;
            for (byte, new) in bytes.iter_mut().skip(at).zip(&value.to_le_bytes()[..size]) {
                *byte = *new;
            }
            if from.ratio(1, 16)? {
                bytes.truncate(at);
            }
        }
        Ok(())
    }
}

/// Where the first member of an archive begins.
const MEMBER: usize = 68;

/// An archive of one member, without a symbol table.
fn archive(file: &File) -> Vec<u8> {
    let header = format!(
        "{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
        format!("{}/", file.name),
        0,
        0,
        0,
        644,
        file.bytes.len()
    );
    let mut bytes = [b"!<arch>\n", header.as_bytes(), &file.bytes].concat();
    if bytes.len() % 2 == 1 {
        bytes.push(b'\n');
    }
    bytes
}
