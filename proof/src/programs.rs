//! Where the programs under test are.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of the release build, with all programs in it built from the present sources.
///
/// `./test` builds them beforehand and says so with `TASKGATE_RELEASE`. Otherwise the first test that asks builds them.
fn release() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| match std::env::var_os("TASKGATE_RELEASE") {
        Some(folder) => PathBuf::from(folder),
        None => build(),
    })
}

fn build() -> PathBuf {
    let this = std::env::current_exe().expect("the path of this test");
    // target/debug/deps/proof-…
    let target = this.ancestors().nth(3).expect("a test lies in a target folder");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(repository()).args(["build", "--release", "--quiet", "--target-dir"]).arg(target);
    cargo.args(["-p", "taskgate", "-p", "taskgate-gateway", "--bin", "taskgate"]);
    cargo.args(["--example", "conformance", "--example", "resume"]);
    let built = cargo.status().expect("cargo can be run");
    assert!(built.success(), "the programs under test do not build");
    target.join("release")
}

fn existing(path: PathBuf) -> PathBuf {
    assert!(path.is_file(), "{} is missing: run ./test, which builds it first", path.display());
    path
}

/// The program `taskgate`.
pub fn taskgate() -> PathBuf {
    existing(release().join("taskgate"))
}

/// An example of the gateway.
pub fn example(name: &str) -> PathBuf {
    existing(release().join("examples").join(name))
}

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in the repository")
}
