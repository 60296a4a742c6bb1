/* y = a x + y on blocks of two vectors: values and addresses after the end of the tasks. */
#include "check.h"

#define N 1000
#define PARTS 7

static float x[N], y[N];

static void axpy(void *buffers[], void *cl_arg)
{
	const float *xs = (const float *) STARPU_VECTOR_GET_PTR(buffers[0]);
	float *ys = (float *) STARPU_VECTOR_GET_PTR(buffers[1]);
	size_t n = STARPU_VECTOR_GET_NX(buffers[0]), i;
	float a;

	starpu_codelet_unpack_args(cl_arg, &a);
	CHECK(n == STARPU_VECTOR_GET_NX(buffers[1]));
	CHECK(STARPU_VECTOR_GET_ELEMSIZE(buffers[1]) == sizeof(float));
	/* Parts are views into the arrays, at the same place in both. */
	CHECK(xs >= x && xs + n <= x + N && xs - x == ys - y);
	for (i = 0; i < n; i++)
		ys[i] += a * xs[i];
}

static struct starpu_codelet codelet = {
	.cpu_funcs = {axpy},
	.cpu_funcs_name = {"axpy"},
	.nbuffers = 2,
	.modes = {STARPU_R, STARPU_RW},
	.name = "axpy",
};

int main(void)
{
	struct starpu_data_filter filter = {.filter_func = starpu_vector_filter_block, .nchildren = PARTS};
	starpu_data_handle_t xh, yh;
	float a = 2.5f;
	int i, round;

	for (i = 0; i < N; i++) {
		x[i] = (float) i;
		y[i] = 1.0f;
	}
	DONE(starpu_init(NULL));
	CHECK(starpu_cpu_worker_get_count() >= 1);
	starpu_vector_data_register(&xh, STARPU_MAIN_RAM, (uintptr_t) x, N, sizeof x[0]);
	starpu_vector_data_register(&yh, STARPU_MAIN_RAM, (uintptr_t) y, N, sizeof y[0]);
	CHECK(starpu_vector_get_nx(xh) == N);
	starpu_data_partition(xh, &filter);
	starpu_data_partition(yh, &filter);
	CHECK(starpu_data_get_nb_children(xh) == PARTS);
	for (round = 0; round < 3; round++)
		for (i = 0; i < PARTS; i++)
			DONE(starpu_task_insert(&codelet, STARPU_R, starpu_data_get_sub_data(xh, 1, i), STARPU_VALUE, &a,
						sizeof a, STARPU_RW, starpu_data_get_sub_data(yh, 1, i), 0));
	DONE(starpu_task_wait_for_all());
	starpu_data_unpartition(xh, STARPU_MAIN_RAM);
	starpu_data_unpartition(yh, STARPU_MAIN_RAM);
	DONE(starpu_data_acquire(yh, STARPU_R));
	CHECK((float *) starpu_data_get_local_ptr(yh) == y);
	CHECK(y[3] == 1.0f + 3 * 2.5f * 3.0f);
	starpu_data_release(yh);
	starpu_data_unregister(xh);
	starpu_data_unregister(yh);
	starpu_shutdown();
	for (i = 0; i < N; i++)
		CHECK(y[i] == 1.0f + 3 * (a * (float) i));
	return 0;
}
