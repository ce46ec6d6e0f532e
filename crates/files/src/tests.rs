//! What is there before a file is written, and what is there afterwards.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// Makes a private node of the device that swallows what is written; `None` where this user may not.
fn null_node(folder: &Path) -> Option<PathBuf> {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

    let path = folder.join("node");
    let made =
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(1, 3));
    if made.is_err() {
        eprintln!("skipped: no device node can be made here");
    }
    made.ok().map(|()| path)
}

#[test]
fn a_new_file_is_as_open_as_it_may_be_and_an_old_one_keeps_its_mode() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    write(&file, b"one", Access::Private).unwrap();
    assert_eq!((fs::read(&file).unwrap().as_slice(), mode(&file)), (&b"one"[..], 0o600));
    for kept in [0o600, 0o640, 0o444] {
        fs::set_permissions(&file, Permissions::from_mode(kept)).unwrap();
        for access in [Access::Shared, Access::Private] {
            write(&file, b"two", access).unwrap();
            assert_eq!(mode(&file), kept);
        }
    }
    let plain = temp.path().join("plain");
    fs::write(&plain, "").unwrap();
    let shared = temp.path().join("shared");
    write(&shared, b"", Access::Shared).unwrap();
    assert_eq!(mode(&shared), mode(&plain), "the umask decides");
    assert_eq!(names(temp.path()), ["file", "plain", "shared"]);
}

#[test]
fn a_link_stays_a_link_and_what_it_names_is_written() {
    let temp = tempfile::tempdir().unwrap();
    let (target, link, dangling) =
        (temp.path().join("target"), temp.path().join("link"), temp.path().join("dangling"));
    fs::write(&target, "old").unwrap();
    symlink("target", &link).unwrap();
    symlink(temp.path().join("later"), &dangling).unwrap();
    write(&link, b"new", Access::Shared).unwrap();
    write(&dangling, b"new", Access::Shared).unwrap();
    assert!([&link, &dangling].iter().all(|path| path.is_symlink()));
    assert_eq!(fs::read(&target).unwrap(), b"new");
    assert_eq!(fs::read(temp.path().join("later")).unwrap(), b"new");
    let looped = temp.path().join("loop");
    symlink("loop", &looped).unwrap();
    assert!(write(&looped, b"", Access::Shared).is_err());
}

#[test]
fn another_users_link_and_ring_in_a_shared_folder_are_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make files of another user");
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let shared = temp.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    let (victim, link) = (temp.path().join("victim"), shared.join("out"));
    fs::write(&victim, "secret").unwrap();
    symlink(&victim, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(1), Some(1)).unwrap();
    for error in [
        write(&link, b"x", Access::Shared).unwrap_err(),
        NewFile::create(&link, Access::Shared).unwrap_err(),
        in_place(&link, Access::Private).unwrap_err(),
    ] {
        assert!(error.to_string().starts_with("another user's symbolic link"), "{error}");
    }
    assert_eq!(fs::read(&victim).unwrap(), b"secret");
    let ring = shared.join("ring");
    fs::write(&ring, "").unwrap();
    fs::set_permissions(&ring, Permissions::from_mode(0o666)).unwrap();
    std::os::unix::fs::chown(&ring, Some(1), Some(1)).unwrap();
    assert!(in_place(&ring, Access::Private).is_err());
    // Replaced, it is root's, and not as open as the other user made it.
    write(&ring, b"x", Access::Private).unwrap();
    assert_eq!((mode(&ring), fs::metadata(&ring).unwrap().uid()), (0o600, 0));
}

#[test]
fn a_device_node_is_written_and_stays() {
    let temp = tempfile::tempdir().unwrap();
    let Some(node) = null_node(temp.path()) else { return };
    write(&node, b"swallowed", Access::Private).unwrap();
    can_write(&node).unwrap();
    assert!(in_place(&node, Access::Private).is_err());
    assert!(NewFile::create_new(&node, Access::Private).is_err());
    assert!(fs::metadata(&node).unwrap().file_type().is_char_device());
    assert_eq!((names(temp.path()), mode(&node)), (vec!["node".to_owned()], 0o644));
}

#[test]
fn a_pipe_is_written_and_stays() {
    let temp = tempfile::tempdir().unwrap();
    let pipe = temp.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    can_write(&pipe).unwrap();
    assert!(in_place(&pipe, Access::Private).is_err());
    let read = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    write(&pipe, b"through", Access::Shared).unwrap();
    assert_eq!(read.join().unwrap(), b"through");
    assert_eq!(names(temp.path()), ["pipe"]);
}

#[test]
fn an_open_descriptor_is_written_where_it_stands() {
    use std::os::fd::AsRawFd;

    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"before ").unwrap();
    let path = PathBuf::from(format!("/dev/fd/{}", file.as_raw_fd()));
    write(&path, b"after", Access::Shared).unwrap();
    let mut text = String::new();
    std::io::Seek::rewind(&mut file).unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "before after");
}

#[test]
fn what_is_not_finished_leaves_nothing_and_what_was_there_stays() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "old").unwrap();
    let (mut half, new) = NewFile::create(&file, Access::Shared).unwrap();
    half.write_all(b"half").unwrap();
    assert_eq!(names(temp.path()).len(), 2);
    drop(new);
    drop(NewFolder::create_new(&temp.path().join("folder"), Access::Shared).unwrap());
    assert_eq!(names(temp.path()), ["file"]);
    assert_eq!(fs::read(&file).unwrap(), b"old");
    // A folder in its place, before and meanwhile.
    assert_eq!(
        write(temp.path(), b"", Access::Shared).unwrap_err().kind(),
        ErrorKind::IsADirectory
    );
    let later = temp.path().join("later");
    let (made, new) = NewFile::create(&later, Access::Shared).unwrap();
    fs::create_dir(&later).unwrap();
    assert!(new.finish(&made).is_err());
    assert_eq!(names(temp.path()), ["file", "later"]);
}

#[test]
fn a_new_name_is_new_at_the_end_too() {
    let temp = tempfile::tempdir().unwrap();
    let (one, two) = (temp.path().join("one"), temp.path().join("two"));
    let (file, new) = NewFile::create_new(&one, Access::Private).unwrap();
    let folder = NewFolder::create_new(&two, Access::Private).unwrap();
    part_folder(&folder.path().join("a/b"), Access::Private).unwrap();
    part(&folder.path().join("a/b/c"), Access::Private).unwrap();
    assert!(part(&folder.path().join("a/b/c"), Access::Private).is_err());
    fs::write(&one, "theirs").unwrap();
    fs::create_dir(&two).unwrap();
    assert_eq!(new.finish(&file).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(folder.finish().unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&one).unwrap(), b"theirs");
    assert_eq!(names(temp.path()), ["one", "two"]);
    assert!(NewFile::create_new(&one, Access::Shared).is_err());
    assert!(NewFolder::create_new(&two, Access::Shared).is_err());
    let three = temp.path().join("three");
    let folder = NewFolder::create_new(&three, Access::Private).unwrap();
    folder.finish().unwrap();
    assert_eq!(mode(&three), 0o700);
}
