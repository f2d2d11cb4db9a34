// SPDX-License-Identifier: MIT
// The data path as messaging sees it: one endpoint of the fabric.
#pragma once

#include "simulator/fabric.hpp"

namespace qpmesh::simulator {

class Connection final : public transport::Connection {
 public:
  Connection(Fabric& fabric, std::uint32_t endpoint) noexcept
      : fabric_{fabric}, endpoint_{endpoint} {}
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const Capabilities& capabilities() const noexcept override { return fabric_.capabilities(); }
  Post post(std::span<const Write> chain) noexcept override;
  Post read(std::span<std::byte> target, std::optional<std::uint32_t> target_region,
            RemoteAddress source) noexcept override;
  std::uint64_t completed() const noexcept override;
  std::optional<std::uint32_t> poll_immediate() noexcept override;
  const std::byte* load(RemoteAddress source, std::size_t bytes) noexcept override;
  void tear_down() noexcept override;
  const ErrorDetail* fault() const noexcept override;

 private:
  Fabric& fabric_;
  std::uint32_t endpoint_;
};

}  // namespace qpmesh::simulator
