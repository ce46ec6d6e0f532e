//! Lines of a kill that mail broke: the pieces below the first belong to nothing else.

use crate::log::Line;

/// Such a line is about a kill.
const KILLS: [&str; 3] = ["illed process ", "ill process ", "oom-kill:constraint="];
/// What the last piece of such a line ends with.
const ENDS: [&str; 4] = ["oom_score_adj:", "sacrifice child", ",uid=", "file-rss:"];
/// What a further piece begins with.
const GOES_ON: [&str; 16] = [
    "(",
    "total-vm",
    "anon-rss",
    "file-rss",
    "shmem-rss",
    "UID:",
    "pgtables",
    "oom_score_adj:",
    "score ",
    "or sacrifice",
    "sacrifice",
    "child",
    "task_memcg",
    "task=",
    "pid=",
    "oom_memcg",
];
/// The largest number of lines that one was broken into.
const PIECES: usize = 4;

/// Joins such lines.
#[derive(Default)]
pub(super) struct Wrapped(Option<(Line, usize)>);

impl Wrapped {
    /// Returns whether the next line may be a further piece.
    pub(super) const fn is_within(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether a line may be a piece.
    pub(super) fn takes(&self, line: &Line) -> bool {
        self.0.is_some() || begins(line)
    }

    /// Returns the lines that are whole now.
    pub(super) fn push(&mut self, line: &Line) -> Vec<Line> {
        let Some((first, pieces)) = self.0.take() else { return self.start(line) };
        let text = line.text.trim_start();
        let is_next = line.number <= first.number + pieces && !text.is_empty();
        if is_next && GOES_ON.iter().any(|piece| text.starts_with(piece)) {
            let text = [first.text.trim_end(), text].join(" ");
            let joined = Line { text, ..first };
            if pieces < PIECES && is_open(&joined.text) {
                self.0 = Some((joined, pieces + 1));
                return Vec::new();
            }
            return vec![joined];
        }
        let mut lines = vec![first];
        lines.extend(self.start(line));
        lines
    }

    fn start(&mut self, line: &Line) -> Vec<Line> {
        if begins(line) {
            self.0 = Some((line.clone(), 1));
            return Vec::new();
        }
        vec![line.clone()]
    }

    /// Returns a line that no further piece followed.
    pub(super) fn finish(&mut self) -> Option<Line> {
        self.0.take().map(|(line, _)| line)
    }
}

fn begins(line: &Line) -> bool {
    KILLS.iter().any(|kill| line.text.contains(kill)) && is_open(&line.text)
}

/// Returns whether a line about a kill lacks its end.
fn is_open(text: &str) -> bool {
    !ENDS.iter().any(|end| text.contains(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_line_of_a_kill_is_one_line() {
        let log = "Memory cgroup out of memory: Killed process 94\n(test) total-vm:8kB, anon-rss:30kB,\nfile-rss:1kB\n\
                   Killed process 7 (a) total-vm:8kB\nnext\nOut of memory: Kill process 9 (b) score 8 or\nsacrifice child\n";
        let mut wrapped = Wrapped::default();
        let mut lines: Vec<Line> = (1..)
            .zip(log.lines())
            .flat_map(|(number, text)| {
                wrapped.push(&Line { number, text: text.to_owned(), ..Line::default() })
            })
            .collect();
        lines.extend(wrapped.finish());
        let seen: Vec<_> = lines.iter().map(|line| (line.number, line.text.as_str())).collect();
        assert_eq!(
            seen,
            [
                (
                    1,
                    "Memory cgroup out of memory: Killed process 94 (test) total-vm:8kB, anon-rss:30kB, file-rss:1kB"
                ),
                (4, "Killed process 7 (a) total-vm:8kB"),
                (5, "next"),
                (6, "Out of memory: Kill process 9 (b) score 8 or sacrifice child"),
            ]
        );
    }
}
