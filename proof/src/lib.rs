//! What the proof tests share: the programs they run, small MCP clients that see every byte, and waiting.
//!
//! Unpublished; nothing imports it. Everything here is blocking and panics with the reason when something is not as a
//! test needs it.

pub mod books;
pub mod checker;
pub mod dice;
pub mod effects;
pub mod http;
pub mod ledger;
pub mod modern;
pub mod namespace;
pub mod peers;
pub mod postgres;
pub mod program;
pub mod programs;
pub mod proxy;
pub mod session;
pub mod stdio;
pub mod wait;
pub mod witness;

/// The extension that declares tasks from 2026-07-28 on.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
