/* Workers, memory nodes, and scheduling contexts with what a program keeps in them. */
#include "check.h"

static int ran, closed;

static void body(void *buffers[], void *cl_arg)
{
	(void) buffers;
	CHECK(cl_arg == &ran);
	CHECK(starpu_worker_get_type(starpu_worker_get_id()) == STARPU_CPU_WORKER);
	STARPU_ATOMIC_ADD(&ran, 1);
}

static void close_context(unsigned context, void *arg)
{
	(void) context;
	*(int *) arg += 1;
}

static void *code(void *arg)
{
	*(int *) arg += 10;
	return arg;
}

static struct starpu_codelet codelet = {.cpu_funcs = {body}, .nbuffers = 0, .name = "body"};

int main(void)
{
	int ids[STARPU_NMAXWORKERS], *list, first, i, count, level = 0, parallel = 0;
	unsigned context, other, two[2];
	char name[64];

	DONE(starpu_init(NULL));
	count = (int) starpu_worker_get_count();
	CHECK(count >= 1 && starpu_cpu_worker_get_count() == (unsigned) count);
	CHECK(starpu_cuda_worker_get_count() == 0 && starpu_worker_get_count_by_type(STARPU_CUDA_WORKER) == 0);
	CHECK(starpu_worker_get_ids_by_type(STARPU_CPU_WORKER, ids, STARPU_NMAXWORKERS) == (unsigned) count);
	for (i = 0; i < count; i++) {
		CHECK(ids[i] == i && starpu_worker_get_by_type(STARPU_CPU_WORKER, i) == i);
		CHECK(starpu_worker_get_memory_node((unsigned) i) == STARPU_MAIN_RAM);
		starpu_worker_get_name(i, name, sizeof name);
		CHECK(strncmp(name, "CPU ", 4) == 0);
		starpu_worker_get_name(i, name, 3);
		CHECK(strcmp(name, "CP") == 0);
	}
	CHECK(starpu_worker_get_by_type(STARPU_CPU_WORKER, count) == -1);
	CHECK(starpu_worker_get_id() == -1 && starpu_worker_get_count_by_type(STARPU_CPU_WORKER) == count);
	CHECK(starpu_memory_nodes_get_count() == 1 && starpu_node_get_kind(STARPU_MAIN_RAM) == STARPU_CPU_RAM);

	first = ids[0];
	context = starpu_sched_ctx_create(&first, 1, "one", STARPU_SCHED_CTX_POLICY_NAME, "eager",
					  STARPU_SCHED_CTX_USER_DATA, &level, 0);
	other = starpu_sched_ctx_create(ids, count, "all", STARPU_SCHED_CTX_POLICY_NAME, "eager", 0);
	CHECK(context != 0 && other != 0 && other != context);
	CHECK(starpu_sched_ctx_get_nworkers(context) == 1 && starpu_sched_ctx_get_nworkers(other) == (unsigned) count);
	CHECK(starpu_sched_ctx_contains_worker(first, context) && !starpu_sched_ctx_contains_worker(count, context));
	CHECK(starpu_sched_ctx_get_nshared_workers(context, other) == 1);
	CHECK(starpu_sched_ctx_get_user_data(context) == &level);
	CHECK(starpu_sched_ctx_get_workers_list(other, &list) == (unsigned) count && list[0] == first);
	free(list);
	starpu_sched_ctx_register_close_callback(context, close_context, &closed);
	starpu_sched_ctx_set_inheritor(context, other);

	CHECK(starpu_sched_ctx_get_context() == STARPU_NMAX_SCHED_CTXS);
	two[0] = context;
	starpu_sched_ctx_set_context(&two[0]);
	CHECK(starpu_sched_ctx_get_context() == context);
	for (i = 0; i < 10; i++)
		DONE(starpu_task_insert(&codelet, STARPU_CL_ARGS_NFREE, &ran, (size_t) 0, 0));
	starpu_sched_ctx_set_context(NULL);
	for (i = 0; i < 10; i++) {
		struct starpu_task *task = starpu_task_create();

		task->cl = &codelet;
		task->cl_arg = &ran;
		DONE(starpu_task_submit_to_ctx(task, other));
	}
	DONE(starpu_task_wait_for_all());
	CHECK(ran == 20);
	CHECK(starpu_sched_ctx_exec_parallel_code(code, &parallel, other) == &parallel && parallel == 10);
	starpu_sched_ctx_finished_submit(context);
	starpu_sched_ctx_delete(context);
	starpu_sched_ctx_delete(other);
	CHECK(closed <= 1);
	starpu_shutdown();
	return 0;
}
