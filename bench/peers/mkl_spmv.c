/* MKL: products with a sparse matrix by rows, which MKL has made into what it likes best (mkl_sparse_optimize).
 * Needs libmkl_rt.so and what it loads on the loader's path (of the packages `mkl` and `intel-openmp` of PyPI, for instance), and no headers.
 * Usage: mkl_spmv CSR threads. What is asked and answered: spmv.h. */
#include "spmv.h"
#include <dlfcn.h>
#include <math.h>

/* What is needed of mkl_spblas.h. */
enum { BASE_ZERO = 0, NO_TRANSPOSE = 10, GENERAL = 20, FULL = 40, NON_UNIT = 50, MANY_CALLS = 1000 };
struct description { int type, mode, diag; };
typedef void *matrix;
typedef int create_f(matrix *, int, int, int, int *, int *, int *, double *);
typedef int hint_f(matrix, int, struct description, int);
typedef int optimize_f(matrix);
typedef int multiply_f(int, double, matrix, struct description, const double *, double, double *);
typedef void threads_f(int);

static void *function(void *library, const char *name)
{
	void *found = dlsym(library, name);
	if (!found) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return found;
}

static void check(int status, const char *what)
{
	if (status) {
		fprintf(stderr, "%s: status %d\n", what, status);
		exit(1);
	}
}

/* Threads that wait for the next product must not spin: others are being timed then. */
static void without_spinning(char **argv)
{
	if (getenv("KMP_BLOCKTIME")) return;
	setenv("KMP_BLOCKTIME", "0", 1);
	execv("/proc/self/exe", argv);
	perror("cannot start again with KMP_BLOCKTIME set");
	exit(1);
}

int main(int argc, char **argv)
{
	if (argc != 3 || atoi(argv[2]) < 1) {
		fprintf(stderr, "usage: mkl_spmv CSR threads\n");
		return 2;
	}
	without_spinning(argv);
	void *library = dlopen("libmkl_rt.so", RTLD_NOW | RTLD_GLOBAL);
	for (int version = 3; !library && version > 0; version--) {
		char name[32];
		snprintf(name, sizeof name, "libmkl_rt.so.%d", version);
		library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
	}
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	create_f *create = (create_f *)function(library, "mkl_sparse_d_create_csr");
	hint_f *hint = (hint_f *)function(library, "mkl_sparse_set_mv_hint");
	optimize_f *optimize = (optimize_f *)function(library, "mkl_sparse_optimize");
	multiply_f *multiply = (multiply_f *)function(library, "mkl_sparse_d_mv");
	((threads_f *)function(library, "MKL_Set_Num_Threads"))(atoi(argv[2]));
	struct rows rows;
	FILE *file = open_rows(argv[1], &rows);
	read_rows(file, 0, rows.rows, &rows);
	fclose(file);
	struct description general = {GENERAL, FULL, NON_UNIT};
	int n = (int)rows.rows;
	double *x = room(sizeof *x, rows.rows), *y = room(sizeof *y, rows.rows), sum = 0.0;
	for (uint64_t j = 0; j < rows.rows; j++) {
		x[j] = x_at(j);
		y[j] = 0.0;
	}
	matrix a;
	check(create(&a, BASE_ZERO, n, n, rows.starts, rows.starts + 1, rows.columns, rows.values), "create_csr");
	check(hint(a, NO_TRANSPOSE, general, MANY_CALLS), "set_mv_hint");
	check(optimize(a), "optimize");
	check(multiply(NO_TRANSPOSE, 1.0, a, general, x, 0.0, y), "mv");
	for (int i = 0; i < n; i++) sum += fabs(y[i]);
	printf("ready %.17g\n", sum);
	fflush(stdout);
	while (asked()) {
		struct stamp begun = stamp_now();
		check(multiply(NO_TRANSPOSE, 1.0, a, general, x, 0.0, y), "mv");
		report_seconds(begun);
	}
	return 0;
}
