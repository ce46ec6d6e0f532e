//! Policies as TOML: `base = "linux-6.12"`, then a key for each switch that differs from it.
//!
//! ```toml
//! base = "linux-4.20"
//! nofragment = "on"
//! watermark_boost_factor = 0
//! ```

use core::fmt::Write as _;

use pageblock::policy::{Policy, PolicyError, SWITCHES, Switch, Value, Values};
use pageblock::preset::{self, Preset};
use toml::Spanned;
use toml::de::DeValue;

use crate::toml_file::{self, Mistake, line_of};

/// Why a text is no policy file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyFileError {
    /// The text is not TOML.
    #[error("line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// A key or value is wrong; the message lists what exists.
    #[error("line {line}: {message}")]
    Entry {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// No key `base` names the preset to start from.
    #[error(
        "there is no `base`: the name of the policy to start from, such as base = \"linux-6.12\""
    )]
    NoBase,
}

/// A policy read from a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyFile {
    /// The name of the preset that it starts from.
    pub base: &'static str,
    /// The policy, with the file's switches set.
    pub policy: Policy,
}

/// Reads a policy file.
///
/// # Errors
/// [`PolicyFileError`] with the line; unknown names come with the list of those that exist.
pub fn parse(text: &str) -> Result<PolicyFile, PolicyFileError> {
    let table = toml_file::parse(text)
        .map_err(|Mistake { line, message }| PolicyFileError::Syntax { line, message })?;
    let base = table.get_ref().iter().find(|(key, _)| key.get_ref() == "base");
    let base = base.ok_or(PolicyFileError::NoBase)?.1;
    let preset = find_base(base).map_err(|message| PolicyFileError::Entry {
        line: line_of(text, base.span().start),
        message,
    })?;
    let mut policy = preset.policy;
    for (key, value) in table.get_ref().iter().filter(|(key, _)| key.get_ref() != "base") {
        set(&mut policy, key.get_ref(), value.get_ref()).map_err(|message| {
            PolicyFileError::Entry { line: line_of(text, key.span().start), message }
        })?;
    }
    Ok(PolicyFile { base: preset.name, policy })
}

fn find_base(value: &Spanned<DeValue<'_>>) -> Result<&'static Preset, String> {
    let DeValue::String(name) = value.get_ref() else {
        return Err("`base` must be the name of a policy in quotes".to_owned());
    };
    preset::find(name).ok_or_else(|| PolicyError::UnknownPreset(name).to_string())
}

fn set(policy: &mut Policy, key: &str, value: &DeValue<'_>) -> Result<(), String> {
    let switch = Switch::find(key).ok_or_else(|| PolicyError::UnknownSwitch(key).to_string())?;
    let value = match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Boolean(is) => is.to_string(),
        other => other.type_str().to_owned(),
    };
    switch.set(policy, &value).map_err(|error| error.to_string())
}

/// Writes a policy file: the switches that differ from the base as keys, all others as comments.
#[must_use]
pub fn print(base: &Preset, policy: &Policy) -> String {
    let mut text = format!("# {}\nbase = \"{}\"\n", base.summary, base.name);
    for switch in SWITCHES {
        let (value, of_base) = (switch.get(policy), switch.get(&base.policy));
        let off = if value == of_base { "# " } else { "" };
        let allowed = match switch.values {
            Values::Names(names) => names.join(", "),
            Values::Number { min, max } => format!("{min} to {max}"),
        };
        let value = match value {
            Value::Name(name) => format!("\"{name}\""),
            Value::Number(number) => number.to_string(),
        };
        let _ = write!(
            text,
            "\n# {}\n# Values: {allowed}\n{off}{} = {value}\n",
            switch.summary.trim(),
            switch.name
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_error(text: &str, expect: &str) {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expect), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn switches_are_set_over_the_base() {
        let file =
            parse("base = \"linux-4.20\"\nnofragment = \"on\"\nhybrid_threshold = 5\n").unwrap();
        assert_eq!(file.base, "linux-4.20");
        assert_eq!(Ok(file.policy), Policy::parse("linux-4.20,nofragment=on,hybrid_threshold=5"));
    }

    #[test]
    fn mistakes_name_their_line_and_what_exists() {
        check_error("nofragment = \"on\"\n", "there is no `base`");
        check_error("base = \"linux-4.20\n", "line 1: ");
        check_error(
            "# x\nbase = \"linux-9.9\"\n",
            "line 2: unknown policy 'linux-9.9'; the newest is linux-7.",
        );
        check_error("base = 7\n", "line 1: `base` must be");
        check_error(
            "base = \"linux-4.20\"\n\nfrag = 1\n",
            "line 3: unknown switch 'frag'; the most similar ",
        );
        check_error(
            "base = \"linux-4.20\"\nboost = \"maybe\"\n",
            "line 2: switch 'boost' has no value 'maybe'; one of off, v50",
        );
        check_error(
            "base = \"linux-4.20\"\nzone_reclaim_mode = 8\n",
            "line 2: switch 'zone_reclaim_mode' has no value '8'; a whole number from 0 to 7",
        );
        check_error("base = \"linux-4.20\"\n[more]\n", "line 2: unknown switch 'more'");
        check_error("base = \"linux-4.20\"\nboost = [1]\n", "line 2: switch 'boost' has no value");
    }

    #[test]
    fn what_is_printed_is_read_back() {
        for base in preset::PRESETS {
            let other = preset::find("linux-5.10").unwrap();
            for policy in [base.policy, other.policy] {
                let file = parse(&print(base, &policy)).unwrap();
                assert_eq!(file, PolicyFile { base: base.name, policy });
            }
        }
    }
}
