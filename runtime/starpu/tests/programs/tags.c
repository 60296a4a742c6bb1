/* Tags: an order of tasks that share no data, one that the program itself opens, and tags used again. */
#include "check.h"

static int order[8], ended;

static void note(void *buffers[], void *cl_arg)
{
	(void) buffers;
	order[STARPU_ATOMIC_ADD(&ended, 1) - 1] = (int) (intptr_t) cl_arg;
}

static struct starpu_codelet codelet = {.cpu_funcs = {note}, .nbuffers = 0, .name = "note"};

static void submit(int number, starpu_tag_t tag)
{
	struct starpu_task *task = starpu_task_create();

	task->cl = &codelet;
	task->cl_arg = (void *) (intptr_t) number;
	task->use_tag = 1;
	task->tag_id = tag;
	DONE(starpu_task_submit(task));
}

int main(void)
{
	starpu_tag_t both[2] = {1, 2};
	int i;

	DONE(starpu_init(NULL));
	/* 4 after 3 after 1 and 2; 1 after 0, which no task has. */
	starpu_tag_declare_deps((starpu_tag_t) 4, 1, (starpu_tag_t) 3);
	starpu_tag_declare_deps_array((starpu_tag_t) 3, 2, both);
	starpu_tag_declare_deps((starpu_tag_t) 1, 1, (starpu_tag_t) 0);
	submit(4, 4);
	submit(3, 3);
	submit(2, 2);
	submit(1, 1);
	DONE(starpu_tag_wait((starpu_tag_t) 2));
	CHECK(ended == 1 && order[0] == 2);
	starpu_tag_notify_from_apps((starpu_tag_t) 0);
	DONE(starpu_tag_wait((starpu_tag_t) 4));
	CHECK(ended == 4 && order[1] == 1 && order[2] == 3 && order[3] == 4);
	DONE(starpu_tag_wait_array(2, both));
	DONE(starpu_task_wait_for_all());
	for (i = 0; i <= 4; i++)
		starpu_tag_remove((starpu_tag_t) i);
	/* Removed tags are new: the same again, the other way round. */
	starpu_tag_declare_deps((starpu_tag_t) 1, 1, (starpu_tag_t) 2);
	submit(1, 1);
	submit(2, 2);
	DONE(starpu_tag_wait((starpu_tag_t) 1));
	CHECK(ended == 6 && order[4] == 2 && order[5] == 1);
	DONE(starpu_task_wait_for_all());
	CHECK(starpu_tag_get_task((starpu_tag_t) 77) == NULL);
	starpu_shutdown();
	return 0;
}
