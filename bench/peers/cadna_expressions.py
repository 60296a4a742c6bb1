"""Random expressions for cadna_expressions.cpp, many of which lose digits:

python3 bench/peers/cadna_expressions.py [count=1000] [seed=1] [share of square roots=0.02] > FILE

A line is an identifier, the exact value and the expression in postfix notation. Trees are 2 to 12 deep.
Their leaves are decimal numbers that float32 holds exactly. A digit is lost where a subtree is subtracted
from another one with nearly its value: itself, rebuilt in another order, with a small term added or a factor
close to 1. Values are computed with 60 decimal digits; trees that leave 1e-16 to 1e12, or divide by or take
the root of what is zero, are drawn again.
"""

import random
import sys
from decimal import Decimal, getcontext

getcontext().prec = 60
ZERO = Decimal("1e-45")  # what smaller values are, after operations with 60 digits
LARGEST_SIZE = 120


class Refused(Exception):
    """A tree whose values leave the range, or that divides by zero."""


def leaf(draw, bits=24):
    """A number of at most `bits` bits between 1/4 and 4, sometimes negative."""
    if draw.random() < 0.3:
        return Decimal(draw.randint(1, 9))
    value = Decimal(draw.randint(2 ** (bits - 1), 2**bits - 1)) / 2 ** (bits - 2 + draw.randint(0, 3))
    return -value if draw.random() < 0.25 else value


def tree(draw, depth, roots):
    """A number, or (operation, operand...)."""
    if depth == 0:
        return leaf(draw)
    if draw.random() < roots:
        return ("sqrt", ("abs", tree(draw, max(depth - 2, 0), roots)))
    if depth > 1 and draw.random() < 0.25:
        return nearly_equal(draw, depth, roots)
    operation = draw.choices("+-*/", (4, 3, 4, 2))[0]
    operands = [tree(draw, depth - 1, roots), tree(draw, draw.randint(0, min(depth - 1, 3)), roots)]
    draw.shuffle(operands)
    return (operation, *operands)


def nearly_equal(draw, depth, roots):
    """A difference of a subtree and of what is nearly the same, computed otherwise."""
    one = tree(draw, depth - 2, roots)
    other = rebuilt(draw, one)
    # 2 to 13 decimal digits are lost, or all of them.
    bits = draw.randint(6, 44)
    kind = draw.randrange(8)
    if kind == 0:
        return ("-", one, other)
    small = leaf(draw, 12) / 2**bits
    if kind < 5:
        return ("-", ("+", one, small), other)
    if kind == 5:
        return ("-", ("*", one, leaf(draw, 12)), ("*", other, leaf(draw, 12)))
    return ("-", one, ("*", other, 1 + Decimal(2) ** -min(bits, 20)))


def rebuilt(draw, node):
    """The same value in exact arithmetic, by operations in another order."""
    if isinstance(node, Decimal) or node[0] in ("sqrt", "abs"):
        return node if isinstance(node, Decimal) else (node[0], rebuilt(draw, node[1]))
    operation, a, b = node[0], rebuilt(draw, node[1]), rebuilt(draw, node[2])
    is_sum = lambda t: isinstance(t, tuple) and t[0] in "+-"
    if operation == "*" and is_sum(a) and draw.random() < 0.6:
        return (a[0], ("*", a[1], b), ("*", a[2], b))
    if operation == "/" and is_sum(a) and draw.random() < 0.5:
        return (a[0], ("/", a[1], b), ("/", a[2], b))
    if operation == "/":
        return ("*", a, ("/", Decimal(1), b)) if draw.random() < 0.6 else (operation, a, b)
    if operation in "+*" and isinstance(a, tuple) and a[0] == operation and draw.random() < 0.6:
        return (operation, a[1], (operation, b, a[2]))
    return (operation, b, a) if operation in "+*" else (operation, a, b)


def value(node):
    """With 60 digits; raises Refused where float32 would lose more than digits."""
    if isinstance(node, Decimal):
        return node
    operands = [value(operand) for operand in node[1:]]
    if node[0] == "/" and abs(operands[1]) < ZERO or node[0] == "sqrt" and operands[0] < ZERO:
        raise Refused
    result = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a / b,
        "sqrt": Decimal.sqrt,
        "abs": abs,
    }[node[0]](*operands)
    if abs(result) < ZERO:
        return Decimal(0)
    if not Decimal("1e-16") < abs(result) < Decimal("1e12"):
        raise Refused
    return result


def size(node):
    return 1 if isinstance(node, Decimal) else 1 + sum(size(operand) for operand in node[1:])


def postfix(node):
    if isinstance(node, Decimal):
        return format(node, "f")
    return " ".join([*(postfix(operand) for operand in node[1:]), node[0]])


def main(count=1000, seed=1, roots=0.02):
    draw = random.Random(seed)
    print(f"# {count} expressions, seed {seed}, share of square roots {roots}: identifier, exact value, postfix notation")
    found = 0
    while found < count:
        candidate = tree(draw, 2 + found % 11, roots)
        if isinstance(candidate, Decimal) or size(candidate) > LARGEST_SIZE:
            continue
        try:
            exact = value(candidate)
        except Refused:
            continue
        found += 1
        print(found, format(exact, ".20e") if exact else "0", postfix(candidate))


if __name__ == "__main__":
    main(*(convert(text) for convert, text in zip((int, int, float), sys.argv[1:])))
