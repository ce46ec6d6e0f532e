//! Runs the C programs, built by gcc against both libraries, with and without sanitizers.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const WARNINGS: &[&str] = &["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g"];
const SANITIZERS: &str = "-fsanitize=address,undefined";

/// The system libraries that a static library of rustc needs.
const SYSTEM: &[&str] = &["-lgcc_s", "-lpthread", "-ldl", "-lm"];

#[derive(Clone, Copy, Debug)]
enum Link {
    Static,
    Shared,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns where cargo built the libraries, together with this test's dependencies.
fn built() -> PathBuf {
    env::current_exe().unwrap().parent().unwrap().to_path_buf()
}

/// Returns an empty directory for one test.
fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Checks whether gcc builds programs that run, with these options; prints a message if not.
fn works(name: &str, options: &[&str]) -> bool {
    let dir = scratch(name);
    fs::write(dir.join("main.c"), "int main(void) { return 0; }\n").unwrap();
    let program = dir.join("main");
    let mut gcc = Command::new("gcc");
    gcc.args(options).arg(dir.join("main.c")).arg("-o").arg(&program);
    let works = gcc.output().is_ok_and(|output| output.status.success())
        && Command::new(&program).status().is_ok_and(|status| status.success());
    if !works {
        eprintln!("skipped: gcc {} makes no program here that runs", options.join(" "));
    }
    works
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeeded(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}\n{}{}", text(&stdout), text(&stderr));
    text(&stdout)
}

/// Builds a program and runs it; returns its output.
fn run(source: &str, link: Link, options: &[&str], dir: &Path) -> String {
    let program = dir.join("program");
    let mut gcc = Command::new("gcc");
    gcc.args(WARNINGS).args(options).arg("-I").arg(root().join("include"));
    gcc.arg(root().join(source)).arg("-o").arg(&program);
    match link {
        Link::Static => gcc.arg(built().join("libpageblock_capi.a")).args(SYSTEM),
        Link::Shared => {
            let name = dir.join("libpageblock.so.0");
            fs::copy(built().join("libpageblock_capi.so"), &name).unwrap();
            gcc.arg(&name).arg("-lpthread")
        }
    };
    succeeded(&mut gcc);
    succeeded(Command::new(&program).env("LD_LIBRARY_PATH", dir))
}

/// Runs a program in each of the four ways that work here, and passes its output to `judge`.
fn in_all_ways(source: &str, judge: impl Fn(&str)) {
    let name = Path::new(source).file_stem().unwrap().to_str().unwrap();
    if !works(&format!("{name}-gcc"), &[]) {
        return;
    }
    for link in [Link::Static, Link::Shared] {
        judge(&run(source, link, &[], &scratch(&format!("{name}-{link:?}"))));
        if works(&format!("{name}-sanitizers"), &[SANITIZERS]) {
            let options = [SANITIZERS, "-fno-sanitize-recover=all"];
            judge(&run(source, link, &options, &scratch(&format!("{name}-{link:?}-sanitized"))));
        }
    }
}

fn pool_is_whole(output: &str) {
    assert!(output.starts_with("memory: "), "{output}");
    assert!(output.contains("refused: "), "{output}");
    assert!(output.contains("Node 0, zone   Normal"), "{output}");
    assert!(output.ends_with("every frame is free: 16384 of 16384\n"), "{output}");
}

/// Returns the huge pages that the system has reserved and nobody uses.
fn free_huge_pages() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    free.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn pool_gives_every_frame_back() {
    // Enough for concurrent tests.
    let huge = free_huge_pages() >= 96;
    if !huge {
        eprintln!("skipped: MAP_HUGETLB, as fewer than 96 huge pages are free (vm.nr_hugepages)");
    }
    in_all_ways("examples/pool.c", |output| {
        pool_is_whole(output);
        assert!(!huge || output.starts_with("memory: huge pages of the system's pool"), "{output}");
    });
}

#[test]
fn every_mistake_has_its_status() {
    in_all_ways("tests/misuse.c", |output| {
        assert_eq!(output, "every mistake has its status\n");
    });
}

#[test]
fn owners_and_cpus_take_turns() {
    in_all_ways("tests/race.c", |output| assert_eq!(output, "nothing is lost\n"));
}

#[test]
fn header_is_cpp_too() {
    let dir = scratch("cpp");
    let source = dir.join("main.cpp");
    fs::write(&source, "#include <pageblock.h>\nint main() { return pb_destroy(nullptr) == 0; }\n")
        .unwrap();
    let mut cpp = Command::new("g++");
    cpp.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"])
        .arg(root().join("include"));
    if Command::new("g++").arg("--version").output().is_err() {
        eprintln!("skipped: there is no g++");
        return;
    }
    succeeded(cpp.arg(source));
}

#[test]
fn installed_library_is_found_by_pkg_config() {
    let dir = scratch("installed");
    let mut install = Command::new(root().join("install.sh"));
    succeeded(install.arg(&dir).arg(built()));
    let pkg_config = |arguments: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.args(arguments).arg("pageblock");
        command.env("PKG_CONFIG_PATH", dir.join("lib/pkgconfig"));
        command
    };
    if !works("installed-gcc", &[]) || pkg_config(&["--version"]).output().is_err() {
        eprintln!("skipped: gcc or pkg-config is missing");
        return;
    }
    let version = succeeded(&mut pkg_config(&["--modversion"]));
    assert_eq!(version.trim(), env!("CARGO_PKG_VERSION"));
    let flags = succeeded(&mut pkg_config(&["--cflags", "--libs"]));
    let program = dir.join("pool");
    let mut gcc = Command::new("gcc");
    gcc.args(WARNINGS).arg(root().join("examples/pool.c")).args(flags.split_whitespace());
    succeeded(gcc.args(["-pthread", "-o"]).arg(&program));
    let output = succeeded(Command::new(&program).env("LD_LIBRARY_PATH", dir.join("lib")));
    pool_is_whole(&output);
}

#[test]
fn installed_library_is_found_by_cmake() {
    if Command::new("cmake").arg("--version").output().is_err() {
        eprintln!("skipped: there is no cmake");
        return;
    }
    let dir = scratch("cmake");
    succeeded(Command::new(root().join("install.sh")).arg(dir.join("installed")).arg(built()));
    let minor = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap().0;
    let lists = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(pool C)\nfind_package(Threads REQUIRED)\n\
         find_package(pageblock {minor} REQUIRED)\n\
         foreach(kind pageblock static)\nadd_executable(${{kind}} {}/examples/pool.c)\n\
         target_link_libraries(${{kind}} pageblock::${{kind}} Threads::Threads)\nendforeach()\n",
        root().display()
    );
    fs::write(dir.join("CMakeLists.txt"), lists).unwrap();
    let installed = format!("-DCMAKE_PREFIX_PATH={}", dir.join("installed").display());
    succeeded(Command::new("cmake").current_dir(&dir).args(["-B", "out", &installed]));
    succeeded(Command::new("cmake").current_dir(&dir).args(["--build", "out"]));
    for kind in ["pageblock", "static"] {
        pool_is_whole(&succeeded(&mut Command::new(dir.join("out").join(kind))));
    }
}
