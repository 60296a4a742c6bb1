#include <starpu.h>
