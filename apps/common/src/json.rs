//! JSON of the results of all verbs, in one envelope.
//!
//! ```
//! use zellige_app::json::{Envelope, Host, Program, Provenance};
//!
//! let run = Provenance {
//!     schema: zellige_app::json::SCHEMA,
//!     zellige: Program { version: "0.1.0".into(), commit: None, features: vec![] },
//!     host: Host { name: "node1".into(), processor: None, cores: 2 },
//!     date: "2026-03-01T12:34:56Z".into(),
//!     args: ["solve", "a.mtx", "--json", "-"].map(String::from).into(),
//! };
//! let text = serde_json::to_string(&Envelope { run: &run, results: &[1.5] }).unwrap();
//! assert!(text.starts_with(r#"{"schema":2,"zellige":{"version":"0.1.0""#) && text.ends_with(r#""results":[1.5]}"#));
//! ```

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

/// Version of the JSON of all verbs. It is raised when a key is removed or renamed; keys may be
/// added without a new version.
pub const SCHEMA: u32 = 2;

/// Provenance of results: program, machine, date and arguments.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Provenance {
    /// Version of the keys of this file: [`SCHEMA`].
    pub schema: u32,
    /// Program that wrote the results.
    pub zellige: Program,
    /// Machine of the run.
    pub host: Host,
    /// Start time of the program in UTC: `2026-03-01T12:34:56Z`.
    pub date: String,
    /// Words of the command line after `zellige`, including those of a configuration file.
    pub args: Vec<String>,
}

/// A build of the program.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Program {
    /// Version of the program.
    pub version: String,
    /// Commit of the build; null for a build outside a repository.
    pub commit: Option<String>,
    /// Optional features of the build.
    pub features: Vec<String>,
}

/// A machine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Host {
    /// Network name.
    pub name: String,
    /// Model name of the processor; null if the system does not report it.
    pub processor: Option<String>,
    /// Number of cores that the process may use.
    pub cores: usize,
}

/// A file of results.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(bound(serialize = "T: Serialize"))]
pub struct Envelope<'a, T: 'a> {
    /// Provenance of the results.
    #[serde(flatten)]
    pub run: &'a Provenance,
    /// One entry for each rule, right-hand side, row of a table, ...; most verbs write one.
    pub results: &'a [T],
}

/// Results as read from a file.
#[derive(Debug, Deserialize)]
pub struct Results<T> {
    /// Results, as in [`Envelope::results`].
    pub results: Vec<T>,
}

/// Adds null to the type of numbers, since non-finite numbers are null in JSON.
fn or_null(schema: &mut Schema) {
    if schema.get("type").is_some_and(|kind| kind == "number") {
        schema.insert("type".into(), serde_json::json!(["number", "null"]));
    }
}

/// Returns the JSON schema (draft 2020-12) of a file with such results.
pub fn schema<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(RecursiveTransform(or_null));
    settings.into_generator().into_root_schema_for::<Envelope<'_, T>>()
}
