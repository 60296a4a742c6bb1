/* A sum in partial results, and room that belongs to each worker. */
#include "check.h"

#define TASKS 200

static void set_zero(void *buffers[], void *cl_arg)
{
	(void) cl_arg;
	*(long *) STARPU_VARIABLE_GET_PTR(buffers[0]) = 0;
}

static void join(void *buffers[], void *cl_arg)
{
	(void) cl_arg;
	*(long *) STARPU_VARIABLE_GET_PTR(buffers[0]) += *(long *) STARPU_VARIABLE_GET_PTR(buffers[1]);
}

static void add(void *buffers[], void *cl_arg)
{
	long *partial = (long *) STARPU_VARIABLE_GET_PTR(buffers[0]);
	long *room = (long *) STARPU_VECTOR_GET_PTR(buffers[1]);
	int value, i;

	starpu_codelet_unpack_args(cl_arg, &value);
	for (i = 0; i < 16; i++)
		room[i] = value;
	for (i = 0; i < 16; i++)
		CHECK(room[i] == value);
	*partial += room[7];
}

static struct starpu_codelet zero_codelet = {
	.cpu_funcs = {set_zero}, .nbuffers = 1, .modes = {STARPU_W}, .name = "zero"};
static struct starpu_codelet join_codelet = {
	.cpu_funcs = {join}, .nbuffers = 2, .modes = {STARPU_RW | STARPU_COMMUTE, STARPU_R}, .name = "join"};
static struct starpu_codelet add_codelet = {
	.cpu_funcs = {add}, .nbuffers = 2, .modes = {STARPU_REDUX, STARPU_SCRATCH}, .name = "add"};

int main(void)
{
	starpu_data_handle_t sum, room;
	long value = 1000;
	int round, i;

	DONE(starpu_init(NULL));
	starpu_variable_data_register(&sum, STARPU_MAIN_RAM, (uintptr_t) &value, sizeof value);
	starpu_vector_data_register(&room, -1, 0, 16, sizeof(long));
	starpu_data_set_reduction_methods(sum, &join_codelet, &zero_codelet);
	for (round = 1; round <= 2; round++) {
		for (i = 0; i < TASKS; i++)
			DONE(starpu_task_insert(&add_codelet, STARPU_REDUX, sum, STARPU_SCRATCH, room, STARPU_VALUE, &i,
						sizeof i, 0));
		DONE(starpu_data_acquire(sum, STARPU_R));
		CHECK(value == 1000 + (long) round * (TASKS * (TASKS - 1) / 2));
		CHECK(starpu_variable_get_local_ptr(sum) == (uintptr_t) &value);
		starpu_data_release(sum);
	}
	/* A reduction whose codelets have no CPU function is refused. */
	zero_codelet.cpu_funcs[0] = NULL;
	CHECK(starpu_task_insert(&add_codelet, STARPU_REDUX, sum, STARPU_SCRATCH, room, STARPU_VALUE, &i, sizeof i, 0) ==
	      -EINVAL);
	starpu_data_unregister(room);
	starpu_data_unregister(sum);
	starpu_shutdown();
	CHECK(value == 1000 + TASKS * (TASKS - 1));
	return 0;
}
