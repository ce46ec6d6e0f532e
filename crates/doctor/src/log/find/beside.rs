//! Numbers that belong to a notice: what its line measures, fields of `/proc/meminfo` that were pasted beside it, and the unit that
//! systemd-oomd would kill first.

use super::about::About;
use super::notice::Notice;
use super::words::Told;

/// What lines of systemd-oomd contain. Fields of `/proc/meminfo` without a unit are only read at the beginning of a text.
const OF_OOMD: &str = "systemd-oomd[";
/// The fields of `/proc/meminfo`, and what they are about.
const FIELDS: [(&str, Of); 5] = [
    ("HugePages_", Of::Huge),
    ("CmaTotal", Of::Cma),
    ("CmaFree", Of::Cma),
    ("CommitLimit", Of::Commit),
    ("Committed_AS", Of::Commit),
];
/// The largest number of such fields that are kept.
const MOST: usize = 8;
/// What systemd-oomd prints of a unit that it may kill.
const CANDIDATE: [&str; 4] = ["Path: ", "Swap Usage: ", "Current Memory Usage: ", "Avg10: "];
/// What is measured is kept up to this length, in bytes.
const LENGTH: usize = 200;

/// What fields of `/proc/meminfo` are about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Huge,
    Cma,
    Commit,
}

impl Of {
    /// Returns whether such fields tell more of a subject.
    const fn is_of(self, about: &About) -> bool {
        matches!(
            (self, about),
            (Self::Huge, About::Hugetlb(..) | About::Words(Told::HugePages, _))
                | (Self::Cma, About::Cma(..) | About::Words(Told::Contiguous | Told::Driver, _))
                | (
                    Self::Commit,
                    About::Overcommit(_)
                        | About::Words(Told::Refused | Told::Fork | Told::Guest, _)
                )
        )
    }
}

/// Reads them.
#[derive(Default)]
pub(super) struct Beside {
    fields: Vec<(Of, String)>,
    /// A second unit was named that systemd-oomd may kill.
    has_other: bool,
}

impl Beside {
    /// Reads a line, which may tell more of what was found before it.
    pub(super) fn push(&mut self, text: &str, found: &mut [Notice]) {
        if let Some((_, said)) = text.split_once(OF_OOMD) {
            return self.candidate(said, found);
        }
        let Some((name, number)) = text.trim().split_once(':') else { return };
        let name = name.rsplit(' ').next().unwrap_or(name);
        let known = FIELDS.iter().find(|(prefix, _)| name.starts_with(prefix));
        let number = number.trim();
        let is_number = number.starts_with(|first: char| first.is_ascii_digit());
        if let Some((_, of)) = known.filter(|_| is_number && self.fields.len() < MOST) {
            self.fields.push((*of, format!("{name} {number}")));
        }
    }

    /// Reads a line of systemd-oomd about the first of the units that it may kill.
    fn candidate(&mut self, said: &str, found: &mut [Notice]) {
        let of_oomd = |notice: &&mut Notice| matches!(&notice.about, About::KilledBy(by) if by == "systemd-oomd");
        let Some(notice) = found.iter_mut().rfind(of_oomd) else { return };
        let Some(at) = CANDIDATE.iter().find_map(|key| said.find(key)) else { return };
        let known = notice.numbers.as_deref().unwrap_or_default();
        self.has_other |= known.contains(CANDIDATE[0]) && said.contains(CANDIDATE[0]);
        if !self.has_other {
            add(&mut notice.numbers, said[at..].trim());
        }
    }

    /// Adds the fields that tell more of a notice.
    pub(super) fn add_to(&self, notice: &mut Notice) {
        // Whoever pastes these fields was refused memory of theirs.
        if let About::Words(told @ Told::Refused, _) = &mut notice.about
            && self.fields.iter().any(|(of, _)| *of == Of::Cma)
        {
            *told = Told::Contiguous;
        }
        let fields = self.fields.iter().filter(|(of, _)| of.is_of(&notice.about));
        let fields: Vec<&str> = fields.map(|(_, field)| field.as_str()).collect();
        if !fields.is_empty() {
            notice.numbers = Some(fields.join(", "));
        }
    }
}

/// Adds what the line of a notice measures. That of a second kill is another's, unless a unit was named that may be killed.
pub(super) fn measure(notice: &mut Notice, numbers: &str) {
    if notice.numbers.as_ref().is_none_or(|known| known.starts_with(CANDIDATE[0])) {
        add(&mut notice.numbers, numbers);
    }
}

fn add(to: &mut Option<String>, numbers: &str) {
    let known = to.get_or_insert_default();
    if known.is_empty() {
        numbers.clone_into(known);
    } else if !known.contains(numbers) && known.len() < LENGTH {
        *known = format!("{known}; {numbers}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notices(lines: &[&str]) -> Vec<Notice> {
        let log = lines.join("\n");
        let found = crate::log::read(log.as_bytes(), 99).unwrap().reports;
        found.into_iter().filter_map(|report| report.notice).collect()
    }

    #[test]
    fn a_kill_has_its_numbers_and_counts_once() {
        let found = notices(&[
            "low memory! at or below SIGTERM limits: mem 10.00%, swap 15.00%",
            "sending SIGTERM to process 7 uid 1 \"db\": badness 757, VmRSS 637 MiB",
            "sending SIGTERM to process 9 uid 1 \"app\": badness 7, VmRSS 37 MiB",
        ]);
        let seen: Vec<_> = found.iter().map(|n| (n.count, n.task.as_deref())).collect();
        assert_eq!(seen, [(2, Some("db"))]);
        assert_eq!(found[0].numbers.as_deref(), Some("VmRSS 637 MiB"));
    }

    #[test]
    fn fields_beside_words_are_quoted() {
        let found = notices(&[
            "HugePages_Total:    64",
            "EAL: Not enough free hugepages",
            "HugePages_Free:  0",
        ]);
        assert_eq!(found[0].numbers.as_deref(), Some("HugePages_Total 64, HugePages_Free 0"));
        let found = notices(&["OSError: [Errno 12] Cannot allocate memory", "CmaFree: 9 kB"]);
        assert!(matches!(found[0].about, About::Words(Told::Contiguous, _)), "{found:?}");
        assert_eq!(found[0].numbers.as_deref(), Some("CmaFree 9 kB"));
    }

    #[test]
    fn the_first_candidate_of_systemd_oomd_is_quoted() {
        let found = notices(&[
            "systemd-oomd[8]: Considered 2 cgroups for killing, top candidates were:",
            "systemd-oomd[8]:     Path: /a/b.scope",
            "systemd-oomd[8]:         Swap Usage: 20.9G",
            "systemd-oomd[8]:     Path: /c.scope",
            "systemd-oomd[8]:         Swap Usage: 1.0G",
            "systemd-oomd[8]: Marked /a/b.scope for killing",
            "systemd[1]: b.scope: Failed with result 'oom-kill'.",
        ]);
        assert_eq!((found.len(), found[0].task.as_deref()), (1, Some("/a/b.scope")));
        assert_eq!(found[0].numbers.as_deref(), Some("Path: /a/b.scope; Swap Usage: 20.9G"));
    }
}
