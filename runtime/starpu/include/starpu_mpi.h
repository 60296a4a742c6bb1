/*
 * Tasks and data of several processes. The functions belong to a library that was built with MPI.
 *
 * Messages have 64-bit tags and are matched in the order of the calls. A send is complete once its
 * data may be changed; starpu_mpi_issend is complete once they were received.
 */
#ifndef STARPU_MPI_H
#define STARPU_MPI_H

#ifndef STARPU_USE_MPI
#define STARPU_USE_MPI 1
#endif

#include <starpu.h>
#include <starpu_mpi_ft.h>

#include <limits.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void *starpu_mpi_req;
typedef int64_t starpu_mpi_tag_t;
typedef void (*starpu_mpi_callback_t)(void *);

/* ---- Start and end ---- */

/* Starts StarPU and the use of MPI by the processes of comm; initialises MPI if initialize_mpi is not 0. */
int starpu_mpi_init_conf(int *argc, char ***argv, int initialize_mpi, MPI_Comm comm, struct starpu_conf *conf);
int starpu_mpi_init_comm(int *argc, char ***argv, int initialize_mpi, MPI_Comm comm);
int starpu_mpi_init(int *argc, char ***argv, int initialize_mpi);
int starpu_mpi_initialize(void);
int starpu_mpi_initialize_extended(int *rank, int *world_size);
/* Waits for all tasks and messages, and ends what the start has started. */
int starpu_mpi_shutdown(void);
int starpu_mpi_shutdown_comm(MPI_Comm comm);

/* A communicator is known from its first use; processes use those with the same members in the same order. */
int starpu_mpi_comm_register(MPI_Comm comm);
int starpu_mpi_comm_size(MPI_Comm comm, int *size);
int starpu_mpi_comm_rank(MPI_Comm comm, int *rank);
int starpu_mpi_world_rank(void);
int starpu_mpi_world_size(void);
#define STARPU_MPI_TAG_UB MPI_TAG_UB
int starpu_mpi_comm_get_attr(MPI_Comm comm, int keyval, void *attribute_val, int *flag);
int starpu_mpi_get_thread_cpuid(void);
starpu_mpi_tag_t starpu_mpi_get_communication_tag(void);
void starpu_mpi_set_communication_tag(starpu_mpi_tag_t tag);

/* ---- Messages ---- */

#define ZELLIGE_MPI_SENDS_(name) \
	int name(starpu_data_handle_t handle, starpu_mpi_req *req, int dest, starpu_mpi_tag_t tag, MPI_Comm comm); \
	int name##_prio(starpu_data_handle_t handle, starpu_mpi_req *req, int dest, starpu_mpi_tag_t tag, int prio, \
			MPI_Comm comm); \
	int name##_detached(starpu_data_handle_t handle, int dest, starpu_mpi_tag_t tag, MPI_Comm comm, \
			    starpu_mpi_callback_t callback, void *arg); \
	int name##_detached_prio(starpu_data_handle_t handle, int dest, starpu_mpi_tag_t tag, int prio, MPI_Comm comm, \
				 starpu_mpi_callback_t callback, void *arg)

ZELLIGE_MPI_SENDS_(starpu_mpi_isend);
ZELLIGE_MPI_SENDS_(starpu_mpi_issend);
int starpu_mpi_irecv(starpu_data_handle_t handle, starpu_mpi_req *req, int source, starpu_mpi_tag_t tag, MPI_Comm comm);
int starpu_mpi_irecv_detached(starpu_data_handle_t handle, int source, starpu_mpi_tag_t tag, MPI_Comm comm,
			      starpu_mpi_callback_t callback, void *arg);
int starpu_mpi_irecv_detached_prio(starpu_data_handle_t handle, int source, starpu_mpi_tag_t tag, int prio, MPI_Comm comm,
				   starpu_mpi_callback_t callback, void *arg);
int starpu_mpi_irecv_detached_sequential_consistency(starpu_data_handle_t handle, int source, starpu_mpi_tag_t tag,
						     MPI_Comm comm, starpu_mpi_callback_t callback, void *arg,
						     int sequential_consistency);
int starpu_mpi_send(starpu_data_handle_t handle, int dest, starpu_mpi_tag_t tag, MPI_Comm comm);
int starpu_mpi_send_prio(starpu_data_handle_t handle, int dest, starpu_mpi_tag_t tag, int prio, MPI_Comm comm);
int starpu_mpi_recv(starpu_data_handle_t handle, int source, starpu_mpi_tag_t tag, MPI_Comm comm, MPI_Status *status);
int starpu_mpi_recv_prio(starpu_data_handle_t handle, int source, starpu_mpi_tag_t tag, int prio, MPI_Comm comm,
			 MPI_Status *status);
int starpu_mpi_wait(starpu_mpi_req *req, MPI_Status *status);
int starpu_mpi_test(starpu_mpi_req *req, int *flag, MPI_Status *status);

/* Those that notify a StarPU tag at their end. */
int starpu_mpi_isend_detached_unlock_tag(starpu_data_handle_t handle, int dest, starpu_mpi_tag_t data_tag, MPI_Comm comm,
					 starpu_tag_t tag);
int starpu_mpi_isend_detached_unlock_tag_prio(starpu_data_handle_t handle, int dest, starpu_mpi_tag_t data_tag, int prio,
					      MPI_Comm comm, starpu_tag_t tag);
int starpu_mpi_irecv_detached_unlock_tag(starpu_data_handle_t handle, int source, starpu_mpi_tag_t data_tag, MPI_Comm comm,
					 starpu_tag_t tag);
int starpu_mpi_isend_array_detached_unlock_tag(unsigned array_size, starpu_data_handle_t *handles, int *dests,
					       starpu_mpi_tag_t *data_tags, MPI_Comm *comms, starpu_tag_t tag);
int starpu_mpi_isend_array_detached_unlock_tag_prio(unsigned array_size, starpu_data_handle_t *handles, int *dests,
						    starpu_mpi_tag_t *data_tags, int *prios, MPI_Comm *comms,
						    starpu_tag_t tag);
int starpu_mpi_irecv_array_detached_unlock_tag(unsigned array_size, starpu_data_handle_t *handles, int *sources,
					       starpu_mpi_tag_t *data_tags, MPI_Comm *comms, starpu_tag_t tag);

int starpu_mpi_barrier(MPI_Comm comm);
/* Waits for the tasks and messages of this process. */
int starpu_mpi_wait_for_all(MPI_Comm comm);
int starpu_mpi_wait_for_all_in_ctx(MPI_Comm comm, unsigned sched_ctx);

void starpu_mpi_comm_stats_disable(void);
void starpu_mpi_comm_stats_enable(void);
/* Writes the bytes of data that were sent to each rank. */
void starpu_mpi_comm_stats_retrieve(size_t *comm_stats);

/* ---- Datatypes of data without pack_data; a result other than 0 leaves the data to pack_data ---- */

typedef int (*starpu_mpi_datatype_allocate_func_t)(starpu_data_handle_t, MPI_Datatype *);
typedef int (*starpu_mpi_datatype_node_allocate_func_t)(starpu_data_handle_t, unsigned node, MPI_Datatype *);
typedef void (*starpu_mpi_datatype_free_func_t)(MPI_Datatype *);
int starpu_mpi_datatype_register(starpu_data_handle_t handle, starpu_mpi_datatype_allocate_func_t allocate,
				 starpu_mpi_datatype_free_func_t release);
int starpu_mpi_datatype_node_register(starpu_data_handle_t handle, starpu_mpi_datatype_node_allocate_func_t allocate,
				      starpu_mpi_datatype_free_func_t release);
int starpu_mpi_datatype_unregister(starpu_data_handle_t handle);
int starpu_mpi_interface_datatype_register(enum starpu_data_interface_id id, starpu_mpi_datatype_allocate_func_t allocate,
					   starpu_mpi_datatype_free_func_t release);
int starpu_mpi_interface_datatype_node_register(enum starpu_data_interface_id id,
						starpu_mpi_datatype_node_allocate_func_t allocate,
						starpu_mpi_datatype_free_func_t release);
int starpu_mpi_interface_datatype_unregister(enum starpu_data_interface_id id);

/* ---- Owners of data ---- */

/* The rank of data of which each process has its own. */
#define STARPU_MPI_PER_NODE -2
void starpu_mpi_data_register_comm(starpu_data_handle_t handle, starpu_mpi_tag_t tag, int rank, MPI_Comm comm);
#define starpu_mpi_data_register(handle, tag, rank) starpu_mpi_data_register_comm(handle, tag, rank, MPI_COMM_WORLD)
void starpu_mpi_data_set_rank_comm(starpu_data_handle_t handle, int rank, MPI_Comm comm);
#define starpu_mpi_data_set_rank(handle, rank) starpu_mpi_data_set_rank_comm(handle, rank, MPI_COMM_WORLD)
void starpu_mpi_data_set_tag(starpu_data_handle_t handle, starpu_mpi_tag_t tag);
/* -1 where none was set. */
int starpu_mpi_data_get_rank(starpu_data_handle_t handle);
starpu_mpi_tag_t starpu_mpi_data_get_tag(starpu_data_handle_t handle);
#define starpu_data_set_tag starpu_mpi_data_set_tag
#define starpu_data_set_rank starpu_mpi_data_set_rank
#define starpu_data_get_rank starpu_mpi_data_get_rank
#define starpu_data_get_tag starpu_mpi_data_get_tag
/* A flag for each rank that has added to the data since the last reduction; NULL if none has. */
char *starpu_mpi_data_get_redux_map(starpu_data_handle_t handle);
/* The rank that sends data to node in the place of their owner. */
int starpu_mpi_data_get_source(starpu_data_handle_t handle, int node);
void starpu_mpi_data_set_source(starpu_data_handle_t handle, int node, int new_source);
void starpu_mpi_data_reset_source(starpu_data_handle_t handle, int node);
void starpu_mpi_data_migrate(MPI_Comm comm, starpu_data_handle_t handle, int new_rank);
int64_t starpu_mpi_tags_get_next_value(void);
int64_t starpu_mpi_tags_allocate(int64_t nbtags);
void starpu_mpi_tags_free(int64_t mintag);

int starpu_mpi_cache_is_enabled(void);
int starpu_mpi_cache_set(int enabled);
void starpu_mpi_cache_flush(MPI_Comm comm, starpu_data_handle_t handle);
void starpu_mpi_cache_flush_all_data(MPI_Comm comm);
int starpu_mpi_cached_receive(starpu_data_handle_t handle);
int starpu_mpi_cached_receive_set(starpu_data_handle_t handle);
int starpu_mpi_cached_cp_receive_set(starpu_data_handle_t handle);
void starpu_mpi_cached_receive_clear(starpu_data_handle_t handle);
int starpu_mpi_cached_send_comm(starpu_data_handle_t handle, int dest, MPI_Comm comm);
#define starpu_mpi_cached_send(handle, dest) starpu_mpi_cached_send_comm(handle, dest, MPI_COMM_WORLD)
int starpu_mpi_cached_send_set_comm(starpu_data_handle_t handle, int dest, MPI_Comm comm);
#define starpu_mpi_cached_send_set(handle, dest) starpu_mpi_cached_send_set_comm(handle, dest, MPI_COMM_WORLD)
void starpu_mpi_cached_send_clear(starpu_data_handle_t handle);
/* A hint, which nothing needs here. */
void starpu_mpi_coop_sends_set_use(int use_coop_sends);
int starpu_mpi_coop_sends_get_use(void);
void starpu_mpi_coop_sends_data_handle_nb_sends(starpu_data_handle_t handle, int nb_sends);

/* ---- Tasks: all processes insert the same tasks in the same order ---- */

int starpu_mpi_task_insert(MPI_Comm comm, struct starpu_codelet *codelet, ...);
int starpu_mpi_insert_task(MPI_Comm comm, struct starpu_codelet *codelet, ...);
int starpu_mpi_tasks_insert(MPI_Comm comm, struct starpu_codelet *codelet, int p, int *nodes, ...);
/* The task where it runs, NULL elsewhere; starpu_mpi_task_post_build follows on all processes. */
struct starpu_task *starpu_mpi_task_build(MPI_Comm comm, struct starpu_codelet *codelet, ...);
struct starpu_task *starpu_mpi_task_build_v(MPI_Comm comm, struct starpu_codelet *codelet, va_list varg_list);
int starpu_mpi_task_post_build(MPI_Comm comm, struct starpu_codelet *codelet, ...);
int starpu_mpi_task_post_build_v(MPI_Comm comm, struct starpu_codelet *codelet, va_list varg_list);
int starpu_mpi_pre_submit_hook_register(void (*f)(struct starpu_task *));
int starpu_mpi_pre_submit_hook_unregister(void);

struct starpu_mpi_task_exchange_params
{
	int do_execute;
	int xrank;
	int priority;
	int me;
	int exchange_needed;
};
int starpu_mpi_task_exchange_data_before_execution(MPI_Comm comm, struct starpu_task *task, struct starpu_data_descr *descrs,
						   struct starpu_mpi_task_exchange_params *params);
int starpu_mpi_task_exchange_data_before_execution_on_node(MPI_Comm comm, struct starpu_task *task,
							   struct starpu_data_descr *descrs,
							   struct starpu_mpi_task_exchange_params *params, int xrank);
int starpu_mpi_task_exchange_data_after_execution(MPI_Comm comm, struct starpu_data_descr *descrs, unsigned nb_data,
						  struct starpu_mpi_task_exchange_params params);
int starpu_mpi_exchange_data_before_execution(MPI_Comm comm, starpu_data_handle_t data, enum starpu_data_access_mode mode,
					      struct starpu_mpi_task_exchange_params *params);
int starpu_mpi_exchange_data_after_execution(MPI_Comm comm, starpu_data_handle_t data, enum starpu_data_access_mode mode,
					     struct starpu_mpi_task_exchange_params params);

/* Choice of the node of a task that writes data of several owners, or none: by most bytes of its data. */
#define STARPU_MPI_NODE_SELECTION_CURRENT_POLICY -1
#define STARPU_MPI_NODE_SELECTION_MOST_R_DATA 0
typedef int (*starpu_mpi_select_node_policy_func_t)(int me, int nb_nodes, struct starpu_data_descr *descr, int nb_data);
int starpu_mpi_node_selection_register_policy(starpu_mpi_select_node_policy_func_t policy_func);
int starpu_mpi_node_selection_unregister_policy(int policy);
int starpu_mpi_node_selection_get_current_policy(void);
int starpu_mpi_node_selection_set_current_policy(int policy);

/* ---- Data of several processes ---- */

int starpu_mpi_get_data_on_node(MPI_Comm comm, starpu_data_handle_t handle, int node);
int starpu_mpi_get_data_on_node_detached(MPI_Comm comm, starpu_data_handle_t handle, int node,
					 starpu_mpi_callback_t callback, void *arg);
void starpu_mpi_get_data_on_all_nodes_detached(MPI_Comm comm, starpu_data_handle_t handle);
int starpu_mpi_redux_data(MPI_Comm comm, starpu_data_handle_t handle);
int starpu_mpi_redux_data_prio(MPI_Comm comm, starpu_data_handle_t handle, int prio);
int starpu_mpi_redux_data_tree(MPI_Comm comm, starpu_data_handle_t handle, int arity);
int starpu_mpi_redux_data_prio_tree(MPI_Comm comm, starpu_data_handle_t handle, int prio, int arity);
int starpu_mpi_scatter_detached(starpu_data_handle_t *handles, int count, int root, MPI_Comm comm,
				starpu_mpi_callback_t scallback, void *sarg, starpu_mpi_callback_t rcallback, void *rarg);
int starpu_mpi_gather_detached(starpu_data_handle_t *handles, int count, int root, MPI_Comm comm,
			       starpu_mpi_callback_t scallback, void *sarg, starpu_mpi_callback_t rcallback, void *rarg);
int starpu_mpi_data_cpy(starpu_data_handle_t dst_handle, starpu_data_handle_t src_handle, MPI_Comm comm, int asynchronous,
			starpu_mpi_callback_t callback, void *arg);
int starpu_mpi_data_cpy_priority(starpu_data_handle_t dst_handle, starpu_data_handle_t src_handle, MPI_Comm comm,
				 int asynchronous, starpu_mpi_callback_t callback, void *arg, int priority);

#undef ZELLIGE_MPI_SENDS_

#ifdef __cplusplus
}
#endif

#endif
