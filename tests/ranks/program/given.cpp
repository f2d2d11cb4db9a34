// SPDX-License-Identifier: MIT
#include "program/given.hpp"

#include <array>

namespace qpmesh::ranks {
namespace {

void make(Communicator& world, const Given& given) {
  const auto& [collective, in, out, in_layout, out_layout, reduction, root, call] = given;
  switch (collective) {
    case Collective::barrier: return world.barrier(call);
    case Collective::broadcast: return world.broadcast(out, root, call);
    case Collective::reduce: return world.reduce(in, out, reduction, root, call);
    case Collective::allreduce: return world.allreduce(in, out, reduction, call);
    case Collective::scan: return world.scan(in, out, reduction, call);
    case Collective::exscan: return world.exscan(in, out, reduction, call);
    case Collective::reduce_scatter:
      return in_layout ? world.reduce_scatter(blocks(in, *in_layout), out, reduction, call)
                       : world.reduce_scatter(in, out, reduction, call);
    case Collective::allgather:
      return out_layout ? world.allgather(in, blocks(out, *out_layout), call)
                        : world.allgather(in, out, call);
    case Collective::gather:
      return out_layout ? world.gather(in, blocks(out, *out_layout), root, call)
                        : world.gather(in, out, root, call);
    case Collective::scatter:
      return in_layout ? world.scatter(blocks(in, *in_layout), out, root, call)
                       : world.scatter(in, out, root, call);
    case Collective::alltoall:
      return in_layout ? world.alltoall(blocks(in, *in_layout), blocks(out, *out_layout), call)
                       : world.alltoall(in, out, call);
  }
}

// Throws where it is called, so its request is never one to wait for.
Request make_async(Communicator& world, const Given& given) {
  const auto& [collective, in, out, in_layout, out_layout, reduction, root, call] = given;
  switch (collective) {
    case Collective::barrier: return world.barrier_async(call);
    case Collective::broadcast: return world.broadcast_async(out, root, call);
    case Collective::reduce: return world.reduce_async(in, out, reduction, root, call);
    case Collective::allreduce: return world.allreduce_async(in, out, reduction, call);
    case Collective::scan: return world.scan_async(in, out, reduction, call);
    case Collective::exscan: return world.exscan_async(in, out, reduction, call);
    case Collective::reduce_scatter:
      return in_layout ? world.reduce_scatter_async(blocks(in, *in_layout), out, reduction, call)
                       : world.reduce_scatter_async(in, out, reduction, call);
    case Collective::allgather:
      return out_layout ? world.allgather_async(in, blocks(out, *out_layout), call)
                        : world.allgather_async(in, out, call);
    case Collective::gather:
      return out_layout ? world.gather_async(in, blocks(out, *out_layout), root, call)
                        : world.gather_async(in, out, root, call);
    case Collective::scatter:
      return in_layout ? world.scatter_async(blocks(in, *in_layout), out, root, call)
                       : world.scatter_async(in, out, root, call);
    case Collective::alltoall:
      return in_layout
                 ? world.alltoall_async(blocks(in, *in_layout), blocks(out, *out_layout), call)
                 : world.alltoall_async(in, out, call);
  }
  return {};
}

constexpr std::array<std::string_view, collective_count> names{
    "barrier", "broadcast", "reduce",   "allgather", "reduce_scatter", "allreduce",
    "gather",  "scatter",   "alltoall", "scan",      "exscan"};

}  // namespace

void refused(Communicator& world, const Given& given, const std::string& cause,
             const std::string& hint, int peer, Place place) {
  const std::string name{names[static_cast<std::size_t>(given.collective)]};
  expect_error([&] { make(world, given); }, {ErrorCode::bad_argument, peer, name, cause, hint},
               place);
  expect_error([&] { const Request request = make_async(world, given); },
               {ErrorCode::bad_argument, peer, name + "_async", cause, hint}, place);
}

}  // namespace qpmesh::ranks
