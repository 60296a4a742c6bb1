! Vectors, a matrix, a variable and values of tasks in Fortran.
module codelets
contains
    ! y = alpha x + y
    recursive subroutine axpy(buffers, cl_arg) bind(C)
        use iso_c_binding
        use fstarpu_mod
        type(c_ptr), value, intent(in) :: buffers, cl_arg
        real(c_double), pointer :: x(:), y(:)
        real(c_double), target :: alpha
        integer(c_int), target :: first
        integer :: n

        call fstarpu_unpack_arg(cl_arg, (/ c_loc(alpha), c_loc(first) /))
        n = fstarpu_vector_get_nx(buffers, 0)
        call c_f_pointer(fstarpu_vector_get_ptr(buffers, 0), x, shape=[n])
        call c_f_pointer(fstarpu_vector_get_ptr(buffers, 1), y, shape=[n])
        y(first:) = alpha * x(first:) + y(first:)
    end subroutine axpy

    ! Doubles a matrix and adds its entries to a variable.
    recursive subroutine total(buffers, cl_arg) bind(C)
        use iso_c_binding
        use fstarpu_mod
        type(c_ptr), value, intent(in) :: buffers, cl_arg
        real(c_double), pointer :: a(:, :), sum_of_all
        integer :: ld, nx, ny

        ld = fstarpu_matrix_get_ld(buffers, 0)
        nx = fstarpu_matrix_get_nx(buffers, 0)
        ny = fstarpu_matrix_get_ny(buffers, 0)
        call c_f_pointer(fstarpu_matrix_get_ptr(buffers, 0), a, shape=[ld, ny])
        call c_f_pointer(fstarpu_variable_get_ptr(buffers, 1), sum_of_all)
        a(1:nx, :) = 2 * a(1:nx, :)
        sum_of_all = sum_of_all + sum(a(1:nx, :))
    end subroutine total
end module codelets

program fortran
    use iso_c_binding
    use fstarpu_mod
    use codelets
    implicit none

    integer, parameter :: n = 1000
    real(c_double), target :: x(n), y(n), a(7, 4), sum_of_all
    real(c_double), target :: alpha = 2
    integer(c_int), target :: first = 3, priority = 1
    type(c_ptr) :: model, cl_axpy, cl_total, dh_x, dh_y, dh_a, dh_sum
    integer :: i

    x = [(i, i = 1, n)]
    y = 1
    a = 1
    sum_of_all = 0
    if (fstarpu_init(C_NULL_PTR) /= 0) error stop "no worker"
    if (fstarpu_cpu_worker_get_count() < 1) error stop "no CPU worker"
    call fstarpu_pause
    if (fstarpu_is_paused() == 0) error stop "not paused"
    call fstarpu_resume

    model = fstarpu_perfmodel_allocate()
    call fstarpu_perfmodel_set_symbol(model, C_CHAR_"fortran_axpy"//C_NULL_CHAR)
    call fstarpu_perfmodel_set_type(model, FSTARPU_HISTORY_BASED)
    cl_axpy = fstarpu_codelet_allocate()
    call fstarpu_codelet_set_name(cl_axpy, C_CHAR_"axpy"//C_NULL_CHAR)
    call fstarpu_codelet_set_model(cl_axpy, model)
    call fstarpu_codelet_add_cpu_func(cl_axpy, c_funloc(axpy))
    call fstarpu_codelet_set_where(cl_axpy, FSTARPU_CPU)
    call fstarpu_codelet_set_type(cl_axpy, FSTARPU_SEQ)
    call fstarpu_codelet_set_max_parallelism(cl_axpy, 1)
    call fstarpu_codelet_add_buffer(cl_axpy, FSTARPU_R)
    call fstarpu_codelet_add_buffer(cl_axpy, FSTARPU_RW.ior.FSTARPU_LOCALITY)
    cl_total = fstarpu_codelet_allocate()
    call fstarpu_codelet_set_name(cl_total, C_CHAR_"total"//C_NULL_CHAR)
    call fstarpu_codelet_add_cpu_func(cl_total, c_funloc(total))
    call fstarpu_codelet_add_buffer(cl_total, FSTARPU_RW)
    call fstarpu_codelet_add_buffer(cl_total, FSTARPU_RW)

    call fstarpu_vector_data_register(dh_x, 0, c_loc(x), n, c_sizeof(x(1)))
    call fstarpu_vector_data_register(dh_y, 0, c_loc(y), n, c_sizeof(y(1)))
    call fstarpu_matrix_data_register(dh_a, 0, c_loc(a), 7, 5, 4, c_sizeof(a(1, 1)))
    call fstarpu_variable_data_register(dh_sum, 0, c_loc(sum_of_all), c_sizeof(sum_of_all))
    do i = 1, 10
        call fstarpu_task_insert((/ cl_axpy, FSTARPU_R, dh_x, FSTARPU_RW.ior.FSTARPU_LOCALITY, dh_y, &
                FSTARPU_VALUE, c_loc(alpha), FSTARPU_SZ_C_DOUBLE, &
                FSTARPU_VALUE, c_loc(first), FSTARPU_SZ_C_INT, &
                FSTARPU_PRIORITY, c_loc(priority), FSTARPU_EXECUTE_WHERE, FSTARPU_CPU, C_NULL_PTR /))
        call fstarpu_insert_task((/ cl_total, FSTARPU_RW, dh_a, FSTARPU_RW, dh_sum, C_NULL_PTR /))
    end do
    if (fstarpu_data_acquire(dh_sum, FSTARPU_R) /= 0) error stop "not acquired"
    if (sum_of_all /= 20 * (2d0**11 - 2)) error stop "a wrong sum"
    call fstarpu_data_release(dh_sum)
    call fstarpu_task_wait_for_all()

    call fstarpu_data_unregister(dh_x)
    call fstarpu_data_unregister(dh_y)
    call fstarpu_data_unregister(dh_a)
    call fstarpu_data_unregister(dh_sum)
    if (any(y(1:2) /= 1) .or. any(y(3:) /= 20 * x(3:) + 1)) error stop "a wrong vector"
    if (any(a(1:5, :) /= 1024) .or. any(a(6:7, :) /= 1)) error stop "a wrong matrix"
    call fstarpu_codelet_free(cl_axpy)
    call fstarpu_codelet_free(cl_total)
    call fstarpu_shutdown()
    call fstarpu_perfmodel_free(model)
end program fortran
