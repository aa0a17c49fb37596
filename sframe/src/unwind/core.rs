//! The files that the process of a core file had mapped, and the places of their code.

use crate::args::{PlacedFile, Unwind};
use crate::open::Problem;
use object::elf::ELFMAG;
use stacks::bytes::Bytes;
use stacks::core_file::{Code, CoreFile, MappedFile};
use stacks::files::FileId;
use stacks::session::{Session, Settings};
use stacks::snapshot::Snapshot;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Reads a core file, and maps the files that its process had mapped.
///
/// # Errors
/// It is not a core file, or an argument names a file that has no place in it.
pub fn read(path: &Path, arguments: &Unwind, settings: Settings) -> Result<(Snapshot, Session), Problem> {
    let name = path.display().to_string();
    let bytes = Bytes::open(path).map_err(|error| Problem::new(&name, format!("cannot read: {error}")))?;
    let core = CoreFile::read(&bytes).map_err(|message| Problem::new(&name, message))?;
    let mut session = Session::new(core.snapshot.abi, settings);
    for file in &core.files {
        if !arguments.modules.iter().any(|module| is_named(file, &module.path)) {
            map_file(&core, file, arguments.sysroot.as_deref(), &mut session);
        }
    }
    for module in &arguments.modules {
        map_stand_in(&core, module, &mut session)?;
    }
    core.map_vdso(&mut session);
    Ok((core.snapshot, session))
}

/// Whether the name of a mapped file is the last part of a path.
fn is_named(file: &MappedFile, path: &Path) -> bool {
    path.file_name() == file.path.file_name()
}

/// Maps a file that lies where the process had it, below the sysroot.
fn map_file(core: &CoreFile, file: &MappedFile, sysroot: Option<&Path>, session: &mut Session) {
    let place = match sysroot {
        Some(root) => root.join(file.path.strip_prefix("/").unwrap_or(&file.path)),
        None => file.path.clone(),
    };
    // A process may map code from a file that is not a program: one made at run time, or one of another
    // system.
    if is_data(&place) {
        return;
    }
    for code in core.code(file) {
        let id = session.files_mut().open(file.path.as_os_str().as_bytes(), code.build_id.as_deref(), None);
        map_code(core, id, &code, session);
    }
}

/// Maps a file that replaces one of the process's files.
fn map_stand_in(core: &CoreFile, module: &PlacedFile, session: &mut Session) -> Result<(), Problem> {
    let name = module.path.display().to_string();
    if let Some(bias) = module.bias {
        let id = session.files_mut().open_here(&module.path, None);
        session.map_whole(core.snapshot.pid, id, |_| Some(bias));
        return Ok(());
    }
    let Some(file) = core.files.iter().find(|file| is_named(file, &module.path)) else {
        return Err(Problem::new(&name, "the core file maps no file of that name; say FILE@BIAS"));
    };
    let code = core.code(file);
    let Some(first) = code.first() else {
        return Err(Problem::new(&name, "the process only read the file of that name; say FILE@BIAS"));
    };
    let id = session.files_mut().open_here(&module.path, first.build_id.as_deref());
    code.iter().for_each(|code| map_code(core, id, code, session));
    Ok(())
}

/// Maps a part of a file. A file that cannot be used still has a name; its addresses are then its offsets.
fn map_code(core: &CoreFile, id: FileId, code: &Code, session: &mut Session) {
    let (start, offset) = (code.addresses.start, code.offset);
    let image = session.files().get(id).and_then(|file| file.image().ok());
    let bias = image.and_then(|image| image.bias(offset, start)).unwrap_or(start.wrapping_sub(offset));
    session.map(core.snapshot.pid, code.addresses.clone(), id, bias);
}

/// Whether a mapped file exists and is not an ELF file. A core file may name a pipe, which this does not
/// read.
fn is_data(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 4];
    let Ok(metadata) = std::fs::metadata(path) else { return false };
    if !metadata.is_file() {
        return true;
    }
    let Ok(mut file) = std::fs::File::open(path) else { return false };
    file.read_exact(&mut magic).is_err() || magic != ELFMAG
}
