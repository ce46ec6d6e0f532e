//! The start of one guest: the files that are made for it, and QEMU's command.

use std::collections::BTreeSet;
use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

use pageblock_files::{Access, NewFile};

use super::{Event, Plan};
use crate::boot::{self, Files};
use crate::error::Error;
use crate::hardware::Hardware;
use crate::initramfs;
use crate::job::Job;
use crate::kernel::Kernel;
use crate::message::Message;
use crate::modules::Module;
use crate::program::HostFile;
use crate::qemu::{Accelerator, Guest, Pace};

/// The disk for a recording, in MiB; it is a hole until it is written.
const RECORDING_MIB: u64 = 16 << 10;

/// A guest about to be started.
pub(super) struct Start<'s> {
    pub(super) plan: &'s Plan,
    pub(super) kernel: &'s Kernel,
    pub(super) folder: &'s Path,
    pub(super) label: &'s str,
    pub(super) hardware: Hardware,
}

/// The files that a guest writes.
pub(super) struct Written {
    console: PathBuf,
    report: PathBuf,
}

impl Written {
    pub(super) fn as_files(&self) -> Files<'_> {
        Files { console: &self.console, report: &self.report }
    }
}

impl Start<'_> {
    pub(super) fn files(&self) -> Written {
        Written { console: self.folder.join("console"), report: self.folder.join("report") }
    }

    /// Runs the guest and removes what was made for it alone.
    pub(super) fn run(
        &self,
        job: &Job,
        programs: &[HostFile],
        modules: &[Module],
        data_mib: u64,
        halted: &dyn Fn() -> bool,
        look: &(dyn Fn(Event<'_>) + Sync),
    ) -> Result<Vec<Message>, Error> {
        let mut made = BTreeSet::new();
        let disks = crate::disks::make(
            self.folder,
            &job.disks,
            data_mib,
            self.hardware.swap_mib,
            RECORDING_MIB,
            &mut made,
        );
        let result = disks.and_then(|disks| {
            let accelerator = self.plan.accelerator;
            let command = self.command(accelerator, job, programs, modules, disks, &mut made)?;
            let shown = format!("{command:?}\n");
            let path = self.folder.join("command");
            let written = pageblock_files::write(&path, shown.as_bytes(), Access::Shared);
            written.map_err(Error::at(&path))?;
            let mut look = |message: Option<&Message>| {
                message.into_iter().for_each(|message| look(Event::Message(self.label, message)));
                !halted()
            };
            boot::run(self.label, command, self.files().as_files(), self.plan.limits, &mut look)
        });
        let failed = |message: &Message| match message {
            Message::Failed { why } => Some(why.clone()),
            _ => None,
        };
        let result = result.and_then(|messages| match messages.iter().find_map(failed) {
            Some(why) => Err(Error::Guest {
                label: self.label.to_owned(),
                why,
                console: self.files().console,
                tail: String::new(),
            }),
            _ => Ok(messages),
        });
        let result = match result {
            Ok(messages) if job.record => {
                crate::disks::take_recording(self.folder).map(|()| messages)
            }
            result => result,
        };
        for file in made {
            // What is left behind is found and replaced by the next run.
            let _ = fs::remove_file(file);
        }
        result
    }

    /// Writes the kernel and the first file system, noted in `made`, and returns the command of QEMU.
    pub(super) fn command(
        &self,
        accelerator: Accelerator,
        job: &Job,
        programs: &[HostFile],
        modules: &[Module],
        disks: Vec<PathBuf>,
        made: &mut BTreeSet<PathBuf>,
    ) -> Result<Command, Error> {
        let (image, archive) = (self.folder.join("kernel"), self.folder.join("initramfs"));
        let written = pageblock_files::write(&image, &self.kernel.image, Access::Shared);
        written.map_err(Error::at(&image))?;
        made.insert(image.clone());
        let failed = Error::at(&archive);
        let written = NewFile::create(&archive, Access::Shared).and_then(|(file, new)| {
            initramfs::write(BufWriter::new(&file), programs, modules, job)?;
            new.finish(&file)
        });
        written.map_err(failed)?;
        made.insert(archive.clone());
        let Written { console, report } = self.files();
        let hardware = self.hardware.clone();
        let pace = Pace::of(&self.plan.machine.disk);
        let guest = Guest { image, initramfs: archive, hardware, disks, pace, console, report };
        Ok(self.plan.qemu.command(accelerator, &guest))
    }
}
