//! QEMU: which one, what it can do, and its command line for a guest.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pageblock_recording::KernelVersion;
use pageblock_simulate::sim::disk::DiskSpec;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::hardware::Hardware;

/// The emulator's name.
const NAME: &str = "qemu-system-x86_64";
/// The guest kernel's command line. An emulator whose host is busy fails the kernel's test of its timer, which is a panic.
const KERNEL_LINE: &str = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off no_timer_check";
/// The first version whose emulation of CPUs keeps the memory of a kernel from 6.12 on intact.
const SOUND: u32 = 8;
/// The kernel from which on an older one damages it.
const DAMAGED: (u16, u16) = (6, 12);

/// The CPU to emulate. Kernels clear and copy pages by single bytes where a CPU is quick at it, which emulation is not: it runs 4,096
/// instructions a page. By words it runs 512, about the nanoseconds that a CPU takes.
const EMULATED_CPU: &str = "max,-erms,-fsrm";
/// The same where QEMU knows the newer flags: an older one refuses to start with a flag that it does not know.
const EMULATED_CPU_FROM_9: &str = "max,-erms,-fsrm,-fsrs,-fzrm";

/// Who runs the guest's instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// The host's CPU.
    Kvm,
    /// QEMU's emulation, on one thread: CPUs of a guest that wait for each other's locks would cost it several times as long.
    /// The guest has the host's clock.
    Tcg,
    /// The same, and an instruction takes the guest one nanosecond: its time does not depend on the host's speed or on what else runs there.
    Icount,
}

impl Accelerator {
    /// Returns whether QEMU emulates the guest's CPUs.
    #[must_use]
    pub const fn emulates(self) -> bool {
        !matches!(self, Self::Kvm)
    }
}

/// An emulator that was found.
#[derive(Clone, Debug)]
pub struct Qemu {
    /// The program.
    pub program: PathBuf,
    /// The first number of its version.
    pub major: u32,
    /// Its version as it prints it.
    pub version: String,
}

/// The speed of a rotational disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Bytes a second.
    pub bytes_per_s: u64,
    /// Reads a second.
    pub reads_per_s: u64,
}

impl Pace {
    /// Returns the pace of a disk that is slower than the host's memory by far: a read takes milliseconds.
    #[must_use]
    pub fn of(disk: &DiskSpec) -> Option<Self> {
        const ROTATES_NS: u64 = 4_000_000;
        (disk.read_ns >= ROTATES_NS).then(|| Self {
            bytes_per_s: disk.write_bytes_per_s,
            reads_per_s: (disk.read_places as u64 * 1_000_000_000 / disk.read_ns).max(1),
        })
    }
}

/// A guest to be started.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The kernel's image.
    pub image: PathBuf,
    /// The first file system.
    pub initramfs: PathBuf,
    /// The hardware.
    pub hardware: Hardware,
    /// The disks' files, in the order of their names in the guest.
    pub disks: Vec<PathBuf>,
    /// How fast all of them are together; `None` for as fast as they can.
    pub pace: Option<Pace>,
    /// Receives what the kernel prints.
    pub console: PathBuf,
    /// Receives what the guest's program reports.
    pub report: PathBuf,
}

impl Qemu {
    /// Finds QEMU: the given program, or the one on the path.
    ///
    /// # Errors
    /// [`Error::Program`] if there is none.
    pub fn find(given: Option<&Path>) -> Result<Self, Error> {
        let program = given.unwrap_or(Path::new(NAME)).to_owned();
        let output = configured(&program).arg("--version").output().map_err(|error| {
            let hint = if given.is_none() {
                ": install qemu-system-x86, or name one with --qemu"
            } else {
                ""
            };
            Error::Program(format!("{}: {error}{hint}", program.display()))
        })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let why = said
                .lines()
                .next()
                .unwrap_or("it does not run")
                .trim_start_matches("setpriv: ")
                .to_owned();
            let hint = if given.is_none() {
                ": install qemu-system-x86, or name one with --qemu"
            } else {
                ""
            };
            return Err(Error::Program(format!("{why}{hint}")));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split_whitespace().skip_while(|word| *word != "version").nth(1);
        let number = version.and_then(|version| version.split('.').next()?.parse().ok());
        match version.zip(number) {
            Some((version, major)) => {
                Ok(Self { major, version: version.to_owned(), program: program.clone() })
            }
            None => Err(Error::Program(format!(
                "{}: it does not say which version of QEMU it is",
                program.display()
            ))),
        }
    }

    /// Checks that a kernel survives it.
    ///
    /// # Errors
    /// [`Error::Program`] for an emulation that damages the kernel's memory.
    pub fn check(&self, accelerator: Accelerator, kernel: &KernelVersion) -> Result<(), Error> {
        if accelerator == Accelerator::Kvm
            || self.major >= SOUND
            || !kernel.at_least(DAMAGED.0, DAMAGED.1)
        {
            return Ok(());
        }
        Err(Error::Program(format!(
            "QEMU {} without KVM damages the memory of Linux 6.12 and later: --qemu names one from {SOUND}.0 on (this kernel is {kernel})",
            self.version
        )))
    }

    /// Returns how CPUs are emulated where nobody chose: with the host's clock by QEMU up to 7, where a guest of eight CPUs did not end within minutes by
    /// instructions.
    #[must_use]
    pub const fn emulation(&self) -> Accelerator {
        if self.major >= SOUND { Accelerator::Icount } else { Accelerator::Tcg }
    }

    /// Returns the command that starts a guest.
    #[must_use]
    pub fn command(&self, accelerator: Accelerator, guest: &Guest) -> Command {
        let mut command = configured(&self.program);
        let Guest { image, initramfs, hardware, disks, pace, console, report } = guest;
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        match accelerator {
            Accelerator::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
            Accelerator::Tcg | Accelerator::Icount => {
                let cpu = if self.major >= 9 { EMULATED_CPU_FROM_9 } else { EMULATED_CPU };
                command.args(["-accel", "tcg,thread=single", "-cpu", cpu])
            }
        };
        if accelerator == Accelerator::Icount {
            // Idle time passes as the host's does, as disks answer in it.
            command.args(["-icount", "shift=0,sleep=on,align=off"]);
        }
        command
            .arg("-machine")
            .arg(format!("pc,max-ram-below-4g={}M", hardware.low_mib.clamp(16, 3072)));
        command.arg("-m").arg(format!("{}M", hardware.memory_mib()));
        command.arg("-smp").arg(hardware.cpus().to_string());
        if hardware.nodes.len() > 1 {
            let mut cpu = 0;
            for (id, node) in hardware.nodes.iter().enumerate() {
                let size = node.memory_mib;
                command.arg("-object").arg(format!("memory-backend-ram,id=node{id},size={size}M"));
                let last = cpu + node.cpus.max(1) - 1;
                command
                    .arg("-numa")
                    .arg(format!("node,nodeid={id},memdev=node{id},cpus={cpu}-{last}"));
                cpu = last + 1;
            }
        }
        command.arg("-kernel").arg(image).arg("-initrd").arg(initramfs);
        command.args(["-append", KERNEL_LINE]);
        for (id, file) in [("console", console), ("report", report)] {
            let path = file.display().to_string().replace(',', ",,");
            command.arg("-chardev").arg(format!("file,id={id},path={path}"));
            command.arg("-serial").arg(format!("chardev:{id}"));
        }
        let pace = pace.map_or(String::new(), |pace| {
            let Pace { bytes_per_s, reads_per_s } = pace;
            format!(",throttling.group=disk,throttling.bps-total={bytes_per_s},throttling.iops-read={reads_per_s}")
        });
        for disk in disks {
            let path = disk.display().to_string().replace(',', ",,");
            let drive =
                format!("file={path},if=virtio,format=raw,cache=unsafe,discard=unmap{pace}");
            command.arg("-drive").arg(drive);
        }
        command.stdin(Stdio::null());
        command
    }
}

/// Returns a command that runs QEMU, and ends it where this program ends first. QEMU of an unpacked package finds its files.
fn configured(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    let root = program.to_str().and_then(|path| path.strip_suffix("/usr/bin/qemu-system-x86_64"));
    if let Some(root) = root.filter(|root| !root.is_empty()) {
        for folder in ["usr/share/qemu", "usr/share/seabios"] {
            command.arg("-L").arg(Path::new(root).join(folder));
        }
        command.args(["-L", "/usr/share/seabios"]);
        command.env("QEMU_MODULE_DIR", Path::new(root).join("usr/lib/x86_64-linux-gnu/qemu"));
    }
    command
}

/// Reports whether KVM may be tried: whether it also runs a guest, only a boot shows.
#[must_use]
pub fn may_use_kvm() -> bool {
    File::options().read(true).write(true).open("/dev/kvm").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Node;

    fn qemu(major: u32) -> Qemu {
        Qemu { program: PathBuf::from("q"), major, version: format!("{major}.2.0") }
    }

    #[test]
    fn only_icount_has_a_clock_of_instructions() {
        let guest = Guest {
            image: "kernel".into(),
            initramfs: "initramfs".into(),
            hardware: Hardware {
                nodes: vec![Node { cpus: 2, memory_mib: 640 }],
                low_mib: 640,
                swap_mib: 0,
            },
            disks: Vec::new(),
            pace: None,
            console: "console".into(),
            report: "report".into(),
        };
        let has = |major, accelerator, word: &str| {
            let command = qemu(major).command(accelerator, &guest);
            command.get_args().any(|given| given == word)
        };
        assert!(has(10, Accelerator::Icount, "-icount"));
        assert!(!has(10, Accelerator::Tcg, "-icount") && !has(10, Accelerator::Kvm, "-icount"));
        assert!(
            has(10, Accelerator::Tcg, EMULATED_CPU_FROM_9) && has(10, Accelerator::Kvm, "host")
        );
        let by_default = (qemu(7).emulation(), qemu(10).emulation());
        assert_eq!(by_default, (Accelerator::Tcg, Accelerator::Icount));
        // QEMU 7.2: "Property 'max-x86_64-cpu.fsrs' not found".
        assert!(
            has(7, Accelerator::Tcg, EMULATED_CPU) && has(7, Accelerator::Icount, EMULATED_CPU)
        );
    }

    #[test]
    fn an_old_emulation_is_refused_for_new_kernels_only() {
        let refused = |major, accelerator, kernel| {
            qemu(major).check(accelerator, &KernelVersion::parse(kernel).unwrap()).is_err()
        };
        assert!(refused(7, Accelerator::Tcg, "6.12.95"));
        assert!(!refused(7, Accelerator::Tcg, "6.1.192"));
        assert!(!refused(7, Accelerator::Kvm, "6.12.95"));
        assert!(!refused(10, Accelerator::Tcg, "6.12.95"));
    }
}
