#include "context/control_frames.hpp"

#include "base/bytes.hpp"

namespace qpmesh::context {
namespace {

constexpr std::uint8_t frame_version = 3;
constexpr std::size_t text_bytes_max = 1024;  // five texts stay far below the channel's limit

std::string_view cut(const std::string& text) {
  return std::string_view{text}.substr(0, text_bytes_max);
}

}  // namespace

Blob encode(const ControlFrame& frame) {
  base::ByteWriter out;
  out.put(frame_version).put(frame.kind).put(frame.communicator).put(frame.operation);
  out.put(frame.signatures.first_operation).put(frame.signatures.count);
  for (const std::uint32_t signature : frame.signatures.all()) out.put(signature);
  out.put(static_cast<std::uint8_t>(frame.reply_wanted)).put_text(cut(frame.call));
  out.put(frame.detail.code)
      .put(static_cast<std::int32_t>(frame.detail.peer))
      .put_text(cut(frame.detail.operation));
  out.put_text(cut(frame.detail.cause))
      .put(static_cast<std::int32_t>(frame.detail.system_error))
      .put_text(cut(frame.detail.hint));
  out.put(static_cast<std::uint8_t>(frame.says_who_saw)).put(frame.reason).put(frame.awaited);
  return std::move(out).blob();
}

std::optional<ControlFrame> decode_control_frame(BlobView bytes) {
  base::ByteReader in{bytes};
  ControlFrame frame;
  const auto version = in.get<std::uint8_t>();
  frame.kind = in.get<ControlFrame::Kind>();
  frame.communicator = in.get<std::uint64_t>();
  frame.operation = in.get<std::uint32_t>();
  frame.signatures.first_operation = in.get<std::uint32_t>();
  frame.signatures.count = in.get<std::uint32_t>();
  if (frame.signatures.count > CallHistory::remembered_max) return std::nullopt;
  for (std::uint32_t i = 0; i < frame.signatures.count; ++i)
    frame.signatures.values[i] = in.get<std::uint32_t>();
  frame.reply_wanted = in.get<std::uint8_t>() != 0;
  frame.call = in.get_text();
  frame.detail.code = in.get<ErrorCode>();
  frame.detail.peer = in.get<std::int32_t>();
  frame.detail.operation = in.get_text();
  frame.detail.cause = in.get_text();
  frame.detail.system_error = in.get<std::int32_t>();
  frame.detail.hint = in.get_text();
  frame.says_who_saw = in.get<std::uint8_t>() != 0;
  frame.reason = in.get<Farewell::Reason>();
  frame.awaited = in.get<std::int32_t>();
  const bool known =
      frame.kind >= ControlFrame::Kind::mismatch && frame.kind <= ControlFrame::Kind::awaits &&
      frame.reason <= Farewell::Reason::finished && frame.detail.code <= ErrorCode::internal;
  if (version != frame_version || !in.finished() || !known) return std::nullopt;
  return frame;
}

}  // namespace qpmesh::context
