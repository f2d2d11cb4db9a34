// SPDX-License-Identifier: MIT
#include "transport/verbs/connector.hpp"

#include "base/errors.hpp"
#include "transport/verbs/handles.hpp"

namespace qpmesh::transport::verbs {
namespace {

// A queue pair in RTS sends nothing by itself, so both steps are taken at once.
class ExchangeConnector final : public Connector {
 public:
  explicit ExchangeConnector(const base::System& system) : system_{system} {}
  std::uint64_t listen(std::span<const selection::Endpoint>) override { return 0; }
  std::uint16_t port() const noexcept override { return 0; }
  void begin(ibv_qp& queue_pair, LinkTo to, std::uint16_t) override {
    to_state(system_, queue_pair, to_rtr(to.link), "RTR", to);
    to_state(system_, queue_pair, to_rts(to.link), "RTS", to);
  }
  void finish(Deadline, const base::StartCheck&) override {}

 private:
  const base::System& system_;
};

}  // namespace

std::unique_ptr<Connector> make_exchange_connector(const base::System& system) {
  return std::make_unique<ExchangeConnector>(system);
}

void to_state(const base::System& system, ibv_qp& queue_pair, const Attributes& attributes,
              std::string_view step, const LinkTo& to) {
  ibv_qp_attr values = attributes.values;
  const int error = call_for_status(system, "ibv_modify_qp", [&] {
    return ibv_modify_qp(&queue_pair, &values, attributes.mask);
  });
  if (error != 0)
    fail_connecting(to.peer, diagnosis::describe_bring_up(step, error, to.link), error);
}

void fail_connecting(int peer, const diagnosis::Explanation& why, int error) {
  base::throw_error({.code = ErrorCode::link_failed, .peer = peer, .system_error = error},
                    "connect", why.hint, "{}", why.cause);
}

}  // namespace qpmesh::transport::verbs
