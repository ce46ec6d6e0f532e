//! The drivers that a guest needs: which modules, in which order, ready to load.

use std::io::Read;

use memchr::memmem;

use crate::error::Error;
use crate::job::Filesystem;
use crate::kernel::Kernel;

/// What the bus and the disks need; kernels differ in which of them are modules.
const BUS: [&str; 6] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
];
/// What file systems ask for by name once they run, so that no module's dependencies have it.
const CHECKSUMS: [&str; 4] = ["crc32c_generic", "crc32c_cryptoapi", "libcrc32c", "crc16"];
/// File systems, compressed memory, and what they depend on outside the folders of [`LIBRARIES`].
const NEEDED: [&str; 6] = ["xfs", "ext4", "jbd2", "mbcache", "zram", "zsmalloc"];
/// Folders of modules that others depend on: checksums, compressions.
const LIBRARIES: [&str; 2] = ["/kernel/lib/", "/kernel/crypto/"];

/// Reports whether a module may be needed by some guest, by its path in a package and its name with `_`.
#[must_use]
pub fn may_need(path: &str, name: &str) -> bool {
    BUS.contains(&name)
        || NEEDED.contains(&name)
        || LIBRARIES.iter().any(|folder| path.contains(folder))
}

/// A module that can be loaded as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Module {
    /// Its name.
    pub name: String,
    /// Its bytes, not compressed.
    pub bytes: Vec<u8>,
}

/// Returns the modules that a guest with disks loads, each after those it depends on.
///
/// # Errors
/// [`Error::NoDriver`] if the kernel has a needed one neither as a module nor built in.
pub fn needed(
    kernel: &Kernel,
    filesystem: Option<Filesystem>,
    zram: bool,
) -> Result<Vec<Module>, Error> {
    let mut list = Vec::new();
    for name in CHECKSUMS.into_iter().filter(|_| filesystem.is_some()) {
        add(kernel, name, &mut list)?;
    }
    for name in ["lzo_rle", "lzo"].into_iter().filter(|_| zram) {
        // Up to 6.11 zram asks for its algorithm by name.
        add(kernel, name, &mut list)?;
    }
    let required = ["virtio_pci", "virtio_blk"]
        .into_iter()
        .chain(filesystem.map(Filesystem::name))
        .chain(zram.then_some("zram"));
    for name in required {
        there(kernel, name)?;
        add(kernel, name, &mut list)?;
    }
    Ok(list)
}

/// Ends where a kernel has a driver neither as a module nor built in. Without a list of what is built in, the boot shows
/// what is missing.
fn there(kernel: &Kernel, name: &str) -> Result<(), Error> {
    let built_in = kernel.built_in.as_ref();
    if kernel.modules.contains_key(name)
        || built_in.is_none_or(|names| names.iter().any(|n| n == name))
    {
        return Ok(());
    }
    Err(Error::NoDriver { kernel: kernel.release.clone(), missing: name.to_owned() })
}

/// Adds a module after those it depends on, where it is one.
fn add(kernel: &Kernel, name: &str, list: &mut Vec<Module>) -> Result<(), Error> {
    if list.iter().any(|module| module.name == name) {
        return Ok(());
    }
    let Some((ending, stored)) = kernel.modules.get(name) else { return Ok(()) };
    let bytes = plain(ending, stored).map_err(|source| Error::NoKernel {
        path: kernel.given.clone(),
        why: format!("module {name}.ko{ending}: {source}"),
    })?;
    for dependency in depends(&bytes) {
        there(kernel, &dependency)?;
        add(kernel, &dependency, list)?;
    }
    list.push(Module { name: name.to_owned(), bytes });
    Ok(())
}

fn plain(ending: &str, stored: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match ending {
        "" => bytes.extend_from_slice(stored),
        ".xz" => _ = liblzma::read::XzDecoder::new(stored).read_to_end(&mut bytes)?,
        ".zst" => bytes = zstd::stream::decode_all(stored)?,
        _ => return Err(std::io::Error::other("allowed: plain, .xz and .zst")),
    }
    Ok(bytes)
}

/// Returns what a module's own information says it depends on.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = memmem::find(module, KEY) else { return Vec::new() };
    let text = module[at + KEY.len()..].split(|&byte| byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    text.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use pageblock_recording::KernelVersion;

    use super::*;

    #[test]
    fn dependencies_are_in_the_module() {
        let module = b"..\0license=GPL\0depends=virtio,virtio-ring\0retpoline=Y\0";
        assert_eq!(depends(module), ["virtio", "virtio_ring"]);
        assert_eq!(depends(b"\0depends=\0"), [""; 0]);
    }

    #[test]
    fn a_dependency_that_is_nowhere_is_named() {
        let zram = (String::new(), b"\0depends=zsmalloc,lz4_compress\0".to_vec());
        let plain = |name: &str| (name.to_owned(), (String::new(), b"\0depends=\0".to_vec()));
        let mut kernel = Kernel {
            given: "k.deb".into(),
            release: "6.12.1".to_owned(),
            version: KernelVersion::parse("6.12.1").unwrap(),
            image: Vec::new(),
            modules: ["zsmalloc", "virtio_pci", "virtio_blk"].map(plain).into(),
            built_in: Some(Vec::new()),
            patched: false,
        };
        kernel.modules.insert("zram".to_owned(), zram);
        let error = needed(&kernel, None, true).unwrap_err().to_string();
        assert!(error.contains("lz4_compress"), "{error}");
        kernel.modules.extend([plain("lz4_compress")]);
        let list = needed(&kernel, None, true).unwrap();
        let names: Vec<_> = list.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["virtio_pci", "virtio_blk", "zsmalloc", "lz4_compress", "zram"]);
    }

    #[test]
    fn libraries_are_kept_whatever_their_names() {
        assert!(may_need("lib/modules/6.12/kernel/lib/lz4/lz4hc_compress.ko.xz", "lz4hc_compress"));
        assert!(!may_need("lib/modules/6.12/kernel/drivers/net/dummy.ko.xz", "dummy"));
    }
}
