// SPDX-License-Identifier: MIT
// Collectives that reduce.
#include "collective_call.hpp"

namespace qpmesh::mpi {
namespace {

struct Operands {
  const std::byte* in;
  std::byte* out;
};

// in has in_count elements, out has out_count of them.
Operands operands(Call& call, const How& how, const void* send, MPI_Count in_count, void* receive,
                  MPI_Count out_count, MPI_Datatype datatype) {
  const bool in_place = send == MPI_IN_PLACE;
  const Elements out = given(receive, out_count, datatype);
  const Elements in =
      in_place ? Elements{receive, in_count, out.type} : given(send, in_count, datatype);
  if (!how.packed) {
    auto* const target = const_cast<std::byte*>(out.first_byte());
    if (!in_place) return {in.first_byte(), target};
    if (in_count == out_count) return {target, target};
    // The result of a part lies at the beginning of the whole, which is copied as it lies: structs
    // of pairs have gaps, which packing would leave out.
    const Elements whole{in.first_byte(), in_count * in.type->extent(), datatype_of(MPI_BYTE)};
    return {call.staging().packed(whole), target};
  }
  std::byte* const target = call.staging().unpacked(out);
  if (in_place && in_count == out_count) {
    call.staging().pack_to(in, target);
    return {target, target};
  }
  return {call.staging().packed(in), target};
}

void allreduce(Call& call, const void* send, void* receive, MPI_Count count, MPI_Datatype datatype,
               MPI_Op op) {
  const How how = call.how(op, datatype);
  const auto [source, target] = operands(call, how, send, count, receive, count, datatype);
  const std::size_t n = how.count(count);
  call.run([=, in = source, out = target](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_allreduce(mesh, in, out, n, how.type, how.reduction, how.options)
               : qpmesh_allreduce_async(mesh, in, out, n, how.type, how.reduction, how.options,
                                        request);
  });
}

void reduce(Call& call, const void* send, void* receive, MPI_Count count, MPI_Datatype datatype,
            MPI_Op op, int root) {
  check_root(call.communicator(), root);
  const How how = call.how(op, datatype);
  const bool at_root = call.rank() == root;
  Operands of{};
  if (at_root) {
    of = operands(call, how, send, count, receive, count, datatype);
  } else {
    const Elements sent = given(send, count, datatype);
    of.in = how.packed ? call.staging().packed(sent) : sent.first_byte();
  }
  const std::size_t n = how.count(count);
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_reduce(mesh, of.in, of.out, n, how.type, how.reduction, root, how.options)
               : qpmesh_reduce_async(mesh, of.in, of.out, n, how.type, how.reduction, root,
                                     how.options, request);
  });
}

void reduce_scatter_block(Call& call, const void* send, void* receive, MPI_Count count,
                          MPI_Datatype datatype, MPI_Op op) {
  require(count >= 0, MPI_ERR_COUNT, "a count of ", count);
  const How how = call.how(op, datatype);
  const Operands of = operands(call, how, send, count * call.size(), receive, count, datatype);
  const std::size_t n = how.count(count);
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_reduce_scatter(mesh, of.in, of.out, n, how.type, how.reduction, how.options)
               : qpmesh_reduce_scatter_async(mesh, of.in, of.out, n, how.type, how.reduction,
                                             how.options, request);
  });
}

void reduce_scatter(Call& call, const void* send, void* receive, Numbers counts,
                    MPI_Datatype datatype, MPI_Op op) {
  require(!counts.is_null(), MPI_ERR_ARG, "the list of counts is null");
  const How how = call.how(op, datatype);
  auto* const lengths = call.list<std::size_t>(call.size());
  MPI_Count all = 0;
  for (int i = 0; i < call.size(); ++i) {
    require(counts[i] >= 0, MPI_ERR_COUNT, "block ", i, " has a count of ", counts[i]);
    lengths[i] = how.count(counts[i]);
    all += counts[i];
  }
  const MPI_Count own = counts[call.rank()];
  Operands of{};
  if (own > 0 || send == MPI_IN_PLACE) of = operands(call, how, send, all, receive, own, datatype);
  else  // nothing comes here: the buffer may be null
    of.in = how.packed ? call.staging().packed(given(send, all, datatype))
                       : given(send, all, datatype).first_byte();
  const qpmesh_blocks in{const_cast<std::byte*>(of.in), lengths, nullptr, nullptr};
  const std::size_t n = how.count(own);
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_reduce_scatterv(mesh, &in, of.out, n, how.type, how.reduction, how.options)
               : qpmesh_reduce_scatterv_async(mesh, &in, of.out, n, how.type, how.reduction,
                                              how.options, request);
  });
}

void scan(Call& call, const void* send, void* receive, MPI_Count count, MPI_Datatype datatype,
          MPI_Op op) {
  const How how = call.how(op, datatype);
  const Operands of = operands(call, how, send, count, receive, count, datatype);
  const std::size_t n = how.count(count);
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_scan(mesh, of.in, of.out, n, how.type, how.reduction, how.options)
               : qpmesh_scan_async(mesh, of.in, of.out, n, how.type, how.reduction, how.options,
                                   request);
  });
}

void exscan(Call& call, const void* send, void* receive, MPI_Count count, MPI_Datatype datatype,
            MPI_Op op) {
  const How how = call.how(op, datatype);
  Operands of{};
  if (call.rank() > 0) {
    of = operands(call, how, send, count, receive, count, datatype);
  } else {  // rank 0 gets nothing: its buffer may be anything, and stays as it is
    const Elements in = given(send == MPI_IN_PLACE ? receive : send, count, datatype);
    of.in = how.packed ? call.staging().packed(in) : in.first_byte();
    of.out = const_cast<std::byte*>(of.in);
  }
  const std::size_t n = how.count(count);
  call.run([=](qpmesh_communicator* mesh, qpmesh_request** request) {
    return request == nullptr
               ? qpmesh_exscan(mesh, of.in, of.out, n, how.type, how.reduction, how.options)
               : qpmesh_exscan_async(mesh, of.in, of.out, n, how.type, how.reduction, how.options,
                                     request);
  });
}

}  // namespace
}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

#define QPMESH_MPI_ENTRIES "collective_reductions.inc"
#include "counted_entries.inc"
