#include "context/context.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "context/communicator_state.hpp"
#include "context/control_frames.hpp"

namespace qpmesh::context {
namespace {

constexpr std::int64_t farewell_ms = 2'000;
constexpr std::int64_t link_verdict_ms = 100;  // so long a failed link may turn out to be its rank's death
// Members of a node do not ring when they end an operation or a copy: it would cost each of them more than this one's looks.
constexpr std::chrono::microseconds unrung_sleep_max{1'000};
constexpr int drain_polls_max = 100'000;  // a peer's rings hold far less

progress::Doorbell doorbell_of(const ContextParts& parts) {
  if (!parts.doorbell) return {};
  return {.asleep = &parts.arena->header().asleep, .eventfd = parts.doorbell.get()};
}

// What to do about a peer that is lost.
const char* hint_for_loss(ErrorCode code) {
  switch (code) {
    case ErrorCode::peer_dead:
      return "look at what that rank said before it ended, and how its launcher saw it end";
    case ErrorCode::link_failed: return "the rank lives: look at what is between the two";
    case ErrorCode::corrupt: return "start every rank with the same build of qpmesh";
    default: return "";
  }
}

// Elsewhere somebody else would have to stop for it.
bool copies_cooperatively(const ContextParts& parts) {
  return parts.own_core && parts.options.cooperative_copy;
}

messaging::MessagingConfig messaging_config(const ContextParts& parts) {
  const Options& options = parts.options;
  return {.eager_bytes_max = static_cast<std::size_t>(options.eager_bytes_max),
          .register_bytes_min = static_cast<std::size_t>(options.register_bytes_min),
          .rendezvous = options.rendezvous == RendezvousChoice::read ? messaging::Rendezvous::read
                                                                     : messaging::Rendezvous::write,
          .unexpected_bytes_max = static_cast<std::size_t>(options.unexpected_bytes_max),
          .unexpected_messages_max = static_cast<std::size_t>(options.unexpected_messages_max),
          .spins_max = parts.spins_max,
          .cooperative_copies = copies_cooperatively(parts),
          .revocations = &parts.arena->header().revocations};
}

}  // namespace

messaging::RingLayout ring_layout(const Options& options) noexcept {
  return {.payload_ring_units =
              static_cast<std::uint32_t>(options.payload_ring_bytes / std::int64_t{messaging::unit_bytes})};
}

// ---- allocations ----

Allocation::Allocation(std::shared_ptr<Context> context, std::uint64_t offset, std::size_t bytes) noexcept
    : context_{std::move(context)}, offset_{offset}, bytes_{bytes} {}

Allocation::~Allocation() {
  if (!context_->is_inherited()) context_->remove_allocation(offset_, bytes_);
}

std::byte* Allocation::data() const noexcept { return context_->arena().data() + offset_; }

std::shared_ptr<Allocation> Context::allocation_at(const void* address) const {
  if (!parts_.arena->contains(address, 1)) return nullptr;
  const std::uint64_t offset = parts_.arena->offset_of(address);
  const auto after = allocations_.upper_bound(offset);
  if (after == allocations_.begin()) return nullptr;
  return std::prev(after)->second.owner.lock();
}

void Context::add_allocation(const std::shared_ptr<Allocation>& allocation) {
  AllocationEntry entry{.owner = allocation, .regions = {}};
  entry.regions.reserve(parts_.transports.size());
  allocations_.insert_or_assign(parts_.arena->offset_of(allocation->data()), std::move(entry));
}

void Context::register_allocation(const Allocation& allocation) {
  if (allocation.bytes() == 0) return;
  AllocationEntry& entry = allocations_.at(parts_.arena->offset_of(allocation.data()));
  for (const auto& transport : parts_.transports) {
    // Without registration it is memory like any other: messages are copied.
    try {
      const auto address = transport->register_memory({allocation.data(), allocation.bytes()});
      entry.regions.emplace_back(transport.get(), address.region);
    } catch (const Error& error) {
      if (!std::exchange(registration_failed_, true))
        log().warning("{}; messages from and to Buffers are copied instead", error.what());
    }
  }
}

void Context::remove_allocation(std::uint64_t offset, std::size_t bytes) noexcept {
  if (const auto entry = allocations_.find(offset); entry != allocations_.end()) {
    for (const auto& [transport, region] : entry->second.regions) transport->deregister_memory(region);
    allocations_.erase(entry);
  }
  parts_.arena->free(offset, bytes);
}

// ---- life ----

Context::Context(ContextParts parts)
    : parts_{std::move(parts)},
      waiter_{engine_, *parts_.system, parts_.wait_policy, doorbell_of(parts_)},
      messaging_{engine_, *parts_.system,           parts_.log,
                 *this,   messaging_config(parts_), static_cast<int>(parts_.links.size())},
      machine_{messaging_, engine_.pool()},
      forced_algorithms_{collectives::parse_forced(parts_.options.algorithms)},
      departed_(parts_.links.size(), false) {
  for (int peer = 0; peer < size(); ++peer) {
    PeerLink& link = parts_.links[static_cast<std::size_t>(peer)];
    link.places.connection = link.connection.get();
    link.places.send_seed = messaging::crc_seed(parts_.epoch, rank(), peer);
    link.places.receive_seed = messaging::crc_seed(parts_.epoch, peer, rank());
    messaging_.add_peer(peer, link.places);
  }
  engine_.set_sources(&messaging_, this);
  waiter_.set_armable(this);
  if (parts_.control->wake_descriptor() >= 0) waiter_.watch(parts_.control->wake_descriptor());
  for (const auto& transport : parts_.transports) {
    if (transport->wake_descriptor() >= 0) waiter_.watch(transport->wake_descriptor());
  }
}

collectives::TopologyParams Context::topology_for(const std::vector<int>& ranks) const noexcept {
  const int node = ranks.empty() ? 0 : node_of(ranks.front());
  collectives::TopologyParams topology = parts_.near;
  topology.shares_memory &= std::ranges::all_of(ranks, [&](int rank) { return node_of(rank) == node; });
  return topology;
}

std::uint64_t Context::make_node_slab() {
  if (parts_.neighbours.empty()) return 0;
  return parts_.arena->allocate(sizeof(collectives::NodeSlab)).value_or(0);
}

void Context::free_node_slab(std::uint64_t offset) noexcept {
  if (offset != 0) parts_.arena->free(offset, sizeof(collectives::NodeSlab));
}

std::unique_ptr<collectives::NodeMemory> Context::node_memory(std::uint64_t communicator,
                                                              const std::vector<int>& ranks,
                                                              std::vector<std::uint64_t> slabs) {
  if (slabs.empty() || parts_.neighbours.empty() || std::ranges::find(slabs, 0U) != slabs.end())
    return nullptr;
  collectives::NodeMemory::Setup setup{.offsets = std::move(slabs),
                                       .context_ranks = ranks,
                                       .communicator = communicator,
                                       .cma = true,
                                       .cooperative_copies = copies_cooperatively(parts_),
                                       .spins_max = parts_.spins_max};
  for (const int rank : ranks) {
    if (rank == this->rank()) setup.rank = static_cast<int>(setup.members.size());
    setup.members.push_back(parts_.neighbours[static_cast<std::size_t>(rank)]);
    if (setup.members.back() == nullptr) return nullptr;
    setup.cma &= parts_.identities[static_cast<std::size_t>(rank)].reads_neighbours;
  }
  return std::make_unique<collectives::NodeMemory>(std::move(setup), engine_, *this);
}

// Whatever the peers still need from us leaves first (an answer that waits for a line), and has arrived: what a network loses when the
// queue pair has gone is lost for good. Then the goodbye.
Context::~Context() {
  try {
    const auto is_there = [&](int peer) { return peer != rank() && !departed(peer); };
    const auto all_gone = [&] { return messaging_.flush() && messaging_.delivered(is_there); };
    waiter_.wait_until(all_gone, {.timeout_ms = farewell_ms});
    const auto sent = messaging_.counters();
    log().info("sent {} records, {} payload segments, {} credit writes, {} zero-copy messages",
               sent.records_sent, sent.segments_sent, sent.credit_writes, sent.zero_copy_sends);
  } catch (const std::exception& error) {
    log().error("while leaving: {}", error.what());
  }
  parts_.control->say_goodbye(base::after_ms(system(), farewell_ms));
}

std::string Context::name_of(int rank) const {
  const base::RankIdentity& identity = parts_.identities[static_cast<std::size_t>(rank)];
  return fmt::format("rank {} (pid {} on {})", rank, identity.pid, identity.host);
}

void Context::add(CommunicatorState& communicator) {
  communicators_.emplace(communicator.id(), &communicator);
  if (aborting()) return take_abort();
  for (const auto& [peer, detail] : gone_) {
    if (communicator.rank_of(peer) < 0) continue;
    ErrorDetail cause = detail;
    cause.peer = communicator.rank_of(peer);
    return communicator.fail(std::move(cause), true);
  }
  const auto early = std::find_if(early_failures_.begin(), early_failures_.end(), [&](const auto& failure) {
    return failure.communicator == communicator.id();
  });
  if (early == early_failures_.end()) return;
  if (early->is_ours) early->detail.peer = communicator.rank_of(early->detail.peer);
  communicator.fail(std::move(early->detail), early->is_ours);
  early_failures_.erase(early);
}

void Context::remove(CommunicatorState& communicator) noexcept {
  communicators_.erase(communicator.id());
  if (last_found_ == &communicator) last_found_ = nullptr;
  messaging_.forget(communicator.id());
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

void Context::throw_inherited(std::string_view operation) const {
  throw Error{
      {.code = ErrorCode::bad_argument,
       .operation = std::string{operation},
       .cause = fmt::format("process {} is a forked child of process {}, which made this communicator",
                            ::getpid(), parts_.process.pid()),
       .hint = "only the process that called init may use what it made: fork before init, or exec in the "
               "child"}};
}

void Context::Entry::throw_in_use(std::string_view operation) {
  throw Error{{.code = ErrorCode::bad_argument,
               .operation = std::string{operation},
               .cause = "another call of this context is still running",
               .hint = "one thread at a time uses a context; world.independent() makes another one"}};
}

// ---- what messaging found ----

bool Context::agrees(int peer, std::uint64_t communicator, std::uint32_t operation, std::uint32_t signature) {
  CommunicatorState* const state = find(communicator);
  if (state == nullptr || state->history().agrees(operation, signature)) return true;
  if (state->failure() != nullptr) return false;
  state->tell_calls(peer, true);  // the error comes when both have said what they called first
  return false;
}

void Context::link_failed(ErrorDetail detail) {
  if (detail.code != ErrorCode::link_failed) return peer_gone(std::move(detail));
  failed_links_.push_back({std::move(detail), base::after_ms(system(), link_verdict_ms)});
}

void Context::pass_verdicts() {
  const Deadline now = system().now();
  std::erase_if(failed_links_, [&](const FailedLink& link) {
    if (link.verdict > now) return false;
    // Nobody answers for a rank that has left with a goodbye: what waits for it learns that it left.
    if (!departed(link.detail.peer)) peer_gone(link.detail);
    return true;
  });
}

void Context::communicator_failed(std::uint64_t communicator, ErrorDetail detail) {
  if (detail.peer == no_peer) detail.peer = rank();  // nobody else: it is ours
  CommunicatorState* const state = find(communicator);
  if (state == nullptr) return keep_early_failure({communicator, std::move(detail), true});
  detail.peer = state->rank_of(detail.peer);
  state->fail(std::move(detail), true);
}

void Context::peer_gone(ErrorDetail detail) {
  const int peer = detail.peer;
  log().info("{}: {}", name_of(peer), detail.cause);
  detail.cause = fmt::format("{}: {}", name_of(peer), detail.cause);
  if (detail.hint.empty()) detail.hint = hint_for_loss(detail.code);
  gone_.emplace_back(peer, detail);  // for communicators that are still to be made
  for (const auto& [id, state] : communicators_) {
    const int rank = state->rank_of(peer);
    if (rank < 0) continue;
    ErrorDetail its_detail = detail;
    its_detail.peer = rank;
    state->fail(std::move(its_detail), true);
  }
}

// ---- the control channel ----

void Context::send_control(int peer, BlobView frame) {
  const std::lock_guard lock{control_mutex_};
  parts_.control->send(peer, frame);
}

bool Context::poll() {
  std::vector<base::ControlEvent> events;
  {
    const std::lock_guard lock{control_mutex_};
    events = parts_.control->poll();
  }
  for (const base::ControlEvent& event : events) handle(event);
  if (waiter_.descriptor_lost()) descriptor_lost();
  messaging_.look_at_links();
  for (const auto& [id, state] : communicators_) state->look_at_node();
  if (!failed_links_.empty()) pass_verdicts();
  if (aborting() && !abort_taken_) take_abort();
  end_waits_for_departed();
  return !events.empty();
}

std::chrono::microseconds Context::arm() noexcept {
  auto longest = messaging_.sleep_max();
  for (const auto& [id, state] : communicators_) {
    state->check_node_calls();  // nothing else would wake us for it
    if (state->awaits_unrung_on_node()) longest = std::min(longest, unrung_sleep_max);
  }
  for (const FailedLink& link : failed_links_) {
    const auto left = std::chrono::ceil<std::chrono::microseconds>(link.verdict - system().now());
    longest = std::min(longest, std::max(left, std::chrono::microseconds{0}));
  }
  for (const auto& transport : parts_.transports)
    longest = std::min(longest, transport->request_notification());
  return longest;
}

void Context::handle(const base::ControlEvent& event) {
  // What the peer wrote before it spoke, or went, is in our memory: it counts.
  for (int polls = 0; polls < drain_polls_max && messaging_.poll(); ++polls) engine_.run_ready();
  if (event.kind == base::ControlEvent::Kind::frame) return handle_frame(event.peer, event.bytes);
  if (event.kind == base::ControlEvent::Kind::descriptor_lost) return descriptor_lost();
  if (event.kind == base::ControlEvent::Kind::death) {
    messaging_.give_up(event.peer);
    return peer_gone({.code = ErrorCode::peer_dead, .peer = event.peer, .cause = event.detail});
  }
  departed_[static_cast<std::size_t>(event.peer)] = true;
  any_departed_ = true;
}

// A rank that left with a goodbye may have done its part of everything; only what still waits for it fails.
void Context::end_waits_for_departed() {
  if (!any_departed_) return;
  for (const auto& [id, state] : communicators_) {
    if (state->failure() != nullptr) continue;
    int here = 0;
    for (const int member : state->context_ranks()) {
      if (!departed(member)) {
        ++here;
      } else if (messaging_.waits_for(id, member) || state->waits_on_node_for(member)) {
        fail_for_departed(*state, member);
        break;
      }
    }
    // Who receives from anybody, and is the last one here, waits for nobody.
    const bool alone = here == 1 && state->size() > 1;
    if (alone && state->failure() == nullptr && messaging_.waits_for_anybody(id)) {
      fail_for_departed(*state, state->context_rank(state->rank() == 0 ? 1 : 0));
    }
  }
}

// The other members are told: what they wait for may be ours to send, and we have stopped.
void Context::fail_for_departed(CommunicatorState& communicator, int member) {
  communicator.fail(
      {.code = ErrorCode::peer_dead,
       .peer = communicator.rank_of(member),
       .cause = fmt::format("{} has left: it closed its communicators or ended normally", name_of(member)),
       .hint = "call finish() on every rank before the first one leaves"},
      true);
}

void Context::handle_frame(int peer, BlobView bytes) {
  const auto frame = decode_control_frame(bytes);
  if (!frame)
    return peer_gone({.code = ErrorCode::corrupt,
                      .peer = peer,
                      .cause = "a control frame that no rank of this version sends"});
  if (frame->kind == ControlFrame::Kind::abort) {
    begin_abort(frame->detail);
    abort_peer_ = peer;
    return take_abort();
  }
  CommunicatorState* const state = find(frame->communicator);
  if (frame->kind == ControlFrame::Kind::failure) {
    if (state != nullptr) {
      state->fail(frame->detail, false);
    } else {
      keep_early_failure({frame->communicator, frame->detail, false});
    }
    return;
  }
  if (state == nullptr || state->failure() != nullptr) return;
  if (frame->kind == ControlFrame::Kind::calls) return answer_calls(*state, peer, *frame);
  const std::string call = state->history().describe(frame->operation);
  if (frame->reply_wanted) {
    send_control(peer, encode({.kind = ControlFrame::Kind::mismatch,
                               .communicator = frame->communicator,
                               .operation = frame->operation,
                               .call = call}));
  }
  // Where the first call that differs is not remembered any more, those that are may be the same.
  const std::string cause =
      call == frame->call
          ? fmt::format("calls differ at or before operation {} of the communicator, {} on ranks {} and {}",
                        frame->operation, call, state->rank(), state->rank_of(peer))
          : fmt::format("operation {} of the communicator is {} on rank {} and {} on rank {}",
                        frame->operation, call, state->rank(), frame->call, state->rank_of(peer));
  state->fail({.code = ErrorCode::mismatch,
               .peer = state->rank_of(peer),
               .cause = cause,
               .hint = "every rank must call the same collectives with the same arguments in the same order"},
              true);
}

// The first difference is what both ranks are told of: this one says its call, and wants to hear the peer's.
void Context::answer_calls(CommunicatorState& state, int peer, const ControlFrame& frame) {
  auto operation = state.history().first_difference(frame.signatures);
  // The peer has seen one, but what one of the two remembers ends before the other's begins.
  if (!operation && frame.reply_wanted) operation = frame.signatures.first_operation;
  if (!operation) return;
  send_control(peer, encode({.kind = ControlFrame::Kind::mismatch,
                             .communicator = state.id(),
                             .operation = *operation,
                             .reply_wanted = true,
                             .call = state.history().describe(*operation)}));
}

// ---- abort ----

void Context::abort(std::string_view reason) noexcept {
  if (is_inherited()) return;
  try {
    abort_with({.code = ErrorCode::aborted, .operation = "abort", .cause = std::string{reason}});
  } catch (const std::exception& error) {
    log().error("abort could not reach the peers: {}", error.what());
  }
}

// Nobody else is to blame, and nobody can be waited for any more.
void Context::descriptor_lost() {
  abort_with(
      {.code = ErrorCode::no_resource,
       .cause = fmt::format("a descriptor of qpmesh was closed by the application in {}", name_of(rank())),
       .system_error = EBADF,
       .hint = "close only what the program itself has opened: no closefrom, no close of a number twice"});
}

void Context::abort_with(const ErrorDetail& detail) {
  if (!begin_abort(detail)) return;
  const Blob frame = encode({.kind = ControlFrame::Kind::abort, .detail = detail});
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) send_control(peer, frame);
  }
  if (parts_.doorbell) transport::Neighbour::ring(parts_.doorbell.get());
}

bool Context::begin_abort(const ErrorDetail& detail) {
  const std::lock_guard lock{control_mutex_};
  if (aborting_.load(std::memory_order_relaxed)) return false;
  abort_detail_ = detail;
  aborting_.store(true, std::memory_order_release);
  return true;
}

// This rank's share of an abort, on the thread that uses the context.
void Context::take_abort() {
  abort_taken_ = true;
  ErrorDetail detail;
  {
    const std::lock_guard lock{control_mutex_};
    detail = abort_detail_;
  }
  for (const auto& [id, state] : communicators_) {
    detail.peer = state->rank_of(abort_peer_ >= 0 ? abort_peer_ : rank());
    state->fail(detail, false);
    messaging_.sever(id);  // nobody needs a link any more
  }
}

// The newest are kept: what comes for communicators that are gone here already would fill any list.
void Context::keep_early_failure(EarlyFailure failure) {
  const bool known = std::any_of(early_failures_.begin(), early_failures_.end(), [&](const auto& earlier) {
    return earlier.communicator == failure.communicator;
  });
  if (known) return;
  if (early_failures_.size() == early_failures_max) early_failures_.erase(early_failures_.begin());
  early_failures_.push_back(std::move(failure));
}

}  // namespace qpmesh::context
