// SPDX-License-Identifier: MIT
#include "program/every_call.hpp"

#include <array>
#include <optional>
#include <span>

namespace qpmesh::ranks {
namespace {

// As many elements as there are ranks, and one of them.
std::array<std::int64_t, 64> all{};
std::array<std::int64_t, 64> others{};
std::int64_t one = 0;
std::optional<Communicator> made;

std::span<std::int64_t> of_all(const Communicator& group) {
  return std::span{all}.first(static_cast<std::size_t>(group.size()));
}
std::span<std::int64_t> of_others(const Communicator& group) {
  return std::span{others}.first(static_cast<std::size_t>(group.size()));
}

}  // namespace

const std::vector<AnyCall>& every_call() {
  using Group = Communicator;
  static const std::vector<AnyCall> calls{
      {"send", [](Group& group) { group.send(one, 0); }},
      {"receive", [](Group& group) { group.receive(one); }},
      {"match", [](Group& group) { (void)group.receive<int>(); }},
      {"sendrecv", [](Group& group) { group.sendrecv(all, 0, others, 0); }},
      {"send_async", [](Group& group) { (void)group.send_async(one, 0); }},
      {"receive_async", [](Group& group) { (void)group.receive_async(one); }},
      {"sendrecv_async", [](Group& group) { (void)group.sendrecv_async(all, 0, others, 0); }},
      {"probe", [](Group& group) { group.probe(); }},
      {"try_probe", [](Group& group) { group.try_probe(); }},
      {"match", [](Group& group) { (void)group.match(); }},
      {"try_match", [](Group& group) { (void)group.try_match(); }},

      {"barrier", [](Group& group) { group.barrier(); }},
      {"broadcast", [](Group& group) { group.broadcast(one, 0); }},
      {"allreduce", [](Group& group) { group.allreduce(all, sum); }},
      {"allreduce", [](Group& group) { (void)group.allreduce(one, sum); }},
      {"allreduce_each",
       [](Group& group) { group.allreduce_each(std::array{std::span{all}}, sum); }},
      {"reduce", [](Group& group) { group.reduce(all, sum, 0); }},
      {"reduce_scatter", [](Group& group) { group.reduce_scatter(of_all(group), one, sum); }},
      {"scan", [](Group& group) { group.scan(all, others, sum); }},
      {"exscan", [](Group& group) { group.exscan(all, others, sum); }},
      {"allgather", [](Group& group) { group.allgather(one, of_all(group)); }},
      {"allgather", [](Group& group) { (void)group.allgather(one); }},
      {"gather", [](Group& group) { group.gather(one, of_all(group), 0); }},
      {"scatter", [](Group& group) { group.scatter(of_all(group), one, 0); }},
      {"alltoall", [](Group& group) { group.alltoall(of_all(group), of_others(group)); }},

      {"barrier_async", [](Group& group) { (void)group.barrier_async(); }},
      {"broadcast_async", [](Group& group) { (void)group.broadcast_async(one, 0); }},
      {"allreduce_async", [](Group& group) { (void)group.allreduce_async(all, sum); }},
      {"allreduce_each_async",
       [](Group& group) { (void)group.allreduce_each_async(std::array{std::span{all}}, sum); }},
      {"allreduce_each",
       [](Group& group) { group.allreduce_each(std::array<std::span<int>, 0>{}, sum); }},
      {"reduce_async", [](Group& group) { (void)group.reduce_async(all, sum, 0); }},
      {"reduce_scatter_async",
       [](Group& group) { (void)group.reduce_scatter_async(of_all(group), one, sum); }},
      {"scan_async", [](Group& group) { (void)group.scan_async(all, others, sum); }},
      {"exscan_async", [](Group& group) { (void)group.exscan_async(all, others, sum); }},
      {"allgather_async", [](Group& group) { (void)group.allgather_async(one, of_all(group)); }},
      {"gather_async", [](Group& group) { (void)group.gather_async(one, of_all(group), 0); }},
      {"scatter_async", [](Group& group) { (void)group.scatter_async(of_all(group), one, 0); }},
      {"alltoall_async",
       [](Group& group) { (void)group.alltoall_async(of_all(group), of_others(group)); }},

      {"allocate", [](Group& group) { group.allocate<int>(4); }},
      {"allocate_here", [](Group& group) { group.allocate_here<int>(4); }},
      {"split", [](Group& group) { group.split(0); }},
      {"split_node", [](Group& group) { group.split_node(); }},
      {"duplicate", [](Group& group) { group.duplicate(); }},
      {"split_async", [](Group& group) { (void)group.split_async(made, 0); }},
      {"duplicate_async", [](Group& group) { (void)group.duplicate_async(made); }},
      {"subgroup", [](Group& group) { group.subgroup(std::array{group.rank()}); }},
      {"self", [](Group& group) { group.self(); }},
      {"independent", [](Group& group) { group.independent(); }},
      {"finish", [](Group& group) { group.finish(); }},

      {"ranks_in", [](Group& group) { (void)group.ranks_in(group); }, true},
      {"progress", [](Group& group) { group.progress(); }, true},
      {"wait_fd", [](Group& group) { group.wait_fd(); }, true},
      {"arm_wait", [](Group& group) { group.arm_wait(); }, true}};
  return calls;
}

}  // namespace qpmesh::ranks
