//! Opens the events of a request: those of threads, of processors, or of a control group.

use super::events::{Events, Scope};
use super::members::Members;
use super::refusal::Refusal;
use super::request::{Clock, Request, Target};
use super::target::Started;
use sframe_format::Abi;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// Opens the events, and says whose samples count among theirs.
pub fn open(
    abi: Abi,
    request: &Request,
    monotonic: bool,
    started: &Started,
) -> Result<(Events, Members), Refusal> {
    let how = (monotonic, started.waits());
    let open = |scope: &Scope<'_>| Events::open(abi, request, how, scope);
    let machine = || open(&Scope::Processors);
    match &request.target {
        Target::Machine => return Ok((machine().map_err(|refused| refused.why)?, Members::All)),
        Target::Group(folder) => {
            let opened = File::open(folder).map_err(|error| no_group(folder, &error))?;
            let events = open(&Scope::Group(opened.as_fd())).map_err(|refused| {
                let error = io::Error::from_raw_os_error(libc::EBADF);
                if refused.no_group { no_group(folder, &error) } else { refused.why }
            })?;
            return Ok((events, Members::All));
        }
        Target::Command(_) | Target::Processes(_) => {}
    }
    let members = || started.members();
    // Where waits are sampled, other programs would cost too much.
    let by_processor = match request.clock {
        Clock::Auto => started.waits() && !request.off_cpu,
        Clock::Thread => false,
        Clock::Processor => true,
    };
    if by_processor {
        match machine() {
            Ok(events) => return Ok((events, members())),
            Err(refused) if request.clock == Clock::Processor => return Err(refused.why),
            Err(_) => {}
        }
    }
    match open(&Scope::Threads(&|| started.threads())) {
        Ok(events) => Ok((events, Members::All)),
        Err(refused) if refused.too_many && request.clock == Clock::Auto => match machine() {
            Ok(events) => Ok((events, members())),
            Err(_) => Err(refused.why),
        },
        Err(refused) => Err(refused.why),
    }
}

fn no_group(folder: &Path, error: &io::Error) -> Refusal {
    let message = format!(
        "{} is not a control group whose programs can be sampled: {error}; expected a folder below /sys/fs/cgroup",
        folder.display()
    );
    Refusal::new(error, message)
}
