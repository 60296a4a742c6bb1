//! Programs on one to four ranks, threads of this process.

use zellige_mpi::run_local;

use crate::programs;

fn run(name: &str) {
    let (_, fewest, program) =
        programs::ALL.iter().find(|(program, ..)| *program == name).expect("a program");
    for ranks in *fewest..=4 {
        run_local(ranks, 1 + ranks % 2, program).unwrap();
    }
}

macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*

        #[test]
        fn no_program_is_left_out() {
            assert_eq!(programs::ALL.iter().map(|(name, ..)| *name).collect::<Vec<_>>(), [$(stringify!($name)),*]);
        }
    };
}

tests![
    values_go_where_tasks_read_them,
    replicas_are_kept_until_the_next_write,
    commuting_tasks_and_reductions_run_on_the_owner,
    versions_move_with_their_writers,
    vectors_are_split_and_joined,
    wrong_calls_are_refused_everywhere,
    long_values_arrive_whole,
    tasks_that_choose_late_are_sent_what_they_choose,
    recorded_writers_get_back_what_they_have_offered,
    a_rank_that_has_ended_sends_what_is_requested,
    a_failure_reaches_tasks_that_choose_late,
    a_failure_reaches_every_rank_that_needs_the_result,
    a_panic_in_a_body_is_a_failure_too,
    cancellation_is_everybodys,
    different_submissions_are_found_and_named,
    a_task_that_only_one_rank_submits_is_found,
    a_rank_that_ends_is_named,
];
