// The classical programs of discrete stochastic arithmetic with CADNA's types; one line of JSON for each program, type and seed.
// Usage: cadna_programs FIRST:COUNT:STEP [PROGRAM...], the seeds of CADNA, or cadna_programs list.
//
// A line has "program", "type" (f32, f64, mixed), "seed", "results" and "instabilities" (seven counts). A result has "name" and either
// "integer" or "digits", "zero" (is it a computed zero), "mean", "samples" and "text", CADNA's printed form.
// Operations are in the order of the formulas here, from left to right. Literals are rounded to nearest and then exact.
#include "cadna_peer.h"
#include <algorithm>
#include <vector>

namespace {

using peer::exact;

class Results {
	std::string list_;

public:
	// By value: to count or print the digits of a variable changes which instabilities CADNA counts later.
	template <class S> void add(const std::string &name, S value)
	{
		char text[64];
		const int digits = value.nb_significant_digit();
		const bool zero = value.computedzero();
		value.str(text);
		const double x = value.getx(), y = value.gety(), z = value.getz();
		const char *printed = text[0] == ' ' ? text + 1 : text;
		peer::append(list_, "{\"name\": \"" + name + "\", \"digits\": " + std::to_string(digits) + ", \"zero\": " +
					    (zero ? "true" : "false") + ", \"mean\": " + peer::number(peer::mean(x, y, z)) +
					    ", \"samples\": [" + peer::number(x) + ", " + peer::number(y) + ", " + peer::number(z) +
					    "], \"text\": \"" + printed + "\"}");
	}
	void add_integer(const std::string &name, long long value)
	{
		peer::append(list_, "{\"name\": \"" + name + "\", \"integer\": " + std::to_string(value) + "}");
	}
	const std::string &list() const { return list_; }
};

std::string numbered(const char *name, int index) { return name + ("(" + std::to_string(index) + ")"); }

// --- Polynomials -----------------------------------------------------------------------------------------------------------

// 333.75 b^6 + a^2 (11 a^2 b^2 - b^6 - 121 b^4 - 2) + 5.5 b^8 + a / (2 b).
template <class S> void rump(Results &out)
{
	const S a = exact<S>("77617"), b = exact<S>("33096");
	out.add("p", exact<S>("333.75") * b * b * b * b * b * b +
			     a * a * (exact<S>("11") * a * a * b * b - b * b * b * b * b * b - exact<S>("121") * b * b * b * b - exact<S>("2")) +
			     exact<S>("5.5") * b * b * b * b * b * b * b * b + a / (exact<S>("2") * b));
}

template <class S> void rump_powers(Results &out)
{
	const S a = exact<S>("77617"), b = exact<S>("33096");
	const S a2 = a * a, b2 = b * b, b4 = b2 * b2, b6 = b4 * b2, b8 = b4 * b4;
	out.add("p", exact<S>("333.75") * b6 + a2 * (exact<S>("11") * a2 * b2 - b6 - exact<S>("121") * b4 - exact<S>("2")) +
			     exact<S>("5.5") * b8 + a / (exact<S>("2") * b));
}

template <class S> S quartic_at(const S &x, const S &y)
{
	return exact<S>("9") * x * x * x * x - y * y * y * y + exact<S>("2") * y * y;
}
// 9 x^4 - y^4 + 2 y^2 at (10864, 18817) and at (1/3, 2/3).
template <class S> void quartic(Results &out)
{
	out.add("p(10864, 18817)", quartic_at(exact<S>("10864"), exact<S>("18817")));
	out.add("p(1/3, 2/3)", quartic_at(exact<S>("1") / exact<S>("3"), exact<S>("2") / exact<S>("3")));
}

// 0.3 x^2 - 2.1 x + 3.675, double root 3.5.
template <class S> void quadratic(Results &out)
{
	const S a = exact<S>("0.3"), b = exact<S>("-2.1"), c = exact<S>("3.675");
	const S d = b * b - exact<S>("4") * a * c;
	out.add("d", d);
	out.add_integer("d == 0", d == exact<S>("0"));
	out.add("root", -b / (exact<S>("2") * a));
}

template <class S> void quadratic_monic(Results &out)
{
	const S a = exact<S>("0.3"), b = exact<S>("-2.1") / a, c = exact<S>("3.675") / a;
	const S d = b * b - exact<S>("4") * c;
	out.add("d", d);
	out.add_integer("d == 0", d == exact<S>("0"));
	out.add("root", -b * exact<S>("0.5"));
}

// Newton's method for 1.47 x^3 + 1.19 x^2 - 1.83 x + 0.45 from 0.5; 3/7 is a double root.
template <class S> S cubic_at(const S &x)
{
	return exact<S>("1.47") * x * x * x + exact<S>("1.19") * x * x - exact<S>("1.83") * x + exact<S>("0.45");
}
template <class S> S newton_step(const S &x)
{
	return x - cubic_at(x) / (exact<S>("4.41") * x * x + exact<S>("2.38") * x - exact<S>("1.83"));
}
template <class S> void newton(Results &out)
{
	S x = exact<S>("0.5");
	int step = 1;
	for (; step <= 100; step++) {
		const S before = x;
		x = newton_step(before);
		if (x == before) break;
	}
	out.add_integer("steps", step);
	out.add("x", x);
	out.add("f", cubic_at(x));
}
template <class S> void newton_tolerance(Results &out)
{
	S x = exact<S>("0.5");
	int step = 1;
	for (; step <= 100; step++) {
		const S before = x;
		x = newton_step(before);
		if (fabs(before - x) <= exact<S>("1e-12")) break;
	}
	out.add_integer("steps", step);
	out.add("x", x);
}

// --- Recurrences and sums --------------------------------------------------------------------------------------------------

// U(n + 1) = 111 - 1130 / U(n) + 3000 / (U(n - 1) U(n)), U(1) = 5.5; U(2) = 61/11 rounded to nearest, or as a stochastic quotient.
template <class S> void muller_from(Results &out, const S &second)
{
	S before = exact<S>("5.5"), u = second;
	for (int n = 3; n <= 30; n++) {
		const S next = exact<S>("111") - exact<S>("1130") / u + exact<S>("3000") / (before * u);
		before = u;
		u = next;
		out.add(numbered("U", n), u);
	}
}

template <class S> void muller(Results &out) { muller_from(out, exact<S>("5.54545454545454545454545454545454545")); }
template <class S> void muller_quotient(Results &out) { muller_from(out, exact<S>("61") / exact<S>("11")); }

template <class S> void logistic(Results &out, const char *factor, const char *start, int every, int last)
{
	S x = exact<S>(start);
	for (int n = 1; n <= last; n++) {
		x = exact<S>(factor) * x * (exact<S>("1") - x);
		if (n % every == 0) out.add(numbered("x", n), x);
	}
}
template <class S> void logistic_slow(Results &out) { logistic<S>(out, "3.6", "0.6", 20, 120); }
template <class S> void logistic_chaotic(Results &out) { logistic<S>(out, "4", "0.3", 10, 80); }

template <class S> void harmonic(Results &out, int n)
{
	S up = exact<S>("0"), down = exact<S>("0");
	for (int i = 1; i <= n; i++) up = up + exact<S>("1") / S(static_cast<typename peer::Samples<S>::Real>(i));
	for (int i = n; i >= 1; i--) down = down + exact<S>("1") / S(static_cast<typename peer::Samples<S>::Real>(i));
	out.add("upwards", up);
	out.add("downwards", down);
	out.add("difference", up - down);
}
template <class S> void harmonic_short(Results &out) { harmonic<S>(out, 100000); }
template <class S> void harmonic_long(Results &out) { harmonic<S>(out, 1000000); }

template <class S> void dot(Results &out)
{
	const char *const x[] = {"1e8", "1", "-1e8", "0.1"}, *const y[] = {"1.1", "1", "1.1", "3"};
	S sum = exact<S>("0");
	for (int i = 0; i < 4; i++) {
		sum = sum + exact<S>(x[i]) * exact<S>(y[i]);
		out.add(numbered("sum", i + 1), sum);
	}
	out.add("3 * 0.1 - 0.3", exact<S>("3") * exact<S>("0.1") - exact<S>("0.3"));
	out.add("0.1 + 0.2 - 0.3", exact<S>("0.1") + exact<S>("0.2") - exact<S>("0.3"));
}

// Square roots of 2, then as many squares: 45 in f64, 20 in f32.
template <class S> void roots(Results &out)
{
	const int times = sizeof(typename peer::Samples<S>::Real) == 8 ? 45 : 20;
	S x = exact<S>("2");
	for (int i = 0; i < times; i++) x = sqrt(x);
	out.add("roots", x);
	for (int i = 0; i < times; i++) x = x * x;
	out.add("squares", x);
}

template <class S> void squares(Results &out)
{
	const S a = exact<S>("1.00000000186264514923095703125"); // 1 + 2^-29
	const S close = exact<S>("1.000000000931322574615478515625"), one = exact<S>("1"); // 1 + 2^-30, 1
	out.add("a a - b b", a * a - close * close);
	out.add("(a - b) (a + b)", (a - close) * (a + close));
	out.add("a a - 1", a * a - one * one);
	out.add("(a - 1) (a + 1)", (a - one) * (a + one));
}

// --- Systems ---------------------------------------------------------------------------------------------------------------

// Determinant of the Hilbert matrix by elimination without pivoting: order 11 in f64, 7 in f32.
template <class S> void hilbert(Results &out)
{
	const int n = sizeof(typename peer::Samples<S>::Real) == 8 ? 11 : 7;
	std::vector<std::vector<S>> a(n, std::vector<S>(n));
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) a[i][j] = exact<S>("1") / S(static_cast<typename peer::Samples<S>::Real>(i + j + 1));
	S determinant = exact<S>("1");
	for (int i = 0; i < n; i++) {
		out.add(numbered("pivot", i + 1), a[i][i]);
		determinant = determinant * a[i][i];
		for (int j = i + 1; j < n; j++) {
			const S factor = a[j][i] / a[i][i];
			for (int k = i + 1; k < n; k++) a[j][k] = a[j][k] - factor * a[i][k];
		}
	}
	out.add("determinant", determinant);
}

// The 4 x 4 system of the textbooks, solution 1, 1, 1e-8, 1. The search for a pivot begins with the diagonal, or with 0. The row of the
// pivot is multiplied by 1 / pivot, or the rows below by entry / pivot.
template <class S> void system_of_four(Results &out, bool from_zero, bool scaled)
{
	const char *const rows[4][5] = {{"21", "130", "0", "2.1", "153.1"},
					{"13", "80", "4.74e8", "752", "849.74"},
					{"0", "-0.4", "3.9816e8", "4.2", "7.7816"},
					{"0", "0", "1.7", "9e-9", "2.6e-8"}};
	S a[4][5];
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 5; j++) a[i][j] = exact<S>(rows[i][j]);
	for (int i = 0; i < 3; i++) {
		int pivot = i;
		S largest = from_zero ? exact<S>("0") : S(fabs(a[i][i]));
		for (int j = from_zero ? i : i + 1; j < 4; j++)
			if (fabs(a[j][i]) > largest) {
				largest = fabs(a[j][i]);
				pivot = j;
			}
		if (pivot != i)
			for (int j = 0; j < 5; j++) std::swap(a[i][j], a[pivot][j]);
		out.add(numbered("pivot", i + 1), a[i][i]);
		if (scaled) {
			const S inverse = exact<S>("1") / a[i][i];
			for (int j = i + 1; j < 5; j++) a[i][j] = a[i][j] * inverse;
		}
		for (int j = i + 1; j < 4; j++) {
			const S factor = scaled ? a[j][i] : S(a[j][i] / a[i][i]);
			for (int k = i + 1; k < 5; k++) a[j][k] = a[j][k] - factor * a[i][k];
		}
	}
	out.add("pivot(4)", a[3][3]);
	S x[4];
	for (int i = 3; i >= 0; i--) {
		S sum = a[i][4];
		for (int j = i + 1; j < 4; j++) sum = sum - a[i][j] * x[j];
		x[i] = scaled && i < 3 ? sum : S(sum / a[i][i]);
	}
	for (int i = 0; i < 4; i++) out.add(numbered("x", i + 1), x[i]);
}
template <class S> void system_diagonal(Results &out) { system_of_four<S>(out, false, false); }
template <class S> void system_diagonal_scaled(Results &out) { system_of_four<S>(out, false, true); }
template <class S> void system_zero(Results &out) { system_of_four<S>(out, true, false); }
template <class S> void system_zero_scaled(Results &out) { system_of_four<S>(out, true, true); }

// Jacobi's method, 20 unknowns: 25.5 on the diagonal, 1 / (1 + i + j) elsewhere (i, j from 0), until the largest step is a computed zero.
template <class S> void jacobi(Results &out)
{
	using R = typename peer::Samples<S>::Real;
	const int n = 20;
	std::vector<std::vector<S>> a(n, std::vector<S>(n));
	std::vector<S> b(n), x(n, exact<S>("0")), next(n);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) a[i][j] = i == j ? exact<S>("25.5") : exact<S>("1") / S(static_cast<R>(1 + i + j));
	for (int i = 0; i < n; i++) {
		b[i] = exact<S>("0");
		for (int j = 0; j < n; j++) b[i] = b[i] + a[i][j] * S(static_cast<R>(37 * j % 11) + static_cast<R>(0.125));
	}
	int iteration = 1;
	for (; iteration <= 100; iteration++) {
		S largest = exact<S>("0");
		for (int i = 0; i < n; i++) {
			S sum = b[i];
			for (int j = 0; j < n; j++)
				if (j != i) sum = sum - a[i][j] * x[j];
			next[i] = sum / a[i][i];
			const S step = fabs(next[i] - x[i]);
			if (step > largest) largest = step;
		}
		x = next;
		if (largest == exact<S>("0")) break;
	}
	out.add_integer("iterations", iteration);
	for (int i = 0; i < n; i++) out.add(numbered("x", i), x[i]);
}

// --- Comparisons, conversions, functions -----------------------------------------------------------------------------------

template <class S> void compared(Results &out, const char *pair, const S &a, const S &b)
{
	const std::string names = pair;
	out.add_integer(names + " ==", a == b);
	out.add_integer(names + " !=", a != b);
	out.add_integer(names + " >", a > b);
	out.add_integer(names + " <", a < b);
	out.add_integer(names + " >=", a >= b);
	out.add_integer(names + " <=", a <= b);
}
template <class S> void comparisons(Results &out)
{
	compared<S>(out, "z, 0", exact<S>("0.1") + exact<S>("0.2") - exact<S>("0.3"), exact<S>("0"));
	compared<S>(out, "y, 1", exact<S>("1") / exact<S>("3") * exact<S>("3"), exact<S>("1"));
}

template <class S> void extremes(Results &out)
{
	const S a = exact<S>("0.1") + exact<S>("0.2"), b = exact<S>("0.3");
	out.add("fmax", S(fmax(a, b)));
	out.add("fmin", S(fmin(a, b)));
	out.add("std::max", std::max<S>(a, b));
	out.add("std::min", std::min<S>(a, b));
	out.add("fabs(a - b)", S(fabs(a - b)));
}

template <class S> void conversions(Results &out)
{
	const S three = exact<S>("0.1") * exact<S>("10") * exact<S>("3");
	const S sum = exact<S>("2") + exact<S>("1") / exact<S>("3") * exact<S>("3");
	const S noise = (exact<S>("0.1") + exact<S>("0.2") - exact<S>("0.3")) * exact<S>("1e17");
	out.add_integer("int(three)", static_cast<int>(S(three)));
	out.add_integer("int(sum)", static_cast<int>(S(sum)));
	out.add_integer("int(noise)", static_cast<int>(S(noise)));
	out.add("three", three);
	out.add("sum", sum);
	out.add("noise", noise);
	out.add("floor(three)", S(floor(three)));
	out.add("floor(sum)", S(floor(sum)));
	out.add("floor(noise)", S(floor(noise)));
}

template <class S> void absorption(Results &out)
{
	const S one = exact<S>("1"), big = exact<S>("1e16");
	out.add("1e16 + 1 - 1e16", big + one - big);
	const S x = one / exact<S>("3"), copy = x, again = one / exact<S>("3");
	out.add("x - x", x - x);
	out.add("x - copy", x - copy);
	out.add("x - again", x - again);
	out.add("x / x", x / x);
}

template <class S> void chance(Results &out)
{
	out.add("100 (1/3) - 33.3333", exact<S>("100") * (exact<S>("1") / exact<S>("3")) - exact<S>("33.3333"));
}

template <class S> void functions(Results &out)
{
	const S one = exact<S>("1"), two = exact<S>("2"), x = one / exact<S>("3");
	const S z = exact<S>("0.1") + exact<S>("0.2") - exact<S>("0.3");
	out.add("exp(log(x)) - x", exp(log(x)) - x);
	out.add("pow(x, 2) - x x", pow(x, two) - x * x);
	out.add("sin(314159265358979 / 1e14)", sin(exact<S>("314159265358979") / exact<S>("1e14")));
	out.add("log(1 + z)", log(one + z));
	out.add("1 / z", one / z);
	out.add("z z", z * z);
	out.add("sqrt(z)", sqrt(z));
	out.add("pow(z, 2)", pow(z, two));
	out.add("pow(2, z)", pow(two, z));
}

// CADNA computes functions and square roots to nearest: those of exact arguments show all digits.
template <class S> void functions_exact(Results &out)
{
	const S one = exact<S>("1"), two = exact<S>("2"), x = one / exact<S>("3");
	out.add("sin(3.14159265358979)", sin(exact<S>("3.14159265358979")));
	out.add("sqrt(2) - 1.414213562373095", sqrt(two) - exact<S>("1.414213562373095"));
	out.add("sqrt(2) sqrt(2) - 2", sqrt(two) * sqrt(two) - two);
	out.add("sqrt(x) sqrt(x) - x", sqrt(x) * sqrt(x) - x);
	out.add("exp(1) - 2.718281828459045", exp(one) - exact<S>("2.718281828459045"));
}

template <class S> void constants(Results &out)
{
	for (const char *text : {"0", "1", "-1", "123456.789", "0.1", "1e-30", "1e30", "1e-300", "1e300"}) {
		const S value = exact<S>(text);
		if (std::isfinite(value.x) && (value.x != 0 || text[0] == '0')) out.add(text, value);
	}
	out.add("1/3", exact<S>("1") / exact<S>("3"));
	out.add("1/0", exact<S>("1") / exact<S>("0"));
	out.add("0/0", exact<S>("0") / exact<S>("0"));
}

void mixed(Results &out)
{
	const double_st third = exact<double_st>("1") / exact<double_st>("3");
	const float_st narrow = exact<float_st>("1") / exact<float_st>("3");
	out.add("1/3 (f64) - 1/3 (f32)", third - narrow);
	out.add("1/3 (f64) * 1/3 (f32)", third * narrow);
	out.add("f64 of 1/3 (f32)", double_st(narrow));
	float_st assigned;
	assigned = third;
	out.add("f32 of 1/3 (f64)", assigned);
	out.add("0.1f - 0.1", double_st(static_cast<double>(peer::nearest<float>("0.1"))) - exact<double_st>("0.1"));
	out.add("3 (1/3) - 1 (f32)", exact<float_st>("3") * narrow - exact<float_st>("1"));
	double_st from_float;
	from_float = peer::nearest<float>("0.1");
	out.add("f64 assigned 0.1f", from_float);
}

// --- The list --------------------------------------------------------------------------------------------------------------

struct Program {
	const char *name, *type;
	void (*run)(Results &);
};
#define BOTH(name) {#name, "f32", name<float_st>}, {#name, "f64", name<double_st>}
const Program programs[] = {
	BOTH(rump), BOTH(rump_powers), BOTH(quartic), BOTH(quadratic), BOTH(quadratic_monic), BOTH(muller), BOTH(muller_quotient),
	BOTH(hilbert),
	BOTH(system_diagonal), BOTH(system_diagonal_scaled), BOTH(system_zero), BOTH(system_zero_scaled),
	BOTH(newton), BOTH(newton_tolerance), BOTH(jacobi), BOTH(harmonic_short),
	BOTH(harmonic_long), BOTH(dot), BOTH(roots), BOTH(comparisons), BOTH(extremes), BOTH(conversions), BOTH(absorption),
	{"mixed", "mixed", mixed}, BOTH(functions), BOTH(functions_exact), BOTH(constants), BOTH(chance), BOTH(logistic_slow), BOTH(logistic_chaotic),
	BOTH(squares),
};
#undef BOTH

void run(const Program &program, unsigned seed)
{
	Results results;
	std::string counts;
	{
		peer::Session session(seed);
		program.run(results);
	}
	for (int i = 0; i < peer::CATEGORIES; i++)
		peer::append(counts, std::string("\"") + peer::category(i) + "\": " + std::to_string(peer::count(i)));
	std::printf("{\"program\": \"%s\", \"type\": \"%s\", \"seed\": %u, \"results\": [%s], \"instabilities\": {%s}}\n", program.name,
		    program.type, seed, results.list().c_str(), counts.c_str());
}

} // namespace

int main(int argc, char **argv)
{
	if (argc == 2 && !std::strcmp(argv[1], "list")) {
		for (const Program &program : programs) std::printf("%s %s\n", program.name, program.type);
		return 0;
	}
	if (argc < 2) {
		std::fprintf(stderr, "usage: %s FIRST:COUNT:STEP [PROGRAM...], or %s list\n", argv[0], argv[0]);
		return 2;
	}
	const peer::Seeds seeds(argv[1]);
	for (int i = 2; i < argc; i++)
		if (std::none_of(std::begin(programs), std::end(programs), [&](const Program &p) { return !std::strcmp(p.name, argv[i]); })) {
			std::fprintf(stderr, "%s is no program here: %s list\n", argv[i], argv[0]);
			return 2;
		}
	for (unsigned which = 0; which < seeds.count; which++)
		for (const Program &program : programs)
			if (argc == 2 || std::any_of(argv + 2, argv + argc, [&](const char *name) { return !std::strcmp(name, program.name); }))
				run(program, seeds.seed(which));
}
