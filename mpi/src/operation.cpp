// SPDX-License-Identifier: MIT
#include "operation.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "entry.hpp"
#include "environment.hpp"
#include "error.hpp"
#include "reduction_functions.hpp"

namespace qpmesh::mpi {
namespace {

constexpr unsigned set_of(std::initializer_list<Category> categories) noexcept {
  unsigned set = 0;
  for (const Category category : categories) set |= 1U << static_cast<unsigned>(category);
  return set;
}
using enum Category;
constexpr unsigned integers = set_of({signed_integer, unsigned_integer});
constexpr unsigned ordered = integers | set_of({floating});
constexpr unsigned numbers = ordered | set_of({complex});
constexpr unsigned truths = integers | set_of({logical});
constexpr unsigned bit_sets = integers | set_of({bytes});

// An operation on values: the library's, and for which of them it means something.
struct OnValues {
  MPI_Op operation;
  const char* name;
  qpmesh_reduction reduction;
  unsigned categories;
};
const OnValues on_values[] = {
    {MPI_SUM, "MPI_SUM", QPMESH_SUM, numbers},
    {MPI_PROD, "MPI_PROD", QPMESH_PRODUCT, numbers},
    {MPI_MIN, "MPI_MIN", QPMESH_MIN, ordered},
    {MPI_MAX, "MPI_MAX", QPMESH_MAX, ordered},
    {MPI_BAND, "MPI_BAND", QPMESH_BIT_AND, bit_sets},
    {MPI_BOR, "MPI_BOR", QPMESH_BIT_OR, bit_sets},
    {MPI_BXOR, "MPI_BXOR", QPMESH_BIT_XOR, bit_sets},
    {MPI_LAND, "MPI_LAND", QPMESH_LOGICAL_AND, truths},
    {MPI_LOR, "MPI_LOR", QPMESH_LOGICAL_OR, truths},
    {MPI_LXOR, "MPI_LXOR", QPMESH_LOGICAL_XOR, truths},
    // Of pairs, below; and of one-sided calls, which are not here.
    {MPI_MINLOC, "MPI_MINLOC", QPMESH_USER, 0},
    {MPI_MAXLOC, "MPI_MAXLOC", QPMESH_USER, 0},
    {MPI_REPLACE, "MPI_REPLACE", QPMESH_USER, 0},
    {MPI_NO_OP, "MPI_NO_OP", QPMESH_USER, 0},
};
const OnValues& row_of(MPI_Op operation) {
  return *std::ranges::find(on_values, operation, &OnValues::operation);
}

// By number, from MPI_OP_NULL on.
constexpr std::uintptr_t first_operation = 0x20;
constexpr std::size_t predefined_operations = 0x20;
using Table = std::array<Operation*, predefined_operations>;
const Table operations = [] {
  Table table{};
  for (const OnValues& row : on_values) {
    auto* const operation = new Operation;
    operation->predefined = row.operation;
    table[number_of(row.operation) - first_operation] = operation;
  }
  return table;
}();

Operation& given_operation(MPI_Op handle) {
  return require_object(operation_of(handle), MPI_ERR_OP,
                        handle == MPI_OP_NULL ? "the operation is MPI_OP_NULL"
                                              : "this is no operation, or was freed");
}

// ---- the program's functions ----

// In so many calls as its counts of int ask for.
void call_own(const Operation& operation, const void* in, void* inout, MPI_Count count,
              Datatype& type) {
  MPI_Datatype handle = type.handle();
  std::optional<LentHandle<Datatype>> lent;
  if (!is_predefined(handle)) lent.emplace(type);
  auto* left = static_cast<std::byte*>(const_cast<void*>(in));
  auto* right = static_cast<std::byte*>(inout);
  if (operation.large_function != nullptr) {
    operation.large_function(left, right, &count, &handle);
    return;
  }
  while (count > 0) {
    int now = static_cast<int>(std::min<MPI_Count>(count, std::numeric_limits<int>::max()));
    const MPI_Count done = now;
    operation.function(left, right, &now, &handle);
    left += done * type.extent();
    right += done * type.extent();
    count -= done;
  }
}

// Buffers as the program's, from what lies at first_byte().
int own_in_place(void* context, const void* left, void* inout, std::size_t count) {
  const auto& reduction = *static_cast<const Reduction*>(context);
  const MPI_Aint before = reduction.datatype->true_bounds.lower;
  call_own(*reduction.operation, static_cast<const std::byte*>(left) - before,
           static_cast<std::byte*>(inout) - before, static_cast<MPI_Count>(count),
           *reduction.datatype);
  return 0;
}

// Memory for some elements of a type, wherever its bounds are.
class ElementMemory {
 public:
  ElementMemory(const Datatype& type, MPI_Count count) {
    const MPI_Aint last = (count - 1) * type.extent();
    const MPI_Aint lowest = type.true_bounds.lower + std::min<MPI_Aint>(0, last);
    const MPI_Aint highest = type.true_bounds.upper + std::max<MPI_Aint>(0, last);
    // Down to what is aligned for everything.
    const MPI_Aint first = lowest - (lowest % alignment + alignment) % alignment;
    memory_.resize(static_cast<std::size_t>(highest - first));
    buffer_ = memory_.data() - first;
  }
  std::byte* buffer() noexcept { return buffer_; }

 private:
  static constexpr MPI_Aint alignment = alignof(std::max_align_t);
  std::vector<std::byte> memory_;
  std::byte* buffer_;
};

// Packed elements: unpacked for the function, some at a time.
int own_on_packed(void* context, const void* left, void* inout, std::size_t count) try {
  constexpr MPI_Count bytes_together = 64 * 1024;
  const auto& reduction = *static_cast<const Reduction*>(context);
  Datatype& type = *reduction.datatype;
  const auto together =
      std::min(static_cast<MPI_Count>(count), std::max<MPI_Count>(1, bytes_together / type.size));
  ElementMemory in{type, together};
  ElementMemory out{type, together};
  const auto* from = static_cast<const std::byte*>(left);
  auto* to = static_cast<std::byte*>(inout);
  for (auto rest = static_cast<MPI_Count>(count); rest > 0;) {
    const MPI_Count now = std::min(rest, together);
    const auto bytes_now = static_cast<std::size_t>(now * type.size);
    unpack(from, bytes_now, in.buffer(), type);
    unpack(to, bytes_now, out.buffer(), type);
    call_own(*reduction.operation, in.buffer(), out.buffer(), now, type);
    pack(out.buffer(), now, type, to);
    from += bytes_now;
    to += bytes_now;
    rest -= now;
  }
  return 0;
} catch (const std::bad_alloc&) {
  return 1;
}

qpmesh_type struct_of(MPI_Count element_bytes) {
  constexpr MPI_Count bytes_max = std::numeric_limits<qpmesh_type>::max() - QPMESH_STRUCT;
  require(element_bytes <= bytes_max, MPI_ERR_TYPE, "elements of ", element_bytes,
          " bytes: those of reductions have at most ", bytes_max);
  return QPMESH_STRUCT + static_cast<qpmesh_type>(element_bytes);
}

// The type of Fortran that MPI_Type_create_f90_real and its like chose.
const Datatype& predefined_of(const Datatype& type) noexcept {
  return is_chosen(type) ? *type.parts.front().of : type;
}

}  // namespace

Operation* operation_of(MPI_Op handle) noexcept {
  if (!is_predefined(handle)) return object_of<Operation>(handle);
  const std::uintptr_t index = number_of(handle) - first_operation;
  return index < predefined_operations ? operations[index] : nullptr;
}

Reduction::Reduction(MPI_Op op, MPI_Datatype of)
    : operation{&given_operation(op)}, datatype{&committed_type(of)} {
  if (operation->is_own()) {
    packed = !datatype->in_one_piece(2);
    type = struct_of(std::max<MPI_Count>(1, datatype->size));  // of empty ones there are none
    function = packed ? own_on_packed : own_in_place;
    return;
  }
  const Datatype& predefined = predefined_of(*datatype);
  const OnValues& row = row_of(op);
  if (const Basic* const basic = predefined.basic) {
    type = basic->type;
    const bool is_for_it = (row.categories & set_of({basic->category})) != 0;
    if (is_for_it && type < QPMESH_STRUCT) reduction = row.reduction;
    else if (is_for_it) function = function_on(*basic, op);
  } else if (predefined.predefined != MPI_DATATYPE_NULL) {
    type = struct_of(predefined.extent());  // with the gap that a struct of C has at its end
    function = function_on_pairs(predefined.predefined, op);
  }
  if (reduction != QPMESH_USER || function != nullptr) return;
  const std::string name = datatype->name.get();
  fail(MPI_ERR_OP, row.name, " is not for ", name.empty() ? "a type that the program made" : name);
}

}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

namespace {

int create_operation(const char* name, MPI_User_function* function, MPI_User_function_c* large,
                     int commute, MPI_Op* op) {
  return while_running(name, [&] {
    require((function != nullptr || large != nullptr) && op != nullptr, MPI_ERR_ARG,
            "an argument is null");
    auto operation = make<Operation>();
    operation->function = function;
    operation->large_function = large;
    operation->commutative = commute != 0;
    *op = handle_for_program(std::move(operation));
  });
}

void reduce_local(const void* in, void* inout, MPI_Count count, MPI_Datatype type, MPI_Op op) {
  require(count >= 0, MPI_ERR_COUNT, "count is ", count, ": it is 0 or more");
  require(count == 0 || (in != MPI_IN_PLACE && inout != MPI_IN_PLACE), MPI_ERR_BUFFER,
          "MPI_IN_PLACE means nothing here");
  Reduction reduction{op, type};
  if (reduction.operation->is_own()) {
    if (count > 0) call_own(*reduction.operation, in, inout, count, *reduction.datatype);
    return;
  }
  qpmesh_call call{};
  call.struct_bytes = sizeof call;
  reduction.add_to(call);
  check(qpmesh_reduce_local(in, inout, static_cast<std::size_t>(count), reduction.type,
                            reduction.reduction, &call));
}

}  // namespace

QPMESH_MPI_ENTRY(Op_create, (MPI_User_function * function, int commute, MPI_Op* op)) {
  return create_operation("MPI_Op_create", function, nullptr, commute, op);
}
QPMESH_MPI_ENTRY(Op_create_c, (MPI_User_function_c * function, int commute, MPI_Op* op)) {
  return create_operation("MPI_Op_create_c", nullptr, function, commute, op);
}
QPMESH_MPI_ENTRY(Op_free, (MPI_Op * op)) {
  return while_running("MPI_Op_free", [&] {
    require(op != nullptr, MPI_ERR_ARG, "op is null");
    Operation& own = given_operation(*op);
    require(own.is_own(), MPI_ERR_OP, "the operation is predefined: it stays");
    *op = MPI_OP_NULL;
    take_back(own);
  });
}
QPMESH_MPI_ENTRY(Op_commutative, (MPI_Op op, int* commute)) {
  return while_running("MPI_Op_commutative", [&] {
    require(commute != nullptr, MPI_ERR_ARG, "commute is null");
    *commute = given_operation(op).commutative ? 1 : 0;
  });
}

#define QPMESH_MPI_ENTRIES "operation.inc"
#include "counted_entries.inc"
