// C++: a lambda with what it has captured goes through cl_arg, and the library frees it.
#include "check.h"

#include <functional>
#include <memory>
#include <numeric>
#include <vector>

namespace {

using Body = std::function<void(double *, std::size_t)>;

void call(void *buffers[], void *cl_arg)
{
	Body *body = *static_cast<Body **>(cl_arg);
	(*body)(reinterpret_cast<double *>(STARPU_VECTOR_GET_PTR(buffers[0])), STARPU_VECTOR_GET_NX(buffers[0]));
}

void forget(void *arg) { delete static_cast<Body *>(arg); }

starpu_codelet make_codelet()
{
	starpu_codelet codelet;
	starpu_codelet_init(&codelet);
	codelet.cpu_funcs[0] = call;
	codelet.nbuffers = 1;
	codelet.modes[0] = STARPU_RW;
	codelet.name = "lambda";
	return codelet;
}

starpu_codelet codelet = make_codelet();

void run(starpu_data_handle_t handle, Body function)
{
	Body *body = new Body(std::move(function));
	Body **argument = static_cast<Body **>(std::malloc(sizeof(Body *)));
	*argument = body;
	DONE(starpu_task_insert(&codelet, STARPU_RW, handle, STARPU_CL_ARGS, argument, sizeof *argument,
				STARPU_CALLBACK_WITH_ARG_NFREE, forget, body, 0));
}

} // namespace

int main()
{
	std::vector<double> values(100);
	auto kept = std::make_shared<int>(0);
	starpu_data_handle_t handle;

	std::iota(values.begin(), values.end(), 0.0);
	DONE(starpu_init(nullptr));
	starpu_vector_data_register(&handle, STARPU_MAIN_RAM, reinterpret_cast<uintptr_t>(values.data()), values.size(),
				    sizeof(double));
	for (int factor : {2, 3}) {
		run(handle, [factor, kept, first = values.data()](double *x, std::size_t n) {
			CHECK(x == first);
			for (std::size_t i = 0; i < n; i++)
				x[i] *= factor;
			*kept += factor;
		});
	}
	DONE(starpu_task_wait_for_all());
	CHECK(*kept == 5 && kept.use_count() == 1);
	starpu_data_unregister(handle);
	starpu_shutdown();
	for (std::size_t i = 0; i < values.size(); i++)
		CHECK(values[i] == 6.0 * static_cast<double>(i));
	return 0;
}
