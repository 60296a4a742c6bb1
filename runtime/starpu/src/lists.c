/*
 * Functions of contexts and models that take a list of arguments of any length. Each reads its list
 * and calls a function of Rust with all of it at once; src/variadic.rs gives them their public names.
 */
#include <starpu.h>

/* The options of a new context: struct Options of src/sched_ctx/. */
struct options {
	const char *policy_name;
	struct starpu_sched_policy *policy;
	void (*init)(unsigned);
	void *user_data;
	int least;
	int most;
	unsigned level;
	int sets_least;
	int sets_most;
	int unknown;
};

unsigned zellige_context_create(const int *workers, int count, const char *name, const struct options *options);
struct starpu_perfmodel_per_arch *zellige_model_for(struct starpu_perfmodel *model, unsigned implementation,
						    int count, const struct starpu_perfmodel_device *devices);

unsigned zellige_c_sched_ctx_create(int *workers, int count, const char *name, ...);
struct starpu_perfmodel_per_arch *zellige_c_perfmodel_get(struct starpu_perfmodel *model, int implementation, ...);
int zellige_c_perfmodel_set_cost(struct starpu_perfmodel *model, int implementation,
				 starpu_perfmodel_per_arch_cost_function function, ...);
int zellige_c_perfmodel_set_size(struct starpu_perfmodel *model, int implementation,
				 starpu_perfmodel_per_arch_size_base function, ...);

unsigned zellige_c_sched_ctx_create(int *workers, int count, const char *name, ...)
{
	struct options options;
	va_list list;
	int word;

	memset(&options, 0, sizeof options);
	va_start(list, name);
	while (options.unknown == 0 && (word = va_arg(list, int)) != 0) {
		switch (word) {
		case STARPU_SCHED_CTX_POLICY_NAME: options.policy_name = va_arg(list, const char *); break;
		case STARPU_SCHED_CTX_POLICY_STRUCT: options.policy = va_arg(list, struct starpu_sched_policy *); break;
		case STARPU_SCHED_CTX_POLICY_INIT: options.init = va_arg(list, void (*)(unsigned)); break;
		case STARPU_SCHED_CTX_USER_DATA: options.user_data = va_arg(list, void *); break;
		case STARPU_SCHED_CTX_HIERARCHY_LEVEL: options.level = va_arg(list, unsigned); break;
		case STARPU_SCHED_CTX_POLICY_MIN_PRIO:
			options.least = va_arg(list, int);
			options.sets_least = 1;
			break;
		case STARPU_SCHED_CTX_POLICY_MAX_PRIO:
			options.most = va_arg(list, int);
			options.sets_most = 1;
			break;
		/* These are about threads that contexts take from one another; here they take none. */
		case STARPU_SCHED_CTX_AWAKE_WORKERS: break;
		case STARPU_SCHED_CTX_NESTED: (void) va_arg(list, unsigned); break;
		case STARPU_SCHED_CTX_CUDA_NSMS: (void) va_arg(list, int); break;
		case STARPU_SCHED_CTX_SUB_CTXS:
			(void) va_arg(list, int *);
			(void) va_arg(list, int);
			break;
		default: options.unknown = word; break;
		}
	}
	va_end(list);
	return zellige_context_create(workers, count, name, &options);
}

/* Reads kind, device and cores of each device up to a -1; returns how many there are. */
static int read_devices(va_list list, struct starpu_perfmodel_device *devices, int most)
{
	int count = 0, word;

	while ((word = va_arg(list, int)) != -1) {
		struct starpu_perfmodel_device device;

		device.type = (enum starpu_worker_archtype) word;
		device.devid = va_arg(list, int);
		device.ncores = va_arg(list, int);
		if (count < most)
			devices[count++] = device;
	}
	return count;
}

/* The part of `model` for the devices that follow the argument `last`. */
#define MODEL_FOR(result, model, implementation, last)                                             \
	do {                                                                                       \
		struct starpu_perfmodel_device devices[STARPU_NMAXWORKERS];                        \
		va_list list;                                                                      \
		int count;                                                                         \
		va_start(list, last);                                                              \
		count = read_devices(list, devices, STARPU_NMAXWORKERS);                           \
		va_end(list);                                                                      \
		(result) = zellige_model_for(model, (unsigned) (implementation), count, devices);  \
	} while (0)

struct starpu_perfmodel_per_arch *zellige_c_perfmodel_get(struct starpu_perfmodel *model, int implementation, ...)
{
	struct starpu_perfmodel_per_arch *part;

	MODEL_FOR(part, model, implementation, implementation);
	return part;
}

int zellige_c_perfmodel_set_cost(struct starpu_perfmodel *model, int implementation,
				 starpu_perfmodel_per_arch_cost_function function, ...)
{
	struct starpu_perfmodel_per_arch *part;

	MODEL_FOR(part, model, implementation, function);
	if (part == NULL)
		return -EINVAL;
	part->cost_function = function;
	return 0;
}

int zellige_c_perfmodel_set_size(struct starpu_perfmodel *model, int implementation,
				 starpu_perfmodel_per_arch_size_base function, ...)
{
	struct starpu_perfmodel_per_arch *part;

	MODEL_FOR(part, model, implementation, function);
	if (part == NULL)
		return -EINVAL;
	part->size_base = function;
	return 0;
}
