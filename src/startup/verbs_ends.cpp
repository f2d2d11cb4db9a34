// SPDX-License-Identifier: MIT
#include "startup/verbs_ends.hpp"

#include <algorithm>
#include <utility>

#include "base/bytes.hpp"
#include "base/errors.hpp"

namespace qpmesh::startup {

using transport::verbs::VerbsConnection;
using transport::verbs::VerbsTransport;

void probe_path(VerbsConnection& connection, const messaging::PeerPlaces& places,
                bool second_rail) noexcept {
  transport::RemoteAddress into =
      places.remote_slot + places.layout.slot_bytes() + places.layout.staging_bytes();
  if (second_rail) into.region = into.second_region;
  std::byte* const probed =
      places.slot + places.layout.slot_bytes() + places.layout.staging_bytes();
  connection.probe(places.staging.first(std::min(probed_bytes, places.staging.size())), into,
                   {probed, probed_bytes});
}

VerbsEnds::VerbsEnds(VerbsTransport& first, VerbsTransport* second, Places places)
    : first_{first}, second_{second}, places_{std::move(places)} {}

Blob VerbsEnds::make(int peer) {
  base::ByteWriter out;
  const Blob address = first_.address_for(peer);
  Blob second_address;
  on_second(peer, [&] { second_address = second_->address_for(peer); });
  out.put_fields(address, second_address);
  return std::move(out).blob();
}

void VerbsEnds::connect(int peer, BlobView address) {
  base::ByteReader in{address};
  Blob of_first;
  Blob of_second;
  in.get_fields(of_first, of_second);
  first_.join(peer, of_first);
  on_second(peer, [&] {
    if (of_second.empty())
      base::throw_error({ErrorCode::link_failed, peer}, "connect", "", "the peer has none");
    second_->join(peer, of_second);
  });
}

void VerbsEnds::open(int peer) noexcept {
  if (VerbsConnection* const connection = first_.made_later(peer)) open(*connection, peer, false);
  if (VerbsConnection* const other = second_of(peer)) open(*other, peer, true);
}

void VerbsEnds::open(VerbsConnection& connection, int peer, bool second_rail) noexcept {
  connection.open();
  probe_path(connection, *places_[static_cast<std::size_t>(peer)], second_rail);
}

void VerbsEnds::fail(int peer, const ErrorDetail& why) noexcept {
  if (VerbsConnection* const connection = first_.made_later(peer)) connection->give_up(why);
  if (VerbsConnection* const other = second_of(peer)) other->give_up(why);
}

VerbsConnection* VerbsEnds::second_of(int peer) const noexcept {
  VerbsConnection* const other = second_ == nullptr ? nullptr : second_->made_later(peer);
  return other == nullptr || other->fault() != nullptr ? nullptr : other;
}

template <class F>
void VerbsEnds::on_second(int peer, F&& step) {
  VerbsConnection* const other = second_of(peer);
  if (other == nullptr) return;
  try {
    step();
  } catch (const Error& error) {
    other->give_up({.cause = error.cause(), .system_error = error.system_error()});
  }
}

}  // namespace qpmesh::startup
