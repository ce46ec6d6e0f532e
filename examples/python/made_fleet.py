"""Makes a fleet of hosts to try `pageblock fleet` with: copies of two machines of the tests, changed by rule.

    python made_fleet.py FOLDER [HOSTS]

Nothing in it is of a real fleet. Every eighth host runs 5.15 and drops packets; every tenth is fragmented; one has slab that grew; one has a
killed task in a rotated log; two are damaged, one is an archive.
"""

import gzip
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "crates/doctor/tests"
KERNELS = ["6.1.0-28-amd64", "6.12.9-amd64", "6.1.0-28-amd64", "6.18.2"]
BURST = ROOT / "reports/4.12-order-0-used-up.txt"


def host(folder: Path, number: int) -> None:
    """Makes one host."""
    shutil.copytree(ROOT / "machines/6.18-24g", folder)
    kernel = "5.15.0-101-generic" if number % 8 == 5 else KERNELS[number % len(KERNELS)]
    (folder / "proc/version").write_text(f"Linux version {kernel} (made) #1 SMP\n")
    (folder / "etc").mkdir()
    (folder / "etc/hostname").write_text(f"{folder.name}\n")
    (folder / "proc/uptime").write_text(f"{86400 + 3600 * number}.00 1.00\n")
    logs = folder / "var/log"
    logs.mkdir(parents=True)
    (logs / "dmesg").write_text("[    1.0] booted\n")
    if number % 8 == 5:
        (logs / "kern.log").write_text(BURST.read_text(errors="replace"))
    if number % 10 == 3:
        lists = (folder / "proc/buddyinfo").read_text().splitlines()
        cut = [" ".join(line.split()[:4] + [str(50_000 - number), "9000", "800"] + ["0"] * 8) for line in lists]
        (folder / "proc/buddyinfo").write_text("\n".join(cut) + "\n")
    if number == 42:
        meminfo = (folder / "proc/meminfo").read_text().splitlines()
        grown = ["SUnreclaim: 15728640 kB" if line.startswith("SUnreclaim") else line for line in meminfo]
        (folder / "proc/meminfo").write_text("\n".join(grown) + "\n")
    if number == 77:
        line = "Nov 20 03:12:44 made kernel: Out of memory: Killed process 4242 (java) total-vm:9kB, anon-rss:1kB\n"
        (logs / "kern.log.2.gz").write_bytes(gzip.compress(line.encode()))


def fleet(folder: Path, hosts: int = 200) -> None:
    """Makes a fleet."""
    folder.mkdir(parents=True)
    for number in range(hosts - 3):
        host(folder / f"host-{number:03}", number)
    (folder / f"host-{hosts - 3:03}.ring").write_bytes(b"PBFLIGHT, and then nothing")
    (folder / f"host-{hosts - 2:03}").mkdir()
    (folder / f"host-{hosts - 1:03}.zip").write_bytes(b"PK\x03\x04")


if __name__ == "__main__":
    fleet(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
