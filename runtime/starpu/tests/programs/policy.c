/* A scheduling policy of the program's own: the newest task first, in one list under a lock. */
#include "check.h"
#include <starpu_scheduler.h>

#define TASKS 100

struct policy_data {
	struct starpu_task_list list;
	starpu_pthread_mutex_t lock;
	int pushed, popped;
};

static int started, stopped, ran, in_order[TASKS];

static void start(unsigned context)
{
	struct policy_data *data = (struct policy_data *) calloc(1, sizeof *data);

	starpu_task_list_init(&data->list);
	STARPU_PTHREAD_MUTEX_INIT(&data->lock, NULL);
	starpu_sched_ctx_set_policy_data(context, data);
	started++;
}

static void stop(unsigned context)
{
	struct policy_data *data = (struct policy_data *) starpu_sched_ctx_get_policy_data(context);

	CHECK(starpu_task_list_empty(&data->list));
	CHECK(data->pushed == data->popped && data->pushed >= TASKS);
	STARPU_PTHREAD_MUTEX_DESTROY(&data->lock);
	free(data);
	stopped++;
}

static int push(struct starpu_task *task)
{
	struct policy_data *data = (struct policy_data *) starpu_sched_ctx_get_policy_data(task->sched_ctx);
	struct starpu_worker_collection *workers = starpu_sched_ctx_get_worker_collection(task->sched_ctx);
	struct starpu_sched_ctx_iterator it;

	STARPU_PTHREAD_MUTEX_LOCK(&data->lock);
	starpu_task_list_push_front(&data->list, task);
	data->pushed++;
	starpu_push_task_end(task);
	STARPU_PTHREAD_MUTEX_UNLOCK(&data->lock);
	workers->init_iterator(workers, &it);
	while (workers->has_next(workers, &it))
		starpu_wake_worker_relax_light(workers->get_next(workers, &it));
	return 0;
}

static struct starpu_task *pop(unsigned context)
{
	struct policy_data *data = (struct policy_data *) starpu_sched_ctx_get_policy_data(context);
	struct starpu_task *task = NULL;

	STARPU_PTHREAD_MUTEX_LOCK(&data->lock);
	if (!starpu_task_list_empty(&data->list)) {
		task = starpu_task_list_pop_front(&data->list);
		data->popped++;
	}
	STARPU_PTHREAD_MUTEX_UNLOCK(&data->lock);
	return task;
}

static struct starpu_sched_policy policy = {
	.init_sched = start,
	.deinit_sched = stop,
	.push_task = push,
	.pop_task = pop,
	.policy_name = "newest",
	.policy_description = "newest task first",
	.worker_type = STARPU_WORKER_LIST,
};

static void body(void *buffers[], void *cl_arg)
{
	(void) buffers;
	in_order[STARPU_ATOMIC_ADD(&ran, 1) - 1] = (int) (intptr_t) cl_arg;
}

static struct starpu_codelet codelet = {.cpu_funcs = {body}, .nbuffers = 0, .name = "body"};

int main(void)
{
	struct starpu_conf conf;
	int i, ordered;

	DONE(starpu_conf_init(&conf));
	conf.sched_policy = &policy;
	DONE(starpu_init(&conf));
	CHECK(started == 1);
	starpu_pause();
	for (i = 0; i < TASKS; i++) {
		struct starpu_task *task = starpu_task_create();

		task->cl = &codelet;
		task->cl_arg = (void *) (intptr_t) i;
		DONE(starpu_task_submit(task));
	}
	starpu_resume();
	DONE(starpu_task_wait_for_all());
	CHECK(ran == TASKS);
	ordered = starpu_cpu_worker_get_count() == 1;
	starpu_shutdown();
	CHECK(stopped == 1);
	/* With one worker the order is the policy's, but for a task that the worker may have taken first. */
	for (i = 2; ordered && i < TASKS; i++)
		CHECK(in_order[i] < in_order[i - 1]);
	return 0;
}
