// SPDX-License-Identifier: MIT
#include "context/context.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <map>
#include <set>
#include <system_error>

#include "base/errors.hpp"
#include "context/communicator_state.hpp"
#include "context/control_frames.hpp"

namespace qpmesh::context {
namespace {

// When a communicator is made. Some may be held by other ranks for long.
constexpr std::size_t left_looks_max = 8;

progress::Doorbell doorbell_of(const ContextParts& parts) {
  if (!parts.doorbell) return {};
  return {.asleep = &parts.arena->header().asleep, .eventfd = parts.doorbell.get()};
}

// Elsewhere somebody else would have to stop for it.
bool copies_cooperatively(const ContextParts& parts) {
  return parts.own_core && parts.options.cooperative_copy;
}

messaging::MessagingConfig messaging_config(const ContextParts& parts) {
  const Options& options = parts.options;
  std::optional<std::size_t> eager_bytes_max;
  if (options.eager_bytes_max >= 0)
    eager_bytes_max = static_cast<std::size_t>(options.eager_bytes_max);
  return {.eager_bytes_max = eager_bytes_max,
          .register_bytes_min = static_cast<std::size_t>(options.register_bytes_min),
          .rendezvous = options.rendezvous,
          .unexpected_bytes_max = static_cast<std::size_t>(options.unexpected_bytes_max),
          .unexpected_messages_max = static_cast<std::size_t>(options.unexpected_messages_max),
          .spins_max = parts.spins_max,
          .measures = options.choice == ChoiceBy::measured,
          .cooperative_copies = copies_cooperatively(parts),
          .revocations = &parts.arena->header().revocations};
}

}  // namespace

messaging::RingLayout ring_layout(const Options& options) noexcept {
  return {.payload_ring_units = static_cast<std::uint32_t>(options.payload_ring_bytes /
                                                           std::int64_t{messaging::unit_bytes})};
}

// ---- life ----

Context::Context(ContextParts parts)
    : parts_{std::move(parts)},
      waiter_{engine_, *parts_.system, parts_.wait_policy, doorbell_of(parts_)},
      messaging_{engine_, *parts_.system,           parts_.log,
                 *this,   messaging_config(parts_), static_cast<int>(parts_.links.size())},
      machine_{messaging_, engine_.pool()},
      forced_algorithms_{collectives::parse_forced(parts_.options.algorithms)},
      health_{static_cast<int>(parts_.links.size())} {
  std::set<transport::OnDemand*> on_demand;
  for (int peer = 0; peer < size(); ++peer) {
    PeerLink& link = parts_.links[static_cast<std::size_t>(peer)];
    if (link.on_demand != nullptr) on_demand.insert(link.on_demand);
    link.places.connection = link.connection.get();
    link.places.is_self = peer == rank();
    link.places.send_seed = messaging::direction_seed(parts_.epoch, rank(), peer);
    link.places.receive_seed = messaging::direction_seed(parts_.epoch, peer, rank());
    messaging_.add_peer(peer, link.places);
  }
  for (transport::OnDemand* const each : on_demand) {
    each->tell_by([this](int peer, BlobView words) {
      send_control(peer, encode({.kind = ControlFrame::Kind::connect,
                                 .words = Blob(words.begin(), words.end())}));
    });
  }
  engine_.set_sources(&messaging_, this);
  if (parts_.control->wake_descriptor() >= 0) waiter_.watch(parts_.control->wake_descriptor());
  for (const auto& transport : parts_.transports) {
    if (transport->wake_descriptor() >= 0) waiter_.watch(transport->wake_descriptor());
  }
}

collectives::TopologyParams Context::topology_for(const std::vector<int>& ranks) const noexcept {
  std::map<int, int> ranks_on_node;
  int most = 1;
  for (const int rank : ranks) most = std::max(most, ++ranks_on_node[node_of(rank)]);
  collectives::TopologyParams topology = parts_.near;
  topology.shares_memory &= ranks_on_node.size() <= 1;
  // Those of other communicators wait, mostly.
  topology.ranks_per_core = std::min(topology.ranks_per_core, most);
  return topology;
}

NodeSlabs Context::make_node_slabs(std::uint64_t communicator) {
  if (parts_.neighbours.empty()) return {};
  const bool is_one_node = std::ranges::find(parts_.neighbours, nullptr) == parts_.neighbours.end();
  return {make_node_slab(communicator), is_one_node ? 0 : make_node_slab(communicator)};
}

void Context::free_node_slab(std::uint64_t slab) noexcept {
  if (slab != 0) parts_.arena->free(slab, sizeof(collectives::NodeSlab));
}

std::uint64_t Context::make_node_slab(std::uint64_t communicator) {
  auto offset = take_left_slab();
  if (!offset) offset = parts_.arena->allocate(sizeof(collectives::NodeSlab));
  if (!offset) return 0;
  auto& slab = *reinterpret_cast<collectives::NodeSlab*>(parts_.arena->data() + *offset);
  collectives::OwnNodeWords<base::ProcessAtomics>{slab}.enter(communicator);
  return *offset;
}

std::optional<std::uint64_t> Context::take_left_slab() noexcept {
  const std::size_t looks = std::min(left_nodes_.size(), left_looks_max);
  for (std::size_t look = 0; look < looks; ++look) {
    auto& left = left_nodes_[next_left_node_++ % left_nodes_.size()];
    if (!left->everybody_has_left()) continue;
    collectives::NodeSlab& slab = left->own_slab();
    for (auto& choice : std::span{slab.choices}.first(left->class_count())) choice = {};
    slab.clear(left->operation_count());
    left.swap(left_nodes_.back());
    left_nodes_.pop_back();
    return parts_.arena->offset_of(&slab);
  }
  return std::nullopt;
}

void Context::keep_slab_of(std::unique_ptr<collectives::NodeMemory> node) noexcept {
  try {
    left_nodes_.push_back(std::move(node));
  } catch (const std::bad_alloc&) {
    log().info("no memory to keep a slab for another communicator: it stays as it is");
  }
}

std::unique_ptr<collectives::NodeMemory> Context::node_memory(
    std::uint64_t communicator, const std::vector<int>& ranks, std::span<const int> named,
    const std::vector<std::uint64_t>& slabs) {
  collectives::NodeMemory::Setup setup{.offsets = slabs,
                                       .context_ranks = ranks,
                                       .named = {named.begin(), named.end()},
                                       .communicator = communicator,
                                       .cma = true,
                                       .cooperative_copies = copies_cooperatively(parts_),
                                       .spins_max = parts_.spins_max};
  for (const int rank : ranks) {
    if (rank == this->rank()) setup.rank = static_cast<int>(setup.members.size());
    setup.members.push_back(parts_.neighbours[static_cast<std::size_t>(rank)]);
    setup.cma &= reads_neighbours(rank);
  }
  return std::make_unique<collectives::NodeMemory>(std::move(setup), engine_, *this);
}

Context::~Context() {
  dismiss_threads();
  engine_.run_ready();  // callbacks of what has ended
  leave(std::uncaught_exceptions() > 0 ? Farewell::Reason::unwound : Farewell::Reason::closed);
}

std::string Context::name_of(int rank) const {
  const base::RankIdentity& identity = parts_.identities[static_cast<std::size_t>(rank)];
  return fmt::format("rank {} (pid {} on {})", rank, identity.pid, identity.host);
}

void Context::add(CommunicatorState& communicator) {
  communicators_.emplace(communicator.id(), &communicator);
  try {
    tell_what_is_known(communicator);
  } catch (...) {  // no memory: who is not made takes no leave
    remove(communicator);
    throw;
  }
}

void Context::tell_what_is_known(CommunicatorState& communicator) {
  if (health_.aborting()) return take_abort();
  const auto is_lost = [&](int rank) { return health_.at(rank).state == PeerHealth::State::lost; };
  const std::vector<int>& ranks = communicator.context_ranks();
  if (const auto lost = std::ranges::find_if(ranks, is_lost); lost != ranks.end()) {
    ErrorDetail cause = health_.at(*lost).cause;
    cause.peer = communicator.rank_of(cause.peer);
    return communicator.fail(std::move(cause), true);
  }
  if (auto early = health_.take_early(communicator.id())) take_failure(std::move(*early));
}

void Context::remove(CommunicatorState& communicator) noexcept {
  communicators_.erase(communicator.id());
  past_calls_ += communicator.calls_made();
  if (communicator.is_unchecked()) unchecked_.remove(communicator);
  if (last_found_ == &communicator) last_found_ = nullptr;
  if (communicator.size() > 1 && !communicator.finished() && communicator.failure() == nullptr &&
      !communicator.is_for_one_call()) {
    let_go_[let_go_count_++ % let_go_.size()] = {
        communicator.id(),
        std::unique_ptr<const CallHistory>{new (std::nothrow) CallHistory{communicator.history()}}};
  }
  // Over shared memory, who has finished has seen all that its members sent before they did.
  const bool may_come = !communicator.finished() || !communicator.shape().one_node;
  messaging_.forget(communicator.id(), may_come && communicator.size() > 1);
}

std::uint64_t Context::calls_made() const noexcept {
  std::uint64_t sum = past_calls_;
  for (const auto& [id, state] : communicators_) sum += state->calls_made();
  return sum;
}

void Context::discard_messages(const CommunicatorState& communicator) {
  drain();
  messaging_.forget(communicator.id(), false);
}

CommunicatorState* Context::find(std::uint64_t communicator) noexcept {
  if (last_found_ != nullptr && last_found_->id() == communicator) return last_found_;
  const auto found = communicators_.find(communicator);
  if (found == communicators_.end()) return nullptr;
  last_found_ = found->second;
  return last_found_;
}

std::shared_ptr<Context> Context::make(ContextParts parts) {
  // Those that were left as they are: for leak checkers.
  static std::atomic<Context*> inherited{nullptr};
  const auto destroy = [](Context* context) {
    if (context->is_inherited()) context->next_inherited_ = inherited.exchange(context);
    else delete context;
  };
  return std::shared_ptr<Context>{new Context{std::move(parts)}, destroy};
}

progress::TaskOperation& Context::make_callback() {
  // Twice as many as were left: a request costs a look or two, however many wait.
  if (callbacks_.size() > callbacks_max_) {
    std::erase_if(callbacks_, [](const progress::TaskOperation& task) { return task.done; });
    callbacks_max_ = 2 * callbacks_.size();
  }
  return callbacks_.emplace_back();
}

// ---- threads ----

void Context::enter_in_turn(std::string_view operation) {
  if (is_inherited()) {
    base::bad_argument(operation,
                       "only the process that called init may use what it made: fork before init, "
                       "or exec in the child",
                       "process {} is a forked child of process {}, which made this communicator",
                       ::getpid(), parts_.process.pid());
  }
  const std::uint64_t begin_ns = trace_ == nullptr ? 0 : trace_->now_ns();
  const bool one_thread = turn() == nullptr;
  if (one_thread && (trace_ == nullptr || traced_call_.exchange(true, std::memory_order_relaxed))) {
    base::bad_argument(operation,
                       "one thread at a time uses a context; set QPMESH_THREADS=several, or give "
                       "each thread a context of its own: world.independent(). A function that a "
                       "call runs may call nothing: do it when that call has returned",
                       "another call of this context is still running");
  }
  if (!one_thread && turn()->is_mine()) {
    base::bad_argument(operation, "call it when that call has returned",
                       "a function that a call of this context runs has called it");
  }
  if (!one_thread) waiter_.begin_turn();
  if (trace_ != nullptr) trace_->begin(operation, begin_ns);
  if (!health_.abort_waits()) return;
  try {
    take_abort();
  } catch (...) {
    exit_in_turn();
    throw;
  }
}

// The program's handle that was called keeps this context while coroutines go on; nothing of it is
// needed by then. None goes on while an exception unwinds: what it began or let go would be taken
// for unwound. The next call takes it along.
void Context::exit_in_turn() noexcept {
  if (trace_ != nullptr) trace_->end();
  progress::Turn* const turn = waiter_.turn();
  if (turn != nullptr) waiter_.pass_looking_on();  // may find ends
  const auto leave_turn = [&] {
    if (turn != nullptr) return turn->give_up();
    traced_call_.store(false, std::memory_order_relaxed);
    in_use_.store(always_in_use_, std::memory_order_relaxed);
  };
  if (resumptions_.empty() || std::uncaught_exceptions() > 0) [[likely]]
    return leave_turn();
  progress::ResumptionLine line{std::move(resumptions_)};
  exits_in_turn_ = always_in_use_;
  const base::Log own_log = log();
  leave_turn();
  progress::resume(std::move(line), own_log);
}

void Context::admit_calls() {
  trace_ =
      Trace::open(parts_.options.trace, parts_.state_place, rank(), *parts_.system, parts_.log);
  operations_.trace_to(trace_.get());
  always_in_use_ = trace_ != nullptr;
  exits_in_turn_ = always_in_use_;
  in_use_.store(always_in_use_, std::memory_order_relaxed);
  admit_threads();
}

void Context::admit_threads() {
  const bool has_thread = parts_.options.progress_thread;
  if (parts_.options.threads == ThreadUse::one && !has_thread) return;
  waiter_.admit_threads();
  always_in_use_ = true;
  exits_in_turn_ = true;
  in_use_.store(true, std::memory_order_relaxed);
  if (!has_thread) return;
  // It takes no signal: those are the program's.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    progress_thread_ = std::thread{[this] { make_progress(); }};
  } catch (const std::system_error& error) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    base::throw_error({.code = ErrorCode::no_resource, .system_error = error.code().value()},
                      "init", "raise the limit of processes, or set QPMESH_PROGRESS_THREAD=no",
                      "the progress thread could not be started");
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Context::make_progress() noexcept {
  ::pthread_setname_np(::pthread_self(), "qpmesh-progress");
  if (const auto core = static_cast<int>(parts_.options.progress_core); core >= 0) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(static_cast<std::size_t>(core), &cores);
    if (::pthread_setaffinity_np(::pthread_self(), sizeof cores, &cores) != 0) {
      log().warning(
          "QPMESH_PROGRESS_CORE={}: this process may not run there; its progress thread "
          "stays where the process is",
          core);
    }
  }
  bool gone = false;
  progress_gone_ = &gone;
  const base::Log log = this->log();
  waiter_.begin_turn();
  while (!progress_ends_) {
    try {
      waiter_.stand_in([this] { return progress_ends_ || !resumptions_.empty(); });
    } catch (const std::exception& error) {  // such as bad_alloc: who waits meets it, too
      log.error("in the progress thread: {}", error.what());
    }
    if (resumptions_.empty()) continue;
    progress::ResumptionLine line{std::move(resumptions_)};
    waiter_.end_turn();
    progress::resume(std::move(line), log);
    if (gone) return;
    waiter_.begin_turn();
  }
  waiter_.end_turn();
}

void Context::dismiss_threads() noexcept {
  if (turn() == nullptr) return;
  if (progress_thread_.get_id() == std::this_thread::get_id()) {
    // A coroutine that it resumes has let go of the last handle.
    *progress_gone_ = true;
    progress_thread_.detach();
  } else if (progress_thread_.joinable()) {
    waiter_.begin_turn();
    progress_ends_ = true;
    waiter_.end_turn();
    progress_thread_.join();
  }
  waiter_.admit_one_thread();
}

}  // namespace qpmesh::context
