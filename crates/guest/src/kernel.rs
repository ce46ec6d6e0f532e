//! A kernel: an image and the drivers that belong to it, from a package, a folder or an image alone.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use pageblock_files::ScratchFolder;
use pageblock_recording::KernelVersion;

use crate::error::Error;

/// The most that a package may unpack to, of what is kept: an image and a few modules.
const KEPT_BYTES: u64 = 512 << 20;

/// A kernel that can be booted.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// What the user gave.
    pub given: PathBuf,
    /// The release, as `uname -r` prints it.
    pub release: String,
    /// Its version.
    pub version: KernelVersion,
    /// The image.
    pub image: Vec<u8>,
    /// Modules by their name with `_` for `-`, as stored, with the ending of their file.
    pub modules: BTreeMap<String, (String, Vec<u8>)>,
    /// The names of modules that are built in; `None` where nothing says so.
    pub built_in: Option<Vec<String>>,
    /// Whether it was built with a patch.
    pub patched: bool,
}

/// The files of a package or a folder that matter.
#[derive(Default)]
struct Found {
    images: Vec<(String, Vec<u8>)>,
    modules: BTreeMap<String, (String, Vec<u8>)>,
    built_in: Option<Vec<String>>,
}

impl Kernel {
    /// Finds the kernel that a user means: a package, a folder, an image, or the name of a package that apt knows. Of
    /// its modules those are kept that `wanted` says yes to, by path and name.
    ///
    /// # Errors
    /// [`Error::NoKernel`] with what is allowed, or why a file cannot be read.
    pub fn find(given: &Path, wanted: &dyn Fn(&str, &str) -> bool) -> Result<Self, Error> {
        if given.is_dir() {
            return Self::from_found(given, folder(given, wanted)?);
        }
        if !given.exists() {
            return download(given, wanted);
        }
        let mut start = [0; 8];
        let mut file = File::open(given).map_err(Error::at(given))?;
        let read = file.read(&mut start).map_err(Error::at(given))?;
        if start[..read] == *b"!<arch>\n" {
            let found = packages(given, given.to_owned(), wanted, &|name| Ok(beside(given, name)))?;
            return Self::from_found(given, found);
        }
        let image = fs::read(given).map_err(Error::at(given))?;
        let found = Found { images: vec![(String::new(), image)], ..Found::default() };
        Self::from_found(given, found)
    }

    fn from_found(given: &Path, mut found: Found) -> Result<Self, Error> {
        let none = |why: &str| Error::NoKernel { path: given.to_owned(), why: why.to_owned() };
        if found.images.len() > 1 {
            let names: Vec<_> = found.images.iter().map(|(name, _)| name.as_str()).collect();
            return Err(none(&format!("it has more than one kernel: {}", names.join(", "))));
        }
        let Some((_, image)) = found.images.pop() else {
            return Err(none(
                "it has no boot/vmlinuz-*; allowed: a Debian or Ubuntu package of a kernel, a folder that it was unpacked \
                 to, a built source tree, or an image (bzImage)",
            ));
        };
        let text = version_text(&image).ok_or_else(|| {
            none("it is not an image of Linux for x86-64 (bzImage); vmlinux cannot be booted by QEMU")
        })?;
        let version = KernelVersion::parse(&text)
            .ok_or_else(|| none(&format!("its version cannot be read: {text}")))?;
        let release = text.split_whitespace().next().unwrap_or_default().to_owned();
        let Found { modules, built_in, .. } = found;
        let given = given.to_owned();
        Ok(Self { given, release, version, image, modules, built_in, patched: false })
    }
}

/// Returns the text of the version in the header of a bzImage, such as `6.1.0-56-cloud-amd64 (debian-kernel@... #1 SMP ...`.
fn version_text(image: &[u8]) -> Option<String> {
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let at = usize::from(u16::from_le_bytes(image.get(0x20e..0x210)?.try_into().ok()?));
    let text = image.get(at + 0x200..)?.split(|&byte| byte == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// The name of a module without its folder and endings, with `_` for `-` as the kernel compares them; and its ending.
fn module_name(path: &str) -> Option<(String, String)> {
    let name = path.rsplit('/').next()?;
    let (name, ending) = name.split_once(".ko")?;
    Some((name.replace('-', "_"), ending.to_owned()))
}

impl Found {
    /// Takes what matters of a file with its path below the root of the package.
    fn take(
        &mut self,
        path: &str,
        wanted: &dyn Fn(&str, &str) -> bool,
        read: impl FnOnce() -> std::io::Result<Vec<u8>>,
    ) -> std::io::Result<()> {
        let name = path.rsplit('/').next().unwrap_or_default();
        if path.contains("boot/vmlinuz-")
            || (path.ends_with("/vmlinuz") && path.contains("modules/"))
        {
            self.images.push((name.to_owned(), read()?));
        } else if name == "modules.builtin" {
            let text = String::from_utf8_lossy(&read()?).into_owned();
            let names = text.lines().filter_map(module_name).map(|(name, _)| name);
            self.built_in.get_or_insert_default().extend(names);
        } else if let Some((module, ending)) = module_name(path)
            && wanted(path, &module)
        {
            self.modules.insert(module, (ending, read()?));
        }
        Ok(())
    }
}

/// Reads a Debian package.
fn package(path: &Path, wanted: &dyn Fn(&str, &str) -> bool) -> Result<Found, Error> {
    let file = File::open(path).map_err(Error::at(path))?;
    let mut archive = ar::Archive::new(BufReader::new(file));
    while let Some(entry) = archive.next_entry() {
        let mut entry = entry.map_err(Error::at(path))?;
        let name = String::from_utf8_lossy(entry.header().identifier()).into_owned();
        let data: Box<dyn Read + '_> = match name.trim_end_matches('/') {
            "data.tar.xz" => Box::new(liblzma::read::XzDecoder::new(&mut entry)),
            "data.tar.zst" => {
                Box::new(zstd::stream::read::Decoder::new(&mut entry).map_err(Error::at(path))?)
            }
            "data.tar" => Box::new(&mut entry),
            _ => continue,
        };
        return unpack(tar::Archive::new(data), wanted).map_err(Error::at(path));
    }
    let why = "it is no Debian package with data.tar.xz, .zst or plain".to_owned();
    Err(Error::NoKernel { path: path.to_owned(), why })
}

fn unpack(
    mut tar: tar::Archive<impl Read>,
    wanted: &dyn Fn(&str, &str) -> bool,
) -> std::io::Result<Found> {
    let mut found = Found::default();
    let mut kept = 0;
    for entry in tar.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path()?.to_string_lossy().into_owned();
        let size = entry.size();
        found.take(&path, wanted, || {
            kept += size;
            if kept > KEPT_BYTES {
                return Err(std::io::Error::other("its kernel and drivers have more than 512 MiB"));
            }
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            Ok(bytes)
        })?;
    }
    Ok(found)
}

/// Reads a folder that a package was unpacked to, or a built source tree.
fn folder(path: &Path, wanted: &dyn Fn(&str, &str) -> bool) -> Result<Found, Error> {
    let mut found = Found::default();
    let built = path.join("arch/x86/boot/bzImage");
    if built.is_file() {
        found.images.push(("bzImage".to_owned(), fs::read(&built).map_err(Error::at(&built))?));
    }
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(Error::at(&folder))? {
            let entry = entry.map_err(Error::at(&folder))?;
            let kind = entry.file_type().map_err(Error::at(&folder))?;
            let file = entry.path();
            if kind.is_dir() {
                folders.push(file);
            } else if kind.is_file() {
                let shown = file.to_string_lossy().into_owned();
                found.take(&shown, wanted, || fs::read(&file)).map_err(Error::at(&file))?;
            }
        }
    }
    Ok(found)
}

/// The beginnings of the names of packages that a kernel is divided among.
const PARTS: [&str; 3] = ["linux-image-", "linux-binary-", "linux-modules-"];

/// Reads a package, and those that the rest of its kernel is in as far as `find` has them.
fn packages(
    given: &Path,
    first: PathBuf,
    wanted: &dyn Fn(&str, &str) -> bool,
    find: &dyn Fn(&str) -> Result<Option<PathBuf>, Error>,
) -> Result<Found, Error> {
    let (mut files, mut names) = (vec![first], BTreeSet::new());
    let (mut found, mut absent) = (Found::default(), Vec::new());
    while let Some(file) = files.pop() {
        let part = package(&file, wanted)?;
        found.images.extend(part.images);
        found.modules.extend(part.modules);
        found.built_in = found.built_in.or(part.built_in);
        for name in depends(&file) {
            if names.insert(name.clone()) {
                match find(&name)? {
                    Some(file) => files.push(file),
                    None => absent.push(name),
                }
            }
        }
    }
    if found.images.is_empty() && !absent.is_empty() {
        let why =
            format!("its kernel is in {}, which must lie in the same folder", absent.join(", "));
        return Err(Error::NoKernel { path: given.to_owned(), why });
    }
    Ok(found)
}

/// Returns the package with a name in the folder of another one.
fn beside(given: &Path, name: &str) -> Option<PathBuf> {
    let start = format!("{name}_");
    let mut files =
        fs::read_dir(given.parent()?).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    files.find(|path| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(&start) && file.ends_with(".deb")
    })
}

/// Lets apt download the package with a name, and those that the rest of the kernel is in.
fn download(name: &Path, wanted: &dyn Fn(&str, &str) -> bool) -> Result<Kernel, Error> {
    let no = |why: &str| Error::NoKernel { path: name.to_owned(), why: why.to_owned() };
    let text = name.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-.=:~".contains(c);
    if text.starts_with('-') || !text.chars().all(plain) {
        return Err(no("there is no such file or folder"));
    }
    let folders = RefCell::new(Vec::new());
    let get = |part: &str| {
        let folder = ScratchFolder::new().map_err(Error::at(name))?;
        let file = fetch(part, folder.path()).map_err(|why| no(&why));
        folders.borrow_mut().push(folder);
        file
    };
    let found = packages(name, get(&text)?, wanted, &|part| get(part).map(Some))?;
    Kernel::from_found(name, found)
}

/// Downloads a package into a folder.
fn fetch(name: &str, folder: &Path) -> Result<PathBuf, String> {
    let output =
        Command::new("apt-get").args(["download", "-qq", name]).current_dir(folder).output();
    let output = output.map_err(|_| {
        "there is no such file or folder, and no apt-get that could download a package of that name".to_owned()
    })?;
    let files = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let mut packages = files.filter_map(|entry| Some(entry.ok()?.path()));
    packages.find(|path| path.extension().is_some_and(|ending| ending == "deb")).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let error = said
            .lines()
            .find(|line| line.starts_with("E: "))
            .unwrap_or("no package came")
            .to_owned();
        format!(
            "there is no such file or folder, and apt-get download {name}: {}",
            error.trim_start_matches("E: ")
        )
    })
}

/// Returns the packages that the rest of a package's kernel is in.
fn depends(file: &Path) -> Vec<String> {
    let output = Command::new("dpkg-deb").arg("-f").arg(file).arg("Depends").output();
    let text = output
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    parts_among(&text)
}

fn parts_among(depends: &str) -> Vec<String> {
    let names = depends.split(',').filter_map(|one| one.split_whitespace().next());
    names
        .filter(|name| PARTS.iter().any(|part| name.starts_with(part)))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_named_as_the_kernel_compares_them() {
        let name = |path| module_name(path).map(|(name, ending)| format!("{name}|{ending}"));
        assert_eq!(
            name("lib/modules/6.1/kernel/crypto/crc32c-intel.ko.xz").as_deref(),
            Some("crc32c_intel|.xz")
        );
        assert_eq!(name("a/virtio_blk.ko").as_deref(), Some("virtio_blk|"));
        assert_eq!(name("a/modules.dep"), None);
    }

    #[test]
    fn the_other_packages_of_a_kernel_are_among_what_it_depends_on() {
        let depends = "dracut | initramfs-tools (>= 0.120), linux-base-7.2.13 (= 7.2.13-1), linux-binary-7.2.13 (= 7.2.13-1), linux-modules-7.2.13 (= 7.2.13-1)";
        assert_eq!(parts_among(depends), ["linux-binary-7.2.13", "linux-modules-7.2.13"]);
    }

    #[test]
    fn an_image_says_its_version() {
        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        image[0x300..0x30e].copy_from_slice(b"6.1.0-56 (x) #");
        assert_eq!(version_text(&image).as_deref(), Some("6.1.0-56 (x) #"));
        assert_eq!(version_text(b"\x7fELF"), None);
    }

    #[test]
    fn the_rest_of_a_kernel_lies_beside_its_package() {
        let folder = tempfile::tempdir().unwrap();
        let [image, rest, debug] = [
            "linux-image-7.3-cloud-amd64_7.3~rc7-1_amd64.deb",
            "linux-binary-7.3-cloud-amd64_7.3~rc7-1_amd64.deb",
            "linux-binary-7.3-cloud-amd64-dbg_7.3~rc7-1_amd64.deb",
        ]
        .map(|name| folder.path().join(name));
        fs::write(&debug, "").unwrap();
        assert_eq!(beside(&image, "linux-binary-7.3-cloud-amd64"), None);
        fs::write(&rest, "").unwrap();
        assert_eq!(beside(&image, "linux-binary-7.3-cloud-amd64"), Some(rest));
    }
}
