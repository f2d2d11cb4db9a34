// SPDX-License-Identifier: MIT
// Random types of types, from a seed, beside a reference that lists every value of them: where
// values lie, bounds, packing, heads of messages, and what a type says that it was made of.
#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "check.h"

namespace {

using Bytes = std::vector<unsigned char>;

struct Value {
  MPI_Aint offset;
  int bytes;
};

// A type, and the list of its values by the rules of the standard.
struct Made {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  std::vector<Value> values{};
  bool marked = false;  // its bounds were given
  MPI_Aint lower = 0;
  MPI_Aint upper = 0;
  int alignment = 1;

  MPI_Aint extent() const { return upper - lower; }
};

class Builder {
 public:
  void place(const Made& inner, MPI_Aint offset) {
    for (const Value& value : inner.values) {
      made_.values.push_back({value.offset + offset, value.bytes});
      add(of_values_, value.offset + offset, value.offset + offset + value.bytes);
    }
    if (inner.marked) add(given_, inner.lower + offset, inner.upper + offset);
    if (!inner.values.empty()) made_.alignment = std::max(made_.alignment, inner.alignment);
  }
  void place_block(const Made& inner, MPI_Aint offset, MPI_Aint count) {
    for (MPI_Aint i = 0; i < count; ++i) place(inner, offset + i * inner.extent());
  }
  Made made() {
    made_.marked = given_.any;
    const Range& range = made_.marked ? given_ : of_values_;
    made_.lower = range.lower;
    made_.upper = range.upper;
    while (!made_.marked && made_.extent() % made_.alignment != 0) ++made_.upper;
    return made_;
  }

 private:
  struct Range {
    bool any = false;
    MPI_Aint lower = 0;
    MPI_Aint upper = 0;
  };
  static void add(Range& range, MPI_Aint lower, MPI_Aint upper) {
    range = {true, range.any ? std::min(range.lower, lower) : lower,
             range.any ? std::max(range.upper, upper) : upper};
  }
  Made made_{};
  Range of_values_{};
  Range given_{};
};

class Generator {
 public:
  explicit Generator(unsigned seed) : random_{seed} {}

  int number(int least, int most) {
    return std::uniform_int_distribution<int>{least, most}(random_);
  }
  unsigned char byte() { return static_cast<unsigned char>(number(0, 255)); }

  Made type(int depth) {
    for (;;) {
      Made made = depth == 0 ? value() : any(depth);
      if (made.values.size() <= values_max) return made;
      MPI_Type_free(&made.type);
    }
  }

 private:
  static constexpr std::size_t values_max = 600;

  Made value() {
    static const struct {
      MPI_Datatype type;
      int bytes;
    } table[] = {{MPI_CHAR, 1},   {MPI_SHORT, 2},        {MPI_INT, 4},
                 {MPI_DOUBLE, 8}, {MPI_LONG_DOUBLE, 16}, {MPI_BYTE, 1}};
    const auto& row = table[number(0, 5)];
    Made made{.type = row.type, .values = {{0, row.bytes}}, .upper = row.bytes};
    made.alignment = row.bytes;
    return made;
  }

  std::vector<int> numbers(int count, int least, int most) {
    std::vector<int> list(static_cast<std::size_t>(count));
    for (int& one : list) one = number(least, most);
    return list;
  }
  std::vector<MPI_Aint> addresses(int count) {
    std::vector<MPI_Aint> list;
    for (const int one : numbers(count, -200, 400)) list.push_back(one);
    return list;
  }
  static void forget(Made& inner) {
    int integers = 0, longs = 0, types = 0, combiner = 0;
    MPI_Type_get_envelope(inner.type, &integers, &longs, &types, &combiner);
    if (combiner != MPI_COMBINER_NAMED) MPI_Type_free(&inner.type);
  }

  Made any(int depth) {
    switch (number(0, 11)) {
      case 0: return contiguous(depth);
      case 1: return vector(depth);
      case 2: return hvector(depth);
      case 3: return indexed(depth);
      case 4: return hindexed(depth);
      case 5: return indexed_block(depth);
      case 6: return hindexed_block(depth);
      case 7:
      case 8: return structure(depth);
      case 9: return subarray(depth);
      case 10: return darray(depth);
      default: return resized(depth);
    }
  }
  Made contiguous(int depth) {
    Made inner = type(number(0, depth - 1));
    const int count = number(0, 4);
    Builder builder;
    builder.place_block(inner, 0, count);
    Made made = builder.made();
    MPI_Type_contiguous(count, inner.type, &made.type);
    forget(inner);
    return made;
  }
  Made vector(int depth) {
    Made inner = type(number(0, depth - 1));
    const int count = number(0, 4), length = number(0, 3), stride = number(-4, 6);
    Builder builder;
    for (int i = 0; i < count; ++i) builder.place_block(inner, i * stride * inner.extent(), length);
    Made made = builder.made();
    MPI_Type_vector(count, length, stride, inner.type, &made.type);
    forget(inner);
    return made;
  }
  Made hvector(int depth) {
    Made inner = type(number(0, depth - 1));
    const int count = number(0, 4), length = number(0, 3), stride = number(-64, 96);
    Builder builder;
    for (int i = 0; i < count; ++i) builder.place_block(inner, i * stride, length);
    Made made = builder.made();
    MPI_Type_create_hvector(count, length, stride, inner.type, &made.type);
    forget(inner);
    return made;
  }
  Made indexed(int depth) {
    Made inner = type(number(0, depth - 1));
    const int count = number(0, 5);
    const auto lengths = numbers(count, 0, 3), places = numbers(count, -4, 12);
    Builder builder;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      builder.place_block(inner, places[i] * inner.extent(), lengths[i]);
    Made made = builder.made();
    MPI_Type_indexed(count, lengths.data(), places.data(), inner.type, &made.type);
    forget(inner);
    return made;
  }
  Made hindexed(int depth) {
    Made inner = type(number(0, depth - 1));
    const int count = number(0, 5);
    const auto lengths = numbers(count, 0, 3);
    const auto places = addresses(count);
    Builder builder;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      builder.place_block(inner, places[i], lengths[i]);
    Made made = builder.made();
    MPI_Type_create_hindexed(count, lengths.data(), places.data(), inner.type, &made.type);
    forget(inner);
    return made;
  }
  Made indexed_block(int depth) {
    Made inner = type(number(0, depth - 1));
    const int count = number(0, 5), length = number(0, 3);
    const auto places = numbers(count, -4, 12);
    Builder builder;
    for (const int place : places) builder.place_block(inner, place * inner.extent(), length);
    Made made = builder.made();
    MPI_Type_create_indexed_block(count, length, places.data(), inner.type, &made.type);
    forget(inner);
    return made;
  }
  Made hindexed_block(int depth) {
    Made inner = type(number(0, depth - 1));
    const int count = number(0, 5), length = number(0, 3);
    const auto places = addresses(count);
    Builder builder;
    for (const MPI_Aint place : places) builder.place_block(inner, place, length);
    Made made = builder.made();
    MPI_Type_create_hindexed_block(count, length, places.data(), inner.type, &made.type);
    forget(inner);
    return made;
  }
  Made structure(int depth) {
    const int count = number(0, 4);
    const auto lengths = numbers(count, 0, 3);
    const auto places = addresses(count);
    std::vector<MPI_Datatype> types;
    Builder builder;
    std::vector<Made> inners;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      inners.push_back(type(number(0, depth - 1)));
      builder.place_block(inners.back(), places[i], lengths[i]);
      types.push_back(inners.back().type);
    }
    Made made = builder.made();
    MPI_Type_create_struct(count, lengths.data(), places.data(), types.data(), &made.type);
    for (Made& inner : inners) forget(inner);
    return made;
  }
  // Indexes of each dimension that are chosen, the slowest dimension first: their elements in the
  // order of memory.
  Made array(const Made& inner, const std::vector<int>& lengths,
             const std::vector<std::vector<int>>& chosen) {
    Builder builder;
    std::size_t elements = 1;
    MPI_Aint all = 1;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      elements *= chosen[i].size();
      all *= lengths[i];
    }
    for (std::size_t element = 0; element < elements; ++element) {
      MPI_Aint place = 0;
      std::size_t rest = element;
      MPI_Aint step = 1;
      for (std::size_t i = lengths.size(); i-- > 0;) {
        place += chosen[i][rest % chosen[i].size()] * step;
        rest /= chosen[i].size();
        step *= lengths[i];
      }
      builder.place(inner, place * inner.extent());
    }
    Made made = builder.made();
    made.marked = true;
    made.lower = 0;
    made.upper = all * inner.extent();
    return made;
  }
  static std::vector<int> backwards(std::vector<int> list, int order) {
    if (order == MPI_ORDER_FORTRAN) std::reverse(list.begin(), list.end());
    return list;
  }
  Made subarray(int depth) {
    Made inner = type(number(0, depth - 1));
    const int dimensions = number(1, 3), order = number(0, 1) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    std::vector<int> lengths, parts, starts;
    std::vector<std::vector<int>> chosen;
    for (int i = 0; i < dimensions; ++i) {
      lengths.push_back(number(1, 4));
      parts.push_back(number(1, lengths.back()));
      starts.push_back(number(0, lengths.back() - parts.back()));
      chosen.emplace_back();
      for (int at = 0; at < parts.back(); ++at) chosen.back().push_back(starts.back() + at);
    }
    Made made = array(inner, lengths, chosen);
    MPI_Type_create_subarray(dimensions, backwards(lengths, order).data(),
                             backwards(parts, order).data(), backwards(starts, order).data(), order,
                             inner.type, &made.type);
    forget(inner);
    return made;
  }
  Made darray(int depth) {
    Made inner = type(number(0, depth - 1));
    const int dimensions = number(1, 3), order = number(0, 1) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    // By the arguments' order, of which the last process dimension is fastest.
    std::vector<int> lengths, processes, ways, arguments;
    int all = 1;
    for (int i = 0; i < dimensions; ++i) {
      lengths.push_back(number(1, 6));
      ways.push_back(MPI_DISTRIBUTE_NONE);
      processes.push_back(1);
      arguments.push_back(MPI_DISTRIBUTE_DFLT_DARG);
      const int way = number(0, 3);
      if (way == 0) continue;
      processes.back() = number(1, 3);
      ways.back() = way == 1 ? MPI_DISTRIBUTE_BLOCK : MPI_DISTRIBUTE_CYCLIC;
      if (way == 3) arguments.back() = number(1, 3);
      all *= processes.back();
    }
    const int own = number(0, all - 1);
    std::vector<std::vector<int>> chosen;
    for (int i = 0, rest = all, left = own; i < dimensions; ++i) {
      const auto at = static_cast<std::size_t>(i);
      rest /= processes[at];
      const int process = left / rest;
      left %= rest;
      int block = arguments[at];
      if (ways[at] == MPI_DISTRIBUTE_NONE) block = lengths[at];
      else if (ways[at] == MPI_DISTRIBUTE_BLOCK)
        block = (lengths[at] + processes[at] - 1) / processes[at];
      else if (block == MPI_DISTRIBUTE_DFLT_DARG) block = 1;
      chosen.emplace_back();
      for (int index = 0; index < lengths[at]; ++index) {
        if (index / block % processes[at] == process) chosen.back().push_back(index);
      }
    }
    if (order == MPI_ORDER_FORTRAN) std::reverse(chosen.begin(), chosen.end());
    Made made = array(inner, backwards(lengths, order), chosen);
    MPI_Type_create_darray(all, own, dimensions, lengths.data(), ways.data(), arguments.data(),
                           processes.data(), order, inner.type, &made.type);
    forget(inner);
    return made;
  }
  Made resized(int depth) {
    Made inner = type(number(0, depth - 1));
    Made made = inner;
    made.lower = number(-40, 40);
    made.upper = made.lower + number(0, 100);
    made.marked = true;
    MPI_Type_create_resized(inner.type, made.lower, made.extent(), &made.type);
    forget(inner);
    return made;
  }

  std::mt19937 random_;
};

// ---- the reference's packing ----

struct Memory {
  Bytes bytes;
  MPI_Aint before;  // the buffer begins there

  unsigned char* buffer() { return bytes.data() + before; }
};

// Memory for so many elements, and a margin.
Memory memory_for(const Made& made, int count, Generator& generator) {
  MPI_Aint lowest = 0, highest = 0;
  for (int i = 0; i < count; ++i) {
    for (const Value& value : made.values) {
      const MPI_Aint at = value.offset + i * made.extent();
      lowest = std::min(lowest, at);
      highest = std::max(highest, at + value.bytes);
    }
  }
  Memory memory{Bytes(static_cast<std::size_t>(highest - lowest + 64)), 32 - lowest};
  for (unsigned char& byte : memory.bytes) byte = generator.byte();
  return memory;
}

template <class Move>
void each_value(const Made& made, int count, const Move& move) {
  std::size_t packed = 0;
  for (int i = 0; i < count; ++i) {
    for (const Value& value : made.values) {
      for (int j = 0; j < value.bytes; ++j) move(value.offset + i * made.extent() + j, packed++);
    }
  }
}

bool overlaps(const Made& made, int count, const Memory& memory) {
  std::vector<bool> used(memory.bytes.size());
  bool twice = false;
  each_value(made, count, [&](MPI_Aint at, std::size_t) {
    const auto index = static_cast<std::size_t>(at + memory.before);
    twice = twice || used[index];
    used[index] = true;
  });
  return twice;
}

std::size_t bytes_of(const Made& made) {
  std::size_t bytes = 0;
  for (const Value& value : made.values) bytes += static_cast<std::size_t>(value.bytes);
  return bytes;
}

// ---- what is checked ----

void measures(const Made& made) {
  int size = -1;
  MPI_Aint lower = -1, extent = -1, true_lower = -1, true_extent = -1;
  MPI_Type_size(made.type, &size);
  MPI_Type_get_extent(made.type, &lower, &extent);
  MPI_Type_get_true_extent(made.type, &true_lower, &true_extent);
  SAYS("the size is that of its values", static_cast<std::size_t>(size) == bytes_of(made));
  SAYS("bounds are those of the standard", lower == made.lower && extent == made.extent());
  if (made.values.empty()) return;
  MPI_Aint first = made.values[0].offset, last = first;
  for (const Value& value : made.values) {
    first = std::min(first, value.offset);
    last = std::max(last, value.offset + value.bytes);
  }
  SAYS("true bounds are those of its values", true_lower == first && true_extent == last - first);
}

Bytes packed_by(MPI_Datatype type, Memory& memory, int count, std::size_t bytes) {
  Bytes packed(bytes + 1, 0);
  int position = 0;
  MPI_Pack(memory.buffer(), count, type, packed.data(), static_cast<int>(packed.size()), &position,
           MPI_COMM_WORLD);
  packed.resize(static_cast<std::size_t>(position));
  return packed;
}

void packing(const Made& made, int count, Generator& generator) {
  Memory memory = memory_for(made, count, generator);
  const std::size_t bytes = bytes_of(made) * static_cast<std::size_t>(count);
  Bytes expected(bytes);
  each_value(made, count,
             [&](MPI_Aint at, std::size_t packed) { expected[packed] = memory.buffer()[at]; });
  const Bytes packed = packed_by(made.type, memory, count, bytes);
  SAYS("packed bytes are its values in order", packed == expected);

  if (overlaps(made, count, memory)) return;
  Memory to = memory_for(made, count, generator);
  Memory reference = to;
  int position = 0;
  MPI_Unpack(packed.data(), static_cast<int>(packed.size()), &position, to.buffer(), count,
             made.type, MPI_COMM_WORLD);
  each_value(made, count,
             [&](MPI_Aint at, std::size_t from) { reference.buffer()[at] = packed[from]; });
  SAYS("unpacked values lie where they lay, and nothing else was touched",
       to.bytes == reference.bytes);

  // The head of a message, and a message as long as any.
  to = memory_for(made, count, generator);
  reference = to;
  const auto head = static_cast<std::size_t>(generator.number(0, static_cast<int>(bytes)));
  MPI_Status status;
  MPI_Sendrecv(packed.data(), static_cast<int>(head), MPI_BYTE, 0, 5, to.buffer(), count, made.type,
               0, 5, MPI_COMM_SELF, &status);
  each_value(made, count, [&](MPI_Aint at, std::size_t from) {
    if (from < head) reference.buffer()[at] = packed[from];
  });
  SAYS("a shorter message fills the values that it has", to.bytes == reference.bytes);
  int elements = -1, whole = -1, wanted = 0;
  std::size_t rest = head;
  for (int i = 0; i < count && rest > 0; ++i) {
    for (const Value& value : made.values) {
      if (rest == 0 || wanted == MPI_UNDEFINED) break;
      const auto length = static_cast<std::size_t>(value.bytes);
      wanted = rest < length ? MPI_UNDEFINED : wanted + 1;
      rest -= std::min(rest, length);
    }
  }
  MPI_Get_elements(&status, made.type, &elements);
  MPI_Get_count(&status, made.type, &whole);
  if (bytes == 0) wanted = 0;
  SAYS("its elements are counted", elements == wanted);
  if (bytes_of(made) > 0) {
    const bool is_whole = head % bytes_of(made) == 0;
    SAYS("its count, too, where the last is whole",
         whole == (is_whole ? static_cast<int>(head / bytes_of(made)) : MPI_UNDEFINED));
  }

  to = memory_for(made, count, generator);
  reference = to;
  MPI_Sendrecv(memory.buffer(), count, made.type, 0, 6, to.buffer(), count, made.type, 0, 6,
               MPI_COMM_SELF, MPI_STATUS_IGNORE);
  each_value(made, count,
             [&](MPI_Aint at, std::size_t from) { reference.buffer()[at] = packed[from]; });
  SAYS("it travels from type to type", to.bytes == reference.bytes);
}

// The same type, made again of what it says.
MPI_Datatype rebuilt(MPI_Datatype type) {
  int integer_count = 0, address_count = 0, type_count = 0, combiner = 0;
  MPI_Type_get_envelope(type, &integer_count, &address_count, &type_count, &combiner);
  if (combiner == MPI_COMBINER_NAMED) return type;
  std::vector<int> i(static_cast<std::size_t>(integer_count) + 1);
  std::vector<MPI_Aint> a(static_cast<std::size_t>(address_count) + 1);
  std::vector<MPI_Datatype> t(static_cast<std::size_t>(type_count) + 1);
  MPI_Type_get_contents(type, integer_count, address_count, type_count, i.data(), a.data(),
                        t.data());
  std::vector<MPI_Datatype> inner;
  for (std::size_t k = 0; k < static_cast<std::size_t>(type_count); ++k) {
    inner.push_back(rebuilt(t[k]));
    if (inner.back() != t[k]) MPI_Type_free(&t[k]);
  }
  const int* const list = i.data() + 1;
  MPI_Datatype made = MPI_DATATYPE_NULL;
  switch (combiner) {
    case MPI_COMBINER_DUP: MPI_Type_dup(inner[0], &made); break;
    case MPI_COMBINER_CONTIGUOUS: MPI_Type_contiguous(i[0], inner[0], &made); break;
    case MPI_COMBINER_VECTOR: MPI_Type_vector(i[0], i[1], i[2], inner[0], &made); break;
    case MPI_COMBINER_HVECTOR: MPI_Type_create_hvector(i[0], i[1], a[0], inner[0], &made); break;
    case MPI_COMBINER_INDEXED: MPI_Type_indexed(i[0], list, list + i[0], inner[0], &made); break;
    case MPI_COMBINER_HINDEXED:
      MPI_Type_create_hindexed(i[0], list, a.data(), inner[0], &made);
      break;
    case MPI_COMBINER_INDEXED_BLOCK:
      MPI_Type_create_indexed_block(i[0], i[1], list + 1, inner[0], &made);
      break;
    case MPI_COMBINER_HINDEXED_BLOCK:
      MPI_Type_create_hindexed_block(i[0], i[1], a.data(), inner[0], &made);
      break;
    case MPI_COMBINER_STRUCT:
      MPI_Type_create_struct(i[0], list, a.data(), inner.data(), &made);
      break;
    case MPI_COMBINER_SUBARRAY:
      MPI_Type_create_subarray(i[0], list, list + i[0], list + 2 * i[0], list[3 * i[0]], inner[0],
                               &made);
      break;
    case MPI_COMBINER_DARRAY: {
      const int n = i[2];
      const int* const lists = i.data() + 3;
      MPI_Type_create_darray(i[0], i[1], n, lists, lists + n, lists + 2 * n, lists + 3 * n,
                             lists[4 * n], inner[0], &made);
      break;
    }
    case MPI_COMBINER_RESIZED: MPI_Type_create_resized(inner[0], a[0], a[1], &made); break;
    default: break;
  }
  for (std::size_t k = 0; k < inner.size(); ++k) {
    int integers = 0, addresses = 0, types = 0, named = 0;
    MPI_Type_get_envelope(inner[k], &integers, &addresses, &types, &named);
    if (named != MPI_COMBINER_NAMED) MPI_Type_free(&inner[k]);
  }
  return made;
}

void contents(const Made& made, int count, Generator& generator) {
  Made again = made;
  again.type = rebuilt(made.type);
  SAYS("every type says what it was made of", again.type != MPI_DATATYPE_NULL);
  if (again.type == MPI_DATATYPE_NULL || again.type == made.type) return;
  MPI_Type_commit(&again.type);
  measures(again);
  Memory memory = memory_for(made, count, generator);
  const std::size_t bytes = bytes_of(made) * static_cast<std::size_t>(count);
  SAYS("made again, it is the same",
       packed_by(again.type, memory, count, bytes) == packed_by(made.type, memory, count, bytes));
  MPI_Type_free(&again.type);
}

void random_types(void) {
  const int seeds = 1500;
  for (int i = 0; i < seeds; ++i) {
    const auto seed = static_cast<unsigned>(i * size + rank);
    const int before = failures;
    Generator generator{seed};
    Made made = generator.type(1 + i % 4);
    int integers = 0, addresses = 0, types = 0, combiner = 0;
    MPI_Type_get_envelope(made.type, &integers, &addresses, &types, &combiner);
    if (combiner != MPI_COMBINER_NAMED) MPI_Type_commit(&made.type);
    const int count = generator.number(0, 4);
    measures(made);
    packing(made, count, generator);
    contents(made, count, generator);
    if (combiner != MPI_COMBINER_NAMED) MPI_Type_free(&made.type);
    if (failures != before) {
      fprintf(stderr, "types_layout: seed %u, combiner %d, count %d\n", seed, combiner, count);
      if (failures > 20) return;
    }
  }
}

// ---- external32 ----

template <class T>
void external(const char* sentence, MPI_Datatype type, T value, const Bytes& expected) {
  MPI_Aint bytes = -1, position = 0;
  MPI_Pack_external_size("external32", 1, type, &bytes);
  Bytes packed(static_cast<std::size_t>(bytes));
  MPI_Pack_external("external32", &value, 1, type, packed.data(), bytes, &position);
  SAYS(sentence, packed == expected && position == bytes);
  T back{};
  position = 0;
  MPI_Unpack_external("external32", packed.data(), bytes, &position, &back, 1, type);
  SAYS("and comes back", back == value && position == bytes);
}

void external32(void) {
  external("an int has 4 bytes, the highest first", MPI_INT, 0x01020304, {1, 2, 3, 4});
  external("a long has 4 bytes", MPI_LONG, -2L, {0xff, 0xff, 0xff, 0xfe});
  external("a long long has 8", MPI_LONG_LONG, -2LL,
           {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe});
  external("a wide character has 2", MPI_WCHAR, wchar_t{0x20ac}, {0x20, 0xac});
  external("a double is IEEE's", MPI_DOUBLE, 1.5, {0x3f, 0xf8, 0, 0, 0, 0, 0, 0});
  external("a complex number is two of its parts", MPI_C_FLOAT_COMPLEX,
           std::complex<float>{1.5F, -2.0F}, {0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0});
  Bytes quad(16);
  quad[0] = 0x3f;
  quad[1] = 0xff;
  quad[2] = 0x80;
  // Others pack what the processor has.
  if (!open_mpi && !mpich) external("a long double has IEEE's 16", MPI_LONG_DOUBLE, 1.5L, quad);
  const long wide = 1L << 40;
  Bytes packed(8);
  MPI_Aint position = 0;
  if (open_mpi || mpich) return;  // they lose the high half
  SAYS("a value that does not fit is an error",
       class_of(MPI_Pack_external("external32", &wide, 1, MPI_LONG, packed.data(), 8, &position)) ==
           MPI_ERR_CONVERSION);
  SAYS("there is no other format",
       class_of(MPI_Pack_external("native", &wide, 1, MPI_LONG, packed.data(), 8, &position)) ==
           MPI_ERR_UNSUPPORTED_DATAREP);
}

}  // namespace

int main(int argc, char** argv) {
  static const Scenario scenarios[] = {{"random_types", random_types, 1},
                                       {"external32", external32, 1}};
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  return RUN_SCENARIOS(scenarios, argc, argv);
}
