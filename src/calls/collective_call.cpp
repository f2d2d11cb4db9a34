// SPDX-License-Identifier: MIT
// The checks of each collective, and how it starts.
#include <algorithm>
#include <numeric>

#include "calls/argument_checks.hpp"
#include "calls/pending_operation.hpp"

namespace qpmesh::calls {
namespace {

using collectives::Arguments;
using collectives::Blocks;
using collectives::CallShape;

// Checks a call, and fills in what follows from its arguments.
struct Preparation {
  Preparation(context::PreparedCall& into, const context::CommunicatorState& communicator,
              const detail::AnyCollective& collective, std::string_view name)
      : prepared{into},
        what{collective},
        operation{name},
        shape{communicator.shape()},
        arguments{into.arguments},
        rank{communicator.rank()} {
    prepared.lasts = false;  // until it has passed
    call = {.operation = context::CollectiveName{what.collective}};
    call.has_layout = what.has_layout();
    arguments.in_blocks.counts = arguments.out_blocks.counts = nullptr;
    prepared.reads_layouts = false;
    prepared.divide = nullptr;
  }

  void prepare() {
    check_and_fill_in();
    prepared.what = what;
    prepared.shape = shape;
    prepared.moves_nothing =
        shape.bytes == 0 && !shape.uneven && what.collective != Collective::barrier;
    prepared.signature = call.signature();
    prepared.has_more =
        what.collective != Collective::barrier && what.collective != Collective::broadcast;
    prepared.lasts = true;
  }

  void check_and_fill_in() {
    switch (what.collective) {
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

  void broadcast() {
    const std::size_t bytes = checked_bytes(what.out, operation);
    describe(what.out, what.out.element_count, bytes);
    take_root();
  }

  void reduce() {
    const std::size_t bytes = checked_bytes(what.in, operation);
    describe(what.in, what.in.element_count, bytes);
    take_root();
    if (at_root()) check_pair(what.in, what.out, operation);
    take_reduction(at_root() ? what.in.element_count : 0);
  }

  void reduce_vectors() {
    check_pair(what.in, what.out, operation);
    const std::size_t count = what.in.element_count;
    describe(what.in, count, count * what.in.element_bytes);
    const bool is_prefix = what.collective != Collective::allreduce;
    if (is_prefix && what.reduction.function == nullptr &&
        what.reduction.kind == ReductionKind::average) {
      bad_argument(operation, "take qpmesh::sum, and divide by the number of ranks that it covers",
                   "the average of a prefix has no meaning");
    }
    take_reduction(count);
  }

  void reduce_scatter() {
    cut(what.in, "in", arguments.in_blocks, what.out, "out");
    call.lies_apart = shape.uneven = !arguments.in_blocks.gapless;
    const bool in_place = what.out.data == static_cast<const std::byte*>(what.in.data) +
                                               arguments.in_blocks.first_bytes(rank);
    if (shape.uneven && in_place)  // a block that is still to be sent would be written
      check_no_overlap(*what.in_layout, what.in.element_bytes, operation);
    all_know(arguments.in_blocks);
    take_reduction(what.out.element_count);
  }

  void allgather() {
    cut(what.out, "out", arguments.out_blocks, what.in, "in");
    all_know(arguments.out_blocks);
  }

  void gather() {
    take_root();
    cut(what.out, "out", arguments.out_blocks, what.in, "in", at_root());
    shape.uneven = what.has_layout();
  }

  void scatter() {
    take_root();
    cut(what.in, "in", arguments.in_blocks, what.out, "out", at_root());
    shape.uneven = what.has_layout();
  }

  void alltoall() {
    checked_bytes(what.in, operation);
    checked_bytes(what.out, operation);
    check_types(what.in, what.out, operation);
    if (what.has_layout() && (what.in_layout == nullptr || what.out_layout == nullptr)) {
      const bool cuts_in = what.in_layout != nullptr;
      bad_argument(operation, "give blocks(in, counts) and blocks(out, counts)",
                   "{} is cut into blocks, {} is not", cuts_in ? "in" : "out",
                   cuts_in ? "out" : "in");
    }
    const bool has_list =
        what.has_layout() && (what.in_layout->is_list || what.out_layout->is_list);
    if (!has_list) check_disjoint(what.in, what.out, operation);
    const std::size_t in_count = what.in.element_count;
    if (!what.has_layout() && (in_count % ranks() != 0 || what.out.element_count != in_count)) {
      bad_argument(
          operation,
          "for blocks of unequal lengths give blocks(in, counts) and blocks(out, counts)",
          "in has {} elements and out {}: not the same number of whole blocks for {} ranks",
          in_count, what.out.element_count, shape.size);
    }
    const std::size_t block = in_count / ranks();
    arguments.in_blocks =
        blocks_of(what.in, what.in_layout, "in", block, "a block", prepared.in_layout);
    arguments.out_blocks =
        blocks_of(what.out, what.out_layout, "out", block, "a block", prepared.out_layout);
    if (has_list)
      check_disjoint(memory_of(arguments.in_blocks, what.in.data),
                     memory_of(arguments.out_blocks, what.out.data), operation);
    describe(what.in, what.has_layout() ? 0 : block,
             what.has_layout() ? 0 : in_count * what.in.element_bytes);
    if (what.has_layout()) {
      check_length(arguments.in_blocks.counts[rank], "in's block for this rank",
                   arguments.out_blocks.counts[rank], "out's block from it");
    }
    shape.uneven = what.has_layout();
  }

  std::size_t ranks() const noexcept { return static_cast<std::size_t>(shape.size); }
  bool at_root() const noexcept { return rank == what.root; }

  // What is sent to all alike, and what the algorithms are chosen by. `of`: this rank's elements.
  template <class Range>
  void describe(const Range& of, std::size_t count_of_all_ranks, std::size_t vector_bytes) {
    call.element_count = count_of_all_ranks;
    call.element_bytes = static_cast<std::uint32_t>(of.element_bytes);
    call.type = of.type;
    shape.bytes = vector_bytes;
    arguments.in = static_cast<const std::byte*>(what.in.data);
    arguments.out = static_cast<std::byte*>(what.out.data);
    arguments.element_count = of.element_count;
    arguments.element_bytes = of.element_bytes;
  }

  void take_root() {
    check_peer(what.root, shape.size, false, operation, "root");
    call.root = arguments.root = what.root;
  }

  void take_reduction(std::size_t result_count) {
    const detail::AnyReduction& reduction = what.reduction;
    // As a whole: what is left of the last call's is not the same on all ranks.
    collectives::Reducer& reducer = arguments.reducer = {.element_bytes = what.in.element_bytes,
                                                         .commutative = reduction.commutative};
    shape.element_bytes = what.in.element_bytes;
    shape.ordered = !reduction.commutative;
    if (reduction.function != nullptr) {
      call.reduction = reduction.commutative ? context::CollectiveCall::commutative_function
                                             : context::CollectiveCall::ordered_function;
      reducer.function = reduction.function;
      reducer.context = reduction.context;
      return;
    }
    reducer.kernel = collectives::reduce_kernel(reduction.kind, what.in.type);
    if (reducer.kernel == nullptr) bad_reduction(reduction.kind, what.in.type, operation);
    call.reduction = static_cast<std::uint8_t>(reduction.kind);
    const bool divides = reduction.kind == ReductionKind::average && shape.size > 1;
    if (!divides) return;
    prepared.divide = collectives::divide_kernel(what.in.type);
    prepared.divided_count = result_count;
  }

  // `all` is cut into blocks for all ranks, and `one` is the caller's own: its length is that of
  // its block, and so is its place, or it lies apart. Where only a root has `all` the others know
  // of it what their own block tells.
  template <class All, class One>
  void cut(const All& all, std::string_view all_name, Blocks& blocks, const One& one,
           std::string_view one_name, bool has_all = true) {
    const std::size_t one_bytes = checked_bytes(one, operation);
    const bool even = !what.has_layout();
    if (has_all) {
      checked_bytes(all, operation);
      check_types(what.in, what.out, operation);
      const bool cuts_in = what.in_layout != nullptr;
      blocks =
          blocks_of(all, cuts_in ? what.in_layout : what.out_layout, all_name, one.element_count,
                    one_name, cuts_in ? prepared.in_layout : prepared.out_layout);
      if (!even)
        check_length(one.element_count, one_name, blocks.counts[rank],
                     "this rank's block of the layout");
      const bool is_list = !even && (cuts_in ? what.in_layout : what.out_layout)->is_list;
      if (!is_list) check_in_place(all, blocks.first_bytes(rank), one, operation);
      else check_in_place_of_list(blocks, all.data, one, one_bytes);
    }
    describe(one, even ? one.element_count : 0, even ? one_bytes * ranks() : 0);
  }
  BlockMemory memory_of(const Blocks& blocks, const void* data) const noexcept {
    return {data, {blocks.counts, ranks()}, {blocks.offsets_bytes, ranks()}, blocks.element_bytes};
  }
  // `one` is this rank's block, or has nothing in common with any.
  void check_in_place_of_list(const Blocks& blocks, const void* data,
                              const detail::ConstElements& one, std::size_t one_bytes) const {
    const auto* const all = static_cast<const std::byte*>(data);
    if (one_bytes == 0 || all + blocks.first_bytes(rank) == one.data) return;
    for (int block = 0; block < blocks.block_count; ++block) {
      const std::span part = blocks.of(all, block);
      if (!overlap(part.data(), part.size(), one.data, one_bytes)) continue;
      bad_argument(operation,
                   "in place, a rank's range is its own block; otherwise the two do not touch",
                   "the {} bytes of this rank and block {} overlap", one_bytes, block);
    }
  }
  void all_know(const Blocks& blocks) noexcept {
    if (!what.has_layout()) return;
    shape.bytes = blocks.bytes();
    call.layout_hash = shape.uneven ? 2 : 1;  // all ranks choose among the same rows
    for (const std::size_t count : std::span{blocks.counts, ranks()})
      call.layout_hash = base::mix64(call.layout_hash ^ count);
  }
  void check_length(std::size_t count, std::string_view name, std::size_t expected,
                    std::string_view expected_name) const {
    if (count != expected)
      bad_argument(operation, "they must be equal", "{} has {} elements, {} {}", name, count,
                   expected_name, expected);
  }

  // Of even blocks `one` is the length. The others are cut as `kept` says from now on.
  template <class Range>
  Blocks blocks_of(const Range& all, const detail::AnyLayout* layout, std::string_view name,
                   std::size_t one, std::string_view one_name, context::KeptLayout& kept) const {
    if (!what.has_layout()) {
      const auto total = base::checked_multiply(one, ranks());
      if (!total || *total != all.element_count) {
        bad_argument(operation, "for blocks of unequal lengths give blocks(range, counts)",
                     "{} has {} elements, but {} ranks with {} elements each ({}) need {}", name,
                     all.element_count, shape.size, one, one_name,
                     total ? std::to_string(*total) : "more than memory can hold");
      }
      return collectives::even_blocks(all.element_count, shape.size, all.element_bytes);
    }
    const bool gapless = layout->displacements.empty();
    check_layout(*layout, all.element_count, shape.size, name, operation);
    if (layout == what.out_layout && !gapless)
      check_no_overlap(*layout, all.element_bytes, operation);
    prepared.reads_layouts = true;
    kept.is_list = layout->is_list;
    kept.counts.assign(layout->counts.begin(), layout->counts.end());
    kept.displacements.assign(layout->displacements.begin(), layout->displacements.end());
    kept.offsets_bytes = kept.displacements;
    if (gapless) {
      kept.offsets_bytes.resize(ranks());
      std::exclusive_scan(kept.counts.begin(), kept.counts.end(), kept.offsets_bytes.begin(),
                          std::size_t{0});
    }
    if (!layout->is_list) {
      for (std::size_t& offset : kept.offsets_bytes) offset *= all.element_bytes;
    }
    return {
        .element_count = std::accumulate(kept.counts.begin(), kept.counts.end(), std::size_t{0}),
        .element_bytes = all.element_bytes,
        .block_count = shape.size,
        .gapless = gapless,
        .counts = kept.counts.data(),
        .offsets_bytes = kept.offsets_bytes.data()};
  }

  context::PreparedCall& prepared;
  const detail::AnyCollective& what;
  std::string_view operation;
  context::CollectiveCall& call{prepared.call};
  CallShape shape;
  Arguments& arguments;
  int rank;
};

// The lists of a v-form, which the next call of its collective may change.
std::size_t lists_bytes(const Blocks& blocks) noexcept {
  if (blocks.counts == nullptr) return 0;
  return 2 * static_cast<std::size_t>(blocks.block_count) * sizeof *blocks.counts;
}
// Keeps them in memory of that length.
void keep_lists(Blocks& blocks, std::byte* memory) {
  if (blocks.counts == nullptr) return;
  const auto count = static_cast<std::size_t>(blocks.block_count);
  auto* const counts = reinterpret_cast<std::size_t*>(memory);
  std::size_t* const offsets_bytes = counts + count;
  std::copy_n(blocks.counts, count, counts);
  std::copy_n(blocks.offsets_bytes, count, offsets_bytes);
  blocks.counts = counts;
  blocks.offsets_bytes = offsets_bytes;
}

// With what stands around an algorithm: the division of an average, and how it was chosen. What is
// prepared is not the task's: nothing of it is looked at after the first wait.
collectives::Task run_prepared(collectives::Group group, const context::PreparedCall& prepared,
                               const Arguments& arguments, collectives::Selector& selector,
                               collectives::Choice choice) {
  const collectives::DivideKernel divide = prepared.divide;
  const std::size_t divided_count = prepared.divided_count;
  if (selector.is_plain(choice)) co_await choice.row->run(group, arguments);
  else co_await selector.run(group, arguments, prepared.shape, choice);
  if (divide != nullptr) divide(arguments.out, divided_count, group.size());
}

// The same with lists of the task's own: the next call may change those of a v-form. The arguments
// are this call's alone.
collectives::Task run_with_own_lists(collectives::Group group,
                                     const context::PreparedCall& prepared, Arguments& arguments,
                                     collectives::Selector& selector, collectives::Choice choice) {
  const std::size_t in_bytes = lists_bytes(arguments.in_blocks);
  const collectives::Scratch lists{group, in_bytes + lists_bytes(arguments.out_blocks)};
  keep_lists(arguments.in_blocks, lists.data());
  keep_lists(arguments.out_blocks, lists.data() + in_bytes);
  co_await run_prepared(group, prepared, arguments, selector, choice);
}

// What is prepared for such a call. Throws what is wrong with it.
[[gnu::noinline]] context::PreparedCall& prepare_anew(
    std::unique_ptr<context::PreparedCall>& kept, const context::CommunicatorState& communicator,
    const detail::AnyCollective& what, std::string_view operation) {
  if (kept == nullptr) kept = std::make_unique<context::PreparedCall>();
  Preparation{*kept, communicator, what, operation}.prepare();
  return *kept;
}
[[gnu::noinline]] void take_root(context::PreparedCall& prepared, int root, int size,
                                 std::string_view operation) {
  check_peer(root, size, false, operation, "root");
  prepared.what.root = prepared.call.root = prepared.arguments.root = root;
  prepared.signature = prepared.call.signature();
}
context::PreparedCall& prepare(context::CommunicatorState& communicator,
                               const detail::AnyCollective& what, std::string_view operation) {
  auto& kept = communicator.prepared(what.collective, what.root == communicator.rank());
  if (kept == nullptr || !kept->is_like(what)) [[unlikely]]
    return prepare_anew(kept, communicator, what, operation);
  if (kept->what.root != what.root) take_root(*kept, what.root, communicator.size(), operation);
  return *kept;
}

// What runs the call. Made where it is kept, as all that follows: to copy what was written just now
// waits until it has left the core, which took longer than the rest of a call that moves nothing.
collectives::Choice choose(context::CommunicatorState& communicator,
                           const context::PreparedCall& prepared,
                           std::string_view algorithm_asked_for, std::string_view operation) {
  if (prepared.moves_nothing && algorithm_asked_for.empty()) return {};
  return communicator.selector().select(prepared.shape, prepared.what.collective,
                                        algorithm_asked_for, operation);
}
// From here on it goes its way.
collectives::Group count(context::CommunicatorState& communicator, context::PreparedCall& prepared,
                         const collectives::Choice& choice, std::string_view algorithm_asked_for) {
  const bool asked_for = !algorithm_asked_for.empty();
  if (prepared.call.algorithm != choice.named || prepared.call.algorithm_asked_for != asked_for)
      [[unlikely]] {
    prepared.call.algorithm = choice.named;
    prepared.call.algorithm_asked_for = asked_for;
    prepared.signature = prepared.call.signature();
  }
  return communicator.begin(prepared.call, prepared.signature);
}

void note_algorithm(context::CommunicatorState& communicator, const collectives::Choice& choice) {
  if (context::Trace* const trace = communicator.context().trace(); trace != nullptr) [[unlikely]]
    if (choice.row != nullptr) trace->note_algorithm(choice.row->name);
}

// keeps_lists: of a v-form, whose next call may change them.
void start(PendingOperation& request, const context::PreparedCall& prepared, Arguments& arguments,
           const collectives::Choice& choice, const collectives::Group& group, bool keeps_lists) {
  collectives::Selector& selector = request.communicator->selector();
  request.has_task = true;
  request.communicator->context().engine().start(request.task, [&] {
    if (keeps_lists) return run_with_own_lists(group, prepared, arguments, selector, choice);
    return prepared.divide == nullptr && selector.is_plain(choice)
               ? choice.row->run(group, arguments)
               : run_prepared(group, prepared, arguments, selector, choice);
  });
}

// Out of line: what moves nothing needs no room for what waits.
[[gnu::noinline]] void run_and_wait(context::CommunicatorState& communicator,
                                    context::PreparedCall& prepared, const CallOptions& options,
                                    std::string_view operation) {
  const collectives::Choice choice = choose(communicator, prepared, options.algorithm, operation);
  const collectives::Group group = count(communicator, prepared, choice, options.algorithm);
  if (prepared.moves_nothing) return;
  note_algorithm(communicator, choice);
  PendingOperation request{communicator, operation, options};
  // No other call is made meanwhile: what is prepared, and the lists of a v-form, stay as they are.
  start(request, prepared, prepared.arguments, choice, group, false);
  if (!request.task_ended_well()) finish_waiting(request);
}

}  // namespace

void run_collective(context::CommunicatorState& communicator, const detail::AnyCollective& what,
                    const CallOptions& options) {
  const std::string_view operation = collectives::collective_name(what.collective);
  const CallScope scope{communicator, operation, options};
  context::PreparedCall& prepared = prepare(communicator, what, operation);
  if (prepared.moves_nothing && options.algorithm.empty()) {
    count(communicator, prepared, {}, {});
    return;
  }
  run_and_wait(communicator, prepared, options, operation);
}

std::uint8_t check_collective(context::CommunicatorState& communicator,
                              const detail::AnyCollective& what,
                              std::string_view algorithm_asked_for, std::string_view operation) {
  auto& kept = communicator.prepared(what.collective, what.root == communicator.rank());
  const context::PreparedCall& prepared = prepare_anew(kept, communicator, what, operation);
  if (!prepared.moves_nothing || !algorithm_asked_for.empty())
    communicator.selector().check(prepared.shape, what.collective, algorithm_asked_for, operation);
  return prepared.call.reduction;
}

void start_collective(PendingOperation& request, const detail::AnyCollective& what,
                      std::string_view algorithm_asked_for) {
  context::CommunicatorState& communicator = *request.communicator;
  context::PreparedCall& prepared = prepare(communicator, what, request.operation);
  const collectives::Choice choice =
      choose(communicator, prepared, algorithm_asked_for, request.operation);
  const collectives::Group group = count(communicator, prepared, choice, algorithm_asked_for);
  if (prepared.moves_nothing) {
    request.has_task = true;
    return communicator.context().engine().complete(request.task);
  }
  note_algorithm(communicator, choice);
  Arguments& arguments = *::new (&request.arguments) Arguments{prepared.arguments};
  start(request, prepared, arguments, choice, group, prepared.call.has_layout);
}

collectives::Task task_of(context::CommunicatorState& communicator, const collectives::Group& group,
                          const collectives::Algorithm& algorithm, const Arguments& arguments) {
  collectives::Selector& selector = communicator.selector();
  const collectives::Choice choice{.row = &algorithm};
  return selector.is_plain(choice) ? algorithm.run(group, arguments)
                                   : selector.run(group, arguments, communicator.shape(), choice);
}

void start_algorithm(PendingOperation& request, const collectives::Group& group,
                     const collectives::Algorithm& algorithm, const Arguments& arguments) {
  start_task(request, [&] { return task_of(*request.communicator, group, algorithm, arguments); });
}

}  // namespace qpmesh::calls
