// SPDX-License-Identifier: MIT
// What this machine shows, whatever it is: with an RDMA device or without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "qpmesh/error.hpp"
#include "support/device_tables.hpp"
#include "transport/verbs/device.hpp"

namespace qpmesh::transport::verbs {
namespace {

using namespace selection;

using ::testing::HasSubstr;

TEST(interfaces_of_this_host, hold_the_loopback_one_with_its_address) {
  const auto all = interfaces(base::System{});
  const auto loopback = std::ranges::find(all, "lo", &Interface::name);
  ASSERT_NE(loopback, all.end());
  EXPECT_GT(loopback->index, 0U);
  const auto& addresses = loopback->addresses;
  const auto own = std::ranges::find(addresses, test::gid("127.0.0.1"), &InterfaceAddress::address);
  ASSERT_EQ(own != addresses.end(), loopback->up);
  if (loopback->up) {
    EXPECT_EQ(own->prefix_bits, 8);
  }
}

TEST(interfaces_of_this_host, are_none_when_they_cannot_be_read) {
  base::FailPoints fail_points;
  fail_points.fail_call(0, EMFILE);
  EXPECT_TRUE(interfaces(base::System{&fail_points}).empty());
  EXPECT_EQ(fail_points.fired_site(), "getifaddrs");
}

TEST(discovery, survives_the_failure_of_every_single_call) {
  base::FailPoints counting;
  const auto healthy = discover(base::System{&counting});
  for (std::uint64_t call = 0; call < counting.calls(); ++call) {
    base::FailPoints fail_points;
    fail_points.fail_call(call, EIO);
    const auto found = discover(base::System{&fail_points});
    EXPECT_TRUE(fail_points.fired());
    if (call == 0) {
      EXPECT_TRUE(found.empty()) << "the list itself";
    } else {
      EXPECT_EQ(found.size(), healthy.size()) << fail_points.fired_site();
    }
  }
  EXPECT_GE(counting.calls(), 1U);
}

TEST(discovery, fills_in_what_it_lists) {
  const auto found = discover(base::System{});
  if (found.empty()) GTEST_SKIP() << "no RDMA device here";
  for (const auto& device : found) {
    EXPECT_FALSE(device.name.empty());
    if (!device.unreadable.empty()) continue;
    EXPECT_GT(device.queue_pairs_max, 0);
    EXPECT_FALSE(device.ports.empty());
    for (const auto& port : device.ports) {
      EXPECT_GE(port.mtu_bytes, 256);
      EXPECT_FALSE(port.state_name.empty());
    }
  }
}

TEST(a_device_that_is_not_there, cannot_be_opened_and_the_error_names_it) {
  try {
    open_device(base::System{}, "no_such_device");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_resource);
    EXPECT_THAT(error.cause(), HasSubstr("no_such_device"));
  }
}

}  // namespace
}  // namespace qpmesh::transport::verbs
