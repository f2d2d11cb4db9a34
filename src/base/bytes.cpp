#include "base/bytes.hpp"

namespace qpmesh::base {

void ByteWriter::append(const void* bytes, std::size_t count) {
  const auto* const first = static_cast<const std::byte*>(bytes);
  blob_.insert(blob_.end(), first, first + count);
}

}  // namespace qpmesh::base
