//! Reading TOML with errors that name the line, the key, the value and what is allowed.

use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// An error in a line of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mistake {
    /// The line, from 1.
    pub(crate) line: usize,
    /// What is wrong, and what is allowed.
    pub(crate) message: String,
}

/// Reads a file's outermost table.
pub(crate) fn parse(text: &str) -> Result<Spanned<DeTable<'_>>, Mistake> {
    DeTable::parse(text).map_err(|error| Mistake {
        line: error.span().map_or(1, |span| line_of(text, span.start)),
        message: error.message().replace('\n', ", "),
    })
}

/// Returns the line that contains a byte, from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count() + 1
}

/// The keys of one table; each is requested by name.
pub(crate) struct Keys<'t> {
    text: &'t str,
    /// The table's name in the file, such as `[disk]`; empty for the outermost.
    name: &'static str,
    start: usize,
    table: &'t DeTable<'t>,
    known: Vec<&'static str>,
}

impl<'t> Keys<'t> {
    /// Makes the keys of the outermost table of `text`.
    pub(crate) fn new(text: &'t str, table: &'t DeTable<'t>) -> Self {
        Self { text, name: "", start: 0, table, known: Vec::new() }
    }

    /// Returns a whole number, or the `default` if the key is absent.
    pub(crate) fn number(
        &mut self,
        key: &'static str,
        allowed: RangeInclusive<u64>,
        default: Option<u64>,
    ) -> Result<u64, Mistake> {
        let Some(value) = self.find(key) else {
            return default.ok_or_else(|| self.missing(key));
        };
        whole(value.get_ref()).filter(|n| allowed.contains(n)).ok_or_else(|| {
            let (min, max) = allowed.into_inner();
            self.wrong(key, &value.span(), &format!("a whole number from {min} to {max}"))
        })
    }

    /// Returns a text.
    pub(crate) fn string(&mut self, key: &'static str) -> Result<String, Mistake> {
        let value = self.find(key).ok_or_else(|| self.missing(key))?;
        let text = value.get_ref().as_str().map(str::to_owned);
        text.ok_or_else(|| self.wrong(key, &value.span(), "a text in quotes"))
    }

    /// Returns a text, or the `default` if the key is absent.
    pub(crate) fn string_or(
        &mut self,
        key: &'static str,
        default: &str,
    ) -> Result<String, Mistake> {
        if self.has(key) { self.string(key) } else { Ok(default.to_owned()) }
    }

    /// Returns a list of texts, which all are `known`; none if the key is absent.
    pub(crate) fn texts(
        &mut self,
        key: &'static str,
        known: impl Fn(&str) -> bool,
        names: &[&str],
    ) -> Result<Vec<String>, Mistake> {
        let Some(value) = self.find(key) else { return Ok(Vec::new()) };
        let text = |value: &Spanned<DeValue<'_>>| {
            value.get_ref().as_str().filter(|text| known(text)).map(str::to_owned)
        };
        let list = value.get_ref().as_array().and_then(|list| list.iter().map(text).collect());
        list.ok_or_else(|| {
            self.wrong(key, &value.span(), &format!("a list of some of {}", names.join(", ")))
        })
    }

    /// Returns one whole number, or a list of them that is not empty.
    pub(crate) fn numbers(
        &mut self,
        key: &'static str,
        allowed: RangeInclusive<u64>,
        default: Option<u64>,
    ) -> Result<Vec<u64>, Mistake> {
        let Some(value) = self.find(key) else {
            return default.map(|n| vec![n]).ok_or_else(|| self.missing(key));
        };
        let one = |value: &DeValue<'_>| whole(value).filter(|n| allowed.contains(n));
        let numbers: Option<Vec<u64>> = match value.get_ref().as_array() {
            Some(list) => list.iter().map(|value| one(value.get_ref())).collect(),
            None => one(value.get_ref()).map(|n| vec![n]),
        };
        numbers.filter(|numbers| !numbers.is_empty()).ok_or_else(|| {
            let (min, max) = allowed.clone().into_inner();
            let form = format!("a whole number from {min} to {max}, or a list of such");
            self.wrong(key, &value.span(), &form)
        })
    }

    /// Reports whether a key, which is allowed, is there.
    pub(crate) fn has(&mut self, key: &'static str) -> bool {
        self.find(key).is_some()
    }

    /// Rejects a table without a key.
    pub(crate) fn require(&mut self, key: &'static str) -> Result<(), Mistake> {
        if self.has(key) { Ok(()) } else { Err(self.missing(key)) }
    }

    /// Makes a mistake of this table as a whole.
    pub(crate) fn mistake(&self, message: &str) -> Mistake {
        Mistake { line: line_of(self.text, self.start), message: message.to_owned() }
    }

    /// Returns the index of a name in a list, or 0 if the key is absent.
    pub(crate) fn choice(&mut self, key: &'static str, names: &[&str]) -> Result<usize, Mistake> {
        let Some(value) = self.find(key) else { return Ok(0) };
        let at = value.get_ref().as_str().and_then(|text| names.iter().position(|n| *n == text));
        at.ok_or_else(|| {
            let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
            self.wrong(key, &value.span(), &names.join(" or "))
        })
    }

    /// Returns true or false; false if the key is absent.
    pub(crate) fn flag(&mut self, key: &'static str) -> Result<bool, Mistake> {
        let Some(value) = self.find(key) else { return Ok(false) };
        let flag = value.get_ref().as_bool();
        flag.ok_or_else(|| self.wrong(key, &value.span(), "true or false"))
    }

    /// Returns a list of pairs of whole numbers up to `max`.
    pub(crate) fn pairs(&mut self, key: &'static str, max: u64) -> Result<Vec<[u64; 2]>, Mistake> {
        let value = self.find(key).ok_or_else(|| self.missing(key))?;
        let pair = |pair: &Spanned<DeValue<'_>>| {
            let [start, end] = pair.get_ref().as_array()?.get(..2)? else { return None };
            (pair.get_ref().as_array()?.len() == 2).then_some(())?;
            let number = |n: &Spanned<DeValue<'_>>| whole(n.get_ref()).filter(|n| *n <= max);
            Some([number(start)?, number(end)?])
        };
        let form = format!("a list of pairs [START, END] of whole numbers from 0 to {max}");
        let Some(pairs) = value.get_ref().as_array() else {
            return Err(self.wrong(key, &value.span(), &form));
        };
        let read =
            |p: &Spanned<DeValue<'_>>| pair(p).ok_or_else(|| self.wrong(key, &p.span(), &form));
        pairs.iter().map(read).collect()
    }

    /// Returns the keys of the table `[key]`.
    pub(crate) fn table(&mut self, key: &'static str, name: &'static str) -> Result<Self, Mistake> {
        let value = self.find(key).ok_or_else(|| self.missing(name))?;
        self.inner(name, value)
    }

    /// Returns the keys of each table `[[key]]`.
    pub(crate) fn tables(
        &mut self,
        key: &'static str,
        name: &'static str,
    ) -> Result<Vec<Self>, Mistake> {
        let value = self.find(key).ok_or_else(|| self.missing(name))?;
        let Some(tables) = value.get_ref().as_array() else {
            return Err(self.wrong(key, &value.span(), &format!("tables {name}")));
        };
        tables.iter().map(|table| self.inner(name, table)).collect()
    }

    fn inner(&self, name: &'static str, value: &'t Spanned<DeValue<'t>>) -> Result<Self, Mistake> {
        let (text, start) = (self.text, value.span().start);
        match value.get_ref().as_table() {
            Some(table) => Ok(Self { text, name, start, table, known: Vec::new() }),
            None => Err(self.wrong(name, &value.span(), "a table")),
        }
    }

    /// Rejects keys that were not requested.
    pub(crate) fn end(&self) -> Result<(), Mistake> {
        let unknown =
            |key: &&Spanned<_>| !self.known.contains(&AsRef::<str>::as_ref(key.get_ref()));
        let keys = self.table.iter().map(|(key, _)| key as &Spanned<std::borrow::Cow<'_, str>>);
        let Some(key) = keys.filter(unknown).min_by_key(|key| key.span().start) else {
            return Ok(());
        };
        let place = if self.name.is_empty() { String::new() } else { format!(" of {}", self.name) };
        let known = self.known.join(", ");
        let message = format!("unknown key `{}`{place}; allowed: {known}", key.get_ref());
        Err(Mistake { line: line_of(self.text, key.span().start), message })
    }

    fn find(&mut self, key: &'static str) -> Option<&'t Spanned<DeValue<'t>>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    fn missing(&self, key: &str) -> Mistake {
        let place = if self.name.is_empty() { String::new() } else { format!(" in {}", self.name) };
        let message = format!("`{key}` is missing{place}");
        Mistake { line: line_of(self.text, self.start), message }
    }

    fn wrong(&self, key: &str, at: &Range<usize>, allowed: &str) -> Mistake {
        const SHOWN: usize = 40;
        let value = self.text.get(at.clone()).unwrap_or_default();
        let mut shown: String =
            value.lines().next().unwrap_or_default().chars().take(SHOWN).collect();
        if shown.len() < value.trim_end().len() {
            shown += "...";
        }
        let message = format!("`{key}` is {shown}; allowed: {allowed}");
        Mistake { line: line_of(self.text, at.start), message }
    }
}

fn whole(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}
