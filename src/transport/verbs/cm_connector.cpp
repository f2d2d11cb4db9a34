// SPDX-License-Identifier: MIT
// Queue pairs connected by the RDMA communication manager: man rdma_connect, rdma_accept,
// rdma_init_qp_attr, rdma_establish. The queue pair is ours, not librdmacm's: it tells which
// attributes to give it.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/errors.hpp"
#include "base/interrupt.hpp"
#include "base/owned.hpp"
#include "transport/verbs/cm_request.hpp"
#include "transport/verbs/connector.hpp"
#include "transport/verbs/handles.hpp"

namespace qpmesh::transport::verbs {
namespace {

constexpr const char* device_file = "/dev/infiniband/rdma_cm";
constexpr const char* no_manager_hint =
    "modprobe rdma_ucm; a container needs the file, too: docker run --device=/dev/infiniband; "
    "QPMESH_CONNECT=exchange does without";
// For a neighbour's Ethernet address, and for a route: what this host can find out alone.
constexpr int resolve_timeout_ms = 2'000;

struct DestroyCm {
  void operator()(rdma_event_channel* channel) const noexcept {
    rdma_destroy_event_channel(channel);
  }
  // Waits until its events were acknowledged, which next_event does at once.
  void operator()(rdma_cm_id* id) const noexcept { rdma_destroy_id(id); }
};
using EventChannel = std::unique_ptr<rdma_event_channel, DestroyCm>;
using CmId = std::unique_ptr<rdma_cm_id, DestroyCm>;

// What is needed of an event once it was acknowledged.
struct Event {
  rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_ERROR;
  int status = 0;
  rdma_cm_id* id = nullptr;  // of a request a new one, which is ours
  std::optional<CmRequest> request;
};

sockaddr* as_socket_address(sockaddr_storage& storage) {
  return reinterpret_cast<sockaddr*>(&storage);
}

// librdmacm without descriptors says that there is no device.
void require_descriptors() {
  const int error = base::descriptors_error();
  if (error == 0) return;
  base::throw_error({.code = ErrorCode::no_resource, .system_error = error}, "init",
                    base::hint_for_descriptors(error),
                    "the RDMA communication manager cannot be used");
}

[[noreturn]] void fail_without_manager(std::string_view step, int error) {
  require_descriptors();
  base::throw_error({.code = ErrorCode::no_resource, .system_error = error}, "init",
                    no_manager_hint, "the RDMA communication manager cannot be used: {} failed",
                    step);
}

class CmConnector final : public Connector {
 public:
  CmConnector(const base::System& system, const base::Log& log, JobMember self)
      : system_{system}, log_{log}, self_{self} {
    if (const std::string& reason = rdmacm_missing(); !reason.empty()) {
      require_descriptors();
      base::throw_error({ErrorCode::no_resource}, "init",
                        "install librdmacm (Debian: apt-get install librdmacm1); "
                        "QPMESH_CONNECT=exchange does without",
                        "the RDMA communication manager cannot be used: {}", reason);
    }
    // librdmacm says on standard error what it misses, and not to us.
    const base::UniqueFd file{
        system.call("open", [] { return ::open(device_file, O_RDWR | O_CLOEXEC); })};
    if (!file) fail_without_manager(fmt::format("opening {}", device_file), errno);
    channel_.reset(call_for_object(system, "rdma_create_event_channel",
                                   [] { return rdma_create_event_channel(); }));
    if (!channel_) fail_without_manager("rdma_create_event_channel", errno);
    ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  }

  std::uint64_t listen(std::span<const selection::Endpoint> locals) override {
    std::uint64_t unusable = 0;
    for (std::size_t i = 0; i < locals.size(); ++i) {
      if (listener_at(locals[i]).id == nullptr) unusable |= std::uint64_t{1} << i;
    }
    if (static_cast<std::size_t>(std::popcount(unusable)) < locals.size()) return unusable;
    const Listener& first = listener_at(locals.front());
    require_descriptors();
    base::throw_error(
        {.code = ErrorCode::no_resource, .system_error = first.error}, "init",
        "give the device's interface an IP address, or set QPMESH_CONNECT=exchange",
        "the RDMA communication manager cannot listen at {} of {}: it finds a port by the IP "
        "address of its interface",
        selection::to_string(first.endpoint.gid), first.endpoint.device);
  }

  std::uint16_t port() const noexcept override { return port_; }

  void begin(ibv_qp& queue_pair, LinkTo to, std::uint16_t peer_port) override {
    const int peer = to.peer;
    Pair& pair = pairs_.emplace_back(
        Pair{.queue_pair = &queue_pair, .to = std::move(to), .calls = self_.rank < peer, .id = {}});
    if (!pair.calls) return;
    if (peer_port == 0) {
      base::throw_error({ErrorCode::corrupt, peer}, "connect", "",
                        "it does not say where it awaits connections");
    }
    rdma_cm_id* id = nullptr;
    require(pair, "rdma_create_id",
            [&] { return rdma_create_id(channel_.get(), &id, &pair, RDMA_PS_TCP); });
    pair.id.reset(id);
    const auto& [local, remote, timers] = pair.to.link;
    const std::string& netdev = local.endpoint.netdev;
    if (self_.traffic_class >= 0) {  // of the route, which the peer's end takes over
      auto type_of_service = static_cast<std::uint8_t>(self_.traffic_class);
      require(pair, "rdma_set_option", [&] {
        return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &type_of_service,
                               sizeof type_of_service);
      });
    }
    sockaddr_storage from = socket_address(local.endpoint.gid, 0, netdev);
    sockaddr_storage target = socket_address(remote.endpoint.gid, peer_port, netdev);
    require(pair, "rdma_resolve_addr", [&] {
      return rdma_resolve_addr(id, as_socket_address(from), as_socket_address(target),
                               resolve_timeout_ms);
    });
    await(pair, State::address_known);
    require_device(pair);
    require(pair, "rdma_resolve_route", [&] { return rdma_resolve_route(id, resolve_timeout_ms); });
    await(pair, State::route_known);
  }

  void finish(Deadline deadline, const base::StartCheck& check) override {
    for (Pair& pair : pairs_) {
      if (!pair.calls || pair.state == State::ready) continue;
      const auto request = encode({self_.job, self_.rank, pair.to.peer});
      rdma_conn_param parameters = parameters_of(pair);
      parameters.private_data = request.data();
      parameters.private_data_len = request.size();
      require(pair, "rdma_connect", [&] { return rdma_connect(pair.id.get(), &parameters); });
    }
    while (true) {
      const auto waiting =
          std::ranges::find_if(pairs_, [](const Pair& pair) { return pair.state != State::ready; });
      if (waiting == pairs_.end()) break;
      if (!serve(deadline, check)) fail_silent(*waiting);
    }
    listeners_.clear();
    log_.info("{} queue pairs connected by the RDMA communication manager, {} requests rejected",
              pairs_.size(), rejected_);
  }

 private:
  enum class State : std::uint8_t { begun, address_known, route_known, accepted, ready };
  struct Pair {
    ibv_qp* queue_pair = nullptr;
    LinkTo to;
    bool calls = false;
    CmId id;  // of a pair that is called: from its request on
    State state = State::begun;
  };
  struct Listener {
    selection::Endpoint endpoint;
    CmId id;  // none: error says why
    int error = 0;
  };

  // Made when it is first asked for; good until the next call.
  const Listener& listener_at(const selection::Endpoint& local) {
    const auto known = std::ranges::find(
        listeners_, local, [](const Listener& each) -> const auto& { return each.endpoint; });
    if (known != listeners_.end()) return *known;
    Listener& fresh = listeners_.emplace_back(Listener{.endpoint = local, .id = {}});
    fresh.error = open_listener(fresh);
    if (fresh.error == 0) return fresh;
    fresh.id.reset();
    log_.info("no connections by the RDMA communication manager at {} of {}: {}",
              selection::to_string(local.gid), local.device, base::describe_errno(fresh.error));
    return fresh;
  }

  // 0, or the errno. All listen at one port number, which is what peers are told.
  int open_listener(Listener& listener) {
    const selection::Endpoint& local = listener.endpoint;
    if (local.link_layer == selection::LinkLayer::infiniband) return EADDRNOTAVAIL;
    rdma_cm_id* id = nullptr;
    int error = call("rdma_create_id",
                     [&] { return rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP); });
    if (error != 0) return error;
    listener.id.reset(id);
    sockaddr_storage address = socket_address(local.gid, port_, local.netdev);
    error = call("rdma_bind_addr", [&] { return rdma_bind_addr(id, as_socket_address(address)); });
    // A request of every peer may come before the first one is answered.
    constexpr int backlog = 1024;
    if (error == 0) error = call("rdma_listen", [&] { return rdma_listen(id, backlog); });
    if (error == 0) port_ = ntohs(rdma_get_src_port(id));
    return error;
  }

  template <class F>
  int call(std::string_view site, F&& function) const {
    return call_for_status(system_, site, function);
  }
  template <class F>
  void require(const Pair& pair, std::string_view step, F&& function) const {
    if (const int error = call(step, function); error != 0) {
      fail_connecting(pair.to.peer, diagnosis::describe_bring_up(step, error, pair.to.link), error);
    }
  }

  // The manager goes by the address of the interface, and two devices may share one.
  static void require_device(const Pair& pair) {
    const std::string_view found = ibv_get_device_name(pair.id->verbs->device);
    const selection::Endpoint& wanted = pair.to.link.local.endpoint;
    if (found == wanted.device && pair.id->port_num == wanted.port) return;
    fail_connecting(pair.to.peer,
                    {fmt::format("the RDMA communication manager leads over {} port {}, not over "
                                 "the chosen device; {}",
                                 found, pair.id->port_num, to_string(pair.to.link)),
                     "choose with QPMESH_NETDEV, or set QPMESH_CONNECT=exchange"});
  }

  static rdma_conn_param parameters_of(const Pair& pair) {
    const ibv_qp_attr receives = to_rtr(pair.to.link).values;
    const ibv_qp_attr sends = to_rts(pair.to.link).values;
    rdma_conn_param parameters{};
    parameters.responder_resources = receives.max_dest_rd_atomic;
    parameters.initiator_depth = sends.max_rd_atomic;
    parameters.flow_control = 1;
    parameters.retry_count = sends.retry_cnt;
    parameters.rnr_retry_count = sends.rnr_retry;
    parameters.qp_num = pair.queue_pair->qp_num;
    return parameters;
  }

  void await(const Pair& pair, State state) {
    // The manager answers within its own time; twice that is for a busy host.
    const Deadline deadline = base::after_ms(system_, 2 * resolve_timeout_ms);
    while (pair.state < state) {
      if (serve(deadline)) continue;
      fail_connecting(pair.to.peer,
                      diagnosis::describe(state == State::address_known ? RDMA_CM_EVENT_ADDR_ERROR
                                                                        : RDMA_CM_EVENT_ROUTE_ERROR,
                                          -ETIMEDOUT, pair.to.link),
                      ETIMEDOUT);
    }
  }

  // Waits for events, and handles those that are there. False: the deadline has passed.
  bool serve(Deadline deadline, const base::StartCheck& check = {}) {
    bool any = false;
    while (const std::optional<Event> event = next_event()) {
      handle(*event);
      any = true;
    }
    if (any) return true;
    if (system_.now() >= deadline) return false;
    pollfd entry{.fd = channel_->fd, .events = POLLIN, .revents = 0};
    base::poll_in_start(system_, {&entry, 1}, deadline, check);
    return true;
  }

  std::optional<Event> next_event() {
    rdma_cm_event* event = nullptr;
    if (call("rdma_get_cm_event", [&] { return rdma_get_cm_event(channel_.get(), &event); }) != 0)
      return std::nullopt;
    Event found{
        .type = event->event, .status = event->status, .id = event->id, .request = std::nullopt};
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
      const rdma_conn_param& parameters = event->param.conn;
      found.request = decode_cm_request(
          {static_cast<const std::byte*>(parameters.private_data), parameters.private_data_len});
    }
    rdma_ack_cm_event(event);
    return found;
  }

  void handle(const Event& event) {
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) return answer(CmId{event.id}, event.request);
    // A listener has none.
    Pair* const pair = static_cast<Pair*>(event.id->context);
    if (pair == nullptr || pair->state == State::ready) return;
    switch (event.type) {
      case RDMA_CM_EVENT_ADDR_RESOLVED: pair->state = State::address_known; return;
      case RDMA_CM_EVENT_ROUTE_RESOLVED: pair->state = State::route_known; return;
      case RDMA_CM_EVENT_CONNECT_RESPONSE:
        to_rts_by_manager(*pair);
        require(*pair, "rdma_establish", [&] { return rdma_establish(pair->id.get()); });
        pair->state = State::ready;
        return;
      case RDMA_CM_EVENT_ESTABLISHED: pair->state = State::ready; return;
      case RDMA_CM_EVENT_ADDR_CHANGE:
      case RDMA_CM_EVENT_TIMEWAIT_EXIT: return;
      default:
        fail_connecting(pair->to.peer, diagnosis::describe(event.type, event.status, pair->to.link),
                        event.status < 0 ? -event.status : 0);
    }
  }

  void answer(CmId id, const std::optional<CmRequest>& request) {
    const auto awaited = [&](const Pair& pair) {
      return request == CmRequest{self_.job, pair.to.peer, self_.rank} && !pair.calls &&
             pair.state == State::begun;
    };
    const auto pair = std::ranges::find_if(pairs_, awaited);
    if (pair == pairs_.end()) {
      ++rejected_;
      rdma_reject(id.get(), nullptr, 0);
      return;
    }
    pair->id = std::move(id);
    pair->id->context = &*pair;
    to_rts_by_manager(*pair);
    rdma_conn_param parameters = parameters_of(*pair);
    require(*pair, "rdma_accept", [&] { return rdma_accept(pair->id.get(), &parameters); });
    pair->state = State::accepted;
  }

  void to_rts_by_manager(const Pair& pair) const {
    // Of iWARP the manager brings the queue pair there by itself, when the other end is known.
    if (pair.to.link.local.endpoint.is_iwarp()) return;
    for (const auto& [state, step] : {std::pair{IBV_QPS_RTR, "RTR"}, {IBV_QPS_RTS, "RTS"}}) {
      Attributes told;
      told.values.qp_state = state;
      require(pair, "rdma_init_qp_attr",
              [&] { return rdma_init_qp_attr(pair.id.get(), &told.values, &told.mask); });
      to_state(system_, *pair.queue_pair, keep_to_link(told, pair.to.link), step, pair.to);
    }
  }

  [[noreturn]] void fail_silent(const Pair& pair) const {
    std::string what =
        pair.calls ? "the RDMA communication manager had no answer in time"
                   : fmt::format("rank {} did not ask for its connection in time", pair.to.peer);
    if (rejected_ > 0) what += fmt::format(", and {} requests of others were rejected", rejected_);
    const diagnosis::Explanation why = diagnosis::describe_silence(what, pair.to.link);
    base::throw_error({ErrorCode::timeout, pair.to.peer}, "init", why.hint, "{}", why.cause);
  }

  const base::System& system_;
  base::Log log_;
  JobMember self_;
  EventChannel channel_;
  std::vector<Listener> listeners_;
  std::uint16_t port_ = 0;
  std::uint64_t rejected_ = 0;
  std::deque<Pair> pairs_;  // their ids point at them
};

}  // namespace

std::unique_ptr<Connector> make_cm_connector(const base::System& system, const base::Log& log,
                                             JobMember self) {
  return std::make_unique<CmConnector>(system, log, self);
}

}  // namespace qpmesh::transport::verbs
