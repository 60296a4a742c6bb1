/* Workers that the program drives or switches off, counters that it reads, caps of priorities. */
#include "check.h"

#define TASKS 40

static int executed[2], heard, most_submitted, whole;
static int total_id, peak_id;

static void body(void *buffers[], void *cl_arg)
{
	(void) buffers;
	(void) cl_arg;
	__sync_fetch_and_add(&executed[starpu_worker_get_id()], 1);
}

static struct starpu_codelet codelet = {.cpu_funcs = {body}, .name = "body"};

static void submit(int n)
{
	while (n--)
		CHECK(starpu_task_insert(&codelet, 0) == 0);
}

static void listen(struct starpu_perf_counter_listener *listener, struct starpu_perf_counter_sample *sample,
		   void *context)
{
	(void) listener;
	CHECK(context == &codelet);
	whole = (int) starpu_perf_counter_sample_get_int64_value(sample, total_id);
	most_submitted = (int) starpu_perf_counter_sample_get_int64_value(sample, peak_id);
	__sync_fetch_and_add(&heard, 1);
}

/* One task at a time runs, and only when the program says so. */
static void drive(void)
{
	struct starpu_driver driver = {.type = STARPU_CPU_WORKER, .id.cpu_id = 0};
	struct starpu_driver stranger = {.type = STARPU_CPU_WORKER, .id.cpu_id = 1};
	struct starpu_conf conf;
	int i;

	starpu_conf_init(&conf);
	conf.precedence_over_environment_variables = 1;
	conf.ncpus = 1;
	conf.not_launched_drivers = &driver;
	conf.n_not_launched_drivers = 1;
	CHECK(starpu_init(&conf) == 0);
	CHECK(starpu_driver_init(&driver) == 0);
	CHECK(starpu_driver_init(&stranger) == -EINVAL);
	submit(3);
	for (i = 0; i < 3; i++)
	{
		CHECK(executed[0] == i);
		CHECK(starpu_driver_run_once(&driver) == 0);
	}
	CHECK(executed[0] == 3);
	/* Nothing is left. */
	CHECK(starpu_driver_run_once(&driver) == 0 && executed[0] == 3);
	CHECK(starpu_driver_deinit(&driver) == 0);
	submit(2);
	starpu_shutdown();
	CHECK(executed[0] == 5);
}

/* A worker that is switched off runs nothing; tasks are counted. */
static void steer(void)
{
	int scope = starpu_perf_knob_scope_name_to_id("per_worker");
	int enable = starpu_perf_knob_name_to_id(scope, "starpu.worker.w_enable_worker_knob");
	int policy = starpu_perf_knob_scope_name_to_id("per_scheduler");
	int max = starpu_perf_knob_name_to_id(policy, "starpu.task.s_max_priority_cap_knob");
	struct starpu_perf_counter_set *set;
	struct starpu_perf_counter_listener *listener;
	struct starpu_conf conf;

	starpu_conf_init(&conf);
	conf.precedence_over_environment_variables = 1;
	conf.ncpus = 2;
	conf.start_perf_counter_collection = 1;
	CHECK(starpu_init(&conf) == 0);
	total_id = starpu_perf_counter_name_to_id(starpu_perf_counter_scope_per_codelet, "starpu.task.c_total_submitted");
	peak_id = starpu_perf_counter_name_to_id(starpu_perf_counter_scope_per_codelet, "starpu.task.c_peak_submitted");
	CHECK(starpu_perf_counter_get_type_id(total_id) == starpu_perf_counter_type_name_to_id("int64"));
	CHECK(starpu_perf_counter_name_to_id(starpu_perf_counter_scope_global, "no such") == -1);
	set = starpu_perf_counter_set_alloc(starpu_perf_counter_scope_per_codelet);
	starpu_perf_counter_set_enable_id(set, total_id);
	starpu_perf_counter_set_enable_id(set, peak_id);
	listener = starpu_perf_counter_listener_init(set, listen, NULL);
	starpu_perf_counter_set_per_codelet_listener(&codelet, listener);

	starpu_perf_knob_set_per_worker_int32_value(enable, 1, 0);
	CHECK(starpu_perf_knob_get_per_worker_int32_value(enable, 1) == 0);
	executed[0] = executed[1] = 0;
	submit(TASKS);
	starpu_task_wait_for_all();
	CHECK(executed[0] == TASKS && executed[1] == 0);
	starpu_perf_knob_set_per_worker_int32_value(enable, 1, 1);
	starpu_perf_knob_set_per_worker_int32_value(enable, 0, 0);
	submit(TASKS);
	starpu_task_wait_for_all();
	CHECK(executed[0] == TASKS && executed[1] == TASKS);
	starpu_perf_knob_set_per_worker_int32_value(enable, 0, 1);
	CHECK(heard == 2 * TASKS && whole == 2 * TASKS && most_submitted >= 1);

	starpu_perf_counter_unset_per_codelet_listener(&codelet);
	starpu_perf_counter_listener_exit(listener);
	starpu_perf_counter_set_free(set);
	starpu_perf_knob_set_per_scheduler_int32_value(max, "prio", 3);
	CHECK(starpu_perf_knob_get_per_scheduler_int32_value(max, "prio") == 3);
	starpu_shutdown();
}

int main(void)
{
	drive();
	steer();
	return 0;
}
