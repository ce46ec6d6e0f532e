//! Claims, pollutions and steals as text.

use pageblock::mobility::Migratetype;
use pageblock_measure::Harm;

use crate::opened::Opened;

pub(super) fn text(run: &Opened) -> String {
    let types = Migratetype::REQUESTABLE;
    let mut text = String::new();
    for harm in Harm::ALL {
        let counts = run.history.fallbacks.iter().filter(|row| row.effect == harm.name());
        let counts: Vec<_> = counts.collect();
        text += &format!("{}: pageblocks taken from (events)\n{:<14}", harm.name(), "asked | from");
        for from in types {
            text += &format!("{:>19}", from.name());
        }
        text.push('\n');
        for requested in types {
            let mut line = format!("{:<14}", requested.name());
            for from in types {
                let found =
                    counts.iter().find(|row| row.requested == requested && row.from == from);
                let cell =
                    found.map_or("0".to_owned(), |row| format!("{} ({})", row.blocks, row.events));
                line += &format!("{:>19}", if requested == from { "" } else { &cell });
            }
            text += line.trim_end();
            text.push('\n');
        }
        let of = |mt: &Migratetype| types.contains(mt);
        let others = counts.iter().filter(|row| !of(&row.requested) || !of(&row.from));
        let others: u64 = others.map(|row| row.events).sum();
        if others > 0 {
            text += &format!("{others} more events of other types\n");
        }
    }
    text
}
