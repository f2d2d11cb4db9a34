// SPDX-License-Identifier: MIT
// Hints: pairs of texts, in the order in which their keys came.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "counted.hpp"
#include "mpi.h"

namespace qpmesh::mpi {

// Threads may use one at once, before MPI_Init and after MPI_Finalize too (MPI 5.0, 11.4.1).
class Info : public Handled<Info> {
 public:
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  Info() = default;
  explicit Info(Pairs pairs) : pairs_{std::move(pairs)} {}

  Pairs pairs() const;
  std::optional<std::string> find(std::string_view key) const;
  void set(std::string_view key, std::string_view value);
  // Was it there?
  bool erase(std::string_view key);

  MPI_Info handle() noexcept { return reinterpret_cast<MPI_Info>(this); }

 private:
  mutable std::mutex mutex_;
  Pairs pairs_{};
};
// Null for MPI_INFO_NULL, and for what was freed. MPI_INFO_ENV is how the program was started.
Info* info_of(MPI_Info handle) noexcept;
// An argument that must be there. Failure{MPI_ERR_INFO} where it is not.
Info& given_info(MPI_Info handle);
// An argument that may be MPI_INFO_NULL: null then. Calls to which hints mean nothing look, too.
const Info* given_info_or_null(MPI_Info handle);

}  // namespace qpmesh::mpi
