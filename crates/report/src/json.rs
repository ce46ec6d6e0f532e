//! JSON output of the types of `pageblock-measure`.

use serde::Serialize;

/// Returns the JSON of one value, or of several as an array.
#[must_use]
pub fn one_or_several<T: Serialize>(values: &[T]) -> String {
    match values {
        [one] => to_json(one),
        several => to_json(several),
    }
}

/// Returns the value as indented JSON, with a newline at the end. Numbers that are not finite become null.
///
/// # Panics
/// If a map has keys that are not strings: no type of `pageblock-measure` does.
#[must_use]
pub fn to_json<T: Serialize + ?Sized>(value: &T) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("maps with string keys");
    text.push('\n');
    text
}
