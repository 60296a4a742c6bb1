/* Prologue, function, epilogue and callback of a task, each once and in this order; arguments that
 * the library frees; a task from a callback; a task that is run again. */
#include "check.h"

static int step, runs, nested;
static char trail[8];

static void mark(const char *word) { trail[STARPU_ATOMIC_ADD(&step, 1) - 1] = word[0]; }

static void prologue(void *arg) { mark((const char *) arg); }

static void body(void *buffers[], void *cl_arg)
{
	(void) cl_arg;
	CHECK(starpu_worker_get_id() >= 0 && starpu_task_get_current() != NULL);
	*(int *) STARPU_VARIABLE_GET_PTR(buffers[0]) += 1;
	mark("f");
}

static void nothing(void *buffers[], void *cl_arg)
{
	(void) buffers;
	(void) cl_arg;
	STARPU_ATOMIC_ADD(&nested, 1);
}

static struct starpu_codelet body_codelet = {.cpu_funcs = {body}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "body"};
static struct starpu_codelet nested_codelet = {.cpu_funcs = {nothing}, .nbuffers = 0, .name = "nested"};

static void callback(void *arg)
{
	CHECK(((int *) arg)[0] == 42);
	mark("c");
	DONE(starpu_task_insert(&nested_codelet, 0));
}

static void again(void *arg)
{
	struct starpu_task *task = (struct starpu_task *) arg;

	if (STARPU_ATOMIC_ADD(&runs, 1) == 3)
		task->regenerate = 0;
}

int main(void)
{
	starpu_data_handle_t handle;
	struct starpu_task *task, repeated;
	int value = 0, *argument = (int *) malloc(sizeof *argument);

	argument[0] = 42;
	DONE(starpu_init(NULL));
	starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t) &value, sizeof value);
	task = starpu_task_create();
	task->cl = &body_codelet;
	task->handles[0] = handle;
	task->detach = 0;
	task->destroy = 0;
	task->prologue_callback_func = prologue;
	task->prologue_callback_arg = (void *) "p";
	task->prologue_callback_pop_func = prologue;
	task->prologue_callback_pop_arg = (void *) "q";
	task->epilogue_callback_func = prologue;
	task->epilogue_callback_arg = (void *) "e";
	task->callback_func = callback;
	task->callback_arg = argument;
	task->callback_arg_free = 1;
	DONE(starpu_task_submit(task));
	/* The callback has ended as well. */
	DONE(starpu_task_wait(task));
	CHECK(strcmp(trail, "pqfec") == 0);
	CHECK(starpu_task_finished(task));
	starpu_task_destroy(task);
	DONE(starpu_task_wait_for_all());
	CHECK(nested == 1);

	starpu_task_init(&repeated);
	repeated.cl = &nested_codelet;
	repeated.regenerate = 1;
	repeated.callback_func = again;
	repeated.callback_arg = &repeated;
	DONE(starpu_task_submit(&repeated));
	DONE(starpu_task_wait_for_all());
	CHECK(runs == 3 && nested == 4);
	starpu_task_clean(&repeated);
	starpu_data_unregister(handle);
	starpu_shutdown();
	CHECK(value == 1);
	return 0;
}
