// Digits that CADNA finds in expressions of a file; one line of JSON for each expression and type.
// Usage: cadna_expressions FILE FIRST:COUNT:STEP, the seeds of CADNA.
//
// A line of the file is an identifier, the exact value, and the expression in postfix notation, with spaces between:
//   12 0.25 1.5 2 * 2.75 - abs
// Numbers are exact in f32; the operations are + - * / of two operands, sqrt and abs of one. Lines that begin with # are comments.
//
// A line of the output has "id", "type", "exact" (from the file), "plain" (the value in plain floating point), "digits" and "zero" (lists,
// one entry for each seed), "mean" (of the first seed) and "instabilities" (least and largest count over the seeds, by category).
#include "cadna_peer.h"
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

namespace {

using std::abs;
using std::sqrt;

struct Expression {
	std::string id, exact;
	std::vector<std::string> words;
};

[[noreturn]] void refuse(const Expression &expression, const std::string &why)
{
	std::fprintf(stderr, "expression %s: %s\n", expression.id.c_str(), why.c_str());
	std::exit(1);
}

bool is_binary(const std::string &word) { return word == "+" || word == "-" || word == "*" || word == "/"; }

// T: a stochastic type or that of its samples; R: that of its samples.
template <class T, class R> T value(const Expression &expression)
{
	std::vector<T> stack;
	for (const std::string &word : expression.words) {
		const std::size_t operands = is_binary(word) ? 2 : word == "sqrt" || word == "abs" ? 1 : 0;
		if (stack.size() < operands) refuse(expression, "no operands for " + word);
		if (operands == 0) {
			stack.push_back(T(peer::nearest<R>(word.c_str())));
			continue;
		}
		const T last = stack.back();
		stack.pop_back();
		if (word == "sqrt") {
			stack.push_back(sqrt(last));
			continue;
		}
		if (word == "abs") {
			stack.push_back(abs(last));
			continue;
		}
		T &first = stack.back();
		if (word == "+") first = first + last;
		else if (word == "-") first = first - last;
		else if (word == "*") first = first * last;
		else first = first / last;
	}
	if (stack.size() != 1) refuse(expression, "it leaves " + std::to_string(stack.size()) + " values");
	return stack.back();
}

template <class S> void report(const Expression &expression, const peer::Seeds &seeds)
{
	using R = typename peer::Samples<S>::Real;
	std::string digits, zeros, mean, counts;
	unsigned long least[peer::CATEGORIES], most[peer::CATEGORIES] = {};
	std::fill(least, least + peer::CATEGORIES, std::numeric_limits<unsigned long>::max());
	for (unsigned which = 0; which < seeds.count; which++) {
		peer::Session session(seeds.seed(which));
		const S found = value<S, R>(expression);
		for (int i = 0; i < peer::CATEGORIES; i++) {
			least[i] = std::min(least[i], peer::count(i));
			most[i] = std::max(most[i], peer::count(i));
		}
		peer::append(digits, std::to_string(found.nb_significant_digit()));
		peer::append(zeros, found.computedzero() ? "true" : "false");
		if (mean.empty()) mean = peer::number(peer::mean(found.x, found.y, found.z));
	}
	for (int i = 0; i < peer::CATEGORIES; i++)
		if (most[i])
			peer::append(counts, std::string("\"") + peer::category(i) + "\": [" + std::to_string(least[i]) + ", " +
						     std::to_string(most[i]) + "]");
	std::printf("{\"id\": \"%s\", \"type\": \"%s\", \"exact\": %s, \"plain\": %s, \"digits\": [%s], \"zero\": [%s], \"mean\": %s, "
		    "\"instabilities\": {%s}}\n",
		    expression.id.c_str(), peer::Samples<S>::name(), expression.exact.c_str(), peer::number(value<R, R>(expression)).c_str(),
		    digits.c_str(), zeros.c_str(), mean.c_str(), counts.c_str());
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 3) {
		std::fprintf(stderr, "usage: %s FILE FIRST:COUNT:STEP\n", argv[0]);
		return 2;
	}
	const peer::Seeds seeds(argv[2]);
	std::ifstream file(argv[1]);
	if (!file) {
		std::perror(argv[1]);
		return 1;
	}
	std::string line;
	while (std::getline(file, line)) {
		if (line.empty() || line[0] == '#') continue;
		std::istringstream words(line);
		Expression expression;
		words >> expression.id >> expression.exact;
		for (std::string word; words >> word;) expression.words.push_back(word);
		report<float_st>(expression, seeds);
		report<double_st>(expression, seeds);
	}
}
