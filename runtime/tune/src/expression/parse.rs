//! Parser of expressions.

/// Names of the measures of the reference begin with this.
const REFERENCE: &str = "REF.";

/// Kind of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    Condition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Least,
    Greatest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
}

/// Node of an expression.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Number(f64),
    Measure(String),
    Reference(String),
    Negative(Box<Node>),
    Absolute(Box<Node>),
    Arithmetic(Arithmetic, Box<Node>, Box<Node>),
    /// A comparison with its text.
    Compare(Comparison, Box<Node>, Box<Node>, String),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
}

impl Node {
    fn kind(&self) -> Kind {
        match self {
            Node::Compare(..) | Node::Not(_) | Node::And(..) | Node::Or(..) => Kind::Condition,
            _ => Kind::Number,
        }
    }

    /// Calls a function with the name of each measure, of the trial or of the reference.
    pub fn visit_names(&self, visit: &mut dyn FnMut(&str)) {
        match self {
            Node::Number(_) => {}
            Node::Measure(name) | Node::Reference(name) => visit(name),
            Node::Negative(a) | Node::Absolute(a) | Node::Not(a) => a.visit_names(visit),
            Node::Arithmetic(_, a, b) | Node::Compare(_, a, b, _) | Node::And(a, b) | Node::Or(a, b) => {
                a.visit_names(visit);
                b.visit_names(visit);
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Name(String),
    Symbol(&'static str),
    End,
}

/// Symbols, longer ones before their beginnings.
const SYMBOLS: [&str; 17] =
    ["&&", "||", "<=", ">=", "==", "!=", "<", ">", "!", "(", ")", ",", "+", "-", "*", "/", "="];

/// Comparisons by symbol.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("<=", Comparison::LessEqual),
    (">=", Comparison::GreaterEqual),
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// Parses a whole text.
pub(crate) fn parse(text: &str, kind: Kind) -> Result<Node, String> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0 };
    let node = parser.or()?;
    match parser.peek() {
        Token::End => of_kind(node, kind).map_err(|problem| problem + " as the whole"),
        Token::Symbol("=") => Err(parser.fail("use == to compare")),
        _ => Err(parser.fail("expected an operator")),
    }
}

/// Checks the kind of a node. A measure stands for a condition, too: it holds unless it is 0.
fn of_kind(node: Node, kind: Kind) -> Result<Node, String> {
    match (node.kind(), kind) {
        (Kind::Number, Kind::Condition) if matches!(node, Node::Measure(_) | Node::Reference(_)) => {
            let (Node::Measure(name) | Node::Reference(name)) = &node else { unreachable!("matched above") };
            let text = name.clone();
            Ok(Node::Compare(Comparison::NotEqual, Box::new(node), Box::new(Node::Number(0.0)), text))
        }
        (Kind::Number, Kind::Condition) => Err("a comparison is needed, not a number".into()),
        (Kind::Condition, Kind::Number) => Err("a number is needed, not a comparison".into()),
        _ => Ok(node),
    }
}

/// Splits a text into tokens, each with its place.
fn tokens(text: &str) -> Result<Vec<(Token, usize)>, String> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let (token, length) = if c.is_ascii_digit() || c == '.' {
            let length = number_length(rest);
            let number = rest[..length].parse().map_err(|_| format!("at {}: not a number", at + 1))?;
            (Token::Number(number), length)
        } else if c.is_ascii_alphabetic() || c == '_' {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
            let length = end.unwrap_or(rest.len());
            (Token::Name(rest[..length].to_string()), length)
        } else {
            let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
            let symbol = symbol.ok_or_else(|| format!("at {}: unexpected `{c}`", at + 1))?;
            (Token::Symbol(symbol), symbol.len())
        };
        tokens.push((token, at));
        at += length;
    }
    tokens.push((Token::End, text.len()));
    Ok(tokens)
}

/// Length of a number such as `12`, `.5` or `1e-3` at the beginning of a text.
fn number_length(text: &str) -> usize {
    let digits = |from: usize| from + text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut end = digits(0);
    if text[end..].starts_with('.') {
        end = digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    end
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<(Token, usize)>,
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn place(&self) -> usize {
        self.tokens[self.at].1
    }

    /// Takes the next token if it is one of some symbols.
    fn take(&mut self, symbols: &[&'static str]) -> Option<&'static str> {
        match *self.peek() {
            Token::Symbol(symbol) if symbols.contains(&symbol) => {
                self.at += 1;
                Some(symbol)
            }
            _ => None,
        }
    }

    fn fail(&self, problem: &str) -> String {
        match self.peek() {
            Token::End => format!("at the end: {problem}"),
            _ => format!("at {}: {problem}", self.place() + 1),
        }
    }

    fn checked(&self, node: Node, kind: Kind, place: usize) -> Result<Box<Node>, String> {
        of_kind(node, kind).map(Box::new).map_err(|problem| format!("at {}: {problem}", place + 1))
    }

    fn or(&mut self) -> Result<Node, String> {
        self.chain("||", Parser::and, Node::Or)
    }

    fn and(&mut self) -> Result<Node, String> {
        self.chain("&&", Parser::not, Node::And)
    }

    fn chain(
        &mut self,
        symbol: &'static str,
        part: fn(&mut Self) -> Result<Node, String>,
        join: fn(Box<Node>, Box<Node>) -> Node,
    ) -> Result<Node, String> {
        let mut place = self.place();
        let mut left = part(self)?;
        while self.take(&[symbol]).is_some() {
            let begin = self.place();
            let right = part(self)?;
            let left_part = self.checked(left, Kind::Condition, place)?;
            left = join(left_part, self.checked(right, Kind::Condition, begin)?);
            place = begin;
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Node, String> {
        if self.take(&["!"]).is_none() {
            return self.comparison();
        }
        let place = self.place();
        let inner = self.not()?;
        Ok(Node::Not(self.checked(inner, Kind::Condition, place)?))
    }

    fn comparison(&mut self) -> Result<Node, String> {
        let begin = self.place();
        let left = self.sum()?;
        let symbols = COMPARISONS.map(|(symbol, _)| symbol);
        let Some(symbol) = self.take(&symbols) else { return Ok(left) };
        let (_, comparison) = COMPARISONS[symbols.iter().position(|&other| other == symbol).unwrap_or(0)];
        let place = self.place();
        let right = self.sum()?;
        let text = self.text[begin..self.place()].trim_end().to_string();
        if self.take(&symbols).is_some() {
            return Err(self.fail("join two comparisons with &&"));
        }
        let left = self.checked(left, Kind::Number, begin)?;
        Ok(Node::Compare(comparison, left, self.checked(right, Kind::Number, place)?, text))
    }

    fn sum(&mut self) -> Result<Node, String> {
        self.arithmetic(&[("+", Arithmetic::Add), ("-", Arithmetic::Subtract)], Parser::product)
    }

    fn product(&mut self) -> Result<Node, String> {
        self.arithmetic(&[("*", Arithmetic::Multiply), ("/", Arithmetic::Divide)], Parser::unary)
    }

    fn arithmetic(
        &mut self,
        operators: &[(&'static str, Arithmetic); 2],
        part: fn(&mut Self) -> Result<Node, String>,
    ) -> Result<Node, String> {
        let place = self.place();
        let mut left = part(self)?;
        while let Some(symbol) = self.take(&operators.map(|(symbol, _)| symbol)) {
            let begin = self.place();
            let right = part(self)?;
            let operator = if symbol == operators[0].0 { operators[0].1 } else { operators[1].1 };
            let left_part = self.checked(left, Kind::Number, place)?;
            left = Node::Arithmetic(operator, left_part, self.checked(right, Kind::Number, begin)?);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Node, String> {
        if self.take(&["-"]).is_none() {
            return self.primary();
        }
        let place = self.place();
        let inner = self.unary()?;
        Ok(Node::Negative(self.checked(inner, Kind::Number, place)?))
    }

    fn primary(&mut self) -> Result<Node, String> {
        if self.take(&["("]).is_some() {
            let inner = self.or()?;
            self.close()?;
            return Ok(inner);
        }
        let node = match self.peek().clone() {
            Token::Number(number) => Node::Number(number),
            Token::Name(name) => {
                self.at += 1;
                if self.take(&["("]).is_some() {
                    return self.call(&name);
                }
                return Ok(match name.strip_prefix(REFERENCE) {
                    Some(name) => Node::Reference(name.to_string()),
                    None => Node::Measure(name),
                });
            }
            _ => return Err(self.fail("expected a number, a name or a parenthesis")),
        };
        self.at += 1;
        Ok(node)
    }

    /// Parses the arguments of a function, after its parenthesis.
    fn call(&mut self, name: &str) -> Result<Node, String> {
        let mut arguments = Vec::new();
        loop {
            let place = self.place();
            let argument = self.or()?;
            arguments.push(self.checked(argument, Kind::Number, place)?);
            if self.take(&[","]).is_none() {
                break;
            }
        }
        self.close()?;
        let mut arguments = arguments.into_iter();
        match (name, arguments.next(), arguments.next(), arguments.next()) {
            ("abs", Some(x), None, None) => Ok(Node::Absolute(x)),
            ("min", Some(x), Some(y), None) => Ok(Node::Arithmetic(Arithmetic::Least, x, y)),
            ("max", Some(x), Some(y), None) => Ok(Node::Arithmetic(Arithmetic::Greatest, x, y)),
            _ => Err(format!("`{name}`: the functions are abs(x), min(x, y) and max(x, y)")),
        }
    }

    fn close(&mut self) -> Result<(), String> {
        self.take(&[")"]).map(drop).ok_or_else(|| self.fail("expected `)`"))
    }
}
