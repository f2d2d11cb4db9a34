// SPDX-License-Identifier: MIT
#include "transport/verbs/transport.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "transport/verbs/connection.hpp"
#include "transport/verbs/device.hpp"
#include "transport/verbs/handles.hpp"

namespace qpmesh::transport::verbs {
namespace {

// Records travel inline: 220 bytes are what one work request of mlx5 can carry on its fast path.
constexpr std::uint32_t inline_bytes_wanted = 220;
// Longer zero-copy messages are cut: a lost packet sends less again, memory that is taken back is
// soon done with, and no device has a smaller limit worth naming.
constexpr std::uint32_t write_bytes_max = 256U << 10;
constexpr std::chrono::microseconds polled_sleep_max{50};
constexpr std::chrono::milliseconds watch_interval{50};

bool takes_immediates(const Capabilities& capabilities) noexcept {
  return std::max(capabilities.small, capabilities.medium) == Notification::immediate;
}

constexpr unsigned access_of_queue_pair = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

[[noreturn]] void fail_opening(const std::string& device, std::string_view step, int error) {
  base::throw_error({.code = ErrorCode::no_resource, .system_error = error}, "init",
                    error == ENOMEM ? "raise the limit of locked memory (ulimit -l)"
                                    : base::hint_for_descriptors(error),
                    "{} failed on device {}", step, device);
}

template <class Make>
auto open(const base::System& system, const std::string& device, std::string_view step,
          Make&& make) {
  auto* const object = call_for_object(system, step, make);
  if (object == nullptr) fail_opening(device, step, errno);
  return object;
}

void set_nonblocking(int descriptor) noexcept {
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

}  // namespace

// Little-endian, by ByteWriter.
struct VerbsTransport::Address {
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;
  std::uint64_t unroutable = 0;
  std::uint16_t port = 0;  // where this end listens, by the communication manager
  selection::Ece ece;

  Blob encode() const {
    base::ByteWriter out;
    out.put_fields(qpn, psn, unroutable, port, ece.vendor_id, ece.options);
    return std::move(out).blob();
  }

  static Address decode(BlobView bytes, int peer) {
    base::ByteReader in{bytes};
    Address address;
    in.get_fields(address.qpn, address.psn, address.unroutable, address.port, address.ece.vendor_id,
                  address.ece.options);
    if (!in.finished() || address.qpn > 0xffffff || address.psn > 0xffffff) {
      base::throw_error({ErrorCode::corrupt, peer}, "connect", "",
                        "{} bytes are not the address of a queue pair", bytes.size());
    }
    return address;
  }
};

VerbsTransport::VerbsTransport(const base::System& system, const base::Log& log, Settings settings)
    : system_{system},
      log_{log},
      settings_{std::move(settings)},
      device_{open_device(system, settings_.port.device)},
      domain_{open(system, settings_.port.device, "ibv_alloc_pd",
                   [&] { return ibv_alloc_pd(device_.get()); })},
      regions_{system, *domain_},
      connector_{settings_.cm ? make_cm_connector(system, log_, *settings_.cm)
                              : make_exchange_connector(system)},
      connections_(settings_.peers, nullptr) {
  const std::string& device = settings_.port.device;
  channel_.reset(open(system, device, "ibv_create_comp_channel",
                      [&] { return ibv_create_comp_channel(device_.get()); }));
  set_nonblocking(channel_->fd);
  set_nonblocking(device_->async_fd);
  wake_.reset(system.call("epoll_create1", [] { return ::epoll_create1(EPOLL_CLOEXEC); }));
  if (!wake_) fail_opening(device, "epoll_create1", errno);
  for (const int descriptor : {channel_->fd, device_->async_fd}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
    if (::epoll_ctl(wake_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0)
      fail_opening(device, "epoll_ctl", errno);
  }
}

VerbsTransport::~VerbsTransport() = default;

Capabilities VerbsTransport::together_with(const selection::Notifications& theirs) const noexcept {
  const selection::Notifications both = selection::less_of(notifications_, theirs);
  return {.name = "verbs",
          .bytes_in_order = both.bytes_in_order,
          .registers_user_memory = true,
          .registered_sources = true,
          .small = both.small,
          .medium = both.medium,
          .write_bytes_max = write_bytes_max};
}

std::uint32_t VerbsTransport::receives_for(const Capabilities& capabilities) const {
  return takes_immediates(capabilities)
             ? settings_.immediates_max(capabilities) + receives_not_back_max
             : 0;
}

void VerbsTransport::rely_on(const selection::Notifications& ours,
                             const selection::Notifications& least) {
  notifications_ = ours;
  const selection::QueueNeeds needs{.peers = settings_.peers,
                                    .sends = send_depth,
                                    .receives = receives_for(together_with(least))};
  selection::require_room(settings_.device, needs);
  queue_peers_ = selection::peers_per_queue(settings_.device, needs);
  // Unsignalled writes complete too when a queue pair fails: there is room for all of them.
  const auto create_queue = [&](std::uint32_t entries) {
    return CompletionQueue{open(system_, settings_.port.device, "ibv_create_cq", [&] {
      return ibv_create_cq(device_.get(), static_cast<int>(std::max(entries, 1U)), nullptr,
                           channel_.get(), 0);
    })};
  };
  for (std::uint32_t begin = 0; begin < settings_.peers; begin += queue_peers_) {
    const std::uint32_t peers = std::min(queue_peers_, settings_.peers - begin);
    queues_.push_back({.sent = create_queue(peers * needs.sends),
                       .arrived = create_queue(peers * needs.receives)});
  }
}

diagnosis::LinkDescription VerbsTransport::describe_link(const Pending& pending,
                                                         const Path& path) const {
  return {.local = {.host = settings_.host,
                    .endpoint = path.local,
                    .qpn = pending.queue_pair ? pending.queue_pair->qp_num : 0,
                    .psn = pending.psn},
          .peer = {.host = pending.paths.peer_host, .endpoint = path.peer},
          .timers = selection::timers_for(path.local, settings_.link_timeout_ms)};
}

void VerbsTransport::open_queue_pair(Pending& pending) {
  pending.capabilities = together_with(pending.paths.theirs);
  // What a device grants inline is only known by asking. Some make no receive queue without room.
  for (const std::uint32_t inline_bytes : {inline_bytes_wanted, 64U, 0U}) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = queues_of(pending.index).sent.get();
    wanted.recv_cq = queues_of(pending.index).arrived.get();
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {.max_send_wr = send_depth,
                  .max_recv_wr = std::max(receives_for(pending.capabilities), 1U),
                  .max_send_sge = 2,
                  .max_recv_sge = 1,
                  .max_inline_data = inline_bytes};
    pending.queue_pair.reset(call_for_object(
        system_, "ibv_create_qp", [&] { return ibv_create_qp(domain_.get(), &wanted); }));
    pending.capabilities.inline_bytes_max = wanted.cap.max_inline_data;
    if (pending.queue_pair || errno != EINVAL) break;
  }
  if (!pending.queue_pair) fail_opening(settings_.port.device, "ibv_create_qp", errno);
}

bool VerbsTransport::has_route(const Path& path) {
  const auto& [local, peer] = path;
  if (local.is_iwarp()) return true;  // the manager's to find out
  const auto [known, added] =
      routes_.try_emplace({local.port, local.gid_index, peer.gid, peer.lid}, false);
  if (!added) return known->second;
  ibv_ah_attr route = route_to(local, peer);
  const AddressHandle probe{call_for_object(system_, "ibv_create_ah",
                                            [&] { return ibv_create_ah(domain_.get(), &route); })};
  return known->second = probe != nullptr;
}

Blob VerbsTransport::address_for(int peer, PeerPaths paths) {
  pending_.push_back({.peer = peer,
                      .index = static_cast<std::uint32_t>(pending_.size()),
                      .paths = std::move(paths),
                      .queue_pair = {}});
  return make_address(pending_.back());
}

VerbsTransport::Pending& VerbsTransport::pending_of(int peer) {
  const auto found = std::ranges::find(pending_, peer, &Pending::peer);
  assert(found != pending_.end());
  return *found;
}

Blob VerbsTransport::make_address(Pending& mine) {
  mine.psn = static_cast<std::uint32_t>(system_.random_u64() & 0xffffff);
  open_queue_pair(mine);
  const Path& first = mine.paths.choices.front();
  to_state(system_, *mine.queue_pair, to_init(first.local, access_of_queue_pair), "INIT",
           {mine.peer, describe_link(mine, first)});
  std::vector<selection::Endpoint> locals;
  for (const Path& path : mine.paths.choices) locals.push_back(path.local);
  mine.unroutable = connector_->listen(locals);
  if (!first.local.is_iwarp()) mine.ece = query_ece(system_, *mine.queue_pair);
  for (std::size_t i = 0; i < mine.paths.choices.size(); ++i) {
    if (!has_route(mine.paths.choices[i])) mine.unroutable |= std::uint64_t{1} << i;
  }
  return Address{.qpn = mine.queue_pair->qp_num,
                 .psn = mine.psn,
                 .unroutable = mine.unroutable,
                 .port = connector_->port(),
                 .ece = mine.ece}
      .encode();
}

diagnosis::LinkDescription VerbsTransport::begin(Pending& mine, const Address& theirs) {
  const auto choice =
      static_cast<std::size_t>(std::countr_one(mine.unroutable | theirs.unroutable));
  const bool routable = choice < mine.paths.choices.size();
  diagnosis::LinkDescription link = describe_link(mine, mine.paths.choices[routable ? choice : 0]);
  link.peer.qpn = theirs.qpn;
  link.peer.psn = theirs.psn;
  if (!routable) {
    diagnosis::Explanation why = diagnosis::describe_bring_up("address handle", EHOSTUNREACH, link);
    why.cause = fmt::format("none of {} pairs of GIDs has a route; the best one: {}",
                            mine.paths.choices.size(), why.cause);
    fail_connecting(mine.peer, why);
  }
  if (can_negotiate(mine.ece, theirs.ece)) {
    log_.info("peer {}: ECE of vendor {:#x}: {:#x} here, {:#x} there", mine.peer,
              mine.ece.vendor_id, mine.ece.options, theirs.ece.options);
    if (const int error = set_ece(system_, *mine.queue_pair, theirs.ece); error != 0)
      fail_connecting(mine.peer, diagnosis::describe_bring_up("ibv_set_ece", error, link), error);
  }
  connector_->begin(*mine.queue_pair, {mine.peer, link}, theirs.port);
  return link;
}

VerbsConnection::Parts VerbsTransport::parts_of(Pending& pending, diagnosis::LinkDescription link) {
  const Capabilities& together = pending.capabilities;
  may_get_immediates_ |= takes_immediates(together);
  immediates_ |= may_get_immediates_ && !settings_.second_rail;
  polled_ |= !settings_.second_rail &&
             (together.small == Notification::poll || together.medium == Notification::poll);
  return {.transport = this,
          .peer = pending.peer,
          .index = pending.index,
          .queue_pair = std::move(pending.queue_pair),
          .capabilities = together,
          .link = std::move(link),
          .receives = receives_for(together)};
}

void VerbsTransport::say_joined(int peer, const diagnosis::LinkDescription& link,
                                const Capabilities& capabilities) const {
  if (settings_.second_rail) return log_.info("peer {}: second rail: {}", peer, to_string(link));
  const auto text = [](Notification n) { return n == Notification::poll ? "polled" : "immediate"; };
  // The manager may have classes of its own.
  const std::string classes = settings_.cm ? ""
                                           : fmt::format("; traffic class {} there, {} back",
                                                         link.local.endpoint.traffic_class,
                                                         link.peer.endpoint.traffic_class);
  log_.info("peer {}: {}; records {}, payloads {}{}{}", peer, to_string(link),
            text(capabilities.small), text(capabilities.medium),
            capabilities.bytes_in_order ? ", bytes in order" : "", classes);
}

std::unique_ptr<Connection> VerbsTransport::connect(int peer, BlobView peer_address) {
  Pending& mine = pending_of(peer);
  const Address theirs = Address::decode(peer_address, peer);
  diagnosis::LinkDescription link = begin(mine, theirs);
  say_joined(peer, link, mine.capabilities);
  return std::make_unique<VerbsConnection>(parts_of(mine, std::move(link)));
}

// ---- connections that are made when they are first used ----

std::unique_ptr<Connection> VerbsTransport::connect_later(int peer, PeerPaths paths) {
  if (!inline_bytes_max_) {
    Pending asked{.paths = {.peer_host = {}, .theirs = notifications_, .choices = {}},
                  .queue_pair = {}};
    open_queue_pair(asked);
    inline_bytes_max_ = asked.capabilities.inline_bytes_max;
  }
  Pending& mine =
      pending_.emplace_back(Pending{.peer = peer,
                                    .index = static_cast<std::uint32_t>(pending_.size()),
                                    .paths = std::move(paths),
                                    .queue_pair = {}});
  mine.capabilities = together_with(mine.paths.theirs);
  mine.capabilities.inline_bytes_max = *inline_bytes_max_;
  auto connection = std::make_unique<VerbsConnection>(
      parts_of(mine, describe_link(mine, mine.paths.choices.front())));
  mine.connection = connection.get();
  return connection;
}

Blob VerbsTransport::address_for(int peer) { return make_address(pending_of(peer)); }

void VerbsTransport::join(int peer, BlobView peer_address) {
  Pending& mine = pending_of(peer);
  assert(mine.connection != nullptr);
  if (const ErrorDetail* const fault = mine.connection->fault())
    fail_connecting(peer, {.cause = fault->cause, .hint = fault->hint}, fault->system_error);
  diagnosis::LinkDescription link = begin(mine, Address::decode(peer_address, peer));
  say_joined(peer, link, mine.connection->capabilities());
  mine.connection->join(std::move(mine.queue_pair), std::move(link));
}

VerbsConnection* VerbsTransport::made_later(int peer) const noexcept {
  const auto found = std::ranges::find(pending_, peer, &Pending::peer);
  return found == pending_.end() ? nullptr : found->connection;
}

void VerbsTransport::want(VerbsConnection& connection) noexcept {
  auto failure = base::thrown_by([&] { want_(connection.peer()); });
  if (failure) connection.give_up(*std::move(failure));
}

void VerbsTransport::forget(std::uint32_t index) noexcept {
  connections_[index] = nullptr;
  pending_[index].connection = nullptr;
}

// ---- while it runs ----

int VerbsTransport::drain(ibv_cq& queue,
                          void (VerbsConnection::*handle)(const ibv_wc&) noexcept) noexcept {
  std::array<ibv_wc, 16> completions;
  const int count = ibv_poll_cq(&queue, static_cast<int>(completions.size()), completions.data());
  for (int i = 0; i < count; ++i) {
    const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
    if (VerbsConnection* const connection =
            connections_[decode_work_id(completion.wr_id).connection])
      (connection->*handle)(completion);
  }
  return count;
}

// A look at a completion queue costs as much as a small record's whole way through messaging.
void VerbsTransport::progress() noexcept {
  for (const Queues& each : queues_) {
    if (awaiting_ > 0) drain(*each.sent, &VerbsConnection::on_sent);
    if (immediates_) drain(*each.arrived, &VerbsConnection::on_arrival);
  }
}

std::chrono::microseconds VerbsTransport::request_notification() noexcept {
  for (const Queues& each : queues_) {
    ibv_req_notify_cq(each.sent.get(), 0);
    if (may_get_immediates_) ibv_req_notify_cq(each.arrived.get(), 0);
  }
  return polled_ ? polled_sleep_max : watch_interval;
}

// Both descriptors do not block: nothing there is an answer.
void VerbsTransport::poll_async_events() noexcept {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel_.get(), &queue, &context) == 0) ibv_ack_cq_events(queue, 1);
  for (const Queues& each : queues_) {
    while (drain(*each.sent, &VerbsConnection::on_sent) > 0) {}
    if (!may_get_immediates_) continue;
    while (drain(*each.arrived, &VerbsConnection::on_arrival) > 0) immediates_ = true;
  }
  read_events();
  watch_links();
}

void VerbsTransport::read_events() noexcept {
  ibv_async_event event{};
  while (ibv_get_async_event(device_.get(), &event) == 0) {
    handle_event(event);
    ibv_ack_async_event(&event);
  }
}

// Only time in which this process looked for answers counts as silence: what came while it
// computed, or its host stood still, is in the queue by the next look.
void VerbsTransport::watch_links() noexcept {
  const auto passed =
      std::chrono::duration_cast<std::chrono::milliseconds>(system_.now() - watched_at_);
  if (passed < watch_interval) return;
  watched_at_ = system_.now();
  for (VerbsConnection* const connection : connections_) {
    if (connection != nullptr) connection->watch(std::min(passed, watch_interval * 4));
  }
}

// The table has changed: the kernel tells of it when it is done, and not what changed.
void VerbsTransport::look_for_gids() noexcept {
  gid_gone_.reset();
  for (const VerbsConnection* const connection : connections_) {
    if (connection == nullptr || connection->queue_pair() == nullptr) continue;
    const selection::Endpoint& own = connection->link().local.endpoint;
    if (own.gid_type == selection::GidType::iwarp) continue;
    ibv_gid now{};
    const int error = call_for_status(system_, "ibv_query_gid", [&] {
      return ibv_query_gid(device_.get(), static_cast<std::uint8_t>(own.port), own.gid_index, &now);
    });
    if (error == 0 && std::ranges::equal(now.raw, own.gid.bytes)) continue;
    gid_gone_ = ErrorDetail{
        .code = ErrorCode::link_failed,
        .cause = fmt::format("GID {} is gone from {} port {}", selection::to_string(own.gid),
                             own.device, own.port),
        .hint = "its interface has lost an address: give it back (ip addr), and start again"};
    return;
  }
}

// Events of a device come to everyone who has opened it, also those of ports that are not ours.
void VerbsTransport::handle_event(const ibv_async_event& event) noexcept {
  const int port = diagnosis::port_of(event);
  if (port != 0 && port != settings_.port.port) return;
  const diagnosis::Severity severity = diagnosis::severity_of(event.event_type);
  const diagnosis::Explanation what =
      diagnosis::describe(event.event_type, settings_.port.device, port);
  const bool ends_all = severity == diagnosis::Severity::context;
  if (event.event_type == IBV_EVENT_PORT_ACTIVE) port_down_.reset();
  if (event.event_type == IBV_EVENT_PORT_ERR)
    port_down_ =
        ErrorDetail{.code = ErrorCode::link_failed, .cause = what.cause, .hint = what.hint};
  if (event.event_type == IBV_EVENT_GID_CHANGE) look_for_gids();
  if (severity == diagnosis::Severity::harmless) return log_.info("{}", what.cause);
  if (severity == diagnosis::Severity::suspicious)
    return log_.warning("{}. {}", what.cause, what.hint);
  for (VerbsConnection* const connection : connections_) {
    if (connection == nullptr) continue;
    if (ends_all || connection->queue_pair() == event.element.qp)
      connection->fail([&]() -> const diagnosis::Explanation& { return what; });
  }
}

}  // namespace qpmesh::transport::verbs
