! The part of StarPU's Fortran interface that programs with vectors, matrices and variables need:
! the subroutines and functions call libzellige_starpu. Compile this file with the program.
!
! A list of arguments is an array of addresses that ends with C_NULL_PTR. Modes, markers, sizes and
! places of execution stand in place of an address. Other numbers are given by their address:
!
!     call fstarpu_task_insert((/ cl, FSTARPU_R, dh_x, FSTARPU_RW, dh_y, &
!             FSTARPU_VALUE, c_loc(alpha), FSTARPU_SZ_C_DOUBLE, &
!             FSTARPU_PRIORITY, c_loc(priority), C_NULL_PTR /))
!
! Where C returns a code for a mistake, a subroutine writes a message and ends the program.
module fstarpu_mod
    use, intrinsic :: iso_c_binding
    implicit none

    ! Modes, which .ior. combines.
    type(c_ptr), parameter :: FSTARPU_R = transfer(1_c_intptr_t, C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_W = transfer(2_c_intptr_t, C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_RW = transfer(3_c_intptr_t, C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_SCRATCH = transfer(4_c_intptr_t, C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_REDUX = transfer(8_c_intptr_t, C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_COMMUTE = transfer(16_c_intptr_t, C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_SSEND = transfer(32_c_intptr_t, C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_LOCALITY = transfer(64_c_intptr_t, C_NULL_PTR)

    ! Markers.
    type(c_ptr), parameter :: FSTARPU_VALUE = transfer(ishft(1_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_CL_ARGS = transfer(ishft(26_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_CL_ARGS_NFREE = &
            transfer(ishft(27_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_DATA_ARRAY = transfer(ishft(8_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_DATA_MODE_ARRAY = &
            transfer(ishft(9_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_CALLBACK = transfer(ishft(2_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_CALLBACK_WITH_ARG = &
            transfer(ishft(3_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_CALLBACK_WITH_ARG_NFREE = &
            transfer(ishft(39_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_CALLBACK_ARG = transfer(ishft(4_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_CALLBACK_ARG_NFREE = &
            transfer(ishft(38_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_PRIORITY = transfer(ishft(5_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_TAG = transfer(ishft(11_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_TAG_ONLY = transfer(ishft(21_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_TASK_DEPS_ARRAY = &
            transfer(ishft(28_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_TASK_END_DEPS_ARRAY = &
            transfer(ishft(32_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_SEQUENTIAL_CONSISTENCY = &
            transfer(ishft(35_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_TASK_SYNCHRONOUS = &
            transfer(ishft(31_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_EXECUTE_ON_WORKER = &
            transfer(ishft(19_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_EXECUTE_WHERE = &
            transfer(ishft(20_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_NAME = transfer(ishft(25_c_intptr_t, 17), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_FLOPS = transfer(ishft(13_c_intptr_t, 17), C_NULL_PTR)

    ! Kinds of workers.
    type(c_ptr), parameter :: FSTARPU_CPU = transfer(2_c_intptr_t, C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_CUDA = transfer(4_c_intptr_t, C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_OPENCL = transfer(8_c_intptr_t, C_NULL_PTR)

    ! Kinds of codelets.
    type(c_ptr), parameter :: FSTARPU_SEQ = transfer(0_c_intptr_t, C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_SPMD = transfer(1_c_intptr_t, C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_FORKJOIN = transfer(2_c_intptr_t, C_NULL_PTR)

    ! Kinds of performance models.
    type(c_ptr), parameter :: FSTARPU_PER_WORKER = transfer(1_c_intptr_t, C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_PER_ARCH = transfer(2_c_intptr_t, C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_COMMON = transfer(3_c_intptr_t, C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_HISTORY_BASED = transfer(4_c_intptr_t, C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_REGRESSION_BASED = transfer(5_c_intptr_t, C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_NL_REGRESSION_BASED = transfer(6_c_intptr_t, C_NULL_PTR)

    ! Bytes of a number.
    type(c_ptr), parameter :: FSTARPU_SZ_C_INT = &
            transfer(int(storage_size(0_c_int) / 8, c_intptr_t), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_SZ_C_SIZE_T = &
            transfer(int(storage_size(0_c_size_t) / 8, c_intptr_t), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_SZ_C_DOUBLE = &
            transfer(int(storage_size(0.0_c_double) / 8, c_intptr_t), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_SZ_C_FLOAT = &
            transfer(int(storage_size(0.0_c_float) / 8, c_intptr_t), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_SZ_C_PTR = &
            transfer(int(storage_size(0_c_intptr_t) / 8, c_intptr_t), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_SZ_INTEGER = &
            transfer(int(storage_size(0) / 8, c_intptr_t), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_SZ_REAL = &
            transfer(int(storage_size(0.0) / 8, c_intptr_t), C_NULL_PTR)
    type(c_ptr), parameter :: FSTARPU_SZ_DOUBLE_PRECISION = &
            transfer(int(storage_size(0d0) / 8, c_intptr_t), C_NULL_PTR)

    interface operator(.ior.)
        procedure fstarpu_both
    end interface operator(.ior.)

    interface
        ! Returns 0, or -19 where no worker can be had.
        function fstarpu_init(conf) bind(C, name="starpu_init") result(it)
            import :: c_int, c_ptr
            type(c_ptr), value, intent(in) :: conf
            integer(c_int) :: it
        end function fstarpu_init

        subroutine fstarpu_shutdown() bind(C, name="starpu_shutdown")
        end subroutine fstarpu_shutdown

        subroutine fstarpu_pause() bind(C, name="starpu_pause")
        end subroutine fstarpu_pause

        subroutine fstarpu_resume() bind(C, name="starpu_resume")
        end subroutine fstarpu_resume

        function fstarpu_is_paused() bind(C, name="starpu_is_paused") result(it)
            import :: c_int
            integer(c_int) :: it
        end function fstarpu_is_paused

        function fstarpu_cpu_worker_get_count() &
                bind(C, name="starpu_cpu_worker_get_count") result(it)
            import :: c_int
            integer(c_int) :: it
        end function fstarpu_cpu_worker_get_count

        function fstarpu_cuda_worker_get_count() &
                bind(C, name="starpu_cuda_worker_get_count") result(it)
            import :: c_int
            integer(c_int) :: it
        end function fstarpu_cuda_worker_get_count

        function fstarpu_opencl_worker_get_count() &
                bind(C, name="starpu_opencl_worker_get_count") result(it)
            import :: c_int
            integer(c_int) :: it
        end function fstarpu_opencl_worker_get_count

        function fstarpu_worker_get_count() bind(C, name="starpu_worker_get_count") result(it)
            import :: c_int
            integer(c_int) :: it
        end function fstarpu_worker_get_count

        ! Returns microseconds of a clock.
        function fstarpu_timing_now() bind(C, name="starpu_timing_now") result(it)
            import :: c_double
            real(c_double) :: it
        end function fstarpu_timing_now

        subroutine fstarpu_task_insert(list) bind(C)
            import :: c_ptr
            type(c_ptr), dimension(*), intent(in) :: list
        end subroutine fstarpu_task_insert

        subroutine fstarpu_insert_task(list) bind(C, name="fstarpu_task_insert")
            import :: c_ptr
            type(c_ptr), dimension(*), intent(in) :: list
        end subroutine fstarpu_insert_task

        subroutine fstarpu_task_wait_for_all() bind(C, name="starpu_task_wait_for_all")
        end subroutine fstarpu_task_wait_for_all

        ! Copies the values of a task's FSTARPU_VALUE to the addresses of the list.
        subroutine fstarpu_unpack_arg(cl_arg, list) bind(C)
            import :: c_ptr
            type(c_ptr), value, intent(in) :: cl_arg
            type(c_ptr), dimension(*), intent(in) :: list
        end subroutine fstarpu_unpack_arg

        function fstarpu_codelet_allocate() bind(C) result(it)
            import :: c_ptr
            type(c_ptr) :: it
        end function fstarpu_codelet_allocate

        subroutine fstarpu_codelet_free(cl) bind(C)
            import :: c_ptr
            type(c_ptr), value, intent(in) :: cl
        end subroutine fstarpu_codelet_free

        subroutine fstarpu_codelet_set_name(cl, name) bind(C)
            import :: c_char, c_ptr
            type(c_ptr), value, intent(in) :: cl
            character(kind=c_char), dimension(*), intent(in) :: name
        end subroutine fstarpu_codelet_set_name

        subroutine fstarpu_codelet_set_model(cl, model) bind(C)
            import :: c_ptr
            type(c_ptr), value, intent(in) :: cl
            type(c_ptr), value, intent(in) :: model
        end subroutine fstarpu_codelet_set_model

        subroutine fstarpu_codelet_add_cpu_func(cl, f_ptr) bind(C)
            import :: c_funptr, c_ptr
            type(c_ptr), value, intent(in) :: cl
            type(c_funptr), value, intent(in) :: f_ptr
        end subroutine fstarpu_codelet_add_cpu_func

        subroutine fstarpu_codelet_add_buffer(cl, mode) bind(C)
            import :: c_ptr
            type(c_ptr), value, intent(in) :: cl
            type(c_ptr), value, intent(in) :: mode
        end subroutine fstarpu_codelet_add_buffer

        subroutine fstarpu_codelet_set_where(cl, where) bind(C)
            import :: c_ptr
            type(c_ptr), value, intent(in) :: cl
            type(c_ptr), value, intent(in) :: where
        end subroutine fstarpu_codelet_set_where

        subroutine fstarpu_codelet_set_type(cl, kind) bind(C)
            import :: c_ptr
            type(c_ptr), value, intent(in) :: cl
            type(c_ptr), value, intent(in) :: kind
        end subroutine fstarpu_codelet_set_type

        subroutine fstarpu_codelet_set_max_parallelism(cl, most) bind(C)
            import :: c_int, c_ptr
            type(c_ptr), value, intent(in) :: cl
            integer(c_int), value, intent(in) :: most
        end subroutine fstarpu_codelet_set_max_parallelism

        function fstarpu_perfmodel_allocate() bind(C) result(it)
            import :: c_ptr
            type(c_ptr) :: it
        end function fstarpu_perfmodel_allocate

        subroutine fstarpu_perfmodel_free(model) bind(C)
            import :: c_ptr
            type(c_ptr), value, intent(in) :: model
        end subroutine fstarpu_perfmodel_free

        subroutine fstarpu_perfmodel_set_symbol(model, symbol) bind(C)
            import :: c_char, c_ptr
            type(c_ptr), value, intent(in) :: model
            character(kind=c_char), dimension(*), intent(in) :: symbol
        end subroutine fstarpu_perfmodel_set_symbol

        subroutine fstarpu_perfmodel_set_type(model, kind) bind(C)
            import :: c_ptr
            type(c_ptr), value, intent(in) :: model
            type(c_ptr), value, intent(in) :: kind
        end subroutine fstarpu_perfmodel_set_type

        subroutine fstarpu_variable_data_register(dh, home_node, ptr, elt_size) &
                bind(C, name="starpu_variable_data_register")
            import :: c_int, c_ptr, c_size_t
            type(c_ptr), intent(out) :: dh
            integer(c_int), value, intent(in) :: home_node
            type(c_ptr), value, intent(in) :: ptr
            integer(c_size_t), value, intent(in) :: elt_size
        end subroutine fstarpu_variable_data_register

        function fstarpu_variable_get_ptr(buffers, i) bind(C) result(it)
            import :: c_int, c_ptr
            type(c_ptr), value, intent(in) :: buffers
            integer(c_int), value, intent(in) :: i
            type(c_ptr) :: it
        end function fstarpu_variable_get_ptr

        subroutine fstarpu_vector_data_register(dh, home_node, ptr, nx, elt_size) &
                bind(C, name="starpu_vector_data_register")
            import :: c_int, c_ptr, c_size_t
            type(c_ptr), intent(out) :: dh
            integer(c_int), value, intent(in) :: home_node
            type(c_ptr), value, intent(in) :: ptr
            integer(c_int), value, intent(in) :: nx
            integer(c_size_t), value, intent(in) :: elt_size
        end subroutine fstarpu_vector_data_register

        function fstarpu_vector_get_ptr(buffers, i) bind(C) result(it)
            import :: c_int, c_ptr
            type(c_ptr), value, intent(in) :: buffers
            integer(c_int), value, intent(in) :: i
            type(c_ptr) :: it
        end function fstarpu_vector_get_ptr

        function fstarpu_vector_get_nx(buffers, i) bind(C) result(it)
            import :: c_int, c_ptr
            type(c_ptr), value, intent(in) :: buffers
            integer(c_int), value, intent(in) :: i
            integer(c_int) :: it
        end function fstarpu_vector_get_nx

        subroutine fstarpu_matrix_data_register(dh, home_node, ptr, ld, nx, ny, elt_size) &
                bind(C, name="starpu_matrix_data_register")
            import :: c_int, c_ptr, c_size_t
            type(c_ptr), intent(out) :: dh
            integer(c_int), value, intent(in) :: home_node
            type(c_ptr), value, intent(in) :: ptr
            integer(c_int), value, intent(in) :: ld
            integer(c_int), value, intent(in) :: nx
            integer(c_int), value, intent(in) :: ny
            integer(c_size_t), value, intent(in) :: elt_size
        end subroutine fstarpu_matrix_data_register

        function fstarpu_matrix_get_ptr(buffers, i) bind(C) result(it)
            import :: c_int, c_ptr
            type(c_ptr), value, intent(in) :: buffers
            integer(c_int), value, intent(in) :: i
            type(c_ptr) :: it
        end function fstarpu_matrix_get_ptr

        function fstarpu_matrix_get_ld(buffers, i) bind(C) result(it)
            import :: c_int, c_ptr
            type(c_ptr), value, intent(in) :: buffers
            integer(c_int), value, intent(in) :: i
            integer(c_int) :: it
        end function fstarpu_matrix_get_ld

        function fstarpu_matrix_get_nx(buffers, i) bind(C) result(it)
            import :: c_int, c_ptr
            type(c_ptr), value, intent(in) :: buffers
            integer(c_int), value, intent(in) :: i
            integer(c_int) :: it
        end function fstarpu_matrix_get_nx

        function fstarpu_matrix_get_ny(buffers, i) bind(C) result(it)
            import :: c_int, c_ptr
            type(c_ptr), value, intent(in) :: buffers
            integer(c_int), value, intent(in) :: i
            integer(c_int) :: it
        end function fstarpu_matrix_get_ny

        subroutine fstarpu_data_unregister(dh) bind(C, name="starpu_data_unregister")
            import :: c_ptr
            type(c_ptr), value, intent(in) :: dh
        end subroutine fstarpu_data_unregister

        function fstarpu_data_acquire(dh, mode) bind(C) result(it)
            import :: c_int, c_ptr
            type(c_ptr), value, intent(in) :: dh
            type(c_ptr), value, intent(in) :: mode
            integer(c_int) :: it
        end function fstarpu_data_acquire

        subroutine fstarpu_data_release(dh) bind(C, name="starpu_data_release")
            import :: c_ptr
            type(c_ptr), value, intent(in) :: dh
        end subroutine fstarpu_data_release
    end interface

    private :: fstarpu_both

contains

    ! Returns the modes of both.
    elemental function fstarpu_both(one, other) result(both)
        type(c_ptr), intent(in) :: one, other
        type(c_ptr) :: both

        both = &
            transfer(ior(transfer(one, 0_c_intptr_t), transfer(other, 0_c_intptr_t)), C_NULL_PTR)
    end function fstarpu_both

end module fstarpu_mod
