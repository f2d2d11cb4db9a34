// SPDX-License-Identifier: MIT
// Every predefined operation on every predefined type, beside a plain loop; which of them the
// standard has, and which are an error; and operations of the program's own on types with gaps,
// whose operands keep the order of ranks.
#include <algorithm>
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "check.h"

namespace {

enum Kind { integer, floating, complex_number, truth, bits, no_number };

constexpr int count = 37;
std::mt19937 random_bits{12345};

template <class T>
T random_value(Kind kind) {
  const int number = static_cast<int>(random_bits() % 7);
  if constexpr (std::is_arithmetic_v<T>) {
    if (kind == truth) return static_cast<T>(number % 2);
    return static_cast<T>(std::is_signed_v<T> ? number - 3 : number);
  } else {
    return T(static_cast<typename T::value_type>(number - 3),
             static_cast<typename T::value_type>(number % 3));
  }
}

template <class T>
using Values = std::array<T, count>;

template <class T>
Values<T> random_values(Kind kind) {
  Values<T> values;
  for (T& value : values) value = random_value<T>(kind);
  return values;
}

template <class T, class Function>
void holds(MPI_Op operation, MPI_Datatype type, Kind kind, bool is_there,
           const Function& function) {
  const Values<T> left = random_values<T>(kind);
  Values<T> right = random_values<T>(kind), expected;
  std::transform(left.begin(), left.end(), right.begin(), expected.begin(),
                 [&](T a, T b) { return static_cast<T>(function(a, b)); });
  const int before = failures;
  const int code = MPI_Reduce_local(left.data(), right.data(), count, type, operation);
  SAYS("an operation is there for the types that the standard says",
       (code == MPI_SUCCESS) == is_there);
  if (is_there) SAYS("its result is that of a plain loop", right == expected);
  else SAYS("what is not there is MPI_ERR_OP", class_of(code) == MPI_ERR_OP);
  if (failures == before) return;
  char name[MPI_MAX_OBJECT_NAME];
  int length = 0;
  MPI_Type_get_name(type, name, &length);
  fprintf(stderr, "type %s, operation %ld\n", name, (long)operation);
}

template <class T>
void numbers(MPI_Datatype type, Kind kind) {
  const bool is_integer = kind == integer, has_order = is_integer || kind == floating;
  const bool is_number = has_order || kind == complex_number;
  holds<T>(MPI_SUM, type, kind, is_number, [](T a, T b) { return a + b; });
  holds<T>(MPI_PROD, type, kind, is_number, [](T a, T b) { return a * b; });
  if constexpr (std::is_arithmetic_v<T>) {
    holds<T>(MPI_MIN, type, kind, has_order, [](T a, T b) { return std::min(a, b); });
    holds<T>(MPI_MAX, type, kind, has_order, [](T a, T b) { return std::max(a, b); });
    const bool is_truth = is_integer || kind == truth;
    holds<T>(MPI_LAND, type, kind, is_truth, [](T a, T b) { return a && b; });
    holds<T>(MPI_LOR, type, kind, is_truth, [](T a, T b) { return a || b; });
    holds<T>(MPI_LXOR, type, kind, is_truth, [](T a, T b) { return !a != !b; });
  }
  if constexpr (std::is_integral_v<T>) {
    const bool is_bits = is_integer || kind == bits;
    holds<T>(MPI_BAND, type, kind, is_bits, [](T a, T b) { return a & b; });
    holds<T>(MPI_BOR, type, kind, is_bits, [](T a, T b) { return a | b; });
    holds<T>(MPI_BXOR, type, kind, is_bits, [](T a, T b) { return a ^ b; });
  }
}

void values(void) {
  numbers<short>(MPI_SHORT, integer);
  numbers<int>(MPI_INT, integer);
  numbers<long>(MPI_LONG, integer);
  numbers<long long>(MPI_LONG_LONG, integer);
  numbers<unsigned short>(MPI_UNSIGNED_SHORT, integer);
  numbers<unsigned>(MPI_UNSIGNED, integer);
  numbers<unsigned long>(MPI_UNSIGNED_LONG, integer);
  numbers<unsigned long long>(MPI_UNSIGNED_LONG_LONG, integer);
  numbers<signed char>(MPI_SIGNED_CHAR, integer);
  numbers<unsigned char>(MPI_UNSIGNED_CHAR, integer);
  numbers<std::int8_t>(MPI_INT8_T, integer);
  numbers<std::uint8_t>(MPI_UINT8_T, integer);
  numbers<std::int16_t>(MPI_INT16_T, integer);
  numbers<std::uint16_t>(MPI_UINT16_T, integer);
  numbers<std::int32_t>(MPI_INT32_T, integer);
  numbers<std::uint32_t>(MPI_UINT32_T, integer);
  numbers<std::int64_t>(MPI_INT64_T, integer);
  numbers<std::uint64_t>(MPI_UINT64_T, integer);
  numbers<MPI_Aint>(MPI_AINT, integer);
  numbers<MPI_Count>(MPI_COUNT, integer);
  numbers<MPI_Offset>(MPI_OFFSET, integer);
  numbers<float>(MPI_FLOAT, floating);
  numbers<double>(MPI_DOUBLE, floating);
  numbers<long double>(MPI_LONG_DOUBLE, floating);
  numbers<bool>(MPI_C_BOOL, truth);
  numbers<unsigned char>(MPI_BYTE, bits);
  numbers<std::complex<float>>(MPI_C_FLOAT_COMPLEX, complex_number);
  numbers<std::complex<double>>(MPI_C_DOUBLE_COMPLEX, complex_number);
  numbers<std::complex<long double>>(MPI_C_LONG_DOUBLE_COMPLEX, complex_number);
#ifdef MPI_ABI_VERSION
  numbers<bool>(MPI_CXX_BOOL, truth);
  numbers<std::complex<float>>(MPI_CXX_FLOAT_COMPLEX, complex_number);
  numbers<std::complex<double>>(MPI_CXX_DOUBLE_COMPLEX, complex_number);
  numbers<std::complex<long double>>(MPI_CXX_LONG_DOUBLE_COMPLEX, complex_number);
  numbers<int>(MPI_INTEGER, integer);
  numbers<float>(MPI_REAL, floating);
  numbers<double>(MPI_DOUBLE_PRECISION, floating);
  numbers<int>(MPI_LOGICAL, truth);
  numbers<std::int8_t>(MPI_INTEGER1, integer);
  numbers<std::int16_t>(MPI_INTEGER2, integer);
  numbers<std::int32_t>(MPI_INTEGER4, integer);
  numbers<std::int64_t>(MPI_INTEGER8, integer);
  numbers<float>(MPI_REAL4, floating);
  numbers<double>(MPI_REAL8, floating);
  numbers<std::int16_t>(MPI_LOGICAL2, truth);
  numbers<std::int64_t>(MPI_LOGICAL8, truth);
  numbers<std::complex<float>>(MPI_COMPLEX, complex_number);
  numbers<std::complex<float>>(MPI_COMPLEX8, complex_number);
  numbers<std::complex<double>>(MPI_COMPLEX16, complex_number);
  numbers<std::complex<double>>(MPI_DOUBLE_COMPLEX, complex_number);
  numbers<wchar_t>(MPI_WCHAR, no_number);
  numbers<unsigned char>(MPI_CHARACTER, no_number);
  numbers<unsigned char>(MPI_PACKED, bits);
#endif
}

// Complex numbers whose parts have 16 bits, by their bits: compilers need not have them.
void halves(void) {
#ifdef MPI_ABI_VERSION
  using Halves = std::array<std::uint16_t, 2>;
  constexpr std::uint16_t minus_zero = 0x8000, infinity = 0x7c00, not_a_number = 0x7e00;
  const auto reduced = [](MPI_Op operation, Halves left, Halves right) {
    SAYS("complex numbers of 16 bits are reduced",
         MPI_Reduce_local(left.data(), right.data(), 1, MPI_COMPLEX4, operation) == MPI_SUCCESS);
    return right;
  };
  for (unsigned bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool is_number = (half & 0x7fff) <= infinity;
    const Halves sum = reduced(MPI_SUM, {half, minus_zero}, {minus_zero, half});
    const bool stays = is_number ? sum == Halves{half, half} : (sum[0] & 0x7fff) > infinity;
    if (stays) continue;
    SAYS("with nothing added each number stays as it is", false);
    break;
  }
  struct Row {
    Halves left, right, sum;
  };
  const Row rows[] = {
      {{0x3c00, 0x4000}, {0x4000, 0x3c00}, {0x4200, 0x4200}},    // 1 + 2
      {{0x6800, 0x6800}, {0x3c00, 0x4200}, {0x6800, 0x6802}},    // 2048 + 1 and + 3: to the even
      {{0x7bff, 0xfbff}, {0x7bff, 0xfbff}, {infinity, 0xfc00}},  // more than there is
      {{0x0001, 0x0400}, {0x0001, 0x8001}, {0x0002, 0x03ff}},    // less than normal ones
      {{0x03ff, 0x3c00}, {0x0001, 0xbc00}, {0x0400, 0x0000}},
  };
  for (const Row& row : rows)
    SAYS("sums are the nearest numbers", reduced(MPI_SUM, row.left, row.right) == row.sum);
  SAYS("what is no number stays none",
       (reduced(MPI_SUM, {not_a_number, 0}, {0x3c00, 0})[0] & 0x7fff) > infinity);
  SAYS("the product is that of complex numbers",  // (1 + 2i) (3 + 4i) = -5 + 10i
       reduced(MPI_PROD, {0x3c00, 0x4000}, {0x4200, 0x4400}) == Halves{0xc500, 0x4900});
  Halves number{0x3c00, 0};
  SAYS("they have no order",
       class_of(MPI_Reduce_local(rows, number.data(), 1, MPI_COMPLEX4, MPI_MAX)) == MPI_ERR_OP);
  const Halves one{0x3c00, 0xbc00};
  constexpr std::array<std::uint16_t, 4> numbers{0x3c00, 0x4000, 0x4200, 0x4400};
  Halves sum{};
  MPI_Allreduce(one.data(), sum.data(), 1, MPI_COMPLEX4, MPI_SUM, MPI_COMM_WORLD);
  const std::uint16_t ranks = numbers.at(static_cast<std::size_t>(size) - 1);
  SAYS("and ranks reduce them",
       sum == Halves{ranks, static_cast<std::uint16_t>(ranks | minus_zero)});
#endif
}

// ---- values and their indexes ----

template <class T, class Index>
struct Pair {
  T value;
  Index index;

  friend bool operator==(const Pair& left, const Pair& right) {
    return left.value == right.value && left.index == right.index;
  }
};

template <class T, class Index>
void located(MPI_Datatype type) {
  using Own = Pair<T, Index>;
  for (const bool is_least : {true, false}) {
    std::vector<Own> left, right, expected;
    for (int i = 0; i < count; ++i) {
      const auto draw = [] { return Own{T(random_bits() % 3), Index(random_bits() % 9)}; };
      left.push_back(draw());
      right.push_back(draw());
      const Own &a = left.back(), &b = right.back();
      if (a.value == b.value) expected.push_back(a.index < b.index ? a : b);
      else expected.push_back((a.value < b.value) == is_least ? a : b);
    }
    const int code = MPI_Reduce_local(left.data(), right.data(), count, type,
                                      is_least ? MPI_MINLOC : MPI_MAXLOC);
    SAYS("the place of a least or greatest value is there for pairs", code == MPI_SUCCESS);
    SAYS("of equal values the least index counts", right == expected);
    // Of all ranks.
    for (Own& one : left) one.value = T(one.value + rank);
    std::vector<Own> all(static_cast<std::size_t>(count));
    MPI_Allreduce(left.data(), all.data(), count, type, is_least ? MPI_MINLOC : MPI_MAXLOC,
                  MPI_COMM_WORLD);
    std::vector<Own> of_all(left.size() * static_cast<std::size_t>(size));
    MPI_Allgather(left.data(), count * static_cast<int>(sizeof(Own)), MPI_BYTE, of_all.data(),
                  count * static_cast<int>(sizeof(Own)), MPI_BYTE, MPI_COMM_WORLD);
    for (std::size_t i = 0; i < left.size(); ++i) {
      Own best = of_all[i];
      for (std::size_t at = i; at < of_all.size(); at += left.size()) {
        const Own& one = of_all[at];
        const bool is_better = is_least ? one.value < best.value : best.value < one.value;
        if (is_better || (one.value == best.value && one.index < best.index)) best = one;
      }
      SAYS("it is that of all ranks", all[i] == best);
    }
  }
  std::vector<Own> one(static_cast<std::size_t>(count)), other = one;
  SAYS("sums are not for pairs",
       class_of(MPI_Reduce_local(one.data(), other.data(), count, type, MPI_SUM)) == MPI_ERR_OP);
}

void pairs(void) {
  located<float, int>(MPI_FLOAT_INT);
  located<double, int>(MPI_DOUBLE_INT);
  located<long, int>(MPI_LONG_INT);
  located<int, int>(MPI_2INT);
  located<short, int>(MPI_SHORT_INT);
  located<long double, int>(MPI_LONG_DOUBLE_INT);
#ifdef MPI_ABI_VERSION
  located<float, float>(MPI_2REAL);
  located<double, double>(MPI_2DOUBLE_PRECISION);
  located<int, int>(MPI_2INTEGER);
#endif
  int a = 0, b = 0;
  SAYS("places are not for values",
       class_of(MPI_Reduce_local(&a, &b, 1, MPI_INT, MPI_MINLOC)) == MPI_ERR_OP);
  SAYS("MPI_OP_NULL is no operation",
       class_of(MPI_Reduce_local(&a, &b, 1, MPI_INT, MPI_OP_NULL)) == MPI_ERR_OP);
}

// ---- the program's own ----

// Affine maps, x -> factor * x + term: composing them is associative, and not commutative.
struct Affine {
  std::int64_t factor;
  std::int64_t term;
  char gap[24];
};

MPI_Datatype affine_type = MPI_DATATYPE_NULL;
int calls = 0;

void compose(void* in, void* inout, int* length, MPI_Datatype* type) {
  ++calls;
  SAYS("a function gets the type of the call", *type == affine_type);
  const auto* const left = static_cast<const Affine*>(in);
  auto* const right = static_cast<Affine*>(inout);
  for (int i = 0; i < *length; ++i) {
    right[i].term += right[i].factor * left[i].term;
    right[i].factor *= left[i].factor;
  }
}

void make_affine_type(void) {
  const int lengths[2] = {1, 1};
  const MPI_Aint places[2] = {offsetof(Affine, factor), offsetof(Affine, term)};
  const MPI_Datatype types[2] = {MPI_INT64_T, MPI_INT64_T};
  MPI_Datatype tight;
  MPI_Type_create_struct(2, lengths, places, types, &tight);
  MPI_Type_create_resized(tight, 0, sizeof(Affine), &affine_type);
  MPI_Type_free(&tight);
  MPI_Type_commit(&affine_type);
}

Affine of_rank(int which, int place) { return {which + 2 + place % 3, which - place, {}}; }
std::vector<Affine> own_maps(void) {
  std::vector<Affine> maps;
  for (int i = 0; i < count; ++i) {
    maps.push_back(of_rank(rank, i));
    memset(maps.back().gap, 'g', sizeof maps.back().gap);
  }
  return maps;
}
// Of the ranks from one on to the one before the last.
bool is_composed(const Affine& map, int place, int first, int last) {
  Affine expected = of_rank(first, place);
  for (int i = first + 1; i < last; ++i) {
    const Affine next = of_rank(i, place);
    expected = {expected.factor * next.factor, next.term + next.factor * expected.term, {}};
  }
  return map.factor == expected.factor && map.term == expected.term;
}

void own_operations(void) {
  make_affine_type();
  MPI_Op operation;
  MPI_Op_create(compose, 0, &operation);
  int commutes = -1;
  MPI_Op_commutative(operation, &commutes);
  SAYS("an operation that was made so does not commute", commutes == 0);
  const std::vector<Affine> in = own_maps();
  std::vector<Affine> out(in.size(), Affine{0, 0, {'o', 'o'}});
  const std::vector<Affine> untouched_out = out;
  const auto right_everywhere = [&](int first, int last) {
    bool right = true, kept = true;
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      right = right && is_composed(out[at], i, first, last);
      kept = kept && memcmp(out[at].gap, untouched_out[at].gap, sizeof out[at].gap) == 0;
    }
    SAYS("operands come in the order of ranks", right);
    SAYS("gaps of a result are not touched", kept);
  };
  MPI_Allreduce(in.data(), out.data(), count, affine_type, operation, MPI_COMM_WORLD);
  right_everywhere(0, size);
  for (int root = 0; root < size; ++root) {
    out = untouched_out;
    MPI_Reduce(in.data(), out.data(), count, affine_type, operation, root, MPI_COMM_WORLD);
    if (rank == root) right_everywhere(0, size);
  }
  out = untouched_out;
  MPI_Scan(in.data(), out.data(), count, affine_type, operation, MPI_COMM_WORLD);
  right_everywhere(0, rank + 1);
  out = untouched_out;
  MPI_Exscan(in.data(), out.data(), count, affine_type, operation, MPI_COMM_WORLD);
  if (rank > 0) right_everywhere(0, rank);
  out = untouched_out;
  MPI_Request request;
  MPI_Iallreduce(in.data(), out.data(), count, affine_type, operation, MPI_COMM_WORLD, &request);
  // Freed while it is in use.
  MPI_Op freed = operation;
  MPI_Op_free(&freed);
  SAYS("a freed handle is null", freed == MPI_OP_NULL);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  right_everywhere(0, size);
  MPI_Type_free(&affine_type);
}

}  // namespace

int main(int argc, char** argv) {
  static const Scenario scenarios[] = {{"values", values, 1},
                                       {"halves", halves, 1},
                                       {"pairs", pairs, 1},
                                       {"own_operations", own_operations, 1}};
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  return RUN_SCENARIOS(scenarios, argc, argv);
}
