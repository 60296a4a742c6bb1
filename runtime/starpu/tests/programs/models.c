/* What is measured: a performance model, the times of a task, the workers' times and a bound. */
#include "check.h"

#define TASKS 30

static void body(void *buffers[], void *cl_arg)
{
	float *x = (float *) STARPU_VECTOR_GET_PTR(buffers[0]);
	size_t i;

	(void) cl_arg;
	for (i = 0; i < STARPU_VECTOR_GET_NX(buffers[0]); i++)
		x[i] += 1.0f;
	starpu_usleep(200.0f);
}

static double twice(struct starpu_task *task, unsigned nimpl)
{
	(void) task;
	return 2.0 + nimpl;
}

static struct starpu_perfmodel history = {.type = STARPU_HISTORY_BASED, .symbol = "zellige_programs_models"};
static struct starpu_perfmodel common = {.type = STARPU_COMMON, .cost_function = twice};
static struct starpu_codelet codelet = {
	.cpu_funcs = {body}, .nbuffers = 1, .modes = {STARPU_RW}, .model = &history, .name = "body"};
static struct starpu_codelet other = {
	.cpu_funcs = {body}, .nbuffers = 1, .modes = {STARPU_RW}, .model = &common, .name = "other"};

int main(void)
{
	static float x[1000];
	struct starpu_profiling_worker_info worker;
	struct starpu_profiling_task_info *info;
	struct starpu_perfmodel_arch *arch;
	struct starpu_conf conf;
	struct starpu_task *task;
	starpu_data_handle_t handle;
	double bound, whole, expected;
	int i, executed = 0;

	DONE(starpu_conf_init(&conf));
	conf.calibrate = 2;
	DONE(starpu_init(&conf));
	CHECK(starpu_profiling_status_set(STARPU_PROFILING_ENABLE) == STARPU_PROFILING_DISABLE);
	starpu_vector_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t) x, 1000, sizeof x[0]);
	starpu_bound_start(0, 0);
	for (i = 0; i < TASKS; i++)
		DONE(starpu_task_insert(&codelet, STARPU_RW, handle, 0));
	task = starpu_task_create();
	task->cl = &codelet;
	task->handles[0] = handle;
	task->destroy = 0;
	task->detach = 0;
	DONE(starpu_task_submit(task));
	DONE(starpu_task_wait(task));
	starpu_bound_stop();

	info = task->profiling_info;
	CHECK(info != NULL && info->workerid >= 0 && info->workerid < (int) starpu_worker_get_count());
	CHECK(starpu_timing_timespec_delay_us(&info->start_time, &info->end_time) >= 200.0);
	CHECK(starpu_timing_timespec_delay_us(&info->submit_time, &info->start_time) >= 0.0);
	arch = starpu_worker_get_perf_archtype(0, STARPU_NMAX_SCHED_CTXS);
	expected = starpu_task_expected_length(task, arch, 0);
	CHECK(expected >= 200.0 && expected < 1e6);
	CHECK(starpu_perfmodel_history_based_expected_perf(&history, arch, starpu_task_footprint(&history, task, arch, 0))
	      == expected);
	task->cl = &other;
	CHECK(starpu_task_expected_length(task, arch, 1) == 3.0);
	other.model = NULL;
	CHECK(starpu_task_expected_length(task, arch, 0) == 0.0);
	task->cl = &codelet;
	starpu_task_destroy(task);

	for (i = 0; i < (int) starpu_worker_get_count(); i++) {
		DONE(starpu_profiling_worker_get_info(i, &worker));
		executed += worker.executed_tasks;
		CHECK(starpu_timing_timespec_to_us(&worker.executing_time)
		      <= starpu_timing_timespec_to_us(&worker.total_time));
	}
	CHECK(executed == TASKS + 1);
	starpu_bound_compute(&bound, &whole, 1);
	CHECK(bound * starpu_worker_get_count() >= 0.2 * (TASKS + 1) && whole >= bound);
	starpu_data_unregister(handle);
	starpu_shutdown();
	for (i = 0; i < 1000; i++)
		CHECK(x[i] == (float) (TASKS + 1));
	return 0;
}
