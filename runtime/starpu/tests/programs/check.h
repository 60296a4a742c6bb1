/* What the programs of this folder share: a check that names its place, and a start with a number of
 * workers that comes from the environment (STARPU_NCPU). */
#ifndef CHECK_H
#define CHECK_H

#include <math.h>
#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);  \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* The call returns 0. */
#define DONE(call)                                                                                 \
	do {                                                                                       \
		int result_ = (call);                                                              \
		if (result_ != 0) {                                                                \
			fprintf(stderr, "%s:%d: %d from %s\n", __FILE__, __LINE__, result_, #call); \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif
