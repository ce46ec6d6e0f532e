//! `pageblock fragment`.

use crate::{pageblock, refuses};

#[test]
fn wrong_shares_are_refused() {
    let allowed = "allowed: 0% to 100%, or 0 to 1";
    for share in ["30", "101%", "-1%", "x"] {
        refuses(
            &format!("fragment --free={share} --spread 0.8"),
            &format!("error: invalid value '{share}' for '--free <SHARE>': {allowed}"),
        );
    }
    refuses("fragment --free 30%", "error: ");
    refuses("fragment --free 30% --spread 0.8 --for 1s -- true", "error: ");
}

/// Live, where this is root: what is out of reach is refused before anything is taken.
#[test]
fn more_than_is_free_is_refused() {
    let said = pageblock("fragment --free 99% --spread 0.8 -- true");
    assert_eq!(said.status, 2, "{}", said.stdout);
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    let expected = ["99.0 % free: now ", "transparent_hugepage", "is needed", "Permission denied"];
    assert!(expected.iter().any(|words| said.stderr.contains(words)), "{}", said.stderr);
}

/// Free pages now: in blocks of 2 MiB and more, and in smaller ones.
fn free_pages() -> [f64; 2] {
    let text = std::fs::read_to_string("/proc/buddyinfo").unwrap_or_default();
    let mut pages = [0.0; 2];
    for line in text.lines() {
        let blocks = line.split_whitespace().skip(4).map(|count| count.parse::<f64>().unwrap());
        for (order, count) in blocks.enumerate() {
            pages[usize::from(order < 9)] += count * f64::from(1 << order);
        }
    }
    pages
}

/// Live, where this is root and memory is free: half a percent less is free, and a percent more of memory is scattered, while a
/// command runs.
#[test]
fn a_state_is_held_while_a_command_runs() {
    let refused = pageblock("fragment --free 99% --spread 0.8 -- true").stderr;
    let free = refused.split("now ").nth(1).and_then(|text| text.split(' ').next());
    let free = free.and_then(|text| text.parse::<f64>().ok());
    let [whole, scattered] = free_pages();
    let Some(free) = free.filter(|&free| free > 10.0 && whole > scattered / 10.0) else {
        eprintln!("SKIPPED: needs root, huge pages, and a tenth of memory free: {refused}");
        return;
    };
    let memory = (whole + scattered) * 100.0 / free;
    let goal = free - 0.5;
    let spread = (scattered + memory / 100.0) / (memory * goal / 100.0);
    let said = pageblock(&format!(
        "fragment --free {goal:.2}% --spread {:.4} --json -- false",
        spread.clamp(0.0, 0.99)
    ));
    // Other tests allocate and free gigabytes meanwhile: what was free may be gone.
    if said.status == 2 && said.stderr.contains(": now ") {
        eprintln!("SKIPPED: {}", said.stderr);
        return;
    }
    assert_eq!(said.status, 1, "the status of `false`: {}", said.stderr);
    let lines: Vec<serde_json::Value> =
        said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{}", said.stdout);
    for (line, key, within) in
        [(0, "before", "scattered_pages"), (0, "now", "free_percent"), (0, "held", "pages")]
    {
        assert!(lines[line][key][within].is_number(), "{}", lines[line]);
    }
    assert!(lines[1]["corrections"].is_number(), "{}", lines[1]);
}
