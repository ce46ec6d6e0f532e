//! The version of a kernel, and what kernels print differently by version.

use std::fmt;

use pageblock::mobility::Numbering;

/// A kernel's version and the text that it was read from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelVersion {
    /// The first number.
    pub major: u16,
    /// The second number.
    pub minor: u16,
    /// The third number, 0 if there is none. If a Debian version text names the upstream release, its number is
    /// used: Debian's release name always ends in `.0` on old kernels.
    pub patch: u16,
    /// The full text, `Linux version ...` if the recording has it.
    pub text: String,
}

impl KernelVersion {
    /// Parses a version from the text of `/proc/version`, a release, or a bare number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let release = text.strip_prefix("Linux version ").unwrap_or(text);
        let (major, minor, patch) = numbers(release)?;
        let debian = text.rsplit_once(" Debian ").and_then(|(_, rest)| numbers(rest));
        let patch = match debian {
            Some((a, b, c)) if (a, b) == (major, minor) => c,
            _ => patch,
        };
        Some(Self { major, minor, patch, text: text.to_owned() })
    }

    /// Parses a version from the text of `/proc/version` or of `uname -a`, in which the host's name stands first.
    #[must_use]
    pub fn from_uname(text: &str) -> Option<Self> {
        let of_words = || text.split_ascii_whitespace().find_map(Self::parse);
        let version = Self::parse(text).or_else(of_words)?;
        Some(Self { text: text.trim().to_owned(), ..version })
    }

    /// Parses a version from a folder's name: the first `-` separated part that is `x.y` or `x.y.z`.
    #[must_use]
    pub fn from_folder_name(name: &str) -> Option<Self> {
        name.split(['-', '_'])
            .filter(|part| part.contains('.'))
            .find_map(|part| Self::parse(part.trim_start_matches(['v', 'V'])))
    }

    /// Reports whether this is that version or a later one.
    #[must_use]
    pub fn at_least(&self, major: u16, minor: u16) -> bool {
        self.row() >= (major, minor)
    }

    /// Returns the first two numbers, which name rows of presets.
    #[must_use]
    pub const fn row(&self) -> (u16, u16) {
        (self.major, self.minor)
    }

    /// Returns the word of the text that is the release, such as `6.12.94+deb13-amd64`.
    #[must_use]
    pub fn release(&self) -> &str {
        let is_release = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
        self.text.split_ascii_whitespace().find(is_release).unwrap_or(&self.text)
    }

    /// Tells whether compaction reports a free (`mm_page_free`) of target pages that it keeps.
    #[must_use]
    pub fn reports_kept_targets(&self) -> bool {
        self.at_least(6, 10)
    }

    /// Tells whether `__GFP_WAIT` has become two bits.
    #[must_use]
    pub fn splits_gfp_wait(&self) -> bool {
        self.at_least(4, 4)
    }

    /// Tells whether `GFP_ATOMIC` has a bit of its own in it, `__GFP_ATOMIC`.
    #[must_use]
    pub fn has_gfp_atomic(&self) -> bool {
        !self.at_least(6, 3)
    }

    /// Returns its numbering of migratetypes.
    #[must_use]
    pub fn numbering(&self) -> Numbering {
        if self.at_least(4, 4) { Numbering::Modern } else { Numbering::Legacy }
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Parses `x.y` or `x.y.z` at the start of a text.
fn numbers(text: &str) -> Option<(u16, u16, u16)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let mut parts = text[..end].split('.').filter(|p| !p.is_empty()).map(str::parse::<u16>);
    let major = parts.next()?.ok()?;
    let minor = parts.next()?.ok()?;
    let patch = parts.next().and_then(Result::ok).unwrap_or(0);
    (text.starts_with(|c: char| c.is_ascii_digit())).then_some((major, minor, patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<&str>) {
        assert_eq!(KernelVersion::parse(text).map(|v| v.to_string()).as_deref(), expect);
    }

    #[test]
    fn versions_are_read_from_texts() {
        check("Linux version 6.18.44 (vendor build) #1 SMP PREEMPT_DYNAMIC\n", Some("6.18.44"));
        check(
            "Linux version 6.1.0-56-cloud-amd64 (debian@x) (gcc-12 (Debian 12.2.0-14) 12.2.0) \
             #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-16)",
            Some("6.1.192"),
        );
        check("6.12.94+deb13-cloud-amd64", Some("6.12.94"));
        check("7.2", Some("7.2.0"));
        check("6", None);
        check("kernel", None);
    }

    #[test]
    fn the_text_of_uname_gives_the_version_again() {
        let uname = "Linux host 6.18.44-vendor #1 SMP x86_64";
        let version = KernelVersion::from_uname(uname).unwrap();
        assert_eq!((version.major, version.minor, version.patch), (6, 18, 44));
        assert_eq!(version.release(), "6.18.44-vendor");
        assert_eq!(KernelVersion::from_uname(&version.text), Some(version));
        assert_eq!(KernelVersion::from_uname("Linux host"), None);
    }

    #[test]
    fn a_folder_name_can_carry_the_version() {
        let version = KernelVersion::from_folder_name("qemu-6.12-osc640-s31").unwrap();
        assert_eq!((version.major, version.minor), (6, 12));
        assert_eq!(KernelVersion::from_folder_name("my-recording-3"), None);
        assert_eq!(KernelVersion::parse("4.3").unwrap().numbering(), Numbering::Legacy);
    }
}
