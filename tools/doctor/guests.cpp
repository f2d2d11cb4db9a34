// SPDX-License-Identifier: MIT
#include "tools/doctor/guests.hpp"

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "bootstrap/handshake.hpp"

namespace qpmesh::doctor {

using bootstrap::HostPort;

Blob encode(const Guest& guest) {
  base::ByteWriter out;
  out.put(guest.token).put_text(guest.unix_name);
  out.put(static_cast<std::uint32_t>(guest.listeners.size()));
  for (std::size_t i = 0; i < guest.listeners.size(); ++i)
    out.put_text(guest.listeners[i].host).put(guest.listeners[i].port).put_text(guest.netdevs[i]);
  out.put(guest.datagram_port).put(std::uint8_t{guest.has_roce_port}).put(guest.cores);
  const base::Place& place = guest.place;
  out.put_fields(place.boot_id, place.uid, place.pid_namespace, place.net_namespace,
                 place.user_namespace);
  return std::move(out).blob();
}

Guest decode(BlobView bytes, int rank) {
  base::ByteReader in{bytes};
  Guest guest;
  guest.token = in.get<Token>();
  guest.unix_name = in.get_text();
  const auto count = in.get<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    HostPort address;
    address.host = in.get_text();
    address.port = in.get<std::uint16_t>();
    guest.listeners.push_back(std::move(address));
    guest.netdevs.emplace_back(in.get_text());
  }
  guest.datagram_port = in.get<std::uint16_t>();
  guest.has_roce_port = in.get<std::uint8_t>() != 0;
  guest.cores = in.get<std::int32_t>();
  base::Place& place = guest.place;
  in.get_fields(place.boot_id, place.uid, place.pid_namespace, place.net_namespace,
                place.user_namespace);
  if (!in.finished() || guest.unix_name.size() > bootstrap::unix_name_bytes_max) {
    base::throw_error({ErrorCode::corrupt, rank}, "qpmesh-doctor",
                      "start the same qpmesh-doctor on every host",
                      "what rank {} says of itself cannot be read", rank);
  }
  return guest;
}

Greeting greeting(const Ranks& ranks, int from, int to) {
  base::ByteWriter all;
  all.put(std::int32_t{from}).put(ranks.guest(from).token).put(ranks.guest(to).token);
  return {from, bootstrap::hash<sizeof(Token)>(all.blob(), "qpmesh-doctor")};
}

Token datagram_token(const Ranks& ranks, int from, int to) {
  base::ByteWriter all;
  all.put(std::int32_t{to}).put(ranks.guest(from).token).put(ranks.guest(to).token);
  return bootstrap::hash<sizeof(Token)>(all.blob(), "qpmesh-doctor datagram");
}

}  // namespace qpmesh::doctor
