#include "calls/collective_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "calls/argument_checks.hpp"
#include "collectives/registry.hpp"

namespace qpmesh::calls {
namespace {

using collectives::Arguments;
using collectives::Blocks;
using collectives::CallShape;

// Everything that is decided about a call before it is counted.
struct Plan {
  context::CollectiveCall& call;  // of the communicator
  CallShape shape;
  Arguments& arguments;                        // of the request
  collectives::DivideKernel divide = nullptr;  // average: after the sum
  std::size_t divided_count = 0;               // elements of out, on this rank
};

class Planner {
 public:
  Planner(const PendingOperation& request, const detail::AnyCollective& what, Plan& plan)
      : operation_{request.operation},
        what_{what},
        size_{plan.shape.size},
        rank_{request.communicator->rank()},
        plan_{plan} {
    plan.arguments.in_blocks.counts = plan.arguments.out_blocks.counts = nullptr;
  }

  void fill_in() {
    switch (what_.collective) {
      case Collective::barrier: break;
      case Collective::broadcast: broadcast(); break;
      case Collective::reduce: reduce(); break;
      case Collective::allgather: allgather(); break;
      case Collective::reduce_scatter: reduce_scatter(); break;
      case Collective::allreduce:
      case Collective::scan:
      case Collective::exscan: reduce_vectors(); break;
      case Collective::gather: gather(); break;
      case Collective::scatter: scatter(); break;
      case Collective::alltoall: alltoall(); break;
    }
  }

 private:
  const std::byte* in() const noexcept { return static_cast<const std::byte*>(what_.in.data); }
  std::byte* out() const noexcept { return static_cast<std::byte*>(what_.out.data); }
  std::size_t ranks() const noexcept { return static_cast<std::size_t>(size_); }

  // What is sent to all alike, and what the algorithms are chosen by.
  template <class Range>
  void describe(const Range& of, std::size_t element_count, std::size_t vector_bytes) {
    plan_.call.element_count = element_count;
    plan_.call.element_bytes = static_cast<std::uint32_t>(of.element_bytes);
    plan_.call.type = of.type;
    plan_.shape.bytes = vector_bytes;
    plan_.arguments.in = in();
    plan_.arguments.out = out();
    plan_.arguments.element_bytes = of.element_bytes;
  }
  void take_root() {
    check_peer(what_.root, size_, false, operation_, "root");
    plan_.call.root = plan_.arguments.root = what_.root;
  }
  bool at_root() const noexcept { return rank_ == what_.root; }

  void take_reduction(std::size_t result_count) {
    const detail::AnyReduction& reduction = what_.reduction;
    collectives::Reducer& reducer = plan_.arguments.reducer;
    reducer.element_bytes = plan_.shape.element_bytes = what_.in.element_bytes;
    reducer.commutative = reduction.commutative;
    plan_.shape.ordered = !reduction.commutative;
    if (reduction.function != nullptr) {
      plan_.call.reduction = reduction.commutative ? context::CollectiveCall::commutative_function
                                                   : context::CollectiveCall::ordered_function;
      reducer.kernel = nullptr;
      reducer.function = reduction.function;
      reducer.context = reduction.context;
      return;
    }
    reducer.kernel = collectives::reduce_kernel(reduction.kind, what_.in.type);
    if (reducer.kernel == nullptr) bad_reduction({reduction.kind}, operation_);
    plan_.call.reduction = static_cast<std::uint8_t>(reduction.kind);
    if (reduction.kind != ReductionKind::average) return;
    plan_.divide = collectives::divide_kernel(what_.in.type);
    plan_.divided_count = result_count;
  }

  void broadcast() {
    const std::size_t bytes = checked_bytes(what_.out, operation_);
    describe(what_.out, what_.out.element_count, bytes);
    plan_.arguments.element_count = what_.out.element_count;
    take_root();
  }

  void reduce() {
    const std::size_t bytes = checked_bytes(what_.in, operation_);
    describe(what_.in, what_.in.element_count, bytes);
    plan_.arguments.element_count = what_.in.element_count;
    take_root();
    if (at_root()) check_pair(what_.in, what_.out, operation_);
    take_reduction(at_root() ? what_.in.element_count : 0);
  }

  void reduce_vectors() {
    check_pair(what_.in, what_.out, operation_);
    const std::size_t count = what_.in.element_count;
    describe(what_.in, count, count * what_.in.element_bytes);
    plan_.arguments.element_count = count;
    const bool is_prefix = what_.collective != Collective::allreduce;
    if (is_prefix && what_.reduction.function == nullptr &&
        what_.reduction.kind == ReductionKind::average)
      bad_prefix_average(operation_);
    take_reduction(count);
  }

  void reduce_scatter() {
    const std::size_t bytes = checked_bytes(what_.in, operation_);
    checked_bytes(what_.out, operation_);
    if (what_.has_layout() && !what_.in_layout->displacements.empty())
      bad_displacements(operation_);
    const Blocks blocks =
        blocks_of(what_.in, what_.in_layout, "in", what_.out.element_count, "out");
    check_block(what_.in, blocks, what_.out, "out");
    describe(what_.in, what_.has_layout() ? 0 : what_.out.element_count, bytes);
    plan_.arguments.in_blocks = blocks;
    plan_.arguments.element_count = what_.out.element_count;
    if (what_.has_layout()) plan_.call.layout_hash = hash_of(what_.in_layout->counts);
    take_reduction(what_.out.element_count);
  }

  void allgather() {
    checked_bytes(what_.in, operation_);
    checked_bytes(what_.out, operation_);
    const Blocks blocks =
        blocks_of(what_.out, what_.out_layout, "out", what_.in.element_count, "in");
    check_targets(what_.out_layout);
    check_block(what_.out, blocks, what_.in, "in");
    describe(what_.in, what_.has_layout() ? 0 : what_.in.element_count, blocks.bytes());
    plan_.arguments.out_blocks = blocks;
    plan_.arguments.element_count = what_.in.element_count;
    if (what_.has_layout()) plan_.call.layout_hash = hash_of(what_.out_layout->counts);
  }

  void gather() {
    const std::size_t bytes = checked_bytes(what_.in, operation_);
    take_root();
    if (at_root()) {
      checked_bytes(what_.out, operation_);
      plan_.arguments.out_blocks =
          blocks_of(what_.out, what_.out_layout, "out", what_.in.element_count, "in");
      check_targets(what_.out_layout);
      check_block(what_.out, plan_.arguments.out_blocks, what_.in, "in");
    }
    describe(what_.in, what_.has_layout() ? 0 : what_.in.element_count,
             what_.has_layout() ? 0 : bytes * ranks());
    plan_.arguments.element_count = what_.in.element_count;
    plan_.shape.uneven = what_.has_layout();
  }

  void scatter() {
    const std::size_t bytes = checked_bytes(what_.out, operation_);
    take_root();
    if (at_root()) {
      checked_bytes(what_.in, operation_);
      plan_.arguments.in_blocks =
          blocks_of(what_.in, what_.in_layout, "in", what_.out.element_count, "out");
      check_block(what_.in, plan_.arguments.in_blocks, what_.out, "out");
    }
    describe(what_.out, what_.has_layout() ? 0 : what_.out.element_count,
             what_.has_layout() ? 0 : bytes * ranks());
    plan_.arguments.element_count = what_.out.element_count;
    plan_.shape.uneven = what_.has_layout();
  }

  void alltoall() {
    check_disjoint(what_.in, what_.out, operation_);
    if (!what_.has_layout() && (what_.in.element_count % ranks() != 0 ||
                                what_.out.element_count != what_.in.element_count)) {
      bad_even_blocks(what_.in.element_count, what_.out.element_count, size_, operation_);
    }
    const std::size_t block = what_.in.element_count / ranks();
    plan_.arguments.in_blocks = blocks_of(what_.in, what_.in_layout, "in", block, "a block");
    plan_.arguments.out_blocks = blocks_of(what_.out, what_.out_layout, "out", block, "a block");
    check_targets(what_.out_layout);
    describe(what_.in, what_.has_layout() ? 0 : block,
             what_.has_layout() ? 0 : what_.in.element_count * what_.in.element_bytes);
    if (what_.has_layout() &&
        what_.in_layout->counts[index(rank_)] != what_.out_layout->counts[index(rank_)]) {
      bad_block(what_.in_layout->counts[index(rank_)], what_.out_layout->counts[index(rank_)],
                "in's block for this rank", "out's block from it", operation_);
    }
    plan_.shape.uneven = what_.has_layout();
  }

  static std::size_t index(int rank) noexcept { return static_cast<std::size_t>(rank); }

  // The blocks of the range with all of them; `one` is what the caller's own block must have, and
  // its name.
  template <class Range>
  Blocks blocks_of(const Range& all, const BlockLayout* layout, std::string_view name,
                   std::size_t one, std::string_view one_name) const {
    if (!what_.has_layout()) {
      const auto total = base::checked_multiply(one, ranks());
      if (!total || *total != all.element_count)
        bad_total(all.element_count, one, size_, name, one_name, operation_);
      return collectives::even_blocks(all.element_count, size_, all.element_bytes);
    }
    check_layout(*layout, all.element_count, size_, name, operation_);
    const std::size_t total =
        std::accumulate(layout->counts.begin(), layout->counts.end(), std::size_t{0});
    return {
        .element_count = total,
        .element_bytes = all.element_bytes,
        .block_count = size_,
        .gapless = layout->displacements.empty(),
        .counts = layout->counts.data(),
        .displacements = layout->displacements.empty() ? nullptr : layout->displacements.data()};
  }
  void check_targets(const BlockLayout* layout) const {
    if (layout != nullptr && !layout->displacements.empty()) check_no_overlap(*layout, operation_);
  }
  // One rank's range beside the range of all: its length is that of its block, and so is its place,
  // or it lies apart.
  template <class All, class One>
  void check_block(const All& all, const Blocks& blocks, const One& one,
                   std::string_view name) const {
    const std::size_t block = what_.has_layout() ? blocks.counts[index(rank_)] : one.element_count;
    if (one.element_count != block)
      bad_block(one.element_count, block, name, "this rank's block of the layout", operation_);
    check_in_place(as_const(all), first_of(blocks, rank_) * all.element_bytes, as_const(one),
                   operation_);
  }
  static std::size_t first_of(const Blocks& blocks, int block) {
    if (blocks.counts == nullptr || blocks.displacements != nullptr) return blocks.first(block);
    return std::accumulate(blocks.counts, blocks.counts + block, std::size_t{0});
  }
  static std::uint64_t hash_of(std::span<const std::size_t> counts) {
    std::uint64_t hash = 1;
    for (const std::size_t count : counts) hash = base::mix64(hash ^ count);
    return hash;
  }

  // Not a copy: it was stored just now, in halves, and loading it whole waits for both.
  const std::string_view& operation_;
  const detail::AnyCollective& what_;
  int size_;
  int rank_;
  Plan& plan_;
};

// The lists of a v-form, whose owner may drop them when the call returns.
std::size_t lists_bytes(const Blocks& blocks) noexcept {
  if (blocks.counts == nullptr) return 0;
  return 2 * static_cast<std::size_t>(blocks.block_count) * sizeof *blocks.counts;
}
// Keeps them in memory of that length, with the displacements that were left out.
void keep_lists(Blocks& blocks, std::byte* memory) {
  if (blocks.counts == nullptr) return;
  const auto count = static_cast<std::size_t>(blocks.block_count);
  auto* const counts = reinterpret_cast<std::size_t*>(memory);
  std::size_t* const displacements = counts + count;
  std::copy_n(blocks.counts, count, counts);
  if (blocks.displacements != nullptr) {
    std::copy_n(blocks.displacements, count, displacements);
  } else {
    std::exclusive_scan(counts, counts + count, displacements, std::size_t{0});
  }
  blocks.counts = counts;
  blocks.displacements = displacements;
}

// With what stands around an algorithm: the lists of a v-form, the division of an average.
collectives::Task run_planned(collectives::Group group, const Plan* plan,
                              const collectives::Algorithm* algorithm) {
  // The plan is on the caller's stack, and so are the lists: nothing of them is looked at after the
  // first wait.
  Arguments& arguments = plan->arguments;
  const collectives::DivideKernel divide = plan->divide;
  const std::size_t divided_count = plan->divided_count;
  const std::size_t in_bytes = lists_bytes(arguments.in_blocks);
  const collectives::Scratch lists{group, in_bytes + lists_bytes(arguments.out_blocks)};
  keep_lists(arguments.in_blocks, lists.data());
  keep_lists(arguments.out_blocks, lists.data() + in_bytes);
  co_await algorithm->run(group, arguments);
  if (divide != nullptr) divide(arguments.out, divided_count, group.size());
}

const collectives::Algorithm& select(const PendingOperation& request, const CallShape& shape,
                                     Collective collective, std::string_view asked_for) {
  try {
    return request.communicator->selector().select(shape, collective, asked_for);
  } catch (const Error& error) {
    context::throw_failure(error, request.operation);
  }
}

}  // namespace

void start_collective(PendingOperation& request, const detail::AnyCollective& what,
                      std::string_view algorithm_asked_for) {
  context::CommunicatorState& state = *request.communicator;
  Plan plan{.call = state.history().next(context::CollectiveName{what.collective}),
            .shape = state.shape(),
            .arguments = *::new (&request.arguments) Arguments};
  plan.call.has_layout = what.has_layout();
  Planner{request, what, plan}.fill_in();
  const collectives::Algorithm& algorithm =
      select(request, plan.shape, what.collective, algorithm_asked_for);
  plan.call.algorithm = &algorithm;
  plan.call.algorithm_asked_for = !algorithm_asked_for.empty();
  const collectives::Group group = state.begin();
  request.has_task = true;
  progress::Engine& engine = state.context().engine();
  if (plan.divide == nullptr && !what.has_layout()) {
    engine.start(request.task, [&] { return algorithm.run(group, request.arguments); });
  } else {
    engine.start(request.task, [&] { return run_planned(group, &plan, &algorithm); });
  }
}

}  // namespace qpmesh::calls
