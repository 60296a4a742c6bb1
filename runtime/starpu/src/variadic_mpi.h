/* Tasks from lists that run on one of several processes; a part of src/variadic.c. */
#include <starpu_mpi.h>

/* In src/mpi/insert.rs. */
int zellige_starpu_mpi_insert(MPI_Comm comm, struct starpu_codelet *cl, const struct zellige_item *items, size_t n,
			      int unknown);
int zellige_starpu_mpi_insert_on(MPI_Comm comm, struct starpu_codelet *cl, int count, const int *nodes,
				 const struct zellige_item *items, size_t n, int unknown);
struct starpu_task *zellige_starpu_mpi_build(MPI_Comm comm, struct starpu_codelet *cl, const struct zellige_item *items,
					     size_t n, int unknown);
int zellige_starpu_mpi_post_build(MPI_Comm comm, struct starpu_codelet *cl, const struct zellige_item *items, size_t n,
				  int unknown);

static int mpi_insert(MPI_Comm comm, struct starpu_codelet *cl, va_list list)
{
	struct items items;
	int result;

	read_items(&items, list);
	result = zellige_starpu_mpi_insert(comm, cl, items.all, items.n, items.unknown);
	drop_items(&items);
	return result;
}

int starpu_mpi_task_insert(MPI_Comm comm, struct starpu_codelet *cl, ...)
{
	va_list list;
	int result;

	va_start(list, cl);
	result = mpi_insert(comm, cl, list);
	va_end(list);
	return result;
}

int starpu_mpi_insert_task(MPI_Comm comm, struct starpu_codelet *cl, ...)
{
	va_list list;
	int result;

	va_start(list, cl);
	result = mpi_insert(comm, cl, list);
	va_end(list);
	return result;
}

int starpu_mpi_tasks_insert(MPI_Comm comm, struct starpu_codelet *cl, int count, int *nodes, ...)
{
	struct items items;
	va_list list;
	int result;

	va_start(list, nodes);
	read_items(&items, list);
	va_end(list);
	result = zellige_starpu_mpi_insert_on(comm, cl, count, nodes, items.all, items.n, items.unknown);
	drop_items(&items);
	return result;
}

struct starpu_task *starpu_mpi_task_build_v(MPI_Comm comm, struct starpu_codelet *cl, va_list list)
{
	struct items items;
	struct starpu_task *task;

	read_items(&items, list);
	task = zellige_starpu_mpi_build(comm, cl, items.all, items.n, items.unknown);
	drop_items(&items);
	return task;
}

struct starpu_task *starpu_mpi_task_build(MPI_Comm comm, struct starpu_codelet *cl, ...)
{
	struct starpu_task *task;
	va_list list;

	va_start(list, cl);
	task = starpu_mpi_task_build_v(comm, cl, list);
	va_end(list);
	return task;
}

int starpu_mpi_task_post_build_v(MPI_Comm comm, struct starpu_codelet *cl, va_list list)
{
	struct items items;
	int result;

	read_items(&items, list);
	result = zellige_starpu_mpi_post_build(comm, cl, items.all, items.n, items.unknown);
	drop_items(&items);
	return result;
}

int starpu_mpi_task_post_build(MPI_Comm comm, struct starpu_codelet *cl, ...)
{
	va_list list;
	int result;

	va_start(list, cl);
	result = starpu_mpi_task_post_build_v(comm, cl, list);
	va_end(list);
	return result;
}
