//! Switches by name: what declares them, and what reads, sets and prints them.
//!
//! The allocator's own are declared in [`crate::policy`]; the crates around it declare theirs with the same macro.

use core::fmt;

use super::{Policy, PolicyError};

/// A part of the kernel whose switches are declared together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its name, `compaction`.
    pub name: &'static str,
    /// What it covers, with its kernel sources.
    pub summary: &'static str,
}

/// A named value of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The name, as users write it.
    pub name: &'static str,
    /// What the kernel does, with the version or commit that brought it; empty for on and off.
    pub summary: &'static str,
}

/// The values that a switch can have.
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

impl Values {
    /// Returns the names of the choices; none for a number.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        let choices = match self {
            Self::Choices(choices) => choices,
            Self::Number { .. } => &[],
        };
        choices.iter().map(|choice| choice.name)
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Choices(_) => {
                f.write_str("one of")?;
                list(f, self.names())
            }
            Self::Number { min, max } => write!(f, "a whole number from {min} to {max}"),
        }
    }
}

/// Writes names with commas between them, and a space before the first.
pub(super) fn list(
    f: &mut impl fmt::Write,
    names: impl Iterator<Item = &'static str>,
) -> fmt::Result {
    for (i, name) in names.enumerate() {
        write!(f, "{} {name}", if i == 0 { "" } else { "," })?;
    }
    Ok(())
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

/// What is known of a switch, whatever it is a switch of.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The name of the field, and of the notation.
    pub name: &'static str,
    /// The lines that describe it: what it decides, then the version or commit that brought it.
    pub docs: &'static [&'static str],
    /// What it can be set to.
    pub values: Values,
}

impl About {
    /// Returns what it decides.
    #[must_use]
    pub fn summary(&self) -> &'static str {
        self.docs.first().map_or("", |line| line.trim_ascii())
    }

    /// Returns further remarks, a line each: the version or commit that brought it.
    pub fn remarks(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.docs.iter().skip(1).map(|line| line.trim_ascii())
    }

    /// Returns what the kernel does with one of its values, with the version or commit that brought it; empty for numbers
    /// and for on and off.
    #[must_use]
    pub fn of_value(&self, value: Value) -> &'static str {
        let (Value::Name(name), Values::Choices(choices)) = (value, self.values) else { return "" };
        choices.iter().find(|choice| choice.name == name).map_or("", |choice| choice.summary)
    }
}

/// One switch of a [`Policy`], or of another group of switches, by name.
pub struct Switch<G: 'static = Policy> {
    about: About,
    get: fn(&G) -> Value,
    set: fn(&mut G, &str) -> bool,
}

impl<G> PartialEq for Switch<G> {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}
impl<G> Eq for Switch<G> {}

impl<G> fmt::Debug for Switch<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<G: Switches> Switch<G> {
    /// Returns the switch of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        G::SWITCHES.iter().find(|switch| switch.name() == name)
    }
}

impl<G> Switch<G> {
    #[doc(hidden)]
    #[must_use]
    pub const fn new(about: About, get: fn(&G) -> Value, set: fn(&mut G, &str) -> bool) -> Self {
        Self { about, get, set }
    }

    /// Returns what is known of it.
    #[must_use]
    pub const fn about(&self) -> &About {
        &self.about
    }

    /// Returns its name, that of the field and of the notation.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.about.name
    }

    /// Returns what it can be set to.
    #[must_use]
    pub const fn values(&self) -> Values {
        self.about.values
    }

    /// Returns its value.
    #[must_use]
    pub fn get(&self, group: &G) -> Value {
        (self.get)(group)
    }

    /// Sets it from text; returns `false` and changes nothing if it has no such value.
    #[must_use]
    pub fn try_set(&self, group: &mut G, value: &str) -> bool {
        (self.set)(group, value)
    }
}

impl Switch {
    /// Sets the switch from text.
    ///
    /// # Errors
    /// [`PolicyError::UnknownValue`]; the policy is unchanged.
    pub fn set<'t>(
        &'static self,
        policy: &mut Policy,
        value: &'t str,
    ) -> Result<(), PolicyError<'t>> {
        let is_set = self.try_set(policy, value);
        is_set.then_some(()).ok_or(PolicyError::UnknownValue { switch: self, value })
    }
}

/// A group of switches: a struct with a field for each.
pub trait Switches: Sized + 'static {
    /// The group.
    const GROUP: Group;
    /// Every switch, in the order of the fields.
    const SWITCHES: &'static [Switch<Self>];
    /// The values of 3.10, on which those of later kernels are based.
    const V3_10: Self;
}

/// A setting with named values.
pub trait Setting: Copy + 'static {
    /// Its values.
    const CHOICES: &'static [Choice];
    /// Returns the name of a value.
    fn name(self) -> &'static str;
    /// Returns the value of this name.
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

/// Declares a group of switches: a field for each, the types of those that have named values, and the values of 3.10,
/// on which the rows of later kernels build.
///
/// A switch says what it decides, its type with its values, unless the type is `bool` or that of another switch, and the
/// value of 3.10. A value says what the kernel does, and since when.
#[doc(hidden)]
#[macro_export]
macro_rules! switches {
    (
        #[doc = $gdoc:literal]
        $(#[$attribute:meta])*
        $group:ident: $Group:ident
        choice { $($(#[doc = $cdoc:literal])* $cfield:ident: $ctype:ident $({ $($values:tt)* })? = $cfirst:expr,)* }
        number { $($(#[doc = $ndoc:literal])* $nfield:ident: $min:literal..=$max:literal = $nfirst:expr,)* }
    ) => {
        $($crate::switches!(@values $ctype [$($cdoc)*] $({ $($values)* })?);)*

        #[doc = $gdoc]
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub struct $Group {
            $($(#[doc = $cdoc])* pub $cfield: $ctype,)*
            $($(#[doc = $ndoc])* pub $nfield: u32,)*
        }

        impl $crate::policy::Switches for $Group {
            const GROUP: $crate::policy::Group =
                $crate::policy::Group { name: stringify!($group), summary: $gdoc.trim_ascii() };

            const SWITCHES: &'static [$crate::policy::Switch<Self>] = &[
                $($crate::policy::Switch::new(
                    $crate::policy::About {
                        name: stringify!($cfield),
                        docs: &[$($cdoc),*],
                        values: $crate::policy::Values::Choices(<$ctype as $crate::policy::Setting>::CHOICES),
                    },
                    |group| $crate::policy::Value::Name($crate::policy::Setting::name(group.$cfield)),
                    |group, text| {
                        let value = <$ctype as $crate::policy::Setting>::find(text);
                        value.map(|value| group.$cfield = value).is_some()
                    },
                ),)*
                $($crate::policy::Switch::new(
                    $crate::policy::About {
                        name: stringify!($nfield),
                        docs: &[$($ndoc),*],
                        values: $crate::policy::Values::Number { min: $min, max: $max },
                    },
                    |group| $crate::policy::Value::Number(group.$nfield),
                    |group, text| {
                        let value = text.parse().ok().filter(|n| ($min..=$max).contains(n));
                        value.map(|value| group.$nfield = value).is_some()
                    },
                ),)*
            ];

            const V3_10: Self = Self { $($cfield: $cfirst,)* $($nfield: $nfirst,)* };
        }
    };
    (@values $ctype:ident [$($doc:literal)*]) => {};
    (@values $ctype:ident [$($doc:literal)*] { $($(#[doc = $vdoc:literal])* $variant:ident = $text:literal,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum $ctype { $($(#[doc = $vdoc])* $variant,)* }

        impl $crate::policy::Setting for $ctype {
            const CHOICES: &'static [$crate::policy::Choice] =
                &[$($crate::policy::Choice { name: $text, summary: concat!($($vdoc),*).trim_ascii() }),*];

            fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            fn find(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    };
}
