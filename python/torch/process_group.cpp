#include "process_group.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "monitored_barrier.hpp"
#include "sparse.hpp"

namespace qpmesh_torch {

using std::chrono::milliseconds;

// One operation from its arguments to its Work.
class ProcessGroup::Launch {
 public:
  Launch(ProcessGroup& of, c10d::OpType type, const char* operation, const char* title,
         milliseconds timeout, bool is_collective = true)
      : of_{of},
        type_{type},
        title_{title},
        is_collective_{is_collective},
        flight_{std::make_shared<Flight>(of.group_, operation,
                                         of.collectives_.load() + (is_collective ? 1 : 0),
                                         of.group_->timeout_ms(timeout))},
        communicator_{of.group_->communicator(flight_->doing())} {}

  Flight& flight() noexcept { return *flight_; }
  const Doing& doing() const noexcept { return flight_->doing(); }
  qpmesh_communicator* communicator() const noexcept { return communicator_; }

  const at::Tensor& only(const Tensors& tensors) const {
    if (tensors.size() != 1) {
      bad_argument(doing(), "the list has " + std::to_string(tensors.size()) + " tensors",
                   "give one tensor; allreduce, broadcast and allgather take several");
    }
    return tensors.front();
  }
  // Several of a rank, which are dealt with as if each were of a rank of its own.
  void require_alike(const Tensors& tensors) const {
    if (tensors.empty()) bad_argument(doing(), "the list of tensors is empty", "give one");
    if (tensors.size() == 1) return;
    for (const at::Tensor& tensor : tensors) {
      elements(tensor);
      if (tensor.sizes() == tensors.front().sizes() &&
          tensor.scalar_type() == tensors.front().scalar_type())
        continue;
      bad_argument(doing(), "the tensors of the list differ in shape or type",
                   "give all alike; others are for the _coalesced calls");
    }
  }
  const Tensors& only(const Lists& lists) const {
    if (lists.size() != 1) {
      bad_argument(doing(), "there are " + std::to_string(lists.size()) + " lists of tensors",
                   "give one list");
    }
    return lists.front();
  }
  // The list that the root alone has.
  const Tensors* of_root(const Lists& lists, std::int64_t root) const {
    if (root == of_.getRank()) return &only(lists);
    if (!lists.empty()) {
      bad_argument(doing(), "a list of tensors, and rank " + std::to_string(root) + " is the root",
                   "the root alone gives the list");
    }
    return nullptr;
  }
  int root(std::int64_t rank, std::int64_t tensor = 0, std::size_t count = 1) const {
    if (tensor < 0 || static_cast<std::size_t>(tensor) >= count) {
      bad_argument(doing(),
                   "root tensor " + std::to_string(tensor) + " of " + std::to_string(count),
                   "they count from 0");
    }
    return static_cast<int>(rank);
  }

  Elements elements(const at::Tensor& tensor) const { return elements_of(tensor, doing()); }
  void require_one_type(const at::Tensor& one, const at::Tensor& other) const {
    if (one.scalar_type() == other.scalar_type()) return;
    bad_argument(doing(),
                 std::string{"tensors of "} + c10::toString(one.scalar_type()) + " and " +
                     c10::toString(other.scalar_type()),
                 "give both of one type");
  }
  // whole is as long as so many of part.
  void require_blocks(const at::Tensor& whole, const at::Tensor& part) const {
    if (whole.numel() == part.numel() * of_.getSize()) return;
    bad_argument(doing(),
                 "one tensor has " + std::to_string(whole.numel()) + " elements, the other " +
                     std::to_string(part.numel()),
                 "the long one is as long as " + std::to_string(of_.getSize()) +
                     " of the short one: one for each rank");
  }

  const qpmesh_call* call(qpmesh_function function = nullptr) {
    call_ = {.struct_bytes = sizeof call_,
             .timeout_ms = flight_->timeout_ms(),
             .algorithm = nullptr,
             .synchronous = 0,
             .prepared = 0,
             .function = function,
             .context = nullptr,
             .commutative = 1,
             .head = 0};
    return &call_;
  }
  qpmesh_request** request() { return flight_->request(); }
  // One of several that are gathered.
  struct Part {
    const at::Tensor& input;
    void* data;
    Elements elements;
    TensorBlocks blocks;
  };
  // rows[i]: where the tensors go that ranks give as inputs[i].
  std::vector<Part> parts(const Tensors& inputs, const Lists& rows) {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Elements elements = this->elements(inputs[i]);
      TensorBlocks blocks = TensorBlocks::of_targets(flight(), rows[i], elements);
      require_one_type(inputs[i], rows[i].front());
      parts.push_back({inputs[i], source(flight(), inputs[i]), elements, std::move(blocks)});
    }
    return parts;
  }
  // All arguments were looked at: either all are begun, or none.
  void allgather(std::vector<Part> parts) {
    for (Part& part : parts) {
      begun(qpmesh_allgatherv_async(communicator(), part.data, part.elements.count(part.input),
                                    part.blocks.get(), part.elements.type, call(), request()));
    }
  }
  void begun(int code) { require_ok(code, doing()); }

  Begun work(Tensors results) {
    auto work = c10::make_intrusive<Work>(flight_, of_.getRank(), type_, title_, results);
    flight_->set_results(std::move(results));
    of_.group_->operation_begins();
    if (is_collective_) ++of_.collectives_;
    // Its next step is what other ranks wait for, and nobody here may wait.
    if (flight_->has_next()) flight_->watch();
    return work;
  }

 private:
  ProcessGroup& of_;
  const c10d::OpType type_;
  const char* title_;
  const bool is_collective_;
  const std::shared_ptr<Flight> flight_;
  qpmesh_communicator* const communicator_;
  qpmesh_call call_{};
};

ProcessGroup::Begun ProcessGroup::broadcast(Tensors& tensors,
                                            const c10d::BroadcastOptions& options) {
  Launch launch{*this, c10d::OpType::BROADCAST, "broadcast", "qpmesh:broadcast", options.timeout};
  launch.require_alike(tensors);
  const int root = launch.root(options.rootRank, options.rootTensor, tensors.size());
  const at::Tensor& tensor = tensors[static_cast<std::size_t>(options.rootTensor)];
  const Elements elements = launch.elements(tensor);
  void* const data =
      root == getRank() ? source(launch.flight(), tensor) : target(launch.flight(), tensor);
  for (const at::Tensor& each : tensors) copy_at_end(launch.flight(), each, tensor);
  launch.begun(qpmesh_broadcast_async(launch.communicator(), data, elements.count(tensor),
                                      elements.type, root, launch.call(), launch.request()));
  return launch.work(tensors);
}

ProcessGroup::Begun ProcessGroup::allreduce(Tensors& tensors,
                                            const c10d::AllreduceOptions& options) {
  const bool is_sparse =
      !tensors.empty() && tensors.front().defined() && tensors.front().is_sparse();
  Launch launch{*this, c10d::OpType::ALLREDUCE, "allreduce",
                is_sparse ? "qpmesh:sparse_all_reduce" : "qpmesh:all_reduce", options.timeout};
  if (is_sparse) {
    require_sum(options.reduceOp, launch.doing());
    begin_sparse_sum(launch.flight(), tensors);
    return launch.work(tensors);
  }
  launch.require_alike(tensors);
  const at::Tensor& tensor = tensors.front();
  const Reduction how = reduction_of(options.reduceOp, tensor, launch.doing());
  if (how.reduction == QPMESH_AVERAGE && tensors.size() > 1)
    bad_argument(launch.doing(), "there is no AVG of several tensors of a rank", "sum them");
  // Several are reduced in a copy: when the collective fails they are what they were.
  const at::Tensor result =
      tensors.size() == 1 ? tensor : tensor.detach().clone(at::MemoryFormat::Contiguous);
  void* const data = source_and_target(launch.flight(), result, &options.reduceOp);
  const std::size_t count = how.elements.count(result);
  std::vector<const void*> others;
  for (std::size_t i = 1; i < tensors.size(); ++i)
    others.push_back(source(launch.flight(), tensors[i], &options.reduceOp));
  for (const at::Tensor& each : tensors) copy_at_end(launch.flight(), each, result);
  for (const void* const other : others) {
    launch.begun(qpmesh_reduce_local(other, data, count, how.elements.type, how.reduction,
                                     launch.call(how.function)));
  }
  launch.begun(qpmesh_allreduce_async(launch.communicator(), data, data, count, how.elements.type,
                                      how.reduction, launch.call(how.function), launch.request()));
  return launch.work(tensors);
}

ProcessGroup::Begun ProcessGroup::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  Launch launch{*this, c10d::OpType::ALLREDUCE_COALESCED, "allreduce_coalesced",
                "qpmesh:all_reduce", options.timeout};
  Reduction how{.elements = {QPMESH_UINT8, 1}};
  std::vector<void*> vectors;
  std::vector<std::size_t> counts;
  for (const at::Tensor& tensor : tensors) {
    launch.require_one_type(tensors.front(), tensor);
    how = reduction_of(options.reduceOp, tensor, launch.doing());
    vectors.push_back(source_and_target(launch.flight(), tensor, &options.reduceOp));
    counts.push_back(how.elements.count(tensor));
  }
  launch.begun(qpmesh_allreduce_each_async(launch.communicator(), vectors.data(), counts.data(),
                                           vectors.size(), how.elements.type, how.reduction,
                                           launch.call(how.function), launch.request()));
  return launch.work(tensors);
}

ProcessGroup::Begun ProcessGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  Launch launch{*this, c10d::OpType::REDUCE, "reduce", "qpmesh:reduce", options.timeout};
  const at::Tensor& tensor = launch.only(tensors);
  const int root = launch.root(options.rootRank, options.rootTensor);
  const Reduction how = reduction_of(options.reduceOp, tensor, launch.doing());
  const bool is_root = root == getRank();
  void* const data = is_root ? source_and_target(launch.flight(), tensor, &options.reduceOp)
                             : source(launch.flight(), tensor, &options.reduceOp);
  launch.begun(qpmesh_reduce_async(launch.communicator(), data, is_root ? data : nullptr,
                                   how.elements.count(tensor), how.elements.type, how.reduction,
                                   root, launch.call(how.function), launch.request()));
  return launch.work({tensor});
}

ProcessGroup::Begun ProcessGroup::allgather(Lists& outputs, Tensors& inputs,
                                            const c10d::AllgatherOptions& options) {
  Launch launch{*this, c10d::OpType::ALLGATHER, "allgather", "qpmesh:all_gather", options.timeout};
  launch.require_alike(inputs);
  const std::size_t count = inputs.size();
  if (outputs.size() != count) {
    bad_argument(launch.doing(),
                 "there are " + std::to_string(outputs.size()) + " output lists and " +
                     std::to_string(count) + " inputs",
                 "give a list for each input");
  }
  // Each list gets all tensors of rank 0, then those of rank 1, and so on.
  const Tensors& output = outputs.front();
  Lists rows(count);
  for (std::size_t i = 0; i < output.size(); ++i) rows[i % count].push_back(output[i]);
  std::vector<Launch::Part> parts = launch.parts(inputs, rows);
  Tensors results = output;
  for (std::size_t list = 1; list < count; ++list) {
    if (outputs[list].size() != output.size())
      bad_argument(launch.doing(), "the output lists differ in length", "give all alike");
    for (std::size_t i = 0; i < output.size(); ++i) {
      const at::Tensor& tensor = outputs[list][i];
      launch.elements(tensor);
      launch.require_one_type(tensor, output[i]);
      if (tensor.sizes() != output[i].sizes())
        bad_argument(launch.doing(), "tensors of the output lists differ in shape",
                     "give all alike");
      copy_at_end(launch.flight(), tensor, output[i]);
      results.push_back(tensor);
    }
  }
  launch.allgather(std::move(parts));
  return launch.work(std::move(results));
}

ProcessGroup::Begun ProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                  const c10d::AllgatherOptions& options) {
  Launch launch{*this, c10d::OpType::_ALLGATHER_BASE, "_allgather_base", "qpmesh:_all_gather_base",
                options.timeout};
  const Elements elements = launch.elements(input);
  launch.elements(output);
  launch.require_one_type(input, output);
  launch.require_blocks(output, input);
  launch.begun(qpmesh_allgather_async(launch.communicator(), source(launch.flight(), input),
                                      target(launch.flight(), output), elements.count(input),
                                      elements.type, launch.call(), launch.request()));
  return launch.work({output});
}

ProcessGroup::Begun ProcessGroup::allgather_coalesced(Lists& outputs, Tensors& inputs,
                                                      const c10d::AllgatherOptions& options) {
  Launch launch{*this, c10d::OpType::ALLGATHER_COALESCED, "allgather_coalesced",
                "qpmesh:all_gather", options.timeout};
  if (outputs.size() != static_cast<std::size_t>(getSize())) {
    bad_argument(launch.doing(), "there are " + std::to_string(outputs.size()) + " output lists",
                 "give one for each of the " + std::to_string(getSize()) + " ranks");
  }
  for (const Tensors& list : outputs) {
    if (list.size() != inputs.size()) {
      bad_argument(launch.doing(),
                   "an output list has " + std::to_string(list.size()) +
                       " tensors, and there are " + std::to_string(inputs.size()) + " inputs",
                   "each rank's list has one for each input");
    }
  }
  Lists rows(inputs.size());
  Tensors results;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (const Tensors& list : outputs) rows[i].push_back(list[i]);
    results.insert(results.end(), rows[i].begin(), rows[i].end());
  }
  launch.allgather(launch.parts(inputs, rows));
  return launch.work(std::move(results));
}

ProcessGroup::Begun ProcessGroup::gather(Lists& outputs, Tensors& inputs,
                                         const c10d::GatherOptions& options) {
  Launch launch{*this, c10d::OpType::GATHER, "gather", "qpmesh:gather", options.timeout};
  const at::Tensor& input = launch.only(inputs);
  const int root = launch.root(options.rootRank);
  const Elements elements = launch.elements(input);
  const Tensors* const output = launch.of_root(outputs, root);
  std::optional<TensorBlocks> blocks;
  if (output != nullptr) {
    blocks = TensorBlocks::of_targets(launch.flight(), *output, elements);
    launch.require_one_type(input, output->front());
  }
  launch.begun(qpmesh_gatherv_async(launch.communicator(), source(launch.flight(), input),
                                    elements.count(input), blocks ? blocks->get() : nullptr,
                                    elements.type, root, launch.call(), launch.request()));
  return launch.work(output != nullptr ? *output : Tensors{});
}

ProcessGroup::Begun ProcessGroup::scatter(Tensors& outputs, Lists& inputs,
                                          const c10d::ScatterOptions& options) {
  Launch launch{*this, c10d::OpType::SCATTER, "scatter", "qpmesh:scatter", options.timeout};
  const at::Tensor& output = launch.only(outputs);
  const int root = launch.root(options.rootRank);
  const Elements elements = launch.elements(output);
  const Tensors* const input = launch.of_root(inputs, root);
  std::optional<TensorBlocks> blocks;
  if (input != nullptr) {
    blocks = TensorBlocks::of_sources(launch.flight(), *input, elements);
    launch.require_one_type(output, input->front());
  }
  launch.begun(qpmesh_scatterv_async(launch.communicator(), blocks ? blocks->get() : nullptr,
                                     target(launch.flight(), output), elements.count(output),
                                     elements.type, root, launch.call(), launch.request()));
  return launch.work({output});
}

ProcessGroup::Begun ProcessGroup::reduce_scatter(Tensors& outputs, Lists& inputs,
                                                 const c10d::ReduceScatterOptions& options) {
  Launch launch{*this, c10d::OpType::REDUCE_SCATTER, "reduce_scatter", "qpmesh:reduce_scatter",
                options.timeout};
  const at::Tensor& output = launch.only(outputs);
  const Tensors& input = launch.only(inputs);
  const Reduction how = reduction_of(options.reduceOp, output, launch.doing());
  TensorBlocks blocks =
      TensorBlocks::of_sources(launch.flight(), input, how.elements, &options.reduceOp);
  launch.require_one_type(output, input.front());
  launch.begun(qpmesh_reduce_scatterv_async(
      launch.communicator(), blocks.get(), target(launch.flight(), output),
      how.elements.count(output), how.elements.type, how.reduction, launch.call(how.function),
      launch.request()));
  return launch.work({output});
}

ProcessGroup::Begun ProcessGroup::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                       const c10d::ReduceScatterOptions& options) {
  Launch launch{*this, c10d::OpType::_REDUCE_SCATTER_BASE, "_reduce_scatter_base",
                "qpmesh:_reduce_scatter_base", options.timeout};
  const Reduction how = reduction_of(options.reduceOp, output, launch.doing());
  launch.elements(input);
  launch.require_one_type(input, output);
  launch.require_blocks(input, output);
  void* const in = source(launch.flight(), input, &options.reduceOp);
  launch.begun(qpmesh_reduce_scatter_async(
      launch.communicator(), in, target(launch.flight(), output), how.elements.count(output),
      how.elements.type, how.reduction, launch.call(how.function), launch.request()));
  return launch.work({output});
}

ProcessGroup::Begun ProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                std::vector<int64_t>& output_splits,
                                                std::vector<int64_t>& input_splits,
                                                const c10d::AllToAllOptions& options) {
  Launch launch{*this, c10d::OpType::ALLTOALL_BASE, "alltoall_base", "qpmesh:all_to_all",
                options.timeout};
  const Elements elements = launch.elements(input);
  launch.elements(output);
  launch.require_one_type(input, output);
  void* const in = source(launch.flight(), input);
  void* const out = target(launch.flight(), output);
  const auto ranks = static_cast<std::size_t>(getSize());
  if (output_splits.empty() && input_splits.empty()) {
    if (input.numel() != output.numel() || input.numel() % getSize() != 0) {
      bad_argument(launch.doing(),
                   "the input has " + std::to_string(input.numel()) + " elements, the output " +
                       std::to_string(output.numel()),
                   "without split sizes both are equally long, and each rank has one of " +
                       std::to_string(getSize()) + " parts");
    }
    launch.begun(qpmesh_alltoall_async(launch.communicator(), in, out,
                                       elements.count(input) / ranks, elements.type, launch.call(),
                                       launch.request()));
    return launch.work({output});
  }
  const auto counts = [&](const at::Tensor& tensor, const std::vector<int64_t>& splits) {
    // Rows of a matrix, or elements.
    const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
    const std::vector<int64_t> all =
        splits.empty() ? std::vector<int64_t>(ranks, rows / getSize()) : splits;
    if (all.size() != ranks || std::accumulate(all.begin(), all.end(), std::int64_t{0}) != rows ||
        std::any_of(all.begin(), all.end(), [](std::int64_t each) { return each < 0; })) {
      bad_argument(launch.doing(),
                   "the split sizes do not part the " + std::to_string(rows) +
                       " rows of the tensor among " + std::to_string(ranks) + " ranks",
                   "give one size for each rank; their sum is size(0)");
    }
    const std::size_t of_row =
        rows == 0 ? 0 : elements.count(tensor) / static_cast<std::size_t>(rows);
    std::vector<std::size_t> counts;
    counts.reserve(ranks);
    for (const std::int64_t each : all) counts.push_back(static_cast<std::size_t>(each) * of_row);
    return counts;
  };
  const std::vector<std::size_t> in_counts = counts(input, input_splits);
  const std::vector<std::size_t> out_counts = counts(output, output_splits);
  const qpmesh_blocks in_blocks{in, in_counts.data(), nullptr, nullptr};
  const qpmesh_blocks out_blocks{out, out_counts.data(), nullptr, nullptr};
  launch.begun(qpmesh_alltoallv_async(launch.communicator(), &in_blocks, &out_blocks, elements.type,
                                      launch.call(), launch.request()));
  return launch.work({output});
}

ProcessGroup::Begun ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs,
                                           const c10d::AllToAllOptions& options) {
  Launch launch{*this, c10d::OpType::ALLTOALL, "alltoall", "qpmesh:all_to_all", options.timeout};
  if (inputs.empty()) bad_argument(launch.doing(), "the list of inputs is empty", "give one each");
  const Elements elements = launch.elements(inputs.front());
  TensorBlocks in = TensorBlocks::of_sources(launch.flight(), inputs, elements);
  TensorBlocks out = TensorBlocks::of_targets(launch.flight(), outputs, elements);
  launch.require_one_type(inputs.front(), outputs.front());
  launch.begun(qpmesh_alltoallv_async(launch.communicator(), in.get(), out.get(), elements.type,
                                      launch.call(), launch.request()));
  return launch.work(outputs);
}

ProcessGroup::Begun ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  Launch launch{*this, c10d::OpType::BARRIER, "barrier", "qpmesh:barrier", options.timeout};
  launch.begun(qpmesh_barrier_async(launch.communicator(), launch.call(), launch.request()));
  return launch.work({});
}

void ProcessGroup::require_tag(const char* operation, int tag) const {
  const Doing doing{operation, 0, &group_->name()};
  // The library would take -1 for any tag, those of the backend's own among them.
  if (tag < 0) bad_argument(doing, "tag " + std::to_string(tag) + " is negative", "give 0 or more");
  if (tag < own_tag_min) return;
  bad_argument(doing, "tag " + std::to_string(tag) + " is one of the backend's own",
               "those of the program are below " + std::to_string(own_tag_min));
}

void ProcessGroup::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  if (wait_all_ranks)
    monitored_barrier(*group_, ++monitored_barriers_, group_->timeout_ms(options.timeout));
  else barrier(options)->wait();
}

ProcessGroup::Begun ProcessGroup::send(Tensors& tensors, int destination, int tag) {
  require_tag("send", tag);
  Launch launch{*this, c10d::OpType::SEND, "send", "qpmesh:send", c10d::kUnsetTimeout, false};
  const at::Tensor& tensor = launch.only(tensors);
  const Elements elements = launch.elements(tensor);
  launch.begun(qpmesh_send_async(launch.communicator(), source(launch.flight(), tensor),
                                 elements.count(tensor), elements.type, destination, tag,
                                 launch.call(), launch.request()));
  return launch.work({tensor});
}

ProcessGroup::Begun ProcessGroup::receive(c10d::OpType type, const char* operation,
                                          Tensors& tensors, int source, int tag) {
  require_tag(operation, tag);
  Launch launch{*this, type, operation, "qpmesh:recv", c10d::kUnsetTimeout, false};
  const at::Tensor& tensor = launch.only(tensors);
  const Elements elements = launch.elements(tensor);
  launch.flight().expect(tensor.nbytes());
  launch.begun(qpmesh_receive_async(launch.communicator(), target(launch.flight(), tensor),
                                    elements.count(tensor), elements.type, source, tag,
                                    launch.call(), launch.request()));
  return launch.work({tensor});
}

ProcessGroup::Begun ProcessGroup::recv(Tensors& tensors, int source, int tag) {
  return receive(c10d::OpType::RECV, "recv", tensors, source, tag);
}

ProcessGroup::Begun ProcessGroup::recvAnysource(Tensors& tensors, int tag) {
  return receive(c10d::OpType::RECVANYSOURCE, "recv_anysource", tensors, QPMESH_ANY_SOURCE, tag);
}

}  // namespace qpmesh_torch
