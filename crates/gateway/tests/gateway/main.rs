//! What people see of the gateway, one test a case. Case numbers are those of the project's CASES.md.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a test binary has no readers but its own files")]

mod harness;

mod access;
mod across;
mod asking;
mod audit;
mod bad_clients;
mod bad_upstreams;
mod batch;
mod cancel;
mod checkpoint;
#[cfg(feature = "jsonschema")]
mod checks;
mod client_tasks;
mod commands;
mod connections;
mod eras;
mod first_tasks;
mod framing;
mod handlers;
mod hosted;
mod hosted_again;
mod hosted_by_libraries;
mod hosted_in_sessions;
mod hosted_oddly;
mod hostile;
mod hosts;
mod inline;
mod input;
mod jobs;
mod keyed;
mod lifetime;
mod limits;
mod listen;
mod matrix;
mod merging;
mod mrtr;
mod mtls;
mod nodes;
mod outcome;
mod owners;
mod per_owner;
mod policy;
mod polled;
mod polling;
mod processes;
mod recorder;
mod recorder_hosted;
mod reloading;
mod requestor;
mod resources;
mod restart;
mod resume;
mod rules;
mod sessions;
mod silent;
mod streams;
mod upstreams;
mod urls;
mod urls_strict;
mod versions;
mod waiting;
