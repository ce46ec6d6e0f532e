//! The first stage: removes what terminals, loggers, mail and web pages put around a log.

use std::sync::LazyLock;

use regex::Regex;

mod logger;
mod markup;
mod prefix;
mod stamp;
mod utf;

pub(super) use self::logger::{Logger, REALTIME};
pub use self::prefix::Prefix;
pub use self::stamp::{Date, Moment, Stamp};
pub(super) use self::utf::Utf8;
use super::Line;

/// Turns pieces of a log into the kernel's lines.
#[derive(Default)]
pub(super) struct Unwrapper {
    logger: Logger,
}

impl Unwrapper {
    /// Returns the lines in a piece of a log as the kernel printed them. A newline that syslog wrote as `#012` or `\x0a`, that
    /// was escaped or became a break of HTML, parts lines too; so does the time of a line that was joined to another.
    pub(super) fn lines(&mut self, number: usize, piece: &str) -> Vec<Line> {
        let Some(piece) = self.logger.message(piece) else { return Vec::new() };
        let piece = markup::plain(piece);
        // Programs for mail keep columns apart by them.
        let piece = piece.replace('\u{a0}', " ");
        let piece = piece.replace("#012", "\n").replace(r"\x0a", "\n");
        let line = |text: &str| {
            let (prefix, text) = prefix::split(text);
            Line { number, text: with_offset(text.trim_end()), prefix: Prefix(prefix.to_owned()) }
        };
        piece.split('\n').flat_map(prefix::parted).map(line).collect()
    }
}

/// A frame as `decode_stacktrace.sh` prints it: the place in the source instead of the offset.
static DECODED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(\s*(?:\? )?[A-Za-z_][\w.]*) \([\w./-]+\.[chS]:\d+[^)]*(?:\([^)]*\)[^)]*)*\)(?: \[?([\w-]+)\]?)?$")
        .expect("the pattern is valid")
});

/// Returns a line as the kernel printed it: a frame with an offset.
fn with_offset(text: &str) -> String {
    // A search for a text costs a tenth of a pattern.
    let is_decoded = text.contains(".c:") || text.contains(".h:");
    match is_decoded.then(|| DECODED.captures(text)).flatten() {
        Some(found) => {
            let module = found.get(2).map_or(String::new(), |name| format!(" [{}]", name.as_str()));
            format!("{}+0x0/0x0{module}", &found[1])
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unwrapped(piece: &str) -> Vec<String> {
        let lines = Unwrapper::default().lines(1, piece);
        lines.into_iter().map(|line| line.text.trim().to_owned()).collect()
    }

    /// Every way in which a line was found to be wrapped, and the line.
    #[test]
    fn lines_are_as_the_kernel_printed_them() {
        for wrapped in [
            "Mem-Info:",
            "[ 1.0]\u{a0}\u{a0}Mem-Info:",
            "\tMem-Info:",
            "[   72.087057] Mem-Info:",
            "<4>[   72.087057] Mem-Info:",
            "[   72.087057][ T1234] Mem-Info:",
            "[   72.087057,2] Mem-Info:",
            "[   72.087057 <    0.000001>] Mem-Info:",
            "[Mon Apr 20 15:08:07 2020] Mem-Info:",
            "[May26 14:03] Mem-Info:",
            "[  +1.130923] Mem-Info:",
            "[3:  binder:99] Mem-Info:",
            "<4>[   72.087057] I[2:           Xorg:  612] Mem-Info:",
            "[  174.391002]  (1)[10406:mosdns]Mem-Info:",
            "<4>[  174.391002]-(1)[10406:mosdns]Mem-Info:",
            "Feb  9 08:09:39 prod-server kernel: Mem-Info:",
            "Jun 15 12:08:50 fstest kernel: [ 5061.330805] Mem-Info:",
            "Okt 15 12:08:50.123456 fstest WARNING kernel: [ 5061.330805] Mem-Info:",
            "2024-01-31T10:11:12.123456+01:00 host kernel: Mem-Info:",
            "2024-01-31T10:11:12.123456+01:00 host kernel - - - Mem-Info:",
            "<4>1 2024-01-31T10:11:12.123456+01:00 host kernel - - [x@1 a=\"b\"] [ 1.0] Mem-Info:",
            "2024-01-31T10:11:12,123456+01:00 Mem-Info:",
            "2024-01-31T10:11:12.123Z stderr F [ 1.0] Mem-Info:",
            "2024-01-31T10:11:12.123Z| vcpu-0| [ 1.0] Mem-Info:",
            "Wed 2024-01-31 10:11:12 CET host kernel: Mem-Info:",
            "1604826001.123456 host kernel: Mem-Info:",
            "[   72.087057] host kernel: Mem-Info:",
            "[   72.087057] kernel: Mem-Info:",
            "Sun Jun  6 16:14:57 2021 kern.warn kernel: [  164.06] Mem-Info:",
            "kern  :warn  : [   38.984654] Mem-Info:",
            "> kern  :warn  : [   38.984654] Mem-Info:",
            ">>> [   30.370084] Mem-Info:",
            "    > [   30.370084] Mem-Info:",
            "+[   30.370084] Mem-Info:",
            "| [   30.370084] Mem-Info:",
            "bq. [   30.370084] Mem-Info:",
            "11-08 10:00:01.001     0     0 W         : Mem-Info:",
            "11-08 10:00:01.001  root     0     0 E KERNEL  : [ 5061.33] Mem-Info:",
            "W/KERNEL  (    0): [ 5061.33] Mem-Info:",
            "120:Nov  8 10:00:01 host kernel: [ 1.0] Mem-Info:",
            "120-[ 1.000000] Mem-Info:",
            "> 120 [ 1.000000] Mem-Info:",
            "   120\t[ 1.000000] Mem-Info:",
            "[Di Aug 12 03:54:03 2025] Mem-Info:",
            "[mar. août 12 03:54:03 2025] Mem-Info:",
            "[二  8月 12 03:54:03 2025] Mem-Info:",
            "août 12 03:54:03 host kernel: Mem-Info:",
            "8月 12 03:54:03 host kernel: Mem-Info:",
            "2024-01-31T10:11:12.123Z In(05) vcpu-5 - Guest: <6>[ 1.0] Mem-Info:",
            "/var/log/kern.log.1:Nov  8 10:00:01 host kernel: [ 1.0] Mem-Info:",
            "var/log/kern.log:120:Nov  8 10:00:01 host kernel: [ 1.0] Mem-Info:",
            "messages-20240101:Nov  8 10:00:01 host kernel: Mem-Info:",
            "logger-1  | [ 1.0] Mem-Info:",
            "(d12) [ 1.0] Mem-Info:",
            "    MESSAGE=Mem-Info:",
            "06:16:18 kernel: [58632.865465] Mem-Info:",
            "kernel:[58632.865465] Mem-Info:",
            "Dec 27 09:19:05 2013 kernel: [277622.359064] Mem-Info:",
            "10.0.0.5 [ 1.0] Mem-Info:",
            "10.0.0.5 4,1202,174391002,-,caller=T1;Mem-Info:",
            "4,1202,174391002,-;Mem-Info:",
            "            Xorg-612   [002] .... 1234.567802: console: [ 1.0] Mem-Info:",
            "1714558272123,\"[ 1.0] Mem-Info:",
            r#"{"log": "[ 1.0] Mem-Info:\n", "stream": "stdout"}"#,
            "\x1b[32m[ 1.0] \x1b[0m\x1b[33m Mem-Info:\x1b[0m",
            "<span class=\"t\">[ 1.0]</span> Mem-Info:",
            "&gt; [ 1.0]&nbsp;Mem-Info&#58;",
        ] {
            assert_eq!(unwrapped(wrapped)[0], "Mem-Info:", "{wrapped}");
        }
    }

    /// Texts of the kernel that look like a prefix.
    #[test]
    fn lines_of_the_kernel_stay_whole() {
        for line in [
            "[  62685]     0 62685     2925      679    65536        0          -998 bash",
            "Node 0 DMA: 1*4kB (U) 0*8kB = 4kB",
            "0 pages HighMem/MovableOnly",
            "10:16:1 tail",
            "9387 total pagecache pages",
            "kworker/u8:0    D    0     5      2 0x00000000",
            "XFS: runc:[1:CHILD](3580) possible memory allocation deadlock",
        ] {
            assert_eq!(unwrapped(line), [line]);
            assert_eq!(unwrapped(&format!("[   30.370084] {line}")), [line]);
        }
    }

    #[test]
    fn frames_with_a_place_in_the_source_are_frames() {
        for (decoded, frame) in [
            (
                "[ 1.5] ? mem_cgroup_out_of_memory (mm/memcontrol.c:1654) ",
                "? mem_cgroup_out_of_memory+0x0/0x0",
            ),
            ("dump (lib/dump_stack.c:123 (discriminator 1))", "dump+0x0/0x0"),
            ("xfs_map (fs/xfs/xfs_aops.c:9 ./a.h:4) xfs", "xfs_map+0x0/0x0 [xfs]"),
            ("at dump (lib/dump_stack.c:123)", "at dump (lib/dump_stack.c:123)"),
        ] {
            assert_eq!(unwrapped(decoded), [frame]);
        }
    }

    #[test]
    fn lines_that_were_joined_are_parted() {
        for (joined, lines) in [
            ("a#012 b", &["a", "b"][..]),
            (r"a\x0a b", &["a", "b"]),
            (r"[ 1.5] a\n[ 2.5] b", &["a", "b"]),
            ("a<br>b<br/>", &["a", "b", ""]),
            ("[    1.500000] a [    2.500000] b[    2.600000] c", &["a", "b", "c"]),
        ] {
            assert_eq!(unwrapped(joined), lines, "{joined}");
        }
    }
}
