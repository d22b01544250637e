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
    cargo_build(&[
        "--release",
        "-p",
        "taskgate",
        "-p",
        "taskgate-gateway",
        "--bin",
        "taskgate",
        "--example",
        "conformance",
    ]);
    target().join("release")
}

/// The folder that this test was built in.
fn target() -> PathBuf {
    let this = std::env::current_exe().expect("the path of this test");
    // target/debug/deps/proof-…
    this.ancestors().nth(3).expect("a test lies in a target folder").to_owned()
}

fn cargo_build(what: &[&str]) {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(repository()).args(["build", "--quiet", "--target-dir"]).arg(target());
    let built = cargo.args(what).status().expect("cargo can be run");
    assert!(built.success(), "the programs under test do not build");
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

/// An example that need not be fast, built as the tests are: with all of them it is there already.
pub fn plain_example(name: &str) -> PathBuf {
    cargo_build(&["--workspace", "--features", "taskgate-client/ledger", "--example", name]);
    existing(target().join("debug/examples").join(name))
}

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in the repository")
}
