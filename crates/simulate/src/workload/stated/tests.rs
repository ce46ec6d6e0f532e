use super::*;
use crate::workload::requests::{Ask, Operation};

/// Requests of one task of a file on a machine of 100,000 pages.
fn asked(text: &str, seed: u64, task: u32) -> Vec<Ask> {
    let workload = parse(text).unwrap();
    let mut stream = workload.source.open(seed, task, 100_000).unwrap();
    std::iter::from_fn(|| stream.next().unwrap()).flatten().collect()
}

fn count(asked: &[Ask], operation: Operation) -> usize {
    asked.iter().filter(|ask| ask.operation == operation).count()
}

const SWING: &str = r#"
name = "swing"
[[task]]
count = 2
rounds = 4
pause_ms = 200
[[task.step]]
do = "files"
name = "data"
pages = 16
percent = 20
together = true
lifetime_rounds = 1
[[task.step]]
do = "read"
of = "data"
pages = 16
count = 10
[[task.step]]
do = "blocks"
hold = true
percent = [30, 3]
[[task.step]]
do = "memory"
huge = true
pages = 512
count = 3
every = 2
lifetime_rounds = 0
"#;

#[test]
fn rounds_hold_what_they_are_to_hold() {
    let all = asked(SWING, 1, 0);
    let files = 100_000 * 20 / 100 / 16;
    assert_eq!(count(&all, Operation::File), 4 * files);
    assert_eq!(count(&all, Operation::Write), 4 * files * 16);
    assert_eq!(count(&all, Operation::Read), 40);
    // 30,000 blocks, 3,000, 30,000 and 3,000 again.
    assert_eq!(count(&all, Operation::Alloc), 30_000 + 27_000);
    assert_eq!(count(&all, Operation::MapHuge), 2 * 3);
    // Files of two rounds are left at the end of the third and fourth; blocks twice; every mapping.
    assert_eq!(count(&all, Operation::Free), 3 * files + 2 * 27_000 + 6);
    // All files of a round grow together: its first page of each comes before the second of any.
    let first = all.iter().position(|ask| ask.operation == Operation::Write).unwrap();
    assert!(all[first..first + files].iter().all(|ask| ask.offset == 0));
    assert_eq!(all[first + files].offset, 1);
    assert!(all.is_sorted_by_key(|ask| ask.time_ns));
    assert_eq!(all.last().unwrap().time_ns, 3 * 200_000_000);
}

#[test]
fn a_seed_and_a_task_have_their_own_requests() {
    assert_eq!(asked(SWING, 1, 0), asked(SWING, 1, 0));
    assert_ne!(asked(SWING, 1, 0), asked(SWING, 2, 0));
    assert_ne!(asked(SWING, 1, 0), asked(SWING, 1, 1));
    assert!(parse(SWING).unwrap().source.open(1, 2, 100_000).is_err());
}

#[test]
fn lifetimes_have_their_mean_and_ids_are_used_again() {
    let all = asked(
        "name = \"server\"\n[[task]]\n[[task.step]]\ndo = \"objects\"\nbytes = [64, 512]\n\
         count = 100000\nper_second = 10000\nlifetime_ms = 50",
        7,
        0,
    );
    let mut began = std::collections::BTreeMap::new();
    let (mut lived, mut ended) = (0, 0);
    for ask in &all {
        match ask.operation {
            Operation::Object => {
                assert!((64..=512).contains(&ask.amount));
                assert_eq!(began.insert(ask.id, ask.time_ns), None, "id {} is held", ask.id);
            }
            _ => {
                lived += ask.time_ns - began.remove(&ask.id).unwrap();
                ended += 1;
            }
        }
    }
    let mean_ms = lived as f64 / f64::from(ended) / 1e6;
    assert!((49.0..51.0).contains(&mean_ms), "{mean_ms}");
    // 10,000 a second for 50 ms: about 500 are held at a time, and no more ids are used.
    assert!(all.iter().all(|ask| ask.id < 800));
    let seconds = all.last().unwrap().time_ns as f64 / 1e9;
    assert!((9.8..10.2).contains(&seconds), "{seconds}");
}

#[test]
fn mistakes_name_their_line_and_what_is_allowed() {
    let check = |steps: &str, expect: &str| {
        let text = format!("name = \"w\"\n[[task]]\n{steps}");
        assert_eq!(parse(&text).unwrap_err().to_string(), expect);
    };
    check("", "line 2: `[[task.step]]` is missing in [[task]]");
    check("[[task.step]]\n", "line 3: `do` is missing in [[task.step]]");
    check(
        "[[task.step]]\ndo = \"fly\"",
        "line 4: `do` is \"fly\"; allowed: \"blocks\" or \"objects\" or \"files\" or \"memory\" or \"read\" or \"touch\" or \"free\" or \"sleep\"",
    );
    check(
        "[[task.step]]\ndo = \"blocks\"",
        "line 3: a step has either `count` or `percent` (of the machine's pages)",
    );
    check(
        "[[task.step]]\ndo = \"blocks\"\norder = 11\ncount = 1",
        "line 5: `order` is 11; allowed: a whole number from 0 to 10, or a list of such",
    );
    check(
        "[[task.step]]\ndo = \"read\"\nof = \"x\"\ncount = 1",
        "line 3: `of` is \"x\"; allowed: the `name` of an earlier step of this task that makes files",
    );
    check(
        "[[task.step]]\ndo = \"blocks\"\ncount = 1\nlifetime_ms = 5",
        "line 3: `lifetime_ms` needs `per_second`: else the step takes no time",
    );
    check(
        "[[task.step]]\ndo = \"blocks\"\ncount = 1\nsize = 5",
        "line 6: unknown key `size` of [[task.step]]; allowed: do, every, per_second, name, type, order, hold, lifetime_ms, lifetime_rounds, count, percent",
    );
}
