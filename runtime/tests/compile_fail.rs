//! Wrong use that does not compile.

#[test]
fn wrong_use_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
