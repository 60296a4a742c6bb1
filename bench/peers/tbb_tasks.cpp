// oneTBB: CPU time of one empty task. Needs libtbb-dev. Usage: tbb_tasks [workers] [tasks].
// The submitting thread is one of the workers. `independent` is a task_group. oneTBB derives no dependencies from data, so the
// other cases derive them here (last writer, readers since) and build a flow graph of continue_nodes: building and one run are
// counted. `replay` is a second run of graph3's graph. oneTBB cannot run a graph while it grows.
#include "peer.h"
#include <memory>
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_group.h>
#include <vector>

namespace {

class Graph {
	using Message = tbb::flow::continue_msg;
	using Node = tbb::flow::continue_node<Message>;
	struct Datum {
		Node *writer = nullptr;
		std::vector<Node *> readers;
	};

	tbb::flow::graph graph_;
	std::vector<std::unique_ptr<Node>> nodes_;
	std::vector<Node *> roots_;
	std::vector<Datum> data_;

public:
	Graph(std::size_t data, long tasks) : data_(data) { nodes_.reserve(static_cast<std::size_t>(tasks)); }

	// A task that reads `reads` data of the list and updates `updated`, in the order of the calls.
	template <int reads> void task(const int (&read)[reads], int updated) { add(read, reads, updated); }
	void task(int updated) { add(nullptr, 0, updated); }

	void run()
	{
		for (Node *root : roots_) root->try_put(Message());
		graph_.wait_for_all();
	}

private:
	void add(const int *read, int reads, int updated)
	{
		nodes_.emplace_back(new Node(graph_, [](const Message &) {}));
		Node *node = nodes_.back().get();
		bool root = true;
		auto after = [&](Node *before) {
			if (before && before != node) {
				tbb::flow::make_edge(*before, *node);
				root = false;
			}
		};
		for (int i = 0; i < reads; i++) {
			Datum &datum = data_[static_cast<std::size_t>(read[i])];
			after(datum.writer);
			datum.readers.push_back(node);
		}
		Datum &datum = data_[static_cast<std::size_t>(updated)];
		if (datum.readers.empty()) after(datum.writer);
		for (Node *reader : datum.readers) after(reader);
		datum.readers.clear();
		datum.writer = node;
		if (root) roots_.push_back(node);
	}
};

void independent(long n)
{
	tbb::task_group group;
	for (long i = 0; i < n; i++) group.run([] {});
	group.wait();
}

void chain(Graph &graph, long n)
{
	for (long i = 0; i < n; i++) graph.task(0);
}

void graph3(Graph &graph, long n)
{
	for (long i = 0; i < n; i++) graph.task({ static_cast<int>(GRAPH3_A(i)), static_cast<int>(GRAPH3_B(i)) }, static_cast<int>(GRAPH3_C(i)));
}

void cholesky(Graph &graph, long)
{
	for (int k = 0; k < CHOL; k++) {
		graph.task(TILE(k, k));
		for (int i = k + 1; i < CHOL; i++) graph.task({ TILE(k, k) }, TILE(i, k));
		for (int j = k + 1; j < CHOL; j++) {
			graph.task({ TILE(j, k) }, TILE(j, j));
			for (int i = j + 1; i < CHOL; i++) graph.task({ TILE(i, k), TILE(j, k) }, TILE(i, j));
		}
	}
}

} // namespace

int main(int argc, char **argv)
{
	int workers;
	long n;
	if (!task_arguments(argc, argv, &workers, &n)) return 2;
	tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(workers));
	const struct {
		const char *name;
		void (*build)(Graph &, long);
		long tasks;
		std::size_t data;
		bool again;
	} cases[] = {
		{ "chain", chain, n, 1, false },
		{ "graph3", graph3, n, GRAPH3_DATA, true },
		{ "cholesky_empty", cholesky, CHOL_TASKS, CHOL_TILES, false },
	};
	for (int print = 0; print < 2; print++) { // once to warm up, once to measure
		stamp from = stamp_now();
		independent(n);
		if (print) report_tasks("tbb", "independent", workers, n, from);
		for (const auto &c : cases) {
			from = stamp_now();
			Graph graph(c.data, c.tasks);
			c.build(graph, n);
			graph.run();
			if (print) report_tasks("tbb", c.name, workers, c.tasks, from);
			from = stamp_now();
			if (c.again) graph.run();
			if (c.again && print) report_tasks("tbb", "replay", workers, c.tasks, from);
		}
	}
	return 0;
}
