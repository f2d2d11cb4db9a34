#include "collectives/kernels/reducer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

namespace qpmesh::collectives {

// The function overwrites its right operand: the result grows from the last source to the first in
// a buffer of its own, some elements at a time, so that no source is damaged and target may be one
// of them.
void Reducer::apply_function(std::byte* target, std::span<const std::byte* const> sources,
                             std::size_t bytes) const {
  constexpr std::size_t buffer_bytes = 4096;
  alignas(16) std::array<std::byte, buffer_bytes> buffer;
  std::unique_ptr<std::byte[]> large_element;  // NOLINT(*-avoid-c-arrays): uninitialised memory
  std::byte* inout = buffer.data();
  std::size_t part_bytes = buffer_bytes / element_bytes * element_bytes;
  if (part_bytes == 0) {
    large_element =
        std::make_unique_for_overwrite<std::byte[]>(element_bytes);  // NOLINT(*-avoid-c-arrays)
    inout = large_element.get();
    part_bytes = element_bytes;
  }
  try {
    for (std::size_t begin = 0; begin < bytes; begin += part_bytes) {
      const std::size_t count_bytes = std::min(part_bytes, bytes - begin);
      std::memcpy(inout, sources.back() + begin, count_bytes);
      for (std::size_t left = sources.size() - 1; left-- > 0;)
        function(context, sources[left] + begin, inout, count_bytes / element_bytes);
      std::memcpy(target + begin, inout, count_bytes);
    }
  } catch (...) {
    throw UserFailure{std::current_exception()};
  }
}

}  // namespace qpmesh::collectives
