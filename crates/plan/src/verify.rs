//! Guided replay of a recording.

use pageblock::policy::Policy;
use pageblock_measure::Verification;
use pageblock_replay::VerifyOptions;

use crate::error::Result;
use crate::session::Session;

/// Verifies an opened recording under a policy; keeps so many mismatches.
///
/// # Errors
/// If the recording cannot be read.
pub fn verify(
    session: &Session,
    name: &str,
    policy: &Policy,
    mismatches: usize,
) -> Result<Verification> {
    let bar = session.watch.bar("verifying", 0, "events");
    let options = VerifyOptions { mismatches, ..VerifyOptions::default() };
    let Session { recording, columnar, .. } = session;
    let result = pageblock_replay::verify(
        recording,
        columnar,
        policy,
        name,
        options,
        &mut |done, total| {
            bar.resize(total);
            bar.set(done);
        },
    )?;
    Ok(result)
}
