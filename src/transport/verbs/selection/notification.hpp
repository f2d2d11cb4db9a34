// How receivers on a device learn of writes where nothing is said to the contrary.
#pragma once

#include <string_view>

#include "transport/connection.hpp"
#include "transport/verbs/selection/facts.hpp"

namespace qpmesh::transport::verbs::selection {

#if defined(__x86_64__)
inline constexpr bool x86_host = true;
#else
inline constexpr bool x86_host = false;
#endif

struct DefaultNotification {
  Notification small = Notification::immediate;
  Notification medium = Notification::immediate;
  std::string_view reason;
};
// poll relies on writes of one connection becoming visible in order, which no specification
// promises: it is for devices known to keep it, seen from processors that keep it too. Everything
// else gets immediates.
DefaultNotification default_notification(const DeviceFacts& device, LinkLayer link_layer,
                                         bool x86 = x86_host);

}  // namespace qpmesh::transport::verbs::selection
