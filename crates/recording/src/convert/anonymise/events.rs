//! Names in events: of tasks and files among their fields, and whatever others write into a trace.

use crate::record::event::{NOT_UNDERSTOOD, Other, STACK, What};
use crate::store::names;

/// Fields of the kernel's memory events whose values are names, which may have blanks and anything else.
const NAMES: [&str; 5] = ["comm", "filename", "file", "name", "task"];
/// Fields that follow a name in these events; a word that is no such field still belongs to the name.
const AFTER: [&str; 20] = [
    "align",
    "anon-rss",
    "count",
    "errorno",
    "file-rss",
    "index",
    "nr",
    "nr_failed",
    "nr_mapped",
    "nr_migrated",
    "nr_reclaimed",
    "oom_score_adj",
    "pfn",
    "pgtables",
    "present",
    "prev_oom_score_adj",
    "shmem-rss",
    "swap",
    "total-vm",
    "uid",
];

/// Removes the names in an event.
pub(crate) fn strip(what: &mut What) {
    match what {
        What::Marker(text) if !is_mark(text) => *text = "marker".into(),
        What::Other(other) => {
            let args = kept(other);
            if args != *other.args {
                other.args = args.into();
            }
        }
        _ => {}
    }
}

/// Returns the arguments of an event that tell nothing.
fn kept(Other { name, args }: &Other) -> String {
    // The innermost functions of the kernel.
    if **name == *STACK {
        return args.to_string();
    }
    if **name == *NOT_UNDERSTOOD {
        let (event, fields) = args.split_once(' ').unwrap_or((args, ""));
        return match is_known(event) {
            true => format!("{event} {}", without_names(fields)),
            false => "event -".to_owned(),
        };
    }
    // Nothing is known of the fields of other events, such as the scheduler's or a program's own texts, and no replay
    // reads them.
    if is_known(name) { without_names(args) } else { "-".to_owned() }
}

fn is_known(event: &str) -> bool {
    names::EVENTS.contains(&event)
}

fn is_mark(text: &str) -> bool {
    matches!(text, "S0" | "S1" | "S2" | "E0" | "E1" | "E2")
}

fn is_name(key: &str) -> bool {
    NAMES.contains(&key) || key.ends_with("_comm")
}

/// Removes the values that are names. Such a value ends before a field that follows it in the kernel's formats, if that has a
/// number.
fn without_names(args: &str) -> String {
    let mut kept = String::with_capacity(args.len());
    let mut dropping = false;
    for word in args.split(' ') {
        if let Some((key, value)) = word.split_once('=') {
            if is_name(key) {
                kept += &format!(" {key}=-");
                dropping = true;
                continue;
            }
            dropping &= !(AFTER.contains(&key) && is_number(value));
        }
        if !dropping {
            kept.push(' ');
            kept += word;
        }
    }
    kept.split_off(1.min(kept.len()))
}

/// Reports whether a value is a number, with its unit and a comma after it.
fn is_number(value: &str) -> bool {
    let value = value.trim_end_matches(',');
    let value = value.strip_suffix("kB").unwrap_or(value).trim_start_matches('-');
    let hex = value.strip_prefix("0x");
    match hex {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit()),
        None => !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(name: &str, args: &str) -> String {
        let mut what = What::Other(Box::new(Other { name: name.into(), args: args.into() }));
        strip(&mut what);
        what.to_string()
    }

    #[test]
    fn values_that_are_names_go() {
        let of = without_names;
        assert_eq!(of("pid=1 comm=my secret app oom_score_adj=3"), "pid=1 comm=- oom_score_adj=3");
        assert_eq!(
            of("scan_pfn=0x1 filename=/home/a b, present=0, swap=1, result=x"),
            "scan_pfn=0x1 filename=- present=0, swap=1, result=x"
        );
        // A name that looks like fields.
        assert_eq!(of("comm=a key=alice oom_score_adj=bob uid=0"), "comm=- uid=0");
        assert_eq!(of("comm=alice"), "comm=-");
        let memory = "zone_start=0x1 free_pfn=0xe00 zone_end=0x1000, mode=sync  nid=3";
        assert_eq!(of(memory), memory);
    }

    #[test]
    fn no_event_names_a_task() {
        let switch = "prev_comm=alice prev_pid=1 prev_state=S ==> next_comm=bob next_pid=2";
        for (event, args) in [
            ("sched_switch", switch),
            ("print", "alice was here"),
            ("tracing_mark_write", "bob=1"),
            ("not_understood", "sched_switch prev_comm=alice next_comm=bob"),
            ("not_understood", "mark_victim pid=1 comm=alice total-vm=9kB"),
            ("mark_victim", switch),
        ] {
            let text = stripped(event, args);
            assert!(!text.contains("alice") && !text.contains("bob"), "{event}: {text}");
        }
        let free = "mm_page_free page=00000000deadbeef pfn=0x200000 order=18";
        assert_eq!(stripped("not_understood", free), free);
        assert_eq!(stripped("kernel_stack", "alloc <- fault"), "alloc <- fault");
        assert_eq!(stripped("mm_vmscan_kswapd_sleep", "nid=0"), "nid=0");
    }
}
