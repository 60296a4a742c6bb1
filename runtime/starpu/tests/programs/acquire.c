/* Data for the program while tasks run: with a callback, from the callback of a task, and in vain. */
#include "check.h"

static starpu_data_handle_t handle;
static int value, seen[2], released, looked;

static void add(void *buffers[], void *cl_arg)
{
	(void) cl_arg;
	*(int *) STARPU_VARIABLE_GET_PTR(buffers[0]) += 1;
}

static struct starpu_codelet codelet = {.cpu_funcs = {add}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "add"};

static void acquired(void *arg)
{
	CHECK(starpu_variable_get_local_ptr(handle) == (uintptr_t) &value);
	*(int *) arg = value;
	value += 100;
	STARPU_ATOMIC_ADD(&released, 1);
	starpu_data_release(handle);
}

static void look(void *buffers[], void *cl_arg)
{
	(void) cl_arg;
	STARPU_ATOMIC_ADD(&looked, *(int *) STARPU_VARIABLE_GET_PTR(buffers[0]));
}

static struct starpu_codelet reader = {.cpu_funcs = {look}, .nbuffers = 1, .modes = {STARPU_R}, .name = "look"};

/* Down to a read access, other readers run, and writers wait for its end. */
static void down_to_reading(void)
{
	struct starpu_task *first, *last;

	DONE(starpu_data_acquire(handle, STARPU_RW));
	value = 7;
	first = starpu_task_build(&reader, STARPU_R, handle, 0);
	last = starpu_task_build(&codelet, STARPU_RW, handle, 0);
	first->detach = last->detach = 0;
	first->destroy = last->destroy = 0;
	DONE(starpu_task_submit(first));
	DONE(starpu_task_submit(last));
	starpu_data_release_to(handle, STARPU_RW);
	starpu_data_release_to(handle, STARPU_R);
	DONE(starpu_task_wait(first));
	CHECK(looked == 7 && value == 7 && starpu_task_finished(last) == 0);
	starpu_data_release_to(handle, STARPU_R);
	starpu_data_release(handle);
	DONE(starpu_task_wait(last));
	CHECK(value == 8);
	starpu_task_destroy(first);
	starpu_task_destroy(last);
	DONE(starpu_data_acquire(handle, STARPU_W));
	value = 0;
	starpu_data_release_to(handle, STARPU_NONE);
	DONE(starpu_data_acquire(handle, STARPU_RW));
	starpu_data_release(handle);
}

static void count(void *buffers[], void *cl_arg)
{
	volatile int *p = (volatile int *) STARPU_VARIABLE_GET_PTR(buffers[0]);
	int before = *p;
	volatile int i;

	(void) cl_arg;
	for (i = 0; i < 2000; i++)
		;
	*p = before + 1;
}

static struct starpu_codelet counter = {.cpu_funcs = {count}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "count"};

/* Tasks without sequential consistency exclude those with it. */
static void beside_tasks_in_order(void)
{
	int i;

	for (i = 0; i < 1000; i++)
		DONE(starpu_task_insert(&counter, STARPU_RW, handle, STARPU_SEQUENTIAL_CONSISTENCY, i % 5 != 0, 0));
	DONE(starpu_task_wait_for_all());
	CHECK(value == 1000);
	value = 0;
}

/* In a callback the program must not wait, but it may ask to be called. */
static void from_callback(void *arg) { DONE(starpu_data_acquire_cb(handle, STARPU_RW, acquired, arg)); }

int main(void)
{
	int i;

	DONE(starpu_init(NULL));
	starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t) &value, sizeof value);
	down_to_reading();
	beside_tasks_in_order();
	for (i = 0; i < 5; i++)
		DONE(starpu_task_insert(&codelet, STARPU_RW, handle, 0));
	DONE(starpu_data_acquire_cb(handle, STARPU_RW, acquired, &seen[0]));
	for (i = 0; i < 5; i++)
		DONE(starpu_task_insert(&codelet, STARPU_RW, handle, 0));
	DONE(starpu_data_acquire(handle, STARPU_R));
	CHECK(seen[0] == 5 && value == 110);
	CHECK(starpu_data_acquire_try(handle, STARPU_W) == -EAGAIN);
	DONE(starpu_data_acquire(handle, STARPU_R));
	starpu_data_release(handle);
	starpu_data_release(handle);
	DONE(starpu_task_insert(&codelet, STARPU_RW, handle, STARPU_CALLBACK_WITH_ARG_NFREE, from_callback, &seen[1], 0));
	DONE(starpu_task_wait_for_all());
	/* Waits for what the callback asked for, too. */
	starpu_data_unregister(handle);
	CHECK(released == 2 && seen[1] == 111 && value == 211);
	starpu_shutdown();
	return 0;
}
