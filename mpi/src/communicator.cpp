// SPDX-License-Identifier: MIT
// Communicators: made, compared, named, freed.
#include "communicator.hpp"

#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "bsend.hpp"
#include "entry.hpp"
#include "environment.hpp"
#include "request.hpp"

namespace qpmesh::mpi {

Communicator::Communicator(qpmesh_communicator* of)
    : mesh{of}, rank{qpmesh_rank(of)}, size{qpmesh_size(of)} {}

Communicator::Communicator(const Communicator& parent, std::nullptr_t) noexcept
    : mesh{nullptr}, rank{parent.rank}, size{parent.size} {}

Communicator::~Communicator() {
  forget_buffer(*this);
  qpmesh_communicator_free(mesh);
}

void fail_without_communicator(MPI_Comm handle) {
  require_running();
  require(handle != MPI_COMM_NULL, MPI_ERR_COMM, "the communicator is MPI_COMM_NULL");
  fail(MPI_ERR_COMM, "the handle ", handle, " is no communicator, or was freed");
}

namespace {
std::mutex group_mutex;  // of all communicators' groups: threads may ask at once
}

Group& group_of(Communicator& communicator) {
  const std::lock_guard lock{group_mutex};
  if (!communicator.group) {
    std::vector<int> ranks(static_cast<std::size_t>(communicator.size));
    check(qpmesh_ranks_in(communicator.mesh, world_mesh(), ranks.data()));
    communicator.group = make<Group>(std::move(ranks), communicator_of(MPI_COMM_WORLD)->rank);
  }
  return *communicator.group;
}

namespace {

void inherit(Communicator& child, const Communicator& parent) {
  child.errhandler.set(parent.errhandler.get());
}

// A duplicate gets what its parent has beside ranks and hints. A copy function may fail.
void copy_properties(Communicator& copy, Communicator& parent) {
  copy.topology = parent.topology;
  {
    const std::lock_guard lock{group_mutex};
    copy.group = parent.group;
  }
  make_or_undo(copy, [&] { parent.attributes.copy_to(copy.attributes, parent.handle()); });
}

Reference<Communicator> duplicate(Communicator& parent, Reference<Info> hints) {
  auto copy = duplicate_ranks(parent);
  copy->info.set(std::move(hints));
  copy_properties(*copy, parent);
  return copy;
}

// A communicator keeps of the hints that it is given the promises that the standard has: nothing
// here needs one. They take the place of those that it had; either may be null.
Reference<Info> promises_of(const Info* before, const Info* given) {
  auto promises = before != nullptr ? make<Info>(before->pairs()) : make<Info>();
  for (const char* const key : {"mpi_assert_no_any_tag", "mpi_assert_no_any_source",
                                "mpi_assert_exact_length", "mpi_assert_allow_overtaking"}) {
    if (given == nullptr) break;
    if (const auto value = given->find(key)) promises->set(key, *value);
  }
  return promises;
}
// A duplicate that is given hints has none of its parent's.
Reference<Info> promises_of(MPI_Info given) {
  return promises_of(nullptr, given_info_or_null(given));
}

// The object is there at once, and the communicator when the request has ended.
Reference<Communicator> duplicate_async(Communicator& parent, Reference<Info> hints,
                                        MPI_Request* handle) {
  require(handle != nullptr, MPI_ERR_ARG, "request is null");
  auto copy = make<Communicator>(parent, nullptr);
  inherit(*copy, parent);
  copy->info.set(std::move(hints));
  copy_properties(*copy, parent);
  make_or_undo(*copy, [&] {
    auto request = std::make_unique<Request>(&parent, Request::Kind::collective);
    check(qpmesh_duplicate_async(parent.mesh, nullptr, &copy->mesh, &request->operation));
    *handle = request.release()->handle();
  });
  return copy;
}

Reference<Communicator> create(Communicator& parent, const Group& group, int tag) {
  if (group.rank == MPI_UNDEFINED) return {};
  // As the parent's ranks.
  const Group& all = group_of(parent);
  std::vector<int> place(static_cast<std::size_t>(communicator_of(MPI_COMM_WORLD)->size), -1);
  for (int rank = 0; rank < all.size(); ++rank)
    place[static_cast<std::size_t>(all.ranks[static_cast<std::size_t>(rank)])] = rank;
  std::vector<int> ranks;
  for (const int rank : group.ranks) {
    ranks.push_back(place[static_cast<std::size_t>(rank)]);
    require(ranks.back() >= 0, MPI_ERR_GROUP, "rank ", rank,
            " of MPI_COMM_WORLD is in the group, and not in the communicator");
  }
  qpmesh_communicator* made = nullptr;
  check(qpmesh_subgroup(parent.mesh, ranks.data(), ranks.size(), tag, nullptr, &made));
  return adopt(made, parent);
}

// Shared memory is the one thing of the hardware that is told apart.
bool is_by_host(int split_type, MPI_Info hints) {
  const Info* const given = given_info_or_null(hints);
  if (split_type == MPI_COMM_TYPE_SHARED) return true;
  if (split_type != MPI_COMM_TYPE_HW_GUIDED && split_type != MPI_COMM_TYPE_RESOURCE_GUIDED)
    return false;
  return given != nullptr && given->find("mpi_hw_resource_type") == "mpi_shared_memory";
}

// The ranks of this host that take part; null for one that does not. Collective, also for those.
Reference<Communicator> split_host(Communicator& parent, bool takes_part, int key) {
  qpmesh_communicator* host = nullptr;
  check(qpmesh_split_node(parent.mesh, key, nullptr, &host));
  auto own = adopt(host, parent);
  int all_take_part = takes_part ? 1 : 0;
  check(qpmesh_allreduce(host, &all_take_part, &all_take_part, 1, QPMESH_INT32, QPMESH_LOGICAL_AND,
                         nullptr));
  if (all_take_part != 0) return own;
  return split_ranks(*own, takes_part ? 0 : MPI_UNDEFINED, key);
}

// A call that makes a communicator: body(communicator) gives it, or null. Where that fails there
// is none.
template <class Body>
int make_communicator(const char* function, MPI_Comm comm, MPI_Comm* newcomm, const Body& body) {
  return on_communicator(function, comm, [&](Communicator& own) {
    check_addresses(newcomm);
    *newcomm = MPI_COMM_NULL;
    if (auto made = body(own)) *newcomm = handle_for_program(std::move(made));
  });
}

}  // namespace

Reference<Communicator> adopt(qpmesh_communicator* mesh, const Communicator& parent) {
  auto own = make<Communicator>(mesh);
  inherit(*own, parent);
  return own;
}

Reference<Communicator> duplicate_ranks(Communicator& parent) {
  qpmesh_communicator* copy = nullptr;
  check(qpmesh_duplicate(parent.mesh, nullptr, &copy));
  return adopt(copy, parent);
}

Reference<Communicator> split_ranks(Communicator& parent, int color, int key) {
  require(color >= 0 || color == MPI_UNDEFINED, MPI_ERR_ARG, "color ", color,
          " is neither 0 or more nor MPI_UNDEFINED");
  qpmesh_communicator* part = nullptr;
  check(qpmesh_split(parent.mesh, color == MPI_UNDEFINED ? QPMESH_NO_COLOR : color, key, nullptr,
                     &part));
  return part == nullptr ? Reference<Communicator>{} : adopt(part, parent);
}

}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

QPMESH_MPI_ENTRY(Comm_rank, (MPI_Comm comm, int* rank)) {
  return on_communicator("MPI_Comm_rank", comm, [&](const Communicator& own) {
    check_addresses(rank);
    *rank = own.rank;
  });
}

QPMESH_MPI_ENTRY(Comm_size, (MPI_Comm comm, int* size)) {
  return on_communicator("MPI_Comm_size", comm, [&](const Communicator& own) {
    check_addresses(size);
    *size = own.size;
  });
}

QPMESH_MPI_ENTRY(Comm_compare, (MPI_Comm comm, MPI_Comm other, int* result)) {
  return on_communicator("MPI_Comm_compare", comm, [&](Communicator& own) {
    Communicator* const others = communicator_of(other);
    if (others == nullptr) fail_without_communicator(other);
    check_addresses(result);
    if (others == &own) {
      *result = MPI_IDENT;
      return;
    }
    const int ranks = compare(group_of(own).ranks, group_of(*others).ranks);
    *result = ranks == MPI_IDENT ? MPI_CONGRUENT : ranks;
  });
}

QPMESH_MPI_ENTRY(Comm_dup, (MPI_Comm comm, MPI_Comm* newcomm)) {
  return make_communicator("MPI_Comm_dup", comm, newcomm,
                           [](Communicator& own) { return duplicate(own, own.info.get()); });
}

QPMESH_MPI_ENTRY(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm)) {
  return make_communicator("MPI_Comm_dup_with_info", comm, newcomm,
                           [&](Communicator& own) { return duplicate(own, promises_of(info)); });
}

QPMESH_MPI_ENTRY(Comm_idup, (MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request)) {
  return make_communicator("MPI_Comm_idup", comm, newcomm, [&](Communicator& own) {
    return duplicate_async(own, own.info.get(), request);
  });
}

QPMESH_MPI_ENTRY(Comm_idup_with_info,
                 (MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm, MPI_Request* request)) {
  return make_communicator("MPI_Comm_idup_with_info", comm, newcomm, [&](Communicator& own) {
    return duplicate_async(own, promises_of(info), request);
  });
}

QPMESH_MPI_ENTRY(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm* newcomm)) {
  // Apart from MPI_Comm_create_group in another thread, which hardly anybody gives this tag.
  constexpr int tag = std::numeric_limits<int>::max();
  return make_communicator("MPI_Comm_create", comm, newcomm,
                           [&](Communicator& own) { return create(own, given_group(group), tag); });
}

QPMESH_MPI_ENTRY(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* newcomm)) {
  return make_communicator("MPI_Comm_create_group", comm, newcomm, [&](Communicator& own) {
    require(tag >= 0, MPI_ERR_TAG, "tag ", tag, " is negative");
    return create(own, given_group(group), tag);
  });
}

QPMESH_MPI_ENTRY(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm* newcomm)) {
  return make_communicator("MPI_Comm_split", comm, newcomm,
                           [&](Communicator& own) { return split_ranks(own, color, key); });
}

QPMESH_MPI_ENTRY(Comm_split_type,
                 (MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm* newcomm)) {
  return make_communicator("MPI_Comm_split_type", comm, newcomm, [&](Communicator& own) {
    switch (split_type) {
      case MPI_COMM_TYPE_SHARED:
      case MPI_COMM_TYPE_HW_UNGUIDED:
      case MPI_COMM_TYPE_HW_GUIDED:
      case MPI_COMM_TYPE_RESOURCE_GUIDED:
      case MPI_UNDEFINED:  // beside any of the others: all make the same calls
        return split_host(own, is_by_host(split_type, info), key);
      default: fail(MPI_ERR_ARG, "a split of type ", split_type);
    }
  });
}

QPMESH_MPI_ENTRY(Comm_free, (MPI_Comm * comm)) {
  return on_communicator(
      "MPI_Comm_free", comm == nullptr ? MPI_COMM_NULL : *comm, [&](Communicator& own) {
        require(own.predefined == MPI_COMM_NULL, MPI_ERR_COMM, own.name.get(), " cannot be freed");
        own.attributes.clear(*comm);
        *comm = MPI_COMM_NULL;
        collect_buffers();
        take_back(own);
      });
}

QPMESH_MPI_ENTRY(Comm_disconnect, (MPI_Comm * comm)) {
  const int flushed =
      on_communicator("MPI_Comm_disconnect", comm == nullptr ? MPI_COMM_NULL : *comm,
                      [](const Communicator& own) { flush_buffer(own); });
  return flushed == MPI_SUCCESS ? PMPI_Comm_free(comm) : flushed;
}

QPMESH_MPI_ENTRY(Comm_set_info, (MPI_Comm comm, MPI_Info info)) {
  return on_communicator("MPI_Comm_set_info", comm, [&](Communicator& own) {
    const Info* const given = given_info_or_null(info);
    own.info.change(
        [&](const Reference<Info>& before) { return promises_of(before.get(), given); });
  });
}

QPMESH_MPI_ENTRY(Comm_get_info, (MPI_Comm comm, MPI_Info* info)) {
  return on_communicator("MPI_Comm_get_info", comm, [&](const Communicator& own) {
    const Reference<Info> hints = own.info.get();
    check_addresses(info);
    *info = handle_for_program(hints ? make<Info>(hints->pairs()) : make<Info>());
  });
}

QPMESH_MPI_ENTRY(Comm_set_name, (MPI_Comm comm, const char* name)) {
  return on_communicator("MPI_Comm_set_name", comm, [&](Communicator& own) {
    require(name != nullptr, MPI_ERR_ARG, "comm_name is null");
    own.name.set({name, ::strnlen(name, MPI_MAX_OBJECT_NAME - 1)});
  });
}

QPMESH_MPI_ENTRY(Comm_get_name, (MPI_Comm comm, char* name, int* length)) {
  return on_communicator("MPI_Comm_get_name", comm, [&](const Communicator& own) {
    check_addresses(name, length);
    const std::string text = own.name.get();
    std::memcpy(name, text.c_str(), text.size() + 1);
    *length = static_cast<int>(text.size());
  });
}

QPMESH_MPI_ENTRY(Comm_group, (MPI_Comm comm, MPI_Group* group)) {
  return on_communicator("MPI_Comm_group", comm, [&](Communicator& own) {
    check_addresses(group);
    *group = handle_for_program(Reference{&group_of(own)});
  });
}

// There are no intercommunicators.
QPMESH_MPI_ENTRY(Comm_test_inter, (MPI_Comm comm, int* flag)) {
  return on_communicator("MPI_Comm_test_inter", comm, [&](const Communicator&) {
    check_addresses(flag);
    *flag = 0;
  });
}

QPMESH_MPI_ENTRY(Comm_remote_size, (MPI_Comm comm, int*)) {
  return on_communicator("MPI_Comm_remote_size", comm, [&](const Communicator&) {
    fail(MPI_ERR_COMM, "it is no intercommunicator");
  });
}

QPMESH_MPI_ENTRY(Comm_remote_group, (MPI_Comm comm, MPI_Group*)) {
  return on_communicator("MPI_Comm_remote_group", comm, [&](const Communicator&) {
    fail(MPI_ERR_COMM, "it is no intercommunicator");
  });
}

// Nobody starts processes: there is no parent.
QPMESH_MPI_ENTRY(Comm_get_parent, (MPI_Comm * parent)) {
  return while_running("MPI_Comm_get_parent", [&] {
    check_addresses(parent);
    *parent = MPI_COMM_NULL;
  });
}
