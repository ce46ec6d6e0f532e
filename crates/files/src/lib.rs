//! Writes the files that a user names: whole or not at all.
//!
//! A file is written under a random name, made with `O_EXCL` in the folder of its target, and renamed when it is whole
//! ([`NewFile`]; a folder: [`NewFolder`]). What exists keeps its mode, and is replaced only if it is a regular file. Pipes and
//! character devices are written directly, and never removed or replaced. A symbolic link stays a link: its target is written,
//! unless it is another user's link in a shared folder such as `/tmp`. What a file changes in place, a journal or a ring, is
//! opened by [`in_place`].
//!
//! Only what this run made is ever removed: when an error ends the writing, or by [`remove_unfinished`] when a signal ends the
//! program.
#![forbid(unsafe_code)]

mod folder;
mod made;
mod place;
mod target;
mod whole;

pub use folder::{NewFolder, ScratchFolder, new_folder, part, part_folder, rename_new};
pub use made::{remove_abandoned, remove_unfinished};
pub use place::in_place;
pub use whole::{NewFile, can_write, write};

/// Who may read a new file. A file that is replaced keeps its mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Whom the process's umask allows.
    Shared,
    /// Everybody, whatever the umask is (0644): another user's program reads it.
    Everyone,
    /// Its owner alone (0600, folders 0700): it holds what only root may read, or whole recordings.
    Private,
}

impl Access {
    const fn file_mode(self) -> u32 {
        match self {
            Self::Shared => 0o666,
            Self::Everyone => 0o644,
            Self::Private => 0o600,
        }
    }

    const fn folder_mode(self) -> u32 {
        match self {
            Self::Shared | Self::Everyone => 0o777,
            Self::Private => 0o700,
        }
    }
}

#[cfg(test)]
mod tests;
