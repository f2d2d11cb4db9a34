#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "base/bytes.hpp"
#include "qpmesh/error.hpp"
#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::transport::verbs::selection {
namespace {

constexpr std::size_t name_bytes_max = 255;
constexpr std::size_t sentence_bytes_max = 4096;

template <class T>
T clamp_to(int value) noexcept {
  return static_cast<T>(std::clamp<int>(value, 0, std::numeric_limits<T>::max()));
}

void put(base::ByteWriter& writer, const Endpoint& endpoint) {
  writer.put_text(endpoint.device)
      .put(endpoint.node_guid)
      .put(static_cast<std::uint8_t>(endpoint.port))
      .put(endpoint.link_layer)
      .put(endpoint.lid)
      .put(static_cast<std::uint8_t>(endpoint.grh_required))
      .put(static_cast<std::uint8_t>(endpoint.gid_index))
      .put_bytes(std::as_bytes(std::span{endpoint.gid.bytes}))
      .put(endpoint.gid_type)
      .put_text(endpoint.netdev)
      .put(static_cast<std::uint8_t>(endpoint.prefix_bits))
      .put(static_cast<std::uint16_t>(endpoint.mtu_bytes))
      .put(clamp_to<std::uint16_t>(endpoint.responder_reads_max))
      .put(clamp_to<std::uint16_t>(endpoint.initiator_reads_max))
      .put(static_cast<std::uint8_t>(endpoint.software))
      .put(static_cast<std::int32_t>(endpoint.score));
}

// Texts end up in messages for people: nothing in them may steer a terminal.
bool is_text(std::string_view text, std::size_t bytes_max) noexcept {
  return text.size() <= bytes_max &&
         std::ranges::none_of(text, [](unsigned char each) { return each < 0x20 || each == 0x7f; });
}

bool is_sound(const Endpoint& endpoint) noexcept {
  return !endpoint.device.empty() && is_text(endpoint.device, name_bytes_max) &&
         is_text(endpoint.netdev, name_bytes_max) && endpoint.port >= 1 &&
         (endpoint.link_layer == LinkLayer::infiniband ||
          endpoint.link_layer == LinkLayer::ethernet) &&
         endpoint.gid_type <= GidType::roce_v2 &&
         (endpoint.link_layer == LinkLayer::infiniband) ==
             (endpoint.gid_type == GidType::infiniband) &&
         endpoint.gid != Gid{} && endpoint.prefix_bits <= 128 && endpoint.mtu_bytes >= 256 &&
         endpoint.mtu_bytes <= 4096 &&
         std::has_single_bit(static_cast<unsigned>(endpoint.mtu_bytes));
}

Endpoint get(base::ByteReader& reader) {
  Endpoint endpoint;
  endpoint.device = reader.get_text();
  endpoint.node_guid = reader.get<std::uint64_t>();
  endpoint.port = reader.get<std::uint8_t>();
  endpoint.link_layer = reader.get<LinkLayer>();
  endpoint.lid = reader.get<std::uint16_t>();
  endpoint.grh_required = reader.get<std::uint8_t>() != 0;
  endpoint.gid_index = reader.get<std::uint8_t>();
  const auto gid = reader.get_bytes();
  if (gid.size() == endpoint.gid.bytes.size())
    std::ranges::copy(gid, std::as_writable_bytes(std::span{endpoint.gid.bytes}).begin());
  endpoint.gid_type = reader.get<GidType>();
  endpoint.netdev = reader.get_text();
  endpoint.prefix_bits = reader.get<std::uint8_t>();
  endpoint.mtu_bytes = reader.get<std::uint16_t>();
  endpoint.responder_reads_max = reader.get<std::uint16_t>();
  endpoint.initiator_reads_max = reader.get<std::uint16_t>();
  endpoint.software = reader.get<std::uint8_t>() != 0;
  endpoint.score = reader.get<std::int32_t>();
  return endpoint;
}

}  // namespace

Blob encode(const Offer& offer) {
  base::ByteWriter writer;
  writer.put_text(offer.host.substr(0, name_bytes_max))
      .put(static_cast<std::uint8_t>(offer.endpoints.size()));
  for (const auto& endpoint : offer.endpoints) put(writer, endpoint);
  writer.put_text(offer.cause.substr(0, sentence_bytes_max))
      .put_text(offer.hint.substr(0, sentence_bytes_max));
  return std::move(writer).blob();
}

Offer decode(BlobView blob, int peer) {
  base::ByteReader reader{blob};
  Offer offer;
  offer.host = reader.get_text();
  const auto count = reader.get<std::uint8_t>();
  bool sound = count <= endpoints_max;
  for (int i = 0; i < count && sound && reader.ok(); ++i) {
    offer.endpoints.push_back(get(reader));
    sound = is_sound(offer.endpoints.back());
  }
  offer.cause = reader.get_text();
  offer.hint = reader.get_text();
  sound = sound && is_text(offer.host, name_bytes_max) &&
          is_text(offer.cause, sentence_bytes_max) && is_text(offer.hint, sentence_bytes_max);
  if (!reader.finished() || !sound) {
    throw Error{
        {.code = ErrorCode::corrupt,
         .peer = peer,
         .operation = "init",
         .cause = fmt::format("the RDMA endpoints that the rank offers, {} bytes, cannot be read",
                              blob.size()),
         .hint = "does every rank run the same version of qpmesh?"}};
  }
  return offer;
}

}  // namespace qpmesh::transport::verbs::selection
