/* What the peers of product_bars share: their matrix, and how they are asked for products.
 *
 * A peer is told a file on its command line: rows and elements (u64), row starts and columns (i32), values (f64), as product_bars writes it. It
 * prints `ready` and the sum of |y_i| of a product with x_j = 1 + j mod 7. For each line that it then reads it makes one product more and prints how many
 * seconds that took on the wall and, a space behind, of the (first) process' CPU time; in between it sleeps. It ends with its input. */
#ifndef SPMV_H
#define SPMV_H
#include "peer.h"
#include <stdint.h>

struct rows {
	uint64_t rows, elements; /* of the matrix */
	int32_t *starts, *columns; /* of the rows here, from 0 on */
	double *values;
};

static inline void take(FILE *file, uint64_t at, size_t size, size_t count, void *to)
{
	if (fseek(file, (long)at, SEEK_SET) || fread(to, size, count, file) != count) {
		fprintf(stderr, "the file of the matrix is cut off\n");
		exit(1);
	}
}

static inline void *room(size_t size, size_t count)
{
	void *found = malloc(size * count + 1);
	if (!found) {
		fprintf(stderr, "no memory\n");
		exit(1);
	}
	return found;
}

static inline FILE *open_rows(const char *name, struct rows *to)
{
	uint64_t sizes[2];
	FILE *file = fopen(name, "rb");
	if (!file) {
		perror(name);
		exit(1);
	}
	take(file, 0, sizeof *sizes, 2, sizes);
	to->rows = sizes[0];
	to->elements = sizes[1];
	return file;
}

/* The rows from `first` on, before `last`. */
static inline void read_rows(FILE *file, uint64_t first, uint64_t last, struct rows *to)
{
	uint64_t mine = last - first, after = 16 + 4 * (to->rows + 1);
	to->starts = room(sizeof *to->starts, mine + 1);
	take(file, 16 + 4 * first, sizeof *to->starts, mine + 1, to->starts);
	uint64_t begin = (uint64_t)to->starts[0], count = (uint64_t)to->starts[mine] - begin;
	for (uint64_t i = 0; i <= mine; i++) to->starts[i] -= (int32_t)begin;
	to->columns = room(sizeof *to->columns, count);
	to->values = room(sizeof *to->values, count);
	take(file, after + 4 * begin, sizeof *to->columns, count, to->columns);
	take(file, after + 4 * to->elements + 8 * begin, sizeof *to->values, count, to->values);
}

/* Element j of the x of all products. */
static inline double x_at(uint64_t j)
{
	return 1.0 + (double)(j % 7);
}

/* Waits until there is a product to be made; 0 at the end. */
static inline int asked(void)
{
	int c;
	do c = getchar();
	while (c != '\n' && c != EOF);
	return c != EOF;
}

static inline void report_seconds(struct stamp from)
{
	struct stamp to = stamp_now();
	printf("%.9f %.9f\n", to.wall - from.wall, to.cpu - from.cpu);
	fflush(stdout);
}
#endif
