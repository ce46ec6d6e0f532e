//! Free memory by order as text.

use super::{bar, time};
use crate::opened::Opened;

pub(super) fn text(run: &Opened, share: f64) -> String {
    let sample = run.at(share);
    let free = run.free_blocks(sample);
    let mib = |(order, blocks): (usize, &u64)| ((blocks << order) as f64) * 4.0 / 1024.0;
    let most = free.iter().enumerate().map(mib).fold(0.0, f64::max);
    let mut text = format!(
        "free memory by order at {}\norder      blocks       MiB  unusable\n",
        time(run.history.times_us[sample])
    );
    for (order, blocks) in free.iter().enumerate() {
        let unusable = run
            .unusable(sample, order as u8)
            .map_or("-".to_owned(), |share| format!("{share:.0} %"));
        let mib = mib((order, blocks));
        let bar = bar(mib, most, 32);
        text += format!("{order:>5} {blocks:>11} {mib:>9.1} {unusable:>9} {bar}").trim_end();
        text.push('\n');
    }
    text
}
