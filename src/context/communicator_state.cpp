#include "context/communicator_state.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.hpp"
#include "context/control_frames.hpp"

namespace qpmesh::context {
namespace {

constexpr std::array<std::string_view, 13> type_names{"bytes",   "int8",    "int16",   "int32",  "int64",
                                                      "uint8",   "uint16",  "uint32",  "uint64", "float32",
                                                      "float64", "float16", "bfloat16"};
static_assert(type_names.size() == static_cast<std::size_t>(ElementType::bfloat16) + 1);
constexpr std::array<std::string_view, 11> reduction_names{
    "sum",    "product", "min",         "max",        "average",    "bit_and",
    "bit_or", "bit_xor", "logical_and", "logical_or", "logical_xor"};
static_assert(reduction_names.size() == static_cast<std::size_t>(ReductionKind::logical_xor) + 1);

}  // namespace

std::uint32_t CollectiveCall::signature() const noexcept {
  const std::uint64_t kinds = std::uint64_t{element_bytes} << 24 | static_cast<std::uint64_t>(type) << 16 |
                              std::uint64_t{has_layout} << 8 | reduction;
  const std::uint64_t by = algorithm == nullptr ? ~std::uint64_t{0} : algorithm->number;
  const std::uint64_t who = by << 32 ^ static_cast<std::uint32_t>(root);
  // A sum of products, which do not wait for each other, and one more, whose upper half depends on every bit. The factors are odd and
  // otherwise arbitrary.
  const std::uint64_t sum = operation.hash * 0x9fb21c651e98df25U + element_count * 0xd6e8feb86659fd93U +
                            kinds * 0xa0761d6478bd642fU + who * 0xe7037ed1a0b428dbU + layout_hash;
  return static_cast<std::uint32_t>((sum ^ (sum >> 32)) * 0x94d049bb133111ebU >> 32);
}

std::string CollectiveCall::describe() const {
  std::string arguments;
  if (element_bytes > 0) {
    const bool has_type = type != ElementType::none;
    const std::string what = has_type ? std::string{type_names[static_cast<std::size_t>(type)]}
                                      : fmt::format("elements of {} bytes", element_bytes);
    arguments = has_layout ? fmt::format("blocks of {}", what) : fmt::format("{} {}", element_count, what);
  }
  if (reduction < reduction_names.size()) arguments += fmt::format(", {}", reduction_names[reduction]);
  if (reduction == commutative_function) arguments += ", a commutative function";
  if (reduction == ordered_function) arguments += ", an ordered function";
  if (root >= 0) arguments += fmt::format(", root {}", root);
  if (algorithm_asked_for) arguments += fmt::format(", by {}", algorithm->name);
  if (layout_hash != 0) arguments += fmt::format(", layout {:08x}", static_cast<std::uint32_t>(layout_hash));
  return fmt::format("{}({})", operation.text, arguments);
}

CommunicatorState::CommunicatorState(std::shared_ptr<Context> context, std::uint64_t id,
                                     std::vector<int> context_ranks, std::vector<std::uint64_t> node_slabs)
    : context_{std::move(context)},
      id_{id},
      context_ranks_{std::move(context_ranks)},
      rank_{rank_of(context_->rank())},
      selector_{context_->medium_for(context_ranks_), context_->forced_algorithms()} {
  if (!node_slabs.empty()) node_slab_ = node_slabs[static_cast<std::size_t>(rank_)];
  node_ = context_->node_memory(id_, context_ranks_, std::move(node_slabs));
  members_ = {.machine = &context_->machine(),
              .node = node_.get(),
              .context_ranks = context_ranks_.data(),
              .size = size(),
              .rank = rank_,
              .communicator = id_};
  shape_ = {.size = size(), .one_node = on_one_node(), .single_copy = on_one_node() && node_->single_copy()};
  context_->add(*this);
}

CommunicatorState::~CommunicatorState() {
  context_->remove(*this);
  // A member that is slower may still read what we published last. Unless finish() told otherwise, the slab stays as it is
  // until the context goes, and even then for those who mapped it.
  const bool nobody_reads = node_ == nullptr || (finished_ && node_->is_quiet());
  node_.reset();
  if (nobody_reads) context_->free_node_slab(node_slab_);
}

int CommunicatorState::search_rank(int context_rank) const noexcept {
  const auto found = std::find(context_ranks_.begin(), context_ranks_.end(), context_rank);
  return found == context_ranks_.end() ? -1 : static_cast<int>(found - context_ranks_.begin());
}

void CommunicatorState::throw_unusable(std::string_view operation) const {
  if (failure_) throw_failure(*failure_, operation);
  throw Error{{.code = ErrorCode::bad_argument,
               .operation = std::string{operation},
               .cause = "the communicator has finished",
               .hint = "finish() is the last call on a communicator"}};
}

void CommunicatorState::fail(ErrorDetail detail, bool tell) {
  if (failure_) return;
  auto failure = std::make_unique<const Error>(std::move(detail));
  context_->messaging().fail(id_, *failure);  // before anything else that may throw: now no operation is left
  failure_ = std::move(failure);
  if (node_) node_->fail(*failure_);
  context_->log().info("communicator {:016x} failed: {}", id_, failure_->what());
  if (tell) {
    const Blob frame =
        encode({.kind = ControlFrame::Kind::failure, .communicator = id_, .detail = failure_->detail()});
    for (const int member : context_ranks_) {
      if (member != context_->rank()) context_->send_control(member, frame);
    }
  }
}

collectives::Group CommunicatorState::begin() {
  const std::uint32_t operation = next_operation_++;
  Remembered& remembered = remembered_[operation % remembered_calls];
  const CollectiveCall& call = remembered.call;
  remembered.signature = call.signature();
  context_->operations().add(call.operation.text, call.element_count * call.element_bytes);
  context_->messaging().recheck_signatures(id_, operation);
  return {members_, operation, remembered.signature};
}

bool CommunicatorState::agrees(std::uint32_t operation, std::uint32_t signature) const noexcept {
  const Remembered& remembered = remembered_[operation % remembered_calls];
  const bool begun = static_cast<std::int32_t>(next_operation_ - operation) > 0;
  return !begun || remembered.operation != operation || remembered.signature == signature;
}

std::string CommunicatorState::describe_call(std::uint32_t operation) const {
  const Remembered& remembered = remembered_[operation % remembered_calls];
  const bool begun = static_cast<std::int32_t>(next_operation_ - operation) > 0;
  if (!begun) return "a call not made yet";
  return remembered.operation == operation ? remembered.call.describe() : "a call long past";
}

std::uint64_t CommunicatorState::next_child_id() noexcept {
  return base::mix64(id_ ^ base::mix64(++next_child_));
}

int CommunicatorState::awaited() const {
  const auto peer = awaited_context_rank();
  return peer ? rank_of(*peer) : -1;
}

std::optional<int> CommunicatorState::awaited_context_rank() const {
  if (const auto peer = context_->messaging().awaited(id_)) return peer;
  const auto member = node_ ? node_->awaited() : std::nullopt;
  return member ? std::optional{context_rank(*member)} : std::nullopt;
}

void CommunicatorState::warn_stalled(std::string_view operation) {
  const auto peer = awaited_context_rank();
  context_->log().warning("{} has waited {} ms{}{}; last operations here: {}", operation,
                          context_->options().stall_warning_ms, peer ? " for " : "",
                          peer ? context_->name_of(*peer) : "", context_->operations().describe(4));
  if (!peer || next_operation_ == 0) return;
  // Where the calls differ in who sends, as in their roots, nothing comes by which either side would see it.
  const std::uint32_t last = next_operation_ - 1;
  context_->send_control(*peer, encode({.kind = ControlFrame::Kind::stalled,
                                        .communicator = id_,
                                        .operation = last,
                                        .signature = remembered_[last % remembered_calls].signature}));
}

ErrorDetail CommunicatorState::timeout_detail(std::string_view operation, std::int64_t timeout_ms) const {
  const auto peer = awaited_context_rank();
  ErrorDetail detail{.code = ErrorCode::timeout, .operation = std::string{operation}};
  if (peer) {
    detail.peer = rank_of(*peer);
    detail.cause = fmt::format("{} did not do its part within {} ms; it is alive as far as the kernel knows",
                               context_->name_of(*peer), timeout_ms);
  } else {
    detail.cause = fmt::format("nothing came within {} ms", timeout_ms);
  }
  detail.hint = fmt::format("last operations here: {}; the limit is QPMESH_TIMEOUT_MS or Call::timeout_ms",
                            context_->operations().describe(4));
  return detail;
}

void throw_failure(const Error& failure, std::string_view operation) {
  ErrorDetail detail = failure.detail();
  if (detail.operation.empty()) detail.operation = operation;
  throw Error{std::move(detail)};
}

}  // namespace qpmesh::context
