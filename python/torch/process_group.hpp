// SPDX-License-Identifier: MIT
// torch.distributed's interface over the library's for C.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "flight.hpp"
#include "monitored_barrier.hpp"
#include "sparse.hpp"
#include "tensors.hpp"

namespace qpmesh_torch {

using Begun = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<std::vector<at::Tensor>>;

// One operation from its arguments to its Work. An operation that its caller awaits at once, as
// torch's options say, runs in the calling thread: nothing else need know of it.
class Launch {
 public:
  // operation: for texts; title: for the profiler.
  template <class Options>
  Launch(std::shared_ptr<Group> group, c10d::OpType type, const char* operation, const char* title,
         const Options& options, bool is_awaitable = true)
      : Launch{std::move(group),
               type,
               operation,
               title,
               options.timeout,
               is_awaitable && is_awaited(options),
               true} {}
  // A message.
  Launch(std::shared_ptr<Group> group, c10d::OpType type, const char* operation, const char* title)
      : Launch{std::move(group), type, operation, title, c10d::kUnsetTimeout, false, false} {}

  Flight& flight() noexcept { return *flight_; }
  const Doing& doing() const noexcept { return flight_->doing(); }

  // ---- arguments ----
  [[noreturn]] void refuse(const std::string& cause, const std::string& hint) const {
    bad_argument(doing(), cause, hint);
  }
  const at::Tensor& only(const Tensors& tensors) const {
    if (tensors.size() == 1) return tensors.front();
    refuse("the list has " + std::to_string(tensors.size()) + " tensors",
           "give one tensor; allreduce, broadcast and allgather take several");
  }
  const Tensors& only(const Lists& lists) const {
    if (lists.size() == 1) return lists.front();
    refuse("there are " + std::to_string(lists.size()) + " lists of tensors", "give one list");
  }
  // Several of a rank, each of which counts as a rank's own.
  void require_alike(const Tensors& tensors) const {
    if (tensors.empty()) refuse("the list of tensors is empty", "give one");
    for (const at::Tensor& tensor : tensors) {
      elements(tensor);
      if (tensor.sizes() != tensors.front().sizes() ||
          tensor.scalar_type() != tensors.front().scalar_type())
        refuse("the tensors of the list differ in shape or type",
               "give all alike; others are for the _coalesced calls");
    }
  }
  // The list that the root alone has; null on other ranks.
  const Tensors* of_root(const Lists& lists, std::int64_t root) const {
    if (root == group().rank()) return &only(lists);
    if (lists.empty()) return nullptr;
    refuse("a list of tensors, and rank " + std::to_string(root) + " is the root",
           "the root alone gives the list");
  }
  int root(std::int64_t rank, std::int64_t tensor = 0, std::size_t count = 1) const {
    if (tensor < 0 || static_cast<std::size_t>(tensor) >= count)
      refuse("root tensor " + std::to_string(tensor) + " of " + std::to_string(count),
             "they count from 0");
    return static_cast<int>(rank);
  }
  Elements elements(const at::Tensor& tensor) const { return elements_of(tensor, doing()); }
  Reduction reduction(const c10d::ReduceOp& op, const at::Tensor& tensor) {
    const Reduction how = reduction_of(op, tensor, doing());
    call_.function = how.function;
    return how;
  }
  void require_one_type(const at::Tensor& one, const at::Tensor& other) const {
    if (one.scalar_type() == other.scalar_type()) return;
    refuse(std::string{"tensors of "} + c10::toString(one.scalar_type()) + " and " +
               c10::toString(other.scalar_type()),
           "give both of one type");
  }
  // whole has one block of the length of part for each rank, and is of its type.
  void require_blocks(const at::Tensor& whole, const at::Tensor& part) const {
    elements(whole);
    require_one_type(part, whole);
    if (whole.numel() == part.numel() * group().size()) return;
    refuse("one tensor has " + std::to_string(whole.numel()) + " elements, the other " +
               std::to_string(part.numel()),
           "the long one is as long as " + std::to_string(group().size()) +
               " of the short one: one for each rank");
  }
  void require_lists(std::size_t outputs, std::size_t inputs, const char* hint) const {
    if (outputs == inputs) return;
    refuse("there are " + std::to_string(outputs) + " output lists and " + std::to_string(inputs) +
               " inputs",
           hint);
  }

  // ---- the operation ----
  // When all arguments were looked at. results: what Work and its future give.
  void open(Tensors results) {
    work_ = c10::make_intrusive<Work>(flight_, group().rank(), type_, title_, results);
    flight_->set_results(std::move(results));
  }
  // Calls the blocking function of the library, null where it has no part in this, or begins by the
  // other one.
  template <class Now, class Later, class... Arguments>
  void call(Now now, Later later, Arguments... arguments) {
    const int code = [&] {
      if constexpr (!std::is_null_pointer_v<Now>) {
        const Group::Waiting waiting{group()};
        if (is_awaited_) return now(communicator_, arguments..., &call_);
      }
      return later(communicator_, arguments..., &call_, flight_->request());
    }();
    if (code == QPMESH_OK || (is_awaited_ && code != QPMESH_BAD_ARGUMENT)) count();
    if (code == QPMESH_OK) return;
    group().failed(code);
    throw_last_error(doing());
  }
  void reduce_here(const void* from, void* into, std::size_t count, const Reduction& how) {
    require_ok(qpmesh_reduce_local(from, into, count, how.elements.type, how.reduction, &call_),
               doing());
  }
  Begun done() {
    count();
    if (is_awaited_) flight_->end_here();
    else flight_->begins();
    return work_;
  }
  template <class Now, class Later, class... Arguments>
  Begun run(Tensors results, Now now, Later later, Arguments... arguments) {
    open(std::move(results));
    call(now, later, arguments...);
    return done();
  }

 private:
  Launch(std::shared_ptr<Group> group, c10d::OpType type, const char* operation, const char* title,
         std::chrono::milliseconds timeout, bool is_awaited, bool is_collective)
      : type_{type},
        title_{title},
        is_awaited_{is_awaited},
        uncounted_{is_collective},
        flight_{std::make_shared<Flight>(group, operation,
                                         group->collectives.load() + (is_collective ? 1 : 0),
                                         group->timeout_ms(timeout))},
        communicator_{flight_->group().communicator(flight_->doing())} {
    call_.struct_bytes = sizeof call_;
    call_.timeout_ms = flight_->timeout_ms();
    call_.commutative = 1;
  }
  template <class Options>
  static bool is_awaited(const Options& options) {
    if constexpr (requires { options.asyncOp; }) return !options.asyncOp;
    else return false;  // torch 2.6 tells few operations
  }
  Group& group() const noexcept { return flight_->group(); }
  void count() noexcept {
    if (std::exchange(uncounted_, false)) ++group().collectives;
  }

  const c10d::OpType type_;
  const char* title_;
  const bool is_awaited_;
  bool uncounted_;  // a collective that did not begin
  const std::shared_ptr<Flight> flight_;
  qpmesh_communicator* const communicator_;
  qpmesh_call call_{};
  c10::intrusive_ptr<Work> work_;
};

// The operations between startCoalescing and endCoalescing as one.
class Works final : public c10d::Work {
 public:
  explicit Works(std::vector<Begun> parts)
      : c10d::Work{-1, c10d::OpType::COALESCED}, parts_{std::move(parts)} {}
  bool isCompleted() override {
    return std::ranges::all_of(parts_, [](const Begun& each) { return each->isCompleted(); });
  }
  bool isSuccess() const override {
    return std::ranges::all_of(parts_, [](const Begun& each) { return each->isSuccess(); });
  }
  std::exception_ptr exception() const override {
    const auto failed = std::ranges::find_if(
        parts_, [](const Begun& each) { return each->exception() != nullptr; });
    return failed == parts_.end() ? nullptr : (*failed)->exception();
  }
  void synchronize() override {}
  bool wait(std::chrono::milliseconds timeout) override {
    for (const Begun& each : parts_) each->wait(timeout);
    return true;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures{
        c10::FutureType::create(c10::ListType::create(c10::TensorType::get()))};
    for (const Begun& each : parts_) futures.push_back(each->getFuture());
    return c10::collectAll(futures);
  }

 private:
  const std::vector<Begun> parts_;
};

// The type of getError(), which torch 2.6 has not.
template <class Backend>
auto error_of(Backend& backend) -> decltype(backend.getError());
int error_of(...);
using ErrorType = decltype(error_of(std::declval<c10d::Backend&>()));

// Every operation is begun at once, and ends in wait(), in any other call of the group's context,
// or in the background. What is wrong with the arguments is thrown at once, what happens later by
// wait(). Collectives are called in one order by all ranks; any thread may call. Functions without
// `override` are of later versions than torch 2.6.
class ProcessGroup final : public c10d::Backend {
 public:
  explicit ProcessGroup(std::shared_ptr<Group> group)
      : c10d::Backend{group->rank(), group->size()}, group_{std::move(group)} {}

  const std::string getBackendName() const override { return "qpmesh"; }
  // Error: the group was left.
  std::shared_ptr<Group> group() const {
    if (std::shared_ptr<Group> group = group_.load()) return group;
    bad_argument({"group", 0, nullptr}, "the group was left",
                 "make it again by init_process_group or new_group");
  }

  Begun broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    Launch launch{group(), c10d::OpType::BROADCAST, "broadcast", "qpmesh:broadcast", options};
    launch.require_alike(tensors);
    const int root = launch.root(options.rootRank, options.rootTensor, tensors.size());
    const at::Tensor& tensor = tensors[static_cast<std::size_t>(options.rootTensor)];
    const Elements elements = launch.elements(tensor);
    void* const data =
        root == getRank() ? source(launch.flight(), tensor) : target(launch.flight(), tensor);
    for (const at::Tensor& each : tensors) copy_at_end(launch.flight(), each, tensor);
    return added(launch.run(tensors, qpmesh_broadcast, qpmesh_broadcast_async, data,
                            elements.count(tensor), elements.type, root));
  }

  Begun allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const bool is_sparse =
        !tensors.empty() && tensors.front().defined() && tensors.front().is_sparse();
    Launch launch{group(),     c10d::OpType::ALLREDUCE,
                  "allreduce", is_sparse ? "qpmesh:sparse_all_reduce" : "qpmesh:all_reduce",
                  options,     !is_sparse};
    if (is_sparse) {
      require_sum(options.reduceOp, launch.doing());
      launch.open(tensors);
      begin_sparse_sum(launch.flight(), tensors);
      return added(launch.done());
    }
    launch.require_alike(tensors);
    const at::Tensor& tensor = tensors.front();
    const Reduction how = launch.reduction(options.reduceOp, tensor);
    if (how.reduction == QPMESH_AVERAGE && tensors.size() > 1)
      launch.refuse("there is no AVG of several tensors of a rank", "sum them");
    // Several are reduced in a copy: when the collective fails they are what they were.
    const at::Tensor result =
        tensors.size() == 1 ? tensor : tensor.detach().clone(at::MemoryFormat::Contiguous);
    void* const data = source_and_target(launch.flight(), result, &options.reduceOp);
    const std::size_t count = how.elements.count(result);
    std::vector<const void*> others;
    for (std::size_t i = 1; i < tensors.size(); ++i)
      others.push_back(source(launch.flight(), tensors[i], &options.reduceOp));
    for (const at::Tensor& each : tensors) copy_at_end(launch.flight(), each, result);
    for (const void* const other : others) launch.reduce_here(other, data, count, how);
    return added(launch.run(tensors, qpmesh_allreduce, qpmesh_allreduce_async, data, data, count,
                            how.elements.type, how.reduction));
  }

  // As one operation: what is short goes together in one vector.
  Begun allreduce_coalesced(Tensors& tensors,
                            const c10d::AllreduceCoalescedOptions& options) override {
    Launch launch{group(), c10d::OpType::ALLREDUCE_COALESCED, "allreduce_coalesced",
                  "qpmesh:all_reduce", options};
    Reduction how{.elements = {QPMESH_UINT8, 1}};
    std::vector<void*> vectors;
    std::vector<std::size_t> counts;
    for (const at::Tensor& tensor : tensors) {
      launch.require_one_type(tensors.front(), tensor);
      how = launch.reduction(options.reduceOp, tensor);
      vectors.push_back(source_and_target(launch.flight(), tensor, &options.reduceOp));
      counts.push_back(how.elements.count(tensor));
    }
    return added(launch.run(tensors, qpmesh_allreduce_each, qpmesh_allreduce_each_async,
                            vectors.data(), counts.data(), vectors.size(), how.elements.type,
                            how.reduction));
  }

  Begun reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    Launch launch{group(), c10d::OpType::REDUCE, "reduce", "qpmesh:reduce", options};
    const at::Tensor& tensor = launch.only(tensors);
    const int root = launch.root(options.rootRank, options.rootTensor);
    const Reduction how = launch.reduction(options.reduceOp, tensor);
    const bool is_root = root == getRank();
    void* const data = is_root ? source_and_target(launch.flight(), tensor, &options.reduceOp)
                               : source(launch.flight(), tensor, &options.reduceOp);
    return added(launch.run({tensor}, qpmesh_reduce, qpmesh_reduce_async, data,
                            is_root ? data : nullptr, how.elements.count(tensor), how.elements.type,
                            how.reduction, root));
  }

  // Tensors of a list may differ in length, as those that ranks give.
  Begun allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    Launch launch{group(), c10d::OpType::ALLGATHER, "allgather", "qpmesh:all_gather", options};
    launch.require_alike(inputs);
    const std::size_t count = inputs.size();
    launch.require_lists(outputs.size(), count, "give a list for each input");
    // Each list gets all tensors of rank 0, then those of rank 1, and so on.
    const Tensors& output = outputs.front();
    Lists rows(count);
    for (std::size_t i = 0; i < output.size(); ++i) rows[i % count].push_back(output[i]);
    std::vector<TensorBlocks> blocks = gathered(launch, inputs, rows);
    Tensors results = output;
    for (std::size_t list = 1; list < count; ++list) {
      if (outputs[list].size() != output.size())
        launch.refuse("the output lists differ in length", "give all alike");
      for (std::size_t i = 0; i < output.size(); ++i) {
        const at::Tensor& tensor = outputs[list][i];
        launch.elements(tensor);
        launch.require_one_type(tensor, output[i]);
        if (tensor.sizes() != output[i].sizes())
          launch.refuse("tensors of the output lists differ in shape", "give all alike");
        copy_at_end(launch.flight(), tensor, output[i]);
        results.push_back(tensor);
      }
    }
    return gather(launch, inputs, std::move(blocks), std::move(results));
  }

  // outputs[r][i] is what rank r gave as inputs[i].
  Begun allgather_coalesced(Lists& outputs, Tensors& inputs,
                            const c10d::AllgatherOptions& options) override {
    Launch launch{group(), c10d::OpType::ALLGATHER_COALESCED, "allgather_coalesced",
                  "qpmesh:all_gather", options};
    if (outputs.size() != static_cast<std::size_t>(getSize()))
      launch.refuse("there are " + std::to_string(outputs.size()) + " output lists",
                    "give one for each of the " + std::to_string(getSize()) + " ranks");
    Lists rows(inputs.size());
    for (const Tensors& list : outputs) {
      if (list.size() != inputs.size())
        launch.refuse("an output list has " + std::to_string(list.size()) +
                          " tensors, and there are " + std::to_string(inputs.size()) + " inputs",
                      "each rank's list has one for each input");
      for (std::size_t i = 0; i < inputs.size(); ++i) rows[i].push_back(list[i]);
    }
    Tensors results;
    for (const Tensors& row : rows) results.insert(results.end(), row.begin(), row.end());
    std::vector<TensorBlocks> blocks = gathered(launch, inputs, rows);
    return gather(launch, inputs, std::move(blocks), std::move(results));
  }

  Begun _allgather_base(at::Tensor& output, at::Tensor& input,
                        const c10d::AllgatherOptions& options) override {
    Tensors outputs{output};
    Tensors inputs{input};
    return gather_each(outputs, inputs, options, c10d::OpType::_ALLGATHER_BASE, "_allgather_base",
                       "qpmesh:_all_gather_base");
  }
  Begun allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                        const c10d::AllgatherOptions& options) override {
    return gather_each(outputs, inputs, options, c10d::OpType::COALESCED,
                       "allgather_into_tensor_coalesced", "qpmesh:_all_gather_base");
  }

  Begun gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    Launch launch{group(), c10d::OpType::GATHER, "gather", "qpmesh:gather", options};
    const at::Tensor& input = launch.only(inputs);
    const int root = launch.root(options.rootRank);
    const Elements elements = launch.elements(input);
    const Tensors* const output = launch.of_root(outputs, root);
    std::optional<TensorBlocks> blocks;
    if (output != nullptr) {
      blocks = TensorBlocks::of_targets(launch.flight(), *output, elements);
      launch.require_one_type(input, output->front());
    }
    return added(launch.run(output != nullptr ? *output : Tensors{}, qpmesh_gatherv,
                            qpmesh_gatherv_async, source(launch.flight(), input),
                            elements.count(input), blocks ? blocks->get() : nullptr, elements.type,
                            root));
  }

  Begun scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override {
    Launch launch{group(), c10d::OpType::SCATTER, "scatter", "qpmesh:scatter", options};
    const at::Tensor& output = launch.only(outputs);
    const int root = launch.root(options.rootRank);
    const Elements elements = launch.elements(output);
    const Tensors* const input = launch.of_root(inputs, root);
    std::optional<TensorBlocks> blocks;
    if (input != nullptr) {
      blocks = TensorBlocks::of_sources(launch.flight(), *input, elements);
      launch.require_one_type(output, input->front());
    }
    return added(launch.run({output}, qpmesh_scatterv, qpmesh_scatterv_async,
                            blocks ? blocks->get() : nullptr, target(launch.flight(), output),
                            elements.count(output), elements.type, root));
  }

  Begun reduce_scatter(Tensors& outputs, Lists& inputs,
                       const c10d::ReduceScatterOptions& options) override {
    Launch launch{group(), c10d::OpType::REDUCE_SCATTER, "reduce_scatter", "qpmesh:reduce_scatter",
                  options};
    const at::Tensor& output = launch.only(outputs);
    const Tensors& input = launch.only(inputs);
    const Reduction how = launch.reduction(options.reduceOp, output);
    TensorBlocks blocks =
        TensorBlocks::of_sources(launch.flight(), input, how.elements, &options.reduceOp);
    launch.require_one_type(output, input.front());
    return added(launch.run({output}, qpmesh_reduce_scatterv, qpmesh_reduce_scatterv_async,
                            blocks.get(), target(launch.flight(), output),
                            how.elements.count(output), how.elements.type, how.reduction));
  }

  Begun _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                             const c10d::ReduceScatterOptions& options) override {
    Tensors outputs{output};
    Tensors inputs{input};
    return reduce_scatter_each(outputs, inputs, options, c10d::OpType::_REDUCE_SCATTER_BASE,
                               "_reduce_scatter_base");
  }
  Begun reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                        const c10d::ReduceScatterOptions& options) override {
    return reduce_scatter_each(outputs, inputs, options, c10d::OpType::COALESCED,
                               "reduce_scatter_tensor_coalesced");
  }

  // All ranks give split sizes, or none does.
  Begun alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                      std::vector<int64_t>& input_splits,
                      const c10d::AllToAllOptions& options) override {
    Launch launch{group(), c10d::OpType::ALLTOALL_BASE, "alltoall_base", "qpmesh:all_to_all",
                  options};
    const Elements elements = launch.elements(input);
    launch.elements(output);
    launch.require_one_type(input, output);
    void* const in = source(launch.flight(), input);
    void* const out = target(launch.flight(), output);
    const auto ranks = static_cast<std::size_t>(getSize());
    if (output_splits.empty() && input_splits.empty()) {
      if (input.numel() != output.numel() || input.numel() % getSize() != 0)
        launch.refuse("the input has " + std::to_string(input.numel()) + " elements, the output " +
                          std::to_string(output.numel()),
                      "without split sizes both are equally long, and each rank has one of " +
                          std::to_string(getSize()) + " parts");
      return added(launch.run({output}, qpmesh_alltoall, qpmesh_alltoall_async, in, out,
                              elements.count(input) / ranks, elements.type));
    }
    const auto counts_of = [&](const at::Tensor& tensor, std::vector<int64_t> splits) {
      // Rows of a matrix, or elements.
      const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
      if (splits.empty()) splits.assign(ranks, rows / getSize());
      if (splits.size() != ranks ||
          std::accumulate(splits.begin(), splits.end(), std::int64_t{0}) != rows ||
          std::ranges::any_of(splits, [](std::int64_t each) { return each < 0; }))
        launch.refuse("the split sizes do not part the " + std::to_string(rows) +
                          " rows of the tensor among " + std::to_string(ranks) + " ranks",
                      "give one size for each rank; their sum is size(0)");
      const std::size_t of_row =
          rows == 0 ? 0 : elements.count(tensor) / static_cast<std::size_t>(rows);
      std::vector<std::size_t> counts;
      for (const auto each : splits) counts.push_back(static_cast<std::size_t>(each) * of_row);
      return counts;
    };
    const std::vector<std::size_t> in_counts = counts_of(input, input_splits);
    const std::vector<std::size_t> out_counts = counts_of(output, output_splits);
    const qpmesh_blocks in_blocks{in, in_counts.data(), nullptr, nullptr};
    const qpmesh_blocks out_blocks{out, out_counts.data(), nullptr, nullptr};
    return added(launch.run({output}, qpmesh_alltoallv, qpmesh_alltoallv_async, &in_blocks,
                            &out_blocks, elements.type));
  }

  Begun alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override {
    Launch launch{group(), c10d::OpType::ALLTOALL, "alltoall", "qpmesh:all_to_all", options};
    if (inputs.empty()) launch.refuse("the list of inputs is empty", "give one each");
    const Elements elements = launch.elements(inputs.front());
    TensorBlocks in = TensorBlocks::of_sources(launch.flight(), inputs, elements);
    TensorBlocks out = TensorBlocks::of_targets(launch.flight(), outputs, elements);
    launch.require_one_type(inputs.front(), outputs.front());
    return added(launch.run(outputs, qpmesh_alltoallv, qpmesh_alltoallv_async, in.get(), out.get(),
                            elements.type));
  }

  Begun barrier(const c10d::BarrierOptions& options) override {
    Launch launch{group(), c10d::OpType::BARRIER, "barrier", "qpmesh:barrier", options};
    return added(launch.run({}, qpmesh_barrier, qpmesh_barrier_async));
  }

  // Returns when all ranks have come. Error: names one rank that is missing, or, with
  // wait_all_ranks, all of them. If rank 0 is missing, it names rank 0 alone.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override {
    const std::shared_ptr<Group> here = group();
    if (wait_all_ranks)
      monitored_barrier(*here, ++monitored_barriers_, here->timeout_ms(options.timeout));
    else barrier(options)->wait();
  }

  Begun send(Tensors& tensors, int destination, int tag) override {
    Launch launch{group(), c10d::OpType::SEND, "send", "qpmesh:send"};
    require_tag(launch.doing(), tag);
    const at::Tensor& tensor = launch.only(tensors);
    const Elements elements = launch.elements(tensor);
    return added(launch.run({tensor}, nullptr, qpmesh_send_async, source(launch.flight(), tensor),
                            elements.count(tensor), elements.type, destination, tag));
  }
  Begun recv(Tensors& tensors, int source, int tag) override {
    return receive(c10d::OpType::RECV, "recv", tensors, source, tag);
  }
  Begun recvAnysource(Tensors& tensors, int tag) override {
    return receive(c10d::OpType::RECVANYSOURCE, "recv_anysource", tensors, QPMESH_ANY_SOURCE, tag);
  }

  // All ranks count their collectives from the same number on.
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return group()->collectives; }

  // Operations of this thread from here on are held until endCoalescing, whose Work is all of
  // theirs. Each has its own Work, too.
  bool supportsCoalescing() const { return true; }
  void startCoalescing() override { coalesced() = {this, {}}; }
  Begun endCoalescing() override {
    return c10::make_intrusive<Works>(std::exchange(coalesced(), {nullptr, {}}).works);
  }

  void setTimeout(std::chrono::milliseconds timeout) { group()->set_timeout(timeout); }
  // Makes later calls fail on this rank. The communicator is destroyed with the last operation in
  // flight.
  void shutdown() { group_.store(nullptr); }
  // Ends the world that the group was made from, on all ranks.
  void abort() {
    const Doing doing{"abort", 0, nullptr};
    require_ok(qpmesh_abort(group()->communicator(doing), "a process group was aborted"), doing);
  }
  ErrorType getError() { return static_cast<ErrorType>(group()->last_failure()); }

  c10::intrusive_ptr<Options> getBackendOptions() {
    const auto made = c10::make_intrusive<Options>("qpmesh", group()->timeout());
    name_of(*made) = group()->name();
    return made;
  }
  bool supportsSplitting() const override { return true; }
  // The ranks that are named call it; null on the others.
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>&,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) {
    if (std::ranges::find(ranks, getRank()) == ranks.end()) return nullptr;
    return c10::make_intrusive<ProcessGroup>(
        group()->subgroup(ranks, name_of(*options), options->timeout));
  }

 private:
  // The blocks where tensors go that ranks give as inputs[i]: rows[i].
  static std::vector<TensorBlocks> gathered(Launch& launch, const Tensors& inputs,
                                            const Lists& rows) {
    std::vector<TensorBlocks> blocks;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      blocks.push_back(
          TensorBlocks::of_targets(launch.flight(), rows[i], launch.elements(inputs[i])));
      launch.require_one_type(inputs[i], rows[i].front());
    }
    return blocks;
  }
  // All arguments were looked at: either all are begun, or none.
  Begun gather(Launch& launch, const Tensors& inputs, std::vector<TensorBlocks> blocks,
               Tensors results) {
    std::vector<void*> sources;
    for (const at::Tensor& input : inputs) sources.push_back(source(launch.flight(), input));
    launch.open(std::move(results));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Elements elements = launch.elements(inputs[i]);
      launch.call(qpmesh_allgatherv, qpmesh_allgatherv_async, sources[i], elements.count(inputs[i]),
                  blocks[i].get(), elements.type);
    }
    return added(launch.done());
  }
  Begun gather_each(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options,
                    c10d::OpType type, const char* operation, const char* title) {
    Launch launch{group(), type, operation, title, options};
    launch.require_lists(outputs.size(), inputs.size(), "give an output for each input");
    std::vector<std::pair<void*, void*>> memory;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      launch.elements(inputs[i]);
      launch.require_blocks(outputs[i], inputs[i]);
      memory.emplace_back(source(launch.flight(), inputs[i]), target(launch.flight(), outputs[i]));
    }
    launch.open(outputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Elements elements = launch.elements(inputs[i]);
      launch.call(qpmesh_allgather, qpmesh_allgather_async, memory[i].first, memory[i].second,
                  elements.count(inputs[i]), elements.type);
    }
    return added(launch.done());
  }
  Begun reduce_scatter_each(Tensors& outputs, Tensors& inputs,
                            const c10d::ReduceScatterOptions& options, c10d::OpType type,
                            const char* operation) {
    Launch launch{group(), type, operation, "qpmesh:_reduce_scatter_base", options};
    launch.require_lists(outputs.size(), inputs.size(), "give an output for each input");
    std::vector<std::pair<void*, void*>> memory;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      launch.reduction(options.reduceOp, outputs[i]);
      launch.require_blocks(inputs[i], outputs[i]);
      memory.emplace_back(source(launch.flight(), inputs[i], &options.reduceOp),
                          target(launch.flight(), outputs[i]));
    }
    launch.open(outputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Reduction how = launch.reduction(options.reduceOp, outputs[i]);
      launch.call(qpmesh_reduce_scatter, qpmesh_reduce_scatter_async, memory[i].first,
                  memory[i].second, how.elements.count(outputs[i]), how.elements.type,
                  how.reduction);
    }
    return added(launch.done());
  }

  // Error: it is negative, or one of the backend's own.
  static void require_tag(const Doing& doing, int tag) {
    const Doing unnumbered{doing.operation, 0, doing.group};
    // The library would take -1 for any tag, those of the backend's own among them.
    if (tag < 0)
      bad_argument(unnumbered, "tag " + std::to_string(tag) + " is negative", "give 0 or more");
    if (tag >= own_tag_min)
      bad_argument(unnumbered, "tag " + std::to_string(tag) + " is one of the backend's own",
                   "those of the program are below " + std::to_string(own_tag_min));
  }
  Begun receive(c10d::OpType type, const char* operation, Tensors& tensors, int source, int tag) {
    Launch launch{group(), type, operation, "qpmesh:recv"};
    require_tag(launch.doing(), tag);
    const at::Tensor& tensor = launch.only(tensors);
    const Elements elements = launch.elements(tensor);
    launch.flight().expect(tensor.nbytes());
    launch.open({tensor});
    launch.call(nullptr, qpmesh_receive_async, target(launch.flight(), tensor),
                elements.count(tensor), elements.type, source, tag);
    return added(launch.done());
  }

  struct Coalesced {
    const ProcessGroup* of = nullptr;
    std::vector<Begun> works;
  };
  static Coalesced& coalesced() {
    static thread_local Coalesced coalesced;
    return coalesced;
  }
  Begun added(Begun work) const {
    if (Coalesced& all = coalesced(); all.of == this) all.works.push_back(work);
    return work;
  }
  // The member of that name, or nothing that matters where torch 2.6 has none.
  template <class Of>
  static std::string& name_of(Of& options) {
    static thread_local std::string none;
    if constexpr (requires { options.group_name; }) return options.group_name;
    else return none = {};
  }

  std::atomic<std::shared_ptr<Group>> group_;
  // Barriers that wait for all ranks. They are not counted as collectives: a rank that did not come
  // to one has a lower count, and the tags of sparse sums need the same number on all ranks.
  std::atomic<std::uint64_t> monitored_barriers_ = 0;
};

}  // namespace qpmesh_torch
