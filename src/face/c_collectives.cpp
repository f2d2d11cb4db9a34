// SPDX-License-Identifier: MIT
// For C: the collectives. Each is described once, by a function of what all of them share; its
// blocking and its asynchronous call are two ways to make what that describes.
#include <array>
#include <limits>

#include "base/bytes.hpp"
#include "calls/pending_operation.hpp"
#include "face/c_interface.hpp"
#include "qpmesh/local.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::face;
using detail::AnyCollective;
using detail::AnyReduction;
using detail::ConstElements;
using detail::Elements;

static_assert(static_cast<int>(ReductionKind::average) == QPMESH_AVERAGE);
static_assert(static_cast<int>(ReductionKind::logical_xor) == QPMESH_LOGICAL_XOR);

// ---- reductions ----

void call_user(const void* context, const void* left, void* inout, std::size_t element_count) {
  const UserFunction& user = *static_cast<const UserFunction*>(context);
  const int result = user.function(user.context, left, inout, element_count);
  if (result == 0) return;
  base::throw_error({ErrorCode::aborted}, user.operation,
                    "the function returns 0 when all went well",
                    "a reduction of the caller's returned {}", result);
}

AnyReduction user_reduction(UserFunction& user, std::string_view operation) {
  if (user.function == nullptr)
    bad_argument(operation, "give it in a qpmesh_call", "QPMESH_USER has no function");
  user.operation = operation;
  return {.commutative = user.commutative,
          .function = call_user,
          .context = &user,
          .copy = [](const void* context) -> std::shared_ptr<const void> {
            return std::make_shared<UserFunction>(*static_cast<const UserFunction*>(context));
          }};
}

// Those of C++, so that ranks of both languages reduce together.
template <class T>
AnyReduction located(qpmesh_reduction reduction) {
  static_assert(sizeof(Located<T>) == 2 * sizeof(std::int64_t));
  return reduction == QPMESH_MIN_LOCATED ? detail::any_reduction<Located<T>>(min_located)
                                         : detail::any_reduction<Located<T>>(max_located);
}
using MakeLocated = AnyReduction (*)(qpmesh_reduction);
constexpr std::array<MakeLocated, QPMESH_FLOAT64 + 1> located_of_types{nullptr,
                                                                       located<std::int8_t>,
                                                                       located<std::int16_t>,
                                                                       located<std::int32_t>,
                                                                       located<std::int64_t>,
                                                                       located<std::uint8_t>,
                                                                       located<std::uint16_t>,
                                                                       located<std::uint32_t>,
                                                                       located<std::uint64_t>,
                                                                       located<float>,
                                                                       located<double>};

// Everything but a built-in reduction of a named type, and all errors.
AnElement set_unusual_reduction(AnyReduction& by, qpmesh_type type, qpmesh_reduction reduction,
                                UserFunction& user, std::string_view operation) {
  const AnElement element = element_of(type, operation);
  if (reduction < 0 || reduction > QPMESH_USER)
    bad_argument(operation, "take QPMESH_SUM or one of its like", "reduction {} does not exist",
                 reduction);
  if (reduction == QPMESH_USER) {
    by = user_reduction(user, operation);
    return element;
  }
  if (element.type == ElementType::none)
    bad_argument(operation, "name the type of the elements: QPMESH_UINT8 or another",
                 "bytes are not reduced");
  const auto index = static_cast<std::size_t>(type);
  if (index >= located_of_types.size())
    bad_argument(operation, "take integers, QPMESH_FLOAT32 or QPMESH_FLOAT64",
                 "values of 16 bits have no place beside them");
  by = located_of_types[index](reduction);
  return {sizeof(Located<double>), ElementType::none};
}

// Sets how a call reduces, and returns what its elements are. Where it is needed: a copy of what
// was just written waits until that has left the core.
inline AnElement set_reduction(AnyReduction& by, qpmesh_type type, qpmesh_reduction reduction,
                               UserFunction& user, std::string_view operation) {
  static_assert(QPMESH_SUM == 0 && QPMESH_MIN_LOCATED + 1 == QPMESH_MAX_LOCATED &&
                QPMESH_MAX_LOCATED + 1 == QPMESH_USER);
  const bool is_usual = reduction >= QPMESH_SUM && reduction < QPMESH_MIN_LOCATED &&
                        type > QPMESH_BYTE && type <= QPMESH_BFLOAT16;
  if (!is_usual) [[unlikely]]
    return set_unusual_reduction(by, type, reduction, user, operation);
  by.kind = static_cast<ReductionKind>(reduction);
  return checked_element_of(type, operation);
}

// ---- vectors that are cut ----

// Blocks of unequal lengths, for as long as a call runs.
struct Cut {
  detail::AnyLayout layout{};
  std::optional<Blocks<std::byte>> ranges{};
};

// So many that they cannot be counted no memory holds.
std::size_t added(std::size_t a, std::size_t b) noexcept {
  const std::size_t sum = a + b;
  return sum < a ? std::numeric_limits<std::size_t>::max() : sum;
}

// Range: what the call reads, or what it writes. Member by member, as all here: to copy what was
// written just now waits until it has left the core.
template <class Range>
void set(Range& range, void* data, std::size_t count) noexcept {
  range.data = data;
  range.element_count = count;
}

template <class Range>
void cut(Cut& into, Range& range, const qpmesh_blocks& blocks, std::size_t ranks, AnElement element,
         std::string_view operation) {
  const std::span counts{&required(blocks.counts, "counts", operation), ranks};
  std::size_t count = 0;
  if (blocks.ranges != nullptr) {
    if (blocks.data != nullptr || blocks.displacements != nullptr)
      bad_argument(operation, "give ranges alone, or data with displacements or without",
                   "blocks are ranges, and parts of one vector");
    std::vector<std::span<std::byte>> list;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t bytes = calls::checked_bytes(counts[rank], element.bytes, operation);
      if (bytes > 0 && blocks.ranges[rank] == nullptr)
        bad_argument(operation, "a range without memory has a count of 0",
                     "range {} is null with a count of {}", rank, counts[rank]);
      list.emplace_back(static_cast<std::byte*>(blocks.ranges[rank]), bytes);
      count = added(count, counts[rank]);
    }
    const auto& lists = into.ranges.emplace(std::span<const std::span<std::byte>>{list});
    into.layout = {{counts, lists.layout().displacements}, true};
    set(range, lists.data(), count);
    return;
  }
  into.layout.counts = counts;
  if (blocks.displacements == nullptr) {
    for (std::size_t rank = 0; rank < ranks; ++rank) count = added(count, counts[rank]);
  } else {
    into.layout.displacements = {blocks.displacements, ranks};
    for (std::size_t rank = 0; rank < ranks; ++rank)
      count = std::max(count, added(blocks.displacements[rank], counts[rank]));
  }
  set(range, blocks.data, count);
}

// ---- calls ----

// What the description of a collective is made of.
struct Description {
  Description(const context::CommunicatorState& of, UserFunction& user_function,
              std::string_view call)
      : ranks{static_cast<std::size_t>(of.size())},
        rank{of.rank()},
        user{user_function},
        operation{call} {}

  std::size_t ranks;
  int rank;
  UserFunction& user;
  std::string_view operation;
  // Of calls that end in v: cleared, both would take as long as the rest of a barrier's call.
  std::optional<Cut> in{};
  std::optional<Cut> out{};
  std::optional<std::vector<Elements>> each{};  // of a call on several vectors

  AnElement element(qpmesh_type type) const { return element_of(type, operation); }
  // Elements of one block for every rank.
  std::size_t all(std::size_t count) const noexcept {
    return base::checked_multiply(count, ranks).value_or(std::numeric_limits<std::size_t>::max());
  }
  void cut_in(AnyCollective& what, const qpmesh_blocks* blocks, AnElement element,
              bool has_all = true) {
    what.in_layout = cut_by(in, what.in, blocks, element, has_all);
  }
  void cut_out(AnyCollective& what, const qpmesh_blocks* blocks, AnElement element,
               bool has_all = true) {
    what.out_layout = cut_by(out, what.out, blocks, element, has_all);
  }

 private:
  template <class Range>
  const detail::AnyLayout* cut_by(std::optional<Cut>& place, Range& range,
                                  const qpmesh_blocks* blocks, AnElement element,
                                  bool has_all) const {
    Cut& own = place.emplace();
    range.element_bytes = element.bytes;
    range.type = element.type;
    if (has_all) cut(own, range, required(blocks, "blocks", operation), ranks, element, operation);
    return &own.layout;
  }
};

const context::CommunicatorState& state_of(const qpmesh_communicator& own,
                                           std::string_view operation) {
  return *detail::held(Access::state(own.communicator), operation);
}

template <class Describe>
int run(qpmesh_communicator* world, std::string_view operation, const qpmesh_call* call,
        Describe&& describe) {
  return guarded(operation, [&] {
    auto& own = required_world(world, operation);
    Asked asked = read_blocking(call, operation);
    Description description{state_of(own, operation), asked.user, operation};
    Access::run(own.communicator, describe(description), asked.options);
  });
}

template <class Describe>
int begin(qpmesh_communicator* world, std::string_view operation, const qpmesh_call* call,
          qpmesh_request** request, Describe&& describe) {
  return guarded(operation, [&] {
    auto& own = required_world(world, operation);
    auto& made = required(request, "request", operation);
    Asked asked = read_call(call, operation);
    Description description{state_of(own, operation), asked.user, operation};
    const auto what = describe(description);
    if (asked.prepared) return prepare(own, what, asked.options, made);
    start(made, [&] { return Access::start(own.communicator, what, asked.options); });
  });
}

// ---- the collectives ----

auto barrier() {
  return [](Description&) { return AnyCollective{Collective::barrier}; };
}

auto broadcast(void* data, std::size_t count, qpmesh_type type, int root) {
  return [=](Description& of) {
    return AnyCollective{Collective::broadcast, {}, target(data, count, of.element(type)), root};
  };
}

// in and out are as long.
auto reduction_of(Collective collective, const void* in, void* out, std::size_t count,
                  qpmesh_type type, qpmesh_reduction reduction) {
  return [=](Description& of) {
    AnyCollective what{collective};
    const AnElement element = set_reduction(what.reduction, type, reduction, of.user, of.operation);
    what.in = source(in, count, element);
    what.out = target(out, count, element);
    return what;
  };
}

auto allreduce_each(void* const* vectors, const std::size_t* counts, std::size_t vector_count,
                    qpmesh_type type, qpmesh_reduction reduction) {
  return [=](Description& of) {
    detail::AnyVectors what;
    const AnElement element = set_reduction(what.reduction, type, reduction, of.user, of.operation);
    if (vector_count > 0) {
      required(vectors, "vectors", of.operation);
      required(counts, "counts", of.operation);
    }
    std::vector<Elements>& each = of.each.emplace();
    for (std::size_t i = 0; i < vector_count; ++i)
      each.push_back(target(vectors[i], counts[i], element));
    what.vectors = each;
    return what;
  };
}

auto reduce(const void* in, void* out, std::size_t count, qpmesh_type type, qpmesh_reduction by,
            int root) {
  return [=](Description& of) {
    AnyCollective what = reduction_of(Collective::reduce, in, out, count, type, by)(of);
    what.root = root;
    if (of.rank != root) what.out.data = nullptr, what.out.element_count = 0;
    return what;
  };
}

auto reduce_scatter(const void* in, void* out, std::size_t count, qpmesh_type type,
                    qpmesh_reduction by) {
  return [=](Description& of) {
    AnyCollective what = reduction_of(Collective::reduce_scatter, in, out, count, type, by)(of);
    what.in.element_count = of.all(count);
    return what;
  };
}

auto reduce_scatterv(const qpmesh_blocks* in, void* out, std::size_t count, qpmesh_type type,
                     qpmesh_reduction by) {
  return [=](Description& of) {
    AnyCollective what =
        reduction_of(Collective::reduce_scatter, nullptr, out, count, type, by)(of);
    of.cut_in(what, in, {what.out.element_bytes, what.out.type});
    return what;
  };
}

auto allgather(const void* in, void* out, std::size_t count, qpmesh_type type) {
  return [=](Description& of) {
    const AnElement element = of.element(type);
    return AnyCollective{Collective::allgather, source(in, count, element),
                         target(out, of.all(count), element)};
  };
}

auto allgatherv(const void* in, std::size_t count, const qpmesh_blocks* out, qpmesh_type type) {
  return [=](Description& of) {
    const AnElement element = of.element(type);
    AnyCollective what{Collective::allgather, source(in, count, element)};
    of.cut_out(what, out, element);
    return what;
  };
}

auto gather(const void* in, void* out, std::size_t count, qpmesh_type type, int root) {
  return [=](Description& of) {
    const AnElement element = of.element(type);
    const bool has_all = of.rank == root;
    return AnyCollective{Collective::gather, source(in, count, element),
                         target(has_all ? out : nullptr, has_all ? of.all(count) : 0, element),
                         root};
  };
}

auto gatherv(const void* in, std::size_t count, const qpmesh_blocks* out, qpmesh_type type,
             int root) {
  return [=](Description& of) {
    const AnElement element = of.element(type);
    AnyCollective what{Collective::gather, source(in, count, element), {}, root};
    of.cut_out(what, out, element, of.rank == root);
    return what;
  };
}

auto scatter(const void* in, void* out, std::size_t count, qpmesh_type type, int root) {
  return [=](Description& of) {
    const AnElement element = of.element(type);
    const bool has_all = of.rank == root;
    return AnyCollective{Collective::scatter,
                         source(has_all ? in : nullptr, has_all ? of.all(count) : 0, element),
                         target(out, count, element), root};
  };
}

auto scatterv(const qpmesh_blocks* in, void* out, std::size_t count, qpmesh_type type, int root) {
  return [=](Description& of) {
    const AnElement element = of.element(type);
    AnyCollective what{Collective::scatter, {}, target(out, count, element), root};
    of.cut_in(what, in, element, of.rank == root);
    return what;
  };
}

auto alltoall(const void* in, void* out, std::size_t count, qpmesh_type type) {
  return [=](Description& of) {
    const AnElement element = of.element(type);
    return AnyCollective{Collective::alltoall, source(in, of.all(count), element),
                         target(out, of.all(count), element)};
  };
}

auto alltoallv(const qpmesh_blocks* in, const qpmesh_blocks* out, qpmesh_type type) {
  return [=](Description& of) {
    const AnElement element = of.element(type);
    AnyCollective what{Collective::alltoall};
    of.cut_in(what, in, element);
    of.cut_out(what, out, element);
    return what;
  };
}

}  // namespace

int qpmesh_barrier(qpmesh_communicator* world, const qpmesh_call* call) {
  return run(world, "barrier", call, barrier());
}

int qpmesh_barrier_async(qpmesh_communicator* world, const qpmesh_call* call,
                         qpmesh_request** request) {
  return begin(world, "barrier_async", call, request, barrier());
}

int qpmesh_broadcast(qpmesh_communicator* world, void* data, size_t count, qpmesh_type type,
                     int root, const qpmesh_call* call) {
  return run(world, "broadcast", call, broadcast(data, count, type, root));
}

int qpmesh_broadcast_async(qpmesh_communicator* world, void* data, size_t count, qpmesh_type type,
                           int root, const qpmesh_call* call, qpmesh_request** request) {
  return begin(world, "broadcast_async", call, request, broadcast(data, count, type, root));
}

int qpmesh_allreduce(qpmesh_communicator* world, const void* in, void* out, size_t count,
                     qpmesh_type type, qpmesh_reduction reduction, const qpmesh_call* call) {
  return run(world, "allreduce", call,
             reduction_of(Collective::allreduce, in, out, count, type, reduction));
}

int qpmesh_allreduce_async(qpmesh_communicator* world, const void* in, void* out, size_t count,
                           qpmesh_type type, qpmesh_reduction reduction, const qpmesh_call* call,
                           qpmesh_request** request) {
  return begin(world, "allreduce_async", call, request,
               reduction_of(Collective::allreduce, in, out, count, type, reduction));
}

int qpmesh_allreduce_each(qpmesh_communicator* world, void* const* vectors, const size_t* counts,
                          size_t vector_count, qpmesh_type type, qpmesh_reduction reduction,
                          const qpmesh_call* call) {
  return run(world, "allreduce_each", call,
             allreduce_each(vectors, counts, vector_count, type, reduction));
}

int qpmesh_allreduce_each_async(qpmesh_communicator* world, void* const* vectors,
                                const size_t* counts, size_t vector_count, qpmesh_type type,
                                qpmesh_reduction reduction, const qpmesh_call* call,
                                qpmesh_request** request) {
  return begin(world, "allreduce_each_async", call, request,
               allreduce_each(vectors, counts, vector_count, type, reduction));
}

int qpmesh_reduce(qpmesh_communicator* world, const void* in, void* out, size_t count,
                  qpmesh_type type, qpmesh_reduction reduction, int root, const qpmesh_call* call) {
  return run(world, "reduce", call, reduce(in, out, count, type, reduction, root));
}

int qpmesh_reduce_async(qpmesh_communicator* world, const void* in, void* out, size_t count,
                        qpmesh_type type, qpmesh_reduction reduction, int root,
                        const qpmesh_call* call, qpmesh_request** request) {
  return begin(world, "reduce_async", call, request, reduce(in, out, count, type, reduction, root));
}

int qpmesh_reduce_scatter(qpmesh_communicator* world, const void* in, void* out, size_t count,
                          qpmesh_type type, qpmesh_reduction reduction, const qpmesh_call* call) {
  return run(world, "reduce_scatter", call, reduce_scatter(in, out, count, type, reduction));
}

int qpmesh_reduce_scatter_async(qpmesh_communicator* world, const void* in, void* out, size_t count,
                                qpmesh_type type, qpmesh_reduction reduction,
                                const qpmesh_call* call, qpmesh_request** request) {
  return begin(world, "reduce_scatter_async", call, request,
               reduce_scatter(in, out, count, type, reduction));
}

int qpmesh_reduce_scatterv(qpmesh_communicator* world, const qpmesh_blocks* in, void* out,
                           size_t count, qpmesh_type type, qpmesh_reduction reduction,
                           const qpmesh_call* call) {
  return run(world, "reduce_scatterv", call, reduce_scatterv(in, out, count, type, reduction));
}

int qpmesh_reduce_scatterv_async(qpmesh_communicator* world, const qpmesh_blocks* in, void* out,
                                 size_t count, qpmesh_type type, qpmesh_reduction reduction,
                                 const qpmesh_call* call, qpmesh_request** request) {
  return begin(world, "reduce_scatterv_async", call, request,
               reduce_scatterv(in, out, count, type, reduction));
}

int qpmesh_scan(qpmesh_communicator* world, const void* in, void* out, size_t count,
                qpmesh_type type, qpmesh_reduction reduction, const qpmesh_call* call) {
  return run(world, "scan", call, reduction_of(Collective::scan, in, out, count, type, reduction));
}

int qpmesh_scan_async(qpmesh_communicator* world, const void* in, void* out, size_t count,
                      qpmesh_type type, qpmesh_reduction reduction, const qpmesh_call* call,
                      qpmesh_request** request) {
  return begin(world, "scan_async", call, request,
               reduction_of(Collective::scan, in, out, count, type, reduction));
}

int qpmesh_exscan(qpmesh_communicator* world, const void* in, void* out, size_t count,
                  qpmesh_type type, qpmesh_reduction reduction, const qpmesh_call* call) {
  return run(world, "exscan", call,
             reduction_of(Collective::exscan, in, out, count, type, reduction));
}

int qpmesh_exscan_async(qpmesh_communicator* world, const void* in, void* out, size_t count,
                        qpmesh_type type, qpmesh_reduction reduction, const qpmesh_call* call,
                        qpmesh_request** request) {
  return begin(world, "exscan_async", call, request,
               reduction_of(Collective::exscan, in, out, count, type, reduction));
}

int qpmesh_allgather(qpmesh_communicator* world, const void* in, void* out, size_t count,
                     qpmesh_type type, const qpmesh_call* call) {
  return run(world, "allgather", call, allgather(in, out, count, type));
}

int qpmesh_allgather_async(qpmesh_communicator* world, const void* in, void* out, size_t count,
                           qpmesh_type type, const qpmesh_call* call, qpmesh_request** request) {
  return begin(world, "allgather_async", call, request, allgather(in, out, count, type));
}

int qpmesh_allgatherv(qpmesh_communicator* world, const void* in, size_t count,
                      const qpmesh_blocks* out, qpmesh_type type, const qpmesh_call* call) {
  return run(world, "allgatherv", call, allgatherv(in, count, out, type));
}

int qpmesh_allgatherv_async(qpmesh_communicator* world, const void* in, size_t count,
                            const qpmesh_blocks* out, qpmesh_type type, const qpmesh_call* call,
                            qpmesh_request** request) {
  return begin(world, "allgatherv_async", call, request, allgatherv(in, count, out, type));
}

int qpmesh_gather(qpmesh_communicator* world, const void* in, void* out, size_t count,
                  qpmesh_type type, int root, const qpmesh_call* call) {
  return run(world, "gather", call, gather(in, out, count, type, root));
}

int qpmesh_gather_async(qpmesh_communicator* world, const void* in, void* out, size_t count,
                        qpmesh_type type, int root, const qpmesh_call* call,
                        qpmesh_request** request) {
  return begin(world, "gather_async", call, request, gather(in, out, count, type, root));
}

int qpmesh_gatherv(qpmesh_communicator* world, const void* in, size_t count,
                   const qpmesh_blocks* out, qpmesh_type type, int root, const qpmesh_call* call) {
  return run(world, "gatherv", call, gatherv(in, count, out, type, root));
}

int qpmesh_gatherv_async(qpmesh_communicator* world, const void* in, size_t count,
                         const qpmesh_blocks* out, qpmesh_type type, int root,
                         const qpmesh_call* call, qpmesh_request** request) {
  return begin(world, "gatherv_async", call, request, gatherv(in, count, out, type, root));
}

int qpmesh_scatter(qpmesh_communicator* world, const void* in, void* out, size_t count,
                   qpmesh_type type, int root, const qpmesh_call* call) {
  return run(world, "scatter", call, scatter(in, out, count, type, root));
}

int qpmesh_scatter_async(qpmesh_communicator* world, const void* in, void* out, size_t count,
                         qpmesh_type type, int root, const qpmesh_call* call,
                         qpmesh_request** request) {
  return begin(world, "scatter_async", call, request, scatter(in, out, count, type, root));
}

int qpmesh_scatterv(qpmesh_communicator* world, const qpmesh_blocks* in, void* out, size_t count,
                    qpmesh_type type, int root, const qpmesh_call* call) {
  return run(world, "scatterv", call, scatterv(in, out, count, type, root));
}

int qpmesh_scatterv_async(qpmesh_communicator* world, const qpmesh_blocks* in, void* out,
                          size_t count, qpmesh_type type, int root, const qpmesh_call* call,
                          qpmesh_request** request) {
  return begin(world, "scatterv_async", call, request, scatterv(in, out, count, type, root));
}

int qpmesh_alltoall(qpmesh_communicator* world, const void* in, void* out, size_t count,
                    qpmesh_type type, const qpmesh_call* call) {
  return run(world, "alltoall", call, alltoall(in, out, count, type));
}

int qpmesh_alltoall_async(qpmesh_communicator* world, const void* in, void* out, size_t count,
                          qpmesh_type type, const qpmesh_call* call, qpmesh_request** request) {
  return begin(world, "alltoall_async", call, request, alltoall(in, out, count, type));
}

int qpmesh_alltoallv(qpmesh_communicator* world, const qpmesh_blocks* in, const qpmesh_blocks* out,
                     qpmesh_type type, const qpmesh_call* call) {
  return run(world, "alltoallv", call, alltoallv(in, out, type));
}

int qpmesh_alltoallv_async(qpmesh_communicator* world, const qpmesh_blocks* in,
                           const qpmesh_blocks* out, qpmesh_type type, const qpmesh_call* call,
                           qpmesh_request** request) {
  return begin(world, "alltoallv_async", call, request, alltoallv(in, out, type));
}

int qpmesh_reduce_local(const void* in, void* inout, size_t count, qpmesh_type type,
                        qpmesh_reduction reduction, const qpmesh_call* call) {
  constexpr std::string_view operation = "reduce_local";
  return guarded(operation, [&] {
    Asked asked = read_blocking(call, operation);
    AnyReduction by;
    const AnElement element = set_reduction(by, type, reduction, asked.user, operation);
    detail::reduce_local(source(in, count, element), target(inout, count, element), by);
  });
}
