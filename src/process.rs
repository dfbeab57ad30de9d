//! Programs that are run and leave nothing behind: neither when they are no longer wanted nor when this process ends.

use std::io;
use std::process::{Child, Command, Stdio};

/// A program, and whatever it starts: ended when this value is dropped, or when this process is no more.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Child,
    guard: Option<Child>,
}

impl Process {
    /// Starts a program in a process group of its own, so that what it starts can be ended with it.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        let child = command.spawn()?;
        let guard = guard(&child);
        Ok(Self { child, guard })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(guard) = &mut self.guard {
            // With its input closed it ends the group.
            drop(guard.stdin.take());
            let _ = guard.wait();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A member of a program's process group that ends the group when its input is closed: by [`Process`] when it is
/// dropped, or by the system when this process is no more, whatever ended it.
fn guard(program: &Child) -> Option<Child> {
    if !cfg!(unix) {
        return None;
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", "read _; kill -KILL 0"]);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut shell, program.id().cast_signed());
    shell.spawn().ok()
}
