//! `pageblock bisect`: which switch did it, and what it refuses.

use crate::{is_documented, prints, refuses};

#[test]
fn switches_are_attributed_and_inert_ones_named() {
    let command = "bisect hugealloc-short linux-6.9 linux-6.10 --scale 1/64 --seeds 2 --measure mismatched-pages";
    let text = prints(command);
    assert!(text.contains("from linux-6.9 to linux-6.10, 2 seeds of each kernel"), "{text}");
    assert!(text.contains(" of 7 switches change no event under 2 seeds: "), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&prints(&format!("{command} --json"))).unwrap();
    is_documented(&json);
    let measure = &json["measures"][0];
    let steps = measure["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 7);
    let added: f64 = steps.iter().map(|step| step["added"]["difference"].as_f64().unwrap()).sum();
    assert!((added - measure["whole"]["difference"].as_f64().unwrap()).abs() < 1e-6, "{measure}");
    for step in steps.iter().filter(|step| step["is_inert"] == true) {
        assert_eq!(step["added"]["difference"], 0.0, "{step}");
        assert!(text.contains(step["change"].as_str().unwrap()));
    }
}

#[test]
fn what_cannot_be_bisected_is_a_line() {
    let scale = "--scale 1/256";
    refuses("bisect nothing linux-6.9 linux-6.10", "error: there is no workload 'nothing'");
    refuses(
        "bisect /nowhere.pbrec linux-6.9 linux-6.10",
        "error: /nowhere.pbrec: there is no such recording",
    );
    refuses(
        &format!("bisect thpfioscale linux-6.9 linux-6.9 {scale}"),
        "error: linux-6.9 and linux-6.9 do not differ in any switch that matters here",
    );
    refuses(
        &format!("bisect thpfioscale linux-6.9 linux-6.10 --seeds 1 {scale}"),
        "error: --seeds 1: one draw cannot tell an effect from chance",
    );
    refuses(
        &format!("bisect thpfioscale linux-6.9 linux-6.10 --measure speed {scale}"),
        "error: --measure 'speed' is not one of ",
    );
    // An event is a block under one of them and a page under the other.
    refuses(
        &format!("bisect thpfioscale linux-6.9 linux-6.10 --measure unmovable-fallbacks {scale}"),
        "error: --measure 'unmovable-fallbacks': an event is a block before Linux 6.10",
    );
    refuses("bisect src linux-6.9 linux-6.10 --scale 1/2", "error: --scale is for workloads");
    refuses(
        "bisect Cargo.toml linux-6.9 linux-6.10",
        "error: Cargo.toml: line 1: `name` is missing",
    );
}
