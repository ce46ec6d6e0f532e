//! The result of a remedy's trial.

use serde::Serialize;

/// The outcome of a remedy in its trial.
#[derive(Clone, Debug, Serialize)]
pub struct Remedy {
    /// The remedy's name.
    pub name: String,
    /// The command that applies it; null without one.
    pub command: Option<String>,
    /// Whether it helps.
    pub verdict: Verdict,
    /// The gain; null if that was not judged.
    pub effect: Option<Effect>,
    /// The cost.
    pub cost: Cost,
    /// The confidence in the gain; null if nothing was judged.
    pub confidence: Option<Confidence>,
    /// The reason for the verdict.
    pub why: String,
}

/// Whether a remedy helps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Larger blocks become free.
    Gains,
    /// It may gain something, or nothing.
    MayGain,
    /// It gains nothing.
    GainsNothing,
    /// It makes things worse.
    Worse,
    /// The state does not tell.
    NotJudged,
    /// This kernel does not have it.
    NotHere,
}

/// The gain of a remedy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Effect {
    /// Free blocks by order; a larger block counts as several.
    pub orders: Vec<OrderGain>,
}

/// Free blocks of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct OrderGain {
    /// The order.
    pub order: u8,
    /// The number before the remedy.
    pub before: u64,
    /// The number after it.
    pub after: Span,
    /// The change that the remedy makes, between the worst and the best case. The assumptions are the same before
    /// and after.
    pub change: [i64; 2],
}

/// A number between two bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Span {
    /// At least.
    pub at_least: u64,
    /// At most.
    pub at_most: u64,
}

/// The cost of a remedy, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Cost {
    /// Pages that are moved.
    pub moved: Span,
    /// Pages that the page cache loses.
    pub dropped: u64,
    /// Pages that are kept free from then on.
    pub kept_free: u64,
}

/// The confidence in a trial.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Much was assumed.
    Low,
    /// Some was assumed.
    Medium,
    /// The bounds are close, and their inputs were read.
    High,
}

impl Span {
    /// Returns the span between two numbers in either order.
    #[must_use]
    pub fn of(a: u64, b: u64) -> Self {
        Self { at_least: a.min(b), at_most: a.max(b) }
    }
}

impl Effect {
    /// Returns whether blocks of an order are gained.
    #[must_use]
    pub fn verdict(&self, order: u8) -> Verdict {
        let Some(gain) = self.orders.iter().find(|gain| gain.order == order) else {
            return Verdict::NotJudged;
        };
        let [worst, best] = gain.change;
        match (worst.min(best), worst.max(best)) {
            (1.., _) => Verdict::Gains,
            (_, 1..) => Verdict::MayGain,
            (_, 0) => Verdict::GainsNothing,
            _ => Verdict::Worse,
        }
    }
}
