/* Messages between processes: their order, 64-bit tags, ends and mistakes. Any number of processes. */
#include "../check.h"
#include <errno.h>
#include <starpu_mpi.h>

#define LARGE_TAG ((starpu_mpi_tag_t) 1 << 40)

static int rank, size, worker_of_callback = -2;

static void note(void *arg)
{
	worker_of_callback = starpu_worker_get_id();
	++*(int *) arg;
}

static starpu_data_handle_t variable(int *value)
{
	starpu_data_handle_t handle;

	starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t) value, sizeof *value);
	return handle;
}

/* A value goes round and grows by one at each process. */
static void ring(void)
{
	int value = 0;
	starpu_data_handle_t handle = variable(&value);
	int next = (rank + 1) % size, before = (rank + size - 1) % size;
	MPI_Status status;

	if (rank > 0) {
		DONE(starpu_mpi_recv(handle, before, LARGE_TAG, MPI_COMM_WORLD, &status));
		CHECK(status.MPI_SOURCE == before);
	}
	DONE(starpu_data_acquire(handle, STARPU_RW));
	value++;
	starpu_data_release(handle);
	DONE(starpu_mpi_isend_detached(handle, next, LARGE_TAG, MPI_COMM_WORLD, NULL, NULL));
	if (rank == 0) {
		int bytes = 0;
		DONE(starpu_mpi_recv(handle, before, LARGE_TAG, MPI_COMM_WORLD, &status));
		MPI_Get_count(&status, MPI_BYTE, &bytes);
		CHECK(bytes == sizeof value);
		DONE(starpu_data_acquire(handle, STARPU_R));
		CHECK(value == size);
		starpu_data_release(handle);
	}
	starpu_data_unregister(handle);
}

/* Sends with one tag belong to receives in the order of the calls, also where the receives come later and the
 * data of the first send are ready last. */
static void order(void)
{
	enum { N = 20 };
	int values[N], peer = rank ^ 1, i, ends = 0;
	starpu_data_handle_t handles[N];

	if (peer >= size)
		return;
	for (i = 0; i < N; i++) {
		values[i] = rank < peer ? 100 + i : 0;
		handles[i] = variable(&values[i]);
	}
	if (rank < peer) {
		DONE(starpu_data_acquire(handles[0], STARPU_RW));
		for (i = 0; i < N; i++)
			DONE(starpu_mpi_isend_detached(handles[i], peer, 7, MPI_COMM_WORLD, note, &ends));
		values[0] = 1000;
		starpu_data_release(handles[0]);
	} else {
		starpu_sleep(0.02f);
		for (i = 0; i < N; i++)
			DONE(starpu_mpi_irecv_detached(handles[i], peer, 7, MPI_COMM_WORLD, note, &ends));
	}
	DONE(starpu_mpi_wait_for_all(MPI_COMM_WORLD));
	CHECK(ends == N && worker_of_callback == -1);
	for (i = 0; i < N; i++) {
		DONE(starpu_data_acquire(handles[i], STARPU_R));
		CHECK(values[i] == (i == 0 ? 1000 : 100 + i));
		starpu_data_release(handles[i]);
		starpu_data_unregister(handles[i]);
	}
}

/* A synchronous send ends after its receive; requests are NULL after their end. */
static void requests(void)
{
	int value = rank, flag = 0, peer = rank ^ 1;
	starpu_data_handle_t handle = variable(&value);
	starpu_mpi_req request = NULL;

	if (peer < size && rank < peer) {
		DONE(starpu_mpi_issend(handle, &request, peer, 8, MPI_COMM_WORLD));
		CHECK(request != NULL);
		DONE(starpu_mpi_test(&request, &flag, MPI_STATUS_IGNORE));
		CHECK(!flag);
		DONE(starpu_mpi_barrier(MPI_COMM_WORLD));
		DONE(starpu_mpi_wait(&request, MPI_STATUS_IGNORE));
		CHECK(request == NULL);
		CHECK(starpu_mpi_wait(&request, MPI_STATUS_IGNORE) == -EINVAL);
	} else {
		DONE(starpu_mpi_barrier(MPI_COMM_WORLD));
		if (peer < size) {
			DONE(starpu_mpi_irecv(handle, &request, peer, 8, MPI_COMM_WORLD));
			while (!flag)
				DONE(starpu_mpi_test(&request, &flag, MPI_STATUS_IGNORE));
			CHECK(request == NULL);
			DONE(starpu_data_acquire(handle, STARPU_R));
			CHECK(value == peer);
			starpu_data_release(handle);
		}
	}
	starpu_data_unregister(handle);
}

/* Two communicators with the same processes, and one with the processes in another order. */
static void communicators(void)
{
	MPI_Comm same, turned;
	int a = 1000 + rank, b = 2000 + rank, got_a = 0, got_b = 0, turned_rank;
	starpu_data_handle_t from_a = variable(&a), from_b = variable(&b), to_a = variable(&got_a), to_b = variable(&got_b);

	MPI_Comm_dup(MPI_COMM_WORLD, &same);
	MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &turned);
	DONE(starpu_mpi_comm_register(same));
	DONE(starpu_mpi_comm_register(turned));
	MPI_Comm_rank(turned, &turned_rank);
	CHECK(turned_rank == size - 1 - rank);
	DONE(starpu_mpi_isend_detached(from_a, (rank + 1) % size, 9, MPI_COMM_WORLD, NULL, NULL));
	DONE(starpu_mpi_isend_detached(from_b, (rank + 1) % size, 9, same, NULL, NULL));
	DONE(starpu_mpi_recv(to_b, (rank + size - 1) % size, 9, same, MPI_STATUS_IGNORE));
	DONE(starpu_mpi_recv(to_a, (rank + size - 1) % size, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	DONE(starpu_data_acquire(to_a, STARPU_R));
	DONE(starpu_data_acquire(to_b, STARPU_R));
	CHECK(got_a == 1000 + (rank + size - 1) % size && got_b == 2000 + (rank + size - 1) % size);
	starpu_data_release(to_a);
	starpu_data_release(to_b);
	/* To the last process of the turned communicator, which is rank 0. */
	DONE(starpu_mpi_isend_detached(from_a, size - 1, 10 + rank, turned, NULL, NULL));
	if (rank == 0) {
		int i;
		for (i = 0; i < size; i++) {
			DONE(starpu_mpi_recv(to_a, size - 1 - i, 10 + i, turned, MPI_STATUS_IGNORE));
			DONE(starpu_data_acquire(to_a, STARPU_R));
			CHECK(got_a == 1000 + i);
			starpu_data_release(to_a);
		}
	}
	DONE(starpu_mpi_barrier(turned));
	starpu_data_unregister(from_a);
	starpu_data_unregister(from_b);
	starpu_data_unregister(to_a);
	starpu_data_unregister(to_b);
	MPI_Comm_free(&same);
	MPI_Comm_free(&turned);
}

/* The last of several messages notifies a tag. */
static void tags(void)
{
	enum { N = 3 };
	int values[N], i;
	int ranks[N] = { rank, rank, rank };
	starpu_mpi_tag_t data_tags[N] = { 20, 21, 22 };
	MPI_Comm comms[N] = { MPI_COMM_WORLD, MPI_COMM_WORLD, MPI_COMM_WORLD };
	starpu_data_handle_t from[N], to[N];
	int got[N];

	for (i = 0; i < N; i++) {
		values[i] = 30 + i;
		got[i] = 0;
		from[i] = variable(&values[i]);
		to[i] = variable(&got[i]);
	}
	DONE(starpu_mpi_irecv_array_detached_unlock_tag(N, to, ranks, data_tags, comms, 77));
	DONE(starpu_mpi_isend_array_detached_unlock_tag(N, from, ranks, data_tags, comms, 78));
	DONE(starpu_tag_wait(77));
	DONE(starpu_tag_wait(78));
	/* Of no messages, too. */
	DONE(starpu_mpi_isend_array_detached_unlock_tag(0, from, ranks, data_tags, comms, 79));
	DONE(starpu_tag_wait(79));
	for (i = 0; i < N; i++) {
		starpu_data_unregister(from[i]);
		starpu_data_unregister(to[i]);
		CHECK(got[i] == 30 + i);
	}
}

static void mistakes(void)
{
	int value = 0, small[2] = { 1, 2 }, ends = 0;
	starpu_data_handle_t handle = variable(&value), empty, vector;
	starpu_mpi_req request = NULL;

	CHECK(starpu_mpi_send(handle, size, 1, MPI_COMM_WORLD) == -EINVAL);
	CHECK(starpu_mpi_recv(handle, -1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == -EINVAL);
	CHECK(starpu_mpi_wait(&request, MPI_STATUS_IGNORE) == -EINVAL);
	CHECK(starpu_mpi_wait(NULL, MPI_STATUS_IGNORE) == -EINVAL);
	CHECK(starpu_mpi_data_get_tag(handle) == -1 && starpu_mpi_data_get_rank(handle) == -1);
	starpu_mpi_data_register(handle, 5, size);
	CHECK(starpu_mpi_data_get_rank(handle) == -1);
	/* Data without a value: the receiver is told, and does not wait. */
	starpu_variable_data_register(&empty, -1, 0, sizeof(int));
	if (rank == 0)
		CHECK(starpu_mpi_isend_detached(empty, size - 1, 30, MPI_COMM_WORLD, NULL, NULL) == -EINVAL);
	if (rank == size - 1) {
		CHECK(starpu_mpi_recv(handle, 0, 30, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == -EINVAL);
		/* Too many bytes. */
		starpu_vector_data_register(&vector, STARPU_MAIN_RAM, (uintptr_t) small, 2, sizeof small[0]);
		DONE(starpu_mpi_isend_detached(vector, rank, 31, MPI_COMM_WORLD, note, &ends));
		CHECK(starpu_mpi_recv(handle, rank, 31, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == -EINVAL);
		CHECK(value == 0);
		starpu_data_unregister(vector);
	}
	starpu_data_unregister(empty);
	starpu_data_unregister(handle);
}

int main(int argc, char **argv)
{
	int64_t *largest = NULL;
	int found = 0, turn, level;
	starpu_mpi_tag_t first;

	CHECK(starpu_mpi_barrier(MPI_COMM_WORLD) == -EINVAL);
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	for (turn = 0; turn < 2; turn++) {
		DONE(starpu_mpi_init_conf(&argc, &argv, 0, MPI_COMM_WORLD, NULL));
		CHECK(starpu_mpi_init_conf(&argc, &argv, 0, MPI_COMM_WORLD, NULL) == -EINVAL);
		starpu_mpi_comm_rank(MPI_COMM_WORLD, &rank);
		starpu_mpi_comm_size(MPI_COMM_WORLD, &size);
		CHECK(starpu_mpi_world_rank() == rank && starpu_mpi_world_size() == size);
		starpu_mpi_comm_get_attr(MPI_COMM_WORLD, STARPU_MPI_TAG_UB, &largest, &found);
		CHECK(found && *largest > LARGE_TAG);
		first = starpu_mpi_tags_allocate(10);
		CHECK(first > 0 && starpu_mpi_tags_get_next_value() >= first + 10);
		starpu_mpi_tags_free(first);
		ring();
		order();
		requests();
		communicators();
		tags();
		mistakes();
		DONE(starpu_mpi_shutdown());
	}
	MPI_Finalize();
	return 0;
}
