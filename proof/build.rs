//! Finds out whether tests can mount a file system of their own here: those that need one are counted as ignored where
//! they cannot, and not as passed.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(can_mount)");
    // In a mount namespace, so that nothing of it is seen outside or left behind.
    let tried = Command::new("unshare")
        .args(["--mount", "mount", "-t", "tmpfs", "-o", "size=64k", "none", "/tmp"])
        .output();
    match tried {
        Ok(output) if output.status.success() => println!("cargo::rustc-cfg=can_mount"),
        tried => println!(
            "cargo::warning=no file system can be mounted here, so the proof of a full disk is left out: {}",
            tried.map_or_else(
                |error| error.to_string(),
                |output| String::from_utf8_lossy(&output.stderr).trim().to_owned()
            )
        ),
    }
}
