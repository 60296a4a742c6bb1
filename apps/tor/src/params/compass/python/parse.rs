//! Parser that evaluates statements and expressions directly.

use super::lex::{Token, Word, words};
use super::{Program, PythonValue, Refusal};

/// Maximum nesting of brackets and signs.
const DEEPEST: usize = 64;

/// Remedy for unsupported statements.
const REMEDY: &str = "this reader executes nothing: write the values themselves (assignments, Param*(), set_*(), lists, arithmetic)";

/// Parses a file.
pub(in super::super) fn read(text: &str) -> Result<Program, Refusal> {
    let (tokens, end) = words(text);
    let mut reader = PythonParser { tokens: &tokens, at: 0, depth: 0, program: Program::default() };
    while reader.at < reader.tokens.len() {
        // An invalid token explains an invalid statement, unless the statement comes first.
        reader.statement().map_err(|refusal| match &end {
            Some(end) if end.line <= refusal.line => Refusal { line: end.line, problem: end.problem.clone() },
            _ => refusal,
        })?;
    }
    end.map_or(Ok(reader.program), Err)
}

struct PythonParser<'t> {
    tokens: &'t [Token],
    at: usize,
    depth: usize,
    program: Program,
}

/// Keywords of statements that are not supported.
const KEYWORDS: [&str; 19] = [
    "for", "if", "elif", "else", "while", "def", "class", "with", "try", "except", "finally", "return",
    "del", "assert", "raise", "global", "lambda", "async", "yield",
];

impl PythonParser<'_> {
    fn line(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |token| token.line)
    }

    fn word(&self) -> &Word {
        self.tokens.get(self.at).map_or(&Word::End, |token| &token.word)
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.word(), Word::Sign(found) if *found == sign)
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        self.at += usize::from(found);
        found
    }

    fn refuse<T>(&self, problem: impl Into<String>) -> Result<T, Refusal> {
        Err(Refusal { line: self.line(), problem: problem.into() })
    }

    /// Gives an error of the last expression the line on which it began.
    fn located<T>(&self, line: usize, result: Result<T, String>) -> Result<T, Refusal> {
        result.map_err(|problem| Refusal { line, problem })
    }

    fn expect(&mut self, sign: &str) -> Result<(), Refusal> {
        if self.take(sign) {
            Ok(())
        } else {
            self.refuse(format!("{} where '{sign}' is needed", self.described()))
        }
    }

    fn described(&self) -> String {
        match self.word() {
            Word::Name(name) => format!("'{name}'"),
            Word::Number(number) => format!("{number}"),
            Word::Text(_) => "a string".into(),
            Word::Sign(sign) => format!("'{sign}'"),
            Word::End => "the end of the line".into(),
        }
    }

    fn statement(&mut self) -> Result<(), Refusal> {
        match self.word() {
            Word::End => {
                self.at += 1;
                return Ok(());
            }
            Word::Name(name) if name == "import" || name == "from" => {
                while *self.word() != Word::End {
                    self.at += 1;
                }
                return Ok(());
            }
            Word::Name(name) if name == "pass" => self.at += 1,
            Word::Name(name) if KEYWORDS.contains(&name.as_str()) => {
                return self.refuse(format!("'{name}' is not supported; {REMEDY}"));
            }
            Word::Text(_) => self.at += 1,
            Word::Name(_) => self.assignment_or_call()?,
            _ => return self.refuse(format!("{} at the beginning of a statement", self.described())),
        }
        match self.word() {
            Word::End => Ok(()),
            _ => self.refuse(format!("{} after the statement; {REMEDY}", self.described())),
        }
    }

    /// Parses `name = ...`, `name.set_x(...)`, `name[0].set_x(...)`, `name.append(...)`.
    fn assignment_or_call(&mut self) -> Result<(), Refusal> {
        let line = self.line();
        if let (Word::Name(name), Some(Token { word: Word::Sign("="), .. })) =
            (self.word().clone(), self.tokens.get(self.at + 1))
        {
            self.at += 2;
            let value = self.expression()?;
            self.program.names.insert(name, value);
            return Ok(());
        }
        let mut value = self.name()?;
        loop {
            if self.take("[") {
                let at = self.expression()?;
                self.expect("]")?;
                value = self.located(line, self.program.index(&value, &at))?;
            } else if self.take(".") {
                let name = self.attribute()?;
                if !self.take("(") {
                    value = self.located(line, self.program.field(&value, &name))?;
                    continue;
                }
                let set = name.strip_prefix("set_");
                if set.is_none() && name != "append" {
                    return Err(Refusal { line, problem: format!("{name}() is not supported; {REMEDY}") });
                }
                let argument = self.expression()?;
                self.take(",");
                self.expect(")")?;
                let done = match set {
                    Some(field) => self.program.set(&value, field, argument, line),
                    None => self.program.append(&value, argument),
                };
                return self.located(line, done);
            } else {
                return self
                    .refuse(format!("{}: an assignment or set_*() is needed; {REMEDY}", self.described()));
            }
        }
    }

    fn attribute(&mut self) -> Result<String, Refusal> {
        let Word::Name(name) = self.word().clone() else {
            return self.refuse(format!("{} after a point", self.described()));
        };
        self.at += 1;
        Ok(name)
    }

    /// Counts one level of nesting around `inner`.
    fn nested(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<PythonValue, Refusal>,
    ) -> Result<PythonValue, Refusal> {
        if self.depth == DEEPEST {
            return self.refuse(format!("an expression nested more than {DEEPEST} deep"));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn expression(&mut self) -> Result<PythonValue, Refusal> {
        self.nested(|reader| {
            reader.binary(&["+", "-"], |reader| reader.binary(&["*", "/", "//", "%"], Self::unary))
        })
    }

    fn binary(
        &mut self,
        signs: &[&'static str],
        mut operand: impl FnMut(&mut Self) -> Result<PythonValue, Refusal>,
    ) -> Result<PythonValue, Refusal> {
        let line = self.line();
        let mut value = operand(self)?;
        while let Some(sign) = signs.iter().copied().find(|sign| self.is(sign)) {
            self.at += 1;
            let right = operand(self)?;
            let result = self.program.operate(&value, sign, &right);
            value = self.located(line, result)?;
        }
        Ok(value)
    }

    fn unary(&mut self) -> Result<PythonValue, Refusal> {
        let line = self.line();
        let minus = self.is("-");
        if minus || self.is("+") {
            self.at += 1;
            let value = self.nested(Self::unary)?;
            return match value {
                PythonValue::Number(x) => Ok(PythonValue::Number(if minus { -x } else { x })),
                other => self.located(line, Err(format!("a sign before {}", other.kind()))),
            };
        }
        let base = self.primary()?;
        if !self.take("**") {
            return Ok(base);
        }
        // The operator binds tighter than a sign on its left, looser than one on its right, and is
        // right-associative.
        let exponent = self.nested(Self::unary)?;
        let result = self.program.operate(&base, "**", &exponent);
        self.located(line, result)
    }

    fn primary(&mut self) -> Result<PythonValue, Refusal> {
        let line = self.line();
        let mut value = match self.word().clone() {
            Word::Number(number) => {
                self.at += 1;
                PythonValue::Number(number)
            }
            Word::Text(text) => {
                self.at += 1;
                PythonValue::Text(text)
            }
            Word::Sign("[") => {
                self.at += 1;
                self.sequence("]", Vec::new())?
            }
            Word::Sign("(") => {
                self.at += 1;
                if self.take(")") {
                    let empty = self.program.list(Vec::new());
                    self.located(line, empty)?
                } else {
                    let first = self.expression()?;
                    // A tuple is read as a list; brackets around one value only group.
                    if self.take(",") {
                        self.sequence(")", vec![first])?
                    } else {
                        self.expect(")").map(|()| first)?
                    }
                }
            }
            Word::Name(_) => self.name_or_object()?,
            _ => return self.refuse(format!("{} where a value is needed", self.described())),
        };
        loop {
            if self.take("[") {
                let at = self.expression()?;
                self.expect("]")?;
                value = self.located(line, self.program.index(&value, &at))?;
            } else if self.take(".") {
                let name = self.attribute()?;
                let read = if self.take("(") { name.strip_prefix("get_") } else { Some(name.as_str()) };
                let Some(field) = read else {
                    return Err(Refusal { line, problem: format!("{name}() is not supported; {REMEDY}") });
                };
                if field.len() < name.len() {
                    self.expect(")")?;
                }
                value = self.located(line, self.program.field(&value, field))?;
            } else {
                return Ok(value);
            }
        }
    }

    /// Parses the elements up to a closing bracket.
    fn sequence(&mut self, end: &str, mut elements: Vec<PythonValue>) -> Result<PythonValue, Refusal> {
        let line = self.line();
        while !self.take(end) {
            elements.push(self.expression()?);
            if !self.take(",") {
                self.expect(end)?;
                break;
            }
        }
        let list = self.program.list(elements);
        self.located(line, list)
    }

    /// Returns the value of an earlier name.
    fn name(&mut self) -> Result<PythonValue, Refusal> {
        let line = self.line();
        let name = self.attribute()?;
        let known = self.program.names.get(&name).cloned();
        self.located(line, known.ok_or_else(|| format!("'{name}' was not set before; {REMEDY}")))
    }

    /// Parses an earlier name, `True`, `False`, `None`, or an object: `Param*(...)`,
    /// `module.Param*(...)`.
    fn name_or_object(&mut self) -> Result<PythonValue, Refusal> {
        let line = self.line();
        let Word::Name(name) = self.word().clone() else { return self.name() };
        let constant = match name.as_str() {
            "True" => Some(PythonValue::Number(1.0)),
            "False" => Some(PythonValue::Number(0.0)),
            "None" => Some(PythonValue::None),
            _ => None,
        };
        if let Some(constant) = constant {
            self.at += 1;
            return Ok(constant);
        }
        if self.program.names.contains_key(&name) {
            return self.name();
        }
        // A module's name in front is ignored, since nothing was imported.
        let start = self.at;
        let mut last = self.attribute()?;
        while !last.starts_with("Param") && self.take(".") {
            last = self.attribute()?;
        }
        if !self.take("(") {
            self.at = start;
            return self.name();
        }
        if !last.starts_with("Param") {
            return Err(Refusal { line, problem: format!("{last}() is not supported; {REMEDY}") });
        }
        // The arguments of a constructor have no effect here, and are read only to check them.
        while !self.take(")") {
            if let (Word::Name(_), Some(Token { word: Word::Sign("="), .. })) =
                (self.word(), self.tokens.get(self.at + 1))
            {
                self.at += 2;
            }
            self.expression()?;
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(self.program.object(&last, line))
    }
}
