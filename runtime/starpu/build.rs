//! Compiles the entry points with variable arguments, which only C can define.

fn main() {
    println!("cargo:rerun-if-changed=src/variadic.c");
    println!("cargo:rerun-if-changed=src/layout.h");
    println!("cargo:rerun-if-changed=src/lists.c");
    println!("cargo:rerun-if-changed=include");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libzellige_starpu.so");
    }
    cc::Build::new()
        .file("src/variadic.c")
        .file("src/lists.c")
        .include("include")
        .std("c99")
        .warnings(true)
        .compile("zellige_starpu_variadic");
}
