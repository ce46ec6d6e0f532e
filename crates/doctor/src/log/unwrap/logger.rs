//! Objects and fields in which loggers store a line.

use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;

/// The keys under which loggers store a message: Docker and Kubernetes, the journal, and others.
const KEYS: [&str; 6] = ["log", "MESSAGE", "message", "msg", "line", "textPayload"];
/// The keys of a time.
const TIMES: [&str; 6] = ["time", "timestamp", "@timestamp", "ts", "receiveTimestamp", "datetime"];
/// The time of an entry in the journal, microseconds since 1970.
pub(in crate::log) const REALTIME: &str = "__REALTIME_TIMESTAMP=";
const REALTIME_KEY: &str = "__REALTIME_TIMESTAMP";
/// The levels of nested objects that are searched, as in `{"fields": {"log": ...}}`.
const LEVELS: usize = 3;

/// Removes what a logger put around lines.
#[derive(Default)]
pub(in crate::log) struct Logger {
    /// The time of the current entry, if the journal was exported.
    exported: Option<String>,
}

impl Logger {
    /// Returns the message in a line, with its time before it; `None` if the line has no part in one.
    pub(in crate::log) fn message<'l>(&mut self, line: &'l str) -> Option<Cow<'l, str>> {
        if let Some(us) = line.strip_prefix(REALTIME) {
            self.exported = us.trim().parse().ok().and_then(utc);
            return None;
        }
        if let Some(time) = &self.exported
            && let Some((key, value)) = line.split_once('=')
            && !key.is_empty()
            && key.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        {
            return (key == "MESSAGE").then(|| format!("{time} {value}").into());
        }
        Some(object(line).map_or(Cow::Borrowed(line), Cow::Owned))
    }
}

/// Returns the message in the object that a logger made of a line.
fn object(line: &str) -> Option<String> {
    let line = line.trim().trim_end_matches(',');
    if !(line.starts_with('{') && line.ends_with('}')) {
        return None;
    }
    let object: Value = serde_json::from_str(line).ok()?;
    let message = message(&object, LEVELS)?;
    Some(match time(&object) {
        Some(time) => format!("{time} {message}"),
        None => message,
    })
}

fn message(object: &Value, levels: usize) -> Option<String> {
    let own = KEYS.iter().find_map(|key| match object.get(key)? {
        Value::String(text) => Some(text.clone()),
        // The journal prints what is not UTF-8, or has colours, as bytes.
        Value::Array(bytes) => {
            let byte = |value: &Value| value.as_u64().and_then(|byte| u8::try_from(byte).ok());
            let bytes: Option<Vec<u8>> = bytes.iter().map(byte).collect();
            Some(String::from_utf8_lossy(&bytes?).into_owned())
        }
        _ => None,
    });
    let levels = levels.checked_sub(1)?;
    own.or_else(|| object.as_object()?.values().find_map(|value| message(value, levels)))
}

/// Returns the time of an object as text.
fn time(object: &Value) -> Option<String> {
    if let Some(us) = object.get(REALTIME_KEY) {
        let us = us.as_u64().or_else(|| us.as_str()?.parse().ok());
        return us.and_then(utc);
    }
    let text = TIMES.iter().find_map(|key| object.get(key)?.as_str())?;
    text.starts_with(|first: char| first.is_ascii_digit()).then(|| text.to_owned())
}

/// Returns a time in UTC, from microseconds since 1970.
fn utc(us: u64) -> Option<String> {
    // The year 9999.
    let us = Some(us).filter(|us| *us < 253_000_000_000_000_000)?;
    Some(humantime::format_rfc3339_micros(UNIX_EPOCH + Duration::from_micros(us)).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_out_of_objects_with_their_time() {
        for (line, message) in [
            (r#"{"log": "Mem-Info:\n", "stream": "stdout"}"#, "Mem-Info:\n"),
            (
                r#"{"log":"Mem-Info:\n","time":"2024-05-01T10:11:12.5Z"}"#,
                "2024-05-01T10:11:12.5Z Mem-Info:\n",
            ),
            (r#"{"MESSAGE": " Mem-Info:", "_TRANSPORT": "kernel"}"#, " Mem-Info:"),
            (
                r#"{"MESSAGE":"a","__REALTIME_TIMESTAMP":"1700000000000000"}"#,
                "2023-11-14T22:13:20.000000Z a",
            ),
            (r#"{"MESSAGE": [77, 101, 109]}"#, "Mem"),
            (r#"{"fields": {"job": "kern", "log": "a"}},"#, "a"),
            (r#"{"line": "a", "timestamp": 5}"#, "a"),
            (r#"{"other": 1}"#, r#"{"other": 1}"#),
            ("{not an object}", "{not an object}"),
        ] {
            assert_eq!(Logger::default().message(line).as_deref(), Some(message));
        }
    }

    #[test]
    fn an_exported_journal_is_read_by_its_fields() {
        let mut logger = Logger::default();
        // Before the first entry a line is a line.
        assert_eq!(logger.message("A=b").as_deref(), Some("A=b"));
        let read: Vec<Option<String>> =
            ["__REALTIME_TIMESTAMP=1700000000000000", "PRIORITY=4", "MESSAGE=a=b", "", "x: y=z"]
                .map(|line| logger.message(line).map(Cow::into_owned))
                .into();
        let line = Some("2023-11-14T22:13:20.000000Z a=b".to_owned());
        assert_eq!(read, [None, None, line, Some(String::new()), Some("x: y=z".to_owned())]);
    }
}
