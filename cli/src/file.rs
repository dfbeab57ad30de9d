//! Files that appear whole or not at all.

use crate::io::Failure;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

fn message(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::Message(format!("{}: {why}", path.display()))
}

/// Where links point that lead to nothing yet.
fn follow(name: &Path) -> Result<PathBuf, Failure> {
    let mut path = name.to_path_buf();
    for _ in 0..LINKS {
        let Ok(target) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().map_or_else(|| target.clone(), |folder| folder.join(&target));
    }
    Err(message(name, "leads from link to link"))
}

/// As many as Linux follows.
const LINKS: usize = 40;

/// How it gets there.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// By a new file that takes the old one's place.
    Replaced,
    /// Into a device or a pipe, which cannot be replaced.
    Special,
    /// Into standard output, wherever that goes: a file behind it is not replaced, for others may be writing to it.
    Stdout,
}

/// Where output goes, found writable before the work begins.
pub(crate) struct Target {
    /// As the user wrote it.
    name: PathBuf,
    /// With links followed.
    path: PathBuf,
    way: Way,
}

impl Target {
    /// Checks that a file can be written there.
    pub(crate) fn new(name: &Path) -> Result<Self, Failure> {
        if name == Path::new("-") {
            return Err(message(name, "is no file's name here; /dev/stdout is standard output"));
        }
        if name == Path::new("/dev/stdout") {
            return Ok(Self { name: name.to_path_buf(), path: name.to_path_buf(), way: Way::Stdout });
        }
        // A link to a pipe leads to no path.
        let special = fs::metadata(name).is_ok_and(|found| !found.is_file() && !found.is_dir());
        let path = if special { name.to_path_buf() } else { fs::canonicalize(name).or_else(|_| follow(name))? };
        let target = Self { name: name.to_path_buf(), path, way: if special { Way::Special } else { Way::Replaced } };
        match fs::metadata(&target.path) {
            Ok(found) if found.is_dir() => return Err(message(name, "is a folder; name a file in it")),
            Ok(found) if found.permissions().readonly() => return Err(message(name, "is read-only")),
            _ => {}
        }
        if target.way == Way::Replaced {
            // A file of somebody else's is not replaced, though its folder would let us.
            if target.path.exists() {
                File::options().write(true).open(&target.path).map_err(|why| target.fail(&why))?;
            }
            // Made and dropped again: a long computation must not end with "no such folder".
            target.temporary().map_err(|why| target.fail(&why))?;
        }
        Ok(target)
    }

    fn fail(&self, why: &io::Error) -> Failure {
        // The temporary file's name says nothing to the user.
        let why = why.to_string();
        message(&self.name, format!("cannot be written: {}", why.split(" at path").next().unwrap_or_default()))
    }

    /// A new file beside the old one, with the old one's permissions or the usual ones.
    fn temporary(&self) -> io::Result<NamedTempFile> {
        let folder = self.path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".gemmulate-");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(folder)?;
        if let Ok(old) = fs::metadata(&self.path) {
            file.as_file().set_permissions(old.permissions())?;
        }
        Ok(file)
    }

    /// Writes the file; whatever fails leaves the old one, if any, as it was.
    pub(crate) fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        let fail = |why| self.fail(&why);
        let all = |out: &mut dyn Write| write(out).and_then(|()| out.flush()).map_err(fail);
        match self.way {
            Way::Stdout => return all(&mut crate::io::output()),
            Way::Special => {
                return all(&mut BufWriter::new(File::options().write(true).open(&self.path).map_err(fail)?));
            }
            Way::Replaced => {}
        }
        let mut file = self.temporary().map_err(fail)?;
        let mut out = BufWriter::with_capacity(1 << 16, file.as_file_mut());
        all(&mut out)?;
        drop(out);
        file.as_file().sync_all().map_err(fail)?;
        file.persist(&self.path).map_err(|e| fail(e.error))?;
        Ok(())
    }
}
