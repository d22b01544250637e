//! The proof: the real programs against real peers, killed and started again. `./test` runs it all.

mod clients;
mod commands;
mod crash;
mod everything;
mod golden;
mod official;
mod orphans;
mod pages;
mod place;
mod points;
mod restart;
mod resume;
mod schemas;
mod serve;
mod tidy;
