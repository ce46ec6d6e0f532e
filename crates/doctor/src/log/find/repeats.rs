//! Notices that repeat another, or that led to it.

use super::about::About;
use super::notice::Notice;
use super::words::Told;

/// Removes them.
pub(super) fn remove(found: &mut Vec<Notice>, words: &[Notice]) {
    // A requested kill also makes the driver release pages.
    if found.iter().any(|notice| notice.about == About::Asked) {
        found.retain(|notice| notice.about != About::GpuPurge);
    }
    // systemd repeats for its unit what a program did.
    let is_kill = |notice: &&Notice| matches!(notice.about, About::KilledBy(_));
    let killed = found.iter().filter(is_kill).filter_map(|notice| notice.task.clone());
    let killed: Vec<String> = killed.collect();
    let is_repeated = |notice: &Notice| {
        let unit = notice.task.as_deref().filter(|_| notice.about == About::Node);
        unit.is_some_and(|unit| killed.iter().any(|task| task.ends_with(unit)))
    };
    found.retain(|notice| !is_repeated(notice));
    // ZFS warns about a request that it repeats; a range that fails is skipped for the next one until all have failed.
    let has = |is: fn(&About) -> bool| found.iter().chain(words).any(|notice| is(&notice.about));
    let waits = has(|about| matches!(about, About::Zfs(_)));
    let failed = has(|about| matches!(about, About::Cma(..) | About::Words(Told::Contiguous, _)));
    let has_size = has(|about| matches!(about, About::Swiotlb(1..) | About::SwiotlbSize(_)));
    found.retain(|notice| match notice.about {
        // The form of a title.
        About::Swiotlb(0) => !has_size,
        About::ZfsLarge(_) => !waits,
        About::ContigRange => !failed,
        _ => true,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notices(lines: &[&str]) -> Vec<Notice> {
        let log = lines.join("\n");
        let found = crate::log::read(log.as_bytes(), 99).unwrap().reports;
        let notices = found.into_iter().filter_map(|report| report.notice);
        notices.filter(|notice| !matches!(notice.about, About::Words(..))).collect()
    }

    #[test]
    fn what_led_to_a_failure_is_left_out() {
        let abouts = |lines: &[&str]| {
            notices(lines).into_iter().map(|notice| notice.about).collect::<Vec<_>>()
        };
        let range = "alloc_contig_range: [2f100, 2f20a) PFNs busy";
        assert_eq!(abouts(&[range]), [About::ContigRange]);
        assert_eq!(abouts(&[range, "gpu: failed to allocate buffer with size 1089536"]), []);
        let full = [
            "# v3d: swiotlb buffer is full",
            "v3d: swiotlb buffer is full (sz: 536576 bytes), total 9",
        ];
        assert_eq!(abouts(&full[..1]), [About::Swiotlb(0)]);
        assert_eq!(abouts(&full), [About::SwiotlbSize(536_576)]);
        let zfs =
            ["Large kmem_alloc(44037, 0x0)", "Possible memory allocation deadlock: size=44037"];
        assert_eq!(abouts(&zfs), [About::Zfs(44_037)]);
    }
}
