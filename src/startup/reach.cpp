// SPDX-License-Identifier: MIT
#include "startup/reach.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/errors.hpp"

namespace qpmesh::startup {
namespace {

#ifdef QPMESH_WITH_VERBS
constexpr bool verbs_built_in = true;
#else
constexpr bool verbs_built_in = false;
#endif

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

[[noreturn]] void refuse_missing_verbs(std::string_view asked_for) {
  base::throw_error({ErrorCode::no_resource}, "init", "build it where libibverbs-dev is installed",
                    "{}, and this build of qpmesh has no verbs", asked_for);
}

}  // namespace

std::string apart(const base::Place& a, const base::Place& b) {
  std::string difference;
  const auto compare = [&](std::string_view what, std::uint64_t here, std::uint64_t there) {
    if (here == there) return;
    difference += fmt::format("{}{} {} and {}", difference.empty() ? "" : ", ", what, here, there);
  };
  compare("users", a.uid, b.uid);
  compare("process namespaces", a.pid_namespace, b.pid_namespace);
  compare("network namespaces", a.net_namespace, b.net_namespace);
  compare("user namespaces", a.user_namespace, b.user_namespace);
  const bool one_host = a.boot_id == b.boot_id && !difference.empty();
  return one_host ? fmt::format(" (one host, but they differ: {})", difference) : "";
}

Reach::Reach(const Options& options, const std::vector<base::RankIdentity>& ranks) : ranks_{ranks} {
  // A wish for a device is never put aside.
  const bool rdma_required =
      options.require == Requirement::rdma || !options.device.empty() || options.gid_index >= 0;
  if (options.encrypt) {
    if (rdma_required || options.transport == TransportChoice::verbs ||
        options.transport == TransportChoice::verbs_and_shm) {
      base::throw_error(
          {ErrorCode::bad_config}, "init",
          "leave QPMESH_TRANSPORT, _REQUIRE, _DEVICE and _GID_INDEX out",
          "RDMA is asked for, which QPMESH_ENCRYPT=yes excludes: it is not encrypted");
    }
    why_no_verbs_ = "QPMESH_ENCRYPT=yes";
  }
  switch (options.transport) {
    case TransportChoice::automatic:
      if (options.encrypt) return;
      network_ = verbs_built_in ? Way::verbs : Way::tcp;
      after_verbs_tcp_ = !rdma_required;
      why_no_verbs_ = verbs_built_in ? "" : "this build of qpmesh has no verbs";
      if (rdma_required && !verbs_built_in && !is_one_node())
        refuse_missing_verbs("RDMA is asked for (QPMESH_REQUIRE, _DEVICE or _GID_INDEX)");
      return;
    case TransportChoice::tcp:
      network_on_node_ = true;
      why_no_verbs_ = "QPMESH_TRANSPORT=tcp";
      return;
    case TransportChoice::verbs:
    case TransportChoice::verbs_and_shm:
      network_ = Way::verbs;
      network_on_node_ = true;
      after_verbs_shm_ = options.transport == TransportChoice::verbs_and_shm &&
                         options.require != Requirement::rdma;
      if (verbs_built_in) return;
      if (!may_fall_back())
        refuse_missing_verbs(after_verbs_shm_ ? "QPMESH_TRANSPORT=verbs+shm"
                                              : "QPMESH_TRANSPORT=verbs");
      fall_back("this build of qpmesh has no verbs");
      return;
    case TransportChoice::shm: break;
  }
  const auto elsewhere = std::ranges::find_if(
      ranks, [&](const auto& rank) { return rank.node != ranks.front().node; });
  if (elsewhere == ranks.end()) return;
  const auto rank = static_cast<int>(elsewhere - ranks.begin());
  base::throw_error({ErrorCode::no_resource, rank}, "init", "leave QPMESH_TRANSPORT out",
                    "rank 0 (on {}) and rank {} (on {}) share no memory{}, and "
                    "QPMESH_TRANSPORT=shm allows nothing else",
                    ranks.front().host, rank, elsewhere->host,
                    apart(ranks.front().place, elsewhere->place));
}

Way Reach::way(int a, int b) const noexcept {
  if (a == b || (same_node(a, b) && !network_on_node_)) return Way::shm;
  const bool excepted =
      !without_verbs_.empty() && without_verbs_.contains({std::min(a, b), std::max(a, b)});
  return excepted ? Way::tcp : network_;
}

bool Reach::any(Way way) const noexcept {
  if (way == Way::tcp && !without_verbs_.empty()) return true;
  const bool network = network_on_node_ ? ranks_.size() > 1 : !is_one_node();
  return way == Way::shm || (network && network_ == way);
}

bool Reach::may_fall_back() const noexcept {
  return network_ == Way::verbs && (after_verbs_tcp_ || (after_verbs_shm_ && is_one_node()));
}

void Reach::pair_falls_back(int a, int b, const std::string& why) {
  without_verbs_.emplace(std::min(a, b), std::max(a, b));
  if (why_no_verbs_.empty()) why_no_verbs_ = why;
}

void Reach::fall_back(const std::string& why) {
  network_ = Way::tcp;
  if (after_verbs_shm_) network_on_node_ = false;
  without_verbs_.clear();
  why_no_verbs_ = why;
}

std::string Reach::describe(int rank) const {
  std::array<int, 3> peers{};
  std::string why;
  for (int peer = 0; peer < static_cast<int>(ranks_.size()); ++peer) {
    if (peer == rank) continue;
    const Way its_way = way(rank, peer);
    ++peers[static_cast<std::size_t>(its_way)];
    if (its_way == Way::shm || !why.empty() || network_on_node_) continue;
    why = fmt::format("; rank {} shares no memory{}", peer,
                      apart(ranks_[at(rank)].place, ranks_[at(peer)].place));
  }
  std::string text = "peers:";
  for (const auto& [name, its_way] :
       {std::pair{"shm", Way::shm}, {"verbs", Way::verbs}, {"tcp", Way::tcp}}) {
    const int count = peers[static_cast<std::size_t>(its_way)];
    if (count > 0) text += fmt::format("{} {} by {}", text.back() == ':' ? "" : ",", count, name);
  }
  if (text.back() == ':') text += " none";
  if (peers[static_cast<std::size_t>(Way::tcp)] > 0 && !why_no_verbs_.empty())
    why += fmt::format("; no verbs: {}", why_no_verbs_);
  return text + why;
}

bool Reach::same_node(int a, int b) const noexcept {
  return ranks_[at(a)].node == ranks_[at(b)].node;
}

bool Reach::is_one_node() const noexcept {
  return std::ranges::all_of(ranks_,
                             [&](const auto& rank) { return rank.node == ranks_.front().node; });
}

}  // namespace qpmesh::startup
