//! Rows of tables in `/proc` and of `slabtop` that mail broke in two.

use crate::log::Line;

/// The least number of orders in a line of `/proc/buddyinfo`.
pub(super) const ORDERS: usize = 9;
/// The columns of a row of `slabtop`, and the least of them before a break.
const COLUMNS: usize = 8;
const BEFORE: usize = 4;

/// Joins such rows.
#[derive(Default)]
pub(super) struct Rows(Option<Line>);

impl Rows {
    /// Returns the row that a line completes, or the line itself; `None` if its rest follows.
    pub(super) fn push(&mut self, line: &Line) -> Option<Line> {
        let mut row = line.clone();
        if let Some(first) = self.0.take()
            && line.number == first.number + 1
        {
            let joined = [first.text.trim_end(), line.text.trim_start()].join(" ");
            if completes(&first.text, &line.text) {
                row = Line { text: joined, ..first };
            }
        }
        if is_cut(&row.text) {
            self.0 = Some(row);
            return None;
        }
        Some(row)
    }
}

/// Returns whether a line is the beginning of a row.
fn is_cut(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["Node", _, "zone", _, "type", _, ref blocks @ ..]
        | ["Node", _, "zone", _, ref blocks @ ..] => {
            !blocks.is_empty() && blocks.len() < ORDERS && blocks.iter().all(|word| is_number(word))
        }
        [objects, active, used, size, ..] => {
            (BEFORE..COLUMNS).contains(&words.len())
                && is_number(objects)
                && is_number(active)
                && used.ends_with('%')
                && size.ends_with('K')
        }
        _ => false,
    }
}

/// Returns whether a line is the rest of a row.
fn completes(first: &str, text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    if first.contains("zone") {
        return !words.is_empty() && words.iter().all(|word| is_number(word));
    }
    let name = words.last().is_some_and(|name| !is_number(name) && !name.ends_with('K'));
    name && first.split_whitespace().count() + words.len() == COLUMNS
}

fn is_number(word: &str) -> bool {
    let word = word.trim_start_matches('>');
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_rows_are_joined_and_others_stay() {
        let text = "Node 0, zone      DMA      0      1      0      0      2\n  1      1      0      1      1      3\n\
                    99 90  0%    1.00K           77\n 32            2464K     inode\n\
                    80 80 100%    0.06K 12       64   768K\niova\n\
                    Node 0, zone   Normal\n8 8 8\n12 11 10% 0.19K 3\nuptime\n";
        let mut rows = Rows::default();
        let read = (1..).zip(text.lines()).filter_map(|(number, text)| {
            let line = Line { number, text: text.to_owned(), ..Line::default() };
            rows.push(&line)
        });
        let read: Vec<(usize, Vec<String>)> = read
            .map(|line| (line.number, line.text.split_whitespace().map(str::to_owned).collect()))
            .collect();
        let joined: Vec<String> = read.iter().map(|(_, words)| words.join(" ")).collect();
        assert_eq!(
            joined,
            [
                "Node 0, zone DMA 0 1 0 0 2 1 1 0 1 1 3",
                "99 90 0% 1.00K 77 32 2464K inode",
                "80 80 100% 0.06K 12 64 768K iova",
                "Node 0, zone Normal",
                "8 8 8",
                "uptime",
            ]
        );
        assert_eq!((read[0].0, read[1].0), (1, 3));
    }
}
