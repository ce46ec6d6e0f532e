//! Policies as users name them.

use std::path::Path;

use pageblock::policy::Policy;
use pageblock_kernel::{Named, file, own};
use pageblock_recording::Recording;
use pageblock_replay::machine::recorded_preset;
use pageblock_replay::settings::Settings;
use pageblock_report::text::in_line;

use crate::error::{Place, Result, bail};
use crate::text::read_text;

/// A policy as the user named it.
#[derive(Clone, Debug)]
pub struct NamedPolicy {
    /// The argument; for a file its name without folder and extension.
    pub name: String,
    /// The allocator's part.
    pub policy: Policy,
    /// The whole kernel.
    pub kernel: Named,
}

impl NamedPolicy {
    /// Reads a policy argument: `NAME,switch=value,...`, or the path of a policy file.
    ///
    /// # Errors
    /// If there is no such policy, or the file is wrong.
    pub fn parse(argument: &str) -> Result<Self> {
        // Switches may be named by the paths of their files.
        let name = argument.split_once(',').map_or(argument, |(name, _)| name);
        if argument.ends_with(".toml") || name.contains('/') {
            return Self::read(Path::new(argument));
        }
        Ok(Self::of(Named::parse(argument)?))
    }

    fn read(path: &Path) -> Result<Self> {
        let text = read_text(path, "a policy file", POLICY_BYTES)?;
        let name = in_line(&path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy());
        Ok(Self::of(file::parse(&text, &name).at(|| path.display())?))
    }

    /// Makes the kernel of a recording, with the machine's settings.
    #[must_use]
    pub fn recorded(recording: &Recording) -> Self {
        Self::of(Named::of_preset(recorded_preset(recording))).on(&Settings::of(recording))
    }

    /// Sets the kernel up as a recorded machine is; what the user set stays.
    #[must_use]
    pub fn on(mut self, settings: &Settings) -> Self {
        let base = self.kernel.base;
        self.kernel.kernel = self.kernel.resolve(|kernel| settings.apply(base, kernel));
        self.policy = self.kernel.kernel.allocator;
        self
    }

    /// Refuses a policy of one's own where a recording is replayed or switches are attributed.
    ///
    /// # Errors
    /// If it names one.
    pub fn without_own(&self, what: &str) -> Result<()> {
        match self.kernel.own {
            Some(own) => {
                bail!("{what} takes no {}={}: it decides in simulations only", own::KEY, own.name)
            }
            None => Ok(()),
        }
    }

    /// Makes a policy of a kernel.
    #[must_use]
    pub fn of(kernel: Named) -> Self {
        Self { name: kernel.label.clone(), policy: kernel.kernel.allocator, kernel }
    }
}

/// What `policy show --toml` writes, each value of each switch with its comment, takes an eighth of this.
const POLICY_BYTES: u64 = 256 << 10;

/// Checks that no policy is given twice.
///
/// # Errors
/// Names the one that is.
pub fn given_once<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<()> {
    let names: Vec<&str> = names.into_iter().collect();
    if let Some(again) = (1..names.len()).find(|&at| names[..at].contains(&names[at])) {
        bail!("--policy '{}' is given twice", Named::brief(names[again]));
    }
    Ok(())
}
