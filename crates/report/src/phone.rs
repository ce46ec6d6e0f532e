//! Phones at the end of their use, laid out as seed 5 has them.

use pageblock_measure::phone::{ORDERS, Phone, TYPES};

/// Prints each; nothing without one.
#[must_use]
pub fn print(phones: &[Phone]) -> String {
    phones.iter().map(one).collect()
}

fn one(phone: &Phone) -> String {
    let mut text = format!(
        "{} (simulated)\n------ MEMORY INFO (/proc/meminfo) ------\nMemFree: {:.0} kB\nCached: {:.0} kB\n\
         ------ PAGETYPEINFO (/proc/pagetypeinfo) ------\n{:<43} ",
        phone.policy,
        phone.mem_free_kb,
        phone.cached_kb,
        "Free pages count per migrate type at order"
    );
    text += &ORDERS.map(|order| format!("{order:6} ")).collect::<String>();
    for (mt, free) in TYPES.iter().zip(&phone.free_blocks) {
        text = format!("{}\nNode    0, zone      DMA, type {:>12} ", text.trim_end(), mt.name());
        text += &free.iter().map(|blocks| format!("{blocks:6.0} ")).collect::<String>();
    }
    text = format!("{}\n\n{:<23}", text.trim_end(), "Number of blocks type");
    text += &TYPES.map(|mt| format!("{:>12} ", mt.name())).concat();
    text = format!("{}\nNode 0, zone      DMA ", text.trim_end());
    text += &phone.blocks.iter().map(|blocks| format!("{blocks:12.0} ")).collect::<String>();
    text = format!("{}\n------ VIRTUAL MEMORY STATS (/proc/vmstat) ------\n", text.trim_end());
    for (name, count) in &phone.counters {
        text += &format!("{name} {count:.0}\n");
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_seeds() {
        let phone = Phone {
            policy: "linux-3.10".into(),
            mem_free_kb: 194_524.0,
            cached_kb: 380_872.0,
            free_blocks: vec![vec![43_852.0, 701.0, 0.0, 0.0, 0.0]; 6],
            blocks: vec![362.0, 80.0, 170.0, 2.0, 113.0, 0.0],
            counters: vec![("allocstall_order_2".into(), 637_608.0)],
        };
        let text = print(&[phone]);
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
        assert_eq!(print(&[]), "");
    }
}
