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
}

impl fmt::Display for PolicyError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPreset(name) => {
                write!(f, "unknown policy '{name}'; there are")?;
                list(f, crate::policy::preset::PRESETS.iter().map(|p| p.name))
            }
            Self::NotAnAssignment(part) => write!(f, "'{part}' is not of the form switch=value"),
            Self::UnknownSwitch(name) => {
                write!(f, "unknown switch '{name}'; there are")?;
                list(f, SWITCHES.iter().map(|s| s.name))
            }
            Self::UnknownValue { switch, value } => {
                write!(f, "switch '{}' has no value '{value}'; ", switch.name)?;
                switch.values.fmt(f)
            }
        }
    }
}

impl core::error::Error for PolicyError<'_> {}

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
