// SPDX-License-Identifier: MIT
#include "attribute.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "communicator.hpp"
#include "datatype.hpp"
#include "entry.hpp"
#include "environment.hpp"
#include "error.hpp"
#include "threads.hpp"

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
  return while_running(function, [&] {
    require(number != nullptr, MPI_ERR_ARG, "keyval is null");
    auto key = make<Keyval>();
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
  return while_running(function, [&] {
    require(number != nullptr, MPI_ERR_ARG, "keyval is null");
    const Reference<Keyval> key = keyval_of(*number, owner);
    const std::lock_guard lock{keyvals_mutex};
    key->freed = true;
    *number = MPI_KEYVAL_INVALID;
  });
}

// The program's function, or what the small numbers stand for: null never copies, 1 always.
template <class Handle>
bool copy_value(const Keyval& key, Handle owner, void* value, void*& copy) {
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
int application = 0;
int* universe_size() {
  static int ranks = communicator_of(MPI_COMM_WORLD)->size;
  return &ranks;
}

int* find_predefined(int keyval) {
  switch (keyval) {
    case MPI_TAG_UB: return &tag_max;
    case MPI_IO: return &io_rank;
    case MPI_HOST: return &host_rank;
    case MPI_WTIME_IS_GLOBAL: return &clocks_agree;
    case MPI_UNIVERSE_SIZE: return universe_size();
    case MPI_APPNUM: return &application;
    case MPI_LASTUSEDCODE: return last_used_code();
    default: return nullptr;
  }
}

template <class Handle>
void get(const Attributes<Handle>& attributes, int keyval, void* value, int* flag) {
  check_addresses(value, flag);
  const std::optional<void*> found = attributes.find(keyval);
  if (!found) keyval_of(keyval, Kind<Handle>::owner);  // a key it must be
  *flag = found ? 1 : 0;
  if (found) *static_cast<void**>(value) = *found;
}

int set_attribute(const char* function, MPI_Comm comm, int keyval, void* value) {
  return on_communicator(function, comm,
                         [&](Communicator& own) { own.attributes.set(keyval, value, comm); });
}
int get_attribute(const char* function, MPI_Comm comm, int keyval, void* value, int* flag) {
  return on_communicator(function, comm, [&](Communicator& own) {
    int* const predefined = find_predefined(keyval);
    if (predefined == nullptr) return get(own.attributes, keyval, value, flag);
    check_addresses(value, flag);
    *static_cast<void**>(value) = predefined;
    *flag = 1;
  });
}
int delete_attribute(const char* function, MPI_Comm comm, int keyval) {
  return on_communicator(function, comm,
                         [&](Communicator& own) { own.attributes.remove(keyval, comm); });
}

// Of any object: told under its lock.
std::condition_variable attribute_is_free;

}  // namespace

template <class Handle>
Attributes<Handle>::Attributes() = default;
template <class Handle>
Attributes<Handle>::~Attributes() = default;

template <class Handle>
typename Attributes<Handle>::Iterator Attributes<Handle>::entry_of(const Keyval& key) {
  return std::ranges::find_if(entries_, [&](const Entry& one) { return one.key.get() == &key; });
}

template <class Handle>
std::optional<void*> Attributes<Handle>::find(int keyval) const {
  const auto lock = lock_objects();
  const auto entry =
      std::ranges::find_if(entries_, [&](const Entry& one) { return one.key->number == keyval; });
  return entry == entries_.end() ? std::nullopt : std::optional{entry->value};
}

template <class Handle>
template <class Function>
bool Attributes<Handle>::use(Lock& lock, const Keyval& key, Iterator& entry,
                             const Function& function) {
  const std::thread::id self = std::this_thread::get_id();
  for (entry = entry_of(key);; entry = entry_of(key)) {
    if (entry == entries_.end()) return false;
    if (entry->uses == 0 || entry->user == self || !threads_at_once) break;
    // wait() would need libstdc++ 12 (src/progress/waiting_threads.cpp).
    attribute_is_free.wait_until(lock, std::chrono::steady_clock::time_point::max());
  }
  entry->user = self;
  ++entry->uses;
  void* const value = entry->value;
  lock = {};
  std::exception_ptr thrown;
  try {
    function(value);
  } catch (...) {
    thrown = std::current_exception();
  }
  lock = lock_objects();
  // The function may have changed the list. What was set under the key since is another attribute.
  entry = entry_of(key);
  if (entry != entries_.end() && (entry->uses == 0 || entry->user != self)) entry = entries_.end();
  if (entry != entries_.end()) --entry->uses;
  if (threads_at_once) attribute_is_free.notify_all();
  if (thrown) std::rethrow_exception(thrown);
  return true;
}

template <class Handle>
void Attributes<Handle>::set(int keyval, void* value, Handle owner) {
  Reference<Keyval> key = keyval_of(keyval, Kind<Handle>::owner);
  auto lock = lock_objects();
  Iterator old;
  while (use(lock, *key, old, [&](void* old_value) { erase(*key, owner, old_value); })) {
    if (old == entries_.end()) continue;
    old->value = value;
    std::rotate(old, old + 1, entries_.end());  // the order in which they were set
    return;
  }
  entries_.push_back({std::move(key), value});
}

template <class Handle>
void Attributes<Handle>::remove(int keyval, Handle owner) {
  const Reference<Keyval> key = keyval_of(keyval, Kind<Handle>::owner);
  auto lock = lock_objects();
  Iterator old;
  if (use(lock, *key, old, [&](void* value) { erase(*key, owner, value); }) &&
      old != entries_.end())
    entries_.erase(old);
}

template <class Handle>
void Attributes<Handle>::copy_to(Attributes& copies, Handle owner) {
  auto lock = lock_objects();
  std::vector<Reference<Keyval>> keys;
  for (const Entry& one : entries_) keys.push_back(one.key);
  for (const Reference<Keyval>& key : keys) {
    Iterator entry;
    use(lock, *key, entry, [&](void* value) {
      void* copy = nullptr;
      copies.entries_.reserve(copies.entries_.size() + 1);  // a copy that is made is kept
      if (copy_value(*key, owner, value, copy)) copies.entries_.push_back({key, copy});
    });
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
  return while_running("MPI_Type_set_attr",
                       [&] { given_type(datatype).attributes.set(keyval, attribute, datatype); });
}
QPMESH_MPI_ENTRY(Type_get_attr, (MPI_Datatype datatype, int keyval, void* attribute, int* flag)) {
  return while_running("MPI_Type_get_attr",
                       [&] { get(given_type(datatype).attributes, keyval, attribute, flag); });
}
QPMESH_MPI_ENTRY(Type_delete_attr, (MPI_Datatype datatype, int keyval)) {
  return while_running("MPI_Type_delete_attr",
                       [&] { given_type(datatype).attributes.remove(keyval, datatype); });
}
