//! `pageblock policy new`: a package of a user's own with a policy in it.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use pageblock_files::{Access, NewFolder, part, part_folder};
use pageblock_report::text::in_line;

use crate::args::PolicyNewArgs;
use crate::output;

const MANIFEST: &str = include_str!("template/Cargo.toml.in");
const MAIN: &str = include_str!("template/main.rs");
const IDEA: &str = include_str!("template/idea.rs");

/// What a package of this workspace's folder has, by which it is known.
const MARK: &str = "crates/cli/Cargo.toml";

pub(super) fn run(args: &PolicyNewArgs) -> anyhow::Result<()> {
    let name = &args.name;
    check(name)?;
    let source = match &args.source {
        Some(source) => Source::named(source)?,
        None => Source::found()?,
    };
    let manifest = MANIFEST
        .replace("@NAME@", name)
        .replace("@PAGEBLOCK@", &source.dependency("crates/pageblock"))
        .replace("@CLI@", &source.dependency("crates/cli"));
    let folder = NewFolder::create_new(Path::new(name), Access::Shared)
        .with_context(|| format!("{name} cannot be made"))?;
    let put = |path: &str, text: &str| {
        part(&folder.path().join(path), Access::Shared)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("{name}/{path}"))
    };
    part_folder(&folder.path().join("src"), Access::Shared)
        .with_context(|| format!("{name}/src"))?;
    put("Cargo.toml", &manifest)?;
    put("src/main.rs", MAIN)?;
    put("src/idea.rs", IDEA)?;
    if let Source::Folder(path) = &source {
        // With the same versions of everything else the package builds as the program did.
        let lock = path.join("Cargo.lock");
        if lock.is_file() {
            let text = fs::read_to_string(&lock).with_context(|| lock.display().to_string())?;
            put("Cargo.lock", &text)?;
        }
    }
    folder.finish().with_context(|| format!("{name} cannot be made"))?;
    output::print(&format!(
        "{name}/ is a package with one idea, in {name}/src/idea.rs. Then:\n\n    cd {name}\n    cargo test\n    \
         cargo run --release -- policy try linux-7.3,decide={name}\n"
    ))?;
    Ok(())
}

/// What cargo takes for the name of a package, and a kernel's text for a policy.
fn check(name: &str) -> anyhow::Result<()> {
    let rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
    // Names of what the package depends on, and of what cargo or the language has.
    let taken = ["pageblock", "pageblock-cli", "test", "core", "std", "alloc", "idea"];
    if !starts || !name.chars().all(rest) || taken.contains(&name) || is_keyword(name) {
        bail!(
            "policy name '{}': allowed are lower-case letters, digits, '-' and '_', a letter first, and no name that \
             cargo or the package needs itself",
            in_line(name)
        );
    }
    Ok(())
}

fn is_keyword(name: &str) -> bool {
    let keywords = "as async await break const continue crate dyn else enum extern false fn for gen if impl in let \
                    loop match mod move mut pub ref return self static struct super trait true type unsafe use where \
                    while abstract become box do final macro override priv try typeof unsized virtual yield";
    keywords.split(' ').any(|keyword| keyword == name)
}

/// Where the package takes Pageblock from.
enum Source {
    /// A folder with its sources.
    Folder(PathBuf),
    /// A repository.
    Git(String),
}

impl Source {
    fn named(source: &str) -> anyhow::Result<Self> {
        if source.contains("://") {
            return Ok(Self::Git(source.to_owned()));
        }
        let path = fs::canonicalize(source).with_context(|| format!("--source {source}"))?;
        if !path.join(MARK).is_file() {
            bail!("--source {source}: there is no {MARK}, so these are not Pageblock's sources");
        }
        Ok(Self::Folder(path))
    }

    /// Looks above the program, which stands in its sources' target folder, and above this folder.
    fn found() -> anyhow::Result<Self> {
        let program = env::current_exe().ok().and_then(|path| fs::canonicalize(path).ok());
        let here = env::current_dir().ok();
        let starts = [program, here];
        let mut above = starts.iter().flatten().flat_map(|path| path.ancestors());
        match above.find(|path| path.join(MARK).is_file()) {
            Some(path) => Ok(Self::Folder(path.to_owned())),
            None => bail!(
                "Pageblock's sources are not above this program or this folder: give --source FOLDER, or the URL of a \
                 git repository"
            ),
        }
    }

    fn dependency(&self, at: &str) -> String {
        match self {
            Self::Folder(path) => format!("path = {}", quoted(&path.join(at).to_string_lossy())),
            Self::Git(url) => format!("git = {}", quoted(url)),
        }
    }
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
