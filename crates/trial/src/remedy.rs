//! What a trial says of a remedy.

use serde::Serialize;

/// What became of a remedy in its trial.
#[derive(Clone, Debug, Serialize)]
pub struct Remedy {
    /// Its name.
    pub name: String,
    /// What applies it; null where there is nothing to type.
    pub command: Option<String>,
    /// Whether it helps.
    pub verdict: Verdict,
    /// What it gives; null where that was not judged.
    pub effect: Option<Effect>,
    /// What it costs.
    pub cost: Cost,
    /// How sure that is; null where nothing was judged.
    pub confidence: Option<Confidence>,
    /// Why.
    pub why: String,
}

/// Whether a remedy helps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Larger blocks become free.
    Gains,
    /// It may or may not gain something.
    MayGain,
    /// It gains nothing.
    GainsNothing,
    /// It makes matters worse.
    Worse,
    /// The state does not tell.
    NotJudged,
    /// This kernel does not have it.
    NotHere,
}

/// What a remedy gives.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Effect {
    /// Free blocks by order: a larger one counts as several.
    pub orders: Vec<OrderGain>,
}

/// Free blocks of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct OrderGain {
    /// The order.
    pub order: u8,
    /// Before.
    pub before: u64,
    /// After.
    pub after: Span,
    /// What the remedy changes, at the worst and at the best: what is assumed of the state is the same before and after.
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

/// What a remedy costs. Pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Cost {
    /// Pages that are moved.
    pub moved: Span,
    /// Pages of the page cache that are lost.
    pub dropped: u64,
    /// Pages that are kept free from now on.
    pub kept_free: u64,
}

/// How sure a trial is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Much was assumed.
    Low,
    /// Some was assumed.
    Medium,
    /// The bounds are close, and what they rest on was read.
    High,
}

impl Span {
    /// Makes a span of two numbers in any order.
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
