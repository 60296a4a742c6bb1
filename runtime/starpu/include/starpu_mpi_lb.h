/* The load balancer of several processes, which is absent: data stay with their owners. */
#ifndef STARPU_MPI_LB_H
#define STARPU_MPI_LB_H

#include <starpu_mpi.h>

struct starpu_mpi_lb_conf
{
	void (*get_neighbors)(int **neighbor_ids, int *nneighbors);
	void (*get_data_unit_to_migrate)(starpu_data_handle_t **handle_unit, int *nhandles, int dst_node);
};

/* Says that there is no load balancer. */
static inline void starpu_mpi_lb_init(const char *lb_policy_name STARPU_ATTRIBUTE_UNUSED,
				      struct starpu_mpi_lb_conf *conf STARPU_ATTRIBUTE_UNUSED)
{
	(void) zellige_starpu_mpi_absent("starpu_mpi_lb_init");
}

static inline void starpu_mpi_lb_shutdown(void)
{
}

#endif
