// Every algorithm: its name is that of its file, of its row, of its value in QPMESH_ALGORITHMS and of the log field.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "collectives/arguments.hpp"
#include "collectives/cost.hpp"
#include "collectives/group.hpp"
#include "collectives/models.hpp"
#include "qpmesh/collective.hpp"

namespace qpmesh::collectives {

struct Algorithm {
  Collective collective;
  std::string_view name;
  bool (*applies)(const Shape& shape);
  Cost (*cost)(const Shape& shape, const Model& model);
  Task (*run)(Group group, const Arguments& arguments);
};

std::span<const Algorithm> algorithms() noexcept;                       // all of them
std::span<const Algorithm> algorithms(Collective collective) noexcept;  // at least one, never empty
// The row of that name, or nullptr.
const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept;

// The algorithms that somebody wants, whatever they cost; nullptr: the cheapest.
using Forced = std::array<const Algorithm*, collective_count>;

// "allreduce=ring,broadcast=chain". Throws Error{bad_config} naming what is unknown and what is known.
Forced parse_forced(std::string_view text);

// Which algorithm runs, on ranks that know the same: the cheapest that applies. Decided once for all vectors of one power of two.
class Selector {
 public:
  Selector(const Medium& medium, const Forced& forced) noexcept : medium_{medium}, forced_{forced} {}

  // wanted: by this call, or empty. Throws Error{bad_argument}, without an operation, where what is forced is unknown or does not
  // apply; nothing is remembered then.
  const Algorithm& select(const Shape& shape, Collective collective, std::string_view wanted);
  double predicted_s(const Shape& shape, const Algorithm& row) const noexcept {
    return row.cost(shape, medium_.model(shape)).time_s;
  }

 private:
  static constexpr std::size_t bucket_count = 65;  // by the bit width of the bytes

  const Algorithm& forced(const Shape& shape, const Algorithm& row) const;
  const Algorithm& cheapest(const Shape& shape, Collective collective) const noexcept;

  Medium medium_;
  Forced forced_;
  std::array<std::array<const Algorithm*, bucket_count>, collective_count> decided_{};
};

}  // namespace qpmesh::collectives
