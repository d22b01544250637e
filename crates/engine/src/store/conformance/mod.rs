//! What every store must do. One file per subject; each function is one claim and panics where it does not hold.
//!
//! A backend runs [`run_all`] in its tests with a function that makes an empty store, on a multi-threaded tokio runtime
//! with time enabled.

// A claim that does not hold ends in a panic, so here unwrapping is how claims are made.
#![allow(clippy::unwrap_used)]

pub mod apply;
pub mod create;
pub mod delete;
pub mod due;
pub mod feed;
pub mod key;
pub mod list;
#[cfg(test)]
mod model;
pub mod node;
pub mod race;
mod sample;
pub mod secret;
pub mod transfer;

use super::Store;

/// Makes every claim, each on an empty store of its own.
pub async fn run_all<S: Store>(make: impl Fn() -> S) {
    create::a_created_task_reads_back_in_every_field(&make).await;
    create::a_mebibyte_reads_back(&make).await;
    create::what_is_long_lasts_as_long_as_it_is_wanted(&make).await;
    create::a_taken_id_is_refused_and_keeps_what_it_had(&make).await;
    create::a_locator_without_its_secret_opens_nothing(&make).await;
    create::creates_at_the_same_time_are_all_kept(&make).await;
    apply::every_step_reads_back_in_every_field(&make).await;
    apply::every_ending_reads_back(&make).await;
    apply::payloads_of_null_are_not_lost(&make).await;
    apply::work_parked_without_questions_stays_parked(&make).await;
    apply::writes_are_applied_in_the_order_of_the_calls(&make).await;
    apply::a_refusal_changes_nothing(&make).await;
    apply::a_stale_fence_is_refused(&make).await;
    apply::every_move_appends_its_event(&make).await;
    race::one_of_many_wins_and_stays(&make, 10_000).await;
    list::owners_see_their_own_tasks_only(&make).await;
    list::pages_join_without_gap_or_overlap(&make).await;
    list::tasks_added_meanwhile_push_nothing_out(&make).await;
    list::a_list_says_how_tasks_ended(&make).await;
    list::whoever_runs_the_store_sees_all_tasks(&make).await;
    list::a_store_says_how_much_it_holds(&make).await;
    due::the_earliest_is_due_first(&make).await;
    due::ended_tasks_are_due_for_deletion(&make).await;
    node::a_node_lives_as_long_as_its_lease(&make).await;
    node::orphans_are_what_dead_nodes_carried(&make).await;
    node::lost_work_is_ready_until_it_is_begun(&make).await;
    node::ended_work_is_kept_until_it_is_stopped(&make).await;
    node::versions_are_told_for_many(&make).await;
    key::names_are_as_long_as_every_store_can_find(&make).await;
    key::a_key_is_taken_once(&make).await;
    key::a_given_id_is_the_tasks(&make).await;
    key::a_key_lives_as_long_as_its_task(&make).await;
    key::one_of_many_gets_the_key(&make).await;
    delete::a_deleted_task_leaves_nothing(&make).await;
    feed::followers_see_every_version_in_order(&make).await;
    feed::news_is_committed_before_it_is_told(&make).await;
    feed::a_write_outlives_its_caller(&make).await;
    feed::refusals_are_no_news(&make).await;
    secret::a_secret_is_made_once(&make).await;
    transfer::a_loaded_store_is_the_dumped_one(&make).await;
    transfer::a_page_of_long_tasks_is_short(&make).await;
    transfer::a_load_is_all_or_nothing(&make).await;
}

#[cfg(test)]
mod tests {
    use crate::MemoryStore;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn memory_conforms() {
        super::run_all(MemoryStore::new).await;
    }
}
