//! The text of a policy, `NAME,switch=value,...`, and what is wrong with one.

use core::fmt;

use super::preset::PRESETS;
use super::switch::list;
use super::{SWITCHES, Switch};

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
    /// Packed placement, but [the policy does not allow it](crate::policy::Policy::allows_packed).
    Packed,
}

impl fmt::Display for PolicyError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPreset(name) => {
                write!(f, "unknown policy '{name}'")?;
                match version(name) {
                    Some(version) => neighbours(f, version),
                    None => similar(f, name, || PRESETS.iter().map(|p| p.name)),
                }
            }
            Self::NotAnAssignment(part) => write!(f, "'{part}' is not of the form switch=value"),
            Self::UnknownSwitch(name) => {
                write!(f, "unknown switch '{name}'")?;
                similar(f, name, || SWITCHES.iter().map(Switch::name))
            }
            Self::UnknownValue { switch, value } => {
                write!(f, "switch '{}' has no value '{value}'; ", switch.name())?;
                switch.values().fmt(f)
            }
            Self::Twice { first, again } => {
                write!(f, "'{first}' and '{again}' set the same switch; give it once")
            }
            Self::Packed => f.write_str(
                "placement=packed is for kernels from linux-6.12 on: it needs claim_rule=types_agree, retype=together, \
                 isolation=split, merge_rule=retype or retype_all, pcp_type=reread and split_large=on",
            ),
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
    let rows = || PRESETS.iter().filter_map(|p| Some((p.version()?, p.name)));
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

/// Writes which names are most like one that does not exist, three at most; nothing where half of the name would have
/// to change.
///
/// # Errors
/// The writer's.
pub fn similar<I>(f: &mut impl fmt::Write, name: &str, names: impl Fn() -> I) -> fmt::Result
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

/// The switch that `fallback_pick=hybrid(N)` sets too.
const THRESHOLD: &str = "hybrid_threshold";

/// Returns the two parts of `hybrid(3)`.
fn hybrid<'t>(switch: &str, value: &'t str) -> Option<(&'t str, &'t str)> {
    let (name, threshold) = value.strip_suffix(')')?.split_once('(')?;
    (switch == "fallback_pick" && name == "hybrid").then_some((name, threshold))
}

/// Makes an assignment, or the two that `fallback_pick=hybrid(3)` stands for.
///
/// # Errors
/// That of `assign`.
pub fn expand<'t, E>(
    switch: &'t str,
    value: &'t str,
    mut assign: impl FnMut(&'t str, &'t str) -> Result<(), E>,
) -> Result<(), E> {
    let Some((name, threshold)) = hybrid(switch, value) else { return assign(switch, value) };
    assign(THRESHOLD, threshold)?;
    assign(switch, name)
}

/// Tells whether a part sets this switch, or the threshold that goes with `hybrid(N)`.
fn sets(part: &str, switch: &str, value: &str) -> bool {
    let Some((other, its)) = part.split_once('=') else { return false };
    let (other, its) = (other.trim(), its.trim());
    other == switch
        || (other == THRESHOLD && hybrid(switch, value).is_some())
        || (switch == THRESHOLD && hybrid(other, its).is_some())
}

/// Reads `NAME,switch=value,...`: returns the name, and makes each assignment.
///
/// # Errors
/// [`PolicyError::NotAnAssignment`], [`PolicyError::Twice`], or that of `start` or `assign`.
pub fn read<'t, S, E: From<PolicyError<'t>>>(
    text: &'t str,
    start: impl FnOnce(&'t str) -> Result<S, E>,
    mut assign: impl FnMut(&mut S, &'t str, &'t str) -> Result<(), E>,
) -> Result<S, E> {
    let mut parts = text.split(',').map(str::trim);
    let mut started = start(parts.next().unwrap_or_default())?;
    for (at, part) in parts.clone().enumerate() {
        let (switch, value) = part.split_once('=').ok_or(PolicyError::NotAnAssignment(part))?;
        let (switch, value) = (switch.trim(), value.trim());
        if let Some(first) = parts.clone().take(at).find(|part| sets(part, switch, value)) {
            return Err(PolicyError::Twice { first, again: part }.into());
        }
        expand(switch, value, |switch, value| assign(&mut started, switch, value))?;
    }
    Ok(started)
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::policy::Policy;

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
    fn packed_placement_is_for_policies_whose_free_pages_follow_their_pageblocks() {
        let expect = std::format!("{}", PolicyError::Packed);
        let open = [
            "linux-6.12,placement=packed",
            "debian-6.12,placement=packed",
            "linux-7.3,placement=packed",
            "linux-6.10,placement=packed,split_large=on",
            "linux-6.12,merge_rule=retype_all,placement=packed",
        ];
        for text in open {
            Policy::parse(text).unwrap();
        }
        check("linux-6.10,placement=packed", &expect);
        check("linux-3.10,placement=packed", &expect);
        // Every switch that the text names is one that it depends on.
        for part in expect.split([' ', ',']).filter(|part| part.contains('=')).skip(1) {
            assert!(Policy::parse(&std::format!("linux-6.12,{part}")).is_ok(), "{part}");
            let name = part.split('=').next().unwrap();
            let old = Switch::find(name).unwrap().get(&Policy::parse("linux-3.10").unwrap());
            check(&std::format!("linux-6.12,placement=packed,{name}={old}"), &expect);
        }
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
