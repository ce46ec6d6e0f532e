//! Policies that decide in Linux's place ([`pageblock::decide`]), by name: the [proposals], and users'
//! own, which a program registers once, at its start. `linux-7.3,decide=NAME` asks for one.

use std::fmt;
use std::sync::OnceLock;

use pageblock::decide::Decide;

use crate::proposals;

/// The key that names one in the text of a kernel.
pub const KEY: &str = "decide";

/// A policy of one's own.
#[derive(Clone, Copy)]
pub struct Own {
    /// Its name.
    pub name: &'static str,
    /// What it decides, in a line.
    pub summary: &'static str,
    /// Makes one for a machine. Each run starts with a new one.
    pub make: fn() -> Box<dyn Decide>,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Own {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

static ALL: OnceLock<Vec<Own>> = OnceLock::new();

/// Makes policies known, once.
///
/// # Errors
/// A name that is no name, or is given twice; or policies were registered before.
pub fn register(own: Vec<Own>) -> Result<(), String> {
    let named = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    for (at, Own { name, .. }) in own.iter().enumerate() {
        if name.is_empty() || !name.chars().all(named) {
            return Err(format!("policy '{name}': a name is made of letters, digits, '-' and '_'"));
        }
        if proposals::ALL.iter().any(|of| of.name == *name) {
            return Err(format!(
                "policy '{name}' is a proposal that the program has; choose another name"
            ));
        }
        if own[..at].iter().any(|other| other.name == *name) {
            return Err(format!("policy '{name}' is registered twice"));
        }
    }
    ALL.set(own).map_err(|_| "policies were registered already".to_owned())
}

/// Returns every policy that the program registered.
#[must_use]
pub fn all() -> &'static [Own] {
    ALL.get().map_or(&[], Vec::as_slice)
}

/// Returns the policy of this name.
#[must_use]
pub fn find(name: &str) -> Option<Own> {
    all().iter().chain(proposals::ALL).find(|own| own.name == name).copied()
}

/// Says which there are.
pub(crate) fn known() -> String {
    let names: Vec<_> = all().iter().chain(proposals::ALL).map(|own| own.name).collect();
    format!(
        "there are {} (`pageblock policy new NAME` makes a program with another)",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use pageblock::decide::Linux;

    use super::*;
    use crate::Named;

    #[test]
    fn a_kernel_names_one_that_the_program_has() {
        let error = |text: &str| Named::parse(text).unwrap_err().to_string();
        assert_eq!(
            error("linux-7.3,decide=x"),
            format!("there is no policy 'x' of one's own; {}", known())
        );
        let own = |name| Own { name, summary: "", make: || Box::new(Linux) };
        assert!(register(vec![own("a"), own("a")]).unwrap_err().contains("twice"));
        assert!(register(vec![own("superpageblocks")]).unwrap_err().contains("proposal"));
        assert!(register(vec![own("a,b")]).unwrap_err().contains("letters"));
        register(vec![own("a"), own("b")]).unwrap();
        assert!(register(vec![own("c")]).is_err());
        let named = Named::parse("linux-7.3,claim_share=75,decide=b").unwrap();
        assert_eq!(named.own, Some(own("b")));
        assert_eq!(
            (named.label.as_str(), named.set.len()),
            ("linux-7.3,claim_share=75,decide=b", 1)
        );
        assert_eq!(
            error("linux-7.3,decide=x"),
            format!("there is no policy 'x' of one's own; {}", known())
        );
        assert_eq!(
            error("linux-7.3,decide=a,decide=b"),
            "'decide=a' and 'decide=b' set the same switch; give it once"
        );
        let file = crate::file::parse("base = \"linux-7.3\"\ndecide = \"a\"\n", "mine").unwrap();
        assert_eq!(file.own, Some(own("a")));
        let printed = crate::file::print(&file);
        assert_eq!(crate::file::parse(&printed, "mine").unwrap().own, Some(own("a")));
    }
}
