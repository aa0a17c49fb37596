//! The link that a fuzzer's bytes describe.

use crate::damage::Damage;
use crate::file::File;
use crate::more::{self, now_and_then};
use crate::object::{self, Described};
use crate::{archives, options, script};
use arbitrary::{Result, Unstructured};
use ld_compare::machine::Machine;

/// The most files of a link.
const FILES: usize = 4;
/// The most places of damage.
const DAMAGE: usize = 6;
/// The most places of damage in the library, and the length that the library is assumed to have.
const LIBRARY_DAMAGE: usize = 3;
const LIBRARY: usize = 1 << 13;

/// A link.
pub struct Link {
    pub machine: Machine,
    pub files: Vec<File>,
    /// Whether a shared library is made from the first file, before the link, which is linked against it.
    pub library: bool,
    /// Damage to that library, after it is made.
    pub library_damage: Vec<Damage>,
    /// The arguments in order, including inputs.
    pub arguments: Vec<String>,
    /// Whether valid files were damaged.
    pub damaged: bool,
}

impl Link {
    /// Reads a description: the link, then everything that was added to descriptions later. In this order,
    /// older descriptions keep their meaning.
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
            library_damage: Vec::new(),
            arguments: options::chosen(from)?,
            damaged: false,
        };
        let mut objects = Vec::new();
        for number in 0..from.int_in_range(1..=FILES)? {
            let object = object::described(from, machine)?;
            let name = format!("{number}.o");
            link.add(from, File { name, bytes: object.bytes() })?;
            objects.push(object);
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
        let damage = if from.ratio(1, 2)? { link.damage(from)? } else { Vec::new() };
        link.more(from, objects)?;
        for (file, damage) in damage {
            damage.apply(&mut link.files[file].bytes);
        }
        Ok(link)
    }

    /// The bytes of its objects, including those in archives.
    pub fn objects(&self) -> Vec<Vec<u8>> {
        let of = |file: &File| {
            if file.name.ends_with(".a") {
                return archives::members(&file.bytes);
            }
            if file.name.ends_with(".o") { vec![file.bytes.clone()] } else { Vec::new() }
        };
        self.files.iter().flat_map(of).collect()
    }

    /// The commands of the link. The command for the library comes first, unless that library is damaged
    /// afterwards.
    pub fn command_lines(&self) -> Vec<String> {
        let line = |arguments: &[String]| {
            let quoted = arguments.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
            format!("sframe-ld -m {} {quoted}", self.machine.emulation())
        };
        let library = self.library_arguments().filter(|_| self.library_damage.is_empty());
        let library = library.map(|words| line(&words) + " -o library.so");
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
                let bytes = archives::plain(&[(file.name, file.bytes)]);
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

    /// The damage, each with its file.
    fn damage(&mut self, from: &mut Unstructured<'_>) -> Result<Vec<(usize, Damage)>> {
        self.damaged = true;
        let mut lengths: Vec<usize> = self.files.iter().map(|file| file.bytes.len()).collect();
        let mut all = Vec::new();
        for _ in 0..from.int_in_range(1..=DAMAGE)? {
            let file = from.choose_index(lengths.len())?;
            let damage = Damage::described(from, lengths[file])?;
            lengths[file] = damage.length_after(lengths[file]);
            all.push((file, damage));
        }
        Ok(all)
    }

    /// Changes objects, adds an archive, and damages the library.
    fn more(&mut self, from: &mut Unstructured<'_>, objects: Vec<Described>) -> Result<()> {
        let machine = self.machine;
        for (file, object) in self.files.iter_mut().zip(objects) {
            let Described::Made(mut object) = object else { continue };
            let Some(bytes) = more::changed(from, machine, &mut object)? else { continue };
            file.bytes = if let Some(name) = file.name.strip_suffix(".a") {
                archives::plain(&[(format!("{name}.o"), bytes)])
            } else {
                bytes
            };
        }
        if now_and_then(from, 3)? {
            let added = archives::described(from, machine, &self.files)?;
            self.arguments.extend(added.first().map(|archive| archive.name.clone()));
            self.files.extend(added);
        }
        if self.library && now_and_then(from, 3)? {
            self.damaged = true;
            for _ in 0..from.int_in_range(1..=LIBRARY_DAMAGE)? {
                self.library_damage.push(Damage::described(from, LIBRARY)?);
            }
        }
        Ok(())
    }
}
