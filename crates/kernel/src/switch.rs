//! Switches by name, over everything that a [`Kernel`] holds.

use pageblock::policy::{self, Value};

use crate::Kernel;

/// The group of a switch, as `policy show` prints it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its name, `compaction`.
    pub name: &'static str,
    /// What it covers, with its kernel sources.
    pub summary: &'static str,
}

/// The allocator's own switches ([`pageblock::policy`]).
pub const ALLOCATOR: Group =
    Group { name: "allocator", summary: "the page allocator (mm/page_alloc.c)" };

/// A named value of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The name, as users write it.
    pub name: &'static str,
    /// What the kernel does, with the version or commit that brought it.
    pub summary: &'static str,
}

/// The values that a switch can take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    /// One of these choices.
    Choices(&'static [Choice]),
    /// A whole number in a range, both ends included.
    Number {
        /// The smallest.
        min: u32,
        /// The largest.
        max: u32,
    },
}

/// A switch of the rules around the allocator.
#[derive(Debug)]
pub struct Rule {
    pub(crate) name: &'static str,
    pub(crate) group: &'static Group,
    pub(crate) docs: &'static [&'static str],
    pub(crate) values: Values,
    pub(crate) get: fn(&Kernel) -> Value,
    pub(crate) set: fn(&mut Kernel, &str) -> bool,
}

/// A switch of a [`Kernel`]: one of the allocator's, or of the rules around it.
#[derive(Clone, Copy, Debug)]
pub enum Switch {
    /// A switch of the allocator.
    Allocator(&'static policy::Switch),
    /// A switch of the rules around it.
    Rule(&'static Rule),
}

impl PartialEq for Switch {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}
impl Eq for Switch {}

impl Switch {
    /// Returns every switch, the allocator's first, then group by group.
    pub fn all() -> impl Iterator<Item = Self> {
        let rules = crate::rules::ALL.iter().flat_map(|rules| rules.iter());
        policy::SWITCHES.iter().map(Self::Allocator).chain(rules.map(Self::Rule))
    }

    /// Returns the switch with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::all().find(|switch| switch.name() == name)
    }

    /// Returns its name, which is unique.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocator(switch) => switch.name,
            Self::Rule(rule) => rule.name,
        }
    }

    /// Returns its group.
    #[must_use]
    pub fn group(self) -> &'static Group {
        match self {
            Self::Allocator(_) => &ALLOCATOR,
            Self::Rule(rule) => rule.group,
        }
    }

    /// Returns a line with what it decides.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Self::Allocator(switch) => switch.summary.trim(),
            Self::Rule(rule) => rule.docs.first().map_or("", |line| line.trim()),
        }
    }

    /// Returns the version or commit that brought it and further remarks, as lines without breaks.
    #[must_use]
    pub fn since(self) -> String {
        match self {
            Self::Allocator(_) => String::new(),
            Self::Rule(rule) => {
                let lines: Vec<_> = rule.docs.iter().skip(1).map(|line| line.trim()).collect();
                lines.join(" ").trim().to_owned()
            }
        }
    }

    /// Returns its possible values.
    #[must_use]
    pub fn values(self) -> Values {
        match self {
            Self::Rule(rule) => rule.values,
            Self::Allocator(switch) => match switch.values {
                policy::Values::Number { min, max } => Values::Number { min, max },
                policy::Values::Names(_) => Values::Choices(&[]),
            },
        }
    }

    /// Returns the names of its values; none for a number.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        match self {
            Self::Allocator(switch) => match switch.values {
                policy::Values::Names(names) => names.to_vec(),
                policy::Values::Number { .. } => Vec::new(),
            },
            Self::Rule(rule) => match rule.values {
                Values::Choices(choices) => choices.iter().map(|choice| choice.name).collect(),
                Values::Number { .. } => Vec::new(),
            },
        }
    }

    /// Returns its value in a kernel.
    #[must_use]
    pub fn get(self, kernel: &Kernel) -> Value {
        match self {
            Self::Allocator(switch) => switch.get(&kernel.allocator),
            Self::Rule(rule) => (rule.get)(kernel),
        }
    }

    /// Sets it from text; returns `false` and changes nothing if it has no such value.
    #[must_use]
    pub fn set(self, kernel: &mut Kernel, value: &str) -> bool {
        match self {
            Self::Allocator(switch) => switch.set(&mut kernel.allocator, value).is_ok(),
            Self::Rule(rule) => (rule.set)(kernel, value),
        }
    }

    /// Returns what the kernel does with one of its values, with the version or commit that brought it; empty
    /// for numbers and for on and off.
    #[must_use]
    pub fn about(self, value: Value) -> &'static str {
        let Value::Name(name) = value else { return "" };
        match self {
            Self::Rule(Rule { values: Values::Choices(choices), .. }) => {
                let choice = choices.iter().find(|choice| choice.name == name);
                choice.map_or("", |choice| choice.summary.trim())
            }
            Self::Rule(_) => "",
            Self::Allocator(switch) => {
                let at = self.names().iter().position(|other| *other == name);
                at.and_then(|at| switch.docs.get(at)).map_or("", |doc| doc.trim())
            }
        }
    }

    /// Returns the allowed values, for error messages.
    #[must_use]
    pub fn allowed(self) -> String {
        match self.values() {
            Values::Number { min, max } => format!("a whole number from {min} to {max}"),
            Values::Choices(_) => format!("one of {}", self.names().join(", ")),
        }
    }
}

/// A setting with named values.
pub(crate) trait Setting: Copy {
    const CHOICES: &'static [Choice];
    fn name(self) -> &'static str;
    fn find(name: &str) -> Option<Self>;
}

impl Setting for bool {
    const CHOICES: &'static [Choice] =
        &[Choice { name: "off", summary: "" }, Choice { name: "on", summary: "" }];

    fn name(self) -> &'static str {
        if self { "on" } else { "off" }
    }

    fn find(name: &str) -> Option<Self> {
        match name {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        }
    }
}
