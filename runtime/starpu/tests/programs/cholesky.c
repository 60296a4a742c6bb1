/* A Cholesky factorisation by tiles, in place, with priorities: L times its transpose is the matrix. */
#include "check.h"

#define TILES 5
#define SIZE 12
#define N (TILES * SIZE)

/* By columns, as StarPU has matrices: element (i, j) is at i + j * N. */
static double a[N * N], before[N * N];

static void potrf(void *buffers[], void *cl_arg)
{
	double *t = (double *) STARPU_MATRIX_GET_PTR(buffers[0]);
	size_t n = STARPU_MATRIX_GET_NX(buffers[0]), ld = STARPU_MATRIX_GET_LD(buffers[0]), i, j, k;

	(void) cl_arg;
	CHECK(n == SIZE && ld == N && t >= a && t < a + N * N);
	for (j = 0; j < n; j++) {
		for (k = 0; k < j; k++)
			for (i = j; i < n; i++)
				t[i + j * ld] -= t[i + k * ld] * t[j + k * ld];
		t[j + j * ld] = sqrt(t[j + j * ld]);
		for (i = j + 1; i < n; i++)
			t[i + j * ld] /= t[j + j * ld];
	}
}

static void trsm(void *buffers[], void *cl_arg)
{
	const double *l = (const double *) STARPU_MATRIX_GET_PTR(buffers[0]);
	double *t = (double *) STARPU_MATRIX_GET_PTR(buffers[1]);
	size_t n = STARPU_MATRIX_GET_NX(buffers[1]), ld = STARPU_MATRIX_GET_LD(buffers[1]), i, j, k;

	(void) cl_arg;
	for (j = 0; j < n; j++) {
		for (k = 0; k < j; k++)
			for (i = 0; i < n; i++)
				t[i + j * ld] -= t[i + k * ld] * l[j + k * ld];
		for (i = 0; i < n; i++)
			t[i + j * ld] /= l[j + j * ld];
	}
}

static void gemm(void *buffers[], void *cl_arg)
{
	const double *l = (const double *) STARPU_MATRIX_GET_PTR(buffers[0]);
	const double *r = (const double *) STARPU_MATRIX_GET_PTR(buffers[1]);
	double *t = (double *) STARPU_MATRIX_GET_PTR(buffers[2]);
	size_t n = STARPU_MATRIX_GET_NX(buffers[2]), ld = STARPU_MATRIX_GET_LD(buffers[2]), i, j, k;

	(void) cl_arg;
	for (j = 0; j < n; j++)
		for (k = 0; k < n; k++)
			for (i = 0; i < n; i++)
				t[i + j * ld] -= l[i + k * ld] * r[j + k * ld];
}

static struct starpu_codelet potrf_codelet = {
	.cpu_funcs = {potrf}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "potrf"};
static struct starpu_codelet trsm_codelet = {
	.cpu_funcs = {trsm}, .nbuffers = 2, .modes = {STARPU_R, STARPU_RW}, .name = "trsm"};
static struct starpu_codelet gemm_codelet = {
	.cpu_funcs = {gemm}, .nbuffers = 3, .modes = {STARPU_R, STARPU_R, STARPU_RW}, .name = "gemm"};

int main(void)
{
	struct starpu_data_filter columns = {.filter_func = starpu_matrix_filter_vertical_block, .nchildren = TILES};
	struct starpu_data_filter rows = {.filter_func = starpu_matrix_filter_block, .nchildren = TILES};
	starpu_data_handle_t handle;
	int i, j, k;

	for (j = 0; j < N; j++)
		for (i = 0; i < N; i++)
			before[i + j * N] = a[i + j * N] = 1.0 / (1.0 + i + j) + (i == j ? (double) N : 0.0);
	DONE(starpu_init(NULL));
	starpu_matrix_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t) a, N, N, N, sizeof a[0]);
	starpu_data_map_filters(handle, 2, &columns, &rows);
#define TILE(i, j) starpu_data_get_sub_data(handle, 2, j, i)
	for (k = 0; k < TILES; k++) {
		starpu_iteration_push(k);
		DONE(starpu_task_insert(&potrf_codelet, STARPU_RW, TILE(k, k), STARPU_PRIORITY, STARPU_MAX_PRIO, 0));
		for (i = k + 1; i < TILES; i++)
			DONE(starpu_task_insert(&trsm_codelet, STARPU_R, TILE(k, k), STARPU_RW, TILE(i, k), STARPU_FLOPS,
						(double) SIZE * SIZE * SIZE, 0));
		for (j = k + 1; j < TILES; j++)
			for (i = j; i < TILES; i++)
				DONE(starpu_task_insert(&gemm_codelet, STARPU_R, TILE(i, k), STARPU_R, TILE(j, k), STARPU_RW,
							TILE(i, j), STARPU_PRIORITY, i == j ? 1 : 0, 0));
		starpu_iteration_pop();
	}
	DONE(starpu_task_wait_for_all());
	starpu_data_unpartition(handle, STARPU_MAIN_RAM);
	starpu_data_unregister(handle);
	starpu_shutdown();
	for (j = 0; j < N; j++)
		for (i = j; i < N; i++) {
			double sum = 0.0;
			for (k = 0; k <= j; k++)
				sum += a[i + k * N] * a[j + k * N];
			CHECK(fabs(sum - before[i + j * N]) < 1e-10);
		}
	return 0;
}
