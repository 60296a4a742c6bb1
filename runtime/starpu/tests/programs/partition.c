/* A planned partition: tasks on the parts and on the whole in turn, the whole in two ways. */
#include "check.h"

#define ROWS 8
#define COLUMNS 6

static int m[ROWS * COLUMNS];

static void add(void *buffers[], void *cl_arg)
{
	int *p = (int *) STARPU_MATRIX_GET_PTR(buffers[0]);
	size_t nx = STARPU_MATRIX_GET_NX(buffers[0]), ny = STARPU_MATRIX_GET_NY(buffers[0]);
	size_t ld = STARPU_MATRIX_GET_LD(buffers[0]), i, j;
	int value;

	starpu_codelet_unpack_args(cl_arg, &value);
	CHECK(p >= m && p + (ny - 1) * ld + nx <= m + ROWS * COLUMNS && ld == ROWS);
	for (j = 0; j < ny; j++)
		for (i = 0; i < nx; i++)
			p[i + j * ld] += value;
}

static void sum(void *buffers[], void *cl_arg)
{
	const int *p = (const int *) STARPU_MATRIX_GET_PTR(buffers[0]);
	size_t nx = STARPU_MATRIX_GET_NX(buffers[0]), ny = STARPU_MATRIX_GET_NY(buffers[0]);
	size_t ld = STARPU_MATRIX_GET_LD(buffers[0]), i, j;
	int expected, total = 0;

	starpu_codelet_unpack_args(cl_arg, &expected);
	for (j = 0; j < ny; j++)
		for (i = 0; i < nx; i++)
			total += p[i + j * ld];
	CHECK(total == expected);
}

/* Sets all elements, of memory that is not the program's, to a value. */
static void set(void *buffers[], void *cl_arg)
{
	int *p = (int *) STARPU_MATRIX_GET_PTR(buffers[0]), value;
	size_t nx = STARPU_MATRIX_GET_NX(buffers[0]), ny = STARPU_MATRIX_GET_NY(buffers[0]);
	size_t ld = STARPU_MATRIX_GET_LD(buffers[0]), i, j;

	starpu_codelet_unpack_args(cl_arg, &value);
	for (j = 0; j < ny; j++)
		for (i = 0; i < nx; i++)
			p[i + j * ld] = value;
}

static struct starpu_codelet set_codelet = {.cpu_funcs = {set}, .nbuffers = 1, .modes = {STARPU_W}, .name = "set"};
static struct starpu_codelet add_codelet = {.cpu_funcs = {add}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "add"};
static struct starpu_codelet sum_codelet = {.cpu_funcs = {sum}, .nbuffers = 1, .modes = {STARPU_R}, .name = "sum"};

/* Parts that are planned stay views of their whole when it loses its value. */
static void invalidated_whole(void)
{
	struct starpu_data_filter columns = {.filter_func = starpu_matrix_filter_vertical_block, .nchildren = 3};
	starpu_data_handle_t whole, parts[3];
	int i, one = 1, none = 0, expected = ROWS * COLUMNS, round;

	starpu_matrix_data_register(&whole, -1, 0, ROWS, ROWS, COLUMNS, sizeof m[0]);
	starpu_data_partition_plan(whole, &columns, parts);
	for (round = 0; round < 3; round++) {
		DONE(starpu_task_insert(&set_codelet, STARPU_W, whole, STARPU_VALUE, &none, sizeof none, 0));
		for (i = 0; i < 3; i++)
			DONE(starpu_task_insert(&set_codelet, STARPU_W, parts[i], STARPU_VALUE, &one, sizeof one, 0));
		DONE(starpu_task_insert(&sum_codelet, STARPU_R, whole, STARPU_VALUE, &expected, sizeof expected, 0));
		starpu_data_invalidate(whole);
	}
	starpu_data_partition_clean(whole, 3, parts);
	starpu_data_unregister(whole);
}

int main(void)
{
	struct starpu_data_filter columns = {.filter_func = starpu_matrix_filter_vertical_block, .nchildren = 3};
	struct starpu_data_filter rows = {.filter_func = starpu_matrix_filter_block, .nchildren = 2};
	starpu_data_handle_t whole, by_columns[3], by_rows[2];
	int i, one = 1, expected, half;

	DONE(starpu_init(NULL));
	invalidated_whole();
	starpu_matrix_data_register(&whole, STARPU_MAIN_RAM, (uintptr_t) m, ROWS, ROWS, COLUMNS, sizeof m[0]);
	starpu_data_partition_plan(whole, &columns, by_columns);
	starpu_data_partition_plan(whole, &rows, by_rows);

	/* Without being told: the library partitions and unpartitions as the tasks need. */
	for (i = 0; i < 3; i++)
		DONE(starpu_task_insert(&add_codelet, STARPU_RW, by_columns[i], STARPU_VALUE, &one, sizeof one, 0));
	expected = ROWS * COLUMNS;
	DONE(starpu_task_insert(&sum_codelet, STARPU_R, whole, STARPU_VALUE, &expected, sizeof expected, 0));
	for (i = 0; i < 2; i++)
		DONE(starpu_task_insert(&add_codelet, STARPU_RW, by_rows[i], STARPU_VALUE, &one, sizeof one, 0));
	expected = 2 * ROWS * COLUMNS;
	DONE(starpu_task_insert(&sum_codelet, STARPU_R, whole, STARPU_VALUE, &expected, sizeof expected, 0));

	/* As it is told: for reading in both ways at once, then for writing. */
	starpu_data_partition_readonly_submit(whole, 3, by_columns);
	starpu_data_partition_readonly_submit(whole, 2, by_rows);
	half = ROWS * COLUMNS;
	DONE(starpu_task_insert(&sum_codelet, STARPU_R, by_rows[0], STARPU_VALUE, &half, sizeof half, 0));
	half = 2 * ROWS * COLUMNS / 3;
	DONE(starpu_task_insert(&sum_codelet, STARPU_R, by_columns[2], STARPU_VALUE, &half, sizeof half, 0));
	starpu_data_unpartition_submit(whole, 2, by_rows, -1);
	starpu_data_unpartition_submit(whole, 3, by_columns, -1);
	starpu_data_partition_submit(whole, 2, by_rows);
	DONE(starpu_task_insert(&add_codelet, STARPU_RW, by_rows[1], STARPU_VALUE, &one, sizeof one, 0));
	starpu_data_unpartition_submit(whole, 2, by_rows, -1);
	starpu_data_partition_clean(whole, 2, by_rows);
	starpu_data_partition_clean(whole, 3, by_columns);
	starpu_data_unregister(whole);
	starpu_shutdown();
	for (i = 0; i < ROWS * COLUMNS; i++)
		CHECK(m[i] == (i % ROWS < ROWS / 2 ? 2 : 3));
	return 0;
}
