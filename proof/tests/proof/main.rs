//! The proof: the real programs against real peers, killed and started again. `./test` runs it all.

mod checkpoints;
mod clients;
mod commands;
mod commits;
mod crash;
mod everything;
mod frozen;
mod full_disk;
mod golden;
mod jobs;
mod load;
mod nodes;
mod official;
mod orphans;
mod pages;
mod place;
mod points;
mod restart;
mod resume;
mod rounds;
mod schemas;
mod serve;
mod site;
mod store;
mod tidy;
