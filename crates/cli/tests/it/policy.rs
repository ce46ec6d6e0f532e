use serde_json::Value;

use crate::{file, is_documented, prints, refuses};

#[test]
fn list_has_a_line_for_every_policy() {
    let text = prints("policy list");
    assert!(
        text.starts_with("policy            what distinguishes it\nlinux-3.10        "),
        "{text}"
    );
    assert!(text.contains("\nlinux-6.10        freelist hygiene: "));
    let list: Value = serde_json::from_str(&prints("policy list --json")).unwrap();
    is_documented(&list);
    assert_eq!(list.as_array().unwrap().len(), text.lines().count() - 1);
    assert_eq!(list[0]["name"], "linux-3.10");
}

#[test]
fn show_has_a_line_for_every_switch() {
    let text = prints("policy show linux-6.12,nofragment=off");
    assert!(text.starts_with("linux-6.12,nofragment=off: "), "{text}");
    assert!(text.contains("\nnofragment                     off  "), "{text}");
    let json = prints("policy show linux-6.12,nofragment=off --json");
    let json: Value = serde_json::from_str(&json).unwrap();
    is_documented(&json);
    assert_eq!(json["base"], "linux-6.12");
    assert_eq!(json["switches"]["nofragment"], "off");
    assert_eq!(json["switches"]["watermark_boost_factor"], 15_000);
    // A heading, an empty line and the table's heading stand above.
    assert_eq!(json["switches"].as_object().unwrap().len(), text.lines().count() - 3);
}

#[test]
fn diff_has_a_line_for_every_change() {
    let text = prints("policy diff linux-4.20 linux-5.0");
    assert_eq!(
        text,
        "switch  linux-4.20  linux-5.0  what it decides\n\
         boost   off         v50        Watermark boost after a fragmenting fallback\n"
    );
    let json: Value =
        serde_json::from_str(&prints("policy diff linux-4.20 linux-5.0 --json")).unwrap();
    is_documented(&json);
    assert_eq!(json["switches"][0]["switch"], "boost");
    assert_eq!(json["switches"][0]["b"], "v50");
    assert_eq!(
        prints("policy diff linux-5.2 linux-5.4"),
        "linux-5.2 and linux-5.4 have the same switches\n"
    );
}

#[test]
fn a_switch_is_set_once() {
    let check = |policy: &str, first: &str, again: &str| {
        refuses(
            &format!("policy show {policy}"),
            &format!("error: '{first}' and '{again}' set the same switch; give it once\n"),
        );
    };
    check("linux-4.20,nofragment=off,nofragment=on", "nofragment=off", "nofragment=on");
    check("linux-4.20,boost=v50,nofragment=on,boost=v50", "boost=v50", "boost=v50");
    // hybrid(3) sets the threshold too.
    let (hybrid, threshold) = ("fallback_pick=hybrid(3)", "hybrid_threshold=4");
    check(&format!("linux-3.10,{hybrid},{threshold}"), hybrid, threshold);
    check(&format!("linux-3.10,{threshold},{hybrid}"), threshold, hybrid);
    refuses(
        "run thpfioscale --scale 1/64 --policy linux-4.20,nofragment=off,nofragment=on",
        "error: 'nofragment=off' and 'nofragment=on' set the same switch",
    );
    let path = file("twice.toml", "base = \"linux-4.20\"\nboost = \"v50\"\nboost = \"off\"\n");
    refuses(
        &format!("policy show {}", path.display()),
        &format!("error: {}: line 3: ", path.display()),
    );
}

#[test]
fn a_policy_file_is_a_policy() {
    let toml = prints("policy show linux-4.20,boost=v50 --toml");
    let path = file("mine.toml", &toml);
    let path = path.display();
    assert_eq!(
        prints(&format!("policy diff linux-5.0 {path}")),
        "linux-5.0 and mine have the same switches\n"
    );
}

#[test]
fn unknown_names_are_answered_with_those_that_exist() {
    refuses("policy show linux-9", "error: unknown policy 'linux-9'; the most similar are linux-");
    refuses(
        "policy show linux-5.0,mood=on",
        "error: unknown switch 'mood' (`pageblock policy show NAME` prints every switch)",
    );
    refuses(
        "policy show linux-5.0,boost=on",
        "error: switch 'boost' has no value 'on'; one of off, v50, v58, v510",
    );
    refuses(
        "policy diff linux-5.0,boost linux-5.0",
        "error: 'boost' is not of the form switch=value",
    );
    refuses("policy show ./none.toml", "error: ./none.toml: cannot read: No such file");
    let path = file("wrong.toml", "base = \"linux-5.0\"\nboost = \"on\"\n");
    let path = path.display();
    let expect = format!("error: {path}: line 2: switch 'boost' has no value 'on'; ");
    refuses(&format!("policy show {path}"), &expect);
}
