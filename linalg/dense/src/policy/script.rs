//! Precision policies in a script: a user's own functor without recompiling.

use std::fmt;
use std::path::Path;

use rhai::{AST, Dynamic, Engine, OptimizationLevel, Scope};
use zellige_kernels::GemmPrecision;

use super::{GemmQuery, LoadError, PolicyError, PrecisionPolicy};

/// Maximum number of operations of one call: thousands of times the need of a rule, milliseconds
/// for an endless loop.
const OPERATIONS: u64 = 100_000;

/// A precision policy written in Rhai.
///
/// The file defines `fn precision(i, j, k, nt, norm_a_ij, norm_l_ik, norm_l_jk, norm_a)`, which
/// returns the name of a precision: `fp32`, `hp1`, `hp2`, `hp3`, `bf1`, `x3`, `tf32` or `fp8`. It
/// can compute and nothing else: no files, no `eval`, no modules, a limit on operations and sizes.
/// It is called when the operands of a product are ready.
///
/// ```text
/// fn precision(i, j, k, nt, norm_a_ij, norm_l_ik, norm_l_jk, norm_a) {
///     if norm_l_ik * norm_l_jk <= 1e-2 * norm_a { "hp1" } else { "x3" }
/// }
/// ```
pub struct Script {
    file: String,
    engine: Engine,
    ast: AST,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Script({})", self.file)
    }
}

/// Maximum length of a script.
const MOST_BYTES: u64 = 1 << 20;

impl Script {
    /// Reads and compiles a script.
    ///
    /// # Errors
    /// [`LoadError`] if the file cannot be read, does not compile, or lacks the function.
    pub fn load(file: impl AsRef<Path>) -> Result<Script, LoadError> {
        let name = file.as_ref().display().to_string();
        let source = zellige_files::read_text(file.as_ref(), MOST_BYTES)
            .map_err(|error| LoadError { file: name.clone(), message: error.to_string() })?;
        Script::compile(name, &source)
    }

    /// Compiles a script; `file` names it in errors.
    ///
    /// # Errors
    /// [`LoadError`] if it does not compile or lacks the function.
    pub fn compile(file: impl Into<String>, source: &str) -> Result<Script, LoadError> {
        let file = file.into();
        let mut engine = Engine::new();
        engine
            .set_max_operations(OPERATIONS)
            .set_max_call_levels(32)
            .set_max_expr_depths(64, 64)
            .set_max_string_size(4096)
            .set_max_array_size(4096)
            .set_max_map_size(4096)
            .set_optimization_level(OptimizationLevel::Simple)
            .disable_symbol("eval")
            .on_print(|_| {})
            .on_debug(|_, _, _| {});
        let refuse = |message: String| LoadError { file: file.clone(), message };
        // A parse error's text ends with its line and position.
        let ast = engine.compile(source).map_err(|error| refuse(error.to_string()))?;
        let known = ast.iter_functions().any(|f| f.name == "precision" && f.params.len() == 8);
        if !known {
            return Err(refuse(
                "it must define fn precision(i, j, k, nt, norm_a_ij, norm_l_ik, norm_l_jk, norm_a)".into(),
            ));
        }
        Ok(Script { file, engine, ast })
    }
}

impl PrecisionPolicy for Script {
    fn choose(&self, q: &GemmQuery) -> Result<GemmPrecision, PolicyError> {
        let fail = |message: String| PolicyError::new(self.describe(), q, message);
        let arguments = (
            q.i as i64,
            q.j as i64,
            q.k as i64,
            q.nt as i64,
            q.norm_a_ij,
            q.norm_l_ik,
            q.norm_l_jk,
            q.norm_a,
        );
        let answer: Dynamic = self
            .engine
            .call_fn(&mut Scope::new(), &self.ast, "precision", arguments)
            // The text ends with its line and position.
            .map_err(|error| fail(error.to_string()))?;
        let kind = answer.type_name();
        let name = answer.into_string().map_err(|_| {
            fail(format!("fn precision returned a value of type {kind}, not the name of a precision"))
        })?;
        match name.parse() {
            Ok(GemmPrecision::Dp) | Err(_) => Err(fail(format!(
                "fn precision returned {name:?}: allowed are fp32, hp1, hp2, hp3, bf1, x3, tf32, fp8"
            ))),
            Ok(precision) => Ok(precision),
        }
    }

    fn describe(&self) -> String {
        format!("script:{}", self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Phase;
    use super::*;

    const QUERY: GemmQuery = GemmQuery {
        phase: Phase::Factor,
        i: 7,
        j: 5,
        k: 3,
        nt: 10,
        norm_a_ij: 1.0,
        norm_l_ik: 2.0,
        norm_l_jk: 3.0,
        norm_a: 100.0,
    };
    const HEAD: &str = "fn precision(i, j, k, nt, norm_a_ij, norm_l_ik, norm_l_jk, norm_a)";

    fn run(body: &str) -> Result<GemmPrecision, PolicyError> {
        Script::compile("rule.rhai", &format!("{HEAD} {{\n{body}\n}}")).unwrap().choose(&QUERY)
    }

    #[test]
    fn a_script_sees_positions_and_norms() {
        let body = "if norm_l_ik * norm_l_jk <= 0.06 * norm_a && i - j == 2 { \"hp1\" } else { \"x3\" }";
        assert_eq!(run(body), Ok(GemmPrecision::Hp1));
        assert_eq!(run("\"fp8\""), Ok(GemmPrecision::Fp8));
        assert_eq!(run("if k == 4 { \"hp1\" } else { \"fp32\" }"), Ok(GemmPrecision::Sp));
    }

    #[test]
    fn errors_name_file_line_and_product() {
        for body in ["let x = 1;\nx.nonsense()", "loop { }", "\"hp9\"", "\"fp64\"", "42", "eval(\"1\")"] {
            let text = match Script::compile("rule.rhai", &format!("{HEAD} {{\n{body}\n}}")) {
                Ok(script) => script.choose(&QUERY).unwrap_err().to_string(),
                Err(error) => format!("{error} (7, 5, 3)"),
            };
            assert!(text.contains("rule.rhai") && text.contains("(7, 5, 3)"), "{text}");
        }
        let text = run("let x = 1;\nx.nonsense()").unwrap_err().to_string();
        assert!(text.contains("line 3"), "{text}");
    }

    #[test]
    fn what_is_no_policy_is_refused_at_once() {
        for source in ["", "fn precision(i) { \"hp1\" }", "fn precision("] {
            let text = Script::compile("rule.rhai", source).unwrap_err().to_string();
            assert!(text.contains("rule.rhai"), "{text}");
        }
        assert!(Script::load("/nonexistent/rule.rhai").is_err());
        let text = "script:/nonexistent/rule.rhai".parse::<super::super::Rule>().unwrap_err();
        assert_eq!(text.position, 7);
    }

    #[test]
    fn files_are_out_of_reach() {
        assert!(run("open_file(\"/etc/passwd\"); \"hp1\"").is_err());
        assert!(Script::compile("rule.rhai", "import \"x\" as x;").is_err());
    }
}
