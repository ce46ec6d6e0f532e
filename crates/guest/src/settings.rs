//! What users set in a guest: `vm.watermark_boost_factor=0`, or a file of `/sys` with a value.

use crate::error::Error;
use crate::job::Setting;

/// A column of settings as a user wrote it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// The text, empty for the kernel as it is.
    pub label: String,
    /// The files and values.
    pub list: Vec<Setting>,
}

/// The file that turns the multi-generational LRU on.
pub const LRU_GEN: &str = "/sys/kernel/mm/lru_gen/enabled";

/// Returns the settings of a column with the multi-generational LRU on (7) or off (0), unless they say that themselves.
#[must_use]
pub fn with_lru_gen(text: &str, enabled: u8) -> String {
    match text {
        text if text.contains(LRU_GEN) => text.to_owned(),
        "default" => format!("{LRU_GEN}={enabled}"),
        text => format!("{text},{LRU_GEN}={enabled}"),
    }
}

impl Settings {
    /// Reads `default`, or assignments with a comma between them.
    ///
    /// # Errors
    /// [`Error::Setting`] with what is allowed.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text == "default" {
            return Ok(Self::default());
        }
        let list = text.split(',').map(one).collect::<Result<Vec<_>, _>>()?;
        let twice = |at: &usize| list[..*at].iter().any(|other| other.file == list[*at].file);
        if let Some(at) = (1..list.len()).find(twice) {
            return Err(wrong(text, &format!("{} is set twice", list[at].file)));
        }
        Ok(Self { label: text.to_owned(), list })
    }
}

fn wrong(setting: &str, why: &str) -> Error {
    Error::Setting { setting: setting.to_owned(), why: why.to_owned() }
}

fn one(text: &str) -> Result<Setting, Error> {
    const FORM: &str =
        "allowed: KEY=VALUE such as vm.watermark_boost_factor=0, /sys/FILE=VALUE, or default";
    let Some((key, value)) = text.split_once('=') else { return Err(wrong(text, FORM)) };
    let (key, value) = (key.trim(), value.trim());
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/+".contains(c);
    if key.is_empty() || value.is_empty() || !key.chars().all(plain) || key.contains("..") {
        return Err(wrong(text, FORM));
    }
    let file = match key.starts_with('/') {
        true if key.starts_with("/sys/") || key.starts_with("/proc/sys/") => key.to_owned(),
        true => return Err(wrong(text, "only files below /sys and /proc/sys can be set")),
        false => format!("/proc/sys/{}", key.replace('.', "/")),
    };
    Ok(Setting { file, value: value.to_owned(), optional: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_get_the_lru_that_they_do_not_name() {
        assert_eq!(with_lru_gen("default", 7), "/sys/kernel/mm/lru_gen/enabled=7");
        assert_eq!(
            with_lru_gen("vm.swappiness=1", 0),
            "vm.swappiness=1,/sys/kernel/mm/lru_gen/enabled=0"
        );
        let named = "/sys/kernel/mm/lru_gen/enabled=y,vm.swappiness=1";
        assert_eq!(with_lru_gen(named, 0), named);
    }

    #[test]
    fn keys_are_files() {
        let parsed =
            Settings::parse("vm.min_free_kbytes=9000,/sys/kernel/mm/lru_gen/enabled=y").unwrap();
        let files: Vec<_> = parsed.list.iter().map(|setting| setting.file.as_str()).collect();
        assert_eq!(files, ["/proc/sys/vm/min_free_kbytes", "/sys/kernel/mm/lru_gen/enabled"]);
        assert_eq!(Settings::parse("default").unwrap(), Settings::default());
    }

    #[test]
    fn what_cannot_be_set_is_named() {
        let error = |text| Settings::parse(text).unwrap_err().to_string();
        assert_eq!(
            error("vm.swappiness"),
            "--sysctl vm.swappiness: allowed: KEY=VALUE such as vm.watermark_boost_factor=0, /sys/FILE=VALUE, or default"
        );
        assert_eq!(
            error("/etc/passwd=x"),
            "--sysctl /etc/passwd=x: only files below /sys and /proc/sys can be set"
        );
        assert_eq!(error("vm.a=1,vm.a=2"), "--sysctl vm.a=1,vm.a=2: /proc/sys/vm/a is set twice");
        assert!(error("vm/../../x=1").contains("allowed"));
    }
}
