// SPDX-License-Identifier: MIT
// What crosses from the templates of the face into the library: ranges and collectives with their
// types taken off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "qpmesh/any.hpp"
#include "qpmesh/collective.hpp"
#include "qpmesh/detail/standard.hpp"
#include "qpmesh/element.hpp"
#include "qpmesh/reduction.hpp"
#include "qpmesh/request.hpp"

namespace qpmesh::detail {

template <class R>
ConstElements const_elements(const R& data) {
  using T = element_t<R>;
  if constexpr (AnyRange<R>) {
    return data;
  } else if constexpr (Element<R>) {
    return {&data, 1, sizeof(T), element_type_of<T>()};
  } else {
    return {std::ranges::data(data), static_cast<std::size_t>(std::ranges::size(data)), sizeof(T),
            element_type_of<T>()};
  }
}
template <class R>
Elements elements(R& data) {
  using T = element_t<R>;
  if constexpr (AnyRange<R>) {
    return data;
  } else if constexpr (Element<R>) {
    return {&data, 1, sizeof(T), element_type_of<T>()};
  } else {
    return {std::ranges::data(data), static_cast<std::size_t>(std::ranges::size(data)), sizeof(T),
            element_type_of<T>()};
  }
}

// A message, or two.
struct AnyMessage {
  enum class Kind : std::uint8_t { send, receive, sendrecv };

  // Members one by one, as in AnyCollective.
  constexpr AnyMessage(Kind which, const ConstElements& out, int destination, const Elements& in,
                       int source, Tags of) noexcept
      : kind{which}, sent{out}, to{destination}, received{in}, from{source}, tags{of} {}
  static constexpr AnyMessage send(const ConstElements& out, int destination, int tag) noexcept {
    return {Kind::send, out, destination, {}, 0, tag};
  }
  static constexpr AnyMessage receive(const Elements& in, int source, int tag) noexcept {
    return {Kind::receive, {}, 0, in, source, tag};
  }

  Kind kind;
  ConstElements sent;
  int to;
  Elements received;
  int from;
  Tags tags;
};

// How a vector is cut. The ranges of a list lie apart: their displacements are bytes, from the
// first in memory on.
struct AnyLayout : BlockLayout {
  bool is_list = false;
};

// A collective.
struct AnyCollective {
  // Members one by one: an aggregate that is mostly zero gcc clears by `rep stos`, for as long as
  // the rest of a barrier's call.
  constexpr explicit AnyCollective(Collective which, const ConstElements& from = {},
                                   const Elements& to = {}, int root_rank = 0) noexcept
      : collective{which}, in{from}, out{to}, root{root_rank} {}

  Collective collective;
  ConstElements in;
  Elements out;
  AnyReduction reduction{};
  int root;
  const AnyLayout* in_layout = nullptr;  // of a v-form; the caller's
  const AnyLayout* out_layout = nullptr;

  bool has_layout() const noexcept { return in_layout != nullptr || out_layout != nullptr; }
};

// An allreduce of each of several vectors of one type, in place.
struct AnyVectors {
  std::span<const Elements> vectors;  // the caller's list
  AnyReduction reduction{};
};

}  // namespace qpmesh::detail
