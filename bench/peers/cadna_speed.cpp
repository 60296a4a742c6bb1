// Seconds of two kernels in plain double and with CADNA, in turn, the best of ROUNDS; one line of JSON for each.
// Usage: cadna_speed [rounds=5] [n=200]. Compile with -O2 -fno-tree-vectorize: the plain loops are to stay scalar.
//
// product: C = A B of order n, loops over row, column, inner index, one accumulator. A(i, j) = B(j, i) = (1 + (37 i + 11 j) mod 101) / 102.
// csr: y = A x with 100000 rows of 27 entries, a grid of 50 x 40 x 50 that is closed modulo the number of rows; entry k of row i is
// 1 / (1 + k + i mod 7), x(j) = 1 + (j mod 7) / 10. The matrix is of double_st, or of double ("double matrix").
// "digits" are the least and the most of the result.
#include "cadna_peer.h"
#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace {

template <class T> __attribute__((noinline)) void product(const std::vector<T> &a, const std::vector<T> &b, std::vector<T> &c, int n)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) {
			T sum = T(0.0);
			for (int k = 0; k < n; k++) sum = sum + a[i * n + k] * b[k * n + j];
			c[i * n + j] = sum;
		}
}

const int ROWS = 100000, PER_ROW = 27;

template <class M, class T>
__attribute__((noinline)) void csr(const std::vector<int> &starts, const std::vector<int> &columns, const std::vector<M> &values,
				   const std::vector<T> &x, std::vector<T> &y)
{
	for (int i = 0; i < ROWS; i++) {
		T sum = T(0.0);
		for (int k = starts[i]; k < starts[i + 1]; k++) sum = sum + values[k] * x[columns[k]];
		y[i] = sum;
	}
}

struct Measured {
	const char *kernel, *type, *detection;
	std::function<void()> run;
	std::function<std::string()> digits;
	double best;
};

template <class T> std::vector<T> converted(const std::vector<double> &from) { return std::vector<T>(from.begin(), from.end()); }

std::string digits_of(const std::vector<double_st> &values)
{
	int least = 15, most = 0;
	for (const double_st &value : values) {
		const int found = value.nb_significant_digit();
		least = std::min(least, found);
		most = std::max(most, found);
	}
	return "[" + std::to_string(least) + ", " + std::to_string(most) + "]";
}

double seconds(const std::function<void()> &run)
{
	const auto from = std::chrono::steady_clock::now();
	run();
	return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

} // namespace

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? std::atoi(argv[1]) : 5, n = argc > 2 ? std::atoi(argv[2]) : 200;
	if (argc > 3 || rounds < 1 || n < 1 || n > 5000) {
		std::fprintf(stderr, "usage: %s [rounds=5] [n=200]\n", argv[0]);
		return 2;
	}
	std::vector<double> a(n * n), b(n * n), c(n * n);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) a[i * n + j] = b[j * n + i] = (1 + (37 * i + 11 * j) % 101) / 102.0;
	std::vector<int> starts(ROWS + 1), columns;
	std::vector<double> values, x(ROWS), y(ROWS);
	for (int i = 0; i < ROWS; i++) {
		int row[PER_ROW], count = 0;
		for (int dz = -1; dz <= 1; dz++)
			for (int dy = -1; dy <= 1; dy++)
				for (int dx = -1; dx <= 1; dx++) row[count++] = (i + dx + 50 * dy + 2000 * dz + ROWS) % ROWS;
		std::sort(row, row + PER_ROW);
		columns.insert(columns.end(), row, row + PER_ROW);
		for (int k = 0; k < PER_ROW; k++) values.push_back(1.0 / (1 + k + i % 7));
		x[i] = 1 + i % 7 / 10.0;
		starts[i + 1] = static_cast<int>(columns.size());
	}
	auto as = converted<double_st>(a), bs = converted<double_st>(b), cs = converted<double_st>(c);
	auto values_s = converted<double_st>(values), xs = converted<double_st>(x), ys = converted<double_st>(y);

	const auto no_digits = [] { return std::string("null"); };
	const auto of_c = [&] { return digits_of(cs); };
	const auto of_y = [&] { return digits_of(ys); };
	std::vector<Measured> all;
	const auto add = [&](const char *kernel, const char *type, const std::function<void()> &run, const std::function<std::string()> &digits) {
		for (const char *detection : {"on", "off"}) all.push_back({kernel, type, detection, run, digits, 1e300});
	};
	all.push_back({"product", "double", nullptr, [&] { product(a, b, c, n); }, no_digits, 1e300});
	add("product", "double_st", [&] { product(as, bs, cs, n); }, of_c);
	all.push_back({"csr", "double", nullptr, [&] { csr(starts, columns, values, x, y); }, no_digits, 1e300});
	add("csr", "double_st", [&] { csr(starts, columns, values_s, xs, ys); }, of_y);
	add("csr", "double_st, double matrix", [&] { csr(starts, columns, values, xs, ys); }, of_y);

	std::vector<std::string> digits(all.size());
	{
		peer::Session session(51);
		for (int round = 0; round < rounds; round++)
			for (std::size_t i = 0; i < all.size(); i++) {
				if (all[i].detection && all[i].detection[1] == 'n') cadna_enable(CADNA_ALL);
				else cadna_disable(CADNA_ALL);
				all[i].best = std::min(all[i].best, seconds(all[i].run));
				digits[i] = all[i].digits();
			}
	}
	for (std::size_t i = 0; i < all.size(); i++) {
		const Measured &one = all[i];
		const bool dense = one.kernel[0] == 'p';
		std::printf("{\"kernel\": \"%s\", \"n\": %d, \"type\": \"%s\", \"detection\": %s, \"seconds\": %.6f, \"rounds\": %d, "
			    "\"operations\": %.0f, \"digits\": %s}\n",
			    one.kernel, dense ? n : ROWS, one.type,
			    one.detection ? (one.detection[1] == 'n' ? "true" : "false") : "null", one.best, rounds,
			    dense ? 2.0 * n * n * n : 2.0 * ROWS * PER_ROW, digits[i].c_str());
	}
}
