#include "attribute.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <vector>

#include "communicator.hpp"
#include "datatype.hpp"
#include "entry.hpp"
#include "error.hpp"

namespace qpmesh::mpi {

enum class Owner { communicator, datatype };

struct Keyval : Counted {
  Owner owner = Owner::communicator;
  int number = MPI_KEYVAL_INVALID;
  // Of the owner's type. Of copy functions 0 means never, and 1 always.
  void (*copy)() = nullptr;
  void (*erase)() = nullptr;
  void* extra_state = nullptr;
  bool freed = false;

  // A key that was freed is one as long as an attribute has it.
  bool lives() const noexcept { return !freed || references > 1; }
};

namespace {

// Keys by number, from this on: behind all that are predefined. They stay, because numbers are not
// given twice.
constexpr int first_own_keyval = 4096;
std::mutex keyvals_mutex;
std::vector<Reference<Keyval>> keyvals;

template <class Handle>
struct Kind;
template <>
struct Kind<MPI_Comm> {
  static constexpr Owner owner = Owner::communicator;
  using Copy = MPI_Comm_copy_attr_function;
  using Erase = MPI_Comm_delete_attr_function;
};
template <>
struct Kind<MPI_Datatype> {
  static constexpr Owner owner = Owner::datatype;
  using Copy = MPI_Type_copy_attr_function;
  using Erase = MPI_Type_delete_attr_function;
};
// A key of the program's for such objects.
Reference<Keyval> keyval_of(int number, Owner owner) {
  const std::lock_guard lock{keyvals_mutex};
  const auto index = static_cast<std::size_t>(number - first_own_keyval);
  if (number < first_own_keyval || index >= keyvals.size() || !keyvals[index]->lives() ||
      keyvals[index]->owner != owner)
    fail(MPI_ERR_KEYVAL, number, " is no key for this kind of object, or was freed");
  return keyvals[index];
}

template <class Copy, class Erase>
int create_keyval(const char* function, Owner owner, Copy* copy, Erase* erase, int* number,
                  void* extra_state) {
  return guarded(function, [&] {
    require(number != nullptr, MPI_ERR_ARG, "keyval is null");
    auto key = Reference<Keyval>::adopt(new Keyval);
    key->owner = owner;
    key->copy = reinterpret_cast<void (*)()>(copy);
    key->erase = reinterpret_cast<void (*)()>(erase);
    key->extra_state = extra_state;
    const std::lock_guard lock{keyvals_mutex};
    key->number = first_own_keyval + static_cast<int>(keyvals.size());
    *number = key->number;
    keyvals.push_back(std::move(key));
  });
}

int free_keyval(const char* function, Owner owner, int* number) {
  return guarded(function, [&] {
    require(number != nullptr, MPI_ERR_ARG, "keyval is null");
    keyval_of(*number, owner)->freed = true;
    *number = MPI_KEYVAL_INVALID;
  });
}

// The program's function, or what the small numbers stand for: null never copies, 1 always.
template <class Handle>
bool copied(const Keyval& key, Handle owner, void* value, void*& copy) {
  if (key.copy == nullptr) return false;
  copy = value;
  if (reinterpret_cast<std::uintptr_t>(key.copy) == 1) return true;
  int flag = 0;
  const auto function = reinterpret_cast<typename Kind<Handle>::Copy*>(key.copy);
  const int code = function(owner, key.number, key.extra_state, value, &copy, &flag);
  if (code != MPI_SUCCESS) fail(code, "the copy function of an attribute failed");
  return flag != 0;
}

template <class Handle>
void erase(const Keyval& key, Handle owner, void* value) {
  if (key.erase == nullptr) return;
  const auto function = reinterpret_cast<typename Kind<Handle>::Erase*>(key.erase);
  const int code = function(owner, key.number, value, key.extra_state);
  if (code != MPI_SUCCESS) fail(code, "the delete function of an attribute failed");
}

// ---- attributes that are there from the beginning ----

// Where their values lie: a program gets the address. All communicators have the same.
int tag_max = std::numeric_limits<int>::max();
int io_rank = MPI_ANY_SOURCE;  // every rank can read and write files
int host_rank = MPI_PROC_NULL;
int clocks_agree = 0;
int universe_size = 0;
int application = 0;
int last_code = 0;

struct Predefined {
  int keyval;
  int* value;
};
const Predefined predefined_attributes[] = {{MPI_TAG_UB, &tag_max},
                                            {MPI_IO, &io_rank},
                                            {MPI_HOST, &host_rank},
                                            {MPI_WTIME_IS_GLOBAL, &clocks_agree},
                                            {MPI_UNIVERSE_SIZE, &universe_size},
                                            {MPI_APPNUM, &application},
                                            {MPI_LASTUSEDCODE, &last_code}};

int* find_predefined(int keyval) {
  const auto row = std::ranges::find(predefined_attributes, keyval, &Predefined::keyval);
  if (row == std::end(predefined_attributes)) return nullptr;
  if (keyval == MPI_LASTUSEDCODE) last_code = last_used_code();
  if (keyval == MPI_UNIVERSE_SIZE) universe_size = communicator_of(MPI_COMM_WORLD)->size;
  return row->value;
}

template <class Handle>
void get(const Attributes<Handle>& attributes, int keyval, void* value, int* flag) {
  require(value != nullptr && flag != nullptr, MPI_ERR_ARG, "an address for a result is null");
  void* const* const found = attributes.find(keyval);
  if (found == nullptr) keyval_of(keyval, Kind<Handle>::owner);  // a key it must be
  *flag = found != nullptr ? 1 : 0;
  if (found != nullptr) *static_cast<void**>(value) = *found;
}

int set_attribute(const char* function, MPI_Comm comm, int keyval, void* value) {
  return on_communicator(function, comm,
                         [&](Communicator& own) { own.attributes.set(keyval, value, comm); });
}
int get_attribute(const char* function, MPI_Comm comm, int keyval, void* value, int* flag) {
  return on_communicator(function, comm, [&](Communicator& own) {
    int* const predefined = find_predefined(keyval);
    if (predefined == nullptr) return get(own.attributes, keyval, value, flag);
    *static_cast<void**>(value) = predefined;
    *flag = 1;
  });
}
int delete_attribute(const char* function, MPI_Comm comm, int keyval) {
  return on_communicator(function, comm,
                         [&](Communicator& own) { own.attributes.remove(keyval, comm); });
}

}  // namespace

template <class Handle>
Attributes<Handle>::Attributes() = default;
template <class Handle>
Attributes<Handle>::~Attributes() = default;

template <class Handle>
typename std::vector<typename Attributes<Handle>::Entry>::iterator Attributes<Handle>::entry_of(
    const Keyval& key) {
  return std::ranges::find_if(entries_, [&](const Entry& one) { return one.key.get() == &key; });
}

template <class Handle>
void* const* Attributes<Handle>::find(int keyval) const noexcept {
  const auto entry =
      std::ranges::find_if(entries_, [&](const Entry& one) { return one.key->number == keyval; });
  return entry == entries_.end() ? nullptr : &entry->value;
}

// The program's functions may change the list: the entry is looked for again behind each.

template <class Handle>
void Attributes<Handle>::set(int keyval, void* value, Handle owner) {
  Reference<Keyval> key = keyval_of(keyval, Kind<Handle>::owner);
  if (const auto old = entry_of(*key); old != entries_.end()) erase(*key, owner, old->value);
  if (const auto here = entry_of(*key); here != entries_.end()) here->value = value;
  else entries_.push_back({std::move(key), value});
}

template <class Handle>
void Attributes<Handle>::remove(int keyval, Handle owner) {
  const Reference<Keyval> key = keyval_of(keyval, Kind<Handle>::owner);
  if (const auto old = entry_of(*key); old != entries_.end()) erase(*key, owner, old->value);
  if (const auto here = entry_of(*key); here != entries_.end()) entries_.erase(here);
}

template <class Handle>
void Attributes<Handle>::copy_to(Attributes& copies, Handle owner) const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry one = entries_[i];
    void* copy = nullptr;
    if (copied(*one.key, owner, one.value, copy)) copies.entries_.push_back({one.key, copy});
  }
}

template <class Handle>
void Attributes<Handle>::clear(Handle owner) {
  while (!entries_.empty()) {
    const Entry last = entries_.back();
    erase(*last.key, owner, last.value);
    if (const auto here = entry_of(*last.key); here != entries_.end()) entries_.erase(here);
  }
}

template class Attributes<MPI_Comm>;
template class Attributes<MPI_Datatype>;

}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

// ---- of communicators ----

QPMESH_MPI_ENTRY(Comm_create_keyval,
                 (MPI_Comm_copy_attr_function * copy, MPI_Comm_delete_attr_function* erase,
                  int* keyval, void* extra_state)) {
  return create_keyval("MPI_Comm_create_keyval", Owner::communicator, copy, erase, keyval,
                       extra_state);
}
QPMESH_MPI_ENTRY(Comm_free_keyval, (int* keyval)) {
  return free_keyval("MPI_Comm_free_keyval", Owner::communicator, keyval);
}
QPMESH_MPI_ENTRY(Comm_set_attr, (MPI_Comm comm, int keyval, void* attribute)) {
  return set_attribute("MPI_Comm_set_attr", comm, keyval, attribute);
}
QPMESH_MPI_ENTRY(Comm_get_attr, (MPI_Comm comm, int keyval, void* attribute, int* flag)) {
  return get_attribute("MPI_Comm_get_attr", comm, keyval, attribute, flag);
}
QPMESH_MPI_ENTRY(Comm_delete_attr, (MPI_Comm comm, int keyval)) {
  return delete_attribute("MPI_Comm_delete_attr", comm, keyval);
}

// Their names of MPI 1.
QPMESH_MPI_ENTRY(Keyval_create, (MPI_Copy_function * copy, MPI_Delete_function* erase, int* keyval,
                                 void* extra_state)) {
  return create_keyval("MPI_Keyval_create", Owner::communicator, copy, erase, keyval, extra_state);
}
QPMESH_MPI_ENTRY(Keyval_free, (int* keyval)) {
  return free_keyval("MPI_Keyval_free", Owner::communicator, keyval);
}
QPMESH_MPI_ENTRY(Attr_put, (MPI_Comm comm, int keyval, void* attribute)) {
  return set_attribute("MPI_Attr_put", comm, keyval, attribute);
}
QPMESH_MPI_ENTRY(Attr_get, (MPI_Comm comm, int keyval, void* attribute, int* flag)) {
  return get_attribute("MPI_Attr_get", comm, keyval, attribute, flag);
}
QPMESH_MPI_ENTRY(Attr_delete, (MPI_Comm comm, int keyval)) {
  return delete_attribute("MPI_Attr_delete", comm, keyval);
}

// ---- of datatypes ----

QPMESH_MPI_ENTRY(Type_create_keyval,
                 (MPI_Type_copy_attr_function * copy, MPI_Type_delete_attr_function* erase,
                  int* keyval, void* extra_state)) {
  return create_keyval("MPI_Type_create_keyval", Owner::datatype, copy, erase, keyval, extra_state);
}
QPMESH_MPI_ENTRY(Type_free_keyval, (int* keyval)) {
  return free_keyval("MPI_Type_free_keyval", Owner::datatype, keyval);
}
QPMESH_MPI_ENTRY(Type_set_attr, (MPI_Datatype datatype, int keyval, void* attribute)) {
  return guarded("MPI_Type_set_attr",
                 [&] { given_type(datatype).attributes.set(keyval, attribute, datatype); });
}
QPMESH_MPI_ENTRY(Type_get_attr, (MPI_Datatype datatype, int keyval, void* attribute, int* flag)) {
  return guarded("MPI_Type_get_attr",
                 [&] { get(given_type(datatype).attributes, keyval, attribute, flag); });
}
QPMESH_MPI_ENTRY(Type_delete_attr, (MPI_Datatype datatype, int keyval)) {
  return guarded("MPI_Type_delete_attr",
                 [&] { given_type(datatype).attributes.remove(keyval, datatype); });
}
