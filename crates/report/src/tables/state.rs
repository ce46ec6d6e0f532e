//! The state of a machine at the end, in the layout in which a bug report quotes the files of `/proc`.

use pageblock_measure::tables::state::{State, States};

/// Prints the state under each policy.
#[must_use]
pub(super) fn print(states: &States) -> String {
    states.states.iter().map(|state| one(states, state)).collect()
}

fn one(States { zone, types, .. }: &States, state: &State) -> String {
    let orders = state.free_blocks.iter().map(Vec::len).max().unwrap_or(0);
    let mut text = format!(
        "{} ({})\n------ MEMORY INFO (/proc/meminfo) ------\nMemFree: {:.0} kB\nCached: {:.0} kB\n\
         ------ PAGETYPEINFO (/proc/pagetypeinfo) ------\n{:<43} ",
        state.policy,
        state.origin,
        state.mem_free_kb,
        state.cached_kb,
        "Free pages count per migrate type at order"
    );
    text += &(0..orders).map(|order| format!("{order:6} ")).collect::<String>();
    for (mt, free) in types.iter().zip(&state.free_blocks) {
        text = format!("{}\nNode    0, zone {zone:>8}, type {:>12} ", text.trim_end(), mt.0.name());
        text += &free.iter().map(|blocks| format!("{blocks:6.0} ")).collect::<String>();
    }
    text = format!("{}\n\n{:<23}", text.trim_end(), "Number of blocks type");
    text += &types.iter().map(|mt| format!("{:>12} ", mt.0.name())).collect::<String>();
    text = format!("{}\nNode 0, zone {zone:>8} ", text.trim_end());
    text += &state.blocks.iter().map(|blocks| format!("{blocks:12.0} ")).collect::<String>();
    text = format!("{}\n------ VIRTUAL MEMORY STATS (/proc/vmstat) ------\n", text.trim_end());
    for (name, count) in &state.counters {
        text += &format!("{name} {count:.0}\n");
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use pageblock::mobility::Migratetype::{
        Cma, Isolate, Movable, Reclaimable, Reserve, Unmovable,
    };
    use pageblock_measure::run::tables::TypeName;

    use super::*;

    #[test]
    fn the_layout_is_that_of_proc() {
        let state = State {
            policy: "linux-3.10".into(),
            origin: "simulated".into(),
            mem_free_kb: 194_524.0,
            cached_kb: 380_872.0,
            free_blocks: vec![vec![43_852.0, 701.0, 0.0, 0.0, 0.0]; 6],
            blocks: vec![362.0, 80.0, 170.0, 2.0, 113.0, 0.0],
            counters: vec![("allocstall_order_2".into(), 637_608.0)],
        };
        let types = [Unmovable, Reclaimable, Movable, Reserve, Cma, Isolate].map(TypeName).to_vec();
        let text = print(&States { zone: "DMA".into(), types, states: vec![state] });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..2],
            ["linux-3.10 (simulated)", "------ MEMORY INFO (/proc/meminfo) ------"]
        );
        assert!(lines[5].ends_with("at order       0      1      2      3      4"), "{}", lines[5]);
        assert_eq!(
            lines[6],
            "Node    0, zone      DMA, type    Unmovable  43852    701      0      0      0"
        );
        assert!(lines[13].starts_with("Number of blocks type     Unmovable  Reclaimable"));
        assert!(
            lines[14]
                .ends_with(" 362           80          170            2          113            0")
        );
        assert_eq!(lines[16], "allocstall_order_2 637608");
    }
}
