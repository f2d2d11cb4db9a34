# SPDX-License-Identifier: MIT
# An asynchronous allreduce from Julia.
#   LD_LIBRARY_PATH=… qpmesh-run -np 4 julia allreduce.jl
const lib = "libqpmesh"
const FLOAT64, SUM = Cint(10), Cint(0)
check(code) = code == 0 || error(unsafe_string(@ccall lib.qpmesh_error_text()::Cstring))

values, world, request = ones(1000), Ref(C_NULL), Ref(C_NULL)
check(@ccall lib.qpmesh_init(world::Ptr{Ptr{Cvoid}})::Cint)
GC.@preserve values begin
    check(@ccall lib.qpmesh_allreduce_async(world[]::Ptr{Cvoid}, values::Ptr{Cdouble}, values::Ptr{Cdouble}, length(values)::Csize_t,
        FLOAT64::Cint, SUM::Cint, C_NULL::Ptr{Cvoid}, request::Ptr{Ptr{Cvoid}})::Cint)
    check(@ccall lib.qpmesh_wait(request[]::Ptr{Cvoid}, C_NULL::Ptr{Cvoid})::Cint)  # after other work
end
check(@ccall lib.qpmesh_request_free(request[]::Ptr{Cvoid})::Cint)
if (@ccall lib.qpmesh_rank(world[]::Ptr{Cvoid})::Cint) == 0
    println(@ccall(lib.qpmesh_size(world[]::Ptr{Cvoid})::Cint), " ranks, each element ", Int(values[end]))
end
check(@ccall lib.qpmesh_finalize(world[]::Ptr{Cvoid}, C_NULL::Ptr{Cvoid})::Cint)
