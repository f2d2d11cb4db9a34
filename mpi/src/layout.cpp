// SPDX-License-Identifier: MIT
#include "layout.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace qpmesh::mpi {
namespace {

// A body of so few loops is taken into the layout around it.
constexpr std::size_t loops_inlined_max = 4;
// So many elements of several runs are copied run by run: they stay in the nearest cache.
constexpr std::size_t elements_together = 64;

std::size_t bytes_of(const Layout& layout) noexcept {
  std::size_t bytes = 0;
  for (const Loop& loop : layout) bytes += loop.bytes_all();
  return bytes;
}

std::ptrdiff_t signed_of(std::size_t value) noexcept { return static_cast<std::ptrdiff_t>(value); }

// The last loop goes on with this one.
bool joined(Loop& last, const Loop& next) noexcept {
  if (last.body != nullptr || next.body != nullptr) return false;
  const bool one_piece =
      last.count == 1 && next.count == 1 && last.offset + signed_of(last.bytes) == next.offset;
  if (one_piece) {
    last.bytes += next.bytes;
    return true;
  }
  if (last.bytes != next.bytes || next.count != 1) return false;
  if (last.count == 1) last.stride = next.offset - last.offset;
  else if (last.offset + signed_of(last.count) * last.stride != next.offset) return false;
  ++last.count;
  return true;
}

// ---- copying ----

// From data to packed, or the other way.
struct Gather {
  using Data = const std::byte;
  using Packed = std::byte;
  static void copy(Data* data, Packed* packed, std::size_t bytes) {
    std::memcpy(packed, data, bytes);
  }
};
struct Scatter {
  using Data = std::byte;
  using Packed = const std::byte;
  static void copy(Data* data, Packed* packed, std::size_t bytes) {
    std::memcpy(data, packed, bytes);
  }
};

// Runs at even distances on either side.
struct Strides {
  std::ptrdiff_t data;
  std::size_t packed;
};

template <class Way, std::size_t bytes>
void move_runs_of(typename Way::Data* data, typename Way::Packed* packed, std::size_t count,
                  Strides strides) {
  for (std::size_t i = 0; i < count; ++i, data += strides.data, packed += strides.packed)
    Way::copy(data, packed, bytes);
}

template <class Way>
void move_runs(typename Way::Data* data, typename Way::Packed* packed, std::size_t count,
               std::size_t bytes, Strides strides) {
  switch (bytes) {  // a length that is known makes of a call of memcpy one or two loads and stores
    case 1: return move_runs_of<Way, 1>(data, packed, count, strides);
    case 2: return move_runs_of<Way, 2>(data, packed, count, strides);
    case 4: return move_runs_of<Way, 4>(data, packed, count, strides);
    case 8: return move_runs_of<Way, 8>(data, packed, count, strides);
    case 12: return move_runs_of<Way, 12>(data, packed, count, strides);
    case 16: return move_runs_of<Way, 16>(data, packed, count, strides);
    case 24: return move_runs_of<Way, 24>(data, packed, count, strides);
    case 32: return move_runs_of<Way, 32>(data, packed, count, strides);
    case 64: return move_runs_of<Way, 64>(data, packed, count, strides);
    default: break;
  }
  for (std::size_t i = 0; i < count; ++i, data += strides.data, packed += strides.packed)
    Way::copy(data, packed, bytes);
}

template <class Way>
void move(const Layout& layout, typename Way::Data* data, typename Way::Packed* packed,
          std::size_t count, Strides strides);

// The first count times of a loop.
template <class Way>
void move(const Loop& loop, std::size_t count, typename Way::Data* data,
          typename Way::Packed* packed) {
  if (loop.body == nullptr)
    move_runs<Way>(data + loop.offset, packed, count, loop.bytes, {loop.stride, loop.bytes});
  else move<Way>(*loop.body, data + loop.offset, packed, count, {loop.stride, loop.bytes});
}

// Elements, one after the other; those of runs alone run by run, some of them together.
template <class Way>
void move(const Layout& layout, typename Way::Data* data, typename Way::Packed* packed,
          std::size_t count, Strides strides) {
  const bool only_runs = std::ranges::all_of(layout, &Loop::is_run);
  const std::size_t together = only_runs ? elements_together : 1;
  while (count > 0) {
    const std::size_t now = std::min(count, together);
    typename Way::Packed* to = packed;
    for (const Loop& loop : layout) {
      if (only_runs) move_runs<Way>(data + loop.offset, to, now, loop.bytes, strides);
      else move<Way>(loop, loop.count, data, to);
      to += loop.bytes_all();
    }
    data += signed_of(now) * strides.data;
    packed += now * strides.packed;
    count -= now;
  }
}

// Less than a whole element.
template <class Way>
void move_head(const Layout& layout, typename Way::Data* data, typename Way::Packed* packed,
               std::size_t bytes) {
  for (const Loop& loop : layout) {
    const std::size_t whole = std::min(bytes / loop.bytes, loop.count);
    move<Way>(loop, whole, data, packed);
    packed += whole * loop.bytes;
    bytes -= whole * loop.bytes;
    if (whole == loop.count) continue;
    typename Way::Data* const rest = data + loop.offset + signed_of(whole) * loop.stride;
    if (loop.body == nullptr) Way::copy(rest, packed, bytes);
    else move_head<Way>(*loop.body, rest, packed, bytes);
    return;
  }
}

template <class Way>
void move_elements(const Layout& layout, typename Way::Data* data, typename Way::Packed* packed,
                   std::ptrdiff_t extent, std::size_t bytes) {
  const std::size_t element_bytes = bytes_of(layout);
  if (element_bytes == 0) return;
  const std::size_t whole = bytes / element_bytes;
  move<Way>(layout, data, packed, whole, {extent, element_bytes});
  move_head<Way>(layout, data + signed_of(whole) * extent, packed + whole * element_bytes,
                 bytes - whole * element_bytes);
}

}  // namespace

Loop once(const std::shared_ptr<const Layout>& layout) {
  if (layout->size() == 1) return layout->front();
  return {.bytes = bytes_of(*layout), .body = layout};
}

Loop repeated(Loop loop, std::size_t count, std::ptrdiff_t stride) {
  if (count == 1) return loop;
  if (loop.is_run() && stride == signed_of(loop.bytes)) {
    loop.bytes *= count;
    return loop;
  }
  if (loop.count == 1) {
    loop.count = count;
    loop.stride = stride;
    return loop;
  }
  if (stride == signed_of(loop.count) * loop.stride) {
    loop.count *= count;
    return loop;
  }
  const std::ptrdiff_t offset = std::exchange(loop.offset, 0);
  const std::size_t bytes = loop.bytes_all();
  auto body = std::make_shared<Layout>();
  body->push_back(std::move(loop));
  return {offset, count, stride, bytes, std::move(body)};
}

void append(Layout& layout, Loop loop) {
  if (loop.bytes_all() == 0) return;
  if (loop.count == 1 && loop.body != nullptr && loop.body->size() <= loops_inlined_max) {
    for (Loop inner : *loop.body) {
      inner.offset += loop.offset;
      append(layout, std::move(inner));
    }
    return;
  }
  if (!layout.empty() && joined(layout.back(), loop)) return;
  layout.push_back(std::move(loop));
}

void gather(const Layout& layout, const std::byte* data, std::ptrdiff_t extent, std::size_t bytes,
            std::byte* packed) {
  move_elements<Gather>(layout, data, packed, extent, bytes);
}

void scatter(const Layout& layout, std::byte* data, std::ptrdiff_t extent, std::size_t bytes,
             const std::byte* packed) {
  move_elements<Scatter>(layout, data, packed, extent, bytes);
}

}  // namespace qpmesh::mpi
