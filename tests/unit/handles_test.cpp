// SPDX-License-Identifier: MIT
// What users hold is made by calls alone.
#include <gtest/gtest.h>

#include <concepts>
#include <memory>
#include <type_traits>

#include "qpmesh/qpmesh.hpp"

namespace qpmesh {
namespace {

template <class Handle, class... Parts>
concept MadeOf = std::is_constructible_v<Handle, Parts...>;

template <class Handle>
concept TellsItsState = requires(const Handle& handle) { handle.state(); };

TEST(handles, are_not_made_of_parts_of_the_library) {
  EXPECT_FALSE((MadeOf<Communicator, std::shared_ptr<context::CommunicatorState>>));
  EXPECT_FALSE((MadeOf<Request, calls::RequestState*>));
  EXPECT_FALSE((MadeOf<Request, calls::RequestState*, bool>));
  EXPECT_FALSE((MadeOf<Message, std::unique_ptr<calls::MatchedMessage>>));
  EXPECT_FALSE((MadeOf<Prepared, std::unique_ptr<calls::PreparedOperation>>));
  EXPECT_FALSE((MadeOf<Buffer<int>, std::shared_ptr<context::Allocation>, int*, std::size_t>));
  EXPECT_FALSE(TellsItsState<Communicator> || TellsItsState<Request>);
}

TEST(handles, are_moved_and_not_copied) {
  EXPECT_FALSE(std::copyable<Communicator> || std::copyable<Request> || std::copyable<Message> ||
               std::copyable<Prepared>);
  EXPECT_TRUE(std::movable<Communicator> && std::movable<Request> && std::movable<Message> &&
              std::movable<Prepared>);
}

TEST(requests_and_buffers, may_be_empty) {
  Request request;
  EXPECT_FALSE(request.is_in_flight());
  EXPECT_TRUE(request.test());
  EXPECT_EQ(request.wait().source, no_rank);
  EXPECT_FALSE(request.cancel());
  EXPECT_FALSE(request.cancel());
  EXPECT_EQ(Buffer<int>{}.size(), 0U);
}

}  // namespace
}  // namespace qpmesh
