//! Random kernels: a preset, and random values of some switches. Under them every run has to end, and to lose no page.

use pageblock::policy::Values;
use pageblock_kernel::preset::PRESETS;
use pageblock_kernel::{Named, Switch};
use pageblock_simulate::sim::world::Random;
use serde::{Deserialize, Serialize};

/// The purpose that separates this stream of random numbers from those of simulations.
const PURPOSE: u64 = 0x5eed;

/// The largest random value of switches in kilobytes: 4 GiB. Values beyond a machine's memory are refused.
const KBYTES_MAX: u32 = 4 << 20;

/// The number of a grid's random kernels, and their seed.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RandomKernels {
    pub(super) kernels: u64,
    #[serde(default = "first")]
    seed: u64,
}

const fn first() -> u64 {
    1
}

impl RandomKernels {
    /// Returns the kernels.
    pub(super) fn all(self) -> impl Iterator<Item = String> {
        (0..self.kernels).map(move |number| kernel(self.seed, number))
    }
}

/// Returns the kernel with this number among those of a seed, as `pageblock run --policy` takes it.
fn kernel(seed: u64, number: u64) -> String {
    let mut random = Random::new(seed, PURPOSE.wrapping_add(number));
    let mut text = PRESETS[random.below(PRESETS.len() as u64) as usize].name.to_owned();
    let switches = Switch::all().count() as u64;
    // One switch, a few, half of them, or all.
    let share = [1, 4, switches / 2, switches][random.below(4) as usize];
    for switch in Switch::all() {
        if random.below(switches) < share {
            text += &format!(",{}={}", switch.name(), value(switch, &mut random));
        }
    }
    // Its last value is not for every kernel.
    if Named::parse(&text).is_err() {
        text.replace("placement=packed", "placement=linux")
    } else {
        text
    }
}

fn value(switch: Switch, random: &mut Random) -> String {
    match switch.about().values {
        Values::Choices(choices) => {
            choices[random.below(choices.len() as u64) as usize].name.to_owned()
        }
        Values::Number { min, max } => {
            let kbytes = switch.name().ends_with("free_kbytes");
            let max = if kbytes { max.min(KBYTES_MAX) } else { max };
            number(min, max, random).to_string()
        }
    }
}

/// Returns an end of the range, or a number of random magnitude in it.
fn number(min: u32, max: u32, random: &mut Random) -> u32 {
    match random.below(8) {
        0 => min,
        1 => max,
        _ => {
            let span = u64::from(max - min) + 1;
            let bits = random.below(u64::from(span.ilog2()) + 1);
            let up_to = (2u64 << bits).min(span);
            min + random.below(up_to) as u32
        }
    }
}
