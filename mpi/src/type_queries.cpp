// SPDX-License-Identifier: MIT
// The life of types, and what is asked of them.
#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <span>

#include "datatype.hpp"
#include "entry.hpp"
#include "environment.hpp"
#include "error.hpp"

namespace qpmesh::mpi {
namespace {

// A number of bytes in the caller's type, or MPI_UNDEFINED where that is too small.
template <class To>
void store(To* to, MPI_Count value) {
  check_addresses(to);
  const bool fits =
      value >= std::numeric_limits<To>::min() && value <= std::numeric_limits<To>::max();
  *to = fits ? static_cast<To>(value) : static_cast<To>(MPI_UNDEFINED);
}

template <class Count>
int size_of(const char* function, MPI_Datatype type, Count* size) {
  return while_running(function, [&] { store(size, given_type(type).size); });
}

template <class Address>
int bounds_of(const char* function, MPI_Datatype type, Bounds Datatype::*which, Address* lower,
              Address* extent) {
  return while_running(function, [&] {
    const Bounds bounds = given_type(type).*which;
    store(lower, bounds.lower);
    store(extent, bounds.upper - bounds.lower);
  });
}

// Only what the program made can be freed: a type that was chosen for it is there once for all.
Datatype& own_type(MPI_Datatype handle) {
  Datatype& type = given_type(handle);
  if (type.predefined != MPI_DATATYPE_NULL || type.recipe.combiner == MPI_COMBINER_NAMED)
    fail(MPI_ERR_TYPE, type.name.get(), " is predefined: it stays");
  if (is_chosen(type))
    fail(MPI_ERR_TYPE, "a type of MPI_Type_create_f90_… counts as predefined: it stays");
  return type;
}

// ---- contents ----

bool is_named(const Datatype& type) noexcept { return type.recipe.combiner == MPI_COMBINER_NAMED; }

template <class T>
void copy_list(const std::vector<T>& list, MPI_Count count_max, T* to, const char* name) {
  require(static_cast<MPI_Count>(list.size()) <= count_max, MPI_ERR_ARG, name, " has ", count_max,
          " entries: there are ", list.size());
  require(list.empty() || to != nullptr, MPI_ERR_ARG, name, " is null");
  std::ranges::copy(list, to);
}

struct Contents {
  MPI_Count numbers_max;
  MPI_Count addresses_max;
  MPI_Count counts_max;
  MPI_Count types_max;
  int* numbers;
  MPI_Aint* addresses;
  MPI_Count* counts;
  MPI_Datatype* types;
};

int contents_of(const char* function, MPI_Datatype handle, const Contents& to) {
  return while_running(function, [&] {
    const Datatype& type = given_type(handle);
    require(!is_named(type), MPI_ERR_TYPE, type.name.get(), " is predefined: it has no contents");
    const Recipe& recipe = type.recipe;
    copy_list(recipe.numbers, to.numbers_max, to.numbers, "array_of_integers");
    copy_list(recipe.addresses, to.addresses_max, to.addresses, "array_of_addresses");
    copy_list(recipe.counts, to.counts_max, to.counts, "array_of_large_counts");
    require(static_cast<MPI_Count>(recipe.types.size()) <= to.types_max, MPI_ERR_ARG,
            "array_of_datatypes has ", to.types_max, " entries: there are ", recipe.types.size());
    require(recipe.types.empty() || to.types != nullptr, MPI_ERR_ARG, "array_of_datatypes is null");
    std::ranges::transform(recipe.types, to.types, [](const Reference<Datatype>& one) {
      return is_predefined(one->handle()) ? one->handle() : handle_for_program(one);
    });
  });
}

// ---- types by their properties ----

struct Sized {
  int type_class;
  int bytes;
  MPI_Datatype type;
};
const Sized sized_types[] = {
    {MPI_TYPECLASS_INTEGER, 1, MPI_INTEGER1},   {MPI_TYPECLASS_INTEGER, 2, MPI_INTEGER2},
    {MPI_TYPECLASS_INTEGER, 4, MPI_INTEGER4},   {MPI_TYPECLASS_INTEGER, 8, MPI_INTEGER8},
    {MPI_TYPECLASS_INTEGER, 16, MPI_INTEGER16}, {MPI_TYPECLASS_REAL, 2, MPI_REAL2},
    {MPI_TYPECLASS_REAL, 4, MPI_REAL4},         {MPI_TYPECLASS_REAL, 8, MPI_REAL8},
    {MPI_TYPECLASS_REAL, 16, MPI_REAL16},       {MPI_TYPECLASS_COMPLEX, 4, MPI_COMPLEX4},
    {MPI_TYPECLASS_COMPLEX, 8, MPI_COMPLEX8},   {MPI_TYPECLASS_COMPLEX, 16, MPI_COMPLEX16},
    {MPI_TYPECLASS_COMPLEX, 32, MPI_COMPLEX32}};

struct ValueIndex {
  MPI_Datatype value;
  MPI_Datatype index;
  MPI_Datatype pair;
};
const ValueIndex value_index_types[] = {
    {MPI_FLOAT, MPI_INT, MPI_FLOAT_INT},
    {MPI_DOUBLE, MPI_INT, MPI_DOUBLE_INT},
    {MPI_LONG, MPI_INT, MPI_LONG_INT},
    {MPI_INT, MPI_INT, MPI_2INT},
    {MPI_SHORT, MPI_INT, MPI_SHORT_INT},
    {MPI_LONG_DOUBLE, MPI_INT, MPI_LONG_DOUBLE_INT},
    {MPI_REAL, MPI_REAL, MPI_2REAL},
    {MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, MPI_2DOUBLE_PRECISION},
    {MPI_INTEGER, MPI_INTEGER, MPI_2INTEGER}};

// Numbers of Fortran by the decimal digits and the decimal range that they must have.
struct Numeric {
  int digits;
  int range;
  MPI_Datatype type;
};
const Numeric integers_by_range[] = {{0, 2, MPI_INTEGER1},
                                     {0, 4, MPI_INTEGER2},
                                     {0, 9, MPI_INTEGER4},
                                     {0, 18, MPI_INTEGER8},
                                     {0, 38, MPI_INTEGER16}};
const Numeric reals_by_digits[] = {
    {6, 37, MPI_REAL4}, {15, 307, MPI_REAL8}, {33, 4931, MPI_REAL16}};
const Numeric complex_by_digits[] = {
    {6, 37, MPI_COMPLEX8}, {15, 307, MPI_COMPLEX16}, {33, 4931, MPI_COMPLEX32}};

// The first of the rows that is enough; as a type that says what it was asked for with, and stays:
// equal questions get the same one.
MPI_Datatype numeric_type(std::span<const Numeric> rows, int combiner, std::vector<int> asked,
                          int digits, int range) {
  const auto row = std::ranges::find_if(
      rows, [&](const Numeric& one) { return one.digits >= digits && one.range >= range; });
  require(row != rows.end(), MPI_ERR_ARG, "no type has ", digits, " digits and a range of ", range);
  static std::mutex mutex;
  static auto* const made = new std::vector<Reference<Datatype>>;  // asked also at exit
  const std::lock_guard lock{mutex};
  for (const Reference<Datatype>& type : *made) {
    if (type->recipe.combiner == combiner && type->recipe.numbers == asked) return type->handle();
  }
  auto type = make_type({Part{.of = Reference{datatype_of(row->type)}}},
                        {.combiner = combiner, .numbers = std::move(asked)});
  type->commit();
  made->push_back(type);
  return handle_for_program(std::move(type));  // which it cannot free
}

}  // namespace
}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

// ---- life ----

QPMESH_MPI_ENTRY(Type_commit, (MPI_Datatype * datatype)) {
  return while_running("MPI_Type_commit", [&] {
    require(datatype != nullptr, MPI_ERR_ARG, "datatype is null");
    Datatype& type = given_type(*datatype);
    if (!type.is_committed()) type.commit();
  });
}

QPMESH_MPI_ENTRY(Type_free, (MPI_Datatype * datatype)) {
  return while_running("MPI_Type_free", [&] {
    require(datatype != nullptr, MPI_ERR_ARG, "datatype is null");
    Datatype& type = own_type(*datatype);
    // MPI_Type_get_contents gives handles of the same object: attributes go with the last one,
    // whichever that is.
    if (!type.has_several_handles()) type.attributes.clear(*datatype);
    *datatype = MPI_DATATYPE_NULL;
    take_back(type);
  });
}

QPMESH_MPI_ENTRY(Type_dup, (MPI_Datatype datatype, MPI_Datatype* newtype)) {
  return while_running("MPI_Type_dup", [&] {
    require(newtype != nullptr, MPI_ERR_ARG, "newtype is null");
    *newtype = MPI_DATATYPE_NULL;  // where a copy function fails
    Datatype& old = given_type(datatype);
    Reference of{&old};
    Reference<Datatype> copy =
        make_type({Part{.of = of}}, {.combiner = MPI_COMBINER_DUP, .types = {of}});
    if (old.is_committed()) copy->commit();
    make_or_undo(*copy, [&] { old.attributes.copy_to(copy->attributes, datatype); });
    *newtype = handle_for_program(std::move(copy));
  });
}

QPMESH_MPI_ENTRY(Type_set_name, (MPI_Datatype datatype, const char* name)) {
  return while_running("MPI_Type_set_name", [&] {
    require(name != nullptr, MPI_ERR_ARG, "type_name is null");
    given_type(datatype).name.set({name, strnlen(name, MPI_MAX_OBJECT_NAME - 1)});
  });
}
QPMESH_MPI_ENTRY(Type_get_name, (MPI_Datatype datatype, char* name, int* length)) {
  return while_running("MPI_Type_get_name", [&] {
    check_addresses(name, length);
    const std::string own =
        datatype == MPI_DATATYPE_NULL ? "MPI_DATATYPE_NULL" : given_type(datatype).name.get();
    std::memcpy(name, own.c_str(), own.size() + 1);
    *length = static_cast<int>(own.size());
  });
}

// ---- measures ----

#define QPMESH_MPI_ENTRIES "type_queries.inc"
#include "counted_entries.inc"

QPMESH_MPI_ENTRY(Type_size_x, (MPI_Datatype datatype, MPI_Count* size)) {
  return size_of("MPI_Type_size_x", datatype, size);
}
QPMESH_MPI_ENTRY(Type_get_extent_x, (MPI_Datatype datatype, MPI_Count* lb, MPI_Count* extent)) {
  return bounds_of("MPI_Type_get_extent_x", datatype, &Datatype::bounds, lb, extent);
}
QPMESH_MPI_ENTRY(Type_get_true_extent_x,
                 (MPI_Datatype datatype, MPI_Count* lb, MPI_Count* extent)) {
  return bounds_of("MPI_Type_get_true_extent_x", datatype, &Datatype::true_bounds, lb, extent);
}

QPMESH_MPI_ENTRY(Get_address, (const void* location, MPI_Aint* address)) {
  return while_running("MPI_Get_address", [&] {
    require(address != nullptr, MPI_ERR_ARG, "address is null");
    *address = reinterpret_cast<MPI_Aint>(location);
  });
}

// ---- contents ----

QPMESH_MPI_ENTRY(Type_get_envelope, (MPI_Datatype datatype, int* integers, int* addresses,
                                     int* datatypes, int* combiner)) {
  return while_running("MPI_Type_get_envelope", [&] {
    require(combiner != nullptr, MPI_ERR_ARG, "combiner is null");
    const Recipe& recipe = given_type(datatype).recipe;
    require(recipe.counts.empty(), MPI_ERR_TYPE,
            "the type was made with counts of MPI_Count: call MPI_Type_get_envelope_c");
    store(integers, static_cast<MPI_Count>(recipe.numbers.size()));
    store(addresses, static_cast<MPI_Count>(recipe.addresses.size()));
    store(datatypes, static_cast<MPI_Count>(recipe.types.size()));
    *combiner = recipe.combiner;
  });
}
QPMESH_MPI_ENTRY(Type_get_envelope_c,
                 (MPI_Datatype datatype, MPI_Count* integers, MPI_Count* addresses,
                  MPI_Count* large_counts, MPI_Count* datatypes, int* combiner)) {
  return while_running("MPI_Type_get_envelope_c", [&] {
    require(combiner != nullptr, MPI_ERR_ARG, "combiner is null");
    const Recipe& recipe = given_type(datatype).recipe;
    store(integers, static_cast<MPI_Count>(recipe.numbers.size()));
    store(addresses, static_cast<MPI_Count>(recipe.addresses.size()));
    store(large_counts, static_cast<MPI_Count>(recipe.counts.size()));
    store(datatypes, static_cast<MPI_Count>(recipe.types.size()));
    *combiner = recipe.combiner;
  });
}
QPMESH_MPI_ENTRY(Type_get_contents,
                 (MPI_Datatype datatype, int integers_max, int addresses_max, int datatypes_max,
                  int integers[], MPI_Aint addresses[], MPI_Datatype datatypes[])) {
  return contents_of("MPI_Type_get_contents", datatype,
                     {.numbers_max = integers_max,
                      .addresses_max = addresses_max,
                      .counts_max = 0,
                      .types_max = datatypes_max,
                      .numbers = integers,
                      .addresses = addresses,
                      .counts = nullptr,
                      .types = datatypes});
}
QPMESH_MPI_ENTRY(Type_get_contents_c,
                 (MPI_Datatype datatype, MPI_Count integers_max, MPI_Count addresses_max,
                  MPI_Count large_counts_max, MPI_Count datatypes_max, int integers[],
                  MPI_Aint addresses[], MPI_Count large_counts[], MPI_Datatype datatypes[])) {
  return contents_of("MPI_Type_get_contents_c", datatype,
                     {.numbers_max = integers_max,
                      .addresses_max = addresses_max,
                      .counts_max = large_counts_max,
                      .types_max = datatypes_max,
                      .numbers = integers,
                      .addresses = addresses,
                      .counts = large_counts,
                      .types = datatypes});
}

// ---- types by their properties ----

QPMESH_MPI_ENTRY(Type_match_size, (int typeclass, int size, MPI_Datatype* datatype)) {
  return while_running("MPI_Type_match_size", [&] {
    require(datatype != nullptr, MPI_ERR_ARG, "datatype is null");
    const auto row = std::ranges::find_if(sized_types, [&](const Sized& one) {
      return one.type_class == typeclass && one.bytes == size;
    });
    require(row != std::end(sized_types), MPI_ERR_ARG, "no type of class ", typeclass, " has ",
            size, " bytes");
    *datatype = row->type;
  });
}
QPMESH_MPI_ENTRY(Type_get_value_index,
                 (MPI_Datatype value_type, MPI_Datatype index_type, MPI_Datatype* pair_type)) {
  return while_running("MPI_Type_get_value_index", [&] {
    require(pair_type != nullptr, MPI_ERR_ARG, "pair_type is null");
    given_type(value_type);
    given_type(index_type);
    const auto row = std::ranges::find_if(value_index_types, [&](const ValueIndex& one) {
      return one.value == value_type && one.index == index_type;
    });
    *pair_type = row == std::end(value_index_types) ? MPI_DATATYPE_NULL : row->pair;
  });
}
QPMESH_MPI_ENTRY(Type_create_f90_integer, (int r, MPI_Datatype* newtype)) {
  return while_running("MPI_Type_create_f90_integer", [&] {
    require(newtype != nullptr, MPI_ERR_ARG, "newtype is null");
    *newtype = numeric_type(integers_by_range, MPI_COMBINER_F90_INTEGER, {r}, 0, r);
  });
}
// MPI_UNDEFINED is less than every demand.
QPMESH_MPI_ENTRY(Type_create_f90_real, (int p, int r, MPI_Datatype* newtype)) {
  return while_running("MPI_Type_create_f90_real", [&] {
    require(newtype != nullptr, MPI_ERR_ARG, "newtype is null");
    *newtype = numeric_type(reals_by_digits, MPI_COMBINER_F90_REAL, {p, r}, p, r);
  });
}
QPMESH_MPI_ENTRY(Type_create_f90_complex, (int p, int r, MPI_Datatype* newtype)) {
  return while_running("MPI_Type_create_f90_complex", [&] {
    require(newtype != nullptr, MPI_ERR_ARG, "newtype is null");
    *newtype = numeric_type(complex_by_digits, MPI_COMBINER_F90_COMPLEX, {p, r}, p, r);
  });
}
