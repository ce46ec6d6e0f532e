//! The kernel's functions by address, from the copy of `/proc/kallsyms` in a trace.

/// The functions; what a trace has of them is parsed when the first address is looked up.
#[derive(Default)]
pub(crate) struct Symbols {
    text: Vec<u8>,
    /// First addresses and names, sorted.
    functions: Vec<(u64, Box<str>)>,
}

impl Symbols {
    /// Makes a table of the lines `ADDRESS TYPE NAME`.
    pub(crate) fn new(text: Vec<u8>) -> Self {
        Self { text, functions: Vec::new() }
    }

    /// Returns the function at an address; the address where none is known.
    pub(crate) fn name(&mut self, address: u64) -> String {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.functions = String::from_utf8_lossy(&text).lines().filter_map(function).collect();
            self.functions.sort();
        }
        let after = self.functions.partition_point(|(start, _)| *start <= address);
        match after.checked_sub(1) {
            Some(at) => self.functions[at].1.to_string(),
            None => format!("{address:#x}"),
        }
    }
}

fn function(line: &str) -> Option<(u64, Box<str>)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    // Addresses that the kernel hides are 0.
    (address != 0 && matches!(kind, "t" | "T" | "w" | "W"))
        .then_some((address, words.next()?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_the_function_that_begins_before_it() {
        let text = "2000 t second\n1000 T first\n1800 d data\n0 T hidden\n3000 t third\t[module]\n";
        let mut symbols = Symbols::new(text.into());
        let names = [0x1000, 0x1900, 0x2fff, 0x3001].map(|address| symbols.name(address));
        assert_eq!(names, ["first", "first", "second", "third"]);
        assert_eq!(symbols.name(0x10), "0x10");
        assert_eq!(Symbols::default().name(0x1900), "0x1900");
    }
}
