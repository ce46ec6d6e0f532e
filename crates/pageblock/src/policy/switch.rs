//! Switches by name, for whoever reads and prints them.

use core::fmt;

use super::{Policy, SWITCHES};

/// A switch that has no such value, or a name that is no switch or preset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicyError<'t> {
    /// The first part names no preset.
    UnknownPreset(&'t str),
    /// A part has no `=`.
    NotAnAssignment(&'t str),
    /// The part before `=` names no switch.
    UnknownSwitch(&'t str),
    /// The part after `=` is not among the values of the switch.
    UnknownValue {
        /// The switch.
        switch: &'static Switch,
        /// What was given.
        value: &'t str,
    },
    /// Two parts set the same switch.
    Twice {
        /// The part that comes first.
        first: &'t str,
        /// The other.
        again: &'t str,
    },
}

impl fmt::Display for PolicyError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPreset(name) => {
                write!(f, "unknown policy '{name}'")?;
                match version(name) {
                    Some(version) => neighbours(f, version),
                    None => {
                        similar(f, name, || crate::policy::preset::PRESETS.iter().map(|p| p.name))
                    }
                }
            }
            Self::NotAnAssignment(part) => write!(f, "'{part}' is not of the form switch=value"),
            Self::UnknownSwitch(name) => {
                write!(f, "unknown switch '{name}'")?;
                similar(f, name, || SWITCHES.iter().map(|s| s.name))
            }
            Self::UnknownValue { switch, value } => {
                write!(f, "switch '{}' has no value '{value}'; ", switch.name)?;
                switch.values.fmt(f)
            }
            Self::Twice { first, again } => {
                write!(f, "'{first}' and '{again}' set the same switch; give it once")
            }
        }
    }
}

impl core::error::Error for PolicyError<'_> {}

/// The version of a name such as `linux-6.11`, `6.11` or `v6.11.3`: major and minor.
fn version(name: &str) -> Option<(u32, u32)> {
    let number = name.strip_prefix("linux-").unwrap_or(name).trim_start_matches('v');
    let mut parts = number.split('.').map(|part| part.parse().ok());
    match (parts.next()?, parts.next()?, parts.next(), parts.next()) {
        (Some(major), Some(minor), None | Some(Some(_)), None) => Some((major, minor)),
        _ => None,
    }
}

/// Says which mainline rows a version lies between.
fn neighbours(f: &mut fmt::Formatter<'_>, version: (u32, u32)) -> fmt::Result {
    let rows =
        || crate::policy::preset::PRESETS.iter().filter_map(|p| Some((p.version()?, p.name)));
    let before = rows().filter(|(row, _)| *row <= version).max();
    let after = rows().filter(|(row, _)| *row > version).min();
    match (before, after) {
        (Some((row, name)), _) if row == version => write!(f, "; allowed: {name}"),
        (Some((_, name)), Some((_, next))) => {
            let (major, minor) = version;
            write!(
                f,
                "; {major}.{minor} behaves as {name}, the next version that differs is {next}"
            )
        }
        (Some((_, name)), None) => write!(f, "; the newest is {name}"),
        (None, Some((_, next))) => write!(f, "; the oldest is {next}"),
        (None, None) => Ok(()),
    }
}

/// Names those that are most like a name that does not exist, three at most; none where half of the
/// name would have to change.
fn similar<I>(f: &mut fmt::Formatter<'_>, name: &str, names: impl Fn() -> I) -> fmt::Result
where
    I: Iterator<Item = &'static str>,
{
    let far = |other: &str| {
        let part = !name.is_empty() && other.contains(name);
        if part { 0 } else { distance(name, other) }
    };
    let least = names().map(far).min().unwrap_or(usize::MAX);
    if least > name.len() / 2 {
        return Ok(());
    }
    f.write_str("; the most similar")?;
    let mut near = names().filter(|other| far(other) == least);
    match (near.next(), near.next()) {
        (Some(one), None) => write!(f, " is {one}"),
        (Some(one), Some(two)) => {
            f.write_str(" are")?;
            list(f, [one, two].into_iter().chain(near).take(3))
        }
        (None, _) => Ok(()),
    }
}

/// How many characters must be inserted, left out or replaced, or neighbours exchanged, to make one
/// name of the other. Of a long name only the first characters count: no name here is longer.
fn distance(a: &str, b: &str) -> usize {
    const LONGEST: usize = 40;
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let (a, b) = (&a[..a.len().min(LONGEST)], &b[..b.len().min(LONGEST)]);
    let mut before = [0; LONGEST + 1];
    let mut row: [usize; LONGEST + 1] = core::array::from_fn(|at| at);
    for (i, &from) in a.iter().enumerate() {
        let two_before = core::mem::replace(&mut before, row);
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = before[j] + usize::from(from != to);
            row[j + 1] = replaced.min(before[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && from == b[j - 1] && a[i - 1] == to {
                row[j + 1] = row[j + 1].min(two_before[j - 1] + 1);
            }
        }
    }
    row[b.len()]
}

fn list(f: &mut fmt::Formatter<'_>, names: impl Iterator<Item = &'static str>) -> fmt::Result {
    for (i, name) in names.enumerate() {
        write!(f, "{} {name}", if i == 0 { "" } else { "," })?;
    }
    Ok(())
}

/// The values that a switch can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    /// One of these names.
    Names(&'static [&'static str]),
    /// A whole number in a range, both ends included.
    Number {
        /// The smallest.
        min: u32,
        /// The largest.
        max: u32,
    },
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Names(names) => {
                f.write_str("one of")?;
                list(f, names.iter().copied())
            }
            Self::Number { min, max } => write!(f, "a whole number from {min} to {max}"),
        }
    }
}

/// One switch of a [`Policy`], by name.
pub struct Switch {
    /// The name of the field, and of the notation.
    pub name: &'static str,
    /// What it switches.
    pub summary: &'static str,
    /// What it can be set to.
    pub values: Values,
    /// What a kernel does with each named value, and from which release on; empty for a number.
    pub docs: &'static [&'static str],
    pub(super) get: fn(&Policy) -> Value,
    pub(super) set: fn(&mut Policy, &str) -> bool,
}

impl PartialEq for Switch {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for Switch {}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Switch {
    /// Returns the switch of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        SWITCHES.iter().find(|s| s.name == name)
    }

    /// Returns the switch's value in a policy.
    #[must_use]
    pub fn get(&self, policy: &Policy) -> Value {
        (self.get)(policy)
    }

    /// Sets the switch from text.
    ///
    /// # Errors
    /// [`PolicyError::UnknownValue`]; the policy is unchanged.
    pub fn set<'t>(
        &'static self,
        policy: &mut Policy,
        value: &'t str,
    ) -> Result<(), PolicyError<'t>> {
        if (self.set)(policy, value) {
            Ok(())
        } else {
            Err(PolicyError::UnknownValue { switch: self, value })
        }
    }
}

/// The value of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// A named value.
    Name(&'static str),
    /// A number.
    Number(u32),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.pad(name),
            Self::Number(n) => fmt::Display::fmt(n, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[track_caller]
    fn check(notation: &str, expect: &str) {
        assert_eq!(Policy::parse(notation).unwrap_err().to_string(), expect);
    }

    #[test]
    fn an_unknown_version_names_its_neighbours() {
        let between = "6.11 behaves as linux-6.10, the next version that differs is linux-6.12";
        for name in ["linux-6.11", "6.11", "v6.11", "linux-6.11.4"] {
            check(name, &std::format!("unknown policy '{name}'; {between}"));
        }
        check("6.10", "unknown policy '6.10'; allowed: linux-6.10");
        check("linux-99.0", "unknown policy 'linux-99.0'; the newest is linux-7.3");
        check("linux-2.6,boost=off", "unknown policy 'linux-2.6'; the oldest is linux-3.10");
    }

    #[test]
    fn a_misspelt_name_names_the_most_similar() {
        check(
            "linux-6.1o",
            "unknown policy 'linux-6.1o'; the most similar are linux-6.1, linux-6.10, linux-6.12",
        );
        check("x\u{1b}[31m", "unknown policy 'x\u{1b}[31m'");
        check("debain-6.12", "unknown policy 'debain-6.12'; the most similar is debian-6.12");
        check(
            "linux-6.9,nofragments=on",
            "unknown switch 'nofragments'; the most similar is nofragment",
        );
        check(
            "linux-6.9,min_free=5",
            "unknown switch 'min_free'; the most similar are min_free_kbytes, min_free_kbytes_max",
        );
    }

    #[test]
    fn distances_count_edits() {
        let long = "x".repeat(64);
        for (a, b, far) in
            [("", "abc", 3), ("ab", "ba", 1), ("kitten", "sitting", 3), (&long, "", 40)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (far, far), "{a} {b}");
        }
    }
}
