! SPDX-License-Identifier: MIT
! An asynchronous allreduce from Fortran: iso_c_binding alone.
!   gfortran allreduce.f90 -lqpmesh -o allreduce && qpmesh-run -np 4 allreduce
module qpmesh
  use iso_c_binding
  implicit none
  integer(c_int), parameter :: qpmesh_float64 = 10, qpmesh_sum = 0
  interface
    integer(c_int) function qpmesh_init(world) bind(c)
      import; type(c_ptr), intent(out) :: world
    end function
    integer(c_int) function qpmesh_finalize(world, call) bind(c)
      import; type(c_ptr), value :: world, call
    end function
    integer(c_int) function qpmesh_rank(world) bind(c)
      import; type(c_ptr), value :: world
    end function
    integer(c_int) function qpmesh_size(world) bind(c)
      import; type(c_ptr), value :: world
    end function
    integer(c_int) function qpmesh_allreduce_async(world, in, out, count, type, reduction, call, request) bind(c)
      import
      type(c_ptr), value :: world, in, out, call
      integer(c_size_t), value :: count
      integer(c_int), value :: type, reduction
      type(c_ptr), intent(out) :: request
    end function
    integer(c_int) function qpmesh_wait(request, status) bind(c)
      import; type(c_ptr), value :: request, status
    end function
    integer(c_int) function qpmesh_request_free(request) bind(c)
      import; type(c_ptr), value :: request
    end function
  end interface
end module

program allreduce
  use qpmesh
  implicit none
  real(c_double), target, asynchronous :: values(1000)
  type(c_ptr) :: world, request
  values = 1
  call check(qpmesh_init(world), 'init')
  call check(qpmesh_allreduce_async(world, c_loc(values), c_loc(values), 1000_c_size_t, qpmesh_float64, &
                                    qpmesh_sum, c_null_ptr, request), 'allreduce_async')
  call check(qpmesh_wait(request, c_null_ptr), 'wait')  ! after other work
  call check(qpmesh_request_free(request), 'request_free')
  if (qpmesh_rank(world) == 0) print '(i0, a, i0)', qpmesh_size(world), ' ranks, each element ', int(values(1000))
  call check(qpmesh_finalize(world, c_null_ptr), 'finalize')
contains
  subroutine check(code, operation)
    integer(c_int), intent(in) :: code
    character(*), intent(in) :: operation
    if (code /= 0) error stop operation
  end subroutine
end program
