/* PETSc: one method with one preconditioner, to a relative true residual of 1e-10. Where the residual that the method keeps is smaller than the true
 * one, it begins again from its answer, a few times.
 * Needs petsc-dev. Usage: petsc_ksp CSR RHS ksp_type pc_type [rows-of-a-block] [-coordinates FILE] ; options of PETSc's own may follow.
 * FILE has three coordinates of each block of rows (f64): the near null space becomes that of rigid bodies. On elasticity, with blocks of 3:
 *     cg icc ; cg gamg ; cg gamg -coordinates FILE ; cg hypre -pc_hypre_type boomeramg -pc_hypre_boomeramg_strong_threshold 0.5
 * CSR: rows and elements (u64), row starts and columns (i32), values (f64); RHS: values (f64); both as solver_bars writes them.
 * Prints: petsc ksp pc processes steps setup_s solve_s true_residual reason cpu_s
 * with the CPU time of all processes for setting up and solving. */
#include <petscksp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Below the goal, so that the residual that the method keeps may differ a little from the true one. */
#define GOAL 0.9e-10

#define SOLVED 1e-10
#define MOST_RUNS 5

static double cpu_seconds(void)
{
	struct timespec time;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec + 1e-9 * time.tv_nsec;
}

static void take(FILE *file, long at, size_t size, size_t count, void *to)
{
	if (fseek(file, at, SEEK_SET) || fread(to, size, count, file) != count) {
		fprintf(stderr, "the file is cut off\n");
		exit(1);
	}
}

static PetscErrorCode read_matrix(const char *name, PetscInt block, Mat *a)
{
	FILE *file = fopen(name, "rb");
	uint64_t sizes[2];
	if (!file) {
		perror(name);
		exit(1);
	}
	take(file, 0, sizeof *sizes, 2, sizes);
	PetscInt rows = (PetscInt)sizes[0], first = 0, last = 0;
	PetscCall(MatCreate(PETSC_COMM_WORLD, a));
	PetscCall(MatSetSizes(*a, PETSC_DECIDE, PETSC_DECIDE, rows, rows));
	PetscCall(MatSetBlockSize(*a, block));
	PetscCall(MatSetType(*a, MATAIJ));
	PetscLayout by_rows, by_columns;
	PetscCall(MatGetLayouts(*a, &by_rows, &by_columns));
	PetscCall(PetscLayoutSetUp(by_rows));
	PetscCall(PetscLayoutSetUp(by_columns));
	PetscCall(PetscLayoutGetRange(by_rows, &first, &last));
	PetscInt mine = last - first, *starts, *columns;
	PetscScalar *values;
	PetscCall(PetscMalloc1(mine + 1, &starts));
	take(file, 16 + 4 * (long)first, sizeof *starts, (size_t)mine + 1, starts);
	PetscInt begin = starts[0], count = starts[mine] - begin;
	for (PetscInt i = 0; i <= mine; i++) starts[i] -= begin;
	PetscCall(PetscMalloc2(count, &columns, count, &values));
	long after = 16 + 4 * ((long)rows + 1);
	take(file, after + 4 * (long)begin, sizeof *columns, (size_t)count, columns);
	take(file, after + 4 * (long)sizes[1] + 8 * (long)begin, sizeof *values, (size_t)count, values);
	PetscCall(MatSeqAIJSetPreallocationCSR(*a, starts, columns, values));
	PetscCall(MatMPIAIJSetPreallocationCSR(*a, starts, columns, values));
	PetscCall(PetscFree(starts));
	PetscCall(PetscFree2(columns, values));
	fclose(file);
	return 0;
}

static PetscErrorCode read_rhs(const char *name, Vec b)
{
	FILE *file = fopen(name, "rb");
	PetscInt first, last;
	PetscScalar *values;
	if (!file) {
		perror(name);
		exit(1);
	}
	PetscCall(VecGetOwnershipRange(b, &first, &last));
	PetscCall(VecGetArray(b, &values));
	take(file, 8 * (long)first, sizeof *values, (size_t)(last - first), values);
	PetscCall(VecRestoreArray(b, &values));
	fclose(file);
	return 0;
}

/* Tells the matrix about rotations, where coordinates are given. */
static PetscErrorCode read_coordinates(Mat a)
{
	char name[PETSC_MAX_PATH_LEN];
	PetscBool given;
	Vec places;
	MatNullSpace bodies;
	PetscInt rows, all;
	PetscCall(PetscOptionsGetString(NULL, NULL, "-coordinates", name, sizeof name, &given));
	if (!given) return 0;
	PetscCall(MatGetLocalSize(a, &rows, NULL));
	PetscCall(MatGetSize(a, &all, NULL));
	PetscCall(VecCreate(PETSC_COMM_WORLD, &places));
	PetscCall(VecSetBlockSize(places, 3));
	PetscCall(VecSetSizes(places, rows, all));
	PetscCall(VecSetFromOptions(places));
	PetscCall(read_rhs(name, places));
	PetscCall(MatNullSpaceCreateRigidBody(places, &bodies));
	PetscCall(MatSetNearNullSpace(a, bodies));
	PetscCall(MatNullSpaceDestroy(&bodies));
	return VecDestroy(&places);
}

static PetscErrorCode choose(KSP ksp, const char *method, const char *helper)
{
	PC pc;
	int processes;
	PetscCall(KSPSetType(ksp, method));
	PetscCall(KSPGetPC(ksp, &pc));
	MPI_Comm_size(PETSC_COMM_WORLD, &processes);
	int is_factor = !strcmp(helper, PCICC) || !strcmp(helper, PCILU);
	if (is_factor && processes > 1) { /* factors of what each process has: PETSc's own are for one */
		PetscCall(PCSetType(pc, PCBJACOBI));
		PetscCall(PetscOptionsSetValue(NULL, "-sub_pc_type", helper));
	} else {
		PetscCall(PCSetType(pc, helper));
	}
	if (!strcmp(method, KSPGMRES) || !strcmp(method, KSPBCGS)) PetscCall(KSPSetPCSide(ksp, PC_RIGHT));
	if (strcmp(method, KSPMINRES)) PetscCall(KSPSetNormType(ksp, KSP_NORM_UNPRECONDITIONED));
	PetscCall(KSPSetTolerances(ksp, GOAL, 0.0, PETSC_DEFAULT, 10000));
	return KSPSetFromOptions(ksp);
}

/* Solves, and says how long the true residual is beside the right-hand side. */
static PetscErrorCode run(KSP ksp, Mat a, Vec b, Vec x, Vec r, PetscInt *steps, PetscReal *residual)
{
	PetscReal rhs;
	PetscInt of_run;
	PetscCall(KSPSolve(ksp, b, x));
	PetscCall(KSPGetIterationNumber(ksp, &of_run));
	*steps += of_run;
	PetscCall(MatMult(a, x, r));
	PetscCall(VecAYPX(r, -1.0, b));
	PetscCall(VecNorm(r, NORM_2, residual));
	PetscCall(VecNorm(b, NORM_2, &rhs));
	*residual /= rhs;
	return 0;
}

int main(int argc, char **argv)
{
	Mat a;
	Vec x, b, r;
	KSP ksp;
	KSPConvergedReason reason;
	PetscInt steps = 0;
	PetscLogDouble begun, ready, done;
	PetscReal residual;
	double cpu, cpu_of_all;
	int processes;
	if (argc < 5) {
		fprintf(stderr, "usage: petsc_ksp CSR RHS ksp_type pc_type [rows-of-a-block]\n");
		return 2;
	}
	PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
	MPI_Comm_size(PETSC_COMM_WORLD, &processes);
	PetscCall(read_matrix(argv[1], argc > 5 && argv[5][0] != '-' ? atoi(argv[5]) : 1, &a));
	PetscCall(MatCreateVecs(a, &x, &b));
	PetscCall(read_rhs(argv[2], b));
	PetscCall(read_coordinates(a));
	PetscCall(VecDuplicate(b, &r));
	MPI_Barrier(PETSC_COMM_WORLD);
	PetscCall(PetscTime(&begun));
	cpu = cpu_seconds();
	PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
	PetscCall(KSPSetOperators(ksp, a, a));
	PetscCall(choose(ksp, argv[3], argv[4]));
	PetscCall(KSPSetUp(ksp));
	PetscCall(KSPSetUpOnBlocks(ksp));
	PetscCall(PetscTime(&ready));
	PetscCall(run(ksp, a, b, x, r, &steps, &residual));
	PetscCall(KSPGetConvergedReason(ksp, &reason));
	PetscCall(KSPSetInitialGuessNonzero(ksp, PETSC_TRUE));
	for (int more = 1; more < MOST_RUNS && reason > 0 && residual > SOLVED; more++) {
		PetscCall(run(ksp, a, b, x, r, &steps, &residual));
		PetscCall(KSPGetConvergedReason(ksp, &reason));
	}
	PetscCall(PetscTime(&done));
	cpu = cpu_seconds() - cpu;
	MPI_Reduce(&cpu, &cpu_of_all, 1, MPI_DOUBLE, MPI_SUM, 0, PETSC_COMM_WORLD);
	PetscCall(PetscPrintf(PETSC_COMM_WORLD, "petsc %s %s %d %d %.4f %.4f %.3e %s %.4f\n", argv[3], argv[4], processes, (int)steps,
	                      ready - begun, done - ready, residual, KSPConvergedReasons[reason], cpu_of_all));
	return PetscFinalize();
}
