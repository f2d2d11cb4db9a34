// SPDX-License-Identifier: MIT
#include "simulator/connection.hpp"

namespace qpmesh::simulator {

Connection::~Connection() { fabric_.close_endpoint(endpoint_); }

Post Connection::post(std::span<const Write> chain) noexcept {
  return fabric_.post(endpoint_, chain);
}

Post Connection::read(std::span<std::byte> target, std::optional<std::uint32_t> target_region,
                      RemoteAddress source) noexcept {
  return fabric_.read(endpoint_, target, target_region, source);
}

std::uint64_t Connection::completed() const noexcept { return fabric_.completed(endpoint_); }

std::optional<std::uint32_t> Connection::poll_immediate() noexcept {
  return fabric_.poll_immediate(endpoint_);
}

const std::byte* Connection::load(RemoteAddress source, std::size_t bytes) noexcept {
  return fabric_.load(endpoint_, source, bytes);
}

void Connection::tear_down() noexcept { fabric_.tear_down(endpoint_); }

const ErrorDetail* Connection::fault() const noexcept { return fabric_.fault(endpoint_); }

}  // namespace qpmesh::simulator
