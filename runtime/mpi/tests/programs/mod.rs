//! Programs of several ranks that check themselves, on any transport. Every rank runs each of them.

pub mod basics;
pub mod deferred;
pub mod faults;
pub mod graphs;
pub mod moves;

use zellige_mpi::Cluster;

/// A program, with its minimum number of ranks. Some end with a cluster that cannot go on: each
/// gets one of its own.
pub type Program = (&'static str, usize, fn(&Cluster));

macro_rules! programs {
    ($($name:ident in $module:ident on $ranks:literal),* $(,)?) => {
        &[$((stringify!($name), $ranks, $module::$name)),*]
    };
}

pub const ALL: &[Program] = programs![
    values_go_where_tasks_read_them in basics on 1,
    replicas_are_kept_until_the_next_write in basics on 1,
    commuting_tasks_and_reductions_run_on_the_owner in basics on 1,
    versions_move_with_their_writers in basics on 1,
    vectors_are_split_and_joined in basics on 1,
    wrong_calls_are_refused_everywhere in basics on 1,
    long_values_arrive_whole in basics on 2,
    tasks_that_choose_late_are_sent_what_they_choose in deferred on 1,
    recorded_writers_get_back_what_they_have_offered in deferred on 1,
    a_rank_that_has_ended_sends_what_is_requested in deferred on 1,
    a_failure_reaches_tasks_that_choose_late in deferred on 1,
    a_failure_reaches_every_rank_that_needs_the_result in faults on 2,
    a_panic_in_a_body_is_a_failure_too in faults on 2,
    cancellation_is_everybodys in faults on 1,
    different_submissions_are_found_and_named in faults on 2,
    a_task_that_only_one_rank_submits_is_found in faults on 2,
    a_rank_that_ends_is_named in faults on 2,
];
