/* A data interface of the program's own: complex numbers in two arrays, with a filter of its own. */
#include "check.h"

struct complex_interface {
	double *real;
	double *imaginary;
	size_t nx;
};

static void register_handle(starpu_data_handle_t handle, int home_node, void *data_interface)
{
	struct complex_interface *from = (struct complex_interface *) data_interface;
	unsigned node;

	for (node = 0; node < STARPU_MAXNODES; node++) {
		struct complex_interface *to = (struct complex_interface *) starpu_data_get_interface_on_node(handle, node);
		to->nx = from->nx;
		to->real = (int) node == home_node ? from->real : NULL;
		to->imaginary = (int) node == home_node ? from->imaginary : NULL;
	}
}

static starpu_ssize_t allocate(void *data_interface, unsigned node)
{
	struct complex_interface *c = (struct complex_interface *) data_interface;
	size_t bytes = c->nx * sizeof(double);

	c->real = (double *) starpu_malloc_on_node(node, bytes);
	c->imaginary = (double *) starpu_malloc_on_node(node, bytes);
	return (starpu_ssize_t) (2 * bytes);
}

static void release(void *data_interface, unsigned node)
{
	struct complex_interface *c = (struct complex_interface *) data_interface;

	starpu_free_on_node(node, (uintptr_t) c->real, c->nx * sizeof(double));
	starpu_free_on_node(node, (uintptr_t) c->imaginary, c->nx * sizeof(double));
	c->real = c->imaginary = NULL;
}

static size_t size(starpu_data_handle_t handle)
{
	struct complex_interface *c = (struct complex_interface *) starpu_data_get_interface_on_node(handle, STARPU_MAIN_RAM);

	return 2 * c->nx * sizeof(double);
}

static uint32_t footprint(starpu_data_handle_t handle) { return starpu_hash_crc32c_be((uint32_t) size(handle), 0); }

static int copy(void *src_interface, unsigned src_node, void *dst_interface, unsigned dst_node, void *async_data)
{
	struct complex_interface *from = (struct complex_interface *) src_interface;
	struct complex_interface *to = (struct complex_interface *) dst_interface;
	int result = 0;

	if (starpu_interface_copy((uintptr_t) from->real, 0, src_node, (uintptr_t) to->real, 0, dst_node,
				  from->nx * sizeof(double), async_data) != 0)
		result = -EAGAIN;
	if (starpu_interface_copy((uintptr_t) from->imaginary, 0, src_node, (uintptr_t) to->imaginary, 0, dst_node,
				  from->nx * sizeof(double), async_data) != 0)
		result = -EAGAIN;
	return result;
}

static const struct starpu_data_copy_methods methods = {.any_to_any = copy};

static struct starpu_data_interface_ops ops = {
	.register_data_handle = register_handle,
	.allocate_data_on_node = allocate,
	.free_data_on_node = release,
	.copy_methods = &methods,
	.get_size = size,
	.footprint = footprint,
	.interfaceid = STARPU_UNKNOWN_INTERFACE_ID,
	.interface_size = sizeof(struct complex_interface),
	.name = (char *) "complex",
};

static void half(void *parent_interface, void *child_interface, struct starpu_data_filter *filter, unsigned id,
		 unsigned nparts)
{
	struct complex_interface *parent = (struct complex_interface *) parent_interface;
	struct complex_interface *child = (struct complex_interface *) child_interface;

	(void) filter;
	child->nx = parent->nx / nparts;
	child->real = parent->real == NULL ? NULL : parent->real + id * child->nx;
	child->imaginary = parent->imaginary == NULL ? NULL : parent->imaginary + id * child->nx;
}

static void conjugate(void *buffers[], void *cl_arg)
{
	struct complex_interface *c = (struct complex_interface *) buffers[0];
	size_t i;

	(void) cl_arg;
	for (i = 0; i < c->nx; i++)
		c->imaginary[i] = -c->imaginary[i];
}

static void set(void *buffers[], void *cl_arg)
{
	struct complex_interface *c = (struct complex_interface *) buffers[0];
	size_t i;

	(void) cl_arg;
	for (i = 0; i < c->nx; i++) {
		c->real[i] = (double) i;
		c->imaginary[i] = 10.0 * (double) i;
	}
}

static struct starpu_codelet conjugate_codelet = {
	.cpu_funcs = {conjugate}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "conjugate"};
static struct starpu_codelet set_codelet = {.cpu_funcs = {set}, .nbuffers = 1, .modes = {STARPU_W}, .name = "set"};

static starpu_data_handle_t register_complex(int home, double *real, double *imaginary, size_t nx)
{
	struct complex_interface c = {real, imaginary, nx};
	starpu_data_handle_t handle;

	if (ops.interfaceid == STARPU_UNKNOWN_INTERFACE_ID)
		ops.interfaceid = (enum starpu_data_interface_id) starpu_data_interface_get_next_id();
	starpu_data_register(&handle, home, &c, &ops);
	return handle;
}

int main(void)
{
	double real[] = {1, 2, 3, 4}, imaginary[] = {5, 6, 7, 8};
	struct starpu_data_filter filter = {.filter_func = half, .nchildren = 2};
	starpu_data_handle_t own, made;
	struct complex_interface *c;
	int i;

	DONE(starpu_init(NULL));
	own = register_complex(STARPU_MAIN_RAM, real, imaginary, 4);
	made = register_complex(-1, NULL, NULL, 4);
	CHECK(starpu_data_get_size(own) == 64);
	CHECK(starpu_data_get_interface_id(own) == ops.interfaceid);
	starpu_data_partition(own, &filter);
	DONE(starpu_task_insert(&conjugate_codelet, STARPU_RW, starpu_data_get_sub_data(own, 1, 1), 0));
	starpu_data_unpartition(own, STARPU_MAIN_RAM);
	CHECK(imaginary[0] == 5 && imaginary[1] == 6 && imaginary[2] == -7 && imaginary[3] == -8);
	DONE(starpu_task_insert(&set_codelet, STARPU_W, made, 0));
	DONE(starpu_data_cpy(own, made, 0, NULL, NULL));
	DONE(starpu_data_acquire(own, STARPU_R));
	c = (struct complex_interface *) starpu_data_get_interface_on_node(own, STARPU_MAIN_RAM);
	CHECK(c->real == real && c->imaginary == imaginary);
	for (i = 0; i < 4; i++)
		CHECK(real[i] == (double) i && imaginary[i] == 10.0 * i);
	starpu_data_release(own);
	starpu_data_unregister(made);
	starpu_data_unregister(own);
	starpu_shutdown();
	return 0;
}
