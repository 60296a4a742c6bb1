/*
 * The functions with variable arguments, which only C can define.
 *
 * They read their list into an array and hand it to functions with fixed arguments. What they do
 * with it is in Rust. A dynamic library written in Rust exports the names of Rust alone, so each
 * function has another name here and src/variadic.rs jumps to it from the public one.
 */
#define _POSIX_C_SOURCE 200809L

#define starpu_task_insert zellige_c_task_insert
#define starpu_insert_task zellige_c_insert_task
#define starpu_task_build zellige_c_task_build
#define starpu_task_set zellige_c_task_set
#define starpu_codelet_pack_args zellige_c_codelet_pack_args
#define starpu_codelet_unpack_args zellige_c_codelet_unpack_args
#define starpu_codelet_unpack_args_and_copyleft zellige_c_codelet_unpack_args_and_copyleft
#define starpu_task_declare_deps zellige_c_task_declare_deps
#define starpu_task_declare_end_deps zellige_c_task_declare_end_deps
#define starpu_tag_declare_deps zellige_c_tag_declare_deps
#define starpu_data_get_sub_data zellige_c_data_get_sub_data
#define starpu_data_vget_sub_data zellige_c_data_vget_sub_data
#define starpu_data_map_filters zellige_c_data_map_filters
#define starpu_data_vmap_filters zellige_c_data_vmap_filters
#define starpu_data_set_coordinates zellige_c_data_set_coordinates
#define starpu_mpi_task_insert zellige_c_mpi_task_insert
#define starpu_mpi_insert_task zellige_c_mpi_insert_task
#define starpu_mpi_tasks_insert zellige_c_mpi_tasks_insert
#define starpu_mpi_task_build zellige_c_mpi_task_build
#define starpu_mpi_task_build_v zellige_c_mpi_task_build_v
#define starpu_mpi_task_post_build zellige_c_mpi_task_post_build
#define starpu_mpi_task_post_build_v zellige_c_mpi_task_post_build_v
#define zellige_starpu_report zellige_c_report
#define zellige_starpu_backtrace zellige_c_backtrace

#include <starpu.h>

#include <execinfo.h>

/* ---- Reports --------------------------------------------------------------------------------- */

void zellige_starpu_backtrace(void)
{
	void *calls[STARPU_BACKTRACE_LENGTH];
	int n = backtrace(calls, STARPU_BACKTRACE_LENGTH);

	fflush(stderr);
	backtrace_symbols_fd(calls, n, 2);
}

void zellige_starpu_report(const char *file, int line, const char *function, const char *format, ...)
{
	va_list list;

	flockfile(stderr);
	fprintf(stderr, "zellige-starpu: %s:%d: %s: ", file, line, function);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	funlockfile(stderr);
	zellige_starpu_backtrace();
}

/* The same for the functions in Rust. */
void zellige_c_say(const char *function, const char *message)
{
	fprintf(stderr, "zellige-starpu: %s: %s\n", function, message);
	zellige_starpu_backtrace();
}

/* ---- Tasks from lists ------------------------------------------------------------------------ */

/* One entry of the list of starpu_task_insert; which members count depends on the marker. */
struct zellige_item
{
	int marker;
	int number;
	void *pointer;
	/* The second pointer where there are two. */
	uint64_t word;
	double real;
};

/* What follows a marker in the list. */
enum shape
{
	UNKNOWN,
	NOTHING,
	POINTER,
	FUNCTION,
	SOON_FUNCTION,
	FUNCTION_POINTER,
	POINTER_SIZE,
	POINTER_INT,
	UNSIGNED_POINTER,
	INT,
	UNSIGNED,
	WORD,
	REAL
};

#define INDEX(marker) ((marker) >> STARPU_MODE_SHIFT)

static const unsigned char shapes[INDEX(STARPU_SHIFTED_MODE_MAX)] = {
	[INDEX(STARPU_VALUE)] = POINTER_SIZE,
	[INDEX(STARPU_CL_ARGS)] = POINTER_SIZE,
	[INDEX(STARPU_CL_ARGS_NFREE)] = POINTER_SIZE,
	[INDEX(STARPU_DATA_ARRAY)] = POINTER_INT,
	[INDEX(STARPU_DATA_MODE_ARRAY)] = POINTER_INT,
	[INDEX(STARPU_NODE_ARRAY)] = POINTER_INT,
	[INDEX(STARPU_CALLBACK)] = FUNCTION,
	[INDEX(STARPU_CALLBACK_WITH_ARG)] = FUNCTION_POINTER,
	[INDEX(STARPU_CALLBACK_WITH_ARG_NFREE)] = FUNCTION_POINTER,
	[INDEX(STARPU_CALLBACK_ARG)] = POINTER,
	[INDEX(STARPU_CALLBACK_ARG_NFREE)] = POINTER,
	[INDEX(STARPU_PROLOGUE_CALLBACK)] = FUNCTION,
	[INDEX(STARPU_PROLOGUE_CALLBACK_ARG)] = POINTER,
	[INDEX(STARPU_PROLOGUE_CALLBACK_ARG_NFREE)] = POINTER,
	[INDEX(STARPU_PROLOGUE_CALLBACK_POP)] = FUNCTION,
	[INDEX(STARPU_PROLOGUE_CALLBACK_POP_ARG)] = POINTER,
	[INDEX(STARPU_PROLOGUE_CALLBACK_POP_ARG_NFREE)] = POINTER,
	[INDEX(STARPU_EPILOGUE_CALLBACK)] = FUNCTION,
	[INDEX(STARPU_EPILOGUE_CALLBACK_ARG)] = POINTER,
	[INDEX(STARPU_SOON_CALLBACK)] = SOON_FUNCTION,
	[INDEX(STARPU_SOON_CALLBACK_ARG)] = POINTER,
	[INDEX(STARPU_SOON_CALLBACK_ARG_NFREE)] = POINTER,
	[INDEX(STARPU_PRIORITY)] = INT,
	[INDEX(STARPU_TAG)] = WORD,
	[INDEX(STARPU_TAG_ONLY)] = WORD,
	[INDEX(STARPU_TASK_DEPS_ARRAY)] = UNSIGNED_POINTER,
	[INDEX(STARPU_TASK_END_DEPS_ARRAY)] = UNSIGNED_POINTER,
	[INDEX(STARPU_TASK_END_DEP)] = INT,
	[INDEX(STARPU_HANDLES_SEQUENTIAL_CONSISTENCY)] = POINTER,
	[INDEX(STARPU_SEQUENTIAL_CONSISTENCY)] = UNSIGNED,
	[INDEX(STARPU_TASK_SYNCHRONOUS)] = INT,
	[INDEX(STARPU_TASK_NO_SUBMITORDER)] = UNSIGNED,
	[INDEX(STARPU_TRANSACTION)] = POINTER,
	[INDEX(STARPU_EXECUTE_ON_NODE)] = INT,
	[INDEX(STARPU_EXECUTE_ON_DATA)] = POINTER,
	[INDEX(STARPU_NODE_SELECTION_POLICY)] = INT,
	[INDEX(STARPU_EXECUTE_ON_WORKER)] = INT,
	[INDEX(STARPU_EXECUTE_WHERE)] = WORD,
	[INDEX(STARPU_WORKER_ORDER)] = UNSIGNED,
	[INDEX(STARPU_TASK_WORKERIDS)] = UNSIGNED_POINTER,
	[INDEX(STARPU_POSSIBLY_PARALLEL)] = UNSIGNED,
	[INDEX(STARPU_SCHED_CTX)] = UNSIGNED,
	[INDEX(STARPU_TASK_SCHED_DATA)] = POINTER,
	[INDEX(STARPU_HYPERVISOR_TAG)] = INT,
	[INDEX(STARPU_NAME)] = POINTER,
	[INDEX(STARPU_FLOPS)] = REAL,
	[INDEX(STARPU_TASK_COLOR)] = INT,
	[INDEX(STARPU_TASK_PROFILING_INFO)] = POINTER,
	[INDEX(STARPU_TASK_FILE)] = POINTER,
	[INDEX(STARPU_TASK_LINE)] = INT,
	[INDEX(STARPU_RECURSIVE_TASK_FUNC)] = FUNCTION,
	[INDEX(STARPU_RECURSIVE_TASK_FUNC_ARG)] = POINTER,
	[INDEX(STARPU_RECURSIVE_TASK_GEN_DAG_FUNC)] = FUNCTION,
	[INDEX(STARPU_RECURSIVE_TASK_GEN_DAG_FUNC_ARG)] = POINTER,
	[INDEX(STARPU_RECURSIVE_TASK_PARENT)] = POINTER,
	[INDEX(STARPU_RECURSIVE_TASK_NO_PRUNE)] = NOTHING,
};

/* Most lists fit on the stack. */
#define INLINE_ITEMS 24
struct items
{
	struct zellige_item *all;
	size_t n;
	size_t room;
	/* 0, or the marker at which reading had to stop. */
	int unknown;
	struct zellige_item few[INLINE_ITEMS];
};

typedef void (*any_function)(void *);

static enum shape shape_of(int marker)
{
	if (marker > 0 && marker < STARPU_ACCESS_MODE_MAX)
		return POINTER;
	if (marker <= 0 || marker >= STARPU_SHIFTED_MODE_MAX || marker != INDEX(marker) << STARPU_MODE_SHIFT)
		return UNKNOWN;
	return (enum shape) shapes[INDEX(marker)];
}

static struct zellige_item *next_item(struct items *items)
{
	if (items->n == items->room)
	{
		size_t bytes = 2 * items->room * sizeof *items->all;
		struct zellige_item *more = items->all == items->few ? malloc(bytes) : realloc(items->all, bytes);

		if (!more)
		{
			zellige_starpu_report(__FILE__, __LINE__, __func__, "no memory for %zu arguments", items->n);
			abort();
		}
		if (items->all == items->few)
			memcpy(more, items->few, sizeof items->few);
		items->all = more;
		items->room *= 2;
	}
	return &items->all[items->n++];
}

static void begin_items(struct items *items)
{
	items->all = items->few;
	items->n = 0;
	items->room = INLINE_ITEMS;
	items->unknown = 0;
}

/* Gives the item of a marker; null where it is unknown how much belongs to it: the rest cannot be read. */
static struct zellige_item *item_of(struct items *items, int marker)
{
	struct zellige_item *item;

	if (shape_of(marker) == UNKNOWN)
	{
		items->unknown = marker;
		return NULL;
	}
	item = next_item(items);
	item->marker = marker;
	return item;
}

static void read_items(struct items *items, va_list list)
{
	struct zellige_item *item;
	int marker;

	begin_items(items);
	while ((marker = va_arg(list, int)) != 0 && (item = item_of(items, marker)))
	{
		switch (shape_of(marker))
		{
		case POINTER:
			item->pointer = va_arg(list, void *);
			break;
		case FUNCTION:
			item->pointer = (void *) va_arg(list, any_function);
			break;
		case SOON_FUNCTION:
			item->pointer = (void *) va_arg(list, void (*)(void *, double));
			break;
		case FUNCTION_POINTER:
			item->pointer = (void *) va_arg(list, any_function);
			item->word = (uintptr_t) va_arg(list, void *);
			break;
		case POINTER_SIZE:
			item->pointer = va_arg(list, void *);
			item->word = va_arg(list, size_t);
			break;
		case POINTER_INT:
			item->pointer = va_arg(list, void *);
			item->number = va_arg(list, int);
			break;
		case UNSIGNED_POINTER:
			item->number = (int) va_arg(list, unsigned);
			item->pointer = va_arg(list, void *);
			break;
		case INT:
			item->number = va_arg(list, int);
			break;
		case UNSIGNED:
			item->number = (int) va_arg(list, unsigned);
			break;
		case WORD:
			item->word = va_arg(list, uint64_t);
			break;
		case REAL:
			item->real = va_arg(list, double);
			break;
		default:
			break;
		}
	}
}

/*
 * Reads a list of Fortran: addresses that end with a null one. Markers, modes, sizes and places of
 * execution stand in place of an address; other numbers are where theirs points.
 */
static void read_addresses(struct items *items, void **list)
{
	struct zellige_item *item;
	int marker;

	begin_items(items);
	while ((marker = (int) (intptr_t) *list++) != 0 && (item = item_of(items, marker)))
	{
		switch (shape_of(marker))
		{
		case POINTER:
		case FUNCTION:
		case SOON_FUNCTION:
			item->pointer = *list++;
			break;
		case FUNCTION_POINTER:
		case POINTER_SIZE:
			item->pointer = *list++;
			item->word = (uintptr_t) *list++;
			break;
		case POINTER_INT:
			item->pointer = *list++;
			item->number = *(int *) *list++;
			break;
		case UNSIGNED_POINTER:
			item->number = *(int *) *list++;
			item->pointer = *list++;
			break;
		case INT:
		case UNSIGNED:
			item->number = *(int *) *list++;
			break;
		case WORD:
			item->word = marker == STARPU_EXECUTE_WHERE ? (uint64_t) (uintptr_t) *list
								    : *(uint64_t *) *list;
			list++;
			break;
		case REAL:
			item->real = *(double *) *list++;
			break;
		default:
			break;
		}
	}
}

static void drop_items(struct items *items)
{
	if (items->all != items->few)
		free(items->all);
}

/* In src/insert/. */
int zellige_starpu_insert(struct starpu_codelet *cl, const struct zellige_item *items, size_t n, int unknown);
struct starpu_task *zellige_starpu_build(struct starpu_codelet *cl, const struct zellige_item *items, size_t n,
					 int unknown);
int zellige_starpu_set(struct starpu_task *task, struct starpu_codelet *cl, const struct zellige_item *items,
		       size_t n, int unknown);

static int insert(struct starpu_codelet *cl, va_list list)
{
	struct items items;
	int result;

	read_items(&items, list);
	result = zellige_starpu_insert(cl, items.all, items.n, items.unknown);
	drop_items(&items);
	return result;
}

/* Called by src/fortran.rs. */
int zellige_c_insert_addresses(struct starpu_codelet *cl, void **list);

int zellige_c_insert_addresses(struct starpu_codelet *cl, void **list)
{
	struct items items;
	int result;

	read_addresses(&items, list);
	result = zellige_starpu_insert(cl, items.all, items.n, items.unknown);
	drop_items(&items);
	return result;
}

int starpu_task_insert(struct starpu_codelet *cl, ...)
{
	va_list list;
	int result;

	va_start(list, cl);
	result = insert(cl, list);
	va_end(list);
	return result;
}

int starpu_insert_task(struct starpu_codelet *cl, ...)
{
	va_list list;
	int result;

	va_start(list, cl);
	result = insert(cl, list);
	va_end(list);
	return result;
}

struct starpu_task *starpu_task_build(struct starpu_codelet *cl, ...)
{
	struct items items;
	struct starpu_task *task;
	va_list list;

	va_start(list, cl);
	read_items(&items, list);
	va_end(list);
	task = zellige_starpu_build(cl, items.all, items.n, items.unknown);
	drop_items(&items);
	return task;
}

int starpu_task_set(struct starpu_task *task, struct starpu_codelet *cl, ...)
{
	struct items items;
	va_list list;
	int result;

	va_start(list, cl);
	read_items(&items, list);
	va_end(list);
	result = zellige_starpu_set(task, cl, items.all, items.n, items.unknown);
	drop_items(&items);
	return result;
}

/* ---- Arguments of codelets ------------------------------------------------------------------- */

/* In src/insert/: the values of the items as one block of memory from malloc. */
int zellige_starpu_pack(const struct zellige_item *items, size_t n, void **buffer, size_t *size);

void starpu_codelet_pack_args(void **arg_buffer, size_t *arg_buffer_size, ...)
{
	struct items items;
	va_list list;
	size_t i;

	va_start(list, arg_buffer_size);
	read_items(&items, list);
	va_end(list);
	for (i = 0; i < items.n && !items.unknown; i++)
		if (items.all[i].marker != STARPU_VALUE)
			items.unknown = items.all[i].marker;
	if (items.unknown)
	{
		zellige_starpu_report(__FILE__, __LINE__, "starpu_codelet_pack_args",
				      "%d is not STARPU_VALUE; the list ends with 0", items.unknown);
		*arg_buffer = NULL;
		*arg_buffer_size = 0;
	}
	else
		zellige_starpu_pack(items.all, items.n, arg_buffer, arg_buffer_size);
	drop_items(&items);
}

/* Copies values to the pointers of the list until it has no more. Gives the place after the last
 * one that was copied, and how many are left. */
static const char *unpack(const char *from, int *left, va_list list)
{
	memcpy(left, from, sizeof *left);
	from += sizeof *left;
	while (*left > 0)
	{
		size_t size;
		void *to = va_arg(list, void *);

		if (!to)
			break;
		memcpy(&size, from, sizeof size);
		memcpy(to, from + sizeof size, size);
		from += sizeof size + size;
		--*left;
	}
	return from;
}

static void need_arguments(const void *cl_arg, const char *function)
{
	if (!cl_arg)
	{
		/* The codelet would go on with whatever its variables hold. */
		zellige_starpu_report(__FILE__, __LINE__, function, "the task has no packed arguments");
		abort();
	}
}

void starpu_codelet_unpack_args(void *cl_arg, ...)
{
	va_list list;
	int left;

	need_arguments(cl_arg, "starpu_codelet_unpack_args");
	va_start(list, cl_arg);
	unpack(cl_arg, &left, list);
	va_end(list);
}

void starpu_codelet_unpack_args_and_copyleft(void *cl_arg, void *buffer, size_t buffer_size, ...)
{
	const char *from, *end;
	va_list list;
	int left, i;

	need_arguments(cl_arg, "starpu_codelet_unpack_args_and_copyleft");
	va_start(list, buffer_size);
	from = unpack(cl_arg, &left, list);
	va_end(list);
	if (!buffer_size)
		return;
	end = from;
	for (i = 0; i < left; i++)
	{
		size_t size;

		memcpy(&size, end, sizeof size);
		end += sizeof size + size;
	}
	if (sizeof left + (size_t) (end - from) > buffer_size)
	{
		zellige_starpu_report(__FILE__, __LINE__, "starpu_codelet_unpack_args_and_copyleft",
				      "%d values take %zu bytes, the buffer has %zu", left,
				      sizeof left + (size_t) (end - from), buffer_size);
		abort();
	}
	memcpy(buffer, &left, sizeof left);
	memcpy((char *) buffer + sizeof left, from, (size_t) (end - from));
}

/* ---- Dependencies ---------------------------------------------------------------------------- */

#define FEW 32

static void *room_for(size_t n, size_t size, void *few)
{
	void *all = n <= FEW ? few : malloc(n * size);

	if (!all)
	{
		zellige_starpu_report(__FILE__, __LINE__, __func__, "no memory for %zu arguments", n);
		abort();
	}
	return all;
}

void starpu_task_declare_deps(struct starpu_task *task, unsigned ndeps, ...)
{
	struct starpu_task *few[FEW], **all = room_for(ndeps, sizeof *all, few);
	va_list list;
	unsigned i;

	va_start(list, ndeps);
	for (i = 0; i < ndeps; i++)
		all[i] = va_arg(list, struct starpu_task *);
	va_end(list);
	starpu_task_declare_deps_array(task, ndeps, all);
	if (all != few)
		free(all);
}

void starpu_task_declare_end_deps(struct starpu_task *task, unsigned ndeps, ...)
{
	struct starpu_task *few[FEW], **all = room_for(ndeps, sizeof *all, few);
	va_list list;
	unsigned i;

	va_start(list, ndeps);
	for (i = 0; i < ndeps; i++)
		all[i] = va_arg(list, struct starpu_task *);
	va_end(list);
	starpu_task_declare_end_deps_array(task, ndeps, all);
	if (all != few)
		free(all);
}

void starpu_tag_declare_deps(starpu_tag_t tag, unsigned ndeps, ...)
{
	starpu_tag_t few[FEW], *all = room_for(ndeps, sizeof *all, few);
	va_list list;
	unsigned i;

	va_start(list, ndeps);
	for (i = 0; i < ndeps; i++)
		all[i] = va_arg(list, starpu_tag_t);
	va_end(list);
	starpu_tag_declare_deps_array(tag, ndeps, all);
	if (all != few)
		free(all);
}

/* ---- Partitions ------------------------------------------------------------------------------ */

starpu_data_handle_t starpu_data_vget_sub_data(starpu_data_handle_t handle, unsigned depth, va_list list)
{
	unsigned i;

	for (i = 0; i < depth && handle; i++)
		handle = starpu_data_get_child(handle, va_arg(list, unsigned));
	return handle;
}

starpu_data_handle_t starpu_data_get_sub_data(starpu_data_handle_t handle, unsigned depth, ...)
{
	va_list list;

	va_start(list, depth);
	handle = starpu_data_vget_sub_data(handle, depth, list);
	va_end(list);
	return handle;
}

void starpu_data_vmap_filters(starpu_data_handle_t handle, unsigned nfilters, va_list list)
{
	struct starpu_data_filter *few[FEW], **all = room_for(nfilters, sizeof *all, few);
	unsigned i;

	for (i = 0; i < nfilters; i++)
		all[i] = va_arg(list, struct starpu_data_filter *);
	starpu_data_map_filters_parray(handle, (int) nfilters, all);
	if (all != few)
		free(all);
}

void starpu_data_map_filters(starpu_data_handle_t handle, unsigned nfilters, ...)
{
	va_list list;

	va_start(list, nfilters);
	starpu_data_vmap_filters(handle, nfilters, list);
	va_end(list);
}

void starpu_data_set_coordinates(starpu_data_handle_t handle, unsigned dimensions, ...)
{
	int few[FEW], *all = room_for(dimensions, sizeof *all, few);
	va_list list;
	unsigned i;

	va_start(list, dimensions);
	for (i = 0; i < dimensions; i++)
		all[i] = va_arg(list, int);
	va_end(list);
	starpu_data_set_coordinates_array(handle, dimensions, all);
	if (all != few)
		free(all);
}

#ifdef ZELLIGE_STARPU_MPI
#include "variadic_mpi.h"
#endif

#include "layout.h"
