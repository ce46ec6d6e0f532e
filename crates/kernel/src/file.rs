//! Kernels as TOML: `base = "linux-6.12"`, then a key for each switch that is set by hand.
//!
//! ```toml
//! base = "linux-4.20"
//! nofragment = "on"
//! watermark_boost_factor = 0
//! slab_min_scan = "off"
//! ```

use core::fmt::Write as _;

use pageblock::policy::{About, Choice, Value, Values};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::named::{Named, find_preset};
use crate::own;
use crate::{Kernel, Switch};

/// An error in a kernel file. Each message is one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The text is not TOML.
    #[error("line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The problem.
        message: String,
    },
    /// A key or value is wrong; the message says what is allowed.
    #[error("line {line}: {message}")]
    Entry {
        /// The line, from 1.
        line: usize,
        /// The problem.
        message: String,
    },
    /// The key `base`, which names the preset to start from, is missing.
    #[error(
        "there is no `base`: the name of the kernel to start from, such as base = \"linux-6.12\""
    )]
    NoBase,
}

/// Reads a kernel file; `label` becomes the kernel's name.
///
/// # Errors
/// [`FileError`] with the line.
pub fn parse(text: &str, label: &str) -> Result<Named, FileError> {
    let table = DeTable::parse(text).map_err(|error| FileError::Syntax {
        line: error.span().map_or(1, |span| line_of(text, span.start)),
        message: error.message().replace('\n', ", "),
    })?;
    let base = table.get_ref().iter().find(|(key, _)| key.get_ref() == "base");
    let base = base.ok_or(FileError::NoBase)?.1;
    let mut named = find_base(base)
        .map_err(|message| FileError::Entry { line: line_of(text, base.span().start), message })?;
    for (key, value) in table.get_ref().iter().filter(|(key, _)| key.get_ref() != "base") {
        let value = text_of(value.get_ref());
        named.assign(key.get_ref(), &value).map_err(|error| FileError::Entry {
            line: line_of(text, key.span().start),
            message: error.to_string(),
        })?;
    }
    label.clone_into(&mut named.label);
    named.check().map_err(|error| FileError::Entry {
        // A preset allows what it has, so a key is the cause.
        line: line_of(text, table.get_ref().get("placement").map_or(0, |value| value.span().start)),
        message: error.to_string(),
    })?;
    Ok(named)
}

fn find_base(value: &Spanned<DeValue<'_>>) -> Result<Named, String> {
    let DeValue::String(name) = value.get_ref() else {
        return Err("`base` must be the name of a kernel in quotes".to_owned());
    };
    find_preset(name).map(Named::of_preset).map_err(|error| error.to_string())
}

fn text_of(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Boolean(true) => "on".to_owned(),
        DeValue::Boolean(false) => "off".to_owned(),
        other => other.type_str().to_owned(),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count() + 1
}

/// Returns a kernel file: the differences from the preset as keys, everything else as comments, group by group.
#[must_use]
pub fn print(named: &Named) -> String {
    let (base, of_base) = (named.base, Kernel::from(named.base));
    let mut text = format!("# {}\nbase = \"{}\"\n", base.summary, base.name);
    if let Some(own) = named.own {
        let _ = writeln!(text, "{} = \"{}\"", own::KEY, own.name);
    }
    let mut group = "";
    for switch in Switch::all() {
        if switch.group().name != group {
            group = switch.group().name;
            let _ = write!(text, "\n## {group}: {}\n", switch.group().summary);
        }
        let by_hand = named.set.iter().any(|(s, _)| *s == switch);
        text += &entry(
            switch,
            &named.kernel,
            !by_hand && switch.get(&named.kernel) == switch.get(&of_base),
        );
    }
    text
}

fn entry(switch: Switch, kernel: &Kernel, is_comment: bool) -> String {
    let value = match switch.get(kernel) {
        Value::Name(name) => format!("\"{name}\""),
        Value::Number(number) => number.to_string(),
    };
    let since = switch.remarks();
    let since = if since.is_empty() { since } else { format!(" {since}") };
    format!(
        "\n# {}{since}\n{}{}{} = {value}\n",
        switch.about().summary(),
        values(switch.about()),
        if is_comment { "# " } else { "" },
        switch.name()
    )
}

/// What a switch can be set to as comments: each named value with what the kernel does then.
fn values(switch: &About) -> String {
    let each = match switch.values {
        Values::Choices(choices) => choices,
        Values::Number { .. } => &[],
    };
    if each.iter().all(|choice| choice.summary.is_empty()) {
        return format!("# Values: {}\n", switch.values);
    }
    let width = each.iter().map(|choice| choice.name.len()).max().unwrap_or(0);
    let line = |choice: &Choice| format!("#   {:width$}  {}\n", choice.name, choice.summary);
    each.iter().map(line).collect()
}
