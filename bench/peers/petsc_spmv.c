/* PETSc: products with a sparse matrix of some type.
 * Needs petsc-dev. Usage: petsc_spmv CSR aij|sell|baij rows-of-a-block, under mpirun for several processes. What is asked and answered: spmv.h. */
#include "spmv.h"
#include <petscmat.h>

static PetscErrorCode read_matrix(const char *name, const char *type, PetscInt block, Mat *a)
{
	struct rows rows;
	FILE *file = open_rows(name, &rows);
	PetscInt n = (PetscInt)rows.rows, first = 0, last = 0;
	PetscLayout by_rows, by_columns;
	char converted[16];
	PetscCall(MatCreate(PETSC_COMM_WORLD, a));
	PetscCall(MatSetSizes(*a, PETSC_DECIDE, PETSC_DECIDE, n, n));
	PetscCall(MatSetBlockSize(*a, block));
	PetscCall(MatSetType(*a, MATAIJ));
	PetscCall(MatGetLayouts(*a, &by_rows, &by_columns));
	PetscCall(PetscLayoutSetUp(by_rows));
	PetscCall(PetscLayoutSetUp(by_columns));
	PetscCall(PetscLayoutGetRange(by_rows, &first, &last));
	read_rows(file, (uint64_t)first, (uint64_t)last, &rows);
	fclose(file);
	PetscCall(MatSeqAIJSetPreallocationCSR(*a, rows.starts, rows.columns, rows.values));
	PetscCall(MatMPIAIJSetPreallocationCSR(*a, rows.starts, rows.columns, rows.values));
	free(rows.starts);
	free(rows.columns);
	free(rows.values);
	snprintf(converted, sizeof converted, "%s", type);
	if (strcmp(type, MATAIJ)) PetscCall(MatConvert(*a, converted, MAT_INPLACE_MATRIX, a));
	return 0;
}

/* Whether there is a product to be made: the first process is asked, and the others sleep until it tells them. */
static int all_asked(int rank, int processes)
{
	int go = 0, arrived = 0;
	if (rank == 0) {
		go = asked();
		for (int other = 1; other < processes; other++) (void)MPI_Send(&go, 1, MPI_INT, other, 0, PETSC_COMM_WORLD);
		return go;
	}
	struct timespec pause = {0, 200000};
	while (!arrived) {
		MPI_Iprobe(0, 0, PETSC_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
		if (!arrived) nanosleep(&pause, NULL);
	}
	(void)MPI_Recv(&go, 1, MPI_INT, 0, 0, PETSC_COMM_WORLD, MPI_STATUS_IGNORE);
	return go;
}

int main(int argc, char **argv)
{
	Mat a;
	Vec x, y;
	PetscReal sum;
	PetscInt first, last;
	PetscScalar *values;
	int rank, processes;
	if (argc < 4) {
		fprintf(stderr, "usage: petsc_spmv CSR aij|sell|baij rows-of-a-block\n");
		return 2;
	}
	PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
	MPI_Comm_rank(PETSC_COMM_WORLD, &rank);
	MPI_Comm_size(PETSC_COMM_WORLD, &processes);
	PetscCall(read_matrix(argv[1], argv[2], atoi(argv[3]), &a));
	PetscCall(MatCreateVecs(a, &x, &y));
	PetscCall(VecGetOwnershipRange(x, &first, &last));
	PetscCall(VecGetArray(x, &values));
	for (PetscInt j = first; j < last; j++) values[j - first] = x_at((uint64_t)j);
	PetscCall(VecRestoreArray(x, &values));
	PetscCall(MatMult(a, x, y));
	PetscCall(VecNorm(y, NORM_1, &sum));
	if (rank == 0) {
		printf("ready %.17g\n", sum);
		fflush(stdout);
	}
	while (all_asked(rank, processes)) {
		MPI_Barrier(PETSC_COMM_WORLD);
		struct stamp begun = stamp_now();
		PetscCall(MatMult(a, x, y));
		MPI_Barrier(PETSC_COMM_WORLD);
		if (rank == 0) report_seconds(begun);
	}
	PetscCall(MatDestroy(&a));
	PetscCall(VecDestroy(&x));
	PetscCall(VecDestroy(&y));
	return PetscFinalize();
}
