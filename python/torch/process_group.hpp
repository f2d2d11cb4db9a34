// torch.distributed's interface over the library's for C.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flight.hpp"
#include "tensors.hpp"

namespace qpmesh_torch {

// Every operation is begun at once, and ends in wait(), in any other call of the group's context,
// or in the background. What is wrong with the arguments is thrown at once, what happens later by
// wait(). Collectives are called in one order by all ranks; any thread may call.
class ProcessGroup final : public c10d::Backend {
 public:
  using Begun = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<std::vector<at::Tensor>>;

  explicit ProcessGroup(std::shared_ptr<Group> group)
      : c10d::Backend{group->rank(), group->size()}, group_{std::move(group)} {}

  const std::string getBackendName() const override { return "qpmesh"; }
  const std::shared_ptr<Group>& group() const noexcept { return group_; }

  Begun broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Begun allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  // As one operation: what is short goes together in one vector.
  Begun allreduce_coalesced(Tensors& tensors,
                            const c10d::AllreduceCoalescedOptions& options) override;
  Begun reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  // Tensors of a list may differ in length, as those that ranks give.
  Begun allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  Begun _allgather_base(at::Tensor& output, at::Tensor& input,
                        const c10d::AllgatherOptions& options) override;
  // outputs[r][i] is what rank r gave as inputs[i].
  Begun allgather_coalesced(Lists& outputs, Tensors& inputs,
                            const c10d::AllgatherOptions& options) override;
  Begun gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Begun scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override;
  Begun reduce_scatter(Tensors& outputs, Lists& inputs,
                       const c10d::ReduceScatterOptions& options) override;
  Begun _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                             const c10d::ReduceScatterOptions& options) override;
  // All ranks give split sizes, or none does.
  Begun alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                      std::vector<int64_t>& input_splits,
                      const c10d::AllToAllOptions& options) override;
  Begun alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  Begun barrier(const c10d::BarrierOptions& options) override;
  // A barrier that has ended; the error names who is missing: one of them, or all. Where rank 0 is
  // missing, of whom the others hear who has come, each is told of rank 0 alone.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  Begun send(Tensors& tensors, int destination, int tag) override;
  Begun recv(Tensors& tensors, int source, int tag) override;
  Begun recvAnysource(Tensors& tensors, int tag) override;

  // All ranks count their collectives from the same number on.
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return collectives_; }

 private:
  class Launch;
  // Error: it is negative, or one of the backend's own.
  void require_tag(const char* operation, int tag) const;
  Begun receive(c10d::OpType type, const char* operation, Tensors& tensors, int source, int tag);

  const std::shared_ptr<Group> group_;
  std::atomic<std::uint64_t> collectives_ = 0;
  // Those that wait for all ranks. They are no collectives: the group goes on when a rank has not
  // come, which has one less of them then, and the sparse sums of all need one number.
  std::atomic<std::uint64_t> monitored_barriers_ = 0;
};

}  // namespace qpmesh_torch
