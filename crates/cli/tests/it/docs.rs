//! Checks that the documents and headings that code and documents cite exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{file, prints, ran};

/// Folders whose text cites documents, in addition to those at the top of the repository.
const FOLDERS: &[&str] = &["crates", "docs", "examples", "machines", "published"];

/// A document that some text cites.
#[derive(Debug, PartialEq, Eq)]
struct Citation {
    target: PathBuf,
    /// The anchor of a heading in it.
    anchor: Option<String>,
}

impl Citation {
    /// Parses `path` or `path#anchor`, a path from a folder; `own` is the file that contains it.
    fn new(from: &Path, own: &Path, text: &str) -> Self {
        let (path, anchor) = match text.split_once('#') {
            Some((path, anchor)) => (path, Some(anchor.to_owned())),
            None => (text, None),
        };
        let target = if path.is_empty() { own.to_owned() } else { from.join(path) };
        Self { target, anchor }
    }

    /// Returns the problem with it, if any.
    fn fault(&self) -> Option<&'static str> {
        if !self.target.exists() {
            return Some("no such file");
        }
        let anchor = self.anchor.as_ref()?;
        if self.target.extension().is_none_or(|kind| kind != "md") {
            return None;
        }
        let text = fs::read_to_string(&self.target).expect("it is text");
        (!anchors(&text).contains(anchor)).then_some("no such heading")
    }
}

/// Returns the anchors of a document's headings, as GitHub forms them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String =
            kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect();
        let mut unique = anchor.clone();
        for n in 1.. {
            if found.insert(unique) {
                break;
            }
            unique = format!("{anchor}-{n}");
        }
    }
    found
}

/// Returns the citations by path from the top of the repository, as in code.
fn cited_paths(root: &Path, own: &Path, text: &str) -> Vec<Citation> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let is_anchor = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let mut found = Vec::new();
    for (at, _) in text.match_indices("docs/") {
        let path = text[at..].split(|c: char| !is_path(c)).next().unwrap_or_default();
        let Some(end) = path.find(".md") else { continue };
        if text[..at].ends_with(is_path) {
            continue;
        }
        let end = end + ".md".len();
        if path[..end].ends_with("/NAME.md") {
            continue; // It stands for any name.
        }
        let anchor = text[at + end..].strip_prefix('#');
        let anchor =
            anchor.map_or("", |rest| rest.split(|c: char| !is_anchor(c)).next().unwrap_or(""));
        let hash = if anchor.is_empty() { "" } else { "#" };
        found.push(Citation::new(root, own, &format!("{}{hash}{anchor}", &path[..end])));
    }
    found
}

/// Returns the links of a document to files and headings, `[text](path#anchor)`.
fn links(own: &Path, text: &str) -> Vec<Citation> {
    let folder = own.parent().expect("a file is in a folder");
    let inner = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let local = |link: &&str| !link.contains("://") && !link.contains(char::is_whitespace);
    inner.map(|(link, _)| link).filter(local).map(|link| Citation::new(folder, own, link)).collect()
}

/// Adds the text files of a folder, except build output.
fn text_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("it is a folder of the project") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target" && name != "node_modules") {
                text_files(&path, into);
            }
        } else if path
            .extension()
            .is_some_and(|kind| kind == "md" || kind == "rs" || kind == "toml")
        {
            into.push(path);
        }
    }
}

#[test]
fn cited_documents_and_headings_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut files = Vec::new();
    for folder in FOLDERS {
        text_files(&root.join(folder), &mut files);
    }
    let top = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    files.extend(top.filter(|path| path.extension().is_some_and(|kind| kind == "md")));

    let (mut broken, mut headings) = (Vec::new(), 0);
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let mut cited = cited_paths(&root, file, &text);
        if file.extension().is_some_and(|kind| kind == "md") {
            cited.extend(links(file, &text));
        }
        headings += cited.iter().filter(|citation| citation.anchor.is_some()).count();
        broken.extend(cited.iter().filter_map(|citation| {
            Some(format!("{}: {citation:?}: {}", file.display(), citation.fault()?))
        }));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(headings > 100, "only {headings} citations of a heading were found");
}

/// Runs `docs/figures.py --sources` on files, or on all documents.
fn figures(files: &[&Path]) -> crate::Ran {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/figures.py");
    ran(Command::new("python3").arg(script).arg("--sources").args(files))
}

#[test]
fn every_figure_of_the_documents_says_where_it_is_from() {
    let all = figures(&[]);
    assert_eq!((all.status, all.stderr.as_str()), (0, ""), "{}", all.stdout);

    let page = "# A page\n\n<!-- figures in figures-source.txt -->\n\nIt took 4.4 ns, 1,234 times, in 2 MiB of 6.12.\n\n\
                | what | how many |\n|---|---|\n| frees | 99.98 |\n\n# Another\n\nIt took 17 % longer.\n";
    let page = file("figures-page.md", page);
    file("figures-source.txt", "4.41 ns 1234 99.989\n");
    let good = figures(&[&page]);
    let unmarked = "figures-page.md:13: no marker says where 17 is from";
    assert_eq!(good.status, 1, "{}", good.stdout);
    assert!(good.stdout.contains(unmarked) && good.stdout.lines().count() == 2, "{}", good.stdout);
    file("figures-source.txt", "4.51 ns 1234 99.97\n");
    let wrong = figures(&[&page]).stdout;
    let lines: Vec<_> =
        wrong.lines().filter(|line| line.ends_with("is not in figures-source.txt")).collect();
    assert_eq!(lines.len(), 2, "{wrong}");
    assert!(lines[0].contains(":5: 4.4 ") && lines[1].contains(":9: 99.98 "), "{wrong}");
}

#[test]
fn every_page_is_in_the_book_and_says_who_it_is_for() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").canonicalize().unwrap();
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let mut pages = Vec::new();
    text_files(&docs, &mut pages);
    pages.retain(|page| {
        page.extension().is_some_and(|kind| kind == "md") && !page.ends_with("SUMMARY.md")
    });
    assert!(pages.len() > 40, "{pages:?}");
    for page in pages {
        let name = page.strip_prefix(&docs).unwrap().display().to_string();
        assert!(summary.contains(&format!("]({name})")), "docs/SUMMARY.md has no {name}");
        let text = fs::read_to_string(&page).unwrap();
        let audience = text.lines().nth(2).unwrap_or_default();
        assert!(audience.starts_with("*For "), "{name}: {audience}");
    }
}

#[test]
fn citations_and_anchors_are_read() {
    let text = "# A `b` (c): d_e\n```\n# not this\n```\n## Twice\n## Twice\n#nor this\n";
    let expect = ["a-b-c-d_e", "twice", "twice-1"];
    assert_eq!(anchors(text), BTreeSet::from(expect.map(str::to_owned)));

    let (root, own) = (Path::new("/root"), Path::new("/root/docs/own.md"));
    let citation = |target: &str, anchor: Option<&str>| Citation {
        target: target.into(),
        anchor: anchor.map(str::to_owned),
    };
    // Written so that the test above does not read them.
    let code = "(see @a.md#b-c), @a.md. /x/@a.md @*.md @b/NAME.md".replace('@', "docs/");
    let expect = [citation("/root/docs/a.md", Some("b-c")), citation("/root/docs/a.md", None)];
    assert_eq!(cited_paths(root, own, &code), expect);

    let page = "[x](a.md#b) [y](#c) [z](https://example.org/a.md) `f](not this)`";
    let expect = [citation("/root/docs/a.md", Some("b")), citation("/root/docs/own.md", Some("c"))];
    assert_eq!(links(own, page), expect);
}

/// What stands for lines that a document omits.
const OMITTED: [&str; 3] = ["", "(...)", "(rows omitted)"];

/// The examples with `pageblock policy` in a document: the arguments, and the output that is shown.
fn policy_examples(text: &str) -> Vec<(String, Vec<String>)> {
    let mut examples: Vec<(String, Vec<String>)> = Vec::new();
    let mut within = false;
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("    $ ") {
            // Redirected output and files of the reader's are not looked at.
            let arguments = command.strip_prefix("pageblock ").filter(|a| a.starts_with("policy "));
            let arguments = arguments.filter(|a| !a.contains('>') && !a.contains(".toml"));
            // It makes a folder; own.rs tries it in one of its own.
            let arguments = arguments.filter(|a| !a.starts_with("policy new "));
            within = arguments.is_some();
            examples.extend(arguments.map(|arguments| (arguments.to_owned(), Vec::new())));
        } else if let Some(shown) = line.strip_prefix("    ").filter(|_| within)
            && !OMITTED.contains(&shown)
        {
            examples.last_mut().expect("its command came before").1.push(shown.to_owned());
        } else if !line.is_empty() && !line.starts_with("    ") {
            within = false;
        }
    }
    examples
}

#[test]
fn examples_of_policies_show_what_the_program_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (document, at_least) in [("docs/policies.md", 3)] {
        let text = fs::read_to_string(root.join(document)).expect("it is text");
        let examples = policy_examples(&text);
        assert!(examples.len() >= at_least, "{document}: {examples:?}");
        for (arguments, shown) in examples {
            let printed = prints(&arguments);
            for line in shown {
                assert!(
                    printed.lines().any(|other| other == line),
                    "{document}: {arguments}: {line}"
                );
            }
        }
    }
}
