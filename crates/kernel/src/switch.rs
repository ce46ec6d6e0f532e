//! Switches by name, over everything that a [`Kernel`] holds.

use pageblock::policy::{self, About, Group, Switches, Value};

use crate::Kernel;

/// A part of a kernel: the allocator's policy, or a group of the rules around it.
pub(crate) trait Part: Switches {
    /// Returns this part of a kernel.
    fn of(kernel: &Kernel) -> &Self;
    /// Returns this part of a kernel, to change it.
    fn of_mut(kernel: &mut Kernel) -> &mut Self;
}

/// A switch of some part.
trait OfPart: Sync {
    fn group(&self) -> Group;
    fn about(&self) -> &About;
    fn get(&self, kernel: &Kernel) -> Value;
    fn set(&self, kernel: &mut Kernel, value: &str) -> bool;
}

impl<P: Part> OfPart for policy::Switch<P> {
    fn group(&self) -> Group {
        P::GROUP
    }

    fn about(&self) -> &About {
        self.about()
    }

    fn get(&self, kernel: &Kernel) -> Value {
        self.get(P::of(kernel))
    }

    fn set(&self, kernel: &mut Kernel, value: &str) -> bool {
        self.try_set(P::of_mut(kernel), value)
    }
}

/// A switch of a [`Kernel`]: one of the allocator's, or of the rules around it.
#[derive(Clone, Copy)]
pub struct Switch(&'static dyn OfPart);

impl PartialEq for Switch {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}
impl Eq for Switch {}

impl core::fmt::Debug for Switch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl Switch {
    pub(crate) fn of<P: Part>(switch: &'static policy::Switch<P>) -> Self {
        Self(switch)
    }

    /// Returns the switch with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::all().find(|switch| switch.name() == name)
    }

    /// Returns its name, which is unique.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// Returns its group.
    #[must_use]
    pub fn group(self) -> Group {
        self.0.group()
    }

    /// Returns what is known of it, whatever the kernel.
    #[must_use]
    pub fn about(self) -> &'static About {
        self.0.about()
    }

    /// Reports whether it is on or off.
    #[must_use]
    pub fn is_flag(self) -> bool {
        let names = || self.about().values.names();
        names().count() == 2 && names().all(|name| matches!(name, "on" | "off"))
    }

    /// Returns its value in a kernel.
    #[must_use]
    pub fn get(self, kernel: &Kernel) -> Value {
        self.0.get(kernel)
    }

    /// Sets it from text; returns `false` and changes nothing if it has no such value.
    #[must_use]
    pub fn set(self, kernel: &mut Kernel, value: &str) -> bool {
        self.0.set(kernel, value)
    }

    /// Returns the version or commit that brought a value, or else the switch; empty where none is known.
    #[must_use]
    pub fn since(self, value: Value) -> String {
        match self.about().of_value(value) {
            "" => self.remarks(),
            about => about.to_owned(),
        }
    }

    /// Returns the version or commit that brought the switch, and further remarks; empty where there are none.
    #[must_use]
    pub fn remarks(self) -> String {
        self.about().remarks().collect::<Vec<_>>().join(" ")
    }
}
