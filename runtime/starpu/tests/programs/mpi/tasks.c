/* Tasks on data of several processes: where they run, what is sent, copies, reductions. Any number of processes. */
#include "../check.h"
#include <errno.h>
#include <starpu_mpi.h>
#include <string.h>

#define N 6

static int rank, size;

static void add_cpu(void *buffers[], void *arg)
{
	int *to = (int *) STARPU_VARIABLE_GET_PTR(buffers[0]);

	(void) arg;
	*to += *(int *) STARPU_VARIABLE_GET_PTR(buffers[1]);
}

static void where_cpu(void *buffers[], void *arg)
{
	(void) arg;
	*(int *) STARPU_VARIABLE_GET_PTR(buffers[0]) = rank;
	*(int *) STARPU_VARIABLE_GET_PTR(buffers[1]) = rank;
}

static void grow_cpu(void *buffers[], void *arg)
{
	int by;

	starpu_codelet_unpack_args(arg, &by);
	*(int *) STARPU_VARIABLE_GET_PTR(buffers[0]) += by;
}

static void zero_cpu(void *buffers[], void *arg)
{
	(void) arg;
	*(int *) STARPU_VARIABLE_GET_PTR(buffers[0]) = 0;
}

static struct starpu_codelet add = { .cpu_funcs = { add_cpu }, .nbuffers = 2, .modes = { STARPU_RW, STARPU_R }, .name = "add" };
static struct starpu_codelet where = { .cpu_funcs = { where_cpu }, .nbuffers = 2, .modes = { STARPU_W, STARPU_W }, .name = "where" };
static struct starpu_codelet grow = { .cpu_funcs = { grow_cpu }, .nbuffers = 1, .modes = { STARPU_RW }, .name = "grow" };
static struct starpu_codelet contribute = { .cpu_funcs = { grow_cpu }, .nbuffers = 1, .modes = { STARPU_REDUX }, .name = "contribute" };
static struct starpu_codelet share = {
	.cpu_funcs = { grow_cpu }, .nbuffers = 1, .modes = { STARPU_RW | STARPU_COMMUTE }, .name = "share"
};
static struct starpu_codelet zero = { .cpu_funcs = { zero_cpu }, .nbuffers = 1, .modes = { STARPU_W }, .name = "zero" };
static struct starpu_codelet sum = {
	.cpu_funcs = { add_cpu }, .nbuffers = 2, .modes = { STARPU_RW | STARPU_COMMUTE, STARPU_R }, .name = "sum"
};

/* Registers `value` at its owner, and a handle without memory elsewhere. */
static starpu_data_handle_t owned(int *value, starpu_mpi_tag_t tag, int owner)
{
	starpu_data_handle_t handle;

	starpu_variable_data_register(&handle, owner == rank ? STARPU_MAIN_RAM : -1, owner == rank ? (uintptr_t) value : 0,
				      sizeof *value);
	starpu_mpi_data_register(handle, tag, owner);
	return handle;
}

static int value_of(starpu_data_handle_t handle)
{
	int value;

	DONE(starpu_data_acquire(handle, STARPU_R));
	value = *(int *) starpu_data_get_local_ptr(handle);
	starpu_data_release(handle);
	return value;
}

/* x[i] += x[i - 1], each on its owner: the sums are those of one process. */
static void chain(void)
{
	int values[N], i, expected = 0;
	starpu_data_handle_t x[N];

	for (i = 0; i < N; i++) {
		values[i] = i + 1;
		x[i] = owned(&values[i], 100 + i, i % size);
		CHECK(starpu_mpi_data_get_rank(x[i]) == i % size && starpu_mpi_data_get_tag(x[i]) == 100 + i);
	}
	for (i = 1; i < N; i++)
		DONE(starpu_mpi_task_insert(MPI_COMM_WORLD, &add, STARPU_RW, x[i], STARPU_R, x[i - 1], 0));
	for (i = 0; i < N; i++) {
		expected += i + 1;
		DONE(starpu_mpi_get_data_on_node(MPI_COMM_WORLD, x[i], 0));
		if (rank == 0)
			CHECK(value_of(x[i]) == expected);
	}
	for (i = 0; i < N; i++) {
		/* At the address of the program. */
		starpu_data_unregister(x[i]);
		CHECK(i % size != rank || values[i] == (i + 1) * (i + 2) / 2);
	}
}

/* What is sent once is not sent again until it is written. */
static void copies(void)
{
	int a = 1, b = 1, last = size - 1;
	starpu_data_handle_t x = owned(&a, 200, 0), y = owned(&b, 201, last);

	if (size > 1) {
		CHECK(starpu_mpi_cache_is_enabled());
		DONE(starpu_mpi_task_insert(MPI_COMM_WORLD, &add, STARPU_RW, y, STARPU_R, x, 0));
		CHECK(starpu_mpi_cached_receive(x) == (rank == last));
		CHECK(starpu_mpi_cached_send(x, last) == (rank == 0));
		DONE(starpu_mpi_task_insert(MPI_COMM_WORLD, &add, STARPU_RW, y, STARPU_R, x, 0));
		DONE(starpu_mpi_task_insert(MPI_COMM_WORLD, &add, STARPU_RW, x, STARPU_R, x, 0));
		CHECK(!starpu_mpi_cached_receive(x) && !starpu_mpi_cached_send(x, last));
		DONE(starpu_mpi_task_insert(MPI_COMM_WORLD, &add, STARPU_RW, y, STARPU_R, x, 0));
		starpu_mpi_cache_flush(MPI_COMM_WORLD, x);
		CHECK(!starpu_mpi_cached_receive(x) && !starpu_mpi_cached_send(x, last));
		/* On another rank than the owner's: it is sent back. */
		DONE(starpu_mpi_task_insert(MPI_COMM_WORLD, &add, STARPU_RW, y, STARPU_R, x, STARPU_EXECUTE_ON_NODE, 0, 0));
		DONE(starpu_mpi_task_insert(MPI_COMM_WORLD, &add, STARPU_RW, y, STARPU_R, x, STARPU_EXECUTE_ON_DATA, x, 0));
		if (rank == last)
			CHECK(value_of(y) == 1 + 1 + 1 + 2 + 2 + 2);
	}
	starpu_data_unregister(x);
	starpu_data_unregister(y);
}

/* The rank of a task that writes data of two owners: a policy of the program, or most bytes. */
static int last_rank(int me, int nodes, struct starpu_data_descr *descr, int n)
{
	(void) me;
	(void) descr;
	return n == 2 ? nodes - 1 : 0;
}

static void choices(void)
{
	int a = -1, b = -1, policy;
	starpu_data_handle_t x = owned(&a, 300, 0), y = owned(&b, 301, size - 1);

	DONE(starpu_mpi_task_insert(MPI_COMM_WORLD, &where, STARPU_W, x, STARPU_W, y, 0));
	if (rank == 0)
		CHECK(value_of(x) == 0);
	if (rank == size - 1)
		CHECK(value_of(y) == 0);
	policy = starpu_mpi_node_selection_register_policy(last_rank);
	CHECK(policy > 0);
	DONE(starpu_mpi_task_insert(MPI_COMM_WORLD, &where, STARPU_W, x, STARPU_W, y, STARPU_NODE_SELECTION_POLICY, policy, 0));
	if (rank == 0)
		CHECK(value_of(x) == size - 1);
	DONE(starpu_mpi_node_selection_set_current_policy(policy));
	CHECK(starpu_mpi_node_selection_get_current_policy() == policy);
	DONE(starpu_mpi_node_selection_unregister_policy(policy));
	CHECK(starpu_mpi_node_selection_get_current_policy() == 0);
	CHECK(starpu_mpi_node_selection_set_current_policy(policy) == -EINVAL);
	starpu_data_unregister(x);
	starpu_data_unregister(y);
}

/* Every process has its own. */
static void replicas(void)
{
	int own = rank, by = 5;
	starpu_data_handle_t x;

	starpu_variable_data_register(&x, STARPU_MAIN_RAM, (uintptr_t) &own, sizeof own);
	starpu_mpi_data_register(x, 400, STARPU_MPI_PER_NODE);
	DONE(starpu_mpi_task_insert(MPI_COMM_WORLD, &grow, STARPU_RW, x, STARPU_VALUE, &by, sizeof by, 0));
	starpu_data_unregister(x);
	CHECK(own == rank + by);
}

/* Sums over processes, the owner's value in them, in both modes and along trees. */
static void reductions(void)
{
	int mode, i, total = 1000, owner = size / 2;
	starpu_data_handle_t x = owned(&total, 500, owner);

	starpu_data_set_reduction_methods(x, &sum, &zero);
	for (mode = 0; mode < 4; mode++) {
		int expected = 1000;
		for (i = 0; i < 3 * size; i++) {
			int by = i + 1, on = mode == 3 ? (owner + 1) % size : i % size;
			if (mode % 2 == 0)
				DONE(starpu_mpi_task_insert(MPI_COMM_WORLD, &contribute, STARPU_REDUX, x, STARPU_VALUE, &by,
							    sizeof by, STARPU_EXECUTE_ON_NODE, on, 0));
			else
				DONE(starpu_mpi_task_insert(MPI_COMM_WORLD, &share, STARPU_MPI_REDUX, x, STARPU_VALUE, &by,
							    sizeof by, STARPU_EXECUTE_ON_NODE, on, 0));
			expected += by;
		}
		CHECK((starpu_mpi_data_get_redux_map(x) != NULL));
		if (mode == 0)
			DONE(starpu_mpi_redux_data(MPI_COMM_WORLD, x));
		else if (mode == 1)
			DONE(starpu_mpi_redux_data_tree(MPI_COMM_WORLD, x, 2));
		/* Else the next access ends it. */
		DONE(starpu_mpi_get_data_on_node(MPI_COMM_WORLD, x, 0));
		CHECK((starpu_mpi_data_get_redux_map(x) == NULL));
		if (rank == owner || rank == 0)
			CHECK(value_of(x) == expected);
		/* From the start again. */
		if (rank == owner) {
			DONE(starpu_data_acquire(x, STARPU_W));
			total = 1000;
			starpu_data_release(x);
		}
		starpu_mpi_cache_flush(MPI_COMM_WORLD, x);
	}
	starpu_data_unregister(x);
}

static void collect(void)
{
	int values[N], i;
	starpu_data_handle_t x[N];

	for (i = 0; i < N; i++) {
		values[i] = rank == 0 ? 10 + i : 0;
		starpu_variable_data_register(&x[i], STARPU_MAIN_RAM, (uintptr_t) &values[i], sizeof values[i]);
		starpu_mpi_data_register(x[i], 600 + i, i % size);
	}
	DONE(starpu_mpi_scatter_detached(x, N, 0, MPI_COMM_WORLD, NULL, NULL, NULL, NULL));
	for (i = 0; i < N; i++) {
		int by = 100;
		DONE(starpu_mpi_task_insert(MPI_COMM_WORLD, &grow, STARPU_RW, x[i], STARPU_VALUE, &by, sizeof by, 0));
	}
	DONE(starpu_mpi_gather_detached(x, N, 0, MPI_COMM_WORLD, NULL, NULL, NULL, NULL));
	for (i = 0; i < N; i++) {
		if (rank == 0)
			CHECK(value_of(x[i]) == 110 + i);
	}
	/* The owner changes, with the data. */
	starpu_mpi_data_migrate(MPI_COMM_WORLD, x[0], size - 1);
	CHECK(starpu_mpi_data_get_rank(x[0]) == size - 1);
	DONE(starpu_mpi_task_insert(MPI_COMM_WORLD, &add, STARPU_RW, x[0], STARPU_R, x[1], 0));
	if (rank == size - 1)
		CHECK(value_of(x[0]) == 110 + 111);
	/* A copy from one owner to another. */
	DONE(starpu_mpi_data_cpy(x[2], x[0], MPI_COMM_WORLD, 0, NULL, NULL));
	if (rank == 2 % size)
		CHECK(value_of(x[2]) == 221);
	for (i = 0; i < N; i++)
		starpu_data_unregister(x[i]);
}

static void built(void)
{
	int a = 1, b = 2;
	starpu_data_handle_t x = owned(&a, 700, 0), y = owned(&b, 701, size - 1);
	struct starpu_task *task = starpu_mpi_task_build(MPI_COMM_WORLD, &add, STARPU_RW, y, STARPU_R, x, 0);

	CHECK((task != NULL) == (rank == size - 1));
	if (task)
		DONE(starpu_task_submit(task));
	DONE(starpu_mpi_task_post_build(MPI_COMM_WORLD, &add, STARPU_RW, y, STARPU_R, x, 0));
	if (rank == size - 1)
		CHECK(value_of(y) == 3);
	starpu_data_unregister(x);
	starpu_data_unregister(y);
}

static void mistakes(void)
{
	int a = 1;
	starpu_data_handle_t x, y = owned(&a, 800, 0);

	starpu_variable_data_register(&x, STARPU_MAIN_RAM, (uintptr_t) &a, sizeof a);
	/* No owner, no such rank, a tag twice. */
	CHECK(starpu_mpi_task_insert(MPI_COMM_WORLD, &add, STARPU_RW, x, STARPU_R, y, 0) == -EINVAL);
	CHECK(starpu_mpi_task_insert(MPI_COMM_WORLD, &add, STARPU_RW, y, STARPU_R, y, STARPU_EXECUTE_ON_NODE, size, 0) == -EINVAL);
	starpu_mpi_data_register(x, 800, 0);
	CHECK(starpu_mpi_data_get_tag(x) == -1);
	starpu_data_unregister(x);
	starpu_data_unregister(y);
}

int main(int argc, char **argv)
{
	DONE(starpu_mpi_init_conf(&argc, &argv, 1, MPI_COMM_WORLD, NULL));
	starpu_mpi_comm_rank(MPI_COMM_WORLD, &rank);
	starpu_mpi_comm_size(MPI_COMM_WORLD, &size);
	chain();
	copies();
	choices();
	replicas();
	reductions();
	collect();
	built();
	mistakes();
	DONE(starpu_mpi_wait_for_all(MPI_COMM_WORLD));
	DONE(starpu_mpi_shutdown());
	return 0;
}
