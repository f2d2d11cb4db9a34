// SPDX-License-Identifier: MIT
#include "bootstrap/ended_ranks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "bootstrap/endpoint.hpp"
#include "bootstrap/socket.hpp"

namespace qpmesh::bootstrap {

std::string ended_ranks_socket(const std::string& job) {
  return one_host_name(::geteuid(), "run:" + job, 0);
}

base::UniqueFd connect_to_ended_ranks(const base::System& system, const std::string& socket) {
  if (socket.empty()) return {};
  Opened opened = connect_to(system, unix_address(socket));
  const bool ours = opened.socket && reject_reason(system, opened.socket.get()).empty();
  return ours ? std::move(opened.socket) : base::UniqueFd{};
}

std::vector<EndedRank> read_ended_ranks(const base::System& system, base::UniqueFd& socket) {
  std::vector<EndedRank> news;
  while (socket) {
    EndedRank ended;
    const auto received =
        receive(system, socket.get(), std::as_writable_bytes(std::span{&ended, 1}));
    if (received.error == EAGAIN) break;
    if (received.count == sizeof ended) {
      news.push_back(ended);
    } else {
      socket.reset();
    }
  }
  return news;
}

std::string to_string(const EndedRank& ended) {
  return fmt::format("rank {} (pid {}) ended with code {}", ended.rank, ended.pid, ended.code);
}

}  // namespace qpmesh::bootstrap
