// SPDX-License-Identifier: MIT
#include "context/control_frames.hpp"

#include <algorithm>

#include "base/bytes.hpp"

namespace qpmesh::context {
namespace {

constexpr std::uint8_t frame_version = 6;
constexpr std::size_t text_bytes_max = 1024;  // five texts stay far below the channel's limit

// coder: puts or gets what it is given.
template <class Coder>
void code(ControlFrame& frame, Coder&& coder) {
  ErrorDetail& detail = frame.detail;
  coder(frame.kind, frame.communicator, frame.operation, frame.signatures.first_operation,
        frame.signatures.values, frame.reply_wanted, frame.call, detail.code, detail.peer,
        detail.operation, detail.cause, detail.system_error, detail.hint, frame.says_who_saw,
        frame.reason, frame.awaited, frame.words);
}

}  // namespace

Blob encode(const ControlFrame& whole) {
  ControlFrame frame = whole;
  for (std::string* const text :
       {&frame.call, &frame.detail.operation, &frame.detail.cause, &frame.detail.hint})
    text->resize(std::min(text->size(), text_bytes_max));
  base::ByteWriter out;
  out.put(frame_version);
  code(frame, [&](const auto&... fields) { out.put_fields(fields...); });
  return std::move(out).blob();
}

std::optional<ControlFrame> decode_control_frame(BlobView bytes) {
  base::ByteReader in{bytes};
  ControlFrame frame;
  const auto version = in.get<std::uint8_t>();
  code(frame, [&](auto&... fields) { in.get_fields(fields...); });
  const bool known =
      frame.signatures.values.size() <= CallHistory::remembered_max &&
      frame.kind >= ControlFrame::Kind::mismatch && frame.kind <= ControlFrame::Kind::connect &&
      frame.reason <= Farewell::Reason::finished && frame.detail.code <= ErrorCode::internal;
  if (version != frame_version || !in.finished() || !known) return std::nullopt;
  return frame;
}

}  // namespace qpmesh::context
