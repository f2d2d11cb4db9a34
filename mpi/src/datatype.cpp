// SPDX-License-Identifier: MIT
#include "datatype.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "error.hpp"

namespace qpmesh::mpi {
namespace {

// The bounds of a union of ranges.
struct Hull {
  Bounds bounds{std::numeric_limits<MPI_Aint>::max(), std::numeric_limits<MPI_Aint>::min()};
  bool empty = true;

  void add(Bounds more) noexcept {
    bounds = {std::min(bounds.lower, more.lower), std::max(bounds.upper, more.upper)};
    empty = false;
  }
  Bounds or_nothing() const noexcept { return empty ? Bounds{} : bounds; }
};

[[noreturn]] void fail_too_large() {
  fail(MPI_ERR_COUNT, "a type of more bytes than MPI_Count can count");
}

MPI_Aint sum(MPI_Aint left, MPI_Aint right) {
  MPI_Aint result = 0;
  if (__builtin_add_overflow(left, right, &result)) fail_too_large();
  return result;
}

// All copies of what lies within these bounds in one element of the part.
Bounds spread(Bounds one, const Part& part) {
  const auto reach = [&](MPI_Count count, MPI_Aint step) {
    const MPI_Aint last = product(count - 1, step);
    one.lower = sum(one.lower, std::min<MPI_Aint>(0, last));
    one.upper = sum(one.upper, std::max<MPI_Aint>(0, last));
  };
  reach(part.count, part.stride);
  reach(part.block, part.of->extent());
  return {sum(one.lower, part.offset), sum(one.upper, part.offset)};
}

// As the standard defines them for the map of values: given bounds win; otherwise they are those of
// the values, with their distance rounded up to the strictest alignment.
void set_bounds(Datatype& type) {
  Hull marked;
  Hull data;
  for (const Part& part : type.parts) {
    const Datatype& of = *part.of;
    if (part.count * part.block == 0) continue;
    if (of.marked) marked.add(spread(of.bounds, part));
    if (of.size == 0) continue;
    data.add(spread(of.true_bounds, part));
    type.alignment = std::max(type.alignment, of.alignment);
  }
  type.true_bounds = data.or_nothing();
  type.marked = !marked.empty;
  type.bounds = type.marked ? marked.bounds : type.true_bounds;
  const MPI_Aint rest = type.extent() % type.alignment;
  if (!type.marked && rest > 0) type.bounds.upper += type.alignment - rest;
}

std::shared_ptr<const Layout> layout_of(const std::vector<Part>& parts) {
  auto layout = std::make_shared<Layout>();
  for (const Part& part : parts) {
    if (part.count * part.block == 0 || part.of->size == 0) continue;
    Loop block =
        repeated(once(part.of->layout), static_cast<std::size_t>(part.block), part.of->extent());
    Loop all = repeated(std::move(block), static_cast<std::size_t>(part.count), part.stride);
    all.offset += part.offset;
    append(*layout, std::move(all));
  }
  return layout;
}

}  // namespace

MPI_Count product(MPI_Count left, MPI_Count right) {
  MPI_Count result = 0;
  if (__builtin_mul_overflow(left, right, &result)) fail_too_large();
  return result;
}

Reference<Datatype> make_type(std::vector<Part> parts, Recipe recipe,
                              std::optional<Bounds> bounds) {
  auto type = make<Datatype>();
  type->parts = std::move(parts);
  type->recipe = std::move(recipe);
  for (const Part& part : type->parts) {
    const MPI_Count copies = product(part.count, part.block);
    type->size = sum(type->size, product(copies, part.of->size));
    type->basics += copies * part.of->basics;
  }
  set_bounds(*type);
  if (bounds) {
    type->bounds = *bounds;
    type->marked = true;
  }
  type->layout = layout_of(type->parts);
  type->one_run =
      type->layout->empty() || (type->layout->size() == 1 && type->layout->front().is_run());
  return type;
}

Datatype& given_type(MPI_Datatype handle) {
  return require_object(datatype_of(handle), MPI_ERR_TYPE,
                        handle == MPI_DATATYPE_NULL ? "the datatype is MPI_DATATYPE_NULL"
                                                    : "this is no datatype, or was freed");
}

void fail_uncommitted(MPI_Datatype handle) {
  given_type(handle);
  fail(MPI_ERR_TYPE, "the datatype was not committed: call MPI_Type_commit");
}

void pack(const void* buffer, MPI_Count count, const Datatype& type, void* packed) {
  const auto bytes = static_cast<std::size_t>(count * type.size);
  if (bytes == 0) return;
  if (type.in_one_piece(count)) std::memcpy(packed, type.first_byte(buffer), bytes);
  else
    gather(*type.layout, static_cast<const std::byte*>(buffer), type.extent(), bytes,
           static_cast<std::byte*>(packed));
}

void unpack(const void* packed, std::size_t bytes, void* buffer, const Datatype& type) {
  if (bytes == 0 || type.size == 0) return;
  const auto size = static_cast<std::size_t>(type.size);
  if (type.in_one_piece(static_cast<MPI_Count>((bytes + size - 1) / size)))
    std::memcpy(type.first_byte(buffer), packed, bytes);
  else
    scatter(*type.layout, static_cast<std::byte*>(buffer), type.extent(), bytes,
            static_cast<const std::byte*>(packed));
}

bool for_each_basic(const Datatype& type, MPI_Aint offset, const Visit& visit) {
  if (type.basic != nullptr) return visit(offset, *type.basic, 1);
  for (const Part& part : type.parts) {
    const Datatype& of = *part.of;
    for (MPI_Count i = 0; i < part.count; ++i) {
      const MPI_Aint block = offset + part.offset + i * part.stride;
      if (of.basic != nullptr) {
        if (part.block > 0 && !visit(block, *of.basic, part.block)) return false;
        continue;
      }
      for (MPI_Count j = 0; j < part.block; ++j) {
        if (!for_each_basic(of, block + j * of.extent(), visit)) return false;
      }
    }
  }
  return true;
}

MPI_Count count_in(MPI_Count bytes, const Datatype& type) noexcept {
  if (type.size == 0) return bytes == 0 ? 0 : MPI_UNDEFINED;
  return bytes % type.size == 0 ? bytes / type.size : MPI_Count{MPI_UNDEFINED};
}

MPI_Count basics_in(MPI_Count bytes, const Datatype& type) {
  if (type.size == 0) return bytes == 0 ? 0 : MPI_UNDEFINED;
  MPI_Count basics = bytes / type.size * type.basics;
  MPI_Count rest = bytes % type.size;
  if (rest == 0) return basics;
  for_each_basic(type, 0, [&](MPI_Aint, const Basic& basic, MPI_Count count) {
    const MPI_Count whole = std::min(count, rest / basic.bytes);
    basics += whole;
    rest -= whole * basic.bytes;
    return whole == count;
  });
  return rest == 0 ? basics : MPI_Count{MPI_UNDEFINED};
}

MPI_Count bytes_of_basics(MPI_Count basics, const Datatype& type) {
  if (type.basics == 0) return 0;
  MPI_Count bytes = basics / type.basics * type.size;
  MPI_Count rest = basics % type.basics;
  if (rest == 0) return bytes;
  for_each_basic(type, 0, [&](MPI_Aint, const Basic& basic, MPI_Count count) {
    const MPI_Count some = std::min(count, rest);
    bytes += some * basic.bytes;
    rest -= some;
    return rest > 0;
  });
  return bytes;
}

}  // namespace qpmesh::mpi
