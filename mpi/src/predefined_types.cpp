// SPDX-License-Identifier: MIT
// The types that are there from the beginning.
#include <bit>
#include <utility>

#include "datatype.hpp"

namespace qpmesh::mpi {
namespace {

using enum Category;

qpmesh_type library_type(Category category, std::size_t bytes) noexcept {
  const int width = std::countr_zero(bytes);
  const bool is_number = bytes <= 8 && category != complex;
  if (is_number && category == signed_integer) return QPMESH_INT8 + width;
  if (is_number && category == floating)
    return bytes == 2 ? QPMESH_FLOAT16 : QPMESH_FLOAT32 + width - 2;
  if (is_number) return QPMESH_UINT8 + width;
  return QPMESH_STRUCT + static_cast<int>(bytes);
}

// As in C, where a complex number is aligned as its parts are.
Basic value_of(Category category, std::size_t bytes, std::size_t external_bytes) noexcept {
  const auto small = [](std::size_t value) { return static_cast<std::uint8_t>(value); };
  return {.category = category,
          .bytes = small(bytes),
          .alignment = small(category == complex ? bytes / 2 : bytes),
          .external_bytes = small(external_bytes),
          .type = library_type(category, bytes)};
}
Basic value_of(Category category, std::size_t bytes) noexcept {
  return value_of(category, bytes, bytes);
}
Basic long_double_of(Category category) noexcept {
  const std::size_t values = category == complex ? 2 : 1;
  Basic basic = value_of(category, values * sizeof(long double), values * 16);
  basic.is_long_double = true;
  return basic;
}
template <class Integer>
Basic integer(std::size_t external_bytes = sizeof(Integer)) noexcept {
  const auto category = static_cast<Integer>(-1) < Integer{0} ? signed_integer : unsigned_integer;
  return value_of(category, sizeof(Integer), external_bytes);
}

struct NamedValue {
  MPI_Datatype handle;
  const char* name;
  Basic basic;
};

// Of Fortran's types those are here whose size is the same under every compiler's defaults.
// external32 has long integers of 4 bytes, wide characters of 2 and long doubles of 16.
const NamedValue named_values[] = {
    {MPI_AINT, "MPI_AINT", integer<MPI_Aint>()},
    {MPI_COUNT, "MPI_COUNT", integer<MPI_Count>()},
    {MPI_OFFSET, "MPI_OFFSET", integer<MPI_Offset>()},
    {MPI_PACKED, "MPI_PACKED", value_of(bytes, 1)},
    {MPI_BYTE, "MPI_BYTE", value_of(bytes, 1)},
    {MPI_SHORT, "MPI_SHORT", integer<short>()},
    {MPI_INT, "MPI_INT", integer<int>()},
    {MPI_LONG, "MPI_LONG", integer<long>(4)},
    {MPI_LONG_LONG, "MPI_LONG_LONG_INT", integer<long long>()},
    {MPI_UNSIGNED_SHORT, "MPI_UNSIGNED_SHORT", integer<unsigned short>()},
    {MPI_UNSIGNED, "MPI_UNSIGNED", integer<unsigned>()},
    {MPI_UNSIGNED_LONG, "MPI_UNSIGNED_LONG", integer<unsigned long>(4)},
    {MPI_UNSIGNED_LONG_LONG, "MPI_UNSIGNED_LONG_LONG", integer<unsigned long long>()},
    {MPI_FLOAT, "MPI_FLOAT", value_of(floating, sizeof(float))},
    {MPI_DOUBLE, "MPI_DOUBLE", value_of(floating, sizeof(double))},
    {MPI_LONG_DOUBLE, "MPI_LONG_DOUBLE", long_double_of(floating)},
    {MPI_C_COMPLEX, "MPI_C_COMPLEX", value_of(complex, 2 * sizeof(float))},
    {MPI_CXX_FLOAT_COMPLEX, "MPI_CXX_FLOAT_COMPLEX", value_of(complex, 2 * sizeof(float))},
    {MPI_C_DOUBLE_COMPLEX, "MPI_C_DOUBLE_COMPLEX", value_of(complex, 2 * sizeof(double))},
    {MPI_CXX_DOUBLE_COMPLEX, "MPI_CXX_DOUBLE_COMPLEX", value_of(complex, 2 * sizeof(double))},
    {MPI_C_LONG_DOUBLE_COMPLEX, "MPI_C_LONG_DOUBLE_COMPLEX", long_double_of(complex)},
    {MPI_CXX_LONG_DOUBLE_COMPLEX, "MPI_CXX_LONG_DOUBLE_COMPLEX", long_double_of(complex)},
    {MPI_C_BOOL, "MPI_C_BOOL", value_of(logical, sizeof(bool))},
    {MPI_CXX_BOOL, "MPI_CXX_BOOL", value_of(logical, sizeof(bool))},
    {MPI_WCHAR, "MPI_WCHAR", value_of(character, sizeof(wchar_t), 2)},
    {MPI_CHAR, "MPI_CHAR", integer<char>()},
    {MPI_SIGNED_CHAR, "MPI_SIGNED_CHAR", integer<signed char>()},
    {MPI_UNSIGNED_CHAR, "MPI_UNSIGNED_CHAR", integer<unsigned char>()},
    {MPI_INT8_T, "MPI_INT8_T", integer<std::int8_t>()},
    {MPI_UINT8_T, "MPI_UINT8_T", integer<std::uint8_t>()},
    {MPI_INT16_T, "MPI_INT16_T", integer<std::int16_t>()},
    {MPI_UINT16_T, "MPI_UINT16_T", integer<std::uint16_t>()},
    {MPI_INT32_T, "MPI_INT32_T", integer<std::int32_t>()},
    {MPI_UINT32_T, "MPI_UINT32_T", integer<std::uint32_t>()},
    {MPI_INT64_T, "MPI_INT64_T", integer<std::int64_t>()},
    {MPI_UINT64_T, "MPI_UINT64_T", integer<std::uint64_t>()},
    {MPI_LOGICAL, "MPI_LOGICAL", value_of(logical, 4)},
    {MPI_INTEGER, "MPI_INTEGER", value_of(signed_integer, 4)},
    {MPI_REAL, "MPI_REAL", value_of(floating, 4)},
    {MPI_COMPLEX, "MPI_COMPLEX", value_of(complex, 8)},
    {MPI_DOUBLE_PRECISION, "MPI_DOUBLE_PRECISION", value_of(floating, 8)},
    {MPI_DOUBLE_COMPLEX, "MPI_DOUBLE_COMPLEX", value_of(complex, 16)},
    {MPI_CHARACTER, "MPI_CHARACTER", value_of(character, 1)},
    {MPI_LOGICAL1, "MPI_LOGICAL1", value_of(logical, 1)},
    {MPI_LOGICAL2, "MPI_LOGICAL2", value_of(logical, 2)},
    {MPI_LOGICAL4, "MPI_LOGICAL4", value_of(logical, 4)},
    {MPI_LOGICAL8, "MPI_LOGICAL8", value_of(logical, 8)},
    {MPI_LOGICAL16, "MPI_LOGICAL16", value_of(logical, 16)},
    {MPI_INTEGER1, "MPI_INTEGER1", value_of(signed_integer, 1)},
    {MPI_INTEGER2, "MPI_INTEGER2", value_of(signed_integer, 2)},
    {MPI_INTEGER4, "MPI_INTEGER4", value_of(signed_integer, 4)},
    {MPI_INTEGER8, "MPI_INTEGER8", value_of(signed_integer, 8)},
    {MPI_INTEGER16, "MPI_INTEGER16", value_of(signed_integer, 16)},
    {MPI_REAL2, "MPI_REAL2", value_of(floating, 2)},
    {MPI_REAL4, "MPI_REAL4", value_of(floating, 4)},
    {MPI_REAL8, "MPI_REAL8", value_of(floating, 8)},
    {MPI_REAL16, "MPI_REAL16", value_of(floating, 16)},
    {MPI_COMPLEX4, "MPI_COMPLEX4", value_of(complex, 4)},
    {MPI_COMPLEX8, "MPI_COMPLEX8", value_of(complex, 8)},
    {MPI_COMPLEX16, "MPI_COMPLEX16", value_of(complex, 16)},
    {MPI_COMPLEX32, "MPI_COMPLEX32", value_of(complex, 32)},
};

// A value and its index, as a struct of C has them.
struct NamedPair {
  MPI_Datatype handle;
  const char* name;
  MPI_Datatype value;
  MPI_Datatype index;
};
const NamedPair named_pairs[] = {
    {MPI_FLOAT_INT, "MPI_FLOAT_INT", MPI_FLOAT, MPI_INT},
    {MPI_DOUBLE_INT, "MPI_DOUBLE_INT", MPI_DOUBLE, MPI_INT},
    {MPI_LONG_INT, "MPI_LONG_INT", MPI_LONG, MPI_INT},
    {MPI_2INT, "MPI_2INT", MPI_INT, MPI_INT},
    {MPI_SHORT_INT, "MPI_SHORT_INT", MPI_SHORT, MPI_INT},
    {MPI_LONG_DOUBLE_INT, "MPI_LONG_DOUBLE_INT", MPI_LONG_DOUBLE, MPI_INT},
    {MPI_2REAL, "MPI_2REAL", MPI_REAL, MPI_REAL},
    {MPI_2DOUBLE_PRECISION, "MPI_2DOUBLE_PRECISION", MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION},
    {MPI_2INTEGER, "MPI_2INTEGER", MPI_INTEGER, MPI_INTEGER},
};

using Table = std::array<Datatype*, predefined_datatypes>;

void add(Table& table, MPI_Datatype handle, const char* name, Datatype* type) {
  type->predefined = handle;
  type->name.set(name);
  type->count_handle();  // the number is one, and stays
  type->commit();
  table[number_of(handle) - first_datatype] = type;
}

Datatype* make_value(const Basic& basic) {
  auto* const type = new Datatype;
  type->size = basic.bytes;
  type->bounds = type->true_bounds = {0, basic.bytes};
  type->alignment = basic.alignment;
  type->basics = 1;
  type->one_run = true;
  type->basic = &basic;
  type->layout = std::make_shared<Layout>(Layout{{.bytes = basic.bytes}});
  return type;
}

Datatype* make_pair(Datatype* value, Datatype* index) {
  const MPI_Aint offset = std::max<MPI_Aint>(value->size, index->alignment);
  return make_type({Part{.of = Reference{value}}, Part{.offset = offset, .of = Reference{index}}},
                   {})
      .release();
}

Table make_table() {
  Table table{};
  const auto at = [&](MPI_Datatype handle) { return table[number_of(handle) - first_datatype]; };
  for (const NamedValue& row : named_values)
    add(table, row.handle, row.name, make_value(row.basic));
  for (const NamedPair& row : named_pairs)
    add(table, row.handle, row.name, make_pair(at(row.value), at(row.index)));
  return table;
}

}  // namespace

// They stay until the process ends.
const std::array<Datatype*, predefined_datatypes> datatypes_by_number = make_table();

}  // namespace qpmesh::mpi
