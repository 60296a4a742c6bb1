/* Mistakes are errors with their documented numbers, and the program goes on. */
#include "check.h"

static void add(void *buffers[], void *cl_arg)
{
	(void) cl_arg;
	*(int *) STARPU_VARIABLE_GET_PTR(buffers[0]) += 1;
}

static int waited, acquired;

static void waits(void *buffers[], void *cl_arg)
{
	(void) buffers;
	waited = starpu_task_wait_for_all();
	acquired = starpu_data_acquire((starpu_data_handle_t) cl_arg, STARPU_R);
}

static int never(unsigned workerid, struct starpu_task *task, unsigned nimpl)
{
	(void) workerid;
	(void) task;
	(void) nimpl;
	return 0;
}

static struct starpu_codelet add_codelet = {.cpu_funcs = {add}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "add"};
static struct starpu_codelet waits_codelet = {.cpu_funcs = {waits}, .nbuffers = 0, .name = "waits"};
static struct starpu_codelet never_codelet = {
	.cpu_funcs = {add}, .can_execute = never, .nbuffers = 1, .modes = {STARPU_RW}, .name = "never"};
static struct starpu_codelet gpu_codelet = {.where = STARPU_CUDA, .nbuffers = 0, .name = "gpu"};

int main(void)
{
	starpu_data_handle_t handle, empty;
	struct starpu_conf conf;
	struct starpu_task *task;
	int value = 0;

	/* No worker at all. */
	DONE(starpu_conf_init(&conf));
	conf.precedence_over_environment_variables = 1;
	conf.ncpus = 0;
	CHECK(starpu_init(&conf) == -ENODEV);
	CHECK(!starpu_is_initialized());

	DONE(starpu_init(NULL));
	starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t) &value, sizeof value);
	starpu_variable_data_register(&empty, -1, 0, sizeof value);
	/* Nobody can run them; the task stays the program's. */
	task = starpu_task_create();
	task->cl = &gpu_codelet;
	CHECK(starpu_task_submit(task) == -ENODEV);
	task->destroy = 0;
	starpu_task_destroy(task);
	CHECK(starpu_task_insert(&never_codelet, STARPU_RW, handle, 0) == -ENODEV);
	/* Reading what nobody has written. */
	CHECK(starpu_task_insert(&add_codelet, STARPU_RW, empty, 0) != 0);
	/* Waiting where it would wait for itself. */
	DONE(starpu_task_insert(&waits_codelet, STARPU_CL_ARGS_NFREE, handle, (size_t) 0, 0));
	DONE(starpu_task_wait_for_all());
	CHECK(waited == -EDEADLK && acquired == -EDEADLK);
	/* And all goes on. */
	DONE(starpu_task_insert(&add_codelet, STARPU_RW, handle, 0));
	DONE(starpu_task_wait_for_all());
	starpu_data_unregister(empty);
	starpu_data_unregister(handle);
	CHECK(value == 1);
	starpu_shutdown();
	return 0;
}
