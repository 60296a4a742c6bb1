/* Codelets on GPUs: values follow their tasks between the memories of two GPUs and the host. The
 * functions compute on the host, with copies of what lies on their GPU, so that no compiler of CUDA
 * is needed; STARPU_NCUDA and a mock say that there are GPUs. */
#include "check.h"

#define N 1000
#define PARTS 4
#define LARGE 100000

static int on_gpus, on_cores, created, destroyed;

/* The functions of cuBLAS that give out handles; the library looks for them in the program. */
int cublasCreate_v2(struct cublasContext **handle);
int cublasSetStream_v2(struct cublasContext *handle, struct CUstream_st *stream);
int cublasDestroy_v2(struct cublasContext *handle);

int cublasCreate_v2(struct cublasContext **handle)
{
	*handle = (struct cublasContext *) malloc(1);
	STARPU_ATOMIC_ADD(&created, 1);
	return 0;
}

int cublasSetStream_v2(struct cublasContext *handle, struct CUstream_st *stream)
{
	return handle == NULL || stream != starpu_cuda_get_local_stream();
}

int cublasDestroy_v2(struct cublasContext *handle)
{
	free(handle);
	STARPU_ATOMIC_ADD(&destroyed, 1);
	return 0;
}

static unsigned here(void)
{
	int worker = starpu_worker_get_id();
	unsigned node = starpu_worker_get_local_memory_node();

	CHECK(worker >= 0 && node == starpu_worker_get_memory_node((unsigned) worker));
	CHECK(starpu_node_get_kind(node) ==
	      (starpu_worker_get_type(worker) == STARPU_CUDA_WORKER ? STARPU_CUDA_RAM : STARPU_CPU_RAM));
	return node;
}

/* Copies elements between a GPU's memory and the host's. */
static void move(uintptr_t from, unsigned from_node, uintptr_t to, unsigned to_node, size_t n)
{
	DONE(starpu_interface_copy(from, 0, from_node, to, 0, to_node, n * sizeof(double), NULL));
}

/* x = 3 x + 1 */
static void step_on_core(void *buffers[], void *cl_arg)
{
	double *x = (double *) STARPU_VECTOR_GET_PTR(buffers[0]);
	size_t n = STARPU_VECTOR_GET_NX(buffers[0]), i;

	(void) cl_arg;
	CHECK(here() == STARPU_MAIN_RAM);
	STARPU_ATOMIC_ADD(&on_cores, 1);
	for (i = 0; i < n; i++)
		x[i] = 3 * x[i] + 1;
}

static void step_on_gpu(void *buffers[], void *cl_arg)
{
	uintptr_t x = STARPU_VECTOR_GET_PTR(buffers[0]);
	size_t n = STARPU_VECTOR_GET_NX(buffers[0]), i;
	unsigned node = here();
	double *copy = (double *) malloc(n * sizeof *copy);

	(void) cl_arg;
	CHECK(node != STARPU_MAIN_RAM);
	CHECK(starpu_cublas_get_local_handle() != NULL && created == 2);
	STARPU_ATOMIC_ADD(&on_gpus, 1);
	move(x, node, (uintptr_t) copy, STARPU_MAIN_RAM, n);
	for (i = 0; i < n; i++)
		copy[i] = 3 * copy[i] + 1;
	move((uintptr_t) copy, STARPU_MAIN_RAM, x, node, n);
	free(copy);
}

/* y = 2 x, where y has no value before, on GPUs alone */
static void twice_on_gpu(void *buffers[], void *cl_arg)
{
	size_t n = STARPU_VECTOR_GET_NX(buffers[0]), i;
	unsigned node = here();
	double *copy = (double *) malloc(n * sizeof *copy);

	(void) cl_arg;
	move(STARPU_VECTOR_GET_PTR(buffers[0]), node, (uintptr_t) copy, STARPU_MAIN_RAM, n);
	for (i = 0; i < n; i++)
		copy[i] *= 2;
	move((uintptr_t) copy, STARPU_MAIN_RAM, STARPU_VECTOR_GET_PTR(buffers[1]), node, n);
	free(copy);
}

/* The inner 2 x 3 elements of a matrix with gaps become their sum with 100, with a scratch vector. */
static void shift_on_gpu(void *buffers[], void *cl_arg)
{
	uintptr_t m = STARPU_MATRIX_GET_PTR(buffers[0]), scratch = STARPU_VECTOR_GET_PTR(buffers[1]);
	size_t ld = STARPU_MATRIX_GET_LD(buffers[0]), i, j;
	unsigned node = here();
	double copy[6];

	(void) cl_arg;
	CHECK(STARPU_MATRIX_GET_NX(buffers[0]) == 2 && STARPU_MATRIX_GET_NY(buffers[0]) == 3);
	for (j = 0; j < 3; j++)
		move(m + j * ld * sizeof(double), node, scratch + 2 * j * sizeof(double), node, 2);
	move(scratch, node, (uintptr_t) copy, STARPU_MAIN_RAM, 6);
	for (i = 0; i < 6; i++)
		copy[i] += 100;
	for (j = 0; j < 3; j++)
		move((uintptr_t) &copy[2 * j], STARPU_MAIN_RAM, m + j * ld * sizeof(double), node, 2);
}

static void zero(void *buffers[], void *cl_arg)
{
	(void) cl_arg;
	*(double *) STARPU_VARIABLE_GET_PTR(buffers[0]) = 0;
}

static void add(void *buffers[], void *cl_arg)
{
	(void) cl_arg;
	*(double *) STARPU_VARIABLE_GET_PTR(buffers[0]) += *(double *) STARPU_VARIABLE_GET_PTR(buffers[1]);
}

static void one_more_on_gpu(void *buffers[], void *cl_arg)
{
	double copy;
	unsigned node = here();

	(void) cl_arg;
	move(STARPU_VARIABLE_GET_PTR(buffers[0]), node, (uintptr_t) &copy, STARPU_MAIN_RAM, 1);
	copy += 1;
	move((uintptr_t) &copy, STARPU_MAIN_RAM, STARPU_VARIABLE_GET_PTR(buffers[0]), node, 1);
}

static void one_more_on_core(void *buffers[], void *cl_arg)
{
	(void) cl_arg;
	*(double *) STARPU_VARIABLE_GET_PTR(buffers[0]) += 1;
}

static struct starpu_perfmodel model = {.type = STARPU_HISTORY_BASED, .symbol = "gpu_step"};
static struct starpu_codelet step = {.cpu_funcs = {step_on_core},
				     .cuda_funcs = {step_on_gpu},
				     .cuda_flags = {STARPU_CUDA_ASYNC},
				     .nbuffers = 1,
				     .modes = {STARPU_RW},
				     .model = &model,
				     .name = "step"};
static struct starpu_codelet twice = {
	.cuda_funcs = {twice_on_gpu}, .nbuffers = 2, .modes = {STARPU_R, STARPU_W}, .name = "twice"};
static struct starpu_codelet shift = {
	.cuda_funcs = {shift_on_gpu}, .nbuffers = 2, .modes = {STARPU_RW, STARPU_SCRATCH}, .name = "shift"};
static struct starpu_codelet init_sum = {.cpu_funcs = {zero}, .nbuffers = 1, .modes = {STARPU_W}, .name = "init"};
static struct starpu_codelet sum = {
	.cpu_funcs = {add}, .nbuffers = 2, .modes = {STARPU_RW, STARPU_R}, .name = "sum"};
static struct starpu_codelet count = {.cpu_funcs = {one_more_on_core},
				      .cuda_funcs = {one_more_on_gpu},
				      .nbuffers = 1,
				      .modes = {STARPU_REDUX},
				      .name = "count"};

static double x[N], y[N], expected[N];

static void check_all(const double *values)
{
	int i;

	for (i = 0; i < N; i++)
		CHECK(values[i] == expected[i]);
}

static void whole_and_parts(void)
{
	struct starpu_data_filter filter = {.filter_func = starpu_vector_filter_block, .nchildren = PARTS};
	starpu_data_handle_t handle, copy, parts[PARTS];
	int i, valid, allocated;

	for (i = 0; i < N; i++)
		x[i] = expected[i] = i;
	starpu_vector_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t) x, N, sizeof x[0]);
	for (i = 0; i < 8; i++) {
		int gpu = starpu_worker_get_by_type(STARPU_CUDA_WORKER, i % 2);
		int k;

		DONE(starpu_task_insert(&step, STARPU_RW, handle, STARPU_EXECUTE_ON_WORKER, gpu, 0));
		for (k = 0; k < N; k++)
			expected[k] = 3 * expected[k] + 1;
	}
	DONE(starpu_task_wait_for_all());
	/* The last one ran on the second GPU, which alone has the value. */
	starpu_data_query_status(handle, STARPU_MAIN_RAM, &allocated, &valid, NULL);
	CHECK(allocated && !valid);
	starpu_data_query_status(handle, 2, &allocated, &valid, NULL);
	CHECK(allocated && valid);
	/* A reader on the host leaves the value where it is, too; the array is the application's own. */
	DONE(starpu_data_acquire(handle, STARPU_R));
	check_all(x);
	starpu_data_query_status(handle, 2, &allocated, &valid, NULL);
	CHECK(valid);
	starpu_data_release(handle);
	DONE(starpu_data_acquire(handle, STARPU_RW));
	starpu_data_query_status(handle, 2, &allocated, &valid, NULL);
	CHECK(!valid);
	x[0] = expected[0] = 7;
	starpu_data_release(handle);
	/* Parts: planned and at once. */
	starpu_data_partition_plan(handle, &filter, parts);
	for (i = 0; i < PARTS; i++) {
		int gpu = starpu_worker_get_by_type(STARPU_CUDA_WORKER, i % 2), k;

		DONE(starpu_task_insert(&step, STARPU_RW, parts[i], STARPU_EXECUTE_ON_WORKER, gpu, 0));
		for (k = i * N / PARTS; k < (i + 1) * N / PARTS; k++)
			expected[k] = 3 * expected[k] + 1;
	}
	DONE(starpu_task_insert(&step, STARPU_RW, handle, STARPU_EXECUTE_ON_WORKER,
				starpu_worker_get_by_type(STARPU_CUDA_WORKER, 0), 0));
	for (i = 0; i < N; i++)
		expected[i] = 3 * expected[i] + 1;
	for (i = 0; i < PARTS; i++) {
		int k;

		DONE(starpu_task_insert(&step, STARPU_RW, parts[i], 0));
		for (k = i * N / PARTS; k < (i + 1) * N / PARTS; k++)
			expected[k] = 3 * expected[k] + 1;
	}
	starpu_data_partition_clean(handle, PARTS, parts);
	starpu_data_partition(handle, &filter);
	for (i = 0; i < PARTS; i++) {
		int gpu = starpu_worker_get_by_type(STARPU_CUDA_WORKER, i % 2), k;

		DONE(starpu_task_insert(&step, STARPU_RW, starpu_data_get_sub_data(handle, 1, i),
					STARPU_EXECUTE_ON_WORKER, gpu, 0));
		for (k = i * N / PARTS; k < (i + 1) * N / PARTS; k++)
			expected[k] = 3 * expected[k] + 1;
	}
	starpu_data_unpartition(handle, STARPU_MAIN_RAM);
	/* A value that is made on a GPU, and copied to the application's array. */
	starpu_vector_data_register(&copy, -1, 0, N, sizeof x[0]);
	DONE(starpu_task_insert(&twice, STARPU_R, handle, STARPU_W, copy, 0));
	starpu_vector_data_register(&parts[0], STARPU_MAIN_RAM, (uintptr_t) y, N, sizeof y[0]);
	DONE(starpu_data_cpy(parts[0], copy, 0, NULL, NULL));
	starpu_data_unregister(copy);
	starpu_data_unregister(parts[0]);
	starpu_data_unregister(handle);
	check_all(x);
	for (i = 0; i < N; i++)
		CHECK(y[i] == 2 * expected[i]);
}

/* Without coherency, the array keeps what it had. */
static void without_coherency(void)
{
	starpu_data_handle_t handle;

	x[0] = 5;
	starpu_vector_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t) x, 1, sizeof x[0]);
	DONE(starpu_task_insert(&step, STARPU_RW, handle, STARPU_EXECUTE_ON_WORKER,
				starpu_worker_get_by_type(STARPU_CUDA_WORKER, 0), 0));
	starpu_data_unregister_no_coherency(handle);
	CHECK(x[0] == 5);
}

static void matrix_with_gaps(void)
{
	double m[5 * 4];
	starpu_data_handle_t handle, scratch;
	int i, j;

	for (i = 0; i < 20; i++)
		m[i] = i;
	starpu_matrix_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t) &m[6], 5, 2, 3, sizeof m[0]);
	starpu_vector_data_register(&scratch, -1, 0, 6, sizeof m[0]);
	DONE(starpu_task_insert(&shift, STARPU_RW, handle, STARPU_SCRATCH, scratch, 0));
	starpu_data_unregister(handle);
	starpu_data_unregister(scratch);
	for (j = 0; j < 4; j++)
		for (i = 0; i < 5; i++) {
			int inside = j >= 1 && i >= 1 && i < 3;

			CHECK(m[5 * j + i] == 5 * j + i + (inside ? 100 : 0));
		}
}

static void reduction(void)
{
	double total = 10;
	starpu_data_handle_t handle;
	int i;

	starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t) &total, sizeof total);
	starpu_data_set_reduction_methods(handle, &sum, &init_sum);
	for (i = 0; i < 60; i++)
		DONE(starpu_task_insert(&count, STARPU_REDUX, handle, 0));
	starpu_data_unregister(handle);
	CHECK(total == 70);
}

/* Each GPU has a MiB: a handle takes most of it, so that only one of four fits. */
static void more_than_fits(void)
{
	double *values[4];
	starpu_data_handle_t handles[4];
	int i, k, round;

	for (i = 0; i < 4; i++) {
		values[i] = (double *) malloc(LARGE * sizeof(double));
		for (k = 0; k < LARGE; k++)
			values[i][k] = i;
		starpu_vector_data_register(&handles[i], STARPU_MAIN_RAM, (uintptr_t) values[i], LARGE, sizeof(double));
	}
	for (round = 0; round < 3; round++)
		for (i = 0; i < 4; i++)
			DONE(starpu_task_insert(&step, STARPU_RW, handles[i], STARPU_EXECUTE_ON_WORKER,
						starpu_worker_get_by_type(STARPU_CUDA_WORKER, 0), 0));
	for (i = 0; i < 4; i++) {
		starpu_data_unregister(handles[i]);
		for (k = 0; k < LARGE; k++)
			CHECK(values[i][k] == 27 * i + 13);
		free(values[i]);
	}
}

/* A GPU takes 10 us, a core 1 ms. */
static double cost(struct starpu_task *task, struct starpu_perfmodel_arch *arch, unsigned implementation)
{
	(void) task;
	(void) implementation;
	CHECK(arch->ndevices == 1);
	return arch->devices[0].type == STARPU_CUDA_WORKER ? 10 : 1000;
}

/* Policies by models give tasks to the device that is expected to end them first. */
static void by_models(struct starpu_conf *conf)
{
	static struct starpu_perfmodel costs = {
		.type = STARPU_PER_ARCH, .arch_cost_function = cost, .symbol = "gpu_costs"};
	static const char *policies[] = {"dm", "dmda", "dmdas", "heteroprio"};
	starpu_data_handle_t handles[20];
	int i, k;

	step.model = &costs;
	for (k = 0; k < 4; k++) {
		conf->sched_policy_name = policies[k];
		DONE(starpu_init(conf));
		on_gpus = on_cores = created = 0;
		starpu_cublas_init();
		CHECK(starpu_transfer_bandwidth(0, 1) > 0 && starpu_transfer_latency(1, 2) > 0);
		CHECK(starpu_transfer_predict(0, 0, 100) == 0 && starpu_transfer_predict(0, 1, 1000000) > 1);
		for (i = 0; i < 20; i++) {
			x[i] = i;
			starpu_vector_data_register(&handles[i], STARPU_MAIN_RAM, (uintptr_t) &x[i], 1, sizeof x[0]);
			CHECK(starpu_data_expected_transfer_time(handles[i], 1, STARPU_R) > 0);
			DONE(starpu_task_insert(&step, STARPU_RW, handles[i], 0));
		}
		for (i = 0; i < 20; i++) {
			starpu_data_unregister(handles[i]);
			CHECK(x[i] == 3 * i + 1);
		}
		/* Under heteroprio, a core that has nothing else takes one, too. */
		CHECK(on_gpus + on_cores == 20 && (on_cores == 0 || k == 3));
		starpu_cublas_shutdown();
		starpu_shutdown();
	}
}

/* The value of the second buffer is added to the first, which is on the host wherever the task runs. */
static void add_to_host(void *buffers[], void *cl_arg)
{
	double more;
	unsigned node = here();

	(void) cl_arg;
	CHECK(starpu_task_get_current_data_node(0) == STARPU_MAIN_RAM);
	CHECK(starpu_task_get_current_data_node(1) == (int) node);
	move(STARPU_VARIABLE_GET_PTR(buffers[1]), node, (uintptr_t) &more, STARPU_MAIN_RAM, 1);
	*(double *) STARPU_VARIABLE_GET_PTR(buffers[0]) += more;
}

static struct starpu_codelet host_sum = {.cuda_funcs = {add_to_host},
					 .nbuffers = 2,
					 .modes = {STARPU_RW, STARPU_R},
					 .specific_nodes = 1,
					 .nodes = {STARPU_SPECIFIC_NODE_CPU, STARPU_SPECIFIC_NODE_LOCAL},
					 .name = "host_sum"};

static int copied;

static int copy_variable(void *src, unsigned src_node, void *dst, unsigned dst_node, struct CUstream_st *stream)
{
	struct starpu_variable_interface *from = (struct starpu_variable_interface *) src;
	struct starpu_variable_interface *to = (struct starpu_variable_interface *) dst;

	CHECK(stream == NULL && (src_node == STARPU_MAIN_RAM) != (dst_node == STARPU_MAIN_RAM));
	STARPU_ATOMIC_ADD(&copied, 1);
	move(from->ptr, src_node, to->ptr, dst_node, 1);
	return -EAGAIN;
}

/* An interface that copies in the order of a stream only, and not between GPUs. */
static void copies_on_a_stream(void)
{
	static struct starpu_codelet gpu = {
		.cuda_funcs = {one_more_on_gpu}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "gpu"};
	struct starpu_data_copy_methods methods = {.ram_to_cuda_async = copy_variable, .cuda_to_ram_async = copy_variable};
	struct starpu_data_interface_ops ops = starpu_interface_variable_ops;
	double value = 1;
	struct starpu_variable_interface variable = {.id = STARPU_VARIABLE_INTERFACE_ID,
						     .ptr = (uintptr_t) &value,
						     .dev_handle = (uintptr_t) &value,
						     .elemsize = sizeof value};
	starpu_data_handle_t handle;
	int i;

	ops.copy_methods = &methods;
	starpu_data_register(&handle, STARPU_MAIN_RAM, &variable, &ops);
	for (i = 0; i < 3; i++)
		DONE(starpu_task_insert(&gpu, STARPU_RW, handle, STARPU_EXECUTE_ON_WORKER,
					starpu_worker_get_by_type(STARPU_CUDA_WORKER, i % 2), 0));
	starpu_data_unregister(handle);
	CHECK(value == 4 && copied == 6);
}

static void nodes_of_buffers(void)
{
	double total = 1, more = 2;
	starpu_data_handle_t t, m;
	int i;

	starpu_variable_data_register(&t, STARPU_MAIN_RAM, (uintptr_t) &total, sizeof total);
	starpu_variable_data_register(&m, STARPU_MAIN_RAM, (uintptr_t) &more, sizeof more);
	for (i = 0; i < 10; i++)
		DONE(starpu_task_insert(&host_sum, STARPU_RW, t, STARPU_R, m, 0));
	DONE(starpu_data_request_allocation(t, 1));
	starpu_data_unregister(t);
	starpu_data_unregister(m);
	CHECK(total == 21);
}

/* A policy that looks at no kinds of workers: the first ready task goes to whoever asks. */
static struct starpu_task *queue[200];
static int queued, taken;
static starpu_pthread_mutex_t lock = STARPU_PTHREAD_MUTEX_INITIALIZER;

static int push(struct starpu_task *task)
{
	STARPU_PTHREAD_MUTEX_LOCK(&lock);
	queue[queued++ % 200] = task;
	STARPU_PTHREAD_MUTEX_UNLOCK(&lock);
	return 0;
}

static struct starpu_task *pop(unsigned context)
{
	struct starpu_task *task = NULL;

	(void) context;
	STARPU_PTHREAD_MUTEX_LOCK(&lock);
	if (taken < queued)
		task = queue[taken++ % 200];
	STARPU_PTHREAD_MUTEX_UNLOCK(&lock);
	return task;
}

static void on_gpu(void *argument)
{
	CHECK(here() != STARPU_MAIN_RAM);
	STARPU_ATOMIC_ADD((int *) argument, 1);
}

/* A handle that stays registered brings its value to the host at the end, and goes on at the next start. */
static void own_policy_and_a_handle_that_stays(struct starpu_conf *conf)
{
	static struct starpu_sched_policy fifo = {.push_task = push, .pop_task = pop, .policy_name = "fifo"};
	static struct starpu_codelet core = {
		.cpu_funcs = {one_more_on_core}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "core"};
	static struct starpu_codelet gpu = {
		.cuda_funcs = {one_more_on_gpu}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "gpu"};
	double values[20];
	starpu_data_handle_t handles[20];
	int i, k, workers = 0;

	conf->sched_policy = &fifo;
	for (k = 0; k < 2; k++) {
		DONE(starpu_init(conf));
		starpu_execute_on_each_worker(on_gpu, &workers, STARPU_CUDA);
		for (i = 0; i < 20; i++) {
			if (k == 0) {
				values[i] = i;
				starpu_variable_data_register(&handles[i], STARPU_MAIN_RAM, (uintptr_t) &values[i],
							      sizeof values[i]);
			}
			DONE(starpu_task_insert(&core, STARPU_RW, handles[i], 0));
			DONE(starpu_task_insert(&gpu, STARPU_RW, handles[i], 0));
		}
		DONE(starpu_task_wait_for_all());
		if (k == 1)
			for (i = 0; i < 20; i++)
				starpu_data_unregister(handles[i]);
		starpu_shutdown();
		for (i = 0; i < 20; i++)
			CHECK(values[i] == i + 2 * (k + 1));
	}
	CHECK(workers == 4);
}

/* GPUs by their numbers: the second one alone, whatever else the list names. */
static void chosen_gpus(struct starpu_conf *conf)
{
	int worker;

	conf->sched_policy = NULL;
	conf->sched_policy_name = NULL;
	setenv("STARPU_WORKERS_CUDAID", "1, x 7 1", 1);
	setenv("STARPU_NCUDA", "1", 1);
	DONE(starpu_init(conf));
	CHECK(starpu_cuda_worker_get_count() == 1);
	worker = starpu_worker_get_by_type(STARPU_CUDA_WORKER, 0);
	CHECK(starpu_worker_get_devid(worker) == 1 && starpu_worker_get_memory_node((unsigned) worker) == 1);
	CHECK(starpu_worker_get_perf_archtype(worker, 0)->devices[0].devid == 1);
	CHECK(starpu_memory_node_get_devid(1) == 1);
	starpu_shutdown();
}

int main(void)
{
	struct starpu_conf conf;
	starpu_data_handle_t handle;
	int i, workers[4];
	char name[64];
	unsigned cores;

	starpu_conf_init(&conf);
	conf.ncuda = 2;
	DONE(starpu_init(&conf));
	if (starpu_cuda_worker_get_count() == 0) {
		starpu_shutdown();
		return 77;
	}
	cores = starpu_cpu_worker_get_count();
	CHECK(starpu_cuda_worker_get_count() == 2 && starpu_worker_get_count() == cores + 2);
	CHECK(starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, workers, 4) == 2);
	CHECK(starpu_worker_get_type(workers[1]) == STARPU_CUDA_WORKER && starpu_worker_get_devid(workers[1]) == 1);
	CHECK(starpu_worker_get_by_devid(STARPU_CUDA_WORKER, 1) == workers[1]);
	CHECK(starpu_memory_nodes_get_count() == 3 && starpu_worker_get_memory_node(workers[1]) == 2);
	CHECK(starpu_memory_node_get_devid(2) == 1 && starpu_memory_get_total(1) == (1 << 20) / 10 * 9);
	starpu_worker_get_name(workers[0], name, sizeof name);
	CHECK(strncmp(name, "CUDA 0.0 (", 10) == 0);
	starpu_memory_node_get_name(1, name, sizeof name);
	CHECK(strcmp(name, "CUDA 0") == 0);
	CHECK(starpu_cuda_get_local_stream() == NULL);
	starpu_cublas_init();
	CHECK(created == 2 && starpu_cublas_get_local_handle() == NULL);

	whole_and_parts();
	CHECK(on_gpus >= 8 + PARTS + 1 + PARTS);
	without_coherency();
	matrix_with_gaps();
	reduction();
	more_than_fits();
	copies_on_a_stream();
	nodes_of_buffers();
	/* Wherever they like, one vector for each core and GPU, with values that stay exact. */
	for (i = 0; i < N; i++)
		x[i] = 0;
	starpu_vector_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t) x, N, sizeof x[0]);
	for (i = 0; i < 30; i++)
		DONE(starpu_task_insert(&step, STARPU_RW, handle, 0));
	starpu_data_unregister(handle);
	for (i = 0; i < N; i++)
		CHECK(x[i] == (pow(3, 30) - 1) / 2);
	/* A place that the codelet has no function for. */
	CHECK(starpu_task_insert(&twice, STARPU_R, NULL, STARPU_EXECUTE_WHERE, STARPU_CPU, 0) != 0);
	starpu_cublas_shutdown();
	CHECK(destroyed == 2);
	starpu_shutdown();
	by_models(&conf);
	own_policy_and_a_handle_that_stays(&conf);
	chosen_gpus(&conf);
	return 0;
}
