#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/bytes.hpp"
#include "qpmesh/error.hpp"
#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::transport::verbs::selection {
namespace {

constexpr std::size_t name_bytes_max = 255;
constexpr std::size_t sentence_bytes_max = 4096;

// The one list of what travels: visit(field) for each.
template <class AnyEndpoint, class Visit>
void visit_fields(AnyEndpoint& of, const Visit& visit) {
  const auto each = [&](auto&... field) { (visit(field), ...); };
  each(of.device, of.node_guid, of.port, of.link_layer, of.lid, of.grh_required, of.gid_index,
       of.gid, of.gid_type, of.netdev, of.prefix_bits, of.mtu_bytes, of.responder_reads_max,
       of.initiator_reads_max, of.software, of.score);
}

struct Put {
  base::ByteWriter& out;
  void operator()(const std::string& text) const { out.put_text(text); }
  void operator()(const Gid& gid) const { out.put_bytes(std::as_bytes(std::span{gid.bytes})); }
  template <base::Scalar T>
  void operator()(T value) const {
    out.put(value);
  }
};

struct Get {
  base::ByteReader& in;
  void operator()(std::string& text) const { text = in.get_text(); }
  void operator()(Gid& gid) const {
    const BlobView bytes = in.get_bytes();
    if (bytes.size() == gid.bytes.size())
      std::ranges::copy(bytes, std::as_writable_bytes(std::span{gid.bytes}).begin());
  }
  void operator()(bool& value) const { value = in.get<std::uint8_t>() != 0; }
  template <base::Scalar T>
  void operator()(T& value) const {
    value = in.get<T>();
  }
};

// Texts end up in messages for people: nothing in them may steer a terminal.
bool is_text(std::string_view text, std::size_t bytes_max) noexcept {
  return text.size() <= bytes_max &&
         std::ranges::none_of(text, [](unsigned char each) { return each < 0x20 || each == 0x7f; });
}

bool is_within(int value, int least, int most) noexcept { return least <= value && value <= most; }

bool is_sound(const Endpoint& endpoint) noexcept {
  const bool infiniband = endpoint.link_layer == LinkLayer::infiniband;
  return !endpoint.device.empty() && is_text(endpoint.device, name_bytes_max) &&
         is_text(endpoint.netdev, name_bytes_max) && is_within(endpoint.port, 1, 255) &&
         (infiniband || endpoint.link_layer == LinkLayer::ethernet) &&
         endpoint.gid_type <= GidType::roce_v2 &&
         infiniband == (endpoint.gid_type == GidType::infiniband) && endpoint.gid != Gid{} &&
         is_within(endpoint.gid_index, 0, 255) && is_within(endpoint.prefix_bits, 0, 128) &&
         is_within(endpoint.mtu_bytes, 256, 4096) &&
         std::has_single_bit(static_cast<unsigned>(endpoint.mtu_bytes));
}

}  // namespace

Blob encode(const Offer& offer) {
  base::ByteWriter out;
  out.put_text(offer.host.substr(0, name_bytes_max))
      .put_text(offer.cause.substr(0, sentence_bytes_max))
      .put_text(offer.hint.substr(0, sentence_bytes_max))
      .put(static_cast<std::uint8_t>(offer.endpoints.size()));
  for (const Endpoint& endpoint : offer.endpoints) visit_fields(endpoint, Put{out});
  return std::move(out).blob();
}

Offer decode(BlobView blob, int peer) {
  base::ByteReader in{blob};
  Offer offer;
  offer.host = in.get_text();
  offer.cause = in.get_text();
  offer.hint = in.get_text();
  const auto count = in.get<std::uint8_t>();
  bool sound = count <= endpoints_max && is_text(offer.host, name_bytes_max) &&
               is_text(offer.cause, sentence_bytes_max) && is_text(offer.hint, sentence_bytes_max);
  for (int i = 0; i < count && sound && in.ok(); ++i) {
    visit_fields(offer.endpoints.emplace_back(), Get{in});
    sound = is_sound(offer.endpoints.back());
  }
  if (in.finished() && sound) return offer;
  throw Error{
      {.code = ErrorCode::corrupt,
       .peer = peer,
       .operation = "init",
       .cause = fmt::format("the RDMA endpoints that the rank offers, {} bytes, cannot be read",
                            blob.size()),
       .hint = "does every rank run the same version of qpmesh?"}};
}

}  // namespace qpmesh::transport::verbs::selection
