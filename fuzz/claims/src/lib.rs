//! What holds for any input: claims that are fuzzed, and checked again on what fuzzing has found.
//!
//! Each target takes any bytes and panics where something does not hold that must. `fuzz_targets` hands them to libFuzzer;
//! `tests/replay.rs` hands them what is kept in `corpus` and `regressions`, with stable Rust and as a part of all tests.
//! No target only waits for panics: there is a second way to know what must come out, or a bound, or something that must not.

#![forbid(unsafe_code)]
// A claim that does not hold ends in a panic, so here unwrapping is how claims are made.
#![allow(clippy::unwrap_used)]

mod dialects;
mod headers;
mod http;
mod life;
mod messages;
mod operations;
mod pieces;
mod served;
mod sse;
mod texts;
mod transfer;

/// A target: its name, and what takes the bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: &[Target] = &[
    ("messages", messages::check),
    ("sse", sse::check),
    ("dialects", dialects::check),
    ("operations", operations::check),
    ("transfer", transfer::check),
    ("http", http::check),
    ("headers", headers::check),
    ("texts", texts::check),
];

/// Hands the bytes to the target with this name.
///
/// # Panics
///
/// If something does not hold that must, or there is no such target.
pub fn check(target: &str, data: &[u8]) {
    let (_, check) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target of this name");
    check(data);
}
