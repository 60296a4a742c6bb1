/* StarPU: CPU time of one empty task, submission included. Scheduler lws unless STARPU_SCHED names another one.
 * Needs libstarpu-dev. Usage: starpu_tasks [workers] [tasks]. The submitting thread is no worker. */
#include "peer.h"
#include <starpu.h>

static void empty(void *buffers[], void *argument)
{
	(void)buffers;
	(void)argument;
}

static struct starpu_codelet
	none = { .cpu_funcs = { empty }, .nbuffers = 0, .name = "none" },
	one = { .cpu_funcs = { empty }, .nbuffers = 1, .modes = { STARPU_RW }, .name = "one" },
	two = { .cpu_funcs = { empty }, .nbuffers = 2, .modes = { STARPU_R, STARPU_RW }, .name = "two" },
	three = { .cpu_funcs = { empty }, .nbuffers = 3, .modes = { STARPU_R, STARPU_R, STARPU_RW }, .name = "three" };

static starpu_data_handle_t grid[GRAPH3_DATA], tiles[CHOL_TILES];
static float grid_values[GRAPH3_DATA], tile_values[CHOL_TILES];

static void submit(struct starpu_codelet *codelet, int priority, starpu_data_handle_t a, starpu_data_handle_t b,
                   starpu_data_handle_t c)
{
	struct starpu_task *task = starpu_task_create();
	task->cl = codelet;
	task->priority = priority;
	if (a) task->handles[0] = a;
	if (b) task->handles[1] = b;
	if (c) task->handles[2] = c;
	int refused = starpu_task_submit(task);
	if (refused) {
		fprintf(stderr, "StarPU refused a task: error %d\n", refused);
		exit(1);
	}
}

static void submit_cholesky(long n)
{
	(void)n;
	for (int k = 0; k < CHOL; k++) {
		int base = 3 * (CHOL - k);
		submit(&one, base, tiles[TILE(k, k)], NULL, NULL);
		for (int i = k + 1; i < CHOL; i++)
			submit(&two, base - (i - k), tiles[TILE(k, k)], tiles[TILE(i, k)], NULL);
		for (int j = k + 1; j < CHOL; j++) {
			submit(&two, base - 2 * (j - k), tiles[TILE(j, k)], tiles[TILE(j, j)], NULL);
			for (int i = j + 1; i < CHOL; i++)
				submit(&three, base - (j - k) - (i - k), tiles[TILE(i, k)], tiles[TILE(j, k)], tiles[TILE(i, j)]);
		}
	}
}

static void submit_independent(long n)
{
	for (long i = 0; i < n; i++) submit(&none, 0, NULL, NULL, NULL);
}

static void submit_chain(long n)
{
	for (long i = 0; i < n; i++) submit(&one, 0, grid[0], NULL, NULL);
}

static void submit_graph3(long n)
{
	for (long i = 0; i < n; i++) submit(&three, 0, grid[GRAPH3_A(i)], grid[GRAPH3_B(i)], grid[GRAPH3_C(i)]);
}

int main(int argc, char **argv)
{
	int workers;
	long n;
	if (!task_arguments(argc, argv, &workers, &n)) return 2;
	struct starpu_conf conf;
	starpu_conf_init(&conf);
	conf.ncpus = workers;
	conf.ncuda = 0;
	conf.nopencl = 0;
	if (!getenv("STARPU_SCHED")) conf.sched_policy_name = "lws";
	if (starpu_init(&conf)) {
		fprintf(stderr, "StarPU does not start with %d CPU workers\n", workers);
		return 1;
	}
	for (int i = 0; i < GRAPH3_DATA; i++)
		starpu_variable_data_register(&grid[i], STARPU_MAIN_RAM, (uintptr_t)&grid_values[i], sizeof grid_values[i]);
	for (int i = 0; i < CHOL_TILES; i++)
		starpu_variable_data_register(&tiles[i], STARPU_MAIN_RAM, (uintptr_t)&tile_values[i], sizeof tile_values[i]);
	const struct { const char *name; void (*submit)(long); long tasks; } cases[] = {
		{ "independent", submit_independent, n },
		{ "chain", submit_chain, n },
		{ "graph3", submit_graph3, n },
		{ "cholesky_empty", submit_cholesky, CHOL_TASKS },
	};
	for (int print = 0; print < 2; print++) /* once to warm up, once to measure */
		for (int c = 0; c < 4; c++) {
			struct stamp from = stamp_now();
			cases[c].submit(n);
			starpu_task_wait_for_all();
			if (print) report_tasks("starpu", cases[c].name, workers, cases[c].tasks, from);
		}
	for (int i = 0; i < GRAPH3_DATA; i++) starpu_data_unregister(grid[i]);
	for (int i = 0; i < CHOL_TILES; i++) starpu_data_unregister(tiles[i]);
	starpu_shutdown();
	return 0;
}
