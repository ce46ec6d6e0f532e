//! Wording of a parser's errors: what was found and what is allowed, without the names of Rust's types.

/// Rewords an error of `serde` for users: `invalid type: string "x", expected u64` becomes `found "x";
/// allowed: a whole number from 0 to 18446744073709551615`.
pub(crate) fn words(message: &str) -> String {
    let kinds = ["invalid type: ", "invalid value: ", "invalid length "];
    if let Some(rest) = kinds.into_iter().find_map(|kind| message.strip_prefix(kind))
        && let Some((was, allowed)) = rest.split_once(", expected ")
    {
        let length = message.starts_with("invalid length ");
        let was = if length { format!("{was} values") } else { found(was) };
        return format!("found {was}; allowed: {}", expected(allowed));
    }
    if let Some(key) = message.strip_prefix("missing field ") {
        return format!("the key {key} is missing");
    }
    if let Some(key) = message.strip_prefix("duplicate field ") {
        return format!("the key {key} is given twice");
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        return format!("found {}", rest.replacen(", expected", "; allowed:", 1));
    }
    if message == "expected value" {
        return "found no JSON".to_owned();
    }
    message.replacen("EOF while parsing", "the file ends inside", 1).replacen(
        "recursion limit exceeded",
        "lists are nested too deeply",
        1,
    )
}

/// Returns a value as the file has it, from the parser's description of it.
fn found(value: &str) -> String {
    let quoted = value.split_once('`').and_then(|(_, rest)| rest.rsplit_once('`'));
    match value {
        "unit value" => "null".to_owned(),
        "sequence" => "a list".to_owned(),
        "map" => "an object".to_owned(),
        _ => {
            let plain = quoted.map_or(value, |(inner, _)| inner);
            plain.strip_prefix("string ").unwrap_or(plain).to_owned()
        }
    }
}

/// Returns the values that a type allows.
fn expected(what: &str) -> String {
    match what {
        "u8" => "a whole number from 0 to 255".to_owned(),
        "u16" => "a whole number from 0 to 65535".to_owned(),
        "u32" => "a whole number from 0 to 4294967295".to_owned(),
        "u64" | "usize" => "a whole number from 0 to 18446744073709551615".to_owned(),
        "i64" | "isize" | "i32" => "a whole number".to_owned(),
        "f64" | "f32" => "a number".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "a boolean" => "true or false".to_owned(),
        _ if what.starts_with("struct ") => "an object".to_owned(),
        _ => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn rust_types_are_not_named() {
        for (from, to) in [
            (
                "invalid value: integer `-7`, expected u64",
                "found -7; allowed: a whole number from 0 to 18446744073709551615",
            ),
            ("invalid type: floating point `1.5`, expected f64", "found 1.5; allowed: a number"),
            ("invalid type: string \"x\", expected struct Run", "found \"x\"; allowed: an object"),
            ("invalid type: unit value, expected a sequence", "found null; allowed: a list"),
            ("invalid type: map, expected a string", "found an object; allowed: a string"),
            (
                "invalid length 2, expected an array of length 6",
                "found 2 values; allowed: an array of length 6",
            ),
            ("missing field `policy`", "the key `policy` is missing"),
            ("unknown variant `X`, expected `A` or `B`", "found `X`; allowed: `A` or `B`"),
            ("expected value", "found no JSON"),
            ("EOF while parsing a list", "the file ends inside a list"),
            ("expected `,` or `]`", "expected `,` or `]`"),
        ] {
            assert_eq!(words(from), to);
        }
    }
}
