//! Compiles the entry points with variable arguments, which only C can define.

fn main() {
    println!("cargo:rerun-if-changed=src/variadic.c");
    println!("cargo:rerun-if-changed=src/layout.h");
    println!("cargo:rerun-if-changed=src/lists.c");
    println!("cargo:rerun-if-changed=include");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libzellige_starpu.so");
    }
    let mut build = cc::Build::new();
    build.file("src/variadic.c").file("src/lists.c").include("include").std("c99").warnings(true);
    #[cfg(feature = "mpi")]
    {
        println!("cargo:rerun-if-changed=src/variadic_mpi.h");
        let found = build_probe_mpi::probe().expect("an MPI library with its headers");
        build.define("ZELLIGE_STARPU_MPI", None);
        // Its headers are not this project's to warn of.
        for path in &found.include_paths {
            build.flag(format!("-isystem{}", path.display()));
        }
    }
    build.compile("zellige_starpu_variadic");
}
