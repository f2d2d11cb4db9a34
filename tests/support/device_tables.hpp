// SPDX-License-Identifier: MIT
// Tables of RDMA devices as text, so that a test shows a machine the way show_gids and ip do:
//
//   device mlx5_0 driver=mlx5_core vendor=0x2c9 part=4121 numa=0 ece=0x15b3:0x30000002
//   port 1 active ethernet mtu=4096 rate=100000 tclass=96 pkeys=0xffff,0,0x8012
//   gid 0 fe80::1 v1 eth2
//   gid 3 10.0.0.1 v2 eth2
//   netdev eth2 up 10.0.0.1/24 fe80::1/64
//
// A device's ports, a port's GIDs follow it. Words after the fixed ones may be left out.
#pragma once

#include <string_view>
#include <vector>

#include "transport/verbs/selection/facts.hpp"

namespace qpmesh::test {

// "10.0.0.1" or "fe80::1". Throws std::invalid_argument, as devices() does.
transport::verbs::selection::Gid gid(std::string_view address);
std::vector<transport::verbs::selection::DeviceFacts> devices(std::string_view table);

}  // namespace qpmesh::test
