//! Public names of the functions of `src/lists.c`.
//!
//! A `cdylib` exports what Rust defines and nothing of the C objects in it, and Rust defines no
//! functions with variable arguments. Each function here is a jump: registers and stack arrive in C
//! as the caller left them.

use std::arch::naked_asm;

macro_rules! jumps {
    ($($name:ident => $target:ident;)*) => {
        unsafe extern "C" {
            $(fn $target();)*
        }
        $(
            #[doc = concat!("Jumps to `", stringify!($target), "`, whose arguments stand in `starpu.h`.")]
            ///
            /// # Safety
            ///
            /// As C demands of the arguments.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                naked_asm!("jmp {}", sym $target);
                #[cfg(target_arch = "aarch64")]
                naked_asm!("b {}", sym $target);
                #[cfg(target_arch = "riscv64")]
                naked_asm!("tail {}", sym $target);
            }
        )*
    };
}

jumps! {
    starpu_sched_ctx_create => zellige_c_sched_ctx_create;
    starpu_perfmodel_get_model_per_devices => zellige_c_perfmodel_get;
    starpu_perfmodel_set_per_devices_cost_function => zellige_c_perfmodel_set_cost;
    starpu_perfmodel_set_per_devices_size_base => zellige_c_perfmodel_set_size;
}
