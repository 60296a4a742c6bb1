/* Checkpoints of several processes, which are absent: each function says so and returns -ENOSYS. */
#ifndef STARPU_MPI_FT_H
#define STARPU_MPI_FT_H

#include <starpu.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zellige_starpu_checkpoint *starpu_mpi_checkpoint_template_t;

/* Says that a function is absent; returns -ENOSYS. */
int zellige_starpu_mpi_absent(const char *function);

#define ZELLIGE_MPI_ABSENT_(name, ...) \
	static inline int name(__VA_ARGS__) \
	{ \
		return zellige_starpu_mpi_absent(#name); \
	}

ZELLIGE_MPI_ABSENT_(starpu_mpi_checkpoint_init, void)
ZELLIGE_MPI_ABSENT_(starpu_mpi_checkpoint_shutdown, void)
ZELLIGE_MPI_ABSENT_(starpu_mpi_checkpoint_template_register,
		    starpu_mpi_checkpoint_template_t *cp_template STARPU_ATTRIBUTE_UNUSED, int cp_id STARPU_ATTRIBUTE_UNUSED,
		    int cp_domain STARPU_ATTRIBUTE_UNUSED, ...)
ZELLIGE_MPI_ABSENT_(starpu_mpi_checkpoint_template_create,
		    starpu_mpi_checkpoint_template_t *cp_template STARPU_ATTRIBUTE_UNUSED, int cp_id STARPU_ATTRIBUTE_UNUSED,
		    int cp_domain STARPU_ATTRIBUTE_UNUSED)
ZELLIGE_MPI_ABSENT_(starpu_mpi_checkpoint_template_add_entry,
		    starpu_mpi_checkpoint_template_t *cp_template STARPU_ATTRIBUTE_UNUSED, ...)
ZELLIGE_MPI_ABSENT_(starpu_mpi_checkpoint_template_freeze,
		    starpu_mpi_checkpoint_template_t *cp_template STARPU_ATTRIBUTE_UNUSED)
ZELLIGE_MPI_ABSENT_(starpu_mpi_checkpoint_template_submit,
		    starpu_mpi_checkpoint_template_t cp_template STARPU_ATTRIBUTE_UNUSED, int prio STARPU_ATTRIBUTE_UNUSED)
ZELLIGE_MPI_ABSENT_(starpu_mpi_checkpoint_template_print,
		    starpu_mpi_checkpoint_template_t cp_template STARPU_ATTRIBUTE_UNUSED)
ZELLIGE_MPI_ABSENT_(starpu_mpi_ft_turn_on, void)
ZELLIGE_MPI_ABSENT_(starpu_mpi_ft_turn_off, void)

#undef ZELLIGE_MPI_ABSENT_

#ifdef __cplusplus
}
#endif

#endif
