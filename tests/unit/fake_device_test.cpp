// SPDX-License-Identifier: MIT
// What queue pairs are told of devices that no test host has: several partition keys, an Ethernet
// adapter's traffic class, and enhanced connection establishment (ECE). The functions of libibverbs
// are replaced by those of two made-up devices, which record what they are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/owned.hpp"
#include "qpmesh/error.hpp"
#include "support/device_tables.hpp"
#include "transport/verbs/connection.hpp"
#include "transport/verbs/device.hpp"
#include "transport/verbs/selection/choice.hpp"
#include "transport/verbs/transport.hpp"

namespace qpmesh::transport::verbs {
namespace {

using namespace selection;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What one device was told of its only queue pair, in order: "set_ece 0x6", "INIT", "RTR".
struct FakeDevice {
  ibv_device device{};
  ibv_context context{};
  ibv_comp_channel channel{};
  ibv_pd domain{};
  ibv_cq queue{};
  ibv_qp queue_pair{};
  ibv_ah address{};
  base::UniqueFd events{::eventfd(0, EFD_CLOEXEC)};
  base::UniqueFd completions{::eventfd(0, EFD_CLOEXEC)};

  // As recorded.
  LinkLayer link_layer = LinkLayer::ethernet;
  const char* gid = "10.0.0.1";
  std::vector<std::uint16_t> pkeys{0xffff};
  Ece ece{};
  int set_ece_error = 0;

  std::vector<std::string> steps;
  ibv_qp_attr init{};
  ibv_qp_attr rtr{};
  Ece accepted{};

  explicit FakeDevice(const char* name) {
    std::strncpy(static_cast<char*>(device.name), name, sizeof device.name - 1);
    device.node_type = IBV_NODE_CA;
    device.transport_type = IBV_TRANSPORT_IB;
    context.device = &device;
    context.async_fd = events.get();
    channel.context = domain.context = queue.context = queue_pair.context = &context;
    channel.fd = completions.get();
    context.ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return 0; };
    context.ops.req_notify_cq = [](ibv_cq*, int) { return 0; };
    context.ops.post_recv = [](ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) { return 0; };
    context.ops.post_send = [](ibv_qp*, ibv_send_wr*, ibv_send_wr**) { return 0; };
  }
};

// For functions that capture nothing: the devices of the running test.
std::deque<FakeDevice>* all = nullptr;

template <class Object>
FakeDevice& owner_of(const Object* object) {
  return *std::ranges::find_if(*all, [&](const FakeDevice& each) {
    return static_cast<const void*>(object) == &each.context ||
           static_cast<const void*>(object) == &each.queue_pair ||
           static_cast<const void*>(object) == &each.domain;
  });
}

class FakeDevices : public ::testing::Test {
 protected:
  FakeDevices() {
    all = &devices_;
    for (const char* const name : {"fake0", "fake1"}) devices_.emplace_back(name);
    devices_[1].gid = "10.0.0.2";
    replace_functions();
  }
  ~FakeDevices() override {
    for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) (*undo)();
    all = nullptr;
  }

  // The endpoints of both devices by these options, best first.
  std::array<Endpoint, 2> endpoints(Options options = {}) {
    const auto found = discover(system_);
    std::array<Endpoint, 2> both;
    for (std::size_t side = 0; side < 2; ++side) {
      options.device = side == 0 ? "fake0" : "fake1";
      const Wishes wishes = wishes_of(options);
      require_port_values(found, wishes);
      both.at(side) = make_offer(found, wishes, "here").endpoints.at(0);
    }
    return both;
  }

  // Connects a queue pair of the one device with one of the other.
  void connect(const Options& options = {}) {
    const auto both = endpoints(options);
    const Notifications polled{Notification::poll, Notification::poll, "tested"};
    std::array<std::unique_ptr<VerbsTransport>, 2> transports;
    std::array<Blob, 2> addresses;
    for (std::size_t side = 0; side < 2; ++side) {
      transports.at(side) = std::make_unique<VerbsTransport>(
          system_, base::Log{LogLevel::off},
          Settings{.host = "here",
                   .port = {both.at(side).device, 1},
                   .device = discover(system_).at(side),
                   .peers = 1,
                   .immediates_max = [](const auto&) { return 1U; }});
      transports.at(side)->rely_on(polled, polled);
      addresses.at(side) = transports.at(side)->address_for(
          1 - static_cast<int>(side), {.peer_host = "there",
                                       .theirs = polled,
                                       .choices = {{both.at(side), both.at(1 - side)}}});
    }
    std::array<std::unique_ptr<Connection>, 2> connections;
    for (std::size_t side = 0; side < 2; ++side)
      connections.at(side) =
          transports.at(side)->connect(1 - static_cast<int>(side), addresses.at(1 - side));
  }

  FakeDevice& first() { return devices_.front(); }
  FakeDevice& second() { return devices_.back(); }

  base::System system_;
  const bool is_open_ = ibverbs_missing().empty();  // before its functions are replaced

  // place: a function of libibverbs, which is itself again when the test ends.
  template <class F>
  void replace(F& place, std::type_identity_t<F> other) {
    undo_.emplace_back([&place, real = std::exchange(place, other)] { place = real; });
  }

 private:
  std::deque<FakeDevice> devices_;

  template <class T>
  static int destroy(T*) {
    return 0;
  }

  void replace_functions() {
    replace(verbs::ibv_get_device_list, [](int* count) {
      *count = static_cast<int>(all->size());
      auto** const list = new ibv_device* [all->size() + 1] {};
      for (std::size_t i = 0; i < all->size(); ++i) list[i] = &(*all)[i].device;
      return list;
    });
    replace(verbs::ibv_free_device_list, [](ibv_device** list) { delete[] list; });
    replace(verbs::ibv_get_device_name, [](ibv_device* device) {
      return const_cast<const char*>(static_cast<char*>(device->name));
    });
    replace(verbs::ibv_get_device_guid, [](ibv_device* device) -> __be64 {
      return htobe64(reinterpret_cast<std::uintptr_t>(device));
    });
    replace(verbs::ibv_open_device, [](ibv_device* device) {
      const auto found = std::ranges::find_if(
          *all, [&](const FakeDevice& each) { return &each.device == device; });
      return &found->context;
    });
    replace(verbs::ibv_is_fork_initialized, [] { return IBV_FORK_ENABLED; });
    replace(verbs::ibv_close_device, destroy<ibv_context>);
    replace(verbs::ibv_dealloc_pd, destroy<ibv_pd>);
    replace(verbs::ibv_destroy_comp_channel, destroy<ibv_comp_channel>);
    replace(verbs::ibv_destroy_cq, destroy<ibv_cq>);
    replace(verbs::ibv_destroy_qp, destroy<ibv_qp>);
    replace(verbs::ibv_destroy_ah, destroy<ibv_ah>);
    replace(verbs::ibv_get_async_event, [](ibv_context*, ibv_async_event*) { return -1; });
    replace(verbs::ibv_get_cq_event, [](ibv_comp_channel*, ibv_cq**, void**) { return -1; });
    replace(verbs::ibv_query_device, [](ibv_context*, ibv_device_attr* limits) {
      limits->phys_port_cnt = 1;
      limits->max_qp = limits->max_qp_wr = limits->max_cqe = 65536;
      limits->max_qp_rd_atom = limits->max_qp_init_rd_atom = 16;
      return 0;
    });
    replace(
        verbs::ibv_query_port, [](ibv_context* context, std::uint8_t, _compat_ibv_port_attr* port) {
          ibv_port_attr attributes{};
          attributes.state = IBV_PORT_ACTIVE;
          attributes.active_mtu = IBV_MTU_4096;
          attributes.gid_tbl_len = 1;
          attributes.pkey_tbl_len = static_cast<std::uint16_t>(owner_of(context).pkeys.size() + 2);
          const bool infiniband = owner_of(context).link_layer == LinkLayer::infiniband;
          attributes.lid = infiniband ? 7 : 0;
          attributes.link_layer = infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
          std::memcpy(static_cast<void*>(port), &attributes, sizeof attributes);
          return 0;
        });
    replace(verbs::_ibv_query_gid_table,
            [](ibv_context* context, ibv_gid_entry* entries, std::size_t, std::uint32_t,
               std::size_t) -> ssize_t {
              const FakeDevice& device = owner_of(context);
              entries->port_num = 1;
              entries->gid_type = device.link_layer == LinkLayer::infiniband ? IBV_GID_TYPE_IB
                                                                             : IBV_GID_TYPE_ROCE_V2;
              std::ranges::copy(test::gid(device.gid).bytes,
                                static_cast<std::uint8_t*>(entries->gid.raw));
              return 1;
            });
    replace(verbs::ibv_query_pkey, [](ibv_context* context, std::uint8_t, int index, __be16* pkey) {
      const auto& pkeys = owner_of(context).pkeys;
      const auto at = static_cast<std::size_t>(index);
      *pkey = htobe16(at < pkeys.size() ? pkeys[at] : std::uint16_t{0});
      return 0;
    });
    replace(verbs::ibv_alloc_pd, [](ibv_context* context) { return &owner_of(context).domain; });
    replace(verbs::ibv_create_comp_channel,
            [](ibv_context* context) { return &owner_of(context).channel; });
    replace(verbs::ibv_create_cq, [](ibv_context* context, int, void*, ibv_comp_channel*, int) {
      return &owner_of(context).queue;
    });
    replace(verbs::ibv_create_qp,
            [](ibv_pd* domain, ibv_qp_init_attr*) { return &owner_of(domain).queue_pair; });
    replace(verbs::ibv_create_ah,
            [](ibv_pd* domain, ibv_ah_attr*) { return &owner_of(domain).address; });
    replace(verbs::ibv_modify_qp, [](ibv_qp* queue_pair, ibv_qp_attr* values, int) {
      FakeDevice& device = owner_of(queue_pair);
      switch (values->qp_state) {
        case IBV_QPS_INIT: device.init = *values, device.steps.emplace_back("INIT"); break;
        case IBV_QPS_RTR: device.rtr = *values, device.steps.emplace_back("RTR"); break;
        case IBV_QPS_RTS: device.steps.emplace_back("RTS"); break;
        default: break;  // it is closed
      }
      return 0;
    });
    replace(verbs::ibv_query_ece, [](ibv_qp* queue_pair, ibv_ece* ece) {
      const Ece& offered = owner_of(queue_pair).ece;
      if (offered.vendor_id == 0) return EOPNOTSUPP;
      *ece = {.vendor_id = offered.vendor_id, .options = offered.options, .comp_mask = 0};
      return 0;
    });
    replace(verbs::ibv_set_ece, [](ibv_qp* queue_pair, ibv_ece* ece) {
      FakeDevice& device = owner_of(queue_pair);
      if (device.set_ece_error != 0) return device.set_ece_error;
      if (ece->vendor_id != device.ece.vendor_id || ece->comp_mask != 0) return EINVAL;
      ece->options &= device.ece.options;
      device.accepted = {ece->vendor_id, ece->options};
      device.steps.emplace_back("set_ece");
      return 0;
    });
  }

  std::vector<std::function<void()>> undo_;
};

TEST_F(FakeDevices, over_roce_v2_send_in_the_traffic_class_106_at_both_ends_by_default) {
  ASSERT_TRUE(is_open_);
  connect();
  for (const FakeDevice* const device : {&first(), &second()}) {
    EXPECT_EQ(device->rtr.ah_attr.grh.traffic_class, 106);
    EXPECT_EQ(device->rtr.ah_attr.grh.traffic_class >> 2, 26) << "DSCP";
    EXPECT_EQ(device->rtr.ah_attr.sl, 0);
    EXPECT_EQ(device->rtr.ah_attr.grh.flow_label, 0U);
    EXPECT_EQ(device->init.pkey_index, 0);
  }
}

TEST_F(FakeDevices, are_told_the_class_level_and_label_of_the_options_at_both_ends) {
  Options options;
  options.traffic_class = 96;
  options.service_level = 3;
  options.flow_label = 0xfffff;
  connect(options);
  for (const FakeDevice* const device : {&first(), &second()}) {
    EXPECT_EQ(device->rtr.ah_attr.grh.traffic_class, 96);
    EXPECT_EQ(device->rtr.ah_attr.sl, 3);
    EXPECT_EQ(device->rtr.ah_attr.grh.flow_label, 0xfffffU);
  }
}

TEST_F(FakeDevices, have_their_partition_keys_read_with_the_entries_that_hold_none) {
  first().pkeys = {0x7fff, 0, 0x8012, 0x8013};
  const auto found = discover(system_);
  EXPECT_THAT(found.at(0).ports.at(0).pkeys, ElementsAre(0x7fff, 0, 0x8012, 0x8013));
  EXPECT_THAT(found.at(1).ports.at(0).pkeys, ElementsAre(0xffff));
}

TEST_F(FakeDevices, take_the_first_partition_with_full_membership_or_the_one_that_is_asked_for) {
  for (FakeDevice* const device : {&first(), &second()}) {
    device->link_layer = LinkLayer::infiniband;
    device->gid = device == &first() ? "fe80::1" : "fe80::2";
    device->pkeys = {0x7fff, 0x8012, 0xffff};
  }
  connect();
  EXPECT_EQ(first().init.pkey_index, 1);
  EXPECT_EQ(second().init.pkey_index, 1);
  Options options;
  options.pkey_index = 2;
  connect(options);
  EXPECT_EQ(first().init.pkey_index, 2);
  EXPECT_EQ(second().init.pkey_index, 2);
}

TEST_F(FakeDevices, without_the_partition_that_is_asked_for_are_a_bad_configuration) {
  first().pkeys = {0xffff, 0, 0x8012};
  for (const auto& [index, text] : {std::pair{1, "1"}, {3, "3"}, {65'535, "65535"}}) {
    Options options;
    options.pkey_index = index;
    try {
      endpoints(options);
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_config);
      EXPECT_EQ(error.cause(), "QPMESH_PKEY_INDEX='" + std::string{text} +
                                   "', allowed: 0 (0xffff), 2 (0x8012) on fake0 port 1");
      EXPECT_THAT(error.hint(), HasSubstr("qpmesh-info"));
    }
  }
}

TEST_F(FakeDevices, of_one_vendor_are_each_asked_for_what_the_other_offers_and_agree) {
  first().ece = {0x15b3, 0b0110};
  second().ece = {0x15b3, 0b0011};
  connect();
  EXPECT_EQ(first().accepted, (Ece{0x15b3, 0b0010}));
  EXPECT_EQ(second().accepted, first().accepted);
  EXPECT_THAT(first().steps, ElementsAre("INIT", "set_ece", "RTR", "RTS"));
  EXPECT_THAT(second().steps, ElementsAre("INIT", "set_ece", "RTR", "RTS"));
}

TEST_F(FakeDevices, do_without_ece_where_either_lacks_it_or_they_are_of_two_vendors) {
  const std::pair<Ece, Ece> cases[]{{{0x15b3, 6}, {}},
                                    {{}, {0x15b3, 6}},
                                    {{}, {}},
                                    {{0x15b3, 6}, {0x15b3, 0}},
                                    {{0x15b3, 6}, {0x14e4, 6}}};
  for (const auto& [one, other] : cases) {
    first().ece = one;
    second().ece = other;
    first().steps.clear();
    second().steps.clear();
    connect();
    EXPECT_THAT(first().steps, ElementsAre("INIT", "RTR", "RTS"));
    EXPECT_THAT(second().steps, ElementsAre("INIT", "RTR", "RTS"));
  }
}

TEST_F(FakeDevices, do_without_ece_where_libibverbs_does_not_have_it) {
  first().ece = second().ece = {0x15b3, 6};
  replace(verbs::ibv_query_ece, nullptr);
  replace(verbs::ibv_set_ece, nullptr);
  connect();
  EXPECT_THAT(first().steps, ElementsAre("INIT", "RTR", "RTS"));
  EXPECT_EQ(offered_ece(system_, "fake0"), Ece{});
}

TEST_F(FakeDevices, that_refuse_what_both_offer_fail_the_link_and_say_the_step) {
  first().ece = second().ece = {0x15b3, 6};
  second().set_ece_error = EINVAL;
  try {
    connect();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::link_failed);
    EXPECT_EQ(error.peer(), 0);
    EXPECT_THAT(error.cause(), HasSubstr("ibv_set_ece failed"));
  }
}

TEST_F(FakeDevices, show_the_ece_that_they_offer) {
  first().ece = {0x15b3, 0x30000002};
  EXPECT_EQ(offered_ece(system_, "fake0"), (Ece{0x15b3, 0x30000002}));
  EXPECT_EQ(offered_ece(system_, "fake1"), Ece{});
  EXPECT_EQ(offered_ece(system_, "none"), Ece{});
}

TEST(a_traffic_class_file, is_read_where_it_says_one_for_all_packets) {
  const auto read = [](const std::string& text) {
    std::istringstream file{text};
    return read_traffic_class(file);
  };
  EXPECT_EQ(read("Global tclass=96\n"), 96);
  EXPECT_EQ(read("src_ip=10.0.0.1,tclass=32\nGlobal tclass=255\n"), 255);
  EXPECT_EQ(read("Global tclass=0"), 0);
  for (const char* const none :
       {"", "\n", "tclass=96\n", "Global tclass=\n", "Global tclass=256\n", "Global tclass=-1\n",
        "Global tclass=96 and more\n", "Global tclass=99999999999999999999\n"})
    EXPECT_EQ(read(none), -1) << none;
}

}  // namespace
}  // namespace qpmesh::transport::verbs
