// SPDX-License-Identifier: MIT
#include "collective_call.hpp"

namespace qpmesh::mpi {

std::array<std::array<std::atomic<std::uint32_t>, predefined_datatypes>, 0x20> simple_reductions;

How Call::find_out_how(MPI_Op op, MPI_Datatype datatype) {
  const bool is_empty = committed_type(datatype).size == 0;
  How how{};
  const auto fill = [&](Reduction& reduction) {
    how = {reduction.type, reduction.reduction, reduction.packed, is_empty};
    if (how.reduction == QPMESH_USER) how.options = &user_options(reduction);
  };
  if (request_ == nullptr) {
    fill(reduction_.emplace(op, datatype));
  } else {
    auto& kept = request_->need_extra().reduction;
    kept = std::make_unique<Reduction>(op, datatype);
    fill(*kept);
  }
  std::atomic<std::uint32_t>* const simple = simple_reduction(op, datatype);
  if (simple != nullptr && !how.packed && how.options == nullptr && how.type < 256)
    simple->store(
        (static_cast<std::uint32_t>(how.type) << 8 | static_cast<std::uint32_t>(how.reduction)) + 1,
        std::memory_order_relaxed);
  return how;
}

qpmesh_call& Call::user_options(Reduction& reduction) {
  qpmesh_call& options =
      request_ == nullptr ? user_.emplace() : request_->need_extra().user.emplace();
  options = {};
  options.struct_bytes = sizeof options;
  reduction.add_to(options);
  return options;
}

void exchange_blocks(Call& call, const qpmesh_blocks& in, const qpmesh_blocks& out) {
  call.run(
      [in = copied(in), out = copied(out)](qpmesh_communicator* mesh, qpmesh_request** request) {
        return request == nullptr
                   ? qpmesh_alltoallv(mesh, &in, &out, QPMESH_BYTE, nullptr)
                   : qpmesh_alltoallv_async(mesh, &in, &out, QPMESH_BYTE, nullptr, request);
      });
}

}  // namespace qpmesh::mpi
