// SPDX-License-Identifier: MIT
// Ranks as forked processes of a test: a Bootstrap over one socket pair per child, gathered by rank
// 0, the test itself.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/owned.hpp"
#include "base/system.hpp"
#include "qpmesh/bootstrap.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::test {

class ProcessBootstrap : public Bootstrap {
 public:
  // Rank 0: sockets[i] leads to rank i + 1. Another rank: its one socket leads to rank 0.
  ProcessBootstrap(int rank, int size, std::vector<base::UniqueFd> sockets)
      : rank_{rank}, size_{size}, sockets_{std::move(sockets)} {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::vector<Blob> all_gather(BlobView mine, Deadline deadline) override {
    std::vector<Blob> all;
    if (rank_ != 0) {
      put(sockets_.front().get(), mine);
      for (int rank = 0; rank < size_; ++rank)
        all.push_back(get(sockets_.front().get(), 0, deadline));
      return all;
    }
    all.emplace_back(mine.begin(), mine.end());
    for (int rank = 1; rank < size_; ++rank) {
      all.push_back(get(sockets_[static_cast<std::size_t>(rank - 1)].get(), rank, deadline));
    }
    for (const base::UniqueFd& socket : sockets_) {
      for (const Blob& blob : all) put(socket.get(), blob);
    }
    return all;
  }

 private:
  // Blobs are small: they fit into the socket's buffer, so a send never waits for the other side.
  void put(int socket, BlobView blob) {
    const auto bytes = static_cast<std::uint32_t>(blob.size());
    put_all(socket, std::as_bytes(std::span{&bytes, 1}));
    put_all(socket, blob);
  }
  void put_all(int socket, BlobView bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) fail(no_peer, ErrorCode::link_failed, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }
  Blob get(int socket, int peer, Deadline deadline) {
    std::uint32_t bytes = 0;
    get_all(socket, std::as_writable_bytes(std::span{&bytes, 1}), peer, deadline);
    Blob blob(bytes);
    get_all(socket, blob, peer, deadline);
    return blob;
  }
  void get_all(int socket, std::span<std::byte> into, int peer, Deadline deadline) {
    while (!into.empty()) {
      pollfd readable{.fd = socket, .events = POLLIN, .revents = 0};
      if (::poll(&readable, 1, base::remaining_ms(system_, deadline)) <= 0)
        fail(peer, ErrorCode::timeout, 0);
      const ssize_t count = ::recv(socket, into.data(), into.size(), 0);
      if (count <= 0) fail(peer, ErrorCode::peer_dead, count < 0 ? errno : 0);
      into = into.subspan(static_cast<std::size_t>(count));
    }
  }
  [[noreturn]] static void fail(int peer, ErrorCode code, int error) {
    throw Error{{.code = code,
                 .peer = peer,
                 .operation = "init",
                 .cause = "gathering",
                 .system_error = error,
                 .hint = {}}};
  }

  int rank_;
  int size_;
  std::vector<base::UniqueFd> sockets_;
  base::System system_;
};

}  // namespace qpmesh::test
